"""Which sessions were written and which memories were used: hints in small files beside the sessions.

The *change table* `.smp/changes` shows which sessions were written since a reader last checked. A store may have thousands of files,
and a stat of each before every answer takes milliseconds. So a writer, before it acknowledges, stores a new value in its session's slot;
a reader compares the whole table with the one it read last. Two sessions may share a slot: then both are checked.
Guarantees: a reader that reads the table before the files misses nothing that was acknowledged before.
Non-guarantees: edits by hand leave the table unchanged, and so does a writer on a full disk; a reader that must know checks the files
themselves. A lost or damaged table costs a check of all files, nothing else.

The *access log* holds lines that readers append when memories are used, without a lock and without a sync:

    1768138200 session-2026-01-11-a1b2c3/DEC-0002

A second log of the same form, `session-uses.log`, holds uses of whole sessions that no entry shows: a session that was started,
imported or restored, or entries written with an earlier time. Its lines name a session alone, and their times are exact
(`1768138200.123456 review`), because the last started session is the one with the latest time.
Guarantees: reading never waits and never fails because of this log; a memory is recorded at most once a minute per process.
Non-guarantees: what was recorded in the last second before a crash may be lost. The log is a hint for decay, nothing else; maintenance
writes it into the session files.
"""

from __future__ import annotations

import os
import time
import zlib

from smp_memory.errors import SMPError, StorageCorrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.disk import Disk
    from smp_memory.files.user_state import UserState
    from smp_memory.model.storage_reports import AppendLog

_SLOTS = 4096
_SLOT_BYTES = 8
_CHECKED_EVERY = 64  # writes after which the table is checked to have its name still
CHANGES = "changes"


def slot_of(session: str) -> int:
    return zlib.crc32(session.encode()) % _SLOTS


class ChangeTable:
    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._system = disk.system
        self._path = os.path.join(folder, CHANGES)
        self._descriptor = -1
        self._value, self._pid = 0, 0
        self._offsets: dict[str, int] = {}

    def mark_changed(self, session: str) -> None:
        """Mark a session as written. A failure here does not fail the write."""
        if self._pid != os.getpid():  # also after a fork: parent and child must not store the same values
            self._value, self._pid = int.from_bytes(os.urandom(7), "little"), os.getpid()
        self._value += 1
        try:
            if self._descriptor < 0 or not self._value % _CHECKED_EVERY:
                self._open(create=True)
            offset = self._offsets.get(session)
            if offset is None:
                offset = self._offsets[session] = slot_of(session) * _SLOT_BYTES
            self._system.pwrite(self._descriptor, self._value.to_bytes(_SLOT_BYTES, "little"), offset)
        except (OSError, SMPError):
            pass

    def read(self) -> bytes:
        """The current table; two equal ones mean that nothing was written between the two reads."""
        try:
            return self._system.pread(self._open(), _SLOTS * _SLOT_BYTES, 0)
        except (OSError, SMPError):
            return b""

    def _open(self, *, create: bool = False) -> int:
        """The descriptor of the table that has its name now; the one that is open may have been removed."""
        if self._descriptor >= 0 and not self._system.fstat(self._descriptor).st_nlink:
            self.close()
        if self._descriptor < 0:
            try:
                self._descriptor, _, _ = self._disk.open_write(self._path, create=create)
            except PermissionError:  # others may write even if we may not
                self._descriptor = self._disk.open_read(self._path)
            except StorageCorrupt:  # a link or a file with a second name: only that name of it is removed
                if not create:
                    raise
                self._disk.remove(self._path)
                self._descriptor, _, _ = self._disk.open_write(self._path, create=True)
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                self._system.close(descriptor)
            except OSError:
                pass

    def __del__(self) -> None:
        """Close the table of a store that was never closed."""
        self.close()


