"""Fold changes into the entries that they change, so that a file of the `markdown` layout shows the current state.

    under the lock: the memories with changes → one folded entry each, at the position of the first → a rewrite

Guarantees: those of `store.rewrite`. Records, histories, `as_of`, ids, revisions and numbers are the same
as before; the new files are read back and compared before they replace the old ones. A session with nothing to fold is
not written. The modification times of the files are preserved.
If a file has an entry twice, as a text merge of folded entries leaves it, one entry with all its changes stays.
Left as they are: deleted memories (they are purged, or can be folded after a restoration), memories with entries in
several files or under several identities, memories that were renamed because two clones allocated the same id, and
everything in layouts that keep one entry per line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.files.folded_entries import fold_entries
from smp_memory.model.record import same
from smp_memory.store.rewrite import SessionEdit, entries_of, position_of, rewrite

if TYPE_CHECKING:
    from typing import Any

    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.store.file_session import FileSession


class TidyReport(NamedTuple):
    """What was folded, or would be in a dry run."""

    session: str
    ids: list[str]  # of memories whose changes were folded into their entry
    can_fold: bool  # False: the layout keeps every change in a line of its own

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def tidy_session(session: FileSession, *, dry_run: bool = False) -> TidyReport:
    """Fold the changes of one session's memories."""
    name = session.session
    if not session.store.layout.field_names.folds:
        return TidyReport(name, [], False)
    ids: list[str] = session.view(
        lambda session_history: list(
            dict.fromkeys(
                [*(history.first.id for history in _foldable(session, session_history)), *_doubled(session_history)]
            )
        )
    )
    if ids and not dry_run:
        rewrite(session, "tidying", lambda reader: _edit(session, reader, ids))
    return TidyReport(name, ids, True)


def _edit(session: FileSession, reader: SessionReader, ids: list[str]) -> SessionEdit:
    """The edit of the session's files. May be called again, so `ids` is reset."""
    edit = SessionEdit()
    ids.clear()
    for history in _foldable(session, reader.session_history):
        edit.fold(history.entries)
        ids.append(history.first.id)
    doubled = set(_doubled(reader.session_history))
    for entry in entries_of(reader, doubled) if doubled else ():
        if _is_copy(reader.session_history.histories.get(reader.session_history.names.resolved(entry).id), entry):
            edit.remove(entry)
            ids += [entry.id] if entry.id not in ids else []
    return edit


def _doubled(session_history: SessionHistory) -> list[str]:
    """The ids of memories with an entry that is in the files twice."""
    return [problem.id for problem in session_history.problems if problem.code == "duplicate_entry" and problem.id]


def _is_copy(history: RecordHistory | None, entry: Entry) -> bool:
    """Whether an identical entry at another position is the one in the history."""
    if history is None or any(position_of(each) == position_of(entry) for each in history.entries):
        return False
    key = entry.op, entry.seq, entry.at, entry.uid
    return any(
        (each.op, each.seq, each.at, each.uid) == key and same(each.data, entry.data) for each in history.entries
    )


def _foldable(session: FileSession, session_history: SessionHistory) -> list[RecordHistory]:
    renamed = set(session_history.names.shown.values())  # in the files, their entries have other ids
    return [
        history
        for name, history in session_history.histories.items()
        if len(history.entries) > 1
        and not (renamed and _is_renamed(renamed, history))
        and _can_fold(session, name, history)
    ]


def _is_renamed(renamed: set[str], history: RecordHistory) -> bool:
    """Whether a memory, or one that it refers to, is shown under another id than in the files."""
    targets = (target for entry in history.entries for target in entry.uids or ())
    return history.first.id in renamed or any(target.rpartition("/")[2] in renamed for target in targets)


def _can_fold(session: FileSession, name: str, history: RecordHistory) -> bool:
    entries, first = history.entries, history.first
    if history.deletion is not None or name != first.id:
        return False
    if any(entry.file != first.file for entry in entries) or _is_folded(history):
        return False
    return fold_entries(session.store.layout.field_names, entries, session.session) is not None


def _is_folded(history: RecordHistory) -> bool:
    return all(entry.place == history.first.place for entry in history.entries)
