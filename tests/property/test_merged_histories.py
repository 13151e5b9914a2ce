"""Random histories in clones of a store: any order of their union gives the same records, each change on its own memory."""

from __future__ import annotations

import tempfile
from itertools import permutations
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files.layouts import NAMES
from tests.conformance.clones import SESSION, clone, memory_files, opened, said, serious, united

KINDS = {"finding": "finding", "decision": "decision", "turn": "content", "learning": "learning"}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(sorted(KINDS)), st.none() | st.integers(0, 5)),
        st.tuples(st.just("update"), st.integers(0, 5), st.sampled_from(["category", "note"])),
        st.tuples(st.just("relate"), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.none()),
        st.tuples(st.just("restore"), st.integers(0, 5), st.none()),
        st.tuples(st.just("transact"), st.integers(0, 5), st.none()),
    ),
    min_size=1,
    max_size=7,
)


class Clone:
    """One clone, and what it says of each memory by its text: fields, whether it is deleted, what it points to."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name, self.count = root, name, 0
        session = opened(root)
        self.session = session

    def texts(self) -> list[tuple[str, str]]:
        return [(record.id, said(record)) for record in self.session.records(include_deleted=True)]

    def do(self, step: tuple[Any, ...]) -> None:
        session, (op, first, second) = self.session, step
        self.count += 1
        known = [id for id, _ in self.texts()]

        def at(number: int) -> str:
            return known[number % len(known)]

        text = f"{self.name}{self.count}"
        try:
            if op == "add":
                extra = {} if second is None else {"references": [at(second)]}
                session.add(first, **{KINDS[first]: text}, author=self.name, **extra)
            elif op == "update":
                session.update(at(first), **{second: text}, by=self.name)
            elif op == "relate":
                session.relate(at(first), at(second), "about")
            elif op == "transact":
                with session.transaction() as together:
                    together.add("finding", finding=text, author=self.name)
                    together.add("decision", decision=f"{text} too", author=self.name, references=[at(first)])
            else:
                getattr(session, op)(at(first))
        except SMPError:
            pass  # a deleted memory cannot be changed, nor a turn

    def close(self) -> None:
        self.session.memory.close()


def told(session: smp_memory.SessionMemory) -> dict[str, Any]:
    """Each memory by its text, with references as texts."""
    records = session.records(include_deleted=True)
    texts = {record.id: said(record) for record in records}
    assert len(set(texts.values())) == len(records)
    return {
        texts[record.id]: {
            "deleted": record.deleted,
            "fields": {name: record.to_dict().get(name) for name in ("category", "note")},
            "points": sorted(texts[name] for name in record.references)
            + sorted(texts[each["target"]] for each in record.relations),
        }
        for record in records
    }


def shown(session: smp_memory.SessionMemory) -> list[tuple[str, str, int]]:
    return [(record.id, said(record), record.revision) for record in session.records(include_deleted=True)]


def base_store(root: Path, layout: str) -> Path:
    with smp_memory.open(root, layout=layout) as memory:
        session = memory.create_session(SESSION)
        session.add("finding", finding="base finding", author="ada")
        session.add("turn", content="base turn", author="ada")
    return root


def check_changes_stay(session: smp_memory.SessionMemory, before: dict[str, dict[str, Any]], base: set[str]) -> None:
    """What only one clone knows is after the merge as it was in that clone."""
    now = told(session)
    for each in before.values():
        assert each.keys() <= now.keys()
    assert now.keys() == set().union(*before.values())
    for each in before.values():
        for text, facts in each.items():
            if text not in base:
                assert now[text] == facts, text


@pytest.mark.parametrize("layout", NAMES)
@given(histories=st.lists(steps, min_size=2, max_size=3))
@settings(max_examples=12, deadline=None)
def test_union_of_clones_keeps_each_change_on_its_memory(layout: str, histories: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        base = base_store(place / "base", layout)
        files = memory_files(base)
        before, sides = {}, []
        for number, history in enumerate(histories):
            side = Clone(clone(base, place / f"side{number}"), f"c{number}-")
            for step in history:
                side.do(step)
            before[side.name] = told(side.session)
            side.close()
            sides.append(side.root)
        seen = []
        common = {"base finding", "base turn"}
        for number, order in enumerate(list(permutations(sides))[:3]):
            session = opened(united(files, list(order), place / f"merged{number}", layout))
            check_changes_stay(session, before, common)
            seen.append((shown(session), told(session)))
            check_problems(session)
            session.add("finding", finding="next", author="x")
            ids = {text: id for id, text, _ in shown(session)}
            assert {text: id for id, text, _ in seen[-1][0]}.items() <= ids.items()
            check_problems(session)
            session.repair()
            check_problems(session)
            assert {text: id for id, text, _ in shown(session)} == ids
            session.memory.close()
        assert all(each == seen[0] for each in seen)


def check_problems(session: smp_memory.SessionMemory) -> None:
    """Nothing but fields that were changed on both sides, and references to deleted memories."""
    assert [each for each in serious(session) if "concurrently in two clones" not in each] == []


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
@given(first=steps, second=steps, third=steps)
@settings(max_examples=8, deadline=None)
def test_merging_back_and_forth_ends_in_one_state(layout: str, first: Any, second: Any, third: Any) -> None:
    """Each clone takes in the other's entries, goes on, and takes them in again (criss-cross)."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        base = base_store(place / "base", layout)
        files = memory_files(base)
        a, b = (Clone(clone(base, place / name), name) for name in ("a", "b"))
        for clone_, history in ((a, first), (b, second)):
            for step in history:
                clone_.do(step)
            clone_.close()
        two = [Clone(united(files, order, place / f"m{number}", layout), f"m{number}-") for number, order in enumerate(([a.root, b.root], [b.root, a.root]))]  # fmt: skip
        for clone_ in two:
            for step in third:
                clone_.do(step)
            clone_.session.add("finding", finding=f"{clone_.name}last", author="x")
        before = {clone_.name: told(clone_.session) for clone_ in two}
        for clone_ in two:
            clone_.close()
        common = set(before["m0-"]) & set(before["m1-"])
        seen = []
        for number, order in enumerate(permutations(two)):
            session = opened(united(files, [each.root for each in order], place / f"end{number}", layout))
            check_changes_stay(session, before, common)
            check_problems(session)
            seen.append((shown(session), told(session)))
        assert seen[0] == seen[1]
