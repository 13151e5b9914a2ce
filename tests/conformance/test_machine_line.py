"""The machine line of an entry: entries stay readable when a person removes, copies or omits it."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from tests.session_files import storage_of


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return smp_memory.open(str(tmp_path / "store"), layout="markdown")


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    session = memory.create_session("s")
    session.add_decision("one")
    session.add_decision("two")
    session.add_turn("user", "first turn")
    session.add_turn("user", "last turn")
    return session


def edit(session: SessionMemory, name: str, old: str, new: str) -> None:
    path = Path(session.folder, name)
    text = path.read_text()
    start = text.rindex(old)
    path.write_text(text[:start] + new)


@pytest.mark.parametrize(("name", "mark"), [("decisions.yaml", "    smp: "), ("conversation.md", "<!-- end ")])
@pytest.mark.parametrize("more", ["", "\n\n" + "x" * 500])
def test_last_entry_without_its_machine_line_is_kept(
    memory: Memory, session: SessionMemory, name: str, mark: str, more: str
) -> None:
    edit(session, name, mark, more.replace("x", "# ") if name.endswith("yaml") else more)
    for each in (session, smp_memory.open(memory.root).session("s")):
        assert [record.text for record in each.records("decision")] == ["one", "two"]
        assert [record.text[:9] for record in each.records("conversation")] == ["first tur", "last turn"]
    session.add_decision("three")
    session.add_turn("user", "and another")
    assert [record.text for record in session.records("decision")] == ["one", "two", "three"]
    assert [record.text[:9] for record in session.records("conversation")] == ["first tur", "last turn", "and anoth"]
    assert [problem.code for problem in session.validate().problems] == ["edited"]


def test_time_is_written_in_whole_seconds_and_read_back_exactly(session: SessionMemory) -> None:
    record = session.get("DEC-0001")
    text = Path(session.folder, "decisions.yaml").read_text()
    assert f"timestamp: {record.to_dict()['created'][:19]}Z" in text
    assert smp_memory.open(session.memory.root).session("s").get("DEC-0001").created == record.created


@pytest.mark.parametrize(("name", "mark"), [("decisions.yaml", "    smp: "), ("conversation.md", "<!-- end ")])
def test_last_entry_whose_machine_line_was_cut_keeps_text_number_and_identity(
    memory: Memory, session: SessionMemory, name: str, mark: str
) -> None:
    """Another program cut the file at any byte of the line; the notes tell that the entry was whole."""
    path = Path(session.folder, name)
    data = path.read_bytes()
    start = data.rindex(mark.encode())
    end = data.index(b"\n", start)
    before = [(record.id, record.text) for record in session.records()]
    for cut in range(start + 4, end + 1):
        path.write_bytes(data[:cut])
        reader = smp_memory.open(memory.root).session("s")
        assert [(record.id, record.text) for record in reader.records()] == before, data[start:cut]
        session_history = storage_of(reader).reader.catch_up()
        (history,) = [
            session_history.histories[id]
            for id in ("TURN-0002", "DEC-0002")
            if session_history.histories[id].first.file == str(path)
        ]
        assert history.first.seq == {"DEC-0002": 2, "TURN-0002": 4}[history.first.id]
        assert history.first.uid in (
            "",
            storage_of(session).reader.session_history.histories[history.first.id].first.uid,
        )
