"""The domain model: types of memory, records, entries, ids, times, reports, and the histories that turn entries into records.

Guarantees: pure values and pure functions; no I/O, no clock, no randomness. Importing it is cheap.

A door: these modules are loaded when they are first used, because reading and searching need none of them.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model import design_fields as design_fields
    from smp_memory.model import standing_instructions as standing_instructions

__getattr__ = door(__name__, "design_fields", "standing_instructions")
