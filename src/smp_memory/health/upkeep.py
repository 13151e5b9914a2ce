"""Is the store looked after? Its clock, its maintenance, the log of uses, the audit log, and what hooks say.

Check that git knows the merge driver which `.gitattributes` asks for: a clone does not inherit it.

Check that no session stands in a layout that the store does not have or in another store of the project: nobody reads it.

Check the files of the designs that hold for all sessions (`smp_memory.store.design_shared_files`): each can be read.
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
from smp_memory.store.foreign_layouts import advice, unread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from smp_memory.health.subject import HealthSubject


HOOKS_LOG = "hooks.log"
LEFT_NOTHING = ("hooks", "left-nothing")
_LARGE_LOG_BYTES = 1 << 20
_LATE = 3  # times as long as a task should wait
_RECENTLY = timedelta(days=7)
_SHOWN_FAILURES = 3
_TAIL_BYTES = 256 << 10
_LONGEST = 200
_PAUSE_SECONDS = 0.05
TENDED = ("decay", "index", "access")  # tasks that take nothing away


class ClockCheck(Check):
    name = "clock"
    title = "clock can be trusted"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        why = distrust(subject.now, evidence(subject.store))
        if why:
            message = f"{why[:1].upper()}{why[1:]}. Nothing is archived, expired or purged until that is settled."
            advice = (
                "Set the clock right. If it is right, it is trusted once it has stayed so for a day of running time."
            )
            yield HealthIssue(self.name, WARNING, message, advice)


class MaintenanceCheck(Check):
    name = "maintenance"
    title = "maintenance runs"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        last = _last_runs(subject)
        if last:
            self.said = f"last on {max(last.values()):%Y-%m-%d}"
        late = [
            name
            for name, when in last.items()
            if EVERY[name] and subject.now - when > max(_LATE * EVERY[name], timedelta(days=_LATE))
        ]
        if late:
            message = (
                f"Not run for a long time: {', '.join(late)} (last on {min(last[name] for name in late):%Y-%m-%d})."
            )
            helps = any(name in TENDED for name in late)
            advice = "smp maintain --dry-run shows what is due, smp maintain runs it."
            yield HealthIssue(self.name, NOTE, message, advice, fix="maintenance" if helps else None)
        size = subject.store.access.size_bytes()
        if size > _LARGE_LOG_BYTES:
            message = f"The log of uses has {size / (1 << 20):.1f} MiB; its counts are not in the files yet."
            advice = "smp doctor --fix, or smp maintain --only access, folds it into the files."
            yield HealthIssue(self.name, NOTE, message, advice, path=subject.store.access.path, fix="access")


def _last_runs(subject: HealthSubject) -> dict[str, datetime]:
    try:
        noted = json.loads(subject.state.read(FILE))["tasks"]
        return {name: to_moment(noted[name]) for name in EVERY if name in noted}
    except (OSError, SMPError, ValueError, KeyError, TypeError, RecursionError):
        return {}


class UserStateCheck(Check):
    name = "state"
    title = "the user's state can be kept"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        if subject.state.on_disk or not isinstance(subject.system, RealSystem):
            self.said = "" if subject.state.is_trusted() else "hooks do not use this store: smp trust"
            return
        message = "There is no folder of yours for SMP's own state, so each process makes the index anew and hooks use no store."
        advice = "Name one: SMP_STATE_DIR, or a HOME that belongs to you."
        yield HealthIssue(self.name, WARNING, message, advice)


class AuditLogCheck(Check):
    name = "audit"
    title = "audit log is as it was written"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        audit = Audit(subject.disk, os.path.join(subject.root, PRIVATE))
        problems = audit.problems()
        if problems:
            time.sleep(_PAUSE_SECONDS)  # a line that is being written looks like one that was cut
            problems = audit.problems()
        if problems:
            more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
            message = f"The audit log was changed or cut: {problems[0]}{more}."
            yield HealthIssue(self.name, WARNING, message, "smp audit shows all of it.", path=audit.path)


class HookFailuresCheck(Check):
    name = "hooks"
    title = "no hook failed"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        yield from self._left_nothing(subject)
        disk, path = subject.state.disk, subject.state.path(HOOKS_LOG)
        found = disk.stat(path)
        if found is None:
            return
        start = max(0, found.st_size - _TAIL_BYTES)
        lines = disk.read(path, start).decode(errors="replace").splitlines()[1 if start else 0 :]
        failures = [failure for line in lines if (failure := _failure(line)) is not None]
        self.said = counted(len(failures), "failure")
        if not failures:
            return
        shown = failures[-_SHOWN_FAILURES:]
        is_recent = any(_is_recent(failure, subject.now) for failure in failures)
        told = "; ".join(f"{each['at'][:16]} {each['client']} {each['event']}: {each['error']}" for each in shown)
        least = "At least " if start else ""
        message = f"{least}{counted(len(failures), 'failure')} of hooks. Last: {told}"
        advice = (
            f"What the hooks should have recorded or recalled then is missing. Once it is put right, delete {path}."
        )
        yield HealthIssue(self.name, WARNING if is_recent else NOTE, message, advice, path=path, details=tuple(shown))

    def _left_nothing(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        """A session that was recorded and of which nothing will last, because nobody wrote anything down."""
        try:
            known = json.loads(subject.state.disk.read(subject.state.path(*LEFT_NOTHING), 0, _TAIL_BYTES))
            name, turns = known["session"], int(known["turns"])
        except (OSError, SMPError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        if isinstance(name, str) and is_valid(name):
            message = f"{name}, {counted(turns, 'turn')}, ended without a decision, finding, learning or preference. Turns fade."
            advice = "Write down what should last: smp decide, smp note. The next session is told so, too."
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
    title = "git merges entry by entry"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        top = merges_without_driver(subject.root) if isinstance(subject.system, RealSystem) else None
        if top is not None:
            yield HealthIssue(self.name, WARNING, NO_DRIVER, "smp git setup registers it.", path=top)


NO_DRIVER = ".gitattributes asks for the merge driver `smp`, which this clone does not have: git merges the store as plain text."


class OtherLayoutsCheck(Check):
    name = "layouts"
    title = "sessions have one layout"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        layout = subject.store.layout
        for each in unread(subject.disk, subject.root, layout):
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


class OtherStores(Check):
    name = "stores"
    title = "the project has one store"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        said, next_step = about_others(subject.root) if isinstance(subject.system, RealSystem) else ("", "")
        if said:
            yield HealthIssue(self.name, NOTE, said, next_step)


class SharedFilesCheck(Check):
    name = "shared"
    title = "files for all sessions can be read"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        number = len(all_shared(subject.store))
        self.said = counted(number, "memory", "memories") + (
            " in global/ or shared/: context uses them" if number else ""
        )
        for name, why in unreadable(subject.store):
            path = os.path.join(subject.store.root, *name.split("/"))
            message = f"{name} cannot be read: {why}"
            yield HealthIssue(self.name, WARNING, message, "Correct the file; SMP never writes it.", path=path)
