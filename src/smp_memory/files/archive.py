"""Pack a session's folder into a tar.gz archive with a manifest, read one and verify all of it, and unpack it safely.

    manifest.json    {"smp_archive": 1, "files": [{"path", "bytes", "sha256"}, …], "summary": {"bytes", "sha256"}}
    summary.json     what the session was about
    session/…        its files, sorted, as they were

Any tar reads it. SMP itself trusts nothing in it: names, types, sizes, counts and ratio are checked (`archive_format`), and every byte
against the manifest, which lists every file; the files follow in that order, no more and no fewer. `read_archive` also reads a tar.gz
by another program: there must be exactly one folder that holds a session's metadata (`manifest.json`, `metadata.yaml`, `metadata.json`
or `memory.jsonl`) and every other file; its layout is that of the metadata file. Anything else is rejected, because its meaning is
unclear.

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

import hashlib
import json
import os
import stat as modes
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidFormat, SessionExists, StorageCorrupt
from smp_memory.files.archive_format import (
    BLOCK,
    CONTENT,
    DEFAULT_LIMITS,
    END,
    EXCLUDED,
    FORMAT,
    JOURNAL,
    MANIFEST,
    SUMMARY,
    ArchivedFile,
    ArchiveLimits,
    Gunzip,
    encode_header,
    find_collision,
    header_size,
    is_private,
    name_problem,
    next_header,
    padding,
    parse_json,
    plain_files,
    read_manifest,
    unsafe_reason,
)
from smp_memory.files.disk import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import NoReturn, Protocol

    from smp_memory.files.disk import Disk

    class ArchiveWriter(Protocol):
        """The target of verified files."""

        def write(self, path: str, chunks: Iterator[bytes]) -> None:
            """Write a file; its checksum is compared when the last chunk is read."""

        def sync(self) -> None:
            """Called after the last file."""

    Read = Callable[[Disk, str, ArchiveLimits, ArchiveWriter | None], "ArchiveContents"]

_METADATA_FILES = {"manifest.json": "jsonl", "metadata.yaml": "markdown", "metadata.json": "log", "memory.jsonl": "log"}
_OWN_KEY = b'"smp_archive"'


class ArchiveContents(NamedTuple):
    files: list[ArchivedFile]
    summary: dict[str, Any]
    archive_bytes: int

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        return {
            "files": [file._asdict() for file in self.files],
            "original_size_bytes": self.total_bytes,
            "compressed_size_bytes": self.archive_bytes,
        }


def check(disk: Disk, archive_path: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> ArchiveContents:
    """Verify a whole archive without writing anything. `StorageCorrupt` with `reason` if it has a defect."""
    return read_own_archive(disk, archive_path, limits, None)


def read_own_archive(disk: Disk, path: str, limits: ArchiveLimits, writer: ArchiveWriter | None) -> ArchiveContents:
    """Verify an archive of SMP from beginning to end, and pass each file to the writer."""
    with Gunzip(disk, path, limits) as stream:
        files, summary = read_manifest(stream, limits)
        text = b"".join(_verified_chunks(stream, SUMMARY, summary))
        for file in files:
            chunks = _verified_chunks(stream, CONTENT + file.path, file)
            if writer is not None:
                writer.write(file.path, chunks)
            for _ in chunks:
                pass
        if next_header(stream) is not None:
            stream.reject("not_listed", "it holds a file that its manifest does not list")
        stream.finish()
    if writer is not None:
        writer.sync()
    status = disk.stat(path)
    return ArchiveContents(files, parse_json(stream, text), status.st_size if status else 0)


def _verified_chunks(stream: Gunzip, name: str, file: ArchivedFile) -> Iterator[bytes]:
    """The content of the next file, which must be `file`; its checksum is compared after the last chunk."""
    header = next_header(stream)
    if header is None:
        stream.reject("missing", f"{name} is missing")
    if reason := unsafe_reason(header[0]):
        stream.reject(reason, f"a file name in it is not allowed ({reason.replace('_', ' ')})")
    if header != (name, file.size_bytes):
        stream.reject("not_listed", f"it holds {header[0]!r} of {header[1]:,} bytes where its manifest lists {name!r}")
    digest = hashlib.sha256()
    for chunk in stream.chunks(file.size_bytes):
        digest.update(chunk)
        yield chunk
    if stream.read(-file.size_bytes % BLOCK).strip(b"\0"):
        stream.reject("damaged", f"there is data after {name}")
    if digest.hexdigest() != file.sha256:
        stream.reject("checksum", f"the content of {name} is not what was packed")


# -- archives of other programs


def read_archive(
    disk: Disk, path: str, limits: ArchiveLimits = DEFAULT_LIMITS, writer: ArchiveWriter | None = None
) -> ArchiveContents:
    """Verify an archive from beginning to end, and pass each file to the writer. The `summary` of a foreign one has only its layout."""
    if _is_own(disk, path, limits):
        return read_own_archive(disk, path, limits, writer)
    files, base, layout = _list_files(disk, path, limits)
    if writer is not None:
        _write_files(disk, path, limits, writer, files, base)
    status = disk.stat(path)
    inside = [ArchivedFile(name[len(base) :], size, "") for name, size in files]
    return ArchiveContents(inside, {"layout": layout}, status.st_size if status else 0)


def _is_own(disk: Disk, path: str, limits: ArchiveLimits) -> bool:
    """Whether it begins with SMP's manifest; also True if its beginning cannot be read, which `read_own_archive` reports."""
    with Gunzip(disk, path, limits) as stream:
        try:
            block = stream.read(BLOCK)
            if block[:100].rstrip(b"\0") != MANIFEST.encode():
                return False
            return _OWN_KEY in stream.read(min(header_size(stream, block[124:136]), BLOCK))
        except StorageCorrupt:
            return True


