"""Which memories are used: most, last, never; by type, author, tag and session. Pure.

What is known of uses: each memory has the number of its uses and the time of the last one. The times of single uses are
known only while they are in the access log, that is, until maintenance has written the counts into the files. Nothing
is made up for the rest: `last_uses` counts memories by the period of their last use, `logged` counts the uses in the log.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import MemoryFacts, dicts, time_text
from smp_memory.analytics.periods import Periods

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from smp_memory.model.reports import Problem

_GROUPS = ("type", "author", "session")


class UsedMemory(NamedTuple):
    """A memory in a list of used or unused ones."""

    ref: str
    type: str
    author: str
    created: int
    uses: int
    last_use: int | None
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "created": time_text(self.created), "last_use": time_text(self.last_use)}


class UsageGroup(NamedTuple):
    """The memories of one type, author, tag or session."""

    name: str
    memories: int
    used: int  # at least once
    uses: int

    @property
    def share_used(self) -> float:
        return self.used / self.memories if self.memories else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "share_used": round(self.share_used, 4)}


class LoggedUses(NamedTuple):
    """The single uses that the access log still has."""

    uses: int
    since: int | None  # the first of them
    counts: list[int]  # by period

    def to_dict(self) -> dict[str, Any]:
        return {"uses": self.uses, "since": time_text(self.since), "counts": self.counts}


class Usage:
    """The use of the memories of a scope."""

    __slots__ = (
        "by_author", "by_session", "by_tag", "by_type", "last_used", "last_uses", "logged", "memories", "most_used",
        "never_used", "notes", "periods", "problems", "used", "uses",
    )  # fmt: skip

    def __init__(self, memories: int, used: int, uses: int, periods: Periods) -> None:
        self.memories = memories
        self.used = used  # memories that were used at least once
        self.uses = uses
        self.periods = periods
        self.most_used: list[UsedMemory] = []
        self.last_used: list[UsedMemory] = []
        self.never_used: list[UsedMemory] = []  # the oldest ones
        self.by_type: list[UsageGroup] = []
        self.by_author: list[UsageGroup] = []
        self.by_session: list[UsageGroup] = []
        self.by_tag: list[UsageGroup] = []
        self.last_uses: list[int] = []  # memories by the period of their last use
        self.logged = LoggedUses(0, None, [])
        self.notes: list[str] = []
        self.problems: list[Problem] = []  # entries that could not be read

    @property
    def never_used_count(self) -> int:
        return self.memories - self.used

    @property
    def share_used(self) -> float:
        """The share of the memories that were ever used; 0 without memories."""
        return self.used / self.memories if self.memories else 0.0

    def refs(self) -> list[str]:
        """The listed memories, whose texts are shown."""
        return [each.ref for each in (*self.most_used, *self.last_used, *self.never_used)]

    def set_texts(self, texts: Mapping[str, str]) -> None:
        for those in (self.most_used, self.last_used, self.never_used):
            those[:] = [each._replace(text=texts.get(each.ref, "")) for each in those]

    def to_dict(self) -> dict[str, Any]:
        return {
            "memories": self.memories,
            "used": self.used,
            "never_used_count": self.never_used_count,
            "share_used": round(self.share_used, 4),
            "uses": self.uses,
            "most_used": dicts(self.most_used),
            "last_used": dicts(self.last_used),
            "never_used": dicts(self.never_used),
            "by_type": dicts(self.by_type),
            "by_author": dicts(self.by_author),
            "by_session": dicts(self.by_session),
            "by_tag": dicts(self.by_tag),
            "periods": self.periods.to_dict(),
            "last_uses": self.last_uses,
            "logged": self.logged.to_dict(),
            "notes": self.notes,
        }


def usage(
    facts: Sequence[MemoryFacts],
    labels: Iterable[tuple[int, str]],
    log: Iterable[tuple[str, float]],
    periods: Periods,
    limit: int,
) -> Usage:
    """The use of these memories. `labels`: doc and tag; `log`: ref and time in seconds of the uses in the access log."""
    used = [each for each in facts if each.is_used]
    made = Usage(len(facts), len(used), sum(each.uses for each in used), periods)
    made.most_used = _listed(heapq.nlargest(limit, used, key=lambda each: (each.uses, each.last_use or 0, each.ref)))
    made.last_used = _listed(heapq.nlargest(limit, used, key=lambda each: (each.last_use or 0, each.uses, each.ref)))
    never = (each for each in facts if not each.is_used)
    made.never_used = _listed(heapq.nsmallest(limit, never, key=lambda each: (each.created, each.ref)))
    groups = {name: _Grouping() for name in (*_GROUPS, "tag")}
    for each in facts:
        for name in _GROUPS:
            groups[name].add(getattr(each, name), each)
    by_doc = {each.doc: each for each in facts}
    for doc, label in labels:
        if doc in by_doc:
            groups["tag"].add(label, by_doc[doc])
    made.by_type, made.by_author, made.by_session, made.by_tag = (
        groups[name].first(limit) for name in ("type", "author", "session", "tag")
    )
    made.last_uses = periods.counts(each.last_use for each in used if each.last_use)
    made.logged = _logged(log, {each.ref: each for each in facts}, periods)
    made.notes = _notes(made, groups, limit)
    return made


class _Grouping:
    """Counts by a name."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, name: str, memory: MemoryFacts) -> None:
        counts = self._counts.get(name)
        if counts is None:
            counts = self._counts[name] = [0, 0, 0]
        counts[0] += 1
        if memory.uses:
            counts[1] += 1
            counts[2] += memory.uses

    def first(self, limit: int) -> list[UsageGroup]:
        """The groups with most uses, then with most memories."""
        groups = [UsageGroup(name, *counts) for name, counts in self._counts.items()]
        return sorted(groups, key=lambda each: (-each.uses, -each.memories, each.name))[:limit]

    def __len__(self) -> int:
        return len(self._counts)


def _listed(facts: Iterable[MemoryFacts]) -> list[UsedMemory]:
    return [UsedMemory(each.ref, each.type, each.author, each.created, each.uses, each.last_use) for each in facts]


def _logged(log: Iterable[tuple[str, float]], known: Mapping[str, MemoryFacts], periods: Periods) -> LoggedUses:
    times = [round(seconds * 1_000_000) for ref, seconds in log if ref in known]
    return LoggedUses(len(times), min(times, default=None), periods.counts(times))


def _notes(made: Usage, groups: Mapping[str, _Grouping], limit: int) -> list[str]:
    notes = [
        "Of each memory the number of uses and the time of the last use are kept; the times of earlier uses are not known, "
        "except for uses that are still in the access log."
    ]
    cut = [f"{len(group):,} {name}s" for name, group in groups.items() if len(group) > limit]
    if cut:
        notes.append(f"The lists show the first {limit:,} of {', '.join(cut)}.")
    if not made.uses and made.memories:
        notes.append("No memory was used yet, or uses are not tracked (setting track_access).")
    return notes
