"""Export sessions with their whole history into a file, and import them again, optionally anonymised; copy them between stores.

`api` has the functions for files, `file_format` the bytes of an export file. `store_copy` copies a whole store, `replication` exchanges
single sessions between two stores, `outbox` keeps what could not be sent; both carry sessions and compare them by `transfer`.
A door: these modules are loaded when they are first used.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.exchange import api as api
    from smp_memory.exchange import outbox as outbox
    from smp_memory.exchange import replication as replication
    from smp_memory.exchange import store_copy as store_copy

__getattr__ = door(__name__, "api", "outbox", "replication", "store_copy")
