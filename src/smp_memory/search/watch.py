"""Watch a store: yield new memories that match a query, as any process writes them.

Each poll is a few system calls that tell whether a session was written since the last one; only then is the query
run, on the memories that are new. Memories that existed when the watch began are never yielded, nor are changes of
them.

New memories come after the last known position, as long as a session only grows. Where memories were removed for
good, or a person inserted one, positions have shifted; then the ids tell which ones are new.
"""

from __future__ import annotations

import time
from collections import deque

from smp_memory.errors import InvalidQuery
from smp_memory.search.path import search_index
from smp_memory.search.query import OLDEST, Query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from smp_memory.model.candidates import Hit
    from smp_memory.scope import Scope
    from smp_memory.search.port import SearchIndex

_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 3600
_ALL = 1 << 30


def watch(
    scope: Scope,
    text: str | None,
    options: Mapping[str, Any],
    timeout_seconds: float | None,
    pause_seconds: Any = _PAUSE_SECONDS,
) -> Watch:
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
            f"pause: must be a number of seconds from 0 to {_MAX_PAUSE_SECONDS}, not {pause_seconds!r}.", field="pause"
        )
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    known = _KnownMemories()
    known.add_new(scope.index, _query(scope, given).sessions)
    return Watch(scope, given, known, deadline, pause_seconds)


class Watch:
    """An iterator of hits that waits for the next one. Who must not wait calls `poll` now and then instead."""

    def __init__(
        self, scope: Scope, options: dict[str, Any], known: _KnownMemories, deadline: float | None, pause_seconds: float
    ) -> None:
        self.pause_seconds = pause_seconds
        self._scope = scope
        self._options = options
        self._known = known
        self._deadline = deadline
        self._policy, self._index = scope.policy(), scope.index
        self._found: deque[Hit] = deque()

    @property
    def is_over(self) -> bool:
        """Whether the time of the watch has passed."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def poll(self) -> list[Hit]:
        """The memories that match and were written since the last poll, oldest first."""
        query = _query(self._scope, self._options)
        with self._index.snapshot():
            new = self._known.add_new(self._index, query.sessions)
            return search_index(query, self._index, self._policy, self._scope.viewer, among=new) if new else []

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Hit:
        while not self._found:
            if self.is_over:
                raise StopIteration
            self._found.extend(self.poll())
            if not self._found:
                time.sleep(self.pause_seconds)
        return self._found.popleft()


def _query(scope: Scope, options: dict[str, Any]) -> Query:
    query = Query({"include_expired": True, **options, "sort": OLDEST}, scope.now())  # also what holds later
    query.offset, query.limit = 0, _ALL  # all new ones, however many
    return query


class _KnownMemories:
    """The memories known at the last poll: for each session its end and the ids of all memories before it, in one text."""

    __slots__ = ("sessions",)

    def __init__(self) -> None:
        self.sessions: dict[str, tuple[tuple[int, str | None], str]] = {}

    def add_new(self, index: SearchIndex, sessions: list[str] | None) -> set[str]:
        """Add the memories that were not known before, and return them."""
        activity = index.activity(sessions)
        for name in [name for name in self.sessions if name not in activity]:
            del self.sessions[name]
        new: set[str] = set()
        for name, found in activity.items():
            end, ids = self.sessions.get(name, ((0, None), ""))
            if (found.memories, found.last_id) != end:
                added, ids = _new_in_session(index, name, end, ids)
                new.update(f"{name}/{id}" for id in added)
                self.sessions[name] = ((found.memories, found.last_id), ids)
        return new


def _new_in_session(index: SearchIndex, name: str, end: tuple[int, str | None], ids: str) -> tuple[Iterable[str], str]:
    """The ids of a session's new memories, and those of all its memories."""
    size, last = end
    found = list(index.activity([name], ids_from=max(size - 1, 0))[name].ids)
    if size and found and found[0] == last:
        return found[1:], "\n".join([ids, *found[1:]])
    if size:
        found = list(index.activity([name], ids_from=0)[name].ids)
    known = set(ids.split("\n"))
    return [id for id in found if id not in known], "\n".join(found)
