"""Entries that a person typed without an id or a time: provisional values, and writing them into the file.

A person adds `- decision: Sessions last 8 hours` to decisions.yaml and saves. The entry is a memory at once. Until SMP
writes to that file, its id and time are provisional and a pure function of the files:
- id: the next free number of its type, in the order of the files and lines; numbers that were given out before count as
  taken (`Notes.numbers`, the head). An agent state is named after its agent, an artifact in a file of its own after the file.
- time: when the file was last modified, in seconds.

The next write to the file, the next change of such a memory and `repair` call `completed`: id, time and a uid are inserted in
front of the typed fields, and nothing else of the text changes. If the result does not read back, the entry is encoded anew.
The uid is derived from the text, so that two clones that complete the same entry give it the same one.
Non-guarantees: a file with merge markers is left alone; its typed entries can be read but not changed until it is settled.
"""

from __future__ import annotations

import os
import re

from smp_memory.files.sha256 import sha256_hex
from smp_memory.files.writer_state import numbers_in_head
from smp_memory.model import ids
from smp_memory.model.entry import PUT
from smp_memory.model.record import same
from smp_memory.model.reports import Problem
from smp_memory.model.types import KINDS, PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from smp_memory.files.reader import FileState, SessionReader
    from smp_memory.model.entry import Entry

_NS = 1_000_000_000
_DASH = re.compile(rb"( *)-( *)(?=[^\s{\[])")
_DASH_ALONE = re.compile(rb"( *-) *\r?\n( +)(?=[^\s#])")  # its fields begin in the next line
_BRACE = re.compile(rb" *- *\{")
_HEADING = re.compile(rb"## (\S+)[^\n]*")


