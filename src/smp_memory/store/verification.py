"""Validate and repair the files of a session.

`validate` reads all files anew, checks every signature, id and reference, and changes nothing. `repair` rewrites the
files that need it, all of them together: edits are signed again, merge markers and identical copies are removed, and
what cannot be read is moved to quarantine, byte for byte. Nothing is thrown away.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from smp_memory.config.settings import setting_advice
from smp_memory.errors import InvalidRecord, SessionCorrupt
from smp_memory.files.codec import CONFLICT, EDITED, NOT_KNOWN, SIGNED, TORN, Piece
from smp_memory.files.entry_fields import decode_entries
from smp_memory.files.journal import MISSING
from smp_memory.files.layouts import unread_sessions
from smp_memory.files.layouts.layout import PRIVATE, QUARANTINE
from smp_memory.files.reader import SessionReader
from smp_memory.files.reconciliation import ConcurrentFileChange
from smp_memory.model.content_checks import content_problems
from smp_memory.model.entry import PUT
from smp_memory.model.history import overlaid_problems
from smp_memory.model.reports import Problem, Report
from smp_memory.model.session_info import SessionInfo
from smp_memory.observe import telemetry
from smp_memory.privacy.settings import session_settings
from smp_memory.store.archive import archive_problems
from smp_memory.store.cold_storage import cold_segment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.files.codec import Stored
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.port import FileEdit

_PASSES = 8
_TRIES = 2


def validate(session: FileSession, reader: SessionReader | None = None) -> Report:
    """Read everything and report problems; `reader` is one that has just read the session."""
    store = session.store
    reader = reader or SessionReader(store.disk, store.layout, store.root, session.session)
    stored_until = reader.read_writer_state().seq  # first, because a writer may be active
    session_history = reader.catch_up()
    problems = _without_unfinished(reader)
    for name, state in reader.states.items():
        found = store.disk.stat(os.path.join(reader.folder, name))
        if found is not None and found.st_size > state.end:
            message = (
                f"{found.st_size - state.end} bytes of an unfinished write; the next write moves them to quarantine."
            )
            problems.append(Problem(os.path.join(reader.folder, name), state.line, "torn", message, "warning"))
    is_behind = session_history.seq < stored_until
    if is_behind and all(problem.code != "torn" for problem in problems):  # else the torn end is what is missing
        problems += _missing_problems(reader, max(session_history.seq, _seq_in_metadata(session)), stored_until)
    segment = cold_segment_of(session)
    problems += [each for history in session_history.histories.values() for each in overlaid_problems(history)]
    problems += content_problems(session_history, {each.entry.id for each in segment.entries()})
    problems += segment.problems
    problems += _quarantine_problems(session)
    problems += _metadata_problems(reader)
    unread = unread_sessions(store.disk, store.root, store.layout, session.session)
    problems += [each.problem(store.layout.name) for each in unread]
    problems += _metadata_conflict(session)
    problems += archive_problems(session)
    try:
        wrong = session_settings(store.config, session.info()).own.invalid
        problems += [
            Problem(session.info_path(), 0, "settings", f"{each.message} {setting_advice(each)}") for each in wrong
        ]
    except SessionCorrupt as error:
        problems.append(Problem(str(error.details.get("path", "")), 0, "head", error.message))
    problems.sort(key=lambda problem: (problem.path, problem.line))
    damaged = [problem for problem in problems if problem.severity == "error"]
    if damaged:
        text = f"Session {session.session}: {len(damaged):,} places cannot be read; `smp validate` lists them."
        codes = sorted({problem.code for problem in damaged})
        telemetry.emit(
            "corruption", telemetry.ERROR, "damage_found", text, session.session, places=len(damaged), codes=codes
        )
    return Report(problems, len(session_history.histories))


def _seq_in_metadata(session: FileSession) -> int:
    try:
        return session.info().seq
    except SessionCorrupt:
        return 0


def _missing_problems(reader: SessionReader, seq: int, stored_until: int) -> list[Problem]:
    """Entries that were stored and are in no file. Known until the next write, which replaces the record of them."""
    if seq >= stored_until:
        return []
    message = (
        f"Entries up to number {stored_until} were stored, the files hold them up to number {seq}: another program "
        "(git, a restored backup) removed some, or the disk lost them."
    )
    return [Problem(reader.folder, 0, "missing_entries", message, "warning")]


def _without_unfinished(reader: SessionReader) -> list[Problem]:
    """The reader's problems without those of a committed plan, which the next write finishes."""
    problems = reader.problems()
    plan = reader.journal.load()
    if reader.journal.is_rejected:
        message = "this plan was not written by SMP, so it is not carried out; the next write moves it to quarantine."
        problems.append(Problem(reader.journal.path, 0, "rejected_plan", message, "warning"))
    for name, offset, _ in plan.appends if plan is not None else ():
        path = os.path.join(reader.folder, name)
        line = reader.disk.read(path, 0, offset).count(b"\n") + 1 if reader.disk.exists(path) else 1
        left = [problem for problem in problems if problem.path != path or problem.line < line]
        if left != problems:
            message = "a transaction was committed and not yet finished here; the next write does that."
            left.append(Problem(path, line, "unfinished", message, "warning"))
        problems = left
    return problems


