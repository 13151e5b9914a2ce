"""The tools say what no longer holds, what was left out, and which words were corrected."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import jsonschema

from smp_memory.integrations.mcp.arguments import schema_of
from smp_memory.integrations.mcp.request_context import Caller
from smp_memory.integrations.mcp.server import TOOLS


def recall(caller: Caller, **given: Any) -> tuple[dict[str, Any], str]:
    tool = TOOLS["recall"]
    answer = tool.call(caller, given)
    jsonschema.validate(json.loads(json.dumps(answer.data)), schema_of(tool.answer_model))
    return answer.data, answer.text


def test_recall_names_successors_and_counts_what_does_not_hold(memory: Any, caller: Caller) -> None:
    session = memory.create_session("s")
    session.add_decision("MySQL stores the orders", created="2026-01-01T00:00:00Z")
    session.add_decision("We go with Postgres", supersedes="DEC-0001", valid_until="2999-01-01")
    session.add_decision("MySQL in June", valid_until="2020-01-01")
    data, text = recall(caller, query="MySQL")
    assert [item["id"] for item in data["items"]] == ["s/DEC-0002", "s/DEC-0001"]
    assert data["items"][1]["superseded_by"] == "s/DEC-0002"
    assert data["not_valid"] == 1
    assert "superseded by s/DEC-0002" in text
    assert "valid until 2999-01-01" in text
    assert "1 not valid now" in text
    data, _ = recall(caller, query="MySQL", include_expired=True)
    assert len(data["items"]) == 3


def test_recall_says_which_words_it_corrected(memory: Any, caller: Caller) -> None:
    memory.create_session("s").add_decision("Use Postgres")
    data, text = recall(caller, query="Postgers")
    assert data["corrected"] == {"Postgers": "postgres"}
    assert "Postgers as postgres" in text


def test_remember_takes_the_time_in_which_a_memory_holds(memory: Any, caller: Caller) -> None:
    memory.create_session("s")
    TOOLS["remember"].call(
        caller, {"type": "decision", "text": "Gate 3", "valid_until": "2999-03-01", "aliases": ["G3"]}
    )
    answer = TOOLS["get"].call(caller, {"ids": ["s/DEC-0001"]})
    assert "valid_until: 2999-03-01" in answer.text
    assert "Gate 3" in TOOLS["context"].call(caller, {"task": "gate"}).text
    assert "valid until 2999-03-01" in TOOLS["context"].call(caller, {"task": "gate"}).text


def test_forget_names_turns_that_say_the_same_and_takes_them_along(memory: Any, caller: Caller) -> None:
    session = memory.create_session("s")
    session.add_turn("user", "The HTTP timeout of the payment client is 30 seconds.")
    session.add_decision("The HTTP timeout of the payment client is 30 seconds.")
    data, text = recall(caller, query="payment client timeout", types=["conversation"])
    assert data["items"][0]["repeats"] == "s/DEC-0001"
    assert "repeats s/DEC-0001" in text
    forget = TOOLS["forget"]
    answer = forget.call(caller, {"ids": ["s/DEC-0001"], "preview": True})
    assert (answer.data["ids"], answer.data["echoes"]) == (["s/DEC-0001"], ["s/TURN-0001"])
    answer = forget.call(caller, {"ids": ["s/DEC-0001"], "echoes": True})
    jsonschema.validate(json.loads(json.dumps(answer.data)), schema_of(forget.answer_model))
    assert answer.data["ids"] == ["s/DEC-0001", "s/TURN-0001"]
    assert [each.id for each in session.deleted()] == ["TURN-0001", "DEC-0001"]
    forget.call(caller, {"action": "restore", "ids": ["s/DEC-0001"], "echoes": True})
    assert session.deleted() == []
