"""Reading from cursors: only what is new is read, and only if what was read is unchanged."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.disk import TICK_NS, Disk
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.partial_reader import Cursor, IncrementReader
from smp_memory.files.system import RealSystem
from tests.conformance.layout_files import decisions_file


class Counting(RealSystem):
    """How many bytes of the session's files were read."""

    read = 0

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        data = super().pread(fd, size, offset)
        Counting.read += len(data)
        return data


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> smp_memory.Memory:
    memory = smp_memory.open(tmp_path / "store", layout=request.param, config={"durability": "os"})
    session = memory.create_session("s1")
    for number in range(50):
        session.add_decision(f"number {number} {'x' * 200}")
    return memory


def reader(store: smp_memory.Memory, cursors: dict[str, Cursor] | None = None) -> IncrementReader:
    return IncrementReader(Disk(Counting()), layout_named(store.layout), store.root, "s1", cursors)


def begun(store: smp_memory.Memory) -> dict[str, Cursor]:
    """Cursors behind all that is there, as they come back from JSON."""
    first = reader(store)
    first.catch_up()
    assert not first.reread
    found: dict[str, Cursor] = json.loads(json.dumps(first.cursors()))
    return found


def ids(found: IncrementReader) -> list[str]:
    return list(found.session_history.histories)


def test_only_new_bytes_are_read(store: smp_memory.Memory) -> None:
    cursors = begun(store)
    again = reader(store, cursors)
    again.catch_up()
    assert (ids(again), again.reread) == ([], False)
    store.session("s1").add_decision("fresh")
    store.session("s1").update("DEC-0003", rationale="changed")
    store.session("s1").delete("DEC-0004")
    Counting.read = 0
    more = reader(store, cursors)
    more.catch_up()
    assert ids(more) == ["DEC-0051"]
    assert {id: [entry.op for entry in entries] for id, entries in more.session_history.orphans.items()} == {
        "DEC-0003": ["change"],
        "DEC-0004": ["delete"],
    }
    assert not more.reread
    assert Counting.read < 8_000
    last = reader(store, json.loads(json.dumps(more.cursors())))
    last.catch_up()
    assert (ids(last), last.session_history.orphans, last.reread) == ([], {}, False)


def test_checksum_shows_growth_without_a_writer_state(store: smp_memory.Memory) -> None:
    """An editor or git appended, or the machine was started anew: the epoch says nothing, the bytes do."""
    cursors = begun(store)
    store.session("s1").add_decision("fresh")
    for lock in Path(store.root).rglob("lock"):
        lock.write_bytes(b"")
    more = reader(store, cursors)
    more.catch_up()
    assert (ids(more), more.reread) == (["DEC-0051"], False)


def _edit(data: bytes) -> bytes:
    return data.replace(b"number 7 ", b"number 8 ")


def _longer(data: bytes) -> bytes:
    return data.replace(b"number 7 ", b"number seven ")


def _shorter(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _nothing(data: bytes) -> bytes:
    return b""


def _before(data: bytes) -> bytes:
    return b"\n" + data


@pytest.mark.parametrize(
    "change", [_edit, _longer, _shorter, _nothing, _before], ids=lambda change: change.__name__.strip("_")
)
@pytest.mark.parametrize("in_place", [True, False])
def test_file_changed_in_any_other_way_is_read_anew(
    store: smp_memory.Memory, change: Callable[[bytes], bytes], in_place: bool
) -> None:
    time.sleep(2 * TICK_NS / 1e9)
    cursors = begun(store)
    assert all(cursor[8] for cursor in cursors.values())
    path = decisions_file(Path(store.root), store.layout)
    changed = change(path.read_bytes())
    if in_place:
        path.write_bytes(changed)
    else:
        fresh = path.with_name("fresh")
        fresh.write_bytes(changed)
        os.replace(fresh, path)
    more = reader(store, cursors)
    more.catch_up()
    assert more.reread
    whole = reader(store)
    whole.catch_up()
    assert ids(more) == ids(whole)


def test_the_same_bytes_in_a_new_file_are_not_read_anew(store: smp_memory.Memory) -> None:
    cursors = begun(store)
    path = decisions_file(Path(store.root), store.layout)
    fresh = path.with_name("fresh")
    fresh.write_bytes(path.read_bytes())
    os.replace(fresh, path)
    more = reader(store, cursors)
    more.catch_up()
    assert (ids(more), more.reread) == ([], False)


def test_removed_file_is_read_anew(store: smp_memory.Memory) -> None:
    cursors = begun(store)
    decisions_file(Path(store.root), store.layout).unlink()
    more = reader(store, cursors)
    more.catch_up()
    assert more.reread
    assert ids(more) == []


def test_cursor_made_within_the_tick_is_not_settled(store: smp_memory.Memory) -> None:
    path = decisions_file(Path(store.root), store.layout)
    path.write_bytes(path.read_bytes())
    cursors = begun(store)
    name = next(name for name in cursors if path.name == Path(name).name)
    assert not cursors[name][8]
    kept = path.stat()
    with path.open("r+b") as file:
        file.write(_edit(path.read_bytes()))
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    more = reader(store, cursors)
    assert not more.has_checksum(name)
    time.sleep(2 * TICK_NS / 1e9)
    assert begun(store)[name][8]


def test_torn_end_is_read_when_it_is_complete(store: smp_memory.Memory) -> None:
    if store.layout == "markdown":
        pytest.skip("a list in YAML has no torn lines")
    cursors = begun(store)
    store.session("s1").add_decision("fresh")
    path = decisions_file(Path(store.root), store.layout)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    torn = reader(store, cursors)
    torn.catch_up()
    assert ids(torn) == []
    path.write_bytes(whole)
    more = reader(store, json.loads(json.dumps(torn.cursors())))
    more.catch_up()
    assert (ids(more), more.reread) == (["DEC-0051"], False)


def test_file_that_is_gone_since_it_was_listed_is_not_unchanged(store: smp_memory.Memory) -> None:
    more = reader(store, begun(store))
    for name in more.identities():
        os.remove(os.path.join(more.folder, name))
        assert not more.has_checksum(name)
