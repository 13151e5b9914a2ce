"""Keep the files that people read in order: fold changes in the `markdown` layout, write overviews, figures and deletion records.

    under the lock: the memories with changes → one folded entry each, at the position of the first → a rewrite
    indexes/topics.yaml  timeline.yaml  agents.yaml        in the form of design 003

Guarantees of folding: those of `store.rewrite`. Records, histories, `as_of`, ids, revisions and numbers are the same
as before; the new files are read back and compared before they replace the old ones. A session with nothing to fold is
not written. The modification times of the files are preserved.
If a file has an entry twice, as a text merge of folded entries leaves it, one entry with all its changes stays.
Left as they are: deleted memories (they are purged, or can be folded after a restoration), memories with entries in
several files or under several identities, memories that were renamed because two clones allocated the same id, and
everything in layouts that keep one entry per line.

The overviews are made from the memories and can be deleted; SMP never reads them. They hold no text of memories, only
names, times and ids. A file is written only when its text changed, and atomically. A full or read-only disk is no error: the
files then stay as they were. No lock is taken, and no write of a memory waits for this. They are as old as the last call;
when two processes write one at the same moment, one may give up.

The designs also show counts, sizes and times in `manifest.json`, `metadata.yaml` and `metadata.json`. Every write of the metadata
renews them, and so do `refresh` (maintenance) and the closing of a store, if they are out of date; at closing, only those of sessions up to a
megabyte, because counting takes long and other writers wait meanwhile. `as_of` beside them says when that was.
SMP never reads them. The file's modification time is preserved: it is not a use of the session.

Deletion records of single memories, layout `markdown` only, have the form of design 003, `deleted/{session}/deletion-record.yaml`:

    deletion:
      session_id: review
      deleted_at: 2026-03-01T10:30:00Z         the last deletion: when, by whom, why
      deleted_by: ada
      reason: private
      deleted_items:                           all memories in the trash
        - type: decision
          id: DEC-0005
          timestamp: 2026-02-11T15:35:00Z      when it was written
          deleted_at: 2026-03-01T10:30:00Z
          deleted_by: ada
          reason_specific: private
      recovery_deadline: 2026-03-31T10:30:00Z  until then all of them can be restored
      backup_location: active/review           they are still in the session's files, marked as deleted
      written_by: smp

SMP's own record is made from the session's files after each deletion, restoration and purge, and by maintenance; nobody reads it, and
`ArchiveIndex.recover` removes it. A full or read-only disk is no error. In a git work tree none is written, because two clones would
conflict about it. A record of another program is never changed; the memories that it names and the session still has are
`recorded_deletions`, once: one that was deleted or restored here before is not named again.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from smp_memory import store
from smp_memory.config.settings import WRITE
from smp_memory.errors import Busy, Corrupt, SessionCorrupt, SMPError, StorageCorrupt, StorageError
from smp_memory.files.entry_fields import fold_entries
from smp_memory.files.layouts.layout import AS_OF, NOTICE, OVERVIEW_FILES, OVERVIEWS
from smp_memory.files.ownership import merged_by
from smp_memory.files.yaml_text import emit_mapping
from smp_memory.model import ids
from smp_memory.model.entry import DELETE, RESTORE
from smp_memory.model.record import same
from smp_memory.model.session_info import GLOBAL_SESSION, SessionFigures, SessionInfo
from smp_memory.model.storage_reports import RecordedDeletion, TidyReport
from smp_memory.model.times import later, to_moment, to_text
from smp_memory.overview.activity import agents_of, timeline_of
from smp_memory.overview.topics import overview_items, topics_of
from smp_memory.store.rewrite import SessionEdit, entries_of, position_of, rewrite
from smp_memory.store.shared_files import renew

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk
    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.store.file_session import FileSession

_TURN = "conversation_turn"  # what the design calls the type of a turn; its ids are turn-1, turn-2, …


def foreign_record(disk: Disk, root: str, session: str) -> dict[str, Any] | None:
    """The record of another program about single memories of a session; None if there is none."""
    path = record_path(root, session)
    if not disk.exists(path):
        return None
    record = store.archive_names.read(disk, path).get("deletion")
    if not isinstance(record, dict):
        return {}
    is_other = "state" in record or "written_by" in record or not record.get("deleted_items")
    return None if is_other else record


def record_path(root: str, session: str) -> str:
    return os.path.join(root, "deleted", session, "deletion-record.yaml")


def recorded_ids(record: dict[str, Any]) -> dict[str, Any]:
    """The ids of memories that a record names, with the reason for each."""
    found: dict[str, Any] = {}
    items = record.get("deleted_items")
    for item in items if isinstance(items, list) else ():
        name = item.get("id") if isinstance(item, dict) else None
        if isinstance(name, str) and ids.is_valid(name):
            kind, _, number = name.partition("-")
            is_turn = kind == "turn" and number.isdigit()
            found[f"TURN-{int(number):04d}" if is_turn else name] = item.get("reason_specific") or record.get("reason")
    return found


def recorded_deletions(session: FileSession) -> list[RecordedDeletion]:
    """The memories of the session that another program's record names and that were never deleted or restored here."""
    record = foreign_record(session.store.disk, session.store.root, session.session)
    named = recorded_ids(record) if record else {}
    if not record or not named:
        return []
    known = session.history(named).histories
    found = [id for id in named if id in known and not any(e.op in (DELETE, RESTORE) for e in known[id].entries)]
    by = store.archive_names.text_of(record.get("deleted_by"))
    return [RecordedDeletion(id, by, store.archive_names.text_of(named[id])) for id in found]


