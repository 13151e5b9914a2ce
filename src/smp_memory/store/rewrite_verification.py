"""Does a file that was changed in places read as it should? Only the places are read again, with their neighbours.

To read a large file costs more than to write it, and what lies between two changes was copied byte for byte. So an entry
that is far from every change is taken over with its place moved; each change is read together with the entries before and
behind it, and compared with what should stand there.

Guarantees: a file with anything in it that SMP did not write itself is read as a whole, and so is one that does not read
as it should at first sight. What comes out equals what a reader of the whole file would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.files.codec import SIGNED
from smp_memory.files.file_state import FileState

if TYPE_CHECKING:
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry

    Span = tuple[int, int, bytes]  # from, to, and what stands there instead

_FEW = 4  # so many times as many entries as changes must there be


def apart(spans: list[Span]) -> list[Span]:
    """The spans in order; where two neighbours claim the same blank line, the first one has it."""
    found: list[Span] = []
    done = 0
    for start, end, new in sorted(spans, key=lambda span: span[:2]):
        found.append((max(start, done), max(end, done), new))
        done = found[-1][1]
    return found


def joined(old: bytes, spans: list[Span]) -> bytes:
    """A file with other bytes in some of its stretches, which are apart."""
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
    """The state of the new file; None if it does not read as it should.

    `expected` has for each entry of the new file the one that it was, None for a new one, and what it should be.
    """
    found = None
    few = len(spans) * _FEW < len(state.entries)
    if few and not state.problems and all(entry.state == SIGNED for entry in state.entries):
        found = _Places(reader, name, new, expected).read(state, old, spans)
    return found if found is not None else _whole(reader, name, new, expected)


def _whole(
    reader: SessionReader, name: str, new: bytes, expected: list[tuple[Entry | None, Entry]]
) -> FileState | None:
    found = FileState()
    reader.decode(name, new, found)
    return found if found.end == len(new) and _reads_as(found.entries, expected) else None


def _reads_as(found: list[Entry], expected: list[tuple[Entry | None, Entry]]) -> bool:
    """Whether these are the entries that should be there.

    What a person wrote and a rewrite left as it is may get its number from its neighbour. What was encoded anew has its own.
    """
    if len(found) != len(expected):
        return False
    for entry, (was, wanted) in zip(found, expected, strict=True):
        has_number = was is None or wanted.state == SIGNED
        if _told(entry) != _told(wanted) or (has_number and entry.seq != wanted.seq):
            return False
    return True


def _told(entry: Entry) -> tuple[object, ...]:
    return entry.op, entry.id, entry.at, entry.by, entry.tx, entry.data


class _Places:
    """One file that was changed in a few places."""

    def __init__(
        self, reader: SessionReader, name: str, new: bytes, expected: list[tuple[Entry | None, Entry]]
    ) -> None:
        self._reader = reader
        self._name = name
        self._new = new
        self._expected = expected
        self._moved: list[Entry | None] = []  # what was copied, at its new place; None for what is new
        self._changed: set[int] = set()  # before which entries something was changed
        self._lines = 0  # how many there are more

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
        for number, (was, wanted) in enumerate(self._expected):
            while was is not None and waiting and waiting[-1][1] <= was.place[0]:
                start, end, new = waiting.pop()
                more += len(new) - (end - start)
                self._lines += new.count(b"\n") - old.count(b"\n", start, end)
                self._changed.add(number)
            if was is None or was is not wanted:
                self._moved.append(None)
                continue
            if not more and not self._lines:  # before the first change
                self._moved.append(was)
                continue
            twin = was.copy()
            twin.place = (was.place[0] + more, was.place[1] + more)
            twin.line = was.line + self._lines
            self._moved.append(twin)
        for start, end, new in waiting:
            self._lines += new.count(b"\n") - old.count(b"\n", start, end)
            self._changed.add(len(self._expected))

    def _is_near(self, number: int) -> bool:
        """Whether it, or what is next to it, was changed."""
        around = self._moved[max(number - 1, 0) : number + 2]
        return None in around or number in self._changed or number + 1 in self._changed

    def _read_window(self, first: int, behind: int, found: FileState) -> bool:
        """Read the entries from one that was copied to another; they must be what they should."""
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
        if window.end != stop or not _reads_as(window.entries, self._expected[first:behind]):
            return False
        twins = zip(window.entries, self._moved[first:behind], strict=True)
        if any(twin is not None and twin.place != entry.place for entry, twin in twins):
            return False
        found.entries += window.entries
        found.metadata_lines += window.metadata_lines
        found.problems += window.problems
        return True
