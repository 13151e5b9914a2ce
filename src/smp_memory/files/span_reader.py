"""Read byte ranges of files. Apart from the readers of sessions, which take longer to load."""

from __future__ import annotations

from smp_memory.files.disk import retry_mapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk


class SpanReader:
    """Reads byte ranges of several files and opens each file once. A context manager."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._descriptors: dict[str, int] = {}

    def read(self, path: str, start: int, length: int) -> bytes:
        """The bytes of a range; fewer if the file ends there. Raises FileNotFoundError."""
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            descriptor = self._descriptors[path] = self._disk.open_read(path)
        try:
            found = self._disk.system.pread(descriptor, length, start)
            return found if len(found) == length else self._disk.read_open(descriptor, start, length)
        except OSError as error:
            return retry_mapped(error, path, "reading a file", lambda: self._disk.read_once(path, start, length))

    def __enter__(self) -> SpanReader:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            self._disk.system.close(descriptor)
        self._descriptors.clear()
