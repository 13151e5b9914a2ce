"""Revisions that were written while a memory was hidden from a viewer are never handed out, whatever way is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.agents.agent_memory import AgentMemory
from smp_memory.privacy.visibility import Viewer
from smp_memory.testing import FrozenClock

FORMATS = ("json", "jsonl", "yaml", "markdown")


class Case:
    """A learning of `owner` with a text of its own for every revision, and the times after each of them."""

    def __init__(self, visible: list[bool], *, delete: bool = False) -> None:
        self.clock = FrozenClock()
        self.memory = smp_memory.open(":memory:", clock=self.clock, config={"track_access": False})
        self.session = self.memory.create_session("s1", user="ada")
        self.words = {number: f"word{number}x" for number in range(1, len(visible) + 1)}
        self.hidden = {self.words[number] for number, shown in enumerate(visible, 1) if not shown}
        self.times: list[Any] = []
        for number, shown in enumerate(visible, 1):
            fields = {"visibility": None if shown else "private", "extra": {"deep": [self.words[number]]}}
            if number == 1:
                fields = {name: value for name, value in fields.items() if value is not None}
                self.id = self.session.add_learning(self.words[1], author="owner", **fields).id
            else:
                self.session.update(self.id, by="owner", learning=self.words[number], **fields)
            self.times.append(self.memory.now())
            self.clock.advance(60)
        if delete:
            self.session.delete(self.id, "no longer true", by="owner")
        self.owner, self.other = self.session.agent("owner"), self.session.agent("other")


def _mcp_history(agent: AgentMemory, case: Case) -> Any:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    caller = RequestContext(case.memory, author=agent.agent).caller(None)
    reply = TOOLS["get"].call(caller, {"ids": [f"s1/{case.id}"], "history": True, "related": True})
    return [reply.text, reply.data]


def _mcp_resources(agent: AgentMemory, case: Case) -> Any:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp import server
    from smp_memory.integrations.mcp.request_context import RequestContext

    caller = RequestContext(case.memory, author=agent.agent).caller(None)
    return [server.read_uri(caller, uri) for uri in ("memory://session/s1", f"memory://memory/s1/{case.id}")]


PATHS: dict[str, Callable[[AgentMemory, Case], Any]] = {
    "history": lambda agent, case: agent.history(case.id),
    "as_of": lambda agent, case: [
        [record.to_dict() for record in agent.as_of(time).records(include_deleted=True)] for time in case.times
    ],
    "export": lambda agent, case: [agent.export(format=format) for format in FORMATS],
    "query": lambda agent, case: [
        [hit.record.to_dict() for hit in agent.query(" ".join(case.words.values()), at=time, include_archived=True)]
        for time in case.times
    ],
    "timeline": lambda agent, case: agent.timeline().to_dict(),
    "summarize": lambda agent, case: str(agent.summarize()),
    "deleted": lambda agent, case: [(each.record.to_dict(), each.reason) for each in agent.deleted()],
    "context": lambda agent, case: agent.context(" ".join(case.words.values())).text,
    "get over MCP": _mcp_history,
    "resources of MCP": _mcp_resources,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "visible",
    [
        [False, True],
        [False, False, True, True],
        [True, False, True],
        [True, False, False, True, False, True],
    ],
    ids=lambda shown: "".join("s" if each else "p" for each in shown),
)
def test_content_of_hidden_revisions_is_not_returned(path: str, visible: list[bool]) -> None:
    case = Case(visible)
    found = str(PATHS[path](case.other, case))
    assert [word for word in case.hidden if word in found] == []
    if path in ("history", "export", "as_of", "get over MCP"):
        seen = set(case.words.values()) - case.hidden
        assert all(word in found for word in seen)
        assert all(word in str(PATHS[path](case.owner, case)) for word in case.words.values())


def test_history_names_the_revisions_it_leaves_out() -> None:
    case = Case([False, True, False, True])
    steps = case.other.history(case.id)
    assert [(step["revision"], step["op"], step.get("left_out")) for step in steps] == [
        (1, "put", "revision 1 was private"),
        (2, "change", None),
        (3, "change", "revision 3 was private"),
        (4, "change", None),
    ]
    assert set(steps[0]) == set(steps[2]) == {"revision", "op", "left_out"}
    assert "from" not in steps[1]["changes"]["learning"]
    assert "from" not in steps[3]["changes"]["learning"]
    assert steps[3]["changes"]["learning"]["to"] == case.words[4]
    assert case.owner.history(case.id) == case.session.history(case.id)


def test_reasons_of_deletions_while_private_are_left_out() -> None:
    case = Case([False])
    case.session.delete(case.id, "zebrafish", by="owner")
    case.session.restore(case.id, "zebrafish", by="owner")
    case.session.update(case.id, visibility=None, by="owner")
    case.session.delete(case.id, "giraffe", by="owner")
    for found in (case.other.history(case.id), [case.other.export(format=format) for format in FORMATS]):
        assert "zebrafish" not in str(found)
        assert "giraffe" in str(found)
    assert case.other.find(case.id).deleted  # type: ignore[union-attr]


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_with_revisions_left_out_says_so_and_can_be_imported(format: str) -> None:
    case = Case([False, True, False, True, True])
    text = case.other.export(format=format)
    assert "revision 1 was private" in text
    assert "revision 3 was private" in text
    (taken,) = case.memory.import_(text, session="again")
    record = taken.get(case.id)
    assert record.learning == case.words[5]
    assert record.given["left_out"] == ["revision 1 was private", "revision 3 was private"]
    assert record.created == case.session.get(case.id).created
    assert [step["revision"] for step in taken.history(case.id)] == [1, 2, 3]
    assert taken.validate().problems == []


def test_an_agent_state_shared_later_keeps_its_earlier_states() -> None:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    session = memory.create_session("s1")
    session.update_agent_state("owner", {"task": "zebrafish"})
    session.update_agent_state("owner", {"task": "giraffe"}, visibility="shared")
    other = session.agent("other")
    assert "giraffe" in str(other.history("STATE-owner"))
    assert "zebrafish" not in str(other.history("STATE-owner")) + other.export(format="json")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=8), st.booleans())
def test_no_sequence_of_visibility_changes_leaks(visible: list[bool], delete: bool) -> None:
    case = Case(visible, delete=delete)
    if not Viewer("other").sees(case.session.find(case.id)):  # type: ignore[arg-type]
        assert case.words[1] not in case.other.export(format="json")
        return
    history, export = str(case.other.history(case.id)), case.other.export(format="jsonl")
    for word in case.words.values():
        assert (word in history) == (word not in case.hidden)
        assert (word in export) == (word not in case.hidden)
    entries = [json.loads(line) for line in export.splitlines()][1:]
    assert [entry["seq"] for entry in entries] == sorted({entry["seq"] for entry in entries})
    (taken,) = case.memory.import_(export, session="again")
    again, now = taken.find(case.id).to_dict(), case.session.find(case.id).to_dict()  # type: ignore[union-attr]
    for name in ("session", "revision", "left_out", "updated", "updated_by"):
        again.pop(name, None), now.pop(name, None)
    assert again == now
