"""A store that another process converts while it is open."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import LayoutMismatch
from smp_memory.files.layouts import NAMES


@pytest.mark.parametrize(("before", "after"), list(permutations(NAMES, 2)))
def test_reading_a_store_that_was_converted_meanwhile_is_refused(tmp_path: Path, before: str, after: str) -> None:
    """It looked empty: `records` and `query` found nothing, and a program began anew."""
    with smp_memory.open(tmp_path / "store", layout=before) as memory:
        session = memory.session("s", create=True)
        session.add_turn("user", "one")
        smp_memory.open(tmp_path / "store").convert(after).close()
        for read in (
            session.records,
            lambda: session.records("turn", last=1),
            memory.sessions,
            lambda: memory.query("one"),
        ):
            with pytest.raises(LayoutMismatch):
                read()
    with smp_memory.open(tmp_path / "store") as memory:
        assert [hit.record.text for hit in memory.query("one")] == ["one"]
