"""Edit the fields of a memory in a form, and decide what happens when somebody else changed it meanwhile.

Each control is named by its field and by how its text is read: `text:rationale`, `list:tags` (one in a line), `number:importance`,
`json:impact`. Only fields whose text differs from what the form showed are changed. Invisible characters of a text are spelled out in the
form, and are the same characters when it is saved.

Guarantees: a change is written only over the revision that the form was made from. If there is a newer one, the page shows what
changed there and what was typed here; fields that were not touched take the newer values.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import Conflict, InvalidRecord
from smp_memory.integrations.web.forms import Form, done, field, form_response, with_notices
from smp_memory.integrations.web.pages.memory import value_text
from smp_memory.integrations.web.parts import choices, difference, label_of, moment_text, spelled_marks, visible
from smp_memory.model.types import KINDS, SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from smp_memory.integrations.web.forms import FormField, Target
    from smp_memory.integrations.web.parts import TextPiece
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind

_COMMON = ("topic", "tags", "aliases", "valid_from", "valid_until", "confidence", "importance")
_NOT_EDITED = frozenset([
    "author", "author_kind", "pinned", "muted", "relations", "references", "access", "visibility", "trust", "idempotency_key",
    "turn_ref", "id", "by", "updated_by", "expected_revision", "self", "type", "created", "session",
])  # fmt: skip
_LISTS = frozenset(
    ("tags", "aliases", "approved_by", "agreed_by", "agents_involved", "alternatives_considered", "learned_from")
)
_NUMBERS = frozenset(("confidence", "importance"))
_ONE_LINE = frozenset([
    "category", "topic", "valid_from", "valid_until", "key", "name", "path", "format",
    "reversible", "source", "impact", "location",
])  # fmt: skip
_HINTS = {
    "tags": "One per line. Dots make a hierarchy: security.login.",
    "aliases": "Other names for what it is about, one per line.",
    "valid_from": "A day, 2026-11-30, or a time.",
    "valid_until": "The last day on which it is valid.",
    "importance": "From 0 to 1.",
    "confidence": "From 0 to 1, or a word: explicit, high, medium, inferred, low.",
}
_TEXT_ROWS = 14


class EditField(NamedTuple):
    """One control of the form."""

    name: str  # of the field
    style: str  # text, list, number or json
    raw: str  # its text

    @property
    def control(self) -> str:
        return f"{self.style}:{self.name}"

    @property
    def shown(self) -> str:
        """Its text in the form."""
        return visible(self.raw)

    def typed(self, text: str) -> str:
        """What the form returned, with the characters that it spelled out as they were."""
        marks = spelled_marks(self.raw)
        if any(spelling in self.raw for spelling in marks):
            raise InvalidRecord(
                f"{self.name}: it has invisible characters and also their spelling, which a form cannot tell apart. Change it in its file.",
                field=self.name,
            )
        for spelling, character in marks.items():
            text = text.replace(spelling, character)
        return text


def edit_fields(kind: Kind, data: Mapping[str, Any]) -> list[EditField]:
    """The fields of a memory that can be edited: those of its type, common ones, and its own that SMP does not know.

    A form does not return every name as it is; a field with such a name is not edited here.
    """
    owner = {"agent"} if kind.is_named_by_agent else set()
    names = [name for name in dict.fromkeys([kind.text, *kind.fields, *_COMMON, *data]) if _is_kept_by_forms(name)]
    return [_edit_field(name, data.get(name)) for name in names if name not in _NOT_EDITED and name not in owner]


def _is_kept_by_forms(name: str) -> bool:
    return visible(name) == name and "\n" not in name


def _edit_field(name: str, value: Any) -> EditField:
    if value is None:
        style = "list" if name in _LISTS else "number" if name in _NUMBERS else "text"
        return EditField(name, style, "")
    if isinstance(value, str):
        return EditField(name, "number" if name in _NUMBERS else "text", value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return EditField(name, "number", str(value))
    if isinstance(value, list) and all(isinstance(each, str) and each.strip() and "\n" not in each for each in value):
        return EditField(name, "list", "\n".join(value))
    return EditField(name, "json", json.dumps(value, ensure_ascii=False, indent=2))


# -- the form


def show(target: Target) -> Form:
    shown = {each.control: each.shown for each in edit_fields(KINDS[target.record.type], target.record.given)}
    typed = {name: value for name, value in target.request.form.items() if ":" in name}
    return _form(target, {**shown, **typed}, target.typed("revision", str(target.record.revision)))


def _form(target: Target, texts: Mapping[str, str], revision: str) -> Form:
    kind = KINDS[target.record.type]
    form = Form(f"Edit {target.id}", target.action("edit"), target.page, "Save")
    if kind.is_turn:
        said = "A turn is what was said: it cannot be changed, only deleted or redacted."
        return form._replace(notes=[said], can_run=False)
    fields = edit_fields(kind, target.record.given)
    main = {kind.text, *kind.parts, *(each.name for each in fields if each.shown), "tags", kind.reason[1]}
    return form._replace(
        fields=[_control(target, kind, each, texts) for each in fields if each.name in main],
        folded=[_control(target, kind, each, texts) for each in fields if each.name not in main],
        hidden={"revision": revision},
        error=target.error,
    )


def _control(target: Target, kind: Kind, each: EditField, texts: Mapping[str, str]) -> FormField:
    text = texts.get(each.control, each.shown)
    is_wrong = target.error is not None and target.error.details.get("field") == each.name
    hints = {"json": "As JSON.", "list": "One in a line."}
    hint = _HINTS.get(each.name) or hints.get(each.style, "")
    common: dict[str, Any] = {"value": text, "hint": hint, "error": target.error, "is_wrong": is_wrong, "dir": "auto"}
    known = SEVERITIES if each.name == "severity" else kind.statuses if each.name == "status" else ()
    if known and each.style == "text" and "\n" not in text:
        unset = f"not set: {kind.default_status}" if each.name == "status" and kind.default_status else "none"
        options = [("", unset), *choices(known, text)]
        return field(each.control, label_of(each.name), "select", options=options, **common | {"dir": None})
    is_line = each.style == "number" or (each.style == "text" and each.name in _ONE_LINE and "\n" not in text)
    if is_line and len(text) < 200:
        return field(each.control, label_of(each.name), **common)
    rows = min(max(3 if each.name == kind.text else 2, text.count("\n") + 1, len(text) // 70), _TEXT_ROWS)
    class_ = "mono" if each.style == "json" or (kind.is_own_object and each.name == "content") else None
    is_first = each.name == kind.text
    return field(each.control, label_of(each.name), "textarea", rows=rows, class_=class_, autofocus=is_first, **common)


# -- reading it


def read_changes(kind: Kind, data: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """The fields whose text is not the one that the form showed for these data; None removes a field."""
    known = {each.name: each for each in edit_fields(kind, data)}
    changes: dict[str, Any] = {}
    for control, value in form.items():
        style, colon, name = control.partition(":")
        if not colon:
            continue
        if style not in _READERS or (name not in known):
            raise InvalidRecord(f"{name}: not a field that can be edited here.", field=name)
        text = value.replace("\r\n", "\n")
        if text != known[name].shown:
            changes[name] = _READERS[style](name, known[name].typed(text)) if text.strip() else None
    return changes


def _read_list(name: str, text: str) -> list[str]:
    lines = text.replace(",", "\n").split("\n") if name == "tags" else text.split("\n")
    return [line.strip() for line in lines if line.strip()]


def _read_number(name: str, text: str) -> Any:
    try:
        return float(text) if "." in text or "e" in text.lower() else int(text)
    except ValueError:
        return text.strip()  # a word such as `high`; the core checks it


def _read_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"{name}: not valid JSON: {error}", field=name) from error


_READERS = {"text": lambda name, text: text, "list": _read_list, "number": _read_number, "json": _read_json}


# -- saving it


def run(target: Target) -> Response:
    kind, expected = KINDS[target.record.type], target.expected_revision()
    opened_with = data_at(target, expected)
    changes = read_changes(kind, opened_with, target.request.form)
    if not changes:
        return done(target.request, target.page, f"Nothing was changed in {target.id}.")
    try:
        after = target.session.update(target.id, expected, by=target.author, **changes)
    except Conflict:
        return conflict_page(target, opened_with, changes)
    changed = [label_of(name).lower() for name in changes]
    before = {name: opened_with.get(name) for name in changes}
    undo = target.undo_update(after, before, f"{target.id} is as it was before the edit, as a new revision.")
    text = with_notices(f"Saved {target.id}, revision {after.revision}: {', '.join(changed)}.", after)
    return done(target.request, target.page, text, undo if after.revision > expected else None)


def data_at(target: Target, revision: int) -> dict[str, Any]:
    """The fields of the memory at a revision; the present ones if that revision is not in its history."""
    data: dict[str, Any] = {}
    if revision < target.record.revision and target.found.history is not None:
        for step in target.found.history.steps():
            if step["revision"] <= revision:
                data.update({name: change["to"] for name, change in step.get("changes", {}).items()})
    return {name: value for name, value in data.items() if value is not None} or dict(target.record.given)


# -- a conflict


def conflict_page(target: Target, opened_with: dict[str, Any], mine: dict[str, Any]) -> Response:
    """Theirs and mine as differences; saving again writes mine over the newest revision, field by field."""
    now = target.session.find(target.id)
    if now is None or now.deleted:
        return done(target.request, target.page, f"Not saved: {target.id} was deleted while you edited it.")
    target = target._replace(record=now)
    theirs = [name for name in {**opened_with, **now.given} if opened_with.get(name) != now.given.get(name)]
    theirs = [name for name in theirs if name != "access"]
    current = {each.control: each.shown for each in edit_fields(KINDS[now.type], now.given)}
    typed = {name: text for name, text in target.request.form.items() if name.partition(":")[2] in mine}
    differences = [
        _difference(f"Theirs: {label_of(name)}", opened_with.get(name), now.given.get(name)) for name in theirs
    ]
    differences += [
        _difference(f"Yours, over theirs: {label_of(name)}", now.given.get(name), mine[name]) for name in mine
    ]
    shown = _form(target, {**current, **typed}, str(now.revision))._replace(
        title=f"{now.id} was changed while you edited it",
        button="Save mine",
        cancel="Drop mine",
        template="conflict.html",
        values={"who_changed": _who_changed(now), "differences": differences},
    )
    return form_response(target.request, shown, status=409)


def _who_changed(now: Record) -> str:
    by = f" by {now.updated_by}" if now.updated_by else ""
    return f"Not saved: it is at revision {now.revision} since {moment_text(now.updated)} UTC{by}."


def _difference(title: str, before: Any, after: Any) -> tuple[str, list[TextPiece]]:
    return title, difference(value_text(before), value_text(after))
