"""The page Sessions: live sessions with state, figures and next step; archived and deleted ones with a way back.

The list is filtered and sorted by what the index knows of all sessions; only the sessions of the page are looked at more closely.
The summary of an archived session may have been edited by hand or by another program: whatever is not as expected is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SessionArchived, SessionNotFound, SMPError
from smp_memory.integrations.web.parts import (
    counted,
    date_text,
    memories,
    next_step_text,
    plain,
    quota_of,
    shortened,
    size_text,
)
from smp_memory.integrations.web.renderer import page
from smp_memory.integrations.web.timeline import is_open_finding
from smp_memory.lifecycle.session_states import (
    SessionState,
    SessionUsage,
    lifecycle_times,
    moment_of,
    session_states,
    usage,
)
from smp_memory.lifecycle.session_titles import SessionNames
from smp_memory.lifecycle.transitions import StateMarks, next_transition, state_of
from smp_memory.model.candidates import PROBLEMS, CandidateRequest
from smp_memory.model.session_info import short_names
from smp_memory.model.times import to_moment
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionHead
    from smp_memory.search.port import SearchIndex

PAGE_SESSIONS = 40
STATES = ("created", "active", "idle", "decaying")
STATE_KINDS = {"active": "on", "created": "on", "decaying": "warn"}
MOST_FINDINGS = 2000  # of a session: in so many of the newest the open ones are counted
_SORTS = (
    ("written", "last written first"),
    ("unused", "longest unused first"),
    ("name", "by title"),
    ("memories", "most memories first"),
    ("next", "next change first"),
)
_SMALL = 0.01  # of the quota
_MOST_WRITERS = 3
_MOST_PROJECTS = 500
_MOST_DELETED = 10  # the others are in the trash


class Listed(NamedTuple):
    """What the list knows of every session before it looks at those of the page."""

    name: str
    title: str
    user: str
    project: str
    last_used: datetime | None
    created: datetime | None
    written: datetime | None  # searches are no writes
    memories: int
    has_settings: bool  # of its own, which may be about its lifecycle

    @property
    def since(self) -> float:
        return _seconds(self.last_used or self.created)


class SessionRow(NamedTuple):
    """One session of the list."""

    name: str
    title: str
    short: str  # its id, as far as it is needed to tell it from others
    who: str
    state: SessionState
    next: str
    written: datetime | None
    counts: str
    open_findings: str
    size: tuple[int, int] | None  # used and allowed bytes; None: its settings cannot be read
    size_error: str


class Figures(NamedTuple):
    """What the index knows of the memories of one session."""

    types: Mapping[str, int]
    authors: Mapping[str, int]
    open_findings: int
    is_open_cut: bool  # there are more findings than were looked at


def sessions_page(request: PageRequest) -> Response:
    every = _listed(request)
    shown, states = _chosen(request, every)
    offset = request.page_number("offset", len(shown))
    rows, problems = _rows(request, every, shown[offset : offset + PAGE_SESSIONS], states)
    total = counted(len(every), "session")
    columns = _columns(rows)
    archived = request.memory.archived_sessions()
    archived.sort(key=lambda each: each.when.timestamp() if each.when else 0.0, reverse=True)
    at = request.page_number("archived", len(archived))
    deleted = request.memory.deleted_sessions()
    return page(
        request,
        "sessions.html",
        "Sessions",
        "sessions",
        every=every,
        rows=rows,
        columns=columns,
        problems=problems,
        total=total if len(shown) == len(every) else f"{len(shown):,} of {total}",
        states=[(name, name) for name in STATES],
        sorts=_SORTS,
        projects=sorted({each.project for each in every if each.project})[:_MOST_PROJECTS],
        state_kinds=STATE_KINDS,
        pages=request.neighbours("offset", offset, PAGE_SESSIONS, len(shown)),
        archived_count=len(archived),
        archived=[archived_item(request, each) for each in archived[at : at + PAGE_SESSIONS]],
        archived_pages=request.neighbours("archived", at, PAGE_SESSIONS, len(archived)),
        deleted_count=len(deleted),
        deleted=[deleted_item(request, each) for each in deleted[-_MOST_DELETED:][::-1]],
    )


# -- which sessions


def _listed(request: PageRequest) -> list[Listed]:
    store = request.memory.store
    used: dict[str, SessionUsage] = usage(store)
    names = SessionNames(store)
    found = []
    for name, each in used.items():
        info, known = names.info(name), names.activity.get(name)
        user, project = (str(info.user or ""), str(info.project or "")) if info else ("", "")
        memories = known.memories if known is not None else 0
        written = moment_of(known.written) if known is not None and known.written else each.created
        has_settings = info is None or bool(info.config)
        found.append(
            Listed(
                name, names.title(name), user, project, each.last_used, each.created, written, memories, has_settings
            )
        )
    return found


def _chosen(request: PageRequest, every: list[Listed]) -> tuple[list[Listed], dict[str, SessionState]]:
    """The sessions that meet the filters, in the order asked for; and their states if these had to be found out for that."""
    text, project, state = request.get("q").casefold(), request.get("project"), request.get("state")
    shown = [
        each
        for each in every
        if (not project or each.project == project)
        and (not text or text in f"{each.title} {each.name} {each.user} {each.project}".casefold())
    ]
    sort = request.get("sort") or "written"
    states: dict[str, SessionState] = {}
    if state or sort == "next":
        states = _all_states(request, shown)
        shown = [each for each in shown if each.name in states and state in ("", states[each.name].state)]
    if sort == "name":
        shown.sort(key=lambda each: (each.title.casefold() or each.name, each.name))
    elif sort == "memories":
        shown.sort(key=lambda each: (-each.memories, each.name))
    elif sort == "next":
        shown.sort(key=lambda each: (_moment(states[each.name]), each.name))
    elif sort == "unused":
        shown.sort(key=lambda each: (each.since, each.name))
    else:
        shown.sort(key=lambda each: (-_seconds(each.written), each.name))
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


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


# -- the list


def _rows(
    request: PageRequest, every: list[Listed], part: list[Listed], states: dict[str, SessionState]
) -> tuple[list[SessionRow], list[Problem]]:
    figures, problems = _figures(request, [each.name for each in part])
    missing = [each.name for each in part if each.name not in states and each.name in figures]
    states = states | _states(request, missing)
    known = [each for each in part if each.name in figures and each.name in states]
    short = short_names(each.name for each in every)
    return [_row(request, each, short[each.name], states[each.name], figures[each.name]) for each in known], problems


def _columns(rows: list[SessionRow]) -> set[str]:
    """The columns that say something: those in which rows differ."""
    said: dict[str, set[object]] = {
        "state": {each.state.state for each in rows},
        "size": {each.size if each.size and quota_of(*each.size).share >= _SMALL else None for each in rows},
        "next": {each.next for each in rows},
    }
    return {name for name, values in said.items() if len(values) > 1 or len(rows) == 1}


def _row(request: PageRequest, each: Listed, short: str, state: SessionState, figures: Figures) -> SessionRow:
    size, size_error = None, ""
    try:
        storage = request.memory.store.session(each.name)
        size = sum(storage.sizes().values()), storage.config.quota_bytes
    except SMPError as error:
        size_error = error.message
    least = "at least " if figures.is_open_cut else ""
    opened = f"{least}{counted(figures.open_findings, 'open finding')}" if figures.open_findings else ""
    return SessionRow(
        each.name, each.title, short, _who(each, figures), state, next_step_text(state.next, request.now), each.written,
        counts_text(figures.types), opened, size, size_error,
    )  # fmt: skip


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


def _states(request: PageRequest, names: list[str]) -> dict[str, SessionState]:
    try:
        found = session_states(request.memory.store, request.now, names)
    except (SessionNotFound, SessionArchived):  # one of them was archived or deleted just now
        found = request.memory.session_states()
    return {each.session: each for each in found}


def _figures(request: PageRequest, names: list[str]) -> tuple[dict[str, Figures], list[Problem]]:
    index = request.memory.store.indexer
    with index.snapshot(all_sessions=True):
        figures = {name: _figures_of(index, name) for name in names}
        problems = index.candidates(CandidateRequest(limit=0, fetch=[PROBLEMS])).every_problem
    store = request.memory.store
    return {name: each for name, each in figures.items() if store.sessions(id=name)}, problems


def _figures_of(index: SearchIndex, name: str) -> Figures:
    asked = CandidateRequest(sessions=[name], ignores_missing=True)
    counts = index.facets(asked, ["type", "agent"]).counts
    types, authors = counts["type"], counts["agent"]
    kinds = [kind_name for kind_name, kind in KINDS.items() if kind.is_open_until_closed and types.get(kind_name)]
    found = index.candidates(asked.with_changes(types=kinds, limit=MOST_FINDINGS + 1)).matches if kinds else []
    opened = sum(map(is_open_finding, found[:MOST_FINDINGS]))
    return Figures(types, authors, opened, len(found) > MOST_FINDINGS)


# -- archived and deleted sessions


class ArchiveSummary(NamedTuple):
    """The summary that an archive keeps: conversation in a few sentences, decisions, open findings, topics."""

    said: str
    lists: list[tuple[str, list[str]]]
    topics: list[str]


class ArchivedItem(NamedTuple):
    """An archived or deleted session in a list."""

    session: str
    facts: str
    kept: str = ""  # until when a deleted session is kept
    summary: ArchiveSummary | None = None


def archived_item(request: PageRequest, each: SessionHead) -> ArchivedItem:
    """An archived session: when, why, how large, and its summary."""
    count = each.metadata.get("memories")
    facts = [
        f"archived {date_text(each.when, request.now)}" if each.when else "archived",
        size_text(each.bytes),
        memories(count) if isinstance(count, int) else "",
        f"because: {each.reason}" if each.reason else "",
    ]
    return ArchivedItem(each.session, " · ".join(filter(None, facts)), summary=_summary(each.metadata))


def _summary(metadata: Mapping[str, Any]) -> ArchiveSummary | None:
    turns = [f"{plain(each['author'])}: {text}" if each.get("author") else text for each, text in _key_turns(metadata)]
    said = metadata.get("conversation") or metadata.get("summary") if not turns else None
    if isinstance(said, dict):
        said = said.get("summary") or said.get("text")
    if isinstance(said, list):
        said = " ".join(plain(each) for each in said)
    text = shortened(said, 1200) if isinstance(said, str) else ""
    opened = metadata.get("open_findings")
    groups = list(opened.values()) if isinstance(opened, dict) else [opened]
    lists = [
        ("Said", turns),
        ("Decisions", _texts(metadata.get("key_decisions"), "decision")),
        ("Open findings", [text for each in groups for text in _texts(each, "finding")]),
    ]
    found = ArchiveSummary(
        text, [(title, texts) for title, texts in lists if texts], _texts(metadata.get("topics"), "topic")
    )
    return found if any(found) else None


def _key_turns(metadata: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """The turns that the summary quotes, with the sentence of each: one by one they are readable, as one text they are not."""
    rows = metadata.get("key_turns")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [(row, plain(row["text"])) for row in found if row.get("text")]


def _texts(rows: Any, name: str) -> list[str]:
    rows = rows if isinstance(rows, list) else []
    return [plain(row[name]) for row in rows if isinstance(row, dict) and row.get(name)]


def deleted_item(request: PageRequest, each: SessionHead) -> ArchivedItem:
    """A deleted session: by whom, when, why, and until when it can be restored."""
    by, deadline = each.metadata.get("deleted_by"), recovery_deadline(each)
    facts = [
        f"deleted {date_text(each.when, request.now)}" if each.when else "deleted",
        f"by {by}" if isinstance(by, str) and by else "",
        size_text(each.bytes),
        f"because: {each.reason}" if each.reason else "",
    ]
    kept = "It stays until somebody purges it."
    if deadline is not None:
        kept = f"Can be restored until {deadline:%Y-%m-%d} at least."
    if each.is_foreign:
        kept = "Another program deleted it; SMP does not purge it."
    return ArchivedItem(each.session, " · ".join(filter(None, facts)), kept)


def recovery_deadline(each: SessionHead) -> datetime | None:
    """Until when a deleted session can be restored at least; None if its deletion record does not say so."""
    until = each.metadata.get("recovery_deadline")
    try:
        return to_moment(until) if isinstance(until, str) else None
    except (ValueError, OverflowError):
        return None
