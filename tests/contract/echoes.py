"""Contract for echoes: turns that repeat a written memory, in queries, hooks' hits and contexts, and along relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.model.candidates import NEWER, REPEATED, CandidateRequest
from smp_memory.model.statuses import HIDDEN_MEMORY
from smp_memory.privacy.visibility import Viewer
from smp_memory.search.succession import current_hits
from tests.contract.fixture import ContractFixture

if TYPE_CHECKING:
    from smp_memory.memory import Memory
    from smp_memory.session import SessionMemory

SAID = "ok, the HTTP timeout of the payment client is 30 seconds then"
WRITTEN = "The HTTP timeout of the payment client is 30 seconds."
OTHER = "I set the HTTP timeout of the search client to 5 seconds."
ASKED = "HTTP timeout of the payment client"


class EchoesContract(ContractFixture):
    @property
    def memory(self) -> Memory:
        return self._opened[-1]

    def _session(self, *more: str) -> SessionMemory:
        """A turn, a decision that it repeats, another turn, and further ones."""
        session = self.new_session()
        session.add_turn("user", SAID)
        session.add_turn("assistant", "I look at the logs first.")
        session.add_turn("user", "There is nothing in them.")
        session.add_decision(WRITTEN)
        for text in (OTHER, *more):
            session.add_turn("assistant", text)
        return session

    def _echoes(self, session: SessionMemory, ref: str = "s1/DEC-0001") -> list[str]:
        related = self.memory.store.indexer.related([ref], kinds=("repeats",))
        return sorted(each.ref for each in related.get(ref, ()))

    def test_echoes_before_and_after_in_the_same_and_another_session(self) -> None:
        session = self._session(f"Yes. {WRITTEN}")
        self.memory.create_session("s2").add_turn("user", WRITTEN)
        echoes = ["s1/TURN-0001", "s1/TURN-0005", "s2/TURN-0001"]
        assert self._echoes(session) == echoes
        index = self.memory.store.indexer
        assert [each.ref for each in index.related(["s2/TURN-0001"], kinds=("repeats",))["s2/TURN-0001"]] == [
            "s1/DEC-0001"
        ]
        assert index.related(["s1/DEC-0001"])["s1/DEC-0001"] == []
        self.memory.reindex()
        assert self._echoes(session) == echoes

    def test_the_memory_speaks_for_its_echoes(self) -> None:
        session = self._session(f"Yes. {WRITTEN}")
        hits = session.query(ASKED)
        assert hits.ids[:2] == ["DEC-0001", "TURN-0004"]
        assert not {"TURN-0001", "TURN-0005"} & set(hits.ids)
        assert sorted(hits[0].echoes) == ["s1/TURN-0001", "s1/TURN-0005"]
        assert hits[0].to_dict()["echoes"] == hits[0].echoes
        assert (hits[0].repeats, hits[1].repeats, hits[1].echoes) == (None, None, [])

    def test_a_query_for_turns_lists_echoes_and_says_what_they_repeat(self) -> None:
        session = self._session()
        for hits in (session.query(ASKED, types="conversation"), session.query(types="conversation", sort="oldest")):
            [echo] = [hit for hit in hits if hit.id == "TURN-0001"]
            assert (echo.repeats, echo.repeats_state) == ("s1/DEC-0001", "")
            assert echo in current_hits(hits)
        assert {"DEC-0001", "TURN-0001"} <= set(session.query('"HTTP timeout"').ids)

    def test_an_echo_that_matches_better_brings_its_memory(self) -> None:
        session = self.new_session()
        session.add_decision(WRITTEN)
        session.add_turn("user", "Hello.")
        session.add_turn("assistant", f"{WRITTEN} This is because of the flaky upstream of Contoso.")
        hits = session.query("flaky upstream Contoso")
        assert hits.ids[0] == "DEC-0001"
        alone = self.memory.create_session("s2")
        alone.add_turn("assistant", "It is because of the flaky upstream of Contoso.")
        assert hits[0].relevance > 0.5 * alone.query("flaky upstream Contoso")[0].relevance

    def test_a_long_turn_that_says_more_is_found_by_what_else_it_says(self) -> None:
        session = self.new_session()
        session.add_decision(WRITTEN)
        session.add_turn("user", "Hello.")
        session.add_turn("assistant", f"{WRITTEN} The flaky upstream belongs to Contoso. {'And so it goes on. ' * 20}")
        found = {hit.id: (hit.repeats, hit.repeats_state) for hit in session.query("flaky upstream Contoso")}
        assert found["TURN-0002"] == ("s1/DEC-0001", "")
        assert "DEC-0001" not in found
        assert "TURN-0002" not in session.query(ASKED).ids

    def test_echoes_of_a_deleted_memory(self) -> None:
        session = self._session()
        session.delete("DEC-0001")
        self._check_silent(session, "deleted")

    def test_echoes_of_a_settled_memory(self) -> None:
        session = self._session()
        session.update("DEC-0001", status="rejected")
        self._check_silent(session, "settled")

    def test_echoes_of_an_expired_memory(self) -> None:
        session = self._session()
        session.update("DEC-0001", valid_until="2020-01-01T00:00:00Z")
        self._check_silent(session, "not valid")
        assert "TURN-0001" not in session.query(ASKED, include_expired=True).ids

    def _check_silent(self, session: SessionMemory, state: str) -> None:
        """The echo is in a query, marked, and neither in what hooks tell nor in a context."""
        hits = session.query(ASKED)
        [echo] = [hit for hit in hits if hit.id == "TURN-0001"]
        assert (echo.repeats, echo.repeats_state) == ("s1/DEC-0001", state)
        left_out: dict[str, str] = {}
        current = current_hits(hits, left_out=lambda hit, reason, why: left_out.update({hit.id: why}))
        assert "TURN-0001" not in [hit.id for hit in current]
        assert left_out["TURN-0001"] == f"s1/DEC-0001, which {'was' if state == 'deleted' else 'is'} {state}"
        context = self.memory.context(task=ASKED, session="s1").text
        assert "30 seconds" not in context
        assert "search client" in context

    def test_the_successor_takes_the_place_of_echoes_of_a_superseded_memory(self) -> None:
        session = self._session()
        session.add_decision("Payments wait 60 s.", supersedes="DEC-0001")
        hits = session.query(ASKED)
        assert hits.ids[0] == "DEC-0002"
        [echo] = [hit for hit in hits if hit.id == "TURN-0001"]
        assert (echo.repeats, echo.repeats_state) == ("s1/DEC-0001", "superseded")
        current = [hit.id for hit in current_hits(hits)]
        assert current[0] == "DEC-0002"
        assert "TURN-0001" not in current

    def test_an_explanation_names_the_memory_that_speaks(self) -> None:
        session = self._session()
        found = self.memory.explain("s1/TURN-0001", ASKED)
        assert (found.found, found.reasons) == (False, ["repeats s1/DEC-0001, which is found in its place at rank 1"])
        assert session.query(ASKED)[0].id == "DEC-0001"

    def test_a_wish_that_was_written_down_is_told_once(self) -> None:
        session = self.new_session()
        session.add_turn(
            "user", "From now on always write commit messages in the imperative mood with a ticket number."
        )
        context = self.memory.context(session="s1", turns=0)
        assert "commit messages" in context.text
        session.add("preference", "Always write commit messages in the imperative mood with a ticket number.")
        assert self.memory.context(session="s1", turns=0).text.count("commit messages") == 1

    def test_a_finding_that_a_decision_resolves_is_settled_with_its_echoes(self) -> None:
        session = self.new_session()
        session.add_turn("user", "The nightly export fails when a customer name contains a semicolon.")
        session.add_finding("The nightly export fails when a customer name contains a semicolon.", severity="critical")
        session.add_decision("Fields are quoted.", relations=[{"kind": "resolves", "target": "FIND-0001"}])
        hits = session.query("nightly export semicolon")
        assert hits.ids == ["DEC-0001", "FIND-0001", "TURN-0001"]
        assert (hits[1].superseded_by, hits[1].status) == ("s1/DEC-0001", "open")
        assert (hits[2].repeats, hits[2].repeats_state) == ("s1/FIND-0001", "superseded")
        assert [hit.id for hit in current_hits(hits)] == ["DEC-0001"]
        context = self.memory.context(task="nightly export semicolon", session="s1").text
        assert "Fields are quoted" in context
        assert "customer name" not in context
        session.delete("DEC-0001")
        assert session.query("nightly export semicolon").ids == ["FIND-0001"]

    def test_a_restored_memory_speaks_again_and_a_purged_one_has_no_echoes(self) -> None:
        session = self._session()
        session.delete("DEC-0001")
        session.restore("DEC-0001")
        assert session.query(ASKED).ids[0] == "DEC-0001"
        assert "TURN-0001" not in session.query(ASKED).ids
        self.memory.erase("s1/DEC-0001")
        assert self._echoes(session) == []
        [echo] = [hit for hit in session.query(ASKED) if hit.id == "TURN-0001"]
        assert (echo.repeats, echo.repeats_state) == (None, "")

    def test_a_changed_memory_has_other_echoes(self) -> None:
        session = self._session(OTHER)
        session.update("DEC-0001", decision="The HTTP timeout of the search client is 5 seconds.")
        assert self._echoes(session) == ["s1/TURN-0004", "s1/TURN-0005"]

    def test_a_memory_of_another_session_does_not_count_in_a_query_of_one_session(self) -> None:
        self._session()
        other = self.memory.create_session("s2")
        other.add_turn("user", WRITTEN)
        [hit] = other.query(ASKED)
        assert (hit.id, hit.repeats) == ("TURN-0001", None)
        assert "TURN-0001" not in [hit.record.ref for hit in self.memory.query(ASKED)]

    def test_a_hidden_memory_is_not_named_and_its_echo_not_recalled(self) -> None:
        session = self.new_session()
        session.add_turn("user", SAID)
        session.add_decision(WRITTEN, author="ann", visibility="private")
        request = CandidateRequest(refs=["s1/TURN-0001"], fetch=[REPEATED, NEWER], viewer=Viewer("bob"))
        found = self.memory.store.indexer.candidates(request)
        assert ([each.repeats for each in found.matches], dict(found.repeated)) == ([HIDDEN_MEMORY], {})
        hits = session.agent("bob").query(ASKED)
        assert [(hit.id, hit.repeats, hit.repeats_state) for hit in hits] == [("TURN-0001", None, "hidden")]
        assert current_hits(hits) == []
        assert "DEC-0001" not in str(hits.to_dicts())
        assert session.agent("ann").query(ASKED).ids == ["DEC-0001"]

    def test_deletion_shows_echoes_and_takes_them_along(self) -> None:
        session = self._session()
        self.memory.create_session("s2").add_turn("user", WRITTEN)
        echoes = ["s1/TURN-0001", "s2/TURN-0001"]
        preview = session.delete("DEC-0001", preview=True)
        assert (preview.ids, sorted(preview.echoes), preview.to_dict()["echoes"]) == (
            ["DEC-0001"],
            echoes,
            preview.echoes,
        )
        assert session.delete("DEC-0001").id == "DEC-0001"
        assert not session.get("TURN-0001").deleted
        session.restore("DEC-0001")
        done = session.delete("DEC-0001", echoes=True, preview=True)
        assert sorted(done.refs) == ["s1/DEC-0001", *echoes]
        assert not session.get("DEC-0001").deleted
        done = session.delete("DEC-0001", "wrong", echoes=True)
        assert (sorted(done.refs), sorted(done.deadlines)) == (["s1/DEC-0001", *echoes], ["s1", "s2"])
        assert {each.record.ref for each in self.memory.deleted()} == {"s1/DEC-0001", *echoes}
        assert sorted(session.restore("DEC-0001", preview=True).echoes) == echoes
        back = session.restore("DEC-0001", echoes=True)
        assert sorted(record.ref for record in back.records) == ["s1/DEC-0001", *echoes]
        assert self.memory.deleted() == []

    def test_deletion_of_a_turn_and_by_criteria(self) -> None:
        session = self._session()
        assert session.delete("TURN-0001", preview=True).echoes == []
        done = session.delete(types="decision", echoes=True)
        assert sorted(done.ids) == ["DEC-0001", "TURN-0001"]
        assert session.delete(types="conversation", echoes=True).count == 3

    def test_erasure_names_echoes_that_stay_and_takes_them_along(self) -> None:
        session = self._session()
        session.delete("TURN-0001")
        preview = self.memory.erase("s1/DEC-0001", preview=True)
        assert (preview.ids, preview.staying_echoes) == (["s1/DEC-0001"], ["s1/TURN-0001"])
        receipt = self.memory.erase("s1/DEC-0001")
        assert (receipt.staying_echoes, receipt.to_dict()["staying_echoes"]) == (["s1/TURN-0001"], ["s1/TURN-0001"])
        session.add_decision(WRITTEN)
        receipt = self.memory.erase("s1/DEC-0002", echoes=True)
        assert sorted(receipt.ids) == ["s1/DEC-0002", "s1/TURN-0001"]
        assert receipt.staying_echoes == []
        assert "payment client" not in str([record.to_dict() for record in session.records()])
        assert session.deleted() == []
