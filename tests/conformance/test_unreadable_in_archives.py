"""Entries of archived sessions that cannot be read are named by the archive and its member."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.files.layouts import NAMES
from smp_memory.observe import incomplete
from tests.conformance.layout_files import filled
from tests.conformance.test_incomplete_answers import damaged

pytestmark = pytest.mark.parametrize("layout", NAMES)


def test_archiving_reports_unreadable_entries(tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, line = damaged(tmp_path, layout)
    assert main(["session", "archive", "s1", "--json", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    archive = json.loads(printed.out)["path"]
    assert f"{archive}:{path.name}:{line}" in printed.err
    assert "smp session restore s1" in printed.err
    assert str(path) not in printed.err


def test_archiving_an_undamaged_session_reports_nothing(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(tmp_path, layout)
    assert main(["session", "archive", "s1", "--root", str(tmp_path)]) == 0
    assert "cannot be read" not in capsys.readouterr().err


def test_query_of_archives_names_archive_and_member(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path, line = damaged(tmp_path, layout)
    with smp_memory.open(tmp_path) as memory:
        archive = memory.archive_session("s1").path
    where = f"{archive}:{path.name}"
    assert main(["query", "python", "--include-archived", "--json", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    problems = json.loads(printed.out)["problems"]
    assert [(each["path"], each["line"], each["archived"]) for each in problems] == [(where, line, "s1")]
    assert f"{where}:{line}" in printed.err
    assert "smp session restore s1" in printed.err
    assert "/away" not in printed.err
    incomplete._logged.clear()
    with smp_memory.open(tmp_path) as memory, caplog.at_level(logging.WARNING, logger="smp_memory"):
        for _ in range(2):  # the second time from what is kept in RAM
            assert [each.path for each in memory.query("python", include_archived=True).problems] == [where]
    assert where in caplog.text
    assert "/away" not in caplog.text


@pytest.mark.parametrize("damage", ["truncated", "garbage", "a folder"])
def test_query_says_that_a_damaged_archive_was_searched_by_its_summary_only(
    tmp_path: Path, layout: str, damage: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, layout)
    with smp_memory.open(tmp_path) as memory:
        archive = Path(memory.archive_session("s1").path)
    content = archive.read_bytes()
    archive.unlink()
    if damage == "a folder":
        archive.mkdir()
    else:
        archive.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"\xff\xfe garbage")
    assert main(["query", "python", "--include-archived", "--json", "--root", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    problems = json.loads(printed.out)["problems"]
    assert [(each["path"], each["code"], each["archived"]) for each in problems] == [
        (str(archive), "archive_unreadable", "s1")
    ]
    assert printed.err.count(str(archive)) == 1
    assert "only its summary was searched" in printed.err
    incomplete._logged.clear()
    caplog.clear()
    with smp_memory.open(tmp_path) as memory, caplog.at_level(logging.WARNING, logger="smp_memory"):
        for _ in range(2):  # the second time from what is kept in RAM
            assert [each.path for each in memory.query("python", include_archived=True).problems] == [str(archive)]
    assert caplog.text.count(str(archive)) == 1
