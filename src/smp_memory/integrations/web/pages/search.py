"""The page Search: search as you type, with filters, counts for each filter, and the score of each hit explained.

A memory that is not found can be named: the page says why (`Memory.explain`). The page Export downloads one memory, a session, the
result of a search, or the whole store, as JSON, JSONL, YAML or Markdown: the download is the answer to the POST of its form, because it
leaves a line in the audit log. Nothing else is changed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.datastructures import QueryParams
from starlette.responses import Response

from smp_memory import exchange
from smp_memory.errors import InvalidQuery, InvalidRecord, SMPError
from smp_memory.integrations.web.forms import Form, field, form_response
from smp_memory.integrations.web.parts import choices, counted, memories, memory_url, plural_of, url, words_of
from smp_memory.integrations.web.renderer import page
from smp_memory.model import ids
from smp_memory.model.types import KINDS, SEVERITIES
from smp_memory.privacy.anonymisation import Placeholders
from smp_memory.scope import Scope

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.candidates import Hits
    from smp_memory.search.explanation import Explanation

_FORMATS = (("markdown", "Markdown"), ("json", "JSON"), ("jsonl", "JSONL"), ("yaml", "YAML"))
_ENDINGS = {"markdown": "md", "json": "json", "jsonl": "jsonl", "yaml": "yaml"}
_TYPES = {
    "markdown": "text/markdown",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "yaml": "application/yaml",
}
_MOST_HITS = 5000


def export_page(request: PageRequest) -> Response:
    """The form: what is exported (`ref`, `session`, or the address of a `search` without its path), and in which format."""
    return form_response(request, _form(request, request.get("ref"), request.get("session"), request.get("search")))


def _form(request: PageRequest, ref: str, session: str, search: str, error: SMPError | None = None) -> Form:
    what, back, hidden = _described(request, ref, session, search)
    format = request.form.get("format", "markdown")
    note = "The file contains the whole history, including deleted memories; `smp import` imports it again. The export is noted in the audit log."
    fields = [field("format", "Format", "select", value=format, options=_FORMATS, error=error)]
    return Form(
        f"Export {what}", "/export", back, "Download", fields, hidden=hidden, notes=[note], template="export.html",
        values={"is_anonymised": bool(request.form.get("anonymise"))},
    )  # fmt: skip


def _described(request: PageRequest, ref: str, session: str, search: str) -> tuple[str, str, dict[str, str]]:
    """What is exported in words, the page to return to, and the hidden field that names it."""
    if ref:
        return ref, memory_url(ref), {"ref": ref}
    if session:
        return f"session {session}", url("/session/{}", session), {"session": session}
    if search:
        count = len(_found(request, search))
        limit = " (the most that one export takes)" if count >= _MOST_HITS else ""
        return f"{memories(count)} that the search finds{limit}", f"/search?{search}", {"search": search}
    return "the whole store", "/sessions", {}


def download(request: PageRequest) -> Response:
    """The download. It is done in the name of the person, and leaves a line in the audit log for each session."""
    ref, session, search = (request.form.get(name, "").strip() for name in ("ref", "session", "search"))
    try:
        name, text, format = _exported(request, ref, session, search)
    except SMPError as error:
        return form_response(request, _form(request, ref, session, search, error), error)
    headers = {"content-disposition": f'attachment; filename="{name}.{_ENDINGS[format]}"'}
    return Response(text, 200, headers, media_type=f"{_TYPES[format]}; charset=utf-8")


def _exported(request: PageRequest, ref: str, session: str, search: str) -> tuple[str, str, str]:
    """The name of the file, its text and its format."""
    format = request.form.get("format", "markdown")
    if format not in _ENDINGS:
        raise InvalidRecord(
            f"format: {format[:40]!r} is not a format. Use one of: {', '.join(_ENDINGS)}.", field="format"
        )
    anonymise = Placeholders() if request.form.get("anonymise") else None
    memory, author = request.memory, request.inspector.author
    if session:
        opened = memory.opened_session(ids.check(session, "session"), author=author)
        return session, opened.export(None, format, anonymise=anonymise), format
    scope = Scope(memory.store, None, memory.config, memory.scope.clock, author=author)
    if ref or search:
        refs = [ref] if ref else _found(request, search)
        name = ref.replace("/", "-") if ref else "search"
        text = exchange.api.export_memories(scope, refs, format, anonymise=anonymise)
        return _safe(name), text, format
    return "store", exchange.api.export(scope, None, format, anonymise=anonymise), format


def _safe(name: str) -> str:
    """A file name of letters, digits, `_` and `-`."""
    return (
        "".join(each if each.isascii() and (each.isalnum() or each in "_-") else "_" for each in name)[:130]
        or "memories"
    )


def _found(request: PageRequest, search: str) -> list[str]:
    """`session/ID` of the memories that a search finds, at most 5,000."""
    asked = request._replace(query=QueryParams(parse_qsl(search)))
    given = query_options(asked)
    if given.get("include_archived"):
        raise InvalidQuery(
            "include_archived: memories in archives are not exported from a search. Restore the session first."
        )
    given = {name: value for name, value in given.items() if name != "count_by"} | {"limit": _MOST_HITS, "offset": 0}
    return [record.ref for record in request.memory.query(asked.get("q") or None, **given).records]


PAGE_HITS = 25
RESULTS = "results"  # as you type, the hits come first, and the counts of all matches after them
_FACETS = (
    ("type", "types", "Type"),
    ("tag", "tags", "Tag"),
    ("agent", "agents", "Author"),
    ("session", "sessions", "Session"),
)
_FIELDS = ("severity", "status")
_SHOWN = ("include_deleted", "include_archived", "include_expired")
_FILTERS = ("time", *_FIELDS, *_SHOWN)
_MOST_VALUES, _MOST_FOLDED = 8, 200  # of each facet
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


class FacetValue(NamedTuple):
    label: str
    memories: int
    href: str  # the search with it, or without it if it is chosen
    is_chosen: bool


class Facet(NamedTuple):
    title: str
    values: list[FacetValue]
    folded: list[FacetValue]
    more: int  # values that are not shown at once


def search_page(request: PageRequest) -> Response:
    text = request.get("q")
    began = time.perf_counter()
    hits = request.memory.query(text or None, **query_options(request))
    milliseconds = 1000 * (time.perf_counter() - began)
    offset = int(request.number("offset", 0, 0, 10_000))
    return page(
        request,
        "search.html",
        f"{text} · Search" if text else "Search",
        "search",
        text=text,
        hits=hits,
        milliseconds=milliseconds,
        times=_TIMES,
        sorts=_SORTS,
        words_of_fields=_fields(request),
        active=sum(bool(request.get(name)) for name in (*_FILTERS, *(key for key, _, _ in _FACETS))),
        only_session=_only(request.all("session")),
        chosen=[(key, value) for key, _, _ in _FACETS for value in request.all(key)],
        facets=[facet for each in _FACETS if (facet := _facet(request, hits, *each)) is not None],
        summary=_summary(text, hits, offset),
        notes_of_hits=_notes(hits),
        export=request.address(why_not=None).partition("?")[2] if hits else "",
        words=words_of(text) if text else (),
        back=request.address(offset=max(offset - PAGE_HITS, 0) or None) if offset else None,
        on=request.address(offset=offset + PAGE_HITS) if hits.more else None,
        explanation=_explanation(request, text),
        kept=[
            (name, value)
            for name in request.query
            for value in request.all(name)
            if name not in ("why_not", "done", "offset")
        ],
    )


def _only(values: list[str]) -> str | None:
    return values[0] if len(values) == 1 else None


def _fields(request: PageRequest) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The fields with known values that the chosen types have, all types if none is chosen: name, title, choices."""
    names = [name for name in request.all("type") if name in KINDS] or list(KINDS)
    kinds = [KINDS[name] for name in names]
    severities = SEVERITIES if any(kind.has_severity for kind in kinds) else ()
    statuses = dict.fromkeys(status for kind in kinds for status in kind.statuses)
    found = [("severity", "Severity", severities), ("status", "Status", tuple(statuses))]
    return [(name, title, choices(values, request.get(name))) for name, title, values in found if values]


