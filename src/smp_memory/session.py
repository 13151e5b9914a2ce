"""One session: write, read, change, transact, measure.

Every method that writes returns when the memory is stored as durably as the store is set to, or raises and has
written nothing. Threads may share a session.
"""

from __future__ import annotations

from datetime import UTC, datetime

from smp_memory.context_methods import SessionContextMethods
from smp_memory.discovery import in_nearest_store
from smp_memory.error_mapping import maps_errors
from smp_memory.errors import InvalidRecord, MemoryNotFound, SessionCorrupt, StorageCorrupt
from smp_memory.exchange.api import SessionExportMethods
from smp_memory.lifecycle.compaction import SessionUpkeepMethods
from smp_memory.model.history import SessionHistory
from smp_memory.model.record import Records
from smp_memory.model.reports import Report, Stats
from smp_memory.model.times import parse, to_text
from smp_memory.model.types import kind_of
from smp_memory.privacy.settings import clean_metadata, log_metadata_redaction
from smp_memory.search.api import SearchMethods
from smp_memory.store.file_store import last_written_ns
from smp_memory.store.snapshot import Snapshot
from smp_memory.write import validation
from smp_memory.write.operations import Operation, id_of
from smp_memory.write.path import DelegatedWrites, WriteMethods, each_of, given_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Generic, TypeVar

    from smp_memory.config import Config
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.redaction import Redactor
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore

    T = TypeVar("T")
else:  # `typing` takes a new process 5 ms to load

    class Generic:
        def __class_getitem__(cls, _: object) -> type:
            return object

    T = None


