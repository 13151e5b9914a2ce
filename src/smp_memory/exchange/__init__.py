"""Export sessions with their whole history into a file, and import them again, optionally anonymised.

`api` has the functions that callers use, `file_format` the bytes of an export file.
A door: `exchange.api` is loaded when it is first used.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.exchange import api as api

__getattr__ = door(__name__, "api")