def write_record(session: FileSession) -> None:
    """Write SMP's own record, or remove it if no memory is deleted. Does nothing beside a record of another program."""
    disk, root = session.store.disk, session.store.root
    if merged_by(root):
        return  # two clones would conflict about it
    archives = store.archive_index.ArchiveIndex(session.store)
    path = record_path(root, session.session)
    try:
        fields = _fields(session, session.history())
        if fields is None and not disk.exists(path):
            return
        with archives.locked_root("recording deletions"):
            record = archives.read_record(os.path.dirname(path))
            if disk.exists(path) and "written_by" not in record:
                return
            if fields is not None and fields != record:
                archives.write(path, {"deletion": fields})
            elif fields is None:
                archives.remove_trash(os.path.dirname(path))
    except (OSError, StorageError, Corrupt, Busy):
        pass  # it is made again by the next deletion or by maintenance


def _fields(session: FileSession, session_history: SessionHistory) -> dict[str, Any] | None:
    trashed = [each for each in session_history.histories.values() if each.deletion is not None]
    if not trashed:
        return None
    deletions = [each.deletion for each in trashed if each.deletion is not None]
    last, first = max(deletions, key=lambda entry: entry.seq), min(deletions, key=lambda entry: entry.at)
    kept = timedelta(days=float(session.config["lifecycle.purge_days"]))
    return {
        "session_id": session.session,
        "deleted_at": last.at,
        "deleted_by": last.by,
        "reason": last.data.get("reason"),
        "deleted_items": [_item(each) for each in trashed],
        "recovery_deadline": to_text(later(to_moment(first.at), kept)),
        "backup_location": f"{session.store.layout.sessions}/{session.session}",
        "written_by": "smp",
    }


def _item(history: RecordHistory) -> dict[str, Any]:
    first, deletion = history.first, history.deletion
    assert deletion is not None
    return {
        "type": _TURN if first.type == "conversation" else first.type,
        "id": first.id,
        "timestamp": first.at,
        "deleted_at": deletion.at,
        "deleted_by": deletion.by,
        "reason_specific": deletion.data.get("reason"),
    }


_MOST_BYTES = 1_000_000  # of a session that is refreshed when its store is closed: a tenth of a second
_COMMENT = re.compile(rb"^(?:[^\"']*\s)?#", re.M)
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from smp_memory.files.disk import Disk
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.model.record import Record
    from smp_memory.store.file_session import FileSession

    class Overview(Protocol):
        def to_dict(self) -> dict[str, Any]: ...


def tidy_session(session: FileSession, *, dry_run: bool = False) -> TidyReport:
    """Fold the changes of one session's memories."""
    name = session.session
    if not session.store.layout.field_names.folds:
        return TidyReport(name, [], False)
    found = session.history()
    ids = list(dict.fromkeys([*(history.first.id for history in _foldable(session, found)), *_doubled(found)]))
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


# -- overviews and figures


def to_yaml(value: Overview | Mapping[str, Any]) -> str:
    """An overview, or any mapping of JSON values, as YAML. The same value gives the same text."""
    fields = value.to_dict() if hasattr(value, "to_dict") else dict(value)
    return emit_mapping(fields) or "{}\n"


