"""What was written that matches? New memories as any process writes them.

A look is a few system calls: has any session been written since the last one? Only then are the memories that came
since asked the question. Memories that were there before are never yielded; neither are changes of them.
"""

from __future__ import annotations

import time

from smp.query.path import Query
from smp.query.question import OLDEST, Question
from smp.query.ranking import Ranking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp.model.hit import Hit
    from smp.store.file_store import FileStore
    from smp.store.finder import Finder

    Look = tuple[dict[str, int], list[Hit]]

_PAUSE_SECONDS = 0.1


def watch(
    store: FileStore,
    asked: dict[str, Any],
    now: Callable[[], Any],
    policy: Any,
    timeout_seconds: float | None,
    pause_seconds: float = _PAUSE_SECONDS,
) -> Iterator[Hit]:
    """Yield hits, oldest first, until the timeout or for ever."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    question = Question({**asked, "sort": OLDEST, "limit": 10_000}, now())
    sizes = _sizes(store, question)
    return _follow(store, asked, now, policy, sizes, deadline, pause_seconds)


def _follow(
    store: FileStore,
    asked: dict[str, Any],
    now: Callable[[], Any],
    policy: Any,
    sizes: dict[str, int],
    deadline: float | None,
    pause_seconds: float,
) -> Iterator[Hit]:
    while deadline is None or time.monotonic() < deadline:
        question = Question({**asked, "sort": OLDEST, "limit": 10_000}, now())
        before = sizes

        def look(finder: Finder, question: Question = question, before: dict[str, int] = before) -> Look:
            return _look(finder, question, before, policy)

        sizes, hits = store.indexer.answer(question.sessions, look)
        yield from hits
        if not hits:
            time.sleep(pause_seconds)


def _look(finder: Finder, question: Question, sizes: dict[str, int], policy: Any) -> Look:
    """How many memories there are now, and which of the new ones match."""
    current = finder.sizes()
    fresh = {name: sizes.get(name, 0) for name, size in current.items() if size > sizes.get(name, 0)}
    if not fresh:
        return current, []
    query = Query(question, finder, Ranking(question, finder, policy))
    query.only(finder.docs_from(fresh))
    return current, query.run()


def _sizes(store: FileStore, question: Question) -> dict[str, int]:
    return store.indexer.answer(question.sessions, lambda finder: finder.sizes())
