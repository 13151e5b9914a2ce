"""Archived and deleted sessions in a list: when and why, how large, the summary, until when they are kept, and the way back.

A summary may have been edited by hand or by another program: whatever is not as expected is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import form
from smp_memory.integrations.web.parts import tag
from smp_memory.integrations.web.words import counted, date_text, plain, shortened, size_text
from smp_memory.model.times import to_moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.storage_reports import SessionHead


def archived_item(request: PageRequest, each: SessionHead, *, is_open: bool = False) -> Html:
    """An archived session: when, why, how large, its summary, and the way back."""
    restore = form(request, url("/session/{}/restore", each.session), el("button", "Restore", class_="small"))
    delete = el(
        "a", "Delete", href=url("/session/{}/delete", each.session), class_="button small danger", data_dialog=True
    )
    facts = [
        f"archived {date_text(each.when, request.now)}" if each.when else "archived",
        size_text(each.bytes),
        _memories(each.metadata),
        f"because: {each.reason}" if each.reason else "",
    ]
    return el(
        "div",
        el(
            "div",
            el("a", each.session, href=url("/session/{}", each.session), class_="name"),
            el("div", " · ".join(fact for fact in facts if fact), class_="meta"),
            summary(each.metadata, is_open),
        ),
        el("div", restore, delete, class_="actions"),
        class_="away",
    )


def _memories(metadata: Mapping[str, Any]) -> str:
    count = metadata.get("memories")
    return counted(count, "memory", "memories") if isinstance(count, int) else ""


def summary(metadata: Mapping[str, Any], is_open: bool) -> Html | None:
    """The summary that an archive keeps: conversation in a few sentences, decisions, open findings, topics."""
    parts: list[Child] = []
    said = metadata.get("conversation") or metadata.get("summary")
    if isinstance(said, dict):
        said = said.get("summary") or said.get("text")
    if isinstance(said, list):
        said = " ".join(plain(each) for each in said)
    if isinstance(said, str) and said:
        parts.append(el("p", shortened(said, 1200), dir="auto"))
    decisions = _texts(metadata.get("key_decisions"), "decision")
    findings = [text for each in _values(metadata.get("open_findings")) for text in _texts(each, "finding")]
    for title, texts in (("Decisions", decisions), ("Open findings", findings)):
        if texts:
            shown = [el("li", shortened(text, 200), dir="auto") for text in texts[:8]]
            more = el("li", f"and {len(texts) - 8:,} more") if len(texts) > 8 else None
            parts.append(join(el("h3", title), el("ul", shown, more)))
    topics = _texts(metadata.get("topics"), "topic")
    if topics:
        parts.append(el("p", [join(tag(topic), " ") for topic in topics[:12]]))
    if is_open:
        return join(parts or el("p", "It has no summary that can be read.", class_="empty"))
    return el("details", el("summary", "Summary"), parts) if parts else None


def _texts(rows: Any, name: str) -> list[str]:
    """A summary may have been edited by hand: whatever is not as expected is left out."""
    rows = rows if isinstance(rows, list) else []
    return [plain(row[name]) for row in rows if isinstance(row, dict) and row.get(name)]


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else [value]


def deleted_item(request: PageRequest, each: SessionHead) -> Html:
    """A deleted session: by whom, when, why, until when it can be restored, and the way back."""
    by, deadline = each.metadata.get("deleted_by"), recovery_deadline(each)
    facts = [
        f"deleted {date_text(each.when, request.now)}" if each.when else "deleted",
        f"by {by}" if isinstance(by, str) and by else "",
        size_text(each.bytes),
        f"because: {each.reason}" if each.reason else "",
    ]
    kept = "It stays until somebody purges it."
    if deadline is not None:
        kept = f"Can be restored until {deadline:%Y-%m-%d} at least."
    if each.is_foreign:
        kept = "Another program deleted it; SMP does not purge it."
    restore = form(request, url("/session/{}/undelete", each.session), el("button", "Restore", class_="small"))
    purge = el(
        "a", "Purge", href=url("/session/{}/purge", each.session), class_="button small danger", data_dialog=True
    )
    return el(
        "div",
        el(
            "div",
            el("span", each.session, class_="name"),
            el("div", " · ".join(fact for fact in facts if fact), class_="meta"),
            el("div", kept, class_="meta"),
        ),
        el("div", restore, purge, class_="actions"),
        class_="away",
    )


def recovery_deadline(each: SessionHead) -> datetime | None:
    """Until when a deleted session can be restored at least; None if its deletion record does not say so."""
    until = each.metadata.get("recovery_deadline")
    try:
        return to_moment(until) if isinstance(until, str) else None
    except (ValueError, OverflowError):
        return None
