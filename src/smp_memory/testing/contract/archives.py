"""Contract for compaction, archived and deleted sessions, and maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import MemoryNotFound, SessionExists, SessionNotFound
from smp_memory.testing.contract.fixture import ContractFixture, dump, raises

if TYPE_CHECKING:
    from smp_memory.session import SessionMemory

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