def give_times(state: FileState) -> None:
    """Set the provisional time of each typed entry of a file that was just read."""
    from datetime import UTC, datetime

    from smp_memory.model.times import to_text

    modified = to_text(datetime.fromtimestamp(max(state.identity[2] // _NS, 0), UTC))
    for entry in state.typed:
        if "time" in entry.lacks:
            entry.at = modified


def give_ids(reader: SessionReader) -> None:
    """Set the provisional id of each typed entry of a session."""
    typed = [
        (name, entry) for name in sorted(reader.states) for entry in reader.states[name].typed if "id" in entry.lacks
    ]
    if not typed:
        return
    numbers = _numbers(reader)
    taken = set()
    for state in reader.states.values():
        for entry in state.entries:
            if entry.op == PUT and "id" not in entry.lacks:
                taken.add(entry.id)
                prefix, number = ids.parts_of(entry.id)
                numbers[prefix] = max(numbers.get(prefix, 0), number)
    for name, entry in typed:
        entry.id = _own_name(reader, name, entry, taken) or _next(entry, numbers)
        taken.add(entry.id)


def _own_name(reader: SessionReader, name: str, entry: Entry, taken: set[str]) -> str:
    agent = entry.data.get("agent")
    if (
        KINDS[entry.type].is_named_by_agent
        and isinstance(agent, str)
        and ids.is_valid(ids.STATE_PREFIX + agent, ids.LIMIT + 8)
    ):
        return ids.STATE_PREFIX + agent
    stem = reader.layout.id_in_name(name)
    return stem if stem and stem not in taken and ids.is_valid(stem) else ""


def _next(entry: Entry, numbers: dict[str, int]) -> str:
    prefix = KINDS[entry.type].prefix
    numbers[prefix] = numbers.get(prefix, 0) + 1
    return ids.numbered(prefix, numbers[prefix])


def _numbers(reader: SessionReader) -> dict[str, int]:
    """The largest numbers that were given out, also to memories that are gone."""
    numbers = dict(reader.notes().numbers)
    for prefix, number in numbers_in_head(reader).items():
        if prefix in PREFIXES and type(number) is int:
            numbers[prefix] = max(numbers.get(prefix, 0), number)
    return numbers


def problem(entry: Entry) -> Problem:
    what = " and no ".join(entry.lacks)
    message = f"{entry.id} was typed in by hand and has no {what} in the file yet; the next write or `smp repair` adds what is missing."
    return Problem(entry.file, entry.line, "typed", message, "note", entry.id)


# -- writing them into the file


def completed(reader: SessionReader, leave: Container[str]) -> tuple[dict[str, bytes | None], list[str]]:
    """The new content of files with typed entries, and what was done. The lock is held and the reader has caught up.

    Files in `leave` are in use by the caller; they are completed by a later write.
    """
    contents: dict[str, bytes | None] = {}
    done: list[str] = []
    for name, state in reader.states.items():
        if not state.typed or name in leave or any(problem.code == "conflict" for problem in state.problems):
            continue
        data = reader.disk.read(os.path.join(reader.folder, name))
        new = _with_ids(reader, name, state, data) if len(data) == state.end else None
        if new is not None:
            contents[name] = new
            done += [
                f"{name}:{entry.line}: {entry.id} was typed in by hand; {' and '.join(entry.lacks)} written into the file"
                for entry in state.typed
            ]
    return contents, done


def _with_ids(reader: SessionReader, name: str, state: FileState, data: bytes) -> bytes | None:
    """A file with all its typed entries completed; None if it would not read as it should."""
    from smp_memory.files.reader import FileState

    joined, position = b"", 0
    for entry in sorted(state.typed, key=lambda each: each.place):
        start, end = entry.place
        joined += data[position:start] + _completed_text(reader, name, entry, data[start:end])
        position = end
    joined += data[position:]
    found = FileState()
    reader.decode(name, joined, found)
    told = [(entry.op, entry.id, entry.at, entry.seq) for entry in found.entries]
    wanted = [(entry.op, entry.id, entry.at, entry.seq) for entry in state.entries]
    return joined if told == wanted and found.end == len(joined) and not found.typed else None


def _completed_text(reader: SessionReader, name: str, entry: Entry, text: bytes) -> bytes:
    codec, dialect = reader.layout.codec_of(name), reader.layout.dialect
    entry = entry.copy()
    entry.uid = entry.uid or _uid(text)
    fields = {"id": entry.id} if "id" in entry.lacks else {}
    fields |= {dialect.time: entry.at} if "time" in entry.lacks else {}
    new = _inserted(text, fields | {"uid": entry.uid}, entry)
    if _reads_as(reader, name, new, entry):
        return new
    entry.lacks, entry.schema = (), entry.schema or 1
    fields = dialect.encode(entry, reader.session)
    fields.pop("seq", None)  # it goes on standing, in order, where it stands in the file
    return codec.encode(fields).strip(b"\n") + (b"\n" if text.endswith(b"\n") else b"")


def _inserted(text: bytes, fields: dict[str, str], entry: Entry) -> bytes:
    """The typed text with more fields in front, as JSON, a YAML list item or a Markdown block."""
    if text.startswith(b"{"):
        return b"{" + "".join(f'"{name}": "{value}", ' for name, value in fields.items()).encode() + text[1:]
    heading = _HEADING.match(text)
    if heading is not None:
        number = (
            ids.parts_of(entry.id)[1]
            if entry.id == ids.numbered(KINDS[entry.type].prefix, ids.parts_of(entry.id)[1])
            else 0
        )
        shown = f"{number or entry.id} - {entry.at[:10]} {entry.at[11:-1]}\n**Uid:** {fields['uid']}"
        return b"## %b %b%b" % (heading[1], shown.encode(), text[heading.end() :])
    brace = _BRACE.match(text)
    if brace is not None:
        return (
            brace[0] + "".join(f'{name}: "{value}", ' for name, value in fields.items()).encode() + text[brace.end() :]
        )
    lines = [f"{name}: {value}".encode() for name, value in fields.items()]
    alone = _DASH_ALONE.match(text)
    if alone is not None:
        begin, indent = alone[1] + b" " * (len(alone[2]) - len(alone[1])), b"\n" + alone[2]
        return begin + indent.join([*lines, text[alone.end() :]])
    dash = _DASH.match(text)
    if dash is None:
        return text
    indent = b"\n" + b" " * (dash.end() - dash.start())
    return dash[0] + indent.join([*lines, text[dash.end() :]])


def _reads_as(reader: SessionReader, name: str, text: bytes, wanted: Entry) -> bool:
    """Whether a text holds this entry and no other."""
    from smp_memory.files.reader import FileState

    state = FileState()
    state.end = 1  # not the beginning of a file
    reader.decode(name, text if text.endswith(b"\n") else text + b"\n", state)
    found = state.entries[0] if len(state.entries) == 1 and not state.typed else None
    return (
        found is not None
        and (found.op, found.type, found.id, found.at, found.uid)
        == (PUT, wanted.type, wanted.id, wanted.at, wanted.uid)
        and same(found.data, wanted.data)
    )


def _uid(text: bytes) -> str:
    return ids.letters(sha256_hex(text.strip().replace(b"\r\n", b"\n"))[:8])
