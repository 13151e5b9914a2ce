"""Size and compaction of a session: reports, compaction on demand and automatic, the cold segment, duplicates."""

from __future__ import annotations

import errno
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import (
    CompactionFailed,
    Conflict,
    DuplicateId,
    DurabilityUnknown,
    InvalidRecord,
    MemoryNotFound,
    SizeLimitExceeded,
    StorageCorrupt,
    StorageFull,
)
from smp_memory.files.layouts import NAMES
from smp_memory.testing import FaultySystem, FrozenClock
from tests.session_files import storage_of

LAYOUTS = pytest.mark.parametrize("layout", NAMES)
SMALL = {"storage": {"max_session_size_mb": 0.06}, "durability": "os"}
ALL = 1 << 40


def sentence(chance: random.Random) -> str:
    words = [
        "token",
        "login",
        "cache",
        "index",
        "query",
        "user",
        "review",
        "deploy",
        "build",
        "error",
        "retry",
        "queue",
        "worker",
        "schema",
    ]
    return " ".join(chance.choices(words, k=25)).capitalize() + "."


def opened(folder: Path, layout: str = "jsonl", **config: Any) -> tuple[smp_memory.Memory, FrozenClock]:
    clock = FrozenClock()
    return smp_memory.open(folder / "store", layout=layout, clock=clock, config={"durability": "os", **config}), clock


def old_session(folder: Path, layout: str = "jsonl", turns: int = 60, **config: Any) -> tuple[Any, FrozenClock]:
    """Turns, a settled finding and states of an agent of forty days ago, and what must stay."""
    memory, clock = opened(folder, layout, **config)
    session = memory.create_session("s1", user="ada")
    chance = random.Random(1)
    session.add_many([("turn", {"role": "user", "content": sentence(chance)}) for _ in range(turns)])
    session.resolve(session.add_finding("An old needle", severity="low").id, "done")
    session.add_decision("Use files")
    session.add_finding("Still open")
    session.add_preference("style", "brief")
    for step in range(4):
        session.update_agent_state("bob", {"step": step, "notes": sentence(chance)})
    pinned = session.add_turn("user", "a pinned turn")
    session.pin(pinned.id)
    clock.advance(days=40)
    session.add_turn("user", "said just now")
    return session, clock


def whole(session: Any) -> dict[str, Any]:
    return {
        record.id: (record.to_dict(), session.history(record.id))
        for record in session.records(include_deleted=True)
        if record.type != "summary"
    }


@LAYOUTS
def test_restored_memory_equals_the_one_before_compaction(tmp_path: Path, layout: str) -> None:
    session, _ = old_session(tmp_path, layout)
    before = whole(session)
    report = session.compact(ALL)
    gone = set(report.removed)
    assert {"FIND-0001", "TURN-0001", "TURN-0060"} <= gone
    assert gone.isdisjoint(("DEC-0001", "FIND-0002", "PREF-0001", "STATE-bob", "TURN-0061", "TURN-0062"))
    assert report.freed_bytes > 0
    assert session.validate().ok
    assert not session.validate().problems
    assert len(session.history("STATE-bob")) == 2
    assert session.get("STATE-bob").state["step"] == 3
    assert {each.id for each in session.archived()} == gone | {"STATE-bob"}
    again = smp_memory.open(tmp_path / "store", clock=FrozenClock()).session("s1")
    for id in sorted(gone)[:3]:
        assert again.restore(id).to_dict() == before[id][0]
    again.restore_archived(*(each.id for each in again.archived()))
    assert again.archived() == []
    assert whole(again) == before
    assert list(whole(again)) == list(before)
    assert not again.validate().problems


@LAYOUTS
def test_ids_of_compacted_memories_are_not_reused(tmp_path: Path, layout: str) -> None:
    session, _ = old_session(tmp_path, layout)
    session.compact(ALL)
    assert session.add_turn("user", "later").id == "TURN-0063"
    assert session.add_finding("later").id == "FIND-0003"


def test_dry_run_changes_nothing_and_reports_the_plan(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path)
    before = whole(session)
    report = session.compact(ALL, dry_run=True)
    assert report.done is None
    assert (
        report.to_dict()["stages"]["faded"]["memories"] == 61
    )  # the turns, and the settled finding: floors do not count
    assert report.to_dict()["kept"]["pinned"]["examples"] == ["TURN-0061"]
    assert whole(session) == before
    assert session.archived() == []


