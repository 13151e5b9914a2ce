"""What becomes of a file, and how does it come back? One edit for each file. Pure, but for reading.

Guarantees: putting in twice changes nothing. Taking out leaves what was there before, byte for byte, if nobody changed the
file since: then the copy that was kept beside it (`.smp-backup`) is what putting in started from. Otherwise exactly our own
parts are taken out. A file that cannot be understood is refused, never rewritten.
"""

from __future__ import annotations

import errno
import os

from smp.ownership import plain_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BACKUP = ".smp-backup"
_LARGEST_BYTES = 16 << 20


class Edit:
    """A file that gets something of ours. `put` and `take` are functions from text to text; '' is a file that is not there."""

    def __init__(self, path: str, about: str, put: Callable[[str], str], take: Callable[[str], str]) -> None:
        self.path = os.path.realpath(path)  # a link stays a link
        self.about = about
        self._put = put
        self._take = take

    def now(self) -> str:
        """What the file holds; '' if there is none."""
        return _read(self.path)

    @property
    def is_installed(self) -> bool:
        """Whether our parts are there, as this version would put them."""
        text = self.now()
        return bool(text) and self._put(text) == text

    def installed(self) -> str:
        return self._put(self.now())

    def without(self) -> str:
        """What is left when our parts are gone; '' if the file goes, too."""
        text = self.now()
        if not text:
            return ""
        kept = _read(self.path + BACKUP)
        if kept and self._put(kept) == text:
            return kept
        return "" if self._put("") == text else self._take(text)


def diff(path: str, before: str, after: str) -> list[str]:
    """What changes in a file, as people know it from git."""
    from difflib import unified_diff

    old, new = before.splitlines(), after.splitlines()
    return list(unified_diff(old, new, path if before else os.devnull, path if after else os.devnull, lineterm=""))


def _read(path: str) -> str:
    try:
        data = plain_bytes(path, _LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise OSError(errno.EFBIG, f"larger than {_LARGEST_BYTES >> 20} MiB", path)
        return data.decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        from smp.errors import UserError

        why = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{path}: {why}. It was not changed.", path=path) from None
