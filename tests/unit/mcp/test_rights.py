"""A caller over MCP has the rights of the agent it acts for, no more: the same rule as `AgentMemory`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import smp_memory
from smp_memory.errors import InvalidRecord, MemoryNotFound, NotAllowed, SessionArchived, SMPError
from smp_memory.integrations.mcp import server
from smp_memory.integrations.mcp.graph import KnowledgeGraph
from smp_memory.integrations.mcp.request_context import Caller, RequestContext
from smp_memory.integrations.mcp.server import TOOLS
from smp_memory.model.times import to_text
from smp_memory.privacy.fence import fence, inside

SECRET = "zebrafish"


@pytest.fixture
def memory() -> Any:
    with smp_memory.open(":memory:", config={"track_access": False}) as memory:
        session = memory.create_session("shop")
        session.update_agent_state("architect", {"task": "review"})
        session.update_agent_state("tester", {"task": "test"}, visibility="shared")
        session.add_learning(f"the {SECRET}", author="architect", visibility="private", topic="plans")
        session.add_decision("Use OAuth", author="architect")
        session.add_preference("style", SECRET, author="architect", visibility="private")
        session.add_preference("tone", "plain", author="architect")
        yield memory


@pytest.fixture
def dev(memory: Any) -> Caller:
    return RequestContext(memory, author="dev", may_erase=True).caller("some client")


def call(caller: Caller, name: str, **given: Any) -> dict[str, Any]:
    return TOOLS[name].call(caller, given).data


def everything(memory: Any) -> list[dict[str, Any]]:
    return [
        {**record.to_dict(), "history": session.history(record.id)}
        for session in memory.sessions()
        for record in session.records(include_deleted=True)
    ]


FORBIDDEN: list[tuple[str, dict[str, Any]]] = [
    ("remember", {"type": "agent_state", "text": "x", "fields": {"agent": "architect"}}),
    ("remember", {"type": "agent_state", "text": "x", "fields": {"agent": "architect", "author": "dev"}}),
    ("remember", {"type": "agent_state", "fields": {"agent": "architect", "state": {}}, "author": "architect"}),
    ("remember", {"type": "agent_state", "text": "x", "fields": {"agent_id": "architect"}}),
    ("remember", {"type": "agent_state", "text": "x", "fields": {"agent": "tester"}}),
    ("remember", {"type": "decision", "text": "x", "author": "architect"}),
    ("remember", {"type": "decision", "text": "x", "fields": {"author": "architect"}}),
    ("remember", {"type": "decision", "text": "x", "fields": {"made_by": "architect"}}),
    ("update", {"action": "change", "id": "STATE-tester", "changes": {"state": "mine"}}),
    ("update", {"action": "pin", "id": "STATE-tester"}),
    ("update", {"action": "relate", "id": "STATE-tester", "target": "DEC-0001"}),
    ("update", {"action": "change", "id": "STATE-architect", "changes": {"state": "mine"}}),
    ("update", {"action": "change", "id": "LEARN-0001", "changes": {"text": "mine"}}),
    ("update", {"action": "pin", "id": "LEARN-0001"}),
    ("update", {"action": "relate", "id": "DEC-0001", "target": "LEARN-0001"}),
    ("update", {"action": "change", "id": "DEC-0001", "changes": {"author": "dev"}}),
    ("update", {"action": "change", "id": "DEC-0001", "changes": {"made_by": "dev"}}),
    ("update", {"action": "change", "id": "DEC-0001", "changes": {"visibility": "private"}}),
    ("update", {"action": "change", "id": "DEC-0001", "changes": {"note": "x", "updated_by": "architect"}}),
    ("update", {"action": "change", "id": "DEC-0001", "changes": {"note": "x", "by": "architect"}}),
    ("forget", {"ids": ["STATE-architect"]}),
    ("forget", {"ids": ["STATE-tester"]}),
    ("forget", {"ids": ["LEARN-0001"]}),
    ("forget", {"action": "erase", "ids": ["LEARN-0001"]}),
    ("forget", {"action": "erase", "ids": ["STATE-tester"]}),
    ("context", {"agent": "architect"}),
]


@pytest.mark.parametrize(("name", "given"), FORBIDDEN)
def test_a_server_for_one_agent_cannot_write_for_another(
    dev: Caller, memory: Any, name: str, given: dict[str, Any]
) -> None:
    before = everything(memory)
    with pytest.raises(SMPError) as caught:
        call(dev, name, **given)
    assert caught.value.code in ("E_NOT_ALLOWED", "E_MEMORY_NOT_FOUND", "E_INVALID_RECORD")
    assert SECRET not in caught.value.message
    assert everything(memory) == before


def test_key_of_a_hidden_preference_is_answered_as_a_new_one(dev: Caller, memory: Any) -> None:
    hidden = [
        record.to_dict() for record in memory.session("shop").records("preference") if record.visibility == "private"
    ]
    assert [record["key"] for record in hidden] == ["style"]
    taken = call(dev, "remember", type="preference", text="x", fields={"key": "style"})
    new = call(dev, "remember", type="preference", text="x", fields={"key": "other"})
    without_ids = [str(answer).replace(answer["id"], "ID").replace("other", "style") for answer in (taken, new)]
    assert without_ids[0] == without_ids[1]
    assert [
        each.to_dict() for each in memory.session("shop").records("preference") if each.visibility == "private"
    ] == hidden


def test_a_server_for_one_agent_writes_what_the_agent_may_write(dev: Caller, memory: Any) -> None:
    state = call(dev, "remember", type="agent_state", text="busy")["id"]
    assert memory.get(state).agent == memory.get(state).author == "dev"
    assert call(dev, "remember", type="decision", text="Ours", author="dev")["done"] == "added"
    turn = call(dev, "remember", type="conversation", text="Hi", fields={"role": "user"}, author="ada")["id"]
    assert memory.get(turn).author == "ada"
    call(dev, "update", action="change", id="DEC-0001", changes={"note": "seen"})
    assert memory.get("shop/DEC-0001").updated_by == "dev"
    call(dev, "forget", ids=["DEC-0001"], reason="old")
    assert memory.deleted()[0].by == "dev"
    call(dev, "forget", action="restore", ids=["shop/DEC-0001"])
    call(dev, "remember", type="preference", text="warm", fields={"key": "tone"})
    assert memory.get("shop/PREF-0002").value == "warm"


def test_criteria_skip_memories_that_the_caller_may_not_delete(dev: Caller, memory: Any) -> None:
    assert call(dev, "forget", types=["agent_state", "learning", "decision"], preview=True)["ids"] == ["shop/DEC-0001"]
    assert call(dev, "forget", types=["agent_state", "learning", "decision"])["ids"] == ["shop/DEC-0001"]


def test_server_without_a_fixed_author_acts_as_the_named_author(memory: Any) -> None:
    client = RequestContext(memory).caller("some-client")
    assert memory.get(call(client, "remember", type="finding", text="x", author="veritas")["id"]).author == "veritas"
    state = call(client, "remember", type="agent_state", text="busy", fields={"agent": "veritas"}, author="veritas")
    assert memory.get(state["id"]).agent == "veritas"
    with pytest.raises(NotAllowed, match="veritas"):
        call(client, "remember", type="agent_state", text="other", fields={"agent": "veritas"})
    with pytest.raises(NotAllowed):
        call(client, "remember", type="agent_state", text="other", fields={"agent": "architect"}, author="veritas")


def test_a_client_without_a_name_writes_without_an_author(memory: Any) -> None:
    nobody = RequestContext(memory).caller(None)
    assert memory.get(call(nobody, "remember", type="finding", text="x")["id"]).author is None
    with pytest.raises(SMPError, match="agent"):
        call(nobody, "remember", type="agent_state", text="x", fields={"agent": "architect"})
    with pytest.raises(MemoryNotFound):
        call(nobody, "get", ids=["LEARN-0001"])


# -- counts


def test_counts_include_only_visible_memories(memory: Any) -> None:
    """Writing, changing or deleting a hidden memory changes no figure that another agent is told."""
    session, dev = memory.session("shop"), RequestContext(memory, author="dev").caller(None)

    def told() -> list[Any]:
        shown = call(dev, "sessions", action="show", id="shop")["sessions"][0]
        shown.pop("written")
        return [
            shown,
            *(call(dev, "overview", what=what, session="shop")["text"] for what in ("summary", "topics", "timeline", "agents", "stats")),
            call(dev, "overview", what="stats", session="*")["text"],
            call(dev, "forget", action="list", session="shop"),
            *(
                ([{**item, "relevance": None} for item in found["items"]], found.get("next_offset"))
                for given in ({}, {"sort": "oldest"}, {"query": "for all"}, {"types": ["learning"]}, {"topic": "plans"})
                for limit in (1, 2, 4, 10)
                for found in [call(dev, "recall", session="shop", limit=limit, **given)]
            ),
            call(dev, "forget", types=["learning"], session="shop", preview=True),
            inside(server.read_uri(dev, "memory://session/shop")),
        ]  # fmt: skip

    call(dev, "remember", type="learning", text="for all", session="shop")
    before = told()
    assert before[0]["memories"] == 4
    assert before[0]["by_type"] == {"agent_state": 1, "decision": 1, "preference": 1, "learning": 1}
    assert "4 memories" in before[5]
    for number in range(30):
        session.add_learning(f"{SECRET} {number}", author="architect", visibility="private", tags=["plans"])
    session.delete("LEARN-0001", SECRET)
    session.update_agent_state("architect", {"task": SECRET * 99})
    assert told() == before


# -- the knowledge graph


def test_graph_shows_and_changes_only_memories_visible_to_its_author(memory: Any) -> None:
    session = memory.create_session("graph")
    KnowledgeGraph(memory, "graph", "dev").create_entities(
        [{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}]
    )
    hidden = {"graph": "entity", "entity": SECRET, "entity_type": "plan"}
    session.add_learning(f"{SECRET} is a plan", author="architect", visibility="private", **hidden)
    node = next(record for record in session.records("learning") if record.given.get("entity") == "Ada").id
    seen = {"graph": "observation", "entity": "Ada", "entity_id": node, "observation": f"knows {SECRET}"}
    session.add_learning(f"Ada: knows {SECRET}", author="architect", visibility="private", **seen)
    graph = KnowledgeGraph(memory, "graph", "dev")
    for found in (graph.read(), graph.search(SECRET), graph.open([SECRET, "Ada"])):
        assert SECRET not in str(found)
    before = len(session.records())
    graph.delete_entities([SECRET])
    graph.delete_observations([{"entityName": "Ada", "observations": [f"knows {SECRET}"]}])
    assert len(session.records()) == before
    assert SECRET in str(KnowledgeGraph(memory, "graph", "architect").read())


def test_hidden_memory_in_the_trash_is_not_found(memory: Any, dev: Caller) -> None:
    """The answer said that it is deleted and can be restored."""
    session = memory.session("shop")
    session.delete("LEARN-0001")
    for name, given in (
        ("get", {}),
        ("update", {"action": "change", "changes": {"topic": "x"}}),
        ("update", {"action": "pin"}),
        ("update", {"action": "relate", "target": "DEC-0001"}),
    ):
        errors = []
        for id in ("LEARN-0001", "LEARN-9999"):
            which = {"ids": [id]} if name == "get" else {"id": id}
            with pytest.raises(MemoryNotFound) as missing:
                call(dev, name, **which, **given)
            errors.append(missing.value.message.replace(id, "ID"))
        assert errors[0] == errors[1]
    with pytest.raises(MemoryNotFound, match="does not exist"):
        server.read_uri(dev, "memory://memory/shop/LEARN-0001")
    session.delete("DEC-0001")
    with pytest.raises(MemoryNotFound, match="is deleted in session shop; restore it first"):
        call(dev, "get", ids=["DEC-0001"])


READS_OF_A_SESSION: dict[str, dict[str, Any]] = {
    "get": {"ids": ["old/DEC-0001"], "history": True},
    "recall": {"query": "pond", "session": "old"},
    "context": {"task": "pond", "session": "old"},
    "overview": {"session": "old"},
    "sessions": {"action": "show", "id": "old"},
    "forget": {"action": "list", "session": "old"},
}


@pytest.mark.parametrize("tool", READS_OF_A_SESSION)
def test_read_of_an_archived_session_does_not_restore_it(memory: Any, dev: Caller, tool: str) -> None:
    memory.create_session("old").add_decision("The pond gets a roof", author="dev")
    memory.archive_session("old")
    with pytest.raises(SessionArchived, match="smp session restore old"):
        call(dev, tool, **READS_OF_A_SESSION[tool])
    with pytest.raises(SessionArchived):
        server.read_uri(dev, "memory://session/old")
    with pytest.raises(SessionArchived):
        server.read_uri(dev, "memory://memory/old/DEC-0001")
    with pytest.raises(SessionArchived):
        call(dev, "forget", action="delete", ids=["old/DEC-0001"], preview=True)
    assert [away.session for away in memory.archived_sessions()] == ["old"]
    call(dev, "remember", type="decision", text="The pond gets no roof", session="old")  # a write restores it
    assert memory.archived_sessions() == []


def test_agent_that_names_a_memory_of_an_archived_session_does_not_restore_it(memory: Any) -> None:
    memory.create_session("old").add_decision("The pond gets a roof", author="dev")
    memory.archive_session("old")
    memory.session("shop").agent("dev").find_similar("old/DEC-0001")
    assert [away.session for away in memory.archived_sessions()] == ["old"]


@pytest.mark.parametrize("name", ["created", "timestamp"])
def test_time_of_creation_in_the_future_is_refused(memory: Any, dev: Caller, name: str) -> None:
    """A memory of the year 9999 stood first in every list."""
    before = everything(memory)
    for later in ("9999-12-31T00:00:00Z", to_text(memory.now() + timedelta(days=1, minutes=5))):
        with pytest.raises(InvalidRecord, match="created") as refused:
            call(dev, "remember", type="decision", text="x", fields={name: later})
        assert refused.value.details["field"] == "created"
    assert everything(memory) == before
    near = to_text(memory.now() + timedelta(hours=20))
    call(dev, "remember", type="decision", text="Another time zone", fields={name: near})
    call(dev, "remember", type="decision", text="Of old", fields={name: "2020-01-01"})


def test_fenced_text_is_not_stored_as_a_reason_or_a_project(memory: Any, dev: Caller) -> None:
    call(dev, "forget", action="delete", ids=["DEC-0001"], reason=f"asked to {fence('walrus')}")
    call(dev, "sessions", action="create", id="other", project=f"shop {fence('walrus')}")
    assert memory.session("shop").history("DEC-0001")[-1]["reason"] == "asked to"
    assert memory.session("other").info.project.strip() == "shop"
