"""Erased text is in no file, compressed file or index, and nothing else is lost."""

from __future__ import annotations

import gc
import gzip
import json
import os
import sqlite3
import tarfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import MemoryNotFound
from smp_memory.files.cold_segment import ColdEntry, ColdSegment
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from smp_memory.store.rewrite import SessionEdit, entries_of, rewrite
from smp_memory.testing import FrozenClock
from tests.archive_files import archive_of, fields_of, summary_of
from tests.user_state import state_folder

LAYOUTS = ("jsonl", "markdown", "single", "log")
NEEDLES = (
    b"zyxwombat",
    b"Zyxwombat",
    b"quaggaflute",
    b"needleblob",
    b"tapirsecret",
    b"why-it-went-narwhal",
)


@pytest.fixture(params=LAYOUTS)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    memory = smp_memory.open(str(tmp_path / "store"), layout=request.param, clock=FrozenClock())
    yield memory
    memory.close()


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    session = memory.create_session("s", project="p")
    session.add_turn("user", "A harmless turn about bicycles")
    session.add_turn("user", "The zyxwombat account is quaggaflute\nand more\n\n## Turn 9 - x\n---\nneedleblob here")
    session.add_decision("Keep the bicycles", rationale="they are fast")
    session.add_decision("Sell the zyxwombat", rationale="quaggaflute", note={"deep": ["needleblob, the third"]})
    session.update("DEC-0002", rationale="tapirsecret of the second revision")
    session.relate("DEC-0001", "DEC-0002", "supersedes")
    with session.transaction() as tx:
        tx.add_decision("zyxwombat in a transaction with others")
        tx.add_finding("stays in the transaction", severity="low")
    session.add_artifact("report.md", "# zyxwombat report\n\nneedleblob")
    session.update_agent_state("coder", {"knows": "quaggaflute tapirsecret", "step": 1})
    session.add_preference("style", "zyxwombat style, please", idempotency_key="tapirsecret key one")
    return session


MEANT = ["TURN-0002", "DEC-0002", "DEC-0003", "ART-0001", "STATE-coder", "PREF-0001"]


def contents(root: str) -> Iterator[tuple[str, bytes]]:
    """Every file of a store and of its user's state, raw and, where it is compressed, unpacked."""
    for folder, _, names in chain(os.walk(root), os.walk(state_folder(root))):
        for name in names:
            path = os.path.join(folder, name)
            data = Path(path).read_bytes()
            yield path, data
            if data.startswith(b"\x1f\x8b"):
                yield path + " (unpacked)", gzip.decompress(data)
            if name == "rows.sqlite":  # words that wait for the text engine
                rows = sqlite3.connect(path)
                yield (
                    path + " (blocks)",
                    b"".join(zlib.decompress(block) for (block,) in rows.execute("SELECT data FROM block")),
                )
                rows.close()


def needles_in(memory: Memory) -> list[tuple[str, bytes]]:
    return [(path, needle) for path, data in contents(memory.root) for needle in NEEDLES if needle in data]


def everything(session: SessionMemory) -> dict[str, Any]:
    return {
        record.id: (record.to_dict(), session.history(record.id)) for record in session.records(include_deleted=True)
    }


def fill_index(memory: Memory) -> None:
    """So that words lie in the text engine, in the rows and in the log of changes."""
    session = memory.session("s")
    session.add_many([("decision", f"Filler {number} zyxwombat") for number in range(1600)])
    assert session.query("quaggaflute")
    assert session.query("zyxwombat", limit=3)
    memory.topics()
    session.topics()
    memory.store.access.flush()


def test_erased_text_is_in_no_file(memory: Memory, session: SessionMemory) -> None:
    fill_index(memory)
    fillers = [f"DEC-{number:04}" for number in range(4, 1604)]
    assert needles_in(memory)
    assert any(b"/TURN-0002" in data for path, data in contents(memory.root) if path.endswith("access.log"))
    before = everything(session)
    session.delete(["DEC-0003", "TURN-0002"], "why-it-went-narwhal")
    receipt = session.erase([*MEANT, *fillers], reason="asked to", by="ada")
    assert needles_in(memory) == []
    assert not any(b"/TURN-0002" in data for path, data in contents(memory.root) if path.endswith("access.log"))
    for name in (*MEANT, *fillers):
        del before[name]
    assert everything(session) == before
    assert everything(smp_memory.open(memory.root).session("s")) == before
    assert memory.store.audit.problems() == []
    assert [line.get("reason") for line in memory.store.audit.entries()] == [None, "asked to"]
    assert receipt.complete, receipt.to_dict()
    assert receipt.count == len(MEANT) + len(fillers)
    assert receipt.rewritten
    assert "index" in receipt.rewritten
    told = json.dumps(receipt.to_dict()).encode()
    assert not [needle for needle in NEEDLES if needle in told]
    assert not session.query("zyxwombat quaggaflute")
    assert [hit.id for hit in session.query("bicycles", sort="oldest")] == ["TURN-0001", "DEC-0001"]
    memory.reindex()
    assert needles_in(memory) == []


