"""Which memories supersede which, in all ways in which memories say so, and which one of a chain counts. Pure.

    relation          {"kind": "supersedes", "target": "DEC-0001"} on the new memory, `superseded_by` on the old one
    field             `supersedes` on the new memory, `superseded_by` on the old one, also inside `resolution`: an id or several

A memory is named by its session and its id; an id without a session is one of the session of the memory that names it.
Of a chain A ← B ← C the successor of A and of B is C. Of a circle the newest memory counts.
Guarantees: never raises, whatever a person typed; what is not the id of a memory says nothing.
"""

from __future__ import annotations

from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from smp_memory.model.candidates import Candidate

    Name = tuple[str, str]  # session and id

SUPERSEDES, SUPERSEDED_BY = SUCCESSION_KINDS = "supersedes", "superseded_by"
_MOST_ENDS = 3  # successors of one memory: what many claim to supersede does not bring them all
_FIELDS = frozenset((*SUCCESSION_KINDS, "relations", "resolution"))


def may_supersede(data: Mapping[str, Any]) -> bool:
    """Whether a memory has a field that can say so."""
    return not _FIELDS.isdisjoint(data)


def successions(data: Mapping[str, Any], session: str, id: str) -> Iterator[tuple[Name, Name]]:
    """The old and the new memory of each succession that this memory states."""
    own = session, id
    for kind, target in _stated(data):
        other = _name(target, session)
        if other is not None and other != own:
            yield (other, own) if kind == SUPERSEDES else (own, other)


def _stated(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
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
