"""The page Sessions: live sessions with state, figures and next step; archived and deleted ones with a way back.

The list is filtered and sorted by what the index knows of all sessions; only the sessions of the page are looked at more closely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import SessionArchived, SessionNotFound, SMPError
from smp_memory.index.query import RowConditions
from smp_memory.integrations.web.html import Child, Html, el, url
from smp_memory.integrations.web.layout import heading, page, panel, problems_banner
from smp_memory.integrations.web.pages.away import archived_item, deleted_item
from smp_memory.integrations.web.parts import options, pager, quota_meter, same_page, tag, when
from smp_memory.integrations.web.timeline import is_open_row
from smp_memory.integrations.web.words import counted, next_step_text
from smp_memory.lifecycle.session_states import SessionState, SessionUsage, lifecycle_times, session_states, usage
from smp_memory.lifecycle.transitions import StateMarks, next_transition, state_of
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import IndexSearcher

PAGE_SESSIONS = 40
STATES = ("created", "active", "idle", "decaying")
STATE_KINDS = {"active": "on", "created": "on", "decaying": "warn"}
MOST_FINDINGS = 2000  # of a session: in so many of the newest the open ones are counted
_SORTS = (
    ("used", "last used first"),
    ("unused", "longest unused first"),
    ("name", "by name"),
    ("memories", "most memories first"),
    ("next", "next change first"),
)
_MOST_WRITERS = 3


class Listed(NamedTuple):
    """What the list knows of every session before it looks at those of the page."""

    name: str
    user: str
    project: str
    last_used: datetime | None
    created: datetime | None
    memories: int
    has_settings: bool  # of its own, which may be about its lifecycle

    @property
    def since(self) -> float:
        moment = self.last_used or self.created
        return moment.timestamp() if moment else 0.0


class Figures(NamedTuple):
    """What the index knows of the memories of one session."""

    types: Mapping[str, int]
    authors: Mapping[str, int]
    open_findings: int
    is_open_cut: bool  # there are more findings than were looked at


def sessions_page(request: PageRequest) -> Response:
    every = _listed(request)
    shown, states = _chosen(request, every)
    offset = int(request.number("offset", 0, 0, max(len(shown) - 1, 0)))
    return page(
        request,
        "Sessions",
        "sessions",
        heading(
            "Sessions",
            "A session holds the memories of one piece of work. One that is not used becomes idle, fades, and is archived; nothing is lost by that.",
        ),
        _form(request, every),
        _live(request, every, shown, states, offset),
        _archived(request),
        _deleted(request),
        wide=True,
    )


# -- which sessions


def _listed(request: PageRequest) -> list[Listed]:
    store = request.memory.store
    heads = {each.session: each for each in store.sessions()}
    used: dict[str, SessionUsage] = usage(store)
    counts: dict[str, tuple[int, int, int]] = store.indexer.answer(None, lambda searcher: searcher.session_usage())
    saved = store.indexer.saved_metadata()
    found = []
    for name, each in used.items():
        known = saved.get(name)
        is_valid = known is not None and name in heads and known[0] == heads[name].version
        info = known[1] if known is not None and is_valid else _info(request, name)
        user, project = (str(info.user or ""), str(info.project or "")) if info else ("", "")
        memories = counts.get(name, (0, 0, 0))[0]
        has_settings = info is None or bool(info.config)
        found.append(Listed(name, user, project, each.last_used, each.created, memories, has_settings))
    return found


def _info(request: PageRequest, name: str) -> SessionInfo | None:
    try:
        return request.memory.store.session(name).info()
    except SMPError:
        return None


def _chosen(request: PageRequest, every: list[Listed]) -> tuple[list[Listed], dict[str, SessionState]]:
    """The sessions that meet the filters, in the order asked for; and their states if these had to be found out for that."""
    text, project, state = request.get("q").casefold(), request.get("project"), request.get("state")
    shown = [
        each
        for each in every
        if (not project or each.project == project)
        and (not text or text in f"{each.name} {each.user} {each.project}".casefold())
    ]
    sort = request.get("sort") or "used"
    states: dict[str, SessionState] = {}
    if state or sort == "next":
        states = _all_states(request, shown)
        shown = [each for each in shown if each.name in states and state in ("", states[each.name].state)]
    if sort == "name":
        shown.sort(key=lambda each: each.name)
    elif sort == "memories":
        shown.sort(key=lambda each: (-each.memories, each.name))
    elif sort == "next":
        shown.sort(key=lambda each: (_moment(states[each.name]), each.name))
    else:
        shown.sort(key=lambda each: (each.since if sort == "unused" else -each.since, each.name))
    return shown, states


def _all_states(request: PageRequest, sessions: list[Listed]) -> dict[str, SessionState]:
    """The states of many sessions. Those without settings of their own follow from the last use; the others are looked at."""
    times, now = lifecycle_times(request.memory.store), request.now
    states = _states(request, [each.name for each in sessions if each.has_settings])
    for each in sessions:
        if not each.has_settings:
            marks = StateMarks(created=each.created)
            state = state_of(each.last_used, now, marks, times)
            step = next_transition(each.last_used, now, marks, times)
            states[each.name] = SessionState(each.name, state, each.last_used, step)
    return states


def _moment(state: SessionState) -> float:
    return state.next.when.timestamp() if state.next.when else float("inf")


# -- the list


def _form(request: PageRequest, every: list[Listed]) -> Html:
    projects = sorted({each.project for each in every if each.project})
    return el(
        "form",
        el(
            "div",
            el("label", "Name, person or project", for_="q"),
            el("input", id="q", type="search", name="q", value=request.get("q"), autocomplete="off", maxlength=200),
        ),
        el(
            "div",
            el("label", "State", for_="state"),
            el("select", options([("", "any"), *STATES], request.get("state")), id="state", name="state"),
        ),
        el(
            "div",
            el("label", "Project", for_="project"),
            el(
                "select",
                options([("", "any"), *projects[:500]], request.get("project")),
                id="project",
                name="project",
            ),
        ),
        el(
            "div",
            el("label", "Order", for_="sort"),
            el("select", options(_SORTS, request.get("sort")), id="sort", name="sort"),
        ),
        el("noscript", el("button", "Show", class_="primary")),
        action="/sessions",
        class_="panel filters",
        data_instant="sessions",
    )


def _live(
    request: PageRequest, every: list[Listed], shown: list[Listed], states: dict[str, SessionState], offset: int
) -> Html:
    part = shown[offset : offset + PAGE_SESSIONS]
    figures, problems = _figures(request, [each.name for each in part])
    missing = [each.name for each in part if each.name not in states and each.name in figures]
    states = states | _states(request, missing)
    known = [each for each in part if each.name in figures and each.name in states]
    rows = [_row(request, each, states[each.name], figures[each.name]) for each in known]
    total = counted(len(every), "session")
    if len(shown) != len(every):
        total = f"{len(shown):,} of {total}"
    link = el("a", "Timeline of all sessions", href="/timeline", class_="side")
    return el(
        "section",
        el("h2", total, link if every else None),
        problems_banner(list(problems)),
        _table(rows) if rows else _empty(every),
        _pager(request, len(shown), offset),
        id="sessions",
        class_="panel",
        data_live=True,
    )


def _states(request: PageRequest, names: list[str]) -> dict[str, SessionState]:
    try:
        found = session_states(request.memory.store, request.now, names)
    except (SessionNotFound, SessionArchived):  # one of them was archived or deleted just now
        found = request.memory.session_states()
    return {each.session: each for each in found}


def _empty(every: list[Listed]) -> Html:
    if every:
        return el("p", "No session meets these filters. ", el("a", "Show all", href="/sessions"), class_="empty")
    return el(
        "p",
        "No session yet. A session begins when an agent or a hook writes the first memory, or with ",
        el("code", "smp session new"),
        ".",
        class_="empty",
    )


def _table(rows: list[Html]) -> Html:
    titles = ("Session", "State", "Memories", "Size", "Last use", "What happens next")
    head = el("thead", el("tr", [el("th", title, scope="col") for title in titles]))
    return el(
        "div",
        el("table", head, el("tbody", rows), class_="sessions"),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="Sessions",
    )


def _pager(request: PageRequest, total: int, offset: int) -> Html | None:
    back = same_page(request, offset=max(offset - PAGE_SESSIONS, 0) or None) if offset else None
    on = same_page(request, offset=offset + PAGE_SESSIONS) if offset + PAGE_SESSIONS < total else None
    return pager(back, on, "Pages of sessions")


def _figures(request: PageRequest, names: list[str]) -> tuple[dict[str, Figures], list[Problem]]:
    def read(searcher: IndexSearcher) -> tuple[dict[str, Figures], list[Problem]]:
        return {name: _figures_of(searcher, name) for name in names}, searcher.problems(None)

    found: tuple[dict[str, Figures], list[Problem]] = request.memory.store.indexer.answer(None, read)
    store = request.memory.store
    return {name: each for name, each in found[0].items() if store.sessions(id=name)}, found[1]


def _figures_of(searcher: IndexSearcher, name: str) -> Figures:
    conditions = RowConditions()
    conditions.sessions = searcher.session_numbers([name])
    counts = searcher.counts(["type", "agent"], conditions)
    types, authors = counts["type"], counts["agent"]
    kinds = [kind for kind_name, kind in KINDS.items() if kind.is_open_until_closed and types.get(kind_name)]
    conditions.types = [kind.number for kind in kinds]
    rows = searcher.select(conditions, "newest", MOST_FINDINGS + 1) if kinds else []
    opened = sum(map(is_open_row, rows[:MOST_FINDINGS]))
    return Figures(types, authors, opened, len(rows) > MOST_FINDINGS)


def _row(request: PageRequest, each: Listed, state: SessionState, figures: Figures) -> Html:
    address = url("/session/{}", each.name)
    return el(
        "tr",
        el(
            "th",
            el("a", each.name, href=address, class_="name"),
            el("div", _who(each, figures), class_="meta"),
            scope="row",
        ),
        el("td", tag(state.state, STATE_KINDS.get(state.state, ""))),
        el("td", counts_text(figures.types) or "none yet", _open(each.name, figures)),
        el("td", _size(request, each.name)),
        el("td", when(state.last_used, request.now) if state.last_used else "never"),
        el("td", next_step_text(state.next, request.now), title=state.next.why),
    )


def _who(each: Listed, figures: Figures) -> str:
    writers = [name for name in figures.authors if name and name != each.user]
    more = len(writers) - _MOST_WRITERS
    people = [name for name in (each.user, *writers[:_MOST_WRITERS]) if name]
    shown = ", ".join(people) + (f" and {more:,} more" if more > 0 else "")
    return " · ".join(text for text in (each.project, shown) if text)


def counts_text(types: Mapping[str, int]) -> str:
    """`12 turns, 3 decisions`, in the order of the table of types."""
    named = sorted((KINDS[name].place, name, count) for name, count in types.items() if name in KINDS)
    return ", ".join(counted(count, KINDS[name].noun, KINDS[name].plural.replace("_", " ")) for _, name, count in named)


def _open(name: str, figures: Figures) -> Html | None:
    if not figures.open_findings:
        return None
    least = "at least " if figures.is_open_cut else ""
    text = f"{least}{counted(figures.open_findings, 'open finding')}"
    return el("div", el("a", text, href=url("/session/{}", name, open="1"), class_="tag warn"))


def _size(request: PageRequest, name: str) -> Child:
    try:
        files = request.memory.store.session(name)
        return quota_meter(sum(files.sizes().values()), files.config.quota_bytes)
    except SMPError as error:
        return el("span", "unknown", title=error.message)


# -- archived and deleted sessions


def _archived(request: PageRequest) -> Html:
    found = request.memory.archived_sessions()
    found.sort(key=lambda each: each.when.timestamp() if each.when else 0.0, reverse=True)
    offset = int(request.number("archived", 0, 0, max(len(found) - 1, 0)))
    part = found[offset : offset + PAGE_SESSIONS]
    about = "Packed away with a summary. Agents do not recall from them; opening one with a command or an agent restores it, looking here does not."
    back = same_page(request, archived=max(offset - PAGE_SESSIONS, 0) or None) if offset else None
    on = same_page(request, archived=offset + PAGE_SESSIONS) if offset + PAGE_SESSIONS < len(found) else None
    return panel(
        f"Archived: {counted(len(found), 'session')}" if found else "Archived",
        el("p", about, class_="note"),
        [archived_item(request, each) for each in part] or el("p", "No session is archived.", class_="empty"),
        pager(back, on, "Pages of archived sessions"),
        id="archived",
        data_live=True,
    )


def _deleted(request: PageRequest) -> Html | None:
    found = request.memory.deleted_sessions()
    if not found:
        return None
    text = f"{counted(len(found), 'deleted session')} in the trash"
    link = el("p", el("a", text, href="/trash#sessions"), " can still be restored.", class_="note")
    return panel("Deleted", link, [deleted_item(request, each) for each in found[-10:][::-1]], id="deleted")
