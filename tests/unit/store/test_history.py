"""The history of one memory read through the index equals that of reading the whole session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.store import file_session

LAYOUTS = pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])


@pytest.fixture(autouse=True)
def _every_session_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_session, "_LARGE_BYTES", 1)


def filled(root: Path, layout: str) -> None:
    with smp_memory.open(root, layout=layout, config={"durability": "os"}) as memory:
        session = memory.create_session("s")
        session.add_many([("turn", {"role": "user", "content": f"turn {number}"}) for number in range(20)])
        session.add_decision("Use files", rationale="they last")
        session.update("DEC-0001", rationale="they can be read")
        session.add_finding("Deleted later")
        session.delete("FIND-0001", "wrong")
        session.update_agent_state("coder", {"step": 1})
        session.update_agent_state("coder", {"step": 2})


def told(history: Any) -> Any:
    record = history.record("s")
    return record.to_dict(), record.edited, history.steps()


@LAYOUTS
def test_history_by_index_equals_history_by_reading_the_session(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "store", layout)
    with smp_memory.open(tmp_path / "store") as memory:
        memory.query("turn", limit=1)
        histories = memory.store.session("s").history().histories
        known = {name: told(history) for name, history in histories.items()}
    assert len(known) > 22
    with smp_memory.open(tmp_path / "store") as memory:
        files = memory.store.session("s")
        with monkeypatch.context() as patched:
            patched.setattr(files.reader, "catch_up", None)  # nobody reads the session for it
            found = files.history(known).histories
            assert {name: told(history) for name, history in found.items()} == known
        assert files.history(["DEC-0099"]).histories == {}


@LAYOUTS
def test_history_includes_writes_after_the_index_was_built(tmp_path: Path, layout: str) -> None:
    filled(tmp_path / "store", layout)
    with smp_memory.open(tmp_path / "store") as memory, smp_memory.open(tmp_path / "store") as other:
        memory.query("turn", limit=1)
        other.session("s").update("DEC-0001", rationale="another")
        other.session("s").add_decision("New")
        files = memory.store.session("s")
        found = files.history(["DEC-0001", "DEC-0002"]).histories
        assert [history.data()["decision"] for history in found.values()] == ["Use files", "New"]
        assert found["DEC-0001"].data()["rationale"] == "another"


def test_history_includes_an_edit_by_hand(tmp_path: Path) -> None:
    filled(tmp_path / "store", "jsonl")
    with smp_memory.open(tmp_path / "store") as memory:
        memory.query("turn", limit=1)
    path = next((tmp_path / "store").rglob("decisions.jsonl"))
    path.write_bytes(path.read_bytes().replace(b"Use files", b"Use paper"))
    with smp_memory.open(tmp_path / "store") as memory:
        history = memory.store.session("s").history(["DEC-0001"]).histories["DEC-0001"]
        assert (history.data()["decision"], history.first.state) == ("Use paper", "edited")


def test_no_index_is_built_for_a_history(tmp_path: Path) -> None:
    filled(tmp_path / "store", "jsonl")
    with smp_memory.open(tmp_path / "store") as memory:
        assert list(memory.store.session("s").history(["DEC-0001"]).histories) == ["DEC-0001"]
        assert not Path(memory.store.indexer.folder).exists()
