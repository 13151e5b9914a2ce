"""Watch a store: yield new memories that match a query, as any process writes them.

Each poll is a few system calls that tell whether a session was written since the last one; only then is the query
run, on the memories that are new. Memories that existed when the watch began are never yielded, nor are changes of
them.

New memories come after the last known position, as long as a session only grows. Where memories were removed for
good, or a person inserted one, positions have shifted; then the ids tell which ones are new.
"""

from __future__ import annotations

import time

from smp_memory.errors import InvalidQuery
from smp_memory.search.path import search_index
from smp_memory.search.query import OLDEST, Query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from smp_memory.model.hits import Hit
    from smp_memory.scope import Scope
    from smp_memory.store.port import IndexSearcher

_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 3600
_ALL = 1 << 30


def watch(
    scope: Scope,
    text: str | None,
    options: Mapping[str, Any],
    timeout_seconds: float | None,
    pause_seconds: Any = _PAUSE_SECONDS,
) -> Iterator[Hit]:
    """Yield memories that match as any process writes them, oldest first, until the timeout or for ever."""
    given = dict(options)
    if scope.sessions is not None:
        given["sessions"] = scope.sessions
    if text:
        given["text"] = text
    scope.store.check_open()
    if (
        isinstance(pause_seconds, bool)
        or not isinstance(pause_seconds, int | float)
        or not 0 <= pause_seconds <= _MAX_PAUSE_SECONDS
    ):
        raise InvalidQuery(
            f"pause: must be seconds from 0 to {_MAX_PAUSE_SECONDS}, not {pause_seconds!r}.", field="pause"
        )
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    query = _query(scope, given)
    known = _KnownMemories()
    scope.answer(query.sessions, lambda searcher: known.add_new(searcher, query.sessions))
    return _follow(scope, given, known, deadline, pause_seconds)


def _follow(
    scope: Scope, options: dict[str, Any], known: _KnownMemories, deadline: float | None, pause_seconds: float
) -> Iterator[Hit]:
    policy = scope.policy()
    while deadline is None or time.monotonic() < deadline:
        query = _query(scope, options)

        def poll(searcher: IndexSearcher, query: Query = query) -> list[Hit]:
            updated = known.copy()  # if the index is damaged, this runs again from the same state
            new = updated.add_new(searcher, query.sessions)
            hits = search_index(query, searcher, policy, among=new) if new else []
            known.sessions = updated.sessions
            return hits

        hits = scope.answer(query.sessions, poll)
        yield from hits
        if not hits:
            time.sleep(pause_seconds)


def _query(scope: Scope, options: dict[str, Any]) -> Query:
    query = Query({"include_expired": True, **options, "sort": OLDEST}, scope.now())  # also what holds later
    query.offset, query.limit = 0, _ALL  # all new ones, however many
    return query


class _KnownMemories:
    """The memories known at the last poll: for each session its end and the ids of all memories before it, in one text."""

    __slots__ = ("sessions",)

    def __init__(self) -> None:
        self.sessions: dict[str, tuple[tuple[int, str | None], str]] = {}

    def copy(self) -> _KnownMemories:
        twin = _KnownMemories()
        twin.sessions = dict(self.sessions)
        return twin

    def add_new(self, searcher: IndexSearcher, sessions: list[str] | None) -> set[int]:
        """Add the memories that were not known before, and return them."""
        ends = searcher.ends()
        for name in [name for name in self.sessions if name not in ends]:
            del self.sessions[name]
        new: set[int] = set()
        for name in ends if sessions is None else [name for name in sessions if name in ends]:
            end, ids = self.sessions.get(name, ((0, None), ""))
            if ends[name] != end:
                docs, ids = _new_in_session(searcher, name, end, ids)
                new.update(docs)
                self.sessions[name] = (ends[name], ids)
        return new


def _new_in_session(
    searcher: IndexSearcher, name: str, end: tuple[int, str | None], ids: str
) -> tuple[Iterable[int], str]:
    """The docs of a session's new memories, and the ids of all its memories."""
    size, last = end
    found = searcher.ids_from(name, max(size - 1, 0))
    docs = sorted(found)
    if size and docs and found[docs[0]] == last:
        new = docs[1:]
        return new, "\n".join([ids, *(found[doc] for doc in new)])
    found = searcher.ids_from(name)
    known = set(ids.split("\n"))
    return [doc for doc, id in found.items() if id not in known], "\n".join(found.values())