def test_erase_by_criteria_over_the_whole_store(memory: Memory, session: SessionMemory) -> None:
    other = memory.create_session("t")
    other.add_finding("the zyxwombat again", severity="low")
    other.add_finding("bicycles again", severity="low")
    session.delete("DEC-0002")
    assert memory.erase(text="zyxwombat", preview=True).count == 6
    receipt = memory.erase(text="zyxwombat", reason="asked to")
    assert "t/FIND-0001" in receipt.ids
    assert "s/DEC-0002" in receipt.ids
    assert [record.id for record in other.records(include_deleted=True)] == ["FIND-0002"]
    assert not any(b"zyxwombat" in data for _, data in contents(memory.root))


def test_same_text_in_other_memories_is_reported(memory: Memory, session: SessionMemory) -> None:
    session.add_decision("They said: The zyxwombat account is quaggaflute")
    receipt = session.erase("TURN-0002")
    assert receipt.verified
    assert "s/DEC-0004" in receipt.elsewhere
    assert session.get("DEC-0004").decision.endswith("quaggaflute")


def test_same_text_is_reported_for_a_session_that_nobody_holds_open(memory: Memory) -> None:
    session = memory.create_session("held")
    session.add_decision("The zyxwombat protocol is used")
    session.add_finding("The zyxwombat protocol is used")
    del session
    gc.collect()  # the store holds its open sessions weakly
    receipt = memory.erase("held/DEC-0001")
    assert "held/FIND-0001" in receipt.elsewhere


def test_numbers_of_erased_memories_are_not_reused(memory: Memory, session: SessionMemory) -> None:
    session.erase(MEANT)
    assert session.add_turn("user", "new").id == "TURN-0003"
    assert session.add_decision("new").id == "DEC-0004"
    assert session.add_preference("style", "x", idempotency_key="tapirsecret key one").id == "PREF-0002"


def test_relations_to_an_erased_memory_stay_as_ids(memory: Memory, session: SessionMemory) -> None:
    session.erase("DEC-0002")
    assert session.get("DEC-0001").relations == [{"kind": "supersedes", "target": "DEC-0002"}]
    report = session.validate()
    assert report.ok
    assert [problem.code for problem in report.problems] == ["dangling_reference"]


def test_erasing_an_unknown_id_raises_memory_not_found(memory: Memory, session: SessionMemory) -> None:
    before = everything(session)
    with pytest.raises(MemoryNotFound):
        session.erase(["DEC-0001", "DEC-0099"])
    assert everything(session) == before


def test_erase_reaches_quarantine_and_damaged_lines(memory: Memory, session: SessionMemory) -> None:
    reader = session._storage.reader
    quarantine = Path(reader.private, "quarantine")
    quarantine.mkdir(parents=True, exist_ok=True)
    (quarantine / "torn").write_bytes(b'{"id":"TURN-0002","content":"The zyxwombat account is quagg')
    (quarantine / "other").write_bytes(b"half of something else")
    file = Path(session._storage.reader.catch_up().histories["TURN-0002"].first.file)
    file.with_name(file.name + ".smp-new").write_bytes(b"The zyxwombat account is quaggaflute")
    Path(reader.private, "journal.json").write_bytes(b'{"appends":[["x",0,"The zyxwombat account is quaggaflute')
    receipt = session.erase("TURN-0002")
    assert receipt.verified, receipt.to_dict()
    assert not any(b"zyxwombat account" in data for _, data in contents(memory.root))
    assert (quarantine / "other").exists()


