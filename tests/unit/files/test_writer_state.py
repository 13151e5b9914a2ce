"""Writer state in the lock file, which anybody may have written: an invalid one is ignored."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.lock import HOLDER_BYTES, WriterState, decode_state

GOOD: list[Any] = ["boot", 7, 100, "", {"DEC": 3}, [], {"decisions.jsonl": [1, 100, 5, 5, 9]}, "abc"]
LAYOUT = layout_named("jsonl")


def encoded(said: Any) -> bytes:
    text = json.dumps(said).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def decoded(said: Any, layout: str = "jsonl") -> WriterState:
    kind = layout_named(layout)
    return decode_state(encoded(said), "boot", lambda name: kind.is_session_file(name, "s"))


def test_valid_state_is_decoded() -> None:
    found = decoded(GOOD)
    assert (found.seq, found.size, found.numbers, found.lineage) == (7, 100, {"DEC": 3}, "abc")
    assert found.files == {"decisions.jsonl": [1, 100, 5, 5, 9]}
    assert decoded(GOOD[:7]).seq == 7, "notes without a lineage, as earlier versions wrote them"
    again = decode_state(found.encode(), "boot", lambda name: True)
    assert (again.seq, again.files, again.lineage) == (found.seq, found.files, found.lineage)


WRONG: list[tuple[int, Any]] = [
    *((place, value) for place in (1, 2) for value in (-1, 10**12 + 1, 10**400, 1.5, True, "7", None, [], {})),
    *((3, value) for value in (1, None, [], {}, "x" * 1000)),
    *((4, value) for value in ([], None, 3, {"DEC": -1}, {"DEC": "3"}, {"DEC": 10**13}, {"DEC": []}, {"DEC": True})),
    *((5, value) for value in ({}, 3, None, [3], [None], [["decisions.jsonl"]], ["manifest.json"], "decisions.jsonl")),
    *((5, [name]) for name in ("../up", "/etc/passwd", "a/../../b", "..", "", ".smp/lock", "decisions.jsonl/../x")),
    *((6, value) for value in ([], 3, None, {"decisions.jsonl": 3}, {"decisions.jsonl": [1, 2, 3]})),
    *((6, {"decisions.jsonl": [1, 100, 5, 5, value]}) for value in (None, "9", 1.5, 1 << 80, [])),
    *((6, {name: [1, 100, 5, 5, 9]}) for name in ("../up", "/etc/passwd", "manifest.json", "")),
    (6, {"decisions.jsonl": [-1, 100, 5, 5, 9]}),
    (6, {"decisions.jsonl": [1, -100, 5, 5, 9]}),
    (7, 3),
    (7, None),
    (0, 3),
]


@pytest.mark.parametrize(("place", "value"), WRONG)
def test_invalid_state_is_ignored_as_a_whole(place: int, value: Any) -> None:
    said = list(GOOD)
    said[place] = value
    found = decoded(said)
    assert (found.seq, found.size, found.numbers, found.suspects, found.files) == (0, 0, {}, [], {})


@pytest.mark.parametrize("said", [[], {}, 3, None, "text", GOOD[:5], [[[[]]]]])
def test_state_of_another_shape_is_ignored(said: Any) -> None:
    assert decoded(said).files == {}


@pytest.mark.parametrize("layout", NAMES)
def test_only_files_of_the_layout_are_session_files(layout: str) -> None:
    kind = layout_named(layout)
    for name in ("../x", "/x", "", ".", "..", "a/b/c.md", "artifacts/../x.md", "artifacts/a\\b.md", "artifacts/a/b.md", ".smp/lock", "x.txt", "artifacts/", kind.info_file or "config.json"):  # fmt: skip
        assert not kind.is_session_file(name, "s"), name
    own = {"jsonl": "decisions.jsonl", "log": "memory.jsonl", "single": "s.jsonl", "markdown": "artifacts/ART-0001.md"}
    assert kind.is_session_file(own[layout], "s")


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("name", ["../../../treasure.txt", "/tmp/treasure.txt", "treasure.txt", [1], 10**400, None])
def test_planted_suspect_outside_the_session_is_ignored(tmp_path: Path, layout: str, name: Any) -> None:
    root = tmp_path / "deep" / "store"
    with smp_memory.open(root, layout=layout) as memory:
        memory.create_session("s").add_decision("kept")
    treasure = tmp_path / "treasure.txt"
    treasure.write_text("gold")
    inode = treasure.stat().st_ino
    (lock,) = (path for path in root.rglob("lock") if "s" in path.parts)
    boot = json.loads(lock.read_bytes()[HOLDER_BYTES:].partition(b"\n")[0][9:])[0]
    planted = encoded([boot, 1, 1, "", {"DEC": 1}, [name], {}, ""])
    lock.write_bytes(lock.read_bytes()[:HOLDER_BYTES] + planted)
    with smp_memory.open(root) as memory:
        assert memory.session("s").add_decision("new").id == "DEC-0002"
        assert [record.decision for record in memory.session("s").records()] == ["kept", "new"]
    assert treasure.stat().st_ino == inode
    assert not os.path.lexists(str(treasure) + ".smp-new")


@pytest.mark.parametrize("layout", NAMES)
def test_entry_with_a_huge_number_does_not_raise_all_later_ones(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, layout=layout) as memory:
        memory.create_session("s").add_decision("kept")
    path = next(p for p in tmp_path.rglob("*") if p.is_file() and ".smp" not in p.parts and b"DEC-0001" in p.read_bytes())  # fmt: skip
    data = path.read_bytes()
    for old in (b'"seq":1,', b"seq=1 ", b" #1\n"):
        data = data.replace(old, old.replace(b"1", b"9" * 30))
    assert data != path.read_bytes()
    path.write_bytes(data)
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s")
        session.add_decision("new")
        assert [record.decision for record in session.records("decision")] == ["kept", "new"]
        assert b"9" * 30 not in b"".join(p.read_bytes() for p in tmp_path.rglob("lock"))
