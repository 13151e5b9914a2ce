"""Where do the vectors lie? Three arrays in a folder of their own, or in RAM.

They are only written at their end. How many of them count is for the caller to know; what stands behind is a leftover
and is written over. Raises OSError, ValueError or KeyError for files that are not there as they should be.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

PREFIX = "meaning-"
HEADS, SIGNS, VECTORS = "docs", "signs", "vectors"  # doc and digest; one bit for each number; the numbers
_BYTES = {"int64": 8, "uint64": 8, "int8": 1}
_FORMS = {HEADS: ("int64", 2), SIGNS: ("uint64", 4), VECTORS: ("int8", 256)}


class Files:
    """Three files; names of folders are not used again, because somebody may have the old files mapped."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def new(self) -> str:
        from shutil import rmtree

        name = f"{PREFIX}{os.urandom(4).hex()}"
        os.mkdir(os.path.join(self._folder, name), 0o700)
        for other in os.listdir(self._folder):
            if other.startswith(PREFIX) and other != name:
                rmtree(os.path.join(self._folder, other), ignore_errors=True)
        return name

    def write(self, name: str, count: int, arrays: dict[str, Any]) -> None:
        """Put arrays behind the first `count` of each file, over whatever is there."""
        for part, array in arrays.items():
            handle = os.open(os.path.join(self._folder, name, part), os.O_WRONLY | os.O_CREAT, 0o600)
            with open(handle, "wb") as file:
                file.seek(count * array.itemsize * array.shape[1])
                file.write(array.tobytes())

    def check(self, name: str, count: int) -> None:
        """To look beyond the end of a file that is mapped would end the process."""
        if not name:
            raise KeyError(name)
        for part, (kind, width) in _FORMS.items() if count else ():
            if os.stat(os.path.join(self._folder, name, part)).st_size < count * width * _BYTES[kind]:
                raise ValueError(f"{name}/{part} is too short")

    def read(self, name: str, count: int) -> Iterator[Any]:
        import numpy

        for part, (kind, width) in _FORMS.items():
            path = os.path.join(self._folder, name, part)
            if count:
                yield numpy.memmap(path, kind, "r", shape=(count, width)).view(numpy.ndarray)
            else:
                yield numpy.zeros((0, width), kind)


class Ram:
    """The same for an index that lives with its object."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def new(self) -> str:
        self._arrays = {}
        return f"{PREFIX}{os.urandom(4).hex()}"

    def write(self, name: str, count: int, arrays: dict[str, Any]) -> None:
        import numpy

        for part, array in arrays.items():
            before = self._arrays.get(part, array[:0])
            self._arrays[part] = numpy.concatenate([before[:count], array])

    def check(self, name: str, count: int) -> None:
        if not name:
            raise KeyError(name)

    def read(self, name: str, count: int) -> Iterable[Any]:
        import numpy

        return [self._arrays.get(part, numpy.zeros((0, width), kind))[:count] for part, (kind, width) in _FORMS.items()]
