"""Watching a store from asyncio: no thread waits, no hit is lost, nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from smp_memory import aio
from smp_memory.aio.pool import THREADS
from smp_memory.errors import InvalidQuery


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
