"""Maintenance of the whole store with a preview, and the safe fixes of `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.errors import UserError
from smp_memory.health.examination import FIXES
from smp_memory.integrations.web.actions.frame import Form, done, form_response
from smp_memory.integrations.web.html import Html, el, join
from smp_memory.integrations.web.layout import panel
from smp_memory.integrations.web.words import ago

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.lifecycle.maintenance import MaintenanceReport


def maintain_page(request: PageRequest) -> Response:
    """What maintenance would do now."""
    report = request.memory.maintain(dry_run=True)
    note = "These tasks run by themselves now and then. This runs those that are due, now."
    intro = join(el("p", note, class_="note"), _tasks(report, request.now))
    return form_response(request, Form("Maintenance", "/maintain", "/health", None, "Run what is due", intro))


def run_maintain(request: PageRequest) -> Response:
    report = request.memory.maintain()
    text = "Maintenance ran." if report.ok else "Maintenance ran; some tasks failed."
    return done(request, "/health", text, detail=panel("Maintenance", _tasks(report, request.now)))


def _tasks(report: MaintenanceReport, now: datetime) -> Html:
    rows = []
    for task in report.tasks:
        said = [el("div", line) for line in task.did] or ("nothing to do" if task.ran else f"due {ago(task.next, now)}")
        problem = el("div", task.problem, class_="error-text") if task.problem else None
        rows.append(el("tr", el("th", task.name, scope="row"), el("td", said, problem)))
    refused = el("p", report.refused, class_="error-text") if report.refused else None
    return join(refused, el("table", el("tbody", rows)))


def run_fix(request: PageRequest) -> Response:
    """Apply the named safe fixes; the memories are the same before and after."""
    names = [name for name in request.form.get("fix", "").replace(",", " ").split() if name]
    unknown = [name for name in names if name not in FIXES]
    if unknown or not names:
        raise UserError(f"fix: name one or several of {', '.join(FIXES)}.", field="fix")
    report = request.memory.doctor(fix=names, quick=True)
    rows = [
        el(
            "tr",
            el("th", each.name, scope="row"),
            el(
                "td",
                [el("div", line) for line in each.did] or "nothing was to be done",
                class_=None if each.ok else "error-text",
            ),
        )
        for each in report.fixed
    ]
    failed = [each.name for each in report.fixed if not each.ok]
    text = f"Failed: {', '.join(failed)}." if failed else f"Done: {', '.join(names)}."
    return done(request, "/health", text, detail=panel("Fixes", el("table", el("tbody", rows))))
