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
    LEFT_OUT,
    ArchiveLimits,
    Gunzip,
    check_sum,
    colliding,
    header_name,
    header_size,
    is_private,
    next_header,
    refuse_kind,
    unsafe_because,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from smp_memory.files.disk import Disk

    class Writer(Protocol):
        """Where checked files go."""

        def write(self, path: str, chunks: Iterator[bytes]) -> None:
            """Take a file; its checksum is compared when the last chunk is asked for."""

        def sync(self) -> None:
            """All files have come."""


FORMAT = 1
MANIFEST, SUMMARY, CONTENT = "manifest.json", "summary.json", "session/"
_MANIFEST_BYTES = 32 << 20
_SUMMARY_BYTES = 8 << 20
_HEADS = {"manifest.json": "jsonl", "metadata.yaml": "markdown", "metadata.json": "log", "memory.jsonl": "log"}
_MOST_OF_HEADER = 64 << 10
_OWN = b'"smp_archive"'


class ArchivedFile(NamedTuple):
    path: str
    size_bytes: int
    sha256: str


class ArchiveContents(NamedTuple):
    """What an archive holds."""

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
    """Go through the whole archive without writing anything. `StorageCorrupt` with `reason` if it is not good."""
    return go_through(disk, archive_path, limits, None)


def refused_name(path: str) -> str:
    """Why a file of this name cannot be in an archive; empty if it can."""
    return unsafe_because(path) or unsafe_because(CONTENT + path)


def go_through(disk: Disk, path: str, limits: ArchiveLimits, writer: Writer | None) -> ArchiveContents:
    """Check an archive from beginning to end, and hand each file to the writer on the way."""
    with Gunzip(disk, path, limits) as stream:
        files, summary = _manifest(stream, limits)
        text = b"".join(_verified(stream, SUMMARY, summary))
        for file in files:
            chunks = _verified(stream, CONTENT + file.path, file)
            if writer is not None:
                writer.write(file.path, chunks)
            for _ in chunks:
                pass
        if next_header(stream) is not None:
            stream.refuse("not_listed", "it holds a file that its manifest does not list")
        stream.finish()
    if writer is not None:
        writer.sync()
    found = disk.stat(path)
    return ArchiveContents(files, _parsed(stream, text), found.st_size if found else 0)


def _verified(stream: Gunzip, name: str, file: ArchivedFile) -> Iterator[bytes]:
    """The content of the next file, which must be this one; its checksum is compared at its end."""
    header = next_header(stream)
    if header is None:
        stream.refuse("missing", f"{name} is missing")
    if why := unsafe_because(header[0]):
        stream.refuse(why, f"a name in it is not allowed ({why.replace('_', ' ')})")
    if header != (name, file.size_bytes):
        stream.refuse("not_listed", f"it holds {header[0]!r} of {header[1]:,} bytes where its manifest lists {name!r}")
    digest = hashlib.sha256()
    for chunk in stream.chunks(file.size_bytes):
        digest.update(chunk)
        yield chunk
    if stream.take(-file.size_bytes % BLOCK).strip(b"\0"):
        stream.refuse("damaged", f"something stands behind {name}")
    if digest.hexdigest() != file.sha256:
        stream.refuse("checksum", f"the content of {name} is not what was packed")


def _manifest(stream: Gunzip, limits: ArchiveLimits) -> tuple[list[ArchivedFile], ArchivedFile]:
    header = next_header(stream)
    if header is None or header[0] != MANIFEST:
        stream.refuse("no_manifest", "it does not begin with a manifest")
    if header[1] > min(_MANIFEST_BYTES, 1000 * (limits.files + 1)):
        stream.refuse("too_large", "its manifest is too large")
    data = stream.take(header[1])
    stream.take(-header[1] % BLOCK)
    fields = _parsed(stream, data)
    version = fields.get("smp_archive")
    if isinstance(version, int) and version > FORMAT:
        raise FormatTooNew(f"{stream.path} was packed by a newer version of SMP (format {version}).", path=stream.path)
    listed, summary = fields.get("files"), fields.get("summary")
    if version != FORMAT or not isinstance(listed, list):
        stream.refuse("bad_manifest", "its manifest is not one that SMP wrote")
    if len(listed) > limits.files:
        stream.refuse("too_many", f"it holds more than {limits.files:,} files")
    files = [_entry(stream, each, None) for each in listed]
    _check_listed(stream, files, limits)
    about = _entry(stream, summary, SUMMARY)
    if about.size_bytes > _SUMMARY_BYTES:
        stream.refuse("too_large", "its summary is too large")
    return files, about


def _check_listed(stream: Gunzip, files: list[ArchivedFile], limits: ArchiveLimits) -> None:
    for file in files:
        if why := refused_name(file.path):
            stream.refuse(why, f"a name in it is not allowed ({why.replace('_', ' ')})")
        if file.size_bytes > limits.file_bytes:
            stream.refuse("too_large", f"{file.path} is larger than {limits.file_bytes:,} bytes")
    if sum(file.size_bytes for file in files) > limits.total_bytes:
        stream.refuse("too_large", f"it holds more than {limits.total_bytes:,} bytes")
    if same := colliding([file.path for file in files]):
        stream.refuse("collision", f"{same} stands in it twice, or differs from another name only in case")


def _entry(stream: Gunzip, fields: Any, path: str | None) -> ArchivedFile:
    said: dict[str, Any] = fields if isinstance(fields, dict) else {}
    name, size, digest = path or said.get("path"), said.get("bytes"), said.get("sha256")
    if not isinstance(name, str) or type(size) is not int or size < 0 or not isinstance(digest, str):
        stream.refuse("bad_manifest", "its manifest is not one that SMP wrote")
    return ArchivedFile(name, size, digest)


