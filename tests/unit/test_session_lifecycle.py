"""Whole sessions: their states, archiving and restoring, the trash, and maintenance."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import Conflict, InvalidRecord, SessionArchived, SessionExists, SessionNotFound, StorageCorrupt
from smp_memory.files.layouts import NAMES
from smp_memory.lifecycle import clock_state
from smp_memory.model.candidates import CandidateRequest
from smp_memory.testing import FrozenClock
from tests.archive_files import archive_files, archive_of, fields_of, record_of, summary_of
from tests.user_state import state_folder

LAYOUTS = pytest.mark.parametrize("layout", NAMES)


class World:
    """A store and a machine whose clocks agree."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, layout: str = "jsonl", **config: Any) -> None:
        self.root = folder / "store"
        self.layout = layout
        self.clock = FrozenClock(datetime.now(UTC))
        self.uptime = 1000.0
        self.config = {"durability": "os", **config}
        monkeypatch.setattr(clock_state, "uptime_seconds", lambda: self.uptime)
        smp_memory.open(self.root, layout=layout).close()
        self.memory = self.opened()

    def opened(self) -> smp_memory.Memory:
        return smp_memory.open(self.root, clock=self.clock, config=self.config)

    def passes(self, days: float) -> None:
        self.clock.advance(days=days)
        self.uptime += days * 86400

    def session(self, name: str = "s1") -> Any:
        session = self.memory.create_session(name, user="ada", project="shop")
        session.add_turn("user", "We talked about the login and its tokens.")
        session.add_decision("Use OAuth", tags=["auth"])
        session.update("DEC-0001", rationale="it is there")
        session.delete(session.add_finding("wrong").id, "not so")
        return session


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.fixture(params=NAMES)
def every(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch, request.param)


def told(session: Any) -> Any:
    known = session.records(include_deleted=True)
    return session.info.to_dict(), [(record.to_dict(), session.history(record.id)) for record in known]


# -- states


def test_session_states_change_with_age_and_name_the_next_transition(world: World) -> None:
    session = world.session()
    seen = []
    for days in (0, 1.1, 7):
        world.passes(days)
        seen.append((session.state, session.next_step.state))
    assert seen == [("active", "idle"), ("idle", "decaying"), ("decaying", "archived")]
    [standing] = world.memory.session_states()
    assert standing.to_dict()["next"]["why"] == "not used for 30 days"
    assert timedelta(days=29.9) < standing.next.when - standing.last_used < timedelta(days=30.1)


def test_session_without_memories_has_the_state_created(world: World) -> None:
    assert world.memory.create_session("empty").state == "created"


def test_being_found_by_a_query_counts_as_use(world: World) -> None:
    world.session()
    world.passes(20)
    world.memory.query("login")
    world.memory.store.access.flush()
    world.passes(0.5)
    again = world.opened()
    again.store.indexer.count_accesses()
    assert again.session("s1").state == "active"


def test_session_with_auto_archive_off_is_not_archived(world: World) -> None:
    world.memory.create_session("kept", config={"lifecycle": {"auto_archive": False}}).add_decision("Stay")
    world.passes(100)
    assert world.memory.session("kept").next_step.when is None
    assert world.memory.maintain().did == []


# -- packing away


def test_opening_an_archived_session_restores_it_unchanged(every: World) -> None:
    session = every.session()
    before = told(session)
    away = every.memory.archive_session("s1", "released", by="ada")
    assert every.memory.sessions() == []
    assert [each.session for each in every.memory.archived_sessions()] == ["s1"]
    said = fields_of(summary_of(every.root, every.layout, "s1"))
    assert said["reason"] == "released"
    assert said["key_decisions"][0]["decision"] == "Use OAuth"
    assert away.bytes == os.path.getsize(archive_of(every.root, every.layout, "s1"))
    with pytest.raises(SessionArchived):
        session.records()
    assert every.opened().query("OAuth").ids == []
    assert told(every.opened().session("s1")) == before
    assert archive_files(every.root) == []
    assert [
        name for name in os.listdir(every.root) if name.startswith("archive") and os.listdir(every.root / name)
    ] == []
    assert every.opened().query("OAuth").ids == ["DEC-0001"]


