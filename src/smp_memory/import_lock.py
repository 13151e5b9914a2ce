"""May a process fork now? Not while one of its threads loads a module.

A child that is forked meanwhile finds the module half loaded, by a thread that it does not have, and waits for it for
ever. So whoever loads modules late, in a method that threads call, does it inside `with loading:`.
"""

from __future__ import annotations

import os
from _thread import RLock

loading = RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release)
