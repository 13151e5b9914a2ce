"""Remove secrets from stored entries, including their history.

    under the session's lock, in one plan   its files, its quarantine, overviews made of them
    before and after it, each repeatable    the metadata, the cold segment, the whole index

Guarantees: ids, numbers, times, authors and every other field stay; `[REDACTED:kind]` replaces a secret.
`preview_redaction` changes nothing. Reports hold ids, kinds and counts, never content. Repeating it changes nothing.
Non-guarantees: archived and deleted sessions are not opened, and bytes that cannot be read as an entry are not checked; both are
reported. Git, backups and free blocks of the disk are not reached.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.files import cold_segment
from smp_memory.files.cold_segment import ColdSegment, decode_cold_entry
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import OVERVIEW_FILES, OVERVIEWS, QUARANTINE
from smp_memory.model.entry import Entry
from smp_memory.model.storage_reports import RedactionReport
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.cold_storage import cold_path
from smp_memory.store.erasure import clean_index, intend
from smp_memory.store.file_store import ERASING
from smp_memory.store.rewrite import SessionEdit, copy_of, private_name, rewrite_under_lock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.cold_segment import ColdMatch
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.store.file_session import FileSession

METADATA_MARK = b'"type":"session"'
_UNREDACTED = ("user_id", "agent_ids", "config")
_NO_FILE = "redacting"  # a name that no file has: makes an edit in which only old metadata lines are removed


def preview_redaction(session: FileSession, redactor: Redactor) -> RedactionReport:
    """Report what a redaction would remove."""
    work = _Cleaning(session, redactor)
    work.clean_metadata()
    with session.reader.mutex:
        session.reader.catch_up()
        work.edit(session.reader)
    work.check_cold_segment()
    return work.found


def redact_stored(session: FileSession, redactor: Redactor) -> RedactionReport:
    """Redact a session. Holds the store's lock, so that `erasing.json` without the lock means an interrupted process."""
    with ArchiveIndex(session.store).locked_root("redacting"):
        found = _clean(session, redactor)
    session.write_deletion_record()  # it repeats reasons; takes the lock of the store itself
    return found


def _clean(session: FileSession, redactor: Redactor) -> RedactionReport:
    work, store = _Cleaning(session, redactor), session.store

    def with_intent(edit: SessionEdit) -> SessionEdit:
        if edit:
            intend(store, {session.session: []})
        return edit

    def under_lock() -> None:
        info = work.clean_metadata()
        if info is not None:
            intend(store, {session.session: []})
            session.write_info(info)  # before the files: the rewrite removes older metadata lines of a log
        rewrite_under_lock(session, lambda reader: with_intent(work.edit(reader)))
        if work.check_cold_segment():
            intend(store, {session.session: []})
            path = cold_path(session)
            cold_segment.rewrite(store.disk, path, lambda row: row.id in work.found.memories, work.cleaned_cold)

    session.run_locked("redacting", under_lock)
    if work.found:
        clean_index(store, {})  # removed, because free pages of its files may hold the text
        store.state.remove(ERASING)
    return work.found


