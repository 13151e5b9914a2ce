"""What an archive may contain, and a bounded reader of tar.gz around `tarfile`.

Guarantees
- Names: a path that passes `unsafe_reason` has no `..`, is not absolute, has no drive, no stream, no control character and no
  name that Windows reads in another way, and is valid and normalised Unicode. A set of paths that passes `find_collision` has no two
  that a case-insensitive or Unicode-normalising disk would take for one, and no file where another one needs a folder.
- `TarReader` reads one gzip stream from beginning to end; nothing follows it, and its checksum and length hold. Memory is bounded,
  whatever the archive claims: decompression stops as soon as the output exceeds `ArchiveLimits`, in total or relative to the input, and
  a header, extended ones (PAX, GNU) included, has at most 64 KiB.
- Only plain files are handed out. Folders are skipped; links, devices, pipes, sparse files and unknown types are rejected. After the
  last file there are only empty blocks, so that a damaged header does not end an archive unnoticed.
- Each rejection is a `StorageCorrupt` with `reason`, one word for it.
"""

from __future__ import annotations

import tarfile
import unicodedata
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from smp_memory.errors import StorageCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from smp_memory.files.disk import Disk

    Member = tuple[str, int, Iterator[bytes]]  # name, size and content, which must be read before the next member

LONGEST_PATH_BYTES = 240
LONGEST_NAME_BYTES = 100
DEEPEST = 8
PRIVATE = ".smp"
EXCLUDED = frozenset(("lock", "queue"))  # files of SMP's own folder that belong to processes, not to the session
JOURNAL = "journal.json"  # a plan; never read from an archive
_DEVICES = frozenset(["con", "prn", "aux", "nul"] + [f"{name}{n}" for name in ("com", "lpt") for n in range(10)])
_FORBIDDEN = frozenset('\\:*?"<>|')

_CHUNK = 1 << 16
_GZIP = 31  # zlib's window bits for a gzip header
_HEADER_BYTES = 64 << 10  # of all headers before a file
_PADDING_LIMIT = 2 * tarfile.RECORDSIZE  # empty blocks at the end
_MALFORMED = (
    tarfile.TarError,
    ValueError,
    LookupError,
    ArithmeticError,
)  # what `tarfile` raises for a malformed header


# -- names


def unsafe_reason(path: str) -> str:
    """Why this path is not allowed in an archive; empty if it is allowed."""
    if not path or path.startswith("/"):
        return "absolute" if path else "empty"
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return "not_unicode"
    parts = path.split("/")
    if length > LONGEST_PATH_BYTES or len(parts) > DEEPEST:
        return "too_long" if length > LONGEST_PATH_BYTES else "too_deep"
    if is_private(path, EXCLUDED | {JOURNAL}):
        return "reserved"
    return next((reason for part in parts if (reason := _unsafe_part_reason(part))), "")


def is_private(path: str, names: Iterable[str]) -> bool:
    """Whether this is a file of one of these names in SMP's own folder."""
    *folders, name = path.lower().split("/")
    return PRIVATE in folders and name in names


def _unsafe_part_reason(part: str) -> str:
    if part in ("", ".", ".."):
        return "traversal" if part == ".." else "empty_part"
    if len(part.encode()) > LONGEST_NAME_BYTES:
        return "too_long"
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in part):
        return "control_character"
    if not _FORBIDDEN.isdisjoint(part) or part[-1] in ". " or part[0] == " ":
        return "not_portable"
    if part.partition(".")[0].rstrip().lower() in _DEVICES:
        return "device_name"
    return "" if unicodedata.normalize("NFC", part) == part else "not_normalised"


def find_collision(paths: Iterable[str]) -> str:
    """The first path that a disk might take for another one of these; empty if there is none."""
    names: dict[str, str] = {}  # the case-folded name, and the name as written; folders end in a slash
    for path in paths:
        parts = path.split("/")
        folders = ["/".join(parts[:count]) + "/" for count in range(1, len(parts))]
        if any(names.setdefault(_case_folded(folder), folder) != folder for folder in folders):
            return path
        if (
            any(_case_folded(folder[:-1]) in names for folder in folders)
            or _case_folded(path) + "/" in names
            or _case_folded(path) in names
        ):
            return path
        names[_case_folded(path)] = path
    return ""


def _case_folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())


# -- reading


class ArchiveLimits(NamedTuple):
    """Limits of the content of an archive."""

    files: int = 10_000
    file_bytes: int = 256 << 20
    total_bytes: int = 512 << 20
    ratio: int = 200  # of output to input, once the output exceeds `ratio_from_bytes`
    ratio_from_bytes: int = 64 << 20


DEFAULT_LIMITS = ArchiveLimits()


