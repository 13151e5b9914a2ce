"""Records for tests of pure rules, without a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from smp_memory.lifecycle.retention import WeighedMemory
from smp_memory.model.entry import CHANGE, DELETE, PUT, Entry
from smp_memory.model.history import RecordHistory
from smp_memory.model.record import Record
from smp_memory.model.times import to_text

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
_PREFIXES = {"conversation": "TURN", "decision": "DEC", "finding": "FIND", "preference": "PREF", "agent_state": "STATE"}


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def record(
    type: str,
    number: int = 1,
    days: float = 0,
    *,
    id: str | None = None,
    changed_days: float | None = None,
    deleted_days: float | None = None,
    session: str = "s",
    **data: Any,
) -> Record:
    """A memory written so many days ago, and changed or deleted later."""
    name = id or f"{_PREFIXES.get(type, type[:3].upper())}-{number:04d}"
    history = RecordHistory(Entry(PUT, type, name, to_text(ago(days)), data, seq=number))
    if changed_days is not None:
        history.append(Entry(CHANGE, type, name, to_text(ago(changed_days)), {"note": "x"}, seq=number, revision=2))
    if deleted_days is not None:
        history.append(Entry(DELETE, type, name, to_text(ago(deleted_days)), {"reason": "test"}, seq=number))
    made = history.record(session)
    assert made is not None
    return made


def weighed(
    made: Record, size: int = 1000, priority: float = 0.5, *, used_days: float | None = None, history: int = 0
) -> WeighedMemory:
    return WeighedMemory(made, size, priority, None if used_days is None else ago(used_days), history)
