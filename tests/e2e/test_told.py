"""What hooks told agents: the log that they leave, and that it never holds text."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from smp_memory.cli.main import main
from smp_memory.integrations.hooks import session_state
from smp_memory.model import told_log
from smp_memory.model.told_log import told_events
from tests.e2e.hook_host import Host, Project
from tests.e2e.terminal import Terminal
from tests.user_state import state_folder, user_state

DECISION = "Customers log in to the shop with OAuth"
PROMPT = "How do customers log in to the shop with OAuth?"
SECRET = "hunter2-correct-horse-battery"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path)
    monkeypatch.chdir(tmp_path)
    project.decide(DECISION)
    return project


def log_of(project: Project) -> Path:
    return state_folder(project.root) / told_log.LOG


def test_prompt_is_logged_with_the_turn_and_the_memories_that_were_told(project: Project) -> None:
    host = Host(project)
    host.prompt(PROMPT)
    (event,) = told_events(user_state(project.root))
    assert (event.client, event.event) == ("claude-code", "prompt")
    assert [each.ref for each in event.told] == ["earlier/DEC-0001"]
    assert (event.told[0].relevance or 0.0) > 0.55
    assert event.tokens > 0
    with project.open() as memory:
        assert memory.session(event.session).get(event.turn).content == PROMPT


def test_prompt_that_is_told_nothing_and_starts_are_logged_too(project: Project) -> None:
    host = Host(project)
    host.start()
    host.prompt("What is the weather on the moon?")
    agent = {**host.payload("start"), "hook_event_name": "SubagentStart", "agent_type": "reviewer", "agent_id": "a1"}
    host.send(agent)
    events = told_events(user_state(project.root))
    assert [each.event for each in events] == ["agent-start", "prompt", "start"]  # the newest first
    assert [len(each.told) for each in events] == [1, 0, 1]
    assert {each.session for each in events} == set(project.sessions())


def test_two_hooks_of_one_prompt_are_one_event(project: Project) -> None:
    host = Host(project)
    payload = host.payload("prompt", prompt=PROMPT, prompt_id="p1")
    host.send(payload)
    host.send(payload)
    assert len(told_events(user_state(project.root))) == 1


def test_log_holds_no_text_and_only_its_owner_reads_it(project: Project) -> None:
    host = Host(project)
    host.prompt(f"{PROMPT} my password is {SECRET}")
    data = log_of(project).read_text()
    assert json.loads(data)["told"]
    for text in (SECRET, "OAuth", "password", "customers", "Customers"):
        assert text not in data
    assert stat.S_IMODE(log_of(project).stat().st_mode) == 0o600


def test_setting_off_writes_no_log(project: Project) -> None:
    assert main(["config", "set", "hooks.log_told", "false"]) in (0, None)
    assert "OAuth" in Host(project).prompt(PROMPT)
    assert not log_of(project).exists()


def test_prompt_without_recording_is_logged_without_a_turn(project: Project) -> None:
    assert main(["config", "set", "hooks.record", "false"]) in (0, None)
    Host(project).prompt(PROMPT)
    (event,) = told_events(user_state(project.root))
    assert event.turn is None
    assert [each.ref for each in event.told] == ["earlier/DEC-0001"]


def test_failure_of_the_log_does_not_keep_a_prompt_from_being_recorded(project: Project) -> None:
    project.may_fail = True
    log_of(project).mkdir(parents=True)  # a folder cannot be appended to
    host = Host(project)
    assert "OAuth" in host.prompt(PROMPT)
    assert ("user", PROMPT) in project.turns()


def test_torn_last_line_costs_only_itself(project: Project) -> None:
    host = Host(project)
    host.prompt(PROMPT)
    with log_of(project).open("ab") as log:
        log.write(b'{"v": 1, "at": "2026-01-')
    host.prompt("What is the weather on the moon?")
    assert [len(each.told) for each in told_events(user_state(project.root))] == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"client": "<b>x</b>"},
        {"session": "../etc"},
        {"told": [["earlier/DEC 1; rm", 1, None]]},
        {"told": "DEC-0001"},
        {"turn": 7},
        {"tokens": "many"},
        {"at": "yesterday"},
        {"further": "field"},
    ],
    ids=str,
)
def test_planted_values_are_skipped(project: Project, change: dict[str, object]) -> None:
    Host(project).prompt(PROMPT)
    line = json.loads(log_of(project).read_text())
    log_of(project).write_text(f"{json.dumps({**line, **change})}\nnull\n[]\n{'[' * 5000}\n{json.dumps(line)}\n")
    assert len(told_events(user_state(project.root))) == 1


def test_log_does_not_grow_beyond_its_limit(project: Project) -> None:
    Host(project).prompt(PROMPT)
    line = log_of(project).read_bytes()
    log_of(project).write_bytes(line * (told_log.LOG_BYTES // len(line)))
    Host(project, "5f0c1a7e-0002").prompt(PROMPT)
    assert log_of(project).stat().st_size <= told_log.LOG_BYTES // 2 + len(line) + 64
    events = told_events(user_state(project.root))
    assert len(events) > 100
    assert events[0].session.endswith(session_state.session_digest("5f0c1a7e-0002"))


def test_erased_memory_is_named_nowhere_in_the_log(project: Project) -> None:
    host = Host(project)
    host.prompt(PROMPT)
    project.decide("Orders are stored in PostgreSQL")
    host.prompt("In which database are orders stored, PostgreSQL?")
    with project.open() as memory:
        memory.session("earlier").erase("DEC-0001")
    assert "earlier/DEC-0001" not in log_of(project).read_text()
    newest, oldest = told_events(user_state(project.root))
    assert [each.ref for each in oldest.told] == [""]
    assert [each.ref for each in newest.told] == ["earlier/DEC-0002"]


# -- smp told


@pytest.fixture
def cli(project: Project, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_told_shows_prompts_with_memories_and_silence(project: Project, cli: Terminal) -> None:
    host = Host(project)
    host.prompt(PROMPT)
    host.prompt("What is the weather on the moon?")
    out = cli.ok("told")
    first, second = out.index(PROMPT), out.index("weather on the moon")
    assert first < out.index(DECISION) < second < out.index("told nothing")
    assert "earlier/DEC-0001" in out
    newest, oldest = cli.json("told")
    assert (newest["prompt"], newest["told"]) == ("What is the weather on the moon?", [])
    assert oldest["prompt"] == PROMPT
    assert oldest["told"][0]["text"] == DECISION


def test_told_of_a_memory_counts_its_events(project: Project, cli: Terminal) -> None:
    for number in range(3):
        Host(project, f"5f0c1a7e-{number}").prompt(PROMPT)
    Host(project, "silent").prompt("What is the weather on the moon?")
    assert "earlier/DEC-0001: told 3 times, last just now" in cli.ok("told", "DEC-0001", "--session", "earlier")
    assert len(cli.json("told", "earlier/DEC-0001")) == 3
    assert len(cli.json("told", "earlier/DEC-0001", "--limit", "2")) == 2
    code, _, err = cli("told", "earlier/DEC-0099")
    assert code != 0
    assert "DEC-0099" in err


def test_told_in_a_session_shows_that_conversation(project: Project, cli: Terminal) -> None:
    one, other = Host(project, "one"), Host(project, "other")
    one.prompt(PROMPT)
    other.prompt(PROMPT)
    session = project.state("one").session
    assert [each["session"] for each in cli.json("told", "--session", session)] == [session]


def test_deleted_memory_and_prompt_have_no_text_in_told(project: Project, cli: Terminal) -> None:
    host = Host(project)
    host.prompt(PROMPT)
    session = project.state(host.session).session
    with project.open() as memory:
        memory.session("earlier").delete("DEC-0001")
        memory.session(session).delete(memory.session(session).records("conversation")[0].id)
    out = cli.ok("told")
    assert "OAuth" not in out
    assert "(prompt erased, deleted or archived)" in out
    assert "(erased, deleted or archived)" in out
    assert "OAuth" not in json.dumps(cli.json("told"))


def test_told_fits_80_columns_and_escapes(project: Project, cli: Terminal) -> None:
    project.decide("Customers of the shop log in with OAuth \x1b[31m and " + "a very long text " * 20, "red")
    Host(project).prompt(PROMPT + " and more words about the shop" * 5)
    out = cli.ok("told")
    assert "\x1b" not in out
    assert "\\x1b" in out


def test_told_without_a_log_says_so(project: Project, cli: Terminal) -> None:
    assert "Hooks told nothing" in cli.ok("told")
    cli.ok("config", "set", "hooks.log_told", "false")
    assert "The log is off" in cli.ok("told")
