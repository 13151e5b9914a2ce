"""Contract for reading and searching: by id, listing, statistics, validation, conversion, queries over one and all sessions."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidQuery, InvalidRecord, MemoryNotFound, SessionNotFound, StoreClosed
from tests.contract.fixture import COMMON, MINIMAL, ContractFixture, dump, raises

if TYPE_CHECKING:
    from smp_memory.session import SessionMemory


class ReadingContract(ContractFixture):
    def test_records_are_listed_in_write_order(self) -> None:
        session = self.new_session()
        order = ["finding", "decision", "conversation", "decision", "finding", "artifact", "conversation"]
        for number, kind in enumerate(order):
            session.add(kind, MINIMAL[kind][0], n=number, created=f"2026-01-{20 - number:02}T00:00:00Z")
        for seen in (session, self.reopen(session)):
            assert [record.n for record in seen.records()] == list(range(7))
            assert [record.n for record in seen.records("decision")] == [1, 3]
            assert [record.n for record in seen.records("turns")] == [2, 6]
            assert seen.records("learning") == []
            assert list(seen) == seen.records()
            for last, expected in ((0, []), (1, [4]), (2, [0, 4]), (9, [0, 4]), (-1, [])):
                assert [record.n for record in self.reopen(seen).records("finding", last=last)] == expected
            assert [record.n for record in self.reopen(seen).records(last=3)] == [4, 5, 6]
        with raises(InvalidRecord, field="type"):
            session.records("dreams")

    def test_last_records_of_a_large_session(self) -> None:
        session = self.new_session()
        session.add_many([("conversation", {"role": "user", "content": f"{n} " + "x" * 500}) for n in range(300)])
        session.pin("TURN-0299")
        session.delete("TURN-0300")
        session.delete("TURN-0001")
        for count in (1, 5, 150, 297, 298, 299, 400):
            found = self.reopen(session).records("conversation", last=count)
            assert [record.id for record in found] == [f"TURN-{n:04}" for n in range(max(2, 300 - count), 300)]
            assert found[-1].pinned

    def test_interface_of_a_record(self) -> None:
        session = self.new_session()
        record = session.add_decision("Use OAuth", own={"a": 1})
        assert (record.id, record.type, record.session, record.ref) == ("DEC-0001", "decision", "s1", "s1/DEC-0001")
        assert (record.revision, record.tags, record.pinned, record.relations) == (1, [], False, [])
        assert record.created.tzinfo is UTC
        assert (record["own"], record.get("own"), record.get("nothing"), record.get("nothing", 5)) == (
            {"a": 1},
            {"a": 1},
            None,
            5,
        )
        assert record.text == "Use OAuth"
        assert "DEC-0001" in repr(record)
        assert record == self.reopen(session).get("DEC-0001")
        assert len({record, session.get("DEC-0001")}) == 1
        assert record != session.update("DEC-0001", n=1)
        assert not hasattr(record, "no_such_field")
        assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record
        assert self.store().get("s1/DEC-0001").decision == "Use OAuth"

    def test_reads_accept_records_as_ids(self) -> None:
        session = self.new_session()
        old = session.add_decision("secret plan")
        session.update(old, rationale="why")
        memory = session.memory
        assert session.get(old) == session.find(old) == memory.get(old) == session.get("DEC-0001") != old
        assert session.history(old) == session.history("DEC-0001")
        wrong: object
        for wrong in (None, 5, ["DEC-0001"], {}):
            for read in (session.get, session.find, session.history):
                with raises(InvalidRecord, field="id"):
                    read(wrong)
        for wrong in (None, 5, "", "s1", "s1/", "DEC-0001"):
            with raises(InvalidRecord, field="ref"):
                memory.get(wrong)
        with raises(MemoryNotFound, id="DEC-0009"):
            memory.get("s1/DEC-0009")

    def test_get_and_find(self) -> None:
        session = self.new_session()
        assert session.find("DEC-0001") is None
        with raises(MemoryNotFound, id="DEC-0001", session="s1"):
            session.get("DEC-0001")

    def test_statistics(self) -> None:
        session = self.new_session()
        empty = session.stats()
        assert (empty.memories, empty.by_type, empty.deleted, empty.first, empty.last) == (0, {}, 0, None, None)
        session.add_decision("x")
        self.clock.advance(10)
        session.add_decision("y")
        session.add_turn("user", "z")
        session.delete("DEC-0001")
        for seen in (session, self.reopen(session)):
            stats = seen.stats()
            assert (stats.memories, stats.by_type, stats.deleted) == (2, {"decision": 1, "conversation": 1}, 1)
            assert (stats.first, stats.last) == ("2026-01-01T12:00:10Z", "2026-01-01T12:00:10Z")
            assert stats.bytes == sum(stats.files.values()) > 0
            assert stats.quota_bytes == 10 * 1024 * 1024
            assert stats["session"] == stats.to_dict()["session"] == "s1"
            assert copy.copy(stats).to_dict() == pickle.loads(pickle.dumps(stats)).to_dict() == stats.to_dict()
            assert not hasattr(stats, "nothing")

    def test_an_undamaged_store_has_no_problems_and_needs_no_repair(self) -> None:
        session = self.new_session()
        for data in MINIMAL.items():
            session.add(data[0], {**data[1][0], **COMMON, "idempotency_key": data[0], "references": []})
        session.update_agent_state("v", {})
        session.resolve("FIND-0001", "done")
        session.delete("DEC-0001")
        before = dump(session)
        for report in (
            session.validate(),
            session.repair(),
            self.reopen(session).validate(),
            self.reopen(session).repair(),
        ):
            assert report.ok
            assert bool(report)
            assert (report.problems, report.actions, report.checked) == ([], [], len(MINIMAL) + 1)
        assert self.store().validate()["s1"].ok
        assert dump(session) == dump(self.reopen(session)) == before

    def test_dangling_references_are_reported(self) -> None:
        session = self.new_session()
        session.add_decision("x", references=["DEC-0009", "s9/DEC-0001", "RFC 6749"])
        report = session.validate()
        assert report.ok
        assert [(problem.code, problem.id, problem.severity) for problem in report.problems] == [
            ("dangling_reference", "DEC-0001", "warning")
        ]

    # -- closing

    def test_a_closed_store_raises_store_closed(self) -> None:
        memory = self.store()
        session = memory.create_session("s1")
        session.add_decision("x")
        memory.close()
        memory.close()
        for act in (
            lambda: session.add_decision("y"), lambda: session.get("DEC-0001"), session.records, session.stats, session.validate,
            session.repair, lambda: session.info, memory.sessions, lambda: memory.session("s1"), lambda: memory.create_session("s2"),
            lambda: session.update("DEC-0001", n=1), lambda: session.history("DEC-0001"), lambda: memory.convert("single"),
        ):  # fmt: skip
            with raises(StoreClosed):
                act()
        assert [record.id for record in self.store().session("s1").records()] == ["DEC-0001"]

    def test_context_managers(self) -> None:
        with self.store() as memory, memory.create_session("s1") as session:
            session.add_decision("x")
        with raises(StoreClosed):
            memory.sessions()
        with self.store() as memory:
            assert memory.session("s1").get("DEC-0001").decision == "x"


class SearchContract(ContractFixture):
    def _library(self) -> SessionMemory:
        session = self.new_session()
        session.add_decision("Use OAuth 2.0 for the login", author="architect", tags=["auth.oauth"], importance=0.9)
        self.clock.advance(days=1)
        session.add_finding("The login has no rate limit", author="veritas", severity="critical", tags=["auth"])
        self.clock.advance(days=1)
        session.add_turn("user", "Which database shall we use?")
        session.add_turn("assistant", "PostgreSQL, as in auth_service.py", author="architect")
        self.clock.advance(days=1)
        session.add_learning("Rate limits belong into the gateway", topic="gateway", score={"value": 7})
        return session

    def test_query_by_words(self) -> None:
        session = self._library()
        for seen in (session, self.reopen(session)):
            assert sorted(seen.query("login").ids) == ["DEC-0001", "FIND-0001"]
            assert sorted(seen.query("LOGINS").ids) == ["DEC-0001", "FIND-0001"]
            assert seen.query("auth_service.py").ids[0] == "TURN-0002"
            assert seen.query("postgresql").ids == ["TURN-0002"]
            assert seen.query('"rate limit"').ids[0] in ("FIND-0001", "LEARN-0001")
            assert seen.query("login -oauth").ids == ["FIND-0001"]
            assert seen.query("gate*").ids == ["LEARN-0001"]
            assert seen.query("FIND-0001").ids[0] == "FIND-0001"
            assert seen.query("nothing like it zzz").ids == []
            assert seen.query("?!").ids == []

    def test_more_matching_words_rank_higher_and_hits_explain_it(self) -> None:
        session = self._library()
        hits = session.query("login rate limit")
        assert hits.ids[0] == "FIND-0001"
        assert hits.ids == self.reopen(session).query("login rate limit").ids
        for hit in hits:
            assert 0 < hit.relevance <= 1
            assert 0 <= hit.priority <= 1
            assert hit.explain
            assert hit.record == session.get(hit.id)
            assert hit.to_dict()["record"]["id"] == hit.id
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_filters(self) -> None:
        session = self._library()
        questions: list[tuple[dict[str, Any], list[str]]] = [
            ({"types": "decision"}, ["DEC-0001"]),
            ({"types": ["turn", "learning"]}, ["LEARN-0001", "TURN-0002", "TURN-0001"]),
            ({"tags": "auth"}, ["FIND-0001", "DEC-0001"]),
            ({"tags": "auth.oauth"}, ["DEC-0001"]),
            ({"tags": "auth", "not_tags": "auth.oauth"}, ["FIND-0001"]),
            ({"agents": "architect"}, ["TURN-0002", "DEC-0001"]),
            ({"topic": "gateway"}, ["LEARN-0001"]),
            ({"min_importance": 0.8}, ["DEC-0001"]),
            ({"where": {"severity": "critical"}}, ["FIND-0001"]),
            ({"where": {"score.value": {"greater": 6}}}, ["LEARN-0001"]),
            ({"since": "2026-01-03"}, ["LEARN-0001", "TURN-0002", "TURN-0001"]),
            ({"until": "2026-01-01"}, ["DEC-0001"]),
            ({"time": "2026-01-02"}, ["FIND-0001"]),
            ({"time": ("2026-01-01", "2026-01-02"), "types": "finding"}, ["FIND-0001"]),
            ({"pinned": True}, []),
        ]
        for seen in (session, self.reopen(session)):
            for asked, expected in questions:
                assert seen.query(**asked, sort="newest").ids == expected, asked
                assert sorted(seen.query("login OR database gateway postgresql", **asked).ids) == sorted(expected), (
                    asked
                )
        assert session.by_type("finding").ids == session.by_agent("veritas").ids == ["FIND-0001"]
        assert session.by_topic("gateway").ids == ["LEARN-0001"]
        assert session.by_time_range("2026-01-02", "2026-01-02").ids == ["FIND-0001"]

    def test_sorting_paging_and_counting(self) -> None:
        session = self._library()
        everything = ["LEARN-0001", "TURN-0002", "TURN-0001", "FIND-0001", "DEC-0001"]
        assert session.query(sort="newest").ids == everything
        assert session.query(sort="oldest").ids == everything[::-1]
        assert session.query(sort="importance").ids[0] == "DEC-0001"
        for size in (1, 2, 3, 5, 6):
            pages = [session.query(sort="newest", limit=size, offset=start) for start in range(0, 5, size)]
            assert [id for page in pages for id in page.ids] == everything
            assert [page.more for page in pages] == [True] * (len(pages) - 1) + [False]
        assert session.query(limit=0).ids == []
        counts = session.query(count_by=["type", "tag", "agent", "day", "session"], limit=1).counts
        assert counts["type"] == {"conversation": 2, "decision": 1, "finding": 1, "learning": 1}
        assert counts["tag"] == {"auth": 1, "auth.oauth": 1}
        assert counts["day"] == {"2026-01-01": 1, "2026-01-02": 1, "2026-01-03": 2, "2026-01-04": 1}
        assert counts["session"] == {"s1": 5}
        assert session.query("login", count_by="type", limit=1).counts == {"type": {"decision": 1, "finding": 1}}

    def test_queries_see_changes_at_once_and_no_old_values(self) -> None:
        session = self._library()
        other = self.reopen(session)
        assert len(other.query("login")) == 2
        session.update("DEC-0001", decision="Use SAML for everything", tags=["sso"])
        assert other.query("login").ids == ["FIND-0001"]
        assert other.query("saml").records == [session.get("DEC-0001")]
        assert other.query(tags="sso").ids == ["DEC-0001"]
        assert other.query(tags="auth.oauth").ids == []
        session.delete("FIND-0001")
        assert other.query("login").ids == []
        assert other.query("login", include_deleted=True).ids == ["FIND-0001"]
        other.restore("FIND-0001")
        assert session.query("login").ids == ["FIND-0001"]
        with session.transaction() as tx:
            wishes = [tx.add_decision("a mango"), tx.add_finding("a mango", severity="low")]
        assert sorted(other.query("mango").ids) == sorted(wish.id for wish in wishes)
        session.pin("DEC-0001")
        assert other.query(pinned=True).ids == ["DEC-0001"]
        session.repair()
        assert other.query("saml").ids == ["DEC-0001"]

    def test_queries_know_what_holds_at_a_time(self) -> None:
        session = self._library()
        session.update("FIND-0001", valid_until="2026-01-05")
        session.add_decision("Passkeys", valid_from="2026-02-01", aliases=["door key"], supersedes="DEC-0001")
        for seen in (session, self.reopen(session)):
            january = seen.query("login", at="2026-01-04")
            assert sorted(january.ids) == ["DEC-0001", "FIND-0001"]
            assert (january.not_valid, january[0].superseded_by) == (0, None)
            march = seen.query("login", at="2026-03-01")
            assert (march.ids, march.not_valid) == (["DEC-0002", "DEC-0001"], 1)
            assert [hit.superseded_by for hit in march] == [None, "s1/DEC-0002"]
            everything = seen.query("login", at="2026-03-01", include_expired=True)
            assert sorted(everything.ids) == ["DEC-0001", "DEC-0002", "FIND-0001"]
            assert seen.query("door", at="2026-03-01").ids == ["DEC-0002"]
            assert seen.query("passkyes", at="2026-03-01").corrected == {"passkyes": "passkeys"}
        session.delete("DEC-0002")
        assert self.reopen(session).query("login", at="2026-03-01").ids == ["DEC-0001"]

    def test_query_over_one_session_or_all(self) -> None:
        session = self._library()
        memory = session.memory
        second = memory.create_session("s2")
        second.add_decision("A login with passkeys")
        assert sorted(hit.record.ref for hit in memory.query("login")) == ["s1/DEC-0001", "s1/FIND-0001", "s2/DEC-0001"]
        assert second.query("login").ids == ["DEC-0001"]
        assert [hit.session for hit in memory.query("login", sessions="s2")] == ["s2"]
        assert memory.query("login", count_by="session").counts == {"session": {"s1": 2, "s2": 1}}
        assert memory.create_session("empty").query().ids == []
        with raises(SessionNotFound):
            memory.query("login", sessions="s9")

    def test_relations_are_followed_in_both_directions(self) -> None:
        session = self._library()
        second = session.memory.create_session("s2")
        second.add_decision("Rate limits", references=["s1/FIND-0001"])
        session.relate("DEC-0001", "FIND-0001", "resolves")
        second.relate("DEC-0001", "s1/LEARN-0001", "follows")
        session.relate("LEARN-0001", "DEC-0001", "supports")  # a circle
        for seen in (session, self.reopen(session)):
            near = {each.record.ref: (each.steps, each.kind) for each in seen.find_related("DEC-0001")}
            assert near == {"s1/FIND-0001": (1, "resolves"), "s1/LEARN-0001": (1, "supports")}
            far = [each.record.ref for each in seen.find_related("DEC-0001", depth=3)]
            assert sorted(far) == ["s1/FIND-0001", "s1/LEARN-0001", "s2/DEC-0001"]
            assert [each.id for each in seen.find_related("DEC-0001", kinds="resolves", depth=5)] == ["FIND-0001"]
            assert seen.query(related_to="DEC-0001", types="finding").ids == ["FIND-0001"]
            (hit,) = seen.query("oauth", include_related=True)
            assert sorted(record.id for record in hit.related) == ["FIND-0001", "LEARN-0001"]
        pointing = session.memory.query(references="s1/FIND-0001")
        assert sorted(hit.record.ref for hit in pointing) == ["s1/DEC-0001", "s2/DEC-0001"]
        with raises(MemoryNotFound):
            session.find_related("DEC-0099")

    def test_find_similar(self) -> None:
        session = self._library()
        assert session.find_similar("a limit for logins").ids[0] == "FIND-0001"
        assert "FIND-0001" in session.find_similar("LEARN-0001").ids
        assert "LEARN-0001" not in session.find_similar("LEARN-0001").ids
        assert len(session.find_similar("login", limit=1)) == 1

    def test_invalid_queries_are_rejected_naming_the_field(self) -> None:
        session = self._library()
        wrong: dict[str, Any] = {"limit": -1, "types": "dreams", "sort": "size", "time": "someday", "tags": 5}
        for field, value in wrong.items():
            asked: dict[str, Any] = {field: value}
            with raises(InvalidQuery, field=field):
                session.query(**asked)
        with raises(InvalidQuery, field="tgas"):
            session.query(tgas="x")
        session.memory.close()
        with raises(StoreClosed):
            session.query("login")
