"""The page Trash: deleted memories and sessions, who deleted them and why, until when they are kept, and the way back.

Memories come from the index and from their own entries, so that a large session is not read for one deleted memory.
Guarantees: what is restored is said, memory by memory if some could not be; restoring can be undone.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.integrations.web.forms import done
from smp_memory.integrations.web.pages.sessions import deleted_item
from smp_memory.integrations.web.parts import date_text, memories, shortened
from smp_memory.integrations.web.renderer import page
from smp_memory.lifecycle.purge import PurgeNotes, due_at
from smp_memory.model.candidates import PROBLEMS, CandidateRequest
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.times import to_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem

PAGE_MEMORIES = 50
PAGE_SESSIONS = 50
MOST_SORTED = 2000  # deleted memories; of more the newest memories come first, not the latest deletions
CHOSEN = "memory:"  # how the names of the fields begin that choose a memory, because each must be different


class DeletedPage(NamedTuple):
    """One page of the deleted memories."""

    records: list[Record]
    total: int
    sessions: list[str]  # that have some
    is_sorted: bool  # by deletion
    problems: list[Problem]


class DeletedRow(NamedTuple):
    """A deleted memory: when, by whom and why, and until when it is kept."""

    record: Record
    at: datetime
    why: str
    kept: str


def trash_page(request: PageRequest) -> Response:
    offset = int(request.number("offset", 0, 0, 10_000_000))
    shown = deleted_memories(request.memory, request.get("session"), offset)
    at = min(offset, max(shown.total - 1, 0)) // PAGE_MEMORIES * PAGE_MEMORIES
    until = _deadlines(request.memory)
    config, sessions = request.memory.config, request.memory.deleted_sessions()[::-1]
    place = request.page_number("sessions", len(sessions))
    chosen = request.get("session")
    return page(
        request,
        "trash.html",
        "Trash",
        "trash",
        days=config["lifecycle.purge_days"],
        is_purged=config["lifecycle.auto_purge"],
        shown=shown,
        rows=[_row(request, record, until(record)) for record in shown.records],
        chosen_prefix=CHOSEN,
        session_names=list(dict.fromkeys([*shown.sessions[:500], *([chosen] if chosen else [])])),
        pages=request.neighbours("offset", at, PAGE_MEMORIES, shown.total),
        session_count=len(sessions),
        has_namesakes=len({each.session for each in sessions}) < len(sessions),
        sessions=[deleted_item(request, each) for each in sessions[place : place + PAGE_SESSIONS]],
        session_pages=request.neighbours("sessions", place, PAGE_SESSIONS, len(sessions)),
        archived=sum(each.has_memories for each in request.memory.store.sessions(ARCHIVED)),
    )


def deleted_memories(memory: Memory, session: str, offset: int) -> DeletedPage:
    """Deleted memories of all live sessions, or of one, the latest deletion first."""
    index = memory.store.indexer
    asked = CandidateRequest(only_deleted=True, sessions=[session] if session else None, ignores_missing=True)
    with index.snapshot(all_sessions=True):
        total = sum(index.facets(asked, ["type"]).counts["type"].values())
        is_sorted = total <= MOST_SORTED
        at = min(offset, max(total - 1, 0)) // PAGE_MEMORIES * PAGE_MEMORIES
        found = index.candidates(asked if is_sorted else asked.with_changes(limit=PAGE_MEMORIES, offset=at)).matches
        by_ref = index.records(found)
        names = sorted(name for name, each in index.activity().items() if each.has_deleted)
        problems = index.candidates(CandidateRequest(limit=0, fetch=[PROBLEMS])).every_problem
    read = (by_ref.get(each.ref) for each in found)
    records = [record for record in read if record is not None and record.deletion is not None]
    if is_sorted:
        records = sorted(records, key=_deleted_at, reverse=True)[at : at + PAGE_MEMORIES]
    return DeletedPage(records, total, names, is_sorted, problems)


def _deleted_at(record: Record) -> datetime:
    assert record.deletion is not None
    return to_moment(record.deletion.at)


def _deadlines(memory: Memory) -> Callable[[Record], datetime | None]:
    """A function that says from when on a purge may take a memory; None: not by itself."""
    by_session: dict[str, Callable[[Record], datetime | None]] = {}

    def of_session(name: str) -> Callable[[Record], datetime | None]:
        files = memory.store.session(name)
        config, announced = files.config, PurgeNotes(memory.store.state, files.session).announced()
        kept = timedelta(days=float(config["lifecycle.purge_days"]))
        if not config["lifecycle.auto_purge"]:
            return lambda record: None
        return lambda record: due_at(record.deletion, kept, announced.get(record.id)) if record.deletion else None

    def deadline(record: Record) -> datetime | None:
        if record.session not in by_session:
            by_session[record.session] = of_session(record.session)
        return by_session[record.session](record)

    return deadline


def _row(request: PageRequest, record: Record, until: datetime | None) -> DeletedRow:
    assert record.deletion is not None
    by, reason = record.deletion.by, record.deletion.data.get("reason")
    said = [f"by {by}" if isinstance(by, str) and by else "", shortened(str(reason), 200) if reason else ""]
    kept = "until it is purged"
    if until is not None:
        kept = "due for the next purge" if until <= request.now else date_text(until, request.now)
    return DeletedRow(record, _deleted_at(record), ": ".join(filter(None, said)), kept)


# -- restoring several


def restore_selected(request: PageRequest) -> Response:
    """POST: restore the chosen memories, session by session; the notice says what was not restored and why."""
    chosen = [name.removeprefix(CHOSEN) for name in request.form if name.startswith(CHOSEN)]
    restored, failed = _restore(request.memory, chosen, request.inspector.author)
    text = f"Restored {memories(len(restored))}." if restored else "Nothing was restored."
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
        return f"Deleted {memories(len(refs))} again."

    return delete
