"""The page Health: `doctor` with a verdict first, what each issue means and what to do, safe fixes; storage, maintenance, quarantine, audit.

The checks read every memory, so a large store is checked only when asked for. The last report is kept and shown with its time; `?check=quick`
and `?check=full` run the checks again. Looking changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import UserError
from smp_memory.health.examination import FIXES, NOTE, OK, PROBLEM, WARNING
from smp_memory.integrations.web.actions.frame import done
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.icons import icon
from smp_memory.integrations.web.layout import form, heading, page, panel
from smp_memory.integrations.web.pages.health_lists import (
    audit_panel,
    known_figures,
    maintenance_panel,
    quarantine_panel,
    storage_panel,
)
from smp_memory.integrations.web.parts import memory_link, tag, when
from smp_memory.integrations.web.words import counted
from smp_memory.model.times import to_text
from smp_memory.scope import file_features

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from smp_memory.health.examination import CheckResult, HealthIssue, HealthReport
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.lifecycle.maintenance import MaintenanceReport
    from smp_memory.model.reports import Problem

MOST_CHECKED_AT_ONCE = 5000  # memories: a larger store is checked when asked for
MOST_SESSIONS_AT_ONCE = 200
_MOST_ISSUES = 20  # of one check; the others are counted
_MOST_IDS = 12
_MEMO = "health"
_SEVERITY_KINDS = {PROBLEM: "crit", WARNING: "warn", NOTE: ""}


class Checked(NamedTuple):
    """A report that is kept until the next one."""

    report: HealthReport
    maintenance: MaintenanceReport
    at: datetime
    is_full: bool


def health_page(request: PageRequest) -> Response:
    memories, unreadable = known_figures(request.memory)
    sessions = len(request.memory.store.sessions())
    checked = _checked(request, memories, sessions)
    return page(
        request,
        "Health",
        "health",
        heading("Health", "Whether every memory can be read, kept and found; what to do if not."),
        el(
            "div",
            el(
                "div",
                _verdict(request, checked) if checked else _unchecked(unreadable, memories, sessions),
                _issues(request, checked.report) if checked else None,
                quarantine_panel(request) if sessions <= MOST_SESSIONS_AT_ONCE or request.get("check") else None,
                audit_panel(request),
                class_="column",
            ),
            el(
                "aside",
                storage_panel(request, memories, sessions),
                maintenance_panel(request, checked.maintenance if checked else None),
                _passed(checked) if checked else None,
                aria_label="Storage and maintenance",
            ),
            class_="grid side",
        ),
        wide=True,
    )


def _checked(request: PageRequest, memories: int, sessions: int) -> Checked | None:
    """A new report if one is asked for or the store is small, else the last one, if any."""
    asked, memo = request.get("check"), request.inspector.memo
    is_full = asked == "full" or bool(request.get("full"))
    is_small = memories <= MOST_CHECKED_AT_ONCE and sessions <= MOST_SESSIONS_AT_ONCE
    if not (asked or is_full or is_small):
        known: Checked | None = memo[_MEMO][1] if _MEMO in memo else None
        return known
    report = request.memory.doctor(quick=not is_full)
    found = Checked(report, request.memory.maintain(dry_run=True), request.now, is_full)
    memo[_MEMO] = (None, found)
    return found


# -- the verdict


def _unchecked(unreadable: list[Problem], memories: int, sessions: int) -> Html:
    """Before the first check of a large store: what is known without reading it."""
    size = f"{counted(memories, 'memory', 'memories')} in {counted(sessions, 'session')}"
    text = f"The checks read all {size} and list what is in quarantine; that takes seconds to minutes, and writers are not held up."
    title = f"{counted(len(unreadable), 'entry', 'entries')} cannot be read" if unreadable else "Not checked yet"
    rows = [
        el("li", el("p", each.message, class_="said", dir="auto"), el("code", f"{each.path}:{each.line}"))
        for each in unreadable[:_MOST_ISSUES]
    ]
    return el(
        "section",
        el(
            "p",
            icon("warn") if unreadable else None,
            el("b", title),
            class_="verdict crit" if unreadable else "verdict",
        ),
        el("p", text, class_="note"),
        el("ul", rows, class_="issues") if rows else None,
        _buttons("Check now"),
        class_="panel",
        id="verdict",
    )


def _verdict(request: PageRequest, checked: Checked) -> Html:
    report = checked.report
    failed = [each for each in report.checks if each.severity in (PROBLEM, WARNING)]
    failed.sort(key=lambda each: each.severity != PROBLEM)
    ran = sum(not each.skipped for each in report.checks)
    kind = "fine" if not failed else "crit" if failed[0].severity == PROBLEM else "warn"
    title = _titles(failed) if failed else f"All is well: {counted(ran, 'check')} passed"
    notes = report.count(NOTE)
    skipped = len(report.checks) - ran
    said = join(
        "Checked ",
        when(checked.at, request.now),
        f" in {report.seconds:.1f} s: {counted(report.memories, 'memory', 'memories')} in {counted(report.sessions, 'session')}. ",
        f"{counted(notes, 'note')} below. " if notes else None,
        f"The quick check left out {counted(skipped, 'check')} that take longer: {', '.join(each.name for each in report.checks if each.skipped)}."
        if skipped
        else None,
    )
    return el(
        "section",
        el("p", icon("warn" if failed else "check"), el("b", title), class_=f"verdict {kind}"),
        el("p", said, class_="note"),
        _fixed(report),
        _buttons(),
        class_="panel",
        id="verdict",
    )


def _titles(failed: list[CheckResult]) -> str:
    shown = "; ".join(each.title for each in failed[:3])
    more = f"; and {counted(len(failed) - 3, 'more thing')}" if len(failed) > 3 else ""
    return f"{shown[:1].upper()}{shown[1:]}{more}"


def _fixed(report: HealthReport) -> Html | None:
    rows = [el("li", f"{each.name}: {'; '.join(each.did)}") for each in report.fixed]
    return el("ul", rows) if rows else None


def _buttons(again: str = "Check again") -> Html:
    return el(
        "div",
        el("a", again, href="/health?check=quick", class_="button small"),
        el(
            "a",
            "Full check",
            href="/health?check=full",
            class_="button small",
            title="also reads archives and searches for secrets and duplicates",
        ),
        class_="actions",
    )


# -- issues


def _issues(request: PageRequest, report: HealthReport) -> list[Html]:
    order = {PROBLEM: 0, WARNING: 1, NOTE: 2}
    found = sorted((each for each in report.checks if each.findings), key=lambda each: order.get(each.severity, 3))
    return [_check(request, each) for each in found]


def _check(request: PageRequest, check: CheckResult) -> Html:
    title = check.title[:1].upper() + check.title[1:]
    rows = [_issue(request, each) for each in check.findings[:_MOST_ISSUES]]
    rest = len(check.findings) - _MOST_ISSUES
    more = el("p", f"And {rest:,} more; smp doctor lists all of them.", class_="note") if rest > 0 else None
    fixes = list(dict.fromkeys(each.fix for each in check.findings if each.fix))
    buttons = [_fix(request, name) for name in fixes]
    severity = tag(check.severity, _SEVERITY_KINDS.get(check.severity, ""))
    count = el("small", check.said, class_="side") if check.said else None
    content = [el("ul", rows, class_="issues"), more, el("div", buttons, class_="actions") if buttons else None]
    if check.severity == NOTE:
        summary = el("summary", join(tag("note"), " ", title, f" ({len(check.findings):,})"))
        return el("section", el("details", summary, content), class_="panel")
    return panel(join(severity, " ", el("span", title, class_="name"), count), content)


def _issue(request: PageRequest, issue: HealthIssue) -> Html:
    where = [
        join("session ", el("a", issue.session, href=url("/session/{}", issue.session))) if issue.session else None
    ]
    if issue.path:
        where.append(el("code", f"{issue.path}:{issue.line}" if issue.line else issue.path))
    ids: Child = None
    if issue.ids and issue.session:
        shown = [
            join(memory_link(f"{issue.session}/{id}" if "/" not in id else id, issue.session), " ")
            for id in issue.ids[:_MOST_IDS]
        ]
        rest = len(issue.ids) - _MOST_IDS
        ids = el("div", shown, f"and {rest:,} more" if rest > 0 else None, class_="meta")
    return el(
        "li",
        el("p", issue.message[:1].upper() + issue.message[1:], class_="said", dir="auto"),
        el("p", f"What to do: {issue.advice}", class_="note advice") if issue.advice else None,
        el("div", [join(each, " ") for each in where if each is not None], class_="meta") if any(where) else None,
        ids,
    )


def _fix(request: PageRequest, name: str) -> Html:
    field = el("input", type="hidden", name="fix", value=name)
    return form(
        request,
        "/health/fix",
        field,
        el(
            "button",
            FIXES.get(name, name),
            class_="primary",
            title="A safe fix: the memories are the same before and after.",
        ),
    )


def _passed(checked: Checked) -> Html:
    passed = [each for each in checked.report.checks if each.severity == OK and not each.skipped]
    rows = [
        el("li", icon("check"), f" {each.title}", el("small", f" {each.said}") if each.said else None)
        for each in passed
    ]
    return el(
        "section",
        el(
            "details",
            el("summary", f"{counted(len(rows), 'check')} without any issue"),
            el("ul", rows, class_="passed"),
        ),
        class_="panel",
    )


# -- quarantine


def put_back(request: PageRequest) -> Response:
    """POST: append the entries of a file in quarantine to their session again."""
    session, name = request.form.get("session", ""), request.form.get("name", "")
    store = file_features(request.memory.store)
    found = [each for each in store.quarantined() if (each.session, each.name) == (session, name)]
    if not found:
        raise UserError(f"{name}: there is no such file in quarantine.", field="name")
    ids = store.restore_quarantined(found[0], to_text(request.now))
    return done(
        request,
        "/health",
        f"Put back into session {session}: {', '.join(ids[:20])}{' and more' if len(ids) > 20 else ''}.",
    )
