"""Remove secrets from what is stored of a session, including its history, in one rewrite of all its files.

Guarantees: ids, numbers, times, authors and every other field stay; `[REDACTED:kind]` replaces a secret. Metadata, cold segment,
quarantine and overviews change together with the entries; the whole index is removed. `preview` changes nothing. Reports hold ids,
kinds and counts, never content. Repeating it changes nothing.
Non-guarantees: archived and deleted sessions are not opened, and bytes that cannot be read as an entry are not checked; both are
reported. Git, backups and free blocks of the disk are not reached.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.files.cold_segment import ColdEntry, decode_line, encode_line
from smp_memory.files.layouts.layout import OVERVIEW_FILES, OVERVIEWS, QUARANTINE
from smp_memory.files.user_state import ERASING
from smp_memory.model.entry import Entry
from smp_memory.model.rewrite_plan import RewriteReport
from smp_memory.model.storage_reports import RedactionReport
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.cold_storage import cold_segment_of
from smp_memory.store.erasure import clean_index, intend
from smp_memory.store.rewrite import SessionEdit, private_name, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.rewrite_plan import RewritePlan
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.store.file_session import FileSession

_METADATA_MARK = b'"type":"session"'
_UNREDACTED = ("user_id", "agent_ids", "config")


def redact(session: FileSession, plan: RewritePlan, *, dry_run: bool) -> RewriteReport:
    """Carry out a plan with a redactor, or report what it would remove."""
    assert plan.redactor is not None
    work = _Redaction(session, plan.redactor)
    return RewriteReport(redaction=work.preview() if dry_run else work.run(plan.operation))


class _Redaction:
    """Removes secrets from what is stored of a session, including its history."""

    def __init__(self, session: FileSession, redactor: Redactor) -> None:
        self._session = session
        self._redactor = redactor
        self._disk = session.store.disk
        self._found = RedactionReport(session.session)

    def preview(self) -> RedactionReport:
        with self._session.reader.mutex:
            self._session.reader.catch_up()
            self._edit(self._session.reader)
        return self._found

    def run(self, operation: str) -> RedactionReport:
        """Holds the store's lock, so that `erasing.json` without the lock means an interrupted process."""
        session, store = self._session, self._session.store

        def edit(reader: SessionReader) -> SessionEdit:
            found = self._edit(reader)
            if found:
                intend(store, {session.session: []})
            return found

        with ArchiveIndex(store).locked_root(operation):
            rewrite(session, operation, edit)
            if self._found:
                clean_index(store, {})  # removed, because free pages of its files may hold the text
                store.state.remove(ERASING)
        session.write_deletion_record()  # it repeats reasons; takes the lock of the store itself
        return self._found

    def _edit(self, reader: SessionReader) -> SessionEdit:
        """The edit of the session's files. May be called again, so it resets the report."""
        found = self._found = RedactionReport(self._session.session)
        edit = SessionEdit()
        edit.destroys = True
        self._clean_metadata(edit)
        for name, state in reader.states.items():
            for entry in state.entries:
                new, removals = self._cleaned(entry)
                if removals:
                    edit.replace(entry, new)
                    _count(found.memories.setdefault(entry.id, {}), removals)
            found.pending += [
                f"{os.path.join(reader.folder, name)}:{problem.line} cannot be read as a memory; `smp repair` sets it aside"
                for problem in state.problems
                if problem.code in ("damaged", "invalid", "conflict")
            ]
        self._clean_cold_segment(reader, edit)
        self._clean_quarantine(reader, edit)
        if edit and reader.layout.info_file:
            edit.files.update({f"{OVERVIEWS}/{name}": None for name in OVERVIEW_FILES})
        return edit

    def _cleaned(self, entry: Entry) -> tuple[Entry, list[RedactedSpan]]:
        data, removals = self._redactor.redact_fields(entry.data)
        if not removals:
            return entry, []
        twin = entry.copy()
        twin.data = data
        return twin, removals

    def _clean_cold_segment(self, reader: SessionReader, edit: SessionEdit) -> None:
        segment = cold_segment_of(self._session)

        def change(line: bytes) -> bytes:
            found = decode_line(line)
            new, removals = self._cleaned(found.entry) if found is not None else (None, [])
            if found is None or new is None or not removals:
                return line
            _count(self._found.memories.setdefault(found.entry.id, {}), removals)
            return encode_line(ColdEntry(new, found.about))

        left = segment.changed(change, destroys=lambda text: False)
        if left != segment.data:
            edit.files[reader.layout.cold_file(reader.session)] = left
        self._found.pending += [str(problem) for problem in segment.problems]

    def _clean_quarantine(self, reader: SessionReader, edit: SessionEdit) -> None:
        folder = os.path.join(reader.private, QUARANTINE)
        for name in self._disk.names(folder):
            text = self._disk.read(os.path.join(folder, name)).decode("utf-8", "surrogateescape")
            cleaned, removals = self._redactor.redact(text)
            if removals:
                path = private_name(reader, os.path.join(QUARANTINE, name))
                edit.files[path] = cleaned.encode("utf-8", "surrogateescape")
                _count(self._found.set_aside, removals)

    def _clean_metadata(self, edit: SessionEdit) -> None:
        info = self._session.info_for_update()
        old = self._redactions_of_old_metadata()
        given = {"project": info.project, "tags": info.tags, "context": info.context, "other": info.other}
        cleaned, removals = self._redactor.redact_fields(given)
        _count(self._found.head, [*old, *removals])

        def change(info: SessionInfo) -> None:
            for name, value in cleaned.items():
                setattr(info, name, value)

        if old or removals:
            edit.change_info = change

    def _redactions_of_old_metadata(self) -> list[RedactedSpan]:
        """What redaction would remove from earlier metadata lines of a log, which a rewrite removes."""
        layout, reader = self._session.store.layout, self._session.reader
        lines: list[dict[str, Any]] = []
        for name in layout.files(self._disk, reader.folder, reader.session) if not layout.info_file else ():
            data = self._disk.read(os.path.join(reader.folder, name)).splitlines(keepends=True)
            for piece in layout.codec_of(name).decode(b"".join([line for line in data if _METADATA_MARK in line])):
                if piece.fields is not None and piece.fields.get("type") == "session":
                    lines.append({key: value for key, value in piece.fields.items() if key not in _UNREDACTED})
        return [removal for fields in lines[:-1] for removal in self._redactor.redact_fields(fields)[1]]


def _count(kinds: dict[str, int], removals: Iterable[RedactedSpan]) -> None:
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1
