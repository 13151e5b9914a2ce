"""Remove or replace entries of a session for good, by rewriting all its files together.

Compaction, purge, erasure, redaction and tidying describe in a `SessionEdit` what is removed and replaced; this module
carries it out under the session's lock.

Guarantees: an edit is done completely or not at all, also when the machine stops at any moment. What the edit does not
name stays byte for byte: headers, comments, people's own text, other entries. Only the mark of a transaction that loses
an entry is removed from its other entries, because readers would wait for it. The new files are read back and compared
before they replace the old ones. No id and no number is ever reused: the session's metadata keeps them.
Reading a large file costs more than writing it, and the bytes between two changes were copied. So each change is read together with the
entries before and after it; an entry far from every change is taken over with its position moved. A file with anything in it that SMP
did not write itself, or whose changed places do not read as expected, is read as a whole.
Non-guarantees: the blocks of the old files are freed, not overwritten. A file with markers of an unfinished merge is
refused, because the ends of its entries are unknown.
"""

from __future__ import annotations

import os
from itertools import groupby
from operator import is_
from typing import TYPE_CHECKING

from smp_memory.errors import SessionCorrupt, StorageCorrupt, StorageError
from smp_memory.files.codec import SIGNED
from smp_memory.files.file_state import FileState
from smp_memory.files.reconciliation import ConcurrentFileChange
from smp_memory.model.history import PausedCollection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.files.codec import Codec
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.file_session import FileSession

_TRIES = 3
_METADATA_MARK = b'"type":"session"'
_MIN_ENTRIES_PER_CHANGE = 4  # with fewer, the whole file is read

Span = tuple[int, int, bytes]  # start, end, replacement
Position = tuple[str, int, int, "int | None"]  # file, first byte, end, index in a folded entry
ByteRange = tuple[str, int, int]  # file, first byte, end


class SessionEdit:
    """Changes of a session's files. Entries are identified by position, so a copy of an entry will do."""

    def __init__(self) -> None:
        self.removed: set[Position] = set()
        self.replaced: dict[Position, Entry] = {}
        self.added: list[Entry] = []  # appended to their files; with free numbers, or those that they had before
        self.folded: dict[Position, list[Entry]] = {}  # entries that replace one entry, as one folded entry
        self.cuts: set[ByteRange] = set()  # further byte ranges to remove: what cannot be read as an entry
        self.files: dict[str, bytes | None] = {}  # further files of the session's folder; None removes one
        self.change_info: Callable[[SessionInfo], None] | None = None
        self.destroys = False  # whether something is removed for good

    def remove(self, entry: Entry) -> None:
        self.removed.add(position_of(entry))

    def replace(self, entry: Entry, new: Entry) -> None:
        """Replace an entry; id, number and file stay those of the old one."""
        self.replaced[position_of(entry)] = new

    def fold(self, entries: list[Entry]) -> None:
        """Fold the entries of one memory into the first of them. Transaction marks are removed."""
        first, *others = entries
        self.folded[position_of(first)] = entries
        for entry in others:
            self.remove(entry)

    def __bool__(self) -> bool:
        is_changed = self.removed or self.replaced or self.added or self.folded or self.cuts or self.files
        return bool(is_changed) or self.change_info is not None


class Rewritten:
    """The result of a rewrite; `names` are relative to the session's folder."""

    __slots__ = ("bytes_after", "bytes_before", "names", "removed", "replaced")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bytes_before = 0
        self.bytes_after = 0
        self.removed = 0
        self.replaced = 0

    def __repr__(self) -> str:
        return f"Rewritten({self.names}, {self.bytes_before} -> {self.bytes_after} bytes, {self.removed} entries less)"


def position_of(entry: Entry) -> Position:
    return (entry.file, *entry.place, entry.part)


def entries_of(reader: SessionReader, ids: Iterable[str]) -> list[Entry]:
    """All entries of these memories, including duplicates and orphaned changes."""
    selected, names = set(ids), reader.session_history.names
    entries = (entry for state in reader.states.values() for entry in state.entries)
    if not names:
        return [entry for entry in entries if entry.id in selected]
    return [entry for entry in entries if names.resolved(entry).id in selected]


def private_name(reader: SessionReader, name: str) -> str:
    """The name of a file of the session's private folder, as used in `SessionEdit.files`."""
    return os.path.relpath(os.path.join(reader.private, name), reader.folder).replace(os.sep, "/")


def rewrite(session: FileSession, operation: str, edit: Callable[[SessionReader], SessionEdit | None]) -> Rewritten:
    """Rewrite a session's files. `edit` is called under the lock with settled files, and may be called again."""
    done: Rewritten = session.run_locked(operation, lambda: rewrite_under_lock(session, edit))
    return done


