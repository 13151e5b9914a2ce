"""Check the staged files of a store before a commit: secrets, private files and conflict markers.

Guarantees: a problem names the file, the line and the kind, never the text. Files outside of the store are not read.
Non-guarantees: compressed files (archived sessions) are not decompressed.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.config.config_file import read_settings
from smp_memory.config.settings import Config
from smp_memory.discovery import layout_of_store
from smp_memory.errors import InvalidRecord
from smp_memory.files.cold_segment import ColdSegment
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.layouts.layout import COLD_FILE, PRIVATE
from smp_memory.files.system import RealSystem
from smp_memory.model.types import markdown_folders
from smp_memory.privacy.settings import checked, redactor_even_if_off
from smp_memory.store.opening import user_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.git.repository import Repository
    from smp_memory.privacy.redaction import Redactor

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
            yield StagedProblem(path, number, "a conflict marker; resolve the conflict first")
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
