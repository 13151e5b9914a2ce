"""Conflict markers that git left in a session's metadata: the session stays readable, and both sides are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smp_memory.errors import SessionCorrupt
from smp_memory.files.layouts import NAMES, layout_named
from tests.conformance.clones import SESSION, opened
from tests.conformance.test_merge_left_by_git import merged
from tests.session_files import private_folder

pytestmark = pytest.mark.parametrize("layout", NAMES)


def change_a(session: Any) -> None:
    session.change_info(project="shop", tags=["a"], context={"phase": "design"})
    session.add("finding", finding="A: password in log", author="ada")


def change_b(session: Any) -> None:
    session.change_info(project="mall", tags=["b"], context={"phase": "review"})
    session.add("finding", finding="B: typo", author="bob")


def with_markers(tmp_path: Path, layout: str) -> tuple[Path, Path]:
    """A clone after a plain `git merge`, and the file of the metadata."""
    root = merged(tmp_path, layout, "", (change_a, change_b))[0]
    kind = layout_named(layout)
    path = Path(kind.folder(str(root), SESSION)) / (kind.info_file or f"{SESSION}.jsonl")
    assert b"<<<<<<<" in path.read_bytes()
    return root, path


def marker_line(path: Path) -> int:
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if line.startswith("<<<<<<<"))


def texts(session: Any) -> set[str]:
    return {record.finding for record in session.records("finding")}


EXPECTED = {"Common finding", "A: password in log", "B: typo"}


def test_memories_are_listed_and_found_and_metadata_is_that_of_this_clone(tmp_path: Path, layout: str) -> None:
    root, _ = with_markers(tmp_path, layout)
    session = opened(root)
    assert texts(session) == EXPECTED
    assert [hit.record.finding for hit in session.memory.query("password")] == ["A: password in log"]
    assert (session.info.project, sorted(session.info.tags)) == ("shop", ["a", "b"])
    assert session.info.context["phase"] == "design"


def test_validate_and_doctor_name_file_and_line_and_what_to_write(tmp_path: Path, layout: str) -> None:
    root, path = with_markers(tmp_path, layout)
    session = opened(root)
    (problem,) = [each for each in session.validate().problems if each.code == "head_conflict"]
    assert (problem.path, problem.line, problem.severity) == (str(path), marker_line(path), "warning")
    for words in ("'shop' or 'mall'", "'design' or 'review'", "smp git resolve"):
        assert words in problem.message
    found = [each for each in session.memory.doctor().findings if "'shop' or 'mall'" in each.message]
    assert [(each.path, each.line) for each in found] == [(str(path), marker_line(path))]


def test_reading_the_metadata_is_logged_once_without_its_content(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    root, path = with_markers(tmp_path, layout)
    for _ in range(2):
        session = opened(root)
        assert session.info.project == "shop"
        session.memory.close()
    logged = [record.getMessage() for record in caplog.records if "merge conflict" in record.getMessage()]
    assert [f"{path}:{marker_line(path)}" in text for text in logged] == [True]
    assert "shop" not in logged[0].replace(str(path), "")


def test_writes_of_memories_leave_the_markers_and_changes_of_the_metadata_are_refused(
    tmp_path: Path, layout: str
) -> None:
    root, path = with_markers(tmp_path, layout)
    session = opened(root)
    before = path.read_bytes()
    session.add("finding", finding="later", author="c")
    assert path.read_bytes().startswith(before) if layout == "single" else path.read_bytes() == before
    now = path.read_bytes()
    for change in (
        lambda: session.change_info(project="other"),
        lambda: session.set_config("storage.max_session_size_mb", 7),
        lambda: session.memory.convert("log" if layout != "log" else "jsonl"),
    ):
        with pytest.raises(SessionCorrupt, match="'shop' or 'mall'"):
            change()
    assert path.read_bytes() == now
    assert texts(session) == EXPECTED | {"later"}


def test_repair_keeps_the_value_of_this_clone_and_sets_both_sides_aside(tmp_path: Path, layout: str) -> None:
    root, path = with_markers(tmp_path, layout)
    session = opened(root)
    report = session.repair()
    assert any(f"{path}:" in action and "stays 'shop'" in action for action in report.actions)
    assert not [each for each in report.problems if each.code in ("head", "head_conflict", "conflict")]
    assert b"<<<<<<<" not in path.read_bytes()
    assert (session.info.project, sorted(session.info.tags), texts(session)) == ("shop", ["a", "b"], EXPECTED)
    kept = aside(session)
    assert b"shop" in kept
    assert b"mall" in kept
    session.change_info(project="other")
    assert opened(root).info.project == "other"


def aside(session: Any) -> bytes:
    folder = private_folder(session) / "quarantine"
    return b"".join(
        each.read_bytes() for each in folder.iterdir() if "metadata" in each.name or "manifest" in each.name
    )


def test_removing_one_side_by_hand_settles_the_conflict(tmp_path: Path, layout: str) -> None:
    root, path = with_markers(tmp_path, layout)
    kept, side = [], ""
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith(("<<<<<<<", "=======", ">>>>>>>")):
            side = line[0]
        elif side != "<" or '"type":"finding"' in line:
            kept.append(line)
    path.write_text("".join(kept))
    session = opened(root)
    assert session.info.project == "mall"
    assert not [each for each in session.validate().problems if each.code in ("head", "head_conflict")]
    assert texts(session) == EXPECTED


def test_unreadable_side_is_reported_and_the_readable_one_is_used(tmp_path: Path, layout: str) -> None:
    root, path = with_markers(tmp_path, layout)
    path.write_text(
        path.read_text().replace('"shop"', '"sh\x00op').replace("project_name: shop", "project_name: [shop")
    )
    session = opened(root)
    assert session.info.project == "mall"
    messages = [str(each) for each in session.validate().problems]
    if layout == "single":
        assert any(each.code == "damaged" for each in session.validate().problems)
    else:
        assert any("the side of this clone cannot be read" in message for message in messages)
