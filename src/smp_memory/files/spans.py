"""Read stretches of several files, each opened once."""

from __future__ import annotations

from smp_memory.files.retry import repeated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk


class Spans:
    """Stretches of several files, each opened once. A context manager."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._descriptors: dict[str, int] = {}

    def read(self, path: str, start: int, length: int) -> bytes:
        """Raises FileNotFoundError; fewer bytes than asked for mean that the file ends there."""
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            descriptor = self._descriptors[path] = self._disk.open_read(path)
        try:
            found = self._disk.system.pread(descriptor, length, start)
            return found if len(found) == length else self._disk.read_open(descriptor, start, length)
        except OSError as error:
            return repeated(error, path, "reading a file", lambda: self._disk.read_once(path, start, length))

    def __enter__(self) -> Spans:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            self._disk.system.close(descriptor)
        self._descriptors.clear()
