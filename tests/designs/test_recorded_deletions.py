"""What another program has deleted or commented in files of design 003 stays hidden and stays written."""

from __future__ import annotations

import os
from pathlib import Path

import smp_memory
from smp_memory.integrations.hooks.reader import Reader


def store_with_record(root: Path) -> None:
    with smp_memory.open(root, layout="markdown") as memory:
        session = memory.create_session("s1")
        session.add_decision("The tapir lives at 5 Elm Street")
        session.add_decision("Use plain files")
    record = root / "deleted/s1/deletion-record.yaml"
    record.parent.mkdir(parents=True)
    items = "  deleted_items:\n    - type: decision\n      id: DEC-0001\n      reason_specific: personal\n"
    record.write_text(f"deletion:\n  deleted_at: 2026-01-15T10:00:00Z\n  deleted_by: ada\n{items}")


def test_memory_in_a_record_of_another_program_is_in_no_answer_over_all_sessions(tmp_path: Path) -> None:
    store_with_record(tmp_path)
    with smp_memory.open(tmp_path) as memory:
        assert memory.query("tapir").ids == []
        assert "tapir" not in str(memory.context(task="where does the tapir live"))
        assert [each.record.id for each in memory.session("s1").deleted()] == ["DEC-0001"]
        assert memory.session("s1").restore("DEC-0001")
    with smp_memory.open(tmp_path) as memory:
        assert memory.query("tapir").ids, "restored here, so the record has no effect any more"


def test_hook_hides_recorded_deletions_before_it_recalls(tmp_path: Path) -> None:
    store_with_record(tmp_path)
    reader = Reader(str(tmp_path), dict(os.environ))
    assert reader.store.session("s1").recorded_deletions() == []


def test_figures_are_no_reason_to_lose_comments_in_metadata(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, layout="markdown") as memory:
        memory.create_session("s1").add_decision("Use plain files")
    path = tmp_path / "active/s1/metadata.yaml"
    path.write_text(path.read_text() + "# a note of mine\n")
    before = path.read_bytes()
    with smp_memory.open(tmp_path) as memory:
        memory.session("s1").add_decision("One more")
        memory.maintain()
    assert path.read_bytes() == before
