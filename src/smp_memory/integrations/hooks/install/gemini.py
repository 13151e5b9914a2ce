"""Install into Gemini CLI: hooks and the MCP server in its `settings.json`. Its timeouts are milliseconds."""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.install import InstallTarget
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


def is_present(target: InstallTarget) -> bool:
    return os.path.isdir(target.folder(".gemini")) or os.path.isdir(os.path.join(target.home, ".gemini"))


def edits(target: InstallTarget, command: str) -> list[FileEdit]:
    from smp_memory.integrations.hooks.install.file_edit import server_command

    path = os.path.join(target.folder(".gemini"), "settings.json")
    entries = hooks(f"{command} hook --client gemini")
    return [settings_edit(path, "hooks and MCP server", entries, server_command(command))]


def hints(target: InstallTarget) -> list[str]:
    return ["Gemini CLI needs hooks to be enabled; recent versions have them on."]
