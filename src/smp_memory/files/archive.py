"""Pack a session's folder into a tar.gz archive with a manifest, read one and verify all of it, and unpack it safely.

    manifest.json    {"smp_archive": 1, "files": [{"path", "bytes", "sha256"}, …], "summary": {"bytes", "sha256"}}
    summary.json     what the session was about
    session/…        its files, sorted, as they were

Any tar reads it. SMP itself trusts nothing in it: names, types, sizes, counts and ratio are checked (`archive_format`), and every byte
against the manifest, which lists every file in order. `read_archive` also reads a tar.gz by another program with exactly one folder that
holds a session's metadata file and every other file; the layout follows from the name of that file.

Guarantees
- `pack` is deterministic: the same files and summary give the same bytes, with the same zlib. It packs all plain files but
  locks and unfinished ones, and refuses to start if there is anything that it could not restore. The archive gets its name only
  after it was read back and every checksum was correct.
- `check` writes nothing and returns only if every byte of the archive was read. A defect is a `StorageCorrupt` whose `reason` is one
  word; a newer format is `FormatTooNew`. Archives of other programs have the same limits and rules for names.
- `unpack` reads the archive twice: it writes nothing before all of it was verified, then into a new folder that is synced and moved
  into place as a whole. A crash leaves the old state, and a folder ending in `.smp-new`.
- No link is followed and none is made; nothing outside the target is ever written.
Non-guarantees: empty folders, times and permissions are not kept. Whoever can write the archive can forge a session. An archive by
another program has no checksum but that of gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat as modes
import tarfile
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import FormatTooNew, InvalidFormat, SessionExists
from smp_memory.files.archive_format import (
    DEFAULT_LIMITS,
    EXCLUDED,
    JOURNAL,
    ArchiveLimits,
    TarReader,
    find_collision,
    is_private,
    unsafe_reason,
)
from smp_memory.files.disk import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import NoReturn, Protocol

    from smp_memory.files.archive_format import Member
    from smp_memory.files.disk import Disk, OpenFile

    class ArchiveWriter(Protocol):
        """The target of verified files."""

        def write(self, path: str, chunks: Iterator[bytes]) -> None:
            """Write a file; its checksum is compared when the last chunk is read."""

        def sync(self) -> None: ...

    Read = Callable[[Disk, str, ArchiveLimits, ArchiveWriter | None], "ArchiveContents"]

_FORMAT = 1
_MANIFEST, _SUMMARY, _CONTENT = "manifest.json", "summary.json", "session/"
_MANIFEST_BYTES, _SUMMARY_BYTES = 32 << 20, 8 << 20
_CHUNK = 1 << 20
_LEVEL = 6
_METADATA_FILES = {"manifest.json": "jsonl", "metadata.yaml": "markdown", "metadata.json": "log", "memory.jsonl": "log"}
_OWN_KEY = b'"smp_archive"'


class ArchivedFile(NamedTuple):
    path: str
    size_bytes: int
    sha256: str


class ArchiveContents(NamedTuple):
    files: list[ArchivedFile]
    summary: dict[str, Any]


def check(disk: Disk, archive_path: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> ArchiveContents:
    """Verify a whole archive without writing anything. `StorageCorrupt` with `reason` if it has a defect."""
    return read_own_archive(disk, archive_path, limits, None)


# -- archives of SMP


def read_own_archive(disk: Disk, path: str, limits: ArchiveLimits, writer: ArchiveWriter | None) -> ArchiveContents:
    """Verify an archive of SMP from beginning to end, and pass each file to the writer."""
    with TarReader(disk, path, limits) as reader:
        members = reader.members()
        files, summary = _read_manifest(reader, next(members, None), limits)
        text = b"".join(_verified_chunks(reader, next(members, None), summary))
        for file in files:
            chunks = _verified_chunks(reader, next(members, None), file, _CONTENT)
            if writer is not None:
                writer.write(file.path, chunks)
            for _ in chunks:
                pass
        if next(members, None) is not None:
            reader.reject("not_listed", "it holds a file that its manifest does not list")
        fields = _parse_json(reader, text)
    if writer is not None:
        writer.sync()
    return ArchiveContents(files, fields)


def _read_manifest(
    reader: TarReader, member: Member | None, limits: ArchiveLimits
) -> tuple[list[ArchivedFile], ArchivedFile]:
    """The listed files, and the summary."""
    if member is None or member[0] != _MANIFEST:
        reader.reject("no_manifest", "it does not begin with a manifest")
    if member[1] > min(_MANIFEST_BYTES, 1000 * (limits.files + 1)):
        reader.reject("too_large", "its manifest is too large")
    fields = _parse_json(reader, b"".join(member[2]))
    version, listed = fields.get("smp_archive"), fields.get("files")
    if isinstance(version, int) and version > _FORMAT:
        raise FormatTooNew(f"{reader.path} was packed by a newer version of SMP (format {version}).", path=reader.path)
    if version != _FORMAT or not isinstance(listed, list):
        reader.reject("bad_manifest", "its manifest was not written by SMP")
    if len(listed) > limits.files:
        reader.reject("too_many", f"it holds more than {limits.files:,} files")
    files = [_listed_file(reader, each, None) for each in listed]
    _check_files(reader, [(file.path, file.size_bytes) for file in files], limits)
    summary = _listed_file(reader, fields.get("summary"), _SUMMARY)
    if summary.size_bytes > _SUMMARY_BYTES:
        reader.reject("too_large", "its summary is too large")
    return files, summary


def _listed_file(reader: TarReader, fields: Any, path: str | None) -> ArchivedFile:
    mapping: dict[str, Any] = fields if isinstance(fields, dict) else {}
    name, size, digest = path or mapping.get("path"), mapping.get("bytes"), mapping.get("sha256")
    if not isinstance(name, str) or type(size) is not int or size < 0 or not isinstance(digest, str):
        reader.reject("bad_manifest", "its manifest was not written by SMP")
    reader.check_name(name)
    return ArchivedFile(name, size, digest)


def _check_files(reader: TarReader, files: list[tuple[str, int]], limits: ArchiveLimits) -> None:
    """Reject names that a disk might take for one another, and sizes above the limits."""
    if large := next((name for name, size in files if size > limits.file_bytes), ""):
        reader.reject("too_large", f"{large} is larger than {limits.file_bytes:,} bytes")
    if sum(size for _, size in files) > limits.total_bytes:
        reader.reject("too_large", f"it holds more than {limits.total_bytes:,} bytes")
    if same := find_collision([name for name, _ in files]):
        reader.reject("collision", f"{same} is contained twice, or differs from another name only in case")


def _parse_json(reader: TarReader, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        reader.reject("bad_manifest", "its manifest or summary was not written by SMP")
    return fields


def _verified_chunks(reader: TarReader, member: Member | None, file: ArchivedFile, folder: str = "") -> Iterator[bytes]:
    """The content of a member, which must be `file`; its checksum is compared after the last chunk."""
    if member is None:
        reader.reject("missing", f"{file.path} is missing")
    name, size, chunks = member
    if (name, size) != (folder + file.path, file.size_bytes):
        reader.reject("not_listed", f"it holds {name!r} of {size:,} bytes where its manifest lists {file.path!r}")
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != file.sha256:
        reader.reject("checksum", f"the content of {name} is not what was packed")


# -- archives of other programs


def read_archive(
    disk: Disk, path: str, limits: ArchiveLimits = DEFAULT_LIMITS, writer: ArchiveWriter | None = None
) -> ArchiveContents:
    """Verify an archive from beginning to end, and pass each file to the writer. The `summary` of a foreign one has only its layout."""
    if _is_own(disk, path, limits):
        return read_own_archive(disk, path, limits, writer)
    with TarReader(disk, path, limits) as reader:
        files = list(_foreign_files(reader, limits))
        _check_files(reader, files, limits)
        base, layout = _find_session(reader, [name for name, _ in files])
    if writer is not None:
        _write_files(disk, path, limits, writer, files, base)
    return ArchiveContents([ArchivedFile(name[len(base) :], size, "") for name, size in files], {"layout": layout})


def _is_own(disk: Disk, path: str, limits: ArchiveLimits) -> bool:
    """Whether it begins with SMP's manifest."""
    with TarReader(disk, path, limits) as reader:
        for name, _, chunks in reader.members():
            return name == _MANIFEST and _OWN_KEY in next(chunks, b"")[: tarfile.BLOCKSIZE]
    return True  # an empty archive; `read_own_archive` says so


