"""Add the MCP server to a TOML file as a block between two marks at its end. Pure.

Guarantees: nothing else in the file changes; a file that is not TOML, or that has a server `smp` of its own, is refused.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.integrations.hooks.install.file_edit import FileEdit

BEGIN = "# >>> smp: written by `smp install codex`"
END = "# <<< smp"


def block_edit(path: str, about: str, command: str) -> FileEdit:
    from smp_memory.integrations.hooks.install.file_edit import FileEdit

    def add(text: str) -> str:
        if _block(command) in text:
            return text
        rest = _without_block(text)
        known = _parse(path, rest).get("mcp_servers")
        if isinstance(known, dict) and "smp" in known:
            from smp_memory.errors import UserError

            raise UserError(f"{path}: it already has a server [mcp_servers.smp]. It was not changed.", path=path)
        between = "" if not rest or rest.endswith("\n\n") else "\n" if rest.endswith("\n") else "\n\n"
        after = f"{rest}{between}{_block(command)}"
        _parse(path, after)
        return after

    def remove(text: str) -> str:
        _parse(path, text)
        return _without_block(text)

    return FileEdit(path, about, add, remove)


def _block(command: str) -> str:
    import json

    from smp_memory.integrations.hooks.install.file_edit import server_command

    server = server_command(command)
    words = ", ".join(json.dumps(word) for word in server["args"])
    return f"{BEGIN}\n[mcp_servers.smp]\ncommand = {json.dumps(server['command'])}\nargs = [{words}]\n{END}\n"


def _without_block(text: str) -> str:
    start = text.find(BEGIN)
    end = text.find(END, start)
    if start < 0 or end < 0:
        return text
    rest = text[end + len(END) :].removeprefix("\r").removeprefix("\n")
    before = text[:start]
    return before.rstrip("\n") + "\n" + rest if before.strip() and not rest else before + rest


def _parse(path: str, text: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        from smp_memory.errors import UserError

        raise UserError(f"{path}: not TOML ({error}). It was not changed.", path=path) from None