def rewrite_under_lock(session: FileSession, edit: Callable[[SessionReader], SessionEdit | None]) -> Rewritten:
    """The same for a caller that is inside `FileSession.run_locked`."""
    with PausedCollection():
        return _rewrite(session, edit)


def _rewrite(session: FileSession, edit: Callable[[SessionReader], SessionEdit | None]) -> Rewritten:
    reader = session.reader
    for _ in range(_TRIES):
        with reader.mutex:
            reader.catch_up()
            changes = edit(reader)
            if not changes:
                return Rewritten()
            rewriting = _Rewriting(session, changes)
            contents = rewriting.contents()
        if contents is not None:
            try:
                return rewriting.carry_out(contents)
            except ConcurrentFileChange:
                session.writer.reconcile()  # a person may have typed an entry
    raise StorageError(
        f"{reader.folder}: another program keeps changing the files while SMP rewrites them. Nothing was changed."
    )


class _Rewriting:
    """One edit, under the lock, of settled files."""

    def __init__(self, session: FileSession, edit: SessionEdit) -> None:
        self._session = session
        self._reader = session.reader
        self._layout = session.store.layout
        self._disk = session.store.disk
        self._edit = edit
        self._done = Rewritten()
        self._added: dict[str, list[Entry]] = {}
        for entry in edit.added:
            self._added.setdefault(self._layout.file_of(entry, session.session), []).append(entry)
        self._states: dict[str, FileState] = {}  # of the new files

    def contents(self) -> dict[str, bytes | None] | None:
        """The new files; None if one was changed since it was read."""
        metadata = self._metadata()
        unmarked = self._losing_transactions()
        contents: dict[str, bytes | None] = {}
        for name, state in self._reader.states.items():
            changes = self._changes(name, state, unmarked)
            is_log = not self._layout.info_file  # its metadata is one of its lines
            if not changes and not is_log and name not in self._added:
                continue
            old = self._disk.read(self._path(name))
            found = self._disk.stat(self._path(name))
            if found is None or len(old) != state.end or state.identity[1:3] != [found.st_size, found.st_mtime_ns]:
                return None
            codec = self._layout.codec_of(name)
            spans = [(*codec.span(old, start, end), data) for start, end, data in changes]
            spans += _metadata_spans(codec, old, metadata) if is_log else []
            contents[name] = self._checked(
                name, state, old, without_overlaps([*spans, *self._added_span(name, old)]), unmarked
            )
            self._done.bytes_before += len(old)
            self._done.bytes_after += len(contents[name] or b"")
        for name in self._added.keys() - self._reader.states.keys():
            contents[name] = self._checked(name, FileState(), b"", self._added_span(name, b""), unmarked)
            self._done.bytes_after += len(contents[name] or b"")
        self._add_files(contents)
        self._done.names = list(contents)
        if self._layout.info_file:
            contents[self._layout.info_file] = metadata
        return contents

    def _added_span(self, name: str, data: bytes) -> list[Span]:
        """The bytes appended to a file."""
        added = self._added.get(name)
        if not added:
            return []
        codec = self._layout.codec_of(name)
        start = b"" if data else codec.header(self._layout.title_of(name, self._reader.session))
        line_end = b"" if not data or data.endswith(b"\n") else b"\n"
        parts = [codec.encode(self._layout.field_names.encode(entry, self._reader.session)) for entry in added]
        return [(len(data), len(data), b"".join([start, line_end, *parts]))]

    def _metadata(self) -> bytes:
        """The new metadata, with the numbers that must never be reused."""
        info, writer = self._session.info_for_update(), self._session.writer
        info.generation += 1
        if self._edit.change_info is not None:
            self._edit.change_info(info)
        if self._edit.destroys:
            info.figures = {}  # they name authors; maintenance and closing renew them
        info.seq = max(info.seq, writer.seq)
        info.numbers = {**info.numbers, **writer.numbers}
        return self._layout.encode_info(info)

    def _losing_transactions(self) -> set[str]:
        """Transactions that lose an entry; the mark is removed from their other entries."""
        removed, folded = self._edit.removed, self._edit.folded
        entries = (entry for state in self._reader.states.values() for entry in state.entries if entry.tx)
        return {entry.tx for entry in entries if position_of(entry) in removed or position_of(entry) in folded}

    def _replacements(self, state: FileState, unmarked: set[str]) -> Iterator[tuple[list[Entry], list[Entry]]]:
        """The entries of each piece of a file with those that replace them: the same list if nothing changes."""
        edit = self._edit
        for _, group in groupby(state.entries, key=lambda entry: entry.place):
            entries = list(group)
            new: list[Entry] = []
            for entry in entries:
                place = position_of(entry)
                if place in edit.folded:
                    new += [self._after(each, position_of(each), unmarked) for each in edit.folded[place]]
                elif place not in edit.removed:
                    new.append(self._after(entry, place, unmarked))
            is_same = len(new) == len(entries) and all(map(is_, new, entries))
            yield entries, entries if is_same else new

    def _changes(self, name: str, state: FileState, unmarked: set[str]) -> list[Span]:
        """The replaced byte ranges of a file."""
        edit, path = self._edit, self._path(name)
        changes: list[Span] = []
        for entries, new in self._replacements(state, unmarked):
            if new is not entries:
                changes.append((*entries[0].place, self._layout.encode_all(new, self._reader.session)))
                self._done.removed += max(0, len(entries) - len(new))
                self._done.replaced += sum(position_of(entry) in edit.replaced for entry in entries)
        changes += [(start, end, b"") for file, start, end in edit.cuts if file == path]
        if changes and any(problem.code == "conflict" for problem in state.problems):
            raise SessionCorrupt(
                f"{path} holds the markers of an unfinished merge. Nothing was changed; resolve it by hand or with "
                "`smp repair` first.",
                session=self._reader.session,
                path=path,
            )
        return changes

    def _after(self, entry: Entry, place: Position, unmarked: set[str]) -> Entry:
        """The entry that replaces an entry; the entry itself if nothing changes."""
        new = self._edit.replaced.get(place, entry)
        if new is entry and entry.tx not in unmarked:
            return entry
        new = new.copy()
        new.id, new.seq, new.tx = entry.id, entry.seq, "" if entry.tx in unmarked else entry.tx
        return new

    def _checked(self, name: str, state: FileState, old: bytes, spans: list[Span], unmarked: set[str]) -> bytes | None:
        """The new content, verified by reading it back; None if only its header is left."""
        path = self._path(name)
        expected: list[tuple[Entry | None, Entry]] = []
        for entries, new_entries in self._replacements(state, unmarked):
            expected += [(entry if new_entries is entries else None, entry) for entry in new_entries]
        expected += [(None, entry) for entry in self._added.get(name, [])]
        new = apply_spans(old, spans)
        found = read_back(self._reader, name, state, old, spans, new, expected)
        if found is None:
            raise StorageCorrupt(f"{path} did not read back as expected; nothing was changed.", path=path)
        header = self._layout.codec_of(name).header(self._layout.title_of(name, self._reader.session))
        if not found.entries and new.strip() == header.strip():
            return None
        self._states[name] = found
        return new

    def _add_files(self, contents: dict[str, bytes | None]) -> None:
        for name, data in self._edit.files.items():
            found = self._disk.stat(self._path(name))
            if found is None and data is None:
                continue
            contents[name] = data
            self._done.bytes_before += found.st_size if found is not None else 0
            self._done.bytes_after += len(data or b"")

    def carry_out(self, contents: dict[str, bytes | None]) -> Rewritten:
        identities = self._session.writer.rewrite(contents, destroys=self._edit.destroys)
        try:
            self._reader.adopt(self._states, identities)
            self._session.writer.reconcile()
        except (OSError, StorageError):
            pass  # the files are replaced; the next writer reads them
        return self._done

    def _path(self, name: str) -> str:
        return os.path.join(self._reader.folder, name)


