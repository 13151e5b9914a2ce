"""What `smp git setup` changes: `.gitattributes`, `.gitignore`, git's configuration of a clone, and a pre-commit hook.

Guarantees: lines of others in these files stay, and their line ends. The lines of each store are in a marked block; adding it twice
changes nothing, and `--undo` removes exactly what was added. A symbolic link in the place of one of the files is refused. An existing
hook is never overwritten.

`check_staged` checks the staged files of a store before a commit: secrets, private files and conflict markers. A problem names the file,
the line and the kind, never the text. Files outside of the store are not read. Compressed files (archived sessions) are not
decompressed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.config.config_file import read_settings
from smp_memory.config.settings import Config
from smp_memory.discovery import layout_of_store
from smp_memory.errors import InvalidRecord, UserError
from smp_memory.files.cold_segment import ColdSegment
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.layouts.layout import COLD_FILE, PRIVATE
from smp_memory.files.ownership import plain_bytes
from smp_memory.files.system import RealSystem
from smp_memory.git.repository import DRIVER, DRIVER_CALL, Repository
from smp_memory.integrations.hooks.file_edit import command_here
from smp_memory.model.types import markdown_folders
from smp_memory.privacy.settings import checked, redactor_even_if_off
from smp_memory.store.opening import user_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.privacy.redaction import Redactor

# -- staged files

_CONFIG = "config.json"
_MARKERS = (b"<<<<<<<", b">>>>>>>", b"|||||||")
_COMPRESSED = (".gz", ".zip")
# fields of a session's metadata in which a mail address is a name
_PEOPLE = ("user_id", "agent_ids", "participants", "config")


class StagedProblem(NamedTuple):
    """One reason not to commit."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


def check_staged(repository: Repository, root: str) -> tuple[int, list[StagedProblem]]:
    """The number of staged files of the store, and the problems in them."""
    below = repository.relative(root)
    staged = repository.staged(below)
    problems = [StagedProblem(path, 0, "a private file of SMP; remove it: git rm --cached, and: smp git setup") for path in staged if _is_private(path, below)]  # fmt: skip
    private = {each.path for each in problems}
    checked = {path: id for path, id in staged.items() if path not in private and not path.endswith(_COMPRESSED)}
    contents = repository.contents(sorted(set(checked.values())))
    layout, redactor = _settings(root)
    for path, id in checked.items():
        problems += _problems_in(path, contents[id], layout, redactor)
    return len(staged), sorted(problems)


def _is_private(path: str, below: str) -> bool:
    inner = path.removeprefix(below).split("/")
    return PRIVATE in inner or path.endswith(TEMPORARY)


def _settings(root: str) -> tuple[Layout, Redactor]:
    path, disk = os.path.join(root, _CONFIG), Disk(RealSystem(root))
    stored = read_settings(lambda: disk.read_small(path), path)
    trusted = user_state(root).trusted_settings()
    layout = layout_of_store(disk, root, stored) or "jsonl"
    config = checked(Config.build(stored, path, environ=os.environ, layout=layout, trusted=trusted))
    return layout_named(layout), redactor_even_if_off(config)


def _problems_in(path: str, data: bytes, layout: Layout, redactor: Redactor) -> Iterator[StagedProblem]:
    if path.endswith(COLD_FILE):
        yield from _problems_in_segment(path, data, redactor)
        return
    for number, line in enumerate(data.splitlines(), 1):
        if line.startswith(_MARKERS):
            yield StagedProblem(path, number, "a conflict marker; resolve the conflict first: smp git resolve")
    seen = set()
    for number, kinds in _secrets(path, data, layout, redactor):
        if (number, kinds) not in seen:
            seen.add((number, kinds))
            yield StagedProblem(path, number, f"looks like a secret ({kinds}); remove it: smp redact")


def _problems_in_segment(path: str, data: bytes, redactor: Redactor) -> Iterator[StagedProblem]:
    segment = ColdSegment(path, data)
    for problem in segment.verify():
        yield StagedProblem(path, problem.line, problem.message)
    for found in segment.entries():
        removals = redactor.redact_fields(found.entry.data)[1]
        if removals:
            kinds = ", ".join(dict.fromkeys(removal.kind for removal in removals))
            yield StagedProblem(path, found.entry.line, f"looks like a secret ({kinds}); remove it: smp redact")


def _secrets(path: str, data: bytes, layout: Layout, redactor: Redactor) -> Iterator[tuple[int, str]]:
    folder, name = os.path.split(path)
    parent = os.path.basename(folder)
    relative = f"{parent}/{name}" if parent in markdown_folders() else name
    session = name.removesuffix(".jsonl") if layout.name == "single" else ""
    if layout.is_session_file(relative, session):
        yield from _in_entries(relative, data, layout, redactor)
    elif name == layout.info_file:
        yield from _in_metadata(data, layout, redactor)
    elif name != _CONFIG:  # its redaction patterns may themselves look like secrets
        yield from _in_text(data, 1, redactor)


def _in_entries(file: str, data: bytes, layout: Layout, redactor: Redactor) -> Iterator[tuple[int, str]]:
    for piece in layout.codec_of(file).decode(data):
        raw = data[piece.start : piece.end]
        if piece.fields is None:
            yield from _in_text(raw, piece.line, redactor)
            continue
        try:
            if piece.fields.get("type") == "session" and not layout.info_file:
                fields: dict[str, Any] = _without_people(piece.fields)
            else:
                fields = layout.field_names.decode(
                    piece.fields, layout.kind_of(file), piece.state, file, piece.line, 0
                ).data
        except InvalidRecord:
            yield from _in_text(raw, piece.line, redactor)
            continue
        removals = redactor.redact_fields(fields)[1]
        if removals:
            yield piece.line, ", ".join(dict.fromkeys(removal.kind for removal in removals))


def _in_metadata(data: bytes, layout: Layout, redactor: Redactor) -> Iterator[tuple[int, str]]:
    try:
        if layout.name == "markdown":
            from smp_memory.files.yaml_text import load_mapping

            fields = load_mapping(data).get("session")
        else:
            fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        yield from _in_text(data, 1, redactor)
        return
    removals = redactor.redact_fields(_without_people(fields))[1]
    if removals:
        lines = [line for line, _ in _in_text(data, 1, redactor)]
        yield (lines or [1])[0], ", ".join(dict.fromkeys(removal.kind for removal in removals))


def _without_people(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in _PEOPLE}


def _in_text(data: bytes, line: int, redactor: Redactor) -> Iterator[tuple[int, str]]:
    for number, text in enumerate(data.decode(errors="replace").split("\n"), line):
        removals = redactor.redact(text)[1]
        if removals:
            yield number, ", ".join(dict.fromkeys(removal.kind for removal in removals))


# -- setup

_ATTRIBUTES = ("jsonl", "json", "yaml", "md")
_IGNORED = (".smp/", "*.smp-new", "indexes/topics.yaml", "indexes/timeline.yaml", "indexes/agents.yaml")
_GLOB = re.compile(r"([\[\]*?\\])")
_NEEDS_QUOTES = re.compile(r'[\s"#!]')


def attribute_lines(root: str) -> list[str]:
    """The rules of `.gitattributes` for a store below the work tree."""
    lines = [f"{_pattern(root, f'*.{ending}')} text eol=lf merge=smp" for ending in _ATTRIBUTES]
    return [*lines, f"{_pattern(root, '*.gz')} binary", f"{_pattern(root, f'*{COLD_FILE}')} merge=smp"]


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
        raise UserError(f"{path} is a symbolic link. It was not changed; replace it with a regular file.", path=path)
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
