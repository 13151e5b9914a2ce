"""The page of a session: what it is, how full, what happens next, and its memories as a conversation; and the same of all sessions.

The timeline is paged from its end: the last page is shown first, and each page is read from top to bottom. Looking at an archived session
leaves it archived: the page shows its summary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.errors import SessionArchived, SessionNotFound, SMPError
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import heading, page, panel, problems_banner, settings_banner
from smp_memory.integrations.web.pages.away import archived_item, deleted_item
from smp_memory.integrations.web.pages.sessions import STATE_KINDS
from smp_memory.integrations.web.parts import options, pager, pairs, quota_meter, same_page, stacked_meter, tag, when
from smp_memory.integrations.web.timeline import PAGE_RECORDS, TimelineQuery, day_of, timeline
from smp_memory.integrations.web.timeline_view import activity, days
from smp_memory.integrations.web.words import counted, date_text, next_step_text, plain, shortened, size_text
from smp_memory.model.history import COLD
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.integrations.web.timeline import TimelinePage
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.session import SessionMemory

MOST_FOR_SIZE_REPORT = (
    3000  # memories; of a larger session the breakdown is shown when asked for, because it reads all of it
)
_COMPONENT_CLASSES = ("matches", "written", "turns", "state", "recent", "wishes", "critical", "weak")
_FULL_FROM = 0.8  # of the quota: what compaction could free is said from here on
_FEW = 8  # memories that fit on a screen


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
    return page(
        request,
        name,
        "sessions",
        heading(name, _lead(request, session, shown), _actions(session)),
        settings_banner(session.config.notices(session_only=True)),
        el(
            "div",
            el("div", _timeline(request, shown, name), class_="column"),
            el(
                "aside",
                _filters(request, shown),
                _about(request, session, shown),
                aria_label="About this session",
                class_="follow",
            ),
            class_="grid side",
        ),
        wide=True,
    )


def timeline_page(request: PageRequest) -> Response:
    """The memories of all live sessions."""
    shown = timeline(request.memory, _query(request, None), request.inspector.memo)
    return page(
        request,
        "Timeline",
        "sessions",
        heading(
            "Timeline of all sessions",
            "What was said, decided and found, by whom and when. Archived sessions are not in it.",
        ),
        el(
            "div",
            el("div", _timeline(request, shown, None), class_="column"),
            el("aside", _filters(request, shown), aria_label="Filters", class_="follow"),
            class_="grid side",
        ),
        wide=True,
    )


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


# -- the head


def _lead(request: PageRequest, session: SessionMemory, shown: TimelinePage) -> Html:
    standing = session.standing
    return join(
        tag(standing.state, STATE_KINDS.get(standing.state, "")),
        " ",
        counted(sum(shown.types.values()), "memory", "memories"),
        ", ",
        join("last used ", when(standing.last_used, request.now)) if standing.last_used else "never used",
        ", ",
        el("span", next_step_text(standing.next, request.now), title=standing.next.why),
    )


def _actions(session: SessionMemory) -> Html:
    links = (
        ("What agents are told here", url("/", session=session.id), False, ""),
        ("Search in it", url("/search", session=session.id), False, ""),
        ("Export", url("/export", session=session.id), False, ""),
        ("Compact", url("/session/{}/compact", session.id), True, ""),
        ("Archive", url("/session/{}/archive", session.id), True, ""),
        ("Delete", url("/session/{}/delete", session.id), True, "danger"),
    )
    return el(
        "div",
        [
            el("a", text, href=href, class_=f"button small {kind}".strip(), data_dialog=is_dialog)
            for text, href, is_dialog, kind in links
        ],
        class_="actions",
    )


def _about(request: PageRequest, session: SessionMemory, shown: TimelinePage) -> Html:
    return el("div", _metadata(request, session, shown), _size(request, session, shown), id="about", data_live=True)


def _metadata(request: PageRequest, session: SessionMemory, shown: TimelinePage) -> Html:
    try:
        info: SessionInfo = session.info
    except SMPError as error:
        return panel("About", el("p", error.message, class_="error-text"))
    writers = [name for name in shown.authors if name]
    more = len(writers) - 12
    standing = session.standing
    rows: list[tuple[Child, Child]] = [
        ("With", info.user or ""),
        ("Project", info.project or ""),
        ("Agents", ", ".join(map(str, info.agents))),
        ("Writers", ", ".join(writers[:12]) + (f" and {more:,} more" if more > 0 else "")),
        ("Tags", [join(tag(str(each)), " ") for each in info.tags] or None),
        ("Began", when(info.created, request.now)),
        (
            "Next",
            f"{next_step_text(standing.next, request.now)} ({standing.next.why})"
            if standing.next.when
            else standing.next.why,
        ),
    ]
    rows += [(str(name), shortened(plain(value), 400)) for name, value in info.context.items()]
    if info.config:
        rows.append(("Settings", shortened(plain(info.config), 400)))
    rows.append(("Folder", el("code", session.folder)))
    return panel("About", pairs(rows))


def _size(request: PageRequest, session: SessionMemory, shown: TimelinePage) -> Html:
    files = session.opened.files
    used, quota = sum(files.sizes().values()), files.config.quota_bytes
    cold = sum(files.sizes(COLD).values())
    title = join("Size ", el("small", f"{size_text(used)} of {size_text(quota)}", class_="side"))
    beside = el(
        "p", f"{size_text(cold)} more in the cold segment, where compaction puts what has faded.", class_="hint"
    )
    count = sum(shown.types.values())
    if count > MOST_FOR_SIZE_REPORT and not request.get("sizes"):
        more = el("a", f"Show what takes the room (reads {count:,} memories)", href=same_page(request, sizes="1"))
        return panel(title, quota_meter(used, quota), el("p", more, class_="hint"), beside if cold else None)
    return panel(title, _breakdown(session, used, quota), beside if cold else None)


def _breakdown(session: SessionMemory, used: int, quota: int) -> Html:
    try:
        report = session.size_report()
    except SMPError as error:  # its settings are invalid: what is stored is shown all the same
        return join(quota_meter(used, quota), el("p", error.message, class_="error-text"))
    parts = sorted(((name, size) for name, size in report.components.items() if size), key=lambda each: -each[1])
    shares = [
        (f"share-{_COMPONENT_CLASSES[min(at, 7)]}", f"{name.replace('_', ' ')} {size_text(size)}", float(size))
        for at, (name, size) in enumerate(parts)
    ]
    said = []
    if report.predicted_days_to_quota is not None and report.predicted_days_to_quota < 3650:
        said.append(f"Full in about {counted(round(report.predicted_days_to_quota), 'day')} at the present growth.")
    if report.estimated_gain_bytes and report.utilization >= _FULL_FROM:
        said.append(f"Compaction could free about {size_text(report.estimated_gain_bytes)}.")
    whole = float(max(used, 1))
    return join(
        quota_meter(used, quota),
        stacked_meter(shares, whole, f"What takes the room of {size_text(used)}"),
        el("p", " ".join(said), class_="hint") if said else None,
    )


# -- the timeline


def _filters(request: PageRequest, shown: TimelinePage) -> Html:
    types = [
        ("", "all types"),
        *(
            (name, f"{KINDS[name].plural.replace('_', ' ')} ({count:,})")
            for name, count in shown.types.items()
            if name in KINDS
        ),
    ]
    authors = [
        ("", "everyone"),
        *((name, f"{name} ({count:,})") for name, count in list(shown.authors.items())[:200] if name),
    ]
    chosen = request.get("author")
    if chosen and chosen not in dict(authors):
        authors.append((chosen, chosen))
    checks = (("open", "only open findings"), ("deleted", "deleted ones, too"))
    return el(
        "form",
        el("h2", "Show"),
        el("label", "Type", for_="type"),
        el("select", options(types, request.get("type")), id="type", name="type"),
        el("label", "Author", for_="author"),
        el("select", options(authors, chosen), id="author", name="author"),
        el("label", "From this day on", for_="day"),
        el("input", id="day", type="date", name="day", value=request.get("day")),
        el(
            "fieldset",
            el("legend", "Also", class_="quiet"),
            [
                el(
                    "label",
                    el("input", type="checkbox", name=name, value="1", checked=bool(request.get(name))),
                    f" {label}",
                    class_="check",
                )
                for name, label in checks
            ],
        ),
        el("noscript", el("button", "Show", class_="primary")),
        action=request.path,
        class_="panel",
        data_instant="timeline",
    )


def _timeline(request: PageRequest, shown: TimelinePage, session: str | None) -> Html:
    notes = []
    if shown.is_open_cut:
        notes.append("There are so many findings that only the newest were looked at; older ones may be open, too.")
    return el(
        "div",
        problems_banner(list(shown.problems)),
        [el("p", each, class_="note") for each in notes],
        activity(request, shown),
        _neighbours(request, shown, is_top=True),
        days(request, shown, session) if shown.records else _empty(request, shown),
        el("div", id="end"),
        _neighbours(request, shown, is_top=False),
        id="timeline",
        data_live=True,
    )


def _empty(request: PageRequest, shown: TimelinePage) -> Html:
    if sum(shown.types.values()):
        more = el("a", "Show all", href=url(request.path))
        return el("p", "No memory meets these filters. ", more, class_="panel empty")
    return el("p", "Nothing was remembered here yet. New memories appear as they are written.", class_="panel empty")


def _neighbours(request: PageRequest, shown: TimelinePage, *, is_top: bool) -> Html | None:
    """Above the page a link to what came before, below it to what came after."""
    if is_top:
        older = same_page(request, offset=shown.offset + PAGE_RECORDS, day=None) if shown.older else None
        label = f"↑ {shown.older:,} earlier" if shown.older else ""
        end = "#end" if len(shown.records) > _FEW else None
        return pager(older, end, "Earlier memories", (label, "↓ To the end" if shown.offset else "↓ To the newest"))
    newer = same_page(request, offset=max(shown.offset - PAGE_RECORDS, 0) or None, day=None) if shown.offset else None
    newest = same_page(request, day=None) if shown.offset > PAGE_RECORDS else None
    return pager(newer, newest, "Later memories", (f"↓ {shown.offset:,} later", "To the newest"))


# -- sessions that are not live


def _archived_page(request: PageRequest, name: str) -> Response:
    found = next((each for each in request.memory.archived_sessions() if each.session == name), None)
    if found is None:
        raise SessionNotFound(f"No session {name} in {request.memory.root}.", session=name)
    since = f" on {date_text(found.when, request.now)}" if found.when else ""
    lead = f"Archived{since}. It stays archived while you look; restore it to read its memories here."
    item = archived_item(request, found, is_open=True)
    return page(request, name, "sessions", heading(name, lead), panel("What it held", item))


def _deleted_page(request: PageRequest, name: str) -> Response:
    found = [each for each in request.memory.deleted_sessions() if each.session == name]
    return page(
        request,
        name,
        "sessions",
        heading(name, "Deleted. It is in the trash."),
        panel("Trash", [deleted_item(request, each) for each in found]),
    )