def _metadata_spans(codec: Codec, data: bytes, metadata: bytes) -> list[Span]:
    """Byte ranges that replace the metadata lines of a log by one new line."""
    spans: list[Span] = []
    mark = data.find(_METADATA_MARK)
    while mark >= 0:
        start, end = data.rfind(b"\n", 0, mark) + 1, (data.find(b"\n", mark) + 1) or len(data)
        pieces = codec.decode(data[start:end], 1)
        if pieces and (pieces[0].fields or {}).get("type") == "session":
            spans.append((start, end, b"" if spans else metadata))
        mark = data.find(_METADATA_MARK, end)
    return spans or [(0, 0, metadata)]


# -- verification: a file that was changed in places is read at these places and their neighbours


def without_overlaps(spans: list[Span]) -> list[Span]:
    """The spans in order; if two neighbours claim the same blank line, it belongs to the first."""
    found: list[Span] = []
    done = 0
    for start, end, new in sorted(spans, key=lambda span: span[:2]):
        found.append((max(start, done), max(end, done), new))
        done = found[-1][1]
    return found


def apply_spans(old: bytes, spans: list[Span]) -> bytes:
    """A file with some of its byte ranges replaced; they must not overlap."""
    parts: list[bytes] = []
    done = 0
    for start, end, new in spans:
        parts += (old[done:start], new)
        done = end
    parts.append(old[done:])
    return b"".join(parts)


