"""The table of hosts that SMP can be installed into: which files they read, in the forms that they document. Data, and how a path is found.

A path begins with a folder in braces: `{project}`, the user's home or one of `_FOLDERS`. Several paths in one place stand for one file:
the first that has a part of ours, else the first that exists, else the last. `installation` makes edits of the parts.
Only `os` and `sys` are loaded, because hooks note their calls by the titles of this table.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT, USER = "project", "user"

# Name -> the variable that names the folder, and its place in the user's home; on Windows and macOS, where that differs.
_FOLDERS: dict[str, tuple[str, str, str, str]] = {
    "home": ("", "", "", ""),
    "claude": ("CLAUDE_CONFIG_DIR", ".claude", "", ""),
    "codex": ("CODEX_HOME", ".codex", "", ""),
    "copilot": ("COPILOT_HOME", ".copilot", "", ""),
    "config": ("XDG_CONFIG_HOME", ".config", "", ""),
    "vscode": ("", ".config/Code/User", "AppData/Roaming/Code/User", "Library/Application Support/Code/User"),
    "zed": ("", ".config/zed", "AppData/Roaming/Zed", ""),
    "goose": ("", ".config/goose", "AppData/Roaming/Block/goose/config", ""),
    "cline": ("CLINE_DIR", ".cline", "", ""),
}

# Events and the time a hook may take. SessionEnd: the host allows no more; all but the first three only start work in the background.
_CLAUDE_SECONDS = {
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
_CURSOR_SECONDS = dict.fromkeys(
    ("sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "preCompact", "stop", "sessionEnd"), 10
)
_VSCODE_SECONDS = {
    name: _CLAUDE_SECONDS[name]
    for name in ("SessionStart", "UserPromptSubmit", "SubagentStart", "Stop", "SubagentStop", "PreCompact")
}

# Forms of an entry.
GROUPED, NAMED, PLAIN, TYPED = "grouped", "named", "plain", "typed"  # of a hook
SPLIT, STDIO, LOCAL, LIST, TOML, YAML = "split", "stdio", "local", "list", "toml", "yaml"  # of the MCP server


class HostPart:
    """One file of a host, in the project and in the user's home; empty where the host has none, or SMP does not write it."""

    __slots__ = ("client", "form", "front", "hook_form", "hooks", "is_rules", "needs", "new_file", "places", "section")

    def __init__(
        self,
        project: str | tuple[str, ...] = (),
        user: str | tuple[str, ...] = (),
        *,
        hooks: Mapping[str, int] | None = None,
        hook_form: str = GROUPED,
        client: str = "",
        section: tuple[str, ...] = (),
        form: str = SPLIT,
        is_rules: bool = False,
        front: str = "",
        needs: str = "",
        new_file: str = "{}\n",
    ) -> None:
        self.places = {
            scope: (each,) if isinstance(each, str) else each for scope, each in ((PROJECT, project), (USER, user))
        }
        self.hooks = hooks or {}  # event -> time
        self.hook_form = hook_form
        self.client = client  # what hooks tell about the host, if its events do not
        self.section = section  # the path of the MCP servers in the file
        self.form = form
        self.is_rules = is_rules
        self.front = front  # what a new file with rules begins with
        self.needs = needs  # a folder without which the host does not read the file
        self.new_file = new_file

    @property
    def about(self) -> str:
        """What the part is, in words."""
        what = [
            word for word, has in (("hooks", self.hooks), ("MCP server", self.section), ("rules", self.is_rules)) if has
        ]
        return " and ".join(what)


class Host:
    """A host: its name, the folders by which it is recognised, its files, and what a person should know afterwards."""

    def __init__(
        self,
        title: str,
        signs: tuple[str, ...],
        parts: tuple[HostPart, ...],
        *,
        starts_outside: bool = False,
        **hints: str,
    ) -> None:
        self.title = title
        self.signs = signs
        self.parts = parts
        self.starts_outside = starts_outside  # the MCP server does not run in the project's folder
        self.hints = hints  # scope -> a sentence

    @property
    def about(self) -> str:
        """What is installed, in a few words."""
        words = (word for part in self.parts for word in part.about.split(" and "))
        return ", ".join(dict.fromkeys(words))

    @property
    def scopes(self) -> tuple[str, ...]:
        """For what the host can have the MCP server or hooks: one project, all projects of a user, or both."""
        main = [part for part in self.parts if not part.is_rules]
        return tuple(scope for scope in (PROJECT, USER) if any(part.places[scope] for part in main))


