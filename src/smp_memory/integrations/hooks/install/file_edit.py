"""What becomes of a file, and how does it come back? One edit for each file. Pure, but for reading.

Guarantees: putting in twice changes nothing. Taking out leaves what was there before, byte for byte, if nobody changed the
file since: then the copy that was kept beside it (`.smp-backup`) is what putting in started from. Otherwise exactly our own
parts are taken out. A file that cannot be understood is refused, never rewritten.

The command by which a host calls SMP: its name where every host finds it, else its absolute path.

A host starts hooks in its own environment. A program inside a virtual environment is on the PATH only where that environment is
active, so it is named by its path.
"""

from __future__ import annotations

import errno
import os
import sys

from smp_memory.ownership import plain_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


BACKUP = ".smp-backup"
_LARGEST_BYTES = 16 << 20


class FileEdit:
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
        from smp_memory.errors import UserError

        why = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{path}: {why}. It was not changed.", path=path) from None


def command_here() -> str:
    """The command as a shell reads it. A name works for everybody who has SMP; a path only on this machine."""
    from shlex import quote
    from shutil import which

    beside = which("smp", path=os.path.dirname(sys.executable))
    found = which("smp")
    is_same = found is not None and (beside is None or os.path.realpath(found) == os.path.realpath(beside))
    if found is not None and is_same and not _is_in_environment(found) and (beside or not _environment()):
        return "smp"
    return quote(beside) if beside is not None else f"{quote(sys.executable)} -m smp_memory"


def environment_of(command: str) -> str | None:
    """The virtual environment whose program a command names by its path; None if it names none."""
    import shlex

    return _environment() if _is_in_environment(shlex.split(command)[0]) else None


def _environment() -> str | None:
    """The virtual environment in which this process runs."""
    return sys.prefix if sys.prefix != sys.base_prefix else None


def _is_in_environment(program: str) -> bool:
    folder = _environment()
    return folder is not None and os.path.isabs(program) and program.startswith(os.path.join(folder, ""))


def server(command: str) -> dict[str, Any]:
    """The MCP server as hosts want it: a program and its arguments."""
    import shlex

    program, *words = shlex.split(command)
    return {"command": program, "args": [*words, "mcp"]}
