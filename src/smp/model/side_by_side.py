"""Changes of one memory that two clones made without knowing of each other.

A change states its revision: one more than the writer had seen. If fewer than all changes before it were seen, it was made
side by side with the others. Where two such changes give a field different values, the last one in order holds, and
`conflicting_change` names both until a later change writes the field having seen them.
"""

from __future__ import annotations

from smp.model.entry import CHANGE, Entry, is_revision
from smp.model.record import same
from smp.model.report import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.model.fold import Trail

_UPKEEP = frozenset(["access", "id"])
_MANY = 2000  # changes of one memory that are looked at, the newest ones


def is_upkeep(entry: Entry) -> bool:
    """Whether an entry says how often a memory was used, or gives it another id: its content is the same."""
    return len(entry.data) == 1 and not _UPKEEP.isdisjoint(entry.data)


def conflicting_changes(trail: Trail) -> Iterator[Problem]:
    """The fields that were changed side by side to different values, where nobody has settled it yet."""
    changes = [entry for entry in trail.entries[1:] if is_revision(entry)]
    if all(_has_seen_all(entry, number) for number, entry in enumerate(changes)):
        return
    skipped = max(0, len(changes) - _MANY)
    changes = changes[skipped:]
    seen = _seen(changes, skipped)
    writers: dict[str, list[int]] = {}
    for number, entry in enumerate(changes):
        for field in entry.data if entry.op == CHANGE else ():
            if field not in _UPKEEP:
                writers.setdefault(field, []).append(number)
    for field, those in writers.items():
        known = 0
        for number in those:
            known |= seen[number]
        last = changes[those[-1]]
        for number in those[:-1]:
            if not known >> number & 1 and not same(changes[number].data[field], last.data[field]):
                yield _problem(trail, field, changes[number], last)
                break


def _has_seen_all(entry: Entry, before: int) -> bool:
    """Whether the writer of a change knew as many as stand before it. A person may have typed one without a revision."""
    return entry.revision > before + 1 or not entry.revision


def _seen(changes: list[Entry], skipped: int) -> list[int]:
    """For each change, those before it that its writer surely knew, as a set of bits. The put is revision 1."""
    seen: list[int] = []
    ways: dict[int, int] = {}  # revision -> what all changes of that revision have seen, each with itself
    for number, entry in enumerate(changes):
        knows_all = _has_seen_all(entry, skipped + number)
        known = (1 << number) - 1 if knows_all else ways.get(entry.revision - 1, 0)
        seen.append(known)
        own = known | 1 << number
        ways[entry.revision] = ways.get(entry.revision, own) & own
    return seen


def _problem(trail: Trail, field: str, other: Entry, entry: Entry) -> Problem:
    id = trail.first.id
    message = (
        f"{field} of {id} was changed at {other.file}:{other.line} and here, side by side in two clones, to different "
        f"values. This one holds; `smp edit {id}` (or update) with the right value settles it."
    )
    return Problem(entry.file, entry.line, "conflicting_change", message, "warning", id)
