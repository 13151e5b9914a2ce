"""Duplicates and their merge; the examples on which the threshold was chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.lifecycle.consolidation import (
    THRESHOLD,
    Duplicates,
    find_duplicates,
    merged,
    shingles_of,
    similar_groups,
    similarity,
)
from smp_memory.model.record import Record
from smp_memory.model.types import names_where
from tests.unit.lifecycle.records import record

SAME = [
    ("No MFA requirement specified in authentication section", "MFA requirement is not specified in the authentication section"),
    ("Session timeout not defined", "Session timeout is not defined"),
    ("The login endpoint has no rate limiting", "Login endpoint has no rate limit"),
    ("SQL injection possible in the search form of the admin page", "SQL injection is possible in search form of admin page"),
    ("User prefers short answers with code examples", "The user prefers short answers with code examples."),
    ("Passwords are stored with MD5 hashing in the users table", "Passwords in the users table are stored with MD5 hashing"),
    ("Prefer comprehensive verification over speed for security features", "Prefers comprehensive verification over speed for all security features"),
    ("Memory leak in the websocket reconnect loop", "Websocket reconnect loop has a memory leak"),
    ("Die Sitzung hat keinen Timeout im Login", "Die Sitzung hat im Login keinen Timeout"),
    ("数据库没有定义会话超时", "数据库没有定义会话超时。"),
    ("Таймаут сессии не определён в конфигурации", "В конфигурации таймаут сессии не определён"),
    ("Missing input validation in login.py", "Input validation missing in login.py"),
    ("The cache is never invalidated after a user is deleted", "Cache is never invalidated after the user is deleted"),
]  # fmt: skip
DIFFERENT = [
    ("User prefers dark mode in the editor for all files", "User prefers light mode in the editor for all files"),
    ("Test failed in module 17", "Test failed in module 18"),
    ("Use tabs for indentation", "Do not use tabs for indentation"),
    ("Missing input validation in login.py", "Missing input validation in signup.py"),
    ("Enable the cache for search", "Disable the cache for search"),
    ("The login endpoint has no rate limiting", "The upload endpoint has no rate limiting"),
    ("Session timeout not defined", "Session storage not defined"),
    ("User likes coffee in the morning", "User likes tea in the morning"),
    ("Prefers answers in German", "Prefers answers in English"),
    ("The payment service retries three times on timeout", "The payment service retries five times on timeout"),
    ("Alice should review security changes before release", "Bob should review security changes before release"),
    ("Deploy on Monday morning after the backup", "Deploy on Friday morning after the backup"),
    ("The user prefers PostgreSQL as the database for new projects", "The user prefers SQLite as the database for new projects"),
    ("Upgrade to version 2.1 before the release", "Upgrade to version 2.2 before the release"),
    ("API keys must always be rotated", "API keys must never be rotated"),
    ("数据库没有定义会话超时", "数据库没有定义备份时间"),
    ("", ""),
    ("the", "the"),
    ("!!!", "!!!"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_similar_texts_are_above_the_threshold(one: str, other: str) -> None:
    assert similarity(shingles_of(one), shingles_of(other)) >= THRESHOLD


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_texts_are_below_the_threshold(one: str, other: str) -> None:
    assert similarity(shingles_of(one), shingles_of(other)) < THRESHOLD


def finding(number: int, text: str = "The login endpoint has no rate limiting", **data: Any) -> Record:
    return record("finding", number, 10, finding=text, **data)


def groups(*records: Record) -> list[list[str]]:
    return [[record.id for record in group.records] for group in find_duplicates(records)]


# -- finding


def test_duplicates_are_ordered_by_their_first_memory() -> None:
    found = find_duplicates(
        [
            finding(4, "Session timeout is not defined"),
            finding(1, "Session timeout not defined"),
            finding(2),
            finding(3, "Login endpoint has no rate limit"),
            finding(5, "Something else altogether is wrong here"),
        ]
    )
    assert [[each.id for each in group.records] for group in found] == [
        ["FIND-0001", "FIND-0004"],
        ["FIND-0002", "FIND-0003"],
    ]
    assert found[0].similarity == [1.0, 1.0]
    json.dumps(found[0].to_dict())


def test_only_findings_and_preferences_are_compared() -> None:
    assert groups(*(record("decision", number, decision="The same words again") for number in (1, 2))) == []
    assert groups(*(record("preference", number, preference="The same words again") for number in (1, 2)))
    assert names_where("is_merged") == ("finding", "preference")


@pytest.mark.parametrize(
    "other",
    [
        {"status": "resolved"},
        {"location": "other.py"},
        {"visibility": "private"},
        {"session": "t"},
        {"deleted_days": 1},
    ],
    ids=repr,
)
def test_memories_that_differ_in_type_visibility_or_location_are_not_merged(other: dict[str, Any]) -> None:
    assert groups(finding(1), finding(2, **other)) == []


def test_preferences_with_one_key_and_two_values_contradict_each_other() -> None:
    one = record("preference", 1, key="theme", value="dark", preference="Use this theme everywhere please")
    other = record("preference", 2, key="theme", value="light", preference="Use this theme everywhere please")
    assert groups(one, other) == []
    assert groups(
        one, record("preference", 3, key="theme", value="dark", preference="Use this theme everywhere please")
    )


def test_private_findings_of_two_agents_are_not_merged() -> None:
    assert groups(finding(1, visibility="private", author="a"), finding(2, visibility="private", author="b")) == []
    assert groups(finding(1, visibility="private", author="a"), finding(2, visibility="private", author="a"))


def test_memories_without_text_are_not_duplicates() -> None:
    """claude-mem#2812: what had no hash was taken for the same and deleted, 26,445 of them."""
    assert groups(*(record("finding", number, severity="high") for number in range(20))) == []


