"""Install into Codex: hooks in `hooks.json`, beside its configuration, and the MCP server in `config.toml`."""

from __future__ import annotations

import os

from smp_memory.integrations.hooks.install import InstallTarget
from smp_memory.integrations.hooks.install.claude_code import hooks
from smp_memory.integrations.hooks.install.settings_file import settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.integrations.hooks.install.file_edit import FileEdit

TITLE = "Codex"
ABOUT = "hooks in hooks.json, an MCP server in config.toml"


def is_present(target: InstallTarget) -> bool:
    return os.path.isdir(target.folder(".codex", "CODEX_HOME")) or os.path.isdir(
        target.environ.get("CODEX_HOME") or os.path.join(target.home, ".codex")
    )


def edits(target: InstallTarget, command: str) -> list[FileEdit]:
    from smp_memory.integrations.hooks.install.toml_block import block_edit

    folder = target.folder(".codex", "CODEX_HOME")
    return [
        settings_edit(os.path.join(folder, "hooks.json"), "hooks", hooks(f"{command} hook --client codex"), None),
        block_edit(os.path.join(folder, "config.toml"), "MCP server", command),
    ]


def hints(target: InstallTarget) -> list[str]:
    return ["Codex asks you to review and trust new hooks before it runs them."]
