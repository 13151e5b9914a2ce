"""Cost of a write beside the disk: durable adds, adds left to the operating system, bulk, large sessions."""

from __future__ import annotations

import json
import os
import time
from statistics import median

import sample_data
from sample_data import LAYOUTS, endless, take
from timing import MICROSECONDS, Row, Target, alternate, each, progress, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from run import Plan

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_sync = getattr(os, "fdatasync", os.fsync)
SMALL_BYTES = 100_000


class RawProbe:
    """What a program without SMP would do: encode as JSON, write the bytes that SMP writes, sync. File kept open."""

    def __init__(self, root: str, layout: str, count: int = 50) -> None:
        """The bytes come from a store of this layout beside the measured one, to which the same decisions are added."""
        session = sample_data.new_session(root + "-twin", layout, "os")
        decisions = endless(sample_data.decision)
        session.add_decision(**next(decisions))
        sizes = sample_data.data_files(root + "-twin")
        session.add_decision(**next(decisions))
        path = next(path for path, size in sizes.items() if os.path.getsize(path) > size)
        self._pairs: list[tuple[dict[str, Any], bytes]] = []
        for fields in take(decisions, count):
            before = os.path.getsize(path)
            record = session.add_decision(**fields)
            with open(path, "rb") as file:
                file.seek(before)
                self._pairs.append((record.to_dict(), file.read()))
        session.memory.close()
        beside = os.path.dirname(path.replace(root + "-twin", root, 1))
        self._file = os.open(os.path.join(beside, "raw-probe"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._next = 0
        self.mean_bytes = sum(len(data) for _, data in self._pairs) / count

    def _pair(self) -> tuple[dict[str, Any], bytes]:
        self._next += 1
        return self._pairs[self._next % len(self._pairs)]

    def durable(self, count: int) -> list[float]:
        return each(lambda pair: (self._write(pair), _sync(self._file)), [self._pair() for _ in range(count)])

    def unsynced(self, count: int) -> list[float]:
        pairs = [self._pair() for _ in range(count)]
        return whole(lambda: [self._write(pair) for pair in pairs])

    def bulk(self, count: int) -> list[float]:
        pairs = [self._pair() for _ in range(count)]

        def work() -> None:
            data = [(_encode(fields).encode(), stored)[1] for fields, stored in pairs]
            os.write(self._file, b"".join(data))
            _sync(self._file)

        return whole(work)

    def _write(self, pair: tuple[dict[str, Any], bytes]) -> None:
        _encode(pair[0]).encode()
        os.write(self._file, pair[1])

    def close(self) -> None:
        os.close(self._file)


def durable_add(plan: Plan) -> Iterator[Row]:
    """`add_decision`, durability "always", against the raw probe, one by one."""
    for layout in LAYOUTS:
        progress(f"durable add, {layout}")
        root = plan.folder("durable")
        session, decisions = sample_data.new_session(root, layout), endless(sample_data.decision)
        raw, count = RawProbe(root, layout), plan.each_round(20)

        def add(s: Any = session, d: Any = decisions, count: int = count) -> list[float]:
            return each(lambda fields: s.add_decision(**fields), take(d, count))

        found = alternate({"raw": lambda raw=raw, count=count: raw.durable(count), "smp": add}, plan.count(60, 1))
        raw.close()
        session.memory.close()
        details = {
            **found.details("smp", MICROSECONDS),
            **{f"raw {name}": number for name, number in found.details("raw", MICROSECONDS).items()},
            "bytes per memory": raw.mean_bytes,
            "p10 µs": found.at("smp", 0.1) * 1e6,
            "raw p10 µs": found.at("raw", 0.1) * 1e6,
        }
        target = Target("ratio", at_most=2.0 if layout == "markdown" else 1.5)
        p50 = found.at("smp", 0.5) * 1e6, found.at("raw", 0.5) * 1e6
        yield Row("durable add_decision, p50", layout, "µs", *p50, found.ratio("smp", "raw"), target, details)


def add_rate(plan: Plan) -> Iterator[Row]:
    """Adds per second in one process with durability "os"."""
    for layout in LAYOUTS:
        progress(f"adds per second without sync, {layout}")
        root, count = plan.folder("rate"), 250
        session, decisions = sample_data.new_session(root, layout, "os"), endless(sample_data.decision)
        raw, cpu = RawProbe(root, layout), []

        def add(s: Any = session, d: Any = decisions, cpu: list[float] = cpu, count: int = count) -> list[float]:
            batch = take(d, count)
            start = time.process_time()
            seconds = whole(lambda: [s.add_decision(**fields) for fields in batch])
            cpu.append(time.process_time() - start)
            return seconds

        found = alternate({"raw": lambda raw=raw: raw.unsynced(250), "smp": add}, plan.count(60, 1))
        raw.close()
        session.memory.close()
        yield _rate_row('adds, durability="os"', layout, count, found, median(cpu), Target("value", at_least=15_000))


def bulk(plan: Plan) -> Iterator[Row]:
    """`add_many` of 1,000, durable: decisions, and the realistic mix."""
    for layout in LAYOUTS:
        for case, make in (
            ("decisions", lambda rng: ("decision", sample_data.decision(rng))),
            ("mix", sample_data.memory),
        ):
            progress(f"add_many of 1,000 {case}, {layout}")
            root, count = plan.folder("bulk"), 1000
            session, source = sample_data.new_session(root, layout), endless(make)
            raw, cpu = RawProbe(root, layout), []

            def add(s: Any = session, source: Any = source, cpu: list[float] = cpu, count: int = count) -> list[float]:
                batch = take(source, count)
                start = time.process_time()
                seconds = whole(lambda: s.add_many(batch))
                cpu.append(time.process_time() - start)
                return seconds

            found = alternate({"raw": lambda raw=raw: raw.bulk(1000), "smp": add}, plan.count(15, 1))
            raw.close()
            session.memory.close()
            target = Target("value", at_least=30_000) if case == "decisions" else None
            yield _rate_row("add_many of 1,000, durable", f"{layout}, {case}", count, found, median(cpu), target)


def _rate_row(figure: str, case: str, count: int, found: Any, cpu_seconds: float, target: Target | None) -> Row:
    """Rates are of whole rounds; p50 is the middle one."""
    rates = {side: count / found.at(side, 0.5) for side in ("smp", "raw")}
    details = {
        "best /s": count / found.at("smp", 0.0),
        "p95 /s": count / found.at("smp", 0.95),
        "per CPU second": count / cpu_seconds,
    }
    return Row(figure, case, "/s", rates["smp"], rates["raw"], rates["smp"] / rates["raw"], target, details)


def large_session(plan: Plan) -> Iterator[Row]:
    """A turn added to a session of 9 MB against one of 100 kB."""
    for layout in LAYOUTS:
        large_root = plan.folder("large")
        sample_data.fill(large_root, layout, plan.size(9_000_000))
        for durability in ("always", "os"):
            progress(f"adding to a large session, {layout}, {durability}")
            rounds, count = plan.count(40, 1), plan.each_round(20)
            roots = [plan.folder("small") for _ in range(0, rounds + 1, _ROUNDS_EACH_SMALL)]
            for root in roots:
                sample_data.fill(root, layout, SMALL_BYTES)
            sides = {
                "small": _turns(roots, layout, durability, count),
                "large": _turns([large_root], layout, durability, count),
            }
            found = alternate(sides, rounds)
            details = {**found.details("large", MICROSECONDS), "small p95 µs": found.at("small", 0.95) * 1e6}
            details["small kB at the end"] = max(sum(sample_data.data_files(root).values()) for root in roots) / 1e3
            p50 = found.at("large", 0.5) * 1e6, found.at("small", 0.5) * 1e6
            case, target = f"{layout}, {durability}", Target("ratio", at_most=1.3)
            figure = "adding at 9 MB against at 100 kB, p50"
            yield Row(figure, case, "µs", *p50, found.ratio("large", "small"), target, details)


_ROUNDS_EACH_SMALL = 5  # then the next one: a session that is added to does not stay small


def _turns(roots: list[str], layout: str, durability: str, count: int) -> Callable[[], list[float]]:
    """Rounds of adds to one session, or to several, one after another. The first add of each opens files: not counted."""
    turns = endless(sample_data.turn)
    sessions = [sample_data.open_store(root, layout, durability).session(sample_data.SESSION) for root in roots]
    for session in sessions:
        session.add_turn(**next(turns))
    done = 0

    def add() -> list[float]:
        nonlocal done
        session = sessions[min(done // _ROUNDS_EACH_SMALL, len(sessions) - 1)]
        done += 1
        return each(lambda fields: session.add_turn(**fields), take(turns, count))

    return add
