"""The edits of a session's files that carry out plans: purge, compaction, restoring, and the session's part of an erasure.

Guarantees: those of `store.rewrite`: all files of the session change together, also its cold segment and quarantine.
Dropping removes all entries of a memory: history, deletions, copies. Erasure also removes damaged fragments of the text, and
sentences that summaries made by SMP quote.

Erased text is scanned for by its pieces. A *piece* is a part of the text that every codec writes unchanged: letters, digits, blanks
and a few signs on one line. Fields whose values many memories share (author, tags, status) give no pieces. A scan reads every file below
a folder, whatever its name; compressed content (gzip, also tar.gz and cold segments) is decompressed and also scanned raw. Files that
cannot be read or decompressed are reported.
Non-guarantees: a summary that another program's summariser paraphrased is not recognised; it is named in the answer, because it
covers the memory. Text in another encoding (base64, encrypted, one word per line) is not found by a scan.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.files.layouts.layout import OVERVIEW_FILES, OVERVIEWS, QUARANTINE
from smp_memory.model.history import COLD, IdAllocator, PausedCollection
from smp_memory.model.rewrite_plan import RewriteReport
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.overview.extractive_summary import AUTHOR, covers, without_quotes
from smp_memory.store.cold_storage import ColdContents, edit_for_move, edit_for_restoration
from smp_memory.store.rewrite import SessionEdit, entries_of, private_name, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.files.disk import Disk
    from smp_memory.files.file_state import FileState
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.rewrite_plan import RewritePlan
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.rewrite import Rewritten

_STRETCH = re.compile(r"[^\W_][\w .,;/@+-]{6,}[^\W_]")
_SHARED = frozenset(  # fields whose values many memories have
    [
        "access",
        "agent",
        "agents",
        "approved_by",
        "author",
        "author_kind",
        "category",
        "confidence",
        "created",
        "impact",
        "idempotency_key",
        "importance",
        "key",
        "kind",
        "project",
        "reason",
        "references",
        "relations",
        "resolved_at",
        "resolved_by",
        "role",
        "session",
        "severity",
        "status",
        "tags",
        "topic",
        "type",
        "user",
        "valid_from",
        "valid_until",
    ]
)
_MAX_PIECE = 24  # characters: short enough that some pieces of a truncated text are still whole
_MAX_PIECES = 12
# Id and name of a part of a large message. They are no text of it: logs name the part, and other messages have parts of the same name.
_PART = re.compile(r"part-[0-9a-f]{32}|part \d+ of \d+ of a message")
_WINDOW, _WINDOWED = 14, 20_000  # bytes of a window; characters of a text that windows are taken from
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
LIMIT_BYTES = 1 << 30  # of decompressed content in one file


class ScanResult(NamedTuple):
    """What was scanned, and where a piece was found."""

    files: int
    bytes: int
    found: list[str]  # paths
    unreadable: list[str]

    def with_(self, other: ScanResult) -> ScanResult:
        return ScanResult(
            self.files + other.files,
            self.bytes + other.bytes,
            self.found + other.found,
            self.unreadable + other.unreadable,
        )


def pieces_of(values: Iterable[Any]) -> list[bytes]:
    """Pieces by which the texts of these fields can be recognised, longest first; empty if they are too short."""
    found: dict[str, None] = {}
    for value in values:
        for text in _texts(value):
            for stretch in _STRETCH.findall(text):
                for piece in (stretch[:_MAX_PIECE], stretch[-_MAX_PIECE:]):
                    found[piece.strip()] = None
    longest = sorted(found, key=len, reverse=True)
    return [piece.encode("utf-8", "replace") for piece in longest[:_MAX_PIECES] if len(piece) >= 8]


def phrases_of(data: bytes) -> list[str]:
    """Phrases of several words in bytes that cannot be read as an entry; single words may be names of fields."""
    return [each for each in _STRETCH.findall(data.decode("utf-8", "replace")) if " " in each]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not _PART.fullmatch(value):
            yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _SHARED:
                yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)


class RemnantMatcher:
    """Recognises torn or damaged remnants of memories by their id or a short part of their text."""

    def __init__(self, ids: Iterable[str], values: Iterable[Any]) -> None:
        names = b"|".join(re.escape(name.encode()) for name in ids)
        self._id = re.compile(rb'(?:"id": ?"|\bid: "?|\*\*Id:\*\* |<!-- end )(?:' + names + rb")(?![0-9A-Za-z_.-])")
        self._windows: set[bytes] = set()
        for value in values:
            for text in _texts(value):
                for stretch in _STRETCH.findall(text[:_WINDOWED]):
                    data = stretch.encode("utf-8", "replace")
                    self._windows |= {data[at : at + _WINDOW] for at in range(0, max(len(data) - _WINDOW, 0) + 1, 4)}

    def matches(self, data: bytes) -> bool:
        return self._id.search(data) is not None or any(window in data for window in self._windows)


def contains_any(data: bytes, pieces: list[bytes]) -> bool:
    return any(piece in data for piece in pieces)


def scan_folder(disk: Disk, folder: str, pieces: list[bytes]) -> ScanResult:
    """Scan every file below a folder."""
    return scan_files(disk, _files_below(disk, folder), pieces)


def scan_files(disk: Disk, paths: Iterable[str], pieces: list[bytes]) -> ScanResult:
    """Scan these files."""
    files, size = 0, 0
    found: list[str] = []
    unreadable: list[str] = []
    for path in paths:
        try:
            data = disk.read(path)
            files += 1
            size += len(data)
            packed = data.startswith(_GZIP) or ".gz" in os.path.basename(path)
            if contains_any(data, pieces) or (packed and _is_inside(data, pieces)):
                found.append(path)
        except FileNotFoundError:
            continue  # replaced by another process meanwhile; the new file holds only current content
        except (OSError, SMPError, zlib.error):
            unreadable.append(path)
    return ScanResult(files, size, found, unreadable)


def _files_below(disk: Disk, folder: str) -> Iterator[str]:
    for name in disk.names(folder):
        path = os.path.join(folder, name)
        if disk.is_folder(path):
            yield from _files_below(disk, path)
        else:
            yield path


def _is_inside(data: bytes, pieces: list[bytes]) -> bool:
    """Whether a compressed file of one or several gzip members contains a piece."""
    longest = max(map(len, pieces), default=1)
    start, done = data.find(_GZIP), 0
    while start >= 0:
        machine = zlib.decompressobj(31)
        before, rest = b"", data[start:]
        try:
            while rest and not machine.eof:
                part = machine.decompress(rest, _CHUNK)
                rest = machine.unconsumed_tail
                if contains_any(before + part, pieces):
                    return True
                before = part[-longest:]
                done += len(part)
                if done > LIMIT_BYTES:
                    raise zlib.error("too large to be scanned")
                if not part and not rest:
                    break
            start = len(data) - len(machine.unused_data) if machine.eof else -1
            start = data.find(_GZIP, start) if start >= 0 else -1
        except zlib.error:
            if done > LIMIT_BYTES:
                raise
            start = data.find(_GZIP, start + 1)  # not a member, or a damaged one
    return False


def processes_with_removed_files(*folders: str) -> list[int]:
    """Processes that still have a removed file below these folders open (Linux; elsewhere empty)."""
    found = set()
    below = tuple(folder + os.sep for folder in folders)
    own = os.getpid()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == own:
            continue
        try:
            for each in os.listdir(f"/proc/{name}/fd"):
                target = os.readlink(f"/proc/{name}/fd/{each}")
                if target.endswith(" (deleted)") and target.startswith(below):
                    found.add(int(name))
        except OSError:
            continue  # of another user, or ended
    return sorted(found)


def carry_out(session: FileSession, plan: RewritePlan) -> RewriteReport:
    """Carry out a plan of the port."""
    report = RewriteReport()

    def edit(reader: SessionReader) -> SessionEdit:
        nonlocal report
        found = SessionEdit()
        dropped = _still_deleted(reader, plan)
        if dropped:
            drop(session, reader, dropped, found)
        moved, earlier = edit_for_move(session, reader, plan, found) if plan.to_cold else ([], [])
        if plan.from_cold:
            edit_for_restoration(session, reader, plan, found)
        added: list[Entry] = []
        if plan.added is not None and found:
            numbers = IdAllocator(session.writer.seq, session.writer.numbers, reader.session_history)
            added = plan.added(numbers, set(moved))
            found.added += added
        report = RewriteReport(dropped, moved, earlier, [entry.id for entry in added])
        return found

    before = sum(session.sizes().values())
    rewrite(session, plan.operation, edit)
    if report.dropped:
        session.write_deletion_record()
    freed = before - sum(session.sizes().values())
    return report._replace(freed_bytes=freed, cold_bytes=sum(session.sizes(COLD).values()))


def _still_deleted(reader: SessionReader, plan: RewritePlan) -> list[str]:
    histories = reader.session_history.histories
    found = ((id, at, histories[id].deletion) for id, at in plan.drop.items() if id in histories)
    return [id for id, at, deletion in found if deletion is not None and deletion.at == at]


def drop(
    session: FileSession,
    reader: SessionReader,
    ids: list[str],
    edit: SessionEdit,
    remnants: RemnantMatcher | None = None,
) -> None:
    """Remove all entries of these memories from the session's files and its cold segment."""
    edit.destroys = True
    for entry in entries_of(reader, ids):
        edit.remove(entry)
    cold = ColdContents(session, ids)
    matches = remnants.matches if remnants is not None else lambda line: False
    left = cold.without(set(ids), is_remnant=matches)
    if (left or b"") != cold.segment.data:
        edit.files[reader.layout.cold_file(reader.session)] = left


