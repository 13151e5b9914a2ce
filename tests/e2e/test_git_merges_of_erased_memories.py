"""Merges by real git of a clone that changed a memory with one that erased it: the conflict holds the memory whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from smp_memory.files.layouts import NAMES
from tests.e2e.git_clones import Clone, make_origin

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>")
OTHERS = ["How do customers log in?", "No rate limit", "Untouched", "veritas"]


def merged(folder: Path, layout: str, erasing_pulls: bool) -> Clone:
    origin = make_origin(folder / "origin", layout)
    origin.write(lambda s: s.update("DEC-0001", rationale="first"), lambda s: s.add_decision("Untouched"))
    changing, erasing = origin.clone("a", 10), origin.clone("b", 20)
    changing.write(lambda s: s.update("DEC-0001", topic="login"))
    erasing.write(lambda s: s.erase("DEC-0001"))
    clone, other = (erasing, changing) if erasing_pulls else (changing, erasing)
    clone.pull(other, fails=True)
    return clone


def take(clone: Clone, ours: bool) -> None:
    """Settle the conflicts in favour of one side, as an editor does: between the markers only."""
    for name, data in clone.files().items():
        kept, now = [], None
        for line in data.splitlines(keepends=True):
            if line.startswith(MARKERS):
                now = {b"<": True, b"=": False, b">": None}[line[:1]]
            elif now in (None, ours):
                kept.append(line)
        (clone.root / name).write_bytes(b"".join(kept))


def assert_whole(clone: Clone) -> None:
    record = clone.opened().get("DEC-0001")
    assert (record.text, record.rationale, record.topic) == ("Use OAuth", "first", "login")
    assert clone.texts() == sorted([*OTHERS, "Use OAuth"])


@pytest.mark.parametrize("erasing_pulls", [False, True], ids=["changing side pulls", "erasing side pulls"])
@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("settled", ["change", "erasure", "repair"])
def test_memory_changed_in_one_clone_and_erased_in_the_other_is_whole_on_one_side_of_the_conflict(
    tmp_path: Path, layout: str, erasing_pulls: bool, settled: str
) -> None:
    clone = merged(tmp_path, layout, erasing_pulls)
    assert_whole(clone)
    if settled == "repair":
        clone.opened().repair()
        assert_whole(clone)
        return
    take(clone, ours=(settled == "change") is not erasing_pulls)
    if settled == "change":
        assert_whole(clone)
    else:
        assert clone.texts() == sorted(OTHERS)
        assert not any(b"Use OAuth" in data for data in clone.files().values())
    assert [problem for problem in clone.problems() if not problem.startswith("missing_entries")] == []
