"""The threads in which the blocking calls of asyncio programs run.

Guarantees: a call that was cancelled before it began is never made; one that has begun is finished, whoever waits for it. The interpreter
exits when all calls are finished. Any number of event loops may call, and so may a forked child.
Non-guarantees: a cancelled `await` ends at once, so its call may still run then.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 8  # writes that wait at the same time share a sync; more threads would compete with the event loop


class _Pool:
    """The pool of this process. It is not that of the event loop, which the program may fill with slow calls."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(THREADS, "smp-aio")  # starts a thread when a call finds none idle


_pool = _Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(_Pool.__init__, _pool))  # threads do not survive a fork


async def call(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in a thread of the pool, with the context variables of the caller, and return what it returns."""
    return await asyncio.wrap_future(start(function, *args, **kwargs))


def start(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Start such a call without waiting for it."""
    return _pool.threads.submit(copy_context().run, partial(function, *args, **kwargs))
