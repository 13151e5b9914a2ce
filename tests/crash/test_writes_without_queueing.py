"""A process that wrote last may write again without queueing, and notices what other processes did to the session meanwhile."""

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
def test_ids_continue_after_writes_of_another_process(tmp_path: Path, layout: str) -> None:
    first, second = stores(tmp_path, layout)
    ids = [memory.session("s").add_decision("more").id for memory in (second, first, first, second, second, first)]
    assert ids == [f"DEC-{number:04d}" for number in range(3, 9)]
    assert len(smp_memory.open(tmp_path / "store").session("s").records()) == 8


@pytest.mark.parametrize("layout", NAMES)
def test_write_to_a_session_deleted_meanwhile_is_rejected(tmp_path: Path, layout: str) -> None:
    first, second = stores(tmp_path, layout)
    session = first.session("s")
    session.add_decision("three")
    second.delete_session("s", reason="test")
    with pytest.raises(SessionNotFound):
        session.add_decision("four")
    second.undelete_session("s")
    assert [record.text for record in second.session("s").records()] == ["one", "two", "three"]


@pytest.mark.parametrize("layout", NAMES)
def test_write_to_a_session_archived_meanwhile_restores_it(tmp_path: Path, layout: str) -> None:
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
def test_write_to_a_store_converted_meanwhile_does_not_use_the_old_layout(tmp_path: Path, layout: str) -> None:
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
