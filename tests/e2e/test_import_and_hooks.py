"""A conversation that hooks recorded is not doubled by an import of its transcript, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from smp_memory.importers import import_from
from smp_memory.importers.import_run import IngestReport
from tests import host_transcripts as hosts
from tests.e2e.hook_host import Codex, Cursor, Gemini, Host, Project

WITH_TRANSCRIPT = pytest.mark.parametrize("kind", [Host, Codex], ids=lambda kind: kind.client)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "shop")
    yield project
    assert project.failures == []


def imported(project: Project, name: str, path: Path) -> IngestReport:
    with project.open() as memory:
        return import_from(memory, name, path)


def talk(host: Host, *texts: str) -> None:
    for text in texts:
        host.prompt(f"{text} and why?")
        host.reply(f"{text}: because.")


@WITH_TRANSCRIPT
def test_recorded_conversation_is_not_imported_again(project: Project, kind: type[Host]) -> None:
    host = kind(project)
    host.start()
    talk(host, "tea", "coffee")
    host.prompt("milk and why?")
    host.reply("milk: because.", write=False)  # the event came, the line is written later
    host.write_reply("milk: because.")
    before = project.turns()
    report = imported(project, host.client, host.transcript)
    assert (report.count, report.known) == (0, 6)
    assert project.turns() == before
    assert len(project.sessions()) == 1


@WITH_TRANSCRIPT
def test_turns_from_before_the_hooks_are_added_to_the_recorded_session(project: Project, kind: type[Host]) -> None:
    host = kind(project)
    host.count = 1
    host.write_prompt("yes")
    host.write_reply("An old reply")
    host.count = 2
    host.start("resume")
    talk(host, "tea")
    host.prompt("yes")
    host.reply("A new reply")
    report = imported(project, host.client, host.transcript)
    assert (report.count, report.known) == (2, 4)
    assert sorted(text for _, text in project.turns()) == sorted(
        ["yes", "An old reply", "tea and why?", "tea: because.", "yes", "A new reply"]
    )
    assert len(project.sessions()) == 1


@WITH_TRANSCRIPT
def test_imported_conversation_is_continued_by_hooks(project: Project, kind: type[Host]) -> None:
    host = kind(project)
    for number, text in enumerate(("tea", "coffee"), 1):
        host.count = number
        host.write_prompt(f"{text} and why?")
        host.write_reply(f"{text}: because.")
    assert imported(project, host.client, host.transcript).count == 4
    host.start("resume")
    talk(host, "milk")
    host.end()
    assert [text for _, text in project.turns()][4:] == ["milk and why?", "milk: because."]
    assert len(project.sessions()) == 1
    assert imported(project, host.client, host.transcript).count == 0


def test_recorded_secret_is_recognised_in_the_transcript(project: Project) -> None:
    host = Codex(project)  # prompts have no id in its transcript
    host.start()
    host.prompt("ada@example.org is the address of our customer, why?")
    host.reply("Write to ada@example.org, because.")
    assert imported(project, "codex", host.transcript).count == 0
    assert len(project.turns()) == 2


def test_conversations_of_hosts_without_a_readable_transcript_are_recognised_by_their_text(project: Project) -> None:
    gemini, cursor = Gemini(project, hosts.GEMINI_SESSION), Cursor(project, hosts.CURSOR_SESSION)
    gemini.start()
    gemini.prompt(hosts.GEMINI_TEXTS[0])
    gemini.reply(hosts.GEMINI_TEXTS[1])
    cursor.start()
    cursor.prompt(hosts.CURSOR_TEXTS[0])
    cursor.reply(hosts.CURSOR_TEXTS[1])
    report = imported(project, "gemini", hosts.gemini_home(project.folder))
    assert (report.count, report.known) == (2, 2)
    rows = {key: value for key, value in hosts.cursor_rows().items() if "0ld" not in key}
    report = imported(project, "cursor", hosts.cursor_database(project.folder / "state.vscdb", rows))
    assert (report.count, report.known) == (0, 2)
    assert len(project.sessions()) == 2


def test_conversation_with_recording_off_is_imported_only_if_its_file_is_named(project: Project) -> None:
    with project.open() as memory:
        memory.set_config("hooks.record", False)
    private, other = Host(project, "private"), Host(project, "other")
    private.start()
    talk(private, "tea")
    other.write_prompt("coffee and why?")
    report = imported(project, "claude-code", project.folder)
    assert [text for _, text in project.turns()] == ["coffee and why?"]
    assert "recording was off" in json.dumps(report.left_out)
    assert imported(project, "claude-code", private.transcript).count == 2