class _Once(Generic[T]):
    """An attribute that is worked out when it is first asked for. No lock: a fork must not find one taken."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    def __get__(self, owner: Any, kind: type) -> T:
        if owner is None:
            raise AttributeError(self._name)
        value = self._work(owner)
        setattr(owner, self._name, value)
        return value


@maps_errors
class SessionMemory(SessionUpkeepMethods, WriteMethods, SearchMethods, SessionExportMethods, SessionContextMethods):
    """One session of a store, from `Memory.create_session`, `Memory.session`, or by its id in the nearest store: `SessionMemory("x")`."""

    def __init__(self, memory: Memory | str, files: FileSession | None = None, author: str | None = None) -> None:
        self._is_own = files is None  # whether the store was opened for this session alone
        if files is None:
            memory, files = in_nearest_store(memory)
        self._memory: Memory = memory  # type: ignore[assignment]
        self._files = files
        self._author = validation.optional_text("author", author)
        self.id = files.session
        files.holders.add(self)
        self.warnings: tuple[str, ...] = ()  # what whoever created the session should know
        self.redacted: dict[str, int] = {}  # what redaction took out of the session's head: kinds and how many of each

    @property
    def memory(self) -> Memory:
        return self._memory

    @property
    def info(self) -> SessionInfo:
        """Who takes part, in which project, since when."""
        return self._files.info()

    @property
    def folder(self) -> str:
        """Where the session's files are."""
        return self._files.reader.folder

    @property
    def written(self) -> datetime:
        """When its files were last written, by their own times; costs no reading."""
        return datetime.fromtimestamp(last_written_ns(self._files.store, self.id) / 1e9, UTC)

    @_Once
    def _user(self) -> str | None:
        try:
            return self._files.info().user
        except (SessionCorrupt, StorageCorrupt):
            return None  # an unreadable head costs the head

    @_Once
    def _content_limit(self) -> int:
        return self.config.content_limit_bytes

    @_Once
    def config(self) -> Config:
        """The settings that hold here: the store's, and above them the session's own."""
        try:
            own = self.info.config
        except (SessionCorrupt, StorageCorrupt):
            own = {}  # an unreadable head costs the head
        config = self._memory.config
        return self._files.settings_above(config, own) if own else config

    @_Once
    def _redactor(self) -> Redactor | None:
        from smp_memory.privacy.settings import redactor_of

        return redactor_of(self.config)

    def _now(self) -> datetime:
        return self._memory.now()

    def _asked_store(self) -> FileStore:
        return self._files.store

    def _asked_sessions(self) -> list[str] | None:
        return [self.id]

    def _asked_config(self) -> Config:
        return self.config

    def _asked_at(self) -> datetime:
        return self._memory.now()

    def _exported(self) -> tuple[Memory, list[FileSession], str | None]:
        return self._memory, [self._files], self._author

    def _head(self) -> SessionInfo | None:
        return self.info

    def _looked_over(self) -> Records:
        """Whoever looks it over keeps the files beside it up to date, where the layout has some."""
        records = self.records()
        if self._files.store.layout.name == "markdown":
            from smp_memory.store.overview_files import write_overviews

            write_overviews(self._files.store.disk, self.folder, records, self._users())
        return records

    def _session_meant(self, name: str) -> SessionMemory:
        return self if name == self.id else self._memory.session(name, author=self._author)

    def _do(self, wish: Operation, doing: str) -> Record:
        self._stored([wish], doing, False)
        if wish.forgets or wish.removals:
            self._note([wish])
        assert wish.record is not None
        return wish.record

    def _commit(self, wishes: list[Operation], doing: str, atomic: bool) -> None:
        if wishes:
            self._stored(wishes, doing, atomic)
            self._note(wishes)

    def _note(self, wishes: list[Operation]) -> None:
        """What was taken away, or out of what was given, goes to the audit log."""
        if forgetting := [wish for wish in wishes if wish.forgets]:
            self._note_forgetting(forgetting)
        if redacted := [wish for wish in wishes if wish.removals]:
            self._note_redaction(redacted)

    def _note_redaction(self, wishes: list[Operation]) -> None:
        """That secrets were taken out of what was given, in the audit log."""
        from smp_memory.privacy.settings import count_kinds

        self._files.store.audit.note(
            "redact",
            at=to_text(self._memory.now()),
            by=self._author,
            session=self.id,
            ids=[wish.id for wish in wishes],
            kinds=count_kinds(removal for wish in wishes for removal in wish.removals),
            sync=False,
        )

    # -- writing several

    def add_many(self, items: Iterable[tuple[str, Mapping[str, Any] | str]]) -> list[Record]:
        """Add many memories with one sync per file. All are checked before the first is written.

        Not a transaction: after a crash some may be there and others not; none was acknowledged then.
        """
        wishes: list[Operation] = []
        item: Any
        for item in each_of(items):
            if not isinstance(item, (tuple, list)) or len(item) != 2:
                raise InvalidRecord("items: each must be a type and its data, (type, data).", field="items")
            kind = kind_of(item[0])
            wishes.append(self._addition(kind, given_fields(kind, item[1])))
        self._commit(wishes, f"adding {len(wishes)} memories", atomic=False)
        return [wish.record for wish in wishes if wish.record is not None]

    def transaction(self) -> Transaction:
        """Several writes that become visible together or not at all; an exception inside rolls back."""
        return Transaction(self)

    # -- reading

    def get(self, id: Any) -> Record:
        """The memory with this id. Raises MemoryNotFound, also for a deleted one. It counts as use; `find` does not."""
        record = self.find(id)
        if record is None or record.deleted:
            if record is None:
                raise self._missing(id_of(id))
            raise MemoryNotFound(
                f"{record.id} is deleted in session {self.id}; restore it first.", id=record.id, session=self.id
            )
        self._note_access([record], self._asked_at())
        return record

    def find(self, id: Any) -> Record | None:
        """The memory with this id, deleted ones too; None if there never was one."""

        name = id_of(id)

        def look(session_history: SessionHistory) -> Record | None:
            history = session_history.histories.get(name)
            return history.record(self.id) if history else None

        record: Record | None = self._files.view(look)
        return record

    def records(self, type: str | None = None, *, last: int | None = None, include_deleted: bool = False) -> Records:
        """All memories, or those of one type, oldest first; `last=20` gives the newest 20 without reading a large session."""
        kind = kind_of(type).name if type is not None else None
        if last is not None and not hasattr(last, "__index__"):
            raise InvalidRecord(f"last: must be a whole number, not {validation.quoted(last)}.", field="last")

        def look(session_history: SessionHistory) -> list[Record]:
            return _records(session_history, self.id, kind, include_deleted, last)

        if kind is not None and last is not None and not include_deleted:
            found: list[Record] = self._files.view_tail(kind, last, look)
        else:
            found = self._files.view(look)
        return Records(found, self._files.unreadable())

    def __iter__(self) -> Any:
        return iter(self.records())

    def history(self, id: Any) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first: revision, op, at, by, and each field's value before and after."""

        name = id_of(id)

        steps: list[dict[str, Any]] | None = self._files.view(
            lambda session_history: (
                session_history.histories[name].steps() if name in session_history.histories else None
            )
        )
        if steps is None:
            raise self._missing(name)
        return steps

    def as_of(self, time: datetime | str) -> Snapshot:
        """The session as it was at a time, from the files alone."""
        until = parse(time, "time")

        def look(session_history: SessionHistory) -> list[Record]:
            records = [history.record(self.id, until) for history in session_history.histories.values()]
            return [record for record in records if record is not None]

        records = self._files.view(look)
        return Snapshot(self.id, until, records, self._files.unreadable())

    def stats(self) -> Stats:
        """Figures: counts by type, bytes by file, how full it is, first and last write."""

        def look(session_history: SessionHistory) -> dict[str, Any]:
            return _figures(session_history)

        figures: dict[str, Any] = self._files.view(look)
        sizes = self._files.sizes()
        quota = self._files.usable_config().quota_bytes
        total = sum(sizes.values())
        return Stats(
            {
                "session": self.id,
                **figures,
                "bytes": total,
                "files": sizes,
                "quota_bytes": quota,
                "utilisation": round(total / quota, 4),
                "problems": len(self._files.unreadable()),
            }
        )

    def validate(self) -> Report:
        """Read everything, check every signature, id and reference; change nothing."""
        return self._files.validate()

    def repair(self) -> Report:
        """Put right what can be put right, set the rest aside, and say what was done."""
        return self._files.repair()

    def change_info(self, **changes: Any) -> SessionInfo:
        """Change the session's head: user, agents, project, tags, context."""
        info = self.info
        given = {name: getattr(info, name) for name in ("user", "agents", "project", "tags", "context")}
        unknown = set(changes) - set(given)
        if unknown:
            raise InvalidRecord(
                f"{min(unknown)}: not a field of a session's head; it has {', '.join(given)}.", field=min(unknown)
            )
        fields, removals = clean_metadata(self.config, validation.session_fields(**{**given, **changes}))
        for name, value in fields.items():
            setattr(info, name, value)
        self._files.change_info(info)
        self.redacted = log_metadata_redaction(
            self._files.store, to_text(self._memory.now()), self.id, self._author, removals
        )
        return info

    def __enter__(self) -> SessionMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_own:
            self._memory.close()

    def __repr__(self) -> str:
        return f"SessionMemory({self.id})"


