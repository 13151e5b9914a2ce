"""Does a memory still stand open? Words that people use for statuses, and what they mean for keeping a memory.

- A finding is open unless its status says that it is settled.
- A decision is active unless its status says that it is settled or overturned, or another decision supersedes it.
- A decision is unresolved if its status says that it waits for something: `open`, `pending`, `proposed`.
- A preference is explicit unless it says that it was inferred, by its confidence (0.6 or less) or its source.

Guarantees: pure; never raises, whatever a person typed. In doubt a memory counts as open: a status that nobody knows
keeps it.
"""

from __future__ import annotations

from smp_memory.decay.policies import INFERRED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp_memory.model.record import Record

SETTLED = frozenset(
    """resolved closed fixed done completed implemented wontfix wont_fix won't_fix not_a_bug
    rejected dismissed duplicate invalid obsolete superseded
    reversed reverted revoked withdrawn cancelled canceled deprecated archived""".split()  # noqa: SIM905
)
WAITING = frozenset(("open", "unresolved", "pending", "proposed", "in_progress"))
_GUESSED = ("inferred", "behavior", "behaviour", "observed", "pattern")


def status_of(record: Record) -> str:
    """The status of a finding or decision in lower case; empty if it says none. `resolution.status` counts too."""
    said = getattr(record, "status", None)
    resolution = getattr(record, "resolution", None)
    inner = resolution.get("status") if isinstance(resolution, dict) else None
    word = inner if record.type == "decision" and isinstance(inner, str) else said
    return word.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(word, str) else ""


def is_settled(record: Record) -> bool:
    return status_of(record) in SETTLED


def is_open_finding(record: Record) -> bool:
    return record.type == "finding" and not is_settled(record)


def is_waiting(record: Record) -> bool:
    """Whether a person or an agent still has to do something about it: an open finding, an unresolved decision."""
    return is_open_finding(record) or (record.type == "decision" and status_of(record) in WAITING)


def is_active_decision(record: Record, superseded: frozenset[str] = frozenset()) -> bool:
    return record.type == "decision" and not is_settled(record) and record.id not in superseded


def is_explicit_preference(record: Record) -> bool:
    if record.type != "preference":
        return False
    sure = record.confidence_value
    source = getattr(record, "source", None)
    guessed = isinstance(source, str) and source.strip().lower().startswith(_GUESSED)
    return not guessed and not (isinstance(sure, int | float) and sure <= INFERRED)


def superseded_ids(records: Iterable[Record]) -> frozenset[str]:
    """The ids that a living memory says it takes the place of."""
    living = (record for record in records if not record.deleted)
    return frozenset(target for record in living for kind, target in relations_of(record) if kind == "supersedes")


def relations_of(record: Record) -> Iterator[tuple[str, str]]:
    """Kind and target id of each relation; targets in other sessions are left out."""
    for relation in _listed(record.relations):
        if isinstance(relation, dict) and isinstance(relation.get("target"), str):
            target = _own(relation["target"], record.session)
            if target:
                yield str(relation.get("kind")), target


def mentioned_by(record: Record) -> Iterator[str]:
    """The ids in this session that a memory rests on: its references, relations and turn; not what it supersedes."""
    for reference in _listed(record.references):
        if isinstance(reference, str):
            yield _own(reference, record.session)
    for kind, target in relations_of(record):
        if kind != "supersedes":
            yield target
    turn = record.turn_ref
    if isinstance(turn, int) and not isinstance(turn, bool):
        yield f"TURN-{turn:04d}"
    elif isinstance(turn, str):
        yield _own(turn, record.session)


def _own(name: str, session: str) -> str:
    """The id of a memory of this session, empty for one of another."""
    place, slash, id = name.rpartition("/")
    return id if not slash or place == session else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
