"""The page Health: `doctor` with a verdict first, what each issue means and what to do, safe fixes; storage, maintenance, quarantine, audit.

The checks read every memory, so a large store is checked only when asked for. The last report is kept and shown with its time; `?check=quick`
and `?check=full` run the checks again. Looking changes nothing. Maintenance has a preview.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError, UserError
from smp_memory.health.examination import NOTE, PROBLEM, WARNING
from smp_memory.integrations.web.forms import Form, done, form_response
from smp_memory.integrations.web.pages.redaction import MOST_SESSIONS
from smp_memory.integrations.web.parts import ago, counted, memories, plain, sentence, shortened, size_text
from smp_memory.integrations.web.renderer import page
from smp_memory.lifecycle.maintenance import EVERY
from smp_memory.model.candidates import PROBLEMS, CandidateRequest
from smp_memory.model.times import EPOCH, to_moment, to_text
from smp_memory.scope import file_features

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from smp_memory.health.examination import CheckResult, HealthReport
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.lifecycle.maintenance import MaintenanceReport, Task
    from smp_memory.memory import Memory
    from smp_memory.model.reports import Problem
    from smp_memory.model.storage_reports import QuarantinedEntry

MOST_CHECKED_AT_ONCE = 5000  # memories: a larger store is checked when asked for
MOST_SESSIONS_AT_ONCE = 200
AUDIT_ENTRIES = 50
MOST_QUARANTINED = 20
_PREVIEW_BYTES = 1500
_MOST_IDS = 8  # of an entry of the audit log
_MEMO = "health"
_SEVERITY_KINDS = {PROBLEM: "crit", WARNING: "warn", NOTE: ""}
_FIXES = {
    "permissions": "Set files to 0600 and folders to 0700",
    "recovery": "Clean up after the crash",
    "index": "Rebuild the index",
    "access": "Write the access log into the files",
    "maintenance": "Run the overdue tasks that remove nothing",
}
_TASKS = {
    "quota": "compact sessions that are nearly full",
    "decay": "count uses in the index",
    "index": "check the index",
    "archive": "archive unused sessions",
    "access": "write uses into the files",
    "tidy": "fold changes into entries",
    "retention": "move old memories to the trash",
    "purge": "remove what was deleted long ago",
}


class Checked(NamedTuple):
    """A report that is kept until the next one."""

    report: HealthReport
    maintenance: MaintenanceReport
    at: datetime
    is_full: bool


def health_page(request: PageRequest) -> Response:
    known, unreadable = known_figures(request.memory)
    sessions = len(request.memory.store.sessions())
    checked = _checked(request, known, sessions)
    has_quarantine = sessions <= MOST_SESSIONS_AT_ONCE or bool(request.get("check"))
    features = request.memory.store.files
    quarantined = features.quarantined() if has_quarantine and features is not None else []
    log = request.memory.store.audit
    entries = log.entries()
    return page(
        request,
        "health.html",
        "Health",
        "health",
        checked=checked,
        size=f"{memories(known)} in {counted(sessions, 'session')}",
        unreadable=unreadable,
        verdict=_verdict(checked.report) if checked else None,
        checks=[each for each in _failed(checked.report, (PROBLEM, WARNING, NOTE)) if each.shown] if checked else [],
        folded=checked.report.folded if checked else [],
        not_checked=[(each.name, each.not_checked) for each in checked.report.checks if each.not_checked]
        if checked
        else [],
        secret_sessions=list(dict.fromkeys(each.session for each in checked.report.of("secrets") if each.session))
        if checked
        else [],
        passed=[each for each in checked.report.checks if not each.shown and not each.skipped] if checked else [],
        most_redacted=MOST_SESSIONS,
        severity_kinds=_SEVERITY_KINDS,
        fixes=_FIXES,
        quarantine_count=len(quarantined),
        quarantined=[(each, _content(request, each)) for each in quarantined[:MOST_QUARANTINED]],
        audit_count=len(entries),
        audit=[_audited(each) for each in entries[-AUDIT_ENTRIES:][::-1]],
        audit_problems=log.problems()[:5],
        storage=_storage(request.memory, known, sessions),
        maintained_at=_moment(request.memory.store.state.modified_at("maintenance.json")),
        tasks=_tasks(checked.maintenance, request.now) if checked else None,
    )


def last_check(request: PageRequest) -> Checked | None:
    """The last report of the checks that this client asked for; None if there is none."""
    memo = request.inspector.memo
    return memo[_MEMO][1] if _MEMO in memo else None


def known_figures(memory: Memory) -> tuple[int, list[Problem]]:
    """How many memories the live sessions hold, and the entries that the index could not read; no session is read for it."""
    index = memory.store.indexer
    counts = index.facets(CandidateRequest(), ["type"]).counts
    problems = index.candidates(CandidateRequest(limit=0, fetch=[PROBLEMS])).every_problem
    return sum(counts["type"].values()), problems


def _checked(request: PageRequest, known: int, sessions: int) -> Checked | None:
    """A new report if one is asked for or the store is small, else the last one, if any."""
    asked = request.get("check")
    is_full = asked == "full" or bool(request.get("full"))
    is_small = known <= MOST_CHECKED_AT_ONCE and sessions <= MOST_SESSIONS_AT_ONCE
    if not (asked or is_full or is_small):
        return last_check(request)
    report = request.memory.doctor(quick=not is_full)
    found = Checked(report, request.memory.maintain(dry_run=True), request.now, is_full)
    request.inspector.memo[_MEMO] = (None, found)
    return found


# -- the verdict


class Verdict(NamedTuple):
    """What the checks say in a line: its class, the line, and what was left out."""

    kind: str
    title: str
    notes: int
    skipped: list[str]


def _verdict(report: HealthReport) -> Verdict:
    failed = _failed(report, (PROBLEM, WARNING))
    skipped = [each.name for each in report.checks if each.skipped]
    notes = report.count(NOTE) - len(report.folded)
    if not failed:
        title = f"All is well: {counted(len(report.checks) - len(skipped), 'check')} passed"
        return Verdict("fine", title, notes, skipped)
    more = f"; and {counted(len(failed) - 3, 'more thing')}" if len(failed) > 3 else ""
    title = sentence("; ".join(each.title for each in failed[:3])) + more
    return Verdict("crit" if failed[0].severity == PROBLEM else "warn", title, notes, skipped)


def _failed(report: HealthReport, severities: tuple[str, ...]) -> list[CheckResult]:
    """The checks of these severities, in their order."""
    found = [each for each in report.checks if each.severity in severities]
    return sorted(found, key=lambda each: severities.index(each.severity))


# -- storage and maintenance


def _storage(memory: Memory, known: int, sessions: int) -> list[tuple[str, str]]:
    """What the store holds, and whether hooks may use it."""
    archived, deleted = (
        f"{counted(len(found), 'session')}, {size_text(sum(each.bytes for each in found))}" if found else ""
        for found in (memory.archived_sessions(), memory.deleted_sessions())
    )
    is_used = "yes: hooks recall from it and record to it"
    is_not_used = "no: hooks do not use it. `smp trust` changes that."
    return [
        ("Layout", memory.layout),
        ("Sessions", f"{sessions:,}"),
        ("Memories", f"{known:,}"),
        ("Archived", archived),
        ("In the trash", deleted),
        ("Trusted", is_used if memory.is_trusted else is_not_used),
        ("Durability", plain(memory.config["durability"])),
    ]


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else EPOCH + timedelta(seconds=seconds)


def _tasks(report: MaintenanceReport, now: datetime) -> dict[str, Any]:
    """Which tasks are due and what they would do, and when the others run."""
    due = [task for task in report.tasks if task.ran and (task.did or task.problem)]
    idle = [(_TASKS.get(task.name, task.name), _idle(task, now)) for task in report.tasks if task not in due]
    named = [(_TASKS.get(task.name, task.name), task) for task in due]
    return {"due": named, "idle": idle, "refused": report.refused}


def _idle(task: Task, now: datetime) -> str:
    return "nothing to do" if task.ran else f"ran {ago(task.next - EVERY[task.name], now)}, next {ago(task.next, now)}"


def maintain_page(request: PageRequest) -> Response:
    """What maintenance would do now."""
    shown = _task_rows(request.memory.maintain(dry_run=True), request.now)
    note = "These tasks run by themselves from time to time. Here you run those that are due now."
    form = Form(
        "Maintenance",
        "/maintain",
        "/health",
        "Run what is due",
        notes=[note],
        template="maintain.html",
        values={"shown": shown},
    )
    return form_response(request, form)


def run_maintain(request: PageRequest) -> Response:
    report = request.memory.maintain()
    text = "Maintenance ran." if report.ok else "Maintenance ran; some tasks failed."
    shown = _task_rows(report, request.now) | {"title": "Maintenance"}
    return done(request, "/health", text, detail=("tasks_result.html", shown))


def _task_rows(report: MaintenanceReport, now: datetime) -> dict[str, Any]:
    rows = [
        (task.name, task.did or ["nothing to do" if task.ran else f"due {ago(task.next, now)}"], task.problem)
        for task in report.tasks
    ]
    return {"refused": report.refused, "rows": rows}


def run_fix(request: PageRequest) -> Response:
    """Apply the named safe fixes; the memories are the same before and after."""
    names = [name for name in request.form.get("fix", "").replace(",", " ").split() if name]
    unknown = [name for name in names if name not in _FIXES]
    if unknown or not names:
        raise UserError(f"fix: name one or several of {', '.join(_FIXES)}.", field="fix")
    report = request.memory.doctor(fix=names, quick=True)
    failed = [each.name for each in report.fixed if not each.ok]
    text = f"Failed: {', '.join(failed)}." if failed else f"Done: {', '.join(names)}."
    rows = [
        (
            each.name,
            [] if not each.ok else each.did or ["nothing was to be done"],
            "" if each.ok else "; ".join(each.did),
        )
        for each in report.fixed
    ]
    return done(request, "/health", text, detail=("tasks_result.html", {"title": "Fixes", "refused": "", "rows": rows}))


# -- quarantine


def _content(request: PageRequest, each: QuarantinedEntry) -> str:
    """The beginning of what was put aside."""
    try:
        data = file_features(request.memory.store).quarantined_data(each)
    except SMPError as error:
        return error.message
    return data[:_PREVIEW_BYTES].decode("utf-8", "replace") + ("…" if len(data) > _PREVIEW_BYTES else "")


def put_back(request: PageRequest) -> Response:
    """POST: append the entries of a file in quarantine to their session again."""
    session, name = request.form.get("session", ""), request.form.get("name", "")
    features = file_features(request.memory.store)
    found = [each for each in features.quarantined() if (each.session, each.name) == (session, name)]
    if not found:
        raise UserError(f"{name}: there is no such file in quarantine.", field="name")
    ids = features.restore_quarantined(found[0], to_text(request.now))
    return done(
        request,
        "/health",
        f"Put back into session {session}: {', '.join(ids[:20])}{' and more' if len(ids) > 20 else ''}.",
    )


# -- audit log


class AuditRow(NamedTuple):
    """An entry of the audit log, in which anybody may have written anything."""

    at: datetime | str
    action: str
    session: str
    ids: list[tuple[str, str]]  # with `session/ID`, which is empty if the session is not known
    more: str
    why: str


def _audited(each: dict[str, Any]) -> AuditRow:
    session, ids, by, reason, count = (each.get(name) for name in ("session", "ids", "by", "reason", "count"))
    name = session if isinstance(session, str) else ""
    known = [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []
    refs = [(id, id if "/" in id else f"{name}/{id}" if name else "") for id in known[:_MOST_IDS]]
    rest = (count if isinstance(count, int) else len(known)) - len(refs)
    more = ""
    if rest > 0 and known:
        more = f" and {rest:,} more"
    elif isinstance(count, int) and not known and count != 1:
        more = f" {count:,}"
    why = ": ".join(filter(None, (plain(by), shortened(plain(reason), 200))))
    return AuditRow(_time(each.get("at")), plain(each.get("action")).replace("_", " "), name, refs, more, why)


def _time(at: object) -> datetime | str:
    try:
        return to_moment(at) if isinstance(at, str) else ""
    except (SMPError, ValueError, OverflowError):
        return plain(at)
