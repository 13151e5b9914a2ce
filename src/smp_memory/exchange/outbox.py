"""The outbox of a store: what is to be pushed to which address, until it has been. Kept in the user's state.

The entries themselves are in the sessions, and the copies know how far they got; the outbox is a list of sessions by address.

Guarantees: a push is written down before it begins, and struck out after it has ended, so it survives a kill and a power loss at any moment.
What another process adds meanwhile stays. Sessions with conflicts stay until these are gone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SessionNotFound, SMPError, StorageCorrupt, StoreNotFound
from smp_memory.exchange.replication import (
    CONFLICT,
    FORGOTTEN,
    QUEUED,
    REFUSED,
    UNREACHABLE,
    ExchangeReport,
    SessionExchange,
)
from smp_memory.model.ids import new_uid
from smp_memory.model.session_info import names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from smp_memory.files.user_state import UserState
    from smp_memory.store.port import Store

    Send = Callable[[str, list[str] | None], ExchangeReport]  # address and sessions; None: all that the store writes
    Waiting = dict[str, str]  # by session, a random mark of when it was added

ALL = "*"  # all sessions that the store writes
_FILE, _LOCK = "outbox.json", "outbox"
_WAIT_SECONDS = 5.0


class Outbox:
    """The file, and the addresses that were reached before."""

    def __init__(self, state: UserState) -> None:
        self._state = state

    def waiting(self) -> dict[str, Waiting]:
        """What is to be sent, by address."""
        found: dict[str, Waiting] = self._read()["waiting"]
        return found

    def has_reached(self, address: str) -> bool:
        return address in self._read()["reached"]

    def add(self, address: str, sessions: Iterable[str]) -> None:
        with self._locked():
            known = self._read()
            known["waiting"].setdefault(address, {}).update({name: new_uid() for name in sessions})
            self._write(known)

    def strike(self, address: str, sent: Waiting, left: Iterable[str] = (), *, is_reached: bool = True) -> None:
        """Strike out what was sent, except what is left and what was added again meanwhile."""
        with self._locked():
            known = self._read()
            now = known["waiting"].pop(address, {})
            kept = {name: mark for name, mark in now.items() if sent.get(name) != mark}
            kept = {**dict.fromkeys(left, ""), **kept}
            known["waiting"] |= {address: kept} if kept else {}
            known["reached"] = sorted({*known["reached"], address} if is_reached else known["reached"])
            self._write(known)

    def forget(self, address: str) -> list[str]:
        """Strike out all that waits for an address, without sending it; returns the sessions."""
        with self._locked():
            known = self._read()
            waiting = list(known["waiting"].pop(address, {}))
            self._write(known)
            return waiting

    def _locked(self) -> AbstractContextManager[None]:
        return self._state.lock(_LOCK, "the outbox", _WAIT_SECONDS)

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._state.read(_FILE))
            is_known = all(isinstance(each, dict) for each in known["waiting"].values())
            if is_known and isinstance(known["reached"], list):
                return {"waiting": known["waiting"], "reached": known["reached"]}
        except FileNotFoundError:
            return {"waiting": {}, "reached": []}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        path = self._state.path(_FILE)
        raise StorageCorrupt(f"The outbox {path} cannot be read. Remove it, then push to each store again.", path=path)

    def _write(self, known: dict[str, Any]) -> None:
        self._state.write(_FILE, json.dumps(known, indent=2).encode(), durable=True)


def push(store: Store, send: Send, address: str | None, sessions: Iterable[str] | None) -> ExchangeReport:
    """Send sessions to the store at an address, and whatever else waits for it; without an address all that waits.

    A store that cannot be reached is no error: what is to be sent waits. Raises SessionNotFound for a session that is not there, and
    StoreNotFound for a store that was never reached: the address is most likely mistyped.
    """
    outbox, done = Outbox(store.state), list[SessionExchange]()
    if address is not None:
        names = [ALL] if sessions is None else list(sessions)
        missing = next((name for name in names if name != ALL and not store.sessions(id=name)), None)
        if missing is not None:
            raise SessionNotFound(f"There is no live session {missing} in {store.root}.", session=missing)
        outbox.add(address, names)
    for each, waiting in outbox.waiting().items():
        if address in (None, each):
            done += _push_to(store, send, outbox, each, waiting)
    return ExchangeReport(done)


def forget(store: Store, address: str | None) -> ExchangeReport:
    """Take what waits for an address out of the outbox, without sending it; without an address everything."""
    outbox, done = Outbox(store.state), list[SessionExchange]()
    for each in list(outbox.waiting()):
        if address in (None, each):
            done += [SessionExchange(name, each, FORGOTTEN, "not sent") for name in outbox.forget(each)]
    return ExchangeReport(done)


def _push_to(store: Store, send: Send, outbox: Outbox, address: str, waiting: Waiting) -> list[SessionExchange]:
    try:
        done = send(address, None if ALL in waiting else list(waiting)).sessions
    except UNREACHABLE as error:
        if isinstance(error, StoreNotFound) and not outbox.has_reached(address):
            outbox.strike(address, waiting, is_reached=False)
            raise
        return [SessionExchange(name, address, QUEUED, error.message) for name in waiting]
    except SMPError:
        outbox.strike(address, waiting, is_reached=False)
        raise
    live = set(names_of(store.sessions()))
    left = [each.session for each in done if each.status in (REFUSED, CONFLICT) and each.session in live]
    outbox.strike(address, waiting, left)
    return done
