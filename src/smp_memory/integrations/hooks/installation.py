"""Edits of the files of a host, made from its row in the table. Nothing is written here: the command line shows the edits as a diff,
asks, and applies them."""

from __future__ import annotations

import os

from smp_memory.errors import UserError
from smp_memory.integrations.hooks import hosts
from smp_memory.integrations.hooks.block_edit import rules_edit, toml_edit, yaml_edit
from smp_memory.integrations.hooks.file_edit import FileEdit, server_command, settings_edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.integrations.hooks.hosts import HostPart, InstallTarget


class TableHost:
    """A host of the table as the command line installs it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._host = hosts.HOSTS[name]
        self.TITLE = self._host.title
        self.ABOUT = self._host.about
        self.SCOPES = self._host.scopes

    def is_present(self, target: InstallTarget) -> bool:
        """Whether this machine, or this project, has the host."""
        return any(os.path.exists(target.path(sign)) for sign in self._host.signs)

    def edits(self, target: InstallTarget, command: str) -> list[FileEdit]:
        """The changes, one for each file."""
        found = []
        for part in self._host.parts if target.scope in self.SCOPES else ():
            places = part.places[target.scope]
            if places and (not part.needs or os.path.isdir(target.path(part.needs))):
                found.append(_choose([_edit(self.name, part, target.path(each), target, command) for each in places]))
        return found

    def hints(self, target: InstallTarget) -> list[str]:
        """What a person should know or do afterwards, in sentences."""
        hint = self._host.hints.get(target.scope)
        outside = (
            f"{self.TITLE} starts the MCP server outside of your projects. To name one store for all of them: "
            f"smp --root DIR install {self.name}"
        )
        return [*([hint] if hint else []), *([outside] if self._host.starts_outside and not target.store else [])]


def hook_command(command: str, client: str = "", store: str = "") -> str:
    """The command of a hook."""
    from shlex import quote

    words = (f"{command} hook", f"--client {client}" if client else "", f"--root {quote(store)}" if store else "")
    return " ".join(filter(None, words))


def hook_entries(part: HostPart, command: str) -> dict[str, Any]:
    """The hook of each event, in the form that the host reads."""
    typed = {"type": "command", "command": command}
    forms: dict[str, Any] = {
        hosts.GROUPED: lambda time: {"hooks": [{**typed, "timeout": time}]},
        hosts.NAMED: lambda time: {"hooks": [{"name": "smp", **typed, "timeout": time}]},
        hosts.PLAIN: lambda time: {"command": command, "timeout": time},
        hosts.TYPED: lambda time: {**typed, "timeout": time},
    }
    return {event: forms[part.hook_form](time) for event, time in part.hooks.items()}


def _edit(name: str, part: HostPart, path: str, target: InstallTarget, command: str) -> FileEdit:
    if part.is_rules:
        return rules_edit(path, name, part.front)
    server = server_command(command, target.store)
    if part.form in (hosts.TOML, hosts.YAML):
        return (toml_edit if part.form == hosts.TOML else yaml_edit)(path, part.about, server)
    entries = hook_entries(part, hook_command(command, part.client, target.store))
    entry = _server_entry(part.form, server) if part.section else None
    return settings_edit(path, part.about, entries, part.section, entry, part.new_file)


def _server_entry(form: str, server: dict[str, Any]) -> dict[str, Any]:
    if form == hosts.LIST:
        return {"type": "local", "command": [server["command"], *server["args"]], "enabled": True}
    if form == hosts.LOCAL:
        return {"type": "local", **server, "tools": ["*"]}
    return {"type": "stdio", **server} if form == hosts.STDIO else server


def _choose(candidates: list[FileEdit]) -> FileEdit:
    """Of the files that a host may read: the first with a part of ours, else the first that exists, else the last."""
    for edit in candidates if len(candidates) > 1 else ():
        try:
            if edit.now() != edit.without():
                return edit
        except UserError:
            continue  # it cannot be read; if it is the one to use, its edit says so
    return next((edit for edit in candidates if os.path.isfile(edit.path)), candidates[-1])
