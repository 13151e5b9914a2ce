"""Helpers of the health tests: a store with every kind of content, running the checks, digests of its files."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import smp_memory
from smp_memory.health.doctor import CHECKS, ORDER, doctor
from smp_memory.health.examination import Check, Examination, HealthIssue, HealthReport
from smp_memory.index.inspection import inspect_index
from smp_memory.store.file_checks import CHECKS as FILE_CHECKS
from smp_memory.store.opening import examine_store

QUICKLY = {"durability": "os"}
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # of the shape of a token, of nobody


def fill(memory: smp_memory.Memory) -> smp_memory.SessionMemory:
    """Memories of every type, a history, a relation, something deleted and restored."""
    session = memory.create_session("review", user="ada", agents=["architect"], project="shop", tags=["checkout"])
    session.add_turn("user", "How do customers log in at the moment?")
    session.add_turn("assistant", "With a password that nobody limits.", author="architect")
    session.add_decision("Use OAuth 2.0 for all customers", rationale="Standard", author="architect", tags=["auth"])
    session.add_finding("The login form has no rate limit", severity="high", author="veritas", references=["TURN-0001"])
    session.add_preference("response_style", "concise")
    session.update_agent_state("veritas", {"task": "review"})
    session.add_artifact("plan.md", "# Plan for the checkout\n\n1. Rate limit\n")
    session.add_learning("Reviews find more before lunch", author="veritas")
    session.relate("DEC-0001", "FIND-0001", "resolves")
    session.update("DEC-0001", rationale="Standard, supports single sign-on", by="ada")
    session.delete("TURN-0002", "typed by mistake")
    session.restore("TURN-0002")
    return session


def made(folder: Path, layout: str = "jsonl", **config: Any) -> smp_memory.Memory:
    """A store on disk that is well: an open session, an archived one, a deleted one, an index that has caught up."""
    memory = smp_memory.open(folder / "store", layout=layout, config={**QUICKLY, **config})
    fill(memory)
    for name, put_away in (("done", memory.archive_session), ("wrong", memory.delete_session)):
        memory.create_session(name).add_decision(f"Something else in the session {name}")
        put_away(name)
    memory.query("login")
    while not _index_trusts_what_it_read(memory):
        time.sleep(0.06)  # longer than a tick of the file system's clock, if the machine does not stand still
        memory.query("login")
    return memory


def _index_trusts_what_it_read(memory: smp_memory.Memory) -> bool:
    """A file that is as new as the look at it may have changed since; the index says so, and doctor then says nothing."""
    index = inspect_index(memory.store.indexer.folder)
    assert index is not None
    try:
        return all(cursor[8] for known in index.sessions().values() for cursor in known.files.values())
    finally:
        index.close()


def checked(
    root: str | os.PathLike[str],
    *,
    now: datetime | None = None,
    opened: Callable[[], smp_memory.Memory] | None = None,
    quick: bool = False,
    **asked: Any,
) -> HealthReport:
    """A look at a store from outside, as the command line does it."""

    def open_it() -> smp_memory.Memory:
        return smp_memory.open(root, config=QUICKLY, create=False)

    def examine() -> Examination:
        return examine_store(os.fspath(root), now or datetime.now(UTC), environ={}, quick=quick)

    return doctor(examine, opened or open_it, **asked)


def every_check() -> list[type[Check]]:
    """The checks of every store and those of a store in files, in the order of a report."""
    return sorted((*CHECKS, *FILE_CHECKS), key=lambda check: ORDER.index(check.name))


def in_days(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def only(report: HealthReport, check: str) -> HealthIssue:
    """The one finding that there is, of this check."""
    assert [finding.check for finding in report.findings] == [check], report.findings
    return report.findings[0]


def digest(root: str | os.PathLike[str]) -> dict[str, Any]:
    """Every file and folder below a root: mode, times and content."""
    found: dict[str, Any] = {}
    for folder, _, names in os.walk(root):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            state = os.lstat(path)
            plain = os.path.isfile(path) and not os.path.islink(path)
            content = hashlib.sha256(Path(path).read_bytes()).hexdigest() if plain else ""
            found[path] = (state.st_mode, state.st_size if plain else 0, state.st_mtime_ns, content)
    return found


def memories(memory: smp_memory.Memory) -> dict[str, Any]:
    """All memories with their histories."""
    return {
        record.ref: (record.to_dict(), session.history(record.id))
        for session in memory.sessions()
        for record in session.records(include_deleted=True)
    }


def aged(*paths: Path, seconds: float = 7200) -> None:
    """As if nobody had touched them for a while."""
    for path in paths:
        os.utime(path, (time.time() - seconds,) * 2, follow_symlinks=False)


@contextmanager
def unchanged(root: str | os.PathLike[str]) -> Iterator[None]:
    before = digest(root)
    yield
    assert digest(root) == before
