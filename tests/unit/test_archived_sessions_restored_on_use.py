"""Using an archived session restores it, and the caller is told: in Python, on the command line, over MCP, by hooks."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.integrations.mcp.request_context import RequestContext
from tests.unit.mcp.test_rights import call
from tests.unit.test_write_notices import PLACES, opened, smp_command

SAID = "Session s1 was archived; using it restored it."


def archived(place: str, tmp_path: Path) -> Any:
    memory = opened(place, tmp_path)
    memory.create_session("s1").add_finding("password in log")
    memory.archive_session("s1")
    return memory


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if SAID in record.getMessage()]


@pytest.mark.parametrize("place", PLACES)
def test_opening_an_archived_session_reports_its_restoration(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = archived(place, tmp_path)
    with caplog.at_level(logging.WARNING, "smp_memory"):
        session = memory.session("s1")
        assert SAID in session.warnings[0]
        (said,) = session.query("password").warnings
        assert SAID in said
        assert session.query("password").warnings == []
        assert session.validate().actions == []
        assert memory.session("s1").warnings == ()
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize("place", PLACES)
def test_report_on_an_archived_session_names_its_restoration(place: str, tmp_path: Path) -> None:
    (said,) = archived(place, tmp_path).session("s1").validate().actions
    assert SAID in said


@pytest.mark.parametrize("place", PLACES)
def test_restoring_a_session_on_request_is_not_a_warning(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "smp_memory"):
        session = archived(place, tmp_path).restore_session("s1")
    assert session.warnings == ()
    assert logged(caplog) == []


def test_write_to_a_session_archived_meanwhile_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = opened("jsonl", tmp_path)
    session = memory.create_session("s1")
    session.add_finding("one")
    with smp_memory.open(tmp_path / "store") as other:
        other.archive_session("s1")
    with caplog.at_level(logging.WARNING, "smp_memory"):
        assert [SAID in text for text in session.add_finding("two").warnings] == [True]
        assert session.add_finding("three").warnings == ()
    assert len(logged(caplog)) == 1


@pytest.mark.parametrize("words", [("list",), ("show", "FIND-0001"), ("query", "password"), ("add", "finding", "more")])
def test_command_line_reports_a_restored_session_once(words: tuple[str, ...], tmp_path: Path) -> None:
    archived("jsonl", tmp_path).close()
    told = smp_command(tmp_path / "store", *words, "--session", "s1")
    assert (told.returncode, told.stderr.count(SAID), SAID in told.stdout) == (0, 1, False), told.stderr
    assert SAID not in smp_command(tmp_path / "store", *words, "--session", "s1").stderr


def test_json_of_a_query_says_that_an_archived_session_was_restored(tmp_path: Path) -> None:
    archived("jsonl", tmp_path).close()
    told = smp_command(tmp_path / "store", "query", "password", "--session", "s1", "--json")
    assert SAID in json.loads(told.stdout)["warnings"][0]


def test_restore_command_gives_no_further_notice(tmp_path: Path) -> None:
    archived("jsonl", tmp_path).close()
    assert SAID not in smp_command(tmp_path / "store", "session", "restore", "s1").stderr


def test_mcp_reports_that_a_write_restored_a_session(tmp_path: Path) -> None:
    memory = archived("jsonl", tmp_path)
    caller = RequestContext(memory, author="dev").caller("some client")
    given = {"type": "decision", "text": "Use OAuth", "session": "s1"}
    assert SAID in call(caller, "remember", **given)["warnings"][0]
    assert "warnings" not in call(caller, "remember", **{**given, "text": "Use TLS"})
    memory.archive_session("s1")
    assert SAID in call(caller, "forget", ids=["s1/FIND-0001"])["warnings"][0]
