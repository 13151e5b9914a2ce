"""The command by which a host calls SMP: its name where every host finds it, else its absolute path.

A host starts hooks in its own environment. A program inside a virtual environment is on the PATH only where that environment is
active, so it is named by its path.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def command_here() -> str:
    """The command as a shell reads it. A name works for everybody who has SMP; a path only on this machine."""
    from shlex import quote
    from shutil import which

    beside = which("smp", path=os.path.dirname(sys.executable))
    found = which("smp")
    is_same = found is not None and (beside is None or os.path.realpath(found) == os.path.realpath(beside))
    if found is not None and is_same and not _is_in_environment(found) and (beside or not _environment()):
        return "smp"
    return quote(beside) if beside is not None else f"{quote(sys.executable)} -m smp"


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
