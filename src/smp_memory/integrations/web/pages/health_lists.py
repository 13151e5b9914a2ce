"""Panels of the page Health: storage figures, maintenance, quarantine, audit log."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from smp_memory.errors import SMPError
from smp_memory.index.query import RowConditions
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import form, panel
from smp_memory.integrations.web.parts import memory_link, pairs, tag, when
from smp_memory.integrations.web.words import ago, counted, plain, shortened, size_text
from smp_memory.lifecycle.maintenance import EVERY
from smp_memory.model.times import EPOCH, to_moment
from smp_memory.scope import file_features

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.lifecycle.maintenance import MaintenanceReport, Task
    from smp_memory.memory import Memory
    from smp_memory.model.reports import Problem
    from smp_memory.model.storage_reports import QuarantinedEntry
    from smp_memory.store.port import IndexSearcher

AUDIT_ENTRIES = 50
MOST_QUARANTINED = 20
_PREVIEW_BYTES = 1500
_MOST_IDS = 8
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


def known_figures(memory: Memory) -> tuple[int, list[Problem]]:
    """How many memories the live sessions hold, and the entries that the index could not read; no session is read for it."""

    def read(searcher: IndexSearcher) -> tuple[int, list[Problem]]:
        counts = searcher.counts(["type"], RowConditions())
        return sum(counts["type"].values()), searcher.problems(None)

    found: tuple[int, list[Problem]] = memory.store.indexer.answer(None, read)
    return found


def storage_panel(request: PageRequest, memories: int, sessions: int) -> Html:
    """Where the store is, what it holds, and whether hooks may use it."""
    memory = request.memory
    archived, deleted = memory.archived_sessions(), memory.deleted_sessions()
    away = [
        (f"{counted(len(found), 'session')}, {size_text(sum(each.bytes for each in found))}" if found else "")
        for found in (archived, deleted)
    ]
    trusted = (
        "yes: hooks recall from it and record to it"
        if memory.is_trusted
        else "no: hooks do not use it. `smp trust` changes that."
    )
    rows: list[tuple[Child, Child]] = [
        ("Folder", el("code", memory.root)),
        ("Layout", memory.layout),
        ("Sessions", f"{sessions:,}"),
        ("Memories", f"{memories:,}"),
        ("Archived", away[0]),
        ("In the trash", away[1]),
        ("Trusted", trusted),
        ("Durability", plain(memory.config["durability"])),
    ]
    return panel("Storage", pairs(rows))


# -- maintenance


def maintenance_panel(request: PageRequest, report: MaintenanceReport | None) -> Html:
    """Which tasks are due, what they would do, and when the others run."""
    last = request.memory.store.state.modified_at("maintenance.json")
    ran = _moment(last)
    said: Child = join("Last looked after ", when(ran, request.now), ".") if ran else "It has not run yet."
    if report is None:
        return panel(
            "Maintenance", el("p", said, class_="note"), el("p", "Check the store to see what is due.", class_="empty")
        )
    due = [task for task in report.tasks if task.ran and (task.did or task.problem)]
    idle = [task for task in report.tasks if task not in due]
    rows: list[Child] = [_due(task) for task in due]
    refused = (
        el("p", f"Tasks that go by the calendar wait: {report.refused}", class_="banner") if report.refused else None
    )
    later = (
        el(
            "details",
            el("summary", f"{counted(len(idle), 'task')} with nothing to do"),
            el("ul", [_idle(task, request.now) for task in idle], class_="passed"),
        )
        if idle
        else None
    )
    due_list = el("ul", rows, class_="issues") if rows else el("p", "Nothing is due.", class_="empty")
    how = el("p", "It runs by itself when a store is opened, or with ", el("code", "smp maintain"), ".", class_="hint")
    run = el("div", el("a", "Run it now", href="/maintain", class_="button small", data_dialog=True), class_="actions")
    return panel("Maintenance", el("p", said, class_="note"), refused, due_list, later, how, run)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else EPOCH + timedelta(seconds=seconds)


def _due(task: Task) -> Html:
    lines = [el("div", f"would be done: {shortened(line, 200)}", class_="meta") for line in task.did[:5]]
    more = el("div", f"and {len(task.did) - 5:,} more", class_="meta") if len(task.did) > 5 else None
    problem = el("p", task.problem, class_="error-text") if task.problem else None
    return el("li", el("b", f"Due: {_TASKS.get(task.name, task.name)}"), lines, more, problem)


def _idle(task: Task, now: datetime) -> Html:
    ran = ago(task.next - EVERY[task.name], now)
    text = "nothing to do" if task.ran else f"ran {ran}, next {ago(task.next, now)}"
    return el("li", f"{_TASKS.get(task.name, task.name)}: ", el("small", text))


# -- quarantine


def quarantine_panel(request: PageRequest) -> Html | None:
    """What was put aside because it could not be read, with its beginning and the way back."""
    store = request.memory.store
    found = store.files.quarantined() if store.files is not None else []
    if not found:
        return None
    rest = len(found) - MOST_QUARANTINED
    about = "Lines that could not be read were put aside, so that the rest works. Nothing is lost: correct a file with an editor if need be, then put it back."
    return panel(
        f"Quarantine: {counted(len(found), 'file')}",
        el("p", about, class_="note"),
        [_quarantined(request, each) for each in found[:MOST_QUARANTINED]],
        el("p", f"And {rest:,} more; smp quarantine lists all of them.", class_="note") if rest > 0 else None,
        id="quarantine",
    )


def _quarantined(request: PageRequest, each: QuarantinedEntry) -> Html:
    try:
        data = file_features(request.memory.store).quarantined_data(each)
        text = data[:_PREVIEW_BYTES].decode("utf-8", "replace") + ("…" if len(data) > _PREVIEW_BYTES else "")
    except SMPError as error:
        text = error.message
    fields = [
        el("input", type="hidden", name=name, value=value)
        for name, value in (("session", each.session), ("name", each.name))
    ]
    back = form(request, "/health/quarantine", fields, el("button", "Put back", class_="small"))
    return el(
        "div",
        el(
            "div",
            el("span", each.name, class_="name"),
            el(
                "div",
                join(
                    "session ",
                    el("a", each.session, href=url("/session/{}", each.session)),
                    f" · {size_text(each.bytes)} · {each.why}",
                ),
                class_="meta",
            ),
            el("div", el("code", each.path), class_="meta"),
            el("details", el("summary", "Content"), el("pre", text, tabindex=0, aria_label=f"Content of {each.name}")),
        ),
        el("div", back, class_="actions"),
        class_="away",
    )


# -- audit log


def audit_panel(request: PageRequest) -> Html:
    """Who deleted, erased, exported or archived what, the latest first; ids and counts, never content."""
    log = request.memory.store.audit
    entries = log.entries()
    shown = entries[-AUDIT_ENTRIES:][::-1]
    title = f"Audit log: the last {len(shown):,} of {len(entries):,}" if len(entries) > len(shown) else "Audit log"
    problems = [el("p", each) for each in log.problems()[:5]]
    rows = [_audited(request, each) for each in shown]
    head = el("thead", el("tr", [el("th", name, scope="col") for name in ("When", "Action", "What", "Who and why")]))
    table = el(
        "div",
        el("table", head, el("tbody", rows), class_="audit"),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="Audit log",
    )
    return panel(
        title,
        el(
            "p", "Exports, deletions, erasures, redactions and archiving: ids and counts, never content.", class_="note"
        ),
        el("div", problems, class_="banner") if problems else None,
        table if rows else el("p", "Nothing was deleted, erased or exported yet.", class_="empty"),
        id="audit",
    )


def _audited(request: PageRequest, each: dict[str, Any]) -> Html:
    session, ids, by, reason = (each.get(name) for name in ("session", "ids", "by", "reason"))
    names = [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []
    what: list[Child] = []
    if isinstance(session, str) and session:
        what.append(el("a", session, href=url("/session/{}", session)))
    what += [join(" ", _id(id, session)) for id in names[:_MOST_IDS]]
    count = each.get("count")
    rest = (count if isinstance(count, int) else len(names)) - min(len(names), _MOST_IDS)
    if rest > 0 and names:
        what.append(f" and {rest:,} more")
    elif isinstance(count, int) and not names and count != 1:
        what.append(f" {count:,}")
    why = ": ".join(text for text in (plain(by), shortened(plain(reason), 200)) if text)
    return el(
        "tr",
        el("td", _when(request, each.get("at"))),
        el("td", tag(plain(each.get("action")).replace("_", " "))),
        el("td", what),
        el("td", why),
    )


def _id(id: str, session: object) -> Html:
    ref = id if "/" in id else f"{session}/{id}" if isinstance(session, str) and session else ""
    return memory_link(ref, session if isinstance(session, str) else None) if ref else el("span", id, class_="id")


def _when(request: PageRequest, at: object) -> Child:
    try:
        return when(to_moment(at), request.now) if isinstance(at, str) else ""
    except (SMPError, ValueError, OverflowError):
        return plain(at)
