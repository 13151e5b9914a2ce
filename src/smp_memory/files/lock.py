"""Exclusive lock of a session, held by the kernel for one process and released when the process dies, and the writer state beside it.

Two lock files: a writer first takes `queue`, then waits for `lock`, then releases `queue`. So only the first in line competes with
the holder, and nobody starves (measured: with plain polling one of eight writers got one write in four seconds). A writer that had its
turn may lock again for nearly two milliseconds without queueing; that saves most writers three system calls. The lock files are never
removed or replaced: two processes could otherwise hold "the" lock.
Non-guarantees: network file systems (their locks differ); fairness between threads is up to `store.durability`.

The file `lock` also names its holder for people and carries, behind the name, the *writer state*: which numbers are taken, and the
identity of each file after the last write. A file with the same identity was touched by nobody else, its last entry is complete, and it
only grew since an earlier state of the same *epoch*. So a writer need not read a session to append to it, and a reader need only read
what is new.

The writer state is a cache: missing, damaged or from before a reboot it is ignored and the files are read instead; only the numbers
still count, because numbers may be skipped but never used twice. It comes from a file that anybody may have written: a wrong type, a
number out of range or a name that is not one of the layout's files makes it damaged.

The *lineage* is a random name that holds until SMP itself removes entries from the files (repair, purge, erasure, compaction,
conversion). An entry that is missing while the lineage is the same was removed by another program.
"""

from __future__ import annotations

import json
import os
import time
import zlib

from smp_memory.errors import LockTimeout, SMPError, StorageCorrupt, from_os_error
from smp_memory.files.codec import to_json
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.system import System

HOLDER_BYTES = 256
_SPIN_SECONDS = 0.002
_TURN_SECONDS = 0.0018  # less than the first in line spins for
_PAUSES_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005)


