"""Change several files of a session together by a plan in the journal: transactions, and rewrites of whole files.

The part of `smp_memory.files.writer` that needs a plan. A transaction whose plan is committed is stored; one that fails before is
rolled back. A rewrite is refused if another program has changed a file since it was read: before the plan is committed, and once
more after that, when the plan is withdrawn. A version that appears later is copied to quarantine (`smp_memory.files.journal`).
"""

from __future__ import annotations

import os

from smp_memory.errors import DurabilityUnknown, StorageError, StorageFull
from smp_memory.files import incomplete_entries, quarantine, writer_state
from smp_memory.files.disk import TEMPORARY, identity
from smp_memory.files.file_state import FileState
from smp_memory.files.journal import Plan, is_part
from smp_memory.files.locked_files import LockedFiles, StaleFile
from smp_memory.files.sha256 import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.store.port import BatchPort


class PlanWriter(LockedFiles):
    """Writes that need a plan."""

    def _write_renames(self) -> bool:
        """Store the ids under which memories are shown whose id was given out twice; False if there is nothing to do."""
        renames = self._reader.session_history.renames(self._writer_state.seq)
        parts: dict[str, bytes] = {}
        for entry in renames:
            name, data = self._reader.layout.encode(entry, self._reader.session)
            parts[name] = parts.get(name, b"") + data
            self._writer_state.seq = entry.seq
        for name, data in parts.items():
            try:
                file = self._files.get(name) or self._open(name)
            except StaleFile:
                return True  # another program changed it since it was reconciled: read it again
            file.append(self._prefix_of(name, file) + data)
            file.sync()
            self._writer_state.size += len(data)
            self._unterminated.discard(name)
            self._record_growth(name, file.identity[1])
        return bool(renames)

    def _store_by_journal(self, batch: BatchPort, parts: dict[str, bytes]) -> None:
        self._sync()  # the plan's offsets rely on it
        if self._writer_state.suspects:
            raise StorageError(
                "The disk does not confirm writes; the transaction was not started.", path=self._reader.folder
            )
        plan = Plan()
        for name, data in parts.items():
            file = self._files.get(name) or self._open(name)
            plan.appends.append((name, file.identity[1], self._prefix_of(name, file) + data))
        self.close_files()
        self._set_warning("plan")
        try:
            self._reader.journal.commit(plan)
            self._reader.journal.apply(plan, self.contains_entries)
        except (OSError, StorageError) as error:
            self._roll_back(plan, error)
        self._clear_journal()
        for name, offset, data in plan.appends:
            self._unterminated.discard(name)
            self._writer_state.size += len(data)
            self._record_growth(name, offset + len(data))
        self._stored.append((batch, parts))

    def _roll_back(self, plan: Plan, error: OSError | StorageError) -> None:
        """The plan cannot be written or applied (the disk is full): undo it, or raise that it may still be completed."""
        try:
            for name, offset, data in plan.appends:
                if not self._remove_appended(self._path(name), offset, data):
                    raise self._unfinished_plan(error) from error
            self._reader.journal.clear()
        except (OSError, StorageError):
            raise self._unfinished_plan(error) from error
        self._writer_state.warning = ""
        self._writer_state.forget_all()  # the files were touched: the next writer reads them
        raise error

    def _remove_appended(self, path: str, offset: int, data: bytes) -> bool:
        """Cut off what a plan has appended; False if another program wrote behind it."""
        try:
            appended = self._disk.read(path, offset)
        except FileNotFoundError:
            return True
        if appended and is_part(appended, data):
            return self._disk.truncate_tail(path, offset, appended)
        return not appended or data not in appended

    def contains_entries(self, name: str, data: bytes) -> bool:
        """Whether a file already contains these entries, wherever a person may have moved them."""
        expected, stored = FileState(), FileState()
        self._reader.decode(name, data, expected)
        if self._disk.exists(self._path(name)):
            self._reader.decode(name, self._disk.read(self._path(name)), stored)
        return {entry.seq for entry in expected.entries} <= {entry.seq for entry in stored.entries}

    def rewrite(self, contents: dict[str, bytes | None]) -> dict[str, list[int]]:
        """Replace whole files together; None removes one. Returns the identities of the new files.

        The lock is held by the caller, who made the new contents from what was read under it; if a file has changed since, nothing
        is done.
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
            identities[name] = self._disk.write_replacement(path, data, written)
            folders.add(os.path.dirname(path))
            plan.moves.append((name + TEMPORARY, name))
        for folder in sorted(folders):
            self._disk.sync_folder(folder)
        self._start_lineage("")
        self._set_warning("plan")
        plan.before = self._digests(contents)
        self._refuse_if_changed(contents)
        try:
            self._reader.journal.commit(plan)
            self._refuse_if_changed(contents)  # the commit took time, and nothing is moved yet
        except (OSError, StorageError) as error:
            self._withdraw_plan(error)
            raise
        try:
            self._reader.journal.apply(plan, self.contains_entries)
        except (OSError, StorageError) as error:
            self._writer_state.forget_all()
            raise self._unfinished_plan(error) from error
        self._clear_journal()
        for name in contents:
            self._writer_state.forget(name)
        return identities

    def _complete_entries(self) -> bool:
        """Write ids and times into entries that a person wrote without them; False if there is nothing to do."""
        if not self._reader.has_incomplete:
            return False
        contents, done = incomplete_entries.complete_files(self._reader, skip=self._files)
        if not contents:
            return False
        try:
            self.rewrite(contents)
        except quarantine.ConcurrentFileChange:
            return True  # read again
        self.completed += done
        return True

    def _digests(self, names: Iterable[str]) -> dict[str, str]:
        """Digests of the files that people may edit, synced first: a file with another digest after a crash was changed."""
        digests: dict[str, str] = {}
        for name in names:
            path = self._path(name)
            if not self._disk.exists(path):
                digests[name] = ""
            elif name in self._reader.states or name == self._reader.layout.info_file:
                try:
                    self._disk.sync_file(path)
                except DurabilityUnknown:
                    self._mark_suspect(name)
                    raise
                digests[name] = sha256_hex(self._disk.read(path))
        return digests

    def _refuse_if_changed(self, names: Iterable[str]) -> None:
        for name in names:
            state = self._reader.states.get(name)
            status = self._disk.stat(self._path(name)) if state is not None else None
            if state is not None and (status is None or identity(status)[:3] != state.identity[:3]):
                raise quarantine.concurrent_change(self._path(name))

    def _withdraw_plan(self, error: OSError | StorageError) -> None:
        """Remove a plan that could not be committed; if that fails, raise that it may still be completed."""
        try:
            self._reader.journal.clear()
        except OSError:
            raise self._unfinished_plan(error) from error
        self._writer_state.warning = ""

    def _unfinished_plan(self, error: OSError | StorageError) -> DurabilityUnknown:
        return DurabilityUnknown(
            f"A transaction was committed but not yet applied ({error}). The next write or read completes it.",
            path=self._reader.journal.path,
        )

    def _clear_journal(self) -> None:
        try:
            self._reader.journal.clear()
            self._writer_state.warning = ""
        except OSError:
            pass  # the plan is applied; the next writer sees the warning, finds it applied and clears it

    def end_lineage(self, descriptor: int) -> None:
        """Record that SMP may remove entries from now on. The descriptor is that of the lock, held by the caller."""
        state = self._reader.decode_writer_state(writer_state.read(self._disk, descriptor))
        if state.lineage:
            state.lineage = ""
            writer_state.write(self._disk.system, descriptor, state.encode())

    def mark_converting(self) -> None:
        """Make every later writer check first whether this is still the store that it opened."""
        self._start_lineage("")
        self._set_warning("converting")

    def _set_warning(self, warning: str) -> None:
        """Store a warning for the next writer, before the change that it warns of; without it the change must not happen."""
        self._writer_state.warning = warning
        data = self._writer_state.encode()
        self._writer_state_bytes = data
        if not writer_state.write(self._disk.system, self._lock.descriptor, data):
            raise StorageFull(
                f"No space left for the writer state in {self._reader.private}. Nothing was written.",
                path=self._reader.private,
            )
