"""What several pages show: a memory in a line, its marks, its score as bars, times, differences."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from smp_memory.integrations.web.html import Child, Html, el, escape, join, url, visible
from smp_memory.integrations.web.words import ago, line_of, moment_text, shortened, size_text
from smp_memory.model.times import validity_text
from smp_memory.model.types import KINDS
from smp_memory.search.scoring import PARTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record

LINE_CHARACTERS = 280
_COMPARED_WORDS = 2000
_WORD = re.compile(r"\w+")
_GRAVE = ("critical", "high")
_PART_TITLES = {
    "text": "words of the query",
    "context": "turns around it",
    "session": "its session",
    "author": "names its author",
    "time": "names its time",
    "meaning": "meaning",
}


def memory_url(ref: str) -> str:
    session, _, id = ref.partition("/")
    return url("/memory/{}/{}", session, id)


def memory_link(ref: str, session: str | None = None) -> Html:
    """The id of a memory as a link; with its session unless that is `session`."""
    name, _, id = ref.partition("/")
    return el("a", id if name == session else ref, href=memory_url(ref), class_="id", data_aside=True)


def when(moment: datetime, now: datetime) -> Html:
    """How long ago; the exact time is its title."""
    return el("time", ago(moment, now), datetime=moment.isoformat(), title=f"{moment_text(moment)} UTC")


def tag(text: str, kind: str = "") -> Html:
    return el("span", text, class_=f"tag {kind}".strip())


def marks(record: Record) -> list[Html]:
    """Severity, status, validity, pin and the like, as far as a memory has them."""
    data, kind = record.given, KINDS[record.type]
    found = []
    severity = data.get("severity")
    if severity:
        found.append(tag(str(severity), "crit" if str(severity).lower() in _GRAVE else "warn"))
    status = record.status if kind.is_open_until_closed else data.get("status")
    if status:
        found.append(tag(str(status)))
    if validity_text(data):
        found.append(tag(validity_text(data)))
    if record.revision > 1:
        found.append(tag(f"revision {record.revision}"))
    if record.pinned:
        found.append(tag("pinned", "on"))
    if record.deleted:
        found.append(tag("deleted", "crit"))
    if record.edited or record.typed_by_hand:
        found.append(tag("edited by hand"))
    return found


def highlighted(text: str, words: Collection[str]) -> Html:
    """The text with the words of a query marked."""
    if not words:
        return escape(text)
    pieces: list[Child] = []
    at = 0
    for found in _WORD.finditer(text):
        if found[0].casefold() in words or _stem(found[0]) in words:
            pieces += [text[at : found.start()], el("mark", found[0])]
            at = found.end()
    return join(*pieces, text[at:])


def words_of(text: str) -> frozenset[str]:
    """The words of a query that are marked in memories, with their stems."""
    from smp_memory.text.tokenizer import STOP_WORDS

    found = [each for each in _WORD.findall(text) if each.casefold() not in STOP_WORDS]
    return frozenset([each.casefold() for each in found] + [_stem(each) for each in found])


def _stem(word: str) -> str:
    from smp_memory.text.tokenizer import terms

    return next(iter(terms(word)), word.casefold())


def author_of(record: Record) -> str:
    return str(record.author or "")


def item(
    record: Record,
    now: datetime,
    *,
    score: Child = None,
    side: Child = None,
    words: Collection[str] = (),
    session: str | None = None,
    text: str | None = None,
    more: Child = None,
) -> Html:
    """A memory in a list. `session` is the one that the list is about; ids of others get their session."""
    said = visible(shortened(line_of(record) if text is None else text, LINE_CHARACTERS))
    name = author_of(record)
    meta = join(
        memory_link(record.ref, session),
        " ",
        el("span", name, class_="who") if name else None,
        " ",
        when(record.created, now),
        " ",
        [join(mark, " ") for mark in marks(record)],
    )
    return el(
        "article",
        el("div", score if score is not None else "–", el("small", KINDS[record.type].noun), class_="score"),
        el("div", el("p", highlighted(said, words), class_="said", dir="auto"), el("div", meta, class_="meta"), more),
        el("div", side, class_="why") if side is not None else None,
        class_="item",
        data_href=memory_url(record.ref),
        tabindex="-1",
    )


def score_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def score_bar(explain: Mapping[str, Any], *, width: int = 150) -> Html | None:
    """The parts of a score as one bar; its title names them."""
    parts = [
        (name, explain[name]) for name in PARTS if isinstance(explain.get(name), (int, float)) and explain[name] > 0
    ]
    if not parts:
        return None
    factor = 1.0
    for name in ("strength", "worth", "fading", "session_idle", "settled"):
        value = explain.get(name)
        factor *= value if isinstance(value, (int, float)) else 1.0
    at, pieces = 0.0, []
    for name, value in parts:
        length = width * min(value * factor, 1.0)
        pieces.append(f'<rect class="part-{name}" x="{at:.1f}" width="{length:.1f}" height="6"/>')
        at += length
    title = ", ".join(f"{_PART_TITLES[name]} {value * factor:.2f}" for name, value in parts)
    body = Html(f'<rect class="rest" width="{width}" height="6"/>{"".join(pieces)}')
    return el(
        "svg",
        el("title", title),
        body,
        viewBox=f"0 0 {width} 6",
        width=width,
        height=6,
        class_="bar",
        role="img",
        aria_label=title,
    )


def score_legend() -> Html:
    """What the colours of `score_bar` mean."""
    return el(
        "div",
        [el("span", _square(f"part-{name}"), f" {title}") for name, title in _PART_TITLES.items()],
        class_="legend",
    )


def _square(kind: str) -> Html:
    return Html(
        f'<svg viewBox="0 0 8 8" width="8" height="8" aria-hidden="true"><rect class="{kind}" width="8" height="8" rx="2"/></svg>'
    )


def score_table(explain: Mapping[str, Any]) -> Html | None:
    """The parts of a score, each with its bar, and the factors by which their sum is multiplied."""
    parts = [(name, explain[name]) for name in PARTS if isinstance(explain.get(name), (int, float))]
    if not parts:
        return None
    rows = [
        el(
            "tr",
            el("th", _PART_TITLES[name], scope="row"),
            el("td", f"{value:.2f}"),
            el("td", _bar(value, f"part-{name}")),
        )
        for name, value in parts
    ]
    titles = {
        "strength": "strength of the best match",
        "worth": "worth of the text",
        "fading": "fading",
        "session_idle": "idle session",
        "settled": "settled",
    }
    factors = [
        el(
            "tr",
            el("th", f"× {title}", scope="row"),
            el("td", f"{explain[name]:.2f}"),
            el("td", _bar(explain[name], "factor")),
        )
        for name, title in titles.items()
        if isinstance(explain.get(name), (int, float))
    ]
    return el("table", el("tbody", rows, factors), class_="scores")


def _bar(value: float, kind: str) -> Html:
    length = 90 * min(max(value, 0.0), 1.0)
    return Html(
        f'<svg class="bar" viewBox="0 0 90 6" width="90" height="6" aria-hidden="true"><rect class="rest" width="90" height="6"/><rect class="{kind}" width="{length:.1f}" height="6"/></svg>'
    )


def stacked_meter(shares: Iterable[tuple[str, str, float]], whole: float, label: str) -> Html:
    """Shares of a whole as a bar with a legend: (class, title, value)."""
    at, pieces, legend = 0.0, [], []
    for kind, title, value in shares:
        length = 300 * value / whole if whole else 0.0
        pieces.append(f'<rect class="{kind}" x="{at:.1f}" width="{length:.1f}" height="8"/>')
        at += length
        legend.append(el("span", _square(kind), f" {title}"))
    body = Html(f'<rect class="rest" width="300" height="8"/>{"".join(pieces)}')
    svg = el("svg", body, viewBox="0 0 300 8", class_="meter", role="img", aria_label=label, preserveAspectRatio="none")
    return join(svg, el("div", legend, class_="legend"))


def difference(before: str, after: str) -> Html:
    """Two texts as one, with what was removed and what was added."""
    old, new = re.findall(r"\s+|\w+|[^\w\s]", before), re.findall(r"\s+|\w+|[^\w\s]", after)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    head, tail = "".join(old[:start]), "".join(old[len(old) - end :])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    return join(head, _changed(old, new), tail)


def _common(old: list[str], new: list[str]) -> int:
    """The length of the beginning that two lists have in common."""
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _changed(old: list[str], new: list[str]) -> Html:
    """What lies between the common beginning and end. Comparing long or repetitive texts word by word would take seconds."""
    removed, added = "".join(old), "".join(new)
    if not old or not new or len(old) + len(new) > _COMPARED_WORDS or len({*old, *new}) * 8 < len(old) + len(new):
        return join(el("del", removed) if old else None, el("ins", added) if new else None)
    pieces: list[Child] = []
    for op, a, b, c, d in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if op == "equal":
            pieces.append("".join(old[a:b]))
            continue
        if b > a:
            pieces.append(el("del", "".join(old[a:b])))
        if d > c:
            pieces.append(el("ins", "".join(new[c:d])))
    return join(*pieces)


def pairs(rows: Iterable[tuple[Child, Child]]) -> Html:
    """A list of names and values; rows without a value are left out."""
    return el("dl", [join(el("dt", name), el("dd", value)) for name, value in rows if value not in (None, "")])


def options(values: Iterable[str | tuple[str, str]], chosen: str) -> list[Html]:
    """The options of a select; a pair is a value and its label."""
    each = [(value, value) if isinstance(value, str) else value for value in values]
    return [el("option", label, value=value, selected=value == chosen) for value, label in each]


def quota_meter(used_bytes: int, quota_bytes: int) -> Html:
    """How full a session is, as a small bar with its figures."""
    share = min(used_bytes / quota_bytes, 1.0) if quota_bytes else 0.0
    kind = "crit" if share >= 0.95 else "warn" if share >= 0.8 else "fine"
    label = f"{size_text(used_bytes)} of {size_text(quota_bytes)}"
    bar = Html(
        f'<svg class="quota {kind}" viewBox="0 0 80 6" width="80" height="6" aria-hidden="true"><rect class="rest" width="80" height="6"/><rect class="used" width="{max(80 * share, 1.0):.1f}" height="6"/></svg>'
    )
    return el(
        "span",
        bar,
        el("small", f"{size_text(used_bytes)}, {'under 1%' if 0 < share < 0.01 else f'{share:.0%}'}"),
        class_="quota-line",
        title=label,
    )


def pager(
    back: str | None, on: str | None, label: str, words: tuple[str, str] = ("← Previous", "Next →")
) -> Html | None:
    """Links to the pages before and after this one; None if there are none."""
    if back is None and on is None:
        return None
    links = [el("a", word, href=href) if href else el("span") for href, word in zip((back, on), words, strict=True)]
    return el("nav", links, class_="pager", aria_label=label)


def hidden_fields(request: PageRequest, *left_out: str) -> list[Html]:
    """The values of the address as hidden fields of a form, so that a filter keeps the others."""
    return [
        el("input", type="hidden", name=name, value=value)
        for name in dict.fromkeys(request.query)
        for value in request.all(name)
        if name not in (*left_out, "done", "offset")
    ]


def same_page(request: PageRequest, **changes: Any) -> str:
    """The address of this page with some values changed; without its offset unless that is given."""
    given = {name: request.all(name) for name in request.query if name not in ("offset", "done")}
    return url(quote(request.path), **{**given, **changes})