def test_compacted_turns_leave_a_summary_that_names_them(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path)
    report = session.compact(ALL)
    [summary] = session.records("summary")
    assert summary.id in report.done.summaries
    assert summary.covers == ["TURN-0001..TURN-0060"]
    assert summary.author_kind == "system"


def test_custom_summariser_is_used(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path)
    session.compact(ALL, summariser=lambda texts: f"{len(texts)} texts, summed up by me")
    assert "60 texts, summed up by me" in session.records("summary")[0].summary


def test_error_of_get_names_the_cold_segment(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path)
    session.compact(ALL)
    with pytest.raises(MemoryNotFound, match=r"cold segment .*cold\.jsonl\.gz.*restore") as caught:
        session.get("TURN-0003")
    assert caught.value.details["path"].endswith("cold.jsonl.gz")
    with pytest.raises(MemoryNotFound, match="does not exist"):
        session.get("TURN-9999")
    with pytest.raises(MemoryNotFound):
        session.restore_archived("TURN-9999")


@LAYOUTS
def test_query_finds_compacted_memories_if_asked_to(tmp_path: Path, layout: str) -> None:
    session, _ = old_session(tmp_path, layout)
    session.compact(ALL)
    assert session.query("needle").ids == []
    [hit] = session.query("needle", include_archived=True)
    assert hit.id == "FIND-0001"
    assert hit.archived.endswith("cold.jsonl.gz")
    assert hit.to_dict()["archived"] == hit.archived
    counts = session.query("token", include_archived=True, count_by="type", limit=1).counts["type"]
    assert counts["conversation"] > 20
    pages = [session.query("token", include_archived=True, limit=5, offset=at).ids for at in (0, 5)]
    assert len({*pages[0], *pages[1]}) == 10
    session.restore("FIND-0001")
    assert session.query("needle", include_archived=True)[0].archived is None


def test_memory_changed_after_planning_is_kept(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path)
    other = smp_memory.open(tmp_path / "store", clock=FrozenClock()).session("s1")

    def meanwhile(texts: Any) -> str:
        if other.find("TURN-0005").pinned is not True:
            other.pin("TURN-0005")
            other.delete("TURN-0006")
        return ""

    report = session.compact(ALL, summariser=meanwhile)
    assert "TURN-0004" in report.removed
    assert not {"TURN-0005", "TURN-0006"} & set(report.removed)
    assert session.get("TURN-0005").pinned
    assert session.find("TURN-0006").deleted


def test_restore_is_refused_when_the_id_is_in_use(tmp_path: Path) -> None:
    memory, clock = opened(tmp_path)
    session = memory.create_session("s1")
    session.resolve(session.add("finding", {"finding": "first", "id": "MINE"}).id, "done")
    clock.advance(days=40)
    assert session.compact(ALL).removed == ["MINE"]
    session.add("finding", {"finding": "second", "id": "MINE"})
    with pytest.raises(DuplicateId):
        session.restore_archived("MINE")
    assert session.get("MINE").finding == "second"
    assert [each.id for each in session.archived()] == ["MINE-2"]
    assert session.restore_archived("MINE-2").finding == "first"
    assert [record.id for record in session.records("finding")] == ["MINE-2", "MINE"]


def test_second_compaction_appends_to_the_same_segment(tmp_path: Path) -> None:
    session, clock = old_session(tmp_path)
    session.compact(2_000)
    first = len(session.archived())
    assert 0 < first < 60
    session.compact(ALL)
    assert len(session.archived()) == 62
    assert session.compact(ALL).removed == []
    clock.advance(days=40)
    assert session.compact(ALL).removed == ["TURN-0062"]


@LAYOUTS
def test_conversion_keeps_the_cold_segment(tmp_path: Path, layout: str) -> None:
    session, _ = old_session(tmp_path, layout)
    before = whole(session)
    session.compact(ALL)
    memory = session.memory
    for other in (name for name in NAMES if name != layout):
        memory = memory.convert(other)
    restored = memory.session("s1")
    restored.restore_archived(*(each.id for each in restored.archived()))
    assert {id: record for id, (record, _) in whole(restored).items()} == {
        id: record for id, (record, _) in before.items()
    }


@pytest.mark.parametrize("target", ["much", True, 1.5])
def test_invalid_target_is_refused(tmp_path: Path, target: Any) -> None:
    session, _ = old_session(tmp_path, turns=1)
    with pytest.raises(InvalidRecord, match="target"):
        session.compact(target)


