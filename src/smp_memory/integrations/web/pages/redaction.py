"""Redact stored secrets, in one session or in several: the preview of what is replaced by what, and running it.

Redaction is done session by session, in all revisions and copies of its memories.
Guarantees: the preview shows no part of a secret. It shows what stays as it is after redaction, and dots in place of what goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidRecord, SMPError
from smp_memory.integrations.web.forms import Form, done, field, form_response, reason_field, redaction_sentence
from smp_memory.integrations.web.parts import TextPiece, difference, memories, visible
from smp_memory.model.history import COLD
from smp_memory.privacy.settings import redactor_even_if_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.responses import Response

    from smp_memory.integrations.web.forms import Target
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.storage_reports import RedactionReport
    from smp_memory.session import SessionMemory

CHOSEN = "session:"  # before the name of a session in the form
MOST_SESSIONS = 20  # of one form
_MOST_MEMORIES, _MOST_TEXTS = 20, 6  # of a session, of a memory
_AROUND, _DOTS = 40, "•" * 8


class RedactedMemory(NamedTuple):
    """What redaction would replace in a memory: kinds of secrets, and its texts with what goes and what comes."""

    ref: str
    kinds: dict[str, int]
    texts: list[tuple[str, list[TextPiece]]]


class RedactedSession(NamedTuple):
    """What redaction would replace in a session."""

    report: RedactionReport
    memories: list[RedactedMemory]

    @property
    def rest(self) -> list[tuple[str, str, dict[str, int]]]:
        """What is not shown text by text: a title, a text, and how many secrets of each kind."""
        more = len(self.report.memories) - len(self.memories)
        rows: list[tuple[str, str, dict[str, int]]] = [
            ("Not listed", memories(more) if more > 0 else "", {}),
            ("Metadata", "", self.report.head),
            ("Quarantine", "", self.report.set_aside),
            ("Not checked", ", ".join(self.report.pending), {}),
        ]
        return [(title, text, kinds) for title, text, kinds in rows if text or kinds]


def redaction_form(request: PageRequest, form: Form, sessions: Iterable[SessionMemory]) -> Form:
    """The form with what redaction would replace in these sessions; several can be chosen of."""
    found = [previewed for session in sessions if (previewed := _preview(session)) is not None]
    notes = [
        "Redaction replaces the kinds of secrets that it knows with a placeholder, in all revisions and copies. It cannot be undone.",
        "Change the secrets themselves, too: whoever read them may have kept them.",
    ]
    count = sum(len(each.report.memories) for each in found)
    form = form._replace(notes=notes, template="redact.html", values={"found": found, "dots": _DOTS})
    if not any(each.report for each in found):
        return form._replace(can_run=False)
    boxes = [
        field(
            f"{CHOSEN}{each.report.session}",
            f"{each.report.session}: {memories(len(each.report.memories))}",
            "box",
            value="1",
        )
        for each in found
        if each.report and len(found) > 1
    ]
    button = f"Redact {memories(count)}" if not boxes else "Redact the chosen sessions"
    return form._replace(fields=[*boxes, reason_field(request)], button=button, is_dangerous=True)


def _preview(session: SessionMemory) -> RedactedSession | None:
    reports = session.redact(preview=True)
    if not reports:
        return None
    report, storage = reports[0], session.opened.storage
    hot, cold = storage.history().histories, storage.history(segment=COLD).histories
    shown = []
    for id, kinds in list(report.memories.items())[:_MOST_MEMORIES]:
        histories = [each[id] for each in (hot, cold) if id in each]
        texts = list(_texts(session, histories))
        shown.append(RedactedMemory(f"{session.id}/{id}", kinds, texts[:_MOST_TEXTS]))
    return RedactedSession(report, shown)


def _texts(session: SessionMemory, histories: list[RecordHistory]) -> Iterator[tuple[str, list[TextPiece]]]:
    """The texts that change, each with its field; a text that several revisions have is shown once."""
    redactor = redactor_even_if_off(session.opened.storage.config)
    seen: set[tuple[str, str, str]] = set()
    for history in histories:
        for entry in history.entries:
            for name, before, after in changed_texts("", entry.data, redactor.redact_fields(entry.data)[0]):
                if (name, before, after) not in seen:
                    seen.add((name, before, after))
                    yield name, masked(visible(before), visible(after))


def changed_texts(name: str, before: Any, after: Any) -> Iterator[tuple[str, str, str]]:
    """The texts in which two values differ, each with the name of its field as it is after redaction."""
    if isinstance(before, dict) and isinstance(after, dict):
        for (old_key, old), (key, new) in zip(before.items(), after.items(), strict=False):
            yield from changed_texts(f"{name}.{key}" if name else key, old, new)
            if old_key != key:
                yield name or key, old_key, key
    elif isinstance(before, list) and isinstance(after, list):
        for old, new in zip(before, after, strict=False):
            yield from changed_texts(name, old, new)
    elif before != after:
        yield name, str(before), str(after)


def masked(before: str, after: str) -> list[TextPiece]:
    """The difference of two texts with dots for all that is only in the first, and with what surrounds it."""
    pieces = difference(before, after)
    last = len(pieces) - 1
    return [
        TextPiece("del", _DOTS) if each.element == "del" else each if each.element else _surrounding(each, at, last)
        for at, each in enumerate(pieces)
    ]


def _surrounding(piece: TextPiece, at: int, last: int) -> TextPiece:
    """The ends of an unchanged text that are beside a change."""
    text = piece.text
    if len(text) <= 2 * _AROUND + 3:
        return piece
    head, tail = text[:_AROUND] if at else "", text[-_AROUND:] if at < last else ""
    return TextPiece("", f"{head}…{tail}")


def run_redaction(sessions: Iterable[SessionMemory], reason: str | None) -> str:
    """Redact these sessions; what was taken out of each, and which ones failed."""
    said = []
    for session in sessions:
        try:
            said.append(_redaction_text(session.redact(reason=reason)))
        except SMPError as error:
            said.append(f"{session.id} was not redacted: {error.message}")
    return " ".join(filter(None, said)) or "Nothing was removed: no known kind of secret was found."


def _redaction_text(reports: list[RedactionReport]) -> str:
    if not reports or not reports[0]:
        return ""
    report = reports[0]
    kinds = ", ".join(f"{name} ({count:,})" for name, count in report.kinds.items())
    pending = f" Not checked: {', '.join(report.pending)}." if report.pending else ""
    said = " ".join(["", *redaction_sentence(report.reason)]) if report.reason else ""
    return f"Redacted {memories(len(report.memories))} of {report.session}: {kinds}.{pending}{said}"


# -- of the session of one memory


def show_redact(target: Target) -> Form:
    form = Form(f"Redact session {target.session.id}", target.action("redact"), target.page, "Redact")
    form = redaction_form(target.request, form, [target.session])
    found = (each.report.memories for each in form.values["found"])
    said = [] if any(target.id in ids for ids in found) else [f"No secret was found in {target.id}."]
    return form._replace(notes=[*said, *form.notes])


def run_redact(target: Target) -> Response:
    return done(target.request, target.page, run_redaction([target.session], target.given("reason")))


# -- of the sessions that the checks named


def sessions_page(request: PageRequest) -> Response:
    """The form for the sessions that the address names."""
    names = list(dict.fromkeys(request.all("session")))
    if not names:
        raise InvalidRecord("session: name the sessions to redact.", field="session")
    sessions = [request.memory.opened_session(name, author=request.inspector.author) for name in names[:MOST_SESSIONS]]
    what = f"session {names[0]}" if len(names) == 1 else "several sessions"
    form = Form(f"Redact {what}", "/health/redact", "/health", "Redact")
    if len(names) == 1:
        form = form._replace(hidden={f"{CHOSEN}{names[0]}": "1"})
    return form_response(request, redaction_form(request, form, sessions))


def run_sessions(request: PageRequest) -> Response:
    names = [name.removeprefix(CHOSEN) for name in request.form if name.startswith(CHOSEN)]
    if not names:
        raise InvalidRecord("session: no session was chosen. Nothing was redacted.", field="session")
    sessions = [request.memory.opened_session(name, author=request.inspector.author) for name in names]
    text = run_redaction(sessions, request.form.get("reason", "").strip() or None)
    request.inspector.memo.pop("health", None)  # the last report names what is gone now
    return done(request, "/health", text)
