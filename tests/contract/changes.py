"""Contract for changes: updates, history, `as_of`, resolution, relations, pins, deletion."""

from __future__ import annotations

from typing import Any

from smp_memory.errors import Conflict, InvalidRecord, MemoryNotFound, SizeLimitExceeded
from smp_memory.model.times import to_text
from tests.contract.fixture import MINIMAL, ContractFixture, dump, is_same, raises, raises_invalid


class ChangesContract(ContractFixture):
    # -- update and history

    def test_history_records_author_time_and_values_of_each_update(self) -> None:
        session = self.new_session()
        created = self.clock()
        session.add_decision("Use OAuth", status="proposed", author="ada", tags=["a"])
        changed = self.clock.advance(60)
        record = session.update("DEC-0001", status="accepted", tags=["a", "b"], note={"n": [1]}, by="bob")
        assert (record.revision, record.status, record.tags, record.note) == (2, "accepted", ["a", "b"], {"n": [1]})
        assert (record.created, record.updated, record.updated_by) == (created, changed, "bob")
        self.clock.advance(60)
        session.update("DEC-0001", status="done", author="carol", by="carol")
        for seen in (session, self.reopen(session)):
            steps = seen.history("DEC-0001")
            assert [(step["revision"], step["op"], step["by"], step["at"]) for step in steps] == [
                (1, "put", "ada", "2026-01-01T12:00:00Z"),
                (2, "change", "bob", "2026-01-01T12:01:00Z"),
                (3, "change", "carol", "2026-01-01T12:02:00Z"),
            ]
            assert steps[0]["changes"]["decision"] == {"from": None, "to": "Use OAuth"}
            assert steps[1]["changes"] == {
                "status": {"from": "proposed", "to": "accepted"},
                "tags": {"from": ["a"], "to": ["a", "b"]},
                "note": {"from": None, "to": {"n": [1]}},
            }
            assert steps[2]["changes"]["author"] == {"from": "ada", "to": "carol"}

    def test_every_type_but_turns_can_be_updated(self) -> None:
        session = self.new_session()
        for kind, (data, first, _) in MINIMAL.items():
            session.add(kind, data)
            name = next(iter(data))
            if kind == "conversation":
                with raises(InvalidRecord, id=first):
                    session.update(first, content="Bye")
                continue
            changes: dict[str, Any] = {name: "new text", "own": {"a": [1]}, "topic": "t"}
            session.update(first, **changes)
            found = self.reopen(session).get(first)
            assert (found.revision, getattr(found, name), found.own, found.topic) == (2, "new text", {"a": [1]}, "t")
        session.update_agent_state("v", {})
        assert session.update("STATE-v", state=[1]).state == [1]

    def test_a_preference_is_found_by_its_new_key_after_a_change(self) -> None:
        session = self.new_session()
        first = session.add_preference("style", "concise")
        session.update(first, key="tone")
        for seen in (session, self.reopen(session)):
            assert seen.add_preference("tone", "warm").id == first.id
        assert session.add_preference("style", "brief").id == "PREF-0002"
        assert [(record.key, record.value) for record in self.reopen(session).records("preference")] == [
            ("tone", "warm"),
            ("style", "brief"),
        ]
        session.update("PREF-0002", key="tone")
        session.update("PREF-0002", key="voice")
        assert self.reopen(session).add_preference("tone", "cool").id == first.id
        with session.transaction() as tx:
            new = tx.add_preference("length", "short")
            tx.update(new, key="size")
            same, other = tx.add_preference("size", "long"), tx.add_preference("length", "none")
        assert (new.id, same.id, other.id) == ("PREF-0003", "PREF-0003", "PREF-0004")

    def test_an_update_that_removes_all_content_is_rejected(self) -> None:
        session = self.new_session()
        session.add_preference("style", "concise")
        session.add_artifact("plan.md", "# Plan")
        session.add_artifact(path="src/login.py")
        for id, changes in (
            ("PREF-0001", {"key": None, "value": None}),
            ("PREF-0001", {"key": "", "value": ""}),
            ("ART-0001", {"name": None, "content": ""}),
            ("ART-0002", {"path": None}),
        ):
            with raises(InvalidRecord):
                session.update(id, **changes)
        assert [record.revision for record in self.reopen(session).records()] == [1, 1, 1]
        assert session.update("PREF-0001", key=None, value=None, preference="Be brief").text == "Be brief"
        assert session.update("ART-0001", name=None).content == "# Plan"

    def test_updating_a_field_to_none_removes_it(self) -> None:
        session = self.new_session()
        session.add_decision("x", rationale="why", odd=1, tags=["a"], seq="mine")
        session.update("DEC-0001", rationale=None, odd=None, tags=None, seq=None)
        found = self.reopen(session).get("DEC-0001")
        assert (found.rationale, found.tags, found.revision) == (None, [], 2)
        assert not {"rationale", "odd", "seq"} & set(found.to_dict())
        assert self.reopen(session).history("DEC-0001")[1]["changes"]["odd"] == {"from": 1, "to": None}
        assert session.update("DEC-0001", never_there=None).revision == 2
        for required in (None, ""):
            with raises(InvalidRecord, field="decision"):
                session.update("DEC-0001", decision=required)

    def test_an_update_without_changes_creates_no_revision(self) -> None:
        session = self.new_session()
        session.add_decision("x", n=1, tags=["a"])
        assert session.update("DEC-0001", n=1, tags=["a"]).revision == 1
        assert len(session.history("DEC-0001")) == 1

    def test_a_value_of_another_type_is_a_change(self) -> None:
        session = self.new_session()
        session.add_decision("x", n=1, m=[0, {"a": True}])
        for revision, value in enumerate((1.0, True, "1", 1), 2):
            session.update("DEC-0001", n=value)
            found = self.reopen(session).get("DEC-0001")
            assert is_same([found.n, found.revision], [value, revision])
        session.update("DEC-0001", m=[False, {"a": 1}])
        assert is_same(self.reopen(session).get("DEC-0001").m, [False, {"a": 1}])
        session.add_preference("k", 1)
        assert is_same(session.add_preference("k", True).value, True)

    def test_ids_and_creation_cannot_be_changed(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        with raises(InvalidRecord, field="created"):
            session.update("DEC-0001", created="2026-01-01T00:00:00Z")
        with raises(InvalidRecord, field="created"):
            session.update("DEC-0001", timestamp="2026-01-01T00:00:00Z")
        for bad in (
            {"tags": ["a b"]},
            {"importance": 2},
            {"confidence": "sure"},
            {"pinned": "yes"},
            {"n": float("nan")},
        ):
            with raises(InvalidRecord, field=next(iter(bad))):
                session.update("DEC-0001", **bad)
        with raises(SizeLimitExceeded):
            session.update("DEC-0001", rationale="x" * (1 << 21))
        assert self.reopen(session).get("DEC-0001").revision == 1

    def test_an_outdated_expected_revision_raises_conflict(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        other = self.reopen(session)
        session.update("DEC-0001", expected_revision=1, n=1)
        with raises(Conflict, id="DEC-0001", revision=2, expected_revision=1):
            other.update("DEC-0001", expected_revision=1, n=2)
        with raises(Conflict):
            other.update("DEC-0001", 3, n=2)
        assert other.update("DEC-0001", 2, n=2).n == 2
        assert [step["revision"] for step in session.history("DEC-0001")] == [1, 2, 3]

    def test_changing_a_missing_memory_is_rejected(self) -> None:
        session = self.new_session()
        for name in ("DEC-0001", "", "x/y", "../../etc"):
            for act in (session.update, session.delete, session.restore, session.pin, session.history, session.get):
                with raises(MemoryNotFound, id=name, session="s1"):
                    act(name)
        for bad in (None, 5, ["DEC-0001"]):
            with raises(InvalidRecord, field="id"):
                session.update(bad, n=1)

    def test_changes_accept_records_as_ids(self) -> None:
        session = self.new_session()
        one, two = session.add_decision("x"), session.add_finding("y")
        assert session.update(one, n=1).revision == 2
        assert session.relate(two, one, "led_to").relations == [{"kind": "led_to", "target": "DEC-0001"}]
        session.delete(two)
        assert session.restore(two).id == "FIND-0001"

    def test_returned_values_are_copies(self) -> None:
        session = self.new_session()
        given = {"list": [1, {"a": [2]}]}
        record = session.add_decision("x", own=given, tags=["a"])
        given["list"].append(3)
        record.own["list"].append(4)
        record.tags.append("b")
        record.to_dict()["own"]["list"].append(5)
        session.get("DEC-0001").own["list"][1]["a"].append(6)
        session.history("DEC-0001")[0]["changes"]["own"]["to"]["list"].append(7)
        session.history("DEC-0001")[0]["changes"]["tags"]["to"].append("c")
        for seen in (record, session.get("DEC-0001"), self.reopen(session).get("DEC-0001")):
            assert (seen.own, seen.tags) == ({"list": [1, {"a": [2]}]}, ["a"])

    # -- time travel

    def test_as_of_shows_the_session_as_it_was(self) -> None:
        session = self.new_session()
        times = []

        def tick() -> None:
            times.append(self.clock())
            self.clock.advance(0.5)

        tick()
        session.add_decision("one", n=1)
        tick()
        session.update("DEC-0001", n=2)
        tick()
        session.add_finding("two")
        session.delete("DEC-0001", "old")
        tick()
        session.restore("DEC-0001")
        tick()
        session.update("DEC-0001", n=None)
        tick()
        for seen in (session, self.reopen(session)):
            shown = [
                [(record.id, record.revision, record.to_dict().get("n")) for record in seen.as_of(moment).records()]
                for moment in times
            ]
            assert shown == [
                [],
                [("DEC-0001", 1, 1)],
                [("DEC-0001", 2, 2)],
                [("FIND-0001", 1, None)],
                [("DEC-0001", 2, 2), ("FIND-0001", 1, None)],
                [("DEC-0001", 3, None), ("FIND-0001", 1, None)],
            ]
            with raises(MemoryNotFound, id="DEC-0001"):
                seen.as_of(times[3]).get("DEC-0001")
            assert [record.id for record in seen.as_of(times[3]).records(include_deleted=True)] == [
                "DEC-0001",
                "FIND-0001",
            ]
            assert [record.id for record in seen.as_of(times[5]).records("findings")] == ["FIND-0001"]
            assert seen.as_of(to_text(self.clock())).records() == seen.records()
            assert len(seen.as_of("2001-01-01")) == 0
        with raises(InvalidRecord, field="time"):
            session.as_of("soon")

    def test_as_of_includes_memories_with_an_earlier_created_time(self) -> None:
        session = self.new_session()
        session.add_decision("x", created="2020-05-05T05:05:05.25Z")
        assert len(session.as_of("2020-05-05T05:05:05Z")) == 0
        assert len(session.as_of("2020-05-05T05:05:05.250Z")) == 1
        assert len(session.as_of("2020-05-05T05:05:06+00:00")) == 1

    # -- resolution

    def test_findings_and_decisions_can_be_resolved(self) -> None:
        session = self.new_session()
        session.add_finding("No MFA")
        session.add_decision("Use SAML")
        when = to_text(self.clock.advance(5))
        session.resolve("FIND-0001", "MFA added", by="ada", verification="commit abc")
        session.resolve("DEC-0001", {"action_taken": "dropped", "links": [1]}, status="superseded")
        for seen in (session, self.reopen(session)):
            finding, decision = seen.get("FIND-0001"), seen.get("DEC-0001")
            assert finding.status == finding.resolution["status"] == finding.to_dict()["status"] == "resolved"
            assert finding.resolution == {
                "status": "resolved",
                "resolved_at": when,
                "resolved_by": "ada",
                "action_taken": "MFA added",
                "verification": "commit abc",
            }
            assert decision.status == decision.resolution["status"] == "superseded"
            assert decision.resolution["links"] == [1]
            assert seen.history("FIND-0001")[-1]["by"] == "ada"
        session.add_learning("x")
        with raises(InvalidRecord, id="LEARN-0001"):
            session.resolve("LEARN-0001", "no")

    def test_resolve_with_an_expected_revision_refuses_a_changed_memory(self) -> None:
        """`expected_revision` was stored as a field of the resolution."""
        session = self.new_session()
        session.add_finding("No MFA")
        session.update("FIND-0001", severity="high")
        with raises(Conflict, id="FIND-0001"):
            session.resolve("FIND-0001", "MFA added", expected_revision=1)
        assert session.get("FIND-0001").status == "open"
        session.resolve("FIND-0001", "MFA added", expected_revision=2)
        found = self.reopen(session).get("FIND-0001")
        assert found.status == "resolved"
        assert "expected_revision" not in found.resolution

    def test_status_is_read_from_inside_the_resolution(self) -> None:
        session = self.new_session()
        session.add_finding("x", resolution={"status": "resolved"})
        session.add_finding("y", status="wontfix")
        session.add_finding("z")
        assert [record.status for record in self.reopen(session).records()] == ["resolved", "wontfix", "open"]

    # -- relations

    def test_relations_are_typed_and_stored_once(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        session.add_finding("y")
        session.add_turn("user", "z")
        for kind in (
            "resolves",
            "led_to",
            "influenced",
            "supersedes",
            "relates_to",
            "contradicts",
            "derived_from",
            "hängt_ab_von",
        ):
            session.relate("DEC-0001", "FIND-0001", kind)
            session.relate("DEC-0001", "FIND-0001", kind)
        session.relate("DEC-0001", "other-session/TURN-0007", "derived_from")
        session.relate("TURN-0001", "DEC-0001", by="ada")
        found = self.reopen(session).get("DEC-0001")
        assert [relation["kind"] for relation in found.relations] == [
            "resolves", "led_to", "influenced", "supersedes", "relates_to", "contradicts", "derived_from", "hängt_ab_von",
            "derived_from",
        ]  # fmt: skip
        assert found.relations[-1]["target"] == "other-session/TURN-0007"
        assert found.revision == 10
        assert session.get("TURN-0001").relations == [{"kind": "relates_to", "target": "DEC-0001"}]
        assert session.history("TURN-0001")[-1]["by"] == "ada"

    def test_relations_are_removed_by_kind_and_target(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        session.add_finding("y")
        session.add_turn("user", "z")
        for kind, target in (("resolves", "FIND-0001"), ("led_to", "FIND-0001"), ("resolves", "TURN-0001")):
            session.relate("DEC-0001", target, kind)
        session.unrelate("DEC-0001", f"{session.id}/FIND-0001", "resolves", by="ada")
        found = self.reopen(session).get("DEC-0001")
        assert [(each["kind"], each["target"]) for each in found.relations] == [
            ("led_to", "FIND-0001"),
            ("resolves", "TURN-0001"),
        ]
        assert session.history("DEC-0001")[-1]["by"] == "ada"
        assert session.unrelate("DEC-0001", "FIND-0001", "resolves").revision == found.revision
        assert session.relate("DEC-0001", f"{session.id}/FIND-0001", "led_to").revision == found.revision
        session.relate("TURN-0001", "other-session/DEC-0007")
        session.unrelate("TURN-0001", "other-session/DEC-0007")
        assert self.reopen(session).get("TURN-0001").relations == []
        session.relate("TURN-0001", "DEC-0001")
        session.delete("DEC-0001")
        assert session.unrelate("TURN-0001", "DEC-0001").relations == []
        for bad in ("a b", "../x", ""):
            with raises(InvalidRecord, field="target"):
                session.unrelate("TURN-0001", bad)
        with raises(MemoryNotFound):
            session.unrelate("DEC-0009", "TURN-0001")

    def test_relations_to_missing_memories_are_rejected(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        session.add_decision("y")
        session.delete("DEC-0002")
        before = dump(session)
        for source, target in (("DEC-0001", "DEC-0009"), ("DEC-0009", "DEC-0001"), ("DEC-0001", "DEC-0002")):
            with raises(MemoryNotFound):
                session.relate(source, target)
        for bad in ("", "two words", "a/b", None, 5):
            with raises(InvalidRecord, field="kind"):
                session.relate("DEC-0001", "DEC-0001", bad)
        for bad in ("a b", "a/b/c", "../x", "/DEC-0001", ""):
            with raises(InvalidRecord, field="target"):
                session.relate("DEC-0001", bad)
        assert dump(session) == before

    def test_relations_may_be_given_with_a_new_memory(self) -> None:
        session = self.new_session()
        relations = [{"kind": "led_to", "target": "DEC-0002"}, {"kind": "supersedes", "target": "s0/DEC-0001"}]
        session.add_decision("x", relations=relations)
        session.add_decision("y", relations=[("resolves", "FIND-0001")])
        again = self.reopen(session)
        assert again.get("DEC-0001").relations == relations
        assert again.get("DEC-0002").relations == [{"kind": "resolves", "target": "FIND-0001"}]
        bad: Any
        for bad in ("DEC-0001", [5], ["x"], [{}], [("a", "b", "c")], [{"kind": "a b", "target": "x"}], {"led_to": "x"}):
            with raises_invalid("relations", "kind"):
                session.add_decision("z", relations=bad)

    # -- pins

    def test_anything_can_be_pinned(self) -> None:
        session = self.new_session()
        for kind, (data, first, _) in MINIMAL.items():
            session.add(kind, data)
            assert not session.get(first).pinned
            assert session.pin(first, by="ada").pinned is True
            assert session.pin(first).revision == 2
            assert self.reopen(session).get(first).pinned is True
            assert self.reopen(session).unpin(first).pinned is False
            assert session.unpin(first).pinned is False
            assert session.history(first)[1]["by"] == "ada"

    # -- deletion

    def test_deleted_memories_are_hidden_until_restored(self) -> None:
        session = self.new_session()
        for kind, (data, first, _) in MINIMAL.items():
            session.add(kind, data)
            before = session.get(first).to_dict()
            when = to_text(self.clock.advance(1))
            gone = session.delete(first, "outdated", by="ada")
            assert gone.deleted
            assert gone.to_dict()["deleted"] == {"at": when, "by": "ada", "reason": "outdated"}
            for seen in (session, self.reopen(session)):
                with raises(MemoryNotFound, id=first, session="s1"):
                    seen.get(first)
                assert first not in [record.id for record in seen.records()]
                assert seen.find(first).deleted  # type: ignore[union-attr]
                assert first in [record.id for record in seen.records(include_deleted=True)]
                for act in (seen.update, seen.pin, seen.delete):
                    with raises(MemoryNotFound, id=first):
                        act(first)
            self.reopen(session).restore(first, "needed", by="bob")
            assert self.reopen(session).get(first).to_dict() == before
            with raises(MemoryNotFound, id=first):
                session.restore(first)
            steps = session.history(first)
            assert [(step["op"], step["by"], step.get("reason")) for step in steps[1:]] == [
                ("delete", "ada", "outdated"),
                ("restore", "bob", "needed"),
            ]

    def test_deleted_content_can_be_added_again(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        session.delete("DEC-0001")
        assert session.add_decision("x").id == "DEC-0002"
        assert [record.id for record in self.reopen(session).records()] == ["DEC-0002"]

    def test_author_and_reason_must_be_text(self) -> None:
        session = self.new_session()
        session.add_finding("x")
        before = dump(session)
        bad: Any
        for bad in ("\ud800", 5, ["x"], object(), b"x"):
            for act in (session.delete, session.pin, session.resolve):
                with raises_invalid("by"):
                    act("FIND-0001", by=bad)
            with raises_invalid("by"):
                session.update("FIND-0001", n=1, by=bad)
            with raises_invalid("by"):
                session.relate("FIND-0001", "FIND-0001", by=bad)
            with raises_invalid("reason"):
                session.delete("FIND-0001", bad)
            with raises_invalid("author"):
                session.memory.session("s1", author=bad).add_decision("x")
        assert dump(session) == dump(self.reopen(session)) == before
