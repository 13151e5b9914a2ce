"""Contract for stores in files: the layout of a store, and conversion to another one."""

from __future__ import annotations

from smp_memory.errors import InvalidConfig, LayoutMismatch, StoreClosed
from smp_memory.files.layouts import NAMES
from tests.contract.fixture import COMMON, MINIMAL, ContractFixture, dump, raises


class LayoutsContract(ContractFixture):
    def test_a_store_knows_its_layout(self) -> None:
        memory = self.store()
        assert memory.layout in NAMES
        for other in NAMES:
            if other != memory.layout:
                with raises(LayoutMismatch):
                    self.store(layout=other)
        assert self.store(layout=memory.layout).layout == memory.layout
        with raises(InvalidConfig, field="layout"):
            self.store(layout="parchment")

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

    def test_queries_find_everything_after_a_conversion(self) -> None:
        session = self.new_session()
        session.add_decision("Use a login page", tags=["auth"])
        session.add_finding("The login is slow", tags=["auth"])
        assert len(session.query("login")) == 2
        converted = session.memory.convert("log" if session.memory.layout != "log" else "single")
        self._opened.append(converted)
        assert sorted(converted.query("login").ids) == ["DEC-0001", "FIND-0001"]
        assert converted.query(tags="auth", sort="oldest").ids == ["DEC-0001", "FIND-0001"]
        converted.session("s1").add_decision("One more login")
        assert len(converted.query("login")) == 3
