"""Is it safely stored? What happens under a session's lock.

    lock → notes → resolve ids → encode → append (one write per file) → notes → sync (the commit point) → unlock

Several batches that wait at once share the syncs. A batch that must be atomic and touches several files goes through
the journal, whose sync is then the commit point. What the notes cannot vouch for is *settled* first: the files are
read, a torn end is set aside in quarantine and cut off, a plan under way is carried out.

Guarantees: a batch is stored whole or refused whole; an error of one batch does not touch the others. When `commit`
returns, each batch without an error is as durable as the setting says.
"""

from __future__ import annotations

import os
import time

from smp_memory.errors import DurabilityUnknown, SMPError, StorageError, from_os_error
from smp_memory.files import quarantine
from smp_memory.files import writer_state as notes_file
from smp_memory.files.disk import TEMPORARY, identity
from smp_memory.files.known_entries import KnownEntries
from smp_memory.files.plan_writer import PlanWriter, StalePlan
from smp_memory.files.reader import FileState
from smp_memory.files.writer_state import WriterState
from smp_memory.model.entry import Entry, transaction_mark
from smp_memory.model.id_allocator import IdAllocator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.files.disk import OpenFile
    from smp_memory.files.lock import SessionLock
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import BatchPort

    Admit = Callable[[int, int], None]  # (bytes there, bytes to come): raises if that is too much

_TRIES = 8
_KEPT_LIMIT = 8 if os.name == "posix" else 0  # Windows cannot replace a file that anybody has open


