"""What asyncio costs: a durable add through `smp_memory.aio` against a sync one, and how late the event loop runs while tasks work."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time

import sample_data
from sample_data import endless, take
from timing import Row, Target, alternate, each, progress, quantile

from smp_memory import aio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    from run import Plan

LAYOUT = "jsonl"
TASKS = 8
MEMORIES = 5_000
TICK_SECONDS = 0.001
_DOCUMENT = [{"number": number, "text": "x" * 50} for number in range(20)]


def aio_calls(plan: Plan) -> Iterator[Row]:
    """Durable adds one by one and gathered, sync and async; the lag of the event loop while eight tasks write and query."""
    progress("asyncio")
    with asyncio.Runner() as runner:
        root = plan.folder("aio")
        with sample_data.open_store(root, LAYOUT):
            pass
        memory = runner.run(_opened(root))
        session = runner.run(memory.create_session("async"))
        yield from _add_rows(plan, runner, session)
        runner.run(session.add_many([("decision", fields) for fields in take(_decisions(), MEMORIES)]))
        runner.run(memory.query("the first query fills the index"))
        yield _lag_row(runner, memory, session, plan.seconds(6.0, 0.5))
        runner.run(memory.close())


async def _opened(root: str) -> Any:
    return await aio.open(root)


def _decisions() -> Iterator[Any]:
    return endless(sample_data.decision)


def _add_rows(plan: Plan, runner: asyncio.Runner, session: Any) -> Iterator[Row]:
    decisions, count = _decisions(), plan.each_round(40)

    async def one_by_one() -> list[float]:
        seconds = []
        for fields in take(decisions, count):
            start = time.perf_counter()
            await session.add_decision(**fields)
            seconds.append(time.perf_counter() - start)
        return seconds

    async def gathered() -> list[float]:
        start = time.perf_counter()
        await asyncio.gather(*(session.add_decision(**fields) for fields in take(decisions, 100)))
        return [(time.perf_counter() - start) / 100]

    add = session.blocking.add_decision
    found = alternate(
        {
            "sync": lambda: each(lambda fields: add(**fields), take(decisions, count)),
            "async": lambda: runner.run(one_by_one()),
            "gathered": lambda: runner.run(gathered()),
        },
        plan.count(20, 2),
    )
    values = found.at("async", 0.5) * 1e6, found.at("sync", 0.5) * 1e6
    details = {"gathered, each µs": found.at("gathered", 0.5) * 1e6}
    target = Target("ratio", at_most=1.5)
    yield Row("async add_decision, durable, p50", LAYOUT, "µs", *values, found.ratio("async", "sync"), target, details)


def _lag_row(runner: asyncio.Runner, memory: Any, session: Any, seconds: float) -> Row:
    decisions = _decisions()

    async def write_and_query() -> None:
        await session.add_decision(**next(decisions))
        await memory.query(" ".join(next(decisions)["decision"].split()[:5]), limit=10)

    lags = {"smp": runner.run(_lags(write_and_query, seconds)), "raw": runner.run(_lags(_raw_work, seconds))}
    details = {
        f"{side} {name} ms": quantile(lags[side], share) * 1e3
        for side in lags
        for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
    }
    values = [quantile(lags[side], 0.99) * 1e3 for side in ("smp", "raw")]
    return Row("event loop lag, p99", "8 tasks", "ms", *values, None, Target("value", at_most=5.0), details)


async def _raw_work() -> None:
    await aio.call(_encode_and_hash)


def _encode_and_hash() -> None:
    """Takes about as long as a query."""
    for _ in range(500):
        hashlib.sha256(json.dumps(_DOCUMENT).encode()).digest()


async def _lags(work: Callable[[], Awaitable[None]], seconds: float) -> list[float]:
    """How late a task runs that sleeps for a millisecond again and again while others work, sorted."""
    end = time.perf_counter() + seconds
    lags: list[float] = []

    async def tick() -> None:
        while time.perf_counter() < end:
            start = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            lags.append(time.perf_counter() - start - TICK_SECONDS)

    async def repeat() -> None:
        while time.perf_counter() < end:
            await work()

    await asyncio.gather(tick(), *(repeat() for _ in range(TASKS)))
    return sorted(lags)
