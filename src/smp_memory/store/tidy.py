"""Keep the files that people read in order: fold changes in the `markdown` layout, write overviews and figures.

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
renews them, and so do `refresh` (maintenance) and the closing of a store, if they are out of date. `as_of` beside them says when that was.
SMP never reads them. The file's modification time is preserved: it is not a use of the session.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import Any

from smp_memory.config.settings import WRITE
from smp_memory.errors import SessionCorrupt, SMPError, StorageCorrupt, StorageError
from smp_memory.files.entry_fields import fold_entries
from smp_memory.files.layouts.layout import AS_OF, NOTICE, OVERVIEW_FILES, OVERVIEWS
from smp_memory.files.ownership import merged_by
from smp_memory.files.yaml_text import emit_mapping
from smp_memory.model.record import same
from smp_memory.model.session_info import GLOBAL_SESSION, SessionFigures, SessionInfo
from smp_memory.model.storage_reports import TidyReport
from smp_memory.model.times import to_text
from smp_memory.overview.activity import agents_of, timeline_of
from smp_memory.overview.topics import overview_items, topics_of
from smp_memory.store.rewrite import SessionEdit, entries_of, position_of, rewrite
from smp_memory.store.shared_files import renew

_COMMENT = re.compile(rb"^(?:[^\"']*\s)?#", re.M)
TYPE_CHECKING = False
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


def refresh_all(sessions: Iterable[FileSession]) -> None:
    """Refresh sessions as far as possible: `as_of` says how old figures are, and maintenance renews them."""
    for session in sessions:
        try:
            if session.config.allows(WRITE):
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
