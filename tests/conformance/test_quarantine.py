"""Quarantined entries can be listed, shown and put back, in every layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.errors import SMPError
from smp_memory.files.layouts import NAMES
from smp_memory.model.storage_reports import QuarantinedEntry
from tests.conformance.layout_files import decisions_file, filled, opened, texts

pytestmark = pytest.mark.parametrize("layout", NAMES)
NOW = "2026-03-01T10:00:00Z"


def repaired(root: Path, layout: str) -> tuple[smp_memory.SessionMemory, Path]:
    """A session of which the second decision was damaged and set aside; the file that holds it."""
    filled(root, layout)
    path = decisions_file(root, layout)
    if layout == "markdown":
        path.write_text(path.read_text().replace("decision: Use Postgres", 'decision: "Use Postgres'))
    else:
        path.write_text(path.read_text().replace('"Use Postgres"', '"Use Postgres'))
    session = opened(root)
    session.repair()
    (aside,) = root.rglob("quarantine/*")
    return session, aside


def item(session: smp_memory.SessionMemory) -> QuarantinedEntry:
    (found,) = session.memory.store.files.quarantined()
    return found


def test_entry_that_was_corrected_in_quarantine_is_put_back(tmp_path: Path, layout: str) -> None:
    session, aside = repaired(tmp_path, layout)
    assert texts(session) == ["Use OAuth", "Use Python"]
    with pytest.raises(SMPError, match=r"Correct that file|Complete it"):
        session.memory.store.files.restore_quarantined(item(session), NOW)
    assert texts(session) == ["Use OAuth", "Use Python"]
    good = '"Use Postgres"' if layout != "markdown" else 'decision: "Use Postgres"'
    bad = good[:-1]
    aside.write_text(aside.read_text().replace(bad, good))
    assert session.memory.store.files.restore_quarantined(item(session), NOW) == ["DEC-0002"]
    assert not aside.exists()
    for seen in (session, opened(tmp_path)):
        assert sorted(texts(seen)) == ["Use OAuth", "Use Postgres", "Use Python"]
        assert seen.get("DEC-0002").decision == "Use Postgres"
        assert seen.validate().ok
    assert [hit.record.id for hit in session.query("postgres")] == ["DEC-0002"]


def test_entries_removed_by_another_program_are_put_back_once(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    before = path.read_bytes()
    session.add_decision("Lost by a checkout")
    path.write_bytes(before)
    session.add_decision("Written after it")
    (aside,) = tmp_path.rglob("quarantine/*")
    kept = aside.read_bytes()
    assert session.memory.store.files.restore_quarantined(item(session), NOW) == ["DEC-0004"]
    assert {"Lost by a checkout", "Written after it"} <= set(texts(opened(tmp_path)))
    aside.write_bytes(kept)
    with pytest.raises(SMPError, match="already"):
        session.memory.store.files.restore_quarantined(item(session), NOW)
    assert aside.exists()
    assert texts(session).count("Lost by a checkout") == 1


def test_command_lists_shows_and_puts_back(tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]) -> None:
    session, aside = repaired(tmp_path, layout)
    session.memory.close()
    root = ["--root", str(tmp_path)]
    assert main(["quarantine", "--json", *root]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [aside.name]
    assert main(["quarantine", "repair", *root]) == 0
    assert "Use Postgres" in capsys.readouterr().out
    assert main(["quarantine", "repair", "--put-back", *root]) != 0
    assert str(aside) in capsys.readouterr().err
    good = '"Use Postgres"' if layout != "markdown" else 'decision: "Use Postgres"'
    aside.write_text(aside.read_text().replace(good[:-1], good))
    assert main(["quarantine", aside.name, "--put-back", *root]) == 0
    assert "DEC-0002" in capsys.readouterr().out
    assert main(["quarantine", *root]) == 0
    assert "The quarantine is empty." in capsys.readouterr().out
