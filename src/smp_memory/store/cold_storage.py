"""Read a session's cold segment: which memories it holds, and their content.

Each entry in the segment has the bytes of the layout that the session had when it was moved there, and names that layout.

Guarantees: the session's files are the truth: an entry that is in both, because a restore by an older version was
interrupted, is not counted here. Entries are unique by id and number; of several copies that older versions left, one
counts (`_unique`). Unreadable entries are left out, and reported with the answer and by `validate`.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.files.codec import SIGNED
from smp_memory.files.cold_segment import FILE, ColdMatch, ColdSegment, key_of
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.model.history import SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.store import incomplete

if TYPE_CHECKING:
    from smp_memory.files.cold_format import ColdRow
    from smp_memory.model.entry import Entry
    from smp_memory.model.record import Record
    from smp_memory.store.file_session import FileSession

KEY = "key"  # in `about`: digest of an idempotency key
HISTORY = "history"  # in `about`: an earlier step of a memory that is in the files


class ColdMemory(NamedTuple):
    """A memory in the cold segment."""

    id: str
    type: str
    created: str
    moved: str  # when it was moved there
    why: str
    bytes: int
    entries: int
    is_history: bool  # earlier states of a memory that is in the files

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def cold_path(session: FileSession) -> str:
    return os.path.join(session.reader.private, FILE)


def current_cold_path(session: FileSession) -> str:
    """The path of the current segment: a committed plan is read as if it had been carried out already."""
    reader, path = session.reader, cold_path(session)
    plan = reader.journal.load() if reader.journal.exists() else None
    if plan is None:
        return path
    for source, target in plan.moves:
        staged = os.path.join(reader.folder, source)
        if os.path.join(reader.folder, target) == path and session.store.disk.exists(staged):
            return staged
    is_removed = any(os.path.join(reader.folder, name) == path for name in plan.removes)
    return path + TEMPORARY if is_removed else path  # the first is a name without a file


def cold_segment_of(session: FileSession) -> ColdSegment:
    while True:
        path = current_cold_path(session)
        segment = ColdSegment(session.store.disk, path)
        if current_cold_path(session) == path:  # else a plan was carried out meanwhile
            return segment


def cold_memories(session: FileSession) -> list[ColdMemory]:
    """The memories in the segment that are not in the files, in the order in which they were moved."""
    found: dict[str, list[ColdRow]] = {}
    segment = cold_segment_of(session)
    for row in cold_rows(session, segment):
        found.setdefault(row.id, []).append(row)
    incomplete.report(incomplete.errors(segment.problems))
    return [_memory(id, rows) for id, rows in found.items()]


def cold_rows(session: FileSession, segment: ColdSegment | None = None) -> list[ColdRow]:
    """The entries that are in the segment and not in the files, unique by id and number.

    The rows of a memory have `HISTORY` exactly if the memory itself is in the files.
    """
    segment = segment or cold_segment_of(session)
    rows = segment.rows()
    if not rows:
        return []
    in_files = session.view(
        lambda session_history: {
            (entry.id, entry.seq) for history in session_history.histories.values() for entry in history.entries
        }
    )
    by_id: dict[str, list[ColdRow]] = {}
    for row in rows:
        by_id.setdefault(row.id, []).append(row)
    return [row for those in by_id.values() for row in _counted(those, in_files)]


def _counted(rows: list[ColdRow], in_files: set[tuple[str, int]]) -> list[ColdRow]:
    """Of the rows of one memory, those that are not in the files."""
    moved = _unique([row for row in rows if (row.id, row.seq) not in in_files or row.about.get(HISTORY) == "last"])
    if not moved or all(HISTORY in row.about for row in moved):
        return moved
    first = min((row for row in rows if HISTORY not in row.about), key=lambda row: row.seq)
    if (
        first.id,
        first.seq,
    ) in in_files:  # a restore of the memory was interrupted, and its history moved again
        return [_marked(row, row.about.get(HISTORY, "step")) for row in moved]
    return [_marked(row, None) for row in moved]


def _unique(rows: list[ColdRow]) -> list[ColdRow]:
    """One row per number: the change as it was before the steps up to it were joined, else the newest copy."""
    chosen: dict[int, ColdRow] = {}
    for row in rows:
        known = chosen.get(row.seq)
        if known is None or known.about.get(HISTORY) != "last":
            chosen[row.seq] = row
    return list(chosen.values())


def _marked(row: ColdRow, history: str | None) -> ColdRow:
    about = {name: value for name, value in row.about.items() if name != HISTORY}
    return row._replace(about=about if history is None else {**about, HISTORY: history})


def key_digest(key: str) -> str:
    """The digest of an idempotency key as stored in `about`, because row lists hold no content."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]


def find_by_idempotency_key(session: FileSession, key: str) -> Record | None:
    """The memory with this idempotency key in the segment. Reads the row list, and a block only on a match."""
    if not session.store.disk.exists(current_cold_path(session)):
        return None
    segment, digest = cold_segment_of(session), key_digest(key)
    if not any(row.about.get(KEY) == digest for row in segment.rows()):
        return None
    rows = [row for row in cold_rows(session, segment) if HISTORY not in row.about]
    for id in dict.fromkeys(row.id for row in rows if row.about.get(KEY) == digest):
        session_history = SessionHistory()
        found = (ColdMatch(row, segment.read(row)) for row in rows if row.id == id)
        entries = (decode_cold_entry(each, session.store.layout.name) for each in found)
        session_history.add(entry for entry in entries if entry is not None)
        history = session_history.histories.get(id)
        if history is not None and history.data().get("idempotency_key") == key:
            return history.record(session.session)
    return None


def _memory(id: str, rows: list[ColdRow]) -> ColdMemory:
    about = rows[0].about
    type, created, moved, why = (str(about.get(name, "")) for name in ("type", "created", "moved", "why"))
    size = sum(row.length for row in rows)
    return ColdMemory(id, type, created, moved, why, size, len(rows), HISTORY in about)


def decode_cold_entry(found: ColdMatch, layout_name: str) -> Entry | None:
    """The entry of a row; None if it cannot be decoded."""
    row = found.row
    name = row.about.get("layout", layout_name)
    layout = layout_named(name if name in NAMES else layout_name)
    try:
        pieces = layout.codec_of(row.file).decode(found.data, 0, 1)
        piece = next((piece for piece in pieces if piece.fields is not None), None)
        if piece is None or piece.fields is None:
            return None
        entry = layout.field_names.decode(piece.fields, layout.kind_of(row.file), piece.state, row.file, 0, row.seq)
    except SMPError:
        return None
    entry.seq, entry.tx, entry.state = row.seq, "", SIGNED  # it is encoded again when it is restored
    entry.id = row.id
    return entry


def cold_history(session: FileSession, problems: list[Problem] | None = None) -> SessionHistory:
    """The history of the memories in the segment, without earlier steps of memories that are in the files.

    `problems` gets unreadable entries.
    """
    segment = cold_segment_of(session)
    rows = {key_of(row): row for row in cold_rows(session, segment) if HISTORY not in row.about}
    lost = dict(rows)
    session_history = SessionHistory()
    if rows:
        name = session.store.layout.name
        entries = []
        for found in segment.entries():
            if key_of(found.row) in rows and (entry := decode_cold_entry(found, name)) is not None:
                entries.append(entry)
                lost.pop(key_of(found.row), None)
        session_history.add(entries)
    if problems is not None:
        problems += segment.problems
        ids = dict.fromkeys(row.id for row in lost.values())
        problems += [Problem(segment.path, 0, "cold_damaged", f"{id} cannot be read.", "error", id) for id in ids]
    return session_history
