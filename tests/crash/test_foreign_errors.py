"""Every public method, with a failing disk or a damaged index: it returns or raises an SMPError, nothing else."""

from __future__ import annotations

import errno
import functools
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from smp_memory.testing import FaultySystem, FrozenClock
from tests.crash.scenarios import depth, open_on

pytestmark = pytest.mark.crash

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE)
CALLS = ("open", "pread", "fstat", "lstat", "listdir", "write", "pwrite", "ftruncate", "sync", "sync_dir", "replace", "link",
         "unlink", "mkdir", "rmdir", "lock", "chmod", "set_modified")  # fmt: skip
TRIES = depth(12, 400)
ALL = 1 << 40

Do = Callable[[Memory], Any]


def in_session(work: Callable[[SessionMemory], Any]) -> Do:
    return lambda memory: work(memory.session("s"))


def _transaction(session: SessionMemory) -> None:
    with session.transaction() as tx:
        tx.add_decision("in it")
        tx.add_finding("in it")


def _reopened(session: SessionMemory) -> None:
    session.add_turn("user", "Let's go with Redis for the cache.")
    proposal = session.proposals()[0]
    session.drop_proposals(proposal)
    session.reopen_proposal(proposal)


OF_STORE: dict[str, Do] = {
    "agent": lambda memory: memory.agent("ada", session="s").query("login"),
    "agents": lambda memory: memory.agents(),
    "analytics": lambda memory: memory.analytics().to_dict(),
    "archive_session": lambda memory: memory.archive_session("s"),
    "archived_sessions": lambda memory: memory.archived_sessions(),
    "by_agent": lambda memory: memory.by_agent("ada"),
    "by_time_range": lambda memory: memory.by_time_range("last week"),
    "by_topic": lambda memory: memory.by_topic("auth"),
    "by_type": lambda memory: memory.by_type("decision"),
    "close": lambda memory: memory.close(),
    "context": lambda memory: memory.context("ada", task="login", session="s"),
    "convert": lambda memory: memory.convert("single"),
    "copy_to": lambda memory: memory.copy_to(":memory:"),
    "create_session": lambda memory: memory.create_session("new"),
    "decay_curve": lambda memory: memory.decay_curve("s/DEC-0001"),
    "delete": lambda memory: memory.delete(text="login"),
    "delete_session": lambda memory: memory.delete_session("s"),
    "deleted": lambda memory: memory.deleted(),
    "deleted_sessions": lambda memory: memory.deleted_sessions(),
    "distrust": lambda memory: memory.distrust(),
    "doctor": lambda memory: memory.doctor(),
    "erase": lambda memory: memory.erase("s/DEC-0001"),
    "explain": lambda memory: memory.explain("s/DEC-0001", "login"),
    "export": lambda memory: memory.export(format="jsonl"),
    "find_related": lambda memory: memory.find_related("s/DEC-0001"),
    "find_similar": lambda memory: memory.find_similar("the login"),
    "get": lambda memory: memory.get("s/DEC-0001"),
    "global_memory": lambda memory: memory.global_memory.set_profile("name", "Ada"),
    "import_": lambda memory: memory.import_(exported()),
    "is_trusted": lambda memory: memory.is_trusted,
    "latest_session": lambda memory: memory.latest_session(),
    "sessions_by_time": lambda memory: memory.sessions_by_time(),
    "last_change": lambda memory: memory.last_change(),
    "undo": lambda memory: memory.undo(memory.last_change()),
    "maintain": lambda memory: memory.maintain(),
    "preview": lambda memory: memory.preview("ada", task="login", session="s"),
    "priority": lambda memory: memory.priority("s/DEC-0001"),
    "proposals": lambda memory: memory.proposals(),
    "proposals_by_session": lambda memory: list(memory.proposals_by_session()),
    "pull": lambda memory: memory.pull(elsewhere()),
    "purge": lambda memory: memory.purge(older_than=0),
    "purge_session": lambda memory: memory.purge_session("trashed"),
    "opened_session": lambda memory: memory.opened_session("s"),
    "push": lambda memory: memory.push(elsewhere()),
    "query": lambda memory: memory.query("login", include_archived=True),
    "recall": lambda memory: memory.recall("is there a limit for logins?"),
    "remember": lambda memory: memory.remember("Deploys run on Tuesdays"),
    "redact": lambda memory: memory.redact(),
    "reindex": lambda memory: memory.reindex(),
    "repair": lambda memory: memory.repair(),
    "restore": lambda memory: memory.restore("s/DEC-0002"),
    "restore_session": lambda memory: memory.restore_session("away"),
    "session": lambda memory: memory.session("away"),
    "sessions": lambda memory: memory.sessions(),
    "set_config": lambda memory: memory.set_config("durability", "os"),
    "session_states": lambda memory: memory.session_states(include_archived=True),
    "summarize": lambda memory: memory.summarize(),
    "sync": lambda memory: memory.sync(),
    "timeline": lambda memory: memory.timeline(),
    "topics": lambda memory: memory.topics(),
    "undelete_session": lambda memory: memory.undelete_session("trashed"),
    "trust": lambda memory: memory.trust(),
    "mark_trust_notice_shown": lambda memory: memory.mark_trust_notice_shown(),
    "validate": lambda memory: memory.validate(),
    "watch": lambda memory: list(memory.watch(timeout=0.01)),
}
OF_SESSION: dict[str, Do] = {
    "add": in_session(lambda session: session.add("decision", {"decision": "new"})),
    "add_artifact": in_session(lambda session: session.add_artifact("a.md", "text")),
    "add_decision": in_session(lambda session: session.add_decision("new")),
    "add_finding": in_session(lambda session: session.add_finding("new")),
    "add_learning": in_session(lambda session: session.add_learning("new")),
    "add_many": in_session(lambda session: session.add_many([("decision", {"decision": "new"})] * 3)),
    "add_preference": in_session(lambda session: session.add_preference("style", "brief")),
    "add_turn": in_session(lambda session: session.add_turn("user", "new")),
    "agent": in_session(lambda session: session.agent("ada").records()),
    "agents": in_session(lambda session: session.agents()),
    "anonymised": in_session(lambda session: session.anonymised("copy")),
    "anonymised_record": in_session(lambda session: session.anonymised_record("DEC-0001")),
    "archived": in_session(lambda session: session.archived()),
    "as_of": in_session(lambda session: session.as_of("2026-01-01T12:00:00Z").records()),
    "by_agent": in_session(lambda session: session.by_agent("ada")),
    "proposals": in_session(lambda session: session.proposals()),
    "keep_proposal": in_session(
        lambda session: session.keep_proposal(session.add_turn("user", "new"), type="decision", text="new")
    ),
    "drop_proposals": in_session(lambda session: session.drop_proposals(session.add_turn("user", "new"))),
    "reopen_proposal": in_session(_reopened),
    "by_time_range": in_session(lambda session: session.by_time_range("last week")),
    "by_topic": in_session(lambda session: session.by_topic("auth")),
    "by_type": in_session(lambda session: session.by_type("decision")),
    "change_info": in_session(lambda session: session.change_info(project="other")),
    "compact": in_session(lambda session: session.compact(ALL)),
    "config": in_session(lambda session: session.config),
    "conflicts": in_session(lambda session: session.conflicts()),
    "context": in_session(lambda session: session.context("ada", task="login")),
    "delete": in_session(lambda session: session.delete("DEC-0001")),
    "deleted": in_session(lambda session: session.deleted()),
    "duplicates": in_session(lambda session: session.duplicates()),
    "erase": in_session(lambda session: session.erase("DEC-0001")),
    "export": in_session(lambda session: session.export(format="jsonl")),
    "find": in_session(lambda session: session.find("DEC-0001")),
    "find_related": in_session(lambda session: session.find_related("DEC-0001")),
    "find_similar": in_session(lambda session: session.find_similar("the login")),
    "get": in_session(lambda session: session.get("DEC-0001")),
    "get_context": in_session(lambda session: session.get_context()),
    "history": in_session(lambda session: session.history("DEC-0001")),
    "info": in_session(lambda session: session.info),
    "merge": in_session(lambda session: [session.merge(group) for group in session.duplicates()]),
    "next_step": in_session(lambda session: session.next_step),
    "party": in_session(lambda session: session.party(["ada", "bob"])),
    "pin": in_session(lambda session: session.pin("DEC-0001")),
    "priority": in_session(lambda session: session.priority("DEC-0001")),
    "purge": in_session(lambda session: session.purge(older_than=0)),
    "missing": in_session(lambda session: session.missing("DEC-0099")),
    "query": in_session(lambda session: session.query("login", include_archived=True)),
    "records": in_session(lambda session: session.records("decision", last=1)),
    "redact": in_session(lambda session: session.redact()),
    "relate": in_session(lambda session: session.relate("DEC-0001", "FIND-0001", "resolves")),
    "repair": in_session(lambda session: session.repair()),
    "resolve": in_session(lambda session: session.resolve("FIND-0001", "done")),
    "restore": in_session(lambda session: session.restore("DEC-0002")),
    "restore_archived": in_session(lambda session: session.restore_archived("TURN-0001")),
    "set_config": in_session(lambda session: session.set_config("track_access", False)),
    "size_report": in_session(lambda session: session.size_report()),
    "session_state": in_session(lambda session: session.session_state),
    "state": in_session(lambda session: session.state),
    "stats": in_session(lambda session: session.stats()),
    "summarize": in_session(lambda session: session.summarize()),
    "tidy": in_session(lambda session: session.tidy()),
    "timeline": in_session(lambda session: session.timeline()),
    "topics": in_session(lambda session: session.topics()),
    "transaction": in_session(_transaction),
    "unpin": in_session(lambda session: session.unpin("DEC-0001")),
    "mute": in_session(lambda session: session.mute("DEC-0001")),
    "unmute": in_session(lambda session: session.unmute("DEC-0001")),
    "update": in_session(lambda session: session.update("DEC-0001", rationale="because")),
    "update_agent_state": in_session(lambda session: session.update_agent_state("ada", {"step": 1})),
    "unrelate": in_session(lambda session: session.unrelate("DEC-0001", "FIND-0001", "resolves")),
    "validate": in_session(lambda session: session.validate()),
    "watch": in_session(lambda session: list(session.watch(timeout=0.01))),
    "written": in_session(lambda session: session.written),
}
NO_DISK = {"now", "layout", "store", "memory", "folder", "opened", "scope"}
METHODS = {**{f"Memory.{name}": do for name, do in OF_STORE.items()},
           **{f"SessionMemory.{name}": do for name, do in OF_SESSION.items()}}  # fmt: skip