# -- by itself


def test_full_session_is_compacted_before_a_write_fails(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path, turns=100, storage={"max_session_size_mb": 0.06})
    session.memory.close()
    session = smp_memory.open(
        tmp_path / "store", clock=_later(), config={**SMALL, "compaction": {"enabled": True}}
    ).session("s1")
    chance = random.Random(2)
    written = [session.add_decision(sentence(chance) * 3).id for _ in range(80)]
    assert [record.id for record in session.records("decision")][1:] == written
    assert session.archived()
    assert sum(session.stats().files.values()) <= session.config.quota_bytes


def _later() -> FrozenClock:
    clock = FrozenClock()
    clock.advance(days=41)
    return clock


def test_compaction_starts_after_a_write_that_crosses_the_threshold(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path, turns=100, storage={"max_session_size_mb": 1})
    size = sum(session.stats().files.values())
    session.memory.close()
    quota = {"max_session_size_mb": size / 0.805 / (1 << 20)}
    memory = smp_memory.open(tmp_path / "store", clock=_later(), config={"durability": "os", "storage": quota})
    session = memory.session("s1")
    while storage_of(session).size_bytes < session.opened.warning_bytes:
        session.add_decision("Another decision that stays")
    memory.close()  # waits for it
    session = smp_memory.open(tmp_path / "store", clock=_later()).session("s1")
    assert session.archived()
    assert session.validate().ok