def _metadata_conflict(session: FileSession) -> list[Problem]:
    found = session.metadata_conflict()
    return (
        [] if found is None else [Problem(session.info_path(), found.line, "head_conflict", found.message(), "warning")]
    )


def _metadata_problems(reader: SessionReader) -> list[Problem]:
    """A log with the metadata of two clones that created sessions of one name."""
    for name, state in reader.states.items():
        engines = [head.get("smp") for head in state.metadata_lines]
        if len({engine.get("uid") for engine in engines if isinstance(engine, dict) and engine.get("uid")}) > 1:
            message = f"two clones made a session {reader.session}; its memories are united, and the last metadata is in force."
            return [Problem(os.path.join(reader.folder, name), 0, "united_session", message, "note")]
    return []


def _quarantine_problems(session: FileSession) -> list[Problem]:
    folder = os.path.join(session.reader.private, QUARANTINE)
    return [_quarantine_problem(os.path.join(folder, name)) for name in session.store.disk.names(folder)]


def _quarantine_problem(path: str) -> Problem:
    if MISSING in os.path.basename(path):
        message = (
            "entries that were stored and that another program (git, an editor, a restored backup) removed from the file; "
            "`smp quarantine` shows and restores them; delete this file when you do not need it."
        )
        return Problem(path, 0, "missing_after_change", message, "warning")
    message = "quarantined after a crash or a repair. `smp quarantine` shows and restores it; delete it when you do not need it."
    return Problem(path, 0, "quarantine", message, "note")


def repair(session: FileSession) -> Report:
    """Repair what can be repaired, quarantine the rest, and report what was done."""
    session.writer.completed.clear()
    doubled = {name: put.id for name, put in session.history().names.unsettled.items()}
    actions: list[str] = session.run_locked("repairing", lambda: _settled(session, _Repair.run))
    actions = [f"{id} was allocated twice; the later memory is {name} now" for name, id in doubled.items()] + actions
    actions = session.writer.completed + actions
    report = validate(session)
    return Report(report.problems, report.checked, actions)


def stored_files(session: FileSession) -> Iterator[tuple[str, bytes, Layout]]:
    """Name and bytes of each file with entries or metadata, and the layout."""
    disk, layout, folder = session.store.disk, session.store.layout, session.reader.folder
    for name in dict.fromkeys([*layout.files(disk, folder, session.session), *filter(None, [layout.info_file])]):
        if name != layout.info_file or disk.exists(os.path.join(folder, name)):
            yield name, disk.read(os.path.join(folder, name)), layout


def edit_files(session: FileSession, edit: FileEdit) -> list[str]:
    """Rewrite files of a session as `edit` says, and report what was quarantined."""
    actions: list[str] = session.run_locked("editing", lambda: _settled(session, lambda each: each.edit(edit)))
    return actions


def _settled(session: FileSession, change: Callable[[_Repair], list[str]]) -> list[str]:
    for _ in range(_TRIES):
        try:
            return change(_Repair(session))
        except ConcurrentFileChange:
            session.writer.reconcile()
    return change(_Repair(session))


