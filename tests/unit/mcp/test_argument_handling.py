"""MCP tools do what their arguments say: keys of preferences, fields at top level, duplicates, small budgets, one search."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import jsonschema

import smp_memory
from smp_memory.errors import InvalidRecord, UserError
from smp_memory.integrations.mcp.arguments import schema_of
from smp_memory.integrations.mcp.request_context import Caller, RequestContext
from smp_memory.integrations.mcp.server import TOOLS, tools_for
from smp_memory.model.types import KINDS
from smp_memory.testing.clocks import FrozenClock


def call(caller: Caller, name: str, /, **given: Any) -> dict[str, Any]:
    tool = TOOLS[name]
    answer = tool.call(caller, given)
    jsonschema.validate(json.loads(json.dumps(answer.data)), schema_of(tool.answer_model))
    return answer.data


# -- key and idempotency_key


def test_key_of_a_preference_is_its_key_and_a_new_value_replaces_the_old_one(caller: Caller) -> None:
    first = call(caller, "remember", type="preference", key="language", text="German")
    second = call(caller, "remember", type="preference", key="language", text="English")
    assert (second["id"], second["done"], second["revision"]) == (first["id"], "updated", 2)
    stored = caller.memory.get(first["id"])
    assert (stored.key, stored.value) == ("language", "English")


def test_key_with_another_type_is_refused_and_the_error_names_idempotency_key(caller: Caller) -> None:
    with pytest.raises(InvalidRecord, match=r"key: .*idempotency_key"):
        call(caller, "remember", type="finding", text="Once", key="k")
    assert caller.memory.query() == []


def test_repeated_idempotency_key_stores_one_memory_and_says_so(caller: Caller) -> None:
    first = call(caller, "remember", type="finding", text="Once", idempotency_key="k")
    again = call(caller, "remember", type="finding", text="In other words", idempotency_key="k")
    assert again == {**first, "done": "known already", "warnings": again["warnings"]}


# -- what the model is told


def test_every_type_is_defined_in_the_schema() -> None:
    told = schema_of(TOOLS["remember"].arguments_model)["properties"]["type"]
    assert set(told["enum"]) == set(KINDS)
    for name in KINDS:
        assert f"{name}: " in told["description"]


def test_erase_is_offered_only_by_a_server_that_may_erase(memory: Any) -> None:
    without = tools_for(False)["forget"]
    allowed = tools_for(True)["forget"]
    assert "erase" not in json.dumps(without.definition("forget").model_dump(exclude_none=True, by_alias=True))
    assert "erase" in allowed.definition("forget").input_schema["properties"]["action"]["enum"]
    stored = call(RequestContext(memory).caller("tester"), "remember", type="finding", text="Out")
    with pytest.raises(UserError, match="--allow-erase"):
        without.call(RequestContext(memory).caller("tester"), {"action": "erase", "ids": [stored["id"]]})
    done = allowed.call(
        RequestContext(memory, may_erase=True).caller("tester"), {"action": "erase", "ids": [stored["id"]]}
    )
    assert done.data["done"].startswith("erased")


# -- fields at top level


@pytest.mark.parametrize(
    ("type", "given"),
    [
        ("decision", {"rationale": "It is fast", "status": "proposed"}),
        ("finding", {"severity": "critical", "recommendation": "Add MFA", "category": "security"}),
        ("artifact", {"name": "plan.md"}),
        ("conversation", {"role": "user"}),
        ("learning", {"confidence": 0.5, "visibility": "private"}),
    ],
)
def test_fields_of_a_type_are_accepted_at_top_level(caller: Caller, type: str, given: dict[str, Any]) -> None:
    stored = caller.memory.get(call(caller, "remember", type=type, text="Something", **given)["id"])
    assert {name: stored[name] for name in given} == given


def test_unknown_field_is_refused_at_top_level_and_accepted_in_fields(caller: Caller) -> None:
    with pytest.raises(InvalidRecord, match="severty: there is no such argument"):
        call(caller, "remember", type="finding", text="x", severty="high")
    stored = call(caller, "remember", type="finding", text="x", fields={"ticket": "A-1"})
    assert caller.memory.get(stored["id"])["ticket"] == "A-1"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"severity": "low", "fields": {"severity": "high"}}, "severity"),
        ({"tags": ["a"], "fields": {"tags": ["b"]}}, "tags"),
        ({"fields": {"finding": "Another text"}}, "text"),
        ({"author": "ada", "fields": {"author": "bob"}}, "author"),
    ],
)
def test_two_values_for_one_field_are_refused(caller: Caller, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord, match=f"{field}: .*twice"):
        call(caller, "remember", type="finding", text="A text", **given)
    assert caller.memory.query() == []


@pytest.mark.parametrize("tags", ["auth, db", ["auth", "db"], '["auth", "db"]', "auth,db"])
def test_tags_are_accepted_as_text_and_as_list(caller: Caller, tags: Any) -> None:
    stored = call(caller, "remember", type="finding", text="x", tags=tags)
    assert caller.memory.get(stored["id"]).tags == ["auth", "db"]
    assert call(caller, "recall", tags=tags)["items"]


# -- duplicates


@pytest.mark.parametrize("type", ["decision", "finding", "learning", "preference", "artifact", "summary"])
def test_exact_duplicate_of_a_recent_memory_is_stored_once(caller: Caller, type: str) -> None:
    given = {"type": type, "text": "Sessions last 8 hours", "tags": ["auth"]}
    first = call(caller, "remember", **given)
    assert call(caller, "remember", **given) == {**first, "done": "known already"}
    assert len(caller.memory.session(first["session"]).records()) == 1


@pytest.mark.parametrize(
    "more", [{"tags": ["b"]}, {"topic": "auth"}, {"author": "ada"}, {"created": "2026-01-01"}, {"importance": 0.9}]
)
def test_memory_that_differs_in_one_field_is_stored(caller: Caller, more: dict[str, Any]) -> None:
    call(caller, "remember", type="finding", text="No rate limit")
    assert call(caller, "remember", type="finding", text="No rate limit", **more)["done"] == "added"


def test_repeated_turn_of_a_conversation_is_stored(caller: Caller) -> None:
    for _ in range(2):
        assert call(caller, "remember", type="conversation", text="Yes", role="user")["done"] == "added"


def test_finding_that_was_resolved_or_deleted_is_stored_again(caller: Caller) -> None:
    first = call(caller, "remember", type="finding", text="Disk is full")
    call(caller, "update", action="resolve", id=first["id"])
    second = call(caller, "remember", type="finding", text="Disk is full")
    assert second["done"] == "added"
    call(caller, "forget", ids=[second["id"]])
    assert call(caller, "remember", type="finding", text="Disk is full")["done"] == "added"


def test_duplicate_of_an_older_memory_is_stored() -> None:
    clock = FrozenClock()
    with smp_memory.open(":memory:", clock=clock) as memory:
        caller = RequestContext(memory).caller("tester")
        call(caller, "remember", type="finding", text="The build is red")
        clock.advance(59 * 60)
        assert call(caller, "remember", type="finding", text="The build is red")["done"] == "known already"
        clock.advance(2 * 60)
        assert call(caller, "remember", type="finding", text="The build is red")["done"] == "added"


def test_duplicate_with_a_secret_is_recognised_after_redaction(caller: Caller) -> None:
    given = {"type": "finding", "text": "Mail ada@example.com"}
    first = call(caller, "remember", **given)
    assert first.pop("redacted") == {"email": 1}  # the second call removes nothing from anything: it writes nothing
    assert call(caller, "remember", **given) == {**first, "done": "known already"}


def test_concurrent_identical_calls_store_one_memory(tmp_path: Any) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("shop")
        caller = RequestContext(memory, session="shop").caller("tester")
        ready = threading.Barrier(8)

        def remember() -> None:
            ready.wait()
            TOOLS["remember"].call(caller, {"type": "decision", "text": "Use OAuth"})

        threads = [threading.Thread(target=remember) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(memory.session("shop").records()) == 1


# -- small budgets


@pytest.mark.parametrize("words", [6, 40, 400])
def test_smallest_budget_returns_at_least_one_item(caller: Caller, words: int) -> None:
    said = "Use the database " + " ".join(f"word{number}" for number in range(words))
    for number in range(3):
        call(caller, "remember", type="decision", text=f"{said} {number}", rationale=said, topic="database")
    asked = (
        ("recall", {"query": "database"}),
        ("get", {"ids": ["DEC-0001"]}),
        ("context", {"task": "choose a database"}),
        ("overview", {"what": "summary"}),
        ("overview", {"what": "timeline"}),
    )
    for name, given in asked:
        fewest = schema_of(TOOLS[name].arguments_model)["properties"]["max_tokens"]["minimum"]
        text = TOOLS[name].call(caller, {**given, "max_tokens": fewest}).text
        assert "Use the database word0" in text, (name, given, text)


# -- one search


@pytest.mark.parametrize("query", ["login", None])
def test_recall_searches_once(caller: Caller, query: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    call(caller, "remember", type="finding", text="The login is slow")
    indexer = caller.memory.store.indexer
    searches: list[Any] = []
    candidates = indexer.candidates
    monkeypatch.setattr(indexer, "candidates", lambda request: searches.append(request) or candidates(request))
    assert len(call(caller, "recall", query=query)["items"]) == 1
    assert len(searches) == 1


# -- arguments that would be ignored


@pytest.mark.parametrize(
    ("tool", "given", "field"),
    [
        ("update", {"action": "resolve", "expected_revision": 1}, "expected_revision"),
        ("update", {"action": "resolve", "target": "DEC-0001"}, "target"),
        ("update", {"action": "pin", "changes": {"severity": "low"}}, "changes"),
        ("update", {"action": "change", "changes": {"severity": "low"}, "resolution": "Done"}, "resolution"),
        ("update", {"action": "change", "changes": {"severity": "low"}, "status": "rejected"}, "status"),
        ("forget", {"action": "delete", "query": "open", "limit": 1}, "limit"),
        ("forget", {"action": "delete", "ids": ["FIND-0001"], "query": "open"}, "ids"),
        ("forget", {"action": "list", "ids": ["FIND-0001"]}, "ids"),
        ("forget", {"action": "list", "query": "open"}, "query"),
        ("sessions", {"action": "list", "id": "s1"}, "id"),
        ("sessions", {"action": "list", "project": "shop"}, "project"),
        ("sessions", {"action": "show", "id": "s1", "user": "ada"}, "user"),
        ("overview", {"what": "stats", "time": "last week"}, "time"),
        ("overview", {"what": "topics", "time": "last week"}, "time"),
    ],
)
def test_argument_that_the_action_does_not_use_is_refused(
    caller: Caller, tool: str, given: dict[str, Any], field: str
) -> None:
    finding = caller.memory.create_session("s1").add_finding("The door is open", severity="high")
    call_id = {"id": "FIND-0001"} if tool == "update" else {}
    with pytest.raises(InvalidRecord) as refused:
        call(caller, tool, **call_id, **given)
    assert refused.value.details["field"] == field
    assert caller.memory.get(finding.ref).revision == 1


def test_explicit_default_values_are_accepted_for_any_action(caller: Caller) -> None:
    caller.memory.create_session("s1").add_finding("The door is open")
    given = {"changes": {}, "expected_revision": None, "resolution": "Shut", "status": "resolved", "target": None}
    assert call(caller, "update", action="resolve", id="FIND-0001", kind="relates_to", **given)["done"] == "resolved"


@pytest.mark.parametrize("name", ["session", "session_id", "revision", "checksum", "schema", "updated", "updated_by"])
def test_field_that_smp_sets_is_refused_and_not_dropped(caller: Caller, name: str) -> None:
    with pytest.raises(InvalidRecord, match=f"fields: {name} is set by SMP"):
        call(caller, "remember", type="finding", text="The door is open", fields={name: "x"})
    assert caller.memory.query() == []
    session = caller.memory.create_session("s1")
    session.add_finding("The door is open")
    if name == "updated_by":  # says who changes it
        return
    with pytest.raises(InvalidRecord, match=f"{name}: is set by SMP"):
        session.update("FIND-0001", **{name: "x"})


def test_another_text_inside_fields_is_refused(caller: Caller) -> None:
    with pytest.raises(InvalidRecord, match="text: given twice"):
        call(caller, "remember", type="finding", text="One", fields={"text": "Two"})


def test_agents_of_a_new_session_are_accepted_as_text(caller: Caller) -> None:
    call(caller, "sessions", action="create", id="s1", agents="architect, veritas")
    assert caller.memory.session("s1").info.agents == ["architect", "veritas"]


def test_repeated_idempotency_key_with_another_text_says_that_it_was_not_stored(caller: Caller) -> None:
    first = call(caller, "remember", type="finding", text="The door is open", idempotency_key="k")
    again = call(caller, "remember", type="finding", text="The door is open", idempotency_key="k")
    assert (again["done"], again.get("warnings")) == ("known already", None)
    call(caller, "update", action="change", id=first["id"], changes={"text": "The door was open"})
    again = call(caller, "remember", type="finding", text="The door is open", idempotency_key="k")
    assert again.get("warnings") is None
    for other in ({"type": "finding", "text": "The window is open"}, {"type": "decision", "text": "The door is open"}):
        answer = call(caller, "remember", **other, idempotency_key="k")
        assert (answer["id"], answer["done"]) == (first["id"], "known already")
        assert "was not stored" in answer["warnings"][0]
    assert len(caller.memory.query()) == 1


def test_remember_stores_what_holds_in_all_sessions_under_global(memory: Any, caller: Caller) -> None:
    """The first such memory was refused: there was no session `global` yet."""
    stored = call(caller, "remember", type="preference", text="Answer in German", session="global")
    assert stored["id"] == "global/PREF-0001"
    assert [each.text for each in memory.global_memory.preferences()] == ["Answer in German"]


@pytest.mark.parametrize("name", ["opaque", "embedding"])
def test_remember_refuses_fields_that_are_not_redacted(memory: Any, caller: Caller, name: str) -> None:
    with pytest.raises(InvalidRecord, match="not redacted"):
        call(caller, "remember", type="finding", text="x", fields={name: "password=hunter2-Xy7q"})
    stored = call(caller, "remember", type="finding", text="x")
    with pytest.raises(InvalidRecord, match="not redacted"):
        call(caller, "update", action="change", id=stored["id"], changes={name: "password=hunter2-Xy7q"})
