"""`tidy` unites two folded copies of one memory, as a text merge leaves them."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory


@pytest.mark.parametrize("newer_first", [True, False])
@pytest.mark.parametrize("is_tidied", [True, False])
def test_tidy_leaves_one_entry_with_the_changes_of_both_copies(
    tmp_path: Path, newer_first: bool, is_tidied: bool
) -> None:
    memory = smp_memory.open(tmp_path / "store", layout="markdown")
    session = memory.create_session("s1", user="ada")
    session.add_decision("Stays")
    session.add_decision("Use files")
    session.update("DEC-0002", topic="one")
    session.tidy()
    path = next((tmp_path / "store").rglob("decisions.yaml"))
    start = path.read_text().index("\n  - id: DEC-0002")
    older = path.read_text()[start:]
    session.update("DEC-0002", topic="two")
    if is_tidied:
        session.tidy()
    text = path.read_text()
    before = session.history("DEC-0002"), [record.to_dict() for record in session.records()]
    path.write_text(text + older if newer_first else text[:start] + older + text[start:])

    session.tidy()

    assert path.read_text().count("decision: Use files") == 1
    fresh = smp_memory.open(tmp_path / "store").session("s1")
    assert (fresh.history("DEC-0002"), [record.to_dict() for record in fresh.records()]) == before
    assert [problem.code for problem in fresh.validate().problems] == []
    assert session.tidy().ids == []
