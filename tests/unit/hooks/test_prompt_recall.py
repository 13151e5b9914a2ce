"""At a prompt the agent is told what answers and pointed at what may help, once, and never what the user has ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks.reader import HookRecall, Reader
from smp_memory.integrations.hooks.recall import recall_for_event
from smp_memory.integrations.hooks.session_state import SessionStates

RETRIES = "Webhook retries wait in a Postgres table with SKIP LOCKED"
OPEN_FILE = (
    "<ide_opened_file>The user opened the file {path} in the IDE. This may or may not be related.</ide_opened_file>\n"
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with some conversations, and a decision."""
    folder = tmp_path / "store"
    with smp_memory.open(folder, config={"durability": "os"}) as memory:
        for number in range(6):
            session = memory.create_session(f"claude-code-2026-01-0{number + 1}-5f0c1a7{number}")
            session.add_turn("user", f"Can you look at the flaky test in tests/test_cart_{number}.py?")
            session.add_turn(
                "assistant", f"It depends on the order of a dict. I sorted the keys, all {number + 40} tests pass."
            )
            session.add_turn("user", "ok thanks")
        session.add_decision(RETRIES, references=["src/webhooks/retry.py"], tags=["webhooks"])
        session.add_decision("The cart keeps its rows for 30 days")
        memory.query("cart")
    return folder


def asked(root: Path, prompt: str, **fields: Any) -> HookRecall:
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "h1", "cwd": str(root), "prompt": prompt, **fields}
    event = events.read(json.dumps(payload).encode(), "claude-code", {})
    assert event is not None
    return recall_for_event(Reader(str(root), {}), event, "claude-code-h1")


def note(root: Path, recall: HookRecall, **changes: Any) -> None:
    """Note what was injected, as the recording behind the answer does."""
    with SessionStates(Reader(str(root), {}).store.state, 5.0) as states:
        known = states.load("h1")
        known.injected += recall.marks
        for name, value in changes.items():
            setattr(known, name, value)
        states.save(known)


@pytest.mark.parametrize(
    "prompt", ["Where do webhook retries wait?", "what did we decide about webhook retries", "webhooks?"]
)
def test_memory_that_answers_is_told(root: Path, prompt: str) -> None:
    recall = asked(root, prompt)
    assert RETRIES in recall.text
    assert any(ref.endswith("/DEC-0001") for ref in recall.told)


@pytest.mark.parametrize(
    "prompt", ["thanks!", "yes, go ahead", "ok, weiter", "Write a regex that matches an IPv4 address.", "…"]
)
def test_nothing_is_told_at_chatter_and_unrelated_prompts(root: Path, prompt: str) -> None:
    assert asked(root, prompt).text == ""


def test_memory_of_an_open_file_is_pointed_at_with_an_id_that_can_be_read(root: Path) -> None:
    recall = asked(root, OPEN_FILE.format(path=root / "src/webhooks/retry.py") + "Please split this module.")
    (ref,) = recall.pointed
    assert ref not in recall.told
    line = next(line for line in recall.text.splitlines() if "DEC-0001" in line)
    assert line.startswith("- 5f0c1a75/DEC-0001: Webhook retries")
    assert "smp show" in recall.text


def test_memory_of_a_file_that_the_last_tool_calls_used_is_pointed_at(root: Path) -> None:
    note(root, HookRecall(), files=[str(root / "src/webhooks/retry.py")])
    assert asked(root, "Please split this module.").pointed == ["claude-code-2026-01-06-5f0c1a75/DEC-0001"]


def test_pointers_are_few_and_short(root: Path) -> None:
    with smp_memory.open(root) as memory:
        session = memory.create_session("notes")
        for number in range(20):
            session.add_decision(f"Rule {number} for retry.py: " + "wait a while and then try it again, " * 20)
        memory.query("retry")
    recall = asked(root, OPEN_FILE.format(path=root / "retry.py") + "Please split this module.")
    assert 1 < len(recall.pointed) <= 3
    heading = recall.text.index("## May help")
    assert len(recall.text[heading:].rpartition("\n")[0]) / 4 <= 60


