"""Install into Cursor: hooks in `hooks.json` and the MCP server in `mcp.json`."""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.install import InstallTarget
from smp_memory.integrations.hooks.install.settings_file import settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

TITLE = "Cursor"
ABOUT = "hooks in hooks.json, an MCP server in mcp.json"
EVENTS = ("sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "preCompact", "stop", "sessionEnd")
_NEW_FILE = '{\n  "version": 1\n}\n'


def hooks(command: str) -> dict[str, Any]:
    return {event: {"command": command, "timeout": 10} for event in EVENTS}


def is_present(target: InstallTarget) -> bool:
    return os.path.isdir(target.folder(".cursor")) or os.path.isdir(os.path.join(target.home, ".cursor"))


def edits(target: InstallTarget, command: str) -> list[FileEdit]:
    from smp_memory.integrations.hooks.install.file_edit import server_command

    folder = target.folder(".cursor")
    entries = hooks(f"{command} hook --client cursor")
    return [
        settings_edit(os.path.join(folder, "hooks.json"), "hooks", entries, None, _NEW_FILE),
        settings_edit(os.path.join(folder, "mcp.json"), "MCP server", {}, server_command(command)),
    ]


def hints(target: InstallTarget) -> list[str]:
    return ["Cursor takes memories at the start of a session only; prompts cannot be added to."]
