"""A plan to change what is stored of a session, and the report of what was done.

Purge, compaction, restoring from the cold segment and redaction make plans; the backend carries one out as a whole or not at all
(`SessionStore.rewrite`). A plan is made from what was read, without a lock. So it says in which state each memory was, and
the backend leaves out those that changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import IdAllocator
    from smp_memory.model.storage_reports import RedactionReport
    from smp_memory.privacy.redaction import Redactor

_NONE: Mapping[str, Any] = MappingProxyType({})


class ColdMove(NamedTuple):
    """One move to the cold segment."""

    revision: int  # of the memory when the plan was made; if it was changed or deleted since, it stays
    why: str
    only_history: bool = False  # the memory stays, its earlier states go; a backend may leave them where they are


class RewritePlan(NamedTuple):
    """What is to be changed, all of it together."""

    operation: str  # shown to processes that wait for the session
    at: str = ""  # the time of the change
    # Removed for good, cold entries included: by id, when it was deleted. One that was restored since stays.
    drop: Mapping[str, str] = _NONE
    to_cold: Mapping[str, ColdMove] = _NONE  # by id
    added: Callable[[IdAllocator, set[str]], list[Entry]] | None = None  # entries to add, for the ids that really move
    from_cold: Iterable[str] = ()  # moved back with their ids, numbers and histories, all or none
    admit: Callable[[int, int], None] | None = None  # used and new bytes; raises if there is no room for `from_cold`
    redactor: Redactor | None = None  # removes its secrets from every entry in every form, the metadata and every copy


class RewriteReport(NamedTuple):
    """What a plan has changed."""

    dropped: Sequence[str] = ()
    moved: Sequence[str] = ()  # to the cold segment
    histories: Sequence[str] = ()  # of memories that stayed
    added: Sequence[str] = ()
    freed_bytes: int = 0  # by which the session shrank
    cold_bytes: int = 0  # size of the cold segment
    redaction: RedactionReport | None = None
