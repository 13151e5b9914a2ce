"""Late imports: doors of packages, and a guard, so that no process forks while one of its threads loads a module; and a lock that no fork finds held.

A child forked in the middle of an import would find the module half loaded by a thread that does not exist in the child,
and wait for it for ever. Late imports in methods that threads call are therefore done inside `with loading:`. Threads that load
modules do not wait for each other here: each may hold a lock of Python's own for a module that the other one needs.
"""

from __future__ import annotations

import os
import time
from _thread import RLock, allocate_lock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WAIT_SECONDS = 0.001


class _Loading:
    """Counts the late imports of each thread. A fork waits until other threads have none, and holds up new ones while it happens."""

    def __init__(self) -> None:
        self._guard = allocate_lock()
        self._threads: dict[int, int] = {}

    def __enter__(self) -> None:
        with self._guard:
            me = get_ident()
            self._threads[me] = self._threads.get(me, 0) + 1

    def __exit__(self, *error: object) -> None:
        with self._guard:
            me = get_ident()
            self._threads[me] -= 1
            if not self._threads[me]:
                del self._threads[me]

    def before_fork(self) -> None:
        self._guard.acquire()
        while self._threads.keys() - {get_ident()}:
            self._guard.release()
            time.sleep(_WAIT_SECONDS)
            self._guard.acquire()

    def after_fork(self) -> None:
        self._guard.release()


loading = _Loading()
held_at_no_fork = RLock()  # an ordinary lock for short work: a child never waits for a holder that it does not have

if hasattr(os, "register_at_fork"):  # the last one registered is called first: its holder may load a module
    os.register_at_fork(
        before=loading.before_fork, after_in_parent=loading.after_fork, after_in_child=loading.after_fork
    )
    os.register_at_fork(
        before=held_at_no_fork.acquire,
        after_in_parent=held_at_no_fork.release,
        after_in_child=held_at_no_fork.release,
    )


def door(package: str, *modules: str) -> Callable[[str], Any]:
    """A `__getattr__` for a package: these modules are loaded when they are first used, `search.path.query(…)`.

    For packages that most commands do not need. Inside them imports stand at the top.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return loaded(f"{package}.{name}")

    return load


def loaded(module: str) -> Any:
    """The module of this name, loaded if it is not yet."""
    from importlib import import_module

    with loading:
        return import_module(module)
