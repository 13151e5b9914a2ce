"""Statistics of a store: what is used, topic trends, what followed from decisions, forecasts, decay rates that use suggests; and charts.

A door: the modules behind it are loaded when they are first used. `report` and `reader` read
the store, all others are pure.
Guarantees: nothing is written and no lock is taken that a writer waits for; being counted here is no use of a memory.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.analytics import charts as charts
    from smp_memory.analytics import forecast as forecast
    from smp_memory.analytics import reader as reader
    from smp_memory.analytics import report as report

__getattr__ = door(__name__, "charts", "forecast", "reader", "report")