def test_write_to_a_session_archived_meanwhile_is_stored(every: World) -> None:
    session = every.session()
    every.opened().archive_session("s1")
    assert session.add_decision("later").id == "DEC-0002"
    assert len(every.opened().session("s1").records("decision")) == 2


def test_query_can_search_archived_sessions(every: World) -> None:
    world = every
    session = world.session()
    session.add_decision("Deleted before, about OAuth")
    session.delete("DEC-0002")
    world.session("s2").add_decision("Another one about bananas")
    world.memory.archive_session("s1")
    files = {path: path.read_bytes() for path in archive_files(world.root)}
    assert world.memory.query("tokens").ids == ["TURN-0001"]
    hits = world.memory.query("OAuth", include_archived=True)
    assert {hit.record.ref for hit in hits} == {"s1/DEC-0001", "s2/DEC-0001"}
    [archived] = [hit for hit in hits if hit.archived]
    assert archived.archived == str(archive_of(world.root, world.layout, "s1"))
    assert archived.record.session == "s1"
    assert world.memory.query("OAuth", sessions=["s1"], include_archived=True).ids == ["DEC-0001"]
    assert world.memory.query("bananas", include_archived=True).ids[0] == "DEC-0002"
    assert [session.id for session in world.memory.sessions()] == ["s2"]
    assert {path: path.read_bytes() for path in archive_files(world.root)} == files
    world.memory.restore_session("s1")
    assert not [hit for hit in world.memory.query("OAuth", include_archived=True) if hit.archived]


def test_only_the_summary_of_a_large_or_damaged_archive_is_searched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.session()
    world.memory.archive_session("s1")
    monkeypatch.setattr("smp_memory.search.archive_search.MAX_UNPACKED_BYTES", 100)
    [hit] = world.memory.query("OAuth", include_archived=True)
    assert hit.ref == "s1/ARCHIVE"
    assert hit.archived == str(archive_of(world.root, world.layout, "s1"))
    monkeypatch.undo()
    path = archive_of(world.root, world.layout, "s1")
    path.write_bytes(path.read_bytes()[:-40])
    assert [hit.ref for hit in world.opened().query("OAuth", include_archived=True)] == ["s1/ARCHIVE"]


def test_name_of_an_archived_session_is_in_use(every: World) -> None:
    every.session()
    every.memory.archive_session("s1")
    with pytest.raises(SessionExists, match="archived"):
        every.memory.create_session("s1")
    with pytest.raises(SessionExists, match="archived"):
        every.memory.archive_session("s1")


def test_damaged_archive_is_not_restored(world: World) -> None:
    world.session()
    world.memory.archive_session("s1")
    path = archive_of(world.root, world.layout, "s1")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 16] = bytes(byte ^ 0xFF for byte in data[middle : middle + 16])  # one bit may mean nothing
    path.write_bytes(data)
    with pytest.raises(StorageCorrupt):
        world.memory.session("s1")
    assert path.exists()
    assert world.memory.sessions() == []


@LAYOUTS
@pytest.mark.parametrize("deleted", [True, False])
def test_archived_session_is_restored_in_another_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, deleted: bool
) -> None:
    for other in NAMES:
        world = World(tmp_path / other, monkeypatch, layout)
        before = told(world.session())
        if deleted:
            world.memory.delete_session("s1")
        else:
            world.memory.archive_session("s1")
        memory = world.memory.convert(other)
        if deleted:
            memory.undelete_session("s1")
        assert told(memory.session("s1"))[1] == before[1]
        assert told(memory.session("s1"))[0] == before[0]
        assert memory.session("s1").add_decision("next").id == "DEC-0002"


def test_restore_and_undelete_of_unknown_sessions_are_errors(every: World) -> None:
    every.session()
    assert every.memory.restore_session("s1").id == "s1"  # it is there
    for call in (every.memory.restore_session, every.memory.undelete_session, every.memory.purge_session):
        with pytest.raises(SessionNotFound):
            call("none")
    with pytest.raises(SessionNotFound):
        every.memory.delete_session("none")
    with pytest.raises(SessionNotFound):
        every.memory.archive_session("none")
    with pytest.raises(InvalidRecord):
        every.memory.delete_session("../none")


