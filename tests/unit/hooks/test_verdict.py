"""Whether an agent is told a memory at a prompt: the answer is that of the hook, with the reason and what would change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory import Memory
from smp_memory.integrations.hooks.preview import preview_hook
from smp_memory.integrations.hooks.verdict import RecallVerdict, verdict

PROMPT = "Which database are orders stored in, PostgreSQL or SQLite?"
VAGUE = "how do we do orders and such things now?"


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = smp_memory.open(tmp_path / "store", trust=True)
    session = memory.create_session("review")
    session.add_decision("Orders are stored in PostgreSQL because SQLite locked up under load")
    session.add_decision("Customers log in with OAuth")
    return memory


def ask(memory: Memory, prompt: str = PROMPT, id: str = "DEC-0001") -> RecallVerdict:
    record = memory.store.session("review").history([id]).histories[id].record("review")
    assert record is not None
    return verdict(memory, record, prompt)


def change(memory: Memory, what: str) -> None:
    session = memory.session("review")
    changes: dict[str, Any] = {
        "muted": lambda: session.mute("DEC-0001"),
        "expired": lambda: session.update("DEC-0001", valid_until="2020-01-01"),
        "hidden": lambda: session.update("DEC-0001", visibility="private"),
        "deleted": lambda: session.delete("DEC-0001"),
        "settled": lambda: session.resolve("DEC-0001", "gone", status="rejected"),
        "superseded": lambda: session.add_decision(
            "Orders are stored in MySQL instead of PostgreSQL", supersedes="DEC-0001"
        ),
    }
    changes[what]()


def test_memory_that_answers_is_told(memory: Memory) -> None:
    found = ask(memory)
    assert (found.answer, found.change) == ("yes", "")
    item = preview_hook(memory, "prompt", prompt=PROMPT).included[0]
    assert found.relevance == item.relevance


@pytest.mark.parametrize(
    ("what", "reason", "advice"),
    [
        ("muted", "Turned off for recall", "smp unmute review/DEC-0001"),
        ("expired", "Expired", "valid_until"),
        ("hidden", "Hidden", "visibility=shared"),
        ("deleted", "It is deleted", "smp restore review/DEC-0001"),
        ("settled", "Settled", "status"),
        ("superseded", "Superseded", "took its place"),
    ],
)
def test_answer_is_no_with_the_reason_and_the_way_back(memory: Memory, what: str, reason: str, advice: str) -> None:
    assert ask(memory).answer == "yes"
    change(memory, what)
    found = ask(memory)
    assert found.answer == "no"
    assert found.reason.startswith(reason)
    assert advice in found.change


def test_advice_to_lower_the_floor_is_right(memory: Memory) -> None:
    session, seen = memory.session("review"), set()
    for prompt in (VAGUE, "orders of customers in the database", "is OAuth good?", "the load of orders"):
        found = ask(memory, prompt)
        seen.add(found.answer)
        if "recall.min_relevance" in found.change:
            assert found.answer == "pointed at"
        if "smp config set recall" in found.change:
            setting, value = found.change.split()[-2:]
            with smp_memory.open(memory.root, config={"recall": {setting.rpartition(".")[2]: float(value)}}) as other:
                assert ask(other, prompt).answer == ("yes" if "min_relevance" in setting else "pointed at"), prompt
    assert len(seen) > 1
    assert session.get("DEC-0001").revision == 1


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [("yes, go on", "no content words"), ("weather of Paris", "It shares no word with the prompt"), ("", "no content")],
)
def test_unrelated_prompt_says_why(memory: Memory, prompt: str, reason: str) -> None:
    found = ask(memory, prompt)
    assert found.answer == "no"
    assert reason in found.reason
    assert found.change


def test_setting_that_is_off_is_named(memory: Memory) -> None:
    for name, value in (("recall", False), ("prompt_tokens", 0)):
        with smp_memory.open(memory.root, config={"hooks": {name: value}}) as other:
            found = ask(other)
            assert found.answer == "no"
            assert f"hooks.{name}" in found.reason
            assert f"hooks.{name}" in found.change
