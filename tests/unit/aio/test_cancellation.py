"""Cancellation: a call that has not begun is never made, one that has begun is finished, a transaction is stored whole or not at all."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import smp_memory
from smp_memory import aio
from smp_memory.aio.faces import THREADS, start
from smp_memory.errors import InvalidRecord
from smp_memory.files.system import RealSystem


class StoppedDisk(RealSystem):
    """A disk whose syncs wait while it is stopped."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._may_sync = threading.Event()
        self._may_sync.set()
        self.is_reached = threading.Event()

    def sync(self, descriptor: int) -> None:
        self.is_reached.set()
        self._may_sync.wait(30)
        super().sync(descriptor)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._may_sync.clear()
        self.is_reached.clear()
        try:
            yield
        finally:
            self._may_sync.set()


@contextmanager
def busy_threads() -> Iterator[None]:
    """All threads of the pool are busy, so a call waits in the queue."""
    go_on = threading.Event()
    begun = threading.Barrier(THREADS + 1)

    def work() -> None:
        begun.wait(30)
        go_on.wait(30)

    for _ in range(THREADS):
        start(work)
    begun.wait(30)
    try:
        yield
    finally:
        go_on.set()


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def texts(address: str | Path) -> list[str]:
    with smp_memory.open(address) as memory:
        return [record.text for session in memory.sessions() for record in session.records()]


async def test_a_call_that_has_not_begun_is_never_made(tmp_path: Path) -> None:
    async with aio.open(tmp_path / "store") as memory:
        session = await memory.create_session("review")
        with busy_threads():
            task = asyncio.create_task(session.add_decision("Never written"))
            await asyncio.sleep(0)
            await cancelled(task)
        await session.add_decision("Written")
    assert texts(tmp_path / "store") == ["Written"]


async def test_a_write_that_has_begun_is_finished_and_close_waits_for_it(tmp_path: Path) -> None:
    disk = StoppedDisk(str(tmp_path / "store"))
    memory = await aio.open(tmp_path / "store", system=disk)
    session = await memory.create_session("review")
    with disk.stopped():
        task = asyncio.create_task(session.add_decision("Written all the same"))
        await asyncio.to_thread(disk.is_reached.wait, 30)
        await cancelled(task)  # at once, although the disk still works
        closing = asyncio.create_task(memory.close())
        done, _ = await asyncio.wait([closing], timeout=0.05)
        assert not done
    await closing
    assert texts(tmp_path / "store") == ["Written all the same"]


