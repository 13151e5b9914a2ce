"""Memories that are not where one expects them: deleted, compacted, archived, in a deleted session, unreadable, or not there at all.

Each page says what is known, where the bytes are, and how to get the memory back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.errors import InvalidConfig
from smp_memory.integrations.web import lookup
from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import form, heading, page, panel
from smp_memory.integrations.web.pages.away import recovery_deadline
from smp_memory.integrations.web.parts import pairs, when
from smp_memory.integrations.web.words import ago, moment_text
from smp_memory.model.times import to_moment

if TYPE_CHECKING:
    from starlette.responses import Response

    from smp_memory.integrations.web.lookup import LocatedMemory
    from smp_memory.integrations.web.request import PageRequest

_MOST_PROBLEMS = 5


# -- of memories that can be read


def state_banner(request: PageRequest, found: LocatedMemory) -> Html | None:
    """That the memory is deleted, compacted or archived: since when, why, until when, and the way back."""
    if found.state == lookup.DELETED:
        return _banner(*_deleted(request, found))
    if found.state == lookup.COLD:
        return _banner(*_cold(request, found))
    if found.state == lookup.ARCHIVED:
        return _banner(*_archived(request, found))
    if found.problems:
        said = el("p", "A part of this memory cannot be read:")
        return el("div", said, _problem_list(found), class_="banner", role="note")
    return None


def _banner(*content: Child) -> Html:
    return el("div", el("p", *content), class_="banner", role="note")


def _deleted(request: PageRequest, found: LocatedMemory) -> list[Child]:
    deletion = found.history.deletion if found.history is not None else None
    if deletion is None:
        return []
    by = f" by {deletion.by}" if deletion.by else ""
    reason = deletion.data.get("reason")
    return [
        el("b", "Deleted "),
        when(to_moment(deletion.at), request.now),
        f"{by}." + (f" Reason: {reason}." if reason else " No reason was given."),
        f" Agents are not told it. {_purge_sentence(request, found)}",
    ]


def _purge_sentence(request: PageRequest, found: LocatedMemory) -> str:
    """Until when it can be restored."""
    if found.session is None:
        return ""
    try:
        until = next((each.purged_from for each in found.session.deleted() if each.id == found.id), None)
    except InvalidConfig as error:
        return f"Until when it can be restored is not known: {error.message}"
    if until is None:
        return "It stays in the trash until somebody purges or erases it."
    return f"It can be restored until {moment_text(until)} UTC ({ago(until, request.now)}), then a purge may remove it."


def _cold(request: PageRequest, found: LocatedMemory) -> list[Child]:
    facts = found.cold
    since: list[Child] = ["by compaction"]
    if facts is not None:
        since = [when(to_moment(facts.moved), request.now), f" by compaction: {facts.why}"]
    return [
        el("b", "Compacted "),
        *since,
        ". It is in the cold segment of its session: searches find it when archived memories are asked for, agents are not told it. ",
    ]


def _archived(request: PageRequest, found: LocatedMemory) -> list[Child]:
    archived = found.archived
    since = archived.when if archived is not None else None
    reason = f" Reason: {archived.reason}." if archived is not None and archived.reason else ""
    return [
        el("b", "Its session is archived"),
        join(" since ", when(since, request.now)) if since is not None else None,
        f".{reason} It is shown as it is in the archive; to change it, restore the session. ",
    ]


def restore_session_form(request: PageRequest, found: LocatedMemory) -> Html:
    action = url("/session/{}/restore", found.session_id)
    return form(request, action, el("button", "Restore the session", class_="primary"))


# -- of memories that cannot be shown


def elsewhere_page(request: PageRequest, found: LocatedMemory) -> Response:
    """The page for a memory without content: what is known of it."""
    lead, content, status = _EXPLAINED[found.state](request, found)
    return page(
        request, found.id, "", heading(found.id, lead), el("div", content, id="memory", data_live=True), status=status
    )


def _session_deleted(request: PageRequest, found: LocatedMemory) -> tuple[Child, Child, int]:
    archived = found.archived
    facts = archived.metadata if archived is not None else {}
    deadline = recovery_deadline(archived) if archived is not None else None
    rows: list[tuple[Child, Child]] = [
        ("Deleted", when(archived.when, request.now) if archived is not None and archived.when else None),
        ("By", str(facts.get("deleted_by") or "")),
        ("Reason", archived.reason if archived is not None else None),
        ("Until", f"{moment_text(deadline)} UTC" if deadline is not None else None),
        ("Where", el("code", found.place)),
    ]
    action = url("/session/{}/undelete", found.session_id)
    back = form(request, action, el("button", "Bring the session back", class_="primary"), class_="actions")
    lead = f"Session {found.session_id} is in the trash. Its memories can be seen when it is brought back."
    return lead, panel("The session was deleted", pairs(rows), back), 200


def _unreadable(request: PageRequest, found: LocatedMemory) -> tuple[Child, Child, int]:
    advice = el("p", "The bytes are still there. ", el("a", "Health", href="/health"), " says what can be done.")
    return "This memory cannot be read.", panel("What is wrong", _problem_list(found), advice), 200


def _archived_unread(request: PageRequest, found: LocatedMemory) -> tuple[Child, Child, int]:
    restore = restore_session_form(request, found)
    said = el(
        "p", "The archive is too large to look into, or could not be read. Restoring the session shows its memories."
    )
    where = pairs([("Archive", el("code", found.place))])
    return (
        f"Session {found.session_id} is archived.",
        panel("In an archive", said, where, _problem_list(found), restore),
        200,
    )


def _missing(request: PageRequest, found: LocatedMemory) -> tuple[Child, Child, int]:
    near, sessions = lookup.near_names(request.memory, found)
    links = [el("a", id, href=url("/memory/{}/{}", found.session_id, id), class_="id") for id in near]
    links += [el("a", name, href=url("/memory/{}/{}", name, found.id), class_="id") for name in sessions]
    what = "memory" if found.session is not None else "session"
    name = found.id if found.session is not None else found.session_id
    said = el(
        "p", f"There is no {what} {name} in this store. It may have been purged or erased, or the name is mistyped."
    )
    meant = join(el("p", "Did you mean:"), el("ul", [el("li", link) for link in links])) if links else None
    search = el("p", el("a", "Search for it", href=url("/search", q=found.id)))
    unread = None
    if found.problems:
        unread = join(
            el("p", "Entries of this session could not be read; it may be one of them:"), _problem_list(found)
        )
    return f"In session {found.session_id}", panel("Not found", said, unread, meant, search), 404


def _problem_list(found: LocatedMemory) -> Html | None:
    if not found.problems:
        return None
    rows = [
        el("li", el("code", f"{each.path}:{each.line}" if each.line else each.path), " ", each.message)
        for each in found.problems[:_MOST_PROBLEMS]
    ]
    more = (
        el("li", f"and {len(found.problems) - _MOST_PROBLEMS:,} more") if len(found.problems) > _MOST_PROBLEMS else None
    )
    return el("ul", rows, more, class_="problems")


_EXPLAINED = {
    lookup.SESSION_DELETED: _session_deleted,
    lookup.UNREADABLE: _unreadable,
    lookup.ARCHIVED: _archived_unread,
    lookup.MISSING: _missing,
}
