"""What stands in a host's settings? Lists of hooks and an MCP server, put into a JSON text and taken out again. Pure.

Guarantees: those of `json_text`. An entry is ours if it runs `smp hook` or is the server `smp` that runs `smp mcp`, whatever
path stands before it; others are never touched. One of ours that differs from what is wanted is replaced.
"""

from __future__ import annotations

from smp_memory.integrations.hooks.install import json_edit
from smp_memory.integrations.hooks.install.json_edit import NotPlain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

SERVER = "smp"


def settings_edit(
    path: str, about: str, hooks: dict[str, Any], server: dict[str, Any] | None, head: str = "{}\n"
) -> FileEdit:
    """An edit of a JSON file: what each event gets, and the MCP server; `head` is what a new file begins with."""
    from smp_memory.integrations.hooks.install.file_edit import FileEdit

    def put(text: str) -> str:
        text = text or head
        for event, entry in hooks.items():
            text = _with_hook(text, event, entry)
        return _with_server(text, server) if server is not None else text

    def take(text: str) -> str:
        text = _without_hooks(text)
        return _without_server(text) if server is not None else text

    return FileEdit(path, about, _saying_which(path, put), _saying_which(path, take))


def _saying_which(path: str, work: Callable[[str], str]) -> Callable[[str], str]:
    def checked(text: str) -> str:
        try:
            return work(text)
        except NotPlain as error:
            from smp_memory.errors import UserError

            raise UserError(
                f"{path}: {error}. It was not changed; put the entries in by hand (see docs/hooks.md), or make it plain JSON.",
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
        raise NotPlain(f'"hooks.{event}" is not a list')
    ours = [group for group in groups if _holds_ours(group)]
    if ours == [entry]:
        return text
    for _ in ours:
        text = _without_one(text, event)
    return json_edit.add(text, ("hooks", event), None, entry)


def _holds_ours(group: Any) -> bool:
    inner = group.get("hooks") if isinstance(group, dict) else None
    return is_ours(group) or (isinstance(inner, list) and any(is_ours(each) for each in inner))


def _without_hooks(text: str) -> str:
    """Without all of ours, also at events that this version does not ask for, and without lists that this leaves empty."""
    before = text
    for event, groups in list(_object(json_edit.read(text).value, "hooks").items()):
        ours = [group for group in groups if _holds_ours(group)] if isinstance(groups, list) else []
        for _ in ours:
            text = _without_one(text, event)
        if ours and not json_edit.read(text).value["hooks"][event]:
            text = json_edit.remove(text, ("hooks", event))
    if text != before and not json_edit.read(text).value["hooks"]:
        text = json_edit.remove(text, ("hooks",))
    return text


def _without_one(text: str, event: str) -> str:
    """Without the first of ours at an event; what others put into the same group stays."""
    groups = json_edit.read(text).value["hooks"][event]
    place = next(at for at, group in enumerate(groups) if _holds_ours(group))
    inner = groups[place].get("hooks")
    if isinstance(inner, list) and not all(is_ours(each) for each in inner):
        within = next(at for at, each in enumerate(inner) if is_ours(each))
        return json_edit.remove(text, ("hooks", event, place, "hooks", within))
    return json_edit.remove(text, ("hooks", event, place))


# -- the MCP server


def _with_server(text: str, server: dict[str, Any]) -> str:
    known = _object(json_edit.read(text).value, "mcpServers").get(SERVER)
    if known == server:
        return text
    if known is not None:
        if not _is_our_server(known):
            raise NotPlain(f'"mcpServers.{SERVER}" is another server')
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
    found = settings.get(name, {})
    if not isinstance(found, dict):
        raise NotPlain(f'"{name}" is not an object')
    return found
