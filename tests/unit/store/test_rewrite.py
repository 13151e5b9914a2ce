"""Rewrites remove or replace entries for good, and everything else stays as it was."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SessionCorrupt
from smp_memory.files.reader import SessionReader
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from smp_memory.store.rewrite import Rewritten, SessionEdit, entries_of, private_name, rewrite

LAYOUTS = ("jsonl", "markdown", "single", "log")


@pytest.fixture(params=LAYOUTS)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    return smp_memory.open(str(tmp_path / "store"), layout=request.param)


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    session = memory.create_session("s", project="p")
    session.add_turn("user", "first turn")
    session.add_decision("Keep", rationale="because")
    session.add_decision("Drop", rationale="needle")
    session.add_turn("assistant", "second turn")
    with session.transaction() as tx:
        tx.add_decision("Drop too, with others")
        tx.add_finding("stays, of a transaction", severity="low")
        tx.add_decision("stays too")
    session.add_artifact("a.md", "# needle")
    session.update_agent_state("coder", {"step": 1})
    session.update("DEC-0002", rationale="another needle")
    session.delete("DEC-0002", "wrong")
    return session


def take_out(session: SessionMemory, *ids: str) -> Rewritten:
    def edit(reader: SessionReader) -> SessionEdit:
        wanted = SessionEdit()
        for entry in entries_of(reader, ids):
            wanted.remove(entry)
        return wanted

    return rewrite(session._storage, "taking out", edit)


def everything(session: SessionMemory) -> dict[str, Any]:
    return {record.id: record.to_dict() for record in session.records(include_deleted=True)}


def all_bytes(memory: Memory) -> bytes:
    found = b""
    for folder, _, names in os.walk(memory.root):
        for name in names:
            found += Path(folder, name).read_bytes()
    return found


def test_removed_entries_are_gone_and_others_unchanged(memory: Memory, session: SessionMemory) -> None:
    before = everything(session)
    done = take_out(session, "DEC-0002", "DEC-0003", "ART-0001")
    for gone in ("DEC-0002", "DEC-0003", "ART-0001"):
        del before[gone]
    assert everything(session) == before
    assert everything(smp_memory.open(memory.root).session("s")) == before
    assert done.removed == 5
    assert done.bytes_after < done.bytes_before
    assert done.names
    assert b"needle" not in all_bytes(memory)
    assert session.validate().problems == []


def test_numbers_of_removed_entries_are_not_reused(memory: Memory, session: SessionMemory) -> None:
    take_out(session, *everything(session))
    for folder, _, names in os.walk(memory.root):
        for name in names:
            if name == "lock":
                os.unlink(os.path.join(folder, name))  # the notes are only a cache
    fresh = smp_memory.open(memory.root).session("s")
    assert everything(fresh) == {}
    assert fresh.add_decision("new").id == "DEC-0005"
    assert fresh.add_turn("user", "new").id == "TURN-0003"
    assert fresh.info.generation == 1
    assert fresh.info.project == "p"
    assert fresh.validate().problems == []


def test_entry_is_replaced(memory: Memory, session: SessionMemory) -> None:
    before = everything(session)

    def edit(reader: SessionReader) -> SessionEdit:
        wanted = SessionEdit()
        for name in ("DEC-0002", "FIND-0001", "ART-0001", "TURN-0001"):
            for entry in reader.session_history.histories[name].entries:
                new = entry.copy()
                new.data = {
                    key: value.replace("needle", "[gone]") if isinstance(value, str) else value
                    for key, value in entry.data.items()
                }
                wanted.replace(entry, new)
        return wanted

    done = rewrite(session._storage, "redacting", edit)
    assert done.replaced == 6
    assert done.removed == 0
    after = everything(session)
    assert after.keys() == before.keys()
    assert after["DEC-0002"]["rationale"] == "another [gone]"
    assert after["TURN-0001"] == before["TURN-0001"]
    assert b"needle" not in all_bytes(memory)
    assert session.validate().problems == []
    assert everything(smp_memory.open(memory.root).session("s")) == after


def test_further_files_are_written_and_removed_in_the_same_plan(memory: Memory, session: SessionMemory) -> None:
    def edit(value: bytes | None) -> Callable[[SessionReader], SessionEdit]:
        def made(reader: SessionReader) -> SessionEdit:
            wanted = SessionEdit()
            wanted.files = {private_name(reader, "beside.bin"): value}
            return wanted

        return made

    path = os.path.join(session._storage.reader.private, "beside.bin")
    before = everything(session)
    rewrite(session._storage, "adding", edit(b"\xff\x00"))
    assert Path(path).read_bytes() == b"\xff\x00"
    rewrite(session._storage, "taking away", edit(None))
    assert not os.path.exists(path)
    assert everything(session) == before


def test_empty_edit_writes_nothing(memory: Memory, session: SessionMemory) -> None:
    assert rewrite(session._storage, "nothing", lambda reader: None).names == []
    assert rewrite(session._storage, "nothing", lambda reader: SessionEdit()).names == []
    assert session.info.generation == 0


def test_text_of_people_stays(memory: Memory, session: SessionMemory) -> None:
    if memory.config.layout != "markdown":
        return
    path = Path(session._storage.reader.folder, "decisions.yaml")
    text = path.read_text()
    place = text.index("\n  - id: DEC-0002")
    path.write_text(text[:place] + "\n  # a remark of mine\n" + text[place:])
    take_out(session, "DEC-0001", "DEC-0002")
    left = path.read_text()
    assert left.startswith(text[: text.index("decisions:")])
    assert "# a remark of mine" in left
    assert "DEC-0002" not in left
    assert "DEC-0001" not in left
    assert "DEC-0004" in left


def test_entry_typed_next_to_a_removed_one_stays(memory: Memory, session: SessionMemory) -> None:
    if memory.config.layout != "jsonl":
        return
    path = Path(session._storage.reader.folder, "decisions.jsonl")
    lines = path.read_text().splitlines()
    lines.insert(2, '{"id":"DEC-0050","timestamp":"2026-01-01T00:00:00Z","decision":"mine"}')
    path.write_text("\n".join(lines))
    take_out(session, "DEC-0002")
    assert "mine" in path.read_text()
    assert session.get("DEC-0050").decision == "mine"
    assert session.add_decision("next").id == "DEC-0051"


def test_file_with_merge_markers_is_refused(memory: Memory, session: SessionMemory) -> None:
    path = Path(next(iter(session._storage.reader.states.values())).entries[0].file)
    with path.open("a") as file:
        file.write("<<<<<<< HEAD\n=======\n>>>>>>> other\n")
    before = path.read_bytes()
    ids = [record.id for record in session.records(include_deleted=True)]
    with pytest.raises(SessionCorrupt, match="merge"):
        take_out(session, *ids)
    assert path.read_bytes() == before


def test_only_the_copy_with_a_duplicate_id_is_removed(memory: Memory, session: SessionMemory) -> None:
    if memory.config.layout != "jsonl":
        return
    path = Path(session._storage.reader.folder, "decisions.jsonl")
    with path.open("a") as file:
        file.write('{"id":"DEC-0001","timestamp":"2026-01-01T00:00:00Z","decision":"needle again"}\n')
    doubled = session.records("decision")[-1]
    assert (doubled.decision, doubled.id != "DEC-0001") == ("needle again", True)
    take_out(session, doubled.id)
    assert session.get("DEC-0001").decision == "Keep"
    assert b"needle again" not in path.read_bytes()


def test_another_process_sees_the_rewrite_at_once(memory: Memory, session: SessionMemory) -> None:
    other = smp_memory.open(memory.root).session("s")
    assert "DEC-0001" in everything(other)
    take_out(session, "DEC-0001", "TURN-0001")
    assert everything(other) == everything(session)
    other.add_decision("by the other")
    assert everything(other) == everything(session)


def seen(reader: SessionReader) -> dict[str, Any]:
    return {
        name: (
            [(entry.place, entry.line, entry.id, entry.op, entry.seq, entry.tx, entry.data) for entry in state.entries],
            (state.end, state.line, state.unterminated, state.metadata_lines, state.identity),
        )
        for name, state in reader.states.items()
    }


@pytest.mark.parametrize("seed", range(6))
def test_adopted_state_equals_that_of_a_new_reader(memory: Memory, seed: int) -> None:
    chance = random.Random(seed)
    session = memory.create_session("s")
    kinds = ("decision", "turn", "finding", "learning")
    for number in range(60):
        if chance.random() < 0.2:
            with session.transaction() as tx:
                for part in range(3):
                    tx.add_decision(f"transacted {number} {part}\n- and\n  - more")
        elif chance.random() < 0.2:
            records = session.records()
            chosen = chance.choice(records) if records else session.add_decision("first")
            session.pin(chosen.id) if chance.random() < 0.5 else session.delete(chosen.id)
        else:
            kind = chance.choice(kinds)
            text = f"{number} é\n\n---\n## Turn 1 - x\n{'long ' * chance.randrange(30)}"
            session.add(kind, {"role": "user", "content": text} if kind == "turn" else text)
    for _ in range(8):
        names = list(everything(session))
        gone = chance.sample(names, min(chance.choice((0, 1, 1, 2, 5)), len(names)))

        def edit(reader: SessionReader) -> SessionEdit:
            wanted = SessionEdit()
            for entry in entries_of(reader, gone):
                wanted.remove(entry)
            for name in chance.sample(names, 2):
                first = reader.session_history.histories[name].first
                if name not in gone:
                    new = first.copy()
                    new.data = {**first.data, "note": f"{name}\nchanged\n" * chance.randrange(4)}
                    wanted.replace(first, new)
            return wanted

        rewrite(session._storage, "changing", edit)
        store = session._storage.store
        fresh = SessionReader(store.disk, store.layout, store.root, "s")
        fresh.catch_up()
        assert seen(session._storage.reader) == seen(fresh)
        assert not set(gone) & set(everything(session))
        session.add_decision("in between")
    assert session.validate().ok
