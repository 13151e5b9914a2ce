"""The threads in which the blocking calls of asyncio programs run.

Guarantees: a call that was cancelled before it began is never made; one that has begun is finished, whoever waits for it. Calls that
have begun are finished before the interpreter exits. A forked child and every event loop of the process can use `call` at any time.
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

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 8  # writes that wait at the same time share a sync; more threads would compete with the event loop


class _Pool:
    """The pool of this process. It is not the event loop's own, which any slow call of the program may fill."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(THREADS, "smp-aio")  # starts a thread when a call finds none idle


_pool = _Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.__init__)  # type: ignore[misc]  # threads do not survive a fork


async def call(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a blocking function in a thread of the pool, with the context variables of the caller, and return what it returns."""
    running = _pool.threads.submit(copy_context().run, partial(function, *args, **kwargs))
    return await asyncio.wrap_future(running)
