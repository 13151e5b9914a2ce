"""The checks report no false issues while other processes write."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import smp_memory
from tests.crash.scenarios import depth
from tests.unit.health.sample_store import QUICKLY, checked


def test_store_is_healthy_while_being_written(tmp_path: Path) -> None:
    root, enough = tmp_path / "store", threading.Event()
    with smp_memory.open(root, config=QUICKLY) as memory:
        for name in ("one", "two"):
            memory.create_session(name)
        writers = [threading.Thread(target=write, args=(root, number, enough)) for number in range(2)]
        for writer in writers:
            writer.start()
        try:
            found = [finding for _ in range(depth(15, 60)) for finding in checked(root).findings]
        finally:
            enough.set()
            for writer in writers:
                writer.join()
        assert found == []
        assert memory.doctor().findings == []


def write(root: Path, number: int, enough: threading.Event) -> None:
    """All that one may do with a store, again and again, with a store of one's own."""
    chance = random.Random(number)
    with smp_memory.open(root, config=QUICKLY) as memory:
        turn = 0
        while not enough.is_set():
            turn += 1
            session, other = (memory.session(chance.choice(["one", "two"])) for _ in range(2))
            said = f"{number} says {turn} {chance.random()}"
            session.add_many([("turn", {"role": "user", "content": f"{said} {line}"}) for line in range(20)])
            with session.transaction() as tx:
                decision = tx.add_decision(f"Decided {said}")
                tx.relate(decision, tx.add_learning(f"Learned {said}"), "led_to")
            target = other.add_decision(f"Somewhere else {said}")
            session.relate(session.add_decision(f"Rests on it {said}"), f"{other.id}/{target.id}")
            other.delete(other.add_turn("user", f"Not for long {said}").id)
            memory.query("says")
            name = f"passing-{number}"
            memory.create_session(name).add_decision(f"For a moment {said}")
            memory.archive_session(name)
            memory.restore_session(name)
            memory.delete_session(name)
            memory.purge_session(name)
