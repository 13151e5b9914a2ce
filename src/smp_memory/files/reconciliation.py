"""Reconcile files that a crash, a person or another program changed: torn ends, missing entries, entries without id or time.

Another program (git, an editor, a restored backup) may remove stored entries from a file. The first writer that sees the change
records a new *epoch* for the file (`smp_memory.files.lock`); it need not be a process that knows the entries. So each process
remembers the epoch under which it wrote or read them (`KnownEntries`). When the writer state has another one, the process reads the
files and writes the missing entries to quarantine.

Guarantees
- A torn end is cut off only after it was read, decoded, recognised as torn and copied to quarantine in one step, and only if
  the file still ends in the same bytes. If the file changes meanwhile (git, an editor, rsync) it is read again.
- A complete entry is never cut off, except the parts of a one-file transaction whose rest was never written. A file that another
  program replaced must not have changed for ten times as long as others, because its rest may still be coming.
- Entries that this process knows and that vanished without SMP having removed them are written to a file
  `NAME.missing-after-change.TIME` in the layout's own format, each once. If they come back, because the other program was not
  finished, this process removes the file.
- Written entries (the last MiB) are forgotten only after the reader of this process has them, or they are in quarantine, or SMP itself
  removed entries (the lineage differs): erased entries are never brought back. Entries that the reader had are compared too.
- An entry that a person wrote without id or time gets both, and a uid, in front of its fields at the next write to the file, the next
  change of such a memory or `repair`; nothing else of its text changes. Until then both are provisional
  (`smp_memory.files.file_state`). If the result does not read back, the entry is encoded anew. The uid is derived from the text, so that
  two clones that complete the same entry give it the same one.
Non-guarantees: between the last comparison and the cut lies one system call; a program that writes to the same file in place in that
moment loses what it wrote. A file that another program replaces is safe. What a process knows is lost if it is killed, or if it never
writes to the session. A file with merge markers is left alone; its incomplete entries can be read but not changed until the merge is
finished.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from functools import partial

from smp_memory.errors import StorageError
from smp_memory.files.codec import EDITED
from smp_memory.files.disk import identity
from smp_memory.files.file_state import FileState
from smp_memory.files.journal import MISSING, write_to_quarantine
from smp_memory.files.layouts.layout import QUARANTINE
from smp_memory.model import ids
from smp_memory.model.entry import PUT
from smp_memory.model.ids import sha256_hex
from smp_memory.model.record import same
from smp_memory.model.types import KINDS
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from smp_memory.files.lock import WriterState
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.store.port import BatchPort

    Key = tuple[int, str, str, str, str]

STABLE_SECONDS = 0.02  # a file that is older is stable: programs that write one make shorter pauses
_TRIES = 50
_RECENT_BYTES = 1 << 20
_UNKNOWN_EPOCH = 0  # the writer state did not record the file after the write


class ConcurrentFileChange(StorageError):
    """Another program is changing a file that SMP wants to write. Nothing was changed; the caller may retry. The code is StorageError's."""


def cut_torn_end(reader: SessionReader, name: str) -> None:
    """Move the rest of an unfinished write at the end of a file to quarantine. The session's lock is held."""
    path = os.path.join(reader.folder, name)
    stable_seconds = STABLE_SECONDS
    for _ in range(_TRIES):
        data = _read_stable(reader, path, stable_seconds)
        if data is None:
            continue
        state = FileState()
        reader.decode(name, data, state)
        tail = data[state.end :]
        if not tail:
            return
        if stable_seconds == STABLE_SECONDS and _is_replaced(reader, name):  # its rest may still be coming
            stable_seconds = 10 * STABLE_SECONDS
            if stable_seconds:
                continue
        copy = write_to_quarantine(reader.disk, reader.private, f"{name}.{state.end}", tail)
        if reader.disk.truncate_tail(path, state.end, tail):
            text = f"{path}: {len(tail):,} bytes of an unfinished write were moved to {copy}."
            telemetry.emit(
                "recovery", telemetry.WARNING, "torn_end_set_aside", text, reader.session, path=path, bytes=len(tail)
            )
            return
        reader.disk.remove(copy)
    raise concurrent_change(path)


def _is_replaced(reader: SessionReader, name: str) -> bool:
    """Whether another program put other content in the place of the file that SMP wrote last."""
    recorded = reader.read_writer_state().files.get(name)
    status = reader.disk.stat(os.path.join(reader.folder, name))
    return (
        recorded is not None and status is not None and (status.st_ino != recorded[0] or status.st_size < recorded[1])
    )


