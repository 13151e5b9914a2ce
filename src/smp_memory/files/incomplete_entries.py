"""Write ids and times into entries that were written by hand without them.

The next write to the file, the next change of such a memory and `repair` call `complete_files`: id, time and a uid are inserted in front
of the fields, and nothing else of the text changes. Until then both are provisional (`smp_memory.files.file_state`). If the result does
not read back, the entry is encoded anew. The uid is derived from the text, so that two clones that complete the same entry give it the
same one.
Non-guarantees: a file with merge markers is left alone; its incomplete entries can be read but not changed until the merge is finished.
"""

from __future__ import annotations

import os
import re

from smp_memory.files.file_state import FileState
from smp_memory.files.sha256 import sha256_hex
from smp_memory.model import ids
from smp_memory.model.entry import PUT
from smp_memory.model.record import same
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry

_DASH = re.compile(rb"( *)-( *)(?=[^\s{\[])")
_DASH_ALONE = re.compile(rb"( *-) *\r?\n( +)(?=[^\s#])")  # its fields begin in the next line
_BRACE = re.compile(rb" *- *\{")
_HEADING = re.compile(rb"## (\S+)[^\n]*")


def complete_files(reader: SessionReader, skip: Container[str]) -> tuple[dict[str, bytes | None], list[str]]:
    """The new content of files with incomplete entries, and what was done. The lock is held and the reader has caught up.

    Files in `skip` are in use by the caller; they are completed by a later write.
    """
    contents: dict[str, bytes | None] = {}
    done: list[str] = []
    for name, state in reader.states.items():
        if not state.incomplete or name in skip or any(problem.code == "conflict" for problem in state.problems):
            continue
        data = reader.disk.read(os.path.join(reader.folder, name))
        new = _complete_file(reader, name, state, data) if len(data) == state.end else None
        if new is not None:
            contents[name] = new
            done += [
                f"{name}:{entry.line}: {entry.id} was typed in by hand; {' and '.join(entry.lacks)} added in the file"
                for entry in state.incomplete
            ]
    return contents, done


def _complete_file(reader: SessionReader, name: str, state: FileState, data: bytes) -> bytes | None:
    """The content of a file with all its entries completed; None if it does not read back as expected."""
    content, position = b"", 0
    for entry in sorted(state.incomplete, key=lambda each: each.place):
        start, end = entry.place
        content += data[position:start] + _complete_text(reader, name, entry, data[start:end])
        position = end
    content += data[position:]
    decoded = FileState()
    reader.decode(name, content, decoded)
    actual = [(entry.op, entry.id, entry.at, entry.seq) for entry in decoded.entries]
    expected = [(entry.op, entry.id, entry.at, entry.seq) for entry in state.entries]
    return content if actual == expected and decoded.end == len(content) and not decoded.incomplete else None


def _complete_text(reader: SessionReader, name: str, entry: Entry, text: bytes) -> bytes:
    codec, field_names = reader.layout.codec_of(name), reader.layout.field_names
    entry = entry.copy()
    entry.uid = entry.uid or _uid(text)
    fields = {"id": entry.id} if "id" in entry.lacks else {}
    fields |= {field_names.time: entry.at} if "time" in entry.lacks else {}
    new = _insert_fields(text, fields | {"uid": entry.uid}, entry)
    if _reads_as(reader, name, new, entry):
        return new
    entry.lacks, entry.schema = (), entry.schema or 1
    fields = field_names.encode(entry, reader.session)
    fields.pop("seq", None)  # its position in the file is its order
    return codec.encode(fields).strip(b"\n") + (b"\n" if text.endswith(b"\n") else b"")


def _insert_fields(text: bytes, fields: dict[str, str], entry: Entry) -> bytes:
    """The text of an entry with more fields in front, as JSON, a YAML list item or a Markdown block."""
    if text.startswith(b"{"):
        return b"{" + "".join(f'"{name}": "{value}", ' for name, value in fields.items()).encode() + text[1:]
    heading = _HEADING.match(text)
    if heading is not None:
        number = (
            ids.parts_of(entry.id)[1]
            if entry.id == ids.numbered(KINDS[entry.type].prefix, ids.parts_of(entry.id)[1])
            else 0
        )
        heading_text = f"{number or entry.id} - {entry.at[:10]} {entry.at[11:-1]}\n**Uid:** {fields['uid']}"
        return b"## %b %b%b" % (heading[1], heading_text.encode(), text[heading.end() :])
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


def _reads_as(reader: SessionReader, name: str, text: bytes, expected: Entry) -> bool:
    """Whether a text decodes to this entry and no other."""
    state = FileState()
    state.end = 1  # not the beginning of a file
    reader.decode(name, text if text.endswith(b"\n") else text + b"\n", state)
    decoded = state.entries[0] if len(state.entries) == 1 and not state.incomplete else None
    return (
        decoded is not None
        and (decoded.op, decoded.type, decoded.id, decoded.at, decoded.uid)
        == (PUT, expected.type, expected.id, expected.at, expected.uid)
        and same(decoded.data, expected.data)
    )


def _uid(text: bytes) -> str:
    return ids.letters(sha256_hex(text.strip().replace(b"\r\n", b"\n"))[:8])
