"""How do threads share a sync? One of them, the leader, writes for all who wait; each gets its own answer.

Guarantees: batches are stored in the order in which they came; a waiting thread is woken when its batch is done, or to
lead the next group. An error that hits the whole group (no lock, no such session) is raised in each of its threads.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp.store.port import Batch


_PATIENCE_SECONDS = 0.0003


class _Ticket:
    __slots__ = ("batch", "done", "failure", "wake")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.done = False
        self.failure: BaseException | None = None
        self.wake = threading.Lock()
        self.wake.acquire()


class GroupCommit:
    def __init__(self, commit: Callable[[list[Batch]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._waiting: list[_Ticket] = []
        self._led = False
        self._group_size = 1

    def commit(self, batch: Batch) -> None:
        with self._mutex:
            alone = not self._led
            if alone:
                self._led = True
            else:
                ticket = _Ticket(batch)
                self._waiting.append(ticket)
        if alone:
            self._lead([batch], [])
        else:
            ticket.wake.acquire()
            if not ticket.done:
                self._wait_for_others()
                with self._mutex:
                    group, self._waiting = self._waiting, []
                self._group_size = len(group)
                self._lead([waiting.batch for waiting in group], group)
            if ticket.failure is not None:
                raise ticket.failure
        if batch.error is not None:
            raise batch.error

    def _wait_for_others(self) -> None:
        """Those of the last group are about to come again: a moment's patience saves a sync, which takes much longer."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(self._waiting) < self._group_size and time.monotonic() < deadline:
            time.sleep(0)

    def _lead(self, batches: list[Batch], group: list[_Ticket]) -> None:
        failure: BaseException | None = None
        try:
            self._commit(batches)
        except BaseException as error:
            failure = error
            if not group:
                raise
        finally:
            with self._mutex:
                for ticket in group:
                    ticket.done, ticket.failure = True, failure
                    ticket.wake.release()
                if self._waiting:
                    self._waiting[0].wake.release()
                else:
                    self._led = False
