"""Late imports: doors of packages, and a lock, so that no process forks while one of its threads loads a module.

A child forked in the middle of an import would find the module half loaded by a thread that does not exist in the child,
and wait for it for ever. Late imports in methods that threads call are therefore done inside `with loading:`.
"""

from __future__ import annotations

import os
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

loading = RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release)


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
