"""How do entries leave a session, or change, for good? Its files are written anew without them, all of them together.

Compaction, purge, erasure and the redaction of what is already stored say in an `Edit` what goes and what changes;
this module does it under the session's lock.

Guarantees: all of an edit is done or nothing of it, also when the machine stops at any moment. What is not named in the
edit stays byte for byte: headers, comments, people's own text, other entries; only the mark of a transaction that loses
a part is taken off its other parts, or readers would wait for it. The new files are read back and compared before the
old ones go. No id and no number is ever given out again: the session's head keeps them.
Non-guarantees: the blocks of the old files are freed, not overwritten; what the file system or the disk does with them
is beyond a program. A file with the marks of an unfinished merge is refused: nobody knows where its entries end.
"""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from itertools import groupby
from operator import is_
from typing import TYPE_CHECKING

from smp_memory.errors import SessionCorrupt, StorageCorrupt, StorageError
from smp_memory.files.file_state import FileState
from smp_memory.files.quarantine import ConcurrentFileChange
from smp_memory.store.rewrite_verification import apart, joined, read_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.files.codec import Codec
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.store.file_session import FileSession

_TRIES = 3
_HEAD_MARK = b'"type":"session"'

Place = tuple[str, int, int, "int | None"]  # file, first byte, byte behind the last, position in a folded entry
Stretch = tuple[str, int, int]


class SessionEdit:
    """What is to change. Entries are known by where they stand, so a copy of one will do."""

    def __init__(self) -> None:
        self.removed: set[Place] = set()
        self.replaced: dict[Place, Entry] = {}
        self.added: list[Entry] = []  # at the end of their files; with numbers that are free, or were theirs before
        self.folded: dict[Place, list[Entry]] = {}  # what stands in the place of an entry, as one folded entry
        self.cuts: set[Stretch] = set()  # further stretches to take out: what nobody can read as an entry
        self.files: dict[str, bytes | None] = {}  # further files of the session's folder; None takes one away

    def remove(self, entry: Entry) -> None:
        self.removed.add(place_of(entry))

    def replace(self, entry: Entry, new: Entry) -> None:
        """Put another entry in its place; it keeps the id, the number and the file."""
        self.replaced[place_of(entry)] = new

    def fold(self, entries: list[Entry]) -> None:
        """Fold the entries of one memory into the first of them. Marks of transactions are taken off."""
        first, *others = entries
        self.folded[place_of(first)] = entries
        for entry in others:
            self.remove(entry)

    def __bool__(self) -> bool:
        return bool(self.removed or self.replaced or self.added or self.folded or self.cuts or self.files)


class Rewritten:
    """What was written anew: names within the session's folder."""

    __slots__ = ("bytes_after", "bytes_before", "names", "removed", "replaced")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bytes_before = 0
        self.bytes_after = 0
        self.removed = 0
        self.replaced = 0

    def __repr__(self) -> str:
        return f"Rewritten({self.names}, {self.bytes_before} -> {self.bytes_after} bytes, {self.removed} entries less)"


def place_of(entry: Entry) -> Place:
    return (entry.file, *entry.place, entry.part)


def copy_of(entry: Entry) -> Entry:
    """An entry that may be changed; the reader's own may not."""
    return entry.copy()


def entries_of(reader: SessionReader, ids: Iterable[str]) -> list[Entry]:
    """All entries of these memories: also copies of them, and what happened to one that is not there."""
    wanted, names = set(ids), reader.session_history.names
    entries = (entry for state in reader.states.values() for entry in state.entries)
    if not names:
        return [entry for entry in entries if entry.id in wanted]
    return [entry for entry in entries if names.resolved(entry).id in wanted]


def private_name(reader: SessionReader, name: str) -> str:
    """The name of a file of the session's own private folder, as `Edit.files` wants it."""
    return os.path.relpath(os.path.join(reader.private, name), reader.folder).replace(os.sep, "/")