def query_options(request: PageRequest) -> dict[str, Any]:
    """The options of `Memory.query` that the address asks for."""
    offset = int(request.number("offset", 0, 0, 10_000))
    given: dict[str, Any] = {name: request.all(key) for key, name, _ in _FACETS if request.all(key)}
    if request.get("time"):
        given["time"] = request.get("time")
    where = {name: request.get(name) for name in _FIELDS if request.get(name)}
    if where:
        given["where"] = where
    for name in _SHOWN:
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


def _facet(request: PageRequest, hits: Hits, key: str, _: str, title: str) -> Facet | None:
    chosen = request.all(key)
    counts = dict(sorted(hits.counts.get(key, {}).items(), key=lambda each: (-each[1], each[0])))
    names = list(dict.fromkeys([*chosen, *counts]))
    if not names:
        return None
    values = [
        _facet_value(request, key, name, counts.get(name, 0), chosen) for name in names[: _MOST_VALUES + _MOST_FOLDED]
    ]
    return Facet(title, values[:_MOST_VALUES], values[_MOST_VALUES:], len(names) - _MOST_VALUES)


def _facet_value(request: PageRequest, key: str, name: str, count: int, chosen: list[str]) -> FacetValue:
    is_chosen = name in chosen
    values = [each for each in chosen if each != name] if is_chosen else [*chosen, name]
    label = plural_of(name) if key == "type" else name
    return FacetValue(label or "none", count, request.address(**{key: values}), is_chosen)


def _summary(text: str, hits: Hits, offset: int) -> str:
    if not hits and not offset:
        return "Nothing found"
    total = sum(hits.counts.get("type", {}).values()) if hits.counts else len(hits)
    shown = memories(total)
    if hits.more or offset:
        shown = f"{offset + 1:,} to {offset + len(hits):,}" + (f" of {total:,}" if hits.counts else "")
    return f"{shown}{' that match' if text and hits.counts else ''}"


def _notes(hits: Hits) -> list[str]:
    said = [
        f"“{wrong}” is not in this store; “{right}” was searched as well." for wrong, right in hits.corrected.items()
    ]
    if hits.not_valid:
        said.append(f"{counted(hits.not_valid, 'match', 'matches')} left out: no longer valid, or not yet.")
    return said + list(hits.warnings)


def _explanation(request: PageRequest, text: str) -> Explanation | str | None:
    """Why the memory that was named is among the hits, or why not; the message of an error as a text."""
    ref = request.get("why_not")
    if not ref:
        return None
    options = query_options(request)
    options.pop("count_by")
    try:
        return request.memory.explain(ref, text or None, **options)
    except SMPError as error:
        return error.message
