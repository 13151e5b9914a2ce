"""Changes of several files of a session at once: transactions, and rewrites of whole files, by a plan in the journal.

The part of `smp_memory.files.writer` that needs a plan. A transaction whose plan is committed is stored; one that fails
before is taken back. A rewrite is refused if another program has changed a file since it was read: before the plan is
committed, and once more behind that, when the plan is withdrawn. What changes later is set aside (`smp_memory.files.journal`).
"""

from __future__ import annotations

import os

from smp_memory.errors import DurabilityUnknown, StorageError, StorageFull
from smp_memory.files import quarantine, typed_entries
from smp_memory.files import writer_state as notes_file
from smp_memory.files.disk import TEMPORARY, identity
from smp_memory.files.journal import Plan, is_part
from smp_memory.files.reader import FileState
from smp_memory.files.sha256 import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.disk import Disk, OpenFile
    from smp_memory.files.lock import SessionLock
    from smp_memory.files.reader import SessionReader
    from smp_memory.files.writer_state import WriterState
    from smp_memory.store.port import BatchPort


class StalePlan(Exception):
    """A file does not look as the notes say."""


class PlanWriter:
    _reader: SessionReader
    _disk: Disk
    _lock: SessionLock
    _notes: WriterState
    _notes_bytes: bytes
    _files: dict[str, OpenFile]
    _stored: list[tuple[BatchPort, dict[str, bytes]]]
    _unterminated: set[str]
    completed: list[str]  # what was done to typed entries, for the report of a repair

    if TYPE_CHECKING:

        def _open(self, name: str) -> OpenFile: ...
        def _start_of(self, name: str, file: OpenFile) -> bytes: ...
        def _sync(self) -> bool: ...
        def _distrust(self, name: str) -> None: ...
        def _path(self, name: str) -> str: ...
        def _remember_growth(self, name: str, size: int) -> None: ...
        def _start_lineage(self, name: str) -> None: ...
        def close_files(self) -> None: ...

    def _write_names(self) -> bool:
        """Make the ids permanent under which memories are shown whose id was given out twice; False if all are."""
        renames = self._reader.session_history.renames(self._notes.seq)
        parts: dict[str, bytes] = {}
        for entry in renames:
            name, data = self._reader.layout.encode(entry, self._reader.session)
            parts[name] = parts.get(name, b"") + data
            self._notes.seq = entry.seq
        for name, data in parts.items():
            try:
                file = self._files.get(name) or self._open(name)
            except StalePlan:
                return True  # another program changed it since it was settled: look again
            file.append(self._start_of(name, file) + data)
            file.sync()
            self._notes.size += len(data)
            self._unterminated.discard(name)
            self._remember_growth(name, file.identity[1])
        return bool(renames)

    def _store_by_journal(self, batch: BatchPort, parts: dict[str, bytes]) -> None:
        self._sync()  # what the plan's offsets rest on
        if self._notes.suspects:
            raise StorageError(
                "The disk does not confirm writes; the transaction was not begun.", path=self._reader.folder
            )
        plan = Plan()
        for name, data in parts.items():
            file = self._files.get(name) or self._open(name)
            plan.appends.append((name, file.identity[1], self._start_of(name, file) + data))
        self.close_files()
        self._warn("plan")
        try:
            self._reader.journal.commit(plan)
            self._reader.journal.carry_out(plan, self.holds)
        except (OSError, StorageError) as error:
            self._roll_back(plan, error)
        self._clear_journal()
        for name, offset, data in plan.appends:
            self._unterminated.discard(name)
            self._notes.size += len(data)
            self._remember_growth(name, offset + len(data))
        self._stored.append((batch, parts))

    def _roll_back(self, plan: Plan, error: OSError | StorageError) -> None:
        """The plan cannot be written or carried out (the disk is full): take it back, or say that it may still come."""
        try:
            for name, offset, data in plan.appends:
                if not self._take_out(self._path(name), offset, data):
                    raise self._yet_to_come(error) from error
            self._reader.journal.clear()
        except (OSError, StorageError):
            raise self._yet_to_come(error) from error
        self._notes.warning = ""
        self._notes.forget_all()  # the files were touched; let the next writer look
        raise error

    def _take_out(self, path: str, offset: int, data: bytes) -> bool:
        """Cut off what a plan has appended; False if it stands there with something that another program wrote."""
        try:
            there = self._disk.read(path, offset)
        except FileNotFoundError:
            return True
        if there and is_part(there, data):
            return self._disk.cut(path, offset, there)
        return not there or data not in there

    def holds(self, name: str, data: bytes) -> bool:
        """Whether these entries are already in a file, wherever a person may have moved them."""
        wanted, there = FileState(), FileState()
        self._reader.decode(name, data, wanted)
        if self._disk.exists(self._path(name)):
            self._reader.decode(name, self._disk.read(self._path(name)), there)
        return {entry.seq for entry in wanted.entries} <= {entry.seq for entry in there.entries}

    def rewrite(self, contents: dict[str, bytes | None]) -> dict[str, list[int]]:
        """Replace whole files together; None removes one. The lock is held by the caller. Returns what the new look like.

        What the new ones are made of was read under this lock; if a file has changed since, nothing is done.
        """
        plan = Plan()
        folders = set()
        identities: dict[str, list[int]] = {}
        written = max((state.identity[2] for state in self._reader.states.values()), default=0)
        for name, data in contents.items():
            path = self._path(name)
            if data is None:
                plan.removes.append(name)
                continue
            identities[name] = self._disk.write_beside(path, data, written)
            folders.add(os.path.dirname(path))
            plan.moves.append((name + TEMPORARY, name))
        for folder in sorted(folders):
            self._disk.sync_folder(folder)
        self._start_lineage("")
        self._warn("plan")
        plan.before = self._digests(contents)
        self._refuse_if_changed(contents)
        try:
            self._reader.journal.commit(plan)
            self._refuse_if_changed(contents)  # the commit took time: nothing is moved yet
        except (OSError, StorageError) as error:
            self._take_back(error)
            raise
        try:
            self._reader.journal.carry_out(plan, self.holds)
        except (OSError, StorageError) as error:
            self._notes.forget_all()
            raise self._yet_to_come(error) from error
        self._clear_journal()
        for name in contents:
            self._notes.forget(name)
        return identities

    def _complete_typed(self) -> bool:
        """Write ids and times into entries that a person typed without them; False if there is nothing to do."""
        if not self._reader.has_typed:
            return False
        contents, done = typed_entries.completed(self._reader, leave=self._files)
        if not contents:
            return False
        try:
            self.rewrite(contents)
        except quarantine.FileChangedUnderneath:
            return True  # look again
        self.completed += done
        return True

    def _digests(self, names: Iterable[str]) -> dict[str, str]:
        """What the files that people may edit hold, durably: a file that is another one after a crash was changed."""
        found: dict[str, str] = {}
        for name in names:
            path = self._path(name)
            if not self._disk.exists(path):
                found[name] = ""
            elif name in self._reader.states or name == self._reader.layout.info_file:
                try:
                    self._disk.sync_file(path)
                except DurabilityUnknown:
                    self._distrust(name)
                    raise
                found[name] = sha256_hex(self._disk.read(path))
        return found

    def _refuse_if_changed(self, names: Iterable[str]) -> None:
        for name in names:
            state = self._reader.states.get(name)
            found = self._disk.stat(self._path(name)) if state is not None else None
            if state is not None and (found is None or identity(found)[:3] != state.identity[:3]):
                raise quarantine.being_changed(self._path(name))

    def _take_back(self, error: OSError | StorageError) -> None:
        """A plan could not be committed: nobody may find it, or it must be said that it may still come."""
        try:
            self._reader.journal.clear()
        except OSError:
            raise self._yet_to_come(error) from error
        self._notes.warning = ""

    def _yet_to_come(self, error: OSError | StorageError) -> DurabilityUnknown:
        return DurabilityUnknown(
            f"A transaction was committed but not yet carried out ({error}). The next write or read completes it.",
            path=self._reader.journal.path,
        )

    def _clear_journal(self) -> None:
        try:
            self._reader.journal.clear()
            self._notes.warning = ""
        except OSError:
            pass  # it is done; the next writer heeds the warning, finds it done and clears it

    def end_lineage(self, descriptor: int) -> None:
        """Note that entries may go by SMP's own hand from now on. The descriptor is that of the lock, held by the caller."""
        notes = self._reader.decode_notes(notes_file.read(self._disk, descriptor))
        if notes.lineage:
            notes.lineage = ""
            notes_file.write(self._disk.system, descriptor, notes.encode())

    def warn_of_conversion(self) -> None:
        """From now on no writer begins before it has looked whether this is still the store it opened."""
        self._start_lineage("")
        self._warn("converting")

    def _warn(self, warning: str) -> None:
        """Before anything happens that a later writer must know of; without the warning it must not happen."""
        self._notes.warning = warning
        data = self._notes.encode()
        self._notes_bytes = data
        if not notes_file.write(self._disk.system, self._lock.descriptor, data):
            raise StorageFull(
                f"No room left for the notes in {self._reader.private}. Nothing was written.", path=self._reader.private
            )
