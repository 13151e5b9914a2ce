"""A git merge can bring files of a session back that one clone archived and the other changed. The rest is in the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from smp_memory.errors import SessionExists
from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import decisions_file, filled, opened

pytestmark = pytest.mark.parametrize("layout", NAMES)


def with_file_back(root: Path, layout: str) -> None:
    """Archive a session; then one of its files stands in its place again, as it was before the last write."""
    session = filled(root, layout)
    path = decisions_file(root, layout)
    data = path.read_bytes()
    session.add_finding("Login has no rate limit", severity="high")
    session.update("DEC-0002", rationale="Joins")
    session.memory.archive_session("s1")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def told(root: Path) -> list[str]:
    return [each.message for each in opened(root).validate().problems if each.code == "archive_beside"]


def test_memories_that_are_only_in_the_archive_beside_a_session_are_reported(tmp_path: Path, layout: str) -> None:
    with_file_back(tmp_path, layout)
    session = opened(tmp_path)
    assert "Login has no rate limit" not in [record.text for record in session]
    assert len(told(tmp_path)) == 1
    assert "DEC-0002" in told(tmp_path)[0]
    assert "FIND-0001" in told(tmp_path)[0]
    findings = session.memory.doctor().findings
    assert [each.session for each in findings if "FIND-0001" in each.message] == ["s1"]


def test_archive_that_was_kept_beside_a_session_is_reported_as_well(tmp_path: Path, layout: str) -> None:
    with_file_back(tmp_path, layout)
    with pytest.raises(SessionExists):
        opened(tmp_path).memory.restore_session("s1")
    assert list(tmp_path.rglob("*.kept-*"))
    assert len(told(tmp_path)) == 1
    assert "FIND-0001" in told(tmp_path)[0]


def test_archive_beside_a_session_that_has_all_of_it_is_not_reported(tmp_path: Path, layout: str) -> None:
    """An interrupted step leaves it; the next step takes it away."""
    session = filled(tmp_path, layout)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and ".smp" not in path.parts}
    session.memory.archive_session("s1")
    for path, data in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert told(tmp_path) == []
