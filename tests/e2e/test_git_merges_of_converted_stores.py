"""A git merge of a clone that converted the store with one that added sessions in the old layout: files that nobody reads."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.files.layouts import NAMES
from tests.e2e.git_clones import Clone, make_origin

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def merged(folder: Path, old: str, new: str) -> Clone:
    """One clone adds a session and a type of memory in the old layout, the other converts and adds a decision."""
    origin = make_origin(folder / "origin", old)
    a, b = origin.clone("a", 10), origin.clone("b", 20)
    with smp_memory.open(a.root) as memory:
        memory.create_session("s2", user="ada").add_decision("A decides in s2")
        memory.create_session("s3", project="empty")
    a.write(lambda s: s.add("learning", learning="A learns"), lambda s: s.add_finding("A finds"))
    with smp_memory.open(b.root) as memory:
        memory.convert(new)
    b.write(lambda s: s.add_decision("B decides"))
    a.git("fetch", "-q", str(b.folder), "master")
    conflicts = a.git("-c", "merge.renames=false", "merge", "-q", "--no-edit", "FETCH_HEAD", fails=True)
    assert "modify/delete" in conflicts  # git keeps the changed files of the old layout
    a.git("add", "-A")
    a.git("commit", "-qm", "merged")
    return a


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(NAMES, 2)))
def test_sessions_of_another_layout_are_reported_and_taken_in(
    tmp_path: Path, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = merged(tmp_path, old, new)
    with smp_memory.open(clone.root) as memory:
        assert memory.layout == new
        reports = memory.validate()
        assert {name for name, report in reports.items() if not report.ok} == {"s1", "s2", "s3"}
        for report in reports.values():
            (problem,) = [problem for problem in report.problems if problem.code == "other_layout"]
            assert f"the layout {old} " in problem.message
            assert f"smp convert --to {new}" in problem.message
        health = memory.doctor(quick=True)
        (check,) = [check for check in health.checks if check.name == "layouts"]
        assert [finding.session for finding in check.findings] == ["s1", "s2", "s3"]
    root = ["--root", str(clone.root)]
    assert main(["validate", "--all", *root]) == 41
    assert main(["list", "--session", "s1", *root]) == 0
    assert f"of the layout {old} are not read" in capsys.readouterr().err
    other = next(name for name in NAMES if name not in (old, new))
    before = clone.files()
    for target in (old, other):
        assert main(["convert", "--to", target, *root]) != 0
    assert clone.files() == before
    capsys.readouterr()
    assert main(["convert", "--to", new, *root]) == 0
    assert "s1, s2, s3" in capsys.readouterr().out
    assert_taken_in(clone)


def assert_taken_in(clone: Clone) -> None:
    expected = {"A finds", "A learns", "B decides", "How do customers log in?", "No rate limit", "Use OAuth", "veritas"}
    assert clone.texts() == sorted(expected)
    with smp_memory.open(clone.root) as memory:
        assert [record.text for record in memory.session("s2").records()] == ["A decides in s2"]
        assert memory.session("s2").info.user == "ada"
        assert memory.session("s3").info.project == "empty"
        for name, report in memory.validate().items():
            assert [problem for problem in report.problems if problem.severity != "note"] == [], name
        memory.session("s1").add_finding("later")
    assert clone.texts() == sorted({*expected, "later"})


@pytest.mark.parametrize("layout", NAMES)
def test_store_of_one_layout_has_no_unread_sessions(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = make_origin(tmp_path / "origin", layout)
    (clone.root / "notes.jsonl").write_text('{"a": 1}\n')  # not a session
    root = ["--root", str(clone.root)]
    if layout != "single":
        assert main(["validate", "--all", *root]) == 0
    assert main(["list", "--session", "s1", *root]) == 0
    assert "not read" not in capsys.readouterr().err