# -- the trash


def test_deleted_session_can_be_undeleted(every: World) -> None:
    before = told(every.session())
    away = every.memory.delete_session("s1", "wrong one", by="ada")
    record = fields_of(record_of(every.root, every.layout, "s1"))["deletion"]
    assert record["reason"] == "wrong one"
    assert record["deleted_by"] == "ada"
    assert record["recovery_deadline"] > record["deleted_at"]
    assert away.state == "deleted"
    with pytest.raises(SessionNotFound, match="smp session restore s1"):
        every.opened().session("s1")
    assert every.opened().query("OAuth").ids == []
    assert every.opened().undelete_session("s1") == "active"
    assert told(every.opened().session("s1")) == before
    assert every.memory.deleted_sessions() == []
    assert every.opened().query("OAuth").ids == ["DEC-0001"]


def test_name_of_a_deleted_session_can_be_reused(every: World) -> None:
    every.session().add_decision("the first")
    every.memory.delete_session("s1")
    every.session().add_decision("the second")
    with pytest.raises(SessionExists):
        every.memory.undelete_session("s1")
    every.memory.delete_session("s1")
    assert len(every.memory.deleted_sessions()) == 2
    every.memory.undelete_session("s1")
    assert every.memory.session("s1").get("DEC-0002").decision == "the second"
    every.memory.delete_session("s1")
    every.memory.purge_session("s1")
    every.memory.undelete_session("s1")
    assert every.memory.session("s1").get("DEC-0002").decision == "the second"


def test_undeleted_archive_is_an_archive_again(every: World) -> None:
    before = told(every.session())
    every.memory.archive_session("s1", "old")
    every.memory.delete_session("s1")
    assert every.memory.archived_sessions() == []
    assert every.memory.undelete_session("s1") == "archived"
    assert every.memory.archived_sessions()[0].reason == "old"
    assert told(every.memory.session("s1")) == before


def test_every_transition_is_audited_without_content(world: World) -> None:
    world.session()
    world.memory.archive_session("s1", by="ada")
    world.memory.restore_session("s1")
    world.memory.delete_session("s1", "because")
    world.memory.undelete_session("s1")
    text = (world.root / ".smp" / "audit.jsonl").read_text()
    for action in ("archive_session", "restore_session", "delete_session", "undelete_session"):
        assert f'"action":"{action}"' in text
    assert "OAuth" not in text


# -- maintenance


def test_unused_sessions_are_archived_and_deleted_ones_purged_in_two_runs(every: World) -> None:
    every.session("old")
    every.session("gone")
    every.memory.maintain()
    every.memory.delete_session("gone")
    every.passes(31)
    planned = every.memory.maintain(dry_run=True).did
    assert every.memory.archived_sessions() == []
    done = every.memory.maintain()
    assert planned == [line.replace("archived old", "would archive old") for line in done.did]
    assert "archived old (not used for 30 days)" in done.did
    assert [each.session for each in every.memory.archived_sessions()] == ["old"]
    assert [each.session for each in every.memory.deleted_sessions()] == ["gone"]
    assert every.memory.maintain(only=["purge"]).did == []  # not on the same day
    every.passes(7)
    assert any("purged the session gone" in line for line in every.memory.maintain().did)
    assert every.memory.deleted_sessions() == []
    assert not any(name.startswith("gone") for name in os.listdir(every.root / "deleted"))


def test_no_calendar_task_runs_after_a_clock_jump(world: World) -> None:
    world.session()
    world.memory.maintain()
    world.clock.advance(days=400)  # and no time passed
    report = world.memory.maintain()
    assert "clock moved on" in report.refused
    assert report.did == []
    assert world.memory.session("s1").records()
    world.passes(1 / 1440)
    assert world.memory.maintain().did == []  # not at the second look either
    world.passes(1)
    assert world.memory.maintain().did == ["archived s1 (not used for 30 days)"]  # it stayed for a day: it is trusted


