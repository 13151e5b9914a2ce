"""Queries: which memories, in which order, with reasons.

A door: the modules behind it are loaded at the first search, because most commands search nothing.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.search import explanation as explanation
    from smp_memory.search import filters as filters
    from smp_memory.search import overviews as overviews
    from smp_memory.search import path as path
    from smp_memory.search import ranking as ranking
    from smp_memory.search import records as records
    from smp_memory.search import related as related
    from smp_memory.search import succession as succession
    from smp_memory.search import watch as watch

__getattr__ = door(
    __name__, "explanation", "filters", "overviews", "path", "ranking", "records", "related", "succession", "watch"
)
