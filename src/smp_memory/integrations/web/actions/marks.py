"""Pin, unpin, resolve, reopen, relate, and remove a relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, MemoryNotFound
from smp_memory.integrations.web import lookup
from smp_memory.integrations.web.actions.frame import Form, done, field, hidden, with_notices
from smp_memory.integrations.web.html import Html, el, join
from smp_memory.integrations.web.pages.memory_fields import label_of
from smp_memory.integrations.web.pages.memory_relations import similar_to
from smp_memory.integrations.web.parts import options
from smp_memory.integrations.web.words import line_of, shortened
from smp_memory.model.statuses import is_settled
from smp_memory.model.types import KINDS, RELATIONS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.actions.target import Target
    from smp_memory.model.record import Record

_LIKELY = 12  # targets that the form of a relation suggests
_LINE_CHARACTERS = 70


def _said(record: Record) -> Html:
    return el("blockquote", shortened(line_of(record), 200), dir="auto")


# -- pin


def show_pin(target: Target) -> Form:
    intro = join(
        _said(target.record), el("p", "A pinned memory does not fade, and compaction leaves it.", class_="note")
    )
    return Form(f"Pin {target.id}", target.action("pin"), target.page, None, "Pin", intro)


def show_unpin(target: Target) -> Form:
    intro = join(_said(target.record), el("p", "It fades again as other memories do.", class_="note"))
    return Form(f"Unpin {target.id}", target.action("unpin"), target.page, None, "Unpin", intro)


def run_pin(target: Target) -> Response:
    return _set_pinned(target, True)


def run_unpin(target: Target) -> Response:
    return _set_pinned(target, False)


def _set_pinned(target: Target, pinned: bool) -> Response:
    word = "pinned" if pinned else "not pinned"
    if bool(target.record.pinned) is pinned:
        return done(target.request, target.page, f"{target.id} was {word} already.")
    session, id, author = target.session, target.id, target.author
    after = session.pin(id, by=author) if pinned else session.unpin(id, by=author)

    def undo() -> str:
        now = target.session_again()
        (now.unpin if pinned else now.pin)(id, by=author)
        return f"{id} is {'not pinned' if pinned else 'pinned'} again."

    return done(target.request, target.page, with_notices(f"{id} is {word} now.", after), undo)


# -- resolve


def show_resolve(target: Target) -> Form:
    kind = KINDS[target.record.type]
    if not kind.statuses:
        said = el("p", f"Only memories with a status can be resolved; a {kind.noun} has none.", class_="note")
        return Form(f"Resolve {target.id}", target.action("resolve"), target.page, None, "Resolve", said, can_run=False)
    words = [word for word in kind.statuses if word in kind.settled]
    chosen = target.typed("status") or ("resolved" if "resolved" in words else words[0])
    fields = join(
        hidden("revision", target.typed("revision", str(target.record.revision))),
        field("status", "New status", "select", children=options(words, chosen), error=target.error),
        field(
            "resolution",
            "What was done (optional)",
            "textarea",
            value=target.typed("resolution"),
            rows=3,
            autofocus=True,
            error=target.error,
        ),
    )
    note = el("p", "It stays in the store. Agents see that nothing is left to do, and it fades faster.", class_="note")
    return Form(
        f"Resolve {target.id}",
        target.action("resolve"),
        target.page,
        fields,
        "Resolve",
        join(_said(target.record), note),
    )


def run_resolve(target: Target) -> Response:
    kind, before = KINDS[target.record.type], target.record
    if kind.statuses and is_settled(before):
        return done(target.request, target.page, f"{target.id} was settled already.")
    status = target.given("status") or "resolved"
    if kind.statuses and status not in kind.settled:
        raise InvalidRecord(f"status: {status!r} does not settle a {kind.noun}.", field="status")
    revision = target.expected_revision()
    after = target.session.resolve(
        target.id, target.given("resolution"), by=target.author, status=status, expected_revision=revision
    )
    return _status_changed(
        target, before, after, f"{target.id} is {status} now.", f"{target.id} has its former status again."
    )


def show_reopen(target: Target) -> Form:
    note = el("p", "It counts as open again. Its resolution stays in the history.", class_="note")
    intro = join(_said(target.record), note)
    revision = hidden("revision", target.record.revision)
    return Form(f"Reopen {target.id}", target.action("reopen"), target.page, revision, "Reopen", intro)


def run_reopen(target: Target) -> Response:
    kind, before = KINDS[target.record.type], target.record
    if not kind.statuses or not is_settled(before):
        return done(target.request, target.page, f"{target.id} was open already.")
    status = "reopened" if "reopened" in kind.statuses else kind.default_status
    changes: dict[str, Any] = {"status": status, "resolution": None}
    after = target.session.update(target.id, target.expected_revision(), by=target.author, **changes)
    return _status_changed(target, before, after, f"{target.id} is {status} now.", f"{target.id} is settled again.")


def _status_changed(target: Target, before: Record, after: Record, text: str, undone: str) -> Response:
    former: dict[str, object] = {name: before.given.get(name) for name in ("status", "resolution")}
    return done(target.request, target.page, with_notices(text, after), target.undo_update(after, former, undone))


# -- relations


def show_relate(target: Target) -> Form:
    listed = el("datalist", [_option(target, each) for each in _likely_targets(target)], id="likely-targets")
    fields = join(
        field(
            "kind",
            f"{target.id} …",
            value=target.typed("kind", "relates_to"),
            list="relation-kinds",
            error=target.error,
            required=True,
            maxlength=64,
        ),
        el("datalist", [el("option", label_of(each), value=each) for each in RELATIONS], id="relation-kinds"),
        field(
            "target",
            "… which memory",
            value=target.typed("target"),
            list="likely-targets",
            hint="An id of this session, or session/ID.",
            error=target.error,
            required=True,
            autofocus=True,
            maxlength=140,
        ),
        listed,
    )
    return Form(f"Relate {target.id}", target.action("relate"), target.page, fields, "Relate", _said(target.record))


def _likely_targets(target: Target) -> list[Record]:
    """Similar memories, then the newest of the session."""
    similar = [hit.record for hit in similar_to(target.request.memory, target.record, _LIKELY // 2)]
    newest = target.session.query(sort="newest", limit=_LIKELY, track_access=False).records
    found = {record.ref: record for record in [*similar, *newest] if record.ref != target.record.ref}
    return list(found.values())[:_LIKELY]


def _option(target: Target, record: Record) -> Html:
    name = record.id if record.session == target.record.session else record.ref
    return el("option", shortened(line_of(record), _LINE_CHARACTERS), value=name)


def run_relate(target: Target) -> Response:
    kind, other = target.given("kind") or "", target.given("target") or ""
    other = other.removeprefix(f"{target.record.session}/")
    _check_exists(target, other)
    after = target.session.relate(target.id, other, kind, by=target.author)
    if after.revision == target.record.revision:
        return done(target.request, target.page, f"{target.id} has this relation already.")

    def undo() -> str:
        target.session_again().unrelate(target.id, other, kind, by=target.author)
        return "The relation is removed again."

    text = with_notices(f"{target.id} {kind.replace('_', ' ')} {other} now.", after)
    return done(target.request, target.page, text, undo)


def _check_exists(target: Target, other: str) -> None:
    """Raise if the target is in another session and is not there; the core checks those of the same session."""
    session, slash, id = other.partition("/")
    if slash and lookup.find(target.request.memory, session, id).state == lookup.MISSING:
        raise MemoryNotFound(f"target: there is no memory {other} in this store.", field="target")


def show_unrelate(target: Target) -> Form:
    kind, other = target.typed("kind"), target.typed("target")
    fields = join(hidden("kind", kind), hidden("target", other))
    note = el("p", f"{target.id} {kind.replace('_', ' ')} {other}", class_="note")
    return Form(f"Remove a relation of {target.id}", target.action("unrelate"), target.page, fields, "Remove", note)


def run_unrelate(target: Target) -> Response:
    kind, other = target.given("kind") or "relates_to", target.given("target") or ""
    other = other.removeprefix(f"{target.record.session}/")
    after = target.session.unrelate(target.id, other, kind, by=target.author)
    if after.revision == target.record.revision:
        return done(target.request, target.page, "There was no such relation; nothing was changed.")

    def relate_again() -> str:
        target.session_again().relate(target.id, other, kind, by=target.author)
        return "The relation is back."

    undo = target.undo_update(after, {"relations": target.record.relations}, "The relation is back.")
    if KINDS[after.type].is_turn:  # the fields of a turn cannot be set
        undo = relate_again
    return done(target.request, target.page, with_notices(f"Removed: {kind} {other}.", after), undo)