def test_every_public_method_is_swept() -> None:
    for kind, swept in ((Memory, OF_STORE), (SessionMemory, OF_SESSION)):
        public = {name for name in dir(kind) if not name.startswith("_")}
        assert public - NO_DISK == set(swept), kind


@functools.cache
def elsewhere() -> str:
    """Another store, on a disk without faults."""
    root = os.path.join(tempfile.mkdtemp(dir=os.environ["SMP_STATE_DIR"]), "store")
    with smp_memory.open(root) as memory:
        memory.create_session("theirs").add_decision("from elsewhere")
    return root


@functools.cache
def exported() -> str:
    with open_on(MemorySystem(), "jsonl") as memory:
        memory.create_session("came").add_decision("from elsewhere")
        return memory.export(format="jsonl")


def fill(memory: Memory) -> None:
    session = memory.create_session("s", user="ada")
    session.add_many(
        [("turn", {"role": "user", "content": f"old {'words ' * 20}", "created": "2025-01-01T00:00:00Z"})] * 20
    )
    session.compact(ALL)
    session.add_decision("Use OAuth for the login", tags=["auth"])
    session.delete(session.add_decision("deleted").id)
    session.add_finding("The login is slow")
    session.add_finding("The login is slow")
    for name in ("away", "trashed"):
        memory.create_session(name).add_decision("Use OAuth for the login")
    memory.archive_session("away")
    memory.delete_session("trashed")


