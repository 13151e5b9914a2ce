"""The compaction plan: stages, what is kept, and summaries of turns (design 003)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.lifecycle import retention
from smp_memory.lifecycle.compaction_plan import MAX_TURNS, CompactionPlan, estimate_gain, groups, plan, runs, summaries
from smp_memory.lifecycle.retention import PreservationRules, WeighedMemory, preserved
from tests.unit.lifecycle.records import NOW, record, weighed

EVERYTHING = 1 << 60


def removed(found: CompactionPlan) -> list[str]:
    return [removal.id for removal in found.removed]


def turn(number: int, days: float, *, priority: float = 0.5, size: int = 1000, **data: Any) -> WeighedMemory:
    return weighed(
        record("conversation", number, days, content=f"Turn {number} about the database.", **data), size, priority
    )


# -- never removed, always preserved


@pytest.mark.parametrize(
    ("type", "data", "why"),
    [
        ("decision", {"decision": "x"}, "an active decision"),
        ("decision", {"decision": "x", "status": "pending"}, "an active decision"),
        ("decision", {"decision": "x", "status": "a word nobody knows"}, "an active decision"),
        ("finding", {"finding": "x"}, "an open finding"),
        ("finding", {"finding": "x", "resolution": {"status": "open"}}, "an open finding"),
        ("preference", {"preference": "x"}, "an explicit preference"),
        ("preference", {"preference": "x", "confidence": "explicit"}, "an explicit preference"),
        ("preference", {"preference": "x", "source": "user_statement"}, "an explicit preference"),
        ("conversation", {"content": "x", "pinned": True}, retention.PINNED),
        ("conversation", {"content": "x", "importance": 0.95}, retention.IMPORTANT),
        ("agent_state", {"agent": "a", "state": {}}, "an agent's current state"),
        ("summary", {"summary": "x"}, "a summary"),
    ],
)
def test_protected_memories_are_never_removed(type: str, data: dict[str, Any], why: str) -> None:
    memory = weighed(record(type, 1, 500, **data), priority=0.01)
    found = plan([memory], EVERYTHING, NOW)
    assert removed(found) == []
    assert found.kept == {memory.record.id: why}
    assert not found.reached


def test_turns_of_the_last_24_hours_stay() -> None:
    found = plan([turn(1, 0.9, priority=0.1), turn(2, 3, priority=0.1)], EVERYTHING, NOW)
    assert found.kept == {"TURN-0001": retention.RECENT_TURN}
    assert removed(found) == ["TURN-0002"]


def test_memories_used_in_the_last_48_hours_stay() -> None:
    old = record("conversation", 1, 50)
    assert preserved([weighed(old, priority=0.1, used_days=1.9)], NOW) == {"TURN-0001": retention.RECENTLY_USED}
    assert preserved([weighed(old, priority=0.1, used_days=2.1)], NOW) == {}


def test_a_change_counts_as_use() -> None:
    changed = record("artifact", 1, 90, changed_days=1, name="x")
    assert preserved([weighed(changed, priority=0.1)], NOW) == {"ART-0001": retention.RECENTLY_USED}


def test_memories_with_a_priority_above_0_7_stay() -> None:
    assert preserved([turn(1, 50, priority=0.71)], NOW) == {"TURN-0001": retention.HIGH_PRIORITY}
    assert preserved([turn(1, 50, priority=0.7)], NOW) == {}


def test_evidence_of_kept_memories_is_kept() -> None:
    memories = [
        weighed(
            record("decision", 1, 50, decision="x", turn_ref="TURN-0001", references=["s/TURN-0002", "other/TURN-0003"])
        ),
        weighed(
            record(
                "finding", 2, 50, finding="x", relations=[{"kind": "derived_from", "target": "TURN-0004"}], turn_ref=5
            )
        ),
        *(turn(number, 40, priority=0.1) for number in range(1, 7)),
    ]
    reasons = preserved(memories, NOW)
    assert [id for id, why in reasons.items() if why == retention.EVIDENCE] == [
        "TURN-0001", "TURN-0002", "TURN-0004", "TURN-0005",
    ]  # fmt: skip
    assert "TURN-0001" not in preserved(memories, NOW, PreservationRules(keep_referenced=False))


def test_memory_referred_to_only_by_old_turns_may_go() -> None:
    found = plan([turn(1, 40), turn(2, 39, references=["TURN-0001"])], EVERYTHING, NOW)
    assert removed(found) == ["TURN-0001", "TURN-0002"]


@pytest.mark.parametrize("data", [{"confidence": "inferred"}, {"confidence": 0.5}, {"source": "behavior_pattern"}])
def test_preferences_that_were_only_inferred_may_go(data: dict[str, Any]) -> None:
    assert removed(plan([weighed(record("preference", 1, 99, preference="x", **data), priority=0.2)], 1, NOW))


def test_a_superseded_decision_is_not_active() -> None:
    old = weighed(record("decision", 1, 90, decision="x"), priority=0.1)
    new = weighed(record("decision", 2, 80, decision="y", relations=[{"kind": "supersedes", "target": "DEC-0001"}]))
    assert removed(plan([old, new], EVERYTHING, NOW)) == ["DEC-0001"]
    gone = weighed(
        record(
            "decision", 2, 80, deleted_days=9, decision="y", relations=[{"kind": "supersedes", "target": "DEC-0001"}]
        )
    )
    assert removed(plan([old, gone], EVERYTHING, NOW)) == []


def test_deleted_memories_are_left_to_the_purge() -> None:
    found = plan([weighed(record("conversation", 1, 90, deleted_days=9), priority=0.1)], EVERYTHING, NOW)
    assert found.kept == {"TURN-0001": retention.IN_TRASH}


def test_memories_from_the_future_stay() -> None:
    assert removed(plan([turn(1, -400, priority=0.1)], EVERYTHING, NOW)) == []


def test_fields_of_any_shape_do_not_raise() -> None:
    odd = [
        weighed(record(type, number, 99, **{name: value}), priority=0.1)
        for number, (type, name, value) in enumerate(
            (type, name, value)
            for type in ("finding", "decision", "preference", "conversation")
            for name in (
                "status",
                "resolution",
                "relations",
                "references",
                "turn_ref",
                "importance",
                "confidence",
                "source",
            )
            for value in (7, ["x", 1, {}], {"status": 3}, True, "")
        )
    ]
    plan(odd, EVERYTHING, NOW)


# -- the order


def every_stage() -> list[WeighedMemory]:
    return [
        weighed(record("finding", 1, 60, finding="x", status="resolved"), 500, 0.4),
        weighed(record("agent_state", 2, 60, id="STATE-a", agent="a", state={}), 900, 0.6, history=800),
        turn(3, 10),
        turn(4, 9),
        turn(5, 60, priority=0.2),
        weighed(record("artifact", 6, 60, name="x"), 400, 0.1),
        turn(7, 3),
    ]


def test_faded_memories_are_removed_before_old_turns_and_resolved_findings() -> None:
    found = plan(every_stage(), EVERYTHING, NOW)
    assert [(removal.id, removal.stage) for removal in found.removed] == [
        ("ART-0006", "faded"),
        ("TURN-0005", "faded"),
        ("TURN-0003", "old_turns"),
        ("TURN-0004", "old_turns"),
        ("FIND-0001", "resolved_findings"),
    ]
    assert [(removal.id, removal.bytes) for removal in found.histories] == [("STATE-a", 800)]
    assert found.kept["TURN-0007"] == "no rule takes it"


@pytest.mark.parametrize(
    ("target", "count"),
    [(0, 0), (1, 1), (400, 1), (401, 2), (1400, 2), (1401, 3), (3400, 4), (3401, 5), (3901, 6), (9999, 6)],
)
def test_a_plan_takes_no_more_than_it_needs(target: int, count: int) -> None:
    found = plan(every_stage(), target, NOW)
    assert len(found.removed) + len(found.histories) == count
    assert found.reached == (target < 9999)
    if 0 < count < 5:
        assert "may go, but enough is freed without it" in found.kept.values()


def test_the_history_of_a_pinned_state_stays() -> None:
    state = weighed(record("agent_state", 1, 60, agent="a", pinned=True), 900, 0.6, history=800)
    assert not plan([state], EVERYTHING, NOW)


def test_rules_come_from_the_settings() -> None:
    assert PreservationRules.of({}) == PreservationRules()
    rules = PreservationRules.of({"faded_below": 0.05, "old_turns_days": 20, "keep_priority": 0.9})
    assert (rules.decayed_below, rules.old_turns, rules.preserved_priority) == (0.05, timedelta(days=20), 0.9)
    assert removed(plan([turn(1, 10)], 1, NOW, PreservationRules(old_turns=timedelta(days=20)))) == []


def test_a_session_that_is_all_pinned_frees_nothing_and_says_so() -> None:
    found = plan([turn(number, 99, priority=0.1, pinned=True) for number in range(50)], 1000, NOW)
    assert not found
    assert not found.reached
    assert found.to_dict()["kept"] == {"pinned": {"memories": 50, "examples": ["TURN-0000..TURN-0004"]}}


def test_plan_lists_removals_reasons_and_sizes() -> None:
    shown = plan(every_stage(), EVERYTHING, NOW).to_dict()
    json.dumps(shown)
    assert shown["stages"]["faded"] == {"memories": 2, "bytes": 1400}
    assert shown["stages"]["state_history"] == {"memories": 1, "bytes": 800}
    assert shown["removed"][0] == {"id": "ART-0006", "bytes": 400, "why": "faded: priority below 0.3", "stage": "faded"}
    assert shown["freed_bytes"] == 4700
    assert shown["reached"] is False


def test_estimated_gain_is_close_to_what_a_plan_frees() -> None:
    turns = [turn(number, 60, priority=0.2) for number in range(100)]
    whole = plan(turns, EVERYTHING, NOW)
    assert 0.8 * whole.freed_bytes < estimate_gain(turns, NOW) <= whole.freed_bytes


@given(
    some.lists(
        some.tuples(
            some.sampled_from(
                ["conversation", "decision", "finding", "preference", "agent_state", "artifact", "summary"]
            ),
            some.floats(0, 400),
            some.floats(0, 1),
            some.integers(50, 5000),
            some.booleans(),
            some.sampled_from([None, "open", "resolved"]),
        ),
        max_size=60,
    ),
    some.integers(0, 100_000),
)
def test_plan_keeps_its_guarantees_for_any_memories(rows: list[Any], target: int) -> None:
    memories = [
        weighed(record(type, number, days, id=f"M-{number:04d}", pinned=pinned, **({"status": status} if status else {})), size, priority)
        for number, (type, days, priority, size, pinned, status) in enumerate(rows)
    ]  # fmt: skip
    found = plan(memories, target, NOW)
    gone = set(removed(found))
    assert len(gone) == len(found.removed)
    assert not gone & set(preserved(memories, NOW))
    assert gone | set(found.kept) == {memory.record.id for memory in memories}
    assert found == plan(memories, target, NOW)
    for memory in memories:
        if memory.record.id in gone:
            assert not memory.record.pinned
            assert memory.priority <= 0.7
    if not found.reached:
        assert found.freed_bytes <= plan(memories, EVERYTHING, NOW).freed_bytes + 1


# -- summaries in place of turns


def talk(count: int, *, days: float = 60, pause_after: int | None = None, size: int = 400) -> list[WeighedMemory]:
    made = []
    for number in range(1, count + 1):
        gone = 2.0 if pause_after is not None and number > pause_after else 0.0
        text = f"We talked about topic {number % 7} of the payment service. The retry of request {number} failed with a timeout."
        made.append(
            weighed(
                record("conversation", number, days - gone - number / 10_000, content=text, author="ann"), size, 0.2
            )
        )
    return made


def test_turns_that_go_leave_summaries() -> None:
    found = plan(talk(100), EVERYTHING, NOW)
    assert len(found.summaries) == 1
    summary = found.summaries[0]
    assert summary.covers == [f"TURN-{number:04d}" for number in range(1, 101)]
    assert summary.text.startswith("100 turns, 2026-04-02, of ann: ")
    assert "payment service" in summary.text
    assert found.freed_bytes == 100 * 400 - summary.size_bytes
    assert summary.fields()["covers"] == ["TURN-0001..TURN-0100"]


def test_plan_accounts_for_its_summaries() -> None:
    found = plan(talk(500), 50_000, NOW)
    assert 50_000 <= found.freed_bytes < 56_000


def test_groups_end_at_pauses_and_are_not_too_large() -> None:
    assert [len(group) for group in groups(talk(60, pause_after=25))] == [25, 35]
    assert [len(group) for group in groups(talk(60, pause_after=5))] == [60]
    assert [len(group) for group in groups(talk(1000))] == [MAX_TURNS, MAX_TURNS, 200]


def test_summary_is_smaller_than_the_turns_it_replaces() -> None:
    assert summaries(talk(5)) == []
    for count in (10, 30, 300):
        for summary in summaries(talk(count)):
            assert summary.size_bytes <= 0.17 * summary.turn_bytes


@pytest.mark.parametrize("text", ["数据库很慢。" * 20, "🦀" * 200, "é" * 500])
def test_a_summary_in_any_script_stays_within_its_bytes(text: str) -> None:
    turns = [weighed(record("conversation", number, 60, content=f"{number} {text}"), 500, 0.2) for number in range(12)]
    for summary in summaries(turns):
        assert len(summary.text.encode()) <= 600


def test_another_summariser_may_be_plugged_in() -> None:
    def mine(texts: Sequence[str]) -> str:
        return f"My words on {len(texts)} turns."

    assert plan(talk(100), EVERYTHING, NOW, summariser=mine).summaries[0].text.endswith("My words on 100 turns.")


@pytest.mark.parametrize("bad", [lambda texts: 1 / 0, lambda texts: "", lambda texts: None, lambda texts: "  \n"])
def test_failing_summariser_is_replaced_by_the_built_in_one(bad: Any) -> None:
    assert "payment service" in plan(talk(100), EVERYTHING, NOW, summariser=bad).summaries[0].text


def test_too_long_output_of_a_summariser_is_cut() -> None:
    text = plan(talk(100), EVERYTHING, NOW, summariser=lambda texts: "word " * 100_000).summaries[0].text
    assert len(text) <= 1200


def test_consecutive_ids_become_ranges() -> None:
    assert runs(["A-0001", "A-0002", "A-0003", "A-0005", "B-0006", "B-0007", "mine"]) == [
        "A-0001..A-0003", "A-0005", "B-0006", "B-0007", "mine",
    ]  # fmt: skip
    assert runs([]) == []
    assert runs(["A-٣", "A-x", "A-" + "9" * 5000]) == ["A-٣", "A-x", "A-" + "9" * 5000]
