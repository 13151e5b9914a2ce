"""Byte format of archives: the names that one may contain, a bounded gunzip, a strict subset of tar, and the manifest.

Guarantees
- Names: a path that passes `unsafe_reason` has no `..`, is not absolute, has no drive, no stream, no control character and no
  name that Windows reads in another way, is valid and normalised Unicode, and fits into a tar header. A set of paths that passes
  `find_collision` has no two that a case-insensitive or Unicode-normalising disk would take for one, and no file where another one needs
  a folder.
- Gunzip: reading takes memory for one chunk, whatever the archive claims; it stops as soon as the output exceeds `ArchiveLimits`,
  in total or relative to the input. One gzip stream with nothing after it; its checksum and length hold.
- Tar: only `ustar`, plain files, sizes in octal digits, a correct header checksum and two empty blocks at the end are accepted.
  Links, devices, folders, sparse files, extended headers (PAX, GNU) and everything else are rejected by name. In archives of other
  programs folders and long names are understood (ustar, GNU, PAX).
- Each rejection is a `StorageCorrupt` with `reason`, one word for it.
`tarfile` and `gzip` of the standard library cannot take this over, see docs/adr/0023-fast-paths.md.
"""

from __future__ import annotations

import json
import unicodedata
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from smp_memory.errors import FormatTooNew, StorageCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from smp_memory.files.disk import Disk

LONGEST_PATH_BYTES = 240
LONGEST_NAME_BYTES = 100
LONGEST_PREFIX_BYTES = 155
DEEPEST = 8
PRIVATE = ".smp"
EXCLUDED = frozenset(("lock", "queue"))  # files of SMP's own folder that belong to processes, not to the session
JOURNAL = "journal.json"  # a plan; never read from an archive
_DEVICES = frozenset(["con", "prn", "aux", "nul"] + [f"{name}{n}" for name in ("com", "lpt") for n in range(10)])
_FORBIDDEN = frozenset('\\:*?"<>|')

FORMAT = 1
MANIFEST, SUMMARY, CONTENT = "manifest.json", "summary.json", "session/"
_MANIFEST_BYTES = 32 << 20
_SUMMARY_BYTES = 8 << 20
_HEADER_LIMIT_BYTES = 64 << 10

BLOCK = 512
CHUNK = 1 << 16
_GZIP = 31  # zlib's window bits for a gzip header
_PLAIN = b"0"
_KINDS = {
    b"1": "link", b"2": "link", b"3": "device", b"4": "device", b"5": "folder", b"6": "pipe", b"7": "contiguous",
    b"g": "extended_header", b"x": "extended_header", b"X": "extended_header", b"L": "extended_header",
    b"K": "extended_header", b"N": "extended_header", b"S": "sparse", b"D": "extended_header", b"M": "multi_volume",
    b"V": "volume_label", b"\0": "old_format", b"A": "extended_header", b"I": "extended_header",
}  # fmt: skip
_PADDING_LIMIT = 20 * BLOCK


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
    return next((reason for part in parts if (reason := _unsafe_part_reason(part))), "") or (
        "" if split_path(path) else "too_long"
    )


def split_path(path: str) -> tuple[bytes, bytes] | None:
    """A path as the prefix and name of a tar header; None if it does not fit."""
    name = path.encode()
    if len(name) <= LONGEST_NAME_BYTES:
        return b"", name
    slash = name.find(b"/", len(name) - LONGEST_NAME_BYTES - 1)
    return (name[:slash], name[slash + 1 :]) if 0 < slash <= LONGEST_PREFIX_BYTES else None


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


def name_problem(path: str) -> str:
    """Why a file of this name cannot be in an archive; empty if it can."""
    return unsafe_reason(path) or unsafe_reason(CONTENT + path)


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


# -- gunzip


class ArchiveLimits(NamedTuple):
    """Limits of the content of an archive."""

    files: int = 10_000
    file_bytes: int = 256 << 20
    total_bytes: int = 512 << 20
    ratio: int = 200  # of output to input, once the output exceeds `ratio_from_bytes`
    ratio_from_bytes: int = 64 << 20


DEFAULT_LIMITS = ArchiveLimits()


