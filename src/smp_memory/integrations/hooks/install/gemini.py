"""What does Gemini CLI get? Hooks and the MCP server in its `settings.json`. Its times are milliseconds."""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.install import Where
from smp_memory.integrations.hooks.install.settings_file import settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

TITLE = "Gemini CLI"
ABOUT = "hooks and an MCP server in settings.json"
MILLISECONDS = {
    "SessionStart": 10_000,
    "BeforeAgent": 5_000,
    "AfterAgent": 10_000,
    "PreCompress": 10_000,
    "SessionEnd": 3_000,
}


def hooks(command: str) -> dict[str, Any]:
    return {
        event: {"hooks": [{"name": "smp", "type": "command", "command": command, "timeout": milliseconds}]}
        for event, milliseconds in MILLISECONDS.items()
    }


def is_there(where: Where) -> bool:
    return os.path.isdir(where.folder(".gemini")) or os.path.isdir(os.path.join(where.home, ".gemini"))


def edits(where: Where, command: str) -> list[FileEdit]:
    from smp_memory.integrations.hooks.install.file_edit import server

    path = os.path.join(where.folder(".gemini"), "settings.json")
    asked = hooks(f"{command} hook --client gemini")
    return [settings_edit(path, "hooks and MCP server", asked, server(command))]


def hints(where: Where) -> list[str]:
    return ["Gemini CLI needs hooks to be enabled; recent versions have them on."]
