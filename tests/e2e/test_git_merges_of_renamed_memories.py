"""Merges by real git where two clones gave a memory of a third one different new ids."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from smp_memory.files.layouts import NAMES
from tests.e2e.git_clones import START, Clone, make_origin

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def ids(clone: Clone) -> dict[str, str]:
    return {str(record.learning): record.id for record in clone.opened().records("learning")}


@pytest.mark.parametrize("layout", NAMES)
def test_ids_that_two_clones_gave_one_memory_of_a_third_are_no_conflict(tmp_path: Path, layout: str) -> None:
    """Each clone renames what it knows; the last rename holds, and references follow."""
    origin = make_origin(tmp_path / "origin", layout)
    a, b, c = (origin.clone(name, 10 * number) for number, name in enumerate("abc", 1))
    a.write(lambda s: s.add_learning("Of a"), lambda s: s.add_learning("Of a, too"))
    b.write(lambda s: s.add_learning("Of b"))
    c.write(lambda s: s.add_learning("Of c"))
    for hours, clone, id in ((1, a, "DEC-0001"), (2, b, "FIND-0001")):
        clone.pull(c)
        clone.now = START + timedelta(hours=hours)
        target = ids(clone)["Of c"]
        clone.write(lambda s, id=id, target=target: s.relate(id, target))
    assert (ids(a)["Of c"], ids(b)["Of c"]) == ("LEARN-0003", "LEARN-0002")
    a.pull(b)
    b.pull(a)
    assert ids(a) == ids(b)
    for clone in (a, b):
        clone.now = START + timedelta(hours=3)
        assert sorted(ids(clone)) == ["Of a", "Of a, too", "Of b", "Of c"]
        assert len(set(ids(clone).values())) == 4
        for id in ("DEC-0001", "FIND-0001"):
            assert [relation["target"] for relation in clone.opened().get(id).to_dict()["relations"]] == [
                ids(clone)["Of c"]
            ]
        assert clone.problems() == []
