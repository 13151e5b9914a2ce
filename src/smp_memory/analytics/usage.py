"""Which memories are used: most, last, never; by type, author, tag and session; and trends of topics. Pure.

What is known of uses: each memory has the number of its uses and the time of the last one. The times of single uses are
known only while they are in the access log, that is, until maintenance has written the counts into the files. Nothing
is made up for the rest: `last_uses` counts memories by the period of their last use, `logged` counts the uses in the log.

Trends of topics and tags: a memory mentions its topic, its tags and their parents, each once: `security.login` mentions
`security`, too. Mentions are counted by periods. The last third of the periods is *recent*, the others are *before*. If a topic is
mentioned as often as ever, each of its n mentions is recent with the probability p = recent periods ÷ all periods, so the number
of recent ones is binomial(n, p). A topic is

    quiet    if it has at least 5 earlier mentions and none in all periods
    few      with fewer than 5 mentions in all periods: too few to tell
    new      if all its mentions ever are recent, and that many would be in at most 1 of 100 cases
    rising   if so many or more recent ones would be in at most 1 of 100 cases
    quiet    if none is recent, which would be in at most 1 of 100 cases
    falling  if so few or fewer recent ones would be in at most 1 of 100 cases
    steady   otherwise

Non-guarantees: of many topics, one in a hundred is called rising or falling by chance alone; mentions that come in bunches make
that more.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import MemoryFacts, Periods, dicts, time_text
from smp_memory.overview.topics import topics_above

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


@dataclass(slots=True)
class Usage:
    """The use of the memories of a scope."""

    memories: int
    used: int  # memories that were used at least once
    uses: int
    periods: Periods
    most_used: list[UsedMemory]
    last_used: list[UsedMemory]
    never_used: list[UsedMemory]  # the oldest ones
    by_type: list[UsageGroup]
    by_author: list[UsageGroup]
    by_session: list[UsageGroup]
    by_tag: list[UsageGroup]
    last_uses: list[int]  # memories by the period of their last use
    logged: LoggedUses
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # entries that could not be read

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
    never = (each for each in facts if not each.is_used)
    groups = {name: _Grouping() for name in (*_GROUPS, "tag")}
    for each in facts:
        for name in _GROUPS:
            groups[name].add(getattr(each, name), each)
    by_doc = {each.doc: each for each in facts}
    for doc, label in labels:
        if doc in by_doc:
            groups["tag"].add(label, by_doc[doc])
    made = Usage(
        len(facts),
        len(used),
        sum(each.uses for each in used),
        periods,
        most_used=_listed(heapq.nlargest(limit, used, key=lambda each: (each.uses, each.last_use or 0, each.ref))),
        last_used=_listed(heapq.nlargest(limit, used, key=lambda each: (each.last_use or 0, each.uses, each.ref))),
        never_used=_listed(heapq.nsmallest(limit, never, key=lambda each: (each.created, each.ref))),
        by_type=groups["type"].first(limit),
        by_author=groups["author"].first(limit),
        by_session=groups["session"].first(limit),
        by_tag=groups["tag"].first(limit),
        last_uses=periods.counts(each.last_use for each in used if each.last_use),
        logged=_logged(log, {each.ref: each for each in facts}, periods),
    )
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


# -- trends

RISING, FALLING, NEW, QUIET, STEADY, FEW = "rising", "falling", "new", "quiet", "steady", "few"
ORDER = (RISING, NEW, FALLING, QUIET, STEADY, FEW)
MIN_MENTIONS = 5
MAX_CHANCE = 0.01


class TopicTrend(NamedTuple):
    """One topic: its mentions by period, and their trend."""

    name: str
    trend: str
    counts: list[int]  # mentions by period
    recent: int
    before: int  # in the other periods
    earlier: int  # before all periods
    chance: float  # of a result as extreme without a change; 1 if there are too few mentions for a test
    first: int
    last: int

    @property
    def mentions(self) -> int:
        return self.recent + self.before

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "trend": self.trend,
            "mentions": self.mentions,
            "recent": self.recent,
            "before": self.before,
            "earlier": self.earlier,
            "chance": float(f"{self.chance:.3g}"),
            "first": time_text(self.first),
            "last": time_text(self.last),
            "counts": self.counts,
        }


@dataclass(slots=True)
class Trends:
    """The topics of a scope with their trends."""

    topics: list[TopicTrend]  # the first: rising and new, then falling and quiet, then others; more mentions first
    total: int  # topics in the periods or before
    by_trend: dict[str, int]  # how many of all
    periods: Periods
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # entries that could not be read

    @property
    def recent_periods(self) -> int:
        return recent_periods(self.periods.count)

    def __iter__(self) -> Any:
        return iter(self.topics)

    def __len__(self) -> int:
        return len(self.topics)

    def refs(self) -> list[str]:
        return []  # no memory is listed

    def set_texts(self, texts: Mapping[str, str]) -> None:
        pass

    def to_dict(self) -> dict[str, Any]:
        return {
            "periods": {**self.periods.to_dict(), "recent": self.recent_periods},
            "total": self.total,
            "by_trend": self.by_trend,
            "topics": dicts(self.topics),
            "notes": self.notes,
        }


def trends(facts: Iterable[MemoryFacts], labels: Iterable[tuple[int, str]], periods: Periods, limit: int) -> Trends:
    """The trends of the topics of these memories; `labels`: doc and topic or tag, each pair once."""
    created = {each.doc: each.created for each in facts if each.created > 0}
    times: dict[str, dict[int, int]] = {}  # by topic: time by doc, so that a parent counts once for each memory
    for doc, label in labels:
        if doc in created:
            for name in (label, *topics_above(label)):
                times.setdefault(name, {})[doc] = created[doc]
    every = (_trend(name, list(docs.values()), periods) for name, docs in times.items())
    found = sorted((each for each in every if each is not None), key=_topic_order)
    by_trend = {name: sum(each.trend == name for each in found) for name in ORDER}
    made = Trends(found[:limit], len(found), {name: count for name, count in by_trend.items() if count}, periods)
    made.notes = _trend_notes(made, by_trend)
    return made


def recent_periods(count: int) -> int:
    """How many of the periods are recent: the last third, at least one."""
    return max(1, count // 3)


def _trend(name: str, times: list[int], periods: Periods) -> TopicTrend | None:
    counts = periods.counts(times)
    recent_count = recent_periods(periods.count)
    recent, before = sum(counts[-recent_count:]), sum(counts[:-recent_count])
    past = [time for time in times if time < periods.end]
    if not past:
        return None  # all in the future: a clock was wrong, or a person typed it
    earlier = sum(time < periods.start for time in past)
    trend, chance = classify(recent, before, earlier, recent_count / periods.count)
    return TopicTrend(name, trend, counts, recent, before, earlier, chance, min(past), max(past))


def classify(recent: int, before: int, earlier: int, share: float) -> tuple[str, float]:
    """The trend of a topic with these counts, and the chance of a result as extreme; `share` of the periods is recent."""
    total = recent + before
    if total < MIN_MENTIONS:
        return QUIET if not total and earlier >= MIN_MENTIONS else FEW, 1.0
    at_least, at_most = binomial_tail(recent, total, share), binomial_tail(total - recent, total, 1 - share)
    if at_least <= MAX_CHANCE:
        return (NEW if not before and not earlier else RISING), at_least
    if at_most <= MAX_CHANCE:
        return (FALLING if recent else QUIET), at_most
    return STEADY, min(1.0, 2 * min(at_least, at_most))


def binomial_tail(least: int, total: int, share: float) -> float:
    """The probability of at least so many successes of `total`, each with the probability `share`."""
    if least <= 0:
        return 1.0
    if total > _EXACT:  # the exact sum of so many terms is slow, and not needed
        return _normal_tail(least, total, share)
    return min(1.0, sum(comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(least, total + 1)))


_EXACT = 400


def _normal_tail(least: int, total: int, share: float) -> float:
    from math import erfc, sqrt

    deviation = sqrt(total * share * (1 - share))
    return 0.5 * erfc((least - 0.5 - total * share) / (deviation * sqrt(2))) if deviation else float(least <= total)


def _topic_order(topic: TopicTrend) -> tuple[bool, int, int, int, str]:
    """What is mentioned in these periods comes first."""
    return not topic.mentions, ORDER.index(topic.trend), -topic.mentions, -topic.earlier, topic.name


def _trend_notes(made: Trends, by_trend: Mapping[str, int]) -> list[str]:
    notes = []
    if by_trend[FEW]:
        said = f"{by_trend[FEW]:,} topics have" if by_trend[FEW] > 1 else "1 topic has"
        notes.append(f"{said} fewer than {MIN_MENTIONS} mentions in these periods: too few to tell a trend.")
    if made.total > len(made.topics):
        notes.append(f"The first {len(made.topics):,} of {made.total:,} topics are listed.")
    return notes
