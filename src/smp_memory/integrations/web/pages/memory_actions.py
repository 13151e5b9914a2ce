"""Actions on one memory: pin, resolve, relate, delete, restore, redact, erase and edit; their forms with a preview, and running them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics import forecast
from smp_memory.errors import InvalidRecord, MemoryNotFound, SMPError
from smp_memory.git.repository import WorkTree
from smp_memory.integrations.web import lookup
from smp_memory.integrations.web.forms import Form, Target, done, error_page, field, form_response, with_notices
from smp_memory.integrations.web.lookup import similar_to
from smp_memory.integrations.web.pages import memory_edit, memory_removal, redaction
from smp_memory.integrations.web.pages.memory import access_of, elsewhere_page, versions_of
from smp_memory.integrations.web.parts import label_of, line_of, memory_url, shortened
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_microseconds
from smp_memory.model.types import KINDS, RELATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record

_LIKELY = 12  # targets that the form of a relation suggests


# -- pin and mute


class FlagAction(NamedTuple):
    """An action that sets or removes a flag: the method of a session, its opposite, and what the memory is then."""

    method: str
    opposite: str
    field: str
    word: str
    note: str

    def show(self, target: Target) -> Form:
        return target.form(self.method, notes=[self.note])

    def run(self, target: Target) -> Response:
        back = FLAGS[self.opposite]
        session, id, author = target.session, target.id, target.author
        page = "/told" if target.typed("back") == "told" else target.page
        if bool(getattr(target.record, self.field)) is (self.method in _SETTING):
            return done(target.request, page, f"{id} was {self.word} already.")
        after = getattr(session, self.method)(id, by=author)

        def undo() -> str:
            getattr(target.session_again(), self.opposite)(id, by=author)
            return f"{id} is {back.word} again."

        return done(target.request, page, with_notices(f"{id} is {self.word} now.", after), undo)


_SETTING = ("pin", "mute")
FLAGS = {
    each.method: each
    for each in (
        FlagAction(
            "pin", "unpin", "pinned", "pinned", "A pinned memory does not fade, and compaction does not move it."
        ),
        FlagAction("unpin", "pin", "pinned", "not pinned", "It fades again, like other memories."),
        FlagAction(
            "mute",
            "unmute",
            "muted",
            "turned off for recall",
            "Agents are not told it unasked. Searches still find it.",
        ),
        FlagAction("unmute", "mute", "muted", "turned on for recall", "Agents are told it again where it helps."),
    )
}


# -- resolve


def show_resolve(target: Target) -> Form:
    kind, error = KINDS[target.record.type], target.error
    if not kind.statuses:
        said = f"Only memories with a status can be resolved; a {kind.noun} has none."
        return target.form("resolve", quote="", notes=[said], can_run=False)
    words = [word for word in kind.statuses if word in kind.settled]
    chosen = target.typed("status") or ("resolved" if "resolved" in words else words[0])
    typed, label = target.typed("resolution"), "What was done (optional)"
    return target.form(
        "resolve",
        notes=["It stays in the store. Agents see that nothing is left to do.", _what_resolving_does(target, chosen)],
        hidden={"revision": target.typed("revision", str(target.record.revision))},
        fields=[
            field(
                "status", "New status", "select", value=chosen, options=[(each, each) for each in words], error=error
            ),
            field("resolution", label, "textarea", value=typed, rows=3, autofocus=True, error=error),
        ],
    )


def _what_resolving_does(target: Target, status: str) -> str:
    count, last = access_of(target.request, target.found, target.record)
    policy, now = target.request.memory.scope.policy(), target.request.now
    return forecast.resolution_sentence(
        target.record, policy, now, status, count, to_microseconds(last) if last is not None else None
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
    note = "It counts as open again. Its resolution stays in the history."
    return target.form("reopen", notes=[note], hidden={"revision": str(target.record.revision)})


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


# -- settle: one of the versions that concurrent changes of two clones left


def show_settle(target: Target) -> Form:
    said = "Choose on the page of the memory: it shows the versions with their values."
    return target.form("settle", title=f"Versions of {target.id}", quote="", notes=[said], can_run=False)


def run_settle(target: Target) -> Response:
    """Write the fields of the chosen version again: a change that knows of both. Every value stays in the history."""
    chosen = next((each for each in versions_of(target.found) if each.key == target.typed("version")), None)
    if chosen is None:
        text = f"Nothing was changed: {target.id} does not have this version to choose any more."
        return done(target.request, target.page, text)
    before, fields = target.record.given, chosen.fields
    fixed = next((name for name in ("id", "by", "self", "expected_revision") if name in fields), None)
    if fixed:  # an entry that another program wrote
        raise InvalidRecord(
            f"{fixed}: cannot be changed here. See both values: smp history {target.record.ref}", field=fixed
        )
    after = target.session.update(target.id, target.expected_revision(), by=target.author, **fields)
    names = ", ".join(label_of(name).lower() for name in fields)
    text, undo = f"{target.id} is settled: {names}. The history keeps every version.", None
    tree = WorkTree.with_driver(target.request.memory.root) if target.request.memory.store.files is not None else None
    if tree is not None and tree.operation:
        text += f" The {tree.operation} in git is not finished: `smp git resolve` shows what is left to do."
    if not chosen.is_used:
        said = f"{target.id} has the other version again."
        undo = target.undo_update(after, {name: before.get(name) for name in fields}, said)
    return done(target.request, target.page, with_notices(text, after), undo)


# -- relations


def show_relate(target: Target) -> Form:
    kind, other = target.typed("kind", "relates_to"), target.typed("target")
    common: dict[str, Any] = {"error": target.error, "required": True}
    kinds = [(each, label_of(each)) for each in RELATIONS]
    likely = [_option(target, each) for each in _likely_targets(target)]
    hint = "An id of this session, or session/ID."
    return target.form(
        "relate",
        fields=[
            field("kind", f"{target.id} …", value=kind, options=kinds, list="relation-kinds", maxlength=64, **common),
            field(
                "target", "… which memory", value=other, hint=hint, options=likely, list="likely-targets", maxlength=140,
                autofocus=True, **common,
            ),
        ],
    )  # fmt: skip


def _likely_targets(target: Target) -> list[Record]:
    """Similar memories, then the newest of the session."""
    similar = [hit.record for hit in similar_to(target.request.memory, target.record, _LIKELY // 2)]
    newest = target.session.query(sort="newest", limit=_LIKELY, track_access=False).records
    found = {record.ref: record for record in [*similar, *newest] if record.ref != target.record.ref}
    return list(found.values())[:_LIKELY]


def _option(target: Target, record: Record) -> tuple[str, str]:
    name = record.id if record.session == target.record.session else record.ref
    return name, shortened(line_of(record), 70)


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
    form = target.form("unrelate", "Remove", quote="", notes=[f"{target.id} {kind.replace('_', ' ')} {other}"])
    return form._replace(title=f"Remove a relation of {target.id}", hidden={"kind": kind, "target": other})


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


# -- all of them


class MemoryAction(NamedTuple):
    show: Callable[[Target], Form]
    run: Callable[[Target], Response]
    states: tuple[str, ...] = (lookup.LIVE,)  # those in which it can be done


ACTIONS = {
    "edit": MemoryAction(memory_edit.show, memory_edit.run),
    **{name: MemoryAction(flag.show, flag.run) for name, flag in FLAGS.items()},
    "resolve": MemoryAction(show_resolve, run_resolve),
    "reopen": MemoryAction(show_reopen, run_reopen),
    "settle": MemoryAction(show_settle, run_settle),
    "relate": MemoryAction(show_relate, run_relate),
    "unrelate": MemoryAction(show_unrelate, run_unrelate),
    "delete": MemoryAction(memory_removal.show_delete, memory_removal.run_delete),
    "restore": MemoryAction(memory_removal.show_restore, memory_removal.run_restore, (lookup.DELETED, lookup.COLD)),
    "redact": MemoryAction(redaction.show_redact, redaction.run_redact, (lookup.LIVE, lookup.DELETED)),
    "erase": MemoryAction(
        memory_removal.show_erase, memory_removal.run_erase, (lookup.LIVE, lookup.DELETED, lookup.COLD)
    ),
}
_STATE_WORDS = {
    lookup.LIVE: "is there, and not deleted",
    lookup.DELETED: "is deleted",
    lookup.COLD: "was compacted; restore it first",
    lookup.ARCHIVED: "is in an archived session; restore the session first",
}


def form_page(request: PageRequest) -> Response:
    """The form of an action; it changes nothing."""
    return _answer(request, lambda action, target: form_response(request, action.show(target)))


def run(request: PageRequest) -> Response:
    """Do it. What the core refuses is shown in the form, with what was typed."""

    def act(action: MemoryAction, target: Target) -> Response:
        try:
            return action.run(target)
        except SMPError as error:
            return form_response(request, action.show(target._replace(error=error)), error)

    return _answer(request, act)


def _answer(request: PageRequest, act: Callable[[MemoryAction, Target], Response]) -> Response:
    action = ACTIONS.get(request.parts["action"])
    if action is None:
        return error_page(request, "Not found", "There is no such action on a memory.", 404)
    found = lookup.locate(request)
    record = found.record
    if record is None:
        return elsewhere_page(request, found)
    if found.state not in action.states or found.session is None:
        text = f"Nothing was done: {found.id} {_STATE_WORDS.get(found.state, found.state)}."
        return done(request, memory_url(found.ref), text)
    return act(action, Target(request, found, record, found.session))
