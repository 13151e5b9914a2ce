"""Deletion records of single memories, in the form of design 003: `deleted/{session}/deletion-record.yaml`, layout `markdown` only.

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
`ArchiveIndex.recover` removes it. A full or read-only disk is no error. A record of another program is never changed;
In a git work tree none is written, because two clones would conflict about it. The memories that a foreign one names and the session still has are `recorded_deletions`, once: one that was deleted or restored here before is not named again.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from smp_memory.errors import Busy, Corrupt, StorageError
from smp_memory.files.ownership import merged_by
from smp_memory.model import ids
from smp_memory.model.entry import DELETE, RESTORE
from smp_memory.model.storage_reports import RecordedDeletion
from smp_memory.model.times import later, to_moment, to_text
from smp_memory.store import archive_names
from smp_memory.store.archive_index import ArchiveIndex

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
    record = archive_names.read(disk, path).get("deletion")
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
    by = archive_names.text_of(record.get("deleted_by"))
    return [RecordedDeletion(id, by, archive_names.text_of(named[id])) for id in found]


def write_record(session: FileSession) -> None:
    """Write SMP's own record, or remove it if no memory is deleted. Does nothing beside a record of another program."""
    store = session.store
    if merged_by(store.root):
        return  # two clones would conflict about it
    archives = ArchiveIndex(store)
    path = record_path(store.root, session.session)
    try:
        fields = _fields(session, session.history())
        if fields is None and not store.disk.exists(path):
            return
        with archives.locked_root("recording deletions"):
            record = archives.read_record(os.path.dirname(path))
            if store.disk.exists(path) and "written_by" not in record:
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
