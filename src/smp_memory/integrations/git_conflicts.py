"""What a merge left to decide in a store that git keeps: both sides of each conflict, and carrying out a choice.

Three kinds: fields of a memory that both sides changed (`session.conflicts`; the choice is a change, and the history keeps both), entries
of which only one side can stay, and metadata of a session. What goes of a file is quarantined, and git has it in the commits of both sides.

`ConflictedStore.merge_again` merges files anew that git merged without the driver, from the versions in git's index, unless
somebody changed them since. Guarantees: files of sessions are changed under their locks; nothing is staged or committed.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidRecord, SMPError, UserError
from smp_memory.git.entry_files import CannotMerge
from smp_memory.git.marked_files import (
    OURS,
    THEIRS,
    Hunk,
    hunks_in,
    metadata_hunks,
    side_choices,
    with_choice,
    with_sides,
    without_marker_lines,
)
from smp_memory.git.merge import merge
from smp_memory.git.merge_driver import text_merge, text_merges
from smp_memory.git.metadata_conflicts import find_conflict
from smp_memory.model.times import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.git.entry_files import Unit
    from smp_memory.git.marked_files import SideChoice
    from smp_memory.git.repository import Repository
    from smp_memory.lifecycle.conflicts import ConcurrentChange, ConcurrentValue
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.store.port import SessionFiles

FIELDS, ENTRIES, METADATA = "fields", "entries", "metadata"
CURRENT, OTHER = "current", "other"  # the sides of a conflict without markers: who wrote what is not known
_NOT_SHOWN = frozenset(
    ["id", "seq", "uid", "uids", "checksum", "schema", "type", "tx", "session_id", "revision", "smp"]
)
_ARGUMENTS = frozenset(["self", "id", "expected_revision", "by"])  # of `update`; a file may have fields of these names


class Side(NamedTuple):
    """One side of a conflict."""

    name: str
    fields: dict[str, Any] | None  # those that differ; None: the memory was removed
    at: str
    by: str | None
    is_used: bool  # until somebody decides

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"side": self.name, "fields": self.fields, "at": self.at or None, "by": self.by, "used": self.is_used}


class GitConflict(NamedTuple):
    """Something to decide in a session."""

    session: SessionMemory
    kind: str
    id: str  # of the memory; "metadata"
    sides: tuple[Side, Side]
    record: Record | None = None
    file: str = ""
    hunks: tuple[tuple[bytes, bytes], ...] = ()  # of metadata: ours and theirs

    @property
    def ref(self) -> str:
        return f"{self.session.id}/{self.id}"

    def side(self, name: str) -> Side:
        for each in self.sides:
            if each.name == name:
                return each
        names = " or ".join(each.name for each in self.sides)
        why = ": the files do not say which clone wrote which value" if name in (OURS, THEIRS) else ""
        raise UserError(f"{self.ref} has no side {name}{why}. Take {names}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        record = self.record
        about = {"type": record.type, "text": record.text} if record is not None else {}
        return {"session": self.session.id, "id": self.id, "kind": self.kind, **about, "sides": [each.to_dict() for each in self.sides]}  # fmt: skip


class ConflictedStore:
    """The conflicts of a store in a work tree."""

    def __init__(self, memory: Memory, repository: Repository, session: SessionMemory | None = None) -> None:
        self._memory = memory
        self._repository = repository
        self._only = session
        self._touched: set[str] = set()  # sessions with files that a choice changed
        self.below = repository.relative(memory.root)

    def sessions(self) -> list[SessionMemory]:
        if self._only is not None:
            return [self._only]
        return [self._memory.session(head.session) for head in self._memory.store.sessions()]

    def unmerged(self) -> dict[str, dict[int, str]]:
        """The files that git calls unmerged, see `Repository.unmerged`."""
        return self._repository.unmerged(self.below)

    def marked(self) -> list[str]:
        """The paths of session files with markers."""
        return [self._path(session, name) for session in self.sessions() for name in _marked_files(session)]

    def is_of_session(self, path: str) -> bool:
        """Whether a path of the work tree is a file of a live session."""
        return any(
            path == self._path(session, name) for session in self.sessions() for name, _, _ in _stored_files(session)
        )

    def writer(self, side: Side) -> str:
        """Who wrote a side: as the entry says, else the author of the side's commit."""
        _, theirs = self._repository.operation()
        commit = {OURS: "HEAD", THEIRS: theirs}.get(side.name, "")
        return ", ".join(
            filter(None, [side.by or "", f"commit {known}" if (known := self._repository.author_of(commit)) else ""])
        )

    def _path(self, session: SessionMemory, name: str) -> str:
        return self._repository.relative(os.path.join(session.folder, name))

    # -- finding

    def merge_again(self) -> list[str]:
        """Merge files anew that git merged as text, or not at all; returns their paths."""
        unmerged = {path: ids for path, ids in self.unmerged().items() if {2, 3} <= ids.keys()}
        found: list[str] = []
        for session in self.sessions() if unmerged else ():

            def edit(name: str, data: bytes, _: Any, session: SessionMemory = session) -> tuple[bytes, list[bytes]]:
                path = self._path(session, name)
                return self._merged(path, unmerged[path], data) if path in unmerged else data, []

            changed = [name for name, data, layout in _stored_files(session) if edit(name, data, layout)[0] != data]
            if changed:
                _storage(session).edit_files(edit)
                found += [self._path(session, name) for name in changed]
        return found

    def _merged(self, path: str, ids: dict[int, str], data: bytes) -> bytes:
        contents = self._repository.contents(sorted(set(ids.values())))
        base, ours, theirs = (contents[ids[stage]] if stage in ids else b"" for stage in (1, 2, 3))
        texts = [ours, *(without_marker_lines(each) for each in text_merges(base, ours, theirs))]
        if without_marker_lines(data) not in texts or (data != ours and not hunks_in(data)):
            return data
        try:
            return merge(base, ours, theirs, path, text_merge).data
        except CannotMerge:
            return data

    def conflicts(self) -> list[GitConflict]:
        """What is to be decided. Nothing is changed."""
        return [conflict for session in self.sessions() for conflict in self._conflicts_in(session)]

    def _conflicts_in(self, session: SessionMemory) -> Iterator[GitConflict]:
        marked = _marked_files(session)
        in_files = [conflict for name, (data, layout) in marked.items() for conflict in _in_file(session, name, data, layout)]  # fmt: skip
        yield from in_files
        hunks = {os.path.join(session.folder, name): hunks_in(data) for name, (data, _) in marked.items()}
        exclusive = {conflict.id for conflict in in_files}
        for change in session.conflicts():
            if change.record.id not in exclusive:
                yield GitConflict(session, FIELDS, change.record.id, _sides(change, hunks), change.record)

    # -- deciding

    def take(self, conflict: GitConflict, side: str, *, by: str | None = None) -> list[str]:
        """Keep one side; returns what was quarantined."""
        chosen = conflict.side(side)
        if conflict.kind == FIELDS:
            assert conflict.record is not None
            fields = chosen.fields or {}
            if wrong := sorted(_ARGUMENTS & fields.keys()):
                raise UserError(f"{conflict.ref}: {wrong[0]} cannot be changed. Remove it from the file.")
            conflict.session.update(conflict.id, conflict.record.revision, by=by, **fields)
            return []

        def edit(name: str, data: bytes, layout: Any) -> tuple[bytes, list[bytes]]:
            return _with_side(conflict, side, name, data, layout) if name == conflict.file else (data, [])

        self._touched.add(conflict.session.id)
        return _storage(conflict.session).edit_files(edit)

    def finish(self) -> list[str]:
        """Take the markers out of sessions with nothing left to decide, and report what was done."""
        actions: list[str] = []
        for session in self.sessions():
            is_changed = session.id in self._touched or _marked_files(session)
            if is_changed and not any(True for _ in self._conflicts_in(session)):
                actions += [f"{session.id}: {each}" for each in session.repair().actions]
        return actions


