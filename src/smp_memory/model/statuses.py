"""Statuses of findings, decisions and preferences: open, settled, active, unresolved, explicit; and which memories supersede which. Pure.

The words, and which of these rules hold for a type, are in `model.types`.

- A finding is open unless its status says that it is settled.
- A decision is active unless its status says that it is settled or overturned, or another decision supersedes it.
- A decision is unresolved if its status says that something is still to be done: `open`, `pending`, `proposed`.
- A preference is explicit unless it says that it was inferred, by its confidence (0.6 or less) or its source.

A memory says in these ways that it supersedes another one, or is superseded:

    relation          {"kind": "supersedes", "target": "DEC-0001"} on the new memory, `superseded_by` on the old one
    field             `supersedes` on the new memory, `superseded_by` on the old one, also inside `resolution`: an id or several
    resolution        the relation `resolves` on the new memory, `resolved_by` on the old one; only in recall (`recalled_successions`), because it is not
                      said that the old one is wrong, and its status tells whether it is open

A memory is named by its session and its id; an id without a session is one of the session of the memory that names it.
What is not the id of a memory says nothing. Of a chain A ← B ← C the successor of A and of B is C; of a circle the newest memory counts.

Guarantees: never raises, whatever a person typed. In doubt a memory counts as open: an unknown status keeps it.
"""

from __future__ import annotations

from smp_memory.model import ids
from smp_memory.model.decay import INFERRED
from smp_memory.model.types import ACTIVE, EXPLICIT, KINDS

HIDDEN_MEMORY = "hidden"  # in place of a ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from smp_memory.model.candidates import Candidate, Candidates
    from smp_memory.model.record import Record

    Name = tuple[str, str]  # session and id

_MOST_ENDS = 3  # successors of one memory: what many claim to supersede does not bring them all
_INFERRED_SOURCES = ("inferred", "behavior", "behaviour", "observed", "pattern")


def status_of(record: Record) -> str:
    """The status of a finding or decision in lower case, from `status` or `resolution.status`; empty without one."""
    status = getattr(record, "status", None)
    resolution = getattr(record, "resolution", None)
    inner = resolution.get("status") if isinstance(resolution, dict) else None
    word = inner if KINDS[record.type].resolution_wins and isinstance(inner, str) else status
    return word.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(word, str) else ""


def is_settled(record: Record) -> bool:
    return status_of(record) in KINDS[record.type].settled


def is_open(record: Record) -> bool:
    """Whether it is of a type that stays open until it is closed, such as a finding, and was not closed."""
    return KINDS[record.type].is_open_until_closed and not is_settled(record)


def is_unresolved(record: Record) -> bool:
    """Whether somebody still has to act on it: an open finding or an unresolved decision."""
    kind = KINDS[record.type]
    return is_open(record) or (bool(kind.unresolved) and status_of(record) in kind.unresolved)


def is_active_decision(record: Record, superseded: frozenset[str] = frozenset()) -> bool:
    return KINDS[record.type].keeps == ACTIVE and not is_settled(record) and record.id not in superseded


def is_explicit_preference(record: Record) -> bool:
    if KINDS[record.type].keeps != EXPLICIT:
        return False
    confidence = record.confidence_value
    source = getattr(record, "source", None)
    is_inferred = isinstance(source, str) and source.strip().lower().startswith(_INFERRED_SOURCES)
    return not is_inferred and not (isinstance(confidence, int | float) and confidence <= INFERRED)


def superseded_ids(records: Iterable[Record]) -> frozenset[str]:
    """The ids of memories that others of the same session supersede which are not deleted."""
    living = {record.id: record for record in records if not record.deleted}
    return frozenset(
        id
        for record in living.values()
        for (session, id), (new_session, new) in successions(record.given, record.session, record.id)
        if session == new_session == record.session and new in living
    )


def relations_of(record: Record) -> Iterator[tuple[str, str]]:
    """Kind and target id of each relation; targets in other sessions are left out."""
    for relation in _as_list(record.relations):
        if isinstance(relation, dict) and isinstance(relation.get("target"), str):
            target = _id_in_session(relation["target"], record.session)
            if target:
                yield str(relation.get("kind")), target


def evidence_ids(record: Record) -> Iterator[str]:
    """The ids in its session that a memory refers to by reference, relation or turn; not what it supersedes."""
    for reference in _as_list(record.references):
        if isinstance(reference, str):
            yield _id_in_session(reference, record.session)
    for kind, target in relations_of(record):
        if kind != "supersedes":
            yield target
    turn = record.turn_ref
    if isinstance(turn, int) and not isinstance(turn, bool):
        yield f"TURN-{turn:04d}"
    elif isinstance(turn, str):
        yield _id_in_session(turn, record.session)


def _id_in_session(name: str, session: str) -> str:
    """The id of a memory of this session; empty for one of another session."""
    place, slash, id = name.rpartition("/")
    return id if not slash or place == session else ""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# -- succession

