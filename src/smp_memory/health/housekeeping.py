"""Checks of a store's upkeep and surroundings: clock, maintenance, user state, audit log, hooks, git, other stores, quota, trash.

clock        the system clock has not jumped
maintenance  tasks run in time, and the access log does not grow without bound
state        there is a folder for the user's state, and the store is trusted
audit        the audit log's checksums are right
hooks        no hook failed, and no recorded session ended without a lasting memory
git          this clone has the merge driver that `.gitattributes` asks for; git does not copy it to a clone
stores       the project has no second store, which nothing reads
quota        how full a session is, and in how many days it will be full at its present growth
trash        deleted memories and sessions that the next purge will remove
"""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from smp_memory.discovery import about_others
from smp_memory.errors import SMPError
from smp_memory.git.repository import WorkTree
from smp_memory.health.examination import NOTE, PROBLEM, WARNING, Check, HealthIssue, counted, limited, named
from smp_memory.lifecycle.clock_state import evidence
from smp_memory.lifecycle.clock_trust import distrust
from smp_memory.lifecycle.maintenance import EVERY, FILE
from smp_memory.lifecycle.quota import OK, Thresholds, days_to_quota, growth_per_day, level_of
from smp_memory.lifecycle.quota import WARNING as FILLING
from smp_memory.lifecycle.session_states import lifecycle_times, state_marks
from smp_memory.lifecycle.transitions import PURGED, announces_purge, due_transition
from smp_memory.model.ids import is_valid
from smp_memory.model.session_info import DELETED
from smp_memory.model.times import to_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.health.examination import Examination, SessionExamination


HOOKS_LOG = "hooks.log"
LEFT_NOTHING = "hooks/left-nothing"
_LARGE_LOG_BYTES = 1 << 20
_LATE = 3  # a task is late after so many of its intervals
_RECENTLY = timedelta(days=7)
_SHOWN_FAILURES = 3
_TAIL_BYTES = 256 << 10
_LONGEST = 200
_PAUSE_SECONDS = 0.05
_MAX_ISSUES = 10
_SOON_DAYS = 14
_SHORTEST_SPAN = timedelta(days=1)  # the first hours of a session are no basis for a forecast
_MIB = 1 << 20
SAFE_TASKS = ("decay", "index", "access")  # maintenance tasks that remove nothing


class ClockCheck(Check):
    name = "clock"
    title = "the system clock is trusted"
    failed = "the system clock is not trusted"

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        why = distrust(subject.now, evidence(subject.store))
        if why:
            message = f"{why[:1].upper()}{why[1:]}. Nothing is archived, expired or purged until the clock is trusted."
            advice = "Correct the clock. If it is correct, it is trusted again after a day of running time."
            yield HealthIssue(self.name, WARNING, message, advice)


class MaintenanceCheck(Check):
    name = "maintenance"
    title = "maintenance is up to date"
    failed = "maintenance is overdue"

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
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


def _last_runs(subject: Examination) -> dict[str, datetime]:
    try:
        tasks = json.loads(subject.state.read(FILE))["tasks"]
        return {name: to_moment(tasks[name]) for name in EVERY if name in tasks}
    except (OSError, SMPError, ValueError, KeyError, TypeError, RecursionError):
        return {}


class UserStateCheck(Check):
    name = "state"
    title = "user state can be stored"
    failed = "user state cannot be stored"

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        if subject.state.on_disk or not subject.is_in_folder:
            self.summary = "" if subject.state.is_trusted() else "hooks do not use this store: smp trust"
            return
        message = "There is no folder that you own for SMP's user state, so each process rebuilds the index and hooks use no store."
        advice = "Set SMP_STATE_DIR to a folder that belongs to you, or HOME."
        yield HealthIssue(self.name, WARNING, message, advice)


