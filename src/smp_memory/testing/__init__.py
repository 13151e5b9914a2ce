"""Tools for testing what uses a store: fault-injecting systems, clocks, fixed uids.

They are shipped with SMP, so that code outside of it can be tested with them.
"""

from __future__ import annotations

from smp_memory.testing.clocks import FrozenClock, MachineClock, fixed_uids
from smp_memory.testing.faults import CrashingSystem, CrashState, FaultySystem, PowerLoss

__all__ = [
    "CrashState",
    "CrashingSystem",
    "FaultySystem",
    "FrozenClock",
    "MachineClock",
    "PowerLoss",
    "fixed_uids",
]