def test_many_copies_and_templates_are_grouped() -> None:
    copies = [finding(number) for number in range(3000)]
    template = [
        finding(10_000 + number, f"Test {number} failed in the nightly run of the suite") for number in range(3000)
    ]
    assert [len(group.records) for group in find_duplicates(copies + template)] == [3000]


def test_a_chain_of_small_steps_does_not_join_its_ends() -> None:
    words = [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "omicron",
        "sigma",
    ]
    texts = [shingles_of(" ".join(words[start : start + 8])) for start in range(6)]
    for group in similar_groups(texts):
        assert all(value >= THRESHOLD for _, value in group)


def test_long_texts_that_differ_at_their_end_are_different() -> None:
    long = " ".join(f"word{chr(97 + number % 26)}{chr(97 + number // 26 % 26)}" for number in range(600))
    assert similarity(shingles_of(long + " first end"), shingles_of(long + " second end")) == 0
    assert similarity(shingles_of(long), shingles_of(long)) == 1


@given(some.lists(some.text("ab 12é数", max_size=30), max_size=25))
def test_groups_are_similar_inside_and_distinct_for_any_texts(texts: list[str]) -> None:
    made = [shingles_of(text) for text in texts]
    found = similar_groups(made)
    places = [place for group in found for place, _ in group]
    assert len(places) == len(set(places))
    for group in found:
        assert len(group) > 1
        for place, value in group:
            assert value == similarity(made[group[0][0]], made[place]) >= THRESHOLD


# -- merging


def test_a_merge_keeps_a_trace_of_all() -> None:
    kept = finding(
        1, author="veritas", severity="medium", tags=["security"], references=["TURN-0001"], evidence="log 1"
    )
    other = finding(2, "Login endpoint has no rate limit", author="sentinel", severity="critical", tags=["api"],
                    references=["TURN-0009"], evidence="log 2", relations=[{"kind": "led_to", "target": "DEC-0001"}])  # fmt: skip
    change = merged(find_duplicates([kept, other])[0])
    assert change.keep == "FIND-0001"
    assert change.changes["discoverers"] == ["veritas", "sentinel"]
    assert change.changes["tags"] == ["security", "api"]
    assert change.changes["references"] == ["TURN-0001", "TURN-0009"]
    assert change.changes["severity"] == "critical"
    assert change.changes["relations"] == [
        {"kind": "led_to", "target": "DEC-0001"},
        {"kind": "derived_from", "target": "FIND-0002"},
    ]
    trace = change.changes["merged_from"][0]
    assert (trace["id"], trace["author"], trace["text"], trace["evidence"]) == (
        "FIND-0002", "sentinel", "Login endpoint has no rate limit", "log 2",
    )  # fmt: skip
    assert change.remove == [("FIND-0002", "merged into FIND-0001")]
    assert change.revisions == {"FIND-0001": 1, "FIND-0002": 1}
    json.dumps(change.to_dict())


def test_pinned_then_most_confident_memory_is_kept() -> None:
    assert groups(finding(1), finding(2, confidence="high"), finding(3, pinned=True)) == [
        ["FIND-0003", "FIND-0002", "FIND-0001"]
    ]


def test_importance_and_confidence_are_the_largest() -> None:
    change = merged(find_duplicates([finding(1, importance=0.4, confidence=0.9), finding(2, importance=0.8)])[0])
    assert change.changes["importance"] == 0.8
    assert "confidence" not in change.changes


def test_a_second_merge_keeps_the_trace_of_the_first() -> None:
    first = {"id": "FIND-0007", "text": "older"}
    change = merged(
        find_duplicates([finding(1, discoverers=["a", "b"], author="a"), finding(2, merged_from=[first], author="c")])[
            0
        ]
    )
    assert [trace["id"] for trace in change.changes["merged_from"]] == ["FIND-0007", "FIND-0002"]
    assert change.changes["discoverers"] == ["a", "b", "c"]


def test_relations_inside_the_group_are_removed() -> None:
    change = merged(
        find_duplicates([finding(1, relations=[{"kind": "relates_to", "target": "FIND-0002"}]), finding(2)])[0]
    )
    assert change.changes["relations"] == [{"kind": "derived_from", "target": "FIND-0002"}]


def test_fields_of_any_shape_do_not_raise() -> None:
    odd: list[Any] = [7, "x", {"a": 1}, [1, {}], True]
    for value in odd:
        fields = dict.fromkeys(
            ("tags", "references", "relations", "severity", "importance", "confidence", "author", "merged_from"), value
        )
        for group in find_duplicates([finding(1, **fields), finding(2, **fields)]):
            assert isinstance(group, Duplicates)
            merged(group)
