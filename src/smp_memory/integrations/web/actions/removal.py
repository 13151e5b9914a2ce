"""Delete, restore, redact and erase memories, each with a preview of what happens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp_memory.integrations.web.actions.frame import (
    Form,
    confirmation,
    done,
    reason_field,
    redaction_sentence,
    with_notices,
)
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import panel
from smp_memory.integrations.web.pages.memory_relations import MemoryRelations
from smp_memory.integrations.web.parts import memory_link, pairs, tag
from smp_memory.integrations.web.words import ago, counted, line_of, moment_text, shortened, size_text
from smp_memory.model.deletions import BEYOND_REACH

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.actions.target import Target
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.record import Record
    from smp_memory.model.storage_reports import RedactionReport

_MOST_LISTED = 30


def _said(record: Record) -> Html:
    return el("blockquote", shortened(line_of(record), 200), dir="auto")


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
    pointing = [
        each
        for each in MemoryRelations.of(target.request.memory, target.found, target.record).all
        if not each.is_outgoing
    ]
    refs = [join(memory_link(each.ref, target.session.id), " ") for each in pointing[:_MOST_LISTED]]
    points = [el("li", "These memories point to it, and will point to a deleted one: ", refs)] if refs else []
    intro = join(
        _said(target.record),
        el("ul", el("li", "Agents and searches no longer get it."), el("li", until), points, class_="effects"),
    )
    fields = reason_field(target.request, target.error)
    return Form(f"Delete {target.id}", target.action("delete"), target.page, fields, "Delete", intro, is_dangerous=True)


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
    note = el("p", f"It comes back {where}, with its id and its history. Agents can be told it again.", class_="note")
    intro = join(_said(target.record), note)
    fields = None if target.found.cold is not None else reason_field(target.request, target.error)
    return Form(f"Restore {target.id}", target.action("restore"), target.page, fields, "Restore", intro)


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
    return redaction_form(
        target.request,
        target.session.redact(preview=True),
        title=f"Redact session {target.session.id}",
        action=target.action("redact"),
        back=target.page,
        memory=target.record,
    )


def redaction_form(
    request: PageRequest,
    reports: list[RedactionReport],
    *,
    title: str,
    action: str,
    back: str,
    memory: Record | None = None,
) -> Form:
    """What redaction would take out of a session; nothing is shown of the content itself."""
    report = reports[0] if reports else None
    rows: list[tuple[Child, Child]] = []
    if memory is not None:
        own = report.memories.get(memory.id) if report is not None else None
        rows.append((memory.id, _kinds(own) if own else "no secret found in it"))
    if report is not None:
        rows += [
            ("The session", join(counted(len(report.memories), "memory", "memories"), ": ", _kinds(report.kinds))),
            ("Its metadata", _kinds(report.head) if report.head else None),
            ("Quarantine", _kinds(report.set_aside) if report.set_aside else None),
            ("Not checked", ", ".join(report.pending) or None),
        ]
    notes = (
        "Redaction replaces the secrets it knows with a placeholder, in all revisions and copies. It cannot be undone."
    )
    intro = join(el("p", notes, class_="note"), pairs(rows))
    if report is None or not report:
        nothing = el("p", "Nothing to take out: no known kind of secret was found.", class_="empty")
        return Form(title, action, back, nothing, "Redact", intro, can_run=False)
    return Form(
        title,
        action,
        back,
        reason_field(request),
        f"Redact {counted(len(report.memories), 'memory', 'memories')}",
        intro,
        is_dangerous=True,
    )


def _kinds(kinds: dict[str, int]) -> list[Html]:
    return [join(tag(f"{name} × {count:,}" if count > 1 else name, "warn"), " ") for name, count in kinds.items()]


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
    return (
        f"Redacted {counted(len(report.memories), 'memory', 'memories')} of {report.session}: {kinds}.{pending}{said}"
    )


# -- erase


def show_erase(target: Target) -> Form:
    receipt = target.request.memory.erase(target.record.ref, preview=True)
    history = target.found.history
    files = dict.fromkeys(os.path.basename(entry.file) for entry in history.entries if entry.file) if history else {}
    entries = len(history.entries) if history is not None else 0
    intro = join(
        _said(target.record),
        el("p", "Erasing removes its bytes at once and for good, with its whole history. It cannot be undone."),
        el("h2", "Rewritten"),
        el(
            "ul",
            [el("li", el("code", f"{target.session.id}/{name}")) for name in files],
            el(
                "li",
                f"{counted(entries, 'entry', 'entries')} of {', '.join(receipt.ids)}, and copies in the cold segment",
            ),
            el("li", "the index, the access log, and what summaries quote of it"),
            class_="effects",
        ),
        el("h2", "Out of reach of SMP"),
        el("ul", [el("li", each) for each in BEYOND_REACH], class_="effects"),
    )
    fields = join(reason_field(target.request, target.error), confirmation(target.id, target.error))
    return Form(
        f"Erase {target.id}", target.action("erase"), target.page, fields, "Erase for good", intro, is_dangerous=True
    )


def run_erase(target: Target) -> Response:
    target.check_confirmed(target.id)
    receipt = target.request.memory.erase(target.record.ref, target.given("reason"), by=target.author)
    text = " ".join([f"{target.record.ref} is erased.", *redaction_sentence(receipt.redacted)])
    back = url("/session/{}", target.session.id)
    return done(target.request, target.page, text, detail=receipt_panel(receipt), back=back)


def receipt_panel(receipt: Receipt) -> Html:
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
    rows: list[tuple[Child, Child]] = [
        ("Erased", ", ".join(receipt.ids)),
        ("When", f"{moment_text(receipt.at)} UTC" + (f" by {receipt.by}" if receipt.by else "")),
        ("Reason", receipt.reason),
        ("State", tag(state, "on" if receipt.complete else "warn")),
        ("Rewritten", _list(receipt.rewritten)),
        ("Removed", _list(receipt.removed)),
        ("Quoted in summaries", _list(receipt.summaries)),
        ("Searched afterwards", checked),
        ("The same text elsewhere", _list(receipt.elsewhere)),
        ("Left", _list(receipt.left)),
        ("Still to do", _list(receipt.pending)),
        ("Out of reach of SMP", _list(list(BEYOND_REACH))),
    ]
    return panel("Receipt", pairs(rows))


def _list(names: list[str]) -> Html | None:
    if not names:
        return None
    more = el("li", f"and {len(names) - _MOST_LISTED:,} more") if len(names) > _MOST_LISTED else None
    return el("ul", [el("li", name) for name in names[:_MOST_LISTED]], more, class_="values")
