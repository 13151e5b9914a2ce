"""Ids, tags, times, types, records and reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from smp_memory.errors import InvalidRecord
from smp_memory.model import ids
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.history import IdAllocator
from smp_memory.model.record import CLASSES, copied, same
from smp_memory.model.reports import Problem, Report, Stats
from smp_memory.model.session_info import SessionInfo
from smp_memory.model.times import parse, system_clock, to_moment, to_text
from smp_memory.model.types import KINDS, PREFIXES, kind_of


@pytest.mark.parametrize("good", ["a", "A-1", "_x", "0", "DEC-0001", "x" * 64, "console", "com10", "a--b", "nul_"])
def test_valid_ids_are_accepted(good: str) -> None:
    assert ids.check(good, "id") == good


@pytest.mark.parametrize(
    "bad", ["", "-a", "a.b", "a b", "a/b", "é", "x" * 65, "con", "COM1", "Lpt9", "a\n", "a\0", "Ⅳ", "１"]
)
def test_invalid_ids_are_rejected(bad: str) -> None:
    with pytest.raises(InvalidRecord, match="id: ") as caught:
        ids.check(bad, "id")
    assert caught.value.field == "id"


@pytest.mark.parametrize("good", ["a", "security.authentication", "v2_x-1", "日本語", "über", "x" * 64, "a.b.c", "२"])
def test_valid_tags_are_accepted(good: str) -> None:
    assert ids.check_tag(good) == good


@pytest.mark.parametrize(
    "bad", ["", ".", "a.", ".a", "a..b", "a b", "a,b", "#a", "x" * 65, "a\n", 5, None, "😀", "a/b"]
)
def test_invalid_tags_are_rejected(bad: Any) -> None:
    with pytest.raises(InvalidRecord, match="tags: "):
        ids.check_tag(bad)


@pytest.mark.parametrize(
    ("name", "number"), [("DEC-0001", 1), ("DEC-12345", 12345), ("DEC-", 0), ("DEC-x", 0), ("dec-1", 0), ("DEC--1", 0), ("DEC-１", 0), ("FIND-1", 0), ("DEC-0001-dup2", 0)]
)  # fmt: skip
def test_number_of_an_id_by_prefix(name: str, number: int) -> None:
    assert ids.number_of(name, "DEC") == number
    assert ids.numbered("DEC", 7) == "DEC-0007"
    assert ids.numbered("DEC", 12345) == "DEC-12345"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        (" 2026-01-02T03:04:05+02:00 ", "2026-01-02T01:04:05Z"),
        ("2026-01-02", "2026-01-02T00:00:00Z"),
        ("2026-01-02T03:04:05.5", "2026-01-02T03:04:05.500000Z"),
        ("20260102T030405Z", "2026-01-02T03:04:05Z"),
        ("2026-W01-5", "2026-01-02T00:00:00Z"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=-1))), "2026-01-02T04:00:00Z"),
        (datetime(2026, 1, 2), "2026-01-02T00:00:00Z"),  # noqa: DTZ001
    ],
)
def test_times_are_converted_to_canonical_text(given: Any, text: str) -> None:
    assert parse(given, "created") == text
    assert to_text(to_moment(text)) == text


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "now",
        "2026-02-30",
        "2026-01-01T25:00:00Z",
        None,
        5,
        1.5,
        True,
        [],
        "0001-01-01T00:00:00+10:00",
        pytest.param(10**5000, id="huge"),
    ],
)
def test_invalid_times_are_rejected(bad: Any) -> None:
    with pytest.raises(InvalidRecord, match="created: not a time") as caught:
        parse(bad, "created")
    assert caught.value.field == "created"


def test_system_clock_is_utc() -> None:
    assert system_clock().tzinfo is UTC


def test_types_are_known_by_many_names() -> None:
    for name, kind in KINDS.items():
        assert kind_of(name) is kind_of(name.upper()) is kind
        assert CLASSES[name].__name__
    assert kind_of("decisions").name == "decision"
    assert kind_of("turn").name == kind_of("messages").name == "conversation"
    assert kind_of("summaries").name == "summary"
    assert (
        len({kind.prefix for kind in KINDS.values()})
        == len({kind.file for kind in KINDS.values()})
        == len(PREFIXES)
        == len(KINDS)
    )
    for bad in ("", "dream", None, 5, []):
        with pytest.raises(InvalidRecord, match="type: ") as caught:
            kind_of(bad)
        assert caught.value.field == "type"


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [(1, 1, True), (1, 1.0, False), (1, True, False), (0, False, False), ("1", 1, False), (None, None, True), (None, False, False),
     ([1], [1], True), ([1], [True], False), ([1], [1, 1], False), ({"a": 1}, {"a": 1}, True), ({"a": 1}, {"a": 1.0}, False),
     ({"a": 1}, {"b": 1}, False), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True), ({}, [], False), ({"a": None}, {}, False)],
)  # fmt: skip
def test_same_compares_value_and_type(one: Any, two: Any, equal: bool) -> None:
    assert same(one, two) is same(two, one) is equal


def test_copies_are_deep() -> None:
    value = {"a": [{"b": []}]}
    twin = copied(value)
    twin["a"][0]["b"].append(1)
    assert value == {"a": [{"b": []}]}


def test_record_of_each_type_has_its_fields_as_attributes() -> None:
    for name, kind in KINDS.items():
        entry = Entry(PUT, name, "X", "2026-01-01T00:00:00Z", {"author": "ada"}, seq=1)
        record = CLASSES[name]("s", entry, entry.data, entry, 1, None)
        for field in kind.rank:
            getattr(record, field)
        assert (record.author, record.author_kind, record.deleted, record.visibility) == (
            "ada",
            "agent",
            False,
            "shared",
        )


def test_id_allocator_counters_only_grow() -> None:
    allocator = IdAllocator(5, {"DEC": 3})
    allocator.raise_to(4, {"DEC": 2, "FIND": 9})
    assert (
        allocator.next_seq(),
        allocator.next_number("DEC"),
        allocator.next_number("FIND"),
        allocator.next_number("ART"),
    ) == (
        6,
        4,
        10,
        1,
    )
    twin = allocator.copy()
    twin.next_number("DEC")
    assert allocator.next_number("DEC") == 5


def test_reports() -> None:
    note = Problem("f", 3, "edited", "was edited", "note", "X")
    error = Problem("f", 0, "damaged", "is damaged")
    assert str(note) == "f:3: note: was edited"
    assert str(error) == "f: error: is damaged"
    assert (Report([note], 1).ok, Report([note, error], 1).ok, bool(Report([error], 1))) == (True, False, False)
    assert Report([note], 1, ["did"]).to_dict()["actions"] == ["did"]
    stats = Stats({"bytes": 5})
    assert (stats.bytes, stats["bytes"]) == (5, 5)
    with pytest.raises(AttributeError):
        _ = stats.nothing


def test_session_info_compares_by_value() -> None:
    one, two = (
        SessionInfo("s", "2026-01-01T00:00:00Z", user="a"),
        SessionInfo("s", "2026-01-01T00:00:00Z", user="a", seq=5),
    )
    assert one == two
    assert one != SessionInfo("s", "2026-01-01T00:00:00Z")
    one.to_dict()["context"]["x"] = 1
    assert one.context == {}
