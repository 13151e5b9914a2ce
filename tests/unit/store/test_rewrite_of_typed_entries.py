"""Rewrites of entries that a person typed or edited work in every layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE
from smp_memory.memory import Memory
from smp_memory.testing import FrozenClock

SECRET = "password=hunter2hunter2"
ALL = 1 << 40
TYPED = {
    "jsonl": '{%s"decision": "Typed TEXT"}\n',
    "markdown": "\n  - %sdecision: Typed TEXT\n",
    "single": '{%s"type": "decision", "data": {"decision": "Typed TEXT"}}\n',
    "log": '{%s"type": "decision", "content": {"decision": "Typed TEXT"}}\n',
}


def file_with(memory: Memory, text: str) -> Path:
    return next(
        path
        for path in sorted(Path(memory.root).rglob("*"))
        if path.suffix in (".jsonl", ".yaml") and text in path.read_text()
    )


def edit(memory: Memory, old: str, new: str) -> None:
    path = file_with(memory, old)
    path.write_text(path.read_text().replace(old, new))


def type_in(memory: Memory, start: str) -> None:
    path = file_with(memory, "Goes first")
    path.write_text(path.read_text() + TYPED[memory.layout].replace("TEXT", SECRET) % start)


def edited(memory: Memory) -> str:
    edit(memory, "Gamma", f"Gamma {SECRET}")
    return "DEC-0003"


def typed_without_id(memory: Memory) -> str:
    type_in(memory, "")
    return "DEC-0005"


def typed_with_id(memory: Memory) -> str:
    if memory.layout == "markdown":
        type_in(memory, "id: DEC-0005\n    ")
    else:
        type_in(memory, '"id": "DEC-0005", ')
    return "DEC-0005"


def typed_first(memory: Memory) -> str:
    """Before all other entries, so that there is no number before it."""
    path = file_with(memory, "Goes first")
    text = path.read_text()
    typed = TYPED[memory.layout].replace("TEXT", SECRET) % ""
    place = text.index("\n  - id") if memory.layout == "markdown" else 0
    path.write_text(text[:place] + typed + text[place:])
    return "DEC-0005"


def folded_and_edited(memory: Memory) -> str:
    session = memory.session("s1")
    for topic in ("one", "two", "three"):
        session.update("DEC-0003", topic=topic)
    session.tidy()
    return edited(memory)


def typed_and_folded(memory: Memory) -> str:
    name = typed_without_id(memory)
    session = memory.session("s1")
    for topic in ("one", "two", "three"):
        session.update(name, topic=topic)
    session.tidy()
    return name


def redact(memory: Memory, clock: FrozenClock) -> None:
    assert len(memory.redact()) == 1
    for path in Path(memory.root).rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def erase_another(memory: Memory, clock: FrozenClock) -> None:
    memory.session("s1").erase("DEC-0002")


def compact(memory: Memory, clock: FrozenClock) -> None:
    clock.advance(days=400)
    memory.session("s1").compact(ALL)


def tidy(memory: Memory, clock: FrozenClock) -> None:
    memory.session("s1").tidy()


def purge(memory: Memory, clock: FrozenClock) -> None:
    memory.session("s1").delete("DEC-0002")
    memory.purge(older_than=0, evidence=NO_EVIDENCE)
    clock.advance(days=2)
    memory.purge(older_than=0, evidence=NO_EVIDENCE)
    assert memory.session("s1").find("DEC-0002") is None


def repair(memory: Memory, clock: FrozenClock) -> None:
    memory.session("s1").repair()


def convert(memory: Memory, clock: FrozenClock) -> None:
    memory.convert("log" if memory.layout != "log" else "markdown")


WAYS: list[Callable[[Memory], str]] = [
    edited,
    typed_without_id,
    typed_with_id,
    typed_first,
    folded_and_edited,
    typed_and_folded,
]
OPERATIONS: list[Callable[[Memory, FrozenClock], None]] = [redact, erase_another, compact, tidy, purge, repair, convert]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_rewrite_of_a_file_with_typed_or_edited_entries_works(
    tmp_path: Path,
    layout: str,
    way: Callable[[Memory], str],
    operation: Callable[[Memory, FrozenClock], None],
) -> None:
    clock = FrozenClock()
    memory = smp_memory.open(tmp_path / "store", layout=layout, clock=clock, config={"durability": "os"})
    session = memory.create_session("s1", user="ada")
    session.add_decision("Goes first")
    with session.transaction() as tx:  # of which an erasure of one part rewrites the others
        tx.add_decision("Part")
        tx.add_decision("Gamma")
        tx.add_decision("Delta")
    name = way(memory)
    before = {record.id: record.to_dict() for record in session.records()}
    order = [record.id for record in session.records()]
    steps = len(session.history(name))

    operation(memory, clock)

    fresh = smp_memory.open(tmp_path / "store", clock=clock).session("s1")
    after = {record.id: record.to_dict() for record in fresh.records()}
    if operation in (erase_another, purge):
        del before["DEC-0002"]
        order.remove("DEC-0002")
    if operation is compact:
        before = {id: fields for id, fields in before.items() if id in after}
        order = [id for id in order if id in after]
    if operation is redact:
        assert "hunter2" not in after[name]["decision"]
        before[name]["decision"] = after[name]["decision"]
    assert [id for id in after if not id.startswith("SUM")] == order
    told = ("id", "decision", "created", "topic")
    for id, fields in before.items():
        assert [after[id].get(field) for field in told] == [fields.get(field) for field in told]
    if operation is not compact:
        assert len(fresh.history(name)) == steps
    assert [problem for problem in fresh.validate().problems if problem.severity == "error"] == []
    fresh.add_decision("after it")
