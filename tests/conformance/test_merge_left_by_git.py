"""A plain `git merge` of two clones: conflict markers left in the files, or `merge=union`, give the right memories."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from tests.conformance.clones import SESSION, opened, said, serious
from tests.conformance.test_merged_clones import check_both, facts, write_a, write_b

pytestmark = pytest.mark.parametrize("layout", NAMES)


def git(root: Path, *arguments: str, fails: bool = False) -> None:
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *settings, *arguments], cwd=root, check=False, capture_output=True, text=True)
    assert fails or done.returncode == 0, done.stdout + done.stderr


def merged(tmp_path: Path, layout: str, attributes: str, side: Any = (write_a, write_b)) -> list[Path]:
    """Two clones after `git merge`, in both directions."""
    base = tmp_path / "base"
    with smp_memory.open(base, layout=layout) as memory:
        session = memory.create_session(SESSION)
        session.add("finding", finding="Common finding", author="ada")
        session.add("preference", preference="tabs", key="indent", author="ada")
    (base / ".gitignore").write_text(".smp/\n")
    (base / ".gitattributes").write_text(attributes)
    git(base, "init", "-q", "-b", "main")
    git(base, "add", "-A")
    git(base, "commit", "-qm", "base")
    roots = [tmp_path / "a", tmp_path / "b"]
    for root, write in zip(roots, side, strict=True):
        git(tmp_path, "clone", "-q", str(base), str(root))
        session = opened(root)
        write(session)
        session.memory.close()
        git(root, "add", "-A")
        git(root, "commit", "-qm", root.name)
    for root, other in zip(roots, reversed(roots), strict=True):
        git(root, "fetch", "-q", str(other), "main")
    for root in roots:
        git(root, "merge", "-q", "FETCH_HEAD", "-m", "merge", fails=True)
    return roots


@pytest.mark.parametrize("style", ["", "* text conflict-marker-size=7\n"])
def test_both_sides_of_conflict_markers_are_read(tmp_path: Path, layout: str, style: str) -> None:
    seen = []
    for root in merged(tmp_path, layout, style):
        session = opened(root)
        check_both(session)
        assert {each.code for each in session.validate().problems if each.severity != "note"} == {"conflict"}
        seen.append(facts(session))
        session.add("turn", content="later", author="c")
        check_both(session)
        session.repair()
        check_both(session)
        assert serious(session) == []
    assert seen[0] == seen[1]


def test_union_of_lines_gives_the_right_memories_or_reports_damage(tmp_path: Path, layout: str) -> None:
    for root in merged(tmp_path, layout, "*.jsonl merge=union\n*.yaml merge=union\n*.md merge=union\n"):
        session = opened(root)
        report = session.validate()
        if report.ok:
            check_both(session)
            session.add("turn", content="later", author="c")
            check_both(session)
            assert serious(session) == []
            continue
        found = facts(session)
        expected = {"A: password in log": "open", "B: typo": "resolved"}
        for text, status in expected.items():
            assert text not in found or found[text][1] in (status, "open")
        assert set(found) <= {"Common finding", "tabs", *expected, "A decides", "B decides"}
        assert said(session.get("FIND-0001")) == "Common finding"
