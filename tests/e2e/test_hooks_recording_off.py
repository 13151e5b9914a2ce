"""What is said while `hooks.record` is off is never recorded, neither then nor later."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.hook_host import ENVIRONMENT, Codex, Cursor, Gemini, Host, Project

WITH_TRANSCRIPT = pytest.mark.parametrize("kind", [Host, Codex], ids=lambda kind: kind.client)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "shop")
    yield project
    assert project.failures == []


class Switch:
    """Turns recording off and on, by the setting of the store or by the environment of the host."""

    def __init__(self, how: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        self._how = how
        self._project = project
        self._monkeypatch = monkeypatch

    def set(self, on: bool) -> None:
        if self._how == "variable":
            self._monkeypatch.setitem(ENVIRONMENT, "SMP_HOOKS_RECORD", "true" if on else "false")
            return
        with self._project.open() as memory:
            memory.set_config("hooks.record", on)


@pytest.fixture(params=["setting", "variable"])
def recording(request: pytest.FixtureRequest, project: Project, monkeypatch: pytest.MonkeyPatch) -> Switch:
    return Switch(request.param, project, monkeypatch)


def kill(host: Host) -> None:
    """The host is gone without an event, an hour ago."""
    os.utime(host.transcript, (time.time() - 3600,) * 2)


def recorded_turns(project: Project) -> list[str]:
    return [text for _, text in project.turns()]


@WITH_TRANSCRIPT
def test_killed_conversation_with_recording_off_is_not_recorded_by_the_next(
    project: Project, recording: Switch, kind: type[Host]
) -> None:
    recording.set(False)
    private = kind(project, "private")
    private.start()
    private.prompt("My salary is SALARY-ONE")
    private.write_reply("SALARY-TWO is fine")
    kill(private)
    recording.set(True)
    kind(project, "next").start()
    kind(project, "third").start()
    assert recorded_turns(project) == []


@WITH_TRANSCRIPT
def test_turns_with_recording_off_stay_unrecorded_when_the_conversation_continues(
    project: Project, recording: Switch, kind: type[Host]
) -> None:
    host = kind(project)
    host.start()
    host.prompt("The first open question")
    host.reply("The first open answer")
    recording.set(False)
    host.prompt("A private question")
    host.reply("A private answer")
    host.prompt("Another private question")
    host.write_reply("An answer that no event told of")
    recording.set(True)
    host.prompt("The second open question")
    host.reply("The second open answer")
    host.end()
    assert recorded_turns(project) == [
        "The first open question",
        "The first open answer",
        "The second open question",
        "The second open answer",
    ]


@pytest.mark.parametrize("kind", [Host, Codex, Gemini, Cursor], ids=lambda kind: kind.client)
def test_answer_to_a_prompt_sent_with_recording_off_is_not_recorded(
    project: Project, recording: Switch, kind: type[Host]
) -> None:
    recording.set(False)
    host = kind(project)
    host.start()
    host.prompt("A private question")
    recording.set(True)
    host.compact()
    host.reply("A private answer")
    host.end()
    assert recorded_turns(project) == []
    host.prompt("An open question")
    host.reply("An open answer")
    assert recorded_turns(project) == ["An open question", "An open answer"]


def test_resumed_conversation_does_not_record_turns_with_recording_off(project: Project, recording: Switch) -> None:
    recording.set(False)
    host = Host(project)
    host.start()
    host.prompt("A private question")
    host.write_reply("A private answer")
    kill(host)
    recording.set(True)
    host.start("resume")
    host.prompt("An open question")
    host.write_reply("An open answer")
    kill(host)
    Host(project, "next").start()
    assert recorded_turns(project) == ["An open question", "An open answer"]


def test_transcript_that_became_shorter_is_not_read_from_its_beginning(project: Project, recording: Switch) -> None:
    recording.set(False)
    host = Host(project)
    host.start()
    host.prompt("A private question")
    host.reply("A private answer")
    host.prompt("Another private question " + "of some length " * 50)
    recording.set(True)
    host.prompt("An open question")
    lines = host.transcript.read_text().splitlines(keepends=True)
    host.transcript.write_text("".join(lines[:2]))
    host.reply("An open answer")
    host.end()
    assert recorded_turns(project)[0] == "An open question"
    assert not any("private" in text for text in recorded_turns(project))


def test_crash_while_the_first_prompt_is_recorded_does_not_record_earlier_turns(
    project: Project, recording: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smp_memory.integrations.hooks import events
    from smp_memory.integrations.hooks.record import record
    from smp_memory.session import SessionMemory

    recording.set(False)
    host = Host(project)
    host.start()
    host.prompt("A private question")
    host.write_reply("A private answer")
    recording.set(True)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SessionMemory, "add_many", die)
        payload = host.payload("prompt", prompt="An open question", prompt_id="p2")
        with pytest.raises(KeyboardInterrupt):
            record(
                events.HookEvent("claude-code", "UserPromptSubmit", payload),
                str(project.root),
                None,
                is_background=True,
            )
    host.count = 2
    host.write_prompt("An open question")
    host.write_reply("An open answer")
    kill(host)
    Host(project, "next").start()
    assert not any("private" in text for text in recorded_turns(project))


def test_conversation_with_recording_off_leaves_killed_conversations_for_later(
    project: Project, recording: Switch
) -> None:
    killed = Host(project, "killed")
    killed.start()
    killed.prompt("An open question")
    killed.write_reply("An open answer")
    kill(killed)
    recording.set(False)
    Host(project, "private").start()
    recording.set(True)
    Host(project, "next").start()
    assert recorded_turns(project) == ["An open question", "An open answer"]