def _foreign_files(reader: TarReader, limits: ArchiveLimits) -> Iterator[tuple[str, int]]:
    """Names and sizes."""
    total_bytes = 0
    for number, (name, size, _) in enumerate(reader.members(), 1):
        total_bytes += size
        if number > limits.files:
            reader.reject("too_many", f"it holds more than {limits.files:,} files")
        if total_bytes > limits.total_bytes:
            reader.reject("too_large", f"it holds more than {limits.total_bytes:,} bytes")
        yield name, size


def _find_session(reader: TarReader, names: list[str]) -> tuple[str, str]:
    """The folder of the session in a foreign archive, and its layout."""
    candidates = set()
    for name in names:
        folder, slash, last = name.rpartition("/")
        if last in _METADATA_FILES and all(other.startswith(folder + slash) for other in names):
            candidates.add((folder + slash, _METADATA_FILES[last]))
    if len(candidates) != 1:
        reader.reject(
            "no_manifest", "it was not written by SMP, and it is not the folder of one session in a layout of SMP"
        )
    return candidates.pop()


def _write_files(
    disk: Disk, path: str, limits: ArchiveLimits, writer: ArchiveWriter, files: list[tuple[str, int]], base: str
) -> None:
    expected = iter(files)
    with TarReader(disk, path, limits) as reader:
        for name, size, chunks in reader.members():
            if (name, size) != next(expected, None):
                reader.reject("damaged", "it changed while it was read")
            inside = name[len(base) :]
            if not is_private(inside, EXCLUDED):
                writer.write(inside, chunks)
        if next(expected, None) is not None:
            reader.reject("damaged", "it changed while it was read")
    writer.sync()