def replace_suspect(reader: SessionReader, path: str, tries: int) -> None:
    """Replace a file whose sync failed by a copy of it."""
    if not any(reader.disk.recreate(path) for _ in range(tries)):
        raise concurrent_change(path)
    text = f"{path} was copied to a new file, because an earlier sync of it failed."
    telemetry.emit("recovery", telemetry.WARNING, "file_renewed", text, reader.session, path=path)


def concurrent_change(path: str) -> ConcurrentFileChange:
    return ConcurrentFileChange(
        f"{path} is being changed by another program while SMP writes. Nothing was changed; try again.",
        path=path,
        recoverable=True,
    )


def _read_stable(reader: SessionReader, path: str, stable_seconds: float) -> bytes | None:
    """The bytes of a file that nobody wrote to for some time; empty if it does not exist, None if it changed meanwhile."""
    status = reader.disk.stat(path)
    if status is None:
        return b""
    age_seconds = time.time() - max(status.st_mtime_ns, status.st_ctime_ns) / 1e9
    if age_seconds < stable_seconds:
        time.sleep(stable_seconds)
    try:
        data = reader.disk.read(path)
    except FileNotFoundError:
        return None
    now = reader.disk.stat(path)
    return data if now is not None and identity(now) == identity(status) and len(data) == status.st_size else None


def find_missing(reader: SessionReader, known: dict[str, list[Entry]]) -> dict[str, dict[Key, Entry]]:
    """Entries that are in no file of the session any more, nor in quarantine already; by file."""
    if not known:
        return {}
    stored = [entry for state in reader.states.values() for entry in state.entries]
    stored_keys = {entry.key for entry in stored}
    # Entries that lost their machine line have no uid.
    bare = {entry.bare_key for entry in stored if entry.state == EDITED and not entry.uid}
    missing: dict[str, dict[Key, Entry]] = {}
    for name, entries in known.items():
        vanished = {
            entry.key: entry for entry in entries if entry.key not in stored_keys and entry.bare_key not in bare
        }
        kept = _keys_in_quarantine(reader, name) if vanished else set()
        vanished = {key: entry for key, entry in vanished.items() if key not in kept}
        if vanished:
            missing[name] = vanished
    return missing


def write_missing(reader: SessionReader, missing: dict[str, dict[Key, Entry]]) -> dict[str, set[Key]]:
    """Write entries to quarantine, in the layout's own format; returns their keys by path. The session's lock is held."""
    written: dict[str, set[Key]] = {}
    for name, entries in missing.items():
        lines = [reader.layout.encode(entries[key], reader.session)[1] for key in sorted(entries)]
        path = write_to_quarantine(reader.disk, reader.private, name + MISSING.rstrip("."), b"".join(lines))
        _log_missing(os.path.join(reader.folder, name), len(entries), path)
        written[path] = set(entries)
    return written


def _keys_in_quarantine(reader: SessionReader, name: str) -> set[Key]:
    """The entries of a file that are in quarantine already."""
    folder = os.path.join(reader.private, QUARANTINE)
    keys: set[Key] = set()
    for file in reader.disk.names(folder):
        if file.startswith(name.replace("/", "_") + MISSING):
            state = FileState()
            reader.decode(name, reader.disk.read(os.path.join(folder, file)), state)
            keys.update(entry.key for entry in state.entries)
    return keys


def _log_missing(path: str, count: int, kept: str) -> None:
    text = f"{path} was changed by another program and lacks {count} stored entries; they were copied to {kept}"
    telemetry.emit("corruption", telemetry.WARNING, "entries_missing", text, path=path, entries=count)


# -- what this process knows