class TarReader:
    """Reads the plain files of a tar.gz once, from beginning to end. A context manager."""

    def __init__(self, disk: Disk, path: str, limits: ArchiveLimits) -> None:
        self.path = path
        self._limits = limits
        self._stream = _Gunzip(self, disk, limits)

    def __enter__(self) -> TarReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def members(self) -> Iterator[Member]:
        """The plain files in order. When the last one was taken, the end of the archive has been checked."""
        stream, end = self._stream, 0
        with self._rejecting_malformed():
            tar = tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="strict")  # type: ignore[call-overload]  # noqa: SIM115 - the stream is ours to close
        for _ in range(2 * self._limits.files + 2):  # folders are members, too
            stream.allowance_bytes = _HEADER_BYTES
            with self._rejecting_malformed():
                info = tar.next()
            if info is None:
                stream.finish(end)
                return
            self._check_type(info)
            name = info.name.removeprefix("./")  # tar itself puts it there
            stream.allowance_bytes += info.size
            end = info.offset_data + info.size + -info.size % tarfile.BLOCKSIZE
            if not info.isdir():
                if not is_private(name, EXCLUDED):
                    self.check_name(name)
                chunks = self._chunks(tar, info)
                yield name, info.size, chunks
                for _ in chunks:
                    pass
        self.reject("too_many", f"it holds more than {self._limits.files:,} files")

    def check_name(self, name: str) -> None:
        if reason := unsafe_reason(name):
            self.reject(reason, f"a file name in it is not allowed ({reason.replace('_', ' ')})")

    def _check_type(self, info: tarfile.TarInfo) -> None:
        if info.size < 0 or (info.isdir() and info.size):
            self.reject("bad_size", "a size in it is wrong")
        if info.isdir() or (info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not info.issparse()):
            return
        kind = "link" if info.issym() or info.islnk() else "device" if info.isdev() else "unknown_type"
        self.reject(kind, f"it contains something other than plain files ({kind.replace('_', ' ')})")

    def _chunks(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
        content = tar.extractfile(info)
        assert content is not None  # a plain file
        while True:
            with self._rejecting_malformed():
                chunk = content.read(_CHUNK)
            if not chunk:
                return
            yield chunk

    @contextmanager
    def _rejecting_malformed(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError:
            self.reject("not_unicode", "a name in it is not UTF-8")
        except _MALFORMED as error:
            self.reject("damaged", f"it is not a valid tar archive ({error})")

    def reject(self, reason: str, what: str) -> NoReturn:
        raise StorageCorrupt(
            f"{self.path} cannot be unpacked: {what}. Nothing was written.", path=self.path, reason=reason
        )


class _Gunzip:
    """Decompresses a file as `tarfile` asks for it, within the limits."""

    def __init__(self, reader: TarReader, disk: Disk, limits: ArchiveLimits) -> None:
        self._reject = reader.reject
        self._limits = limits
        self._system = disk.system
        self._descriptor = disk.open_read(reader.path)
        self._offset = 0
        self._decompressor = zlib.decompressobj(_GZIP)
        self._pending = b""
        self._last = b""  # the block that was read last
        self._output_bytes = 0
        self.allowance_bytes = _HEADER_BYTES  # to be read before the next file

    def close(self) -> None:
        self._system.close(self._descriptor)

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        while len(self._pending) < size and (chunk := self._next_chunk()):
            self._pending += chunk
        self._last, self._pending = self._pending[:size], self._pending[size:]
        self._output_bytes += len(self._last)
        self.allowance_bytes -= len(self._last)
        if self.allowance_bytes < -tarfile.RECORDSIZE:  # tarfile reads that much at once
            self._reject("too_large", "a header in it is too large")
        return self._last

    def finish(self, end: int) -> None:
        """Check that from this offset on there are only empty blocks, and nothing after the compressed stream."""
        begin = self._output_bytes - len(self._last)  # tarfile has read the block in which it found the end
        padding = len(self._last) - (end - begin)
        if end < begin or padding < tarfile.BLOCKSIZE:
            self._reject("truncated", "it is truncated")
        part = self._last[end - begin :]
        while part:
            if part.strip(b"\0") or padding > _PADDING_LIMIT:
                self._reject("trailing", "there is data after its end")
            part, self._pending = self._pending or self._next_chunk(), b""
            padding += len(part)
        if self._decompressor.unused_data or self._system.pread(self._descriptor, 1, self._offset):
            self._reject("trailing", "there is data after its end")

    def _next_chunk(self) -> bytes:
        """The next decompressed chunk; empty at the end."""
        while not self._decompressor.eof:
            fed = self._decompressor.unconsumed_tail or self._read()
            try:
                part = self._decompressor.decompress(fed, _CHUNK)
            except zlib.error as error:
                self._reject("damaged", f"it cannot be decompressed ({error})")
            if part:
                self._check_limits(self._output_bytes + len(self._pending) + len(part))
                return part
            if not fed:
                self._reject("truncated", "it is truncated")
        return b""

    def _read(self) -> bytes:
        data = self._system.pread(self._descriptor, _CHUNK, self._offset)
        self._offset += len(data)
        return data

    def _check_limits(self, output_bytes: int) -> None:
        limits = self._limits
        if output_bytes > limits.total_bytes + 2 * tarfile.BLOCKSIZE * (limits.files + 3) + _PADDING_LIMIT:
            self._reject("too_large", f"it holds more than {limits.total_bytes:,} bytes")
        if output_bytes > limits.ratio_from_bytes and output_bytes > limits.ratio * self._offset:
            self._reject("ratio", f"it holds more than {limits.ratio} times its size")
