"""Erase memories from every file that SMP owns, and verify that their text is gone; redact what is stored of a session.

    under the store's lock        each session: its files in one plan (`store.session_edits`), also archived and deleted
                                  ones, which stay so (`store.inactive_sessions`)
    then, each repeatable         derived data: the index (`index.inspection`), the access log, reasons in the audit log
    then                          digests outside of the store that SMP wrote are written again
    then                          every file is scanned for pieces of the text (`store.session_edits`)

Guarantees: each session is erased from completely or not at all. `erasing.json`, which holds ids alone, is written first: if the
process dies, the next one that opens the store completes the rest and writes to the audit log what is gone. Other
memories stay as they are; those that contain the same text are reported, not changed, and relations to an erased memory
stay as ids. Summaries that SMP made of it lose what they quote.
A redaction is one rewrite of all files of a session: `[REDACTED:kind]` replaces a secret; ids, numbers, times, authors and every other field
stay. Metadata, cold segment, quarantine and overviews change together with the entries; the whole index is removed. A preview changes
nothing. Reports hold ids, kinds and counts, never content.
Non-guarantees: see `model.deletions.BEYOND_REACH`. A redaction does not open archived and deleted sessions, nor check bytes that cannot be read
as an entry; both are reported.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, MemoryNotFound, SMPError
from smp_memory.files.cold_segment import ColdEntry, decode_line, encode_line
from smp_memory.files.disk import Disk
from smp_memory.files.layouts.layout import ARCHIVE_FOLDERS, COLD_FILE, OVERVIEW_FILES, OVERVIEWS, QUARANTINE
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import ERASING
from smp_memory.index.inspection import erase_from_index
from smp_memory.model import told_log
from smp_memory.model.deletions import PurgeNotes
from smp_memory.model.entry import Entry
from smp_memory.model.ids import check
from smp_memory.model.rewrite_plan import RewriteReport
from smp_memory.model.session_info import DELETED
from smp_memory.model.storage_reports import RedactionReport
from smp_memory.observe import telemetry
from smp_memory.privacy.audit import AuditFile
from smp_memory.store import inactive_sessions, session_edits
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.cold_storage import cold_segment_of
from smp_memory.store.rewrite import SessionEdit, private_name, rewrite
from smp_memory.store.session_edits import contains_any, processes_with_removed_files, scan_files, scan_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from smp_memory.files.reader import SessionReader
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.rewrite_plan import RewritePlan
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore

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


INDEX = "index"


def erase(
    store: FileStore,
    targets: dict[str, list[str]],
    receipt: Receipt,
    note: Callable[[], object],
    renew: Callable[[], tuple[list[str], list[str]]],
) -> None:
    """Erase memories (ids by session) and fill in the receipt; `note` writes it into the audit log.

    `renew` rewrites digests; it returns the paths of existing ones, and failures.
    """
    pieces: set[bytes] = set()
    archives = ArchiveIndex(store)
    for session, ids in targets.items():
        session_edits.check_memories_exist(_files_of(archives, session), ids)
    if receipt.preview:
        return
    with archives.locked_root("erasing"):
        intend(store, targets)
        try:
            for session, ids in targets.items():
                archives.recover(session)
                if not archives.is_live(session):
                    intend(store, targets, session)
                pieces |= _erase_in(archives, session, ids, receipt)
                store.mark_changed(session)
        finally:
            clean = _clean_up(store, targets, receipt)
        digests, failed = renew()
        receipt.pending += failed
        verify(store, sorted(pieces, key=len, reverse=True), receipt, digests)
        note()
        if clean:  # not before the audit record: after a crash, the next process must be able to write it
            try:
                store.state.remove(ERASING)
            except OSError as error:
                receipt.pending.append(f"{ERASING} is removed when the store is next opened ({error})")


def _erase_in(archives: ArchiveIndex, session: str, ids: list[str], receipt: Receipt) -> set[bytes]:
    """Erase memories from one live, archived or deleted session; returns the pieces of text to scan for."""
    store = archives.store
    if archives.is_live(session):
        files = store.session(session)
        erased = session_edits.erase_in(files, ids)
        paths = [os.path.normpath(os.path.join(files.reader.folder, name)) for name in erased.rewritten.names]
    else:
        erased, paths = inactive_sessions.erase_in_archive(archives, session, ids)
    for path in paths:
        (receipt.rewritten if store.disk.exists(path) else receipt.removed).append(_display_path(store, path))
    receipt.summaries += [f"{session}/{name}" for name in erased.summaries]
    receipt.bytes_before += erased.rewritten.bytes_before
    receipt.bytes_after += erased.rewritten.bytes_after
    return erased.pieces


def _files_of(archives: ArchiveIndex, session: str) -> FileSession:
    if archives.is_live(session):
        return archives.store.session(session)
    return inactive_sessions.copy_of(archives, session).files


# -- derived data


def _clean_up(store: FileStore, targets: dict[str, list[str]], receipt: Receipt) -> bool:
    """Erase from derived data; False if that failed and is left to the next process that opens the store."""
    try:
        store.access.flush()
        store.state.forget_removed_stores()  # this one may have been elsewhere before
        changed = clean_index(store, targets)
        left = _purge_derived(store, targets)
        for session, ids in targets.items():
            PurgeNotes(store.state, session).forget(ids)
        (receipt.rewritten if changed == "rewritten" else receipt.removed).extend([INDEX] * bool(changed))
        receipt.pending += left
        return True
    except (OSError, SMPError) as error:
        receipt.pending.append(
            f"the index, the access log and reasons in the audit log are cleaned when the store is next opened ({error})"
        )
        return False


def _purge_derived(store: FileStore, targets: dict[str, list[str]]) -> list[str]:
    """Erase from the access log and the log of what hooks told, and reasons from the audit log, which may quote the memory; returns failures."""
    disk, log = store.state.disk, store.access.path
    told_log.forget(store.state, targets)
    names = {f"{session}/{memory_id}".encode() for session, ids in targets.items() for memory_id in ids}
    if disk.exists(log):
        lines = disk.read(log).splitlines(keepends=True)
        left = [_blank(line) if line.strip().partition(b" ")[2] in names else line for line in lines]
        if left != lines:
            disk.replace(log, b"".join(left))  # of the same length, because the index keeps an offset into it
    if not store.disk.exists(store.audit.path):
        return []
    done = [
        AuditFile(store.disk, os.path.dirname(store.audit.path)).forget_reasons(session, ids)
        for session, ids in targets.items()
    ]
    return [] if all(done) else ["the audit log was changed by another program, so the reasons in it were not removed"]


def _blank(line: bytes) -> bytes:
    return b"-" * (len(line) - 1) + b"\n"


def clean_index(store: FileStore, targets: Mapping[str, list[str] | None]) -> str:
    """Erase memories (ids by session; None: the whole session) from the index, or remove it; returns "rewritten", "removed", or "" if there was none."""
    indexer = store.indexer
    base = indexer.folder
    with indexer.feed.mutex:
        indexer.close()
        return erase_from_index(base, targets) if store.state.on_disk else ""


# -- after a crash


def finish_erasing(store: FileStore) -> bool:
    """Complete an erasure whose process died; False if another process holds the lock or the disk is read-only."""
    archives = ArchiveIndex(store)
    try:
        with archives.locked_root("finishing an erasure", 0.0):
            if was_interrupted(store):
                _finish(archives)
        return True
    except (OSError, SMPError):
        return False  # left to the next process that opens the store


def _finish(archives: ArchiveIndex) -> None:
    store = archives.store
    try:
        stored = json.loads(store.state.read(ERASING))
        begun = str(stored.get("begun", ""))
        targets = {check(str(session), "session"): [str(id) for id in ids] for session, ids in stored["ids"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidRecord):
        targets, begun = {}, ""
    gone: dict[str, list[str]] = {}
    for session, ids in targets.items():
        archives.recover(session)
        if archives.is_live(session):
            store.session(session).run_locked("finishing an erasure", lambda: None)  # carries out its plan
        elif session == begun and (archives.is_archived(session) or archives.deleted(session)):
            inactive_sessions.erase_in_archive(archives, session, ids)
        gone[session] = _gone(archives, session, ids)
    clean_index(store, {})
    _purge_derived(store, targets)
    for session, ids in gone.items():
        if ids:
            store.audit.note("erase", session=session, ids=ids, interrupted=True)
    store.state.remove(ERASING)


def was_interrupted(store: FileStore) -> bool:
    """Whether an erasure of this user began and did not end."""
    return store.state.has(ERASING)


def _gone(archives: ArchiveIndex, session: str, ids: list[str]) -> list[str]:
    """Which of these memories are erased."""
    found = []
    for name in ids:
        try:
            session_edits.check_memories_exist(_files_of(archives, session), [name])
        except MemoryNotFound:
            found.append(name)
    return found


def intend(store: FileStore, targets: dict[str, list[str]], begun: str = "") -> None:
    """Write down what is to be erased; `begun`: the archived or deleted session that changes now, without a plan.

    Where that cannot be written (a home folder that is read-only or full), the erasure has to be repeated if this process dies.
    """
    try:
        store.state.write(ERASING, (json.dumps({"ids": targets, "begun": begun}) + "\n").encode(), durable=True)
    except (OSError, SMPError) as error:
        text = f"The state folder cannot be written ({error}). If this process dies, repeat the erasure."
        telemetry.emit("erasure", telemetry.WARNING, "intent_not_stored", text)


# -- verification


def verify(store: FileStore, pieces: list[bytes], receipt: Receipt, digests: list[str]) -> None:
    """Scan every file below the store and these digests for the text, and add what is left to the receipt."""
    receipt.pieces = len(pieces)
    try:
        _scan(store, pieces, receipt, digests)
    except (OSError, SMPError) as error:
        receipt.pieces = 0
        receipt.pending.append(f"the files could not be scanned ({error})")
    for process in processes_with_removed_files(store.root, store.state.folder) if store.state.on_disk else ():
        receipt.pending.append(
            f"process {process} still has an old file open; it closes it at its next query, or when it ends"
        )


def _scan(store: FileStore, pieces: list[bytes], receipt: Receipt, digests: list[str]) -> None:
    if not pieces:
        receipt.pending.append(
            "The text was too short or too common to scan for; its entries were removed and the files read back."
        )
    else:
        outside = [path for path in digests if not path.startswith(store.root + os.sep)]
        result = scan_folder(store.disk, store.root, pieces)
        if outside:
            result = result.with_(scan_files(Disk(RealSystem()), outside, pieces))
        if store.state.on_disk:
            result = result.with_(scan_folder(store.state.disk, store.state.folder, pieces))
        receipt.searched_files, receipt.searched_bytes = result.files, result.bytes
        holds_memories = _memory_file_filter(store)
        for path in result.found:
            if path == store.state.path(ERASING):
                continue  # it holds ids alone, and is removed after the audit record
            (receipt.elsewhere if holds_memories(path) else receipt.left).append(_display_path(store, path))
        receipt.elsewhere += _memories_with_same_text(store, receipt, pieces)
        receipt.pending += [f"{_display_path(store, path)} could not be scanned" for path in result.unreadable]


def _memory_file_filter(store: FileStore) -> Callable[[str], bool]:
    """A test whether a file holds memories. The erased ones are known to be gone from it, so another memory has the text."""
    live = {
        os.path.join(store.layout.folder(store.root, name), file)
        for name in store.session_ids()
        for file in store.layout.files(store.disk, store.layout.folder(store.root, name), name)
    }
    archived = tuple(os.path.join(store.root, name) + os.sep for name in (*ARCHIVE_FOLDERS, DELETED))
    return lambda path: path in live or path.startswith(archived) or path.endswith(COLD_FILE)


def _memories_with_same_text(store: FileStore, receipt: Receipt, pieces: list[bytes]) -> list[str]:
    """Other memories of the same sessions that contain a piece of the text."""
    found = []
    for session in dict.fromkeys(ref.rpartition("/")[0] for ref in receipt.ids):
        if not store.has_session(session):
            continue  # of an archived or deleted session, the archive or the files are named
        reader = store.session(session).reader
        with reader.mutex:
            reader.catch_up()  # a session that nobody else holds open has read nothing yet
            states = dict(reader.states)
        for name, state in states.items():
            path = os.path.join(reader.folder, name)
            if _display_path(store, path) not in receipt.elsewhere:
                continue
            data = store.disk.read(path)
            ids = {entry.id for entry in state.entries if contains_any(data[entry.place[0] : entry.place[1]], pieces)}
            found += [f"{session}/{memory_id}" for memory_id in sorted(ids)]
    return found


def _display_path(store: FileStore, path: str) -> str:
    if path.startswith(store.state.folder + os.sep) and store.state.on_disk:
        return path  # outside the store
    return os.path.relpath(path, store.root).replace(os.sep, "/")
