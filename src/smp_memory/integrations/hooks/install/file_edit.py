"""One edit of a file of a host's settings, and the command by which a host calls SMP. Pure, but for reading.

Guarantees: installing twice changes nothing. Removing restores the bytes from before, if nobody changed the
file since: then the backup beside it (`.smp-backup`) is what the installation started from. Otherwise exactly our own
parts are removed. A file that cannot be parsed is refused, never rewritten.

The command is the name `smp` where every host finds it, else its absolute path: a host starts hooks in its own environment, and a
program inside a virtual environment is on the PATH only where that environment is active.
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
    """An edit of one file. `add` and `remove` are functions from text to text; '' stands for a file that does not exist."""

    def __init__(self, path: str, about: str, add: Callable[[str], str], remove: Callable[[str], str]) -> None:
        self.path = os.path.realpath(path)  # a link stays a link
        self.about = about
        self._add = add
        self._remove = remove

    def now(self) -> str:
        """The text of the file; '' if it does not exist."""
        return _read(self.path)

    @property
    def is_installed(self) -> bool:
        """Whether the file has our parts as this version would write them."""
        text = self.now()
        return bool(text) and self._add(text) == text

    def installed(self) -> str:
        return self._add(self.now())

    def without(self) -> str:
        """The text without our parts; '' if the file is to be removed, too."""
        text = self.now()
        if not text:
            return ""
        backup = _read(self.path + BACKUP)
        if backup and self._add(backup) == text:
            return backup
        return "" if self._add("") == text else self._remove(text)


def diff(path: str, before: str, after: str) -> list[str]:
    """A unified diff of a file's change."""
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
    """The command for a shell: a name, which works for everybody who has SMP, or else a path on this machine."""
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


def server_command(command: str) -> dict[str, Any]:
    """The MCP server in the form of hosts' settings: a program and its arguments."""
    import shlex

    program, *words = shlex.split(command)
    return {"command": program, "args": [*words, "mcp"]}
