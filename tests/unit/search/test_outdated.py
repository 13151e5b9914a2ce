"""The newer of two memories about the same thing outdates the older one, and only then."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smp_memory.search.succession import outdated
from tests.unit.lifecycle.records import record


def is_outdated(older: str, newer: str, type: str = "decision", field: str = "decision", **data: Any) -> bool:
    records = [record(type, 1, days=9, **{field: older}, **data), record(type, 2, days=1, **{field: newer}, **data)]
    found = outdated(records)
    assert found == outdated(records[::-1])
    assert found in ({}, {records[0].ref: records[1].ref})
    return bool(found)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The session timeout is 30 minutes", "The session timeout is 15 minutes"),
        ("Max retries: 3", "Max retries: 5"),
        ("Queries above 200 credits are stopped by the monitor.", "The monitor stops queries above 350 credits now."),
        ("We use MySQL for billing data", "We use Postgres for billing data instead of MySQL"),
        ("Dagster schedules all nightly jobs", "Airflow has replaced Dagster as the scheduler of all nightly jobs"),
        (
            "Für Außentüren verwenden wir Lärche, nie Fichte.",
            "Für Außentüren verwenden wir ab sofort Accoya statt Lärche.",
        ),
        ("Статьи публикуются в девять утра по Москве", "Теперь статьи публикуются в семь утра по Москве."),
        ("The limit of the north branch is 400 transfers", "The limit of the north branch is now 650 transfers"),
    ],
)
def test_newer_value_of_the_same_fact_outdates_the_older_one(older: str, newer: str) -> None:
    assert is_outdated(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Alice's desk is in room 4", "Bob's desk is in room 7"),
        ("Alice's desk is in room 4", "Bob's desk is now in room 7"),
        ("Service A uses port 80", "Service B uses port 80"),
        ("ledger-api listens on port 8443", "payout-worker now listens on port 9191"),
        ("Hubly API may be called 3600 times an hour", "Zenmail API may now be called 500 times an hour"),
        ("The limit of the north branch is 400 transfers", "The limit of the south branch is now 650 transfers"),
        ("Room 3 has a projector", "Room 4 has a projector"),
        ("PAY-12 is fixed", "PAY-13 is fixed"),
        ("The budget for 2025 is 10 million", "The budget for 2026 is 12 million"),
        ("On 3 May the server was at 40 degrees", "On 7 May the server was at 50 degrees"),
        ("What is the timeout of 30 minutes?", "What is the timeout of 15 minutes?"),
        ("Use tabs", "We now use a linter for the frontend"),
        ("The same text", "The same text"),
    ],
)
def test_facts_about_different_things_both_hold(older: str, newer: str) -> None:
    assert not is_outdated(older, newer)


def test_memories_of_different_types_both_hold() -> None:
    one = record("decision", 1, days=9, decision="The timeout is 30 minutes")
    two = record("learning", 2, days=1, learning="The timeout is 15 minutes")
    assert outdated([one, two]) == {}


def test_turns_never_outdate_each_other() -> None:
    old, new = "My desk is at 30 Main Street, second floor", "My desk is at 40 Main Street, second floor now"
    assert not is_outdated(old, new, "conversation", "content", role="user", author="ada")


def test_of_preferences_with_one_key_the_newer_one_of_the_same_user_holds() -> None:
    one = record("preference", 1, days=9, session="a", key="editor", value="vim")
    two = record("preference", 1, days=1, session="b", key="editor", value="emacs")
    assert outdated([one, two]) == {}  # perhaps of two users
    assert outdated([one, two], one_user=True) == {one.ref: two.ref}
    one = record("preference", 1, days=9, session="a", key="editor", value="vim", author="ada")
    two = record("preference", 1, days=1, session="b", key="editor", value="emacs", author="ada")
    assert outdated([one, two]) == {one.ref: two.ref}
    two = record("preference", 1, days=1, session="b", key="editor", value="emacs", applies_to=["frontend"])
    assert outdated([one, two], one_user=True) == {}


@given(st.lists(st.text(max_size=60), max_size=6))
def test_any_texts_are_accepted_and_the_newest_memory_always_holds(texts: list[str]) -> None:
    records = [record("decision", n, days=9 - n, decision=text) for n, text in enumerate(texts, 1)]
    found = outdated(records)
    assert set(found) <= {each.ref for each in records}
    assert all(older < newer for older, newer in found.items())


def test_a_later_change_of_another_field_does_not_make_an_old_fact_new() -> None:
    old = record("decision", 1, days=9, changed_days=0.5, decision="The timeout is 30 minutes")
    new = record("decision", 2, days=1, decision="The timeout is 15 minutes")
    assert outdated([old, new]) == {old.ref: new.ref}


def test_of_three_values_the_newest_outdates_the_others() -> None:
    records = [record("decision", n, days=9 - n, decision=f"The timeout is {n}0 minutes") for n in (1, 2, 3)]
    assert outdated(records) == {records[0].ref: records[2].ref, records[1].ref: records[2].ref}


def test_facts_of_the_same_time_in_different_sessions_both_hold() -> None:
    one = record("decision", 1, days=1, session="a", decision="The timeout is 30 minutes")
    two = record("decision", 1, days=1, session="b", decision="The timeout is 15 minutes")
    assert outdated([one, two]) == {}
