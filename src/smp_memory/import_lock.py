"""Lock for late imports, so that no process forks while one of its threads loads a module.

A child forked in the middle of an import would find the module half loaded by a thread that does not exist in the child,
and wait for it for ever. Late imports in methods that threads call are therefore done inside `with loading:`.
"""

from __future__ import annotations

import os
from _thread import RLock

loading = RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release)