async def test_close_waits_for_a_read_that_nobody_waits_for(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    finished: list[int] = []

    def count_slowly(text: str) -> int:
        begun.set()
        go_on.wait(30)
        finished.append(len(text))
        return len(text)

    memory = await aio.open(tmp_path / "store")
    session = await memory.create_session("review")
    await session.add_decision("Use OAuth 2.0")
    task = asyncio.create_task(session.context(task="oauth", counter=count_slowly))
    await asyncio.to_thread(begun.wait, 30)
    await cancelled(task)
    closing = asyncio.create_task(memory.close())
    await asyncio.wait([closing], timeout=0.05)
    assert not closing.done()
    go_on.set()
    await closing
    assert finished


async def test_an_acknowledged_write_survives_whatever_is_cancelled_later(tmp_path: Path) -> None:
    memory = await aio.open(tmp_path / "store")
    session = await memory.create_session("review")

    async def write_and_wait() -> None:
        await session.add_decision("Acknowledged")
        await asyncio.sleep(3600)

    task = asyncio.create_task(write_and_wait())
    while not await session.records():
        await asyncio.sleep(0)
    await cancelled(task)
    assert texts(tmp_path / "store") == ["Acknowledged"]
    await memory.close()


async def test_a_cancelled_call_rolls_the_transaction_back(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    with pytest.raises(TimeoutError):
        async with session.transaction() as tx:
            await tx.add_decision("First")
            with busy_threads():
                async with asyncio.timeout(0.001):
                    await tx.add_decision("Second")
    assert len(await session.records()) == 0


async def test_a_transaction_whose_call_was_cancelled_cannot_be_committed(memory: aio.AsyncMemory) -> None:
    """Whether the cancelled write was collected depends on the moment, so going on would store one of two things."""
    session = await memory.create_session("review")
    with pytest.raises(InvalidRecord, match="cancelled"):
        async with session.transaction() as tx:
            await tx.add_decision("First")
            with busy_threads():
                task = asyncio.create_task(tx.add_decision("Second"))
                await asyncio.sleep(0)
                await cancelled(task)
    assert len(await session.records()) == 0
    with pytest.raises(InvalidRecord, match="ended"):
        await tx.add_decision("Third")


async def test_a_commit_that_is_cancelled_while_it_runs_is_stored_whole(tmp_path: Path) -> None:
    disk = StoppedDisk(str(tmp_path / "store"))
    async with aio.open(tmp_path / "store", system=disk) as memory:
        session = await memory.create_session("review")

        async def write() -> None:
            async with session.transaction() as tx:
                for number in range(10):
                    await tx.add_decision(f"Decision {number}")

        with disk.stopped():
            task = asyncio.create_task(write())
            await asyncio.to_thread(disk.is_reached.wait, 30)
            await cancelled(task)
    assert len(texts(tmp_path / "store")) == 10


async def test_a_commit_that_is_cancelled_before_it_begins_stores_nothing(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    tx = session.transaction()
    await tx.add_decision("Never written")
    with busy_threads():
        task = asyncio.create_task(tx.commit())
        await asyncio.sleep(0)
        await cancelled(task)
    assert len(await session.records()) == 0


async def test_a_task_group_that_fails_keeps_what_was_acknowledged(memory: aio.AsyncMemory) -> None:
    session = await memory.create_session("review")
    acknowledged = []

    async def write(number: int) -> None:
        if number == 3:
            raise ZeroDivisionError
        acknowledged.append((await session.add_decision(f"Decision {number}")).id)

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(write(number))
    assert set(acknowledged) <= {record.id for record in await session.records()}


async def test_a_store_whose_opening_was_cancelled_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class Opened:
        close = closed.set

    def open_slowly(where: object) -> Opened:
        begun.set()
        go_on.wait(30)
        return Opened()

    monkeypatch.setattr("smp_memory.aio.faces.open_memory", open_slowly)
    task = asyncio.create_task(aio.open("anywhere").__aenter__())
    await asyncio.to_thread(begun.wait, 30)
    await cancelled(task)
    assert not closed.is_set()
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 30)


@pytest.fixture(params=["jsonl", "markdown", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres").new_schema_address()
        return found
    smp_memory.open(tmp_path / "store", layout=request.param).close()
    return str(tmp_path / "store")


async def test_random_cancellation_loses_and_doubles_nothing(address: str) -> None:
    chance = random.Random(27)
    acknowledged: list[str] = []
    sent: list[str] = []
    together: dict[str, bool] = {}
    async with aio.open(address) as memory:
        session = await memory.create_session("review")

        async def write(task: int) -> None:
            for number in range(1000):
                text = f"Task {task} decision {number}"
                sent.append(text)
                await session.add_decision(text)
                acknowledged.append(text)
                if number % 5 == 0:
                    name = f"Task {task} transaction {number}"
                    together[name] = False
                    async with session.transaction() as tx:
                        await tx.add_finding(f"{name} a")
                        await tx.add_finding(f"{name} b")
                    together[name] = True

        for first in range(0, 200, 20):
            tasks = [asyncio.create_task(write(first + each)) for each in range(20)]
            for task in chance.sample(tasks, len(tasks)):
                await asyncio.sleep(chance.random() * 0.005)
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    stored = texts(address)
    assert len(stored) == len(set(stored))
    assert acknowledged
    assert set(acknowledged) <= set(stored)
    assert {text for text in stored if "decision" in text} <= set(sent)
    for name, is_acknowledged in together.items():
        halves = [f"{name} a" in stored, f"{name} b" in stored]
        assert halves[0] == halves[1]
        assert halves[0] or not is_acknowledged


# -- loops, threads and processes


def test_loops_in_several_threads_share_a_store(tmp_path: Path) -> None:
    async def opened() -> tuple[aio.AsyncMemory, aio.AsyncSessionMemory]:
        memory = await aio.open(tmp_path / "store")
        return memory, await memory.create_session("review")

    memory, session = asyncio.run(opened())

    async def write(thread: int) -> None:
        await asyncio.gather(*(session.add_decision(f"{thread} {number}") for number in range(20)))

    threads = [threading.Thread(target=lambda each=each: asyncio.run(write(each))) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(memory.close())
    assert len(set(texts(tmp_path / "store"))) == 80


def test_a_loop_that_is_closed_with_a_call_running_does_not_disturb_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = StoppedDisk(str(tmp_path / "store"))

    async def begin() -> aio.AsyncMemory:
        memory = await aio.open(tmp_path / "store", system=disk)
        session = await memory.create_session("review")
        disk.stopped().__enter__()
        task = asyncio.create_task(session.add_decision("Written after the loop"))
        await asyncio.to_thread(disk.is_reached.wait, 30)
        task.cancel()
        return memory

    loop = asyncio.new_event_loop()
    memory = loop.run_until_complete(begin())
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    with disk.stopped():
        pass  # goes on
    asyncio.run(memory.close())
    assert texts(tmp_path / "store") == ["Written after the loop"]
    assert caplog.records == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_call(tmp_path: Path) -> None:
    async def write(text: str) -> None:
        async with aio.open(tmp_path / "store") as memory:
            session = (await memory.sessions() or [await memory.create_session("review")])[0]
            await session.add_decision(text)

    asyncio.run(write("Parent"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(write("Child"))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(write("Parent again"))
    assert sorted(texts(tmp_path / "store")) == ["Child", "Parent", "Parent again"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_calls_of_its_parent() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def tell_time() -> datetime:
        if threading.current_thread() is not threading.main_thread() and is_slow:
            begun.set()
            go_on.wait(30)
        return datetime.now(UTC)

    async def begin() -> aio.AsyncMemory:
        nonlocal is_slow
        memory = await aio.open(":memory:", clock=tell_time)
        is_slow = True
        task = asyncio.create_task(memory.now())
        await asyncio.to_thread(begun.wait, 30)
        await cancelled(task)
        return memory

    is_slow = False
    memory = asyncio.run(begin())
    child = os.fork()
    if child == 0:
        is_slow, status = False, 1
        try:
            signal.alarm(20)  # ends a child that waits
            asyncio.run(memory.close())
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    asyncio.run(memory.close())


PROGRAM = """
import asyncio, os, signal, sys, threading
from smp_memory import aio
from smp_memory.files.system import RealSystem

reached = threading.Event()

class Disk(RealSystem):
    is_slow = False
    def sync(self, descriptor):
        if self.is_slow:
            reached.set()
            __import__("time").sleep(0.2)
        super().sync(descriptor)

async def main():
    disk = Disk(sys.argv[1])
    memory = await aio.open(sys.argv[1], system=disk)
    session = await memory.create_session("review")
    await session.add_decision("Acknowledged")
    disk.is_slow = True
    task = asyncio.create_task(session.add_decision("Running"))
    await asyncio.to_thread(reached.wait)
    {end}

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("end", "output"),
    [
        ("return", ""),
        ("os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(60)", "interrupted\n"),
        ("sys.exit(0)", ""),
    ],
    ids=["end of the program", "KeyboardInterrupt", "sys.exit"],
)
def test_calls_that_run_are_finished_before_the_interpreter_exits(tmp_path: Path, end: str, output: str) -> None:
    program = PROGRAM.replace("{end}", end)
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")
    assert texts(tmp_path / "store") == ["Acknowledged", "Running"]
