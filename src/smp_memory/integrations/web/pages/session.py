"""The page of a session: what it is, how full, what happens next, and its memories as a conversation; and the same of all sessions.

The timeline goes back in time: the newest memory comes first, older ones follow below and on the next pages. Long texts are folded. What followed
from what is a line of text with a link; a memory on the same page is linked by its anchor. Looking at an archived session
leaves it archived: the page shows its summary.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SessionArchived, SessionNotFound, SMPError
from smp_memory.integrations.web.pages.sessions import STATE_KINDS, archived_item, deleted_item
from smp_memory.integrations.web.parts import (
    counted,
    date_text,
    memories,
    memory_url,
    next_step_text,
    plain,
    plural_of,
    shortened,
    size_text,
    visible,
)
from smp_memory.integrations.web.renderer import page
from smp_memory.integrations.web.timeline import PAGE_RECORDS, TimelineQuery, day_of, spans, timeline
from smp_memory.lifecycle.session_titles import session_title
from smp_memory.model.history import COLD
from smp_memory.model.record import name_and_content
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.integrations.web.timeline import RelatedLine, TimelinePage
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

MOST_FOR_SIZE_REPORT = (
    3000  # memories; of a larger session the breakdown, which reads all of it, is shown when asked for
)
FOLDED_FROM = 900  # characters; a longer text shows its beginning
SHOWN_CHARACTERS = 600
ROOM = 60_000  # characters of all texts on a page; beyond it the longest are cut, and a link leads to all of it
_DETAILS = ("rationale", "recommendation", "evidence", "resolution", "context", "impact", "location")
_MOST_TAGS, _TAG_CHARACTERS, _MOST_WRITERS = 12, 64, 12
_CHART_WIDTH, _CHART_HEIGHT = 720, 44
_COMPONENT_CLASSES = ("matches", "written", "turns", "state", "recent", "wishes", "critical", "pointers")
_FULL_FROM = 0.8  # of the quota: what compaction could free is said from here on


def session_page(request: PageRequest) -> Response:
    name = request.parts["session"]
    try:
        session = request.memory.opened_session(name)
    except SessionArchived:
        return _archived_page(request, name)
    except SessionNotFound:
        if any(each.session == name for each in request.memory.deleted_sessions()):
            return _deleted_page(request, name)
        raise
    shown = timeline(request.memory, _query(request, name), request.inspector.memo)
    title = session_title(request.memory.store, name)
    return page(
        request,
        "session.html",
        title or name,
        "sessions",
        session=session,
        heading=title or name,
        standing=session.session_state,
        state_kinds=STATE_KINDS,
        session_notices=session.config.notices(session_only=True),
        about=_about(session, shown, request),
        size=_size(request, session, shown),
        **_timeline(request, shown, name),
    )


def timeline_page(request: PageRequest) -> Response:
    """The memories of all live sessions."""
    shown = timeline(request.memory, _query(request, None), request.inspector.memo)
    return page(request, "timeline.html", "Timeline", "sessions", **_timeline(request, shown, None))


def _query(request: PageRequest, session: str | None) -> TimelineQuery:
    return TimelineQuery(
        session,
        tuple(name for name in request.all("type") if name in KINDS),
        tuple(request.all("author")),
        bool(request.get("open")),
        bool(request.get("deleted")),
        day_of(request.get("day")),
        int(request.number("offset", 0, 0, 10_000_000)),
    )


# -- about the session


def _about(session: SessionMemory, shown: TimelinePage, request: PageRequest) -> dict[str, Any]:
    """Its metadata, or the error why they cannot be read."""
    try:
        info = session.info
    except SMPError as error:
        return {"error": error.message}
    writers = [name for name in shown.authors if name]
    more = len(writers) - _MOST_WRITERS
    step = session.session_state.next
    follows = f"{next_step_text(step, request.now)} ({step.why})" if step.when else step.why
    people = [
        ("With", info.user or ""),
        ("Project", info.project or ""),
        ("Agents", ", ".join(map(str, info.agents))),
        ("Writers", ", ".join(writers[:_MOST_WRITERS]) + (f" and {more:,} more" if more > 0 else "")),
    ]
    rest = [
        ("Next", follows),
        *((str(name), shortened(plain(value), 400)) for name, value in info.context.items() if name != "title"),
    ]
    if info.config:
        rest.append(("Settings", shortened(plain(info.config), 400)))
    return {
        "error": "",
        "people": people,
        "tags": [str(each) for each in info.tags],
        "created": info.created,
        "rest": rest,
    }


def _size(request: PageRequest, session: SessionMemory, shown: TimelinePage) -> dict[str, Any]:
    """How full it is; and what takes the room, unless finding that out takes long and was not asked for."""
    storage = session.opened.storage
    size = {
        "used": sum(storage.sizes().values()),
        "quota": storage.config.quota_bytes,
        "cold": sum(storage.sizes(COLD).values()),
        "offer": "",
        "error": "",
        "shares": None,
        "said": "",
    }
    count = sum(shown.types.values())
    if count > MOST_FOR_SIZE_REPORT and not request.get("sizes"):
        return size | {"offer": f"Show what takes up the space (reads {count:,} memories)"}
    try:
        report = session.size_report()
    except SMPError as error:  # its settings are invalid: what is stored is shown all the same
        return size | {"error": error.message}
    components = sorted(((name, each) for name, each in report.components.items() if each), key=lambda each: -each[1])
    shares = [
        (f"share-{_COMPONENT_CLASSES[min(at, 7)]}", f"{name.replace('_', ' ')} {size_text(each)}", float(each))
        for at, (name, each) in enumerate(components)
    ]
    said = []
    if report.predicted_days_to_quota is not None and report.predicted_days_to_quota < 3650:
        said.append(
            f"Full in about {counted(round(report.predicted_days_to_quota), 'day')} at the present rate of growth."
        )
    if report.estimated_gain_bytes and report.utilization >= _FULL_FROM:
        said.append(f"Compaction could free about {size_text(report.estimated_gain_bytes)}.")
    return size | {"shares": shares, "said": " ".join(said)}


# -- the timeline


class Folded(NamedTuple):
    """A text with its line breaks: its beginning, the rest when asked for, and how much of it is on the page of the memory only."""

    shown: str
    rest: str
    beyond: int
    href: str


class TimelineItem(NamedTuple):
    """A turn or a card."""

    record: Record
    is_turn: bool
    role: str
    name: str
    text: Folded
    details: list[tuple[str, Folded]]
    tags: list[str]
    more_tags: int
    links: list[tuple[RelatedLine, str, str]]  # with its label, and the anchor on this page, if it is there


class Bar(NamedTuple):
    """Some days of the activity chart."""

    x: float
    width: float
    height: float
    day: str
    title: str
    href: str


def _timeline(request: PageRequest, shown: TimelinePage, session: str | None) -> dict[str, Any]:
    authors = [(name, f"{name} ({count:,})") for name, count in list(shown.authors.items())[:200] if name]
    chosen = request.get("author")
    if chosen and chosen not in dict(authors):
        authors.append((chosen, chosen))
    bars, unit, most = _activity(request, shown)
    older = request.address(offset=shown.offset + PAGE_RECORDS, day=None) if shown.older else None
    newer = request.address(offset=max(shown.offset - PAGE_RECORDS, 0) or None, day=None) if shown.offset else None
    return {
        "shown": shown,
        "session_id": session,
        "memory_count": sum(shown.types.values()),
        "types": [(name, f"{plural_of(name)} ({count:,})") for name, count in shown.types.items() if name in KINDS],
        "authors": authors,
        "days": _days(shown),
        "bars": bars,
        "activity_label": f"{memories(shown.total)} by {unit}, at most {most:,}",
        "older": older,
        "newer": newer,
        "newest": request.address(day=None) if shown.offset > PAGE_RECORDS else None,
    }


def _activity(request: PageRequest, shown: TimelinePage) -> tuple[list[Bar], str, int]:
    """Memories by day as bars, each with a link to its day; the unit of the bars, and the most memories of one."""
    found = spans(shown.days)
    if len(found) < 2:
        return [], "", 0
    most = max(each.memories for each in found)
    width = _CHART_WIDTH / len(found)
    bars = []
    for at, each in enumerate(found):
        height = max(_CHART_HEIGHT * each.memories / most, 2.0) if each.memories else 1.0
        day = str(each.first)
        href = f"{request.address(day=day)}#day-{day}" if each.memories else ""
        bars.append(Bar(at * width, width, height, day, f"{day}: {memories(each.memories)}", href))
    return bars, "day" if found[0].days == 1 else f"{found[0].days} days", most


def _days(shown: TimelinePage) -> list[tuple[Any, list[TimelineItem]]]:
    """The memories of the page by day."""
    on_page = {record.ref for record in shown.records}
    texts = {record.ref: _texts(record) for record in shown.records}
    most = fair_limit([len(text) for each in texts.values() for _, text in each], ROOM)
    return [
        (
            day,
            [
                _item(record, texts[record.ref], shown.connections.get(record.ref, []), on_page, most)
                for record in records
            ],
        )
        for day, records in groupby(shown.records, key=lambda record: record.created.date())
    ]


def fair_limit(lengths: list[int], room: int) -> int:
    """The largest length to which all texts can be cut so that together they fit; at least `SHOWN_CHARACTERS`."""
    left = room
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            return max(share, SHOWN_CHARACTERS)
        left -= length
    return max(room, SHOWN_CHARACTERS)


def _texts(record: Record) -> list[tuple[str, str]]:
    """What a memory says on this page: its content, then why a decision was made, what a finding recommends, and the like."""
    given = record.given
    if KINDS[record.type].is_turn:
        return [("", record.text)]
    found = [("", plain(name_and_content(record)[1]))]
    return found + [(name, text) for name in _DETAILS if (text := plain(given.get(name)))]


def _item(
    record: Record, texts: list[tuple[str, str]], lines: list[RelatedLine], on_page: set[str], most: int
) -> TimelineItem:
    href = memory_url(record.ref)
    name = name_and_content(record)[0] or (record.given.get("name") if record.type == "artifact" else None)
    named = record.given.get("tags")
    named = named if isinstance(named, list) else []  # a person may have typed anything
    return TimelineItem(
        record,
        KINDS[record.type].is_turn,
        str(record.given.get("role") or ""),
        plain(name) if name else "",
        folded(texts[0][1], most, href),
        [(label, folded(text, most, href)) for label, text in texts[1:]],
        [shortened(plain(each), _TAG_CHARACTERS) for each in named[:_MOST_TAGS]],
        max(len(named) - _MOST_TAGS, 0),
        [(each, *_link(each, record.session, on_page)) for each in lines],
    )


def folded(text: str, most: int, href: str) -> Folded:
    beyond = max(len(text) - most, 0)
    text = visible(text[:most])
    if len(text) <= FOLDED_FROM:
        return Folded(text, "", beyond, href)
    cut = text.rfind(" ", SHOWN_CHARACTERS - 80, SHOWN_CHARACTERS)
    cut = cut if cut > 0 else SHOWN_CHARACTERS
    return Folded(text[:cut], text[cut:], beyond, href)


def _link(each: RelatedLine, session: str, on_page: set[str]) -> tuple[str, str]:
    """How a related memory is named, and its anchor if it is on the page."""
    name, _, id = each.ref.rpartition("/")
    is_short = not each.exists or name == session or (each.is_turn and each.ref not in on_page)
    return id if is_short else each.ref, f"#m-{name}-{id}" if each.exists and each.ref in on_page else ""


# -- sessions that are not live


def _archived_page(request: PageRequest, name: str) -> Response:
    found = next((each for each in request.memory.archived_sessions() if each.session == name), None)
    if found is None:
        raise SessionNotFound(f"No session {name} in {request.memory.root}.", session=name)
    since = f" on {date_text(found.when, request.now)}" if found.when else ""
    lead = f"Archived{since}. It stays archived while you look; restore it to read its memories here."
    shown = [archived_item(request, found)]
    return page(request, "archived_session.html", name, "sessions", lead=lead, archived=shown, deleted=[])


def _deleted_page(request: PageRequest, name: str) -> Response:
    found = [deleted_item(request, each) for each in request.memory.deleted_sessions() if each.session == name]
    lead = "Deleted. It is in the trash."
    return page(request, "archived_session.html", name, "sessions", lead=lead, archived=[], deleted=found)
