"""Switches of hooks: injection off per process, per session and for subagents; recording by a switch of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.errors import InvalidConfig
from tests.e2e.hook_host import Host, Project

PROMPT = "How do customers log in to the shop with OAuth?"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path)
    monkeypatch.chdir(tmp_path)
    project.decide("Customers log in with OAuth")
    return project


def session_of(project: Project, host: Host) -> str:
    host.prompt("Hello, this is the first prompt")
    with project.open() as memory:
        return next(each.id for each in memory.sessions() if each.id != "earlier")


def prompt(host: Host, number: int) -> dict[str, str]:
    return host.payload("prompt", prompt=PROMPT, prompt_id=f"prompt-{number}")


def subagent(host: Host) -> dict[str, str]:
    return {**host.payload("start"), "hook_event_name": "SubagentStart", "agent_type": "reviewer", "agent_id": "a1"}


def turns(project: Project, session: str) -> list[str]:
    with project.open() as memory:
        return [turn.content for turn in memory.session(session).records("conversation")]


def test_environment_turns_injection_off_for_one_process_and_recording_goes_on(project: Project) -> None:
    host = Host(project)
    session = session_of(project, host)
    for payload in (prompt(host, 1), host.payload("start", source="startup"), subagent(host)):
        assert project.call(payload, "--wait", SMP_HOOKS_RECALL="off").stdout == b""
    assert PROMPT in turns(project, session)
    assert b"OAuth" in project.call(prompt(host, 2), "--wait").stdout


def test_setting_of_a_session_turns_injection_off_there_and_recording_goes_on(project: Project) -> None:
    one, other = Host(project, "one"), Host(project, "other")
    session = session_of(project, one)
    assert main(["config", "--session", session, "set", "hooks.recall", "false"]) in (0, None)
    assert project.call(prompt(one, 1), "--wait").stdout == b""
    assert project.call(subagent(one), "--wait").stdout == b""
    assert PROMPT in turns(project, session)
    assert b"OAuth" in project.call(prompt(other, 1), "--wait").stdout
    assert b"OAuth" in project.call(prompt(one, 2), "--wait", SMP_HOOKS_RECALL="on").stdout
    assert main(["config", "--session", session, "unset", "hooks.recall"]) in (0, None)
    project.decide("OAuth tokens of customers who log in to the shop last an hour", "later")
    assert b"OAuth" in project.call(prompt(one, 3), "--wait").stdout


def test_setting_of_a_session_turns_recording_off_there_and_injection_goes_on(project: Project) -> None:
    host = Host(project)
    session = session_of(project, host)
    assert main(["config", "--session", session, "set", "hooks.record", "false"]) in (0, None)
    assert b"OAuth" in project.call(prompt(host, 1), "--wait").stdout
    assert PROMPT not in turns(project, session)


@pytest.mark.parametrize("how", ["environment", "store", "session"])
def test_subagents_have_their_own_switch(project: Project, how: str) -> None:
    host = Host(project)
    session = session_of(project, host)
    assert b"OAuth" in project.call(subagent(host), "--wait").stdout
    environ = {"SMP_HOOKS_RECALL_AGENTS": "off"} if how == "environment" else {}
    if how != "environment":
        where = ["--session", session] if how == "session" else []
        assert main(["config", *where, "set", "hooks.recall_agents", "false"]) in (0, None)
    assert project.call(subagent(host), "--wait", **environ).stdout == b""
    assert b"OAuth" in project.call(prompt(host, 1), "--wait", **environ).stdout


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_session_settings_are_set_and_removed(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        session = memory.create_session("shop", user="ada", config={"durability": "os"})
        session.add_finding("Something")
        session.set_config("hooks.recall", False)
        with pytest.raises(InvalidConfig):
            session.set_config("hooks.recal", False)
        with pytest.raises(InvalidConfig):
            session.set_config("hooks.recall", "perhaps")
        with pytest.raises(InvalidConfig):
            session.set_config("layout", "log")
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.session("shop")
        assert (session.config["hooks.recall"], session.config["durability"]) == (False, "os")
        assert memory.config["hooks.recall"] is True
        assert (session.info.user, len(session.records()), session.validate().ok) == ("ada", 1, True)
        session.set_config("hooks.recall", None)
    with smp_memory.open(tmp_path / "store") as memory:
        assert memory.session("shop").config["hooks.recall"] is True
