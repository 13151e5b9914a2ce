"""Contract for search: queries by words, filters, time and relations, over one session and all sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidQuery, MemoryNotFound, SessionNotFound, StoreClosed
from smp_memory.testing.contract.fixture import ContractFixture, raises

if TYPE_CHECKING:
    from smp_memory.session import SessionMemory


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
        assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)

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
                assert seen.query(**asked).ids == expected, asked
                assert sorted(seen.query("login OR database gateway postgresql", **asked).ids) == sorted(expected), (
                    asked
                )
        assert session.by_type("finding").ids == session.by_agent("veritas").ids == ["FIND-0001"]
        assert session.by_topic("gateway").ids == ["LEARN-0001"]
        assert session.by_time_range("2026-01-02", "2026-01-02").ids == ["FIND-0001"]

    def test_sorting_paging_and_counting(self) -> None:
        session = self._library()
        everything = ["LEARN-0001", "TURN-0002", "TURN-0001", "FIND-0001", "DEC-0001"]
        assert session.query().ids == everything
        assert session.query(sort="oldest").ids == everything[::-1]
        assert session.query(sort="importance").ids[0] == "DEC-0001"
        for size in (1, 2, 3, 5, 6):
            pages = [session.query(limit=size, offset=start) for start in range(0, 5, size)]
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

    def test_queries_find_everything_after_a_conversion(self) -> None:
        session = self._library()
        assert len(session.query("login")) == 2
        converted = session.memory.convert("log" if session.memory.layout != "log" else "single")
        self._opened.append(converted)
        assert sorted(converted.query("login").ids) == ["DEC-0001", "FIND-0001"]
        assert converted.query(tags="auth", sort="oldest").ids == ["DEC-0001", "FIND-0001"]
        converted.session("s1").add_decision("One more login")
        assert len(converted.query("login")) == 3

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