SUPERSEDES, SUPERSEDED_BY = SUCCESSION_KINDS = "supersedes", "superseded_by"
_RESOLUTIONS = {"resolves": SUPERSEDES, "resolved_by": SUPERSEDED_BY}
_FIELDS = frozenset((*SUCCESSION_KINDS, "relations", "resolution"))


def may_supersede(data: Mapping[str, Any]) -> bool:
    """Whether a memory has a field that can say so."""
    return not _FIELDS.isdisjoint(data)


def successions(data: Mapping[str, Any], session: str, id: str) -> Iterator[tuple[Name, Name]]:
    """The old and the new memory of each succession that this memory states."""
    return _named(_stated(data), session, id)


def recalled_successions(data: Mapping[str, Any], session: str, id: str) -> Iterator[tuple[Name, Name]]:
    """The same, and of each memory that it resolves: in recall, the answer takes the place of the problem."""
    relations = [each for each in _as_list(data.get("relations")) if isinstance(each, dict)]
    kinds = [(each.get("kind"), each.get("target")) for each in relations]
    resolved = [
        (_RESOLUTIONS[kind], target) for kind, target in kinds if isinstance(kind, str) and kind in _RESOLUTIONS
    ]
    return _named([*_stated(data), *resolved], session, id)


def _named(stated: Iterable[tuple[str, Any]], session: str, id: str) -> Iterator[tuple[Name, Name]]:
    own = session, id
    for kind, target in stated:
        other = _name(target, session)
        if other is not None and other != own:
            yield (other, own) if kind == SUPERSEDES else (own, other)


def _stated(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if _FIELDS.isdisjoint(data):
        return
    relations = data.get("relations")
    for relation in relations if isinstance(relations, list) else ():
        if isinstance(relation, dict) and relation.get("kind") in SUCCESSION_KINDS:
            yield relation["kind"], relation.get("target")
    resolution = data.get("resolution")
    for fields in (data, resolution if isinstance(resolution, dict) else {}):
        for kind in SUCCESSION_KINDS:
            targets = fields.get(kind)
            for target in targets if isinstance(targets, list) else [targets]:
                yield kind, target


def _name(target: Any, session: str) -> Name | None:
    if not isinstance(target, str):
        return None
    other, _, id = target.rpartition("/")
    return (other or session, id) if ids.is_valid(id) and ids.is_valid(other or session) else None


def last_successors(
    ref: str, newer: Mapping[str, Sequence[Candidate]], allows: Callable[[str], bool] | None = None
) -> list[Candidate]:
    """The memories at the ends of the chains that begin at a memory, the newest first; empty if nothing took its place.

    `newer`: by ref the memories that directly took its place (`Candidates.newer`). `allows` tells which sessions count (None: all).
    """
    if ref not in newer:
        return []
    reached: dict[str, Candidate] = {}
    edge = [ref]
    while edge:
        found = {
            each.ref: each for old in edge for each in newer.get(old, ()) if allows is None or allows(each.session)
        }
        edge = [each for each in found if each not in reached]
        reached.update(found)
    ends = [each for name, each in reached.items() if not _has_newer(name, newer, allows)]
    if not ends and reached:  # a circle
        ends = [max(reached.values(), key=_age)]
        if ends[0].ref == ref:
            return []
    return sorted(ends, key=_age, reverse=True)[:_MOST_ENDS]


def _has_newer(ref: str, newer: Mapping[str, Sequence[Candidate]], allows: Callable[[str], bool] | None) -> bool:
    return any(allows is None or allows(each.session) for each in newer.get(ref, ()))


def _age(candidate: Candidate) -> tuple[int, str, int]:
    return candidate.created, candidate.session, candidate.position


# -- turns that repeat a memory

SETTLED, SUPERSEDED, DELETED, NOT_VALID, HIDDEN = (
    "settled",
    "superseded",
    "deleted",
    "not valid",
    "hidden",
)  # why a memory does not hold


def state_of_repeated(
    turn: Candidate, found: Candidates, allows: Callable[[str], bool] | None = None, at: int | None = None
) -> tuple[str, str]:
    """Why the memory that a turn repeats does not hold, and its ref or that of its successor; two empty texts if it holds, or there is none.

    `at`: the time that is asked about, if memories that are not valid then are left out. What a hidden memory is called is not told.
    """
    if turn.repeats == HIDDEN_MEMORY:
        return HIDDEN, ""
    memory = found.repeated.get(turn.repeats)
    if memory is None or not (allows is None or allows(memory.session)):
        return "", ""
    if memory.deleted:
        return DELETED, memory.ref
    if last_successors(memory.ref, found.newer, allows):
        return SUPERSEDED, memory.ref
    if (memory.status or "").strip().lower() in KINDS[memory.type].settled:
        return SETTLED, memory.ref
    since, until = memory.valid_from, memory.valid_until
    if at is not None and ((since is not None and since > at) or (until is not None and until <= at)):
        return NOT_VALID, memory.ref
    return "", memory.ref


def describe_repeated(ref: str | None, state: str) -> str:
    """A memory that a turn repeats, and why it does not hold."""
    return f"{ref}, which {'was' if state == DELETED else 'is'} {state}" if ref else "a memory that is hidden"
