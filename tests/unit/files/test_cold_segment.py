"""Cold segments under appends, rewrites, damage and power losses."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.errors import Conflict, StorageCorrupt
from smp_memory.files.cold_format import (
    BLOCK_RAW,
    END_BYTES,
    HEADER_BYTES,
    INDEX,
    MAGIC,
    ColdEntry,
    ColdRow,
    checksum,
    decode_header,
    decode_index,
    decode_member,
    decode_rows,
    encode_member,
)
from smp_memory.files.cold_segment import ColdSegment, copy_if_lossy, encode_extended, rewrite
from smp_memory.files.disk import Disk
from smp_memory.files.memory_system import MemorySystem
from smp_memory.testing import CrashingSystem, PowerLoss

PATH = "/s/cold.gz"


def disk_with_folder() -> Disk:
    disk = Disk(MemorySystem())
    disk.make_folder("/s")
    return disk


def entry(number: int, data: bytes | None = None) -> ColdEntry:
    text = b'{"id":"TURN-%04d","message":"number %d"}\n' % (number, number) if data is None else data
    return ColdEntry(f"TURN-{number:04d}", number, "conversation.jsonl", text, {"type": "conversation", "why": "faded"})


def entries(first: int, last: int) -> list[ColdEntry]:
    return [entry(number) for number in range(first, last + 1)]


def large(first: int, last: int) -> list[ColdEntry]:
    """Entries of which a few fill a block."""
    return [entry(number, random.Random(number).randbytes(BLOCK_RAW // 3)) for number in range(first, last + 1)]


def append(disk: Disk, path: str, new: list[ColdEntry]) -> ColdSegment:
    """Put new entries into a segment as compaction does."""
    segment = ColdSegment(disk, path)
    data = encode_extended(segment, new)
    if data is not None:
        for name, copy in copy_if_lossy(segment, lambda row: False).items():
            disk.write_new(os.path.join(os.path.dirname(path), name), copy)
        disk.replace(path, data)
    return ColdSegment(disk, path)


def without(disk: Disk, path: str, is_removed: Callable[[ColdRow], bool]) -> int:
    return rewrite(disk, path, is_removed, lambda match: None)


def rows_of(segment: ColdSegment, id: str) -> list[ColdRow]:
    return [row for row in segment.rows() if row.id == id]


def contents(disk: Disk) -> dict[str, bytes]:
    return {row.id: data for row, data in ColdSegment(disk, PATH).entries()}


def of(*batches: list[ColdEntry]) -> dict[str, bytes]:
    return {each.id: each.data for batch in batches for each in batch}


def overwrite(disk: Disk, data: bytes) -> None:
    disk.replace(PATH, data)


# -- there and back


def test_missing_file_is_an_empty_segment() -> None:
    disk = disk_with_folder()
    segment = ColdSegment(disk, PATH)
    assert segment.rows() == []
    assert segment.verify() == []
    append(disk, PATH, [])
    assert not disk.exists(PATH)


def test_entries_are_read_byte_for_byte() -> None:
    disk = disk_with_folder()
    segment = append(disk, PATH, entries(1, 300))
    assert [row.id for row in segment.rows()] == [each.id for each in entries(1, 300)]
    row = rows_of(segment, "TURN-0123")[0]
    assert segment.read(row) == entry(123).data
    assert (row.seq, row.file, row.about) == (123, "conversation.jsonl", {"type": "conversation", "why": "faded"})
    assert segment.verify() == []


def test_appended_batches_accumulate() -> None:
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 10))
    append(disk, PATH, large(11, 20))
    append(disk, PATH, entries(21, 30))
    assert contents(disk) == of(entries(1, 10), large(11, 20), entries(21, 30))


def test_reading_one_entry_reads_one_block() -> None:
    disk = disk_with_folder()
    append(disk, PATH, large(1, 30))
    segment = ColdSegment(disk, PATH)
    read: list[int] = []
    plain = disk.read
    disk.read = lambda path, offset=0, size=-1: read.append(size) or plain(path, offset, size)  # type: ignore[method-assign, func-returns-value, assignment]
    segment.read(rows_of(segment, "TURN-0017")[0])
    assert len(read) == 1
    assert 0 < read[0] < 2 * BLOCK_RAW


def test_zcat_shows_everything() -> None:
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 3))
    text = gzip.decompress(disk.read(PATH))
    assert all(each.data in text for each in entries(1, 3))


def test_entry_appended_twice_is_stored_once() -> None:
    """A compaction that was interrupted between the segment and the session is repeated."""
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 5))
    before = disk.read(PATH)
    append(disk, PATH, entries(1, 5))
    assert disk.read(PATH) == before
    append(disk, PATH, entries(4, 6))
    assert [row.seq for row in ColdSegment(disk, PATH).rows()] == [1, 2, 3, 4, 5, 6]


def test_one_memory_may_have_several_entries() -> None:
    disk = disk_with_folder()
    put, change = ColdEntry("STATE-a", 1, "f", b"one\n"), ColdEntry("STATE-a", 7, "f", b"two\n")
    segment = append(disk, PATH, [put, change])
    assert [segment.read(row) for row in rows_of(segment, "STATE-a")] == [b"one\n", b"two\n"]


def test_encoding_is_deterministic() -> None:
    one, other = disk_with_folder(), disk_with_folder()
    append(one, PATH, entries(1, 50))
    append(other, PATH, entries(1, 50))
    assert one.read(PATH) == other.read(PATH)


def test_a_caller_may_put_the_bytes_in_place_itself() -> None:
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 3))
    data = encode_extended(ColdSegment(disk, PATH), entries(4, 6))
    assert data is not None
    overwrite(disk, data)
    assert contents(disk) == of(entries(1, 6))
    assert encode_extended(ColdSegment(disk, PATH), entries(1, 6)) is None


@given(some.lists(some.lists(some.binary(max_size=200), max_size=5), max_size=4))
def test_any_bytes_survive_a_round_trip(batches: list[list[bytes]]) -> None:
    disk = disk_with_folder()
    number, expected = 0, {}
    for batch in batches:
        new = []
        for data in batch:
            number += 1
            new.append(entry(number, data))
            expected[f"TURN-{number:04d}"] = data
        append(disk, PATH, new)
    assert contents(disk) == expected
    assert ColdSegment(disk, PATH).verify() == []


# -- taking out


def test_removed_entry_is_not_in_the_bytes() -> None:
    disk = disk_with_folder()
    append(disk, PATH, [*entries(1, 5), entry(6, b"needle in a haystack\n"), *large(7, 12)])
    assert without(disk, PATH, lambda row: row.id == "TURN-0006") == 1
    assert b"needle" not in gzip.decompress(disk.read(PATH))
    assert b"TURN-0006" not in gzip.decompress(disk.read(PATH))
    assert contents(disk) == of(entries(1, 5), large(7, 12))
    assert ColdSegment(disk, PATH).verify() == []


def test_rewrite_replaces_the_bytes_of_entries() -> None:
    """To redact what is already stored."""
    disk = disk_with_folder()
    append(disk, PATH, [*entries(1, 5), entry(6, b"password: needle\n"), *large(7, 12)])
    before = ColdSegment(disk, PATH).block(ColdSegment(disk, PATH).blocks[-1])[0]
    touched = rewrite(disk, PATH, lambda row: row.seq <= 6, lambda found: found.data.replace(b"needle", b"[REDACTED]"))
    assert touched == 6
    assert contents(disk) == of(entries(1, 5), [entry(6, b"password: [REDACTED]\n")], large(7, 12))
    assert b"needle" not in gzip.decompress(disk.read(PATH))
    assert ColdSegment(disk, PATH).block(ColdSegment(disk, PATH).blocks[-1])[0] == before
    assert ColdSegment(disk, PATH).verify() == []


def test_file_is_removed_with_its_last_entry() -> None:
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 2))
    assert without(disk, PATH, lambda row: True) == 2
    assert disk.names("/s") == []


def test_removing_nothing_changes_nothing() -> None:
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 2))
    before = disk.read(PATH)
    assert without(disk, PATH, lambda row: False) == 0
    assert without(disk, "/s/none.gz", lambda row: True) == 0
    assert disk.read(PATH) == before


# -- readers beside a writer


def test_reader_of_a_rewritten_file_gets_its_entry_or_a_conflict() -> None:
    disk = disk_with_folder()
    append(disk, PATH, large(1, 9))
    segment = ColdSegment(disk, PATH)
    without(disk, PATH, lambda row: row.seq == 1)
    with pytest.raises(Conflict):
        list(segment.entries())
    with pytest.raises(Conflict):
        segment.read(rows_of(segment, "TURN-0009")[0])
    assert len(contents(disk)) == 8


def test_reader_is_not_affected_by_an_append() -> None:
    disk = disk_with_folder()
    append(disk, PATH, large(1, 9))
    segment = ColdSegment(disk, PATH)
    append(disk, PATH, large(10, 12))
    assert {row.id: data for row, data in segment.entries()} == of(large(1, 9))


def test_file_rewritten_while_it_is_opened_is_opened_again() -> None:
    disk = disk_with_folder()
    append(disk, PATH, large(1, 9))
    plain, times = disk.read, []

    def read(path: str, offset: int = 0, size: int = -1) -> bytes:
        if not times:
            times.append(1)
            without(disk, PATH, lambda row: row.seq == 1)
        return plain(path, offset, size)

    disk.read = read  # type: ignore[method-assign]
    segment = ColdSegment(disk, PATH)
    assert segment.problems == []
    assert len(segment.rows()) == 8


# -- damage


def test_torn_file_opens_with_its_complete_blocks() -> None:
    disk = disk_with_folder()
    append(disk, PATH, large(1, 9))
    whole = disk.read(PATH)
    for cut in (1, END_BYTES - 1, END_BYTES + 5, len(whole) // 2, len(whole) - 3):
        overwrite(disk, whole[: len(whole) - cut])
        segment = ColdSegment(disk, PATH)
        assert segment.problems
        found = contents(disk)
        assert found.items() <= of(large(1, 9)).items()
        assert len(found) == 9 or cut > END_BYTES + 5
    overwrite(disk, whole[: len(whole) // 2])
    assert len(contents(disk)) >= 3


@given(some.integers(0, 10_000_000), some.integers(0, 2))
def test_damage_is_reported_and_limited_to_its_blocks(seed: int, kind: int) -> None:
    disk = disk_with_folder()
    batches = [[entry(number * 10 + each, b"%d " % number * 50) for each in range(3)] for number in range(1, 6)]
    for batch in batches:
        append(disk, PATH, batch)
    choice = random.Random(seed)
    data = bytearray(disk.read(PATH))
    at = choice.randrange(len(data))
    if kind == 0:
        data[at] ^= 1 << choice.randrange(8)
    elif kind == 1:
        del data[at:]
    else:
        data[at:at] = choice.randbytes(choice.randrange(1, 40))
    overwrite(disk, bytes(data))
    segment = ColdSegment(disk, PATH)
    found = contents(disk)
    assert found.items() <= of(*batches).items()
    if kind != 1:
        assert len(found) >= 12
    if len(found) < 15:
        assert segment.verify()


def test_damaged_entry_raises_and_the_others_are_read() -> None:
    disk = disk_with_folder()
    append(disk, PATH, large(1, 2))
    append(disk, PATH, large(3, 4))
    data = bytearray(disk.read(PATH))
    data[200] ^= 0xFF
    overwrite(disk, bytes(data))
    segment = ColdSegment(disk, PATH)
    with pytest.raises(StorageCorrupt):
        segment.read(rows_of(segment, "TURN-0001")[0])
    assert segment.read(rows_of(segment, "TURN-0003")[0]) == large(3, 3)[0].data
    assert {problem.id for problem in segment.verify()} == {"TURN-0001", "TURN-0002"}


def test_append_keeps_a_damaged_block_unchanged() -> None:
    """Somebody may be able to save more of it than we can."""
    disk = disk_with_folder()
    append(disk, PATH, large(1, 2))
    data = bytearray(disk.read(PATH))
    data[2000] ^= 0xFF
    overwrite(disk, bytes(data))
    append(disk, PATH, entries(3, 3))
    assert bytes(data[:5000]) == disk.read(PATH)[:5000]
    assert [row.id for row in ColdSegment(disk, PATH).rows()] == ["TURN-0001", "TURN-0002", "TURN-0003"]


def test_torn_file_is_copied_before_it_is_rewritten() -> None:
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 5))
    torn = disk.read(PATH)[:-30]
    overwrite(disk, torn)
    append(disk, PATH, entries(6, 8))
    assert contents(disk) == of(entries(1, 8))
    assert ColdSegment(disk, PATH).verify() == []
    assert disk.read(PATH + ".damaged-1") == torn


def test_removal_from_a_damaged_block_copies_the_file_first() -> None:
    disk = disk_with_folder()
    append(disk, PATH, large(1, 2))
    data = bytearray(disk.read(PATH))
    data[2000] ^= 0xFF
    overwrite(disk, bytes(data))
    without(disk, PATH, lambda row: row.id == "TURN-0001")
    assert disk.read(PATH + ".damaged-1") == bytes(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"\0" * 5000, MAGIC, MAGIC * 20, gzip.compress(b"hello"), encode_member(INDEX, b"[]")],
    ids=["empty", "short", "zeros", "magic", "magics", "other gzip", "index only"],
)
def test_any_other_file_is_reported_as_a_problem(data: bytes) -> None:
    disk = disk_with_folder()
    disk.write_new(PATH, data)
    segment = ColdSegment(disk, PATH)
    assert segment.rows() == []
    assert segment.problems


def test_wrong_index_is_rejected() -> None:
    for lie in (b"{}", b'{"smp_cold":1,"blocks":7}', b'{"smp_cold":1,"blocks":[[0,1]]}', b'{"smp_cold":1,"blocks":[[-1,5,5,[]]]}',
                b'{"smp_cold":1,"blocks":[[0,9,9,[["A",1,"f",5,9,"x",{}]]]]}', b"[" * 100_000):  # fmt: skip
        assert decode_index(lie) is None
    assert decode_rows(b'{"smp_cold":1,"entries":[["A",true,"f",0,1,"x",{}]]}\nabc') is None
    assert decode_rows(b'{"smp_cold":2,"entries":[]}\n') is None


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999"])
def test_list_with_a_number_that_is_not_finite_is_rejected(number: bytes) -> None:
    row = b'["TURN-0001",1,"a.jsonl",0,0,"sha256:0",{"why":%b}]' % number
    assert decode_index(b'{"smp_cold":1,"blocks":[[0,50,9,[%b]]]}\n' % row.replace(number, b"1.5")) is not None
    assert decode_index(b'{"smp_cold":1,"blocks":[[0,50,9,[%b]]]}\n' % row) is None
    assert decode_rows(b'{"smp_cold":1,"entries":[%b]}\n' % row) is None


def test_names_and_facts_of_any_kind_survive_a_round_trip() -> None:
    disk = disk_with_folder()
    about = {"why": 'a "quote"\n\t\\ é 茶 \x00', "n": 1, "none": None, "list": [1.5, True]}
    odd = [ColdEntry(f'é"\\-{number}', number, "ordner/ä b.jsonl", b"x" * number, about) for number in range(5)]
    append(disk, PATH, odd[:3])
    append(disk, PATH, odd[3:])
    found = [(row.id, row.seq, row.file, data, row.about) for row, data in ColdSegment(disk, PATH).entries()]
    assert found == [tuple(each) for each in odd]
    disk.replace(PATH, disk.read(PATH)[:-END_BYTES])  # the list in front of each block says the same
    assert [row[:3] + row[4:] for row in ColdSegment(disk, PATH).rows()] == [
        (each.id, each.seq, each.file, len(each.data), checksum(each.data), about) for each in odd
    ]


def test_decompression_bomb_in_a_block_is_not_expanded() -> None:
    bomb = bytearray(encode_member(b"B", b"\0" * 10_000_000))
    header = decode_header(bytes(bomb))
    assert header is not None
    place = bomb.index((10_000_000).to_bytes(8, "little"))
    bomb[place : place + 8] = (100).to_bytes(8, "little")
    assert decode_member(bytes(bomb)) is None
    bomb[place : place + 8] = (1 << 60).to_bytes(8, "little")
    assert decode_header(bytes(bomb)) is None


def test_salvage_of_a_hostile_file_is_bounded() -> None:
    header = bytearray(encode_member(b"B", b"x" * 1000)[:HEADER_BYTES])
    claimed = header[:17] + (2_000_000).to_bytes(8, "little") + (60_000_000).to_bytes(8, "little") + header[33:]
    assert decode_header(bytes(claimed)) is not None
    disk = disk_with_folder()
    disk.write_new(PATH, bytes(claimed) * 40_000)
    segment = ColdSegment(disk, PATH)
    assert segment.rows() == []
    assert any("too long" in problem.message for problem in segment.problems)


def test_segment_removed_while_it_is_read() -> None:
    disk = disk_with_folder()
    append(disk, PATH, entries(1, 3))
    segment = ColdSegment(disk, PATH)
    without(disk, PATH, lambda row: True)
    with pytest.raises(Conflict):
        segment.read(segment.rows()[0])


# -- crashes


@pytest.mark.crash
@pytest.mark.parametrize("name", ["append", "without"])
def test_power_loss_leaves_the_old_segment_or_the_new_one(name: str) -> None:
    base = disk_with_folder()
    append(base, PATH, entries(1, 20))
    old, number, seen = of(entries(1, 20)), 0, []
    new = of(entries(1, 30)) if name == "append" else of(entries(1, 10))
    while True:
        number += 1
        system = CrashingSystem(disk=base.system, crash_at=number)  # type: ignore[arg-type]
        done = False
        try:
            if name == "append":
                append(Disk(system), PATH, entries(21, 30))
            else:
                without(Disk(system), PATH, lambda row: row.seq > 10)
            done = True
            system.power_off()
        except PowerLoss:
            pass
        for state in system.crash_states(limit=8, seed=number):
            found = contents(Disk(state))
            assert found == new or (found == old and not done)
            assert ColdSegment(Disk(state), PATH).verify() == []
            seen.append(found == new)
        if done:
            assert set(seen) == {True, False}
            return
