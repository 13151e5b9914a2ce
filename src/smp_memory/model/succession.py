"""Which memories supersede which, in all ways in which memories say so. Pure.

    relation          {"kind": "supersedes", "target": "DEC-0001"} on the new memory, `superseded_by` on the old one
    field             `supersedes` on the new memory, `superseded_by` on the old one, also inside `resolution`: an id or several

A memory is named by its session and its id; an id without a session is one of the session of the memory that names it.
Guarantees: never raises, whatever a person typed; what is not the id of a memory says nothing.
"""

from __future__ import annotations

from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Name = tuple[str, str]  # session and id

SUPERSEDES, SUPERSEDED_BY = SUCCESSION_KINDS = "supersedes", "superseded_by"
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
