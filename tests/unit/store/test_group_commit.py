"""Group commit: threads share an fsync."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from smp_memory.errors import Conflict, StorageError
from smp_memory.store.durability import GroupCommit, _Ticket

WAIT_SECONDS = 10.0


class Batch:
    """What the queue needs of one."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.error: Any = None


class Disk:
    """Remembers the groups; the first one takes until it is let go."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.groups: list[list[int]] = []
        self.busy = threading.Event()
        self.let_go = threading.Event()
        self.failure = failure

    def commit(self, batches: list[Any]) -> None:
        self.groups.append([batch.number for batch in batches])
        if len(self.groups) == 1:
            self.busy.set()
            assert self.let_go.wait(WAIT_SECONDS)
        elif self.failure is not None:
            raise self.failure


def in_threads(group: GroupCommit, batches: list[Batch]) -> tuple[list[threading.Thread], dict[int, BaseException]]:
    raised: dict[int, BaseException] = {}

    def run(batch: Batch) -> None:
        try:
            group.commit(batch)  # type: ignore[arg-type]
        except BaseException as error:
            raised[batch.number] = error

    threads = []
    for batch in batches:
        thread = threading.Thread(target=run, args=(batch,))
        thread.start()
        threads.append(thread)
        waiting = len(threads) - 1
        until(lambda waiting=waiting: group._has_leader and len(group._queue) == waiting)
    return threads, raised


def until(condition: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.0005)


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


def test_waiting_batches_are_written_together_in_order() -> None:
    disk = Disk()
    group = GroupCommit(disk.commit)
    threads, raised = in_threads(group, [Batch(number) for number in range(6)])
    disk.let_go.set()
    joined(threads)
    assert (disk.groups, raised) == ([[0], [1, 2, 3, 4, 5]], {})


def test_single_thread_does_not_wait() -> None:
    sizes: list[int] = []
    group = GroupCommit(lambda batches: sizes.append(len(batches)))
    group.patience_seconds = WAIT_SECONDS
    start = time.monotonic()
    for _ in range(100):
        group.commit(Batch())  # type: ignore[arg-type]
    assert time.monotonic() - start < WAIT_SECONDS / 2
    assert sizes == [1] * 100


def test_leader_waits_for_its_previous_group_and_is_woken_by_the_last() -> None:
    disk = Disk()
    group = GroupCommit(disk.commit)
    group.patience_seconds = WAIT_SECONDS
    again = threading.Barrier(3)

    def run(number: int) -> None:
        group.commit(Batch(number))  # type: ignore[arg-type]
        again.wait(WAIT_SECONDS)
        group.commit(Batch(number))  # type: ignore[arg-type]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    start = time.monotonic()
    group._expected = 3
    disk.let_go.set()
    for thread in threads:
        thread.start()
    joined(threads)
    assert [sorted(each) for each in disk.groups] == [[0, 1, 2], [0, 1, 2]]
    assert time.monotonic() - start < WAIT_SECONDS / 2


def test_leader_stops_waiting_for_a_thread_that_has_ended() -> None:
    sizes: list[int] = []
    group = GroupCommit(lambda batches: sizes.append(len(batches)))
    group._expected = 8
    group.commit(Batch())  # type: ignore[arg-type]
    group.patience_seconds = WAIT_SECONDS  # the second time nobody is expected any more
    start = time.monotonic()
    group.commit(Batch())  # type: ignore[arg-type]
    assert time.monotonic() - start < WAIT_SECONDS / 2
    assert sizes == [1, 1]


def test_group_error_is_raised_in_every_thread_and_batch_error_in_its_own() -> None:
    disk = Disk(failure=StorageError("no"))
    group = GroupCommit(disk.commit)
    threads, raised = in_threads(group, [Batch(0), Batch(1), Batch(2)])
    disk.let_go.set()
    joined(threads)
    assert sorted(raised) == [1, 2]
    wrong = Batch(7)
    wrong.error = Conflict("mine")
    disk.failure = None
    with pytest.raises(Conflict):
        group.commit(wrong)  # type: ignore[arg-type]
    group.commit(Batch(8))  # type: ignore[arg-type]
    assert disk.groups[-1] == [8]


@pytest.mark.parametrize("leads", [True, False])
def test_interrupted_waiting_thread_does_not_block_others(leads: bool) -> None:
    """Ctrl-C reaches a thread in the middle of its sleep."""
    disk = Disk()
    group = GroupCommit(disk.commit)
    threads, raised = in_threads(group, [Batch(0)])

    class Interrupted:
        def acquire(self) -> None:
            if leads:
                disk.let_go.set()
                until(lambda: ticket.leads)
            raise KeyboardInterrupt

        def release(self) -> None:
            pass

    ticket = _Ticket(Batch(1))  # type: ignore[arg-type]
    ticket.wake = Interrupted()  # type: ignore[assignment]
    group._queue.append(ticket)
    with pytest.raises(KeyboardInterrupt):
        group._sleep(ticket)
    disk.let_go.set()
    joined(threads)
    group.commit(Batch(2))  # type: ignore[arg-type]
    assert (disk.groups, raised) == ([[0], [2]], {})
    assert not group._has_leader
