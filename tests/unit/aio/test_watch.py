"""Watching a store from asyncio: no thread waits, no hit is lost, nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from smp_memory import aio
from smp_memory.aio.faces import THREADS
from smp_memory.errors import InvalidQuery


class StoppedClock:
    """A clock that can be stopped: whoever asks for the time waits, also a look at the store."""

    def __init__(self) -> None:
        self._may_tell = threading.Event()
        self._may_tell.set()
        self.is_reached = threading.Event()
        self.waiting = 0

    def __call__(self) -> datetime:
        if not self._may_tell.is_set():
            self.waiting += 1
            self.is_reached.set()
            self._may_tell.wait(30)
        return datetime.now(UTC)

    def stop(self) -> None:
        self._may_tell.clear()

    def go_on(self) -> None:
        self._may_tell.set()


async def test_new_memories_come_as_they_are_written(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    await session.add_decision("Before")
    async with session.watch(pause=0.001) as hits:
        for text in ("One", "Two"):
            await session.add_decision(text)
            assert (await anext(hits)).record.text == text


async def test_a_watch_ends_after_its_timeout(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    assert [hit async for hit in session.watch(timeout=0.01, pause=0.001)] == []


async def test_a_wrong_option_is_an_error_of_the_first_step(memory: aio.AsyncMemory) -> None:
    with pytest.raises(InvalidQuery, match="pause"):
        await anext(memory.watch(pause=-1))


async def test_more_watchers_than_threads_do_not_stop_others(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    found: list[str] = []
    begun = asyncio.Barrier(4 * THREADS + 1)

    async def watch() -> None:
        async with session.watch(pause=0.01) as hits:
            await begun.wait()
            found.append((await anext(hits)).record.text)

    tasks = [asyncio.create_task(watch()) for _ in range(4 * THREADS)]
    await begun.wait()
    await session.add_decision("Seen by all")
    await asyncio.gather(*tasks)
    assert found == ["Seen by all"] * len(tasks)


async def test_a_cancelled_step_loses_no_hit(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    async with memory.watch(pause=0.0001) as hits:
        seen: list[str] = []
        for number in range(60):
            await session.add_decision(f"Decision {number}")
            try:
                async with asyncio.timeout(0.0005 * (number % 7)):
                    seen.append((await anext(hits)).record.text)
            except TimeoutError:
                pass
        while len(seen) < 60:
            seen.append((await anext(hits)).record.text)
    assert seen == [f"Decision {number}" for number in range(60)]


async def test_a_step_after_a_cancelled_one_waits_for_its_look() -> None:
    """Two looks at the same time would give a hit twice."""
    clock = StoppedClock()
    async with aio.open(":memory:", clock=clock) as memory:
        session = await memory.create_session("review")
        async with memory.watch(pause=0.001) as hits:
            await session.add_decision("Once")
            clock.stop()
            first = asyncio.create_task(anext(hits))
            await asyncio.to_thread(clock.is_reached.wait, 30)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            second = asyncio.create_task(anext(hits))
            await asyncio.wait([second], timeout=0.05)
            assert clock.waiting == 1
            clock.go_on()
            assert (await second).record.text == "Once"
            await session.add_decision("Last")
            assert (await anext(hits)).record.text == "Last"


async def test_a_watcher_that_is_cancelled_leaves_nothing(memory: aio.AsyncMemory) -> None:
    async def watch() -> None:
        async for _ in memory.watch(pause=0.001):
            pass

    task = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_agent_watches_what_it_may_see(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    async with (await session.agent("architect")).watch(pause=0.001) as hits:
        await session.update_agent_state("veritas", {"secret": "plan"})
        await session.add_decision("For all")
        assert (await anext(hits)).record.text == "For all"
