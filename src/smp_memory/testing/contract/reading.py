"""Contract for reading: by id, listing, statistics, validation, and conversion to another layout."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC

from smp_memory.errors import InvalidConfig, InvalidRecord, MemoryNotFound, StoreClosed
from smp_memory.files.layouts import NAMES
from smp_memory.testing.contract.fixture import COMMON, MINIMAL, ContractFixture, dump, raises


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
        assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record  # noqa: S301
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
            assert copy.copy(stats).to_dict() == pickle.loads(pickle.dumps(stats)).to_dict() == stats.to_dict()  # noqa: S301
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

    # -- other layouts

    def _filled(self) -> None:
        memory = self.store()
        session = memory.create_session(
            "s1", user="ada", agents=["a", "b"], project="shop", tags=["x"], phase={"n": [1]}
        )
        for number, (kind, (data, _, _)) in enumerate(MINIMAL.items()):
            self.clock.advance(1)
            session.add(
                kind, {**data, **COMMON, "idempotency_key": f"{number}", "references": [], "own": {"n": number}}
            )
            session.add(
                kind, {**data, "author": "x", "by": "y", "seq": 1, "extra": 2, "changes": {}, "message_": "\r\n"}
            )
        self.clock.advance(1)
        session.update_agent_state("veritas", {"n": 1})
        session.update_agent_state("veritas", {"n": 2})
        session.resolve("FIND-0001", "done", by="ada")
        session.update("DEC-0001", rationale="new", author=None, own=None, by="bob")
        with session.transaction() as tx:
            tx.delete("LEARN-0001", "old")
            tx.relate(tx.add_turn("user", "last"), "DEC-0001")
            tx.add_decision("own id", id="my-own", alternatives=[1], made_by="m", author="n")
        session.delete("ART-0001")
        session.restore("ART-0001")
        memory.create_session("s2", note="empty")

    def test_converting_to_another_layout_and_back_keeps_all_records(self) -> None:
        self._filled()
        memory = self.store()
        home = memory.layout
        before = {session.id: (dump(session), session.info.to_dict()) for session in memory.sessions()}
        at = self.clock.advance(-2)
        past = memory.session("s1").as_of(at).records()
        for layout in [*NAMES, *reversed(NAMES), home]:
            memory = memory.convert(layout)
            self._opened.append(memory)
            assert memory.layout == layout
            after = {session.id: (dump(session), session.info.to_dict()) for session in memory.sessions()}
            assert after == before
            assert memory.session("s1").as_of(at).records() == past
            assert all(report.problems == [] for report in memory.validate().values())
            assert memory.session("s2").add_decision("x").id == f"DEC-{len(before['s2'][0]) + 1:04}"
            before["s2"] = (dump(memory.session("s2")), before["s2"][1])
        assert memory.session("s1").add_learning("x").id == "LEARN-0003"

    def test_converting_closes_the_old_store_object(self) -> None:
        session = self.new_session()
        other = "single" if session.memory.layout != "single" else "log"
        converted = session.memory.convert(other)
        self._opened.append(converted)
        with raises(StoreClosed):
            session.add_decision("x")
        with raises(InvalidConfig, field="layout"):
            converted.convert("parchment")
        assert converted.session("s1").add_decision("x").id == "DEC-0001"

    def test_a_conversion_keeps_the_settings_passed_to_open(self) -> None:
        memory = self.store(config={"durability": "os", "storage": {"max_content_kb": 2}})
        memory.create_session("s1")
        converted = memory.convert("log" if memory.layout != "log" else "jsonl")
        self._opened.append(converted)
        assert (converted.config.durability, converted.config.content_limit_bytes) == ("os", 2048)