def test_tasks_that_are_not_due_do_not_run(world: World) -> None:
    world.session()
    world.memory.maintain()
    world.passes(0.3)
    ran = [task.name for task in world.memory.maintain().tasks if task.ran]
    assert ran == ["quota", "decay", "vectors"]
    with pytest.raises(InvalidRecord, match="sweep"):
        world.memory.maintain(only=["sweep"])


def test_access_counts_are_stored_in_files_and_survive_loss_of_log_and_index(every: World) -> None:
    every.session()
    every.memory.maintain()
    for _ in range(3):
        every.memory.query("OAuth")
        every.passes(0.01)
    every.passes(1)
    before = every.memory.session("s1").find("DEC-0001")
    assert "s1: wrote the uses of 1 memory" in every.memory.maintain().did
    after = every.memory.session("s1").find("DEC-0001")
    assert after.access["count"] == 3
    assert (after.updated, after.updated_by) == (before.updated, before.updated_by)
    assert os.path.getsize(state_folder(every.root) / "access.log") == 0
    every.memory.reindex()
    every.passes(1)
    every.memory.query("OAuth")
    every.memory.maintain()
    assert every.memory.session("s1").find("DEC-0001").access["count"] == 4


def test_expected_revision_holds_when_only_access_counts_changed(every: World) -> None:
    session = every.session()
    seen = session.find("DEC-0001")
    assert seen is not None
    every.memory.query("OAuth")
    every.memory.maintain(only=["access"])
    assert every.memory.session("s1").find("DEC-0001").access["count"] == 1
    changed = session.update("DEC-0001", seen.revision, rationale="mine")
    for stale in (seen.revision, 0, changed.revision + 1):
        with pytest.raises(Conflict):
            session.update("DEC-0001", stale, rationale="again")
    with pytest.raises(InvalidRecord, match="expected_revision"):
        session.update("DEC-0001", "1", rationale="again")
    assert session.update("DEC-0001", changed.revision, rationale="again").rationale == "again"


def test_access_counts_stay_with_their_memory_when_others_are_removed(every: World) -> None:
    session = every.memory.create_session("s1")
    finding = session.add_finding("first, and settled")
    session.resolve(finding.id, "done")
    session.add_decision("Use OAuth")
    every.memory.query("OAuth")
    every.memory.store.access.flush()
    every.memory.store.indexer.count_accesses()
    before = session.priority("DEC-0001")
    every.passes(40)
    assert session.compact(1 << 40).removed == ["FIND-0001"]
    (known,) = every.memory.store.indexer.candidates(CandidateRequest(refs=["s1/DEC-0001"])).matches
    assert known.access_count == 1
    assert session.priority("DEC-0001") < before


def test_retention_is_off_by_default_and_spares_open_memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for enabled in (False, True):
        days = {"conversation": 90, "decision": 0, "finding": 180}
        world = World(
            tmp_path / str(enabled),
            monkeypatch,
            lifecycle={"auto_archive": False},
            retention={"enabled": enabled, "days": days},
        )
        session = world.session()
        session.pin(session.add_turn("user", "keep this one").id)
        session.add_finding("still open")
        world.memory.maintain()
        world.passes(200)
        world.memory.maintain()
        left = [record.id for record in world.memory.session("s1").records()]
        assert left == (["TURN-0001"] if not enabled else []) + ["DEC-0001", "TURN-0002", "FIND-0002"]
        if enabled:
            assert world.memory.session("s1").restore("TURN-0001").text.startswith("We talked")


def test_opening_a_store_runs_cheap_tasks_that_are_due(world: World) -> None:
    world.session()
    world.memory.close()
    long_ago = datetime.now(UTC).timestamp() - 40 * 86400
    for folder, _, names in os.walk(world.root):
        for name in names:
            os.utime(os.path.join(folder, name), (long_ago, long_ago))
    store = world.root / "sessions" / "s1" / "decisions.jsonl"
    before = store.exists()
    smp_memory.open(world.root, config={"maintenance": {"auto": False}}).close()
    assert not (state_folder(world.root) / "maintenance.json").exists()
    smp_memory.open(world.root).close()  # closing waits for it
    assert (state_folder(world.root) / "maintenance.json").exists()
    assert before
