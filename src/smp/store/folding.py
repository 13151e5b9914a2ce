"""How does it come into the files which memories were used? The access log is folded in, at most daily for each memory.

    accesses in `.smp/access.log` → counted by the index → a change of the field `access` {count, last} → the log is emptied

Guarantees: the files then know what the log knew, so an index made anew knows it too. Such a change is no change of the
memory: `updated` stays as it was. Nothing fails because of it.
Non-guarantees: the log is a hint; an access that is noted in the very moment in which it is emptied may be lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from smp.model.time import EPOCH, to_text

if TYPE_CHECKING:
    from smp.store.file_store import FileStore
    from smp.store.finder import Finder


class Used(NamedTuple):
    """How often a memory was used, and when last."""

    id: str
    times: int
    last: str


def noted_accesses(store: FileStore) -> tuple[dict[str, list[Used]], int]:
    """What the log knows, by session, with the counts of the index; and up to where the log was read."""
    store.access.flush()
    noted, end = store.access.read(0)
    names: dict[str, set[str]] = {}
    for name, _ in noted:
        session, _, id = name.rpartition("/")
        names.setdefault(session, set()).add(id)
    store.indexer.count_all_accesses()

    def look(finder: Finder) -> dict[str, list[Used]]:
        found: dict[str, list[Used]] = {}
        for session, ids in names.items():
            rows = [row for id in sorted(ids) if (row := finder.row(session, id)) is not None and not row.deleted]
            accesses = finder.accesses([row.doc for row in rows])
            used = [Used(row.id, *_told(accesses[row.doc])) for row in rows if row.doc in accesses]
            if used:
                found[session] = used
        return found

    return store.indexer.answer(None, look), end


def _told(access: tuple[int, int]) -> tuple[int, str]:
    return access[0], to_text(EPOCH + timedelta(microseconds=access[1]))


def empty_log(store: FileStore, until: int) -> None:
    store.access.forget(until)
    store.indexer.count_all_accesses(from_start=True)
