"""Throughput of eight threads and of eight processes that write to one session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from statistics import median

import sample_data
from sample_data import LAYOUTS, SESSION, endless, take
from timing import SHARES, Row, Target, alternate, each, progress, quantile
from writes import RawProbe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from run import Plan

WRITERS = 8


def threads(plan: Plan) -> Iterator[Row]:
    """Durable adds per second of eight threads that share a session, against one thread."""
    for layout in LAYOUTS:
        progress(f"eight threads, {layout}")
        root = plan.folder("threads")
        session, decisions = sample_data.new_session(root, layout), endless(sample_data.decision)
        raw, count = RawProbe(root, layout), plan.each_round(40)
        found = alternate(
            {
                "raw": lambda raw=raw, n=count: [sum(raw.durable(n)) / n],
                "one": lambda s=session, d=decisions, n=count: [_threads_seconds(s, d, 1, n)],
                "eight": lambda s=session, d=decisions, n=count: [_threads_seconds(s, d, WRITERS, n)],
            },
            plan.count(20, 1),
        )
        _check_all_there(session, (plan.count(20, 1) + 1) * count * (WRITERS + 1))
        raw.close()
        session.memory.close()
        details = {"raw, one thread /s": 1 / found.at("raw", 0.5), "best /s": 1 / found.at("eight", 0.0)}
        rates = 1 / found.at("eight", 0.5), 1 / found.at("one", 0.5)
        target, ratio = Target("ratio", at_least=4.0), 1 / found.ratio("eight", "one")
        yield Row("eight threads against one, durable", layout, "/s", *rates, ratio, target, details)


def _threads_seconds(session: Any, decisions: Iterator[Any], threads: int, count: int) -> float:
    """The seconds per add when they all begin together."""
    ready = threading.Barrier(threads + 1)

    def work(batch: list[Any]) -> None:
        ready.wait()
        for fields in batch:
            session.add_decision(**fields)

    workers = [threading.Thread(target=work, args=(take(decisions, count),)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - start) / (threads * count)


class Writer:
    """A process that is ready to write and begins when it is told to."""

    def __init__(self, root: str, layout: str) -> None:
        command = [sys.executable, os.path.abspath(__file__), root, layout]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("A writing process has died, see above.")
        return line

    def wait_until_ready(self) -> None:
        self._line()

    def begin(self, seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def result(self) -> list[float]:
        found: list[float] = json.loads(self._line())
        return found

    def close(self) -> None:
        self._process.communicate()


def processes(plan: Plan) -> Iterator[Row]:
    """Eight processes, started first and released together, write to one session for a fixed time; one does so alone."""
    for layout in LAYOUTS:
        progress(f"eight processes, {layout}")
        root, seconds = plan.folder("processes"), plan.seconds(1.0, 0.15)
        session = sample_data.new_session(root, layout)
        session.add_decision("The first one.")
        raw = RawProbe(root, layout)
        writers = [Writer(root, layout) for _ in range(WRITERS)]
        for writer in writers:
            writer.wait_until_ready()
        found = alternate(
            {
                "raw": lambda raw=raw, seconds=seconds: _for(seconds, lambda: raw.durable(1)[0]),
                "one": lambda w=writers[:1], seconds=seconds: _together(w, seconds),
                "eight": lambda w=writers, seconds=seconds: _together(w, seconds),
            },
            plan.count(6, 1),
        )
        for writer in writers:
            writer.close()
        raw.close()
        _check_all_there(session, at_least=1 + sum(len(found.all(side)) for side in ("one", "eight")))
        session.memory.close()
        yield from _process_rows(layout, found, seconds)


def _process_rows(layout: str, found: Any, seconds: float) -> Iterator[Row]:
    rates = {side: median(len(each) for each in found.rounds[side]) / seconds for side in found.rounds}
    ratio = found.ratio("eight", "one", len)
    details = {"raw, one process /s": rates["raw"]}
    target = Target("ratio", at_least=0.8)
    figure = "eight processes against one, in total"
    yield Row(figure, layout, "/s", rates["eight"], rates["one"], ratio, target, details)
    waits = found.all("eight")
    details = {f"{name} ms": quantile(waits, share) * 1e3 for name, share in SHARES}
    details |= {"one alone, max ms": found.at("one", 1.0) * 1e3, "raw max ms": found.at("raw", 1.0) * 1e3}
    target = Target("value", at_most=1.0)
    yield Row(
        "eight processes, longest single add", layout, "s", waits[-1], found.at("raw", 1.0), None, target, details
    )


def _together(writers: list[Writer], seconds: float) -> list[float]:
    for writer in writers:
        writer.begin(seconds)
    return [took for writer in writers for took in writer.result()]


def _for(seconds: float, work: Any) -> list[float]:
    end = time.perf_counter() + seconds
    found = []
    while time.perf_counter() < end:
        found.append(work())
    return found


def _check_all_there(session: Any, at_least: int) -> None:
    """A figure of writes that were lost would be worth nothing."""
    records = session.records("decision")
    if len(records) < at_least or len({record.id for record in records}) < len(records):
        raise RuntimeError(f"{at_least} memories were acknowledged, {len(records)} are there.")


def _write(root: str, layout: str) -> None:
    """The life of a writing process: each line on stdin says for how many seconds to write."""
    with sample_data.open_store(root, layout) as memory:
        session, decisions = memory.session(SESSION, author=str(os.getpid())), endless(sample_data.decision)
        print("ready", flush=True)
        for line in sys.stdin:
            took = _for(float(line), lambda: each(lambda fields: session.add_decision(**fields), take(decisions, 1))[0])
            print(json.dumps(took), flush=True)


if __name__ == "__main__":
    _write(*sys.argv[1:])