class SessionLock:
    """The lock of one session in this process. Not for two threads at once; the commit queue ensures that."""

    def __init__(
        self, disk: Disk, folder: str, name: str, session: str | None = None, slow_seconds: float = 1.0
    ) -> None:
        self._disk = disk
        self._system = disk.system
        self._folder = folder
        self._path = os.path.join(folder, "lock")
        self._name = name
        self._session = session
        self._slow_seconds = slow_seconds  # a longer wait is logged
        self.descriptor = -1
        self._queue = -1
        self._inode = 0
        self._turn_ends = 0.0
        self._pid = 0
        self._host = ""
        self._signed = (0, "")
        self._label = b""

    def acquire(self, timeout_seconds: float, state: bytes = b"") -> bool:
        """Acquire the lock, or raise LockTimeout that names its holder. True if nobody held it since this process stored `state`.

        After any error the lock is not held and can be acquired again.
        """
        now = time.monotonic()
        try:
            if now < self._turn_ends and self._system.lock(self.descriptor):
                if state and self._is_unchanged(state):  # so nobody has moved the session either
                    return True
                if self._is_in_place():
                    return False
                self.close()
            while True:
                self._queue_up(now + timeout_seconds, timeout_seconds)
                if self._is_in_place():
                    return bool(state) and self._is_unchanged(state)
                self.close()  # the session was moved meanwhile: this is another session's lock, or nobody's
        except LockTimeout:
            raise
        except FileNotFoundError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise from_os_error(error, self._path, "locking") from error
        except BaseException:
            self.close()
            raise

    def _queue_up(self, deadline: float, timeout_seconds: float) -> None:
        system = self._system
        if self.descriptor < 0:
            self._open()
        if not system.lock(self._queue):
            self._wait(self._queue, deadline, timeout_seconds)
        try:
            if not system.lock(self.descriptor):
                self._wait(self.descriptor, deadline, timeout_seconds)
        finally:
            system.unlock(self._queue)
        self._turn_ends = time.monotonic() + _TURN_SECONDS

    def _is_unchanged(self, state: bytes) -> bool:
        """Whether the lock file still holds this process's label and state. Every holder writes its own label."""
        return self._system.pread(self.descriptor, HOLDER_BYTES + len(state), 0) == self._label + state

    def _is_in_place(self) -> bool:
        try:
            return bool(self._system.lstat(self._path).st_ino == self._inode)
        except FileNotFoundError:
            return False

    def release(self) -> None:
        if self.descriptor >= 0:
            try:
                self._system.unlock(self.descriptor)
            except OSError:
                self.close()  # which releases it too

    def close(self) -> None:
        descriptors = (self.descriptor, self._queue)
        self.descriptor = self._queue = -1
        self._turn_ends = 0.0
        for descriptor in descriptors:
            if descriptor >= 0:
                try:
                    self._system.close(descriptor)
                except OSError:
                    pass

    def _open(self) -> None:
        self._pid = os.getpid()
        if self._disk.exists(self._folder) and not self._disk.is_folder(self._folder):
            raise StorageCorrupt(
                f"{self._folder} is a link or a file, not a folder; SMP does not lock in it.", path=self._folder
            )
        self.descriptor, self._inode = self._open_file(self._path)
        self._queue, _ = self._open_file(os.path.join(self._folder, "queue"))

    def _open_file(self, path: str) -> tuple[int, int]:
        """Open or create a lock file; its descriptor and inode."""
        descriptor, status, _ = self._disk.open_write(path, create=True)
        return descriptor, status.st_ino

    def _wait(self, descriptor: int, deadline: float, timeout_seconds: float) -> None:
        """Wait for a lock: spin briefly, because the holder waits for the disk, then sleep with growing pauses."""
        began = time.monotonic()
        spin_until = began + _SPIN_SECONDS if descriptor == self.descriptor else 0.0
        pauses = 0
        while not self._system.lock(descriptor):
            now = time.monotonic()
            if now >= deadline:
                _count_wait("timeout", now - began)
                error = self._timeout(timeout_seconds)
                telemetry.emit(
                    "lock",
                    telemetry.WARNING if timeout_seconds else telemetry.DEBUG,  # who does not wait expects it
                    "lock_timeout",
                    error.message,
                    self._session,
                    duration_ms=round((now - began) * 1000),
                )
                raise error
            if now < spin_until:
                self._system.yield_cpu()
            else:
                time.sleep(min(_PAUSES_SECONDS[min(pauses, len(_PAUSES_SECONDS) - 1)], max(deadline - now, 0.0)))
                pauses += 1
        waited = time.monotonic() - began
        _count_wait("acquired", waited)
        if waited >= self._slow_seconds:
            text = f"Waited {waited:.1f} s for the lock of {self._name}."
            telemetry.emit(
                "lock", telemetry.WARNING, "lock_wait", text, self._session, duration_ms=round(waited * 1000)
            )

    def _timeout(self, timeout_seconds: float) -> LockTimeout:
        holder = self.holder()
        return LockTimeout(
            f"Could not lock {self._name} within {timeout_seconds:g} s: {holder or 'another process'} holds it. "
            "Nothing was written; try again, or raise concurrency.lock_timeout_ms.",
            session=self._session,
            path=self._path,
            holder=holder,
            limit=timeout_seconds,
        )

    def holder(self) -> str:
        """A description of the last holder; only meaningful while the lock is held."""
        try:
            text = self._disk.read(self._path, 0, HOLDER_BYTES)
        except (OSError, SMPError):
            return ""
        return text.decode(errors="replace").strip("\0 \n")

    def sign(self, operation: str, is_unchanged: bool = False) -> None:
        """Write the holder's label for people. Skipped if the lock file still holds the same label."""
        second = int(time.time())
        if is_unchanged and self._signed == (second, operation):
            return
        self._signed = (second, operation)
        if not self._host:
            self._host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "this machine")
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        text = f"process {self._pid} on {self._host[:80]} since {since}, {operation}"
        self._label = text.encode()[: HOLDER_BYTES - 1].ljust(HOLDER_BYTES - 1) + b"\n"
        try:
            self._system.pwrite(self.descriptor, self._label, 0)
        except OSError:
            pass  # a full disk: the lock is held nevertheless, only its label is missing


def _count_wait(outcome: str, seconds: float) -> None:
    telemetry.LOCK_CONTENTION.add((outcome,))
    telemetry.LOCK_SECONDS.observe((outcome,), seconds)


# -- the writer state

_FILE_LIMIT = 12
STATE_LIMIT_BYTES = 4096
_COUNT_LIMIT = 10**12  # a larger number is damage
_STAT_LIMIT = 1 << 64  # of an inode, a size or a time in nanoseconds
_TEXT_LIMIT = 200


