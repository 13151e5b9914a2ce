"""The frame of actions: a form as a page or dialog, errors beside their fields, the notice afterwards, and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import RedirectResponse

from smp_memory.errors import Busy, Conflict, SessionArchived, SMPError
from smp_memory.integrations.web.failures import error_page, status_of
from smp_memory.integrations.web.html import Child, Html, el, url
from smp_memory.integrations.web.layout import form, heading, page
from smp_memory.integrations.web.request import Notice
from smp_memory.privacy.settings import redaction_notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record


class Form(NamedTuple):
    """A form for one action."""

    title: str
    action: str  # where it posts to
    back: str  # the page to return to
    fields: Child
    button: str
    intro: Child = None
    is_dangerous: bool = False
    can_run: bool = True  # False: there is nothing to do, and the form says why
    cancel: str = "Cancel"


def form_response(request: PageRequest, shown: Form, error: SMPError | None = None, status: int = 200) -> Response:
    """The form as a page; its element `#action` is also shown as a dialog."""
    kind = "primary danger" if shown.is_dangerous else "primary"
    buttons = el(
        "div",
        el("button", shown.button, class_=kind) if shown.can_run else None,
        el("a", shown.cancel if shown.can_run else "Back", href=shown.back, class_="button", data_close=True),
        class_="actions",
    )
    alert = el("p", error.message, class_="error-text", role="alert", id="action-error") if error is not None else None
    body = form(request, shown.action, alert, shown.fields, buttons, autocomplete="off")
    section = el("section", el("h1", shown.title), shown.intro, body, id="action", class_="panel action")
    if error is not None:
        status = status_of(error)
    return page(request, shown.title, "", el("div", section, class_="narrow"), status=status)


def field(
    name: str, label: str, control: str = "input", *, value: str = "", hint: Child = None, error: SMPError | None = None,
    is_wrong: bool | None = None, **attributes: Any,
) -> Html:  # fmt: skip
    """A label with its control; the message of an error that names the field stands beside it."""
    wrong = error is not None and (is_wrong if is_wrong is not None else error.details.get("field") == name)
    id = f"field-{name.replace(':', '-')}"
    about = [f"{id}-hint"] if hint is not None else []
    about += [f"{id}-error"] if wrong else []
    given = {
        "id": id,
        "name": name,
        "aria_describedby": " ".join(about) or None,
        "aria_invalid": "true" if wrong else None,
        **attributes,
    }
    if control == "textarea":
        made = el("textarea", "\n", value, **given)  # a parser drops the first line break
    elif control == "select":
        made = el("select", given.pop("children"), **given)
    else:
        made = el("input", value=value, **given)
    message = el("p", error.message, class_="field-error", id=f"{id}-error") if wrong and error is not None else None
    explained = el("p", hint, class_="hint", id=f"{id}-hint") if hint is not None else None
    return el("div", el("label", label, for_=id), made, explained, message, class_="field")


def reason_field(request: PageRequest, error: SMPError | None = None) -> Html:
    return field(
        "reason",
        "Reason (optional)",
        value=request.form.get("reason", ""),
        hint="It is kept with the action, for whoever looks at the history.",
        error=error,
        maxlength=2000,
    )


def confirmation(name: str, error: SMPError | None = None) -> Html:
    """A field in which the person types the name of what goes for good."""
    return field(
        "confirm",
        f"Type {name} to confirm",
        hint="This cannot be undone.",
        error=error,
        required=True,
        spellcheck="false",
    )


def hidden(name: str, value: Any) -> Html:
    return el("input", type="hidden", name=name, value=value)


# -- afterwards


def done(
    request: PageRequest,
    path: str,
    text: str,
    undo: Callable[[], str] | None = None,
    detail: Html | None = None,
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
    return [said[:1].upper() + said[1:]] if said else []


def result_page(request: PageRequest) -> Response:
    """The whole result of an action that has more to say than a notice."""
    name = request.parts["name"]
    notice = request.inspector.notices.get(name)
    if notice is None or notice.detail is None:
        message = "This result is no longer kept. The audit log of the store has what was done."
        return error_page(request, "Not found", message, 404)
    undo_form = None
    if notice.undo is not None:
        undo_form = form(request, url("/undo/{}", name), el("button", "Undo"), class_="actions")
    back = el("p", el("a", "Continue", href=notice.back, class_="button primary"))
    return page(request, notice.text, "", heading("Done", notice.text), notice.detail, undo_form, back)


def undo(request: PageRequest) -> Response:
    """Take an action back, once."""
    name = request.parts["name"]
    notice = request.inspector.notices.take(name)
    if notice is None or notice.undo is None:
        message = "There is nothing to undo here: it was undone already, or the inspector was started anew."
        return error_page(request, "Nothing to undo", message, 404)
    try:
        text = notice.undo()
    except (Busy, SessionArchived) as error:
        if not isinstance(error, Conflict):
            request.inspector.notices.put_back(name, notice)  # not tried: the store is busy, or the session archived
        raise
    return done(request, notice.back, text)
