"""Archives of other programs: a tar.gz of one session's folder, without SMP's manifest.

`read_archive` reads both kinds: SMP's own with the strict reader (`archive_contents`), any other one here. There must be exactly one
folder that holds a session's head (`manifest.json`, `metadata.yaml`, `metadata.json` or `memory.jsonl`) and every other file; its
layout is that of the head. Anything else is refused, because it is not clear what it means.

Guarantees: the same limits and the same rules for names as for SMP's own archives; only plain files are taken, folders and long names
are understood (ustar, GNU, PAX), links, devices and everything else are refused. Nothing is written before the whole of it was read.
Non-guarantees: there is no checksum but that of gzip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.errors import StorageCorrupt
from smp_memory.files.archive_manifest import MANIFEST, ArchiveContents, ArchivedFile, go_through
from smp_memory.files.archive_names import LEFT_OUT, colliding, is_private, unsafe_because
from smp_memory.files.tar_stream import (
    BLOCK,
    DEFAULT_LIMITS,
    END,
    Gunzip,
    check_sum,
    header_name,
    header_size,
    refuse_kind,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.files.archive_manifest import Writer
    from smp_memory.files.disk import Disk
    from smp_memory.files.tar_stream import ArchiveLimits

_HEADS = {"manifest.json": "jsonl", "metadata.yaml": "markdown", "metadata.json": "log", "memory.jsonl": "log"}
_MOST_OF_HEADER = 64 << 10
_OWN = b'"smp_archive"'


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