def _list_files(disk: Disk, path: str, limits: ArchiveLimits) -> tuple[list[tuple[str, int]], str, str]:
    """The files of a foreign archive with their sizes, the folder of the session in it, and the layout."""
    files = []
    total = 0
    with Gunzip(disk, path, limits) as stream:
        for name, size in plain_files(stream):
            files.append((name, size))
            total += size
            if len(files) > limits.files:
                stream.reject("too_many", f"it holds more than {limits.files:,} files")
            if size > limits.file_bytes or total > limits.total_bytes:
                stream.reject("too_large", f"it holds more than {limits.total_bytes:,} bytes")
            for _ in stream.chunks(size):
                pass
            stream.read(-size % BLOCK)
        stream.finish()
        names = [name for name, _ in files]
        if same := find_collision(names):
            stream.reject("collision", f"{same} is contained twice, or differs from another name only in case")
        base, layout = _find_session(stream, names)
    return files, base, layout


def _find_session(stream: Gunzip, names: list[str]) -> tuple[str, str]:
    candidates = set()
    for name in names:
        folder, slash, last = name.rpartition("/")
        if last in _METADATA_FILES and all(other.startswith(folder + slash) for other in names):
            candidates.add((folder + slash, _METADATA_FILES[last]))
    if len(candidates) != 1:
        stream.reject(
            "no_manifest", "it was not written by SMP, and it is not the folder of one session in a layout of SMP"
        )
    return candidates.pop()


def _write_files(
    disk: Disk, path: str, limits: ArchiveLimits, writer: ArchiveWriter, files: list[tuple[str, int]], base: str
) -> None:
    expected = iter(files)
    with Gunzip(disk, path, limits) as stream:
        for name, size in plain_files(stream):
            if (name, size) != next(expected, None):
                stream.reject("damaged", "it changed while it was read")
            inside = name[len(base) :]
            chunks = stream.chunks(size)
            if not is_private(inside, EXCLUDED):
                writer.write(inside, chunks)
            for _ in chunks:
                pass
            stream.read(-size % BLOCK)
        if next(expected, None) is not None:
            stream.reject("damaged", "it changed while it was read")
    writer.sync()


_CHUNK = 1 << 20
_LEVEL = 6
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # no name, no time, no system


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
        if reason := name_problem(name):
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
        "smp_archive": FORMAT,
        "files": [{"path": file.path, "bytes": file.size_bytes, "sha256": file.sha256} for file in files],
        "summary": {"bytes": len(summary), "sha256": hashlib.sha256(summary).hexdigest()},
    }
    output = disk.open_append(temporary)
    try:
        for part in _gzip(
            _tar_blocks(source, files, paths, json.dumps(manifest, ensure_ascii=False).encode(), summary)
        ):
            output.append(part)
        output.sync()
    finally:
        output.close()


def _tar_blocks(
    disk: Disk, files: list[ArchivedFile], paths: Mapping[str, str], manifest: bytes, summary: bytes
) -> Iterator[bytes]:
    for name, data in ((MANIFEST, manifest), (SUMMARY, summary)):
        yield encode_header(name, len(data)) + data + padding(len(data))
    for file in files:
        yield encode_header(CONTENT + file.path, file.size_bytes)
        yield from _read_chunks(disk, paths[file.path], file.size_bytes)
        yield padding(file.size_bytes)
    yield END


def _gzip(parts: Iterator[bytes]) -> Iterator[bytes]:
    """One gzip stream without a time, so that equal files give equal archives."""
    engine = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    crc = size = 0
    ready = [_GZIP_HEADER]
    for part in parts:
        crc, size = zlib.crc32(part, crc), size + len(part)
        ready.append(engine.compress(part))
        if sum(map(len, ready)) > _CHUNK:
            yield b"".join(ready)
            ready = []
    trailer = crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
    yield b"".join([*ready, engine.flush(), trailer])


def _hash_file(disk: Disk, name: str, path: str) -> ArchivedFile:
    digest, size = hashlib.sha256(), 0
    for part in _read_chunks(disk, path, None):
        digest.update(part)
        size += len(part)
    return ArchivedFile(name, size, digest.hexdigest())


def _read_chunks(disk: Disk, path: str, size: int | None) -> Iterator[bytes]:
    """The bytes of a file; exactly `size` of them if it is given."""
    offset = 0
    while size is None or offset < size:
        part = disk.read(path, offset, _CHUNK if size is None else min(_CHUNK, size - offset))
        if not part:
            if size is not None:
                _reject(path, "it became shorter while it was packed")
            return
        yield part
        offset += len(part)


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
