"""What was written that matches? New memories as any process writes them.

A look is a few system calls: has any session been written since the last one? Only then are the memories that came
since asked the question. Memories that were there before are never yielded; neither are changes of them.

What came since stands behind the last memory that was there, as long as a session only grows. Where memories left it for
good, or a person wrote one in between, positions have shifted; then the ids tell which ones are new.
"""

from __future__ import annotations

import time

from smp_memory.errors import InvalidQuery
from smp_memory.search.path import Search
from smp_memory.search.query import OLDEST, Query
from smp_memory.search.ranking import Ranking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp_memory.model.hits import Hit
    from smp_memory.scope import Scope
    from smp_memory.store.finder import Finder

_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 3600
_ALL = 1 << 30


def watch(
    scope: Scope,
    options: dict[str, Any],
    timeout_seconds: float | None,
    pause_seconds: Any = _PAUSE_SECONDS,
) -> Iterator[Hit]:
    """Yield hits, oldest first, until the timeout or for ever."""
    if (
        isinstance(pause_seconds, bool)
        or not isinstance(pause_seconds, int | float)
        or not 0 <= pause_seconds <= _LONGEST_PAUSE_SECONDS
    ):
        raise InvalidQuery(f"pause: must be seconds from 0 to {_LONGEST_PAUSE_SECONDS}, not {pause_seconds!r}.", field="pause")  # fmt: skip
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    query = _query(scope, options)
    seen = _Seen()
    scope.answer(query.sessions, lambda finder: seen.look(finder, query.sessions))
    return _follow(scope, options, seen, deadline, pause_seconds)


def _follow(
    scope: Scope, options: dict[str, Any], seen: _Seen, deadline: float | None, pause_seconds: float
) -> Iterator[Hit]:
    policy = scope.policy()
    while deadline is None or time.monotonic() < deadline:
        query = _query(scope, options)

        def look(finder: Finder, query: Query = query) -> list[Hit]:
            before = seen.copy()  # a damaged index may have the look done once more
            fresh = before.look(finder, query.sessions)
            search = Search(query, finder, Ranking(query, finder, policy))
            search.only(fresh)
            hits = search.run() if fresh else []
            seen.sessions = before.sessions
            return hits

        hits = scope.answer(query.sessions, look)
        yield from hits
        if not hits:
            time.sleep(pause_seconds)


def _query(scope: Scope, options: dict[str, Any]) -> Query:
    query = Query({**options, "sort": OLDEST}, scope.now())
    query.offset, query.limit = 0, _ALL  # all that came, however much it is
    return query


class _Seen:
    """Which memories were there at the last look: of each session its end and the ids of all before it, in one text."""

    __slots__ = ("sessions",)

    def __init__(self) -> None:
        self.sessions: dict[str, tuple[tuple[int, str | None], str]] = {}

    def copy(self) -> _Seen:
        twin = _Seen()
        twin.sessions = dict(self.sessions)
        return twin

    def look(self, finder: Finder, sessions: list[str] | None) -> set[int]:
        """The memories that were not there before. From now on they are."""
        ends = finder.ends()
        for name in [name for name in self.sessions if name not in ends]:
            del self.sessions[name]
        fresh: set[int] = set()
        for name in ends if sessions is None else [name for name in sessions if name in ends]:
            end, ids = self.sessions.get(name, ((0, None), ""))
            if ends[name] != end:
                new, ids = _new(finder, name, end, ids)
                fresh.update(new)
                self.sessions[name] = (ends[name], ids)
        return fresh


def _new(finder: Finder, name: str, end: tuple[int, str | None], ids: str) -> tuple[Iterable[int], str]:
    """Those of a session's memories that are new, and the ids of all that are there."""
    size, last = end
    found = finder.ids_from(name, max(size - 1, 0))
    docs = sorted(found)
    if size and docs and found[docs[0]] == last:
        new = docs[1:]
        return new, "\n".join([ids, *(found[doc] for doc in new)])
    found = finder.ids_from(name)
    known = set(ids.split("\n"))
    return [doc for doc, id in found.items() if id not in known], "\n".join(found.values())