_SERVERS = ("mcpServers",)
# Hosts that read the first of several files with rules: a new AGENTS.md would hide the others, so the one that is there gets the block.
_ZED_RULES = (".rules", ".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md", "AGENT.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md", "AGENTS.md")  # fmt: skip
_OPENCODE_FILES = ("opencode.jsonc", ".opencode/opencode.jsonc", ".opencode/opencode.json", "opencode.json")

HOSTS: dict[str, Host] = {
    "claude-code": Host(
        "Claude Code",
        ("{project}/.claude", "{claude}"),
        (
            HostPart("{project}/.claude/settings.json", "{claude}/settings.json", hooks=_CLAUDE_SECONDS),
            HostPart("{project}/.mcp.json", section=_SERVERS),
        ),
        project="Claude Code asks before it uses the hooks and the MCP server of a project for the first time.",
        user="For the MCP server in all projects: claude mcp add --scope user smp -- smp mcp",
    ),
    "codex": Host(
        "Codex",
        ("{project}/.codex", "{codex}"),
        (
            HostPart("{project}/.codex/hooks.json", "{codex}/hooks.json", hooks=_CLAUDE_SECONDS, client="codex"),
            HostPart("{project}/.codex/config.toml", "{codex}/config.toml", section=("mcp_servers",), form=TOML),
        ),
        project="Codex asks you to review and trust new hooks before it runs them.",
        user="Codex asks you to review and trust new hooks before it runs them.",
    ),
    "gemini": Host(
        "Gemini CLI",
        ("{project}/.gemini", "{home}/.gemini"),
        (
            HostPart(
                "{project}/.gemini/settings.json",
                "{home}/.gemini/settings.json",
                hooks=_GEMINI_MILLISECONDS,
                hook_form=NAMED,
                client="gemini",
                section=_SERVERS,
            ),
        ),
        project="Gemini CLI needs hooks to be enabled; recent versions have them on.",
        user="Gemini CLI needs hooks to be enabled; recent versions have them on.",
    ),
    "cursor": Host(
        "Cursor",
        ("{project}/.cursor", "{home}/.cursor"),
        (
            HostPart(
                "{project}/.cursor/hooks.json",
                "{home}/.cursor/hooks.json",
                hooks=_CURSOR_SECONDS,
                hook_form=PLAIN,
                client="cursor",
                new_file='{\n  "version": 1\n}\n',
            ),
            HostPart("{project}/.cursor/mcp.json", "{home}/.cursor/mcp.json", section=_SERVERS),
        ),
        project="Cursor accepts memories only at the start of a session; nothing can be added to a prompt.",
        user="Cursor accepts memories only at the start of a session; nothing can be added to a prompt.",
    ),
    "vscode": Host(
        "VS Code",
        ("{project}/.vscode", "{vscode}", "{copilot}"),
        (
            HostPart(
                "{project}/.github/hooks/smp.json",
                "{copilot}/hooks/smp.json",
                hooks=_VSCODE_SECONDS,
                hook_form=TYPED,
                client="vscode",
                new_file='{\n  "version": 1\n}\n',
            ),
            HostPart("{project}/.vscode/mcp.json", "{vscode}/mcp.json", section=("servers",), form=STDIO),
            HostPart("{project}/.github/mcp.json", "{copilot}/mcp-config.json", section=_SERVERS, form=LOCAL),
            HostPart(
                "{project}/.github/instructions/smp.instructions.md",
                "{copilot}/instructions/smp.instructions.md",
                is_rules=True,
                front='---\napplyTo: "**"\n---\n',
            ),
        ),
        project="VS Code asks before it starts the server. It also runs hooks that are in .claude/settings.json: keep them in only one of the two places.",
        user="VS Code asks before it starts the server. It also runs hooks that are in ~/.claude/settings.json: keep them in only one of the two places.",
    ),
    "windsurf": Host(
        "Windsurf",
        ("{project}/.windsurf", "{home}/.codeium/windsurf"),
        (
            HostPart(user="{home}/.codeium/windsurf/mcp_config.json", section=_SERVERS),
            HostPart(user="{home}/.codeium/windsurf/memories/global_rules.md", is_rules=True),
        ),
        user="Refresh the list of MCP servers in Windsurf.",
        starts_outside=True,
    ),
    "zed": Host(
        "Zed",
        ("{project}/.zed", "{zed}"),
        (
            HostPart("{project}/.zed/settings.json", "{zed}/settings.json", section=("context_servers",)),
            HostPart(tuple(f"{{project}}/{name}" for name in _ZED_RULES), "{zed}/AGENTS.md", is_rules=True),
        ),
        project="Zed starts the server of a project once you trust the project.",
    ),
    "cline": Host(
        "Cline",
        ("{project}/.clinerules", "{cline}", "{vscode}/globalStorage/saoudrizwan.claude-dev"),
        (
            HostPart(user="{cline}/data/settings/cline_mcp_settings.json", section=_SERVERS),
            HostPart(
                user="{vscode}/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                section=_SERVERS,
                needs="{vscode}/globalStorage/saoudrizwan.claude-dev",
            ),
            HostPart(user=("{home}/Cline/Rules/smp.md", "{home}/Documents/Cline/Rules/smp.md"), is_rules=True),
        ),
        user="Reload the window in which Cline runs.",
        starts_outside=True,
    ),
    "opencode": Host(
        "OpenCode",
        ("{project}/.opencode", "{project}/opencode.json", "{project}/opencode.jsonc", "{config}/opencode"),
        (
            HostPart(
                tuple(f"{{project}}/{name}" for name in _OPENCODE_FILES),
                ("{config}/opencode/opencode.jsonc", "{config}/opencode/opencode.json"),
                section=("mcp",),
                form=LIST,
                new_file='{\n  "$schema": "https://opencode.ai/config.json"\n}\n',
            ),
            HostPart(
                ("{project}/AGENTS.md", "{project}/CLAUDE.md", "{project}/AGENTS.md"),
                ("{config}/opencode/AGENTS.md", "{claude}/CLAUDE.md", "{config}/opencode/AGENTS.md"),
                is_rules=True,
            ),
        ),
    ),
    "goose": Host(
        "Goose",
        ("{project}/.goosehints", "{goose}"),
        (
            HostPart(user="{goose}/config.yaml", section=("extensions",), form=YAML),
            HostPart(user="{goose}/.goosehints", is_rules=True),
        ),
        user="Goose reads .goosehints while its extension `developer` is on.",
    ),
    "kiro": Host(
        "Kiro",
        ("{project}/.kiro", "{home}/.kiro"),
        (
            HostPart("{project}/.kiro/settings/mcp.json", "{home}/.kiro/settings/mcp.json", section=_SERVERS),
            HostPart(
                "{project}/.kiro/steering/smp.md",
                "{home}/.kiro/steering/smp.md",
                is_rules=True,
                front="---\ninclusion: always\n---\n",
            ),
        ),
    ),
}  # fmt: skip


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

    def path(self, pattern: str) -> str:
        """The path of a file or folder in the table."""
        name, _, rest = pattern.removeprefix("{").partition("}")
        folder = self.project if name == "project" else self._user_folder(*_FOLDERS[name])
        return os.path.join(folder, *rest.split("/")[1:])

    def _user_folder(self, variable: str, *places: str) -> str:
        linux, windows, mac = places
        place = (windows if os.name == "nt" else mac if sys.platform == "darwin" else "") or linux
        named = self.environ.get(variable) if variable else ""
        return named or os.path.join(self.home, *filter(None, place.split("/")))