class SessionWriter(PlanWriter):
    def __init__(
        self,
        reader: SessionReader,
        lock: SessionLock,
        info: Callable[[], SessionInfo | None],
        check: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._disk = reader.disk
        self._layout = reader.layout
        self._lock = lock
        self._info = info
        self._check = check
        self._notes = WriterState()
        self._notes_bytes = b""
        self._files: dict[str, OpenFile] = {}  # those of this commit
        self._kept: dict[str, OpenFile] = {}  # open since an earlier one
        self._stored: list[tuple[BatchPort, dict[str, bytes]]] = []
        self._looked: dict[str, list[int]] = {}  # files that were read under this lock, and what they looked like then
        self._unterminated: set[str] = set()  # of those, the ones whose last line has no end
        self._known = KnownEntries(reader)
        self.completed = []
        self.changes = 0  # grows with every write that this process knows of, its own and others'

    @property
    def numbers(self) -> dict[str, int]:
        """The largest numbers ever given out, by prefix, as the last look under the lock found them."""
        return dict(self._notes.numbers)

    @property
    def seq(self) -> int:
        """The largest number of an entry, likewise."""
        return self._notes.seq

    @property
    def size_bytes(self) -> int:
        """How large the session's files are together, likewise."""
        return self._notes.size

    # -- the write path

    def commit(self, batches: list[BatchPort], sync: bool, timeout_seconds: float, admit: Admit) -> list[str]:
        """Store the batches; errors are left in them. Returns the files written, for those who sync later."""
        by_us = self._lock.acquire(timeout_seconds, self._notes_bytes)
        try:
            notes = self._load_notes(batches[0].operation_name, by_us)
            if notes.warning or notes.suspects or not notes.files:
                self.changes += 1
                self._check()
                self.recover()
            if self._known.must_be_compared:
                self._known.compare(notes.lineage)
            for batch in batches:
                self._attempt(batch, admit)
            if batches[0].is_maintenance and all(batch.is_maintenance for batch in batches):
                for file in self._files.values():
                    self._disk.keep_time(file.path, file.modified_before)
            self._write_notes()
            for file in self._files.values():
                if not file.has_name:
                    self._write_again()
                    break
            if sync and self._sync():
                self._write_notes(created=True)
            self._known.add_all(self._stored, self._notes)
            return list(self._files)
        finally:
            self._put_files_away()
            self._lock.release()

    def _write_again(self) -> None:
        """Another program replaced a file while SMP wrote to it: append to the new one what went into the old one."""
        lost: list[str] = []
        for _ in range(_TRIES):
            lost = [name for name, file in self._files.items() if not file.has_name] or lost
            try:
                for name in lost:
                    self._notes.forget(name)
                    if name in self._files:
                        self._files.pop(name).close()
                if not self._disk.exists(self._reader.private):
                    break
                self.settle()
                for name in lost:
                    parts = [part[name] for batch, part in self._stored if name in part and batch.error is None]
                    file = self._open(name)
                    file.append(self._start_of(name, file) + b"".join(parts))
                    self._unterminated.discard(name)
                self._write_notes()
            except StalePlan:
                continue
            except (OSError, SMPError):
                break
            if all(self._files[name].has_name for name in lost):
                return
        error = DurabilityUnknown(
            f"{', '.join(map(self._path, lost))}: replaced by another program while SMP wrote. It was not acknowledged; do "
            "not count on it.",
            path=self._reader.folder,
        )
        for batch, part in self._stored:
            if not part.keys().isdisjoint(lost):
                batch.error = error

    def _attempt(self, batch: BatchPort, admit: Admit) -> None:
        notes = self._notes
        read_version = batch.read_version
        try:
            for attempt in range(_TRIES):
                session_history = None
                if batch.needs_histories:
                    session_history = (
                        self._reader.session_history if read_version == self.changes else self._reader.catch_up()
                    )
                    if (
                        session_history.names.unsettled or self._reader.has_typed
                    ):  # what is written now may refer to them
                        self.settle()
                        session_history = self._reader.catch_up()
                allocator = IdAllocator(notes.seq, notes.numbers.copy(), session_history)
                try:
                    entries = batch.resolve(allocator)
                    if entries:
                        self._store(batch, self._encoded(batch, entries), admit)
                    else:
                        self._vouch()
                    notes.seq, notes.numbers = allocator.seq, allocator.numbers
                    self.changes += 1
                    return
                except StalePlan:
                    time.sleep(0.001 * attempt)
                    self.settle()
                    read_version = -1
            raise quarantine.being_changed(self._reader.folder)
        except SMPError as error:
            batch.error = error
        except OSError as error:
            batch.error = from_os_error(error, self._reader.folder, batch.operation_name)

    def _vouch(self) -> None:
        """There is nothing to write, so what is there is acknowledged again: whoever wrote it may have died before its sync."""
        for name in self._layout.files(self._disk, self._reader.folder, self._reader.session):
            try:
                self._disk.sync_file(self._path(name))
            except DurabilityUnknown:
                self._distrust(name)
                raise
        self._sync_folders()

    def _store(self, batch: BatchPort, parts: dict[str, bytes], admit: Admit) -> None:
        """Append to each file; if one of them fails, to none."""
        new_bytes = sum(map(len, parts.values()))
        batch.check_room(admit, self._notes.size, new_bytes)
        if batch.atomic and len(parts) > 1:
            self._store_by_journal(batch, parts)
            return
        files = self._files
        for name in parts:  # before the first byte is written, all files are known to be as the notes say
            if name not in files:
                self._open(name)
        self._stored.append((batch, parts))
        written: list[tuple[OpenFile, int]] = []
        try:
            for name, data in parts.items():
                file = files[name]
                size = file.identity[1]
                written.append((file, size))
                file.append(data if size and not self._unterminated else self._start_of(name, file) + data)
        except BaseException:
            self._take_back_appends(written)
            raise
        self._notes.size += new_bytes
        if self._unterminated:
            self._unterminated.difference_update(parts)

    def _take_back_appends(self, written: list[tuple[OpenFile, int]]) -> None:
        failure = None
        for file, size in written:
            try:
                file.cut_back(size)
            except (OSError, StorageError) as error:
                self._notes.forget(os.path.relpath(file.path, self._reader.folder).replace(os.sep, "/"))
                failure = error
        if failure is not None:
            raise failure

    def _encoded(self, batch: BatchPort, entries: list[Entry]) -> dict[str, bytes]:
        """The bytes to append, by file; entries of a transaction are marked as parts of it."""
        layout, session = self._layout, self._reader.session
        if len(entries) == 1:
            name, data = layout.encode(entries[0], session)
            return {name: data}
        if batch.atomic:
            files = {layout.file_of(entry, session) for entry in entries}
            mark = transaction_mark(entries[0].seq, len(entries), len(files))
            for entry in entries:
                entry.tx = mark
        parts: dict[str, list[bytes]] = {}
        for entry in entries:
            name, data = layout.encode(entry, session)
            parts.setdefault(name, []).append(data)
        return {name: b"".join(part) for name, part in parts.items()}

    def _open(self, name: str) -> OpenFile:
        known = self._notes.files.get(name)
        kept = self._kept.pop(name, None)
        if kept is not None:
            if known is not None and kept.still_is(known):
                self._files[name] = kept
                return kept
            kept.close()
        path = self._path(name)
        try:
            file = self._disk.open_append(path, create=known is None)
        except FileNotFoundError:
            if known is not None:  # another program took it away, or is about to replace it
                self._notes.forget(name)
                time.sleep(quarantine.STILL_SECONDS)
                raise StalePlan from None
            self._disk.make_folder(os.path.dirname(path))
            file = self._disk.open_append(path)
        if file.created and self._known.holds(name):  # another program removed it
            file.close()
            raise StalePlan
        if not file.created and file.identity not in (known[:4] if known else None, self._looked.get(name)):
            file.close()
            raise StalePlan
        self._files[name] = file
        return file

    def _start_of(self, name: str, file: OpenFile) -> bytes:
        """What must stand before the next entry: the header of a new file, a line end that a person left out."""
        if file.identity[1] == 0:
            return self._layout.codec_of(name).header(self._layout.title_of(name, self._reader.session))
        return b"\n" if name in self._unterminated else b""

    def _sync(self) -> bool:
        """Returns whether one of them is new: then it is on the disk under its name only now."""
        created = False
        for name, file in self._files.items():
            created = created or file.created
            try:
                file.sync()
            except DurabilityUnknown as error:
                for batch, parts in self._stored:
                    if name in parts:
                        batch.error = error
                self._distrust(name)
                self._write_notes(remember=False)
        return created

    def _distrust(self, name: str) -> None:
        """A sync failed: the file is not synced again, the next writer copies it to a new one first."""
        self._notes.forget(name)
        if name not in self._notes.suspects:
            self._notes.suspects.append(name)

    def distrust(self, names: Iterable[str], timeout_seconds: float) -> None:
        """Note that the disk did not confirm what was written to these files."""
        by_us = self._lock.acquire(timeout_seconds, self._notes_bytes)
        try:
            self._load_notes("noting a failed sync", by_us)
            for name in names:
                self._distrust(name)
            self._write_notes(remember=False)
        finally:
            self._lock.release()

    def append_head(self, name: str, data: bytes) -> None:
        """Append a new head of the session to its log. The lock is held by the caller."""
        for _ in range(_TRIES):
            try:
                file = self._open(name)
                break
            except StalePlan:
                self.settle()
        else:
            raise quarantine.being_changed(self._path(name))
        try:
            file.append(self._start_of(name, file) + data)
            file.sync()
        finally:
            self.close_files()
        self._unterminated.discard(name)
        self._remember_growth(name, file.identity[1])

    def locked(self, doing: str, timeout_seconds: float, work: Callable[[], Any], *, check: bool = True) -> Any:
        """Do something else under the lock, on settled files."""
        by_us = self._lock.acquire(timeout_seconds, self._notes_bytes)
        self.changes += 1
        try:
            self._load_notes(doing, by_us)
            try:
                if check:
                    self._check()
                self.recover()
                return work()
            finally:
                self.close_files()
                self._write_notes()
        finally:
            self._lock.release()

    # -- putting things right

    def recover(self) -> None:
        """Finish what a dead writer left: carry out a committed plan, throw away the rest, replace suspect files."""
        self._reader.journal.recover(self.holds)
        for name in self._notes.suspects:
            quarantine.renew(self._reader, self._path(name), _TRIES)
        self._notes.suspects = []
        self._notes.warning = ""
        folders = {os.path.dirname(self._path(name)) for name in self._reader.states}
        for folder in folders | {self._reader.folder, self._reader.private}:
            for name in self._disk.names(folder):
                if name.endswith(TEMPORARY) and self._is_ours(os.path.join(folder, name)):
                    self._disk.remove(os.path.join(folder, name))
        self.settle()

    def _is_ours(self, path: str) -> bool:
        """In a folder that several sessions share, only this session's leftovers may be touched."""
        shared = not self._layout.info_file and os.path.dirname(path) != self._reader.private
        return not shared or os.path.basename(path).startswith(self._reader.session + ".")

    def settle(self) -> None:
        """Read the files, set torn ends aside, and note what is there."""
        with self._reader.mutex:
            for attempt in range(_TRIES):
                if self._settle(patient=attempt == 0) and not self._complete_typed() and not self._write_names():
                    return
                time.sleep(0.001 * attempt)
        raise quarantine.being_changed(self._reader.folder)

    def _settle(self, *, patient: bool) -> bool:
        """False if a file changed while it was looked at; what was not read as it stands is not vouched for."""
        session_history = self._reader.catch_up()
        info = self._info()
        allocator = IdAllocator(max(self._notes.seq, session_history.seq), self._notes.numbers)
        allocator.raise_to(info.seq if info else 0, session_history.numbers)
        allocator.raise_to(0, info.numbers if info else {})
        self._notes.seq, self._notes.numbers = allocator.seq, allocator.numbers  # first: what follows may fail
        for name, state in self._reader.states.items():
            found = self._disk.stat(self._path(name))
            if found is None or identity(found) != state.identity:
                return False
            if found.st_size > state.end:
                quarantine.cut_torn_end(self._reader, name)
                return False
        for name, state in self._reader.states.items():
            self._remember(name, state)
            if state.unterminated:
                self._unterminated.add(name)
                self._notes.forget(name)  # whoever writes next must see it, too
        if self._reader.states:
            self._sync_folders()
        self._notes.size = sum(known[1] for known in self._notes.files.values() if known) + self._unremembered_bytes()
        lineage = self._notes.lineage
        if not lineage:
            self._start_lineage(os.urandom(6).hex())
        self._reader.lineage = self._notes.lineage  # the states are what the files hold now, under the lock
        return self._known.keep_missing(lineage, patient=patient)

    def keep_missing(self, timeout_seconds: float) -> None:
        """Compare what this process knows with the files before it forgets it; if nothing changed, without the lock."""
        lineage = self._notes.lineage
        if not lineage or not self._known.may_be_missing(self._reader.notes(), lineage):
            return
        by_us = self._lock.acquire(timeout_seconds, self._notes_bytes)
        try:
            notes = self._load_notes("comparing entries", by_us)
            if self._known.may_be_missing(notes, lineage):
                self._known.compare(notes.lineage)
        finally:
            self._lock.release()

    @property
    def knows_entries(self) -> bool:
        """Whether this process wrote to the session, or looked at it under the lock."""
        return bool(self._notes.lineage)

    def forget_known(self) -> None:
        self._known.forget_written()
        self._notes, self._notes_bytes = WriterState(), b""

    def _start_lineage(self, name: str) -> None:
        """Another one begins when SMP itself takes entries out: they must not come back."""
        self._notes.lineage = name
        self._known.forget_written()

    def _sync_folders(self) -> None:
        """A writer that died may not have done so."""
        for folder in sorted(
            {os.path.dirname(self._path(name)) for name in self._reader.states} | {self._reader.folder}
        ):
            self._disk.sync_folder(folder)

    def _unremembered_bytes(self) -> int:
        return sum(state.identity[1] for name, state in self._reader.states.items() if name not in self._notes.files)

    def _remember(self, name: str, state: FileState) -> None:
        """Note what a file looked like when it was read; if that differs from the notes, a new epoch begins."""
        epoch = self._notes.unchanged(name, state.identity)
        if epoch is None:
            epoch = time.time_ns()
        self._notes.remember(name, state.identity, epoch)
        self._looked[name] = state.identity
        state.epoch = state.noted_epoch = epoch

    def _remember_growth(self, name: str, size: int) -> None:
        """Note what a file looks like after an append; if it is not as long as it should be, the next writer looks."""
        known = self._notes.files.get(name)
        try:
            found = self._disk.stat(self._path(name))
        except StorageError:  # what was written is stored all the same
            found = None
        if found is None or found.st_size != size or (known is not None and known[0] != found.st_ino):
            self._notes.forget(name)
            self._looked.pop(name, None)
            return
        now = identity(found)
        self._notes.remember(name, now, known[4] if known else time.time_ns())
        self._looked[name] = now

    # -- notes

    def _load_notes(self, doing: str, by_us: bool) -> WriterState:
        """Read what the last writer knew, if that was not us, and tell others who writes now."""
        self._lock.sign(doing, by_us)
        if self._looked:
            self._looked.clear()
            self._unterminated.clear()
        if not by_us:
            self.changes += 1
            lineage = self._notes.lineage
            self._notes = self._reader.decode_notes(notes_file.read(self._disk, self._lock.descriptor))
            self._known.look_at(self._notes, lineage)
        return self._notes

    def _write_notes(self, *, remember: bool = True, created: bool = False) -> None:
        """Leave notes of what was written. Of a new file only when its folder is synced: until then others must look."""
        notes = self._notes
        for name, file in self._files.items() if remember else ():
            if (created or not file.created) and name not in notes.suspects:
                known, size = notes.files.get(name), file.identity[1]
                try:
                    now = file.look()
                except OSError:
                    now = [0, -1]
                if now[1] != size or not file.has_name:
                    notes.forget(name)  # somebody else wrote to it meanwhile: let the next writer look
                elif known is not None:
                    known[:4] = now
                else:
                    notes.remember(name, now, time.time_ns())
        self._notes_bytes = data = notes.encode()
        notes_file.write(self._disk.system, self._lock.descriptor, data)

    def _put_files_away(self) -> None:
        """Keep the files open for the next commit: opening one costs more than writing to it."""
        self._stored.clear()
        self._kept.update(self._files)
        self._files.clear()
        while len(self._kept) > _KEPT_LIMIT:
            self._kept.pop(next(iter(self._kept))).close()

    def close_files(self) -> None:
        for files in (self._files, self._kept):
            for file in files.values():
                file.close()
            files.clear()
        self._stored.clear()

    def _path(self, name: str) -> str:
        return f"{self._reader.folder}{os.sep}{name}"
