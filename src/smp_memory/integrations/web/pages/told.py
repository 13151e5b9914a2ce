"""The page Told: what hooks told agents, prompt by prompt, with the texts as the store has them now (`smp_memory.integrations.hooks.told`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.integrations.hooks.last_calls import TITLES
from smp_memory.integrations.hooks.told import MOST_SHOWN, counts_of, shown_events
from smp_memory.integrations.web.parts import counted
from smp_memory.integrations.web.renderer import page
from smp_memory.model.session_info import short_names
from smp_memory.model.told_log import LOG, told_events

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest

PAGE_EVENTS = 30


def told_page(request: PageRequest) -> Response:
    ref, session = request.get("memory") or None, request.get("session") or None
    most = int(request.number("most", PAGE_EVENTS, PAGE_EVENTS, 5000))
    events = shown_events(request.memory, limit=most + 1, ref=ref, session=session)
    return page(
        request,
        "told.html",
        "Told",
        "told",
        events=events[:most],
        more=most + PAGE_EVENTS if len(events) > most else 0,
        ref=ref,
        session=session,
        summary=told_summary(request, ref) if ref else None,
        names=short_names(each.event.session for each in events),
        hosts=TITLES,
        most_told=MOST_SHOWN,
        is_logging=request.memory.config["hooks.log_told"],
    )


class ToldSummary(NamedTuple):
    """How often a memory was told, in words, and when last; of one that was not told `last` is None."""

    text: str
    last: datetime | None


def told_summary(request: PageRequest, ref: str) -> ToldSummary | None:
    """None if there is no log, or it is not for this client."""
    state = request.memory.store.state
    events = told_events(state, ref=ref)
    if not events and not state.has(LOG):
        return None
    if not events:
        return ToldSummary("not told to an agent yet", None)
    told, pointed = counts_of(events, ref)
    parts = [
        f"told {counted(told, 'time')}" if told else "",
        f"pointed at {counted(pointed, 'time')}" if pointed else "",
    ]
    return ToldSummary(", ".join(part for part in parts if part), events[0].when)
