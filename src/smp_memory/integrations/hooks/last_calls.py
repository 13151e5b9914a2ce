"""Which coding agents call SMP for a store: hooks in their settings, and when each host called last.

A call leaves an empty file in the user's state of the store, `calls/claude-code`; its modification time is the time of the call. The
process that records in the background writes it, so the host does not wait for it. `calls/mcp` is for clients of the MCP server.
Guarantees: noting a call never raises, and the file holds nothing. Only calls for a store that the user trusts are noted.
Non-guarantees: hooks that a plugin of the host installs are not in its settings; they are known once they have called.
"""

from __future__ import annotations

import os

from smp_memory.errors import SMPError
from smp_memory.files.ownership import plain_bytes
from smp_memory.integrations.hooks.hosts import HOSTS, PROJECT, USER, InstallTarget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from smp_memory.files.user_state import UserState

FOLDER = "calls"
MCP, OTHER = "mcp", "other"
_LIMIT_BYTES = 1 << 20

WITH_HOOKS = {name: host for name, host in HOSTS.items() if any(part.hooks for part in host.parts)}
TITLES = {name: host.title for name, host in WITH_HOOKS.items()} | {
    "copilot": "Copilot CLI",  # it has its hooks from VS Code's row
    OTHER: "Another host",
    MCP: "MCP client",
}


def note_call(state: UserState, client: str) -> None:
    """Note that a host or an MCP client called now."""
    if client in TITLES:
        try:
            state.write(f"{FOLDER}/{client}", b"")
        except (OSError, SMPError):
            pass  # a full or read-only disk


def last_calls(state: UserState) -> dict[str, float]:
    """When each host, or an MCP client, called last, in seconds since 1970."""
    found = {name: state.modified_at(f"{FOLDER}/{name}") for name in TITLES}
    return {name: at for name, at in found.items() if at is not None}


def hosts_with_hooks(project: str, environ: Mapping[str, str]) -> list[str]:
    """The hosts whose settings, for this project or for the user, contain a hook of SMP."""
    target = InstallTarget(PROJECT, project, os.path.expanduser("~"), environ)
    return [
        name
        for name, host in WITH_HOOKS.items()
        if any(_has_hook(target.path(place)) for part in host.parts if part.hooks for place in (*part.places[PROJECT], *part.places[USER]))
    ]  # fmt: skip


def _has_hook(path: str) -> bool:
    try:
        data = plain_bytes(path, _LIMIT_BYTES)
    except OSError:
        return False
    return b"smp" in data and b" hook" in data