class _Cleaning:
    def __init__(self, session: FileSession, redactor: Redactor) -> None:
        self._session = session
        self._redactor = redactor
        self._disk = session.store.disk
        self._removes_old_metadata = False  # older metadata lines of a log must be removed
        self.found = RedactionReport(session.session)

    # -- entries

    def edit(self, reader: SessionReader) -> SessionEdit:
        """The edit of the session's files. May be called again, so it resets the report."""
        self.found.memories, self.found.set_aside, self.found.pending = {}, {}, []
        edit = SessionEdit()
        edit.destroys = True
        for name, state in reader.states.items():
            for entry in state.entries:
                new, removals = self._cleaned(entry)
                if removals:
                    edit.replace(entry, new)
                    _count(self.found.memories.setdefault(entry.id, {}), removals)
            self.found.pending += [
                f"{os.path.join(reader.folder, name)}:{problem.line} cannot be read as a memory; `smp repair` sets it aside"
                for problem in state.problems
                if problem.code in ("damaged", "invalid", "conflict")
            ]
        self._edit_others(reader, edit)
        if self._removes_old_metadata and not edit:
            edit.files[_NO_FILE] = None
        return edit

    def _cleaned(self, entry: Entry) -> tuple[Entry, list[RedactedSpan]]:
        data, removals = self._redactor.redact_fields(entry.data)
        if not removals:
            return entry, []
        twin = copy_of(entry)
        twin.data = data
        return twin, removals

    def _edit_others(self, reader: SessionReader, edit: SessionEdit) -> None:
        folder = os.path.join(reader.private, QUARANTINE)
        for name in self._disk.names(folder):
            text = self._disk.read(os.path.join(folder, name)).decode("utf-8", "surrogateescape")
            cleaned, removals = self._redactor.redact(text)
            if removals:
                path = private_name(reader, os.path.join(QUARANTINE, name))
                edit.files[path] = cleaned.encode("utf-8", "surrogateescape")
                _count(self.found.set_aside, removals)
        if edit and reader.layout.info_file:
            edit.files.update({f"{OVERVIEWS}/{name}": None for name in OVERVIEW_FILES})

    # -- metadata

    def clean_metadata(self) -> SessionInfo | None:
        """The metadata without secrets; None if it has none."""
        info = self._session.info_for_update()
        self.found.head = {}
        self._check_old_metadata()
        given = {"project": info.project, "tags": info.tags, "context": info.context, "other": info.other}
        cleaned, removals = self._redactor.redact_fields(given)
        _count(self.found.head, removals)
        if not removals:
            return None
        for name, value in cleaned.items():
            setattr(info, name, value)
        self._removes_old_metadata = True
        return info

    def _check_old_metadata(self) -> None:
        """Check earlier metadata lines of a log."""
        layout, reader = self._session.store.layout, self._session.reader
        if layout.info_file:
            return
        metadata_lines: list[dict[str, Any]] = []
        for name in layout.files(self._disk, reader.folder, reader.session):
            lines = self._disk.read(os.path.join(reader.folder, name)).splitlines(keepends=True)
            for piece in layout.codec_of(name).decode(b"".join([line for line in lines if METADATA_MARK in line])):
                if piece.fields is not None and piece.fields.get("type") == "session":
                    metadata_lines.append(piece.fields)
        for fields in metadata_lines[:-1]:
            texts = {name: fields.get(name) for name in fields if name not in _UNREDACTED}
            removals = self._redactor.redact_fields(texts)[1]
            _count(self.found.head, removals)
            self._removes_old_metadata = self._removes_old_metadata or bool(removals)

    # -- the cold segment

    def check_cold_segment(self) -> bool:
        """Whether the cold segment has something to redact."""
        segment = ColdSegment(self._disk, cold_path(self._session))
        touched: dict[str, dict[str, int]] = {}
        for found in segment.entries():
            entry = decode_cold_entry(found, self._session.store.layout.name)
            removals = self._cleaned(entry)[1] if entry is not None else []
            if removals:
                _count(touched.setdefault(found.row.id, {}), removals)
        for id, counts in touched.items():
            _add(self.found.memories.setdefault(id, {}), counts)
        self.found.pending += [str(problem) for problem in segment.problems]
        return bool(touched)

    def cleaned_cold(self, found: ColdMatch) -> bytes:
        """The bytes of a cold entry without secrets, in its own layout."""
        own = self._session.store.layout.name
        entry = decode_cold_entry(found, own)
        if entry is None:
            return found.data
        new, removals = self._cleaned(entry)
        if not removals:
            return found.data
        name = found.row.about.get("layout", own)
        layout = layout_named(name if name in NAMES else own)
        return layout.codec_of(found.row.file).encode(layout.field_names.encode(new, self._session.session))


def _count(kinds: dict[str, int], removals: Iterable[RedactedSpan]) -> None:
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1


def _add(kinds: dict[str, int], counts: dict[str, int]) -> None:
    for kind, number in counts.items():
        kinds[kind] = kinds.get(kind, 0) + number
