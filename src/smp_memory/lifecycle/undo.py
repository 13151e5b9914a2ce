"""The last change that somebody made in a store, and its reversal. A reversal is a change like any other, so it can be undone, too.

A change is what one call wrote: a memory that was added, changed, deleted or restored, or several of one session together. Maintenance,
uses and hand edits of files are no changes in this sense, and neither are new turns of a person who gave no name: hooks record them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SessionArchived, SessionNotFound
from smp_memory.model.entry import BY_MAINTENANCE, CHANGE, DELETE, PUT, RESTORE, is_maintenance
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.scope import Scope
    from smp_memory.store.port import SessionStore
    from smp_memory.write.path import Transaction

USER = "user"  # who writes on the command line without a name
_FLAGS = {"pinned": ("pin", "unpin"), "muted": ("mute", "unmute")}  # operations of a transaction
DONE = {PUT: "added", CHANGE: "changed", DELETE: "deleted", RESTORE: "restored"}


class ChangedMemory(NamedTuple):
    """What happened to one memory."""

    record: Record
    revision: int
    changes: dict[str, dict[str, Any]]  # field -> `from` and `to`


class LastChange(NamedTuple):
    session: str
    op: str  # put, change, delete or restore
    at: str
    by: str | None
    steps: list[ChangedMemory]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        memories = [
            {"id": each.record.id, "type": each.record.type, "text": each.record.text, "changes": each.changes}
            for each in self.steps
        ]
        return {"session": self.session, "done": DONE[self.op], "at": self.at, "by": self.by, "memories": memories}


def last_change(scope: Scope, author: str | None) -> LastChange | None:
    """The last change by an author; None: by a person who gave no name. None if there is none."""
    found: LastChange | None = None
    for head in sorted(scope.store.sessions(), key=lambda each: each.written, reverse=True):
        if found is not None and found.at > to_text(head.written):
            break  # nothing was written to the others since
        try:
            newer = _last_in(scope.store.session(head.session), author)
        except (SessionNotFound, SessionArchived):
            continue
        if newer is not None and (found is None or newer.at > found.at):
            found = newer
    return found


def _last_in(storage: SessionStore, author: str | None) -> LastChange | None:
    authors = (author,) if author is not None else (None, USER, storage.info().user)
    entries = [
        (entry, history)
        for history in storage.history().histories.values()
        for entry in history.entries[-1:]
        if _is_by(entry, authors) and not is_maintenance(entry)
        if author is not None or entry.op != PUT or not KINDS[entry.type].is_turn
    ]
    if not entries:
        return None
    last, _ = max(entries, key=lambda each: (each[0].at, each[0].seq))
    together = [(entry, history) for entry, history in entries if entry.op == last.op and _is_together(entry, last)]
    steps = [step for entry, history in together if (step := _step(storage.session, history)) is not None]
    return LastChange(storage.session, last.op, last.at, _author_of(last), steps)


def _author_of(entry: Entry) -> str | None:
    by = entry.data.get("author") if entry.op == PUT else entry.by
    return by if isinstance(by, str) else None


def _is_by(entry: Entry, authors: Iterable[str | None]) -> bool:
    by = _author_of(entry)
    return by in authors and by != BY_MAINTENANCE and entry.state == "signed"


def _is_together(entry: Entry, last: Entry) -> bool:
    return entry is last or (bool(last.tx) and entry.tx == last.tx) or (entry.at, entry.op) == (last.at, DELETE)


def _step(session: str, history: RecordHistory) -> ChangedMemory | None:
    record, last = history.record(session), history.steps(with_edits=False)[-1]
    return ChangedMemory(record, last["revision"], last.get("changes", {})) if record is not None else None


def revert(transaction: Transaction, change: LastChange) -> None:
    """Add the opposite of a change to a transaction. A memory that somebody changed since raises Conflict when it ends."""
    for step in change.steps:
        id = step.record.id
        before = {field: values["from"] for field, values in step.changes.items()}
        if change.op in (PUT, RESTORE):
            transaction.delete(id, "undone")
        elif change.op == DELETE:
            transaction.restore(id, "undone")
        elif before.keys() <= _FLAGS.keys():  # also of a turn, which cannot be changed otherwise
            for field, value in before.items():
                getattr(transaction, _FLAGS[field][0 if value else 1])(id)
        else:
            transaction.update(id, step.revision, **before)
