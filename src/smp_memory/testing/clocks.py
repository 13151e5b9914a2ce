"""Clocks and uids for tests: a clock that only moves when told to, the two clocks of a machine, uids in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

from smp_memory.model import ids

_START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class FrozenClock:
    """A clock that moves only by `advance` and `set`; calling it returns an aware datetime in UTC."""

    def __init__(self, start: datetime = _START) -> None:
        self.set(start)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float = 0, *, days: float = 0) -> datetime:
        """Move forward, or back if negative; returns the new time."""
        self._now += timedelta(days=days, seconds=seconds)
        return self._now

    def set(self, now: datetime) -> None:
        """Set the time to an aware datetime."""
        if now.tzinfo is None:
            raise ValueError("FrozenClock needs a datetime with a time zone")
        self._now = now.astimezone(UTC)


class MachineClock(FrozenClock):
    """The clocks of a machine, for `smp_memory.open(clock=…)`: the wall clock, and the time since boot, which nobody can set.

    `advance` moves both, `jump` sets the wall clock only, `reboot` restarts the time since boot.
    """

    def __init__(self, start: datetime = _START) -> None:
        super().__init__(start)
        self._boots = 1
        self._uptime = 60.0

    def advance(self, seconds: float = 0, *, days: float = 0) -> datetime:
        self._uptime += days * 86400 + seconds
        return super().advance(seconds, days=days)

    def jump(self, seconds: float = 0, *, days: float = 0) -> datetime:
        """Set the wall clock forward, or back if negative."""
        return super().advance(seconds, days=days)

    def reboot(self, seconds: float = 60) -> None:
        """Restart the machine; `seconds` have passed since the new boot."""
        self._boots += 1
        super().advance(seconds)
        self._uptime = seconds

    def uptime_seconds(self) -> float:
        return self._uptime

    def boot_id(self) -> str:
        return f"boot-{self._boots}"


@contextmanager
def fixed_uids() -> Iterator[None]:
    """Give memories and sessions the same uids in every run."""
    numbers, original = count(1), ids.random_bytes
    ids.random_bytes = lambda size: (next(numbers) * 2654435761 % 256**size).to_bytes(size, "big")
    try:
        yield
    finally:
        ids.random_bytes = original
