"""Merges by real git where one clone ran `smp tidy` first: its markdown files hold folded entries, those of the other do not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.git_clones import Clone, make_origin
from tests.e2e.test_git_merges import MARKERS

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

drivers = pytest.mark.parametrize("attributes", [None, ""], ids=["driver", "plain"])
directions = pytest.mark.parametrize("tidied_pulls", [True, False], ids=["tidied_pulls", "other_pulls"])


def clones(folder: Path, attributes: str | None) -> tuple[Clone, Clone]:
    """Two clones of a store in which a finding and a decision were changed, a decision twice."""
    origin = make_origin(folder / "origin", "markdown", attributes)
    origin.write(
        lambda s: s.update("DEC-0001", rationale="first"),
        lambda s: s.update("DEC-0001", rationale="second", topic="login"),
        lambda s: s.update("FIND-0001", category="security"),
        lambda s: s.add_decision("Untouched"),
    )
    return origin.clone("a", 10), origin.clone("b", 20)


def merged(a: Clone, b: Clone, tidied_pulls: bool, fails: bool) -> Clone:
    mine, other = (a, b) if tidied_pulls else (b, a)
    mine.now = max(a.now, b.now)
    mine.pull(other, fails=fails)
    return mine


def tidy(session: Any) -> None:
    assert session.tidy().ids


def without_markers(clone: Clone) -> None:
    for name, data in clone.files().items():
        lines = [line for line in data.splitlines(keepends=True) if not line.startswith(MARKERS)]
        (clone.root / name).write_bytes(b"".join(lines))


def rationales(clone: Clone) -> list[Any]:
    steps = clone.opened().history("DEC-0001")
    return [step["changes"]["rationale"]["to"] for step in steps if "rationale" in step.get("changes", {})]


def has_markers(clone: Clone) -> bool:
    return any(line.startswith(MARKERS) for data in clone.files().values() for line in data.splitlines())


@directions
@drivers
def test_new_change_of_a_memory_that_the_other_clone_folded_is_kept(
    tmp_path: Path, attributes: str | None, tidied_pulls: bool
) -> None:
    a, b = clones(tmp_path, attributes)
    a.write(tidy)
    b.write(
        lambda s: s.update("DEC-0001", rationale="third"),
        lambda s: s.update("FIND-0001", severity="low"),
        lambda s: s.add_decision("B decides"),
    )
    clone = merged(a, b, tidied_pulls, fails=attributes is not None)
    assert_history_is_whole(clone)
    if has_markers(clone):
        clone.opened().repair()
    assert_history_is_whole(clone)
    clone.write(lambda s: s.update("DEC-0001", rationale="fourth"), commit=None)
    assert rationales(clone) == ["first", "second", "third", "fourth"]
    assert clone.problems() == []


def assert_history_is_whole(clone: Clone) -> None:
    session = clone.opened()
    assert rationales(clone) == ["first", "second", "third"]
    decision, finding = session.get("DEC-0001"), session.get("FIND-0001")
    assert (decision.rationale, decision.topic, decision.revision) == ("third", "login", 4)
    assert (finding.category, finding.severity, finding.revision) == ("security", "low", 3)
    assert {"Use OAuth", "Untouched", "B decides"} <= set(clone.texts())
    assert len(clone.texts()) == 6


@directions
def test_conflict_over_a_field_of_a_folded_entry_keeps_the_shared_history_on_both_sides(
    tmp_path: Path, tidied_pulls: bool
) -> None:
    a, b = clones(tmp_path, None)
    a.write(lambda s: s.update("DEC-0001", rationale="of a"), tidy)
    b.write(lambda s: s.update("DEC-0001", rationale="of b"), lambda s: s.add_decision("B decides"))
    clone = merged(a, b, tidied_pulls, fails=True)
    assert has_markers(clone)
    assert sorted(rationales(clone)) == ["first", "of a", "of b", "second"]
    assert {"Use OAuth", "Untouched", "B decides"} <= set(clone.texts())
    for side, name in (("--ours", "ab"[not tidied_pulls]), ("--theirs", "ab"[tidied_pulls])):
        conflict = (clone.root / "active/s1/decisions.yaml").read_bytes()
        take(clone, side)
        assert rationales(clone) == ["first", "second", f"of {name}"], side
        assert {"Use OAuth", "Untouched", "B decides"} <= set(clone.texts())
        assert clone.problems() == []
        (clone.root / "active/s1/decisions.yaml").write_bytes(conflict)
    without_markers(clone)
    assert sorted(rationales(clone)) == ["first", "of a", "of b", "second"]
    clone.write(lambda s: s.update("DEC-0001", rationale="settled"), commit=None)
    clone.opened().repair()
    assert sorted(rationales(clone)) == ["first", "of a", "of b", "second", "settled"]
    assert clone.opened().get("DEC-0001").rationale == "settled"
    assert [problem for problem in clone.problems() if not problem.startswith("quarantine")] == []


def take(clone: Clone, side: str) -> None:
    """Settle the conflicts in favour of one side, as an editor does: between the markers only."""
    path = clone.root / "active/s1/decisions.yaml"
    kept, now = [], ""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.startswith(MARKERS):
            now = {b"<": "--ours", b"=": "--theirs", b">": ""}[line[:1]]
        elif now in ("", side):
            kept.append(line)
    path.write_bytes(b"".join(kept))


@directions
@drivers
def test_changes_that_both_clones_folded_are_all_kept(
    tmp_path: Path, attributes: str | None, tidied_pulls: bool
) -> None:
    a, b = clones(tmp_path, attributes)
    a.write(lambda s: s.update("DEC-0001", rationale="of a"), tidy)
    b.write(lambda s: s.update("DEC-0001", topic="of b"), lambda s: s.add_decision("B decides"), tidy)
    clone = merged(a, b, tidied_pulls, fails=attributes is not None)
    if attributes is None:
        assert not has_markers(clone)
        assert clone.problems() == []
    assert {"Use OAuth", "Untouched", "B decides"} <= set(clone.texts())
    record = clone.opened().get("DEC-0001")
    assert (record.rationale, record.topic) == ("of a", "of b")
    assert rationales(clone) == ["first", "second", "of a"]
    clone.opened().repair()
    record = clone.opened().get("DEC-0001")
    assert (record.rationale, record.topic) == ("of a", "of b")
    assert rationales(clone) == ["first", "second", "of a"]


@directions
def test_first_changes_of_different_fields_that_both_clones_folded_merge_without_a_conflict(
    tmp_path: Path, tidied_pulls: bool
) -> None:
    """Maintenance folds daily in each clone; that must not make conflicts of changes that are none."""
    a, b = clones(tmp_path, None)
    a.write(
        lambda s: s.update("DEC-0002", rationale="of a"),
        lambda s: s.add_artifact("plan.md", "# Plan"),
        tidy,
    )
    b.pull(a)
    a.write(lambda s: s.update("DEC-0002", impact="of a"), lambda s: s.update("ART-0001", format="md"), tidy)
    b.write(lambda s: s.update("DEC-0002", topic="of b"), lambda s: s.update("ART-0001", topic="plans"), tidy)
    clone = merged(a, b, tidied_pulls, fails=False)
    assert not has_markers(clone)
    decision, artifact = clone.opened().get("DEC-0002"), clone.opened().get("ART-0001")
    assert (decision.rationale, decision.impact, decision.topic) == ("of a", "of a", "of b")
    assert (artifact.content, artifact.format, artifact.topic) == ("# Plan", "md", "plans")
    assert [step["op"] for step in clone.opened().history("DEC-0002")] == ["put", "change", "change", "change"]
    assert clone.problems() == []
    clone.write(tidy, commit=None)
    assert clone.opened().get("DEC-0002").to_dict() == decision.to_dict()
    assert clone.problems() == []


def test_folded_and_picked_changes_of_one_memory_merge_without_a_conflict(tmp_path: Path) -> None:
    """After a cherry-pick git knows no common version of the changes: one clone folded them, in the other they stand alone."""
    a, b = clones(tmp_path, None)
    b.write(lambda s: s.add_learning("Reviews find more"), lambda s: s.update("LEARN-0001", topic="work"))
    b.write(lambda s: s.update("DEC-0001", rationale="third"))
    a.write(lambda s: s.add_finding("Of a"))
    for commit in ("HEAD~1", "HEAD"):
        a.git("fetch", "--quiet", str(b.folder), "HEAD")
        a.git("cherry-pick", b.git("rev-parse", commit).strip())
    a.now = b.now
    a.write(lambda s: s.update("LEARN-0001", category="team"), lambda s: s.update("DEC-0001", rationale="fourth"), tidy)
    b.write(lambda s: s.update("LEARN-0001", importance=0.9))
    for mine, other in ((a, b), (b, a)):
        mine.pull(other)
        assert not has_markers(mine)
        learning = mine.opened().get("LEARN-0001")
        assert (learning.topic, learning.category, learning.importance) == ("work", "team", 0.9)
        assert rationales(mine) == ["first", "second", "third", "fourth"]
        assert mine.problems() == []


def test_change_of_a_memory_that_both_clones_have_folded_alike_is_no_conflict(tmp_path: Path) -> None:
    """The folded entry differs from the common version on both sides, in the same way."""
    a, b = clones(tmp_path, None)
    a.write(lambda s: s.update("DEC-0002", rationale="of a"), tidy)
    b.write(lambda s: s.add_finding("Of b"))
    b.git("fetch", "--quiet", str(a.folder), "HEAD")
    b.git("cherry-pick", a.git("rev-parse", "HEAD").strip())
    b.now = max(a.now, b.now)
    b.write(lambda s: s.update("DEC-0002", rationale="of b, who knows"))
    a.write(lambda s: s.add_decision("A decides"))
    for mine, other in ((a, b), (b, a)):
        mine.pull(other)
        assert not has_markers(mine)
        assert mine.opened().get("DEC-0002").rationale == "of b, who knows"
        assert mine.problems() == []


@directions
def test_one_field_that_both_clones_changed_and_folded_is_a_conflict(tmp_path: Path, tidied_pulls: bool) -> None:
    a, b = clones(tmp_path, None)
    a.write(lambda s: s.update("DEC-0001", rationale="of a"), tidy)
    b.write(lambda s: s.update("DEC-0001", rationale="of b"), tidy)
    clone = merged(a, b, tidied_pulls, fails=True)
    assert sorted(rationales(clone)) == ["first", "of a", "of b", "second"]
    for side, name in (("--ours", "ab"[not tidied_pulls]), ("--theirs", "ab"[tidied_pulls])):
        conflict = (clone.root / "active/s1/decisions.yaml").read_bytes()
        take(clone, side)
        assert rationales(clone) == ["first", "second", f"of {name}"], side
        assert clone.problems() == []
        (clone.root / "active/s1/decisions.yaml").write_bytes(conflict)


@directions
@drivers
def test_deletion_of_a_memory_that_the_other_clone_folded_is_kept(
    tmp_path: Path, attributes: str | None, tidied_pulls: bool
) -> None:
    a, b = clones(tmp_path, attributes)
    a.write(tidy)
    b.write(lambda s: s.delete("FIND-0001", reason="done"))
    clone = merged(a, b, tidied_pulls, fails=attributes is not None)
    assert "No rate limit" not in clone.texts()
    history = clone.opened().history("FIND-0001")
    assert [step["op"] for step in history] == ["put", "change", "delete"]
    if attributes is None:
        assert clone.problems() == []


@drivers
def test_two_clones_that_fold_the_same_changes_merge_without_a_conflict(tmp_path: Path, attributes: str | None) -> None:
    a, b = clones(tmp_path, attributes)
    a.write(tidy)
    b.write(tidy)
    clone = merged(a, b, True, fails=False)
    assert rationales(clone) == ["first", "second"]
    assert clone.problems() == []
