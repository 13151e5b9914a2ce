"""What did a file say? A memory before it is stored, and what could not be understood. Values, and reading a file.

Guarantees: a file is read once, as UTF-8 text, up to a limit; what cannot be read is an `Unread` with its line.
"""

from __future__ import annotations

import os
import stat as modes
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_BYTES = 4 << 20
ANYWHERE = "anywhere: "  # how a key begins that is the same in whatever file it stands


class Found(NamedTuple):
    """A memory that a file speaks of."""

    type: str
    fields: dict[str, Any]
    line: int
    key: str  # what makes it the same memory when the file is read again
    when: str | None = None  # a time that the file itself gives
    follows: str = ""  # a field that follows the file when it is read again: `status` or `content`


class Unread(NamedTuple):
    """A place in a file that was not understood."""

    file: str
    line: int
    why: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class Source:
    """A text file of another tool. Readers note in `unread` what they do not understand."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name  # relative to the project, with slashes
        self.unread: list[Unread] = []
        self.text = self._read()
        self.lines = self.text.splitlines()

    def cannot_read(self, line: int, why: str) -> None:
        self.unread.append(Unread(self.name, line, why))

    def _read(self) -> str:
        try:
            mode = os.lstat(self.path).st_mode
            if not modes.S_ISREG(mode):  # a pipe would be waited for
                is_link = modes.S_ISLNK(mode)
                self.cannot_read(1, "a link; the file itself is read where it is" if is_link else "not a plain file")
                return ""
            with open(self.path, "rb") as file:
                data = file.read(LIMIT_BYTES + 1)
        except OSError as error:
            self.cannot_read(1, f"cannot be read: {error.strerror}")
            return ""
        if len(data) > LIMIT_BYTES:
            self.cannot_read(1, f"larger than {LIMIT_BYTES:,} bytes")
            return ""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.cannot_read(data.count(b"\n", 0, error.start) + 1, "not UTF-8 text")
            return ""


if TYPE_CHECKING:
    Reader = Callable[[Source], list[Found]]
