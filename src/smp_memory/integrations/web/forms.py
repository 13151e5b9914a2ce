"""Forms of actions, errors beside their fields, the notice afterwards, undo; and errors as pages.

An action is a change with a preview, in the name of the person who runs the inspector, and with an undo where there is one.
Guarantees: the core checks every value; what it refuses is shown beside the field, with what was typed. A form that is sent twice does
nothing harmful the second time: changes expect a revision, and what is done already is not done again. What redaction took out is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import RedirectResponse

from smp_memory.errors import (
    Busy,
    Conflict,
    InvalidConfig,
    InvalidQuery,
    InvalidRecord,
    MemoryNotFound,
    SessionArchived,
    SessionNotFound,
    SizeLimitExceeded,
    SMPError,
    StoreNotFound,
    UserError,
)
from smp_memory.integrations.web.parts import line_of, memory_url, sentence, shortened, url
from smp_memory.integrations.web.renderer import page
from smp_memory.integrations.web.request import Notice
from smp_memory.privacy.settings import redaction_notice

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.lookup import LocatedMemory
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_STATUS: tuple[tuple[type[SMPError], int], ...] = (
    (MemoryNotFound, 404),
    (SessionNotFound, 404),
    (StoreNotFound, 503),
    (Conflict, 409),
    (InvalidQuery, 400),
    (InvalidRecord, 400),
    (InvalidConfig, 400),
    (SizeLimitExceeded, 400),
    (UserError, 400),
)


def status_of(error: SMPError) -> int:
    return next((number for kind, number in _STATUS if isinstance(error, kind)), 500)


def error_page(request: PageRequest, title: str, message: str, status: int, code: str = "") -> Response:
    """A page for an error: what is wrong, in the words of the error."""
    return page(request, "error.html", title, status=status, message=message, code=code)


# -- the form


class FormField(NamedTuple):
    """A label with its control, and beside it the message of an error that is about it."""

    name: str
    label: str
    control: str = "input"  # or textarea, select, box: a box to tick, ticked if it has a value
    value: str = ""
    hint: str = ""
    options: Sequence[tuple[str, str]] = ()  # of a select, or suggestions for an input: values and labels
    attributes: Mapping[str, Any] = {}
    message: str = ""

    @property
    def id(self) -> str:
        return f"field-{self.name.replace(':', '-')}"

    @property
    def described_by(self) -> str:
        return " ".join(
            f"{self.id}-{what}" for what in ("hint", "error") if (self.hint if what == "hint" else self.message)
        )


def field(
    name: str, label: str, control: str = "input", *, value: str = "", hint: str = "", error: SMPError | None = None,
    is_wrong: bool | None = None, options: Sequence[tuple[str, str]] = (), **attributes: Any,
) -> FormField:  # fmt: skip
    """A field; `is_wrong` says whether the error is about it, if not the error itself does."""
    wrong = error is not None and (is_wrong if is_wrong is not None else error.details.get("field") == name)
    given = {
        key.rstrip("_"): "" if each is True else each for key, each in attributes.items() if each not in (None, False)
    }
    return FormField(
        name, label, control, value, hint, options, given, error.message if wrong and error is not None else ""
    )


def reason_field(request: PageRequest, error: SMPError | None = None) -> FormField:
    hint = "It is stored with the action and shown in the history."
    value = request.form.get("reason", "")
    return field("reason", "Reason (optional)", value=value, hint=hint, error=error, maxlength=2000)


def confirmation(name: str, error: SMPError | None = None) -> FormField:
    """A field in which the person types the name of what goes for good."""
    label, hint = f"Type {name} to confirm", "This cannot be undone."
    return field("confirm", label, hint=hint, error=error, required=True, spellcheck="false")


class Form(NamedTuple):
    """A form for one action. What it says comes before its fields: a quotation, facts, effects, notes, or what its template adds."""

    title: str
    action: str  # where it posts to
    back: str  # the page to return to
    button: str
    fields: Sequence[FormField] = ()
    folded: Sequence[FormField] = ()  # rarely needed
    hidden: Mapping[str, str] = {}
    quote: str = ""
    facts: Sequence[tuple[str, Any]] = ()
    effects: Sequence[str] = ()
    notes: Sequence[str] = ()
    is_dangerous: bool = False
    can_run: bool = True  # False: there is nothing to do, and the form says why
    cancel: str = "Cancel"
    error: SMPError | None = None
    template: str = "form.html"
    values: Mapping[str, Any] = {}  # of the template


def form_response(request: PageRequest, form: Form, error: SMPError | None = None, status: int = 200) -> Response:
    """The form as a page; its element `#action` is also shown as a dialog."""
    status = status if error is None else status_of(error)
    return page(request, form.template, form.title, status=status, form=form, error=error, **form.values)


class Target(NamedTuple):
    """What an action on a memory is about: the request, the memory as it stands, its session, and an error to show."""

    request: PageRequest
    found: LocatedMemory
    record: Record
    session: SessionMemory
    error: SMPError | None = None  # of the run before, shown in the form

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def author(self) -> str | None:
        return self.request.inspector.author

    @property
    def page(self) -> str:
        return memory_url(self.record.ref)

    def action(self, name: str) -> str:
        return f"{self.page}/{name}"

    def form(self, name: str, button: str = "", **values: Any) -> Form:
        """The form of an action, with what the memory says."""
        button = button or name.capitalize()
        quote = shortened(line_of(self.record), 200)
        return Form(f"{name.capitalize()} {self.id}", self.action(name), self.page, button, quote=quote)._replace(
            **values
        )

    def typed(self, name: str, default: str = "") -> str:
        """What was typed into a field before, else the default."""
        return self.request.form.get(name, default)

    def given(self, name: str) -> str | None:
        """A value of the form without spaces around it; None if it is empty."""
        return self.request.form.get(name, "").strip() or None

    def check_confirmed(self, name: str) -> None:
        """Raise unless the person typed the name of what goes for good."""
        if self.given("confirm") != name:
            raise InvalidRecord(f"confirm: type {name} exactly as it is shown here. Nothing was done.", field="confirm")

    def expected_revision(self) -> int:
        """The revision that the form was made from."""
        try:
            return int(self.request.form.get("revision", ""))
        except ValueError:
            raise InvalidRecord("revision: must be a whole number. Open the form again.", field="revision") from None

    def session_again(self) -> SessionMemory:
        """The session at a later time. Raises if it was archived or deleted since: an undo does not bring it back."""
        return self.request.memory.opened_session(self.session.id, author=self.author)

    def undo_update(self, after: Record, before: dict[str, object], said: str) -> Callable[[], str]:
        """A function that sets fields to what they were, if nobody changed the memory since."""

        def undo() -> str:
            try:
                self.session_again().update(after.id, after.revision, by=self.author, **before)
            except Conflict as error:
                raise Conflict(
                    f"{after.id} has been changed again, to revision {error.details.get('revision')}. Undoing would overwrite "
                    "that change, so nothing was done. Its history shows both; edit it to put back what you want.",
                    **error.details,
                ) from error
            return said

        return undo


# -- afterwards


def done(
    request: PageRequest,
    path: str,
    text: str,
    undo: Callable[[], str] | None = None,
    detail: tuple[str, Any] | None = None,
    back: str | None = None,
) -> Response:
    """Show a page with a notice of what was done. `detail` has a page of its own, to which the browser is sent instead."""
    name = request.inspector.notices.add(Notice(text, undo, back or path, detail))
    target = url("/result/{}", name) if detail is not None else f"{path}?done={name}"
    return RedirectResponse(target, 303)


def with_notices(text: str, record: Record | None) -> str:
    """The sentence, with what redaction took out of a text and what the write warned of."""
    if record is None:
        return text
    return " ".join([text, *redaction_sentence(record.redacted), *record.warnings])


def redaction_sentence(kinds: dict[str, int] | None) -> list[str]:
    said = redaction_notice(kinds or {})
    return [sentence(said)] if said else []


def result_page(request: PageRequest) -> Response:
    """The whole result of an action that has more to say than a notice."""
    name = request.parts["name"]
    notice = request.inspector.notices.get(name)
    if notice is None or notice.detail is None:
        message = "This result is no longer available. The audit log of the store shows what was done."
        return error_page(request, "Not found", message, 404)
    template, shown = notice.detail
    return page(request, template, notice.text, name=name, result=notice, shown=shown)


def undo(request: PageRequest) -> Response:
    """Take an action back, once."""
    name = request.parts["name"]
    notice = request.inspector.notices.take(name)
    if notice is None or notice.undo is None:
        message = "There is nothing to undo here: it was undone already, or the inspector was restarted."
        return error_page(request, "Nothing to undo", message, 404)
    try:
        text = notice.undo()
    except (Busy, SessionArchived) as error:
        if not isinstance(error, Conflict):
            request.inspector.notices.put_back(name, notice)  # not tried: the store is busy, or the session archived
        raise
    return done(request, notice.back, text)
