"""Hooks ask the agent to write down what a conversation decided or found: once for each stretch, without holding it up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.hook_host import ENVIRONMENT, Codex, Cursor, Gemini, Host, Project
from tests.user_state import state_folder

ASKED = "no decision, finding or learning of this conversation was saved yet"
DECIDED = "Let's go with cursor pagination, offsets get slow on the big tables of the shop."
FOUND = "Root cause: the pool is created before the fork, so all workers share one socket."


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "shop")


def talk(host: Host, *, prompt: str = DECIDED, reply: str = FOUND) -> None:
    """Two exchanges; the second holds what should last."""
    host.start()
    host.prompt("Can you add pagination to the orders endpoint?")
    host.reply("Which kind do you want?")
    host.prompt(prompt)
    host.reply(reply)


@pytest.mark.parametrize("kind", [Host, Codex, Gemini])
def test_agent_is_asked_at_the_next_prompt_with_the_proposals(project: Project, kind: type[Host]) -> None:
    host = kind(project)
    talk(host)
    injected = host.prompt("Now write the release notes")
    (session,) = project.sessions()
    assert ASKED in injected
    assert f'smp add decision "…" --session {session}' in injected
    assert "- decision: Let's go with cursor pagination, offsets get slow on the big tables …" in injected
    assert "- finding: Root cause: the pool is created before the fork, so all workers …" in injected
    assert project.failures == []


def test_agent_is_asked_once(project: Project) -> None:
    host = Host(project)
    talk(host)
    assert ASKED in host.prompt("Now write the release notes")
    host.reply("Done. We'll use the new format for the notes.")
    assert ASKED not in host.prompt("And the changelog")


def test_agent_is_not_asked_if_something_was_written_down(project: Project) -> None:
    host = Host(project)
    host.start()
    host.prompt("Can you add pagination to the orders endpoint?")
    host.reply("Which kind do you want?")
    host.prompt(DECIDED)
    (session,) = project.sessions()
    project.decide("Orders use cursor pagination", session)
    host.reply("Done, I wrote it down. " + FOUND)
    assert ASKED not in host.prompt("Now write the release notes")


def test_agent_is_asked_again_for_what_comes_after_something_was_written_down(project: Project) -> None:
    host = Host(project)
    talk(host)
    assert ASKED in host.prompt("Now write the release notes")
    (session,) = project.sessions()
    project.decide("Orders use cursor pagination", session)
    host.reply("Noted.")
    host.prompt("Let's drop the XML export.")
    host.reply("It is gone.")
    injected = host.prompt("Thanks, and the docs?")
    assert ASKED in injected
    assert "drop the XML export" in injected
    assert "pagination" not in injected


def test_agent_is_asked_again_after_compaction(project: Project) -> None:
    host = Host(project)
    talk(host)
    assert ASKED in host.prompt("Now write the release notes")
    host.compact()
    assert ASKED in host.start("compact")
    assert ASKED not in host.prompt("And the changelog")


@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        ("Should we use cursors or offsets?", "We could use either. Offsets are simpler."),
        ("Run the tests", "All 214 tests pass."),
    ],
)
def test_agent_is_not_asked_about_questions_guesses_and_reports(project: Project, prompt: str, reply: str) -> None:
    host = Host(project)
    talk(host, prompt=prompt, reply=reply)
    assert ASKED not in host.prompt("Now write the release notes")


@pytest.mark.parametrize("setting", ["proposals.enabled", "hooks.ask_to_record", "hooks.recall", "hooks.record"])
def test_agent_is_not_asked_if_it_is_switched_off(project: Project, setting: str) -> None:
    host = Host(project)
    talk(host)
    with project.open() as memory:
        memory.set_config(setting, False)
    assert ASKED not in host.prompt("Now write the release notes")


def test_cursor_takes_no_text_at_a_prompt_and_goes_on(project: Project) -> None:
    host = Cursor(project)
    talk(host)
    done = project.call(host.payload("prompt", prompt="Now write the release notes"), "--wait")
    assert json.loads(done.stdout) == {"continue": True}


def test_stop_is_never_answered(project: Project) -> None:
    host = Host(project)
    talk(host)
    assert project.call(host.reply_payload(FOUND), "--wait").stdout == b""


def test_state_of_a_conversation_holds_no_text_of_its_proposals(project: Project) -> None:
    host = Host(project)
    talk(host)
    host.prompt("Now write the release notes")
    for path in (state_folder(project.root) / "hooks").iterdir():
        assert "pagination" not in path.read_text()


def test_next_session_is_pointed_at_proposals_and_not_told_them(project: Project) -> None:
    host = Host(project)
    talk(host)
    host.end()
    (session,) = project.sessions()
    notice = Host(project, "b").start().rpartition("The last session")[2]
    assert f"({session}, 4 turns) ended without a saved decision" in notice
    assert f"smp review --session {session}" in notice
    assert "cursor" not in notice


def test_scripted_agent_records_what_it_was_asked_for(project: Project) -> None:
    """An agent that does what the request says: afterwards the memory is there, nothing is proposed, and nobody is asked again."""
    host = Host(project)
    talk(host, reply="Done.")
    injected = host.prompt("Now write the release notes")
    command = injected.partition("(smp add decision ")[2].partition(";")[0]
    words = command.replace('"…"', "").split()
    smp = [
        sys.executable,
        "-m",
        "smp_memory",
        "add",
        "decision",
        "Orders use cursor pagination, because offsets get slow on big tables",
    ]
    subprocess.run([*smp, *words], cwd=project.folder, env=ENVIRONMENT, check=True, capture_output=True)
    host.reply("Here are the notes.")
    assert ASKED not in host.prompt("And the changelog")
    with project.open() as memory:
        assert memory.proposals() == []
        assert "Orders use cursor pagination" in memory.query(types="decision")[0].text
