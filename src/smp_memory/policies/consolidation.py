"""Which memories say the same, and what would one memory in their place look like? Findings and preferences (003 §11.4).

`find_duplicates` only looks. `merged` says what one transaction would change: one memory of the group is kept and takes
in what the others know, the others go to the trash with a reason that names it. The kept one lists each of them with
its text, author, time and place (`merged_from`), so that the trace outlives the trash; restoring the others and undoing
the change brings everything back.

Guarantees: pure; nothing is merged whose type, visibility, place or openness differs, nor preferences with one key and
different values: those contradict each other. A memory without text is like no other. A merge carries the revision of
every memory it saw, so that it can be refused if one has changed meanwhile.
Non-guarantees: see `lifecycle.likeness`; a person should look at the groups first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.times import to_text
from smp_memory.policies.similarity import THRESHOLD, alike, shingles_of
from smp_memory.policies.statuses import is_settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smp_memory.model.record import Record

TYPES = ("finding", "preference")
_GRAVITY = ("critical", "high", "important", "medium", "low", "minor", "info")
_LISTS = ("tags", "references", "learned_from")


class Duplicates(NamedTuple):
    """Memories that say the same, the one to be kept first, and how alike each is to the first that said it."""

    records: list[Record]
    similarity: list[float]

    def to_dict(self) -> dict[str, Any]:
        return {
            "keep": self.records[0].id,
            "memories": [
                {"id": record.id, "author": _author(record), "text": record.text, "similarity": round(value, 3)}
                for record, value in zip(self.records, self.similarity, strict=True)
            ],
        }


class MergedMemory(NamedTuple):
    """One transaction: update the memory that is kept, delete the others."""

    keep: str
    changes: dict[str, Any]
    remove: list[tuple[str, str]]  # id and reason
    revisions: dict[str, int]  # of all of them, as they were seen

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def find_duplicates(
    records: Iterable[Record], threshold: float = THRESHOLD, types: Sequence[str] = TYPES
) -> list[Duplicates]:
    """Groups of memories of one session that say the same, in the order in which they were first said."""
    kinds: dict[tuple[Any, ...], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.seq):
        if record.type in types and not record.deleted:
            kinds.setdefault(_must_agree(record), []).append(record)
    found = [_group(group) for members in kinds.values() for group in _alike(members, threshold)]
    return sorted(found, key=lambda group: min(record.seq for record in group.records))


def merged(group: Duplicates) -> MergedMemory:
    """What one transaction changes so that the first memory of the group stands for all."""
    kept, *others = group.records
    changes: dict[str, Any] = {
        name: union
        for name in _LISTS
        if (union := _union(group.records, name)) and union != _listed(getattr(kept, name, None))
    }
    changes.update(_strongest(kept, others))
    changes["discoverers"] = list(dict.fromkeys(name for record in group.records for name in _discoverers(record)))
    changes["relations"] = _relations(kept, others)
    changes["merged_from"] = _listed(getattr(kept, "merged_from", None)) + [
        trace for record in others for trace in (*_listed(getattr(record, "merged_from", None)), _trace(record))
    ]
    return MergedMemory(
        kept.id,
        changes,
        [(record.id, f"merged into {kept.id}") for record in others],
        {record.id: record.revision for record in group.records},
    )


# -- which belong together


def _must_agree(record: Record) -> tuple[Any, ...]:
    """What two memories must have in common to be taken for one."""
    settled = record.type == "finding" and is_settled(record)
    agent = _author(record) if record.visibility != "shared" else ""
    own = ("key", "value") if record.type == "preference" else ()
    values = tuple(repr(getattr(record, name, None)) for name in own)
    return record.session, record.type, str(record.visibility), agent, settled, _place(record), values


def _place(record: Record) -> str:
    """Where a finding is, to which projects a preference applies."""
    return repr(getattr(record, "location", None) or getattr(record, "applies_to", None))


def _alike(members: list[Record], threshold: float) -> list[list[tuple[Record, float]]]:
    groups = alike([shingles_of(record.text) for record in members], threshold)
    return [[(members[place], value) for place, value in group] for group in groups]


def _group(found: list[tuple[Record, float]]) -> Duplicates:
    ordered = sorted(found, key=lambda item: _standing(item[0]))
    return Duplicates([record for record, _ in ordered], [value for _, value in ordered])


def _standing(record: Record) -> tuple[Any, ...]:
    """The one to keep comes first: pinned, then the surest, then the oldest."""
    sure = record.confidence_value
    return not record.pinned, -(sure if isinstance(sure, int | float) else 0.0), record.seq


# -- what the kept one takes in


def _strongest(kept: Record, others: list[Record]) -> dict[str, Any]:
    """The gravest severity, the largest importance and confidence, pinned if one was."""
    changes: dict[str, Any] = {}
    every = [kept, *others]
    if any(record.pinned for record in others) and not kept.pinned:
        changes["pinned"] = True
    graver = min((_gravity(record) for record in every), default=len(_GRAVITY))
    if graver < _gravity(kept):
        changes["severity"] = _GRAVITY[graver]
    for name in ("importance", "confidence_value"):
        values = [value for record in every if (value := _number(getattr(record, name))) is not None]
        if values and max(values) > (_number(getattr(kept, name)) or 0.0):
            changes[name.removesuffix("_value")] = max(values)
    return changes


def _relations(kept: Record, others: list[Record]) -> list[Any]:
    """All relations of all, without those inside the group, and where the kept one comes from."""
    inside = {record.id for record in (kept, *others)}
    every = [relation for record in (kept, *others) for relation in _listed(record.relations)]
    outside = [each for each in every if not (isinstance(each, dict) and each.get("target") in inside)]
    return _distinct([*outside, *({"kind": "derived_from", "target": record.id} for record in others)])


def _trace(record: Record) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "id": record.id,
        "author": _author(record),
        "created": to_text(record.created),
        "text": record.text,
    }
    names = ("evidence", "recommendation", "context", "root_cause", "impact", "severity", "turn_ref")
    return {**trace, **{name: value for name in names if (value := getattr(record, name, None)) is not None}}


def _discoverers(record: Record) -> list[str]:
    return [_author(record), *(name for name in _listed(getattr(record, "discoverers", None)) if isinstance(name, str))]


def _union(records: Sequence[Record], name: str) -> list[Any]:
    return _distinct([item for record in records for item in _listed(getattr(record, name, None))])


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _author(record: Record) -> str:
    return record.author if isinstance(record.author, str) else "user"


def _gravity(record: Record) -> int:
    word = getattr(record, "severity", None)
    word = word.strip().lower() if isinstance(word, str) else ""
    return _GRAVITY.index(word) if word in _GRAVITY else len(_GRAVITY)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
