"""How is this store? One look over everything: each session is read once, and every check sees it.

Guarantees
- Nothing is written, nothing counts as used, no lock is kept: everything goes through `smp_memory.health.readonly_system`.
- A check that fails, by whatever is in the files, is a finding of that check; all others still run.
- No secret is told: what checks say about files loses its secrets before it is handed out.
Non-guarantees: a store that is being written to is seen as each file was when it was read.

What can be put right without asking? Fixes that destroy and change no memory.

    permissions   files 0600, folders 0700, of SMP's own and of this user's
    recovery      what a crash left: a committed plan is carried out, unfinished files and never committed plans go, a torn
                  end is set aside in quarantine; a conversion or erasure that was interrupted is finished or taken back
    index         thrown away and made anew from the files
    access        the log of uses is folded into the files, as maintenance does daily
    maintenance   of what is overdue: the counts for fading, the check of the index, the log of uses. Nothing by the calendar

Guarantees: the memories are the same before and after (the count of uses may grow). A fix that fails says so, and the
others still run. Everything else is left to a person: reports name the command.
"""

from __future__ import annotations

import gc
import os
import time
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, SessionArchived, SessionNotFound, SMPError, StorageError
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.health import consistency, content, index, storage, upkeep
from smp_memory.health import sessions as room
from smp_memory.health.report import PROBLEM, SEVERITIES, CheckResult, FixResult, HealthIssue, HealthReport, worst
from smp_memory.health.sessions import ArchivesCheck, TrashCheck
from smp_memory.health.storage import FILE_MODE, FOLDER_MODE, AccessRightsCheck, LocksCheck, OwnedPath, places
from smp_memory.health.subject import HealthSubject
from smp_memory.health.unread_files import UnreadFiles
from smp_memory.health.upkeep import TENDED, MergeDriverCheck, OtherLayoutsCheck, OtherStores, SharedFilesCheck
from smp_memory.model import ids
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.indexer import is_damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from smp_memory.files.system import System
    from smp_memory.health.report import Check, FixResult
    from smp_memory.memory import Memory
    from smp_memory.privacy.redaction import Redactor

    Progress = Callable[[str, int, int], None]  # what is looked at, how many sessions are done, of how many
    from collections.abc import Callable, Iterator

    from smp_memory.health.report import HealthIssue, HealthReport
    from smp_memory.health.subject import HealthSubject


_PUT_AWAY = (SessionArchived, SessionNotFound)  # by somebody else, while we look