class KnownEntries:
    """The entries of one session that this process wrote or read. All methods but `may_be_missing` are called under the session's lock."""

    __slots__ = ("_bytes", "_copies", "_epochs", "_parts", "_reader", "must_compare")

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._parts: deque[tuple[str, bytes]] = deque()  # written by this process, perhaps not read back yet
        self._bytes = 0
        self._epochs: dict[str, int] = {}  # of the files in `_parts`, after the last write
        self._copies: dict[str, set[Key]] = {}  # files in quarantine that this process wrote, and the entries in them
        self.must_compare = False  # a file has another epoch: compare before forgetting anything

    def add_all(self, stored: list[tuple[BatchPort, dict[str, bytes]]], state: WriterState) -> None:
        """Remember acknowledged entries, and the epochs of their files."""
        for batch, parts in stored:
            if batch.error is None:
                for name, data in parts.items():
                    self._parts.append((name, data))
                    self._bytes += len(data)
                    known = state.files.get(name)
                    self._epochs[name] = known[4] if known is not None else _UNKNOWN_EPOCH
        while self._bytes > _RECENT_BYTES:
            self._bytes -= len(self._parts.popleft()[1])

    def forget_written(self) -> None:
        self._parts.clear()
        self._epochs.clear()
        self._bytes = 0

    def holds(self, name: str) -> bool:
        """Whether this process wrote to the file, or read entries in it."""
        state = self._reader.states.get(name)
        return name in self._epochs or (state is not None and bool(state.entries))

    def compare_epochs(self, state: WriterState, earlier_lineage: str) -> None:
        """Compare the known epochs with those in a state that another process stored."""
        if state.lineage != earlier_lineage:
            self.forget_written()
        files = state.files
        for name, epoch in self._known_epochs(state.lineage):
            known = files.get(name)
            if known is not None and known[4] != epoch:
                self.must_compare = True
                return

    def _known_epochs(self, lineage: str) -> Iterator[tuple[str, int | None]]:
        yield from self._epochs.items()
        if lineage and self._reader.lineage == lineage:
            for name, state in list(self._reader.states.items()):
                if state.entries:
                    yield name, state.recorded_epoch

    def may_be_missing(self, state: WriterState, lineage: str) -> bool:
        """Whether a file with known entries changed since, by the writer state or by its identity. `lineage` is the last known one."""
        reader = self._reader
        if not state.lineage or state.lineage not in (lineage, reader.lineage):
            return False
        if self.must_compare or reader.vanished:
            return True
        for name, epoch in self._known_epochs(state.lineage):
            known = state.files.get(name)
            status = reader.disk.stat(os.path.join(reader.folder, name))
            if known is None or status is None or known[4] != epoch or known[:4] != identity(status):
                return True
        return False

    def compare(self, lineage: str) -> None:
        """Read the files, and write known entries that another program removed to quarantine."""
        with self._reader.mutex:
            self._reader.catch_up()
            if not self.quarantine_missing(lineage, may_wait=True):
                self._reader.catch_up()
                self.quarantine_missing(lineage, may_wait=False)

    def quarantine_missing(self, lineage: str, *, may_wait: bool) -> bool:
        """Write known entries that are in no file to quarantine. The reader has just caught up, and its mutex is held.

        False if something is missing and another program may still be writing: then the files must be read again.
        """
        reader = self._reader
        known = self._written_entries()
        if reader.vanished_lineage == lineage:
            for name, entries in reader.vanished.items():
                known.setdefault(name, []).extend(entries)
        missing = find_missing(reader, known)
        if missing and may_wait:
            time.sleep(STABLE_SECONDS)
            return False
        self._remove_copies_of_stored()
        self._copies.update(write_missing(reader, missing))
        reader.vanished = {}
        self.forget_written()
        self.must_compare = False
        return True

    def _remove_copies_of_stored(self) -> None:
        """Remove copies of entries that are in the files again: the other program was not finished when they were missing."""
        if self._copies:
            stored = {entry.key for state in self._reader.states.values() for entry in state.entries}
            for path in [path for path, keys in self._copies.items() if keys <= stored]:
                self._reader.disk.remove(path)
                del self._copies[path]

    def _written_entries(self) -> dict[str, list[Entry]]:
        """The entries that this process wrote, by file."""
        entries: dict[str, list[Entry]] = {}
        for name, data in self._parts:
            state = FileState()
            self._reader.decode(name, data, state)
            entries.setdefault(name, []).extend(state.entries)
        return entries


# -- entries without id or time

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


def arrange_files(reader: SessionReader, names: Iterable[str]) -> dict[str, bytes | None]:
    """The new content of files in a form that cannot be appended to. The lock is held and the reader has caught up."""
    contents: dict[str, bytes | None] = {}
    for name in names:
        state = reader.states.get(name)
        if state is None or any(problem.code == "conflict" for problem in state.problems):
            continue
        new = reader.layout.arranged(name, state.end, partial(reader.disk.read, os.path.join(reader.folder, name)))
        if new is not None and _has_same_entries(reader, name, state, new):
            contents[name] = new
    return contents


def _has_same_entries(reader: SessionReader, name: str, state: FileState, content: bytes) -> bool:
    decoded = FileState()
    reader.decode(name, content, decoded)
    return len(decoded.entries) == len(state.entries) and all(
        (entry.op, entry.seq, entry.state) == (other.op, other.seq, other.state) and same(entry.data, other.data)
        for entry, other in zip(decoded.entries, state.entries, strict=True)
    )


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
