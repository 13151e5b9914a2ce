"""A mistyped status, role or relation is stored as given, and its writer is warned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.cli.main import main

MISTYPED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "resolve": (lambda session: session.resolve("FIND-0001", "done", status="resolvd"), "resolved"),
    "update": (lambda session: session.update("FIND-0001", status="closd"), "closed"),
    "finding": (lambda session: session.add_finding("x", status="opn"), "open"),
    "finding with severity": (lambda session: session.add_finding("x", status="opn", severity="high"), "open"),
    "resolution": (lambda session: session.add_finding("x", resolution={"status": "resolvd"}), "resolved"),
    "decision": (lambda session: session.add_decision("x", status="acepted"), "accepted"),
    "turn": (lambda session: session.add_turn("usr", "Hello"), "user"),
    "relate": (lambda session: session.relate("DEC-0001", "FIND-0001", "resolve"), "resolves"),
    "relations": (lambda session: session.add_decision("x", relations=[("superseeds", "DEC-0001")]), "supersedes"),
}

KNOWN: list[Callable[[Any], Any]] = [
    lambda session: session.resolve("FIND-0001", "done", status="Wontfix"),
    lambda session: session.add_finding("x", status="open", severity="high"),
    lambda session: session.add_finding("x", status="in_progress"),
    lambda session: session.add_decision("x", status="accepted"),
    lambda session: session.add_decision("x", status="waiting for legal"),
    lambda session: session.add_turn("user", "Hello"),
    lambda session: session.add_turn("architect", "Hello"),
    lambda session: session.relate("DEC-0001", "FIND-0001", "resolves"),
    lambda session: session.relate("DEC-0001", "FIND-0001", "hängt_ab_von"),
]


@pytest.fixture
def session(tmp_path: Path) -> smp_memory.SessionMemory:
    session = smp_memory.open(tmp_path).create_session("s1")
    session.add_finding("Login has no rate limit")
    session.add_decision("Use OAuth")
    return session


@pytest.mark.parametrize("name", MISTYPED)
@pytest.mark.parametrize("as_agent", [False, True])
def test_mistyped_word_is_stored_with_a_warning(session: smp_memory.SessionMemory, name: str, as_agent: bool) -> None:
    write, meant = MISTYPED[name]
    record = write(session.agent("architect") if as_agent else session)
    assert len(record.warnings) == 1
    assert f"Did you mean {meant!r}?" in record.warnings[0]


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_known_and_custom_words_give_no_warning(session: smp_memory.SessionMemory, number: int) -> None:
    assert KNOWN[number](session).warnings == ()


def test_warning_for_unknown_status_says_that_the_finding_stays_open(session: smp_memory.SessionMemory) -> None:
    record = session.resolve("FIND-0001", "done", status="erledigt")
    assert "counts as open" in record.warnings[0]
    assert session.get("FIND-0001").status == "erledigt"
    assert [each.id for each in session.summarize().findings] == ["FIND-0001"]


def test_existing_relation_gives_no_second_warning(session: smp_memory.SessionMemory) -> None:
    session.relate("DEC-0001", "FIND-0001", "resolve")
    assert session.relate("DEC-0001", "FIND-0001", "supports").warnings == ()


def test_command_line_warns_of_a_mistyped_status(
    session: smp_memory.SessionMemory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resolve", "FIND-0001", "done", "--status", "resolvd", "--root", str(tmp_path)]) == 0
    assert "Did you mean 'resolved'?" in capsys.readouterr().err


def test_mcp_warns_of_a_mistyped_status(session: smp_memory.SessionMemory) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    caller = RequestContext(session.memory).caller("tester")
    reply = TOOLS["update"].call(caller, {"action": "resolve", "id": "s1/FIND-0001", "status": "resolvd"})
    assert "Did you mean 'resolved'?" in reply.text
    assert reply.data["warnings"]
