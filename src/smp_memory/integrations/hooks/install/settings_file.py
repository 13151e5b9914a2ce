"""Add hooks and an MCP server to the JSON settings of a host, and remove them. Pure.

Guarantees: those of `json_edit`. An entry is ours if it runs `smp hook` or is the server `smp` that runs `smp mcp`, whatever its
path; others are never touched. One of ours that differs from the intended one is replaced.
"""

from __future__ import annotations

from smp_memory.integrations.hooks.install import json_edit
from smp_memory.integrations.hooks.install.json_edit import NotPlainJson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

SERVER = "smp"


def settings_edit(
    path: str, about: str, hooks: dict[str, Any], server: dict[str, Any] | None, new_file: str = "{}\n"
) -> FileEdit:
    """An edit of a JSON file that adds a hook to each event, and the MCP server; `new_file` is the text to start from."""
    from smp_memory.integrations.hooks.install.file_edit import FileEdit

    def add(text: str) -> str:
        text = text or new_file
        for event, entry in hooks.items():
            text = _with_hook(text, event, entry)
        return _with_server(text, server) if server is not None else text

    def remove(text: str) -> str:
        text = _without_hooks(text)
        return _without_server(text) if server is not None else text

    return FileEdit(path, about, _naming_file(path, add), _naming_file(path, remove))


def _naming_file(path: str, work: Callable[[str], str]) -> Callable[[str], str]:
    def checked(text: str) -> str:
        try:
            return work(text)
        except NotPlainJson as error:
            from smp_memory.errors import UserError

            raise UserError(
                f"{path}: {error}. It was not changed; add the entries by hand (see docs/hooks.md), or make it plain JSON.",
                path=path,
            ) from None

    return checked


# -- hooks


def is_ours(entry: Any) -> bool:
    """Whether an entry of a list of hooks runs `smp hook`."""
    command = entry.get("command") if isinstance(entry, dict) else None
    return isinstance(command, str) and runs(command, "hook")


def runs(command: str, what: str) -> bool:
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        return False
    for at, word in enumerate(words):
        if word == what and at:
            before = words[at - 1].replace("\\", "/").rpartition("/")[2].lower()
            if before in ("smp", "smp.exe"):
                return True
    return False


def _with_hook(text: str, event: str, entry: Any) -> str:
    hooks = _object(json_edit.read(text).value, "hooks")
    groups = hooks.get(event, [])
    if not isinstance(groups, list):
        raise NotPlainJson(f'"hooks.{event}" is not a list')
    ours = [group for group in groups if _has_ours(group)]
    if ours == [entry]:
        return text
    for _ in ours:
        text = _without_one(text, event)
    return json_edit.add(text, ("hooks", event), None, entry)


def _has_ours(group: Any) -> bool:
    inner = group.get("hooks") if isinstance(group, dict) else None
    return is_ours(group) or (isinstance(inner, list) and any(is_ours(each) for each in inner))


def _without_hooks(text: str) -> str:
    """Remove all of ours, also at events that this version does not use, and the lists that this leaves empty."""
    before = text
    for event, groups in list(_object(json_edit.read(text).value, "hooks").items()):
        ours = [group for group in groups if _has_ours(group)] if isinstance(groups, list) else []
        for _ in ours:
            text = _without_one(text, event)
        if ours and not json_edit.read(text).value["hooks"][event]:
            text = json_edit.remove(text, ("hooks", event))
    if text != before and not json_edit.read(text).value["hooks"]:
        text = json_edit.remove(text, ("hooks",))
    return text


def _without_one(text: str, event: str) -> str:
    """Remove the first of ours at an event; hooks of others in the same group stay."""
    groups = json_edit.read(text).value["hooks"][event]
    index = next(at for at, group in enumerate(groups) if _has_ours(group))
    inner = groups[index].get("hooks")
    if isinstance(inner, list) and not all(is_ours(each) for each in inner):
        inner_index = next(at for at, each in enumerate(inner) if is_ours(each))
        return json_edit.remove(text, ("hooks", event, index, "hooks", inner_index))
    return json_edit.remove(text, ("hooks", event, index))


# -- the MCP server


def _with_server(text: str, server: dict[str, Any]) -> str:
    known = _object(json_edit.read(text).value, "mcpServers").get(SERVER)
    if known == server:
        return text
    if known is not None:
        if not _is_our_server(known):
            raise NotPlainJson(f'"mcpServers.{SERVER}" is another server')
        text = json_edit.remove(text, ("mcpServers", SERVER))
    return json_edit.add(text, ("mcpServers",), SERVER, server)


def _without_server(text: str) -> str:
    servers = _object(json_edit.read(text).value, "mcpServers")
    if _is_our_server(servers.get(SERVER)):
        text = json_edit.remove(text, ("mcpServers", SERVER))
        if not json_edit.read(text).value["mcpServers"]:
            text = json_edit.remove(text, ("mcpServers",))
    return text


def _is_our_server(server: Any) -> bool:
    if not isinstance(server, dict):
        return False
    command, words = server.get("command"), server.get("args")
    parts = [command, *(words if isinstance(words, list) else [])]
    import shlex

    return all(isinstance(part, str) for part in parts) and runs(shlex.join(parts), "mcp")


def _object(settings: Any, name: str) -> dict[str, Any]:
    value = settings.get(name, {})
    if not isinstance(value, dict):
        raise NotPlainJson(f'"{name}" is not an object')
    return value
