"""The changes of `smp git setup`: `.gitattributes`, `.gitignore`, git's configuration of a clone, and a pre-commit hook.

Guarantees: lines of others in these files stay, and their line ends. The lines of each store are in a marked block; adding it twice
changes nothing, and `--undo` removes exactly what was added. A symbolic link in the place of one of the files is refused. An existing
hook is never overwritten.
"""

from __future__ import annotations

import os
import re
import shlex
import sys

from smp_memory.errors import UserError
from smp_memory.files.disk import Disk
from smp_memory.files.ownership import plain_bytes
from smp_memory.files.system import RealSystem
from smp_memory.git.repository import DRIVER, DRIVER_CALL, Repository
from smp_memory.integrations.hooks.file_edit import command_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


_ATTRIBUTES = ("jsonl", "json", "yaml", "md")
_IGNORED = (".smp/", "*.smp-new", "indexes/topics.yaml", "indexes/timeline.yaml", "indexes/agents.yaml")
_GLOB = re.compile(r"([\[\]*?\\])")
_NEEDS_QUOTES = re.compile(r'[\s"#!]')


def attribute_lines(root: str) -> list[str]:
    """The rules of `.gitattributes` for a store below the work tree."""
    lines = [f"{_pattern(root, f'*.{ending}')} text eol=lf merge=smp" for ending in _ATTRIBUTES]
    return [*lines, f"{_pattern(root, '*.gz')} binary"]


def ignore_lines(root: str) -> list[str]:
    """The rules of `.gitignore`: private folders, unfinished files, overviews that are made from the memories."""
    return [f"{_root_pattern(root)}/**/{name}" for name in _IGNORED]


def _root_pattern(root: str) -> str:
    escaped = _GLOB.sub(r"\\\1", root)
    return f"/{escaped}" if root else ""