def _storage(session: SessionMemory) -> SessionFiles:
    files = session.memory.store.session(session.id).files
    if files is None:
        raise UserError(f"{session.id} is not in files.")
    return files


def _stored_files(session: SessionMemory) -> Iterator[tuple[str, bytes, Any]]:
    return _storage(session).stored_files()


def _marked_files(session: SessionMemory) -> dict[str, tuple[bytes, Any]]:
    """The files of a session with markers: their bytes and their layout."""
    return {name: (data, layout) for name, data, layout in _stored_files(session) if hunks_in(data)}


def _in_file(session: SessionMemory, name: str, data: bytes, layout: Any) -> Iterator[GitConflict]:
    of_metadata = metadata_hunks(data, name == layout.info_file)
    found = find_conflict(layout, data) if of_metadata else None
    if found is not None and found.is_open:
        pairs = zip((OURS, THEIRS), found.values(), strict=True)
        sides = [Side(side, fields, "", None, side == OURS) for side, fields in pairs]
        yield GitConflict(session, METADATA, "metadata", (sides[0], sides[1]), None, name, _texts(of_metadata))
    if name == layout.info_file:
        return
    for choice in side_choices(data, layout.codec_of(name)):
        yield GitConflict(session, ENTRIES, choice.id, _choice_sides(choice), _record(session, choice.id), name)


