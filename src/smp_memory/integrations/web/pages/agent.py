"""The first page, Agent view: exactly what an agent is told now, each memory with its reason, and what was left out and why.

The text comes from the functions that hooks and the MCP server call (`smp_memory.context.preview`, `smp_memory.integrations.hooks.preview`);
looking at it counts as no use. The budget and the floor of relevance can be moved; nothing is stored by that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.context.trace import BELOW_FLOOR
from smp_memory.discovery import folder_of_store
from smp_memory.errors import SMPError
from smp_memory.integrations.hooks.preview import preview_hook
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import heading, page, panel, problems_banner
from smp_memory.integrations.web.parts import (
    item,
    options,
    pairs,
    score_bar,
    score_legend,
    score_text,
    stacked_meter,
    tag,
    words_of,
)
from smp_memory.integrations.web.words import ago, counted, shortened, size_text
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.previews import Preview, PreviewItem
    from smp_memory.session import SessionMemory

KINDS_OF_CALL = (
    ("prompt", "a prompt (hook)"),
    ("start", "a session starts (hook)"),
    ("agent", "a subagent starts (hook)"),
    ("context", "the agent asks (MCP, Python)"),
)
_SHARE_TITLES = {
    "matches": "matches the task",
    "weak": "weak matches",
    "written": "matches written down",
    "turns": "last turns",
    "wishes": "preferences",
    "critical": "critical findings",
    "state": "the agent's state",
    "recent": "new here",
    "frame": "marks and headings",
}
_SHOWN_LEFT_OUT = 12
_CONSIDERED = 80  # matches that are looked at, and memories that are listed as left out
_SOON_DAYS = 365  # a session that is full only later is not worth a word
_REASON_KINDS = {"superseded": "warn", "outdated": "warn", "expired": "warn", "hidden": "crit"}
_FENCE = re.compile(r"^</?smp-recalled.*$|^#+ .*$", re.MULTILINE)


class AgentRequest(NamedTuple):
    """What the form asks for."""

    kind: str
    agent: str
    task: str
    session: str
    folder: str
    max_tokens: int
    floor: float


def agent_page(request: PageRequest) -> Response:
    asked = _asked(request)
    shown = _preview(request, asked)
    return page(
        request,
        "Agent view",
        "agent",
        el(
            "div",
            el(
                "div",
                heading("Agent view", "Exactly what an agent is told now, and why."),
                _form(request, asked, shown),
                el("div", _budget(shown), _session(request, asked), id="figures", data_live=True),
                class_="column",
            ),
            el("div", _results(request, asked, shown), class_="column", id="told", data_live=True),
            el("aside", _empty_aside(), id="aside", class_="column", aria_label="Selected memory"),
            class_="grid three",
        ),
        wide=True,
    )


def _asked(request: PageRequest) -> AgentRequest:
    config = request.memory.config
    kind = request.get("kind") or ("context" if request.get("agent") else "prompt")
    kind = kind if kind in dict(KINDS_OF_CALL) else "prompt"
    budget = (
        1500
        if kind == "context"
        else config["hooks.start_tokens"]
        if kind == "start"
        else config["hooks.prompt_tokens"]
    )
    tokens = int(request.number("tokens", budget, 0, 8000))
    floor = request.number("floor", config["recall.min_relevance"], 0.0, 1.0)
    return AgentRequest(
        kind, request.get("agent"), request.get("task"), request.get("session"), request.get("folder"), tokens, floor
    )


def _preview(request: PageRequest, asked: AgentRequest) -> Preview:
    session = asked.session if request.memory.store.sessions(id=asked.session) else None
    if asked.kind == "context":
        return request.memory.preview(
            asked.agent or None,
            asked.task or None,
            session=session,
            max_tokens=asked.max_tokens,
            min_relevance=asked.floor,
            limit=_CONSIDERED,
        )
    return preview_hook(
        request.memory,
        asked.kind,
        prompt=asked.task,
        agent=asked.agent or None,
        task=asked.task or None,
        session=session,
        min_relevance=asked.floor,
        max_tokens=asked.max_tokens,
        cwd=asked.folder or None,
        limit=_CONSIDERED,
    )


# -- the form


def _form(request: PageRequest, asked: AgentRequest, shown: Preview) -> Html:
    names = request.inspector.store_names()
    is_start = asked.kind == "start"
    return el(
        "form",
        el("label", "When", for_="kind"),
        el("select", options(KINDS_OF_CALL, asked.kind), id="kind", name="kind"),
        el("label", "Prompt" if asked.kind == "prompt" else "Task", for_="task"),
        el(
            "textarea",
            asked.task,
            id="task",
            name="task",
            rows=3,
            maxlength=8000,
            disabled=is_start,
            placeholder="Nothing is asked at the start of a session." if is_start else "make the sign-in safer",
        ),
        el("label", "Agent", for_="agent"),
        el(
            "input",
            id="agent",
            name="agent",
            value=asked.agent,
            list="agents",
            placeholder="any agent: sees what is shared",
            autocomplete="off",
        ),
        el("datalist", options(names.agents, ""), id="agents"),
        el("label", "In session", for_="session"),
        el(
            "input",
            id="session",
            name="session",
            value=asked.session,
            list="sessions",
            placeholder="a new session",
            autocomplete="off",
        ),
        el("datalist", options(names.sessions, ""), id="sessions"),
        _folder(request, asked),
        _slider("tokens", "Budget", asked.max_tokens, 0, 4000, 50, f"{asked.max_tokens:,} tokens"),
        _slider("floor", "Relevance floor", asked.floor, 0, 1, 0.01, f"{asked.floor:.2f}"),
        el(
            "p",
            join(
                "Set in this store: ",
                el("code", f"recall.min_relevance = {request.memory.config['recall.min_relevance']}"),
                ". Moving the slider changes only this page.",
            ),
            class_="hint",
        ),
        el("noscript", el("button", "Show", class_="primary")),
        action="/",
        class_="panel",
        data_instant="told figures",
        id="question",
    )


def _folder(request: PageRequest, asked: AgentRequest) -> Html | None:
    """The folder in which the host works: it tells the project, unless the store belongs to one."""
    if asked.kind == "context" or folder_of_store(request.memory.root):
        return None
    field = el(
        "input", id="folder", name="folder", value=asked.folder, placeholder=request.memory.root, autocomplete="off"
    )
    return join(el("label", "Working folder of the agent", for_="folder"), field)


def _slider(name: str, label: str, value: float, low: float, high: float, step: float, text: str) -> Html:
    given = f"{value:.2f}" if step < 1 else f"{value:.0f}"
    return join(
        el("label", label, for_=name),
        el(
            "div",
            el(
                "input",
                type="range",
                id=name,
                name=name,
                min=low,
                max=high,
                step=step,
                value=given,
                data_unit=" tokens" if step >= 1 else "",
            ),
            el("output", text, for_=name),
            class_="range",
        ),
    )


def _budget(shown: Preview) -> Html:
    known = list(_SHARE_TITLES)
    shares = sorted(shown.shares.items(), key=lambda each: known.index(each[0]) if each[0] in known else 99)
    legend = [
        (f"share-{name}", _SHARE_TITLES.get(name, _section_title(name)), value) for name, value in shares if value
    ]
    title = f"Budget: {shown.tokens:,} of {shown.max_tokens:,} tokens"
    return panel(title, stacked_meter(legend, max(shown.max_tokens, 1), title))


def _section_title(name: str) -> str:
    return KINDS[name].plural if name in KINDS else name


def _session(request: PageRequest, asked: AgentRequest) -> Html | None:
    if not asked.session:
        return None
    try:
        session = request.memory.opened_session(asked.session)
        return _state(request, session)
    except SMPError as error:
        is_there = bool(request.memory.store.sessions(id=asked.session))
        instead = None if is_there else el("p", "Shown here is what an agent in a new session is told.", class_="note")
        return panel(f"Session {shortened(asked.session, 64)}", el("p", error.message, class_="note"), instead)


def _state(request: PageRequest, session: SessionMemory) -> Html:
    state, size = session.session_state, session.size_report()
    follows = f"{state.next.state} {ago(state.next.when, request.now)}" if state.next.when else ""
    days = size.predicted_days_to_quota
    full = f", full in about {counted(round(days), 'day')}" if days is not None and days < _SOON_DAYS else ""
    rows = [
        ("State", f"{state.state}, {follows}" if follows else state.state),
        ("Size", f"{size_text(size.total_bytes)} of {size_text(size.quota_bytes)}{full}"),
        ("Writers", ", ".join(session.info.agents)),
    ]
    link = el("a", session.id, href=url("/session/{}", session.id))
    return panel(join("Session ", link), pairs(rows))


# -- the answer


def _results(request: PageRequest, asked: AgentRequest, shown: Preview) -> list[Child]:
    words = words_of(asked.task) if asked.task else frozenset()
    return [
        problems_banner(list(shown.problems), shown.archived_not_searched),
        [el("p", each, class_="note") for each in (*shown.notes, *shown.warnings)],
        _included(request, shown, words),
        _text(shown),
        _left_out(request, shown, words),
    ]


def _included(request: PageRequest, shown: Preview, words: frozenset[str]) -> Html:
    if not shown.included:
        return panel("The agent is told nothing", el("p", _nothing(shown), class_="empty"))
    rows = [_told(request, each, words) for each in shown.included]
    return panel(f"Told: {counted(len(rows), 'memory', 'memories')}", rows, _guide())


def _guide() -> Html:
    return el(
        "div",
        "The number is the probability that the memory answers the task (relevance). The bar shows what its place in the order comes from.",
        score_legend(),
        class_="guide",
    )


def _nothing(shown: Preview) -> str:
    if shown.nothing_because:
        return shown.nothing_because[:1].upper() + shown.nothing_because[1:].rstrip(".") + "."
    if shown.left_out:
        return f"No memory reaches the floor of {shown.min_relevance:.2f}. What came close is below."
    return "No memory has anything to do with it."


def _told(request: PageRequest, each: PreviewItem, words: frozenset[str]) -> Html:
    side = join(el("span", each.why), score_bar(each.explain) if each.explain else None)
    return item(each.record, request.now, score=score_text(each.relevance), side=side, words=words)


def _left_out(request: PageRequest, shown: Preview, words: frozenset[str]) -> Html | None:
    if not shown.left_out:
        return None
    near = sorted(shown.left_out, key=lambda each: -(each.relevance or 0.0))
    rows = [_omitted(request, each, words, shown.min_relevance) for each in near]
    count = max(shown.left_out_count, len(rows))
    more = rows[_SHOWN_LEFT_OUT:]
    missing = count - len(rows)
    rest = f" and {missing:,} that are not listed" if missing else ""
    folded = el("details", el("summary", f"{len(more):,} more{rest}"), more) if more else None
    return panel(f"Left out: {counted(count, 'candidate')}", rows[:_SHOWN_LEFT_OUT], folded, class_="out")


def _omitted(request: PageRequest, each: PreviewItem, words: frozenset[str], floor: float) -> Html:
    if each.reason == BELOW_FLOOR:
        side = join(tag(f"below {floor:.2f}"), score_bar(each.explain) if each.explain else None)
    else:
        side = join(tag(each.reason, _REASON_KINDS.get(each.reason, "")), el("small", each.detail))
    return item(each.record, request.now, score=score_text(each.relevance), side=side, words=words)


def _text(shown: Preview) -> Html | None:
    if not shown.text:
        return None
    pieces: list[Child] = []
    at = 0
    for found in _FENCE.finditer(shown.text):
        kind = "fence" if found[0].startswith("<") else "h"
        pieces += [shown.text[at : found.start()], el("span", found[0], class_=kind)]
        at = found.end()
    pieces.append(shown.text[at:])
    return panel(
        join(
            "As the agent reads it ",
            el("small", f"{shown.tokens:,} tokens, {len(shown.text):,} characters", class_="side"),
        ),
        el("pre", *pieces, dir="auto", tabindex=0, aria_label="The text that the agent gets"),
    )


def _empty_aside() -> Html:
    return el(
        "div",
        el("p", "Choose a memory to see it here: its history, how it fades, what it is connected with."),
        class_="panel empty",
    )
