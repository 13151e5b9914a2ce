"""Delete, restore, redact and erase memories, each with a preview of what happens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.integrations.web.forms import (
    Form,
    confirmation,
    done,
    reason_field,
    redaction_sentence,
    with_notices,
)
from smp_memory.integrations.web.lookup import MemoryRelations
from smp_memory.integrations.web.parts import ago, counted, memories, moment_text, size_text, url
from smp_memory.model.deletions import BEYOND_REACH

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.forms import Target
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.record import Record
    from smp_memory.model.storage_reports import RedactionReport

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
            else "It can be restored until somebody purges it; nothing does that by itself."
        )
    related = MemoryRelations.of(target.request.memory, target.found, target.record).all
    return target.form(
        "delete",
        fields=[reason_field(target.request, target.error)],
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
    after = session.delete(id, target.given("reason"), by=author)

    def undo() -> str:
        target.session_again().restore(id, by=author)
        return f"{id} is restored."

    return done(target.request, target.page, with_notices(f"{id} is in the trash.", after), undo)


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


# -- redact


def show_redact(target: Target) -> Form:
    form = Form(f"Redact session {target.session.id}", target.action("redact"), target.page, "Redact")
    return redaction_form(target.request, form, target.session.redact(preview=True), target.record)


def redaction_form(
    request: PageRequest, form: Form, reports: list[RedactionReport], memory: Record | None = None
) -> Form:
    """The form with what redaction would take out of a session; nothing is shown of the content itself."""
    report = reports[0] if reports else None
    rows: list[tuple[str, str, dict[str, int]]] = []  # a title, a text, and how many secrets of each kind
    if memory is not None:
        own = report.memories.get(memory.id) if report is not None else None
        rows.append((memory.id, "" if own else "no secret found in it", own or {}))
    if report is not None:
        rows += [
            ("The session", f"{memories(len(report.memories))}: ", report.kinds),
            ("Its metadata", "", report.head),
            ("Quarantine", "", report.set_aside),
            ("Not checked", ", ".join(report.pending), {}),
        ]
    form = form._replace(
        notes=[
            "Redaction replaces the secrets it knows with a placeholder, in all revisions and copies. It cannot be undone."
        ],
        template="redact.html",
        values={"rows": [(title, text, kinds) for title, text, kinds in rows if text or kinds]},
    )
    if report is None or not report:
        return form._replace(can_run=False)
    button = f"Redact {memories(len(report.memories))}"
    return form._replace(fields=[reason_field(request)], button=button, is_dangerous=True)


def run_redact(target: Target) -> Response:
    reports = target.session.redact(reason=target.given("reason"))
    return done(target.request, target.page, redaction_text(reports))


def redaction_text(reports: list[RedactionReport]) -> str:
    if not reports or not reports[0]:
        return "Nothing was taken out: no known kind of secret was found."
    report = reports[0]
    kinds = ", ".join(f"{name} ({count:,})" for name, count in report.kinds.items())
    pending = f" Not checked: {', '.join(report.pending)}." if report.pending else ""
    said = " ".join(["", *redaction_sentence(report.reason)]) if report.reason else ""
    return f"Redacted {memories(len(report.memories))} of {report.session}: {kinds}.{pending}{said}"


# -- erase


def show_erase(target: Target) -> Form:
    receipt = target.request.memory.erase(target.record.ref, preview=True)
    history = target.found.history
    files = dict.fromkeys(os.path.basename(entry.file) for entry in history.entries if entry.file) if history else {}
    entries = counted(len(history.entries) if history is not None else 0, "entry", "entries")
    return target.form(
        "erase",
        "Erase for good",
        fields=[reason_field(target.request, target.error), confirmation(target.id, target.error)],
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
    receipt = target.request.memory.erase(target.record.ref, target.given("reason"), by=target.author)
    text = " ".join([f"{target.record.ref} is erased.", *redaction_sentence(receipt.redacted)])
    back = url("/session/{}", target.session.id)
    return done(target.request, target.page, text, detail=("receipt.html", _receipt(receipt)), back=back)


def _receipt(receipt: Receipt) -> dict[str, Any]:
    """What an erasure rewrote, how it was checked, what is left and what SMP cannot reach."""
    state = (
        "complete: no file of SMP holds its text"
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
            ("Left", receipt.left),
            ("Still to do", receipt.pending),
            ("Out of reach of SMP", list(BEYOND_REACH)),
        ],
        "most": _MOST_LISTED,
    }