def test_erase_reaches_a_damaged_copy(memory: Memory, session: SessionMemory) -> None:
    if memory.layout not in ("jsonl", "log", "single"):
        return
    file = Path(session._storage.reader.catch_up().histories["TURN-0002"].first.file)
    with file.open("ab") as out:
        out.write(b'{"broken": The zyxwombat account is quaggaflute\n')
        out.write(b'{"broken": something else\n')
    receipt = session.erase("TURN-0002")
    assert receipt.verified, receipt.to_dict()
    assert b"zyxwombat account" not in file.read_bytes()
    assert b"something else" in file.read_bytes()


def cold_path(session: SessionMemory) -> str:
    reader = session._storage.reader
    return os.path.join(reader.folder, reader.layout.cold_file(session.id))


def put_into_cold(session: SessionMemory, *ids: str) -> None:
    def edit(reader: Any) -> SessionEdit:
        wanted, cold = SessionEdit(), []
        for entry in entries_of(reader, ids):
            wanted.remove(entry)
            cold.append(ColdEntry(entry, {"moved": "2026-01-01T00:00:00Z", "why": "faded"}))
        segment = ColdSegment.read(reader.disk, cold_path(session))
        wanted.files[os.path.basename(segment.path)] = segment.changed(lambda line: line, cold)
        return wanted

    rewrite(session._storage, "compacting", edit)


def test_erase_reaches_cold_segments(memory: Memory, session: SessionMemory) -> None:
    put_into_cold(session, "TURN-0001", "TURN-0002", "DEC-0002")
    path = cold_path(session)
    assert b"zyxwombat account" in gzip.decompress(Path(path).read_bytes())
    receipt = session.erase(["TURN-0002", "DEC-0002"])
    assert receipt.verified, receipt.to_dict()
    left = gzip.decompress(Path(path).read_bytes())
    assert b"zyxwombat account" not in left
    assert b"bicycles" in left
    session.erase(MEANT[2:])
    assert needles_in(memory) == []


def put_away(memory: Memory, how: str) -> str:
    """Archive or delete the session, or both; which file holds what was in it."""
    if "archived" in how:
        memory.archive_session("s", "done with it")
    if "deleted" in how:
        memory.delete_session("s", "not needed")
    archive = archive_of("", memory.layout, "s").as_posix()
    places = {"archived": archive, "archived, deleted": "deleted/s/session.tar.gz"}
    return places.get(how, "deleted/s/session/")


@pytest.mark.parametrize("how", ["archived", "deleted", "archived, deleted"])
def test_archived_and_deleted_sessions_stay_so(memory: Memory, session: SessionMemory, how: str) -> None:
    fill_index(memory)
    fillers = [record.id for record in session.records("decision") if record.decision.startswith("Filler")]
    session.delete("DEC-0003", "why-it-went-narwhal")
    before = everything(session)
    place = put_away(memory, how)
    assert needles_in(memory)
    states = [(each.session, each.state) for each in memory.session_states(include_archived=True)]
    said = [away.metadata.get("reason") for away in (*memory.archived_sessions(), *memory.deleted_sessions())]
    assert memory.erase([f"s/{name}" for name in MEANT], preview=True).count == len(MEANT)
    receipt = memory.erase([f"s/{name}" for name in (*MEANT, *fillers)], reason="asked to")
    assert receipt.verified, receipt.to_dict()
    assert needles_in(memory) == []
    assert any(path.startswith(place) for path in receipt.rewritten)
    assert [(each.session, each.state) for each in memory.session_states(include_archived=True)] == states
    assert [away.metadata.get("reason") for away in (*memory.archived_sessions(), *memory.deleted_sessions())] == said
    with pytest.raises(MemoryNotFound):
        memory.erase("s/DEC-0002")
    if "deleted" in how:
        memory.undelete_session("s")
    again = memory.session("s")
    assert everything(again) == {name: seen for name, seen in before.items() if name not in (*MEANT, *fillers)}
    assert again.validate().ok
    assert again.add_decision("new").id == f"DEC-{len(fillers) + 4:04}"
    assert needles_in(memory) == []


