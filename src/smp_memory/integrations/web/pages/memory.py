"""The page of one memory: what it says, its marks and fields, its history, relations, fading and uses, and where its bytes are.

The element `#memory` is also shown beside lists (`#aside`, 340 px wide): what is `page-only` is hidden there. Memories that are deleted,
compacted, archived or unreadable have the same page with what is known of them (`memory_elsewhere`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.analytics import charts, forecast
from smp_memory.integrations.web import lookup
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import form, heading, page, panel
from smp_memory.integrations.web.pages.memory_elsewhere import elsewhere_page, restore_session_form, state_banner
from smp_memory.integrations.web.pages.memory_fields import access_of, facts, field_blocks, first_values, main_text
from smp_memory.integrations.web.pages.memory_history import history_panel, provenance_panel
from smp_memory.integrations.web.pages.memory_relations import MemoryRelations, relations_panel, similar_panel
from smp_memory.integrations.web.parts import author_of, marks, memory_link, memory_url, when
from smp_memory.integrations.web.words import line_of, shortened
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_microseconds
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.lookup import LocatedMemory
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.record import Record

_TITLE_CHARACTERS = 70
_TASK_CHARACTERS = 200
_CHART = (306, 150)  # pixels
_DRAWN_REVISIONS = 100  # with more of them the curve knows the last revision only


def memory_page(request: PageRequest) -> Response:
    found = lookup.locate(request)
    record = found.record
    if record is None:
        return elsewhere_page(request, found)
    title = f"{record.id}: {shortened(line_of(record), _TITLE_CHARACTERS)}"
    lead = join(KINDS[record.type].noun.capitalize(), " in session ", _session_link(found))
    content = el("div", memory_view(request, found, record), id="memory", data_live=True)
    return page(request, title, "", heading(record.id, lead), content)


def memory_view(request: PageRequest, found: LocatedMemory, record: Record) -> Html:
    """Everything about one memory, in two columns on its page and in one beside a list."""
    connections = MemoryRelations.of(request.memory, found, record)
    return el(
        "div",
        el(
            "div",
            state_banner(request, found),
            _succession_banner(connections, record),
            _card(request, found, record),
            relations_panel(request, found, record, connections),
            history_panel(request, found),
            class_="column",
        ),
        el(
            "div",
            _fading(request, found),
            facts(request, found, record),
            similar_panel(request, found) if found.session is not None else None,
            provenance_panel(request, found),
            class_="column",
        ),
        class_="memory-grid",
    )


def _session_link(found: LocatedMemory) -> Html:
    return el("a", found.session_id, href=url("/session/{}", found.session_id))


# -- what it says


def _card(request: PageRequest, found: LocatedMemory, record: Record) -> Html:
    said = el("p", memory_link(record.ref), " ", KINDS[record.type].noun, class_="meta aside-only")
    return el(
        "section",
        said,
        main_text(request, record),
        el("p", [join(mark, " ") for mark in marks(record)], _tag_links(request, record), class_="marks"),
        el("p", *_written(request, record), class_="meta"),
        _actions(request, found, record),
        field_blocks(request, record),
        _told(record),
        class_="panel card",
        aria_label="Content",
    )


def _tag_links(request: PageRequest, record: Record) -> list[Child]:
    """Tags as links to the search for them; a person may have typed anything in their place."""
    tags = record.tags if isinstance(record.tags, list) else [record.tags]
    names, more = first_values(request, record, [str(tag) for tag in tags if tag])
    links = [join(el("a", f"#{name}", href=url("/search", tag=name), class_="tag"), " ") for name in names]
    return [*links, more]


def _written(request: PageRequest, record: Record) -> list[Child]:
    name = author_of(record)
    by = join(" by ", el("a", name, href=url("/search", agent=name), class_="who")) if name else None
    said: list[Child] = ["Written ", when(record.created, request.now), by]
    if record.revision > 1:
        changer = f" by {record.updated_by}" if record.updated_by else ""
        said += [", changed ", when(record.updated, request.now), changer]
    return [*said, "."]


def _told(record: Record) -> Html:
    """Links that answer whether an agent gets this memory."""
    line = shortened(line_of(record), _TASK_CHARACTERS)
    ask = el("a", "Why is it found, or not?", href=url("/search", q=line, why_not=record.ref) + "#why-not")
    view = el("a", "Is an agent told this?", href=url("/", kind="context", task=line))
    return el("p", view, " ", ask, class_="asks")


def _succession_banner(connections: MemoryRelations, record: Record) -> Html | None:
    if not connections.successors:
        return None
    links = [join(memory_link(ref, record.session), " ") for ref in connections.successors]
    return el(
        "div", el("p", "Superseded by ", links, ". Agents are told that one instead."), class_="banner", role="note"
    )


# -- what one can do


def _actions(request: PageRequest, found: LocatedMemory, record: Record) -> Html | None:
    if found.state in (lookup.DELETED, lookup.COLD):
        restore = _action(record, "restore", "Restore", "primary")
        return el("div", restore, _more(record, ("erase",)), class_="actions")
    if found.state == lookup.ARCHIVED:
        return el("div", restore_session_form(request, found), class_="actions")
    if not found.can_change:
        return None
    kind = KINDS[record.type]
    return el(
        "div",
        None if kind.is_turn else _action(record, "edit", "Edit", key="e"),
        _pin(request, record),
        _resolve(record) if kind.statuses else None,
        _action(record, "relate", "Relate", key="r"),
        _action(record, "delete", "Delete", "danger", key="d"),
        _more(record, ("redact", "erase")),
        class_="actions",
    )


def _action(record: Record, name: str, label: str, kind: str = "", key: str | None = None) -> Html:
    href = f"{memory_url(record.ref)}/{name}"
    hint = f"{label} ({key})" if key else None
    return el("a", label, href=href, class_=f"button {kind}".strip(), data_dialog=True, data_key=key, title=hint)


def _pin(request: PageRequest, record: Record) -> Html:
    name, label = ("unpin", "Unpin") if record.pinned else ("pin", "Pin")
    hint = "It fades again (p)" if record.pinned else "Keep it from fading (p)"
    return form(request, f"{memory_url(record.ref)}/{name}", el("button", label, data_key="p", title=hint))


def _resolve(record: Record) -> Html:
    return _action(record, "reopen", "Reopen") if is_settled(record) else _action(record, "resolve", "Resolve")


def _more(record: Record, names: tuple[str, ...]) -> Html:
    """Actions that are rarely needed, folded away."""
    links = [_action(record, name, f"{name.capitalize()}…", "danger") for name in names]
    export = el("a", "Export…", href=url("/export", ref=record.ref), class_="button", data_dialog=True)
    return el("details", el("summary", "More"), el("div", export, links), class_="more")


# -- fading


def _fading(request: PageRequest, found: LocatedMemory) -> Html | None:
    """Its priority in the past and in the future as a curve, with the same in words."""
    if found.session is None or found.state != lookup.LIVE or found.record is None:
        return None
    count, last = access_of(request, found, found.record)
    uses = forecast.known_uses(found.history) if found.history is not None else []
    if last is not None:
        uses = [*uses, forecast.KnownUse(to_microseconds(last), count)]
    curve = forecast.decay_points(
        found.record,
        request.memory.scope.policy(),
        request.now,
        threshold=found.session.opened.files.config["compaction.faded_below"],
        history=found.history if found.record.revision <= _DRAWN_REVISIONS else None,
        uses=uses,
    )
    chart = charts.draw_decay(curve, width=_CHART[0], height=_CHART[1])
    note = "Pinned: it does not fade." if found.record.pinned else forecast.sentence(curve)
    return panel("Fading", Html(chart), el("p", note, class_="note"), class_="fading")
