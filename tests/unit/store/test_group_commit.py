"""Group commit: threads share an fsync."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any

import pytest

from smp_memory.errors import Conflict, StorageError
from smp_memory.store import durability
from smp_memory.store.durability import GroupCommit

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


def in_threads(
    group: GroupCommit, disk: Disk, batches: list[Batch]
) -> tuple[list[threading.Thread], dict[int, BaseException]]:
    """Each batch in a thread of its own; the first one writes, the others wait in their order."""
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
        assert disk.busy.wait(WAIT_SECONDS)
        if len(threads) > 1:
            until_asleep(thread)
    return threads, raised


def until_asleep(thread: threading.Thread) -> None:
    """Wait until a thread does not move any more inside of the group commit."""
    place, same = None, 0
    end = time.monotonic() + WAIT_SECONDS
    while same < 5:
        assert time.monotonic() < end
        time.sleep(0.001)
        frame = sys._current_frames().get(thread.ident or 0)
        is_inside = frame is not None and frame.f_code.co_filename == durability.__file__
        found = (frame.f_code, frame.f_lasti) if frame is not None and is_inside else None
        same = same + 1 if found is not None and found == place else 0
        place = found


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


def after_two_wrote_together() -> tuple[GroupCommit, Disk]:
    disk = Disk()
    group = GroupCommit(disk.commit)
    threads, _ = in_threads(group, disk, [Batch(0), Batch(1), Batch(2)])
    disk.let_go.set()
    joined(threads)
    assert disk.groups == [[0], [1, 2]]
    return group, disk


def test_waiting_batches_are_written_together_in_order() -> None:
    disk = Disk()
    group = GroupCommit(disk.commit)
    threads, raised = in_threads(group, disk, [Batch(number) for number in range(6)])
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
    group, disk = after_two_wrote_together()
    group.patience_seconds = WAIT_SECONDS
    start = time.monotonic()
    leader, last = (threading.Thread(target=group.commit, args=(Batch(number),)) for number in (3, 4))
    leader.start()
    until_asleep(leader)
    last.start()
    joined([leader, last])
    assert disk.groups[2:] == [[3, 4]]
    assert time.monotonic() - start < WAIT_SECONDS / 2


def test_leader_stops_waiting_for_a_thread_that_has_ended() -> None:
    group, disk = after_two_wrote_together()
    group.commit(Batch(3))  # type: ignore[arg-type]
    group.patience_seconds = WAIT_SECONDS  # the second time nobody is expected any more
    start = time.monotonic()
    group.commit(Batch(4))  # type: ignore[arg-type]
    assert time.monotonic() - start < WAIT_SECONDS / 2
    assert disk.groups[2:] == [[3], [4]]


def test_group_error_is_raised_in_every_thread_and_batch_error_in_its_own() -> None:
    disk = Disk(failure=StorageError("no"))
    group = GroupCommit(disk.commit)
    threads, raised = in_threads(group, disk, [Batch(0), Batch(1), Batch(2)])
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


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads on this system")
@pytest.mark.parametrize("is_next", [False, True])
def test_interrupted_waiting_thread_does_not_block_others(is_next: bool) -> None:
    """Ctrl-C reaches a thread in the middle of its sleep, or as it is told to lead the next group."""
    disk = Disk()
    group = GroupCommit(disk.commit)
    threads, raised = in_threads(group, disk, [Batch(0)])
    waiting = threading.current_thread()

    def interrupt() -> None:
        until_asleep(waiting)
        if is_next:
            disk.let_go.set()
        signal.pthread_kill(waiting.ident or 0, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    interrupted = False
    try:
        group.commit(Batch(1))  # type: ignore[arg-type]
        interrupter.join(WAIT_SECONDS)
        time.sleep(0)  # the signal may arrive after the commit
    except KeyboardInterrupt:
        interrupted = True
    assert interrupted
    disk.let_go.set()
    joined([*threads, interrupter])
    group.commit(Batch(2))  # type: ignore[arg-type]
    assert raised == {}
    assert disk.groups in ([[0], [2]], [[0], [1], [2]] if is_next else [[0], [2]])