def _choice_sides(choice: SideChoice) -> tuple[Side, Side]:
    ours, theirs = (choice.fields(side) for side in (OURS, THEIRS))
    names = [each for each in {**ours, **theirs} if each not in _NOT_SHOWN and ours.get(each) != theirs.get(each)]
    first, second = (
        Side(
            side,
            {each: said.get(each) for each in names} if said else None,
            _time(choice.at(side)),
            said.get("by") or said.get("author"),
            bool(said) and (side == OURS or not ours),
        )
        for side, said in ((OURS, ours), (THEIRS, theirs))
    )
    return first, second


def _time(text: str) -> str:
    """A time as a file has it; empty if it is none."""
    try:
        return parse(text, "timestamp")
    except InvalidRecord:
        return ""


def _with_side(conflict: GitConflict, side: str, name: str, data: bytes, layout: Any) -> tuple[bytes, list[bytes]]:
    """The file with one side of a conflict, and what is quarantined: nothing of an erased memory, which would come back there."""
    if conflict.kind == METADATA:
        return with_sides(data, lambda hunk: side if (hunk.ours, hunk.theirs) in conflict.hunks else "")
    codec = layout.codec_of(name)
    for choice in side_choices(data, codec):
        if choice.id == conflict.id and _choice_sides(choice) == conflict.sides:
            data, dropped = with_choice(
                data, choice, side, codec, partial(_unmarked, conflict.session.id, name, layout)
            )
            return data, [dropped] if dropped and conflict.side(side).fields is not None else []
    raise UserError(f"{conflict.ref} was changed meanwhile. Look at it again: smp git resolve {conflict.ref}")


def _unmarked(session: str, name: str, layout: Any, unit: Unit) -> bytes:
    """The text of an entry without the mark of its transaction."""
    if not unit.tx:
        return unit.text
    entry = layout.field_names.decode(unit.fields, layout.kind_of(name), unit.state, name, 0, 0)
    entry.tx = ""
    text: bytes = layout.codec_of(name).encode(layout.field_names.encode(entry, session))
    return text


def _texts(hunks: list[Hunk]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((hunk.ours, hunk.theirs) for hunk in hunks)


def _record(session: SessionMemory, id: str) -> Record | None:
    try:
        return session.find(id)
    except SMPError:
        return None


def _sides(change: ConcurrentChange, hunks: dict[str, list[Hunk]]) -> tuple[Side, Side]:
    """The sides by the markers in the file; without markers the value in use and the other one."""
    placed: dict[str, dict[str, ConcurrentValue]] = {OURS: {}, THEIRS: {}}
    for field, values in change.fields.items():
        for each in values:
            side = next(filter(None, (hunk.side_of(each.line) for hunk in hunks.get(each.file, ()))), "")
            if side:
                placed[side][field] = each
    used = {field: values[-1] for field, values in change.fields.items()}
    if any(side.keys() != used.keys() for side in placed.values()):
        placed = {CURRENT: used, OTHER: {field: values[0] for field, values in change.fields.items()}}
    first, second = (
        Side(
            name,
            {field: each.value for field, each in values.items()},
            max(each.at for each in values.values()),
            next((each.by for each in values.values() if each.by), None),
            values == used,
        )
        for name, values in placed.items()
    )
    return first, second
