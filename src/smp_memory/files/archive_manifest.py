"""What does an archive hold, and is all of it good? Its manifest, and every file compared with it.

Guarantees: `check` writes nothing and answers only for an archive in which every byte was looked at: the manifest comes
first and lists every file with its size and checksum, and the files follow in that order, no more and no fewer. What is
wrong is a `StorageCorrupt` whose `reason` is one word; a newer format is `FormatTooNew`.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import FormatTooNew
from smp_memory.files.archive_names import colliding, unsafe_because
from smp_memory.files.tar_stream import BLOCK, DEFAULT_LIMITS, ArchiveLimits, Gunzip, next_header

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