# -- packing


def pack(
    disk: Disk,
    folder: str,
    target: str,
    summary: Mapping[str, Any],
    limits: ArchiveLimits = DEFAULT_LIMITS,
    *,
    replace: bool = False,
) -> ArchiveContents:
    """Pack a session's folder into the archive `target`. Nothing is removed; the caller holds the session's lock."""
    if not disk.is_folder(folder):
        _reject(folder, "it is not a folder")
    return pack_files(disk, dict(files_below(disk, folder)), target, summary, limits, replace=replace)


def files_below(disk: Disk, folder: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names inside the archive and paths of all files to pack. Raises `InvalidFormat` if something cannot be packed."""
    for name in disk.names(folder):
        path, inside = os.path.join(folder, name), prefix + name
        status = disk.stat(path)
        if status is None or name.endswith(TEMPORARY) or is_private(inside, EXCLUDED):
            continue
        if is_private(inside, (JOURNAL,)):
            _reject(path, "a change of it is unfinished; open the session once, then repeat")
        if modes.S_ISDIR(status.st_mode):
            yield from files_below(disk, path, f"{inside}/")
        elif modes.S_ISREG(status.st_mode):
            yield inside, path
        else:
            _reject(path, "it is neither a file nor a folder")


def pack_files(
    disk: Disk,
    paths: Mapping[str, str],
    target: str,
    summary: Mapping[str, Any],
    limits: ArchiveLimits = DEFAULT_LIMITS,
    *,
    replace: bool = False,
    source: Disk | None = None,
) -> ArchiveContents:
    """Pack files by their names inside the archive and their paths; `source`: the disk that holds them, if it is another one."""
    if disk.exists(target) and not replace:
        raise SessionExists(f"{target} exists already; nothing was packed.", path=target)
    for name in paths:
        if reason := _packing_problem(name):
            _reject(
                paths[name],
                f"its name cannot be kept in an archive ({reason.replace('_', ' ')}); rename it or move it away",
            )
    if collision := find_collision(sorted(paths)):
        _reject(paths[collision], "its name differs from another one only in case; rename one of them")
    temporary = target + TEMPORARY
    disk.remove(temporary)
    disk.write_new(temporary, b"", sync=False)
    try:
        text = json.dumps(summary, ensure_ascii=False, sort_keys=True, indent=1).encode()
        _write(disk, temporary, paths, text, source or disk)
        contents = check(disk, temporary, limits)
    except BaseException:
        disk.remove(temporary)
        raise
    disk.move(temporary, target)
    disk.sync_folder(os.path.dirname(target))
    return contents


def _write(disk: Disk, temporary: str, paths: Mapping[str, str], summary: bytes, source: Disk) -> None:
    """Write the archive and sync it. A file that changes between listing and packing is detected by `check`."""
    files = [_hash_file(source, name, paths[name]) for name in sorted(paths)]
    manifest = {
        "smp_archive": _FORMAT,
        "files": [{"path": file.path, "bytes": file.size_bytes, "sha256": file.sha256} for file in files],
        "summary": {"bytes": len(summary), "sha256": hashlib.sha256(summary).hexdigest()},
    }
    output = disk.open_append(temporary)
    try:
        with (
            io.BufferedWriter(_Output(output), _CHUNK) as buffered,
            gzip.GzipFile("", "wb", _LEVEL, buffered, mtime=0) as compressed,  # no name and no time
            tarfile.open(fileobj=compressed, mode="w|", format=tarfile.USTAR_FORMAT, encoding="utf-8") as tar,
        ):
            for name, data in ((_MANIFEST, json.dumps(manifest, ensure_ascii=False).encode()), (_SUMMARY, summary)):
                tar.addfile(_header(name, len(data)), io.BytesIO(data))
            for file in files:
                tar.addfile(_header(_CONTENT + file.path, file.size_bytes), _Source(source, paths[file.path]))
        output.sync()
    finally:
        output.close()


def _header(name: str, size: int) -> tarfile.TarInfo:
    """The header of a plain file; deterministic: no owner, no time, mode 0600."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info


def _packing_problem(path: str) -> str:
    """Why a file of this name cannot be in an archive; empty if it can."""
    if reason := unsafe_reason(path) or unsafe_reason(_CONTENT + path):
        return reason
    try:
        _header(_CONTENT + path, 0).tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except ValueError:
        return "too_long"
    return ""


class _Output(io.RawIOBase):
    def __init__(self, output: OpenFile) -> None:
        self._append = output.append

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._append(bytes(data))
        return len(data)


class _Source:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk, self._path, self._offset = disk, path, 0

    def read(self, size: int = _CHUNK) -> bytes:
        part = self._disk.read(self._path, self._offset, size)
        if not part and size:
            _reject(self._path, "it became shorter while it was packed")
        self._offset += len(part)
        return part


def _hash_file(disk: Disk, name: str, path: str) -> ArchivedFile:
    digest, size = hashlib.sha256(), 0
    while part := disk.read(path, size, _CHUNK):
        digest.update(part)
        size += len(part)
    return ArchivedFile(name, size, digest.hexdigest())


def _reject(path: str, reason: str) -> NoReturn:
    raise InvalidFormat(f"{path} cannot be archived: {reason}. Nothing was changed.", path=path)


# -- unpacking


def unpack(
    disk: Disk,
    archive_path: str,
    target_folder: str,
    limits: ArchiveLimits = DEFAULT_LIMITS,
    read: Read = read_own_archive,
) -> ArchiveContents:
    """Restore a session's folder. The target must not exist. `read` reads the archive; it is called twice."""
    if disk.exists(target_folder):
        raise SessionExists(f"{target_folder} exists already; nothing was unpacked.", path=target_folder)
    read(disk, archive_path, limits, None)
    temporary = target_folder + TEMPORARY
    disk.remove_tree(temporary)
    disk.make_folder(temporary)
    try:
        contents = read(disk, archive_path, limits, _Writer(disk, temporary))
        disk.move(temporary, target_folder)
    except BaseException:
        disk.remove_tree(temporary)
        raise
    disk.sync_folder(os.path.dirname(target_folder))
    return contents


class _Writer:
    """Writes verified files into a new folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._folders = {folder}

    def write(self, path: str, chunks: Iterator[bytes]) -> None:
        target = os.path.join(self._folder, *path.split("/"))
        folder = os.path.dirname(target)
        if folder not in self._folders:
            self._disk.make_folder(folder)
            self._folders.add(folder)
        self._disk.write_new(target, b"", sync=False)  # fails if anything has that name
        output = self._disk.open_append(target)
        try:
            for chunk in chunks:
                output.append(chunk)
            output.sync()
        finally:
            output.close()

    def sync(self) -> None:
        for folder in sorted(self._folders, reverse=True):
            self._disk.sync_folder(folder)
