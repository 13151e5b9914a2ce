"""Cold segments under changes, damage, hostile content and merges of two clones."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.files import cold_segment
from smp_memory.files.cold_segment import ColdEntry, ColdSegment, decode_line, encode_line, id_in, merge
from smp_memory.files.disk import Disk
from smp_memory.files.memory_system import MemorySystem
from smp_memory.model.entry import CHANGE, DELETE, PUT, Entry

PATH = "/s/cold.jsonl.gz"
ABOUT = {"moved": "2026-02-01T00:00:00Z", "why": "faded"}


def disk_with(data: bytes | None = None) -> Disk:
    disk = Disk(MemorySystem())
    disk.make_folder("/s")
    if data is not None:
        disk.write_new(PATH, data)
    return disk


def turn(number: int, text: str = "") -> ColdEntry:
    data = {"role": "user", "content": text or f"number {number}"}
    entry = Entry(PUT, "conversation", f"TURN-{number:04d}", "2026-01-01T00:00:00Z", data, number, uid="abcdefgh")
    return ColdEntry(entry, ABOUT)


def turns(first: int, last: int) -> list[ColdEntry]:
    return [turn(number) for number in range(first, last + 1)]


def long_turns(first: int, last: int) -> list[ColdEntry]:
    """Turns of which a few fill a member."""
    return [turn(number, random.Random(number).randbytes(30_000).hex()) for number in range(first, last + 1)]


def encoded(*batches: list[ColdEntry]) -> bytes:
    data = b""
    for batch in batches:
        data = ColdSegment.read(disk_with(data), PATH).changed(lambda line: line, batch)
    return data


def told(found: ColdEntry) -> tuple[Any, ...]:
    entry = found.entry
    return (entry.op, entry.type, entry.id, entry.at, entry.by, entry.seq, entry.uid, entry.uids, entry.revision,
            entry.data, found.about)  # fmt: skip


def contents(data: bytes) -> list[tuple[Any, ...]]:
    return [told(each) for each in ColdSegment.read(disk_with(data), PATH).entries()]


def ids(data: bytes) -> list[str]:
    return [each.entry.id for each in ColdSegment.read(disk_with(data), PATH).entries()]


# -- there and back


def test_missing_file_is_an_empty_segment() -> None:
    segment = ColdSegment.read(disk_with(), PATH)
    assert list(segment.entries()) == []
    assert segment.verify() == []
    assert segment.changed(lambda line: line) == b""


def test_added_batches_accumulate_in_order() -> None:
    data = encoded(turns(1, 10), long_turns(11, 20), turns(21, 30))
    assert contents(data) == [told(each) for each in (*turns(1, 10), *long_turns(11, 20), *turns(21, 30))]
    assert ColdSegment.read(disk_with(data), PATH).verify() == []


def test_zcat_shows_json_lines() -> None:
    lines = gzip.decompress(encoded(turns(1, 2), turns(3, 3))).splitlines()
    assert [json.loads(line)["data"]["content"] for line in lines] == ["number 1", "number 2", "number 3"]
    assert json.loads(lines[0])["cold"] == ABOUT


def test_encoding_is_deterministic() -> None:
    assert encoded(turns(1, 50)) == encoded(turns(1, 50))


def test_every_kind_of_entry_survives_a_round_trip() -> None:
    change = Entry(CHANGE, "decision", "DEC-0001", "2026-01-02T00:00:00Z", {"rationale": None}, 2, by="ada", revision=2)
    change.uid, change.uids = "abcdefgh", {"DEC-0002": "bcdefghi"}
    delete = Entry(DELETE, "decision", "DEC-0001", "2026-01-03T00:00:00Z", {"reason": "old"}, 3, uid="abcdefgh")
    odd = {
        "decision": "é 茶 \x00",
        "cold": {"why": 1},
        "type": "x",
        "id": 7,
        "data": [1.5],
        "checksum": "y",
        "extra": {},
    }
    put = Entry(PUT, "decision", "DEC-0001", "2026-01-01T00:00:00.500000Z", odd, 1, uid="abcdefgh")
    found = [ColdEntry(entry, ABOUT) for entry in (put, change, delete)]
    assert contents(encoded(found)) == [told(each) for each in found]


@given(some.dictionaries(some.text(max_size=8), some.text(max_size=40), max_size=4))
def test_fields_of_any_name_survive_a_round_trip(fields: dict[str, str]) -> None:
    found = ColdEntry(Entry(PUT, "learning", "LEARN-0001", "2026-01-01T00:00:00Z", {"learning": "x"}, 1), ABOUT)
    found.entry.data["note"] = dict(fields)
    line = encode_line(found)
    again = decode_line(line)
    assert again is not None
    assert told(again) == told(found)
    assert id_in(line) == "LEARN-0001"


# -- changes


def test_removed_line_is_not_in_the_bytes_and_other_members_stay() -> None:
    data = encoded([*turns(1, 5), turn(6, "needle in a haystack")], long_turns(7, 12))
    left = ColdSegment.read(disk_with(data), PATH).changed(lambda line: None if b"needle" in line else line)
    assert b"needle" not in gzip.decompress(left)
    assert ids(left) == [each.entry.id for each in (*turns(1, 5), *long_turns(7, 12))]
    assert left.endswith(encoded(long_turns(7, 12)))


def test_line_is_replaced() -> None:
    data = encoded([*turns(1, 2), turn(3, "password: needle")])
    new = encode_line(turn(3, "password: [REDACTED]"))
    left = ColdSegment.read(disk_with(data), PATH).changed(lambda line: new if b"needle" in line else line)
    assert contents(left) == [told(each) for each in (*turns(1, 2), turn(3, "password: [REDACTED]"))]


def test_nothing_is_left_of_a_segment_without_entries() -> None:
    assert ColdSegment.read(disk_with(encoded(turns(1, 2))), PATH).changed(lambda line: None) == b""


def test_only_wanted_lines_are_decoded() -> None:
    segment = ColdSegment.read(disk_with(encoded(turns(1, 9))), PATH)
    assert [each.entry.id for each in segment.entries(lambda line: id_in(line) == "TURN-0007")] == ["TURN-0007"]


# -- damage


def test_torn_file_opens_with_its_complete_members() -> None:
    whole = encoded(long_turns(1, 4), long_turns(5, 8))
    for cut in (1, 20, len(whole) // 2, len(whole) - 3):
        segment = ColdSegment.read(disk_with(whole[: len(whole) - cut]), PATH)
        assert segment.problems
        assert {told(each)[2] for each in segment.entries()} <= {each.entry.id for each in long_turns(1, 8)}
    assert len(ids(whole[: len(whole) - 20])) >= 7


@given(some.integers(0, 10_000_000), some.integers(0, 2))
def test_damage_is_reported_and_limited_to_its_member(seed: int, kind: int) -> None:
    batches = [[turn(number * 10 + each, f"{number} " * 50) for each in range(3)] for number in range(1, 6)]
    expected = [told(each) for batch in batches for each in batch]
    choice = random.Random(seed)
    data = bytearray(encoded(*batches))
    at = choice.randrange(len(data))
    if kind == 0:
        data[at] ^= 1 << choice.randrange(8)
    elif kind == 1:
        del data[at:]
    else:
        data[at:at] = choice.randbytes(choice.randrange(1, 40))
    segment = ColdSegment.read(disk_with(bytes(data)), PATH)
    found = [told(each) for each in segment.entries()]
    assert all(each in expected for each in found)
    if kind != 1:
        assert len(found) >= 12
    if len(found) < 15 and at < len(data):
        assert segment.verify()


def damaged() -> bytes:
    data = bytearray(encoded(turns(1, 3), turns(4, 6)))
    data[30] ^= 0xFF
    return bytes(data)


def test_damaged_bytes_are_kept_when_others_change() -> None:
    """Somebody may be able to save more of them than we can."""
    data = damaged()
    left = ColdSegment.read(disk_with(data), PATH).changed(
        lambda line: None if id_in(line) == "TURN-0005" else line, turns(7, 7)
    )
    first = len(encoded(turns(1, 3)))
    assert left[:first] == data[:first]
    assert ids(left)[-3:] == ["TURN-0004", "TURN-0006", "TURN-0007"]


def test_damaged_member_is_changed_only_to_destroy() -> None:
    data = encoded(turns(1, 3))[:-1]  # everything can be read, but its end is missing
    for destroys in (None, lambda text: False):
        segment = ColdSegment.read(disk_with(data), PATH)
        left = segment.changed(lambda line: None if id_in(line) == "TURN-0002" else line, destroys=destroys)
        assert ids(left) == (["TURN-0001", "TURN-0003"] if destroys else ["TURN-0001", "TURN-0002", "TURN-0003"])


def test_rest_of_a_damaged_member_goes_if_it_holds_what_is_destroyed() -> None:
    words = " ".join(f"needle {random.Random(n).randbytes(4).hex()}" for n in range(2000))
    torn = encoded([*turns(1, 3), turn(4, words)])[:-4000] + encoded(turns(5, 6))  # the last line has lost its end
    segment = ColdSegment.read(disk_with(torn), PATH)
    assert segment.problems
    assert ids(torn) == [f"TURN-000{n}" for n in (1, 2, 3, 5, 6)]
    assert segment.changed(lambda line: line) == torn
    left = segment.changed(lambda line: line, destroys=lambda text: b"needle" in text)
    assert ids(left) == [f"TURN-000{n}" for n in (1, 2, 3, 5, 6)]
    assert b"needle" not in gzip.decompress(left)


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"\0" * 5000,
        b"\x1f\x8b\x08",
        b"\x1f\x8b\x08" * 20,
        gzip.compress(b"hello"),
        gzip.compress(b'{"id":"A"}\n'),
    ],
    ids=["short", "zeros", "magic", "magics", "other gzip", "no entry"],
)
def test_any_other_file_is_reported(data: bytes) -> None:
    segment = ColdSegment.read(disk_with(data), PATH)
    assert list(segment.entries()) == []
    assert segment.verify()
    assert segment.changed(lambda line: line) == data


def test_decompression_bomb_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_segment, "_LARGEST_MEMBER", 1 << 20)
    segment = ColdSegment.read(disk_with(gzip.compress(b"\0" * (64 << 20))), PATH)
    assert segment.problems
    assert len(segment.text()) <= 1 << 20


def test_total_of_many_members_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_segment, "LARGEST_TEXT", 1 << 20)
    segment = ColdSegment.read(disk_with(gzip.compress(b"\0" * (1 << 19)) * 50), PATH)
    assert segment.problems
    assert len(segment.text()) <= 1 << 21


def test_search_for_members_in_a_hostile_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_segment, "_LARGEST_MEMBER", 1 << 20)
    engine = zlib.compressobj(0, zlib.DEFLATED, 31)
    member = engine.compress(b"\x1f\x8b\x08" * 20_000)  # without an end, and full of beginnings
    calls: list[int] = []
    plain = cold_segment._decompress
    monkeypatch.setattr(cold_segment, "_decompress", lambda *given: calls.append(1) or plain(*given))  # type: ignore[func-returns-value]
    assert ColdSegment.read(disk_with(member + engine.flush(zlib.Z_SYNC_FLUSH)), PATH).problems
    assert len(calls) < 5000


# -- merges of two clones


def test_merge_has_what_either_side_moved() -> None:
    base, ours, theirs = encoded(turns(1, 3)), encoded(turns(1, 3), turns(4, 5)), encoded(turns(1, 3), turns(6, 7))
    merged = merge(base, ours, theirs)
    assert merged is not None
    assert ids(merged) == [each.entry.id for each in turns(1, 7)]
    assert merge(base, theirs, ours) == merged


def test_merge_removes_what_one_side_removed() -> None:
    base = encoded(turns(1, 3))
    less = ColdSegment.read(disk_with(base), PATH).changed(lambda line: None if id_in(line) == "TURN-0002" else line)
    merged = merge(base, less, encoded(turns(1, 3), turns(4, 4)))
    assert merged is not None
    assert ids(merged) == ["TURN-0001", "TURN-0003", "TURN-0004"]


def test_merge_without_a_base_joins_both() -> None:
    merged = merge(b"", encoded(turns(1, 2)), encoded(turns(2, 3)))
    assert merged is not None
    assert ids(merged) == ["TURN-0001", "TURN-0002", "TURN-0003"]


def test_merge_of_a_damaged_segment_is_refused() -> None:
    assert merge(b"", encoded(turns(1, 2)), damaged()) is None
