"""An index that was caught up equals a new one, whatever SMP or a person did to the files."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files.disk import TICK_NS
from smp_memory.files.layouts import NAMES
from smp_memory.testing import FrozenClock
from smp_memory.text.tokenizer import terms
from tests.crash.scenarios import depth
from tests.property.test_queries import said

SESSIONS = ("s1", "s2")
WORDS = ["alpha", "beta", "gamma", "auth_service.py", "数据库", "delta"]
KINDS = ["decision", "finding", "turn", "artifact", "learning"]
TEXT = {"decision": "decision", "finding": "finding", "turn": "content", "artifact": "content", "learning": "learning"}

pick = st.integers(0, 10**6)
who = st.sampled_from(["one", "two"])
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
writes = st.one_of(
    st.tuples(st.just("add"), who, st.sampled_from(SESSIONS), st.sampled_from(KINDS), texts),
    st.tuples(st.just("several"), who, st.sampled_from(SESSIONS), st.lists(texts, min_size=1, max_size=3)),
    st.tuples(st.just("update"), who, pick, texts),
    st.tuples(st.just("delete"), who, pick),
    st.tuples(st.just("restore"), who, pick),
    st.tuples(st.just("relate"), who, pick, pick),
)
looks = st.one_of(
    st.tuples(st.just("look"), who), st.tuples(st.just("look at one"), who, st.sampled_from(SESSIONS)), st.tuples(st.just("reopen"), who)
)  # fmt: skip
edits = st.one_of(
    st.tuples(
        st.sampled_from(["change a word", "remove", "swap", "double", "insert", "cut", "garbage", "same bytes", "older"]),
        pick, pick, st.booleans(),
    ),
    st.tuples(st.sampled_from(["remove a file", "remove a session", "rename a session", "copy a session"]), pick),
    st.tuples(st.just("repair"), who),
    st.tuples(st.just("convert"), st.sampled_from(NAMES)),
)  # fmt: skip
histories = st.lists(st.one_of(writes, writes, looks, edits), min_size=3, max_size=16)


class Place:
    """A store, the two who have it open, and what people do to its files."""

    def __init__(self, root: Path, layout: str) -> None:
        self.root = root
        self.open: dict[str, smp_memory.Memory] = {}
        smp_memory.open(root, layout=layout).close()
        for name in ("one", "two"):
            self.reopen(name)
        for session in SESSIONS:
            self.open["one"].create_session(session).add_decision(f"first alpha of {session}", author="ada")

    def reopen(self, who: str) -> None:
        if who in self.open:
            self.open[who].close()
        self.open[who] = smp_memory.open(self.root, clock=FrozenClock(), config={"durability": "os"})

    def close(self) -> None:
        for memory in self.open.values():
            memory.close()

    def do(self, step: tuple[Any, ...]) -> None:
        what, *rest = step
        name = what.replace(" ", "_")
        if hasattr(self, name):
            getattr(self, name)(*rest)
        else:
            self.by_hand(what, *rest)

    # -- SMP

    def add(self, who: str, session: str, kind: str, text: str) -> None:
        more = {"role": "user"} if kind == "turn" else {}
        self.open[who].session(session).add(kind, {TEXT[kind]: text, "author": who, "tags": [text[0]], **more})

    def several(self, who: str, session: str, texts: list[str]) -> None:
        with self.open[who].session(session).transaction() as tx:
            for text in texts:
                tx.relate(tx.add_decision(text), tx.add_finding(text))

    def one(self, who: str, number: int, *, deleted: bool = False) -> Any:
        memory = self.open[who]
        found = [each for session in memory.sessions() for each in session.records(include_deleted=True)]
        found = [each for each in found if each.deleted is deleted]
        return found[number % len(found)] if found else None

    def update(self, who: str, number: int, text: str) -> None:
        record = self.one(who, number)
        if record is not None and record.type != "conversation":
            self.open[who].session(record.session).update(record.id, rationale=text, importance=0.5)

    def delete(self, who: str, number: int) -> None:
        record = self.one(who, number)
        if record is not None:
            self.open[who].session(record.session).delete(record.id)

    def restore(self, who: str, number: int) -> None:
        record = self.one(who, number, deleted=True)
        if record is not None:
            self.open[who].session(record.session).restore(record.id)

    def relate(self, who: str, source: int, target: int) -> None:
        record, other = self.one(who, source), self.one(who, target)
        if record is not None and record.type != "conversation":
            self.open[who].session(record.session).relate(record.id, other.ref)

    def look(self, who: str) -> None:
        self.open[who].query("alpha")

    def look_at_one(self, who: str, session: str) -> None:
        self.open[who].session(session).query("beta")

    def repair(self, who: str) -> None:
        self.open[who].repair()

    def convert(self, layout: str) -> None:
        self.open["one"] = self.open["one"].convert(layout)
        self.reopen("two")

    # -- people

    def files(self) -> list[Path]:
        return sorted(
            path
            for path in self.root.rglob("*")
            if path.is_file() and ".smp" not in path.parts and path.suffix in (".jsonl", ".md", ".yaml")
            and path.name != "metadata.yaml"
        )  # fmt: skip

    def folders(self) -> list[Path]:
        base = self.root / self.open["one"].store.layout.sessions
        if self.open["one"].layout == "single":
            return sorted(base.glob("*.jsonl"))
        return sorted(path for path in base.iterdir() if path.is_dir() and path.name != ".smp")

    def by_hand(self, what: str, number: int, other: int, in_place: bool) -> None:
        files = self.files()
        if not files:
            return
        path = files[number % len(files)]
        data = path.read_bytes()
        split = rb"(?<=\n)" if path.suffix == ".jsonl" else rb"(?=\n  - id: )|(?=\n## )"
        blocks = [block for block in re.split(split, data) if block]
        at = other % max(len(blocks), 1)
        if what == "change a word":
            old, new = (WORDS[0], WORDS[5]) if other % 2 else (WORDS[1], "beta alpha")
            changed = data.replace(old.encode(), new.encode(), 1)
        elif what == "remove":
            changed = b"".join(blocks[:at] + blocks[at + 1 :])
        elif what == "swap":
            changed = b"".join(blocks[at:] + blocks[:at])
        elif what == "double":
            changed = b"".join([*blocks, *blocks[at : at + 1]])
        elif what == "insert":
            block = blocks[at].replace(b"DEC-00", b"DEC-77").replace(b"alpha", b"gamma") if blocks else b""
            changed = b"".join([*blocks[:at], block, *blocks[at:]])
        elif what == "cut":
            changed = data[: -1 - other % 40]
        elif what == "garbage":
            changed = b"".join([*blocks[:at], b"\xff{]\n", *blocks[at:]])
        else:
            changed = data
        self.put(path, changed, in_place)
        if what == "older":
            os.utime(path, (1, 1))

    def put(self, path: Path, data: bytes, in_place: bool) -> None:
        """As an editor does it: over the old bytes, or a new file in the place of the old one."""
        if in_place:
            path.write_bytes(data)
        else:
            fresh = path.with_name(".fresh")
            fresh.write_bytes(data)
            os.replace(fresh, path)

    def remove_a_file(self, number: int) -> None:
        files = self.files()
        if files:
            files[number % len(files)].unlink()

    def remove_a_session(self, number: int) -> None:
        folders = self.folders()
        if len(folders) > 1:
            gone = folders[number % len(folders)]
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()

    def rename_a_session(self, number: int) -> None:
        folders = self.folders()
        if len(folders) > 1 and self.open["one"].layout != "single":
            old = folders[number % len(folders)]
            if not old.with_name("moved").exists():
                old.rename(old.with_name("moved"))

    def copy_a_session(self, number: int) -> None:
        folders = self.folders()
        if folders and self.open["one"].layout != "single":
            old = folders[number % len(folders)]
            if old.name != "twin":
                shutil.copytree(old, old.with_name("twin"), dirs_exist_ok=True, ignore=shutil.ignore_patterns(".smp"))


def snapshot(memory: smp_memory.Memory) -> dict[str, Any]:
    with memory.store.indexer.feed.mutex:
        return memory.store.indexer.feed.caught_up(None).snapshot()


def found(memory: smp_memory.Memory) -> dict[str, list[str]]:
    """Who is found by which word, through the text index."""
    asked = {word: word for word in [*WORDS, "s1", "ada", '"first alpha"', "alph*", "-alpha", "库"]}
    return {
        text: sorted(
            hit.record.ref for hit in memory.query(text, limit=10_000, include_deleted=True, track_access=False)
        )
        for text in asked
    }


def in_files(memory: smp_memory.Memory) -> dict[str, list[str]]:
    records = [record for session in memory.sessions() for record in session.records(include_deleted=True)]
    having = {record.ref: terms(said(record)) for record in records}
    return {
        word: sorted(ref for ref, there in having.items() if not set(terms(word)).isdisjoint(there))
        for word in WORDS
        if word.isascii()
    }


def check(place: Place) -> None:
    """Both who have it open, and somebody who comes anew, know what a new index knows."""
    time.sleep(TICK_NS / 1e9 + 0.005)  # a change within the tick of the clock in which a file was read is seen later
    kept = {who: (snapshot(memory), found(memory)) for who, memory in place.open.items()}
    with smp_memory.open(place.root) as fresh:
        kept["fresh"] = (snapshot(fresh), found(fresh))
    with smp_memory.open(place.root) as memory:
        memory.store.indexer.rebuild()
        wanted = (snapshot(memory), found(memory))
        assert not memory.store.indexer.feed.caught_up(None).is_in_memory
        files = in_files(memory)
        assert {word: wanted[1][word] for word in files} == files
    for each, (rows, words) in kept.items():
        assert rows == wanted[0], (each, differences(rows, wanted[0]))
        assert words == wanted[1], (each, differences(words, wanted[1]))


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (one.get(name), other.get(name)) for name in one.keys() | other.keys() if one.get(name) != other.get(name)
    }


def run(layout: str, tail: int, history: list[tuple[Any, ...]]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch("smp_memory.index.text.TAIL_LIMIT", tail),
        mock.patch("smp_memory.store.change_detection._ALWAYS_SCAN_SECONDS", 1e9),
    ):
        place = Place(Path(folder, "store"), layout)
        try:
            for step in history:
                try:
                    place.do(step)
                except SMPError:
                    pass  # a session that is not there, a store that must be repaired before it is converted
            check(place)
        finally:
            place.close()


@pytest.mark.parametrize("tail", [3, 1500], ids=["merged", "tail"])
@pytest.mark.parametrize("layout", NAMES)
def test_a_caught_up_index_equals_a_new_one(layout: str, tail: int) -> None:
    few = 8 if layout == "jsonl" else 4

    @settings(max_examples=depth(few if tail > 100 else few // 2, 150), deadline=None)
    @given(histories)
    def each(history: list[tuple[Any, ...]]) -> None:
        run(layout, tail, history)

    each()
