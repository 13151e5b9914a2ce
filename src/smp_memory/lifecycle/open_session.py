"""An open session: its backend, settings, author and clock. It commits operations.

A commit that finds the session archived restores it; one that exceeds the quota waits for one compaction. Notices for the caller
are added to the records: warnings, redactions, how full the session is.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakSet

from smp_memory.config.settings import REMOVE, WRITE
from smp_memory.errors import SessionArchived, SessionCorrupt, SizeLimitExceeded, SMPError, StorageCorrupt
from smp_memory.model.history import COLD
from smp_memory.model.times import to_text
from smp_memory.observe import telemetry
from smp_memory.observe.incomplete import report_settings
from smp_memory.observe.telemetry import observe, write_operation
from smp_memory.privacy.settings import session_settings
from smp_memory.scope import Scope
from smp_memory.write.operations import Batch, Delete
from smp_memory.write.validation import optional_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any, Generic, TypeVar

    from smp_memory.config.settings import Config
    from smp_memory.model.record import Record
    from smp_memory.model.storage_reports import RecordedDeletion
    from smp_memory.privacy.redaction import Redactor
    from smp_memory.store.port import SessionStore, Store
    from smp_memory.write.operations import Operation

    T = TypeVar("T")
else:  # `typing` takes a new process 5 ms to load

    class Generic:
        def __class_getitem__(cls, _: object) -> type:
            return object

    T = None


_holders: WeakKeyDictionary[Store, dict[str, WeakSet[object]]] = WeakKeyDictionary()
_WARNED = "warned_percent"  # in the notes of a session: the share of the quota that was logged last
_notes: WeakKeyDictionary[SessionStore, dict[str, Any]] = WeakKeyDictionary()


class _Once(Generic[T]):
    """An attribute that is computed when it is first read. No lock: a fork must not find one taken."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, kind: type) -> T:
        if owner is None:
            raise AttributeError(self._name)
        value = self._compute(owner)
        setattr(owner, self._name, value)
        return value


def open_session(scope: Scope, id: str, author: str | None = None, *, restore: bool = True) -> OpenSession:
    """Open a session of the scope's store. One that is archived is restored first, or raises SessionArchived."""
    author = author or scope.author
    try:
        opened = OpenSession(scope, scope.store.session(id), author)
        opened.hide_recorded_deletions()
        return opened
    except SessionArchived:
        if not restore:
            raise
        from smp_memory.lifecycle.sessions import restore_for_use

        warning = restore_for_use(scope, id, author)
        opened = OpenSession(scope, scope.store.session(id), author)
        opened.warnings = [warning]
        return opened


def hold(opened: OpenSession, holder: object) -> None:
    """Count a session as in use as long as `holder` lives. Reading its entries or settings is not use."""
    _holders.setdefault(opened.store, {}).setdefault(opened.id, WeakSet()).add(holder)


def is_in_use(store: Store, session: str) -> bool:
    """Whether a caller in this process holds the session open."""
    return bool(_holders.get(store, {}).get(session))


