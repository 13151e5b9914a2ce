"""How is `smp` called by a host? By its name if the host will find it, else by where it is."""

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

    beside = os.path.join(os.path.dirname(sys.executable), "smp")
    found = which("smp")
    if found is not None and (not os.path.exists(beside) or os.path.realpath(found) == os.path.realpath(beside)):
        return "smp"
    return quote(beside) if os.path.exists(beside) else f"{quote(sys.executable)} -m smp"


def server(command: str) -> dict[str, Any]:
    """The MCP server as hosts want it: a program and its arguments."""
    import shlex

    program, *words = shlex.split(command)
    return {"command": program, "args": [*words, "mcp"]}