@functools.cache
def base() -> MemorySystem:
    system = MemorySystem()
    with open_on(system, "jsonl") as memory:
        fill(memory)
    return system


def check(name: str, how: str, memory: Memory) -> None:
    try:
        METHODS[name](memory)
    except SMPError as error:
        assert str(error), how
    except Exception as error:
        raise AssertionError(f"{name}, {how}: {error!r}") from error


@pytest.mark.parametrize("name", METHODS)
def test_failing_call_raises_an_smp_error(name: str) -> None:
    """OSError and StopIteration escaped from archive_session, restore and others."""
    probe = FaultySystem(disk=base(), calls=CALLS)
    memory = open_on(probe)
    first = probe.calls
    METHODS[name](memory)
    chance = random.Random(name)
    cases = [
        (call, error, sticky)
        for call in range(first + 1, probe.calls + 1)
        for error in ERRORS
        for sticky in (False, True)
    ]
    for call, error, sticky in chance.sample(cases, min(TRIES, len(cases))):
        system = FaultySystem(disk=base(), calls=CALLS, fail_at=call, error=error, sticky=sticky)
        check(name, f"call {call}, {errno.errorcode[error]}{', sticky' if sticky else ''}", open_on(system))
        system.heal()


def damage(root: Path, how: str) -> None:
    index = root / ".smp/index"
    for path in sorted(index.rglob("*")):
        if not path.is_file():
            continue
        if how == "zeros":
            path.write_bytes(bytes(path.stat().st_size))
        elif how == "cut":
            os.truncate(path, path.stat().st_size // 2)
        elif how == "folders" and path.suffix in ("", ".db", ".sqlite"):
            path.unlink()
            path.mkdir()


DAMAGE = ("zeros", "cut", "folders")
WITH_INDEX = [f"Memory.{name}" for name in ("query", "reindex", "erase", "context", "session_states", "maintain", "delete", "doctor",
                                            "timeline", "find_similar", "find_related", "redact", "purge")]  # fmt: skip


@pytest.mark.parametrize("name", WITH_INDEX)
@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_index_raises_an_smp_error_at_most(tmp_path: Path, how: str, name: str) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        fill(memory)
        memory.query("login")
    damage(root, how)
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        check(name, how, memory)


@pytest.mark.parametrize("name", WITH_INDEX)
def test_index_that_is_damaged_while_open_raises_an_smp_error_at_most(tmp_path: Path, name: str) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        fill(memory)
        memory.query("login")
        damage(root, "zeros")
        memory.session("s").add_decision("one more, so that the index must be caught up")
        check(name, "damaged while open", memory)
