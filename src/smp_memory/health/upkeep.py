"""Checks of a store's upkeep and surroundings: clock, maintenance, user state, audit log, hooks, git, other layouts and stores, shared files.

clock        the system clock has not jumped
maintenance  tasks run in time, and the access log does not grow without bound
state        there is a folder for the user's state, and the store is trusted
audit        the audit log's checksums are right
hooks        no hook failed, and no recorded session ended without a lasting memory
git          this clone has the merge driver that `.gitattributes` asks for; git does not copy it to a clone
layouts      no session has files in another layout than the store's, which nothing reads
stores       the project has no second store, which nothing reads
shared       the files for all sessions (`smp_memory.store.design_shared_files`) can be read
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smp_memory.discovery import about_others
from smp_memory.errors import SMPError
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.system import RealSystem
from smp_memory.git.repository import merges_without_driver
from smp_memory.health.report import NOTE, PROBLEM, WARNING, Check, HealthIssue, counted
from smp_memory.lifecycle.maintenance import EVERY, FILE
from smp_memory.model.ids import is_valid
from smp_memory.model.times import to_moment
from smp_memory.policies.clock_trust import distrust
from smp_memory.privacy.audit import Audit
from smp_memory.store.clock_state import evidence
from smp_memory.store.design_shared_files import all_shared, unreadable
from smp_memory.store.foreign_layouts import advice, unread_sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from smp_memory.health.subject import HealthSubject


HOOKS_LOG = "hooks.log"
LEFT_NOTHING = ("hooks", "left-nothing")
_LARGE_LOG_BYTES = 1 << 20
_LATE = 3  # a task is late after so many of its intervals
_RECENTLY = timedelta(days=7)
_SHOWN_FAILURES = 3
_TAIL_BYTES = 256 << 10
_LONGEST = 200
_PAUSE_SECONDS = 0.05
SAFE_TASKS = ("decay", "index", "access")  # maintenance tasks that remove nothing


class ClockCheck(Check):
    name = "clock"
    title = "the system clock is trusted"
    failed = "the system clock is not trusted"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        why = distrust(subject.now, evidence(subject.store))
        if why:
            message = f"{why[:1].upper()}{why[1:]}. Nothing is archived, expired or purged until the clock is trusted."
            advice = "Correct the clock. If it is correct, it is trusted again after a day of running time."
            yield HealthIssue(self.name, WARNING, message, advice)


class MaintenanceCheck(Check):
    name = "maintenance"
    title = "maintenance is up to date"
    failed = "maintenance is overdue"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        last = _last_runs(subject)
        if last:
            self.summary = f"last on {max(last.values()):%Y-%m-%d}"
        late = [
            name
            for name, when in last.items()
            if EVERY[name] and subject.now - when > max(_LATE * EVERY[name], timedelta(days=_LATE))
        ]
        if late:
            message = (
                f"Not run for a long time: {', '.join(late)} (last on {min(last[name] for name in late):%Y-%m-%d})."
            )
            has_fix = any(name in SAFE_TASKS for name in late)
            advice = "smp maintain --dry-run shows what is due, smp maintain runs it."
            yield HealthIssue(self.name, NOTE, message, advice, fix="maintenance" if has_fix else None)
        size = subject.store.access.size_bytes()
        if size > _LARGE_LOG_BYTES:
            message = f"The access log has {size / (1 << 20):.1f} MiB; its counts are not in the files yet."
            advice = "smp doctor --fix, or smp maintain --only access, writes them into the files."
            yield HealthIssue(self.name, NOTE, message, advice, path=subject.store.access.path, fix="access")


def _last_runs(subject: HealthSubject) -> dict[str, datetime]:
    try:
        tasks = json.loads(subject.state.read(FILE))["tasks"]
        return {name: to_moment(tasks[name]) for name in EVERY if name in tasks}
    except (OSError, SMPError, ValueError, KeyError, TypeError, RecursionError):
        return {}


class UserStateCheck(Check):
    name = "state"
    title = "user state can be stored"
    failed = "user state cannot be stored"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        if subject.state.on_disk or not isinstance(subject.system, RealSystem):
            self.summary = "" if subject.state.is_trusted() else "hooks do not use this store: smp trust"
            return
        message = "There is no folder that you own for SMP's user state, so each process rebuilds the index and hooks use no store."
        advice = "Set SMP_STATE_DIR to a folder that belongs to you, or HOME."
        yield HealthIssue(self.name, WARNING, message, advice)


class AuditLogCheck(Check):
    name = "audit"
    title = "the audit log is unchanged"
    failed = "the audit log was changed"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        audit = Audit(subject.disk, os.path.join(subject.root, PRIVATE))
        problems = audit.problems()
        if problems:
            time.sleep(_PAUSE_SECONDS)  # a line that is being written looks like a truncated one
            problems = audit.problems()
        if problems:
            more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
            message = f"The audit log was changed or truncated: {problems[0]}{more}."
            yield HealthIssue(self.name, WARNING, message, "smp audit shows all of it.", path=audit.path)


class HookFailuresCheck(Check):
    name = "hooks"
    title = "no hook failed"
    failed = "a recorded session left no lasting memory"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        yield from self._session_without_memories(subject)
        disk, path = subject.state.disk, subject.state.path(HOOKS_LOG)
        found = disk.stat(path)
        if found is None:
            return
        start = max(0, found.st_size - _TAIL_BYTES)
        lines = disk.read(path, start).decode(errors="replace").splitlines()[1 if start else 0 :]
        failures = [failure for line in lines if (failure := _failure(line)) is not None]
        self.summary = counted(len(failures), "failure")
        if not failures:
            return
        self.failed = "hooks failed"
        latest = failures[-_SHOWN_FAILURES:]
        is_recent = any(_is_recent(failure, subject.now) for failure in failures)
        errors = "; ".join(f"{each['at'][:16]} {each['client']} {each['event']}: {each['error']}" for each in latest)
        least = "At least " if start else ""
        message = f"{least}{counted(len(failures), 'failure')} of hooks. Last: {errors}"
        advice = (
            f"What the hooks should have recorded or recalled then is missing. Correct the cause, then delete {path}."
        )
        yield HealthIssue(self.name, WARNING if is_recent else NOTE, message, advice, path=path, details=tuple(latest))

    def _session_without_memories(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        """A recorded session that has only turns, which decay: nobody stored a decision, finding, learning or preference."""
        try:
            stored = json.loads(subject.state.disk.read(subject.state.path(*LEFT_NOTHING), 0, _TAIL_BYTES))
            name, turns = stored["session"], int(stored["turns"])
        except (OSError, SMPError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        if isinstance(name, str) and is_valid(name):
            message = f"{name}, {counted(turns, 'turn')}, ended without a decision, finding, learning or preference. Turns fade."
            advice = "Store what should last: smp decide, smp note. The next session gets the same hint."
            yield HealthIssue(self.name, NOTE, message, advice, session=name)


def _failure(line: str) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    return {name: str(fields.get(name, ""))[:_LONGEST] for name in ("at", "client", "event", "error")}


def _is_recent(failure: dict[str, Any], now: datetime) -> bool:
    try:
        return now - to_moment(failure["at"]) < _RECENTLY
    except (ValueError, OverflowError, TypeError):
        return True


NO_DRIVER = ".gitattributes asks for the merge driver `smp`, which this clone does not have: git merges the store as plain text."


class MergeDriverCheck(Check):
    name = "git"
    title = "git has the merge driver it needs"
    failed = "git lacks the merge driver"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        top = merges_without_driver(subject.root) if isinstance(subject.system, RealSystem) else None
        if top is not None:
            yield HealthIssue(self.name, WARNING, NO_DRIVER, "smp git setup registers it.", path=top)


class OtherLayoutsCheck(Check):
    name = "layouts"
    title = "all sessions have the store's layout"
    failed = "some sessions have another layout"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        layout = subject.store.layout
        for each in unread_sessions(subject.disk, subject.root, layout):
            details = ({"layout": each.layout, "files": each.files},)
            yield HealthIssue(
                self.name,
                PROBLEM,
                each.text(layout.name),
                advice(layout.name),
                each.session,
                path=each.path,
                details=details,
            )


class OtherStoresCheck(Check):
    name = "stores"
    title = "the project has one store"
    failed = "the project has several stores"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        message, advice = about_others(subject.root) if isinstance(subject.system, RealSystem) else ("", "")
        if message:
            yield HealthIssue(self.name, NOTE, message, advice)


class SharedFilesCheck(Check):
    name = "shared"
    title = "all files for all sessions can be read"
    failed = "some files for all sessions cannot be read"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        number = len(all_shared(subject.store))
        self.summary = counted(number, "memory", "memories") + (
            " in global/ or shared/: context uses them" if number else ""
        )
        for name, why in unreadable(subject.store):
            path = os.path.join(subject.store.root, *name.split("/"))
            message = f"{name} cannot be read: {why}"
            yield HealthIssue(self.name, WARNING, message, "Correct the file; SMP never writes it.", path=path)
