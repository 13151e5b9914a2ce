"""The store equals a plain dict after any sequence of operations by several processes, people and power losses."""

from __future__ import annotations

import json
import re
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import smp_memory
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.model.types import KINDS
from smp_memory.testing import CrashingSystem, FrozenClock

ROOT = "/memory"
_META = {"id", "session", "type", "created", "updated", "revision", "author_kind", "deleted", "typed_by_hand"}
TEXT = {"conversation": "content", "decision": "decision", "finding": "finding", "preference": "preference", "artifact": "content", "learning": "learning", "summary": "summary"}  # fmt: skip

words = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from(
        [
            "\n---\n",
            "- id: x",
            "## Turn 1 - ",
            "a\r\nb",
            " ",
            "no",
            "012",
            "\0",
            "\u2028",
            '"}',
            "<<<<<<< x",
            "{}",
            "\n\n",
            "# c",
        ]
    ),
)
values = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**70), st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0), words, st.lists(words, max_size=2), st.dictionaries(words, words, max_size=2))  # fmt: skip
fields = st.dictionaries(
    st.sampled_from(["rationale", "topic", "own", "extra", "seq", "Odd Key", "status", "note"]), words, max_size=2
)
kinds = st.sampled_from(sorted(TEXT))
pick = st.integers(0, 10**6)


def exact(data: dict[str, Any]) -> str:
    """So that 1, 1.0 and True differ."""
    return json.dumps(data, sort_keys=True)


class Remembered:
    """What a memory must look like."""

    def __init__(self, type: str, data: dict[str, Any]) -> None:
        self.type = type
        self.data = data
        self.revision = 1
        self.deleted = False
        self.pristine = True  # never changed, related or written in a transaction: its text stands in one place

    def shown(self) -> tuple[Any, ...]:
        data = {name: value for name, value in self.data.items() if value is not None}
        return self.type, self.revision, self.deleted, exact(data)

    def change(self, data: dict[str, Any]) -> None:
        before = self.shown()
        self.data = {**self.data, **data}
        if before != self.shown():
            self.revision += 1
        self.pristine = False


def shown(record: smp_memory.Record) -> tuple[Any, ...]:
    data = {name: value for name, value in record.to_dict().items() if name not in _META}
    if "text" not in record.given:
        del data["text"]  # computed
    for name, default in (("tags", []), ("pinned", False)):
        if data.get(name) == default:
            del data[name]
    return record.type, record.revision, record.deleted, exact(data)