def _pattern(root: str, name: str) -> str:
    pattern = f"{_root_pattern(root)}/**/{name}"
    if not _NEEDS_QUOTES.search(pattern):
        return pattern
    return '"' + pattern.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def with_block(text: str, root: str, lines: list[str]) -> str:
    """The text of a file with the block of this store, replaced or added at the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    begin, close = _marks(root)
    block = end.join([begin, *lines, close]) + end
    span = _find_block(text, root)
    if span is not None:
        return text[: span[0]] + block + text[span[1] :]
    if text and not text.endswith("\n"):
        text += end
    return text + block


def without_block(text: str, root: str) -> str:
    span = _find_block(text, root)
    return text if span is None else text[: span[0]] + text[span[1] :]


def _marks(root: str) -> tuple[str, str]:
    name = root.replace("\n", " ") or "."
    return f"# >>> smp {name} (these lines are written by: smp git setup)", f"# <<< smp {name}"


def _find_block(text: str, root: str) -> tuple[int, int] | None:
    begin, close = (re.escape(mark) for mark in _marks(root))
    match = re.search(rf"^{begin}\r?\n(?:[^\n]*\n)*?{close}[ \t]*(?:\r?\n|\Z)", text, re.MULTILINE)
    return match.span() if match else None


_SECTION = "merge.smp"
_NAME, _TITLE = "merge.smp.name", "SMP session files, entry by entry"
_HOOK_MARK = "# Written by `smp git setup --pre-commit`; `smp git setup --undo` takes it out."
_LARGEST_BYTES = 1 << 20


class SetupChange:
    """The change of one file or setting: its value before and after, and the function that applies it."""

    def __init__(self, where: str, before: str, after: str, carry_out: Callable[[], None]) -> None:
        self.where = where
        self.before = before
        self.after = after
        self.carry_out = carry_out


class Setup:
    """The settings of one store in one clone."""

    def __init__(self, repository: Repository, root: str, command: str | None = None) -> None:
        self.repository = repository
        self.root = repository.relative(root)
        self.command = command or program_here()
        self.notes: list[str] = []

    def changes(self, *, undo: bool = False, hook: bool = False) -> list[SetupChange]:
        """The files and settings that have to be changed."""
        changes = [self._file(".gitattributes", attribute_lines, undo), self._file(".gitignore", ignore_lines, undo), self._driver(undo)]  # fmt: skip
        if hook or undo:
            changes.append(self._hook(undo))
        return [change for change in changes if change is not None and change.before != change.after]

    def _file(self, name: str, lines: Callable[[str], list[str]], undo: bool) -> SetupChange:
        path = os.path.join(self.repository.top, name)
        before = _read(path)
        after = without_block(before, self.root) if undo else with_block(before, self.root, lines(self.root))
        return SetupChange(path, before, after, lambda: _write(path, before, after))

    def _driver(self, undo: bool) -> SetupChange | None:
        before = self.repository.setting(DRIVER) or ""
        if before and DRIVER_CALL not in before:
            raise UserError(f"{DRIVER} is set to something else: {before}. Remove it first: git config --unset {DRIVER}", path=self.repository.top)  # fmt: skip
        if undo and self._others_use_it():
            self.notes.append("The merge driver stays registered, because another store of this work tree uses it.")
            return None
        after = "" if undo else f"{self.command} {DRIVER_CALL} %O %A %B %P"

        def register() -> None:
            if undo:
                self.repository.unset(_SECTION)
            else:
                self.repository.set(_NAME, _TITLE)
                self.repository.set(DRIVER, after)

        return SetupChange(f"git config {DRIVER}", before, after, register)

    def _others_use_it(self) -> bool:
        path = os.path.join(self.repository.top, ".gitattributes")
        return "merge=smp" in without_block(_read(path), self.root)

    def _hook(self, undo: bool) -> SetupChange | None:
        path = os.path.join(self.repository.hooks_folder(), "pre-commit")
        before = _read(path)
        line = f"{self.command} git check --root {shlex.quote(self.root or '.')} || exit 1"
        if before and _HOOK_MARK not in before:
            if not undo:
                self.notes.append(f"{path} already exists and was not changed. Add this line to it: {line}")
            return None
        kept = [each for each in before.splitlines()[2:] if each != line and f" --root {shlex.quote(self.root or '.')} " not in each]  # fmt: skip
        lines = kept if undo else [*kept, line]
        after = "\n".join(["#!/bin/sh", _HOOK_MARK, *lines]) + "\n" if lines else ""
        return SetupChange(path, before, after, lambda: _write(path, before, after, mode=0o755))


def program_here() -> str:
    """The command by which git calls SMP: its full path in a virtual environment, which is not on everybody's PATH."""
    if sys.prefix == sys.base_prefix:
        return command_here()
    beside = os.path.join(os.path.dirname(sys.executable), "smp")
    for path in (beside, beside + ".exe"):
        if os.path.exists(path):
            return shlex.quote(path.replace("\\", "/"))
    return f"{shlex.quote(sys.executable.replace(chr(92), '/'))} -m smp_memory"


def _read(path: str) -> str:
    """The text of a file; '' if it does not exist. A symbolic link or anything but a regular file is refused."""
    if os.path.islink(path):
        raise UserError(f"{path} is a symbolic link. It was not changed; replace it by a regular file.", path=path)
    try:
        data = plain_bytes(path, _LARGEST_BYTES + 1, flags=getattr(os, "O_NOFOLLOW", 0))
        if len(data) > _LARGEST_BYTES:
            raise UserError(f"{path} is larger than 1 MiB. It was not changed.", path=path)
        return data.decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{path} cannot be read ({why}). It was not changed.", path=path) from None


def _write(path: str, before: str, after: str, *, mode: int = 0o644) -> None:
    """Replace a file as a whole; it keeps its mode."""
    if _read(path) != before:
        raise UserError(f"{path} was changed meanwhile. It was left as it is; try again.", path=path)
    disk = Disk(RealSystem())
    if not after:
        disk.remove(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    kept_mode = os.stat(path).st_mode & 0o777 if before or os.path.exists(path) else mode
    disk.replace(path, after.encode())
    os.chmod(path, kept_mode)
