"""A page of the timeline as HTML: an activity chart, days, turns as a conversation, and cards for everything else.

Long texts are folded. What followed from what is a line of text with a link; a turn on the same page is linked by its anchor.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from smp_memory.integrations.web.html import Child, Html, el, join, url, visible
from smp_memory.integrations.web.parts import marks, memory_link, memory_url, same_page, tag
from smp_memory.integrations.web.timeline import RelatedLine, Span, TimelinePage, spans
from smp_memory.integrations.web.words import counted, day_title, moment_text, plain, shortened
from smp_memory.model.record import name_and_content
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from datetime import datetime

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record

FOLDED_FROM = 900  # characters; a longer text shows its beginning
SHOWN_CHARACTERS = 600
ROOM = (
    60_000  # characters of all texts on a page; if they are longer, the longest are cut, and a link leads to all of it
)
_DETAILS = ("rationale", "recommendation", "evidence", "resolution", "context", "impact", "location")
_MOST_TAGS, _TAG_CHARACTERS = 12, 64
_CHART_WIDTH, _CHART_HEIGHT = 720, 44


# -- the activity chart


def activity(request: PageRequest, shown: TimelinePage) -> Html | None:
    """Memories by day as bars; each links to its day."""
    found = spans(shown.days)
    if len(found) < 2:
        return None
    most = max(each.memories for each in found)
    width = _CHART_WIDTH / len(found)
    bars = [_bar(request, each, at * width, width, most) for at, each in enumerate(found)]
    unit = "day" if found[0].days == 1 else f"{found[0].days} days"
    label = f"{counted(shown.total, 'memory', 'memories')} by {unit}, at most {most:,}"
    chart = el(
        "svg",
        bars,
        viewBox=f"0 0 {_CHART_WIDTH} {_CHART_HEIGHT}",
        class_="activity",
        role="group",
        aria_label=label,
        preserveAspectRatio="none",
    )
    ends = el(
        "div", el("span", str(found[0].first)), el("span", label), el("span", str(found[-1].first)), class_="ends"
    )
    return el("section", el("h2", "Activity"), chart, ends, class_="panel")


def _bar(request: PageRequest, each: Span, x: float, width: float, most: int) -> Html:
    height = max(_CHART_HEIGHT * each.memories / most, 2.0) if each.memories else 1.0
    gap = min(width * 0.2, 2.0)
    first = f"{each.first}"
    title = f"{first}: {counted(each.memories, 'memory', 'memories')}"
    shape = Html(
        f'<rect class="{"bar" if each.memories else "rest"}" x="{x:.1f}" y="{_CHART_HEIGHT - height:.1f}" width="{width - gap:.1f}" height="{height:.1f}"/>'
    )
    if not each.memories:
        return shape
    catch = Html(f'<rect class="catch" x="{x:.1f}" y="0" width="{width:.1f}" height="{_CHART_HEIGHT}"/>')
    href = same_page(request, day=first) + f"#day-{first}"
    return el("a", el("title", title), catch, shape, href=href, aria_label=title)


# -- days


def days(request: PageRequest, shown: TimelinePage, session: str | None) -> list[Html]:
    """The memories of the page, under a heading for each day."""
    on_page = {record.ref for record in shown.records}
    most = fair_limit([len(text) for record in shown.records for text in _texts(record)], ROOM)
    made = []
    for day, records in groupby(shown.records, key=lambda record: record.created.date()):
        items = []
        for record in records:
            lines = [_connection(each, record.session, on_page) for each in shown.connections.get(record.ref, [])]
            links = el("ul", lines, class_="links") if lines else None
            items.append((_turn if KINDS[record.type].is_turn else _card)(record, links, session, most))
        made.append(el("section", el("h2", day_title(day), class_="day"), items, id=f"day-{day}", class_="day-group"))
    return made


def fair_limit(lengths: list[int], room: int) -> int:
    """The largest length to which all texts can be cut so that together they fit; at least `SHOWN_CHARACTERS`."""
    left = room
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            return max(share, SHOWN_CHARACTERS)
        left -= length
    return max(room, SHOWN_CHARACTERS)


def _texts(record: Record) -> list[str]:
    """What a memory says on this page: its content, and the fields below it."""
    return [plain(name_and_content(record)[1]), *(text for _, text in _details(record))]


def _turn(record: Record, links: Html | None, session: str | None, most: int) -> Html:
    role = str(record.given.get("role") or "")
    who = str(record.author or role or "unknown")
    said = [el("span", who, class_="who")]
    if role and role != who:
        said.append(el("small", role))
    head = el("div", said, _meta(record, session), class_="head")
    text = el("div", head, folded(record.text, most, memory_url(record.ref)), links, class_="said-by")
    is_user = record.author_kind == "user"
    return el(
        "article",
        text,
        class_="turn user item" if is_user else "turn item",
        id=anchor(record),
        data_href=memory_url(record.ref),
        tabindex="-1",
    )


def _card(record: Record, links: Html | None, session: str | None, most: int) -> Html:
    kind = KINDS[record.type]
    name, content = name_and_content(record)
    head = el(
        "div",
        el("span", kind.noun, class_="type"),
        [join(mark, " ") for mark in marks(record)],
        el("span", str(record.author), class_="who") if record.author else None,
        _meta(record, session),
        class_="head",
    )
    name = name or (record.given.get("name") if record.type == "artifact" else None)
    title = el("b", plain(name), ": ") if name else None
    rows = [
        join(el("dt", name), el("dd", folded(text, most, memory_url(record.ref)))) for name, text in _details(record)
    ]
    details = el("dl", rows) if rows else None
    named = record.given.get("tags")
    named = named if isinstance(named, list) else []  # a person may have typed anything
    shown = [join(tag(shortened(plain(each), _TAG_CHARACTERS)), " ") for each in named[:_MOST_TAGS]]
    more = f"and {len(named) - _MOST_TAGS:,} more" if len(named) > _MOST_TAGS else None
    tags = el("p", shown, more) if named else None
    body = el("div", title, folded(plain(content), most, memory_url(record.ref)), class_="content", dir="auto")
    return el(
        "article",
        head,
        body,
        details,
        tags,
        links,
        class_=f"card item kind-{record.type}",
        id=anchor(record),
        data_href=memory_url(record.ref),
        tabindex="-1",
    )


def _meta(record: Record, session: str | None) -> Html:
    return el("span", _time(record.created), " ", memory_link(record.ref, session), class_="meta")


def _time(moment: datetime) -> Html:
    return el("time", f"{moment:%H:%M}", datetime=moment.isoformat(), title=f"{moment_text(moment)} UTC")


def _details(record: Record) -> list[tuple[str, str]]:
    """Why a decision was made, what a finding recommends, and the like."""
    found = ((name, plain(record.given.get(name))) for name in _DETAILS)
    return [(name.replace("_", " "), text) for name, text in found if text and not KINDS[record.type].is_turn]


def folded(text: str, most: int, href: str) -> Html:
    """A text with its line breaks; a long one shows its beginning, the rest when asked for, and what is beyond `most` elsewhere."""
    beyond = len(text) - most
    text = visible(text[:most])
    rest: list[Child] = []
    if beyond > 0:
        rest.append(el("p", el("a", f"{beyond:,} more characters on the page of the memory", href=href), class_="hint"))
    if len(text) <= FOLDED_FROM:
        return join(el("p", text, class_="text", dir="auto"), rest)
    cut = text.rfind(" ", SHOWN_CHARACTERS - 80, SHOWN_CHARACTERS)
    cut = cut if cut > 0 else SHOWN_CHARACTERS
    more = el("p", text[cut:].lstrip(" "), class_="text", dir="auto")
    summary = el("summary", f"{len(text) - cut:,} more characters")
    return join(el("p", text[:cut], "…", class_="text", dir="auto"), el("details", summary, more), rest)


def anchor(record: Record) -> str:
    return f"m-{record.session}-{record.id}"


def _connection(each: RelatedLine, session: str, on_page: set[str]) -> Html:
    """`resolves FIND-0001`; a memory that is on the page is linked there."""
    name, _, id = each.ref.rpartition("/")
    if not each.exists:
        return el(
            "li",
            f"{each.words} ",
            el("span", id, class_="id"),
            el("small", " (not here: deleted for good, or archived)"),
        )
    if each.ref in on_page:
        link: Child = el("a", id if name == session else each.ref, href=f"#m-{name}-{id}", class_="id")
    elif each.is_turn:
        link = el("a", id, href=url("/memory/{}/{}", name, id), class_="id", title="on another page")
    else:
        link = memory_link(each.ref, session)
    return el("li", f"{each.words} ", link)
