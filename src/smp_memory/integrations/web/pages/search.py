"""The page Search: search as you type, with filters, counts for each filter, and the score of each hit explained.

A memory that is not found can be named: the page says why (`Memory.explain`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SMPError
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import heading, page, panel, problems_banner
from smp_memory.integrations.web.parts import item, memory_link, options, score_bar, score_table, score_text, words_of
from smp_memory.integrations.web.words import counted
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.hits import Hit, Hits
    from smp_memory.search.explanation import Explanation

PAGE_HITS = 25
RESULTS = "results"  # as you type, the hits come first, and the counts of all matches after them
_FACETS = (
    ("type", "types", "Type"),
    ("tag", "tags", "Tag"),
    ("agent", "agents", "Author"),
    ("session", "sessions", "Session"),
)
_MOST_VALUES = 8  # of each facet
_TIMES = (
    ("", "any time"),
    ("last 24 hours", "last 24 hours"),
    ("last 7 days", "last 7 days"),
    ("last 30 days", "last 30 days"),
    ("last 365 days", "last year"),
)
_SORTS = (
    ("relevance", "best first"),
    ("newest", "newest first"),
    ("oldest", "oldest first"),
    ("priority", "highest priority first"),
)


def search_page(request: PageRequest) -> Response:
    text = request.get("q")
    began = time.perf_counter()
    hits = request.memory.query(text or None, **query_options(request))
    milliseconds = 1000 * (time.perf_counter() - began)
    title = f"{text} · Search" if text else "Search"
    content = el(
        "div",
        el("aside", _form(request, text), _facets(request, hits), aria_label="Filters"),
        el("div", _results(request, text, hits, milliseconds), class_="column"),
        class_="grid two",
    )
    return page(
        request,
        title,
        "search",
        heading("Search", 'Any word may match; rare words count more. Use "a phrase", prefix*, -without.'),
        content,
    )


def query_options(request: PageRequest) -> dict[str, Any]:
    """The options of `Memory.query` that the address asks for."""
    offset = int(request.number("offset", 0, 0, 10_000))
    given: dict[str, Any] = {name: request.all(key) for key, name, _ in _FACETS if request.all(key)}
    if request.get("time"):
        given["time"] = request.get("time")
    for name in ("include_deleted", "include_archived", "include_expired"):
        if request.get(name):
            given[name] = True
    if request.get("floor"):
        given["min_relevance"] = request.number("floor", 0.0, 0.0, 1.0)
    sort = request.get("sort") or ("relevance" if request.get("q") else "newest")
    return given | {
        "sort": sort,
        "limit": PAGE_HITS,
        "offset": offset,
        "track_access": False,
        "count_by": None if request.part == RESULTS else [key for key, _, _ in _FACETS],
    }


def address(request: PageRequest, **changes: Any) -> str:
    """The address of this search with some values changed; without its offset unless that is given."""
    given: dict[str, Any] = {name: request.all(name) for name in request.query if name not in ("offset", "done")}
    return url("/search", **{**given, **changes})


def _form(request: PageRequest, text: str) -> Html:
    checks = (("include_expired", "no longer valid"), ("include_deleted", "deleted"), ("include_archived", "archived"))
    return el(
        "form",
        el("label", "Words", for_="q"),
        el("input", id="q", type="search", name="q", value=text, autocomplete="off", autofocus=True, maxlength=2000),
        el("label", "Time", for_="time"),
        el("select", options(_TIMES, request.get("time")), id="time", name="time"),
        el("label", "Order", for_="sort"),
        el("select", options(_SORTS, request.get("sort")), id="sort", name="sort"),
        el(
            "fieldset",
            el("legend", "Also show"),
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
        [el("input", type="hidden", name=key, value=value) for key, _, _ in _FACETS for value in request.all(key)],
        el("noscript", el("button", "Search", class_="primary")),
        action="/search",
        class_="panel",
        data_instant="results",
        data_later="facets summary",
    )


def _facets(request: PageRequest, hits: Hits) -> Html:
    return el("div", [_facet(request, hits, *each) for each in _FACETS], id="facets")


def _facet(request: PageRequest, hits: Hits, key: str, _: str, title: str) -> Html | None:
    chosen = request.all(key)
    counts = dict(sorted(hits.counts.get(key, {}).items(), key=lambda each: (-each[1], each[0])))
    names = list(dict.fromkeys([*chosen, *counts]))
    if not names:
        return None
    shown, rest = names[:_MOST_VALUES], names[_MOST_VALUES:]
    values = [_facet_value(request, key, name, counts.get(name, 0), chosen) for name in shown]
    more = [_facet_value(request, key, name, counts.get(name, 0), chosen) for name in rest[:200]]
    folded = el("details", el("summary", f"{len(rest):,} more"), el("ul", more)) if rest else None
    return panel(title, el("ul", values), folded, class_="facet")


def _facet_value(request: PageRequest, key: str, name: str, count: int, chosen: list[str]) -> Html:
    is_chosen = name in chosen
    values = [each for each in chosen if each != name] if is_chosen else [*chosen, name]
    label = KINDS[name].plural.replace("_", " ") if key == "type" and name in KINDS else name
    link = el(
        "a",
        el("span", label or "none", class_="name"),
        el("span", f"{count:,}", class_="count"),
        href=address(request, **{key: values}),
        aria_current="true" if is_chosen else None,
    )
    return el("li", link)


def _results(request: PageRequest, text: str, hits: Hits, milliseconds: float) -> Html:
    offset = int(request.number("offset", 0, 0, 10_000))
    return el(
        "section",
        el(
            "h2",
            el("span", _summary(text, hits, offset), id="summary"),
            _export_link(request, hits),
            el("small", f"{milliseconds:.0f} ms", class_="side"),
        ),
        problems_banner(list(hits.problems), hits.archived_not_searched),
        [el("p", each, class_="note") for each in _notes(hits)],
        [_hit(request, hit, text) for hit in hits] or el("p", "No memory matches.", class_="empty"),
        _pager(request, hits, offset),
        _why_not(request, text),
        id="results",
        class_="panel",
        data_live=True,
    )


def _export_link(request: PageRequest, hits: Hits) -> Html | None:
    search = address(request, why_not=None).partition("?")[2]
    return el("a", "Export…", href=url("/export", search=search), data_dialog=True) if search and hits else None


def _summary(text: str, hits: Hits, offset: int) -> str:
    if not hits and not offset:
        return "Nothing found"
    if not hits.counts:
        return (
            f"{offset + 1:,} to {offset + len(hits):,}"
            if hits.more or offset
            else counted(len(hits), "memory", "memories")
        )
    total = sum(hits.counts.get("type", {}).values())
    shown = (
        f"{offset + 1:,} to {offset + len(hits):,} of {total:,}"
        if hits.more or offset
        else counted(total, "memory", "memories")
    )
    return f"{shown}{' that match' if text else ''}"


def _notes(hits: Hits) -> list[str]:
    said = [
        f"“{wrong}” is not in this store; “{right}” was searched as well." for wrong, right in hits.corrected.items()
    ]
    if hits.not_valid:
        said.append(f"{counted(hits.not_valid, 'match', 'matches')} left out: no longer valid, or not yet.")
    return said + list(hits.warnings)


def _hit(request: PageRequest, hit: Hit, text: str) -> Html:
    side: Child = None
    more: Child = None
    if text:
        explain = hit.explain
        side = join(score_bar(explain), el("small", f"{hit.relevance:.0%} likely to answer"))
        more = el("details", el("summary", "why"), score_table(explain))
    if hit.superseded_by or hit.outdated_by:
        by = hit.superseded_by or hit.outdated_by or ""
        side = join(
            el("span", "superseded by " if hit.superseded_by else "newer: ", memory_link(by), class_="tag warn"), side
        )
    return item(
        hit.record,
        request.now,
        score=score_text(hit.score if text else hit.priority),
        side=side,
        more=more,
        words=words_of(text) if text else (),
    )


def _pager(request: PageRequest, hits: Hits, offset: int) -> Html | None:
    if not hits.more and not offset:
        return None
    back = el("a", "← Previous", href=address(request, offset=max(offset - PAGE_HITS, 0) or None)) if offset else None
    on = el("a", "Next →", href=address(request, offset=offset + PAGE_HITS)) if hits.more else None
    return el("nav", back, on, class_="pager", aria_label="Pages of results")


def _why_not(request: PageRequest, text: str) -> Html:
    """A form that names a memory, and the reason why it is not among the hits."""
    ref = request.get("why_not")
    hidden = [
        el("input", type="hidden", name=name, value=value)
        for name in request.query
        for value in request.all(name)
        if name not in ("why_not", "done", "offset")
    ]
    ask = el(
        "form",
        hidden,
        el("label", "Missing one? Name it, and see why it is not here", for_="why_not"),
        el(
            "div",
            el("input", id="why_not", name="why_not", value=ref, placeholder="session/DEC-0001", autocomplete="off"),
            el("button", "Explain"),
            class_="row",
        ),
        action="/search",
    )
    return el("div", ask, _explanation(request, text, ref) if ref else None, class_="why-not", id="why-not")


def _explanation(request: PageRequest, text: str, ref: str) -> Html:
    options = query_options(request)
    options.pop("count_by")
    try:
        found = request.memory.explain(ref, text or None, **options)
    except SMPError as error:
        return el("p", error.message, class_="error-text")
    return explanation(found)


def explanation(found: Explanation) -> Html:
    """Why a memory is among the hits of a query, or why not."""
    verdict = (
        f"Found at rank {found.rank:,}." if found.rank else "Found." if found.found else "Not found by this search."
    )
    reasons = el("ul", [el("li", each) for each in found.reasons]) if found.reasons else None
    figures = f"Score {found.score:.2f}" if found.score is not None else ""
    if found.relevance is not None:
        figures += f", {found.relevance:.0%} likely to answer"
    return el(
        "div",
        el("p", el("b", verdict)),
        reasons,
        el("p", figures, class_="hint") if figures else None,
        score_table(found.parts),
        class_="explanation",
    )