def test_summary_of_an_archive_is_rewritten(memory: Memory, session: SessionMemory) -> None:
    memory.archive_session("s", "done with it")
    path = summary_of(memory.root, memory.layout, "s")
    before = fields_of(path)
    assert "zyxwombat" in path.read_text()
    memory.erase("s/DEC-0002")
    after = fields_of(path)
    assert [each["decision"] for each in after["key_decisions"]].count("Sell the zyxwombat") == 0
    assert (after["archived"], after["reason"]) == (before["archived"], "done with it")
    assert after["memories"] == before["memories"] - 1
    with tarfile.open(archive_of(memory.root, memory.layout, "s")) as tar:
        inside = tar.extractfile("summary.json")
        assert inside is not None
        own = {"archived_at", "compressed_size_bytes"}  # of the file beside the archive
        assert json.load(inside) == {name: value for name, value in after.items() if name not in own}


@pytest.mark.parametrize("where", ["back in its place", "deleted"])
def test_orphaned_summary_left_by_a_crash_is_removed(memory: Memory, session: SessionMemory, where: str) -> None:
    memory.archive_session("s", "done with it")
    path = summary_of(memory.root, memory.layout, "s")
    said = path.read_bytes()
    assert b"zyxwombat" in said
    if where == "deleted":
        memory.delete_session("s")
    else:
        memory.restore_session("s")
    assert not path.exists()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(said)  # the machine stopped when the archive was taken away and its summary was not
    memory.erase("s/DEC-0002")
    assert not path.exists()


def test_erase_by_criteria_finds_archived_memories(memory: Memory, session: SessionMemory) -> None:
    put_into_cold(session, "TURN-0002")
    memory.archive_session("s")
    assert memory.erase(text="zyxwombat", types="conversation").ids == ["s/TURN-0002"]
    assert memory.sessions() == []


def test_summary_loses_quotes_of_erased_memories(memory: Memory) -> None:
    session = memory.create_session("long")
    turns = [f"Turn {n} tells that the zyxwombat number {n} has {n} quaggaflute songs to sing." for n in range(60)]
    session.add_many([("turn", {"role": "user", "content": text, "created": "2025-06-01T10:00:00Z"}) for text in turns])
    assert len(session.compact(1 << 40).removed) == 60
    [summary] = session.records("summary")
    quoted = [n for n in range(60) if turns[n] in summary.text]
    assert quoted
    receipt = session.erase(f"TURN-{quoted[0] + 1:04}")
    assert receipt.summaries == ["long/SUM-0001"]
    [after] = session.records("summary")
    assert turns[quoted[0]] not in after.text
    assert after.text.startswith("60 turns, 2025-06-01")
    assert after.covers == summary.covers
    receipt = session.erase([f"TURN-{n + 1:04}" for n in range(60) if n != quoted[0]])
    assert receipt.complete, receipt.to_dict()
    assert needles_in(memory) == []


def test_erased_memory_does_not_return_after_conversion_or_repair(memory: Memory, session: SessionMemory) -> None:
    session.delete("DEC-0002", "wrong")
    session.erase("TURN-0002")
    session.restore("DEC-0002")
    session.delete("DEC-0002", "wrong again")
    for to in (name for name in LAYOUTS if name != memory.layout):
        memory = memory.convert(to)
        memory.reindex()
        again = memory.session("s")
        assert again.find("TURN-0002") is None
        assert again.find("DEC-0002").deleted  # type: ignore[union-attr]
        assert not again.query("quaggaflute tapirsecret", types=["conversation", "decision"])
        assert again.validate().ok
        assert again.repair().ok
        again.delete("DEC-0001")
        again.restore("DEC-0001")
        assert again.find("TURN-0002") is None
    assert memory.session("s").add_turn("user", "new").id == "TURN-0003"
    memory.close()


def test_interrupted_erasure_is_completed_at_open(memory: Memory, session: SessionMemory) -> None:
    session.query("zyxwombat")
    intent = Path(state_folder(memory.root), "erasing.json")
    intent.write_text(json.dumps({"ids": {"s": ["TURN-0002"]}}))
    index = Path(state_folder(memory.root), "index")
    memory.store.access.flush()
    assert list(index.iterdir())
    with smp_memory.open(memory.root) as again:
        assert not intent.exists()
        assert not list(index.iterdir())
        assert b"/TURN-0002\n" not in Path(again.store.access.path).read_bytes()
    assert session.query("zyxwombat")


def test_text_too_short_to_scan_for_is_reported(memory: Memory, session: SessionMemory) -> None:
    session.add_turn("user", "abc")
    receipt = session.erase("TURN-0003")
    assert not receipt.verified
    assert "too short" in receipt.pending[0]
    assert session.find("TURN-0003") is None
