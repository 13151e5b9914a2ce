"""A pytest plugin: tests of the OpenAI Agents SDK for its session in SQLite run against SMPSession."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import agents
import agents.memory

import smp_memory
from smp_memory.adapters.openai_agents import SMPSession

NOT_APPLICABLE = (
    "await_mutation", "connection", "corrupt", "closed_rejects", "file_lock", "write_lock", "rolls_back", "rollback", "post_commit",
)  # fmt: skip  # details of SQLite: connections, locks, damaged rows
stores: dict[str, Any] = {}  # by folder


class Session(SMPSession):
    """Sessions with the same `db_path` share a store, as they share a database in the suite."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None) -> None:
        place = str(db_path) if str(db_path) == ":memory:" else f"{db_path}-store"
        shared = place != ":memory:" and place in stores
        self.memory = stores[place] if shared else smp_memory.open(place, config={"durability": "os"})
        stores[place] = self.memory
        super().__init__(self.memory, session_id, session_settings=session_settings)


agents.SQLiteSession = agents.memory.SQLiteSession = Session  # type: ignore[misc,assignment]


def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Run an async test. A plugin for that would be one more package, with settings for all other tests."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    left_out = [item for item in items if any(name in item.name for name in NOT_APPLICABLE)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