class _Repair:
    """One repair, under the lock, of settled files."""

    def __init__(self, session: FileSession) -> None:
        self._session = session
        self._store = session.store
        self._layout = session.store.layout
        self._reader = session.reader
        self._session_history = session.reader.session_history
        self._actions: list[str] = []
        self._quarantined: list[tuple[str, bytes]] = []

    def run(self) -> list[str]:
        info = self._readable_info()
        contents: dict[str, bytes | None] = {}
        for name in self._layout.files(self._store.disk, self._reader.folder, self._session.session):
            old = self._store.disk.read(os.path.join(self._reader.folder, name))
            new = self._repaired(name, old)
            if new != old:
                contents[name] = new
        if contents or self._actions:
            info.incomplete = []
            self._add_info(contents, info)
            self._rewrite(contents)
        return self._actions

    def edit(self, edit: FileEdit) -> list[str]:
        """Rewrite the files that `edit` changes; what it drops is quarantined, and `validate` does not miss it."""
        contents: dict[str, bytes | None] = {}
        for name, old, layout in stored_files(self._session):
            new, dropped = edit(name, old, layout)
            self._quarantined += [(name, each) for each in dropped]
            if new != old:
                contents[name] = new
        if contents and self._session.metadata_conflict() is None:
            try:
                self._add_info(contents, self._session.info())
            except SessionCorrupt:
                pass  # `repair` writes it anew
        if contents:
            self._rewrite(contents)
        return self._actions

    def _rewrite(self, contents: dict[str, bytes | None]) -> None:
        copies = self._write_quarantine()
        try:
            self._session.writer.rewrite(contents)
        except ConcurrentFileChange:
            for path in copies:
                self._store.disk.remove(path)
            raise
        self._session.writer.reconcile()

    def _add_info(self, contents: dict[str, bytes | None], info: SessionInfo) -> None:
        """Write the metadata anew, with the counters of what the files held."""
        info.generation += 1
        info.seq = max(info.seq, self._session_history.seq)
        info.numbers = {**info.numbers, **self._session_history.numbers}
        data = self._layout.encode_info(info)
        if self._layout.info_file:
            contents[self._layout.info_file] = data
            return
        name = f"{self._session.session}.jsonl"
        body = contents.get(name)
        if body is None:
            body = self._store.disk.read(os.path.join(self._reader.folder, name))
        contents[name] = body + (b"" if body.endswith(b"\n") or not body else b"\n") + data

    def _readable_info(self) -> SessionInfo:
        try:
            info, conflict = self._session.info(), self._session.metadata_conflict()
            if conflict is not None:
                path = self._session.info_path()
                sides = self._store.disk.read(path) if self._layout.info_file else conflict.both_sides()
                self._quarantined.append((self._layout.info_file or "metadata.json", sides))
                self._actions.append(
                    f"{path}:{conflict.line}: the merge conflict in the metadata is resolved: {conflict.resolution()}"
                )
            return info
        except SessionCorrupt as error:
            path = str(error.details["path"])
            if self._layout.info_file:
                self._quarantined.append((self._layout.info_file, self._store.disk.read(path)))
            created = min(
                (history.first.at for history in self._session_history.histories.values()),
                default="1970-01-01T00:00:00Z",
            )
            self._actions.append(
                f"{path}: could not be read; quarantined and written anew. Project, users and tags are lost from it."
            )
            return SessionInfo(self._session.session, created)

    def _repaired(self, name: str, old: bytes) -> bytes:
        data = old.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
        if data != old:
            self._act(name, 1, "byte order mark or CRLF line ends removed")
        data = self._with_pieces(name, data, self._piece, self._reader.stored(name))
        for _ in range(_PASSES):  # a removal may change how its neighbours are read
            before, data = data, self._with_pieces(name, data.replace(b"\r\n", b"\n"), self._readable)
            if data == before:
                break
        return data

    def _with_pieces(
        self, name: str, data: bytes, replaced: Callable[[str, Piece, bytes], bytes], stored: Stored = NOT_KNOWN
    ) -> bytes:
        """The file with each of its pieces replaced; `stored` as in `Codec.decode`."""
        joined = bytearray()
        position = 0
        for piece in self._layout.codec_of(name).decode(data, stored=stored):
            joined += data[position : piece.start]
            new = replaced(name, piece, data[piece.start : piece.end])
            if not new and joined and not joined.endswith(b"\n"):
                joined += b"\n"
            has_line_end = not data.endswith(b"\n", 0, piece.end) and data.startswith(b"\n", piece.end)
            joined += new.removesuffix(b"\n") if has_line_end else new
            position = piece.end
        joined += data[position:]
        return bytes(joined if joined.endswith(b"\n") or not joined else joined + b"\n")

    def _readable(self, name: str, piece: Piece, data: bytes) -> bytes:
        if piece.fields is None and piece.state != CONFLICT:
            return self._quarantine(name, piece, data, piece.message)
        return data

    def _piece(self, name: str, piece: Piece, data: bytes) -> bytes:
        """The bytes that replace a piece."""
        if piece.state == CONFLICT:
            self._act(name, piece.line, "merge marker removed; the entries of both sides stay")
            return b""
        if piece.fields is None or piece.state == TORN:
            return self._quarantine(name, piece, data, piece.message)
        if piece.fields.get("type") == "session" and not self._layout.info_file:
            return data
        problems = {problem.code: problem for problem in self._problems_at(name, piece.line)}
        if "invalid" in problems:
            return self._quarantine(name, piece, data, problems["invalid"].message)
        if "incomplete_transaction" in problems:
            self._quarantined.append((name, data))
            self._act(name, piece.line, f"{piece.fields.get('id')} of an incomplete transaction quarantined")
            return b""
        try:
            entries = self._entries(name, piece)
        except InvalidRecord:
            return data  # an item of design 003 that relates two memories
        if len(entries) > 1:
            return self._folded(name, piece, entries, problems, data)
        if "duplicate_entry" in problems:
            self._act(name, piece.line, "an identical copy of another entry removed")
            return b""
        if piece.state == EDITED:
            self._act(name, piece.line, f"{piece.fields.get('id')} was edited by hand; signed again as it is")
            entry = self._entry(name, piece)
            if entry.op != PUT:  # a change or a deletion cannot hold unknown fields
                self._quarantined.append((name, data))
            return self._encoded(name, piece, entry)
        return data

    def _folded(
        self, name: str, piece: Piece, entries: list[Entry], problems: dict[str, Problem], data: bytes
    ) -> bytes:
        """An entry with its folded changes. `tidy` removes copies of changes that are in another entry as well."""
        if "edited" not in problems:
            return data
        self._act(name, piece.line, f"{entries[0].id} was edited by hand; signed again as it is")
        if piece.state == EDITED:
            self._quarantined.append((name, data))
        for entry in entries:
            entry.state, entry.schema = SIGNED, entry.schema or 1
        return self._layout.encode_all(entries, self._session.session)

    def _entries(self, name: str, piece: Piece) -> list[Entry]:
        fields, kind = piece.fields or {}, self._layout.kind_of(name)
        return decode_entries(self._layout.field_names, fields, kind, piece.state, name, piece.line, 0)

    def _problems_at(self, name: str, line: int) -> list[Problem]:
        path = os.path.join(self._reader.folder, name)
        return [problem for problem in self._reader.problems() if problem.path == path and problem.line == line]

    def _entry(self, name: str, piece: Piece) -> Entry:
        return self._layout.field_names.decode(
            piece.fields or {}, self._layout.kind_of(name), piece.state, name, piece.line, 0
        )

    def _encoded(self, name: str, piece: Piece, entry: Entry) -> bytes:
        if entry.op == PUT and not entry.schema:
            entry.schema = 1
        fields = self._layout.field_names.encode(entry, self._session.session)
        if type((piece.fields or {}).get("seq")) is not int:
            fields.pop("seq")  # it is numbered by its position in the file
        return self._layout.codec_of(name).encode(fields)

    def _quarantine(self, name: str, piece: Piece, data: bytes, reason: str) -> bytes:
        if not data.strip(b" \t\r\n"):
            return data
        self._quarantined.append((name, data))
        self._act(name, piece.line, f"could not be read ({reason}); quarantined")
        return b""

    def _write_quarantine(self) -> list[str]:
        """Write the quarantined bytes; returns the paths of the copies."""
        if not self._quarantined:
            return []
        disk = self._store.disk
        folder = os.path.join(self._reader.private, QUARANTINE)
        disk.make_folder(folder, within=self._reader.private)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        copies: list[str] = []
        for number, (name, data) in enumerate(self._quarantined, 1):
            flat = name.replace("/", "_")
            copies.append(os.path.join(folder, f"{flat}.repair.{stamp}.{os.urandom(3).hex()}.{number}"))
            disk.write_new(copies[-1], data)
        disk.sync_folder(folder)
        pieces = "1 piece" if len(self._quarantined) == 1 else f"{len(self._quarantined)} pieces"
        self._actions.append(f"{pieces} moved to {os.path.join(PRIVATE, QUARANTINE)}")
        return copies

    def _act(self, name: str, line: int, what: str) -> None:
        self._actions.append(f"{os.path.join(self._reader.folder, name)}:{line}: {what}")
