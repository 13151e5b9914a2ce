"""How do threads share a sync? One of them, the leader, writes for all who wait; each gets its own answer.

Guarantees: batches are stored in the order in which they came; a waiting thread is woken when its batch is done, or to
lead the next group. An error that hits the whole group (no lock, no such session) is raised in each of its threads.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp.store.port import Batch


class _Ticket:
    __slots__ = ("batch", "done", "failure", "wake")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.done = False
        self.failure: BaseException | None = None
        self.wake: threading.Lock | None = None


class GroupCommit:
    def __init__(self, commit: Callable[[list[Batch]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._waiting: list[_Ticket] = []
        self._led = False

    def commit(self, batch: Batch) -> None:
        ticket = _Ticket(batch)
        with self._mutex:
            self._waiting.append(ticket)
            if self._led:
                ticket.wake = threading.Lock()
                ticket.wake.acquire()
            self._led = True
        if ticket.wake is not None:
            ticket.wake.acquire()
        if not ticket.done:
            self._lead()
        if ticket.failure is not None:
            raise ticket.failure
        if batch.error is not None:
            raise batch.error

    def _lead(self) -> None:
        with self._mutex:
            group, self._waiting = self._waiting, []
        failure: BaseException | None = None
        try:
            self._commit([ticket.batch for ticket in group])
        except BaseException as error:
            failure = error
        with self._mutex:
            for ticket in group:
                ticket.done, ticket.failure = True, failure
                if ticket.wake is not None:
                    ticket.wake.release()
            successor = self._waiting[0] if self._waiting else None
            self._led = successor is not None
            if successor is not None and successor.wake is not None:
                successor.wake.release()
