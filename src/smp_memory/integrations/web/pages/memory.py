"""The page of one memory: what it says, its marks and fields, its history, relations, fading and uses, and where its bytes are.

The element `#memory` is also shown beside lists (`#aside`, 340 px wide): what is `page-only` is hidden there. Memories that are deleted,
compacted, archived or unreadable have the same page with what is known of them, and the way back. Texts and lists that are very long are
cut, and the page says so; `?full=1` shows all of them.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics import charts, forecast
from smp_memory.analytics.charts import Neighbour, relation_graph
from smp_memory.errors import InvalidConfig
from smp_memory.integrations.hooks.verdict import verdict
from smp_memory.integrations.web import lookup
from smp_memory.integrations.web.lookup import LocatedMemory, MemoryRelations, similar_to
from smp_memory.integrations.web.pages.sessions import recovery_deadline
from smp_memory.integrations.web.pages.told import told_summary
from smp_memory.integrations.web.parts import (
    TextPiece,
    ago,
    difference,
    line_of,
    memory_url,
    moment_text,
    plain,
    shortened,
    visible,
)
from smp_memory.integrations.web.renderer import drawn, page
from smp_memory.lifecycle.conflicts import open_conflict
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.entry import is_maintenance, is_revision
from smp_memory.model.record import name_and_content
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_microseconds, to_moment
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.responses import Response

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.lifecycle.conflicts import Version
    from smp_memory.model.entry import Entry
    from smp_memory.model.record import Record

SHOWN_CHARACTERS = 12_000  # of one text, unless all of it is asked for
SHOWN_VALUES = 200  # of one list or object, unless all of them are asked for
_TITLE_CHARACTERS, _TASK_CHARACTERS = 70, 200
_CHART = (306, 150)  # pixels
_DRAWN_REVISIONS = 100  # with more of them the curve knows the last revision only
_SHOWN_STEPS, _SHOWN_ENTRIES = 30, 10
_FIRST_CHARACTERS = 160  # of a value in the first step, which the page shows anyway
_DIFFERENCE_CHARACTERS = 3000
_SIMILAR, _LEAST_SIMILAR = 5, 0.1  # below it two memories share a common word at most
_LATEST_USES, _MOST_LOG_BYTES = 5, 1 << 20
_ELSEWHERE = frozenset([
    "author", "author_kind", "tags", "pinned", "muted", "relations", "references", "access", "status", "severity",
    "valid_from", "valid_until", "confidence", "importance", "visibility", "trust", "idempotency_key", "topic",
    "turn_ref", "role",
])  # fmt: skip
_FACTS = ("topic", "role", "confidence", "importance", "visibility", "trust", "turn_ref", "idempotency_key")
_VERBS = {"put": "written", "change": "changed", "delete": "deleted", "restore": "restored"}
_CHECKSUMS = {"signed": "checksum matches", "edited": "edited by hand", "unsigned": "typed in by hand, no checksum"}


def memory_page(request: PageRequest) -> Response:
    found = lookup.locate(request)
    record = found.record
    if record is None:
        return elsewhere_page(request, found)
    line = line_of(record)
    relations = MemoryRelations.of(request.memory, found, record)
    is_in_session = found.session is not None and found.cold is None
    return page(
        request,
        "memory.html",
        f"{record.id}: {shortened(line, _TITLE_CHARACTERS)}",
        found=found,
        record=record,
        kind=KINDS[record.type],
        line=shortened(line, _TASK_CHARACTERS),
        states=lookup,
        is_settled=is_settled(record),
        limits=_limits(request),
        all_of_it=memory_url(record.ref, full=1),
        said=_said(record),
        fields=_fields(record),
        facts=[(name, record.given[name]) for name in _FACTS if record.given.get(name) not in (None, "", [])],
        tags=[str(tag) for tag in record.tags if tag],
        uses=_uses(request, found, record),
        told=told_summary(request, record.ref),
        prompt=request.get("prompt"),
        verdict=verdict(request.memory, record, request.get("prompt")) if request.get("prompt") else None,
        fading=_fading(request, found, record),
        relations=relations,
        graph=_graph(record, relations) if relations.all else "",
        similar=_similar(request, record) if is_in_session else [],
        purge=_purge_sentence(request, found) if found.state == lookup.DELETED else "",
        deletion=found.history.deletion if found.history is not None else None,
        versions=versions_of(found),
        may_write=request.inspector.may_write,
        to_moment=to_moment,
        **_history(request, found),
        **_places(request, found),
    )


# -- what it says


def _limits(request: PageRequest) -> tuple[int, int]:
    """How many characters of a text and how many values of a list are shown."""
    return (1 << 40, 1 << 40) if request.get("full") else (SHOWN_CHARACTERS, SHOWN_VALUES)


class Said(NamedTuple):
    """What a memory says: of an artifact its content as it is, of an agent's state its parts."""

    name: str
    content: Any
    is_block: bool = False


