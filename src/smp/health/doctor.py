"""How is this store? One look over everything: each session is read once, and every check sees it.

Guarantees
- Nothing is written, nothing counts as used, no lock is kept: everything goes through `smp.health.looking`.
- A check that fails, by whatever is in the files, is a finding of that check; all others still run.
- No secret is told: what checks say about files loses its secrets before it is handed out.
Non-guarantees: a store that is being written to is seen as each file was when it was read.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

from smp.errors import SessionArchived, SessionNotFound, SMPError, StorageError
from smp.health import contents, exposed, index_state, recalled, references, remains, repeats, room, staleness, upkeep
from smp.health.access_rights import AccessRights
from smp.health.git_merging import GitMerging
from smp.health.locks import Locks
from smp.health.other_layouts import OtherLayouts
from smp.health.report import PROBLEM, SEVERITIES, Checked, Finding, HealthReport, worst
from smp.health.shared import SharedFiles
from smp.health.shelved import Archives, Trash
from smp.health.subject import Subject
from smp.store.indexer import is_damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from smp.files.system import System
    from smp.health.check import Check
    from smp.health.report import Fixed
    from smp.memory import Memory
    from smp.privacy.redact import Redactor

    Progress = Callable[[str, int, int], None]  # what is looked at, how many sessions are done, of how many

_PUT_AWAY = (SessionArchived, SessionNotFound)  # by somebody else, while we look

CHECKS: tuple[type[Check], ...] = (
    contents.Configuration,
    contents.Format,
    contents.Contents,
    contents.Cold,
    OtherLayouts,
    Archives,
    SharedFiles,
    remains.Remains,
    exposed.Exposed,
    AccessRights,
    recalled.Recalled,
    references.References,
    repeats.Repeats,
    staleness.Staleness,
    room.Room,
    Trash,
    index_state.IndexState,
    Locks,
    upkeep.Clock,
    upkeep.Maintenance,
    upkeep.State,
    upkeep.AuditLog,
    upkeep.HookFailures,
    GitMerging,
)


def doctor(
    system: System,
    root: str,
    clock: Callable[[], datetime],
    opened: Callable[[], Memory],
    *,
    fix: bool | Iterable[str] = False,
    sessions: list[str] | None = None,
    quick: bool = False,
    environ: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> HealthReport:
    """Look a store over; with `fix` put right what is safe to, and look again."""
    fixes = tuple(fix) if not isinstance(fix, bool | str) else fix

    def look(fixed: list[Fixed]) -> tuple[Subject, HealthReport]:
        subject = Subject(system, root, clock(), environ=environ, arguments=arguments, quick=quick)
        return subject, _Look(subject, sessions, progress).report(fixed)

    subject, report = look([])
    try:
        if not fixes:
            return report
        from smp.health.fixes import apply, wanted

        names = wanted(fixes, report)
        fixed = apply(names, report, subject, opened) if names else []
    finally:
        subject.close()
    again, report = look(fixed) if fixed else (subject, report)
    again.close()
    return report


class _Look:
    """One look."""

    def __init__(self, subject: Subject, sessions: list[str] | None, progress: Progress | None) -> None:
        self._subject = subject
        self._only = sessions
        self._progress = progress
        self._checks = [kind() for kind in CHECKS]
        self._running = [check for check in self._checks if not (subject.quick and check.is_heavy)]
        self._findings: list[Finding] = []
        self._seconds: dict[str, float] = {}
        self._memories = 0

    def report(self, fixed: list[Fixed]) -> HealthReport:
        started = time.monotonic()
        names = self._names()
        paused = gc.isenabled()
        gc.disable()  # entries hold no cycles; to look for some again and again costs a fifth of the time
        try:
            for done, name in enumerate(names):
                self._tell(name, done, len(names))
                self._look_at(name)
        finally:
            if paused:
                gc.enable()
        for check in self._running:
            self._tell(check.title, len(names), len(names))
            self._run(check, lambda check=check: check.store(self._subject), None)  # type: ignore[misc]
        clean = _without_secrets(self._subject)
        told: dict[str, list[Finding]] = {check.name: [] for check in self._checks}
        for finding in self._findings:
            told[finding.check].append(clean(finding))
        return HealthReport(
            self._subject.root,
            self._subject.layout_name,
            len(names),
            self._memories,
            [self._checked(check, told[check.name]) for check in self._checks],
            fixed,
            time.monotonic() - started,
        )

    def _checked(self, check: Check, findings: list[Finding]) -> Checked:
        findings.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
        severity = worst(finding.severity for finding in findings)
        skipped = check not in self._running
        return Checked(
            check.name, check.title, severity, check.said, findings, skipped, self._seconds.get(check.name, 0.0)
        )

    def _names(self) -> list[str]:
        """The sessions to look at; to list them is the first thing that may go wrong."""
        subject = self._subject
        try:
            every = subject.session_ids()
        except Exception as error:
            self._findings.append(_failed(contents.Contents.name, None, error))
            return []
        missing = [name for name in self._only or () if name not in every]
        if missing and not subject.is_too_new:
            raise SessionNotFound(f"No session {missing[0]} in {subject.root}.", session=missing[0], path=subject.root)
        return [name for name in every if self._only is None or name in self._only]

    def _look_at(self, name: str) -> None:
        try:
            session = self._subject.session(name)
        except _PUT_AWAY:
            return
        except Exception as error:
            if self._is_there(name):
                self._findings.append(_failed(contents.Contents.name, name, error))
            return
        self._memories += len(session.fold.trails)
        before = len(self._findings)
        for check in self._running:
            self._run(check, lambda check=check: check.session(session), name)  # type: ignore[misc]
        if not self._is_there(name):
            del self._findings[before:]  # it was put away while we looked

    def _run(self, check: Check, work: Callable[[], Iterable[Finding]], session: str | None) -> None:
        started = time.monotonic()
        try:
            for finding in work():
                self._findings.append(finding)
        except _PUT_AWAY:
            pass
        except BaseException as error:
            if not is_damage(error):
                raise
            if session is None or self._is_there(session):
                self._findings.append(_failed(check.name, session, error))
        self._seconds[check.name] = self._seconds.get(check.name, 0.0) + time.monotonic() - started

    def _is_there(self, session: str) -> bool:
        """Whether a session is still in its place; others may put it away while we look."""
        store = self._subject.store
        try:
            return store.layout.exists(store.disk, store.root, session)
        except StorageError:
            return True

    def _tell(self, what: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(what, done, total)


def _failed(check: str, session: str | None, error: BaseException) -> Finding:
    """What kept a check from doing its work: the files are in a state that it did not expect."""
    said = str(getattr(error, "message", None) or getattr(error, "strerror", None) or error)[:300]
    message = f"This could not be looked at: {type(error).__name__}: {said}"
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    advice = "Look at the file that is named; smp validate may say more." if path else "smp validate may say more."
    return Finding(check, PROBLEM, message, advice, session, path=path if isinstance(path, str) else None)


def _without_secrets(subject: Subject) -> Callable[[Finding], Finding]:
    """What may be told of a finding: a message may quote a file, and hooks quote anything."""
    from smp.privacy.redact import Redactor
    from smp.redacting import redactor_always

    redactors = [Redactor()]
    try:
        redactors.append(redactor_always(subject.config))
    except SMPError:
        pass  # patterns that cannot be used; the check of the settings tells

    def clean(finding: Finding) -> Finding:
        details = tuple(_cleaned(detail, redactors) for detail in finding.details)
        return finding._replace(
            message=_cleaned(finding.message, redactors), advice=_cleaned(finding.advice, redactors), details=details
        )

    return clean


_NAMES_AND_NUMBERS = ("id", "session", "path", "kind", "field", "line", "ids", "code", "rule", "mode", "target")


def _cleaned(value: Any, redactors: list[Redactor]) -> Any:
    if isinstance(value, str):
        for redactor in redactors:
            value = redactor.redact(value)[0]
    elif isinstance(value, dict):
        return {key: item if key in _NAMES_AND_NUMBERS else _cleaned(item, redactors) for key, item in value.items()}
    return value
