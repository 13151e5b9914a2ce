"""Run all health checks over a store, and apply the fixes that are safe.

Each session is read once; every check gets it.

Guarantees of a check run
- Nothing is written, no access is counted, no lock is kept: a store is read as `Store.examine` gives it.
- A check that raises, whatever is in the files, is reported as an issue of that check; all others still run.
- No secret is reported: messages, which may quote files, are redacted before they are returned.
Non-guarantees: of a store that is being written to, each file is seen as it was when it was read.

The fixes

    permissions   sets files to 0600 and folders to 0700, those that belong to SMP and to this user
    recovery      cleans up after a crash: carries out a committed journal, removes unfinished files and journals that were
                  never committed, moves a torn end into quarantine, finishes or reverts an interrupted conversion or erasure
    index         discards the index and rebuilds it from the files
    access        flushes the access log into the files, as maintenance does daily
    maintenance   runs the overdue tasks that remove nothing: decay counts, index check, access log

Guarantees of a fix: the memories are the same before and after (access counts may grow). A fix that fails is reported, and
the others still run. Everything else is left to a person: issues name the command.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, SessionArchived, SessionNotFound, SMPError, is_failure
from smp_memory.health import consistency, content, housekeeping
from smp_memory.health.examination import (
    FIXES,
    PROBLEM,
    SEVERITIES,
    CheckResult,
    FixResult,
    HealthIssue,
    HealthReport,
    worst,
)
from smp_memory.privacy.redaction import Redactor
from smp_memory.privacy.settings import redactor_even_if_off

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Protocol

    from smp_memory.health.examination import Check, Examination
    from smp_memory.lifecycle.maintenance import MaintenanceReport
    from smp_memory.store.port import Store

    class Maintained(Protocol):
        """An opened store that can be maintained (`smp_memory.Memory`)."""

        @property
        def store(self) -> Store: ...

        def maintain(self, *, only: list[str] | None = None) -> MaintenanceReport: ...

    Progress = Callable[[str, int, int], None]  # what is being checked, number of sessions done, number of sessions


_SESSION_GONE = (SessionArchived, SessionNotFound)  # another process archived or deleted it during the checks

CHECKS: tuple[type[Check], ...] = (
    content.ReadableEntries,
    content.ColdSegmentCheck,
    content.ConflictsCheck,
    housekeeping.OtherStoresCheck,
    content.SecretsCheck,
    content.RecalledText,
    consistency.ReferencesCheck,
    consistency.DuplicatesCheck,
    consistency.StalenessCheck,
    housekeeping.QuotaCheck,
    housekeeping.TrashCheck,
    housekeeping.ClockCheck,
    housekeeping.MaintenanceCheck,
    housekeeping.UserStateCheck,
    housekeeping.AuditLogCheck,
    housekeeping.HookFailuresCheck,
    housekeeping.MergeDriverCheck,
)
# The order of a report, also of the checks that a backend adds; others come last.
ORDER = (
    *(
        "configuration",
        "format",
        "server",
        "contents",
        "conflicts",
        "cold",
        "layouts",
        "stores",
        "unread",
        "archives",
        "shared",
        "leftovers",
    ),
    *("secrets", "permissions", "recalled", "references", "duplicates", "stale", "quota", "trash", "index", "locks"),
    *("clock", "maintenance", "state", "audit", "hooks", "git"),
)


def doctor(
    examine: Callable[[], Examination],
    opened: Callable[[], Maintained],
    *,
    fix: bool | Iterable[str] = False,
    sessions: list[str] | None = None,
    progress: Progress | None = None,
) -> HealthReport:
    """Check a store; with `fix`, apply the safe fixes that were asked for and check again.

    `examine` reads the store, and is called for each run of the checks. `opened` opens the store for writing; it is called only
    if a fix needs it.
    """
    fixes = tuple(fix) if not isinstance(fix, bool | str) else fix

    def run_checks(fixed: list[FixResult]) -> tuple[Examination, HealthReport]:
        subject = examine()
        return subject, _CheckRun(subject, sessions, progress).report(fixed)

    subject, report = run_checks([])
    try:
        if not fixes:
            return report
        names = _select_fixes(fixes, report)
        fixed = _apply_fixes(names, report, subject, opened) if names else []
    finally:
        subject.close()
    again, report = run_checks(fixed) if fixed else (subject, report)
    again.close()
    return report


class _CheckRun:
    """One run of all checks over a store."""

    def __init__(self, subject: Examination, sessions: list[str] | None, progress: Progress | None) -> None:
        self._subject = subject
        self._only = sessions
        self._progress = progress
        self._checks = sorted((kind() for kind in (*CHECKS, *subject.checks)), key=_position)
        self._running = [check for check in self._checks if not (subject.quick and check.is_heavy)]
        self._issues: list[HealthIssue] = []
        self._seconds: dict[str, float] = {}
        self._memories = 0
        self._incomplete: set[str] = set()  # names of checks that raised

    def report(self, fixed: list[FixResult]) -> HealthReport:
        started = time.monotonic()
        names = self._session_names()
        paused = gc.isenabled()
        gc.disable()  # entries hold no cycles; searching for some again and again costs a fifth of the time
        try:
            for done, name in enumerate(names):
                self._show_progress(name, done, len(names))
                self._check_session(name)
        finally:
            if paused:
                gc.enable()
        for check in self._running:
            self._show_progress(check.name, len(names), len(names))
            self._run(check, lambda check=check: check.store(self._subject), None)  # type: ignore[misc]
        redact = _issue_redactor(self._subject)
        by_check: dict[str, list[HealthIssue]] = {check.name: [] for check in self._checks}
        for issue in self._issues:
            by_check[issue.check].append(redact(issue))
        return HealthReport(
            self._subject.root,
            self._subject.layout_name,
            len(names),
            self._memories,
            [self._result(check, by_check[check.name]) for check in self._checks],
            fixed,
            time.monotonic() - started,
        )

    def _result(self, check: Check, issues: list[HealthIssue]) -> CheckResult:
        issues.sort(key=lambda issue: -SEVERITIES.index(issue.severity))
        severity = worst(issue.severity for issue in issues)
        skipped = check not in self._running
        title = check.name if skipped else check.statement(issues)
        if check.name in self._incomplete and severity == PROBLEM:
            title = f"{check.name} could not be checked completely"
        seconds = self._seconds.get(check.name, 0.0)
        return CheckResult(check.name, title, severity, check.summary, issues, skipped, seconds, check.not_checked)

    def _session_names(self) -> list[str]:
        """The sessions to check. Listing them can fail, too: that is an issue."""
        subject = self._subject
        try:
            every = subject.session_ids()
        except Exception as error:
            self._add_failure(content.ReadableEntries.name, None, error)
            return []
        missing = [name for name in self._only or () if name not in every]
        if missing and not subject.is_too_new:
            raise SessionNotFound(f"No session {missing[0]} in {subject.root}.", session=missing[0], path=subject.root)
        return [name for name in every if self._only is None or name in self._only]

    def _check_session(self, name: str) -> None:
        try:
            session = self._subject.session(name)
        except _SESSION_GONE:
            return
        except Exception as error:
            if self._subject.has(name):
                self._add_failure(content.ReadableEntries.name, name, error)
            return
        histories = session.session_history.histories.values()
        self._memories += sum(history.deletion is None for history in histories)
        before = len(self._issues)
        for check in self._running:
            self._run(check, lambda check=check: check.session(session), name)  # type: ignore[misc]
        if not self._subject.has(name):
            del self._issues[before:]  # it was archived or deleted meanwhile

    def _run(self, check: Check, work: Callable[[], Iterable[HealthIssue]], session: str | None) -> None:
        started = time.monotonic()
        try:
            for issue in work():  # one by one: those before an exception are kept
                self._issues.append(issue)
        except _SESSION_GONE:
            pass
        except BaseException as error:
            if not is_failure(error):
                raise
            if session is None or self._subject.has(session):
                self._add_failure(check.name, session, error)
        self._seconds[check.name] = self._seconds.get(check.name, 0.0) + time.monotonic() - started

    def _add_failure(self, check: str, session: str | None, error: BaseException) -> None:
        self._incomplete.add(check)
        self._issues.append(_check_failed(check, session, error))

    def _show_progress(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


def _position(check: Check) -> int:
    return ORDER.index(check.name) if check.name in ORDER else len(ORDER)


def _check_failed(check: str, session: str | None, error: BaseException) -> HealthIssue:
    """The issue for a check that raised: the files are in a state that it did not expect."""
    reason = str(getattr(error, "message", None) or getattr(error, "strerror", None) or error)[:300]
    message = f"The check failed: {type(error).__name__}: {reason}"
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    advice = (
        "Open the file in an editor; smp validate may tell more." if path else "Run smp validate; it may tell more."
    )
    return HealthIssue(check, PROBLEM, message, advice, session, path=path if isinstance(path, str) else None)


def _issue_redactor(subject: Examination) -> Callable[[HealthIssue], HealthIssue]:
    """A function that redacts an issue: messages may quote a file, and hook failures quote anything."""
    redactors = [Redactor()]
    try:
        redactors.append(redactor_even_if_off(subject.config))
    except SMPError:
        pass  # a pattern is invalid; ConfigurationCheck reports it

    def redact(issue: HealthIssue) -> HealthIssue:
        return issue._replace(
            message=_redacted(issue.message, redactors),
            advice=_redacted(issue.advice, redactors),
            details=tuple(_redacted(detail, redactors) for detail in issue.details),
        )

    return redact


_NEVER_REDACTED = ("id", "session", "path", "kind", "field", "line", "ids", "code", "rule", "mode", "target")


def _redacted(value: Any, redactors: list[Redactor]) -> Any:
    if isinstance(value, str):
        for redactor in redactors:
            value = redactor.redact(value)[0]
    elif isinstance(value, dict):
        return {key: item if key in _NEVER_REDACTED else _redacted(item, redactors) for key, item in value.items()}
    return value


# -- fixes


def _select_fixes(fix: bool | Iterable[str], report: HealthReport) -> list[str]:
    """The fixes that were asked for and would resolve an issue."""
    names = tuple(FIXES) if fix is True else (fix,) if isinstance(fix, str) else tuple(fix or ())
    for name in names:
        if name not in FIXES:
            raise InvalidRecord(f"fix: {name!r} is not a safe fix; use one of {', '.join(FIXES)}.", field="fix")
    return [name for name in FIXES if name in names and name in report.fixes]


_TASKS = {"access": ["access"], "maintenance": list(housekeeping.SAFE_TASKS)}  # the others are fixes of the backend


def _apply_fixes(
    names: list[str], report: HealthReport, subject: Examination, opened: Callable[[], Maintained]
) -> list[FixResult]:
    results = []
    for name in names:
        actions: list[str] = []
        issues = [issue for issue in report.findings if issue.fix == name]
        try:
            if name in _TASKS:
                lines = _maintain(opened(), _TASKS[name])
            else:
                lines = subject.fixes[name](subject, issues, lambda: opened().store)
            for line in lines:
                actions.append(line)
            results.append(FixResult(name, True, actions or ["nothing was left to do"]))
        except (SMPError, OSError) as error:
            results.append(FixResult(name, False, [*actions, f"failed: {getattr(error, 'message', error)}"]))
    return results


def _maintain(memory: Maintained, tasks: list[str]) -> Iterator[str]:
    report = memory.maintain(only=tasks)
    yield from (f"{task.name}: {'; '.join(task.did) or task.problem or 'done'}" for task in report.tasks if task.ran)
