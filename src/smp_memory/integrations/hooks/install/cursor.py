"""What does Cursor get? Hooks in `hooks.json` and the MCP server in `mcp.json`."""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.install import Where
from smp_memory.integrations.hooks.install.settings_file import settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

TITLE = "Cursor"
ABOUT = "hooks in hooks.json, an MCP server in mcp.json"
EVENTS = ("sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "preCompact", "stop", "sessionEnd")
_HEAD = '{\n  "version": 1\n}\n'


def hooks(command: str) -> dict[str, Any]:
    return {event: {"command": command, "timeout": 10} for event in EVENTS}


def is_there(where: Where) -> bool:
    return os.path.isdir(where.folder(".cursor")) or os.path.isdir(os.path.join(where.home, ".cursor"))


def edits(where: Where, command: str) -> list[FileEdit]:
    from smp_memory.integrations.hooks.install.file_edit import server

    folder = where.folder(".cursor")
    asked = hooks(f"{command} hook --client cursor")
    return [
        settings_edit(os.path.join(folder, "hooks.json"), "hooks", asked, None, _HEAD),
        settings_edit(os.path.join(folder, "mcp.json"), "MCP server", {}, server(command)),
    ]


def hints(where: Where) -> list[str]:
    return ["Cursor takes memories at the start of a session only; prompts cannot be added to."]
