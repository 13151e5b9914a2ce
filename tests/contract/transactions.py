"""Contract for batches, transactions and concurrent writers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from smp_memory.errors import Conflict, DuplicateId, InvalidRecord, MemoryNotFound, StoreClosed
from tests.contract.fixture import MINIMAL, ContractFixture, dump, raises, raises_any

if TYPE_CHECKING:
    from collections.abc import Callable


class TransactionsContract(ContractFixture):
    # -- batches

    def test_add_many(self) -> None:
        session = self.new_session()
        items = [(kind, data) for kind, (data, _, _) in MINIMAL.items()] * 2
        records = session.add_many(items)
        assert [record.type for record in records] == [kind for kind, _ in items]
        assert [record.id for record in self.reopen(session).records()] == [record.id for record in records]
        assert session.add_many([]) == []
        assert [record.decision for record in session.add_many([("decision", "text"), ("decision", "more")])] == [
            "text",
            "more",
        ]

    def test_add_many_with_one_bad_item_writes_nothing(self) -> None:
        session = self.new_session()
        good = ("decision", {"decision": "x"})
        for bad in [
            ("finding", {}),
            ("dream", {}),
            ("decision", {"decision": "x", "tags": ["a b"]}),
            ("decision", 5),
            "x",
        ]:
            with raises(InvalidRecord):
                session.add_many([good, bad, good])
        session.add_decision("x", id="taken")
        with raises(DuplicateId):
            session.add_many([good, ("finding", {"finding": "y", "id": "taken"}), good])
        assert [record.id for record in self.reopen(session).records()] == ["taken"]
        assert session.add_decision("x").id == "DEC-0001"

    # -- transactions

    def test_a_transaction_is_stored_atomically(self) -> None:
        session = self.new_session()
        session.add_finding("old")
        other = self.reopen(session)
        with session.transaction() as tx:
            turn = tx.add_turn("user", "Decide!")
            decision = tx.add_decision("Use OAuth", tags=["auth"])
            tx.add_artifact("a.md", "text")
            tx.update_agent_state("veritas", {"n": 1})
            tx.relate(decision, "FIND-0001", "resolves")
            tx.relate("FIND-0001", decision, "led_to")
            tx.relate(decision, turn)
            tx.update(decision, rationale="why")
            tx.resolve("FIND-0001", "done", by="ada")
            tx.pin(turn)
            gone = tx.add_learning("wrong")
            tx.delete(gone, "a mistake")
            assert [record.id for record in other.records()] == ["FIND-0001"]
        assert (turn.id, decision.id, decision.rationale, decision.revision) == ("TURN-0001", "DEC-0001", "why", 4)
        again = self.reopen(session)
        for seen in (other, again, session):
            assert [record.id for record in seen.records()] == [
                "FIND-0001", "TURN-0001", "DEC-0001", "ART-0001", "STATE-veritas",
            ]  # fmt: skip
            assert seen.get("DEC-0001").relations == [
                {"kind": "resolves", "target": "FIND-0001"},
                {"kind": "relates_to", "target": "TURN-0001"},
            ]
            assert seen.get("FIND-0001").relations == [{"kind": "led_to", "target": "DEC-0001"}]
            assert (seen.get("FIND-0001").status, seen.get("TURN-0001").pinned) == ("resolved", True)
        assert again.validate().problems == []

    def test_an_exception_rolls_the_transaction_back(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        before = dump(session)
        wrongs: list[Callable[[Any], Any]] = [
            lambda tx: tx.add_decision("x", tags=["no good"]),
            lambda tx: tx.update("DEC-0009", status="y"),
            lambda tx: tx.update("DEC-0001", 7, status="y"),
            lambda tx: tx.relate("DEC-0001", "DEC-0009"),
            lambda tx: tx.delete("DEC-0009"),
            lambda tx: tx.restore("DEC-0001"),
        ]
        for wrong in wrongs:
            with raises_any(InvalidRecord, MemoryNotFound, Conflict), session.transaction() as tx:
                tx.add_turn("user", "lost")
                tx.update("DEC-0001", status="changed")
                wrong(tx)
        assert dump(session) == dump(self.reopen(session)) == before

    def test_empty_and_finished_transactions(self) -> None:
        session = self.new_session()
        with session.transaction():
            pass
        tx = session.transaction()
        tx.add_decision("x")
        tx.rollback()
        assert session.records() == []
        with raises(InvalidRecord):
            tx.add_decision("x")
        tx = session.transaction()
        decision = tx.add_decision("x")
        with raises(InvalidRecord, field="id"):
            _ = decision.id
        tx.commit()
        tx.commit()
        assert [record.id for record in session.records()] == [decision.id] == ["DEC-0001"]

    def test_many_artifacts_and_agents(self) -> None:
        """A layout may keep each of them in a file of its own."""
        session = self.new_session()
        for number in range(1, 31):
            session.add_artifact(f"a{number}", "text")
            session.update_agent_state(f"agent{number}", {"n": number})
        again = self.reopen(session)
        for number in (1, 2, 15, 30):
            assert again.update(f"ART-{number:04}", content="new").content == "new"
            assert session.update_agent_state(f"agent{number}", {"n": 0}).revision == 2
            session.delete(f"ART-{number:04}")
        with again.transaction() as tx:
            for number in (3, 14, 29):
                tx.update(f"ART-{number:04}", content="newer")
                tx.delete(f"STATE-agent{number}")
        assert len(self.reopen(session).records()) == 60 - 4 - 3
        assert session.validate().problems == []

    # -- several writers

    def test_two_open_stores_see_each_others_writes_at_once(self) -> None:
        one = self.new_session()
        two = self.reopen(one)
        for number in range(1, 6):
            one.add_decision(f"one {number}")
            assert two.get(f"DEC-{number * 2 - 1:04}").decision == f"one {number}"
            two.add_decision(f"two {number}")
            assert one.records("decision", last=1)[0].decision == f"two {number}"
            one.update("DEC-0001", n=number)
            assert two.get("DEC-0001").n == number
        two.delete("DEC-0001")
        with raises(MemoryNotFound, id="DEC-0001"):
            one.get("DEC-0001")
        assert dump(one) == dump(two)

    def test_threads_can_share_a_session(self) -> None:
        session = self.new_session()
        other = self.reopen(session)
        failures: list[BaseException] = []

        def work(mine: Any, name: str) -> None:
            try:
                for number in range(8):
                    record = mine.add_turn("assistant", f"{name} {number}")
                    assert mine.get(record.id).content == f"{name} {number}"
                    mine.update_agent_state(name, {"n": number})
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(target=work, args=(mine, f"t{n}")) for n, mine in enumerate([session] * 3 + [other])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        turns = self.reopen(session).records("conversation")
        assert sorted(turn.content for turn in turns) == sorted(
            f"t{n} {number}" for n in range(4) for number in range(8)
        )
        assert [turn.id for turn in turns] == [f"TURN-{number:04}" for number in range(1, 33)]
        assert {(state.agent, state.revision) for state in session.records("agent_state")} == {
            (f"t{n}", 8) for n in range(4)
        }
        assert session.validate().problems == []

    def test_closing_a_store_that_threads_still_use_stops_them_with_store_closed(self) -> None:
        self.new_session().add_many([("decision", f"Orders go to database {number}") for number in range(100)])
        written: list[str] = []
        for delay in (0.0, 0.005, 0.01, 0.02, 0.04, 0.08):  # the close meets a query in different steps
            memory = self.store()
            session = memory.session("s1")
            acts: list[Callable[[], Any]] = [
                lambda memory=memory: memory.query("orders database"),  # type: ignore[misc]
                lambda memory=memory: memory.query("orders database"),  # type: ignore[misc]
                lambda session=session: written.append(session.add_turn("user", "orders").id),  # type: ignore[misc]
            ]
            stopped: list[BaseException] = []
            threads = [threading.Thread(target=_repeat, args=(act, stopped)) for act in acts]
            for thread in threads:
                thread.start()
            time.sleep(delay)
            memory.close()
            for thread in threads:
                thread.join()
            assert [type(error) for error in stopped] == [StoreClosed] * 3
        turns = self.store().session("s1").records("conversation")
        assert set(written) <= {turn.id for turn in turns}


def _repeat(act: Callable[[], Any], stopped: list[BaseException]) -> None:
    """Act until it raises; keep the error."""
    try:
        while True:
            act()
    except BaseException as error:
        stopped.append(error)
