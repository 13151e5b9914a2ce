"""Time ranges from text and values, and times in free text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.errors import InvalidQuery
from smp_memory.model.times import to_microseconds
from smp_memory.search.time_ranges import EXAMPLES, Range, find_ranges, parse_range

NOW = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)  # a Wednesday


def at(text: str) -> int | None:
    return to_microseconds(datetime.fromisoformat(text)) if text else None


def span(start: str, end: str) -> Range:
    return Range(at(start), at(end))


def up_to_now(start: str) -> Range:
    return Range(at(start), to_microseconds(NOW) + 1)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("last 24 hours", "2026-01-13T10:30"),
        ("last hour", "2026-01-14T09:30"),
        ("last day", "2026-01-13T10:30"),
        ("last week", "2026-01-07T10:30"),
        ("last 2 weeks", "2025-12-31T10:30"),
        ("past 3 days", "2026-01-11T10:30"),
        ("in the past three days", "2026-01-11T10:30"),
        ("over the last couple of days", "2026-01-12T10:30"),
        ("within the last few months", "2025-10-14T10:30"),
        ("past month", "2025-12-14T10:30"),
        ("in the last month", "2025-12-14T10:30"),
        ("past year", "2025-01-14T10:30"),
        ("Last 90 Minutes", "2026-01-14T09:00"),
        ("24h", "2026-01-13T10:30"),
        ("7d", "2026-01-07T10:30"),
        ("3 days", "2026-01-11T10:30"),
    ],
)
def test_durations_up_to_now(text: str, start: str) -> None:
    assert parse_range(text, NOW) == up_to_now(start)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", "2026-01-14", "2026-01-15"),
        ("yesterday", "2026-01-13", "2026-01-14"),
        ("the day before yesterday", "2026-01-12", "2026-01-13"),
        ("this week", "2026-01-12", "2026-01-19"),
        ("this month", "2026-01-01", "2026-02-01"),
        ("this quarter", "2026-01-01", "2026-04-01"),
        ("this year", "2026-01-01", "2027-01-01"),
        ("this hour", "2026-01-14T10:00", "2026-01-14T11:00"),
        ("previous week", "2026-01-05", "2026-01-12"),
        ("last month", "2025-12-01", "2026-01-01"),
        ("last quarter", "2025-10-01", "2026-01-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("last weekend", "2026-01-10", "2026-01-12"),
        ("last night", "2026-01-13T18:00", "2026-01-14T06:00"),
        ("monday", "2026-01-12", "2026-01-13"),
        ("wednesday", "2026-01-14", "2026-01-15"),
        ("last wednesday", "2026-01-07", "2026-01-08"),
        ("this friday", "2026-01-16", "2026-01-17"),
        ("fri", "2026-01-09", "2026-01-10"),
    ],
)
def test_days_and_weeks_by_name(text: str, start: str, end: str) -> None:
    assert parse_range(text, NOW) == span(start, end)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026", "2026-01-01", "2027-01-01"),
        ("2026-01", "2026-01-01", "2026-02-01"),
        ("2025-12", "2025-12-01", "2026-01-01"),
        ("2026-01-05", "2026-01-05", "2026-01-06"),
        ("2026/1/5", "2026-01-05", "2026-01-06"),
        ("20260105", "2026-01-05", "2026-01-06"),
        ("2026-W02", "2026-01-05", "2026-01-12"),
        ("2025-Q3", "2025-07-01", "2025-10-01"),
        ("Q1 2025", "2025-01-01", "2025-04-01"),
        ("2026-01-05T10", "2026-01-05T10:00", "2026-01-05T11:00"),
        ("2026-01-05 10:15", "2026-01-05T10:15", "2026-01-05T10:16"),
        ("2026-01-05T10:15:30Z", "2026-01-05T10:15:30", "2026-01-05T10:15:31"),
        ("2026-01-05T10:15:30.5Z", "2026-01-05T10:15:30.500000", "2026-01-05T10:15:30.500001"),
        ("2026-01-05T10:15:30+02:00", "2026-01-05T08:15:30", "2026-01-05T08:15:31"),
        ("January 2026", "2026-01-01", "2026-02-01"),
        ("jan, 2026", "2026-01-01", "2026-02-01"),
        ("January", "2026-01-01", "2026-02-01"),
        ("in December", "2025-12-01", "2026-01-01"),
        ("last March", "2025-03-01", "2025-04-01"),
        ("last January", "2025-01-01", "2025-02-01"),
        ("this March", "2026-03-01", "2026-04-01"),
        ("on 3 May", "2025-05-03", "2025-05-04"),
        ("5 May 2023", "2023-05-05", "2023-05-06"),
        ("May 5, 2023", "2023-05-05", "2023-05-06"),
        ("the 5th of May", "2025-05-05", "2025-05-06"),
        ("14 January", "2026-01-14", "2026-01-15"),
        ("15 January", "2025-01-15", "2025-01-16"),
        ("29 February", "2024-02-29", "2024-03-01"),
        ("the summer of 2022", "2022-06-01", "2022-09-01"),
        ("winter 2024", "2024-12-01", "2025-03-01"),
        ("last summer", "2025-06-01", "2025-09-01"),
        ("the week of 23 August 2023", "2023-08-21", "2023-08-28"),
    ],
)
def test_dates(text: str, start: str, end: str) -> None:
    assert parse_range(text, NOW) == span(start, end)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("3 days ago", "2026-01-11", "2026-01-12"),
        ("two weeks ago", "2025-12-28", "2026-01-04"),
        ("a couple of weeks ago", "2025-12-28", "2026-01-04"),
        ("a month ago", "2025-11-29", "2025-12-30"),
        ("a year ago", "2024-07-16", "2025-07-16"),
        ("3 hours ago", "2026-01-14T07:00", "2026-01-14T08:00"),
    ],
)
def test_span_of_ago_is_as_wide_as_its_unit(text: str, start: str, end: str) -> None:
    assert parse_range(text, NOW) == span(start, end)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("since monday", "2026-01-12", ""),
        ("since 2026-01-05", "2026-01-05", ""),
        ("since two weeks ago", "2025-12-31", ""),
        ("until friday", "", "2026-01-10"),
        ("until 2026-01-05", "", "2026-01-06"),
        ("up to yesterday", "", "2026-01-14"),
        ("before 2026-01-05", "", "2026-01-05"),
        ("before last month", "", "2025-12-01"),
        ("after 2026-01-05", "2026-01-06", ""),
        ("after January 2025", "2025-02-01", ""),
        ("after 2026-01-05T10:00:00Z", "2026-01-05T10:00:00.000001", ""),
        ("2026-01-05..2026-01-10", "2026-01-05", "2026-01-11"),
        ("2026-01-05 .. 2026-01-10", "2026-01-05", "2026-01-11"),
        ("2026-01-05..", "2026-01-05", ""),
        ("..2026-01-10", "", "2026-01-11"),
        ("2026-01-05/2026-01-10", "2026-01-05", "2026-01-11"),
        ("2026-01-05 to 2026-01-10", "2026-01-05", "2026-01-11"),
        ("2025-11 - 2025-12", "2025-11-01", "2026-01-01"),
        ("from 2026-01-05 until yesterday", "2026-01-05", "2026-01-14"),
        ("between 2026-01-05 and 2026-01-10", "2026-01-05", "2026-01-11"),
        ("since 2026-01-05 until 2026-01-10", "2026-01-05", "2026-01-11"),
        ("between May and July 2023", "2023-05-01", "2023-08-01"),
        ("from May 2023 to July", "2023-05-01", "2023-08-01"),
        ("November to January", "2025-11-01", "2026-02-01"),
        ("from monday to friday", "2026-01-05", "2026-01-10"),
        ("yesterday to today", "2026-01-13", "2026-01-15"),
    ],
)
def test_ranges_between_two_times(text: str, start: str, end: str) -> None:
    assert parse_range(text, NOW) == span(start, end)


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        # design 001 §5.1 and §7.1
        (
            {"start": "2026-01-10T00:00:00Z", "end": "2026-01-11T23:59:59Z"},
            "2026-01-10",
            "2026-01-12",
        ),
        # design 004 §6.2
        (
            {"start": datetime(2026, 1, 1, tzinfo=UTC), "end": datetime(2026, 1, 10, tzinfo=UTC)},
            "2026-01-01",
            "2026-01-10T00:00:00.000001",
        ),
        ({"start": "2026-01-05"}, "2026-01-05", ""),
        ({"end": "2026-01-05"}, "", "2026-01-06"),
        ({"start": None, "end": "2026-01-05"}, "", "2026-01-06"),
        ({"after": "2026-01-05", "before": "2026-01-10"}, "2026-01-06", "2026-01-10"),
        ({"since": "yesterday"}, "2026-01-13", ""),
        ({"from": "2026-01-05", "to": "2026-01-10"}, "2026-01-05", "2026-01-11"),
        (("2026-01-05", "2026-01-10"), "2026-01-05", "2026-01-11"),
        (["2026-01-05", None], "2026-01-05", ""),
        ((date(2026, 1, 5), date(2026, 1, 10)), "2026-01-05", "2026-01-11"),
        ((datetime(2026, 1, 5), None), "2026-01-05", ""),  # noqa: DTZ001 - naive on purpose: it is UTC
        (date(2026, 1, 5), "2026-01-05", "2026-01-06"),
        (datetime(2026, 1, 5, 2, tzinfo=timezone(timedelta(hours=2))), "2026-01-05", ""),
        (timedelta(hours=1), "2026-01-14T09:30", "2026-01-14T10:30:00.000001"),
        (None, "", ""),
        (Range(1, 2), "1970-01-01T00:00:00.000001", "1970-01-01T00:00:00.000002"),
    ],
)
def test_other_shapes(asked: Any, start: str, end: str) -> None:
    assert parse_range(asked, NOW) == span(start, end)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("last fnord", "'fnord' is not understood"),
        ("fnord week", "'fnord' is not understood"),
        ("since", "'since' is not understood"),
        ("last", "'last' is not understood"),
        ("today or so", "'or' is not understood"),
        ("31 February", "'31 february' is not understood"),
        ("2026-13", "'2026-13' is not understood"),
        ("5/3/2023", "'5/3/2023' is not understood"),
        ("0000", "'0000' is not understood"),
        ("2026-01-10..2026-01-05", "ends before it begins"),
        (("2026-01-10", "2026-01-05"), "ends before it begins"),
        ({"start": "2026-01-10", "end": "2026-01-05"}, "ends before it begins"),
        ({"begin": "2026-01-10"}, "needs start and end"),
        ({}, "needs start and end"),
        ({"start": 5}, "a start or end is text"),
        ((1, 2, 3), "give text"),
        (5, "give text"),
        (timedelta(days=-1), "timedelta above 0"),
        ("²", "not understood"),
        ("٣ days", "not understood"),
    ],
)
def test_error_names_the_part_that_cannot_be_read(asked: Any, part: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_range(asked, NOW, field="created")
    message = str(caught.value)
    assert message.startswith("created: ")
    assert part in message
    assert "last 24 hours" in message
    assert caught.value.details["field"] == "created"


def test_every_example_in_the_message_can_be_read() -> None:
    for example in EXAMPLES:
        assert parse_range(example, NOW)


def test_the_ends_of_the_calendar() -> None:
    assert parse_range("9999-12-31", NOW).contains(to_microseconds(datetime.max.replace(tzinfo=UTC)))
    assert parse_range("9999", NOW).end_time == datetime.max.replace(tzinfo=UTC)
    assert str(parse_range("last 999999 years", NOW)).startswith("0001-01-14T10:30:00Z..")
    assert parse_range("last 999999 weeks", NOW).start is None
    assert parse_range("0001", NOW).start_time == datetime(1, 1, 1, tzinfo=UTC)


def test_now_may_be_a_number() -> None:
    assert parse_range("today", to_microseconds(NOW)) == span("2026-01-14", "2026-01-15")
    assert find_ranges("today", to_microseconds(NOW)) == [span("2026-01-14", "2026-01-15")]


def test_range_contains() -> None:
    day = span("2026-01-05", "2026-01-06")
    assert day.contains(to_microseconds(datetime(2026, 1, 5, tzinfo=UTC)))
    assert not day.contains(to_microseconds(datetime(2026, 1, 6, tzinfo=UTC)))
    assert Range(None, None).contains(0)
    assert str(day) == "2026-01-05T00:00:00Z..2026-01-06T00:00:00Z"
    assert repr(Range(None, None)) == "Range(..)"
    assert len({day, span("2026-01-05", "2026-01-06")}) == 1


# -- times inside a question


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What did Caroline do last March?", "2025-03-01", "2025-04-01"),
        ("Which museum did I visit two weeks ago, again?", "2025-12-28", "2026-01-04"),
        ("What happened in the summer of 2022?", "2022-06-01", "2022-09-01"),
        ("Who called on the 5th of May?", "2025-05-05", "2025-05-06"),
        ("Where did she go on 7 May, 2023?", "2023-05-07", "2023-05-08"),
        ("What did we decide in yesterday's meeting?", "2026-01-13", "2026-01-14"),
        ("When did Melanie march in May?", "2025-05-01", "2025-06-01"),
        ("What was in the March release?", "2025-03-01", "2025-04-01"),
        ("Was it decided in 2022 by DEC-0001?", "2022-01-01", "2023-01-01"),
        ("Did Jon start before January 2023?", "", "2023-01-01"),
        ("What changed between May 2023 and July 2023?", "2023-05-01", "2023-08-01"),
        ("What happened from 3 May 2023 to 5 May 2023?", "2023-05-03", "2023-05-06"),
        ("the photos from March 2023", "2023-03-01", "2023-04-01"),
        ("What did I read a week ago?", "2026-01-04", "2026-01-11"),
        ("What did I read last week?", "2026-01-05", "2026-01-14T10:30:00.000001"),
        ("What was it the week before 9 June 2023?", "2023-06-02", "2023-06-09"),
        ("in the fall", "2025-09-01", "2025-12-01"),
        ("what on 2026-01-05?", "2026-01-05", "2026-01-06"),
        ("Who went two weeks ago to the zoo?", "2025-12-28", "2026-01-04"),
        ("What did she get two weeks before August 11, 2023?", "2023-07-25", "2023-08-01"),
        ("What broke 3 days after 1 May 2023?", "2023-05-04", "2023-05-05"),
        ("What was shown on the Sunday before October 25, 2022?", "2022-10-23", "2022-10-24"),
        ("What was shown the Sunday after October 25, 2022?", "2022-10-30", "2022-10-31"),
        ("Where was he in the second week of November?", "2025-11-01", "2025-12-01"),
        ("What did I plant in the last month?", "2025-12-14T10:30", "2026-01-14T10:30:00.000001"),
    ],
)
def test_times_in_free_text_are_found(question: str, start: str, end: str) -> None:
    assert find_ranges(question, NOW) == [span(start, end)]


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Which database did the architect choose?",
        "What may the agent do?",
        "May I go?",
        "Did they march on?",
        "What did April and June say?",
        "the last day of school",
        "It took 3 days to build",
        "the fall of Rome",
        "Spring Boot or Quarkus?",
        "Sat on the sun with Jan",
        "Is port 2049 or 8080 open, or 3.11?",
        "31 and 99999999 and 2026-99-99",
        "the second last minute change",
        "When do I get up on Saturday mornings?",
        "my Sunday group rides",
        "the Ash Wednesday service",
        "the past",
    ],
)
def test_free_text_without_a_time(question: str) -> None:
    assert find_ranges(question, NOW) == []


def test_two_months_in_one_text() -> None:
    found = find_ranges("the novels I finished in January and March", NOW)
    assert found == [span("2026-01-01", "2026-02-01"), span("2025-03-01", "2025-04-01")]


def test_several_times_in_their_order_and_none_twice() -> None:
    found = find_ranges("on Friday, in 2022, or on friday; from 2026-01-10 to 2026-01-05", NOW)
    assert found[:2] == [span("2026-01-09", "2026-01-10"), span("2022-01-01", "2023-01-01")]
    assert len(found) == 2


WORDS = (
    "last past this since until before between and from to ago a two 3 31 2026 2026-01-05 0 99 days week month year "
    "may march monday summer of the in today q1 q9 2026-13 10:30 t z - -- .. ² ١ 2026-02-30 february 24h 9999 decades"
)
words = some.sampled_from(WORDS.split())


@given(some.lists(words, max_size=7).map(" ".join) | some.text(max_size=40))
def test_no_text_breaks_the_grammar(text: str) -> None:
    for found in find_ranges(text, NOW):
        assert found.start is None or found.end is None or found.start < found.end
    try:
        found = parse_range(text, NOW)
    except InvalidQuery:
        return
    assert found.start is None or found.end is None or found.start < found.end


@given(some.dates())
def test_every_day_has_its_own_range(day: date) -> None:
    found = parse_range(day.isoformat(), NOW)
    assert found == parse_range(day, NOW)
    assert found.end is not None
    assert found.start is not None
    assert found.end - found.start == 24 * 3600 * 1_000_000
