"""When was each session last used? By the times of its files, of its memories, and of what was found in it.

Guarantees: costs a look at the files' times and one question to the index, whatever the sessions hold. Of several times
the latest counts, so a copied or imported session is not taken for an old one.
Non-guarantees: a copy that keeps old times and was never read looks as old as the original.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from smp.index.rows import POSITION_BITS
from smp.model.time import EPOCH
from smp.store.file_store import last_written_ns

if TYPE_CHECKING:
    from smp.store.file_store import FileStore
    from smp.store.finder import Finder

_QUESTION = f"""SELECT s.id, s.size, s.last, (SELECT max(a.last) FROM access a
    WHERE a.doc >= s.no << {POSITION_BITS} AND a.doc < (s.no + 1) << {POSITION_BITS}) FROM session s"""  # noqa: S608  # no value of anybody is in it


class Usage(NamedTuple):
    """Of one session."""

    created: datetime | None  # or when its files were last touched, if it never held anything
    last_used: datetime | None  # None: nothing was ever written to it


def written(store: FileStore, session: str) -> datetime:
    """When its files were last written, by their own times; costs no reading."""
    return datetime.fromtimestamp(last_written_ns(store, session) / 1e9, UTC)


def usage(store: FileStore, sessions: list[str] | None = None) -> dict[str, Usage]:
    """Of these sessions, or of all that stand in their place."""
    noted = store.indexer.answer(sessions, _noted)
    found: dict[str, Usage] = {}
    for name in store.session_ids() if sessions is None else sessions:
        touched = written(store, name)
        size, latest = noted.get(name, (1, EPOCH))
        found[name] = Usage(touched, max(touched, latest) if size else None)
    return found


def _noted(finder: Finder) -> dict[str, tuple[int, datetime]]:
    return {name: (size, _moment(max(last, used or 0))) for name, size, last, used in finder.index.rows.all(_QUESTION)}


def _moment(microseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # a person may have typed the year 9999
        return datetime.max.replace(tzinfo=UTC)
