"""Trends of topics and tags: rising, falling, new, quiet or steady, with the counts behind it. Pure.

A memory mentions its topic, its tags and their parents, each once: `security.login` mentions `security`, too. Mentions are
counted by periods of equal length that end now. The last third of the periods is *recent*, the others are *before*.

The rule: if a topic is mentioned as often as ever, each of its n mentions is recent with the probability p = recent periods ÷
all periods, so the number of recent ones is binomial(n, p). A topic is

    quiet    if it has at least 5 earlier mentions and none in all periods
    few      with fewer than 5 mentions in all periods: too few to tell
    new      if all its mentions ever are recent, and that many would be in at most 1 of 100 cases
    rising   if so many or more recent ones would be in at most 1 of 100 cases
    quiet    if none is recent, which would be in at most 1 of 100 cases
    falling  if so few or fewer recent ones would be in at most 1 of 100 cases
    steady   otherwise

The test is exact, needs no normal distribution, and one busy day does not make a trend of few mentions. Non-guarantees: of many
topics, one in a hundred is called rising or falling by chance alone; mentions that come in bunches make that more.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import MemoryFacts, dicts, time_text
from smp_memory.analytics.periods import Periods
from smp_memory.overview.topics import topics_above

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from smp_memory.model.reports import Problem

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


class Trends:
    """The topics of a scope with their trends."""

    __slots__ = ("by_trend", "notes", "periods", "problems", "recent_periods", "topics", "total")

    def __init__(self, topics: list[TopicTrend], total: int, by_trend: dict[str, int], periods: Periods) -> None:
        self.topics = (
            topics  # the first ones: rising and new, then falling and quiet, then the others; more mentions first
        )
        self.total = total  # topics in the periods or before
        self.by_trend = by_trend  # how many of all
        self.periods = periods
        self.recent_periods = recent_periods(periods.count)
        self.notes: list[str] = []
        self.problems: list[Problem] = []  # entries that could not be read

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
    found = sorted((each for each in every if each is not None), key=_order)
    by_trend = {name: sum(each.trend == name for each in found) for name in ORDER}
    made = Trends(found[:limit], len(found), {name: count for name, count in by_trend.items() if count}, periods)
    made.notes = _notes(made, by_trend)
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


def _order(topic: TopicTrend) -> tuple[bool, int, int, int, str]:
    """What is mentioned in these periods comes first."""
    return not topic.mentions, ORDER.index(topic.trend), -topic.mentions, -topic.earlier, topic.name


def _notes(made: Trends, by_trend: Mapping[str, int]) -> list[str]:
    notes = []
    if by_trend[FEW]:
        said = f"{by_trend[FEW]:,} topics have" if by_trend[FEW] > 1 else "1 topic has"
        notes.append(f"{said} fewer than {MIN_MENTIONS} mentions in these periods: too few to tell a trend.")
    if made.total > len(made.topics):
        notes.append(f"The first {len(made.topics):,} of {made.total:,} topics are listed.")
    return notes
