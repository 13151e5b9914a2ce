"""A hand edit of an entry that a later change overlays is reported and can be made the newest value."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import decisions_file, filled, line_of, opened

pytestmark = pytest.mark.parametrize("layout", NAMES)


def overlaid(root: Path, layout: str) -> tuple[smp_memory.SessionMemory, Path, int]:
    """DEC-0002 was changed by SMP, then its first entry in an editor."""
    session = filled(root, layout)
    session.update("DEC-0002", decision="Use MySQL")
    session.memory.close()
    path = decisions_file(root, layout)
    path.write_text(path.read_text().replace("Use Postgres", "Use SQLite"))
    line = line_of(path, "Use SQLite" if layout != "markdown" else "id: DEC-0002")
    return opened(root), path, line


def test_validate_names_the_edit_and_the_change_that_overlays_it(tmp_path: Path, layout: str) -> None:
    session, path, line = overlaid(tmp_path, layout)
    assert session.get("DEC-0002").decision == "Use MySQL"
    (problem,) = [each for each in session.validate().problems if each.code == "overlaid"]
    assert (problem.path, problem.line, problem.severity, problem.id) == (str(path), line, "warning", "DEC-0002")
    later = line_of(path, "Use MySQL")
    if layout == "markdown":
        lines = path.read_text().splitlines()
        later = max(n for n, text in enumerate(lines, 1) if text.startswith("  - id: DEC-0002"))
    assert f"overwritten by revision 2 at line {later}" in problem.message
    assert "smp edit --adopt DEC-0002" in problem.message


def test_adopt_makes_the_edited_value_the_newest(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session, _, line = overlaid(tmp_path, layout)
    session.memory.close()
    root = ["--root", str(tmp_path)]
    assert main(["show", "DEC-0002", *root]) == 0
    assert f"line {line}" in capsys.readouterr().out
    assert main(["edit", "--adopt", "DEC-0002", *root]) == 0
    capsys.readouterr()
    session = opened(tmp_path)
    assert session.get("DEC-0002").decision == "Use SQLite"
    assert [each for each in session.validate().problems if each.code == "overlaid"] == []
    assert main(["edit", "--adopt", "DEC-0002", *root]) == 0
    assert "nothing changed" in capsys.readouterr().out


def test_history_names_a_hand_edit_and_not_the_author(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session, _, _ = overlaid(tmp_path, layout)
    first, second = session.history("DEC-0002")
    assert (first["by"], first["edited_by_hand"]) == (None, True)
    assert "edited_by_hand" not in second
    assert session.history("DEC-0001")[0]["by"] == "ada"
    session.memory.close()
    assert main(["history", "DEC-0002", "--root", str(tmp_path)]) == 0
    assert "edited by hand since" in capsys.readouterr().out


def test_conversion_keeps_edited_entries(tmp_path: Path, layout: str) -> None:
    session, _, _ = overlaid(tmp_path, layout)
    memory = session.memory.convert("jsonl" if layout != "jsonl" else "log")
    assert memory.session("s1").get("DEC-0002").decision == "Use MySQL"


def test_uses_are_not_counted_in_the_revision_that_overlays_an_edit(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.get("DEC-0002")
    session.memory.maintain(only=["access"])
    session.update("DEC-0002", decision="Use MySQL")
    session.memory.close()
    path = decisions_file(tmp_path, layout)
    path.write_text(path.read_text().replace("Use Postgres", "Use SQLite"))
    session = opened(tmp_path)
    assert session.get("DEC-0002").access["count"] == 1
    (problem,) = [each for each in session.validate().problems if each.code == "overlaid"]
    assert "overwritten by revision 2 " in problem.message