class OpenSession:
    """One session of a store, open for reading and writing."""

    def __init__(self, scope: Scope, storage: SessionStore, author: str | None = None) -> None:
        self.store_scope = scope
        self.storage = storage
        self.id = storage.session
        self.author = optional_text("author", author)
        self._is_writable = False  # until its settings are checked, at the first write
        self.warnings: list[str] = []  # for example that opening it restored it from its archive

    def take_warnings(self) -> list[str]:
        """Return and clear the warnings, so that only the first answer carries them."""
        warnings, self.warnings = self.warnings, []
        return warnings

    @property
    def store(self) -> Store:
        return self.store_scope.store

    @property
    def notes(self) -> dict[str, Any]:
        """What this process knows of the session; all callers share it, as they share the storage."""
        return _notes.setdefault(self.storage, {})

    def now(self) -> datetime:
        return self.store_scope.clock.now()

    @_Once
    def user(self) -> str | None:
        try:
            return self.storage.info().user
        except (SessionCorrupt, StorageCorrupt):
            return None  # unreadable metadata must not prevent access to the memories

    @_Once
    def config(self) -> Config:
        """The settings of the session: the store's, overridden by the session's own."""
        try:
            info = self.storage.info()
        except (SessionCorrupt, StorageCorrupt):
            return self.store_scope.config
        if not info.config:
            return self.store_scope.config
        config = session_settings(self.store_scope.config, info)
        report_settings(config.notices(session_only=True), self.id)
        return config

    @_Once
    def content_limit(self) -> int:
        return self.config.content_limit_bytes

    @_Once
    def warning_bytes(self) -> float:
        """From this size on a write warns about the quota, and the session is compacted automatically."""
        warning: float = self.config.quota_bytes * self.config["storage.warning_percent"] / 100
        return warning

    @_Once
    def redactor(self) -> Redactor | None:
        """None if redaction is switched off."""
        from smp_memory.privacy.settings import redactor_of

        return redactor_of(self.config)

    @property
    def scope(self) -> Scope:
        """The scope of this session; made for each use, because a kept one would make a reference cycle."""
        return Scope(self.store, [self.id], self.config, self.store_scope.clock, author=self.author, opened=self)

    def hide_recorded_deletions(self) -> None:
        """Delete the memories that another program's record names as deleted. A failure is left to the next opening; `doctor` names the record."""
        try:
            found = self.storage.files.recorded_deletions() if self.storage.files is not None else []
            if found:
                self.commit([self._recorded_delete(each) for each in found], "hiding deleted memories", atomic=True)
        except SMPError:
            return
        if found:
            text = f"Session {self.id}: memories that another program had deleted were hidden."
            telemetry.emit("session", telemetry.INFO, "recorded_deletions_hidden", text, self.id, memories=len(found))

    def _recorded_delete(self, recorded: RecordedDeletion) -> Operation:
        if self.redactor is None or recorded.reason is None:
            return Delete(recorded.id, recorded.by, recorded.reason)
        return Delete(recorded.id, recorded.by, *self.redactor.redact(recorded.reason))

    # -- committing

    def commit_one(self, operation: Operation, name: str) -> Record:
        """Store one operation; returns the record that it created or changed."""
        operations = [operation]
        observe(write_operation(operations, False), self, self._commit, operations, name, False)
        if operation.forgets or operation.removals:
            self._audit(operations)
        assert operation.record is not None
        return operation.record

    def commit(self, operations: list[Operation], name: str, *, atomic: bool) -> None:
        """Store operations with one sync per file; atomic ones become visible together or not at all."""
        if operations:
            self.commit_unaudited(operations, name, atomic)
            self._audit(operations)

    def commit_unaudited(self, operations: list[Operation], name: str, atomic: bool) -> None:
        """Store operations without a line in the audit log."""
        observe(write_operation(operations, atomic), self, self._commit, operations, name, atomic)

    def _commit(self, operations: list[Operation], name: str, atomic: bool) -> None:
        if not self._is_writable:
            self.config.require(WRITE)
            self._is_writable = True
        storage = self.storage
        try:
            storage.commit(self._batch(operations, name, atomic))
        except SessionArchived:  # another process has archived it since it was opened
            from smp_memory.lifecycle.sessions import restore_for_use

            warning = restore_for_use(self.store_scope, self.id, self.author)
            storage.commit(self._batch(operations, name, atomic))
            operations[0].warnings = (*operations[0].warnings, warning)
        except SizeLimitExceeded as error:
            if "used" not in error.details or not self._may_compact():
                raise  # one memory alone is too large, or compaction is switched off
            from smp_memory.lifecycle.compaction import make_room

            make_room(self, error)
            storage.commit(self._batch(operations, name, atomic))
        is_dated = False
        for operation in operations:
            is_dated = is_dated or operation.dated is not None
            if (operation.warnings or operation.removals) and operation.record is not None:
                from smp_memory.privacy.settings import count_kinds

                operation.record._add_notices(operation.warnings, count_kinds(operation.removals))
        if is_dated:
            self._note_use_after_import(operations)
        if storage.size_bytes >= self.warning_bytes:
            self._warn_of_quota(operations)
            if self._may_compact():
                from smp_memory.lifecycle.background_compaction import compact_later

                compact_later(self)

    def _may_compact(self) -> bool:
        return self.config["compaction.enabled"] and self.config.allows(REMOVE)

    def _batch(self, operations: list[Operation], name: str, atomic: bool) -> Batch:
        batch = Batch(self.id, operations, self.store_scope.clock.text(), atomic, name)
        if batch.needs_histories:
            batch.find_in_cold_storage = self._compacted_memory
        return batch

    def _compacted_memory(self, key: str) -> Record | None:
        """The memory with this idempotency key in the cold segment, so that a repeated write still finds it."""
        found = self.storage.history(key=key, segment=COLD).histories.values()
        return next((history.record(self.id) for history in found), None)

    def _note_use_after_import(self, operations: list[Operation]) -> None:
        """Note that the session was used now if the entries carry earlier times, as those of an import do."""
        from smp_memory.lifecycle.session_states import IMPORTED_BEFORE

        limit = to_text(self.now() - IMPORTED_BEFORE)
        if any(operation.dated and operation.dated < limit for operation in operations):
            self.store_scope.note_session_use(self.id)

    def _warn_of_quota(self, operations: list[Operation]) -> None:
        """Add a warning to the records of a write when the session is nearly full; each threshold is logged once."""
        from smp_memory.lifecycle.quota import near_quota

        storage, settings = self.storage, self.config.section("storage")
        percents = (settings["warning_percent"], settings["critical_percent"])
        used, quota = storage.size_bytes, self.config.quota_bytes
        reached, text = near_quota(self.id, used, quota, percents)
        for operation in operations:
            if reached and operation.record is not None:
                operation.record._add_notices((text,))
                operation.warnings = (*operation.warnings, text)
        notes = self.notes
        if reached > notes.get(_WARNED, 0):
            telemetry.emit(
                "quota", telemetry.WARNING, "quota_near", text, self.id, percent=reached, bytes=used, quota_bytes=quota
            )
        notes[_WARNED] = reached

    # -- the audit log

    def _audit(self, operations: list[Operation]) -> None:
        """Log deletions, restorations and redactions: ids and kinds, no content."""
        actions = dict.fromkeys(operation.forgets for operation in operations if operation.forgets)
        if actions and self.storage.files is not None:
            self.storage.files.write_deletion_record()
        for action in actions:
            matching: list[Any] = [operation for operation in operations if operation.forgets == action]
            ids = [operation.id for operation in matching]
            self._audit_line(action, matching[0].by, ids, reason=matching[0].reason)
        redacted = [operation for operation in operations if operation.removals]
        self._audit_redaction([operation for operation in redacted if not operation.forgets])
        self._audit_redaction([operation for operation in redacted if operation.forgets], part="reason")

    def _audit_redaction(self, operations: list[Operation], **facts: Any) -> None:
        if operations:
            from smp_memory.privacy.settings import count_kinds

            kinds = count_kinds(removal for operation in operations for removal in operation.removals)
            self._audit_line("redact", self.author, [operation.id for operation in operations], kinds=kinds, **facts)

    def _audit_line(self, action: str, by: str | None, ids: list[Any], **facts: Any) -> None:
        at = to_text(self.now())
        self.store.audit.note(action, at=at, by=by, session=self.id, ids=ids, sync=False, **facts)
