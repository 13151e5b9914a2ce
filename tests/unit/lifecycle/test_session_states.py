"""States of a session and their transitions (design 003), and clocks that jump."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.lifecycle.clock_trust import Evidence, distrust, second_check
from smp_memory.lifecycle.transitions import (
    SessionTimes,
    StateMarks,
    announces_purge,
    due_transition,
    next_transition,
    state_of,
)
from smp_memory.model.times import later
from tests.unit.lifecycle.records import NOW, ago

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SEEN_AN_HOUR_AGO = Evidence(NOW - HOUR, HOUR)


# -- the states


@pytest.mark.parametrize(
    ("hours", "state"),
    [(0, "active"), (23.9, "active"), (24, "idle"), (167, "idle"), (168, "decaying"), (24 * 29, "decaying"), (9999, "decaying")],
)  # fmt: skip
def test_session_ages_by_its_last_use(hours: float, state: str) -> None:
    assert state_of(NOW - timedelta(hours=hours), NOW) == state


def test_a_session_without_a_memory_is_created_and_then_ages() -> None:
    assert state_of(None, NOW, StateMarks(created=NOW - HOUR)) == "created"
    assert state_of(None, NOW, StateMarks(created=ago(2))) == "idle"
    assert state_of(None, NOW, StateMarks(created=ago(8))) == "decaying"
    assert state_of(None, NOW) == "created"


def test_archived_and_deleted_marks_override_times() -> None:
    assert state_of(NOW, NOW, StateMarks(archived=ago(1))) == "archived"
    assert state_of(NOW, NOW, StateMarks(archived=ago(5), deleted=ago(1))) == "deleted"
    assert state_of(NOW, NOW, StateMarks(deleted=ago(40), purged=ago(1))) == "purged"


def test_a_use_in_the_future_counts_as_now() -> None:
    assert state_of(NOW + 5 * DAY, NOW) == "active"


def test_times_come_from_the_settings() -> None:
    times = SessionTimes.of({"idle_hours": 1, "decaying_days": 2, "archive_days": 3, "purge_days": 4})
    assert state_of(NOW - 2 * HOUR, NOW, settings=times) == "idle"
    assert next_transition(ago(2.5), NOW, settings=times).when == ago(2.5) + 3 * DAY
    assert next_transition(None, NOW, StateMarks(deleted=ago(1)), times).when == ago(1) + 4 * DAY
    assert SessionTimes.of({}) == SessionTimes()


# -- what comes next


@pytest.mark.parametrize(
    ("used_days", "state", "when_days"),
    [(0.5, "idle", 1), (2, "decaying", 7), (10, "archived", 30), (45, "archived", 30)],
)
def test_next_transition_is_known_beforehand(used_days: float, state: str, when_days: float) -> None:
    step = next_transition(ago(used_days), NOW)
    assert step.state == state
    assert step.when == ago(used_days) + when_days * DAY
    assert "not used for" in step.why


def test_archived_session_stays_archived() -> None:
    step = next_transition(ago(400), NOW, StateMarks(archived=ago(370)))
    assert (step.state, step.when) == ("archived", None)
    assert due_transition(ago(400), NOW, StateMarks(archived=ago(370))) is None


def test_kept_session_is_never_archived_automatically() -> None:
    assert next_transition(ago(99), NOW, StateMarks(keep=True)).when is None
    assert next_transition(ago(99), NOW, settings=SessionTimes(auto_archive=False)).when is None
    assert due_transition(ago(99), NOW, StateMarks(keep=True)) is None


def test_archiving_is_due_after_30_days() -> None:
    assert due_transition(ago(29.9), NOW) is None
    due = due_transition(ago(30), NOW)
    assert due is not None
    assert due.state == "archived"


def test_idle_and_decaying_are_never_due() -> None:
    assert due_transition(ago(3), NOW) is None
    assert due_transition(NOW, NOW) is None


def test_deletion_is_never_due() -> None:
    for days in (0, 1, 7, 30, 10_000):
        assert next_transition(ago(days), NOW).state != "deleted"


# -- purging takes two looks


def test_a_purge_is_announced_and_comes_a_day_later() -> None:
    marks = StateMarks(deleted=ago(31))
    assert due_transition(ago(40), NOW, marks) is None
    assert announces_purge(ago(40), NOW, marks)
    marks = marks._replace(purge_announced=NOW)
    assert not announces_purge(ago(40), NOW, marks)
    assert due_transition(ago(40), NOW + 23 * HOUR, marks) is None
    due = due_transition(ago(40), NOW + DAY, marks)
    assert due is not None
    assert due.state == "purged"


def test_purge_is_not_announced_early() -> None:
    assert not announces_purge(ago(40), NOW, StateMarks(deleted=ago(29)))
    assert not announces_purge(ago(40), NOW, StateMarks(deleted=ago(31)), SessionTimes(auto_purge=False))
    assert not announces_purge(ago(40), NOW, StateMarks())
    assert next_transition(ago(40), NOW, StateMarks(deleted=ago(31)), SessionTimes(auto_purge=False)).when is None


def test_a_deletion_by_a_clock_that_was_behind_counts_from_the_last_use() -> None:
    marks = StateMarks(created=ago(10), deleted=datetime(1970, 1, 1, tzinfo=UTC))
    assert next_transition(ago(1), NOW, marks).when == ago(1) + 30 * DAY


def test_announcement_from_the_future_does_not_count() -> None:
    marks = StateMarks(deleted=ago(31), purge_announced=NOW + 3650 * DAY)
    assert announces_purge(ago(40), NOW, marks)
    assert second_check(NOW + DAY, NOW) == NOW + DAY


# -- clocks


def test_a_clock_that_agrees_is_trusted() -> None:
    assert distrust(NOW, SEEN_AN_HOUR_AGO) == ""
    assert distrust(NOW, Evidence()) == ""
    assert distrust(NOW, Evidence(NOW, timedelta(0))) == ""


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(NOW + timedelta(seconds=1), timedelta(0)),
        Evidence(NOW + 400 * DAY, None),
        Evidence(ago(2), HOUR),
        Evidence(ago(3650), 30 * DAY),
        Evidence(ago(8), None),
    ],
    ids=["set back", "set back after a reboot", "jumped two days", "jumped ten years", "a week, and nothing confirms it"],
)  # fmt: skip
def test_nothing_is_due_after_a_jump(evidence: Evidence) -> None:
    assert distrust(NOW, evidence)
    assert due_transition(ago(99), NOW, evidence=evidence) is None
    marks = StateMarks(deleted=ago(99), purge_announced=ago(50))
    assert due_transition(ago(99), NOW, marks, evidence=evidence) is None
    assert not announces_purge(ago(99), NOW, StateMarks(deleted=ago(99)), evidence=evidence)
    assert "not now: the clock" in next_transition(ago(99), NOW, evidence=evidence).why


def test_a_machine_that_was_off_for_some_days_is_trusted() -> None:
    assert distrust(NOW, Evidence(ago(6), None)) == ""


def test_a_machine_that_ran_for_months_is_trusted() -> None:
    assert distrust(NOW, Evidence(ago(100), 100 * DAY)) == ""


def test_a_forward_jump_that_stays_leaves_a_day_to_notice() -> None:
    """When the new time is trusted at last, that look may announce, not purge."""
    jumped = NOW + 100 * DAY
    marks = StateMarks(deleted=ago(1))
    assert not announces_purge(ago(2), jumped, marks, evidence=Evidence(NOW, HOUR))
    second = Evidence(jumped, HOUR)
    assert announces_purge(ago(2), jumped + HOUR, marks, evidence=second)
    marks = marks._replace(purge_announced=jumped + HOUR)
    assert due_transition(ago(2), jumped + 2 * HOUR, marks, evidence=second) is None
    assert due_transition(ago(2), NOW + 2 * HOUR, marks, evidence=Evidence(jumped + 2 * HOUR, HOUR)) is None


def test_last_possible_time_is_valid() -> None:
    end = datetime.max.replace(tzinfo=UTC)
    assert later(end, DAY) == end
    assert next_transition(end, NOW).when == end
    assert next_transition(None, NOW, StateMarks(deleted=end)).when == end


@given(
    some.datetimes(timezones=some.just(UTC)),
    some.datetimes(timezones=some.just(UTC)),
    some.none() | some.datetimes(timezones=some.just(UTC)),
    some.none() | some.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9999)),
)
def test_due_transition_is_in_the_past_and_allowed(
    used: datetime, now: datetime, deleted: datetime | None, elapsed: timedelta | None
) -> None:
    marks, evidence = StateMarks(created=used, deleted=deleted, purge_announced=deleted), Evidence(used, elapsed)
    step = due_transition(used, now, marks, evidence=evidence)
    if step is not None:
        assert step.when is not None
        assert step.when <= now
        assert not distrust(now, evidence)
        assert (state_of(used, now, marks), step.state) in {("decaying", "archived"), ("deleted", "purged")}
