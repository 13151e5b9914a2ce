"""Who had its turn may write on without queueing; whatever happens to the session meanwhile is noticed all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import LayoutMismatch, SessionNotFound, SMPError
from smp_memory.files.layouts import NAMES

pytestmark = pytest.mark.crash


@pytest.fixture(autouse=True)
def _turns_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smp_memory.files.lock._TURN_SECONDS", 3600.0)


def stores(path: Path, layout: str) -> tuple[smp_memory.Memory, smp_memory.Memory]:
    """Two stores in one folder, as in two processes; the first is in its turn."""
    first = smp_memory.open(path / "store", layout=layout)
    first.create_session("s").add_decision("one")
    first.session("s").add_decision("two")
    return first, smp_memory.open(path / "store")


@pytest.mark.parametrize("layout", NAMES)
def test_writes_of_others_are_counted_in(tmp_path: Path, layout: str) -> None:
    first, second = stores(tmp_path, layout)
    ids = [memory.session("s").add_decision("more").id for memory in (second, first, first, second, second, first)]
    assert ids == [f"DEC-{number:04d}" for number in range(3, 9)]
    assert len(smp_memory.open(tmp_path / "store").session("s").records()) == 8


@pytest.mark.parametrize("layout", NAMES)
def test_nothing_is_written_into_a_session_that_was_deleted_meanwhile(tmp_path: Path, layout: str) -> None:
    first, second = stores(tmp_path, layout)
    session = first.session("s")
    session.add_decision("three")
    second.delete_session("s", reason="test")
    with pytest.raises(SessionNotFound):
        session.add_decision("four")
    second.undelete_session("s")
    assert [record.text for record in second.session("s").records()] == ["one", "two", "three"]


@pytest.mark.parametrize("layout", NAMES)
def test_a_session_that_was_archived_meanwhile_comes_back_with_what_is_written(tmp_path: Path, layout: str) -> None:
    first, second = stores(tmp_path, layout)
    session = first.session("s")
    session.add_decision("three")
    second.archive_session("s")
    session.add_decision("four")
    assert [record.text for record in smp_memory.open(tmp_path / "store").session("s").records()] == [
        "one",
        "two",
        "three",
        "four",
    ]


@pytest.mark.parametrize("layout", NAMES)
def test_a_store_that_was_converted_meanwhile_is_not_written_in_the_old_way(tmp_path: Path, layout: str) -> None:
    first, second = stores(tmp_path, layout)
    session = first.session("s")
    session.add_decision("three")
    second.convert("log" if layout != "log" else "single")
    with pytest.raises((LayoutMismatch, SMPError)):
        session.add_decision("four")
    assert [record.text for record in smp_memory.open(tmp_path / "store").session("s").records()] == [
        "one",
        "two",
        "three",
    ]