@maps_errors
class Transaction(DelegatedWrites):
    """Writes that are stored together when the `with` block ends.

    Each write returns a stand-in at once; it can be used as source or target inside the block, and has its id and
    fields when the block has ended.
    """

    def __init__(self, session: SessionMemory) -> None:
        self._session = session
        self._author = session._author
        self._wishes: list[Operation] = []
        self._open = True

    def _do(self, wish: Operation, doing: str) -> Operation:
        if not self._open:
            raise InvalidRecord("This transaction has ended; begin a new one.", field="transaction")
        self._wishes.append(wish)
        return wish

    def commit(self) -> None:
        """Store all writes; called by the end of the `with` block."""
        if self._open:
            self._open = False
            self._session._commit(self._wishes, f"a transaction of {len(self._wishes)} writes", atomic=True)

    def rollback(self) -> None:
        """Forget all writes."""
        self._open = False
        self._wishes.clear()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()


def _records(
    session_history: SessionHistory, session: str, kind: str | None, include_deleted: bool, last: int | None
) -> list[Record]:
    histories = [
        history
        for history in session_history.histories.values()
        if (kind is None or history.first.type == kind) and (include_deleted or history.deletion is None)
    ]
    if last is not None:
        histories = (
            histories[len(histories) - last :]
            if 0 < last < len(histories)
            else histories[: len(histories) if last > 0 else 0]
        )
    records = (history.record(session) for history in histories)
    return [record for record in records if record is not None]


def _figures(session_history: SessionHistory) -> dict[str, Any]:
    counts: dict[str, int] = {}
    deleted = 0
    first = last = None
    for history in session_history.histories.values():
        if history.deletion is not None:
            deleted += 1
            continue
        counts[history.first.type] = counts.get(history.first.type, 0) + 1
        latest = history.entries[-1].at
        first = history.first.at if first is None else min(first, history.first.at)
        last = latest if last is None else max(last, latest)
    return {
        "memories": sum(counts.values()),
        "by_type": counts,
        "deleted": deleted,
        "entries": session_history.seq,
        "first": first,
        "last": last,
    }
