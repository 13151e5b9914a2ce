"""Contract for the lifecycle: deletion, trash, purge, erasure, compaction, archived and deleted sessions, maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidQuery, MemoryNotFound, SessionExists, SessionNotFound
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE, Evidence
from smp_memory.model.times import to_text
from tests.contract.fixture import ContractFixture, dump, raises

if TYPE_CHECKING:
    from smp_memory.session import SessionMemory


_DAY = 86_400


class DeletionContract(ContractFixture):
    def _with_memories(self) -> SessionMemory:
        session = self.new_session()
        session.add_decision("Bill in euros", topic="billing", tags=["money.euro"], author="bob")
        session.add_finding("Bills are late", severity="high", topic="billing")
        session.add_decision("Use OAuth", topic="auth")
        session.add_turn("user", "the old password")
        session.add_turn("user", "the old house")
        return session

    def test_delete_by_criteria_reports_correct_counts(self) -> None:
        session = self._with_memories()
        for criteria, ids in (
            ({"topic": "billing"}, ["DEC-0001", "FIND-0001"]),
            ({"tags": "money"}, ["DEC-0001"]),
            ({"agents": "bob"}, ["DEC-0001"]),
            ({"types": ["finding", "turn"]}, ["FIND-0001", "TURN-0001", "TURN-0002"]),
            ({"where": {"severity": "high"}}, ["FIND-0001"]),
            ({"text": "old password"}, ["TURN-0001"]),
            ({"since": "2027-01-01"}, []),
        ):
            before = dump(session)
            assert sorted(session.delete(**criteria, preview=True).ids) == ids, criteria
            assert dump(session) == before
            done = session.delete(**criteria, reason="why", by="eve")
            assert (sorted(done.ids), done.count) == (ids, len(ids))
            again = self.reopen(session)
            assert sorted(each.id for each in again.deleted()) == ids
            assert {(each.by, each.reason) for each in again.deleted()} == ({("eve", "why")} if ids else set())
            assert not {record.id for record in again.records()} & set(ids)
            back = again.restore(**criteria)
            assert sorted(back.ids) == ids
            assert again.deleted() == []

    def test_deletion_without_valid_criteria_is_rejected(self) -> None:
        session = self._with_memories()
        for act in (session.delete, session.restore, session.erase):
            with raises(InvalidQuery):
                act()
            with raises(InvalidQuery, field="limit"):
                act(topic="billing", limit=1)
        with raises(MemoryNotFound, id="DEC-0099"):
            session.delete(["DEC-0001", "DEC-0099"])
        assert len(session.records()) == 5

    def test_deletion_records_author_time_and_reason(self) -> None:
        session = self._with_memories()
        (record,) = session.delete(topic="billing", reason="Privacy", by="u").to_dict()["deletions"]
        assert (record["session_id"], record["deleted_by"], record["reason"]) == ("s1", "u", "Privacy")
        assert record["deleted_at"] == to_text(self.clock())
        assert {(item["type"], item["id"]) for item in record["deleted_items"]} == {
            ("decision", "DEC-0001"),
            ("finding", "FIND-0001"),
        }
        assert record["recovery_deadline"] == "2026-01-31T12:00:00Z"

    def test_delete_across_sessions(self) -> None:
        session = self._with_memories()
        store = self.store()
        store.create_session("s2").add_decision("Bill weekly", topic="billing")
        done = store.delete(topic="billing")
        assert sorted(done.refs) == ["s1/DEC-0001", "s1/FIND-0001", "s2/DEC-0001"]
        assert store.restore("s1/DEC-0001").id == "DEC-0001"
        assert [record.id for record in self.reopen(session).records("decision")] == ["DEC-0001", "DEC-0002"]

    def test_an_equal_memory_can_be_added_after_deletion(self) -> None:
        session = self.new_session()
        first = session.add_decision("x", idempotency_key="k")
        session.delete(first.id)
        second = session.add_decision("x", idempotency_key="k")
        assert (second.id, second.deleted) == ("DEC-0002", False)
        assert self.reopen(session).add_decision("x", idempotency_key="k").id == "DEC-0002"

    # -- for good

    def test_a_purge_needs_two_calls_a_day_apart(self) -> None:
        session = self._with_memories()
        session.delete("DEC-0001")
        self.clock.advance(30 * _DAY)
        first = session.purge(evidence=NO_EVIDENCE)
        assert (first.ids, first.announced) == ([], ["s1/DEC-0001"])
        self.clock.advance(_DAY - 1)
        assert self.reopen(session).purge(evidence=NO_EVIDENCE).ids == []
        self.clock.advance(1)
        assert self.reopen(session).purge(evidence=NO_EVIDENCE).ids == ["s1/DEC-0001"]
        assert session.find("DEC-0001") is None
        assert session.add_decision("new").id == "DEC-0003"

    def test_nothing_is_purged_after_a_clock_jump(self) -> None:
        session = self._with_memories()
        session.delete("DEC-0001")
        now = self.clock()
        self.clock.advance(60 * _DAY)
        for evidence in (Evidence(now, None), Evidence(self.clock.advance(_DAY), None)):
            self.clock.advance(-_DAY)
            done = session.purge(evidence=evidence)
            assert done.refused
            assert (done.ids, done.announced) == ([], [])

    def test_erasing_removes_only_the_given_memories(self) -> None:
        session = self._with_memories()
        session.update("DEC-0001", rationale="a platypus orchestra")
        session.relate("DEC-0002", "DEC-0001", "supersedes")
        session.delete("DEC-0001", "wrong")
        left = [each for each in dump(session) if each["id"] not in ("DEC-0001", "TURN-0001")]
        assert session.erase(["DEC-0001", "TURN-0001"], preview=True).count == 2
        receipt = session.erase(["DEC-0001", "TURN-0001"], reason="asked to")
        assert receipt.count == 2
        assert receipt.verified
        assert "platypus" not in str(receipt.to_dict())
        for seen in (session, self.reopen(session)):
            assert dump(seen) == left
            assert seen.find("DEC-0001") is None
            assert seen.query("platypus") == []
            assert seen.get("DEC-0002").relations == [{"kind": "supersedes", "target": "DEC-0001"}]
        assert session.add_decision("new").id == "DEC-0003"
        with raises(MemoryNotFound, id="DEC-0001"):
            session.erase("DEC-0001")


_ALL = 1 << 40


class ArchivesContract(ContractFixture):
    def _aged(self) -> SessionMemory:
        """A session with memories that compaction may remove, and memories that it must keep."""
        session = self.new_session()
        for number in range(30):
            session.add_turn("user", f"Turn {number} about the login, its tokens and what they are good for." * 3)
        session.resolve(session.add_finding("A finding that is settled", severity="low").id, "done")
        session.add_decision("Use OAuth", author="architect")
        session.add_finding("A finding that is open")
        self.clock.advance(days=60)
        session.add_turn("user", "Said just now")
        return session

    def _without_summaries(self, session: SessionMemory) -> list[dict[str, Any]]:
        return [memory for memory in dump(session) if memory["type"] != "summary"]

    def test_compacted_memories_are_listed_found_and_restored(self) -> None:
        session = self._aged()
        before = dump(session)
        report = session.compact(_ALL)
        assert report.freed_bytes > 0
        assert set(report.removed) == {f"TURN-{number:04d}" for number in range(1, 31)} | {"FIND-0001"}
        session = self.reopen(session)
        assert {memory.id for memory in session.archived()} == set(report.removed)
        assert session.query("settled").ids == []
        assert session.query("settled", include_archived=True).ids == ["FIND-0001"]
        with raises(MemoryNotFound, id="TURN-0001"):
            session.get("TURN-0001")
        assert session.add_turn("user", "later").id == "TURN-0032"
        session.delete("TURN-0032")
        for id in report.removed:
            session.restore(id)
        assert session.archived() == []
        assert self._without_summaries(self.reopen(session))[: len(before)] == before

    def test_a_dry_run_changes_nothing(self) -> None:
        session = self._aged()
        before = dump(session)
        planned = session.compact(_ALL, dry_run=True)
        assert planned.removed
        assert dump(self.reopen(session)) == before
        assert session.compact(_ALL).removed == planned.removed

    def test_opening_an_archived_session_restores_it(self) -> None:
        session = self._aged()
        session.compact(2000)
        before, cold = dump(session), session.archived()
        self.store().archive_session("s1", "old")
        assert self.store().sessions() == []
        assert [away.session for away in self.store().archived_sessions()] == ["s1"]
        with raises(SessionExists, session="s1"):
            self.store().create_session("s1")
        again = self.store().session("s1")
        assert dump(again) == before
        assert again.archived() == cold
        assert self.store().archived_sessions() == []

    def test_a_deleted_session_is_hidden_until_it_is_undeleted(self) -> None:
        session = self._aged()
        before = dump(session)
        self.store().delete_session("s1", "wrong", by="ada")
        with raises(SessionNotFound, session="s1"):
            self.store().session("s1")
        with raises(SessionNotFound, session="s1"):
            session.records()
        assert self.store().query("OAuth").ids == []
        [away] = self.store().deleted_sessions()
        assert (away.session, away.reason, away.metadata["deleted_by"]) == ("s1", "wrong", "ada")
        assert self.store().undelete_session("s1") == "active"
        assert dump(self.store().session("s1")) == before
        assert session.add_decision("And on we go").id == "DEC-0002"

    def test_a_purged_session_cannot_be_restored(self) -> None:
        self._aged()
        self.store().delete_session("s1")
        self.store().purge_session("s1")
        with raises(SessionNotFound, session="s1"):
            self.store().undelete_session("s1")
        assert self.store().create_session("s1").records() == []

    def test_maintenance_reports_its_actions(self) -> None:
        session = self._aged()
        before = dump(session)
        report = self.store().maintain()
        assert report.ok
        assert [task.name for task in report.tasks if task.ran]
        assert dump(self.reopen(session)) == before

    def test_a_merge_records_its_origins(self) -> None:
        session = self.new_session()
        for author in ("architect", "veritas"):
            session.add_finding("The login has no rate limit", author=author)
        [group] = session.duplicates()
        kept = session.merge(group)
        assert kept.discoverers == ["architect", "veritas"]
        assert len(session.records("finding")) == 1
        assert session.restore("FIND-0002").author == "veritas"
