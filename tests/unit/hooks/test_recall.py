"""Hooks recall a short, mixed digest at the start of a session, what matches the task for an agent, and nothing of other projects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.context.digest import digest_text
from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks.prompt_recall import query_words
from smp_memory.integrations.hooks.reader import HookRecall, Reader
from smp_memory.integrations.hooks.recall import recall_for_event
from smp_memory.integrations.hooks.session_state import SessionStates


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))


def told(root: Path, name: str, cwd: Path | None = None, **fields: Any) -> HookRecall:
    payload = {"hook_event_name": name, "session_id": "h1", "cwd": str(cwd or root), **fields}
    event = events.read(json.dumps(payload).encode(), "claude-code", {})
    assert event is not None
    return recall_for_event(Reader(str(root), {}), event, "claude-code-h1")


def filled(root: Path) -> None:
    with smp_memory.open(root, config={"durability": "os"}) as memory:
        session = memory.create_session("before")
        session.add_turn("user", "Please never push on Fridays!")
        session.add_turn("user", "We stopped at the invoices.")
        items: list[tuple[str, dict[str, Any]]] = []
        for number in range(60):
            items += [
                ("finding", {"finding": f"The lift of house {number} is out of order", "severity": "critical"}),
                ("learning", {"learning": f"House {number} was built by somebody else"}),
                ("decision", {"decision": f"House {number} gets another lift"}),
            ]
        session.add_many(items)
        session.add_decision("Invoices are printed on recycled paper")
        memory.query("invoices")


def test_start_of_a_session_recalls_a_bit_of_everything(tmp_path: Path) -> None:
    filled(tmp_path)
    for name, fields in (("SessionStart", {"source": "startup"}), ("SubagentStart", {"agent_type": "dev"})):
        text = told(tmp_path, name, **fields).text
        for words in ("never push on Fridays!", "is out of order", "gets another lift", "built by somebody else"):
            assert words in text, (name, words)
        counts = [text.count(words) for words in ("is out of order", "gets another lift", "built by somebody else")]
        assert min(counts) > 2
        assert max(counts) < 2 * min(counts)
        assert text.count("before/") <= 1  # the session is named once
    assert "We stopped at the invoices." in told(tmp_path, "SessionStart", source="startup").text


@pytest.mark.parametrize("field", ["prompt", "description", "task"])
def test_agent_gets_what_matches_its_task(tmp_path: Path, field: str) -> None:
    filled(tmp_path)
    text = told(tmp_path, "SubagentStart", agent_type="dev", **{field: "Which paper are the invoices printed on?"}).text
    assert "recycled paper" in text
    assert "never push on Fridays!" in text
    assert text.count("is out of order") <= 2


def test_resumed_session_is_not_told_again_what_it_was_told(tmp_path: Path) -> None:
    filled(tmp_path)
    first = told(tmp_path, "SessionStart", source="startup")
    with SessionStates(Reader(str(tmp_path), {}).store.state, 5.0) as states:
        known = states.load("h1")
        known.injected = first.marks
        states.save(known)
    again = told(tmp_path, "SessionStart", source="resume")
    assert again.told
    assert set(first.told).isdisjoint(again.told)


def test_store_of_several_projects_recalls_those_of_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "all"
    with smp_memory.open(root, config={"durability": "os"}) as memory:
        for project in ("shop", "bank"):
            session = memory.create_session(f"in-{project}", project=project)
            session.add_decision(f"The invoices of the {project} are printed on paper")
        memory.query("invoices")
    for name, fields in (
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {"prompt": "Which paper are the invoices printed on?"}),
        ("SubagentStart", {"agent_type": "dev", "prompt": "print the invoices on paper"}),
    ):
        text = told(root, name, tmp_path / "shop", **fields).text
        assert "invoices of the shop" in text, name
        assert "invoices of the bank" not in text, name


def test_store_in_a_project_recalls_all_its_sessions(tmp_path: Path) -> None:
    root = tmp_path / "shop" / ".bmad" / "memory"
    with smp_memory.open(root, config={"durability": "os"}) as memory:
        memory.create_session("of-hooks", project="shop").add_decision("The invoices are printed on paper")
        memory.create_session("of-a-script", project="frontend").add_decision("The invoices are shown in green")
        text = memory.session("of-hooks").context(task="invoices").text
        assert "paper" in text
        assert "green" in text
    text = told(root, "SessionStart", tmp_path / "shop", source="startup").text
    assert "paper" in text
    assert "green" in text


def test_digest_file_holds_wishes_of_one_user_only(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, config={"durability": "os"}) as memory:
        memory.create_session("adas", user="ada").add_turn("user", "Hello! Never push on Fridays! What is next?")
        assert "TURN-0001 ada: Never push on Fridays!" in digest_text(memory.scope)
        memory.create_session("bobs", user="bob").add_turn("user", "Always write tests first.")
        assert "Fridays" not in digest_text(memory.scope)
        assert "tests first" not in digest_text(memory.scope)


def test_words_of_a_prompt_in_a_script_without_spaces() -> None:
    assert query_words("倉庫の鍵は誰が持っていますか？")
    assert query_words("thanks") == ""


def test_question_behind_a_long_log_is_among_the_words() -> None:
    log = "\n".join(f"2026-01-01 worker-{number} state{number} took {number} ms" for number in range(300))
    assert "cabinet" in query_words(f"{log}\nwho has the key for the laser cabinet")
    assert "cabinet" in query_words(f"who has the key for the laser cabinet\n{log}")
