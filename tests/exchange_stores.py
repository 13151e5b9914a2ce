"""Stores with everything in them, and everything that is in a store, for tests that carry sessions from one store to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.exchange import replication
from smp_memory.files.layouts import NAMES
from smp_memory.model.history import COLD
from smp_memory.model.rewrite_plan import ColdMove, RewritePlan
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE
from smp_memory.store.opening import register_backend
from smp_memory.testing.clocks import FrozenClock
from tests.backends.naive_store import NAME, open_naive
from tests.contract.fixture import COMMON, MINIMAL

POSTGRES = "postgresql"
KINDS_OF_STORES = (*NAMES, NAME, POSTGRES)
NASTY = "日本語 \U0001f512 e\u0301 \u202e \x1b[31m \x00 \r\n\t \u2028 ## not a heading\n---\n- id: DEC-0001\n"


class Places:
    """Where stores of every kind are: below a folder, or in a schema of a server, the same for the same name."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        register_backend(NAME, open_naive)
        self._request, self.folder = request, folder
        self._schemas: dict[str, str] = {}

    def address(self, kind: str, name: str) -> str:
        if kind == POSTGRES:
            server = self._request.getfixturevalue("postgres")
            return self._schemas.get(name) or self._schemas.setdefault(name, server.new_schema_address())
        (self.folder / name).mkdir(exist_ok=True)
        return f"{NAME}://{self.folder / name / 'store.db'}" if kind == NAME else str(self.folder / name / "store")

    def open(self, kind: str, name: str, **options: Any) -> smp_memory.Memory:
        """The store of a kind: a layout of files, or the name of another backend."""
        layout = {"layout": kind} if kind in NAMES else {}
        return smp_memory.open(self.address(kind, name), **layout, **options)


def fill(memory: smp_memory.Memory, clock: FrozenClock) -> None:
    """Sessions in every state, with every type of memory and every kind of entry."""
    _fill_every(memory, clock)
    _fill_compacted(memory, clock)
    for reason in ("first", "second"):
        memory.create_session("gone").add_decision(f"Deleted {reason}")
        clock.advance(60)
        memory.delete_session("gone", reason, by="ada")
    memory.create_session("gone").add_decision("Live again")
    memory.create_session("packed", project="shop").add_decision("Archived, then deleted")
    memory.archive_session("packed", "packed away")
    clock.advance(60)
    memory.delete_session("packed", "not needed")
    memory.create_session("stored", tags=["a"]).add_finding("Archived", severity="high")
    memory.archive_session("stored", "done", by="ada")
    memory.create_session("empty", user="ada", config={"storage": {"max_session_size_mb": 5}})
    memory.set_config("compaction.old_turns_days", 9)
    memory.set_config("privacy.redaction.off", ["phone"])


def _fill_every(memory: smp_memory.Memory, clock: FrozenClock) -> None:
    session = memory.create_session("every", user="ada", agents=["architect"], project="shop", phase="review")
    for type, (fields, _, _) in MINIMAL.items():
        session.add(type, **fields, **{**COMMON, "idempotency_key": f"key of {type}", "references": []})
        clock.advance(1)
    session.add(
        "decision", decision=NASTY, custom={"deep": [1, 2.5, None, {"x": NASTY}]}, number=10**30, updated="mine"
    )
    session.relate("DEC-0002", "DEC-0001", "supersedes")
    session.update("DEC-0002", rationale="because", tags=["new"])
    session.update("DEC-0002", rationale=None, by="bob")
    session.delete("FIND-0001", "wrong", by="eve")
    session.delete("PREF-0001")
    session.restore("PREF-0001", "needed again")
    with session.transaction() as together:
        together.add_decision("One of two")
        together.add_finding("The other")
    session.add_decision("Erased")
    session.erase("DEC-0004", "secret")  # its number is not given out again


