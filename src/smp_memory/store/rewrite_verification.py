"""Verify a file that was changed in places, by reading the changed places and their neighbours.

Reading a large file costs more than writing it, and the bytes between two changes were copied byte for byte. So an entry
far from every change is taken over with its position moved; each change is read together with the entries before and
after it, and compared with what is expected.

Guarantees: a file with anything in it that SMP did not write itself is read as a whole, and so is one whose windows do not
read as expected. The result equals what a reader of the whole file would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.files.codec import SIGNED
from smp_memory.files.file_state import FileState

if TYPE_CHECKING:
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry

    Span = tuple[int, int, bytes]  # start, end, replacement

_MIN_ENTRIES_PER_CHANGE = 4  # with fewer, the whole file is read


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
