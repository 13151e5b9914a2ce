"""A disk call of a lifecycle operation fails: the error is an SMPError, and the store is as before or as after, never between."""

from __future__ import annotations

import errno
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

from smp_memory.errors import DurabilityUnknown, SMPError
from smp_memory.files.memory_system import MemorySystem
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE
from smp_memory.memory import Memory
from smp_memory.model.history import COLD
from smp_memory.testing import FaultySystem
from tests.crash import test_archive_and_trash as archives
from tests.crash import test_compaction as compaction
from tests.crash.scenarios import LAYOUTS, SESSION, Wrong, depth, open_on, view_of
from tests.crash.test_unordered_disk import put_away_base

pytestmark = pytest.mark.crash

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
TRIES = depth(12, 2000)


def restore_some(memory: Memory) -> None:
    memory.session(SESSION).restore_archived("FIND-0003", "STATE-z")


def delete_and_restore(memory: Memory) -> None:
    memory.session(SESSION).restore("DEC-0002")


def purge(memory: Memory) -> None:
    memory.session(SESSION).purge(older_than=0, now="2026-02-02T00:00:00Z", evidence=NO_EVIDENCE)


def announced(memory: Memory) -> None:
    memory.session(SESSION).purge(older_than=0, now="2026-02-01T00:00:00Z", evidence=NO_EVIDENCE)


@functools.cache
def exported() -> str:
    with open_on(MemorySystem(), "jsonl") as memory:
        session = memory.create_session("came", user="eve")
        session.add_decision("from elsewhere")
        session.add_turn("user", "from elsewhere")
        return str(session.export(format="jsonl"))


def import_(memory: Memory) -> None:
    memory.import_(exported())


def create(memory: Memory) -> None:
    memory.create_session("new", user="eve")


def convert(memory: Memory) -> None:
    memory.convert("log" if memory.layout != "log" else "jsonl")


Do = Callable[[Memory], Any]
OPERATIONS: dict[
    str, tuple[tuple[str, ...], Do | None, Do]
] = {  # what was put away, what else came before, what is done
    "restore_archived": ((), None, restore_some),
    "restore all": ((), None, compaction.bring_back),
    "compact": ((), compaction.bring_back, compaction.compact),
    "archive_session": ((), None, archives.archive),
    "restore_session": (("archive",), None, archives.restore),
    "delete_session": ((), None, archives.delete),
    "delete_session of an archived one": (("archive",), None, archives.delete),
    "undelete_session": (("delete",), None, archives.undelete),
    "undelete_session of an archived one": (("archive", "delete"), None, archives.undelete),
    "purge_session": (("delete",), None, archives.purge),
    "restore": ((), None, delete_and_restore),
    "purge": ((), announced, purge),
    "import": ((), None, import_),
    "create_session": ((), None, create),
    "convert": ((), None, convert),
}


def state_of(memory: Memory) -> dict[str, Any]:
    """Where every session is, all that is in the live ones, and what is in their cold segments."""
    found: dict[str, Any] = {"layout": memory.layout, "archived": [], "deleted": []}
    for session in memory.sessions():
        cold = {
            id: (record.revision, record.given)
            for id, history in session._storage.history(segment=COLD).histories.items()
            if (record := history.record(session.id)) is not None
        }
        archived = sorted((each.id, each.entries) for each in session.archived())
        found[session.id] = (view_of(session), cold, archived)
    found["archived"] = [away.session for away in memory.archived_sessions()]
    found["deleted"] = [away.session for away in memory.deleted_sessions()]
    return found


@functools.cache
def base_of(layout: str, name: str) -> MemorySystem:
    away, before, _ = OPERATIONS[name]
    system = MemorySystem(disk=put_away_base(layout, away))
    if before is not None:
        with open_on(system) as memory:
            before(memory)
    return system


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_failed_call_leaves_the_state_before_or_after(layout: str, name: str) -> None:
    """restore_archived raised StorageFull, and the memories stood in the files and in the cold segment."""
    base, operation = base_of(layout, name), OPERATIONS[name][2]
    before = state_of(open_on(MemorySystem(disk=base)))
    probe = FaultySystem(disk=base)
    memory = open_on(probe)
    first = probe.calls
    operation(memory)
    after = state_of(open_on(probe))
    assert before != after
    chance = random.Random(f"{layout} {name}")
    cases = [
        (call, error, sticky)
        for call in range(first + 1, probe.calls + 1)
        for error in ERRORS
        for sticky in (False, True)
    ]
    chance.shuffle(cases)
    for call, error, sticky in cases[:TRIES]:
        system = FaultySystem(disk=base, fail_at=call, error=error, sticky=sticky)
        refused: Exception | None = None
        try:
            operation(open_on(system))
        except SMPError as caught:
            refused = caught
        except Exception as caught:
            refused = caught
        how = f"{layout}, {name}: call {call}, {errno.errorcode[error]}{', sticky' if sticky else ''}: {refused!r}"
        if refused is not None and not isinstance(refused, SMPError):
            raise Wrong(f"{how}: not an SMPError") from refused
        system.heal()
        found = state_of(open_on(system))
        if found != after and (refused is None or found != before):
            raise Wrong(f"{how}: neither before nor after")
        if refused is not None and found != before and not isinstance(refused, DurabilityUnknown):
            raise Wrong(f"{how}: it was done, and the error does not say that it may be")
        try:
            operation(open_on(system))
        except SMPError:
            continue  # it is done already
        if state_of(open_on(system)) != after and found == before:
            raise Wrong(f"{how}: the next try does not end as it should")