def _fill_compacted(memory: smp_memory.Memory, clock: FrozenClock) -> None:
    session = memory.create_session("compacted")
    for number in range(1, 7):
        session.add_decision(f"Decision {number}")
        for step in range(3):
            session.update(f"DEC-000{number}", rationale=f"because {step}", by="ada")
        clock.advance(1)
    plan = {"DEC-0002": ColdMove(4, "faded"), "DEC-0005": ColdMove(4, NASTY)}
    storage = memory.store.session("compacted")
    storage.rewrite(RewritePlan("moving", "2026-03-01T12:00:00Z", to_cold=plan))
    earlier = {"DEC-0003": ColdMove(4, "long history", only_history=True)}
    storage.rewrite(RewritePlan("moving", "2026-03-02T12:00:00Z", to_cold=earlier))
    session.update("DEC-0003", rationale="after the move")


def contents(memory: smp_memory.Memory, *, with_settings: bool = True) -> dict[str, Any]:
    """Everything that must be equal in a copy of a store; without settings also of one in RAM."""
    store, found = memory.store, dict[str, Any]()
    for head in store.sessions(LIVE, ARCHIVED, DELETED):
        storage = store.session(head.session, head.state, path=head.path if head.state == DELETED else None)
        info, cold = storage.info(), storage.history(segment=COLD)
        when = head.written.timestamp() // 1 if head.state == LIVE else head.when
        name = f"{head.state} {head.session} {info.uid}"
        assert name not in found
        found[name] = {
            "info": info.to_dict(),
            "state": (when, head.reason, bool(head.archived) if head.state == DELETED else None),
            "memories": {**_told(head.session, cold), **_told(head.session, storage.history())},
            "cold": {each.id: (each.moved, each.why) for each in cold.moved if not each.is_history},
        }
    settings = {}
    if with_settings:  # they hold for whoever opens the store next
        with smp_memory.open(memory.root, clock=FrozenClock()) as opened:
            settings = opened.config.stated()
    return {"sessions": found, "settings": settings, "audit": memory.store.audit.entries()}


def _told(session: str, history: Any) -> dict[str, Any]:
    """Records and histories; of memories with earlier states in cold storage only the record, without its revision."""
    told = {}
    for id, each in history.histories.items():
        record, steps = each.record(session).to_dict(), each.steps(with_edits=False)
        told[id] = ({**record, "revision": 0}, None) if id == "DEC-0003" and session == "compacted" else (record, steps)
    return told


class Died(BaseException):
    """The process is gone."""


class DyingStore:
    """A store, or a part of it, in a process that dies before or after the change number `at` that is asked of it."""

    _CHANGES = ("create", "move", "write_setting", "erase", "commit", "update_info", "rewrite", "append", "note")
    _PARTS = ("session", "create")  # that return a part
    _PROPERTIES = ("audit", "log")

    def __init__(self, inner: Any, at: int, *, before: bool, counter: list[int] | None = None) -> None:
        self._inner, self._at, self._before = inner, at, before
        self._counter = [0] if counter is None else counter

    @property
    def changes(self) -> int:
        return self._counter[0]

    def share(self, inner: Any) -> DyingStore:
        """Another store, or a part of this one, in the same process."""
        return DyingStore(inner, self._at, before=self._before, counter=self._counter)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in self._PROPERTIES:
            return self.share(found)
        if name not in (*self._CHANGES, *self._PARTS):
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._counter[0] += name in self._CHANGES
            is_last = name in self._CHANGES and self.changes == self._at
            if is_last and self._before:
                raise Died
            result = found(*args, **named)
            if is_last:
                raise Died
            return self.share(result) if name in self._PARTS else result

        return call


def exchange(source: Any, target: Any, sessions: list[str] | None = None, **modes: bool) -> replication.ExchangeReport:
    """An exchange between two scopes, without digests."""
    return replication.exchange(source, target, sessions, renew_digests=lambda: ([], []), **modes)
