"""Actions on one memory: which there are, in which states of a memory they can be done, their forms, and running them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.integrations.web import lookup
from smp_memory.integrations.web.actions import edit, marks, removal
from smp_memory.integrations.web.actions.frame import done, form_response
from smp_memory.integrations.web.actions.target import Target
from smp_memory.integrations.web.failures import error_page
from smp_memory.integrations.web.pages.memory_elsewhere import elsewhere_page
from smp_memory.integrations.web.parts import memory_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from smp_memory.integrations.web.actions.frame import Form
    from smp_memory.integrations.web.request import PageRequest


class MemoryAction(NamedTuple):
    show: Callable[[Target], Form]
    run: Callable[[Target], Response]
    states: tuple[str, ...] = (lookup.LIVE,)  # those in which it can be done


ACTIONS = {
    "edit": MemoryAction(edit.show, edit.run),
    "pin": MemoryAction(marks.show_pin, marks.run_pin),
    "unpin": MemoryAction(marks.show_unpin, marks.run_unpin),
    "resolve": MemoryAction(marks.show_resolve, marks.run_resolve),
    "reopen": MemoryAction(marks.show_reopen, marks.run_reopen),
    "relate": MemoryAction(marks.show_relate, marks.run_relate),
    "unrelate": MemoryAction(marks.show_unrelate, marks.run_unrelate),
    "delete": MemoryAction(removal.show_delete, removal.run_delete),
    "restore": MemoryAction(removal.show_restore, removal.run_restore, (lookup.DELETED, lookup.COLD)),
    "redact": MemoryAction(removal.show_redact, removal.run_redact, (lookup.LIVE, lookup.DELETED)),
    "erase": MemoryAction(removal.show_erase, removal.run_erase, (lookup.LIVE, lookup.DELETED, lookup.COLD)),
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
