"""The memories that one memory is connected with: as a picture that can be walked, as a list, and similar ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.analytics.relation_chart import Neighbour, relation_graph
from smp_memory.integrations.web.html import Child, Html, el, join, visible
from smp_memory.integrations.web.layout import form, panel
from smp_memory.integrations.web.lookup import LIVE
from smp_memory.integrations.web.parts import item, memory_link, memory_url, score_text, tag
from smp_memory.integrations.web.words import counted, line_of, shortened
from smp_memory.model.candidates import NEWER, CandidateRequest
from smp_memory.model.succession import last_successors
from smp_memory.model.times import to_microseconds

if TYPE_CHECKING:
    from smp_memory.integrations.web.lookup import LocatedMemory
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.hits import Hit
    from smp_memory.model.record import Record
    from smp_memory.search.port import SearchIndex

_SHOWN = 40
_SIMILAR = 5
_LEAST_SIMILAR = 0.1  # below it two memories share a common word at most
_LINE_CHARACTERS = 110
_COMPARED_CHARACTERS = 2000
_REFERS, _SAME_TURN = "references", "same turn"


class Pointer(NamedTuple):
    """What a memory says of another one."""

    kind: str
    ref: str
    is_outgoing: bool
    is_relation: bool  # False: a reference or a shared turn, which cannot be removed as a relation


class RelatedMemory(NamedTuple):
    """One relation of the memory, or of another memory to it."""

    kind: str
    ref: str
    is_outgoing: bool
    is_relation: bool
    record: Record | None  # None: the other memory does not exist, or is not in a live session


class MemoryRelations(NamedTuple):
    """All connections of one memory, its own first, and the memories that took its place."""

    all: list[RelatedMemory]
    successors: list[str]
    total: int  # also those that are not listed

    @classmethod
    def of(cls, memory: Memory, found: LocatedMemory, record: Record) -> MemoryRelations:
        pointers = _pointers(record)
        if found.session is None or found.cold is not None:  # the index knows live sessions only
            return cls([RelatedMemory(*each, None) for each in pointers[:_SHOWN]], [], len(pointers))
        return _read(memory.store.indexer, found.ref, record, pointers, to_microseconds(memory.now()))


def _read(index: SearchIndex, ref: str, record: Record, pointers: list[Pointer], now: int) -> MemoryRelations:
    """The connections as the index has them. Only those that are shown are read from the files."""
    with index.snapshot():
        related = index.related([ref]).get(ref)
        if related is None:
            return MemoryRelations([], [], 0)
        targets = {each.ref for each in pointers}
        others = [each.ref for each in related if each.ref not in targets]
        own = pointers[:_SHOWN]
        known = {each.ref for each in related}
        records = index.records([*(each.ref for each in own if each.ref in known), *others[:_SHOWN]])
        newer = index.candidates(CandidateRequest(refs=[ref], include_deleted=True, now=now, fetch=[NEWER])).newer
    shown = [RelatedMemory(*each, records.get(each.ref)) for each in own]
    shown += [_incoming(other, record) for name in others[:_SHOWN] if (other := records.get(name)) is not None]
    successors = [each.ref for each in last_successors(ref, newer)]
    return MemoryRelations(shown, successors, len(pointers) + len(others))


def _pointers(record: Record) -> list[Pointer]:
    """Everything that the memory points to; a person may have typed anything in these fields."""
    relations, references = record.relations, record.references
    found = [
        Pointer(str(each.get("kind") or "relates_to"), _full(each["target"], record), True, True)
        for each in (relations if isinstance(relations, list) else ())
        if isinstance(each, dict) and isinstance(each.get("target"), str)
    ]
    found += [
        Pointer(_REFERS, _full(name, record), True, False)
        for name in (references if isinstance(references, list) else ())
        if isinstance(name, str)
    ]
    return list(dict.fromkeys(found))


def _full(name: str, record: Record) -> str:
    return name if "/" in name else f"{record.session}/{name}"


def _incoming(other: Record, record: Record) -> RelatedMemory:
    pointer = next((each for each in _pointers(other) if each.ref == record.ref), None)
    if pointer is None:
        return RelatedMemory(_SAME_TURN, other.ref, False, False, other)
    return RelatedMemory(pointer.kind, other.ref, False, pointer.is_relation, other)


# -- the panel


def relations_panel(request: PageRequest, found: LocatedMemory, record: Record, connections: MemoryRelations) -> Html:
    if not connections.all:
        add = el("a", "Relate it", href=f"{memory_url(record.ref)}/relate", data_dialog=True)
        hint = join("Connected with no other memory. ", add if found.state == LIVE else None)
        return panel("Relations", el("p", hint, class_="empty"), class_="connections")
    rows = [_row(request, found, record, each) for each in connections.all]
    missing = connections.total - len(connections.all)
    more = el("p", f"{missing:,} more are not listed.", class_="note") if missing > 0 else None
    title = f"Relations: {counted(connections.total, 'memory', 'memories')}"
    return panel(title, graph(record, connections.all), el("ul", rows, class_="relations"), more, class_="connections")


def _row(request: PageRequest, found: LocatedMemory, record: Record, each: RelatedMemory) -> Html:
    kind = each.kind.replace("_", " ")
    arrow = f"{kind} →" if each.is_outgoing else f"← {kind}"
    other: Child = el("span", "does not exist, or is in a session that is not live", class_="note")
    if each.record is not None:
        deleted = tag("deleted", "crit") if each.record.deleted else None
        other = join(el("span", shortened(line_of(each.record), _LINE_CHARACTERS), dir="auto"), " ", deleted)
    link = memory_link(each.ref, record.session)
    return el("li", el("span", arrow, class_="kind"), link, other, _remove(request, found, record, each))


def _remove(request: PageRequest, found: LocatedMemory, record: Record, each: RelatedMemory) -> Html | None:
    if not (each.is_outgoing and each.is_relation) or found.state != LIVE:
        return None
    label = f"Remove: {each.kind} {each.ref}"
    return form(
        request,
        f"{memory_url(record.ref)}/unrelate",
        el("input", type="hidden", name="kind", value=each.kind),
        el("input", type="hidden", name="target", value=each.ref),
        el("button", "×", class_="plain small", aria_label=label, title="Remove this relation"),
    )


def graph(record: Record, connections: list[RelatedMemory]) -> Html:
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


def similar_panel(request: PageRequest, found: LocatedMemory) -> Html | None:
    """The memories that say something similar; looking for them counts as no use."""
    if found.cold is not None or found.record is None:
        return None
    rows = [
        item(hit.record, request.now, score=score_text(hit.score), session=found.session_id)
        for hit in similar_to(request.memory, found.record, _SIMILAR)
        if hit.score >= _LEAST_SIMILAR
    ]
    return panel("Similar memories", rows, class_="page-only similar") if rows else None


def similar_to(memory: Memory, record: Record, limit: int) -> list[Hit]:
    """Similar memories, best first. Of a long text its beginning is compared."""
    what = record if len(record.text) <= _COMPARED_CHARACTERS else record.text[:_COMPARED_CHARACTERS]
    hits = memory.find_similar(what, limit=limit + 1, track_access=False)
    return [hit for hit in hits if hit.record.ref != record.ref][:limit]