def rewrite(session: FileSession, doing: str, edit: Callable[[SessionReader], SessionEdit | None]) -> Rewritten:
    """Change a session's files for good. `edit` sees settled files under the lock; it may be asked again."""
    done: Rewritten = session.exclusively(doing, lambda: rewrite_under_lock(session, edit))
    return done


def rewrite_under_lock(session: FileSession, edit: Callable[[SessionReader], SessionEdit | None]) -> Rewritten:
    """The same for a caller that is inside `FileSession.exclusively`."""
    with without_collecting():
        return _rewrite(session, edit)


@contextmanager
def without_collecting() -> Iterator[None]:
    """While many entries are read. They hold no cycles; to look for some again and again costs most of the time."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _rewrite(session: FileSession, edit: Callable[[SessionReader], SessionEdit | None]) -> Rewritten:
    reader = session.reader
    for _ in range(_TRIES):
        with reader.mutex:
            reader.catch_up()
            wanted = edit(reader)
            if not wanted:
                return Rewritten()
            rewriting = _Rewriting(session, wanted)
            contents = rewriting.contents()
        if contents is not None:
            try:
                return rewriting.carry_out(contents)
            except ConcurrentFileChange:
                session.writer.reconcile()  # a person may have typed an entry
    raise StorageError(f"The files of {reader.folder} are being changed by something else while SMP writes.")


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
        self._states: dict[str, FileState] = {}  # what the new files say

    def contents(self) -> dict[str, bytes | None] | None:
        """The new files; None if a person changed one since it was read."""
        head = self._head()
        unmarked = self._losing_transactions()
        contents: dict[str, bytes | None] = {}
        for name, state in self._reader.states.items():
            changes = self._changes(name, state, unmarked)
            is_log = not self._layout.info_file  # its head is one of its lines
            if not changes and not is_log and name not in self._added:
                continue
            old = self._disk.read(self._path(name))
            found = self._disk.stat(self._path(name))
            if found is None or len(old) != state.end or state.identity[1:3] != [found.st_size, found.st_mtime_ns]:
                return None
            codec = self._layout.codec_of(name)
            spans = [(*codec.span(old, start, end), data) for start, end, data in changes]
            spans += _head_spans(codec, old, head) if is_log else []
            contents[name] = self._checked(name, state, old, apart([*spans, *self._added_span(name, old)]), unmarked)
            self._done.bytes_before += len(old)
            self._done.bytes_after += len(contents[name] or b"")
        for name in self._added.keys() - self._reader.states.keys():
            contents[name] = self._checked(name, FileState(), b"", self._added_span(name, b""), unmarked)
            self._done.bytes_after += len(contents[name] or b"")
        self._add_files(contents)
        self._done.names = list(contents)
        if self._layout.info_file:
            contents[self._layout.info_file] = head
        return contents

    def _added_span(self, name: str, data: bytes) -> list[tuple[int, int, bytes]]:
        """What comes to the end of a file."""
        added = self._added.get(name)
        if not added:
            return []
        codec = self._layout.codec_of(name)
        start = b"" if data else codec.header(self._layout.title_of(name, self._reader.session))
        line_end = b"" if not data or data.endswith(b"\n") else b"\n"
        parts = [codec.encode(self._layout.field_names.encode(entry, self._reader.session)) for entry in added]
        return [(len(data), len(data), b"".join([start, line_end, *parts]))]

    def _head(self) -> bytes:
        """What must never be given out again is remembered in the same stroke."""
        info, writer = self._session.info_to_change(), self._session.writer
        info.generation += 1
        info.seq = max(info.seq, writer.seq)
        info.numbers = {**info.numbers, **writer.numbers}
        return self._layout.encode_info(info)

    def _losing_transactions(self) -> set[str]:
        removed, folded = self._edit.removed, self._edit.folded
        entries = (entry for state in self._reader.states.values() for entry in state.entries if entry.tx)
        return {entry.tx for entry in entries if place_of(entry) in removed or place_of(entry) in folded}

    def _stand_ins(self, state: FileState, unmarked: set[str]) -> Iterator[tuple[list[Entry], list[Entry]]]:
        """The entries of each piece of a file, and those that stand there from now on: the same list if nothing changes."""
        edit = self._edit
        for _, group in groupby(state.entries, key=lambda entry: entry.place):
            entries = list(group)
            new: list[Entry] = []
            for entry in entries:
                place = place_of(entry)
                if place in edit.folded:
                    new += [self._after(each, place_of(each), unmarked) for each in edit.folded[place]]
                elif place not in edit.removed:
                    new.append(self._after(entry, place, unmarked))
            is_same = len(new) == len(entries) and all(map(is_, new, entries))
            yield entries, entries if is_same else new

    def _changes(self, name: str, state: FileState, unmarked: set[str]) -> list[tuple[int, int, bytes]]:
        """What to put in the place of which piece of a file."""
        edit, path = self._edit, self._path(name)
        changes: list[tuple[int, int, bytes]] = []
        for entries, new in self._stand_ins(state, unmarked):
            if new is not entries:
                changes.append((*entries[0].place, self._layout.encode_all(new, self._reader.session)))
                self._done.removed += max(0, len(entries) - len(new))
                self._done.replaced += sum(place_of(entry) in edit.replaced for entry in entries)
        changes += [(start, end, b"") for file, start, end in edit.cuts if file == path]
        if changes and any(problem.code == "conflict" for problem in state.problems):
            raise SessionCorrupt(
                f"{path} holds the marks of an unfinished merge. Nothing was changed; settle it by hand or with "
                "`smp repair` first.",
                session=self._reader.session,
                path=path,
            )
        return changes

    def _after(self, entry: Entry, place: Place, unmarked: set[str]) -> Entry:
        """What stands in an entry's place from now on; itself if nothing changes."""
        new = self._edit.replaced.get(place, entry)
        if new is entry and entry.tx not in unmarked:
            return entry
        new = copy_of(new)
        new.id, new.seq, new.tx = entry.id, entry.seq, "" if entry.tx in unmarked else entry.tx
        return new

    def _checked(
        self, name: str, state: FileState, old: bytes, spans: list[tuple[int, int, bytes]], unmarked: set[str]
    ) -> bytes | None:
        """The new file, if it reads back as it should; None if only its header is left."""
        path = self._path(name)
        expected: list[tuple[Entry | None, Entry]] = []
        for entries, stand_ins in self._stand_ins(state, unmarked):
            expected += [(entry if stand_ins is entries else None, entry) for entry in stand_ins]
        expected += [(None, entry) for entry in self._added.get(name, [])]
        new = joined(old, spans)
        found = read_back(self._reader, name, state, old, spans, new, expected)
        if found is None:
            raise StorageCorrupt(f"{path} did not read back as it should; nothing was changed.", path=path)
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
        identities = self._session.writer.rewrite(contents)
        try:
            self._reader.adopt(self._states, identities)
            self._session.writer.reconcile()
        except (OSError, StorageError):
            pass  # it is done; the next writer looks
        return self._done

    def _path(self, name: str) -> str:
        return os.path.join(self._reader.folder, name)


def _head_spans(codec: Codec, data: bytes, head: bytes) -> list[tuple[int, int, bytes]]:
    """A new head in the place of those that a log has."""
    heads: list[tuple[int, int, bytes]] = []
    mark = data.find(_HEAD_MARK)
    while mark >= 0:
        start, end = data.rfind(b"\n", 0, mark) + 1, (data.find(b"\n", mark) + 1) or len(data)
        pieces = codec.decode(data[start:end], 1)
        if pieces and (pieces[0].fields or {}).get("type") == "session":
            heads.append((start, end, b"" if heads else head))
        mark = data.find(_HEAD_MARK, end)
    return heads or [(0, 0, head)]
