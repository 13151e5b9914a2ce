"""Start cheap maintenance tasks in a thread when a store is opened and they may be due.

Only the check runs at every opening; `smp_memory.lifecycle.maintenance` is loaded when a task may be due.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.scope import Scope

_CHECK_SECONDS = 6 * 3600


def maintain_in_background(scope: Scope) -> None:
    """Run cheap tasks that are due in a thread if the last check was six hours ago, as `git gc --auto` does."""
    store = scope.store
    state = store.state
    status = state.disk.stat(state.path("maintenance.json")) or store.disk.stat(os.path.join(store.root, "config.json"))
    if status is None or not scope.config["maintenance.auto"]:
        return
    if 0 <= scope.now().timestamp() - status.st_mtime < _CHECK_SECONDS:
        return
    if not state.is_trusted():
        return  # a store that came with a repository is not maintained before it is trusted
    import threading

    from smp_memory.lifecycle.maintenance import run_cheap_tasks

    store.start_worker(threading.Thread(target=run_cheap_tasks, args=(scope,), name="smp-maintain", daemon=True))
