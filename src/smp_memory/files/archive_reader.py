"""Read an archive and verify all of it: SMP's own with its manifest, and a tar.gz of one session's folder by another program.

`read_archive` reads both. SMP's own archive begins with the manifest, which lists every file with its size and checksum; the files
follow in that order, no more and no fewer, and every byte is compared with it. In a foreign archive there must be exactly one folder
that holds a session's metadata (`manifest.json`, `metadata.yaml`, `metadata.json` or `memory.jsonl`) and every other file; its layout
is that of the metadata file. Anything else is rejected, because its meaning is unclear.

Guarantees: `check` writes nothing and returns only if every byte of the archive was read. A defect is a `StorageCorrupt` whose `reason`
is one word; a newer format is `FormatTooNew`. Foreign archives have the same limits and rules for names: only plain files are accepted,
folders and long names are understood (ustar, GNU, PAX), links, devices and everything else are rejected.
Non-guarantees: a foreign archive has no checksum but that of gzip.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import FormatTooNew, StorageCorrupt
from smp_memory.files.archive_format import (
    BLOCK,
    DEFAULT_LIMITS,
    END,
    EXCLUDED,
    ArchiveLimits,
    Gunzip,
    check_header_checksum,
    find_collision,
    header_name,
    header_size,
    is_private,
    next_header,
    reject_kind,
    unsafe_reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from smp_memory.files.disk import Disk

    class ArchiveWriter(Protocol):
        """The target of verified files."""

        def write(self, path: str, chunks: Iterator[bytes]) -> None:
            """Write a file; its checksum is compared when the last chunk is read."""

        def sync(self) -> None:
            """Called after the last file."""


FORMAT = 1
MANIFEST, SUMMARY, CONTENT = "manifest.json", "summary.json", "session/"
_MANIFEST_BYTES = 32 << 20
_SUMMARY_BYTES = 8 << 20
_METADATA_FILES = {"manifest.json": "jsonl", "metadata.yaml": "markdown", "metadata.json": "log", "memory.jsonl": "log"}
_HEADER_LIMIT_BYTES = 64 << 10
_OWN_KEY = b'"smp_archive"'


class ArchivedFile(NamedTuple):
    path: str
    size_bytes: int
    sha256: str


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


def name_problem(path: str) -> str:
    """Why a file of this name cannot be in an archive; empty if it can."""
    return unsafe_reason(path) or unsafe_reason(CONTENT + path)


def read_own_archive(disk: Disk, path: str, limits: ArchiveLimits, writer: ArchiveWriter | None) -> ArchiveContents:
    """Verify an archive of SMP from beginning to end, and pass each file to the writer."""
    with Gunzip(disk, path, limits) as stream:
        files, summary = _read_manifest(stream, limits)
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
    return ArchiveContents(files, _parse_json(stream, text), status.st_size if status else 0)


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


def _read_manifest(stream: Gunzip, limits: ArchiveLimits) -> tuple[list[ArchivedFile], ArchivedFile]:
    header = next_header(stream)
    if header is None or header[0] != MANIFEST:
        stream.reject("no_manifest", "it does not begin with a manifest")
    if header[1] > min(_MANIFEST_BYTES, 1000 * (limits.files + 1)):
        stream.reject("too_large", "its manifest is too large")
    data = stream.read(header[1])
    stream.read(-header[1] % BLOCK)
    fields = _parse_json(stream, data)
    version = fields.get("smp_archive")
    if isinstance(version, int) and version > FORMAT:
        raise FormatTooNew(f"{stream.path} was packed by a newer version of SMP (format {version}).", path=stream.path)
    listed, summary = fields.get("files"), fields.get("summary")
    if version != FORMAT or not isinstance(listed, list):
        stream.reject("bad_manifest", "its manifest was not written by SMP")
    if len(listed) > limits.files:
        stream.reject("too_many", f"it holds more than {limits.files:,} files")
    files = [_entry(stream, each, None) for each in listed]
    _check_list(stream, files, limits)
    summary_file = _entry(stream, summary, SUMMARY)
    if summary_file.size_bytes > _SUMMARY_BYTES:
        stream.reject("too_large", "its summary is too large")
    return files, summary_file


def _check_list(stream: Gunzip, files: list[ArchivedFile], limits: ArchiveLimits) -> None:
    for file in files:
        if reason := name_problem(file.path):
            stream.reject(reason, f"a file name in it is not allowed ({reason.replace('_', ' ')})")
        if file.size_bytes > limits.file_bytes:
            stream.reject("too_large", f"{file.path} is larger than {limits.file_bytes:,} bytes")
    if sum(file.size_bytes for file in files) > limits.total_bytes:
        stream.reject("too_large", f"it holds more than {limits.total_bytes:,} bytes")
    if same := find_collision([file.path for file in files]):
        stream.reject("collision", f"{same} is contained twice, or differs from another name only in case")


def _entry(stream: Gunzip, fields: Any, path: str | None) -> ArchivedFile:
    mapping: dict[str, Any] = fields if isinstance(fields, dict) else {}
    name, size, digest = path or mapping.get("path"), mapping.get("bytes"), mapping.get("sha256")
    if not isinstance(name, str) or type(size) is not int or size < 0 or not isinstance(digest, str):
        stream.reject("bad_manifest", "its manifest was not written by SMP")
    return ArchivedFile(name, size, digest)


def _parse_json(stream: Gunzip, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        stream.reject("bad_manifest", "its manifest or summary was not written by SMP")
    return fields


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
        for name, size in _plain_files(stream):
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
        for name, size in _plain_files(stream):
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


def _plain_files(stream: Gunzip) -> Iterator[tuple[str, int]]:
    """Names and sizes of the plain files; the caller reads the content and its padding before the next."""
    long_name = b""
    while (block := stream.read(BLOCK)) != END[:BLOCK]:
        check_header_checksum(stream, block)
        kind, size = block[156:157], header_size(stream, block[124:136])
        if kind in (b"x", b"g", b"L"):
            if size > _HEADER_LIMIT_BYTES:
                stream.reject("too_large", "a name in it is too long")
            data = stream.read(size)
            stream.read(-size % BLOCK)
            if kind != b"g":
                long_name = data.rstrip(b"\0") if kind == b"L" else _pax_path(stream, data) or long_name
            continue
        if kind not in (b"0", b"\0", b"5") or (kind == b"5" and size):
            reject_kind(stream, kind)
        name = _member_name(stream, long_name, block)
        long_name = b""
        if kind != b"5" and not name.endswith("/"):
            if (reason := unsafe_reason(name)) and not is_private(name, EXCLUDED):
                stream.reject(reason, f"a file name in it is not allowed ({reason.replace('_', ' ')})")
            yield name, size


def _member_name(stream: Gunzip, long_name: bytes, block: bytes) -> str:
    """The name without the `./` that tar puts before it."""
    if not long_name:
        is_gnu = block[257:265] == b"ustar  \0"
        name = header_name(stream, block[:345] + bytes(155) + block[500:] if is_gnu else block)
    else:
        try:
            name = long_name.decode()
        except UnicodeDecodeError:
            stream.reject("not_unicode", "a name in it is not UTF-8")
    while name.startswith("./"):
        name = name[2:]
    return name


def _pax_path(stream: Gunzip, data: bytes) -> bytes:
    """The path in an extended header, empty if it has none; a header with a size or a link is rejected."""
    path = b""
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or not len(length) < int(length) <= len(data) or len(length) > 6:
            stream.reject("extended_header", "an extended header in it cannot be read")
        key, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
        if key in (b"size", b"linkpath") or key.startswith(b"GNU.sparse"):
            stream.reject("extended_header", "it contains something other than plain files (extended header)")
        path = value if key == b"path" else path
        data = data[int(length) :]
    return path