def write_overviews(
    disk: Disk, folder: str, records: Iterable[Record], users: Mapping[str, str] | None = None
) -> list[str]:
    """Write the overviews of the session in this folder; returns the names of those that changed."""
    seen = overview_items(records, across_sessions=False, users=users)
    overviews: tuple[Overview, ...] = (topics_of(seen), timeline_of(seen), agents_of(seen))
    changed: list[str] = []
    try:
        if disk.is_folder(folder):  # it may have been archived or converted meanwhile
            disk.make_folder(os.path.join(folder, OVERVIEWS), within=folder)
            _write_if_changed(disk, os.path.join(folder, OVERVIEWS, ".gitignore"), b"*\n")  # clones make their own
            for name, overview in zip(OVERVIEW_FILES, overviews, strict=True):
                if _write_if_changed(
                    disk, os.path.join(folder, OVERVIEWS, name), (NOTICE + to_yaml(overview)).encode()
                ):
                    changed.append(name)
    except (OSError, StorageError, StorageCorrupt):
        pass  # they are not needed
    return changed


def _write_if_changed(disk: Disk, path: str, data: bytes) -> bool:
    if _content(disk, path) == data:
        return False
    disk.replace(path, data)
    return True


def _content(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read(path)
    except (OSError, StorageError, StorageCorrupt):
        return None


def refresh(files: FileSession, *, dry_run: bool = False) -> bool:
    """Renew the figures in the metadata and the overviews; whether the figures in the metadata were out of date."""
    is_stale = _renew_figures(files, dry_run)
    if not dry_run:
        _rewrite_overviews(files)
        if files.session == GLOBAL_SESSION:
            renew(files.store)
        files.write_deletion_record()
    return is_stale


def refresh_small(sessions: Iterable[FileSession]) -> None:
    """Refresh sessions up to a megabyte as far as possible: `as_of` says how old figures are, and maintenance renews all of them."""
    for session in sessions:
        try:
            if session.size_bytes <= _MOST_BYTES and session.config.allows(WRITE):
                refresh(session)
        except (OSError, SMPError, ValueError):
            continue


def _renew_figures(files: FileSession, dry_run: bool) -> bool:
    disk, path = files.store.disk, files.info_path()
    if not files.store.layout.info_file or not disk.exists(path):
        return False
    try:
        info = files.info_for_update()
    except (SessionCorrupt, StorageCorrupt):
        return False  # `validate` names it
    if _without_time(info.figures) == _without_time(current_figures(files, info)):
        return False
    if path.endswith(".yaml") and _COMMENT.search(disk.read(path).partition(b"\n")[2]):
        return False  # figures are no reason to lose somebody's comments; the first line is SMP's own
    found = disk.stat(path)
    if not dry_run:
        files.update_info(lambda info: None)
        if found is not None:
            disk.set_modified_time(path, found.st_mtime_ns)
    return True


def _without_time(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures without the time at which they were computed."""
    return {
        name: {key: inner for key, inner in value.items() if key != AS_OF} if isinstance(value, dict) else value
        for name, value in figures.items()
    }


def current_figures(files: FileSession, info: SessionInfo) -> dict[str, Any]:
    """The figures of a session now, in the form of its layout."""
    layout = files.store.layout
    if not layout.info_file or merged_by(files.store.root) == "text":  # as text every merge would conflict about them
        return {}
    figures = _figures(files, files.history(), info)
    figures.bytes, figures.quota_bytes = sum(files.sizes().values()), files.config.quota_bytes
    clock: Any = files.store.clock
    figures.as_of = to_text(clock() if clock is not None else datetime.now(UTC))
    return layout.figures(figures)


def _figures(files: FileSession, session_history: SessionHistory, info: SessionInfo) -> SessionFigures:
    records = _live_records(files, session_history)
    counts: dict[str, int] = {}
    updated = last = None
    for record in records:
        counts[record.type] = counts.get(record.type, 0) + 1
        changed, access = to_text(record.updated), record.given.get("access")
        used = access.get("last") if isinstance(access, dict) else None
        updated = max(updated or changed, changed)
        last = max(last or changed, changed, used if isinstance(used, str) else changed)
    found = agents_of(overview_items(records, across_sessions=False, users=_users(files, info)))
    agents = {
        each.name: {"message_count": each.messages, "last_active": to_text(each.last)}
        for each in found
        if each.kind == "agent"
    }
    return SessionFigures(counts, agents, updated, last)


def _live_records(files: FileSession, session_history: SessionHistory) -> list[Record]:
    histories = (history for history in session_history.histories.values() if history.deletion is None)
    return [record for history in histories if (record := history.record(files.session)) is not None]


def _users(files: FileSession, info: SessionInfo) -> dict[str, str]:
    return {files.session: info.user} if info.user else {}


def _rewrite_overviews(files: FileSession) -> None:
    if files.store.layout.name != "markdown":
        return
    try:
        users = _users(files, files.info())
    except (SessionCorrupt, StorageCorrupt):
        users = {}
    records = _live_records(files, files.history())
    write_overviews(files.store.disk, files.reader.folder, records, users)
