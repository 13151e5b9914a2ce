"""A machine on which another process acts in the middle of an operation, before any call of the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from smp_memory.errors import SMPError
from smp_memory.files.memory_system import MemorySystem

_MOST_CALLS = 2000


class InterruptedSystem(MemorySystem):
    """Lets something happen before call number `at`, as if another process did it. Nothing is counted before `happens` is set."""

    at = 0
    calls = 0
    has_happened = False
    happens: Callable[[], Any] | None = None

    def _gate(self, call: str, changes: bool) -> None:
        if self.happens is None:
            return
        self.calls += 1
        if self.calls == self.at:
            happens, self.happens = self.happens, None
            self.has_happened = True
            try:
                happens()
            except SMPError:
                pass  # the session or the store is locked at this moment
            self.happens = happens


def interruptions(base: MemorySystem) -> Iterator[InterruptedSystem]:
    """A copy of the machine for every call of an operation; each is interrupted one call later, the last one not at all."""
    for at in range(1, _MOST_CALLS):
        system = InterruptedSystem(disk=base)
        system.at = at
        yield system
        if not system.has_happened:
            assert at > 1, "nothing was called"
            return
    raise AssertionError(f"more than {_MOST_CALLS} calls")