def test_session_without_compactable_memories_is_not_read_by_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command that wrote a line to a nearly full session read all of it again, to find that nothing may go."""
    from smp_memory.lifecycle import background_compaction

    tries: list[str] = []
    compact = background_compaction.compact

    def counted(session: Any, *given: Any, **named: Any) -> Any:
        tries.append(session.id)
        return compact(session, *given, **named)

    monkeypatch.setattr(background_compaction, "compact", counted)
    clock = FrozenClock()

    def write_a_line() -> None:
        config = {"durability": "os", "storage": {"max_session_size_mb": 0.02}}
        with smp_memory.open(tmp_path / "store", clock=clock, config=config) as memory:
            session = memory.session("s1")
            session.add_finding("A line")
            assert storage_of(session).size_bytes >= session.opened.warning_bytes

    with smp_memory.open(tmp_path / "store", clock=clock, config={"durability": "os"}) as memory:
        session = memory.create_session("s1")
        while sum(session.stats().files.values()) < 0.017 * (1 << 20):
            session.add_finding("Open, so it stays", pinned=True)
    for _ in range(3):
        write_a_line()
    assert tries == ["s1"]
    clock.advance(seconds=599)
    write_a_line()
    assert tries == ["s1"]
    clock.advance(seconds=2)
    write_a_line()
    assert len(tries) == 2
    clock.advance(seconds=1199)  # the second pause is twice as long
    write_a_line()
    assert len(tries) == 2
    clock.advance(seconds=2)
    write_a_line()
    assert len(tries) == 3
    clock.advance(days=-3)  # the clock was set back: what was noted then does not count
    write_a_line()
    assert len(tries) == 4


@pytest.mark.parametrize(
    "noted",
    [
        b"",
        b"{",
        b"[]",
        b'{"again": 5, "pause_seconds": 600}',
        b'{"again": "soon", "pause_seconds": 600}',
        b'{"again": "9999-12-31T23:59:59Z", "pause_seconds": 0}',
        b'{"again": "2020-01-01T00:00:00Z", "pause_seconds": NaN}',
    ],
)
def test_unreadable_pause_file_does_not_prevent_compaction(tmp_path: Path, noted: bytes) -> None:
    from smp_memory.lifecycle.background_compaction import backoff_seconds, note_attempt, note_result

    session, clock = old_session(tmp_path)
    state = session.memory.store.state
    assert backoff_seconds(state, "s1", clock()) == 0
    note_attempt(state, "s1", clock())
    assert backoff_seconds(state, "s1", clock()) == 60
    state.write("compaction/s1.json", noted)
    assert backoff_seconds(state, "s1", clock()) == 0
    assert note_result(state, "s1", clock(), freed=False) == backoff_seconds(state, "s1", clock()) == 600


def test_pause_after_a_useless_compaction_grows_to_six_hours(tmp_path: Path) -> None:
    from smp_memory.lifecycle.background_compaction import backoff_seconds, note_attempt, note_result

    session, clock = old_session(tmp_path)
    state, pauses = session.memory.store.state, []
    for _ in range(8):
        note_attempt(state, "s1", clock())
        pauses.append(note_result(state, "s1", clock(), freed=False))
        assert backoff_seconds(state, "s1", clock()) == pauses[-1]
    assert [seconds / 60 for seconds in pauses] == [10, 20, 40, 80, 160, 320, 360, 360]
    assert note_result(state, "s1", clock(), freed=True) == 60
    assert note_result(state, "s1", clock(), freed=False) == 600


def test_session_of_pinned_memories_refuses_writes_at_the_limit(tmp_path: Path) -> None:
    memory, _ = opened(tmp_path, storage={"max_session_size_mb": 0.02})
    session = memory.create_session("s1")
    chance = random.Random(3)
    written: list[str] = []
    with pytest.raises(SizeLimitExceeded, match="pinned") as caught:
        for _ in range(1000):
            written.append(session.add_finding(sentence(chance), pinned=True).id)
    assert caught.value.details["limit"] == session.config.quota_bytes
    assert [record.id for record in session.records()] == written
    assert session.archived() == []


def test_write_at_the_limit_is_refused_with_compaction_off(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path, storage={"max_session_size_mb": 0.03}, compaction={"enabled": False})
    with pytest.raises(SizeLimitExceeded):
        for _ in range(1000):
            session.add_decision("more and more and more")
    assert session.archived() == []


# -- figures


@LAYOUTS
def test_size_report_parts_add_up(tmp_path: Path, layout: str) -> None:
    session, _ = old_session(tmp_path, layout)
    report = session.size_report()
    assert report.total_bytes == sum(session.stats().files.values()) == sum(report.components.values())
    assert report.components["conversation"] > report.components["decisions"] > 0
    assert report.largest_files[0].size_bytes == max(session.stats().files.values())
    assert report.bytes_per_day is not None
    assert report.predicted_days_to_quota is not None
    assert report.estimated_gain_bytes > 0
    assert report.cold_bytes == 0
    session.compact(ALL)
    after = session.size_report()
    assert after.cold_bytes == os.path.getsize(next(Path(session.folder).glob("*cold.jsonl.gz")))
    assert after.total_bytes < report.total_bytes


# -- what says the same


def test_duplicates_are_merged_and_the_merge_can_be_undone(tmp_path: Path) -> None:
    memory, _ = opened(tmp_path)
    session = memory.create_session("s1")
    session.add_finding("The login has no rate limit", severity="low", author="ada", tags=["a"])
    session.add_finding("The login has no rate limit at all", severity="high", author="bob", tags=["b"])
    session.add_finding("Something else entirely about exports")
    before = whole(session)
    [group] = session.duplicates()
    assert {record.id for record in group.records} == {"FIND-0001", "FIND-0002"}
    kept = session.merge(group, by="eve")
    assert kept.tags == ["a", "b"]
    assert kept.severity == "high"
    assert kept.merged_from[0]["text"].startswith("The login")
    assert session.duplicates() == []
    other = next(record.id for record in group.records if record.id != kept.id)
    assert session.find(other).deleted
    session.restore(other)
    session.update(kept.id, **{name: before[kept.id][0].get(name) for name in ("tags", "severity")}, merged_from=None)
    assert session.get(kept.id).severity == before[kept.id][0]["severity"]


def test_merge_of_changed_memories_is_refused(tmp_path: Path) -> None:
    memory, _ = opened(tmp_path)
    session = memory.create_session("s1")
    for author in ("ada", "bob"):
        session.add_finding("The login has no rate limit", author=author)
    [group] = session.duplicates()
    session.update("FIND-0002", severity="low")
    before = whole(session)
    with pytest.raises(Conflict):
        session.merge(group)
    assert whole(session) == before


# -- idempotency keys of what was compacted


@LAYOUTS
def test_idempotency_key_survives_compaction(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout, clock=(clock := FrozenClock())) as memory:
        session = memory.create_session("s1")
        first = session.add("finding", {"finding": "done with", "status": "resolved"}, idempotency_key="k-1")
        session.add_many([("turn", {"role": "user", "content": "words " * 40})] * 30)
        clock.advance(days=60)
        assert first.id in session.compact(1 << 40).removed
        before = session.archived()
        again = session.add("finding", {"finding": "done with", "status": "resolved"}, idempotency_key="k-1")
        assert (again.id, again.text) == (first.id, first.text)
        assert session.archived() == before
        assert session.records("finding") == []
        with session.transaction() as tx:
            twin = tx.add("finding", {"finding": "done with"}, idempotency_key="k-1")
            tx.add_decision("beside it")
        assert twin.id == first.id
        assert session.add("finding", {"finding": "new"}, idempotency_key="k-2").id == "FIND-0002"
        session.erase(first.id)
        assert session.add("finding", {"finding": "new"}, idempotency_key="k-1").id == "FIND-0003"


@LAYOUTS
def test_restore_combines_trash_and_cold_segments(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout, clock=(clock := FrozenClock())) as memory:
        for name in ("s1", "s2"):
            memory.create_session(name).add_many([("turn", {"role": "user", "content": "words " * 40})] * 30)
        clock.advance(days=60)
        memory.session("s1").compact(1 << 40)
        memory.session("s2").delete("TURN-0007")
        memory.session("s2").add_decision("new")
        wanted = ["s1/TURN-0003", "s2/TURN-0007", "s1/TURN-0004"]
        assert sorted(record.ref for record in memory.restore(wanted, preview=True).records) == sorted(wanted)
        assert memory.session("s1").find("TURN-0003") is None
        done = memory.restore(wanted)
        assert sorted(record.ref for record in done.records) == sorted(wanted)
        assert [record.id for record in memory.session("s1").records("turns")] == ["TURN-0003", "TURN-0004"]
        assert memory.session("s2").get("TURN-0007").text
        with pytest.raises(MemoryNotFound):
            memory.restore(["s1/TURN-0005", "s1/TURN-0099"])
        assert memory.session("s1").find("TURN-0005") is None


@LAYOUTS
def test_ids_of_compacted_memories_are_not_reused_after_conversion(tmp_path: Path, layout: str) -> None:
    clock = FrozenClock()
    memory = smp_memory.open(tmp_path / "store", layout=layout, clock=clock)
    session = memory.create_session("s1")
    session.add_decision("stays")
    last = session.add("finding", {"finding": "done with", "status": "resolved"})
    clock.advance(days=60)
    assert session.compact(1 << 40).removed == [last.id]
    for to in (name for name in NAMES if name != layout):
        memory = memory.convert(to)
    session = memory.session("s1")
    new = session.add_decision("new")
    assert new.seq > last.seq
    assert session.restore(last.id).seq == last.seq
    assert [record.id for record in session.records()] == ["DEC-0001", last.id, new.id]
    memory.close()


# -- compaction that fails


@LAYOUTS
def test_every_failure_of_the_disk_is_compaction_failed_with_its_cause(layout: str) -> None:
    system, clock = FaultySystem(error=errno.ENOSPC, sticky=True), FrozenClock()
    memory = smp_memory.open(":memory:", layout=layout, clock=clock, system=system)
    session = memory.create_session("s1")
    session.add_many([("turn", {"role": "user", "content": f"{number} " * 40}) for number in range(30)])
    clock.advance(days=40)
    before, failures = [record.id for record in session.records()], 0
    for call in range(1, 200):
        system.fail_at = system.calls + call
        try:
            session.compact("forced")
        except DurabilityUnknown:
            system.heal()  # the plan is committed: the memories are moved by the next write or read
            known = {record.id for record in session.records()} | {each.id for each in session.archived()}
            assert known.issuperset(before)
        except CompactionFailed as error:
            failures += 1
            system.heal()
            assert (error.code, error.number) == ("E_COMPACTION_FAILED", "MEM_E006")
            assert error.details["session"] == "s1"
            assert isinstance(error.__cause__, StorageFull)
            assert error.details["cause"] == error.__cause__.code
            assert pickle.loads(pickle.dumps(error)).details == error.details
            known = {record.id for record in session.records()} | {each.id for each in session.archived()}
            assert known.issuperset(before)
        else:
            break
    assert failures >= 2


def test_session_whose_file_is_a_link_fails_to_compact_as_damaged(tmp_path: Path) -> None:
    session, _ = old_session(tmp_path)
    path = Path(session.folder) / "conversation.jsonl"
    path.rename(tmp_path / "elsewhere.jsonl")
    path.symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(CompactionFailed, match="E_STORAGE_CORRUPT") as caught:
        session.compact("forced")
    assert isinstance(caught.value.__cause__, StorageCorrupt)
    assert caught.value.details["cause"] == "E_STORAGE_CORRUPT"
    assert not caught.value.recoverable
