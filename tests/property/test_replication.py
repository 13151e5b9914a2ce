"""Two stores exchange a session in any order of writes, pushes, pulls, hand-overs and deaths: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smp_memory
from smp_memory.errors import NotAllowed, SessionNotFound
from smp_memory.scope import Scope
from smp_memory.store.opening import register_backend
from smp_memory.testing.clocks import FrozenClock
from tests.backends.naive_store import NAME, open_naive
from tests.exchange_stores import Died, DyingStore, exchange

SESSION = "s1"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 1)),
        st.tuples(st.just("change"), st.integers(0, 1)),
        st.tuples(st.just("delete"), st.integers(0, 1)),
        st.tuples(st.just("erase"), st.integers(0, 1)),
        st.tuples(st.just("push"), st.integers(0, 1)),
        st.tuples(st.just("hand over"), st.integers(0, 1)),
        st.tuples(st.just("die in push"), st.integers(0, 1), st.integers(1, 6), st.booleans()),
        st.tuples(st.just("die in hand over"), st.integers(0, 1), st.integers(1, 8), st.booleans()),
    ),
    max_size=25,
)


class Sides:
    """Two stores, and what was acknowledged: the text of each memory, by the store that acknowledged it last."""

    def __init__(self, folder: Path, layout: str) -> None:
        register_backend(NAME, open_naive)
        self.clock = FrozenClock()
        self.addresses = [str(folder / "laptop"), f"{NAME}://{folder / 'shared.db'}"]
        smp_memory.open(self.addresses[0], layout=layout, clock=self.clock).create_session(SESSION)
        smp_memory.open(self.addresses[1], clock=self.clock)
        self.acknowledged: dict[str, str | None] = {}  # by id; None: deleted
        self.count = 0

    def open(self, side: int) -> smp_memory.Memory:
        """As another process does."""
        self.clock.advance(1)
        return smp_memory.open(self.addresses[side], clock=self.clock)

    def can_write(self, memory: smp_memory.Memory) -> bool:
        try:
            memory.store.session(SESSION).config.require_original()
        except (NotAllowed, SessionNotFound):
            return False
        return True

    def run(self, step: tuple[Any, ...]) -> None:
        name, side, *rest = step
        with self.open(side) as memory, self.open(1 - side) as other:
            if name in ("write", "change", "delete", "erase"):
                self.write(name, memory)
                return
            stores: list[Any] = [memory.store, other.store]
            if rest:
                stores[0] = DyingStore(memory.store, rest[0], before=rest[1])
                stores[1] = stores[0].share(other.store)
            scopes = [Scope(store, None, memory.config, memory.scope.clock) for store in stores]
            try:
                report = exchange(*scopes, [SESSION], hand_over="hand over" in name)
                assert report.of("conflict") == []
            except Died:
                pass

    def write(self, name: str, memory: smp_memory.Memory) -> None:
        self.count += 1
        text = f"Text {self.count}"
        alive = sorted(id for id, known in self.acknowledged.items() if known is not None)
        try:
            session = memory.session(SESSION)
            if name == "write" or not alive:
                self.acknowledged[session.add_decision(text).id] = text
            elif name == "change":
                session.update(alive[self.count % len(alive)], decision=text)
                self.acknowledged[alive[self.count % len(alive)]] = text
            elif name == "delete":
                session.delete(alive[0])
                self.acknowledged[alive[0]] = None
            else:
                session.erase(alive[0])
                del self.acknowledged[alive[0]]
        except (NotAllowed, SessionNotFound):
            pass  # this side is a copy, or has none

    def check(self) -> None:
        sides = [self.open(side) for side in (0, 1)]
        writers = [memory for memory in sides if self.can_write(memory)]
        assert len(writers) <= 1
        for memory in writers:
            assert self.told(memory) == self.acknowledged
        for memory in sides:
            if memory.store.sessions():
                entries = memory.store.session(SESSION).history().histories.values()
                lines = [(entry.seq, entry.id, entry.op) for each in entries for entry in each.entries]
                assert len(set(lines)) == len(lines)
                assert memory.session(SESSION).validate().ok
            memory.close()

    def told(self, memory: smp_memory.Memory) -> dict[str, str | None]:
        records = memory.session(SESSION).records(include_deleted=True)
        return {record.id: None if record.deleted else record.decision for record in records}

    def settle(self) -> None:
        """Both sides are equal after one more exchange, whatever was interrupted."""
        with self.open(0) as laptop, self.open(1) as shared:
            pairs = [(laptop, shared), (shared, laptop)]
            if not any(map(self.can_write, (laptop, shared))):  # a hand-over was interrupted
                marks = {memory.root: memory.store.session(SESSION).info().config for memory in (laptop, shared)}
                assert all("copy_of" in mark for mark in marks.values())
                reports = [exchange(one.scope, other.scope, [SESSION], hand_over=True) for one, other in pairs]
                assert not any(report.of("conflict", "refused") for report in reports)
            for one, other in pairs:
                if self.can_write(one):
                    exchange(one.scope, other.scope, [SESSION])
        with self.open(0) as laptop, self.open(1) as shared:
            assert self.told(laptop) == self.told(shared) == self.acknowledged


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
@given(steps=STEPS)
def test_any_order_of_writes_exchanges_and_deaths_keeps_every_memory_once(layout: str, steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as folder:
        sides = Sides(Path(folder), layout)
        for step in steps:
            sides.run(step)
            sides.check()
        sides.settle()
