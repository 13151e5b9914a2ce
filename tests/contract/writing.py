"""Contract for adding memories: every type, field aliases, times, ids, idempotency."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from smp_memory.errors import DuplicateId, InvalidRecord, MemoryNotFound
from tests.contract.fixture import COMMON, MINIMAL, ContractFixture, dump, is_same, raises

# Aliases of fields in the original designs (docs/reference/designs.md): type, alias, field, value.
ALIASES = [
    ("decision", "timestamp", "created", "2026-01-11T10:00:00Z"),
    ("decision", "ts", "created", "2026-01-11T10:00:00Z"),
    ("decision", "created_at", "created", "2026-01-11T10:00:00Z"),
    ("decision", "made_by", "author", "architect"),
    ("finding", "discovered_by", "author", "veritas"),
    ("decision", "by", "author", "architect"),
    ("decision", "created_by", "author", "architect"),
    ("conversation", "speaker", "author", "veritas"),
    ("conversation", "agent_id", "author", "veritas"),
    ("conversation", "message", "content", "Hello"),
    ("conversation", "memory_refs", "references", ["DEC-0001"]),
    ("decision", "refs", "references", ["DEC-0001"]),
    ("finding", "issue", "finding", "No MFA"),
    ("finding", "description", "finding", "No MFA"),
    ("decision", "alternatives", "alternatives_considered", [{"option": "SAML", "rejected_reason": "old"}]),
    ("decision", "implementation_impact", "impact", "high"),
    ("learning", "pattern", "learning", "Ask first"),
    ("learning", "lesson", "learning", "Ask first"),
    ("artifact", "title", "name", "report"),
]


class WritingContract(ContractFixture):
    # -- every type

    def test_every_type_is_added_with_its_required_fields(self) -> None:
        session = self.new_session()
        for kind, (data, first, second) in MINIMAL.items():
            for wanted_id in (first, second):
                record = session.add(kind, data)
                assert (record.id, record.type, record.revision, record.session) == (wanted_id, kind, 1, "s1")
                assert record.created == record.updated == self.clock()
                assert {name: record.to_dict()[name] for name in data} == data
        assert dump(self.reopen(session)) == dump(session)

    def test_every_type_accepts_the_common_fields(self) -> None:
        session = self.new_session()
        for kind, (data, first, _) in MINIMAL.items():
            given = {**data, **COMMON, "idempotency_key": f"key {kind}"}
            record = session.add(kind, given, created="2026-01-05T08:09:10.5+01:00")
            found = self.reopen(session).get(first)
            assert found == record
            for name, value in given.items():
                assert is_same(getattr(found, name), value), (kind, name)
            assert found.created == datetime(2026, 1, 5, 7, 9, 10, 500_000, tzinfo=UTC)
            assert found.to_dict()["created"] == "2026-01-05T07:09:10.500000Z"
            assert found.confidence_value == 0.9

    def test_unknown_fields_are_stored_unchanged(self) -> None:
        session = self.new_session()
        extra = {
            "priority": 0.9,
            "decay": {"priority": 1.0, "empty": {}, "none": None, "list": [1, [2, [3, []]], {}]},
            "Odd Key!": "x",
            "ключ": ["я"],
            "with.dots": 1,
            "dashed-name": True,
        }
        for kind, (data, first, _) in MINIMAL.items():
            session.add(kind, {**data, **extra})
            found = self.reopen(session).get(first).to_dict()
            for name, value in extra.items():
                assert is_same(found[name], value), (kind, name)
            assert self.reopen(session).get(first).priority == 0.9

    def test_unknown_fields_with_reserved_names_are_stored(self) -> None:
        session = self.new_session()
        names = ["seq", "tx", "extra", "changes", "deleted", "deleted_by", "restored", "reason", "text", "ref"]
        names += ["restored_by", "body", "encoding", "smp", "meta", "data_", "kind", "role_", "heading", "generation"]
        for kind, (data, first, _) in MINIMAL.items():
            given: dict[str, Any] = {name: {"of": name} for name in names}
            session.add(kind, {**data, **given})
            if kind != "conversation":
                session.update(first, seq=5, extra="e", changes=[1])
                given.update(seq=5, extra="e", changes=[1])
            found = self.reopen(session).get(first).to_dict()
            for name, value in given.items():
                assert is_same(found[name], value), (kind, name)

    def test_the_typed_methods(self) -> None:
        session = self.new_session()
        turn = session.add_turn("assistant", "Shall we?", author="architect", topic="plan")
        assert (turn.role, turn.content, turn.author, turn.kind) == ("assistant", "Shall we?", "architect", "message")
        decision = session.add_decision("Use OAuth", rationale="Standard", reversible=False, agreed_by=["ada"])
        assert (decision.decision, decision.rationale, decision.reversible) == ("Use OAuth", "Standard", False)
        assert (decision.agreed_by, decision.approved_by, decision.status) == (["ada"], [], "active")
        finding = session.add_finding("No MFA", severity="critical", category="security", evidence="3.2")
        assert (finding.finding, finding.severity, finding.status) == ("No MFA", "critical", "open")
        preference = session.add_preference("style", "concise", category="talk", learned_from=["s0"])
        assert (preference.key, preference.value, preference.learned_from) == ("style", "concise", ["s0"])
        state = session.update_agent_state("veritas", {"task": "verify", "open": [1, 2]})
        assert (state.id, state.agent, state.state["open"], state.author) == (
            "STATE-veritas",
            "veritas",
            [1, 2],
            "veritas",
        )
        artifact = session.add_artifact("report.md", "# Report\n", path="docs/report.md", format="markdown")
        assert (artifact.name, artifact.path, artifact.content) == ("report.md", "docs/report.md", "# Report\n")
        learning = session.add_learning("Ask first", category="process")
        assert (learning.learning, learning.category) == ("Ask first", "process")
        assert [type(record).__name__ for record in self.reopen(session).records()] == [
            "Turn", "Decision", "Finding", "Preference", "AgentState", "Artifact", "Learning",
        ]  # fmt: skip

    def test_text_alone_is_enough(self) -> None:
        session = self.new_session()
        assert session.add("decision", "Use OAuth").decision == "Use OAuth"
        assert session.add("findings", "No MFA").finding == "No MFA"
        assert session.add("learning", "Ask").learning == "Ask"

    def test_types_are_accepted_by_their_aliases(self) -> None:
        session = self.new_session()
        for spoken, kind in (("turn", "conversation"), ("decisions", "decision"), ("Learning", "learning")):
            assert session.add(spoken, MINIMAL[kind][0]).type == kind
        with raises(InvalidRecord, field="type"):
            session.add("dream", "of sheep")

    # -- names of the original designs

    def test_aliases_of_the_original_designs(self) -> None:
        session = self.new_session()
        for kind, alias, name, value in ALIASES:
            data = {key: item for key, item in MINIMAL[kind][0].items() if key != name}
            record = session.add(kind, {**data, alias: value})
            assert is_same(self.reopen(session).get(record.id).to_dict()[name], value), (kind, alias)
            assert alias not in record.to_dict()

    def test_an_alias_beside_the_field_itself_is_an_unknown_field(self) -> None:
        session = self.new_session()
        for kind, alias, name, value in ALIASES:
            other = "2020-02-02T02:02:02Z" if name == "created" else ["OTHER-1"] if isinstance(value, list) else "other"
            record = session.add(kind, {**MINIMAL[kind][0], name: value, alias: other})
            found = self.reopen(session).get(record.id).to_dict()
            assert is_same([found[name], found[alias]], [value, other]), (kind, alias)

    def test_two_aliases_of_one_field_are_both_stored(self) -> None:
        session = self.new_session()
        record = session.add("decision", {"decision": "x", "made_by": "ada", "by": "bob"})
        found = self.reopen(session).get(record.id).to_dict()
        assert {found["author"], found.get("by"), found.get("made_by")} == {"ada", "bob", None}

    def test_fields_inside_data_or_content(self) -> None:
        session = self.new_session()
        first = session.add("decision", {"data": {"decision": "Use OAuth", "by": "architect"}, "tags": ["auth"]})
        assert (first.decision, first.author, first.tags) == ("Use OAuth", "architect", ["auth"])
        turn = session.add(
            "conversation", {"content": {"role": "user", "message": "Hi", "metadata": {}}, "importance": 0.5}
        )
        assert (turn.role, turn.content, turn.metadata, turn.importance) == ("user", "Hi", {}, 0.5)
        finding = session.add("finding", {"data": {"issue": "No MFA", "severity": "critical"}})
        assert (finding.finding, finding.severity) == ("No MFA", "critical")

    def test_a_field_named_data_beside_the_text_is_an_unknown_field(self) -> None:
        session = self.new_session()
        given = {"decision": "x", "data": {"decision": "inner", "n": 1}}
        record = session.add("decision", given)
        found = self.reopen(session).get(record.id).to_dict()
        assert is_same([found["decision"], found["data"]], [given["decision"], given["data"]])
        session.update(record.id, data={"m": 2})
        assert is_same(self.reopen(session).get(record.id).to_dict()["data"], {"m": 2})

    # -- who, when, how sure

    def test_default_author_of_turns(self) -> None:
        memory = self.store()
        memory.create_session("s1", user="ada")
        session = memory.session("s1", author="architect")
        assert session.add_turn("user", "Hi").author == "ada"
        assert session.add_turn("assistant", "Hi").author == "architect"
        assert session.add_decision("x").author == "architect"
        assert session.add_decision("x", author="veritas").author == "veritas"
        tool = session.add_turn("tool", "ok")
        assert (tool.author_kind, memory.session("s1").add_turn("veritas", "I").author) == ("tool", "veritas")
        assert memory.session("s1").add_decision("y").author is None

    def test_accepted_forms_of_times(self) -> None:
        session = self.new_session()
        for given, expected in [
            (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:04:05Z"),
            (datetime(2026, 1, 2, 3, 4, 5, 6), "2026-01-02T03:04:05.000006Z"),  # noqa: DTZ001
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02 03:04", "2026-01-02T03:04:00Z"),
            ("2026-01-02", "2026-01-02T00:00:00Z"),
            ("1969-07-20T20:17:40Z", "1969-07-20T20:17:40Z"),
        ]:
            record = session.add_decision("x", created=given)
            assert self.reopen(session).get(record.id).to_dict()["created"] == expected
        bad: Any
        for bad in ("yesterday", "2026-13-01T00:00:00Z", 5, True, [], "9999-12-31T23:59:59-10:00"):
            with raises(InvalidRecord, field="created"):
                session.add_decision("x", created=bad)

    def test_confidence_as_word_or_number(self) -> None:
        session = self.new_session()
        for given, stored, value in [
            ("explicit", "explicit", 1.0), ("HIGH", "high", 0.9), ("medium", "medium", 0.7), ("low", "low", 0.4),
            ("inferred", "inferred", 0.6), ("uncertain", "uncertain", 0.3), (0.25, 0.25, 0.25), (1, 1, 1), (0, 0, 0),
        ]:  # fmt: skip
            record = self.reopen(session).get(session.add_decision("x", confidence=given).id)
            assert is_same([record.confidence, record.confidence_value], [stored, value])

    # -- ids

    def test_ids_continue_after_deletion_and_reopening(self) -> None:
        session = self.new_session()
        assert [session.add_decision("x").id for _ in range(3)] == ["DEC-0001", "DEC-0002", "DEC-0003"]
        session.delete("DEC-0003")
        assert session.add_decision("x").id == "DEC-0004"
        session.delete("DEC-0004")
        again = self.reopen(session)
        assert again.add_decision("x").id == "DEC-0005"
        assert again.add_finding("y").id == "FIND-0001"

    def test_rejected_writes_consume_no_id(self) -> None:
        session = self.new_session()
        session.add_decision("x")
        with raises(InvalidRecord, field="tags"):
            session.add_decision("x", tags=["no good"])
        with raises(MemoryNotFound), session.transaction() as tx:
            tx.add_decision("y")
            tx.update("DEC-0099", status="x")
        assert session.add_decision("x").id == "DEC-0002"

    def test_ids_chosen_by_the_caller(self) -> None:
        session = self.new_session()
        for kind, (data, _, _) in MINIMAL.items():
            own = f"my_{kind}-Id"
            assert session.add(kind, {"id": own, **data}).id == own
            assert self.reopen(session).get(own).type == kind
        assert session.add_decision("x", id="DEC-0041").id == "DEC-0041"
        assert session.add_decision("x").id == "DEC-0042"
        assert session.add_decision("x", id="DEC-0007").id == "DEC-0007"
        assert session.add_decision("x").id == "DEC-0043"
        assert self.reopen(session).add_decision("x").id == "DEC-0044"

    def test_a_duplicate_id_is_rejected(self) -> None:
        session = self.new_session()
        session.add_decision("x", id="mine")
        session.delete("mine")
        before = dump(session)
        for again in (session, self.reopen(session)):
            with raises(DuplicateId, id="mine", field="id"):
                again.add_finding("y", id="mine")
            with raises(DuplicateId, id="mine"), again.transaction() as tx:
                tx.add_finding("y")
                tx.add_decision("z", id="mine")
            with raises(DuplicateId, id="new"):
                again.add_many(
                    [("decision", {"decision": "a", "id": "new"}), ("finding", {"finding": "b", "id": "new"})]
                )
        assert dump(session) == dump(self.reopen(session)) == before

    def test_a_chosen_id_with_the_prefix_of_another_type_is_not_allocated_again(self) -> None:
        session = self.new_session()
        session.add_decision("x", id="TURN-0001")
        turn = session.add_turn("user", "Hi")
        assert turn.id != "TURN-0001"
        again = self.reopen(session)
        assert again.get(turn.id).content == "Hi"
        assert again.get("TURN-0001").decision == "x"
        assert again.add_turn("user", "Ho").id not in ("TURN-0001", turn.id)
        assert again.validate().problems == []

    def test_invalid_ids_are_rejected(self) -> None:
        session = self.new_session()
        for bad in ("", "a b", "a/b", "../x", "a.b", "-a", "ä", "x" * 65, "a\n", "CON", "nul", 5, ["a"], True):
            with raises(InvalidRecord, field="id"):
                session.add_decision("x", id=bad)
        assert session.records() == []

    # -- the same thing again

    def test_a_preference_with_the_same_key_is_updated(self) -> None:
        session = self.new_session()
        first = session.add_preference("style", "concise", author="ada", confidence=0.5)
        second = self.reopen(session).add_preference("style", "verbose", author="bob")
        assert (second.id, second.revision, second.value, second.confidence) == (first.id, 2, "verbose", 0.5)
        assert self.reopen(session).history(first.id)[1]["changes"]["value"] == {"from": "concise", "to": "verbose"}
        assert session.add_preference("style", "verbose").revision == 2
        assert session.add_preference("other", "concise").id == "PREF-0002"
        session.delete(first.id)
        third = session.add_preference("style", "brief")
        assert (third.id, third.revision) == ("PREF-0003", 1)
        assert len(session.records("preference")) == 2

    def test_updating_agent_state_replaces_it(self) -> None:
        session = self.new_session()
        session.update_agent_state("veritas", {"task": 1, "old": True})
        second = self.reopen(session).update_agent_state("veritas", {"task": 2})
        assert (second.id, second.revision, second.state) == ("STATE-veritas", 2, {"task": 2})
        session.update_agent_state("architect", "resting")
        assert [record.id for record in session.records("agent_state")] == ["STATE-veritas", "STATE-architect"]
        session.delete("STATE-veritas")
        third = session.update_agent_state("veritas", {"task": 3})
        assert (third.id, third.revision, third.state) == ("STATE-veritas-2", 1, {"task": 3})
        assert self.reopen(session).update_agent_state("veritas", {"task": 4}).id == "STATE-veritas-2"

    def test_states_of_agents_with_similar_names_stay_apart(self) -> None:
        session = self.new_session()
        session.add_decision("not a state", id="STATE-x")
        session.update_agent_state("a", 1)
        session.update_agent_state("a-2", 2)
        session.delete("STATE-a")
        session.update_agent_state("a", 3)
        session.update_agent_state("x", 4)
        again = self.reopen(session)
        states = {record.agent: record.state for record in again.records("agent_state")}
        assert states == {"a-2": 2, "a": 3, "x": 4}
        assert again.get("STATE-x").decision == "not a state"
        assert again.get("STATE-x").revision == 1

    def test_a_repeated_idempotency_key_returns_the_first_record(self) -> None:
        session = self.new_session()
        first = session.add_decision("x", idempotency_key="k")
        assert session.add_decision("y", idempotency_key="k") == first
        again = self.reopen(session)
        assert again.add_finding("z", idempotency_key="k") == first
        with again.transaction() as tx:
            one, two = tx.add_turn("user", "a", idempotency_key="t"), tx.add_turn("user", "b", idempotency_key="t")
        assert (one.id, two.id, two.content) == ("TURN-0001", "TURN-0001", "a")
        assert len(again.records()) == 2
        for bad in ("", "x" * 257, 5):
            with raises(InvalidRecord, field="idempotency_key"):
                session.add_decision("x", idempotency_key=bad)
