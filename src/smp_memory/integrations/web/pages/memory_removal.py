"""Delete, restore and erase memories, each with a preview of what happens; and the page Trash.

The page shows deleted memories and sessions, who deleted them and why, until when they are kept, and the way back. Memories come from
the index and from their own entries, so that a large session is not read for one deleted memory.
Guarantees: what is restored is said, memory by memory if some could not be; restoring can be undone.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.integrations.web.forms import (
    Form,
    FormField,
    confirmation,
    done,
    reason_field,
    redaction_sentence,
    with_notices,
)
from smp_memory.integrations.web.lookup import MemoryRelations
from smp_memory.integrations.web.pages.sessions import deleted_item
from smp_memory.integrations.web.parts import ago, counted, date_text, memories, moment_text, shortened, size_text, url
from smp_memory.integrations.web.renderer import page
from smp_memory.lifecycle.purge import due_at
from smp_memory.model.candidates import PROBLEMS, CandidateRequest
from smp_memory.model.deletions import BEYOND_REACH, PurgeNotes
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.times import to_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.responses import Response

    from smp_memory.integrations.web.forms import Target
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.deletions import Receipt
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
    rows = [_row(request, record, until(record)) for record in shown.records]
    kept = {each.kept for each in rows}
    return page(
        request,
        "trash.html",
        "Trash",
        "trash",
        days=config["lifecycle.purge_days"],
        is_purged=config["lifecycle.auto_purge"],
        shown=shown,
        rows=rows,
        kept_all=kept.pop() if len(rows) > 1 and len(kept) == 1 else "",
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
        storage = memory.store.session(name)
        config, announced = storage.config, PurgeNotes(memory.store.state, storage.session).announced()
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
        kept = "until the next purge" if until <= request.now else f"until {date_text(until, request.now)}"
    return DeletedRow(record, _deleted_at(record), ": ".join(filter(None, said)), kept)


# -- restoring several


def restore_selected(request: PageRequest) -> Response:
    """POST: restore the chosen memories, session by session; the notice says what was not restored and why."""
    chosen = [name.removeprefix(CHOSEN) for name in request.form if name.startswith(CHOSEN)]
    restored, failed = _restore(request.memory, chosen, request.inspector.author)
    text = f"Restored {memories(len(restored))}." if restored else "Nothing was restored."
    if not chosen:
        text = "Nothing was selected. First select the memories to restore."
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


_MOST_LISTED = 30


# -- delete


def show_delete(target: Target) -> Form:
    preview = target.session.delete(target.id, preview=True) if target.error is None else None
    until = "It can be restored from the trash."
    if preview is not None and preview.deadlines:
        deadline = preview.deadlines[target.session.id]
        days = ago(deadline, target.request.now)
        until = (
            f"It can be restored until {moment_text(deadline)} UTC ({days}). After that a purge may remove it for good."
            if target.session.config["lifecycle.auto_purge"]
            else "It can be restored until somebody purges it; this does not happen automatically."
        )
    related = MemoryRelations.of(target.request.memory, target.found, target.record).all
    return target.form(
        "delete",
        fields=[reason_field(target.request, target.error), *_echo_box("Delete", preview.echoes if preview else [])],
        effects=["Agents and searches no longer get it.", until],
        is_dangerous=True,
        template="delete_memory.html",
        values={
            "pointing": [each.ref for each in related if not each.is_outgoing][:_MOST_LISTED],
            "session": target.session.id,
        },
    )


def run_delete(target: Target) -> Response:
    session, id, author = target.session, target.id, target.author
    takes = target.given("echoes") is not None
    after = session.delete([id], target.given("reason"), by=author, echoes=takes).records

    def undo() -> str:
        target.session_again().restore([id], by=author, echoes=takes)
        return f"{id} is restored."

    text = f"{id} is in the trash{_with_echoes(after)}."
    return done(target.request, target.page, with_notices(text, after[0]), undo)


def _with_echoes(records: list[Record]) -> str:
    return f", with {counted(len(records) - 1, 'turn')} that said the same" if len(records) > 1 else ""


def _echo_box(verb: str, echoes: list[str], *, is_ticked: bool = False) -> list[FormField]:
    """The box that takes along turns that say the same; none without such turns."""
    names = ", ".join(echoes[:_MOST_LISTED]) + (", …" if len(echoes) > _MOST_LISTED else "")
    label = f"{verb} also {counted(len(echoes), 'turn')} that say the same: {names}"
    return [FormField("echoes", label, "box", "1" if is_ticked else "")] if echoes else []


# -- restore


def show_restore(target: Target) -> Form:
    where = "from the cold segment" if target.found.cold is not None else "from the trash"
    note = f"It comes back {where}, with its id and its history. Agents can be told it again."
    fields = [] if target.found.cold is not None else [reason_field(target.request, target.error)]
    return target.form("restore", notes=[note], fields=fields)


def run_restore(target: Target) -> Response:
    session, id, author = target.session, target.id, target.author
    deletion = target.found.history.deletion if target.found.history is not None else None
    after = session.restore(id, target.given("reason"), by=author)
    text = with_notices(f"{id} is restored.", after)
    if deletion is None:
        return done(target.request, target.page, text)  # from the cold segment: the next compaction may move it again
    reason = deletion.data.get("reason")

    def undo() -> str:
        target.session_again().delete(id, reason, by=author)
        return f"{id} is in the trash again."

    return done(target.request, target.page, text, undo)


# -- erase


def show_erase(target: Target) -> Form:
    receipt = target.request.memory.erase(target.record.ref, preview=True)
    history = target.found.history
    files = dict.fromkeys(os.path.basename(entry.file) for entry in history.entries if entry.file) if history else {}
    entries = counted(len(history.entries) if history is not None else 0, "entry", "entries")
    return target.form(
        "erase",
        "Erase for good",
        fields=[
            reason_field(target.request, target.error),
            *_echo_box("Erase", receipt.echoes, is_ticked=True),
            confirmation(target.id, target.error),
        ],
        is_dangerous=True,
        template="erase.html",
        values={
            "files": [f"{target.session.id}/{name}" for name in files],
            "entries": f"{entries} of {', '.join(receipt.ids)}, and copies in the cold segment",
            "beyond_reach": BEYOND_REACH,
        },
    )


def run_erase(target: Target) -> Response:
    target.check_confirmed(target.id)
    takes = target.given("echoes") is not None
    receipt = target.request.memory.erase(target.record.ref, target.given("reason"), by=target.author, echoes=takes)
    text = " ".join([f"{target.record.ref} is erased.", *redaction_sentence(receipt.redacted)])
    back = url("/session/{}", target.session.id)
    return done(target.request, target.page, text, detail=("receipt.html", _receipt(receipt)), back=back)


def _receipt(receipt: Receipt) -> dict[str, Any]:
    """What an erasure rewrote, how it was checked, what is left and what SMP cannot reach."""
    state = (
        "complete: no file of SMP contains its text"
        if receipt.complete
        else "verified; some steps are still to be done"
        if receipt.verified
        else "not verified: see what is left"
        if receipt.pieces
        else "removed; its text was not searched for, see what is still to do"
    )
    checked = f"{counted(receipt.searched_files, 'file')}, {size_text(receipt.searched_bytes)}, for {counted(receipt.pieces, 'piece')} of its text"
    return {
        "facts": [
            ("Erased", ", ".join(receipt.ids)),
            ("When", f"{moment_text(receipt.at)} UTC" + (f" by {receipt.by}" if receipt.by else "")),
            ("Reason", receipt.reason),
        ],
        "state": state,
        "is_complete": receipt.complete,
        "lists": [
            ("Rewritten", receipt.rewritten),
            ("Removed", receipt.removed),
            ("Quoted in summaries", receipt.summaries),
            ("Searched afterwards", checked),
            ("The same text elsewhere", receipt.elsewhere),
            ("Turns that say the same and are kept", receipt.staying_echoes),
            ("Left", receipt.left),
            ("Still to do", receipt.pending),
            ("Out of reach of SMP", receipt.beyond_reach),
        ],
        "most": _MOST_LISTED,
    }
