"""The page Trash: deleted memories and sessions, who deleted them and why, until when they are kept, and the way back.

Memories come from the index and from their own entries, so that a large session is not read for one deleted memory.
Guarantees: what is restored is said, memory by memory if some could not be; restoring can be undone.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.index.query import RowConditions
from smp_memory.integrations.web.actions.frame import done
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import form, heading, page, panel, problems_banner
from smp_memory.integrations.web.pages.away import deleted_item
from smp_memory.integrations.web.parts import memory_link, options, pager, same_page, when
from smp_memory.integrations.web.words import counted, date_text, line_of, shortened
from smp_memory.lifecycle.purge import due_at
from smp_memory.model.storage_reports import ARCHIVED
from smp_memory.model.times import to_moment
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.store.port import IndexSearcher

PAGE_MEMORIES = 50
PAGE_SESSIONS = 50
MOST_SORTED = 2000  # deleted memories; of more the newest memories come first, not the latest deletions
CHOSEN = "memory:"  # how the names of the fields begin that choose a memory, because each must be different
_LINE_CHARACTERS = 200


class DeletedPage(NamedTuple):
    """One page of the deleted memories."""

    records: list[Record]
    total: int
    sessions: list[str]  # that have some
    is_sorted: bool  # by deletion
    problems: list[Problem]


def trash_page(request: PageRequest) -> Response:
    offset = int(request.number("offset", 0, 0, 10_000_000))
    shown = deleted_memories(request.memory, request.get("session"), offset)
    days = request.memory.config["lifecycle.purge_days"]
    kept = f"What is deleted is kept for {days:g} days, then a purge may take it."
    if not request.memory.config["lifecycle.auto_purge"]:
        kept = "What is deleted stays here until somebody purges it: lifecycle.auto_purge is off."
    return page(
        request,
        "Trash",
        "trash",
        heading("Trash", f"{kept} Agents do not see any of it."),
        el(
            "div",
            problems_banner(list(shown.problems)),
            _memories(request, shown, offset),
            id="memories",
            data_live=True,
        ),
        _sessions(request),
        _gone(request),
    )


def deleted_memories(memory: Memory, session: str, offset: int) -> DeletedPage:
    """Deleted memories of all live sessions, or of one, the latest deletion first."""

    def read(searcher: IndexSearcher) -> DeletedPage:
        conditions = RowConditions()
        conditions.only_deleted = True
        if session:
            conditions.sessions = searcher.session_numbers([session])
        total = sum(searcher.counts(["type"], conditions)["type"].values())
        is_sorted = total <= MOST_SORTED
        at = min(offset, max(total - 1, 0)) // PAGE_MEMORIES * PAGE_MEMORIES
        rows = searcher.select(conditions, "newest", *((-1, 0) if is_sorted else (PAGE_MEMORIES, at)))
        found = searcher.records(rows)
        records = [record for row in rows if (record := found.get(row.doc)) is not None and record.deletion is not None]
        if is_sorted:
            records = sorted(records, key=_deleted_at, reverse=True)[at : at + PAGE_MEMORIES]
        return DeletedPage(records, total, sorted(searcher.sessions_with_deleted()), is_sorted, searcher.problems(None))

    page: DeletedPage = memory.store.indexer.answer(None, read)
    return page


def _deleted_at(record: Record) -> datetime:
    assert record.deletion is not None
    return to_moment(record.deletion.at)


# -- memories


def _memories(request: PageRequest, shown: DeletedPage, offset: int) -> Html:
    if not shown.total:
        other = " in this session" if request.get("session") else ""
        return panel(
            "Deleted memories", _session_filter(request, shown), el("p", f"No deleted memory{other}.", class_="empty")
        )
    until = _deadlines(request.memory)
    rows = [_row(request, record, until(record)) for record in shown.records]
    titles: tuple[Child, ...] = (el("span", "Choose", class_="quiet"), "Memory", "Deleted", "Kept until", "")
    table = el(
        "table",
        el("thead", el("tr", [el("th", title, scope="col") if title else el("td") for title in titles])),
        el("tbody", rows),
        class_="trash",
    )
    note = (
        None
        if shown.is_sorted
        else el("p", "There are so many that they are in the order of their writing, the newest first.", class_="note")
    )
    content = form(
        request,
        "/trash/restore",
        el("div", table, class_="scroll", tabindex=0, role="region", aria_label="Deleted memories"),
        el("div", el("button", "Restore selected"), class_="actions"),
    )
    return panel(
        counted(shown.total, "deleted memory", "deleted memories"),
        _session_filter(request, shown),
        note,
        content,
        _pager(request, shown, offset),
    )


def _session_filter(request: PageRequest, shown: DeletedPage) -> Html | None:
    chosen = request.get("session")
    if len(shown.sessions) < 2 and not chosen:
        return None
    names = list(dict.fromkeys([*shown.sessions[:500], *([chosen] if chosen else [])]))
    return el(
        "form",
        el("label", "Session", for_="session"),
        el(
            "div",
            el("select", options([("", "all sessions"), *names], chosen), id="session", name="session"),
            el("button", "Show"),
            class_="row narrow",
        ),
        action="/trash",
    )


def _pager(request: PageRequest, shown: DeletedPage, offset: int) -> Html | None:
    at = min(offset, max(shown.total - 1, 0)) // PAGE_MEMORIES * PAGE_MEMORIES
    back = same_page(request, offset=max(at - PAGE_MEMORIES, 0) or None) if at else None
    on = same_page(request, offset=at + PAGE_MEMORIES) if at + PAGE_MEMORIES < shown.total else None
    return pager(back, on, "Pages of deleted memories")


def _deadlines(memory: Memory) -> Callable[[Record], datetime | None]:
    """A function that says from when on a purge may take a memory; None: not by itself."""
    by_session: dict[str, Callable[[Record], datetime | None]] = {}

    def of_session(name: str) -> Callable[[Record], datetime | None]:
        files = memory.store.session(name)
        config, announced = files.config, files.announced_purges()
        kept = timedelta(days=float(config["lifecycle.purge_days"]))
        if not config["lifecycle.auto_purge"]:
            return lambda record: None
        return lambda record: due_at(record.deletion, kept, announced.get(record.id)) if record.deletion else None

    def deadline(record: Record) -> datetime | None:
        if record.session not in by_session:
            by_session[record.session] = of_session(record.session)
        return by_session[record.session](record)

    return deadline


def _row(request: PageRequest, record: Record, until: datetime | None) -> Html:
    assert record.deletion is not None
    by, reason = record.deletion.by, record.deletion.data.get("reason")
    session, id = record.session, record.id
    said = shortened(line_of(record), _LINE_CHARACTERS)
    kept: Child = "until it is purged"
    if until is not None:
        kept = "due for the next purge" if until <= request.now else date_text(until, request.now)
    choose = el("input", type="checkbox", name=f"{CHOSEN}{record.ref}", value="1", aria_label=f"Choose {record.ref}")
    restore = el(
        "button",
        "Restore",
        class_="small",
        formaction=url("/memory/{}/{}/restore", session, id),
        aria_label=f"Restore {record.ref}",
    )
    erase = el(
        "a",
        "Erase",
        href=url("/memory/{}/{}/erase", session, id),
        class_="button small danger",
        data_dialog=True,
        aria_label=f"Erase {record.ref}",
    )
    return el(
        "tr",
        el("td", choose),
        el(
            "td",
            el("p", said, class_="said", dir="auto"),
            el("div", KINDS[record.type].noun, " ", memory_link(record.ref), class_="meta"),
        ),
        el("td", when(_deleted_at(record), request.now), el("div", _why(by, reason), class_="meta")),
        el("td", kept),
        el("td", el("div", restore, erase, class_="actions"), class_="buttons"),
    )


def _why(by: object, reason: object) -> str:
    said = [f"by {by}" if isinstance(by, str) and by else "", shortened(str(reason), 200) if reason else ""]
    return ": ".join(each for each in said if each)


# -- sessions, and what is gone


def _sessions(request: PageRequest) -> Html:
    found = request.memory.deleted_sessions()[::-1]
    offset = int(request.number("sessions", 0, 0, max(len(found) - 1, 0)))
    names = [each.session for each in found]
    rest = len(found) - offset - PAGE_SESSIONS
    back = same_page(request, sessions=max(offset - PAGE_SESSIONS, 0) or None) if offset else None
    on = same_page(request, sessions=offset + PAGE_SESSIONS) if rest > 0 else None
    notes = []
    if len(set(names)) < len(names):
        notes.append(
            "Several deleted sessions have one name: Restore brings back the one that was deleted last, Purge removes the one that was deleted first."
        )
    return panel(
        counted(len(found), "deleted session") if found else "Deleted sessions",
        [el("p", each, class_="note") for each in notes],
        [deleted_item(request, each) for each in found[offset : offset + PAGE_SESSIONS]]
        or el("p", "No deleted session.", class_="empty"),
        pager(back, on, "Pages of deleted sessions"),
        id="sessions",
    )


def _gone(request: PageRequest) -> Html:
    said = [
        join(
            "Memories that were purged or erased are gone for good; no button brings them back. ",
            el("a", "The audit log", href="/health#audit"),
            " says which ones, when and by whom.",
        )
    ]
    archived = sum(each.has_memories for each in request.memory.store.sessions(ARCHIVED))
    if archived:
        which = "1 archived session" if archived == 1 else f"{archived:,} archived sessions"
        said.append(
            join(f"Memories that were deleted in {which} are not listed here; restore the session to see them.")
        )
    return panel("What cannot be restored", [el("p", each, class_="note") for each in said])


# -- restoring several


def restore_selected(request: PageRequest) -> Response:
    """POST: restore the chosen memories, session by session; the notice says what was not restored and why."""
    chosen = [name.removeprefix(CHOSEN) for name in request.form if name.startswith(CHOSEN)]
    restored, failed = _restore(request.memory, chosen, request.inspector.author)
    text = f"Restored {counted(len(restored), 'memory', 'memories')}." if restored else "Nothing was restored."
    if not chosen:
        text = "Nothing was chosen. Mark the memories to restore first."
    return done(request, "/trash", " ".join([text, *failed]), _again(request, restored) if restored else None)


def _restore(memory: Memory, refs: Iterable[str], by: str | None) -> tuple[list[str], list[str]]:
    """The memories that were restored, and a sentence for each session in which it failed."""
    by_session: dict[str, list[str]] = {}
    for ref in refs:
        session, _, id = ref.partition("/")
        by_session.setdefault(session, []).append(id)
    restored: list[str] = []
    failed: list[str] = []
    for session, ids in by_session.items():
        try:
            found = memory.opened_session(session).restore(ids, by=by)
        except SMPError as error:
            failed.append(f"Not in session {session}: {error.message}")
            continue
        restored += [record.ref for record in found.records]
    return restored, failed


def _again(request: PageRequest, refs: list[str]) -> Callable[[], str]:
    def delete() -> str:
        request.memory.delete(refs, "restoring was undone", by=request.inspector.author)
        return f"Deleted {counted(len(refs), 'memory', 'memories')} again."

    return delete