class Gunzip:
    """Decompresses a file once, from beginning to end. A context manager."""

    def __init__(self, disk: Disk, path: str, limits: ArchiveLimits) -> None:
        self.path = path
        self._limits = limits
        self._system = disk.system
        self._descriptor = disk.open_read(path)
        self._offset = 0
        self._decompressor = zlib.decompressobj(_GZIP)
        self._pending = b""
        self._output_bytes = 0

    def __enter__(self) -> Gunzip:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._system.close(self._descriptor)

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes at once; only for small sizes."""
        return b"".join(self.chunks(size))

    def chunks(self, size: int) -> Iterator[bytes]:
        """Exactly `size` bytes, a chunk at a time."""
        while size:
            if not self._pending:
                self._pending = self._next_chunk()
                if not self._pending:
                    self.reject("truncated", "it is truncated")
            part, self._pending = self._pending[:size], self._pending[size:]
            size -= len(part)
            yield part

    def finish(self) -> None:
        """Check that only a little padding follows, and nothing after the compressed stream."""
        padding = 0
        while part := self._pending or self._next_chunk():
            self._pending = b""
            padding += len(part)
            if part.strip(b"\0") or padding > _PADDING_LIMIT:
                self.reject("trailing", "there is data after its end")
        if self._decompressor.unused_data or self._system.pread(self._descriptor, 1, self._offset):
            self.reject("trailing", "there is data after its end")

    def _next_chunk(self) -> bytes:
        """The next decompressed chunk; empty at the end."""
        while not self._decompressor.eof:
            fed = self._decompressor.unconsumed_tail or self._read()
            try:
                part = self._decompressor.decompress(fed, CHUNK)
            except zlib.error as error:
                self.reject("damaged", f"it cannot be decompressed ({error})")
            if part:
                self._check_limits(len(part))
                return part
            if not fed:
                self.reject("truncated", "it is truncated")
        return b""

    def _read(self) -> bytes:
        data = self._system.pread(self._descriptor, CHUNK, self._offset)
        self._offset += len(data)
        return data

    def _check_limits(self, size: int) -> None:
        self._output_bytes += size
        limits = self._limits
        if self._output_bytes > limits.total_bytes + 2 * BLOCK * (limits.files + 3) + _PADDING_LIMIT:
            self.reject("too_large", f"it holds more than {limits.total_bytes:,} bytes")
        if self._output_bytes > limits.ratio_from_bytes and self._output_bytes > limits.ratio * self._offset:
            self.reject("ratio", f"it holds more than {limits.ratio} times its size")

    def reject(self, reason: str, what: str) -> NoReturn:
        raise StorageCorrupt(
            f"{self.path} cannot be unpacked: {what}. Nothing was written.", path=self.path, reason=reason
        )


# -- tar


def encode_header(name: str, size: int) -> bytes:
    """The header of a plain file; deterministic: no owner, no time, mode 0600."""
    parts = split_path(name)
    assert parts is not None  # the caller has checked `unsafe_reason`
    prefix, short = parts
    fields = (
        (short, 100), (b"0000600\0", 8), (b"0000000\0", 8), (b"0000000\0", 8), (b"%011o\0" % size, 12),
        (b"00000000000\0", 12), (b" " * 8, 8), (_PLAIN, 1), (b"", 100), (b"ustar\x0000", 8), (b"", 32), (b"", 32),
        (b"0000000\0", 8), (b"0000000\0", 8), (prefix, 155), (b"", 12),
    )  # fmt: skip
    header = b"".join(value.ljust(width, b"\0") for value, width in fields)
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def padding(size: int) -> bytes:
    return b"\0" * (-size % BLOCK)


END = b"\0" * (2 * BLOCK)


def next_header(stream: Gunzip) -> tuple[str, int] | None:
    """Name and size of the next file; None at the end."""
    block = stream.read(BLOCK)
    if block == END[:BLOCK]:
        if stream.read(BLOCK) != END[:BLOCK]:
            stream.reject("damaged", "there is an empty block in the middle")
        return None
    _check_header(stream, block)
    return header_name(stream, block), header_size(stream, block[124:136])


def check_header_checksum(stream: Gunzip, block: bytes) -> None:
    """Reject a block that is not a header, or whose checksum is wrong."""
    if block[257:265] not in (b"ustar\x0000", b"ustar  \0"):
        stream.reject("not_tar", "it is not a tar archive that SMP wrote")
    stored = block[148:156].strip(b"\0 ")
    if not _is_octal(stored) or int(stored, 8) != sum(block) - sum(block[148:156]) + 8 * 32:
        stream.reject("damaged", "the checksum of a header is wrong")


def reject_kind(stream: Gunzip, kind: bytes) -> NoReturn:
    name = _KINDS.get(kind, "unknown_type")
    stream.reject(name, f"it contains something other than plain files ({name.replace('_', ' ')})")


def _check_header(stream: Gunzip, block: bytes) -> None:
    check_header_checksum(stream, block)
    kind = block[156:157]
    if kind != _PLAIN:
        reject_kind(stream, kind)
    if block[257:265] != b"ustar\x0000":
        stream.reject("gnu_format", "it is in GNU tar's format")
    if block[157:257].strip(b"\0"):
        stream.reject("link", "it contains a link")
    if block[500:].strip(b"\0"):
        stream.reject("damaged", "the unused part of a header is not empty")


def header_name(stream: Gunzip, block: bytes) -> str:
    parts = [field.partition(b"\0") for field in (block[345:500], block[:100])]
    if any(rest.strip(b"\0") for _, _, rest in parts):
        stream.reject("nul", "a name in it continues after a zero byte")
    try:
        return b"/".join(part for part, _, _ in parts if part).decode()
    except UnicodeDecodeError:
        stream.reject("not_unicode", "a name in it is not UTF-8")


def header_size(stream: Gunzip, field: bytes) -> int:
    digits = field.rstrip(b"\0 ")
    if not _is_octal(digits):
        stream.reject("bad_size", "a size in it is not a number")
    return int(digits, 8)


def _is_octal(digits: bytes) -> bool:
    return bool(digits) and not digits.strip(b"01234567")


# -- tar by other programs


def plain_files(stream: Gunzip) -> Iterator[tuple[str, int]]:
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


# -- manifest


class ArchivedFile(NamedTuple):
    path: str
    size_bytes: int
    sha256: str


def read_manifest(stream: Gunzip, limits: ArchiveLimits) -> tuple[list[ArchivedFile], ArchivedFile]:
    header = next_header(stream)
    if header is None or header[0] != MANIFEST:
        stream.reject("no_manifest", "it does not begin with a manifest")
    if header[1] > min(_MANIFEST_BYTES, 1000 * (limits.files + 1)):
        stream.reject("too_large", "its manifest is too large")
    data = stream.read(header[1])
    stream.read(-header[1] % BLOCK)
    fields = parse_json(stream, data)
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


def parse_json(stream: Gunzip, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        stream.reject("bad_manifest", "its manifest or summary was not written by SMP")
    return fields
