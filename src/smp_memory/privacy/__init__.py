"""Privacy: redaction of secrets, anonymisation, visibility, the fence around recalled text, and the audit log.

All but `audit` is pure: nothing is read, written or logged. Guarantees of redaction and anonymisation: linear time for
any text, the same result for the same text, and a replaced value is reported by its kind only.

A door: the fence is loaded when it is first used, because lists and queries print no recalled text.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.privacy import fence as fence

__getattr__ = door(__name__, "fence")
