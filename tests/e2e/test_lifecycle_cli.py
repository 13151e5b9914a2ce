"""The command line looks after sessions: states, archive, trash, compaction, maintenance, duplicates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smp_memory.cli.main import main

OLD = "2025-06-01T10:00:00Z"


@pytest.fixture
def smp_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("SMP_ROOT", str(tmp_path / "store"))
    monkeypatch.setenv("SMP_DURABILITY", "os")

    def run(*words: str, code: int = 0) -> str:
        found = main(list(words))
        told = capsys.readouterr()
        assert found == code, told.err
        return told.out if code == 0 else told.err

    run("init")
    run("session", "new", "review", "--project", "shop")
    return run


def as_json(run: Any, *words: str) -> Any:
    return json.loads(run(*words, "--json"))


def aged(run: Any) -> None:
    for number in range(3):
        run("add", "turn", f"Something old about needle{number}", "--role", "user", "--field", f"created={OLD}")
    run("add", "decision", "Use files")


def test_session_is_archived_and_restored(smp_: Any) -> None:
    smp_("add", "decision", "Use OAuth")
    assert "active" in smp_("session", "list")
    smp_("session", "archive", "review", "--reason", "released")
    for words, code in ((("session", "list"), 0), (("list",), 0)):  # and not: there is no session yet
        assert "1 session is archived" in smp_(*words, code=code)
        assert "smp session restore review" in smp_(*words, code=code)
    [row] = as_json(smp_, "session", "list", "--all")
    assert (row["id"], row["state"], row["reason"]) == ("review", "archived", "released")
    found = smp_("query", "OAuth", "--include-archived")
    assert all(told in found for told in ("OAuth", "  archived\n", "smp session restore review"))
    assert "Use OAuth" in smp_("list", "--session", "review")  # opening it is enough
    smp_("session", "archive", "review")
    smp_("session", "restore", "review")
    assert as_json(smp_, "session", "list")[0]["next"]["state"] == "idle"


def test_a_session_is_deleted_undeleted_and_purged(smp_: Any) -> None:
    smp_("add", "decision", "Use OAuth")
    assert "smp session restore review" in smp_("session", "delete", "review", "--reason", "wrong")
    assert "purged 20" in smp_("session", "list", "--all")
    assert "smp session restore review" in smp_("list", "--session", "review", code=8)
    smp_("session", "restore", "review")
    assert "Use OAuth" in smp_("list")
    smp_("session", "delete", "review")
    assert "--yes" in smp_("session", "erase", "review", code=2)
    smp_("session", "erase", "review", "--yes")
    assert as_json(smp_, "session", "list", "--all") == []


def test_compaction_lists_removed_memories_and_one_is_restored(smp_: Any) -> None:
    aged(smp_)
    planned = smp_("compact", "--bytes", "100000", "--dry-run")
    assert "3 memories would be moved" in planned
    assert "an active decision" in planned
    assert "There is no memory in the cold segments of session review" in smp_("list", "--archived")
    done = as_json(smp_, "compact", "--bytes", "100000")
    assert done["done"]["removed"] == ["TURN-0001", "TURN-0002", "TURN-0003"]
    assert "TURN-0002" in smp_("list", "--archived")
    assert "cold segment" in smp_("stats")
    assert "cold segment" in smp_("show", "TURN-0002", code=11)
    found = smp_("query", "needle1", "--include-archived")
    assert all(told in found for told in ("needle1", "  archived\n", "smp restore review/TURN-0"))
    smp_("restore", "TURN-0002")
    smp_("restore", "TURN-0001", "TURN-0003")
    assert "needle1" in smp_("show", "TURN-0002")
    assert as_json(smp_, "list", "--archived") == []


def test_maintenance_reports_its_tasks(smp_: Any) -> None:
    aged(smp_)
    assert "would run" in smp_("maintain", "--dry-run")
    report = as_json(smp_, "maintain")
    assert [task["name"] for task in report["tasks"] if task["ran"]] == [task["name"] for task in report["tasks"]]
    assert "not due" in smp_("maintain")
    assert [task["name"] for task in as_json(smp_, "maintain", "--auto")["tasks"] if task["ran"]] == [
        "decay",
        "archive",
        "purge",
    ]
    assert "sweep" in smp_("maintain", "--only", "sweep", code=3)


def test_duplicates_are_shown_and_merged(smp_: Any) -> None:
    smp_("add", "finding", "The login has no rate limit")
    smp_("add", "finding", "The login has no rate limit at all")
    assert "FIND-0002" in smp_("duplicates")
    assert "1 group" in smp_("duplicates", "--merge")
    assert "No two" in smp_("duplicates")
    smp_("restore", "FIND-0002")
