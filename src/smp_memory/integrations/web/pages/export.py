"""Download one memory, a session, the result of a search, or the whole store, as JSON, JSONL, YAML or Markdown.

The form is a page; the download is the answer to its POST, because it leaves a line in the audit log. Nothing else is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.datastructures import QueryParams
from starlette.responses import Response

from smp_memory import exchange
from smp_memory.errors import InvalidQuery, InvalidRecord, SMPError
from smp_memory.integrations.web.forms import Form, field, form_response
from smp_memory.integrations.web.pages.search import query_options
from smp_memory.integrations.web.parts import memories, memory_url, url
from smp_memory.model import ids
from smp_memory.privacy.anonymisation import Placeholders
from smp_memory.scope import Scope

if TYPE_CHECKING:
    from smp_memory.integrations.web.request import PageRequest

_FORMATS = (("markdown", "Markdown"), ("json", "JSON"), ("jsonl", "JSONL"), ("yaml", "YAML"))
_ENDINGS = {"markdown": "md", "json": "json", "jsonl": "jsonl", "yaml": "yaml"}
_TYPES = {
    "markdown": "text/markdown",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "yaml": "application/yaml",
}
_MOST_HITS = 5000


def form_page(request: PageRequest) -> Response:
    """The form: what is exported (`ref`, `session`, or the address of a `search` without its path), and in which format."""
    return form_response(request, _form(request, request.get("ref"), request.get("session"), request.get("search")))


def _form(request: PageRequest, ref: str, session: str, search: str, error: SMPError | None = None) -> Form:
    what, back, hidden = _described(request, ref, session, search)
    format = request.form.get("format", "markdown")
    note = "The file holds the whole history, deleted memories of it included; `smp import` takes it in again. The audit log notes the export."
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
