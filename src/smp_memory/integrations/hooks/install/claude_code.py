"""Install into Claude Code: hooks in its settings and, for a project, the MCP server in `.mcp.json`."""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.install import PROJECT, InstallTarget
from smp_memory.integrations.hooks.install.settings_file import settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

TITLE = "Claude Code"
ABOUT = "hooks in settings.json, an MCP server in .mcp.json"
SECONDS = {  # SessionEnd: the host allows no more; all but the first three only start work in the background
    "SessionStart": 10,
    "UserPromptSubmit": 5,
    "SubagentStart": 5,
    "Stop": 10,
    "SubagentStop": 10,
    "PreCompact": 10,
    "PostCompact": 10,
    "SessionEnd": 3,
}


def hooks(command: str) -> dict[str, Any]:
    """The hook of each event."""
    return {
        event: {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
        for event, seconds in SECONDS.items()
    }


def is_present(target: InstallTarget) -> bool:
    return os.path.isdir(target.folder(".claude", "CLAUDE_CONFIG_DIR")) or os.path.isdir(
        target.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(target.home, ".claude")
    )


def edits(target: InstallTarget, command: str) -> list[FileEdit]:
    from smp_memory.integrations.hooks.install.file_edit import server_command

    settings = os.path.join(target.folder(".claude", "CLAUDE_CONFIG_DIR"), "settings.json")
    result = [settings_edit(settings, "hooks", hooks(f"{command} hook"), None)]
    if target.scope == PROJECT:
        result.append(
            settings_edit(os.path.join(target.project, ".mcp.json"), "MCP server", {}, server_command(command))
        )
    return result


def hints(target: InstallTarget) -> list[str]:
    if target.scope == PROJECT:
        return ["Claude Code asks before it uses the hooks and the MCP server of a project for the first time."]
    return ["For the MCP server in all projects: claude mcp add --scope user smp -- smp mcp"]
