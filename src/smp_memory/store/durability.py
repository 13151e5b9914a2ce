"""When writes are synced: group commit of one session, and the sync of durability `interval`.

Group commit: one thread, the leader, writes the batches of all waiting threads with one fsync.
Guarantees: batches are stored in the order in which they arrive; a waiting thread is woken when its batch is done, or to
lead the next group. An error that concerns the whole group (no lock, no such session) is raised in each of its threads.

Threads that wrote together arrive together again as soon as they are woken. So a leader waits until all of them have
arrived, but only for a short time: it saves a sync, which takes longer. A thread that writes alone never waits.
"""

from __future__ import annotations

import os
from _thread import allocate_lock as Lock
from functools import partial

from smp_memory.errors import DurabilityUnknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Timer

    from smp_memory.files.disk import Disk
    from smp_memory.store.port import BatchPort


class _Ticket:
    """A batch in the queue. Its thread waits until `wake` is released."""

    __slots__ = ("batch", "failure", "leads", "wake")

    def __init__(self, batch: BatchPort) -> None:
        self.batch = batch
        self.leads = False
        self.failure: BaseException | None = None
        self.wake = Lock()
        self.wake.acquire()


class GroupCommit:
    """The queue of batches of one session."""

    def __init__(self, commit: Callable[[list[BatchPort]], None], patience_seconds: float = 0.0005) -> None:
        self.patience_seconds = patience_seconds
        self._commit = commit
        self._mutex = Lock()
        self._queue: list[_Ticket] = []
        self._has_leader = False
        self._expected = 1  # threads that wrote or waited when the last group was done
        self._gathering: _Ticket | None = None  # the leader, while it waits for the others

    def commit(self, batch: BatchPort) -> None:
        with self._mutex:
            leads, self._has_leader = not self._has_leader, True
            alone = leads and self._expected == 1
            if not alone:
                ticket = self._enqueue(batch)
        if alone:
            try:
                self._commit([batch])
            finally:
                with self._mutex:
                    if self._queue:
                        self._pass_lead(1)
                    else:
                        self._has_leader = False
        else:
            if not leads:
                self._sleep(ticket)
            if leads or ticket.leads:
                self._lead(ticket)
            if ticket.failure is not None:
                raise ticket.failure
        if batch.error is not None:
            raise batch.error

    def _enqueue(self, batch: BatchPort) -> _Ticket:
        ticket = _Ticket(batch)
        self._queue.append(ticket)
        if self._gathering is not None and len(self._queue) >= self._expected:
            self._gathering.wake.release()
            self._gathering = None
        return ticket

    def _sleep(self, ticket: _Ticket) -> None:
        try:
            ticket.wake.acquire()
        except BaseException:  # KeyboardInterrupt
            with self._mutex:
                if ticket in self._queue:
                    self._queue.remove(ticket)
                if ticket.leads:
                    self._pass_lead(0)
            raise

    def _lead(self, ticket: _Ticket) -> None:
        group = [ticket]
        try:
            self._wait_for_others(ticket)
            with self._mutex:
                group, self._queue = self._queue, []
            self._commit([each.batch for each in group])
        except BaseException as error:
            for each in group:
                each.failure = error
        with self._mutex:
            if ticket in self._queue:  # interrupted before it collected the group
                self._queue.remove(ticket)
            for each in group:
                if each is not ticket:
                    each.wake.release()
            self._pass_lead(len(group))

    def _wait_for_others(self, ticket: _Ticket) -> None:
        with self._mutex:
            if len(self._queue) >= self._expected or not self.patience_seconds:
                return
            self._gathering = ticket
        try:
            ticket.wake.acquire(timeout=self.patience_seconds)
        finally:
            with self._mutex:
                self._gathering = None

    def _pass_lead(self, done: int) -> None:
        """Make the first waiting thread lead the next group. Hold the mutex."""
        self._expected = done + len(self._queue)
        if self._queue:
            self._queue[0].leads = True
            self._queue[0].wake.release()
        else:
            self._has_leader = False


class IntervalSync:
    """Syncs in the background what durability `interval` left unsynced."""

    def __init__(self, disk: Disk, seconds: float) -> None:
        self._disk = disk
        self._seconds = seconds
        self._mutex = Lock()
        self._unsynced: dict[str, Callable[[], None]] = {}  # by path: what to do if its fsync fails
        self._failure: DurabilityUnknown | None = None
        self._timer: Timer | None = None
        self._is_stopped = False

    def sync_later(self, folder: str, names: list[str], distrust: Callable[[str], None]) -> None:
        """Sync these files of a session with the next interval; `distrust` is called with the name of one whose fsync fails."""
        with self._mutex:
            for name in names:
                self._unsynced[os.path.join(folder, name)] = partial(distrust, name)
            if self._timer is None and not self._is_stopped:
                from threading import Timer  # only this durability needs it

                self._timer = Timer(self._seconds, self.sync_now)
                self._timer.daemon = True
                self._timer.start()

    def sync_now(self) -> None:
        """Sync everything; `raise_failure` raises a failure.

        A file whose fsync failed is not synced again: the next write copies it to a new one first.
        """
        with self._mutex:
            files, self._unsynced, self._timer = self._unsynced, {}, None
        for path, distrust in sorted(files.items(), key=lambda item: item[0]):
            try:
                self._disk.sync_file(path)
                self._disk.sync_folder(os.path.dirname(path))
            except DurabilityUnknown as error:
                self._failure = _not_confirmed(path, error.__cause__ or error)
                distrust()
            except OSError as error:  # it could not be opened, so trying again is safe
                self._failure = _not_confirmed(path, error)
                with self._mutex:
                    self._unsynced.setdefault(path, distrust)

    def raise_failure(self) -> None:
        """Raise the failure of an earlier sync, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Sync everything and start no timer any more."""
        self.sync_now()
        self._is_stopped = True

    def after_fork(self) -> None:
        self._mutex, self._timer = Lock(), None


def _not_confirmed(path: str, error: BaseException) -> DurabilityUnknown:
    return DurabilityUnknown(
        f"The disk did not confirm what was written to {path} in the last interval "
        f"({getattr(error, 'strerror', error)}). It was acknowledged with durability `interval`; check the disk.",
        path=path,
        errno=getattr(error, "errno", None),
    )