# -- erasure


class ErasedEntries(NamedTuple):
    """The result of an erasure in one session."""

    rewritten: Rewritten
    pieces: set[bytes]  # of the erased text, to scan for
    summaries: list[str]  # ids of summaries that lost sentences


def check_memories_exist(session: FileSession, ids: list[str]) -> None:
    """Raise MemoryNotFound for an id that is neither in the session's files nor in its cold segment nor in quarantine."""
    with PausedCollection():
        found = session.history()
    left = {name for name in ids if name not in found.histories and name not in found.orphans}
    if left:
        cold = ColdContents(session, left)
        left -= {*cold.memories, *cold.histories}
        left -= {name for name in left if _quarantined(session.reader, RemnantMatcher([name], []))}
    if left:
        raise memory_not_found(session, min(left))


def erase_in(session: FileSession, ids: list[str]) -> ErasedEntries:
    """Erase memories from one session."""
    found: list[_Erasure] = []

    def edit(reader: SessionReader) -> SessionEdit:
        found[:] = [_Erasure(session, reader, ids)]
        return found[0].edit()

    done = rewrite(session, "erasing", edit)
    return ErasedEntries(done, set(found[0].pieces), found[0].summaries)


class _Erasure:
    """The edit that erases these memories."""

    def __init__(self, session: FileSession, reader: SessionReader, ids: list[str]) -> None:
        self._session = session
        self._reader = reader
        self._disk = reader.disk
        self._ids = ids
        self.summaries: list[str] = []
        values: list[Any] = [entry.data for entry in entries_of(reader, ids)]
        values += [entry.data for entry in ColdContents(session, ids).entries_of(set(ids))]
        for data in _quarantined(reader, RemnantMatcher(ids, [])).values():  # unreadable, except for the id
            values += phrases_of(data)
        self.pieces = pieces_of(values)
        self._remnants = RemnantMatcher(ids, values)

    def edit(self) -> SessionEdit:
        reader, edit = self._reader, SessionEdit()
        drop(self._session, reader, self._ids, edit, self._remnants)
        for name, state in reader.states.items():
            edit.cuts.update(self._unreadable(name, state))
        for name in _quarantined(reader, self._remnants):
            edit.files[private_name(reader, os.path.join(QUARANTINE, name))] = None
        for name in OVERVIEW_FILES if reader.layout.info_file else ():
            edit.files[f"{OVERVIEWS}/{name}"] = None
        self._clean_summaries(edit)
        return edit

    def _clean_summaries(self, edit: SessionEdit) -> None:
        """Remove quotes from the summaries of turns that compaction made."""
        for name, history in self._reader.session_history.histories.items():
            is_automatic = (
                history.first.type == "summary" and history.first.data.get("author") == AUTHOR and name not in self._ids
            )
            if not is_automatic or not any(covers(history.data().get("covers"), id) for id in self._ids):
                continue
            self.summaries.append(name)
            for entry in history.entries:
                text = entry.data.get("summary")
                left = without_quotes(text, self._is_quoted) if isinstance(text, str) else text
                if left != text:
                    twin = entry.copy()
                    twin.data = {**entry.data, "summary": left}
                    edit.replace(entry, twin)

    def _is_quoted(self, sentence: str) -> bool:
        return self._remnants.matches(sentence.encode("utf-8", "replace"))

    def _unreadable(self, name: str, state: FileState) -> Iterable[tuple[str, int, int]]:
        """Byte ranges of a file that cannot be read as entries and contain the text."""
        if not any(problem.code in ("damaged", "invalid") for problem in state.problems):
            return
        path = os.path.join(self._reader.folder, name)
        data = self._disk.read(path)
        entries = {entry.place[0] for entry in state.entries}
        for piece in self._reader.layout.codec_of(name).decode(data):
            if piece.start not in entries and self._remnants.matches(data[piece.start : piece.end]):
                yield path, piece.start, piece.end


def _quarantined(reader: SessionReader, remnants: RemnantMatcher) -> dict[str, bytes]:
    """The files in quarantine that contain remnants of a memory, by name."""
    folder = os.path.join(reader.private, QUARANTINE)
    contents = {name: reader.disk.read(os.path.join(folder, name)) for name in reader.disk.names(folder)}
    return {name: data for name, data in contents.items() if remnants.matches(data)}