class Machine(RuleBasedStateMachine):
    layout = ""

    def __init__(self) -> None:
        super().__init__()
        self.system: MemorySystem = CrashingSystem()
        self.model: dict[str, Remembered] = {}
        self.words = 0

    @initialize()
    def begin(self) -> None:
        self.session = self.opened(self.layout).create_session("s1")
        self.other = self.opened(None).session("s1")

    def opened(self, layout: str | None) -> smp_memory.Memory:
        return smp_memory.open(":memory:", layout=layout, system=self.system, clock=FrozenClock())

    def reopened(self) -> None:
        self.session = self.opened(None).session("s1")
        self.other = self.opened(None).session("s1")

    # -- picking

    def one(
        self, number: int, *, deleted: bool = False, pristine: bool = False, but: tuple[str, ...] = ()
    ) -> str | None:
        names = [
            name
            for name, each in self.model.items()
            if each.deleted is deleted and (each.pristine or not pristine) and each.type not in but
        ]
        return names[number % len(names)] if names else None

    def draft(self, kind: str, text: str, more: dict[str, str]) -> dict[str, Any]:
        self.words += 1
        data = {TEXT[kind]: f"w{self.words}w {text}", **more}
        if kind == "conversation":
            data["role"] = "assistant"
            data.setdefault("author", "x")
        return {**data, "author": "x"}

    # -- writing

    @rule(kind=kinds, text=words, more=fields, twice=st.booleans())
    def add(self, kind: str, text: str, more: dict[str, str], twice: bool) -> None:
        session = self.other if twice else self.session
        data = self.draft(kind, text, more)
        record = session.add(kind, data)
        assert record.id not in self.model
        self.model[record.id] = Remembered(kind, data)

    @rule(texts=st.lists(st.tuples(kinds, words), min_size=1, max_size=3))
    def add_many(self, texts: list[tuple[str, str]]) -> None:
        items = [(kind, self.draft(kind, text, {})) for kind, text in texts]
        for record, (kind, data) in zip(self.session.add_many(items), items, strict=True):
            self.model[record.id] = Remembered(kind, data)

    @rule(agent=st.sampled_from(["a", "b-2"]), state=values)
    def state(self, agent: str, state: Any) -> None:
        record = self.session.update_agent_state(agent, state)
        data = {"agent": agent, "author": agent, "state": state}
        if record.id in self.model:
            given = {name: value for name, value in data.items() if value is not None}
            self.model[record.id].change(given)
        else:
            self.model[record.id] = Remembered("agent_state", data)
            self.model[record.id].pristine = False

    @rule(number=pick, name=st.sampled_from(["own", "topic", "extra", "note", "seq"]), value=values)
    def update(self, number: int, name: str, value: Any) -> None:
        found = self.one(number, but=("conversation",))
        if found is None or (name == "topic" and value is not None and not isinstance(value, str)):
            return
        self.other.update(found, **{name: value})
        self.model[found].change({name: value})

    @rule(number=pick, on=st.booleans())
    def pin(self, number: int, on: bool) -> None:
        found = self.one(number)
        if found is not None:
            (self.session.pin if on else self.session.unpin)(found)
            self.model[found].change({"pinned": True if on else None})

    @rule(source=pick, to=pick, kind=st.sampled_from(["led_to", "resolves"]))
    def relate(self, source: int, to: int, kind: str) -> None:
        one, two = self.one(source), self.one(to)
        if one is not None and two is not None:
            self.session.relate(one, two, kind)
            self._related(one, two, kind)

    def _related(self, one: str, two: str, kind: str) -> None:
        new = {"kind": kind, "target": two}
        before = self.model[one].data.get("relations") or []
        self.model[one].change({"relations": before if new in before else [*before, new]})
        self.model[two].pristine = False

    @rule(number=pick, reason=words)
    def delete(self, number: int, reason: str) -> None:
        found = self.one(number)
        if found is not None:
            self.session.delete(found, reason)
            self.model[found].deleted, self.model[found].pristine = True, False

    @rule(number=pick)
    def restore(self, number: int) -> None:
        found = self.one(number, deleted=True)
        if found is not None and self.model[found].type not in ("agent_state", "preference"):
            self.other.restore(found)
            self.model[found].deleted = False

    @rule(steps=st.lists(st.tuples(kinds, words, pick), min_size=1, max_size=3), roll_back=st.booleans(), delete=pick)
    def transact(self, steps: list[tuple[str, str, int]], roll_back: bool, delete: int) -> None:
        added: list[tuple[Any, str, dict[str, Any]]] = []
        tx = self.session.transaction()
        old = self.one(delete)
        for kind, text, _ in steps:
            data = self.draft(kind, text, {})
            added.append((tx.add(kind, data), kind, data))
        tx.relate(added[0][0], added[-1][0], "led_to")
        if old is not None:
            tx.delete(old)
        if roll_back:
            tx.rollback()
            return
        tx.commit()
        for wish, kind, data in added:
            self.model[wish.id] = Remembered(kind, data)
            self.model[wish.id].pristine = False
        self._related(added[0][0].id, added[-1][0].id, "led_to")
        if old is not None:
            self.model[old].deleted, self.model[old].pristine = True, False

    # -- what happens to processes and machines

    @rule()
    def reopen(self) -> None:
        self.session.memory.close()
        self.reopened()

    @rule()
    def kill(self) -> None:
        assert isinstance(self.system, CrashingSystem)
        self.system = self.system.kill_state()
        self.reopened()

    @rule(number=pick)
    def lose_power(self, number: int) -> None:
        """All that was acknowledged is there, whatever the disk made of the rest."""
        assert isinstance(self.system, CrashingSystem)
        states = list(self.system.crash_states(limit=4, seed=number))
        self.system = CrashingSystem(disk=states[number % len(states)])
        self.reopened()

    @rule(to=st.sampled_from(NAMES))
    def convert(self, to: str) -> None:
        self.session = self.session.memory.convert(to).session("s1")
        self.other = self.opened(None).session("s1")

    # -- people

    def files(self, folder: str = ROOT) -> list[str]:
        found = []
        for name in sorted(self.system.listdir(folder)):
            path = f"{folder}/{name}"
            if name == ".smp":
                continue
            if Disk(self.system).is_folder(path):
                found += self.files(path)
            elif name.endswith((".jsonl", ".yaml", ".md")):
                found.append(path)
        return found

    def holding(self, mark: bytes) -> str:
        (path,) = [path for path in self.files() if mark in Disk(self.system).read(path)]
        return path

    def mark_of(self, name: str) -> str:
        each = self.model[name]
        return str(each.data[TEXT[each.type]]).partition(" ")[0]

    @rule(number=pick)
    def edit_a_text(self, number: int) -> None:
        found = self.one(number, pristine=True)
        if found is None:
            return
        each, mark = self.model[found], self.mark_of(found)
        disk, path = Disk(self.system), self.holding(mark.encode())
        self.words += 1
        disk.replace(path, disk.read(path).replace(mark.encode(), f"w{self.words}w".encode()))
        each.data[TEXT[each.type]] = each.data[TEXT[each.type]].replace(mark, f"w{self.words}w")

    @rule(number=pick)
    def remove_an_entry(self, number: int) -> None:
        found = self.one(number, pristine=True, but=("conversation", "artifact"))
        if found is None:
            return
        disk, mark = Disk(self.system), self.mark_of(found).encode()
        path = self.holding(mark)
        data = disk.read(path)
        parts = re.split(rb"(?=\n  - id: )" if path.endswith(".yaml") else rb"(?<=\n)", data)
        disk.replace(path, b"".join(part for part in parts if mark not in part))
        del self.model[found]

    @rule(text=st.sampled_from(["By hand", "No: colons", "x"]), newline=st.booleans())
    def write_an_entry(self, text: str, newline: bool) -> None:
        layout = self.session.memory.layout
        self.words += 1
        name = f"hand-{self.words}"
        time = "2026-02-01T10:00:00Z"
        text = f"w{self.words}w {text}"
        folder = {"jsonl": "/sessions/s1", "log": "/sessions/s1", "markdown": "/active/s1", "single": ""}[layout]
        file = {"jsonl": "decisions.jsonl", "log": "memory.jsonl", "markdown": "decisions.yaml", "single": "s1.jsonl"}[
            layout
        ]
        entry = {
            "jsonl": f'{{"id": "{name}", "timestamp": "{time}", "decision": "{text}", "made_by": "x"}}\n',
            "log": f'{{"id": "{name}", "type": "decision", "timestamp": "{time}", "content": {{"decision": "{text}", "made_by": "x"}}}}\n',
            "single": f'{{"id": "{name}", "type": "decision", "ts": "{time}", "data": {{"decision": "{text}", "by": "x"}}}}\n',
            "markdown": f'\n  - id: {name}\n    timestamp: {time}\n    decision: "{text}"\n    made_by: x\n',
        }[layout]
        disk, path = Disk(self.system), f"{ROOT}{folder}/{file}"
        before = disk.read(path) if disk.exists(path) else b"decisions:\n" if layout == "markdown" else b""
        if not before.endswith(b"\n"):
            before += b"\n"
        disk.replace(path, before + (entry if newline else entry.rstrip("\n")).encode())
        self.model[name] = Remembered("decision", {"decision": text, "author": "x"})

    @rule(number=pick)
    def add_empty_lines(self, number: int) -> None:
        files = [path for path in self.files() if not path.endswith("metadata.yaml")]
        if files:
            disk, path = Disk(self.system), files[number % len(files)]
            disk.replace(path, disk.read(path) + b"\r\n")

    # -- the law

    @invariant()
    @precondition(lambda self: hasattr(self, "session"))
    def the_store_equals_the_model(self) -> None:
        wanted = {name: each.shown() for name, each in self.model.items()}
        for session in (self.session, self.other):
            found = {record.id: shown(record) for record in session.records(include_deleted=True)}
            assert found == wanted

    def teardown(self) -> None:
        if hasattr(self, "session"):
            report = self.session.validate()
            assert report.ok, report.problems
            anew = self.opened(None).session("s1")
            assert anew.records(include_deleted=True) == self.session.records(include_deleted=True)
            assert anew.records() == anew.as_of("2100-01-01").records()


@pytest.mark.parametrize("layout", NAMES)
def test_the_store_equals_a_plain_dict(layout: str) -> None:
    machine = type(f"Machine_{layout}", (Machine,), {"layout": layout})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=settings().max_examples * 3 // 5, stateful_step_count=25)
    )


def test_state_machine_covers_all_types() -> None:
    assert set(TEXT) | {"agent_state"} == set(KINDS)
