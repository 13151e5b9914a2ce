"""Which memories point to something that is not there? Relations, references and turns, in and across sessions.

    missing   no such memory, not in a cold segment either: it was purged, erased, or never there    warning
    deleted   it is in the trash, or its session is: it can still be brought back                    note

What points to an archived session is taken at its word: the archive is not opened for it. Words that are no ids of SMP
(`docs/plan.md`, an address) are references to elsewhere and not judged, nor is what a memory was merged from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp.errors import SMPError
from smp.files.session_reader import SessionReader
from smp.health.check import Check
from smp.health.report import NOTE, WARNING, Finding, counted, several
from smp.model import ids
from smp.model.types import KINDS
from smp.store.cold_memories import segment_of
from smp.store.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject, Subject

_MOST = 10
_LISTS = ("references", "learned_from")  # what a summary covers may well be gone
_PREFIXES = tuple(f"{kind.prefix}-" for kind in KINDS.values())
_POINTING = frozenset(["relations", "turn_ref", *_LISTS])


class _Pointer(NamedTuple):
    session: str
    id: str
    file: str
    line: int
    field: str
    other: str  # the session of its target
    target: str


class References(Check):
    name = "references"
    title = "references lead somewhere"

    def __init__(self) -> None:
        self._there: dict[str, dict[str, bool]] = {}  # session -> id -> whether it is deleted
        self._open: list[_Pointer] = []
        self._count = 0

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        there = self._there[session.id] = _ids_of(session)
        for trail in session.fold.trails.values():
            data = trail.data()
            if trail.deletion is not None or _POINTING.isdisjoint(data):
                continue
            origins = _origins(data)
            for field, target in _targets(data):
                self._count += 1
                if target in origins:
                    continue
                other, slash, id = target.rpartition("/")
                if slash and other != session.id:
                    is_fine = not ids.is_valid(other) or not ids.is_valid(id)  # a path, an address
                else:
                    is_fine = there.get(id) is False or (id not in there and not _looks_like_ours(id))
                if is_fine:
                    continue
                first = trail.first
                pointer = _Pointer(session.id, first.id, first.file, first.line, field, other or session.id, id)
                self._open.append(pointer)
        self.said = counted(self._count, "reference")
        yield from ()

    def store(self, subject: Subject) -> Iterator[Finding]:
        found: dict[str, list[Finding]] = {}
        for pointer in self._open:
            finding = self._judged(subject, pointer)
            if finding is not None:
                found.setdefault(pointer.session, []).append(finding)
        for session, those in found.items():
            yield from several(those, _MOST, f"{{}} more references in {session} lead to what is deleted or not there.")

    def _judged(self, subject: Subject, pointer: _Pointer) -> Finding | None:
        if pointer.other not in self._there:
            self._there[pointer.other] = _ids_elsewhere(subject, pointer.other)
        there = self._there[pointer.other]
        is_own = pointer.other == pointer.session
        name = pointer.target if is_own else f"{pointer.other}/{pointer.target}"
        deleted = there.get(pointer.target, there.get("*"))
        if deleted is None and not is_own:  # it may have been written since that session was read
            there = self._there[pointer.other] = _ids_elsewhere(subject, pointer.other)
            deleted = there.get(pointer.target, there.get("*"))
        if deleted is False:
            return None
        if deleted:
            is_session = pointer.target not in there
            what = f"{pointer.id} refers to {name}, " + (
                "whose session is deleted." if is_session else "which is deleted."
            )
            back = (
                f"smp session undelete {pointer.other}"
                if is_session
                else f"smp restore {pointer.other}/{pointer.target}"
            )
            return self._finding(
                pointer, NOTE, what, f"{back} brings it back; otherwise nothing needs to be done.", name
            )
        what = f"{pointer.id} refers to {name}, which is not there ({pointer.field}): purged, erased or never written."
        take_out = f"smp edit {pointer.session}/{pointer.id}" if pointer.target else ""
        return self._finding(pointer, WARNING, what, f"Bring it back from a backup, or take it out: {take_out}", name)

    def _finding(self, pointer: _Pointer, severity: str, what: str, advice: str, name: str) -> Finding:
        details: tuple[dict[str, Any], ...] = ({"id": pointer.id, "field": pointer.field, "target": name},)
        at = (pointer.session, (pointer.id,), pointer.file, pointer.line)
        return Finding(self.name, severity, what, advice, *at, None, details)


def _targets(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for relation in _listed(data.get("relations")):
        if isinstance(relation, dict) and isinstance(relation.get("target"), str):
            yield "relations", relation["target"]
    for field in _LISTS:
        for target in _listed(data.get(field)):
            if isinstance(target, str):
                yield field, target
    turn = data.get("turn_ref")
    if isinstance(turn, str):
        yield "turn_ref", turn


def _origins(data: dict[str, Any]) -> set[str]:
    """What a memory was made of by merging or promoting: it keeps what they said, so they may go."""
    found: set[str] = set()
    for item in (*_listed(data.get("merged_from")), *_listed(data.get("promoted_from"))):
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            found.update((item["id"], f"{item.get('session')}/{item['id']}"))
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _looks_like_ours(target: str) -> bool:
    return target.startswith(_PREFIXES) and any(ids.number_of(target, kind.prefix) for kind in KINDS.values())


def _ids_of(session: SessionSubject) -> dict[str, bool]:
    """Each id, and whether it is deleted; those in the cold segment are there."""
    found = {row.id: False for row in segment_of(session.files).rows()}
    found.update({id: trail.deletion is not None for id, trail in session.fold.trails.items()})
    return found


def _ids_elsewhere(subject: Subject, name: str) -> dict[str, bool]:
    """The same for a session that is not looked at; `*` stands for all of one that is put away as a whole."""
    store, shelf = subject.store, Shelf(subject.store)
    try:
        if shelf.is_live(name):
            fold = SessionReader(store.disk, store.layout, store.root, name).catch_up()
            found = {row.id: False for row in segment_of(store.session(name)).rows()}
            return found | {id: trail.deletion is not None for id, trail in fold.trails.items()}
        if shelf.is_archived(name):
            return {"*": False}
        return {"*": True} if shelf.deleted(name) else {}
    except (SMPError, OSError):
        return {"*": False}  # in doubt it is there