def read_back(
    reader: SessionReader,
    name: str,
    state: FileState,
    old: bytes,
    spans: list[Span],
    new: bytes,
    expected: list[tuple[Entry | None, Entry]],
) -> FileState | None:
    """The state of the new file; None if it does not read as expected.

    `expected` has a pair for each entry of the new file: the old entry (None for a new one) and the expected one.
    """
    found = None
    is_sparse = len(spans) * _MIN_ENTRIES_PER_CHANGE < len(state.entries)
    if is_sparse and not state.problems and all(entry.state == SIGNED for entry in state.entries):
        found = _WindowedRead(reader, name, new, expected).read(state, old, spans)
    return found if found is not None else _whole(reader, name, new, expected)


def _whole(
    reader: SessionReader, name: str, new: bytes, expected: list[tuple[Entry | None, Entry]]
) -> FileState | None:
    found = FileState()
    reader.decode(name, new, found)
    return found if found.end == len(new) and _are_equal(found.entries, expected) else None


def _are_equal(found: list[Entry], expected: list[tuple[Entry | None, Entry]]) -> bool:
    """Whether these are the expected entries.

    The number of an entry that a person wrote may depend on its neighbour; an entry that was encoded has its own.
    """
    if len(found) != len(expected):
        return False
    for entry, (old_entry, new_entry) in zip(found, expected, strict=True):
        has_number = old_entry is None or new_entry.state == SIGNED
        if _comparable(entry) != _comparable(new_entry) or (has_number and entry.seq != new_entry.seq):
            return False
    return True


def _comparable(entry: Entry) -> tuple[object, ...]:
    return entry.op, entry.id, entry.at, entry.by, entry.tx, entry.data


class _WindowedRead:
    """Reads the windows around the changes of one file."""

    def __init__(
        self, reader: SessionReader, name: str, new: bytes, expected: list[tuple[Entry | None, Entry]]
    ) -> None:
        self._reader = reader
        self._name = name
        self._new = new
        self._expected = expected
        self._moved: list[Entry | None] = []  # copied entries at their new positions; None for new ones
        self._changed: set[int] = set()  # indexes of entries before which something was changed
        self._lines = 0  # how many lines were added

    def read(self, state: FileState, old: bytes, spans: list[Span]) -> FileState | None:
        self._move(old, spans)
        count = len(self._moved)
        found = FileState()
        first = 0
        while first < count or count == 0:
            behind = first
            while behind < count and self._is_near(behind):
                behind += 1
            if behind > first or count == 0:
                if not self._read_window(first, behind, found):
                    return None
                if count == 0:
                    break
                first = behind
            else:
                found.entries.append(self._moved[first] or self._expected[first][1])
                first += 1
        found.end = len(self._new)
        found.line = state.line + self._lines
        found.unterminated = bool(self._new) and not self._new.endswith(b"\n")
        return found

    def _move(self, old: bytes, spans: list[Span]) -> None:
        waiting = list(reversed(spans))
        more = 0
        for number, (old_entry, new_entry) in enumerate(self._expected):
            while old_entry is not None and waiting and waiting[-1][1] <= old_entry.place[0]:
                start, end, new = waiting.pop()
                more += len(new) - (end - start)
                self._lines += new.count(b"\n") - old.count(b"\n", start, end)
                self._changed.add(number)
            if old_entry is None or old_entry is not new_entry:
                self._moved.append(None)
                continue
            if not more and not self._lines:  # before the first change
                self._moved.append(old_entry)
                continue
            twin = old_entry.copy()
            twin.place = (old_entry.place[0] + more, old_entry.place[1] + more)
            twin.line = old_entry.line + self._lines
            self._moved.append(twin)
        for start, end, new in waiting:
            self._lines += new.count(b"\n") - old.count(b"\n", start, end)
            self._changed.add(len(self._expected))

    def _is_near(self, number: int) -> bool:
        """Whether an entry or a neighbour of it was changed."""
        around = self._moved[max(number - 1, 0) : number + 2]
        return None in around or number in self._changed or number + 1 in self._changed

    def _read_window(self, first: int, behind: int, found: FileState) -> bool:
        """Read the entries from one copied entry to another, and compare them with the expected ones."""
        window = FileState()
        stop = len(self._new)
        if first:
            before = self._moved[first]
            if before is None:
                return False
            window.end, window.line = before.place[0], before.line
        if behind < len(self._moved):
            last = self._moved[behind - 1]
            if last is None:
                return False
            stop = self._reader.layout.codec_of(self._name).span(self._new, *last.place)[1]
        self._reader.decode(self._name, self._new[window.end : stop], window)
        if window.end != stop or not _are_equal(window.entries, self._expected[first:behind]):
            return False
        twins = zip(window.entries, self._moved[first:behind], strict=True)
        if any(twin is not None and twin.place != entry.place for entry, twin in twins):
            return False
        found.entries += window.entries
        found.metadata_lines += window.metadata_lines
        found.problems += window.problems
        return True
