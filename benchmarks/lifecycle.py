"""How long do compaction, archiving, deleting and maintenance take? Wall and CPU time beside the bounds they should keep.

python benchmarks/lifecycle.py [--sessions 1000] [--megabytes 10] [--layout jsonl]
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import sample_data

import smp
from smp.testing import FrozenClock


@contextmanager
def timed(name: str, bound_seconds: float) -> Iterator[None]:
    started, worked = time.perf_counter(), time.process_time()
    yield
    took, cpu = time.perf_counter() - started, time.process_time() - worked
    verdict = "ok" if took <= bound_seconds else "MISSED"
    print(f"{name:32} {took:8.3f} s   (cpu {cpu:.3f} s)   bound {bound_seconds:g} s   {verdict}")


def filled(memory: smp.Memory, name: str, megabytes: float, chance: random.Random) -> None:
    session = memory.create_session(name)
    wanted = int(megabytes * 1024 * 1024)
    size = 0
    while size < wanted:
        session.add_many([("turn", sample_data.turn(chance)) for _ in range(500)])
        size = sum(session.stats().files.values())


def probe(folder: str) -> None:
    """A raw write and sync of 10 MB, to compare with."""
    started = time.perf_counter()
    with open(os.path.join(folder, "probe"), "wb") as file:
        file.write(os.urandom(10 << 20))
        file.flush()
        os.fsync(file.fileno())
    print(f"{'raw write and sync of 10 MB':32} {time.perf_counter() - started:8.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=9.5)
    parser.add_argument("--layout", default="jsonl")
    options = parser.parse_args()
    chance = random.Random(4)
    with tempfile.TemporaryDirectory() as folder:
        probe(folder)
        clock = FrozenClock(datetime.now(UTC))
        config = {"compaction": {"enabled": False}, "privacy": {"redaction": {"enabled": False}}}
        with smp.open(os.path.join(folder, "large"), layout=options.layout, clock=clock, config=config) as memory:
            filled(memory, "large", options.megabytes, chance)
            memory.query("warm up", limit=1)
            clock.advance(days=40)
            session = memory.session("large")
            with timed("size_report", 2):
                session.size_report()
            with timed("compact, forced", 2):
                report = session.compact("forced")
            print(f"{'':32} {len(report.removed):,} memories, {report.freed_bytes:,} bytes")
            with timed("compact, all that may go", 2):
                session.compact(1 << 40)
            with timed("query, include_archived", 2):
                session.query("token refresh", include_archived=True)
            filled(memory, "other", options.megabytes, chance)
            with timed("archive", 3):
                memory.archive_session("other")
            with timed("restore", 3):
                memory.restore_session("other")
            with timed("delete_session", 0.05):
                memory.delete_session("other")
            with timed("undelete_session", 0.05):
                memory.undelete_session("other")
        clock = FrozenClock(datetime.now(UTC))
        with smp.open(
            os.path.join(folder, "many"), layout=options.layout, clock=clock, config={"durability": "os", **config}
        ) as memory:
            for number in range(options.sessions):
                memory.create_session(f"s{number}").add_decision(f"Decision {number} about tokens")
            memory.query("warm up", limit=1)
            clock.advance(days=3)
            with timed(f"maintain, {options.sessions:,} idle sessions", 5):
                memory.maintain()
            with timed(f"standings, {options.sessions:,} sessions", 1):
                memory.standings()


if __name__ == "__main__":
    main()
