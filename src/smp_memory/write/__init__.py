"""Turn the input of callers into entries: validation, write operations, batches and the quota.

`path` is the write path as callers see it. Everything below it is pure; `smp_memory.store` writes the bytes.

A door: for callers that mostly read, these modules are loaded when they are first used.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.write import operations as operations
    from smp_memory.write import validation as validation

__getattr__ = door(__name__, "operations", "validation")
