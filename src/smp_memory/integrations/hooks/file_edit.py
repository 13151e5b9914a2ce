"""Edits of the settings files of a host: hooks and an MCP server in JSON. Pure, but for reading.

Guarantees
- Installing twice changes nothing. Removing restores the bytes from before, if nobody changed the file since: then the backup
  beside it (`.smp-backup`) is what the installation started from. Otherwise exactly our own parts are removed. A file that cannot
  be parsed is refused, never rewritten.
- In JSON, an entry is ours if it runs `smp hook` or is the server `smp` that runs `smp mcp`, whatever its path; others are never
  touched. A hook of ours that differs from the intended one is replaced. A server of ours keeps what the host or a person added to
  its entry, such as the tools that need no confirmation. The rest is what `json_edit` guarantees; `block_edit` is for files that are not JSON.

The command is the name `smp` where every host finds it, else its absolute path: a host starts hooks in its own environment, and a
program inside a virtual environment is on the PATH only where that environment is active.
"""

from __future__ import annotations

import errno
import os
import sys

from smp_memory.errors import UserError
from smp_memory.files.ownership import plain_bytes
from smp_memory.integrations.hooks import json_edit
from smp_memory.integrations.hooks.json_edit import NotPlainJson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BACKUP = ".smp-backup"
_LARGEST_BYTES = 16 << 20


class FileEdit:
    """An edit of one file. `add` and `remove` are functions from text to text; '' stands for a file that does not exist."""

    def __init__(self, path: str, about: str, add: Callable[[str], str], remove: Callable[[str], str]) -> None:
        self.name = os.path.abspath(path)
        self.path = os.path.realpath(path)  # a link stays a link
        self.about = about
        self._add = add
        self._remove = remove

    def leads_out_of(self, folder: str) -> bool:
        """Whether the file is named below a folder, and a link leads out of it."""
        below = os.path.abspath(folder) + os.sep
        return self.name.startswith(below) and not self.path.startswith(os.path.realpath(folder) + os.sep)

    def now(self) -> str:
        """The text of the file; '' if it does not exist."""
        return _read(self.path)

    @property
    def is_installed(self) -> bool:
        """Whether the file has our parts as this version would write them."""
        text = self.now()
        return bool(text) and self._add(text) == text

    def installed(self) -> str:
        return self._add(self.now())

    def without(self) -> str:
        """The text without our parts; '' if the file is to be removed, too."""
        text = self.now()
        if not text:
            return ""
        backup = _read(self.path + BACKUP)
        if backup and self._add(backup) == text:
            return backup
        return "" if self._add("") == text else self._remove(text)


def diff(path: str, before: str, after: str) -> list[str]:
    """A unified diff of a file's change."""
    from difflib import unified_diff

    old, new = before.splitlines(), after.splitlines()
    return list(unified_diff(old, new, path if before else os.devnull, path if after else os.devnull, lineterm=""))


def _read(path: str) -> str:
    try:
        data = plain_bytes(path, _LARGEST_BYTES + 1)
        if len(data) > _LARGEST_BYTES:
            raise OSError(errno.EFBIG, f"larger than {_LARGEST_BYTES >> 20} MiB", path)
        return data.decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{path}: {why}. It was not changed.", path=path) from None


# -- the command


def command_here() -> str:
    """The command for a shell: a name, which works for everybody who has SMP, or else a path on this machine."""
    from shlex import quote
    from shutil import which

    beside = which("smp", path=os.path.dirname(sys.executable))
    found = which("smp")
    is_same = found is not None and (beside is None or os.path.realpath(found) == os.path.realpath(beside))
    if found is not None and is_same and not _is_in_environment(found) and (beside or not _environment()):
        return "smp"
    return quote(beside) if beside is not None else f"{quote(sys.executable)} -m smp_memory"


def environment_of(command: str) -> str | None:
    """The virtual environment whose program a command names by its path; None if it names none."""
    import shlex

    return _environment() if _is_in_environment(shlex.split(command)[0]) else None


def _environment() -> str | None:
    """The virtual environment in which this process runs."""
    return sys.prefix if sys.prefix != sys.base_prefix else None


def _is_in_environment(program: str) -> bool:
    folder = _environment()
    return folder is not None and os.path.isabs(program) and program.startswith(os.path.join(folder, ""))


def server_command(command: str, store: str = "") -> dict[str, Any]:
    """The MCP server in the form of hosts' settings: a program and its arguments. `store`: the address of the store, if it is named."""
    import shlex

    program, *words = shlex.split(command)
    return {"command": program, "args": [*words, "mcp", *(["--root", store] if store else [])]}