def test_told_memory_is_told_again_only_after_a_change(root: Path) -> None:
    prompt = "Where do webhook retries wait?"
    note(root, asked(root, prompt))
    assert RETRIES not in asked(root, prompt).text
    with smp_memory.open(root) as memory:
        memory.session("claude-code-2026-01-06-5f0c1a75").update("DEC-0001", rationale="one thing less to run")
    assert RETRIES in asked(root, prompt).text


def test_pointer_does_not_keep_a_memory_from_being_told(root: Path) -> None:
    opened = OPEN_FILE.format(path="src/webhooks/retry.py")
    pointed = asked(root, f"{opened}Please split this module.")
    note(root, pointed)
    assert asked(root, f"{opened}Please split this module.").pointed == []
    assert asked(root, "Where do webhook retries wait?").told == pointed.pointed


OLD = "The session timeout is fifteen minutes because the auditors want that"


@pytest.mark.parametrize("end", ["delete", "resolve", "supersede"])
def test_turn_that_says_what_a_memory_said_is_silent_after_the_memory_was_ended(root: Path, end: str) -> None:
    with smp_memory.open(root) as memory:
        session = memory.create_session("timeouts")
        session.add_turn("user", "let's take a quarter of an hour for the session timeout, the auditors want it")
        session.add_turn("user", "ok thanks")
        old = session.add_decision(OLD) if end != "resolve" else session.add_finding(OLD)
        if end == "delete":
            session.delete(old.id, reason="no longer true")
        elif end == "resolve":
            session.resolve(old.id, "it is an hour now")
        else:
            session.add_decision(
                "The session timeout is one hour", relations=[{"kind": "supersedes", "target": old.id}]
            )
        memory.query("timeout")
    text = asked(root, "What is the session timeout that the auditors want?").text
    assert "fifteen" not in text
    assert "quarter of an hour" not in text
    assert ("one hour" in text) is (end == "supersede")


def test_older_turn_stays_silent_when_the_memory_was_told_before(root: Path) -> None:
    with smp_memory.open(root) as memory:
        session = memory.create_session("timeouts")
        session.add_turn("user", "the session timeout stays at fifteen minutes for now")
        session.add_turn("user", "ok thanks")
        session.add_turn("user", "please go on")
        session.add_decision("The session timeout is one hour for all accounts")
        memory.query("timeout")
    prompt = "What is the session timeout?"
    first = asked(root, prompt)
    assert "one hour" in first.text
    note(root, first)
    assert "fifteen" not in asked(root, prompt).text


def test_settings_decide_what_is_told_and_pointed_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = "Add a dead-letter path to our webhook retries."
    monkeypatch.setenv("SMP_RECALL_MIN_RELEVANCE", "1")
    monkeypatch.setenv("SMP_RECALL_MIN_POINTER", "0")
    with smp_memory.open(root):
        event = {"hook_event_name": "UserPromptSubmit", "session_id": "h1", "cwd": str(root), "prompt": prompt}
    read = events.read(json.dumps(event).encode(), "claude-code", {})
    assert read is not None
    environ = {"SMP_RECALL_MIN_RELEVANCE": "1", "SMP_RECALL_MIN_POINTER": "0"}
    recall = recall_for_event(Reader(str(root), environ), read, "claude-code-h1")
    assert recall.told == []
    assert recall.pointed


def test_repeated_prompt_does_not_push_out_the_decision(root: Path) -> None:
    prompt = "Write a migration for the table of our webhook retries"
    with smp_memory.open(root) as memory:
        for number in range(40):
            memory.create_session(f"again-{number}").add_turn("user", prompt)
        memory.query("webhook")
    recall = asked(root, prompt)
    assert RETRIES in recall.text
    assert prompt not in recall.text


def test_decision_about_something_else_does_not_silence_a_turn(root: Path) -> None:
    with smp_memory.open(root) as memory:
        session = memory.create_session("tracking")
        session.add_turn("user", "we decided on a max width of 720px for the tracking page")
        for _ in range(3):
            session.add_turn("user", "ok thanks")
        polling = session.add_decision("The tracking page polls every 15 seconds")
        memory.query("tracking")
    assert "720px" in asked(root, "which max width did we decide on for the tracking page?").text
    with smp_memory.open(root) as memory:
        memory.session("tracking").delete(polling.id, reason="changed")
        memory.query("tracking")
    assert "720px" in asked(root, "which max width did we decide on for the tracking page?").text
