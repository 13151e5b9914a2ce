"""What does Claude Code get? Hooks in its settings and, for a project, the MCP server in `.mcp.json`."""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.install import PROJECT, Where
from smp_memory.integrations.hooks.install.settings_file import settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

TITLE = "Claude Code"
ABOUT = "hooks in settings.json, an MCP server in .mcp.json"
SECONDS = {  # SessionEnd: more is not given; all but the first three only start what goes on behind
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
    """What each event gets."""
    return {
        event: {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
        for event, seconds in SECONDS.items()
    }


def is_there(where: Where) -> bool:
    return os.path.isdir(where.folder(".claude", "CLAUDE_CONFIG_DIR")) or os.path.isdir(
        where.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(where.home, ".claude")
    )


def edits(where: Where, command: str) -> list[FileEdit]:
    from smp_memory.integrations.hooks.install.file_edit import server

    settings = os.path.join(where.folder(".claude", "CLAUDE_CONFIG_DIR"), "settings.json")
    found = [settings_edit(settings, "hooks", hooks(f"{command} hook"), None)]
    if where.scope == PROJECT:
        found.append(settings_edit(os.path.join(where.project, ".mcp.json"), "MCP server", {}, server(command)))
    return found


def hints(where: Where) -> list[str]:
    if where.scope == PROJECT:
        return ["Claude Code asks before it uses the hooks and the MCP server of a project for the first time."]
    return ["For the MCP server in all projects: claude mcp add --scope user smp -- smp mcp"]
