"""The page Analytics: what is used, topic trends, what followed from decisions, forecasts, decay rates that use suggests.

The figures are those of `Memory.analytics`; each part is computed when its tab is opened and kept for a minute. In a large store, where a part
takes seconds, it is computed when asked for and kept until it is asked for again; the page says when it was computed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.integrations.web.html import Child, Html, el, url
from smp_memory.integrations.web.layout import heading, page, panel, problems_banner
from smp_memory.integrations.web.pages import analytics_parts
from smp_memory.integrations.web.pages.health_lists import known_figures
from smp_memory.integrations.web.parts import options
from smp_memory.integrations.web.words import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest

PARTS: dict[str, tuple[str, str, Callable[[PageRequest, Any], list[Child]]]] = {
    "usage": (
        "Use",
        "A use is a memory that an agent or a person got: recalled, found or opened. Looking at it here is none.",
        analytics_parts.usage,
    ),
    "topics": (
        "Topics",
        "Topics and tags by week. A topic is called rising or falling only if chance alone would hardly explain it.",
        analytics_parts.topics,
    ),
    "impact": (
        "Decisions",
        "What followed from each decision: memories that refer to it, findings it resolved, decisions that build on it.",
        analytics_parts.impact,
    ),
    "forecast": (
        "Forecast",
        "What will happen if nobody uses or changes anything: what fades, what fills up, what is archived.",
        analytics_parts.forecast,
    ),
    "decay": (
        "Decay rates",
        "How fast use falls with age, by type, next to the setting. A rate is suggested only if the evidence is good.",
        analytics_parts.decay,
    ),
}
KEPT_SECONDS = 60.0
MOST_AT_ONCE = 5000  # memories: in a larger store a part is computed when asked for
MOST_SESSIONS_AT_ONCE = 200
_LENGTHS = (("day", "days"), ("week", "weeks"), ("month", "months"))


class Computed(NamedTuple):
    """One part, and when it was computed."""

    part: Any
    at: float  # time.monotonic
    seconds: float


def analytics_page(request: PageRequest) -> Response:
    name = request.get("part") if request.get("part") in PARTS else "usage"
    by = request.get("by") if request.get("by") in dict(_LENGTHS) else "week"
    title, lead, show = PARTS[name]
    memories, _ = known_figures(request.memory)
    computed = _computed(request, name, by, memories)
    content = _content(request, computed, show) if computed else [_offer(request, memories)]
    return page(
        request,
        f"{title} · Analytics",
        "analytics",
        heading("Analytics", "What the memories of this store are used for, and where that leads."),
        _tabs(name, by),
        el("p", lead, class_="note"),
        el("div", content, class_="charts"),
        _computed_when(request, computed) if computed else None,
    )


def _computed(request: PageRequest, name: str, by: str, memories: int) -> Computed | None:
    """The part from the memo or computed now; None if it takes long and was not asked for."""
    memo, key = request.inspector.memo, f"analytics/{name}/{by}"
    known: Computed | None = memo[key][1] if key in memo else None
    is_small = memories <= MOST_AT_ONCE and len(request.memory.store.sessions()) <= MOST_SESSIONS_AT_ONCE
    is_fresh = known is not None and time.monotonic() - known.at < KEPT_SECONDS
    if request.get("compute") or (is_small and not is_fresh):
        began = time.monotonic()
        part = getattr(request.memory.analytics(by=by), name)
        known = Computed(part, time.monotonic(), time.monotonic() - began)
        memo[key] = (None, known)
    return known


def _content(request: PageRequest, computed: Computed, show: Callable[[PageRequest, Any], list[Child]]) -> list[Child]:
    part = computed.part
    return [
        problems_banner(list(part.problems)),
        *show(request, part),
        [el("p", note, class_="note") for note in part.notes],
    ]


def _tabs(current: str, by: str) -> Html:
    links = [
        el(
            "a",
            title,
            href=url("/analytics", part=name, by=by if by != "week" else None),
            aria_current="page" if name == current else None,
        )
        for name, (title, _, _) in PARTS.items()
    ]
    length = el(
        "form",
        el("input", type="hidden", name="part", value=current),
        el("label", "By", for_="by"),
        el("select", options(_LENGTHS, by), id="by", name="by"),
        el("button", "Show", class_="small"),
        action="/analytics",
    )
    return el(
        "div",
        el("nav", links, aria_label="Parts of the analytics"),
        length if current in ("usage", "topics") else None,
        class_="tabs",
    )


def _offer(request: PageRequest, memories: int) -> Html:
    size = f"{counted(memories, 'memory', 'memories')} in {counted(len(request.memory.store.sessions()), 'session')}"
    return panel(
        "Not computed yet",
        el(
            "p",
            f"This reads the figures of {size}, which may take some seconds. Writers are not held up.",
            class_="note",
        ),
        _button(request),
    )


def _button(request: PageRequest, text: str = "Compute") -> Html:
    given = {name: request.get(name) for name in ("part", "by")}
    return el(
        "div", el("a", text, href=url("/analytics", **given, compute="1"), class_="button small"), class_="actions"
    )


def _computed_when(request: PageRequest, computed: Computed) -> Html:
    age = time.monotonic() - computed.at
    since = "just now" if age < 60 else f"{duration(age)} ago"
    return el(
        "div",
        el("p", f"Computed {since} in {computed.seconds:.1f} s.", class_="hint"),
        _button(request, "Compute again"),
    )
