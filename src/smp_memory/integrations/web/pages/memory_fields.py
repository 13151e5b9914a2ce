"""The fields of a memory as readable blocks: the main text, the known fields with their names, and any field that SMP does not know.

Texts and lists that are very long are cut, and the page says so; `?full=1` shows all of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import panel
from smp_memory.integrations.web.parts import memory_url, pairs, when
from smp_memory.integrations.web.words import counted, plain
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.record import name_and_content
from smp_memory.model.times import to_moment
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from datetime import datetime

    from smp_memory.integrations.web.lookup import LocatedMemory
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record

SHOWN_CHARACTERS = 12_000  # of one text, unless all of it is asked for
SHOWN_VALUES = 200  # of one list or object, unless all of them are asked for
_SHORT_CHARACTERS = 90
_DEEPEST = 4
_ELSEWHERE = frozenset([
    "author", "author_kind", "tags", "pinned", "relations", "references", "access", "status", "severity",
    "valid_from", "valid_until", "confidence", "importance", "visibility", "trust", "idempotency_key", "topic",
    "turn_ref", "role",
])  # fmt: skip
_FACTS = ("topic", "role", "confidence", "importance", "visibility", "trust", "turn_ref", "idempotency_key")
_LATEST_USES = 5
_MOST_LOG_BYTES = 1 << 20


def label_of(name: str) -> str:
    """`alternatives_considered` as a person reads it."""
    return name.replace("_", " ").strip().capitalize() or name


# -- texts and values


def main_text(request: PageRequest, record: Record) -> Html:
    """What the memory says, large; of an artifact its content as it is, of an agent's state its parts."""
    name, content = name_and_content(record)
    head = el("p", plain(name), class_="said-name") if name else None
    if KINDS[record.type].is_own_object:
        head = el("p", plain(record.given.get("name") or record.given.get("path") or ""), class_="said-name")
        content = record.given.get("content")
        if content is None:
            return join(head, el("p", "Only its name or path is stored, no content.", class_="note"))
        return join(head, _block(request, record, content))
    if not isinstance(content, str):
        return join(head, el("div", value_html(request, record, content), class_="said-value"))
    is_long = len(content) > 600 or content.count("\n") > 8
    return join(
        head, el("div", _cut(request, record, content), class_=f"said big{' long' if is_long else ''}", dir="auto")
    )


def field_blocks(request: PageRequest, record: Record) -> Html | None:
    """The other fields, in the order of their type, then those that SMP does not know."""
    kind = KINDS[record.type]
    shown_above = {kind.text, *kind.parts} | ({"name", "path"} if kind.is_own_object else set())
    names = [name for name in record.given if name not in _ELSEWHERE and name not in shown_above]
    names.sort(key=lambda name: kind.rank.get(name, 99))
    names, more = first_values(request, record, names)
    rows = [
        join(el("dt", label_of(name)), el("dd", value_html(request, record, record.given[name]), dir="auto"))
        for name in names
        if record.given[name] not in (None, "", [], {})
    ]
    return join(el("dl", rows, class_="fields"), el("p", more) if more else None) if rows else None


def value_html(request: PageRequest, record: Record, value: Any, depth: int = 0) -> Html:
    """Any JSON value in a readable form."""
    if isinstance(value, str):
        is_short = len(value) <= _SHORT_CHARACTERS and "\n" not in value
        return join(value) if is_short else el("div", _cut(request, record, value), class_="prose")
    if depth >= _DEEPEST and isinstance(value, (dict, list)):
        return el("code", _cut(request, record, json.dumps(value, ensure_ascii=False)))
    if isinstance(value, dict):
        items, more = first_values(request, record, list(value.items()))
        return join(
            pairs((label_of(str(key)), value_html(request, record, each, depth + 1)) for key, each in items), more
        )
    if isinstance(value, list):
        items, more = first_values(request, record, value)
        rows = [el("li", value_html(request, record, each, depth + 1)) for each in items]
        return el("ul", rows, el("li", more) if more else None, class_="values")
    return join(plain(value))


def first_values(request: PageRequest, record: Record, values: list[Any]) -> tuple[list[Any], Html | None]:
    """The values to show, and a link to all of them if there are more."""
    if len(values) <= SHOWN_VALUES or request.get("full"):
        return values, None
    link = el("a", f"Show all {len(values):,}", href=url(memory_url(record.ref), full=1))
    return values[:SHOWN_VALUES], el("span", link, class_="cut")


def _block(request: PageRequest, record: Record, content: Any) -> Html:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
    return el("pre", _cut(request, record, text), dir="auto", tabindex=0, aria_label="Content")


def _cut(request: PageRequest, record: Record, text: str) -> Child:
    if len(text) <= SHOWN_CHARACTERS or request.get("full"):
        return text
    link = el("a", f"Show all {len(text):,} characters", href=url(memory_url(record.ref), full=1))
    return join(text[:SHOWN_CHARACTERS], "… ", el("span", link, class_="cut"))


# -- facts


def facts(request: PageRequest, found: LocatedMemory, record: Record) -> Html:
    """Who may see it, how sure it is, and how often it was used."""
    data = record.given
    rows: list[tuple[Child, Child]] = [
        (label_of(name), value_html(request, record, data[name]))
        for name in _FACTS
        if data.get(name) not in (None, "", [])
    ]
    rows.append(("Uses", _uses(request, found, record)))
    return panel("Facts", pairs(rows))


def _uses(request: PageRequest, found: LocatedMemory, record: Record) -> Html:
    count, last = access_of(request, found, record)
    if not count or last is None:
        return join("Not used yet. Being recalled for an agent or read in Python counts; looking at it here does not.")
    latest = _latest_uses(request, found.ref)
    more = [join(el("br"), when(each, request.now)) for each in latest[1:]]
    return join(counted(count, "time"), ", last ", when(last, request.now), more)


def access_of(request: PageRequest, found: LocatedMemory, record: Record) -> tuple[int, datetime | None]:
    """How often it was used and when last: by the index for a live session, else by the file."""
    if found.session is None or found.cold is not None:
        return _stored_access(record)

    asked = CandidateRequest(sessions=[found.session_id], refs=[found.ref], include_deleted=True)
    known = request.memory.store.indexer.candidates(asked).matches
    count, last_us = (known[0].access_count, known[0].last_access or 0) if known else (0, 0)
    return count, _moment(last_us / 1e6) if last_us else None


def _stored_access(record: Record) -> tuple[int, datetime | None]:
    """What the file says; a person or a program may have written anything there."""
    given = record.access if isinstance(record.access, dict) else {}
    count, last = given.get("count"), given.get("last")
    try:
        moment = to_moment(last) if isinstance(last, str) else None
    except (ValueError, OverflowError):
        moment = None
    return (count if type(count) is int and count > 0 else 0), moment


def _latest_uses(request: PageRequest, ref: str) -> list[datetime]:
    """The latest uses of which the log still has the times, the newest first."""
    log = request.memory.store.access
    if log.size_bytes() > _MOST_LOG_BYTES:
        return []
    read, _ = log.read(0)
    times = [at for name, at in [*read, *log.pending()] if name == ref]
    return [_moment(at) for at in sorted(times, reverse=True)[:_LATEST_USES]]


def _moment(seconds: float) -> datetime:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC)
