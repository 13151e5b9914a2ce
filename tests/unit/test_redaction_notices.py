"""What redaction took out of a session's metadata and of reasons is said to the caller, never the secret itself."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.integrations.mcp.request_context import RequestContext
from tests.unit.mcp.test_rights import call
from tests.unit.test_write_notices import MAIL, PLACES, opened, smp_command

KINDS = {"email": 1}
WHY = f"asked by {MAIL}"


@pytest.mark.parametrize("place", PLACES)
def test_changed_metadata_says_what_was_redacted(place: str, tmp_path: Path) -> None:
    session = opened(place, tmp_path).create_session("s1", context={"topic": WHY})
    assert session.redacted == KINDS
    session.change_info(project=WHY)
    assert session.redacted == KINDS
    session.change_info(project="shop")
    assert session.redacted == {}


@pytest.mark.parametrize("place", PLACES)
def test_deletions_and_restorations_say_what_was_redacted_in_the_reason(place: str, tmp_path: Path) -> None:
    memory = opened(place, tmp_path)
    session = memory.create_session("s1")
    ids = [session.add_finding(text).id for text in ("one", "two")]
    assert session.delete(ids[0], WHY).redacted == KINDS
    assert session.restore(ids[0], WHY).redacted == KINDS
    assert session.delete(ids[0], "no longer true").redacted == {}
    assert session.restore(ids[0]).redacted == {}
    deletion = memory.delete([f"s1/{each}" for each in ids], WHY)
    assert deletion.redacted == deletion.to_dict()["redacted"] == KINDS
    assert MAIL not in json.dumps(deletion.to_dict())
    assert memory.restore([f"s1/{each}" for each in ids], WHY).to_dict()["redacted"] == KINDS
    assert "redacted" not in memory.delete([f"s1/{each}" for each in ids], "old").to_dict()
    session.restore(ids)
    with session.transaction() as transaction:
        wish = transaction.delete(ids[1], WHY)
    assert wish.record.redacted == KINDS
    noted = [entry for entry in memory.store.audit.entries() if entry.get("part") == "reason"]
    assert [entry["kinds"] for entry in noted][:2] == [KINDS, KINDS]
    assert MAIL not in json.dumps(memory.store.audit.entries())


@pytest.mark.parametrize("place", PLACES)
def test_erasure_and_redaction_say_what_was_redacted_in_the_reason(place: str, tmp_path: Path) -> None:
    memory = opened(place, tmp_path, privacy={"redaction": {"off": ["phone"]}})
    session = memory.create_session("s1")
    receipt = session.erase(session.add_finding("one").id, WHY)
    assert receipt.redacted == receipt.to_dict()["redacted"] == KINDS
    assert "redacted" not in session.erase(session.add_finding("two").id, "old").to_dict()


def test_redact_says_what_was_redacted_in_its_reason(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, layout="jsonl", config={"privacy": {"redaction": {"enabled": False}}}) as memory:
        memory.create_session("s1").add_finding(f"Mail {MAIL}")
    with smp_memory.open(tmp_path) as memory:
        (found,) = memory.redact(reason=WHY)
        assert found.to_dict()["reason"] == KINDS
        assert found.kinds == KINDS


@pytest.mark.parametrize("place", PLACES)
def test_reasons_for_whole_sessions_say_what_was_redacted(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = opened(place, tmp_path)
    memory.create_session("s1").add_finding("one")
    for act in (memory.archive_session, memory.delete_session):
        away = act("s1", WHY)
        assert away.redacted == away.to_dict()["redacted"] == KINDS
        assert MAIL not in str(away)
    with caplog.at_level(logging.WARNING, "smp_memory"):
        memory.undelete_session("s1", WHY)
    assert ["email" in record.getMessage() and MAIL not in record.getMessage() for record in caplog.records] == [True]
    memory.delete_session("s1", "old")
    assert memory.purge_session("s1", WHY).redacted == KINDS


def command(root: Path, *words: str) -> dict[str, Any]:
    """What a command answers as JSON; the line on stderr is checked."""
    told = smp_command(root, *words, "--json")
    assert "email" in told.stderr, told.stderr
    assert "privacy.redaction.off email" in told.stderr
    assert MAIL not in told.stderr + told.stdout
    answer = json.loads(told.stdout)
    return answer[0] if isinstance(answer, list) else answer


def test_command_line_says_what_was_redacted_in_metadata_and_reasons(tmp_path: Path) -> None:
    root = tmp_path / "store"
    smp_memory.open(root).close()
    assert command(root, "session", "new", "s1", "--project", WHY)["redacted"] == KINDS
    with smp_memory.open(root) as memory:
        session = memory.session("s1")
        ids = [session.add_finding(text).id for text in ("one", "two", "three")]
    assert command(root, "delete", ids[0], "--reason", WHY)["redacted"] == KINDS
    assert command(root, "restore", ids[0], "--reason", WHY)["redacted"] == KINDS
    assert command(root, "delete", "--text", "two", "--yes", "--reason", WHY)["redacted"] == KINDS
    assert command(root, "erase", ids[2], "--yes", "--reason", WHY)["redacted"] == KINDS
    for words in (("archive", "s1"), ("delete", "s1"), ("restore", "s1")):
        assert command(root, "session", *words, "--reason", WHY)["redacted"] == KINDS
    smp_command(root, "session", "delete", "s1")
    assert command(root, "session", "erase", "s1", "--yes", "--reason", WHY)["redacted"] == KINDS


def test_mcp_says_what_was_redacted_in_metadata_and_reasons(tmp_path: Path) -> None:
    memory = opened("jsonl", tmp_path)
    caller = RequestContext(memory, author="dev", may_erase=True).caller("some client")
    assert call(caller, "sessions", action="create", id="s1", project=WHY)["sessions"][0]["redacted"] == KINDS
    ref = memory.session("s1").add_finding("one").ref
    assert call(caller, "forget", ids=[ref], reason=WHY)["redacted"] == KINDS
    assert call(caller, "forget", action="restore", ids=[ref], reason=WHY)["redacted"] == KINDS
    assert call(caller, "forget", action="erase", ids=[ref], reason=WHY)["redacted"] == KINDS