def _parsed(stream: Gunzip, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        stream.refuse("bad_manifest", "its manifest or summary is not one that SMP wrote")
    return fields


# -- archives of other programs


def read_archive(
    disk: Disk, path: str, limits: ArchiveLimits = DEFAULT_LIMITS, writer: Writer | None = None
) -> ArchiveContents:
    """Check an archive from beginning to end, and hand each file to the writer. `summary` of a foreign one has only its layout."""
    if _is_own(disk, path, limits):
        return go_through(disk, path, limits, writer)
    files, base, layout = _listed(disk, path, limits)
    if writer is not None:
        _hand_over(disk, path, limits, writer, files, base)
    found = disk.stat(path)
    inside = [ArchivedFile(name[len(base) :], size, "") for name, size in files]
    return ArchiveContents(inside, {"layout": layout}, found.st_size if found else 0)


def _is_own(disk: Disk, path: str, limits: ArchiveLimits) -> bool:
    """Whether it begins with SMP's manifest; also if its beginning cannot be read, which the strict reader tells."""
    with Gunzip(disk, path, limits) as stream:
        try:
            block = stream.take(BLOCK)
            if block[:100].rstrip(b"\0") != MANIFEST.encode():
                return False
            return _OWN in stream.take(min(header_size(stream, block[124:136]), BLOCK))
        except StorageCorrupt:
            return True


def _listed(disk: Disk, path: str, limits: ArchiveLimits) -> tuple[list[tuple[str, int]], str, str]:
    """Its files with their sizes, the folder of the session in it, and the layout."""
    files = []
    total = 0
    with Gunzip(disk, path, limits) as stream:
        for name, size in _members(stream):
            files.append((name, size))
            total += size
            if len(files) > limits.files:
                stream.refuse("too_many", f"it holds more than {limits.files:,} files")
            if size > limits.file_bytes or total > limits.total_bytes:
                stream.refuse("too_large", f"it holds more than {limits.total_bytes:,} bytes")
            for _ in stream.chunks(size):
                pass
            stream.take(-size % BLOCK)
        stream.finish()
        names = [name for name, _ in files]
        if same := colliding(names):
            stream.refuse("collision", f"{same} stands in it twice, or differs from another name only in case")
        base, layout = _session_in(stream, names)
    return files, base, layout


def _session_in(stream: Gunzip, names: list[str]) -> tuple[str, str]:
    found = set()
    for name in names:
        folder, slash, last = name.rpartition("/")
        if last in _HEADS and all(other.startswith(folder + slash) for other in names):
            found.add((folder + slash, _HEADS[last]))
    if len(found) != 1:
        stream.refuse("no_manifest", "SMP did not make it, and it is not the folder of one session that SMP knows")
    return found.pop()


def _hand_over(
    disk: Disk, path: str, limits: ArchiveLimits, writer: Writer, files: list[tuple[str, int]], base: str
) -> None:
    expected = iter(files)
    with Gunzip(disk, path, limits) as stream:
        for name, size in _members(stream):
            if (name, size) != next(expected, None):
                stream.refuse("damaged", "it changed while it was read")
            inside = name[len(base) :]
            chunks = stream.chunks(size)
            if not is_private(inside, LEFT_OUT):
                writer.write(inside, chunks)
            for _ in chunks:
                pass
            stream.take(-size % BLOCK)
        if next(expected, None) is not None:
            stream.refuse("damaged", "it changed while it was read")
    writer.sync()


def _members(stream: Gunzip) -> Iterator[tuple[str, int]]:
    """Names and sizes of the plain files; the caller takes the content and its padding before the next."""
    long_name = b""
    while (block := stream.take(BLOCK)) != END[:BLOCK]:
        check_sum(stream, block)
        kind, size = block[156:157], header_size(stream, block[124:136])
        if kind in (b"x", b"g", b"L"):
            if size > _MOST_OF_HEADER:
                stream.refuse("too_large", "a name in it is too long")
            data = stream.take(size)
            stream.take(-size % BLOCK)
            if kind != b"g":
                long_name = data.rstrip(b"\0") if kind == b"L" else _pax_path(stream, data) or long_name
            continue
        if kind not in (b"0", b"\0", b"5") or (kind == b"5" and size):
            refuse_kind(stream, kind)
        name = _plain_name(stream, long_name, block)
        long_name = b""
        if kind != b"5" and not name.endswith("/"):
            if (why := unsafe_because(name)) and not is_private(name, LEFT_OUT):
                stream.refuse(why, f"a name in it is not allowed ({why.replace('_', ' ')})")
            yield name, size


def _plain_name(stream: Gunzip, long_name: bytes, block: bytes) -> str:
    """The name without the `./` that tar puts before it."""
    if not long_name:
        is_gnu = block[257:265] == b"ustar  \0"
        name = header_name(stream, block[:345] + bytes(155) + block[500:] if is_gnu else block)
    else:
        try:
            name = long_name.decode()
        except UnicodeDecodeError:
            stream.refuse("not_unicode", "a name in it is not UTF-8")
    while name.startswith("./"):
        name = name[2:]
    return name


def _pax_path(stream: Gunzip, data: bytes) -> bytes:
    """The path in an extended header, empty if it has none; one that states a size or a link is refused."""
    path = b""
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or not len(length) < int(length) <= len(data) or len(length) > 6:
            stream.refuse("extended_header", "an extended header in it cannot be read")
        key, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
        if key in (b"size", b"linkpath") or key.startswith(b"GNU.sparse"):
            stream.refuse("extended_header", "it holds something that is not a plain file (extended header)")
        path = value if key == b"path" else path
        data = data[int(length) :]
    return path
