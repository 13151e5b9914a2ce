"""Statistics of use and trends of topics, from facts alone."""

from __future__ import annotations

import random

import pytest

from smp_memory.analytics.facts import DAY, MemoryFacts, Periods
from smp_memory.analytics.usage import binomial_tail, classify, trends, usage

NOW = 1_000 * DAY


def memory(number: int, *, age: float = 10, uses: int = 0, last: float | None = None, **more: object) -> MemoryFacts:
    """A memory so many days old, last used so many days ago."""
    last_use = None if not uses else NOW - round((age if last is None else last) * DAY)
    about: dict[str, object] = {"session": "s", "type": "finding", "author": "ada", **more}
    return MemoryFacts(
        number, str(about["session"]), f"FIND-{number:04d}", str(about["type"]), str(about["author"]),
        NOW - round(age * DAY), False, uses, last_use,
    )  # fmt: skip


# -- periods


def test_periods_end_now_and_have_the_same_length() -> None:
    periods = Periods(NOW, "week", 4)
    assert periods.counts([NOW, NOW - 6 * DAY, NOW - 8 * DAY, NOW - 27 * DAY, NOW - 29 * DAY, NOW + 1]) == [1, 0, 1, 2]
    assert {later - earlier for earlier, later in zip(periods.starts, periods.starts[1:], strict=False)} == {7 * DAY}


# -- usage


def test_usage_counts_memories_and_uses_by_group() -> None:
    facts = [
        memory(1, uses=3, last=1),
        memory(2),
        memory(3, uses=1, last=5, author="bob", type="decision", session="t"),
    ]
    made = usage(facts, [(1, "auth"), (2, "auth"), (99, "hidden")], [], Periods(NOW), 10)
    assert (made.memories, made.used, made.uses, made.never_used_count) == (3, 2, 4, 1)
    assert [(each.name, each.memories, each.used, each.uses) for each in made.by_type] == [("finding", 2, 1, 3), ("decision", 1, 1, 1)]  # fmt: skip
    assert [(each.name, each.uses) for each in made.by_author] == [("ada", 3), ("bob", 1)]
    assert [(each.name, each.memories, each.share_used) for each in made.by_tag] == [("auth", 2, 0.5)]
    assert [each.ref for each in made.most_used] == ["s/FIND-0001", "t/FIND-0003"]
    assert [each.ref for each in made.never_used] == ["s/FIND-0002"]


def test_last_uses_count_each_used_memory_once() -> None:
    facts = [
        memory(1, age=50, uses=40, last=1),
        memory(2, age=50, uses=2, last=20),
        memory(3, age=400, uses=1, last=300),
    ]
    made = usage(facts, [], [], Periods(NOW, "week", 4), 10)
    assert made.last_uses == [0, 1, 0, 1]  # one use is before all periods


def test_only_uses_in_the_access_log_have_single_times() -> None:
    facts = [memory(1, uses=5, last=0)]
    log = [("s/FIND-0001", (NOW - DAY) / 1e6), ("s/FIND-0001", NOW / 1e6), ("other/FIND-0001", NOW / 1e6)]
    made = usage(facts, [], log, Periods(NOW, "day", 3), 10)
    assert (made.logged.uses, made.logged.counts) == (2, [0, 1, 1])
    assert any("not known" in note for note in made.notes)


def test_share_of_used_memories_is_zero_without_memories() -> None:
    made = usage([], [], [], Periods(NOW), 10)
    assert (made.share_used, made.most_used, made.by_type) == (0.0, [], [])
    assert made.to_dict()["memories"] == 0


def test_lists_have_the_limit_and_a_note_says_what_was_cut() -> None:
    facts = [memory(number, uses=number, author=f"a{number}") for number in range(1, 20)]
    made = usage(facts, [], [], Periods(NOW), 5)
    assert [each.uses for each in made.most_used] == [19, 18, 17, 16, 15]
    assert len(made.by_author) == 5
    assert any("first 5 of 19 authors" in note for note in made.notes)


# -- trends


@pytest.mark.parametrize(
    ("recent", "before", "earlier", "expected"),
    [
        (0, 0, 0, "few"),
        (4, 0, 0, "few"),
        (5, 0, 0, "new"),
        (5, 0, 7, "rising"),
        (20, 10, 0, "rising"),
        (10, 20, 0, "steady"),
        (1, 20, 0, "falling"),
        (0, 11, 0, "steady"),
        (0, 12, 0, "quiet"),
        (0, 0, 5, "quiet"),
        (0, 0, 4, "few"),
    ],
)
def test_trend_follows_from_the_counts(recent: int, before: int, earlier: int, expected: str) -> None:
    assert classify(recent, before, earlier, 1 / 3)[0] == expected


def test_topics_without_a_trend_are_rarely_called_rising_or_falling() -> None:
    rng = random.Random(7)
    called = 0
    for _ in range(2000):
        recent = sum(rng.random() < 1 / 3 for _ in range(30))
        called += classify(recent, 30 - recent, 0, 1 / 3)[0] != "steady"
    assert called / 2000 <= 0.02  # one per cent on each side


def test_binomial_tail_is_exact_for_small_and_close_for_large_numbers() -> None:
    assert binomial_tail(2, 2, 0.5) == 0.25
    assert binomial_tail(0, 9, 0.1) == 1.0
    assert binomial_tail(450, 1200, 1 / 3) == pytest.approx(0.0013, abs=0.0005)


def test_parents_of_topics_are_mentioned_once_by_each_memory() -> None:
    facts = [memory(number, age=number) for number in range(1, 7)]
    labels = [pair for each in facts for pair in ((each.doc, "perf.cache"), (each.doc, "perf.disk"))]
    found = {each.name: each.mentions for each in trends(facts, labels, Periods(NOW), 10)}
    assert found == {"perf": 6, "perf.cache": 6, "perf.disk": 6}


def test_memories_without_a_time_or_from_the_future_are_in_no_period() -> None:
    facts = [memory(1)._replace(created=0), memory(2, age=-400), memory(3, age=1)]
    made = trends(facts, [(1, "a"), (2, "b"), (3, "c")], Periods(NOW), 10)
    assert [each.name for each in made] == ["c"]


def test_few_mentions_are_said_to_be_few() -> None:
    made = trends([memory(1)], [(1, "auth")], Periods(NOW), 10)
    assert made.by_trend == {"few": 1}
    assert "1 topic has fewer than 5 mentions" in made.notes[0]


def test_changing_topics_come_before_steady_ones() -> None:
    facts = [memory(number, age=number * 84 / 40) for number in range(40)]
    new = [memory(100 + number, age=1) for number in range(6)]
    labels = [(each.doc, "steady") for each in facts] + [(each.doc, "fresh") for each in new]
    made = trends([*facts, *new], labels, Periods(NOW), 1)
    assert [(each.name, each.trend) for each in made] == [("fresh", "new")]
    assert "first 1 of 2 topics" in made.notes[-1]
