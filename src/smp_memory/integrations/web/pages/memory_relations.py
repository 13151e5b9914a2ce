"""The memories that one memory is connected with: as a picture that can be walked, as a list, and similar ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.relation_chart import Neighbour, relation_graph
from smp_memory.errors import InvalidRecord, MemoryNotFound, SessionArchived, SessionNotFound
from smp_memory.integrations.web.html import Child, Html, el, join, visible
from smp_memory.integrations.web.layout import form, panel
from smp_memory.integrations.web.lookup import LIVE
from smp_memory.integrations.web.parts import item, memory_link, memory_url, score_text, tag
from smp_memory.integrations.web.words import counted, line_of, shortened
from smp_memory.model.times import to_microseconds
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from smp_memory.integrations.web.lookup import Located
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.hits import Related
    from smp_memory.model.record import Record
    from smp_memory.store.port import IndexSearcher

_SHOWN = 40
_SIMILAR = 5
_LEAST_SIMILAR = 0.1  # below it two memories share a common word at most
_LINE_CHARACTERS = 110
_REFERS, _SAME_TURN = "references", "same turn"


class Connection(NamedTuple):
    """One relation of the memory, or of another memory to it."""

    kind: str
    ref: str
    is_outgoing: bool
    record: Record | None  # None: the other memory does not exist, or is not in a live session
    is_relation: bool = True  # False: a reference or a shared turn, which cannot be removed as a relation


class Connections(NamedTuple):
    """All connections of one memory, its own first, and the memories that took its place."""

    all: list[Connection]
    successors: list[str]
    total: int  # of the others, also those that are not listed

    @classmethod
    def of(cls, memory: Memory, found: Located, record: Record) -> Connections:
        near = _related(memory, found)
        known = {each.record.ref: each for each in near}
        own = [
            Connection(kind, ref, True, known[ref].record if ref in known else _known(memory, ref), is_relation)
            for kind, ref, is_relation in _pointers(record)
        ]
        listed = {each.ref for each in own}
        others = [_incoming(each, record) for each in near if each.record.ref not in listed]
        return cls([*own, *others[:_SHOWN]], _successors(memory, found, record), len(own) + len(others))


def _related(memory: Memory, found: Located) -> list[Related]:
    if found.session is None or found.cold is not None:
        return []
    try:
        return memory.find_related(found.ref, 1, include_deleted=True, limit=_SHOWN * 2)
    except (MemoryNotFound, SessionArchived, SessionNotFound):
        return []  # the memory was erased or compacted a moment ago


def _pointers(record: Record) -> list[tuple[str, str, bool]]:
    """Kind, `session/ID` and whether it is a relation, for everything that the memory points to."""
    relations, references = record.relations, record.references
    found = []
    for each in relations if isinstance(relations, list) else []:
        if isinstance(each, dict) and isinstance(each.get("target"), str):
            found.append((str(each.get("kind") or "relates_to"), _full(each["target"], record), True))
    for name in references if isinstance(references, list) else []:
        if isinstance(name, str):
            found.append((_REFERS, _full(name, record), False))
    return list(dict.fromkeys(found))


def _full(name: str, record: Record) -> str:
    return name if "/" in name else f"{record.session}/{name}"


def _known(memory: Memory, ref: str) -> Record | None:
    session, _, id = ref.partition("/")
    try:
        return memory.opened_session(session).find(id)
    except (InvalidRecord, SessionArchived, SessionNotFound):
        return None


def _incoming(related: Related, record: Record) -> Connection:
    for kind, ref, is_relation in _pointers(related.record):
        if ref == record.ref:
            return Connection(kind, related.record.ref, False, related.record, is_relation)
    return Connection(related.kind or _SAME_TURN, related.record.ref, False, related.record, False)


def _successors(memory: Memory, found: Located, record: Record) -> list[str]:
    if found.session is None or found.cold is not None:
        return []
    now = to_microseconds(memory.now())

    def read(searcher: IndexSearcher) -> list[str]:
        row = searcher.row(found.session_id, found.id)
        if row is None or not searcher.has_successions:
            return []
        return [searcher.ref(each.doc) for each in searcher.successors([row], now).get(row.doc, [])]

    refs: list[str] = memory.store.indexer.answer(None, read)
    return refs


# -- the panel


def relations_panel(request: PageRequest, found: Located, record: Record, connections: Connections) -> Html:
    if not connections.all:
        add = el("a", "Relate it", href=f"{memory_url(record.ref)}/relate", data_dialog=True)
        hint = join("Connected with no other memory. ", add if found.state == LIVE else None)
        return panel("Relations", el("p", hint, class_="empty"))
    rows = [_row(request, found, record, each) for each in connections.all]
    missing = connections.total - len(connections.all)
    more = el("p", f"{missing:,} more are not listed.", class_="note") if missing > 0 else None
    title = f"Relations: {counted(connections.total, 'memory', 'memories')}"
    return panel(title, graph(record, connections.all), el("ul", rows, class_="relations"), more)


def _row(request: PageRequest, found: Located, record: Record, each: Connection) -> Html:
    kind = each.kind.replace("_", " ")
    arrow = f"{kind} →" if each.is_outgoing else f"← {kind}"
    other: Child = el("span", "does not exist, or is in a session that is not live", class_="note")
    if each.record is not None:
        deleted = tag("deleted", "crit") if each.record.deleted else None
        other = join(el("span", shortened(line_of(each.record), _LINE_CHARACTERS), dir="auto"), " ", deleted)
    link = memory_link(each.ref, record.session)
    return el("li", el("span", arrow, class_="kind"), link, other, _remove(request, found, record, each))


def _remove(request: PageRequest, found: Located, record: Record, each: Connection) -> Html | None:
    if not (each.is_outgoing and each.is_relation) or found.state != LIVE or KINDS[record.type].is_turn:
        return None
    label = f"Remove: {each.kind} {each.ref}"
    return form(
        request,
        f"{memory_url(record.ref)}/unrelate",
        el("input", type="hidden", name="kind", value=each.kind),
        el("input", type="hidden", name="target", value=each.ref),
        el("button", "×", class_="plain small", aria_label=label, title="Remove this relation"),
    )


def graph(record: Record, connections: list[Connection]) -> Html:
    """The memory and its neighbours as a picture in which each neighbour is a link."""
    shown = [
        Neighbour(
            each.ref,
            visible(each.ref.removeprefix(f"{record.session}/")),
            visible(line_of(each.record)) if each.record is not None else "",
            visible(each.kind),
            each.is_outgoing,
        )
        for each in connections
    ]
    drawn = relation_graph(record, shown, memory_url).replace('role="img"', 'role="group"', 1)  # it contains links
    return el("div", Html(drawn), class_="scroll page-only")


# -- similar memories


def similar_panel(request: PageRequest, found: Located) -> Html | None:
    """The memories that say something similar; looking for them counts as no use."""
    if found.cold is not None:
        return None
    hits = request.memory.find_similar(found.ref, limit=_SIMILAR, track_access=False)
    rows = [
        item(hit.record, request.now, score=score_text(hit.score), session=found.session_id)
        for hit in hits
        if hit.score >= _LEAST_SIMILAR
    ]
    if not rows:
        return None
    return panel("Similar memories", rows, class_="page-only similar")


def edges_of(record: Record) -> list[dict[str, Any]]:
    """The relations of a memory as they are stored; a list that may be changed."""
    return [dict(each) for each in record.relations] if isinstance(record.relations, list) else []
