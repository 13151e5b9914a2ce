"""The impact of decisions: which memories followed from each, which it rests on, what superseded it. Pure.

A memory follows from a decision if a relation says so (the decision `led_to`, `influenced`, `causes` or `resolves` it; or it was
`derived_from` the decision, `implements`, `refines`, `depends_on`, `references` it, is `resolved_by` it, …), or if its text names the decision's
id and it is later. The other way round, it is a basis of the decision. Relations that say nothing about the order (`relates_to`, any unknown
one) go by time: the later memory followed. What supersedes a decision is listed apart, with the time until then.

Rank: the number of different memories that followed; then the uses of the decision; then the newest. Every number is the length of a
list of references. Non-guarantees: that a memory followed does not prove that it would not exist without the decision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import DAY, MemoryFacts, dicts, time_text
from smp_memory.model.statuses import SUPERSEDED_BY, SUPERSEDES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from smp_memory.model.reports import Problem

    Edge = tuple[str, str, str]  # source ref, kind, target ref

MENTIONS = "mentions"
RESOLVES, RESOLVED_BY = "resolves", "resolved_by"
_TO_EFFECT = frozenset(("led_to", "influenced", "causes", RESOLVES, "blocks"))  # the target follows from the source
_TO_BASIS = frozenset((
    "derived_from", "caused_by", "depends_on", "implements", "refines", "references", "part_of", RESOLVED_BY, "turn",
    "supports", "contradicts", "duplicates",
))  # fmt: skip


class ImpactLink(NamedTuple):
    """A memory that is connected with a decision."""

    ref: str
    type: str
    kind: str  # the relation, or `mentions`
    direction: str  # `out`: the decision says it; `in`: the other memory says it
    created: int
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "created": time_text(self.created)}


@dataclass(slots=True)
class DecisionImpact:
    """One decision and what followed."""

    ref: str
    created: int
    uses: int
    last_use: int | None
    text: str = ""
    followed: list[ImpactLink] = field(default_factory=list)  # oldest first
    based_on: list[ImpactLink] = field(default_factory=list)
    supersedes: list[ImpactLink] = field(default_factory=list)
    superseded_by: list[ImpactLink] = field(default_factory=list)

    @property
    def followed_count(self) -> int:
        """How many different memories followed."""
        return len({link.ref for link in self.followed})

    @property
    def resolved_findings(self) -> list[str]:
        kinds = (RESOLVES, RESOLVED_BY)
        return list(dict.fromkeys(each.ref for each in self.followed if each.type == "finding" and each.kind in kinds))

    @property
    def later_decisions(self) -> list[str]:
        return list(dict.fromkeys(each.ref for each in self.followed if each.type == "decision"))

    @property
    def days_until_superseded(self) -> float | None:
        """None if it still holds, or if a time is unknown."""
        times = [link.created for link in self.superseded_by if link.created > 0]
        return max(0.0, (min(times) - self.created) / DAY) if times and self.created > 0 else None

    def links(self) -> list[ImpactLink]:
        return [*self.followed, *self.based_on, *self.supersedes, *self.superseded_by]

    def to_dict(self) -> dict[str, Any]:
        days = self.days_until_superseded
        return {
            "ref": self.ref,
            "text": self.text,
            "created": time_text(self.created),
            "followed_count": self.followed_count,
            "followed": dicts(self.followed),
            "resolved_findings": self.resolved_findings,
            "later_decisions": self.later_decisions,
            "based_on": dicts(self.based_on),
            "supersedes": dicts(self.supersedes),
            "superseded_by": dicts(self.superseded_by),
            "days_until_superseded": None if days is None else round(days, 1),
            "uses": self.uses,
            "last_use": time_text(self.last_use),
        }


@dataclass(slots=True)
class Impact:
    """The decisions of a scope, those from which most followed first."""

    decisions: list[DecisionImpact]
    total: int
    with_effect: int  # decisions from which anything followed
    superseded: int
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # entries that could not be read

    def __iter__(self) -> Any:
        return iter(self.decisions)

    def refs(self) -> list[str]:
        """The listed memories, whose texts are shown."""
        return [ref for each in self.decisions for ref in (each.ref, *(link.ref for link in each.links()))]

    def set_texts(self, texts: Mapping[str, str]) -> None:
        for each in self.decisions:
            each.text = texts.get(each.ref, "")
            for links in (each.followed, each.based_on, each.supersedes, each.superseded_by):
                links[:] = [link._replace(text=texts.get(link.ref, "")) for link in links]

    def to_dict(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "with_effect": self.with_effect,
            "superseded": self.superseded,
            "decisions": dicts(self.decisions),
            "notes": self.notes,
        }


def impact(
    decisions: Iterable[MemoryFacts], every: Mapping[str, MemoryFacts], edges: Iterable[Edge], limit: int
) -> Impact:
    """The impact of these decisions; `every`: all memories by ref, `edges`: their relations and mentions.

    An edge to a memory that is not among them (unknown, deleted or hidden) does not count.
    """
    found = {each.ref: DecisionImpact(each.ref, each.created, each.uses, each.last_use) for each in decisions}
    for source, kind, target in dict.fromkeys(edges):
        if source == target or source not in every or target not in every:
            continue
        if source in found:
            _add(found[source], every[target], kind, "out")
        if target in found:
            _add(found[target], every[source], kind, "in")
    for each in found.values():
        for links in (each.followed, each.based_on, each.supersedes, each.superseded_by):
            links.sort(key=lambda link: (link.created, link.ref, link.kind))
    ranked = sorted(found.values(), key=_rank)
    with_effect = sum(bool(each.followed) for each in ranked)
    made = Impact(ranked[:limit], len(ranked), with_effect, sum(bool(each.superseded_by) for each in ranked))
    if len(ranked) > limit:
        made.notes.append(f"The first {limit:,} of {len(ranked):,} decisions are listed.")
    return made


def _rank(decision: DecisionImpact) -> tuple[int, int, int, str]:
    return -decision.followed_count, -decision.uses, -decision.created, decision.ref


def _add(decision: DecisionImpact, other: MemoryFacts, kind: str, direction: str) -> None:
    link = ImpactLink(other.ref, other.type, kind, direction, other.created)
    is_out = direction == "out"
    if kind in (SUPERSEDES, SUPERSEDED_BY):
        (decision.supersedes if is_out is (kind == SUPERSEDES) else decision.superseded_by).append(link)
    elif kind in _TO_EFFECT:
        (decision.followed if is_out else decision.based_on).append(link)
    elif kind in _TO_BASIS:
        (decision.based_on if is_out else decision.followed).append(link)
    else:
        (decision.followed if other.created >= decision.created else decision.based_on).append(link)


# -- mentions

_NAME = re.compile(r"(?<![\w./-])(?:([A-Za-z0-9][\w.-]*)/)?([A-Za-z0-9][\w-]*(?:\.[\w-]+)*)")


def mentions_in(texts: Iterable[tuple[str, str, str]], ids: Iterable[str]) -> list[Edge]:
    """The memories that name one of these ids in their text. `texts`: session, id and text of memories.

    `DEC-0001` is a memory of the same session, `shop/DEC-0001` one of the session `shop`.
    """
    spelled = {id.lower(): id for id in ids}
    found: list[Edge] = []
    for session, id, text in texts:
        for named in _NAME.finditer(text) if spelled else ():
            known = spelled.get(named[2].lower())
            if known is not None:
                found.append((f"{session}/{id}", MENTIONS, f"{named[1] or session}/{known}"))
    return found