def stated_store(text: str) -> str:
    """The address of a store that entries of ours in a file name; empty if they name none."""
    _, found, rest = text.partition("--root")
    words = rest.replace('"', " ").replace("'", " ").replace(",", " ").replace("]", " ").split()
    return words[0].strip("\\") if found and words else ""


# -- JSON settings

SERVER = "smp"
_NESTED = "transport"
_COMMAND = ("type", "command", "args")  # must be as intended; the host or a person may change the rest
_BARE_SERVERS = ("type", "command", "url", "enabled")  # names in the entry of a server


def settings_edit(
    path: str,
    about: str,
    hooks: dict[str, Any],
    section: tuple[str, ...] = (),
    server: dict[str, Any] | None = None,
    new_file: str = "{}\n",
) -> FileEdit:
    """An edit of a JSON file that adds a hook to each event, and the MCP server to a section; `new_file` is the text to start from."""
    by_hand = (section, server) if server is not None else None

    def add(text: str) -> str:
        text = text or new_file
        for event, entry in hooks.items():
            text = _with_hook(text, event, entry)
        return _with_server(text, section, server) if server is not None else text

    def remove(text: str) -> str:
        rest = _without_hooks(text) if hooks else text
        rest = _without_server(rest, section) if server is not None else rest
        return "" if rest == new_file != text else rest  # nothing is left but what the file began with

    return FileEdit(path, about, _naming_file(path, add, by_hand), _naming_file(path, remove, by_hand))


def _naming_file(
    path: str, work: Callable[[str], str], by_hand: tuple[tuple[str, ...], dict[str, Any]] | None
) -> Callable[[str], str]:
    def checked(text: str) -> str:
        try:
            return work(text)
        except NotPlainJson as error:
            entry = f" The MCP server: {_nested(*by_hand)}" if by_hand is not None else ""
            raise UserError(
                f"{path}: {error}. It was not changed; add the entries by hand (`smp install` with --dry-run in an empty folder shows them), or make it plain JSON.{entry}",
                path=path,
            ) from None

    return checked


def _nested(section: tuple[str, ...], server: dict[str, Any]) -> str:
    import json

    whole: dict[str, Any] = {SERVER: server}
    for name in reversed(section):
        whole = {name: whole}
    return json.dumps(whole, ensure_ascii=False)


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
            if before in ("smp", "smp.exe", "smp_memory"):
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


def _with_server(text: str, section: tuple[str, ...], server: dict[str, Any]) -> str:
    path, servers = _servers(text, section)
    known = servers.get(SERVER)
    if known is None:
        return json_edit.add(text, path, SERVER, server)
    if not is_our_server(known):
        raise NotPlainJson(f'"{".".join(path)}.{SERVER}" is another server')
    wanted = {name: server[name] for name in _COMMAND if name in server}
    stated = _command_part(known)
    if all(stated.get(name) == value for name, value in wanted.items()):
        return text
    wanted = {**server, **{name: value for name, value in known.items() if name != _NESTED}, **wanted}
    return json_edit.add(json_edit.remove(text, (*path, SERVER)), path, SERVER, wanted)


def _without_server(text: str, section: tuple[str, ...]) -> str:
    path, servers = _servers(text, section)
    if not is_our_server(servers.get(SERVER)):
        return text
    text = json_edit.remove(text, (*path, SERVER))
    for depth in range(len(path), 0, -1):
        inner = json_edit.read(text).value
        for name in path[:depth]:
            inner = inner[name]
        if inner:
            break
        text = json_edit.remove(text, path[:depth])
    return text


def _servers(text: str, section: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The path of the servers, and those that are there. OpenCode 2 has a level `servers` of its own; a file that has it keeps it."""
    found = json_edit.read(text).value
    for name in section:
        found = _object(found, name)
    inner = found.get("servers") if section == ("mcp",) else None
    if isinstance(inner, dict) and not any(name in inner for name in _BARE_SERVERS):
        return (*section, "servers"), inner
    return section, found


def is_our_server(server: Any) -> bool:
    """Whether an entry runs `smp mcp`: a program and its arguments, or one list of both."""
    if not isinstance(server, dict):
        return False
    stated = _command_part(server)
    command, words = stated.get("command", stated.get("cmd")), stated.get("args")
    parts = [*(command if isinstance(command, list) else [command]), *(words if isinstance(words, list) else [])]
    import shlex

    return all(isinstance(part, str) for part in parts) and runs(shlex.join(parts), "mcp")


def _command_part(server: dict[str, Any]) -> dict[str, Any]:
    """The part of an entry that has the command: Cline nests it when it writes its file anew."""
    inner = server.get(_NESTED)
    return inner if isinstance(inner, dict) else server


def _object(settings: Any, name: str) -> dict[str, Any]:
    value = settings.get(name, {})
    if not isinstance(value, dict):
        raise NotPlainJson(f'"{name}" is not an object')
    return value
