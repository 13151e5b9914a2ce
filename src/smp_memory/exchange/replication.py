"""Exchange sessions between two stores: push them to a shared one, pull them from it, again and again.

A session has one writing side. The other store has a copy of it: its setting `copy_of` names the writing store and how far it was copied,
and as long as it is there nothing is written to the copy (`Config.require`). An exchange compares the two entry by entry
(`transfer`) and sends what the copy lacks. What was erased, purged or redacted on the writing side is erased in the copy.

Guarantees: repeatable; killed at any moment, the next exchange goes on. Nothing is sent twice. An entry that only the copy has is a conflict: it is
named, both sides stay as they are, and nothing of this session is sent. A session that holds secrets by the rules of the receiving store is
refused. `hand_over` makes the receiving side the writing one: first the sender stops, then the rest is sent, then the receiver may write;
at no moment both may.
Non-guarantees: archiving and deleting a session as a whole are not exchanged, nor is compaction; a process that had the copy open before the
first exchange may still write to it, which the next exchange shows as a conflict.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.config.settings import COPY_OF
from smp_memory.config.sources import BY_PATH
from smp_memory.errors import Busy, SessionExists, SMPError, StorageError, StoreNotFound, UserError
from smp_memory.exchange.transfer import (
    MemoryConflict,
    append_entries,
    checksum_of,
    compare,
    create_copy,
    erasures_in,
    read_session,
)
from smp_memory.model.deletions import Receipt
from smp_memory.model.ids import new_uid, scheme_of
from smp_memory.model.record import copied
from smp_memory.model.session_info import ARCHIVED, DELETED, GLOBAL_SESSION, LIVE, names_of
from smp_memory.observe.telemetry import observed
from smp_memory.privacy.settings import count_kinds, redactor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.exchange.file_format import Exported
    from smp_memory.exchange.transfer import Difference
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.scope import Scope
    from smp_memory.store.port import SessionStore, Store

    Progress = Callable[[int, int, str], None]  # number and count of sessions, the session
    Digests = Callable[[], tuple[list[str], list[str]]]  # renews digest files after an erasure, see `Store.erase`

SENT, EQUAL, WRITTEN_THERE, REFUSED, CONFLICT, QUEUED = (
    *("sent", "equal", "written there"),
    *("refused", "conflict", "queued"),  # these need attention
)
FORGOTTEN = "forgotten"  # taken out of the outbox, not sent
_STORE_ID = "exchange-id"  # in the user's state of a store
_CARRIED = ("user", "agents", "project", "tags", "context", "status", "other")  # metadata that a copy takes over
UNREACHABLE = (StoreNotFound, StorageError, Busy)


class SessionExchange:
    """What an exchange did with one session."""

    def __init__(self, session: str, address: str, status: str, why: str = "") -> None:
        self.session, self.address, self.status, self.why = session, address, status, why
        self.entries = 0  # that were sent
        self.erased: list[str] = []
        self.conflicts: list[MemoryConflict] = []

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "conflicts": [each.to_dict() for each in self.conflicts]}

    def __repr__(self) -> str:
        return f"SessionExchange({self.session}: {self.status}{' ' + self.why if self.why else ''}, {self.entries} entries)"


class ExchangeReport:
    """What an exchange did, session by session."""

    def __init__(self, sessions: list[SessionExchange]) -> None:
        self.sessions = sessions

    def of(self, *statuses: str) -> list[SessionExchange]:
        return [each for each in self.sessions if each.status in statuses]

    @property
    def is_complete(self) -> bool:
        return not self.of(REFUSED, CONFLICT, QUEUED)

    def to_dict(self) -> dict[str, Any]:
        return {"complete": self.is_complete, "sessions": [each.to_dict() for each in self.sessions]}

    def __repr__(self) -> str:
        return f"ExchangeReport({self.sessions})"


# -- one exchange


@observed("exchange")
def exchange(
    source: Scope,
    target: Scope,
    sessions: Iterable[str] | None = None,
    *,
    hand_over: bool = False,
    take_over: bool = False,
    renew_digests: Digests,
    progress: Progress | None = None,
) -> ExchangeReport:
    """Send sessions of one store to another; None: all live ones that it writes, but for the global session.

    take_over  the source becomes the writing side, whoever was it before.
    hand_over  the target becomes the writing side when it has everything.
    renew_digests  of the target, for `Store.erase`.
    """
    if source.store.root == target.store.root:
        raise UserError(f"{target.store.root} is the store itself; name another one.", path=target.store.root)
    every = [name for name in names_of(source.store.sessions()) if name != GLOBAL_SESSION]
    names = every if sessions is None else list(dict.fromkeys(sessions))
    done = []
    for number, name in enumerate(names, 1):
        if progress is not None:
            progress(number, len(names), name)
        creates_again = take_over or hand_over  # who says which side writes wants it there
        work = _Exchange(source, target, name, take_over, renew_digests, creates_again=creates_again)
        done.append(work.run(hand_over=hand_over))
    return ExchangeReport(done)


class _Exchange:
    """The exchange of one session."""

    def __init__(
        self, source: Scope, target: Scope, name: str, take_over: bool, renew_digests: Digests, *, creates_again: bool
    ) -> None:
        """`creates_again`: also where it was deleted."""
        self._creates_again = creates_again
        self.scope, self.target_scope, self.name = source, target, name
        self.source, self.target, self._take_over, self._renew = source.store, target.store, take_over, renew_digests
        self.done = SessionExchange(name, target.store.root, EQUAL)

    def run(self, *, hand_over: bool) -> SessionExchange:
        try:
            try:
                self._run(hand_over)
            except SessionExists:  # another process has created it meanwhile
                self._run(hand_over)
        except _Stop as stop:
            self.done.status, self.done.why = stop.status, stop.why
        except UNREACHABLE:
            raise
        except SMPError as error:
            self.done.status, self.done.why = REFUSED, error.message
        self._audit()
        return self.done

    def _run(self, hand_over: bool) -> None:
        if hand_over:
            self._hand_over()
        else:
            self._send(self._read())

    def _read(self) -> tuple[Exported, Any]:
        """The session on the writing side, and of whom it is a copy itself."""
        storage = self.source.session(self.name)
        if storage.files is not None and _has_incomplete(storage):
            storage.update_info(
                lambda info: None
            )  # gives typed entries their ids and times, so that they stay the same
        carried = read_session(storage)
        return carried, _take_mark(carried.info)

    def _send(self, read: tuple[Exported, Any]) -> None:
        carried, mark = read
        if mark is not None and mark["store"] == identity(self.target):
            raise _Stop(WRITTEN_THERE, f"{self.target.root} writes it")
        found = self.target.sessions(LIVE, ARCHIVED, id=self.name)
        if not found:
            self._refuse_deleted(carried)
            self._create(carried)
            return
        if found[0].state != LIVE:
            raise _Stop(REFUSED, f"it is archived in {self.target.root}; restore it there first")
        storage = self.target.session(self.name)
        copy = read_session(storage)
        known = _take_mark(copy.info)
        self._check_writer(carried, copy, known)
        self._update(storage, carried, copy, known)

    def _refuse_deleted(self, carried: Exported) -> None:
        """A copy that somebody deleted there is not brought back, unless it is asked for."""
        for head in [] if self._creates_again else self.target.sessions(DELETED, id=self.name):
            if self.target.session(self.name, DELETED, path=head.path).info().uid == carried.info.uid:
                raise _Stop(REFUSED, f"it was deleted in {self.target.root}; restore it there, or --take-over creates it again")  # fmt: skip

    def _check_writer(self, carried: Exported, copy: Exported, known: Any) -> None:
        if carried.info.uid != copy.info.uid:
            raise _Stop(CONFLICT, f"{self.target.root} has another session of this id")
        if self._take_over or (known is not None and known["store"] == identity(self.source)):
            return
        writer = "that store" if known is None else known["address"]
        raise _Stop(REFUSED, f"{writer} writes it; --take-over makes this store the writing side")

    def _create(self, carried: Exported) -> None:
        self._refuse_secrets(carried, carried.entries)
        carried.info.config = {**carried.info.config, COPY_OF: self._mark(carried)}
        quota = self.target.config.override_session(carried.info.config, self.name).quota_bytes
        create_copy(self.target, carried, quota)
        self.done.status, self.done.entries = SENT, len(carried.entries)

    def _update(self, storage: SessionStore, carried: Exported, copy: Exported, known: Any) -> None:
        difference = compare(carried.entries, copy.entries, {})
        if difference.conflicts:
            erasures = erasures_in(self.source.audit.entries(), self.name)
            difference = compare(carried.entries, copy.entries, erasures)
        if difference.conflicts:
            self.done.conflicts = difference.conflicts
            raise _Stop(CONFLICT, f"{self.target.root} has entries that this store does not have")
        self._refuse_secrets(carried, difference.missing)
        self._apply(storage, difference)
        mark = self._mark(carried)
        if known != mark or not _is_same_metadata(carried.info, copy.info):
            storage.update_info(lambda info: _take_over_metadata(info, carried.info, known, mark))
            self.done.status = SENT

    def _apply(self, storage: SessionStore, difference: Difference) -> None:
        if difference.erased:
            self._erase(difference.erased)
        if difference.missing:
            append_entries(storage, difference.missing, self.target_scope.clock.text())
            self.done.status, self.done.entries = SENT, len(difference.missing)

    def _erase(self, ids: list[str]) -> None:
        """Erase in the copy what was erased on the writing side. What was redacted there is sent again afterwards."""
        scope, store = self.target_scope, self.target
        receipt = Receipt([f"{self.name}/{id}" for id in ids], scope.now(), scope.author, f"erased in {self.source.root}", {}, preview=False)  # fmt: skip

        def note() -> None:
            store.audit.note("erase", at=scope.clock.text(), by=scope.author, session=self.name, ids=ids, reason=receipt.reason)  # fmt: skip

        store.erase({self.name: ids}, receipt, note, self._renew)
        self.done.status, self.done.erased = SENT, ids
        self.done.why = "; ".join([*receipt.pending, *receipt.elsewhere])

    def _refuse_secrets(self, carried: Exported, entries: list[Entry]) -> None:
        redactor, info = redactor_of(self.target.config), carried.info
        if redactor is None:
            return
        texts = {name: getattr(info, name) for name in ("project", "tags", "context")}
        parts = [("its metadata", texts), *((entry.id, entry.data) for entry in entries)]
        found = {name: removals for name, fields in parts if (removals := redactor.redact_fields(fields)[1])}
        if found:
            kinds = count_kinds(each for removals in found.values() for each in removals)
            raise _Stop(REFUSED, f"it holds secrets by the rules of {self.target.root} ({', '.join(kinds)}) in {', '.join(found)}; redact it first: smp redact")  # fmt: skip

    def _mark(self, carried: Exported) -> dict[str, Any]:
        """What the copy says about its origin: the store, the session, and the last entry that was sent."""
        last = carried.entries[-1] if carried.entries else None
        return {
            "store": identity(self.source),
            "address": address_for_people(self.source),
            "session": carried.info.uid,
            "seq": last.seq if last else 0,
            "checksum": checksum_of(last) if last else "",
        }

    # -- the writing side

    def _hand_over(self) -> None:
        """Make the target the writing side. If this is interrupted, nobody writes until it is repeated."""
        carried, mark = self._read()
        is_begun = mark is not None and mark["store"] == identity(self.target)
        if is_begun and self._mark_there() is None:
            raise _Stop(WRITTEN_THERE, f"{self.target.root} writes it")
        if not is_begun:
            if mark is not None:
                raise _Stop(REFUSED, f"{mark['address']} writes it, so only that store can hand it over; if it is lost, unset {COPY_OF} of the session in {self.source.root}")  # fmt: skip
            self._send((carried, mark))
            origin = {**self._mark(carried), "store": identity(self.target), "address": address_for_people(self.target)}
            self.source.session(self.name).update_info(lambda info: _set_mark(info, None, origin))
            carried, _ = self._read()  # what was written meanwhile
        self._send((carried, None))
        here = {"store": identity(self.source)}
        self.target.session(self.name).update_info(lambda info: _set_mark(info, here, None))
        self.done.status = SENT

    def _mark_there(self) -> Any:
        found = self.target.sessions(id=self.name)
        return _take_mark(self.target.session(self.name).info()) if found else {}

    def _audit(self) -> None:
        done = self.done
        if done.entries:
            self.source.audit.note(
                "push", at=self.scope.clock.text(), by=self.scope.author, session=self.name, count=done.entries, to=self.target.root
            )  # fmt: skip


class _Stop(Exception):
    """Nothing more is done with this session."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