def _said(record: Record) -> Said:
    name, content = name_and_content(record)
    if not KINDS[record.type].is_own_object:
        return Said(plain(name) if name else "", content)
    content = record.given.get("content")
    if content is not None and not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False, indent=2)
    return Said(plain(record.given.get("name") or record.given.get("path") or ""), content, True)


def _fields(record: Record) -> list[tuple[str, Any]]:
    """The other fields, in the order of their type, then those that SMP does not know."""
    kind = KINDS[record.type]
    shown_above = {kind.text, *kind.parts} | ({"name", "path"} if kind.is_own_object else set())
    names = [name for name in record.given if name not in _ELSEWHERE and name not in shown_above]
    names.sort(key=lambda name: kind.rank.get(name, 99))
    return [(name, record.given[name]) for name in names if record.given[name] not in (None, "", [], {})]


def versions_of(found: LocatedMemory) -> list[Version]:
    """The versions that concurrent changes left to choose from; empty: there is nothing to settle."""
    if found.state != lookup.LIVE or found.history is None:
        return []
    conflict = open_conflict(found.history, found.session_id)
    return conflict.versions() if conflict is not None else []


# -- uses and fading


class Uses(NamedTuple):
    times: int
    last: datetime | None
    earlier: list[datetime]


def _uses(request: PageRequest, found: LocatedMemory, record: Record) -> Uses:
    count, last = access_of(request, found, record)
    if not count or last is None:
        return Uses(0, last, [])
    return Uses(count, last, _latest_uses(request, found.ref)[1:])


def access_of(request: PageRequest, found: LocatedMemory, record: Record) -> tuple[int, datetime | None]:
    """How often it was used and when last: by the index for a live session, else by the file."""
    if found.session is None or found.cold is not None:
        return _stored_access(record)

    asked = CandidateRequest(sessions=[found.session_id], refs=[found.ref], include_deleted=True)
    known = request.memory.store.indexer.candidates(asked).matches
    count, last_us = (known[0].access_count, known[0].last_access or 0) if known else (0, 0)
    return count, datetime.fromtimestamp(last_us / 1e6, UTC) if last_us else None


def _stored_access(record: Record) -> tuple[int, datetime | None]:
    """What the file says; a person or a program may have written anything there."""
    given = record.access
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
    return [datetime.fromtimestamp(at, UTC) for at in sorted(times, reverse=True)[:_LATEST_USES]]


def _fading(request: PageRequest, found: LocatedMemory, record: Record) -> tuple[Markup, str] | None:
    """Its priority in the past and in the future as a curve, with the same in words."""
    if found.session is None or found.state != lookup.LIVE:
        return None
    count, last = access_of(request, found, record)
    uses = forecast.known_uses(found.history) if found.history is not None else []
    if last is not None:
        uses = [*uses, forecast.KnownUse(to_microseconds(last), count)]
    curve = forecast.decay_points(
        record,
        request.memory.scope.policy(),
        request.now,
        threshold=found.session.opened.storage.config["compaction.faded_below"],
        history=found.history if record.revision <= _DRAWN_REVISIONS else None,
        uses=uses,
    )
    chart = charts.draw_decay(curve, width=_CHART[0], height=_CHART[1])
    return drawn(chart), "Pinned: it does not fade." if record.pinned else forecast.sentence(curve)


# -- relations


def _graph(record: Record, relations: MemoryRelations) -> Markup:
    """The memory and its neighbours as a picture in which each neighbour is a link."""
    shown = [
        Neighbour(
            each.ref,
            visible(each.ref.removeprefix(f"{record.session}/")),
            visible(line_of(each.record)) if each.record is not None else "",
            visible(each.kind),
            each.is_outgoing,
        )
        for each in relations.all
    ]
    made = relation_graph(record, shown, memory_url).replace('role="img"', 'role="group"', 1)  # it contains links
    return drawn(made)


def _similar(request: PageRequest, record: Record) -> list[Any]:
    """The memories that say something similar; looking for them counts as no use."""
    return [hit for hit in similar_to(request.memory, record, _SIMILAR) if hit.score >= _LEAST_SIMILAR]


# -- history


class Step(NamedTuple):
    """A step of the history, with the fields that it changed."""

    verb: str
    who: str
    at: datetime
    mark: str
    reason: str
    changes: list[tuple[str, list[TextPiece]]]


