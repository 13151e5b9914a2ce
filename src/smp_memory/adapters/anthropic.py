"""Anthropic's memory tool over a store: each file below /memories is an artifact of one session.

    client.beta.messages.tool_runner(model=…, messages=…, tools=[SMPMemoryTool("path/to/store")])

Guarantees: the answers and errors are those of `BetaLocalFilesystemMemoryTool`. Each edit is a revision of the file's memory; deleted
files are in the trash. Several processes may share the files: an edit of a text that changed meanwhile is made again on the new text, and of two
that create a file one is told that it exists. Renaming or deleting a folder takes effect as a whole.
Differences from that class: a command that fails changes nothing and raises `ToolError`, where it may leave folders behind or raise an
`OSError`; the size of a folder is that of its files. A renamed file is a new memory with `renamed_from`; its earlier history is that of
the old path, in the trash.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, BridgeOwner
from smp_memory.adapters.documents import CHANGED_MEANWHILE, Tree, TreeChanges
from smp_memory.errors import SMPError

try:
    from anthropic.lib.tools import ToolError
    from anthropic.tools.memory import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
except ImportError as error:
    raise ImportError("The Anthropic memory tool needs anthropic: pip install 'smp-memory[anthropic]'") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

    from smp_memory.memory import Memory

ROOT = "/memories"
_MAX_LINES = 999_999
_LEVELS = 2  # of folders that a listing shows
_UNITS = "BKMG"
_TRIES = 20  # how often other processes may change a file while it is edited


class SMPMemoryTool(BridgeOwner, BetaAbstractMemoryTool):
    """The memory tool over a store. `namespace` divides the files of several users or agents."""

    def __init__(
        self,
        memory: Memory | str | os.PathLike[str] | None = None,
        namespace: str = "memories",
        *,
        author: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.bridge = Bridge(memory, "anthropic", author)
        self._session = self.bridge.session(namespace)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        path = _resolved(command.path)
        tree = self._tree()
        content = tree.content(path)
        if content is not None:
            return _numbered(command.path, content, command.view_range)
        if not tree.is_folder(path):
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        header = f"Here're the files and directories up to 2 levels deep in {command.path}, excluding hidden items:"
        start = len(path) + 1 if path else 0
        below = (f"{_size(tree.size(name.rstrip('/')))}\t{command.path}/{name[start:]}" for name in _listed(tree, path))
        return "\n".join([header, f"{_size(tree.size(path))}\t{command.path}", *below])

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        path = _resolved(command.path)

        def create(tree: Tree, changes: TreeChanges) -> None:
            if tree.exists(path):
                raise ToolError(f"File {command.path} already exists")
            _check_folders(tree, path, command.path)
            changes.write(path, command.file_text)

        self._change(create)
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        path = _resolved(command.path)
        snippet: list[str] = []

        def replace(tree: Tree, changes: TreeChanges) -> None:
            content = _text(tree, path, command.path)
            line = _only_line_with(content, command.old_str, command.path)
            edited = content.replace(command.old_str, command.new_str)
            changes.write(path, edited)
            first = max(0, line - 2)
            snippet[:] = _with_numbers(edited.split("\n")[first : line + 3], first + 1)

        self._change(replace)
        header = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([header, *snippet])

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        path, at = _resolved(command.path), command.insert_line

        def insert(tree: Tree, changes: TreeChanges) -> None:
            lines = _text(tree, path, command.path).split("\n")
            if lines[-1] == "":
                lines.pop()  # behind the last line end
            if not 0 <= at <= len(lines):
                allowed = f"It should be within the range [0, {len(lines)}]."
                raise ToolError(f"Invalid `insert_line` parameter: {at}. {allowed}")
            lines.insert(at, command.insert_text.rstrip("\n"))
            content = "\n".join(lines)
            changes.write(path, content if content.endswith("\n") else f"{content}\n")

        self._change(insert)
        return f"The file {command.path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        path = _resolved(command.path)
        if not path:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")

        def delete(tree: Tree, changes: TreeChanges) -> None:
            if not tree.exists(path):
                raise ToolError(f"The path {command.path} does not exist")
            for name in tree.within(path):
                changes.delete(name)
            changes.keep_folder_of(path)

        self._change(delete)
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        old, new = _resolved(command.old_path), _resolved(command.new_path)
        if not old:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")

        def rename(tree: Tree, changes: TreeChanges) -> None:
            if tree.exists(new):
                raise ToolError(f"The destination {command.new_path} already exists")
            if not tree.exists(old):
                raise ToolError(f"The path {command.old_path} does not exist")
            _check_folders(tree, new, command.new_path)
            if new.startswith(f"{old}/"):
                raise ToolError(f"Cannot rename {command.old_path} to {command.new_path}, which is inside of it")
            for name in tree.within(old):
                changes.move(name, new + name[len(old) :])
            changes.keep_folder_of(old)

        self._change(rename)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        """Move all files to the trash."""

        def clear(tree: Tree, changes: TreeChanges) -> None:
            for name in tree.within(""):
                changes.delete(name)

        self._change(clear)
        return "All memory cleared"

    def _tree(self) -> Tree:
        try:
            return Tree(self._session)
        except SMPError as error:
            raise ToolError(str(error)) from error

    def _change(self, plan: Callable[[Tree, TreeChanges], None]) -> None:
        """Carry out what a function plans for the present tree; plan again if another process changed it meanwhile."""
        for _ in range(_TRIES):
            tree = self._tree()
            changes = TreeChanges(tree)
            plan(tree, changes)
            try:
                return changes.commit()
            except CHANGED_MEANWHILE:
                continue
            except SMPError as error:
                raise ToolError(str(error)) from error
        raise ToolError("Other processes keep changing the file. Nothing was changed; try again.")


class SMPAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for an `AsyncAnthropic` client."""

    def __init__(
        self,
        memory: Memory | str | os.PathLike[str] | None = None,
        namespace: str = "memories",
        *,
        author: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.tool = SMPMemoryTool(memory, namespace, author=author)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await aio.call(self.tool.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await aio.call(self.tool.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await aio.call(self.tool.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await aio.call(self.tool.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await aio.call(self.tool.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await aio.call(self.tool.rename, command)

    async def clear_all_memory(self) -> str:
        """Move all files to the trash."""
        return await aio.call(self.tool.clear_all_memory)

    async def close(self) -> None:
        """Close the store if the tool opened it."""
        await aio.call(self.tool.close)


# -- paths


def _resolved(path: str) -> str:
    """The path below the root, without dots and double slashes; '' is the root."""
    if not path.startswith(ROOT):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    resolved = posixpath.normpath(f"{ROOT}/{path[len(ROOT) :]}")
    if resolved != ROOT and not resolved.startswith(f"{ROOT}/"):
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    return resolved[len(ROOT) + 1 :]


def _check_folders(tree: Tree, path: str, given: str) -> None:
    above = tree.file_above(path)
    if above is not None:
        raise ToolError(f"Cannot use {given}: {ROOT}/{above} is a file, not a directory")


def _listed(tree: Tree, path: str, level: int = 1) -> Iterator[str]:
    """The paths of what a listing of a folder shows; those of folders end with a slash."""
    for name in tree.children(path):
        if name.rstrip("/").rpartition("/")[2].startswith("."):
            continue
        yield name
        if name.endswith("/") and level < _LEVELS:
            yield from _listed(tree, name[:-1], level + 1)


# -- texts


def _text(tree: Tree, path: str, given: str) -> str:
    content = tree.content(path)
    if content is not None:
        return content
    if tree.is_folder(path):
        raise ToolError(f"The path {given} is not a file.")
    raise ToolError(f"The path {given} does not exist. Please provide a valid path.")


def _numbered(given: str, content: str, view_range: list[int] | None) -> str:
    lines = content.split("\n")
    if len(lines) > _MAX_LINES:
        raise ToolError(f"File {given} exceeds maximum line limit of {_MAX_LINES:,} lines.")
    first = 0
    if view_range and len(view_range) == 2:
        first, last = max(1, view_range[0]) - 1, view_range[1]
        lines = lines[first : None if last == -1 else last]
    return f"Here's the content of {given} with line numbers:\n" + "\n".join(_with_numbers(lines, first + 1))


def _with_numbers(lines: Iterable[str], first: int) -> list[str]:
    width = len(str(_MAX_LINES))
    return [f"{number:>{width}}\t{line}" for number, line in enumerate(lines, first)]


def _only_line_with(content: str, old: str, given: str) -> int:
    """The number of the line, from 0, in which the text to replace begins; ToolError unless it is there once."""
    starts = list(_starts(content, old))
    if not starts:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {given}.")
    if content.count(old) > 1:
        lines = ", ".join(str(content.count("\n", 0, start) + 1) for start in starts)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please ensure it is unique"
        )
    return content.count("\n", 0, starts[0])


def _starts(content: str, old: str) -> Iterator[int]:
    """Where a text stands in another, also where two overlap."""
    at = content.find(old)
    while at >= 0:
        yield at
        at = content.find(old, at + 1)


def _size(size: int) -> str:
    """A number of bytes with its unit: 0B, 1.5K, 2M."""
    unit = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    scaled = size / 1024**unit
    return f"{int(scaled) if scaled == int(scaled) else format(scaled, '.1f')}{_UNITS[unit]}"