def identity(store: Store) -> str:
    """Who a store is, for its copies: for a folder a random id in the user's state, which no clone of the folder brings along."""
    if store.uid or scheme_of(store.root):
        return store.uid or store.root
    try:
        return store.state.read(_STORE_ID).decode("ascii", "replace")
    except FileNotFoundError:
        made = new_uid() + new_uid()
        store.state.write(_STORE_ID, made.encode(), durable=True)
        return made


def _has_incomplete(storage: SessionStore) -> bool:
    """Whether a person typed an entry without an id or a time."""
    return any(entry.lacks for each in storage.history().histories.values() for entry in each.entries)


def address_for_people(store: Store) -> str:
    """The address of a store as another machine understands it."""
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return store.root if scheme_of(store.root) else f"{name}:{store.root}"


def _take_mark(info: SessionInfo) -> Any:
    """Remove and return the mark of a copy; None: it is none."""
    info.config = dict(info.config)
    mark = info.config.pop(COPY_OF, None)
    return mark if BY_PATH[COPY_OF].check.accepts(mark) else None


def _set_mark(info: SessionInfo, known: Any, mark: dict[str, Any] | None) -> None:
    """Replace the mark that was known. Somebody may have made another store the writing side since it was read."""
    found = _take_mark(info)
    if (found and found["store"]) != (known and known["store"]):
        raise _Stop(REFUSED, "another exchange changed meanwhile which store writes it; run it again")
    if mark is not None:
        info.config[COPY_OF] = mark


def _is_same_metadata(info: SessionInfo, other: SessionInfo) -> bool:
    return all(getattr(info, name) == getattr(other, name) for name in (*_CARRIED, "config"))


def _take_over_metadata(info: SessionInfo, origin: SessionInfo, known: Any, mark: dict[str, Any]) -> None:
    _set_mark(info, known, None)
    for name in _CARRIED:
        setattr(info, name, copied(getattr(origin, name)))
    info.config = {**copied(origin.config), COPY_OF: mark}
