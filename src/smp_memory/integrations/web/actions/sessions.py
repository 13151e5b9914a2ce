"""Actions on a session: archive, restore, delete, undelete, purge, compact, redact, and adding a memory by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import InvalidRecord, SessionNotFound, SMPError
from smp_memory.integrations.web.actions.frame import (
    Form,
    confirmation,
    done,
    field,
    form_response,
    reason_field,
    redaction_sentence,
    with_notices,
)
from smp_memory.integrations.web.actions.removal import redaction_form, redaction_text
from smp_memory.integrations.web.failures import error_page
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.pages.away import recovery_deadline
from smp_memory.integrations.web.parts import memory_link, memory_url, options, pairs
from smp_memory.integrations.web.words import ago, counted, moment_text, size_text
from smp_memory.model import ids
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.lifecycle.compaction import CompactionReport
    from smp_memory.memory import Memory
    from smp_memory.model.storage_reports import SessionHead
    from smp_memory.session import SessionMemory

LIVE, ARCHIVED, DELETED = "live", "archived", "deleted"
_TARGETS = (("gentle", "gentle: what is faded or settled"), ("forced", "forced: free more room"))
_MOST_LISTED = 30


class SessionTarget(NamedTuple):
    """What an action on a session is about."""

    request: PageRequest
    id: str
    state: str
    archived: SessionHead | None  # of an archived or deleted session
    error: SMPError | None = None

    @property
    def memory(self) -> Memory:
        return self.request.memory

    @property
    def author(self) -> str | None:
        return self.request.inspector.author

    @property
    def session(self) -> SessionMemory:
        return self.memory.opened_session(self.id, author=self.author)

    @property
    def page(self) -> str:
        return url("/session/{}", self.id)

    def action(self, name: str) -> str:
        return url("/session/{}/{}", self.id, name)

    def given(self, name: str) -> str | None:
        return self.request.form.get(name, "").strip() or None


class SessionAction(NamedTuple):
    show: Callable[[SessionTarget], Form]
    run: Callable[[SessionTarget], Response]
    states: tuple[str, ...]


def session_form_page(request: PageRequest) -> Response:
    """The form of an action on a session, with a preview; it changes nothing."""
    return _answer(request, lambda action, target: form_response(request, action.show(target)))


def run_session(request: PageRequest) -> Response:
    def act(action: SessionAction, target: SessionTarget) -> Response:
        try:
            return action.run(target)
        except SMPError as error:
            return form_response(request, action.show(target._replace(error=error)), error)

    return _answer(request, act)


def _answer(request: PageRequest, act: Callable[[SessionAction, SessionTarget], Response]) -> Response:
    action = _ACTIONS.get(request.parts["action"])
    if action is None:
        return error_page(request, "Not found", "There is no such action on a session.", 404)
    target = _target(request)
    if target.state not in action.states:
        deleted = _deleted(request.memory, target.id)
        if deleted is None or DELETED not in action.states:
            page = target.page if target.state == LIVE else "/sessions"
            return done(request, page, f"Nothing was done: session {target.id} is {target.state}.")
        target = target._replace(state=DELETED, archived=deleted)
    return act(action, target)


def _target(request: PageRequest) -> SessionTarget:
    name, memory = request.parts["session"], request.memory
    if ids.is_valid(name):
        if memory.store.sessions(id=name):
            return SessionTarget(request, name, LIVE, None)
        archived = next((each for each in memory.archived_sessions() if each.session == name), None)
        if archived is not None:
            return SessionTarget(request, name, ARCHIVED, archived)
        deleted = _deleted(memory, name)
        if deleted is not None:
            return SessionTarget(request, name, DELETED, deleted)
    raise SessionNotFound(f"There is no session {name[:80]!r} in this store.", session=name[:80])


def _deleted(memory: Memory, name: str) -> SessionHead | None:
    """The session of this name that was deleted last."""
    named = [each for each in memory.deleted_sessions() if each.session == name]
    return named[-1] if named else None


def _figures(target: SessionTarget) -> Html:
    """What is in the session, so that one knows what one does."""
    if target.archived is not None:
        facts = target.archived
        since = f"{moment_text(facts.when)} UTC" if facts.when else None
        return pairs([("Since", since), ("Reason", facts.reason), ("Size", size_text(facts.bytes))])
    session = target.session
    figures = session.stats().to_dict()
    state = session.session_state
    used = ago(state.last_used, target.request.now) if state.last_used else None
    count = figures.get("memories")
    rows: list[tuple[Child, Child]] = [
        ("Memories", f"{count:,}" if isinstance(count, int) else None),
        ("Size", size_text(figures["bytes"])),
        ("Last used", used),
        ("State", state.state),
    ]
    return pairs(rows)


# -- archive and restore


def _show_archive(target: SessionTarget) -> Form:
    note = "It is packed into an archive with a summary beside it. Searches skip it unless archived sessions are asked for; opening it brings it back."
    intro = join(_figures(target), el("p", note, class_="note"))
    fields = reason_field(target.request, target.error)
    return Form(f"Archive session {target.id}", target.action("archive"), target.page, fields, "Archive", intro)


def _run_archive(target: SessionTarget) -> Response:
    memory, id, author = target.memory, target.id, target.author
    archived = memory.archive_session(id, target.given("reason"), by=author)

    def undo() -> str:
        memory.restore_session(id, by=author)
        return f"Session {id} is live again."

    text = " ".join([f"Session {id} is archived, {size_text(archived.bytes)}.", *redaction_sentence(archived.redacted)])
    return done(target.request, "/sessions", text, undo)


def _show_restore(target: SessionTarget) -> Form:
    intro = join(_figures(target), el("p", "It becomes live again, unchanged.", class_="note"))
    return Form(f"Restore session {target.id}", target.action("restore"), "/sessions", None, "Restore", intro)


def _run_restore(target: SessionTarget) -> Response:
    memory, id, author = target.memory, target.id, target.author
    memory.restore_session(id, by=author)
    reason = target.archived.reason if target.archived is not None else None

    def undo() -> str:
        memory.archive_session(id, reason, by=author)
        return f"Session {id} is archived again."

    return done(target.request, target.page, f"Session {id} is live again.", undo, back="/sessions")


# -- delete, undelete, purge


def _show_delete(target: SessionTarget) -> Form:
    days = target.memory.config["lifecycle.purge_days"]
    purge = (
        f"It can be brought back for {counted(days, 'day')}; after that a purge may remove it for good."
        if target.memory.config["lifecycle.auto_purge"]
        else "It can be brought back until somebody purges it; nothing does that by itself."
    )
    effects = el("ul", el("li", "The whole session goes to the trash."), el("li", purge), class_="effects")
    fields = reason_field(target.request, target.error)
    return Form(
        f"Delete session {target.id}", target.action("delete"), target.page, fields, "Delete the session",
        join(_figures(target), effects), is_dangerous=True,
    )  # fmt: skip


def _run_delete(target: SessionTarget) -> Response:
    memory, id, author = target.memory, target.id, target.author
    deleted = memory.delete_session(id, target.given("reason"), by=author)

    def undo() -> str:
        state = memory.undelete_session(id, by=author)
        return f"Session {id} is back, {state}."

    text = " ".join([f"Session {id} is in the trash.", *redaction_sentence(deleted.redacted)])
    return done(target.request, "/sessions", text, undo)


def _show_undelete(target: SessionTarget) -> Form:
    intro = join(_figures(target), el("p", "It comes back as it was, live or archived.", class_="note"))
    fields = reason_field(target.request, target.error)
    return Form(f"Bring back session {target.id}", target.action("undelete"), "/trash", fields, "Bring it back", intro)


def _run_undelete(target: SessionTarget) -> Response:
    memory, id, author = target.memory, target.id, target.author
    former = target.archived.reason if target.archived is not None else None
    state = memory.undelete_session(id, target.given("reason"), by=author)

    def undo() -> str:
        memory.delete_session(id, former, by=author)
        return f"Session {id} is in the trash again."

    page = target.page if state == "active" else "/sessions"
    return done(target.request, page, f"Session {id} is back, {state}.", undo, back="/sessions")


def _show_purge(target: SessionTarget) -> Form:
    named = [each for each in target.memory.deleted_sessions() if each.session == target.id]
    until = several = None
    if named:
        target = target._replace(archived=named[0])  # that is the one which a purge takes
        deadline = recovery_deadline(named[0])
        until = f"Until {moment_text(deadline)} UTC it could still be brought back." if deadline is not None else None
    if len(named) > 1:
        several = f"{len(named)} sessions of this name are in the trash; this one was deleted first, the others stay."
    notes = [el("p", each, class_="note") for each in (until, several) if each is not None]
    intro = join(_figures(target), el("p", "A purge removes the session and its memories for good."), notes)
    fields = join(reason_field(target.request, target.error), confirmation(target.id, target.error))
    return Form(
        f"Purge session {target.id}",
        target.action("purge"),
        "/trash",
        fields,
        "Remove for good",
        intro,
        is_dangerous=True,
    )


def _run_purge(target: SessionTarget) -> Response:
    if target.given("confirm") != target.id:
        raise InvalidRecord(f"confirm: type {target.id} exactly as it stands here. Nothing was done.", field="confirm")
    purged = target.memory.purge_session(target.id, target.given("reason"), by=target.author)
    text = f"Session {target.id} is removed for good, {size_text(purged.bytes)}."
    return done(target.request, "/trash", " ".join([text, *redaction_sentence(purged.redacted)]))


# -- compact


def _show_compact(target: SessionTarget) -> Form:
    chosen = target.request.form.get("target") or target.request.get("target") or "gentle"
    chosen = chosen if chosen in dict(_TARGETS) else "gentle"
    report = target.session.compact(chosen, dry_run=True)
    fields = field("target", "How much", "select", children=options(_TARGETS, chosen), error=target.error)
    other = "forced" if chosen == "gentle" else "gentle"
    link = el("a", f"Preview {other}", href=url("/session/{}/compact", target.id, target=other), data_dialog=True)
    note = "Faded memories, old turns and settled findings move to the cold segment beside the session. Nothing is destroyed: each can be restored."
    intro = join(el("p", note, class_="note"), _compaction(report, target.id), el("p", link))
    return Form(f"Compact session {target.id}", target.action("compact"), target.page, fields, "Compact", intro)


def _compaction(report: CompactionReport, session: str) -> Html:
    moved = report.plan.removed
    if not report:
        return el("p", "There is nothing to move now.", class_="empty")
    rows = [el("li", memory_link(f"{session}/{each.id}", session), f" {each.why}") for each in moved[:_MOST_LISTED]]
    more = el("li", f"and {len(moved) - _MOST_LISTED:,} more") if len(moved) > _MOST_LISTED else None
    title = f"Would move {counted(len(moved), 'memory', 'memories')} and free {size_text(report.freed_bytes)}"
    return join(el("h2", title), el("ul", rows, more, class_="effects"))


def _run_compact(target: SessionTarget) -> Response:
    report = target.session.compact(target.given("target"))
    if not report:
        return done(target.request, target.page, f"Session {target.id} was not changed: there is nothing to move.")
    moved = counted(len(report.removed), "memory", "memories")
    text = f"Session {target.id}: {moved} moved to the cold segment, {size_text(report.freed_bytes)} freed."
    return done(target.request, target.page, text)


# -- redact, add


def _show_redact(target: SessionTarget) -> Form:
    reports = target.session.redact(preview=True)
    title = f"Redact session {target.id}"
    return redaction_form(target.request, reports, title=title, action=target.action("redact"), back=target.page)


def _run_redact(target: SessionTarget) -> Response:
    reports = target.session.redact(reason=target.given("reason"))
    return done(target.request, target.page, redaction_text(reports))


def _show_add(target: SessionTarget) -> Form:
    typed, error = target.request.form, target.error
    kinds = [(kind.name, kind.noun) for kind in KINDS.values() if kind.is_written_down]
    text_fields = {kind.text for kind in KINDS.values()}
    is_text = error is not None and error.details.get("field") in text_fields
    fields = join(
        field("type", "Type", "select", children=options(kinds, typed.get("type", "finding")), error=error),
        field(
            "text",
            "Text",
            "textarea",
            value=typed.get("text", ""),
            rows=4,
            required=True,
            autofocus=True,
            error=error,
            is_wrong=is_text,
        ),
        field("tags", "Tags (optional)", value=typed.get("tags", ""), hint="With commas between.", error=error),
    )
    return Form(f"Add a memory to {target.id}", target.action("add"), target.page, fields, "Add")


def _run_add(target: SessionTarget) -> Response:
    kind = target.given("type") or ""
    if kind not in KINDS or not KINDS[kind].is_written_down:
        raise InvalidRecord(f"type: {kind[:40]!r} cannot be added here.", field="type")
    text = target.request.form.get("text", "").replace("\r\n", "\n").strip()
    tags = [each.strip() for each in target.request.form.get("tags", "").split(",") if each.strip()]
    author = target.author
    record = target.session.add(kind, {KINDS[kind].text: text, **({"tags": tags} if tags else {})})

    def undo() -> str:
        target.session.delete(record.id, "added by mistake", by=author)
        return f"{record.id} is in the trash."

    page = memory_url(record.ref)
    return done(target.request, page, with_notices(f"Added {record.id}.", record), undo)


_ACTIONS = {
    "archive": SessionAction(_show_archive, _run_archive, (LIVE,)),
    "restore": SessionAction(_show_restore, _run_restore, (ARCHIVED,)),
    "delete": SessionAction(_show_delete, _run_delete, (LIVE, ARCHIVED)),
    "undelete": SessionAction(_show_undelete, _run_undelete, (DELETED,)),
    "purge": SessionAction(_show_purge, _run_purge, (DELETED,)),
    "compact": SessionAction(_show_compact, _run_compact, (LIVE,)),
    "redact": SessionAction(_show_redact, _run_redact, (LIVE,)),
    "add": SessionAction(_show_add, _run_add, (LIVE,)),
}