class AuditLogCheck(Check):
    name = "audit"
    title = "the audit log is unchanged"
    failed = "the audit log was changed"

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        audit = subject.store.audit
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

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        yield from self._session_without_memories(subject)
        try:
            log = subject.state.read(HOOKS_LOG)
        except FileNotFoundError:
            return
        is_cut = len(log) > _TAIL_BYTES
        lines = log[-_TAIL_BYTES:].decode(errors="replace").splitlines()[is_cut:]
        failures = [failure for line in lines if (failure := _failure(line)) is not None]
        self.summary = counted(len(failures), "failure")
        if not failures:
            return
        self.failed = "hooks failed"
        latest = failures[-_SHOWN_FAILURES:]
        is_recent = any(_is_recent(failure, subject.now) for failure in failures)
        errors = "; ".join(f"{each['at'][:16]} {each['client']} {each['event']}: {each['error']}" for each in latest)
        least = "At least " if is_cut else ""
        message = f"{least}{counted(len(failures), 'failure')} of hooks. Last: {errors}"
        path = os.path.join(subject.state.folder, HOOKS_LOG)
        advice = (
            f"What the hooks should have recorded or recalled then is missing. Correct the cause, then delete {path}."
        )
        yield HealthIssue(self.name, WARNING if is_recent else NOTE, message, advice, path=path, details=tuple(latest))

    def _session_without_memories(self, subject: Examination) -> Iterator[HealthIssue]:
        """A recorded session that has only turns, which decay: nobody stored a decision, finding, learning or preference."""
        try:
            stored = json.loads(subject.state.read(LEFT_NOTHING))
            name, turns = stored["session"], int(stored["turns"])
        except (OSError, SMPError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        if isinstance(name, str) and is_valid(name):
            message = f"Session {name}, {counted(turns, 'turn')}, ended without a decision, finding, learning or preference. Turns fade."
            advice = f"smp review --session {name} lists what its turns propose. Store what should last: smp review keep, smp add decision. The next session gets the same hint."
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


class MergeDriverCheck(Check):
    name = "git"
    title = "git has the merge driver it needs"
    failed = "git lacks the merge driver"

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        tree = WorkTree.with_driver(subject.root) if subject.is_in_folder else None
        problem = tree.driver_problem() if tree is not None else ""
        if tree is not None and problem:
            yield HealthIssue(self.name, WARNING, problem, "smp git setup registers it.", path=tree.top)


class OtherStoresCheck(Check):
    name = "stores"
    title = "the project has one store"
    failed = "the project has several stores"

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        message, advice = about_others(subject.root) if subject.is_in_folder else ("", "")
        if message:
            yield HealthIssue(self.name, NOTE, message, advice)


class QuotaCheck(Check):
    name = "quota"
    title = "all sessions are within their quota"
    failed = "some sessions are full or soon will be"

    def __init__(self) -> None:
        self._fullest = 0.0

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        config = session.config
        used, quota = sum(session.files.sizes().values()), config.quota_bytes
        share = used / quota
        self._fullest = max(self._fullest, share)
        self.summary = f"the fullest has {self._fullest:.0%} of its quota"
        level = level_of(used, quota, Thresholds.of(config.section("storage")))
        samples = _samples(session, used)
        is_long_enough = bool(samples) and session.subject.now - samples[0][0] > _SHORTEST_SPAN
        rate = growth_per_day(samples, session.subject.now, used) if is_long_enough else None
        days = days_to_quota(used, quota, rate)
        growth = f", and grows by {(rate or 0) / _MIB:.2f} MiB a day" if rate else ""
        forecast = f": full in {days:.1f} days" if days else ""
        figures = f"{used / _MIB:.1f} of {quota / _MIB:.1f} MiB, {share:.0%}{growth}{forecast}"
        details = ({"bytes": used, "quota_bytes": quota, "utilization": round(share, 4), "days_to_quota": days},)
        advice = f"smp compact --session {session.id} --dry-run shows what can be moved out; storage.max_session_size_mb raises the quota."
        if level != OK:
            severity = WARNING if level == FILLING else PROBLEM
            off = "" if config["compaction.enabled"] else " Automatic compaction is off (compaction.enabled)."
            message = (
                f"{session.id} is nearly full: {figures}.{off}" if share < 1 else f"{session.id} is full: {figures}."
            )
            yield HealthIssue(self.name, severity, message, advice, session.id, details=details)
        elif days is not None and days < _SOON_DAYS:
            message = f"{session.id} will be full soon: {figures}."
            yield HealthIssue(self.name, NOTE, message, advice, session.id, details=details)


def _samples(session: SessionExamination, total: int) -> list[tuple[datetime, int]]:
    """The size of a session hour by hour, derived from the times and sizes of its entries."""
    written: dict[str, int] = {}
    for entry in session.entries():
        if entry.part:
            continue  # counted with the entry that contains it
        hour = entry.at[:13]
        written[hour] = written.get(hour, 0) + entry.place[1] - entry.place[0]
    size = total - sum(written.values())
    samples: list[tuple[datetime, int]] = []
    for hour, more in sorted(written.items()):
        try:
            when = to_moment(f"{hour}:00:00Z")
            before = when - timedelta(hours=1)
        except (ValueError, OverflowError):
            continue
        samples.append((before, size))
        size += more
        samples.append((when, size))
    return samples


class TrashCheck(Check):
    name = "trash"
    title = "nothing is due for purging"
    failed = "deleted memories are due for purging"

    def __init__(self) -> None:
        self._deleted = 0
        self._due: list[HealthIssue] = []

    def session(self, session: SessionExamination) -> Iterator[HealthIssue]:
        retention = lifecycle_times(session.subject.store).purge
        due = []
        for id, history in session.session_history.histories.items():
            if history.deletion is None:
                continue
            self._deleted += 1
            try:
                if to_moment(history.deletion.at) + retention <= session.subject.now:
                    due.append(id)
            except (ValueError, OverflowError):
                continue
        if due:
            deleted = counted(len(due), "deleted memory", "deleted memories")
            has = "has" if len(due) == 1 else "have"
            message = f"{deleted} of {session.id} {has} been in the trash for {retention.days} days: {named(due)}."
            advice = "smp trash lists them, smp restore restores them; smp trash --empty --all removes them for good."
            self._due.append(HealthIssue(self.name, NOTE, message, advice, session.id, tuple(due)))
        yield from ()

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        sessions = subject.store.sessions(DELETED)
        memories = counted(self._deleted, "deleted memory", "deleted memories")
        self.summary = f"{memories}, {counted(len(sessions), 'deleted session')}"
        times, clock_evidence = lifecycle_times(subject.store), evidence(subject.store)
        for each in sessions:
            if each.is_foreign:
                continue
            marks = state_marks(each, subject.now)
            step = due_transition(None, subject.now, marks, times, clock_evidence)
            is_due = step is not None and step.state == PURGED
            if is_due or announces_purge(None, subject.now, marks, times, clock_evidence):
                message = f"The deleted session {each.session} will be purged by the next maintenance{'' if is_due else ' but one'}."
                advice = f"smp session restore {each.session} restores it."
                self._due.append(HealthIssue(self.name, NOTE, message, advice, each.session, path=each.path))
        yield from limited(
            self._due, _MAX_ISSUES, "{} more sessions have something in the trash that is due for purging."
        )
