"""Coding agents that SMP can be installed into, and the edits of their settings.

Nothing is written here: the command line shows the edits (`FileEdit`) as a diff, asks, and applies them.
"""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.file_edit import FileEdit, block_edit, server_command, settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Host(Protocol):
        """A program that SMP can be installed into."""

        TITLE: str  # its name
        ABOUT: str  # what is installed, in a few words

        def is_present(self, target: InstallTarget) -> bool:
            """Whether this machine, or this project, has the host."""

        def edits(self, target: InstallTarget, command: str) -> list[FileEdit]:
            """The changes, one for each file."""

        def hints(self, target: InstallTarget) -> list[str]:
            """What a person should know or do afterwards, in sentences."""


PROJECT, USER = "project", "user"
_CLAUDE_SECONDS = {  # SessionEnd: the host allows no more; all but the first three only start work in the background
    "SessionStart": 10,
    "UserPromptSubmit": 5,
    "SubagentStart": 5,
    "Stop": 10,
    "SubagentStop": 10,
    "PreCompact": 10,
    "PostCompact": 10,
    "SessionEnd": 3,
}
_GEMINI_MILLISECONDS = {
    "SessionStart": 10_000,
    "BeforeAgent": 5_000,
    "AfterAgent": 10_000,
    "PreCompress": 10_000,
    "SessionEnd": 3_000,
}


class InstallTarget:
    """The project to install into, or all projects of a user."""

    def __init__(
        self,
        scope: str,
        project: str,
        home: str,
        environ: Mapping[str, str],
        start: str = "",
        options: frozenset[str] = frozenset(),
        store: str = "",
    ) -> None:
        self.scope = scope
        self.project = project
        self.home = home
        self.environ = environ
        self.start = start or project  # the folder in which the command was called
        self.options = options  # names of optional parts of a host that were asked for
        self.store = store  # the address of a store that is not found from the project's folder, without a password

    def hook(self, command: str, client: str = "") -> str:
        """The command of a hook."""
        from shlex import quote

        words = (
            f"{command} hook",
            f"--client {client}" if client else "",
            f"--root {quote(self.store)}" if self.store else "",
        )
        return " ".join(filter(None, words))

    def folder(self, name: str, variable: str = "") -> str:
        """A host's folder in the project, or in the user's home, which a variable may name."""
        if self.scope == PROJECT:
            return os.path.join(self.project, name)
        return self.user_folder(name, variable)

    def user_folder(self, name: str, variable: str = "") -> str:
        return (self.environ.get(variable) if variable else "") or os.path.join(self.home, name)


class CodingAgent:
    """A coding agent with a folder of settings, in a project and in the user's home, which a variable may name."""

    TITLE = ABOUT = _FOLDER = _VARIABLE = ""

    def is_present(self, target: InstallTarget) -> bool:
        folders = (target.folder(self._FOLDER, self._VARIABLE), target.user_folder(self._FOLDER, self._VARIABLE))
        return any(map(os.path.isdir, folders))

    def _file(self, target: InstallTarget, name: str) -> str:
        return os.path.join(target.folder(self._FOLDER, self._VARIABLE), name)


class ClaudeCode(CodingAgent):
    TITLE = "Claude Code"
    ABOUT = "hooks in settings.json, an MCP server in .mcp.json"
    _FOLDER, _VARIABLE = ".claude", "CLAUDE_CONFIG_DIR"

    def hooks(self, command: str) -> dict[str, Any]:
        """The hook of each event."""
        return {
            event: {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
            for event, seconds in _CLAUDE_SECONDS.items()
        }

    def edits(self, target: InstallTarget, command: str) -> list[FileEdit]:
        edits = [settings_edit(self._file(target, "settings.json"), "hooks", self.hooks(target.hook(command)), None)]
        if target.scope == PROJECT:
            servers = os.path.join(target.project, ".mcp.json")
            edits.append(settings_edit(servers, "MCP server", {}, server_command(command, target.store)))
        return edits

    def hints(self, target: InstallTarget) -> list[str]:
        if target.scope == PROJECT:
            return ["Claude Code asks before it uses the hooks and the MCP server of a project for the first time."]
        return ["For the MCP server in all projects: claude mcp add --scope user smp -- smp mcp"]


class Codex(ClaudeCode):
    """Codex has the hooks of Claude Code, in a file beside its configuration."""

    TITLE = "Codex"
    ABOUT = "hooks in hooks.json, an MCP server in config.toml"
    _FOLDER, _VARIABLE = ".codex", "CODEX_HOME"

    def edits(self, target: InstallTarget, command: str) -> list[FileEdit]:
        hooks = self.hooks(target.hook(command, "codex"))
        return [
            settings_edit(self._file(target, "hooks.json"), "hooks", hooks, None),
            block_edit(self._file(target, "config.toml"), "MCP server", server_command(command, target.store)),
        ]

    def hints(self, target: InstallTarget) -> list[str]:
        return ["Codex asks you to review and trust new hooks before it runs them."]


class Gemini(CodingAgent):
    TITLE = "Gemini CLI"
    ABOUT = "hooks and an MCP server in settings.json"
    _FOLDER = ".gemini"

    def edits(self, target: InstallTarget, command: str) -> list[FileEdit]:
        hook = {"name": "smp", "type": "command", "command": target.hook(command, "gemini")}
        hooks = {event: {"hooks": [{**hook, "timeout": time}]} for event, time in _GEMINI_MILLISECONDS.items()}
        path = self._file(target, "settings.json")
        return [settings_edit(path, "hooks and MCP server", hooks, server_command(command, target.store))]

    def hints(self, target: InstallTarget) -> list[str]:
        return ["Gemini CLI needs hooks to be enabled; recent versions have them on."]


class Cursor(CodingAgent):
    TITLE = "Cursor"
    ABOUT = "hooks in hooks.json, an MCP server in mcp.json"
    _FOLDER = ".cursor"
    _EVENTS = ("sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "preCompact", "stop", "sessionEnd")
    _NEW_FILE = '{\n  "version": 1\n}\n'

    def edits(self, target: InstallTarget, command: str) -> list[FileEdit]:
        hooks = {event: {"command": target.hook(command, "cursor"), "timeout": 10} for event in self._EVENTS}
        return [
            settings_edit(self._file(target, "hooks.json"), "hooks", hooks, None, self._NEW_FILE),
            settings_edit(self._file(target, "mcp.json"), "MCP server", {}, server_command(command, target.store)),
        ]

    def hints(self, target: InstallTarget) -> list[str]:
        return ["Cursor takes memories at the start of a session only; prompts cannot be added to."]


AGENTS: dict[str, Host] = {"claude-code": ClaudeCode(), "codex": Codex(), "gemini": Gemini(), "cursor": Cursor()}


def project_folder(start: str) -> str:
    """The root of a project: the nearest folder upwards with `.git` or `.bmad`, else the folder itself."""
    folder = os.path.abspath(start)
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in (".git", ".bmad")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.path.abspath(start)
        folder = parent
