"""Actions on a session: archive, restore, delete, undelete, purge, compact, redact, and adding a memory by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidRecord, SessionNotFound, SMPError
from smp_memory.integrations.web.forms import (
    Form,
    confirmation,
    done,
    error_page,
    field,
    form_response,
    reason_field,
    redaction_sentence,
    with_notices,
)
from smp_memory.integrations.web.pages.redaction import redaction_form, run_redaction
from smp_memory.integrations.web.pages.sessions import recovery_deadline
from smp_memory.integrations.web.parts import ago, choices, counted, memories, memory_url, moment_text, size_text, url
from smp_memory.lifecycle.session_titles import session_title
from smp_memory.model import ids
from smp_memory.model.session_info import TITLE_CHARACTERS
from smp_memory.model.types import KINDS, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.session_info import SessionHead
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

    def form(self, name: str, title: str, button: str, **values: Any) -> Form:
        return Form(f"{title} {self.id}", self.action(name), self.page, button)._replace(**values)

    def given(self, name: str) -> str | None:
        return self.request.form.get(name, "").strip() or None


class SessionAction(NamedTuple):
    show: Callable[[SessionTarget], Form]
    run: Callable[[SessionTarget], Response]
    states: tuple[str, ...]


def form_page(request: PageRequest) -> Response:
    """The form of an action on a session, with a preview; it changes nothing."""
    return _answer(request, lambda action, target: form_response(request, action.show(target)))


def run(request: PageRequest) -> Response:
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


def _figures(target: SessionTarget) -> list[tuple[str, str | None]]:
    """What is in the session, so that one knows what one does."""
    if target.archived is not None:
        facts = target.archived
        since = f"{moment_text(facts.when)} UTC" if facts.when else None
        return [("Since", since), ("Reason", facts.reason), ("Size", size_text(facts.bytes))]
    session = target.session
    figures = session.stats().to_dict()
    state = session.session_state
    used = ago(state.last_used, target.request.now) if state.last_used else None
    count = figures.get("memories")
    return [
        ("Memories", f"{count:,}" if isinstance(count, int) else None),
        ("Size", size_text(figures["bytes"])),
        ("Last used", used),
        ("State", state.state),
    ]


# -- archive and restore


def _show_archive(target: SessionTarget) -> Form:
    note = "It is packed into an archive with a summary beside it. Searches skip it unless archived sessions are included; opening it restores it."
    fields = [reason_field(target.request, target.error)]
    return target.form("archive", "Archive session", "Archive", facts=_figures(target), notes=[note], fields=fields)


def _run_archive(target: SessionTarget) -> Response:
    memory, id, author = target.memory, target.id, target.author
    archived = memory.archive_session(id, target.given("reason"), by=author)

    def undo() -> str:
        memory.restore_session(id, by=author)
        return f"Session {id} is live again."

    text = " ".join([f"Session {id} is archived, {size_text(archived.bytes)}.", *redaction_sentence(archived.redacted)])
    return done(target.request, "/sessions", text, undo)


def _show_restore(target: SessionTarget) -> Form:
    notes = ["It becomes live again, unchanged."]
    return target.form("restore", "Restore session", "Restore", back="/sessions", facts=_figures(target), notes=notes)


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
        else "It can be brought back until somebody purges it; this does not happen automatically."
    )
    return target.form(
        "delete",
        "Delete session",
        "Delete the session",
        facts=_figures(target),
        effects=["The whole session goes to the trash.", purge],
        fields=[reason_field(target.request, target.error)],
        is_dangerous=True,
    )


def _run_delete(target: SessionTarget) -> Response:
    memory, id, author = target.memory, target.id, target.author
    deleted = memory.delete_session(id, target.given("reason"), by=author)

    def undo() -> str:
        state = memory.undelete_session(id, by=author)
        return f"Session {id} is back, {state}."

    text = " ".join([f"Session {id} is in the trash.", *redaction_sentence(deleted.redacted)])
    return done(target.request, "/sessions", text, undo)


def _show_undelete(target: SessionTarget) -> Form:
    return target.form(
        "undelete",
        "Bring back session",
        "Bring it back",
        back="/trash",
        facts=_figures(target),
        notes=["It comes back as it was, live or archived."],
        fields=[reason_field(target.request, target.error)],
    )


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
    notes = ["A purge removes the session and its memories for good."]
    if named:
        target = target._replace(archived=named[0])  # that is the one which a purge takes
        deadline = recovery_deadline(named[0])
        if deadline is not None:
            notes.append(f"Until {moment_text(deadline)} UTC it could still be brought back.")
    if len(named) > 1:
        notes.append(
            f"{len(named)} sessions of this name are in the trash; this one was deleted first, the others stay."
        )
    return target.form(
        "purge",
        "Purge session",
        "Remove for good",
        back="/trash",
        facts=_figures(target),
        notes=notes,
        fields=[reason_field(target.request, target.error), confirmation(target.id, target.error)],
        is_dangerous=True,
    )


def _run_purge(target: SessionTarget) -> Response:
    if target.given("confirm") != target.id:
        raise InvalidRecord(
            f"confirm: type {target.id} exactly as it is shown here. Nothing was done.", field="confirm"
        )
    purged = target.memory.purge_session(target.id, target.given("reason"), by=target.author)
    text = f"Session {target.id} is removed for good, {size_text(purged.bytes)}."
    return done(target.request, "/trash", " ".join([text, *redaction_sentence(purged.redacted)]))


# -- compact


def _show_compact(target: SessionTarget) -> Form:
    chosen = target.request.form.get("target") or target.request.get("target") or "gentle"
    chosen = chosen if chosen in dict(_TARGETS) else "gentle"
    report = target.session.compact(chosen, dry_run=True)
    other = "forced" if chosen == "gentle" else "gentle"
    moved = report.plan.removed if report else []
    note = "Faded memories, old turns and settled findings move to the cold segment beside the session. Nothing is destroyed: each can be restored."
    return target.form(
        "compact",
        "Compact session",
        "Compact",
        notes=[note],
        fields=[field("target", "How much", "select", value=chosen, options=_TARGETS, error=target.error)],
        template="compact.html",
        values={
            "heading": f"Would move {memories(len(moved))} and free {size_text(report.freed_bytes)}" if report else "",
            "moved": [(f"{target.id}/{each.id}", each.why) for each in moved[:_MOST_LISTED]],
            "more": len(moved) - _MOST_LISTED,
            "session": target.id,
            "other": other,
            "other_preview": url("/session/{}/compact", target.id, target=other),
        },
    )


def _run_compact(target: SessionTarget) -> Response:
    report = target.session.compact(target.given("target"))
    if not report:
        return done(target.request, target.page, f"Session {target.id} was not changed: there is nothing to move.")
    moved = memories(len(report.removed))
    text = f"Session {target.id}: {moved} moved to the cold segment, {size_text(report.freed_bytes)} freed."
    return done(target.request, target.page, text)


# -- title


def _show_title(target: SessionTarget) -> Form:
    own = target.session.info.title
    value = target.request.form.get("title", own)
    fallback = session_title(target.memory.store, target.id) if not own else ""
    hint = "If it is empty, the title is the beginning of the first prompt." + (f" Now: {fallback}" if fallback else "")
    about: dict[str, Any] = {"maxlength": TITLE_CHARACTERS, "autofocus": True, "dir_": "auto"}
    fields = [field("title", "Title", value=value, hint=hint, error=target.error, **about)]
    return target.form("title", "Rename session", "Save", fields=fields)


def _run_title(target: SessionTarget) -> Response:
    session, title = target.session, target.given("title")
    former = session.info.title
    session.change_info(title=title)

    def undo() -> str:
        session.change_info(title=former or None)
        return f"Session {target.id} has its former title."

    shown = session_title(target.memory.store, target.id)
    text = f"The session is called {shown}." if shown else f"Session {target.id} has no title."
    return done(target.request, target.page, " ".join([text, *redaction_sentence(session.redacted)]), undo)


# -- redact, add


def _show_redact(target: SessionTarget) -> Form:
    form = target.form("redact", "Redact session", "Redact")
    return redaction_form(target.request, form, [target.session])


def _run_redact(target: SessionTarget) -> Response:
    return done(target.request, target.page, run_redaction([target.session], target.given("reason")))


def _show_add(target: SessionTarget) -> Form:
    typed, error = target.request.form, target.error
    kinds = [(kind.name, kind.noun) for kind in KINDS.values() if kind.is_written_down]
    severities = [("", "none"), *choices(SEVERITIES)]
    is_text = error is not None and error.details.get("field") in {kind.text for kind in KINDS.values()}
    about_text: dict[str, Any] = {"rows": 4, "required": True, "autofocus": True, "is_wrong": is_text}
    fields = [
        field("type", "Type", "select", value=typed.get("type", "finding"), options=kinds, error=error),
        field("text", "Text", "textarea", value=typed.get("text", ""), error=error, **about_text),
        field(
            "severity",
            f"Severity (of a {_with_severity()})",
            "select",
            value=typed.get("severity", ""),
            options=severities,
            error=error,
        ),
        field("tags", "Tags (optional)", value=typed.get("tags", ""), hint="With commas between.", error=error),
    ]
    return target.form("add", "Add a memory to", "Add", fields=fields)


def _with_severity() -> str:
    return " or ".join(kind.noun for kind in KINDS.values() if kind.has_severity and kind.is_written_down)


def _run_add(target: SessionTarget) -> Response:
    kind = target.given("type") or ""
    if kind not in KINDS or not KINDS[kind].is_written_down:
        raise InvalidRecord(f"type: {kind[:40]!r} cannot be added here.", field="type")
    text = target.request.form.get("text", "").replace("\r\n", "\n").strip()
    tags = [each.strip() for each in target.request.form.get("tags", "").split(",") if each.strip()]
    author = target.author
    severity = target.given("severity")
    if severity is not None and not KINDS[kind].has_severity:
        raise InvalidRecord(f"severity: only a {_with_severity()} has one.", field="severity")
    given = {KINDS[kind].text: text, "tags": tags, "severity": severity}
    record = target.session.add(kind, {name: value for name, value in given.items() if value})

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
    "title": SessionAction(_show_title, _run_title, (LIVE,)),
    "add": SessionAction(_show_add, _run_add, (LIVE,)),
}