def changed_slots(before: bytes, now: bytes) -> set[int]:
    """The slots in which two tables differ."""
    size = -(-max(len(before), len(now)) // _SLOT_BYTES) * _SLOT_BYTES
    old, new = (memoryview(table.ljust(size, b"\0")).cast("Q") for table in (before, now))
    return {slot for slot in range(len(new)) if old[slot] != new[slot]}


# -- the access log

ACCESSES = "access.log"
SESSION_USES = "session-uses.log"
TOKENS = "tokens.jsonl"  # of clients of a shared server, see `smp_memory.privacy.client_tokens`
_COMPACT_ABOVE_BYTES = 1 << 16
_PAUSE_SECONDS = 60.0
_FLUSH_SECONDS = 1.0
_FLUSH_LINES = 200
_NAME_LIMIT = 20_000


class StateLog:
    """A log in a file of the user's state, an `AppendLog`."""

    def __init__(self, state: UserState, name: str) -> None:
        self._state, self._name = state, name
        self.path = state.path(name)

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        self._state.append(self._name, b"".join(line + b"\n" for line in lines), durable=sync)

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        try:
            data = self._state.disk.read(self.path, offset)
        except FileNotFoundError:
            return [], offset
        end = data.rfind(b"\n") + 1
        return data[:end].splitlines(), offset + end

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        rest = self._state.disk.read(self.path, offset)
        self._state.disk.replace(self.path, b"".join(line + b"\n" for line in lines) + rest)

    def size_bytes(self) -> int:
        status = self._state.disk.stat(self.path)
        return 0 if status is None else status.st_size

    def problems(self) -> list[str]:
        return []


class AccessLog:
    """Accesses to memories, or uses of sessions, by name. A hint: losing a part of it is no error."""

    def __init__(self, log: AppendLog, *, exact: bool = False) -> None:
        """`exact`: times are recorded with fractions of a second."""
        self._log = log
        self._exact = exact
        self.path = log.path
        self._last_recorded: dict[str, float] = {}
        self._lines: list[tuple[str, float]] = []
        self._flushed = 0.0

    def record(self, names: Iterable[str], at_seconds: float) -> None:
        """Record that these memories (`session/ID`) were used."""
        for name in names:
            last = self._last_recorded.get(name)
            if last is None or at_seconds - last >= _PAUSE_SECONDS:
                if len(self._last_recorded) >= _NAME_LIMIT:
                    self._last_recorded.clear()
                self._last_recorded[name] = at_seconds
                self._lines.append((name, at_seconds if self._exact else int(at_seconds)))
        now = time.monotonic()
        if len(self._lines) >= _FLUSH_LINES or (self._lines and now - self._flushed >= _FLUSH_SECONDS):
            self._flushed = now
            self.flush()

    def flush(self) -> None:
        """Write what is still in this process."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            self._log.append(_encode(lines))
        except (OSError, SMPError):
            pass  # a full or read-only disk

    def read(self, offset: int) -> tuple[list[tuple[str, float]], int]:
        """The uses recorded after an offset, and the next offset."""
        try:
            lines, end = self._log.read(offset)
        except (OSError, SMPError):
            return [], offset
        uses: list[tuple[str, float]] = []
        for line in lines:
            seconds, _, name = line.decode(errors="replace").partition(" ")
            whole, _, part = seconds.partition(".")
            if (
                whole.isascii()
                and whole.isdigit()
                and len(whole) < 13
                and (not part or (part.isascii() and part.isdigit()))
            ):
                uses.append((name, float(seconds) if part else int(whole)))
        return uses, end

    def pending(self) -> list[tuple[str, float]]:
        """The uses that this process has not written into the log yet."""
        return self._lines

    def last_uses(self) -> dict[str, float]:
        """The time of the last use of each name, in seconds, by this process and by others."""
        last: dict[str, float] = {}
        for name, seconds in (*self.read(0)[0], *self.pending()):
            last[name] = max(seconds, last.get(name, 0))
        return last

    def compact(self) -> None:
        """Keep only the last use of each name, if the log is large."""
        if self.size_bytes() > _COMPACT_ABOVE_BYTES:
            end, uses = self.read(0)[1], self.last_uses()
            self._lines = []
            self._replace_before(end, _encode(uses.items()))

    def remove_before(self, until: int) -> None:
        """Remove the lines before an offset, after they were counted."""
        self._replace_before(until, [])

    def _replace_before(self, offset: int, lines: list[bytes]) -> None:
        try:
            self._log.replace_before(offset, lines)
        except (OSError, SMPError):
            pass  # a full or read-only disk: the next maintenance does it

    def size_bytes(self) -> int:
        return self._log.size_bytes()


def _encode(uses: Iterable[tuple[str, float]]) -> list[bytes]:
    return [f"{seconds if isinstance(seconds, int) else f'{seconds:.6f}'} {name}".encode() for name, seconds in uses]