CHECKS: tuple[type[Check], ...] = (
    content.ConfigurationCheck,
    content.FormatCheck,
    content.ReadableEntries,
    content.ColdSegmentCheck,
    OtherLayoutsCheck,
    OtherStores,
    UnreadFiles,
    ArchivesCheck,
    SharedFilesCheck,
    storage.LeftoversCheck,
    content.SecretsCheck,
    AccessRightsCheck,
    content.RecalledText,
    consistency.ReferencesCheck,
    consistency.DuplicatesCheck,
    consistency.StalenessCheck,
    room.QuotaCheck,
    TrashCheck,
    index.IndexCheck,
    LocksCheck,
    upkeep.ClockCheck,
    upkeep.MaintenanceCheck,
    upkeep.UserStateCheck,
    upkeep.AuditLogCheck,
    upkeep.HookFailuresCheck,
    MergeDriverCheck,
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

    def look(fixed: list[FixResult]) -> tuple[HealthSubject, HealthReport]:
        subject = HealthSubject(system, root, clock(), environ=environ, arguments=arguments, quick=quick)
        return subject, _Look(subject, sessions, progress).report(fixed)

    subject, report = look([])
    try:
        if not fixes:
            return report

        names = wanted(fixes, report)
        fixed = apply(names, report, subject, opened) if names else []
    finally:
        subject.close()
    again, report = look(fixed) if fixed else (subject, report)
    again.close()
    return report


class _Look:
    """One look."""

    def __init__(self, subject: HealthSubject, sessions: list[str] | None, progress: Progress | None) -> None:
        self._subject = subject
        self._only = sessions
        self._progress = progress
        self._checks = [kind() for kind in CHECKS]
        self._running = [check for check in self._checks if not (subject.quick and check.is_heavy)]
        self._findings: list[HealthIssue] = []
        self._seconds: dict[str, float] = {}
        self._memories = 0

    def report(self, fixed: list[FixResult]) -> HealthReport:
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
        told: dict[str, list[HealthIssue]] = {check.name: [] for check in self._checks}
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

    def _checked(self, check: Check, findings: list[HealthIssue]) -> CheckResult:
        findings.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
        severity = worst(finding.severity for finding in findings)
        skipped = check not in self._running
        return CheckResult(
            check.name, check.title, severity, check.said, findings, skipped, self._seconds.get(check.name, 0.0)
        )

    def _names(self) -> list[str]:
        """The sessions to look at; to list them is the first thing that may go wrong."""
        subject = self._subject
        try:
            every = subject.session_ids()
        except Exception as error:
            self._findings.append(_failed(content.ReadableEntries.name, None, error))
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
                self._findings.append(_failed(content.ReadableEntries.name, name, error))
            return
        self._memories += len(session.session_history.histories)
        before = len(self._findings)
        for check in self._running:
            self._run(check, lambda check=check: check.session(session), name)  # type: ignore[misc]
        if not self._is_there(name):
            del self._findings[before:]  # it was put away while we looked

    def _run(self, check: Check, work: Callable[[], Iterable[HealthIssue]], session: str | None) -> None:
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


def _failed(check: str, session: str | None, error: BaseException) -> HealthIssue:
    """What kept a check from doing its work: the files are in a state that it did not expect."""
    said = str(getattr(error, "message", None) or getattr(error, "strerror", None) or error)[:300]
    message = f"This could not be looked at: {type(error).__name__}: {said}"
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    advice = "Look at the file that is named; smp validate may say more." if path else "smp validate may say more."
    return HealthIssue(check, PROBLEM, message, advice, session, path=path if isinstance(path, str) else None)


def _without_secrets(subject: HealthSubject) -> Callable[[HealthIssue], HealthIssue]:
    """What may be told of a finding: a message may quote a file, and hooks quote anything."""
    from smp_memory.privacy.redaction import Redactor
    from smp_memory.privacy.settings import redactor_even_if_off

    redactors = [Redactor()]
    try:
        redactors.append(redactor_even_if_off(subject.config))
    except SMPError:
        pass  # patterns that cannot be used; the check of the settings tells

    def clean(finding: HealthIssue) -> HealthIssue:
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


NAMES = ("permissions", "recovery", "index", "access", "maintenance")
_ABANDONED_SECONDS = 3600  # whoever made it would be done by now


def wanted(fix: bool | Iterable[str], report: HealthReport) -> list[str]:
    """The fixes that were asked for and would help, in the order in which they are done."""
    names = NAMES if fix is True else (fix,) if isinstance(fix, str) else tuple(fix or ())
    for name in names:
        if name not in NAMES:
            raise InvalidRecord(f"fix: {name!r} is not a safe fix; there are {', '.join(NAMES)}.", field="fix")
    return [name for name in NAMES if name in names and name in report.fixes]


def apply(
    names: list[str], report: HealthReport, subject: HealthSubject, opened: Callable[[], Memory]
) -> list[FixResult]:
    """Do them; `opened` gives the store, when it is needed, and may fail."""
    work: dict[str, Callable[[list[HealthIssue]], Iterator[str]]] = {
        "permissions": lambda _: _close_up(subject),
        "recovery": lambda findings: _recover(findings, subject, opened()),
        "index": lambda _: _make_index(opened()),
        "access": lambda _: _maintain(opened(), ["access"]),
        "maintenance": lambda _: _maintain(opened(), list(TENDED)),
    }
    done = []
    for name in names:
        did: list[str] = []
        try:
            for line in work[name]([finding for finding in report.findings if finding.fix == name]):
                did.append(line)
            done.append(FixResult(name, True, did or ["nothing was left to do"]))
        except (SMPError, OSError) as error:
            done.append(FixResult(name, False, [*did, f"could not be done: {getattr(error, 'message', error)}"]))
    return done


def _close_up(subject: HealthSubject) -> Iterator[str]:
    """Take rights away from others; only where this user may, and never through a link."""
    disk, changed = Disk(subject.system), 0
    for place in list(places(subject)):
        now = disk.stat(place.path)
        if now is not None and OwnedPath(place.path, now).is_too_open:
            disk.system.chmod(place.path, FOLDER_MODE if place.is_folder else FILE_MODE)
            changed += 1
    if changed:
        yield f"{changed:,} files and folders are for their owner alone now"


def _recover(findings: list[HealthIssue], subject: HealthSubject, memory: Memory) -> Iterator[str]:
    """Opening the store has finished what concerned the whole of it; the rest is done session by session."""
    store = memory.store
    named = [finding.session for finding in findings if finding.session]
    for name in dict.fromkeys(named):
        if store.layout.exists(store.disk, store.root, name):
            store.session(name).exclusively("recovering", _nothing)
            yield f"{name}: what was interrupted is finished"
    shelf = ArchiveIndex(store)
    waiting = [str(detail["path"]) for finding in findings if not finding.session for detail in finding.details]
    for name in dict.fromkeys([*named, *(_session_in(path) for path in waiting)]):
        if ids.is_valid(name):
            with shelf.shelved(name, "recovering"):
                pass
    removed = [path for path in waiting if store.disk.exists(path) and _is_abandoned(subject, store.disk, path)]
    for path in removed:
        store.disk.remove_tree(path)
    gone = [path for path in waiting if not store.disk.exists(path)]
    if gone:
        yield f"{len(gone):,} unfinished files or folders are gone"


def _nothing() -> None:
    """Taking the lock is what recovers."""


def _session_in(path: str) -> str:
    """The session of `leaving-NAME.smp-new` and the like; a valid name in any case."""
    name = os.path.basename(path).removesuffix(".smp-new").removeprefix("leaving-").removeprefix("coming-")
    return name if ids.is_valid(name) else "recovery"


def _is_abandoned(subject: HealthSubject, disk: Disk, path: str) -> bool:
    found = disk.stat(path)
    if found is None or not isinstance(subject.system, RealSystem):
        return found is not None
    return bool(time.time() - found.st_mtime_ns / 1e9 > _ABANDONED_SECONDS)


def _make_index(memory: Memory) -> Iterator[str]:
    from smp_memory.index.index import discard_all

    indexer = memory.store.indexer
    with indexer.mutex:
        indexer.close()
        if memory.store.state.on_disk and os.path.isdir(indexer.folder):
            discard_all(indexer.folder)
        count = memory.reindex()
    yield f"made anew from the files: {count:,} memories"


def _maintain(memory: Memory, tasks: list[str]) -> Iterator[str]:
    report = memory.maintain(only=tasks)
    yield from (f"{task.name}: {'; '.join(task.did) or task.problem or 'done'}" for task in report.tasks if task.ran)