def _history(request: PageRequest, found: LocatedMemory) -> dict[str, Any]:
    steps = found.history.steps()[::-1] if found.history is not None else []
    shown = steps if request.get("history") == "all" else steps[:_SHOWN_STEPS]
    return {"steps": [_step(step) for step in shown], "step_count": len(steps)}


def _step(step: dict[str, Any]) -> Step:
    is_first = step["op"] == "put" and step["revision"] == 1
    who = f" by {step['by']}" if step["by"] else " by hand, by somebody unknown" if step.get("edited_by_hand") else ""
    mark = f"revision {step['revision']}" if step["op"] in ("put", "change") else ""
    changes = [(name, _changed(change, is_first)) for name, change in step.get("changes", {}).items()]
    verb = _VERBS.get(step["op"], step["op"]).capitalize()
    return Step(verb, who, to_moment(step["at"]), mark, str(step.get("reason") or ""), changes)


def _changed(change: dict[str, Any], is_first: bool) -> list[TextPiece]:
    before, after = value_text(change["from"]), value_text(change["to"])
    if is_first:
        return [TextPiece("", shortened(after, _FIRST_CHARACTERS))]
    return difference(shortened(before, _DIFFERENCE_CHARACTERS), shortened(after, _DIFFERENCE_CHARACTERS))


def value_text(value: Any) -> str:
    """A value as text that can be compared: relations with arrows, other objects as JSON."""
    if isinstance(value, list) and value and all(isinstance(each, dict) and "target" in each for each in value):
        return "\n".join(f"{each.get('kind')} → {each['target']}" for each in value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if any(isinstance(each, (dict, list)) for each in inner):
        return json.dumps(value, ensure_ascii=False, indent=1)
    return plain(value)


# -- where its bytes are


class Place(NamedTuple):
    """Where an entry of the memory is, and whether its checksum matches."""

    where: str
    what: str
    at: datetime
    bytes: int
    checksum: str
    is_signed: bool


def _places(request: PageRequest, found: LocatedMemory) -> dict[str, Any]:
    if found.history is None:
        return {"places": [], "place_count": 0, "location": "", "sequence": ""}
    entries = found.history.entries[::-1]
    rows, revision = [], found.history.revision
    for entry in entries[:_SHOWN_ENTRIES]:
        rows.append(_place(found, entry, revision))
        revision -= is_revision(entry)
    root, place = request.memory.root, found.place or (found.session.folder if found.session is not None else "")
    uid = found.history.first.uid
    return {
        "places": rows,
        "place_count": len(entries),
        "location": os.path.relpath(place, root) if place.startswith(root + os.sep) else place,
        "sequence": f"Sequence number {found.history.first.seq}" + (f", uid {uid}" if uid else ""),
    }


def _place(found: LocatedMemory, entry: Entry, revision: int) -> Place:
    what = "uses counted" if is_maintenance(entry) else _VERBS.get(entry.op, entry.op)
    if is_revision(entry):
        what = f"{what}, revision {revision}"
    folder = found.session.folder + os.sep if found.session is not None else ""
    is_inside = folder and entry.file.startswith(folder)
    name = entry.file[len(folder) :] if is_inside else os.path.basename(entry.file) or "-"
    where = f"{name}:{entry.line}" if entry.line else name
    size = entry.place[1] - entry.place[0]
    checksum = _CHECKSUMS.get(entry.state, entry.state)
    return Place(where, what, to_moment(entry.at), size, checksum, entry.state == "signed")


# -- memories that are not where one expects them


def _purge_sentence(request: PageRequest, found: LocatedMemory) -> str:
    """Until when a deleted memory can be restored."""
    if found.session is None:
        return ""
    try:
        until = next((each.purged_from for each in found.session.deleted() if each.id == found.id), None)
    except InvalidConfig as error:
        return f"It is not known how long it can be restored: {error.message}"
    if until is None:
        return "It stays in the trash until somebody purges or erases it."
    return f"It can be restored until {moment_text(until)} UTC ({ago(until, request.now)}), then a purge may remove it."


def elsewhere_page(request: PageRequest, found: LocatedMemory) -> Response:
    """The page for a memory without content: what is known of it, where its bytes are, and how to get it back."""
    is_missing = found.state == lookup.MISSING
    near, sessions = lookup.near_names(request.memory, found) if is_missing else ([], [])
    return page(
        request,
        "memory_elsewhere.html",
        found.id,
        status=404 if is_missing else 200,
        found=found,
        states=lookup,
        deadline=recovery_deadline(found.archived) if found.archived is not None else None,
        near=[(id, found.session_id, id) for id in near] + [(name, name, found.id) for name in sessions],
    )