class WriterState:
    __slots__ = ("boot", "files", "lineage", "numbers", "seq", "size", "suspects", "warning")

    def __init__(self) -> None:
        self.boot = ""
        self.seq = 0
        self.size = 0  # bytes of all files together
        self.numbers: dict[str, int] = {}
        self.files: dict[str, list[int]] = {}  # name -> identity (4 numbers) + epoch
        self.suspects: list[str] = []  # files whose last sync failed
        self.lineage = ""  # empty: unknown, or SMP is removing entries
        self.warning = ""  # why the next writer must check before it writes: a "plan" under way, the store "converting"

    def remember(self, name: str, identity: list[int], epoch: int) -> None:
        files = self.files
        if name not in files and len(files) >= _FILE_LIMIT:
            self.forget(next(iter(files)))
        files[name] = [*identity, epoch]

    def forget(self, name: str) -> None:
        self.files.pop(name, None)

    def forget_all(self) -> None:
        self.files.clear()

    def unchanged(self, name: str, identity: list[int]) -> int | None:
        """The epoch of a file that has the identity recorded after the last write; None if it has another."""
        known = self.files.get(name)
        return known[4] if known is not None and known[:4] == identity else None

    def epoch(self, name: str) -> int | None:
        known = self.files.get(name)
        return known[4] if known is not None else None

    def encode(self) -> bytes:
        """One line of JSON behind its checksum."""
        values = [self.boot, self.seq, self.size, self.warning, self.numbers, self.suspects, self.files, self.lineage]
        text = to_json(values).encode()
        return b"%08x %b\n" % (zlib.crc32(text), text)


def decode_state(data: bytes, boot: str, is_session_file: Callable[[str], bool]) -> WriterState:
    """The writer state from the bytes behind the holder's name; an empty one if they cannot be trusted."""
    state = WriterState()
    state.boot = boot
    line = data.partition(b"\n")[0]
    try:
        if len(line) < 10 or int(line[:8], 16) != zlib.crc32(line[9:]):
            return state
        written_boot, seq, size, warning, numbers, suspects, files, *more = json.loads(line[9:])
        lineage = more[0] if more else ""
        is_valid = (
            type(written_boot) is type(warning) is type(lineage) is str
            and len(written_boot) + len(warning) + len(lineage) <= _TEXT_LIMIT
            and _are_counts(seq, size, *numbers.values())
            and type(suspects) is list
            and all(map(is_session_file, suspects))
            and all(map(is_session_file, files))
            and all(_is_file_record(*known) for known in files.values())
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return state
    if not is_valid:
        return state
    state.seq, state.size, state.warning, state.numbers, state.suspects = seq, size, warning, numbers, suspects
    state.lineage = lineage
    if written_boot == boot and len(files) <= _FILE_LIMIT:
        state.files = files
    return state


def _are_counts(*values: Any) -> bool:
    return all(type(value) is int and 0 <= value <= _COUNT_LIMIT for value in values)


def _is_file_record(inode: Any, size: Any, modified: Any, changed: Any, epoch: Any) -> bool:
    """Whether this is a valid identity and epoch of a file; its times may be before 1970."""
    return (
        type(inode) is type(size) is type(modified) is type(changed) is type(epoch) is int
        and 0 <= inode <= _STAT_LIMIT
        and 0 <= size <= _STAT_LIMIT
        and -_STAT_LIMIT <= modified <= _STAT_LIMIT
        and -_STAT_LIMIT <= changed <= _STAT_LIMIT
        and 0 <= epoch <= _STAT_LIMIT
    )


def read_state(disk: Disk, descriptor: int) -> bytes:
    return disk.read_open(descriptor, HOLDER_BYTES, STATE_LIMIT_BYTES)


def write_state(system: System, descriptor: int, data: bytes) -> bool:
    """Store the state; False if the disk is full. Then the next writer reads the files instead."""
    try:
        done = system.pwrite(descriptor, data, HOLDER_BYTES)
        while done < len(data):
            done += system.pwrite(descriptor, data[done:], HOLDER_BYTES + done)
    except OSError:
        return False
    return True
