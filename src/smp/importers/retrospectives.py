"""What was learned from an epic? Retrospectives: findings with their disposition, lessons, the verdict, what is open.

Findings, Action items    findings; those that are accepted as they are count as closed
Acceptance verdict        a decision
Open questions, Assumptions    open findings
all else                  learnings; the summary of the epic a summary
"""

from __future__ import annotations

import re

from smp.importers.found import Found, Source
from smp.importers.markdown_items import Item, date_in, front_matter, items
from smp.importers.sprint_status import action_key

_TAGS = ["bmad", "bmad.retrospective"]
_ACCEPTED = re.compile(r"\b(accept(?:ed)?(?: as[- ]is)?|won'?t fix)\b", re.IGNORECASE)
_OPEN = (
    "finding",
    "action item",
    "follow-through",
    "what went wrong",
    "challenge",
    "problem",
    "didn't go",
    "did not go",
)
_QUESTIONS = ("open question", "assumption")


def read_retrospective(source: Source) -> list[Found]:
    meta, _ = front_matter(source.text)
    when = date_in(meta.get("date", "")) or date_in(source.name)
    epic = meta.get("epic") or _epic_in(source.name)
    topic = f"epic {epic}" if epic else None
    found = [_as_found(item, topic, epic, when) for item in items(source.text) if not _is_verdict(item)]
    if meta.get("verdict"):
        found.append(_verdict(source, meta, topic, when))
    elif not found and source.text.strip():
        source.cannot_read(1, "no verdict and no items: not a retrospective that is understood")
    return found


def _is_verdict(item: Item) -> bool:
    return item.is_below("acceptance verdict")


def _as_found(item: Item, topic: str | None, epic: str | None, when: str | None) -> Found:
    fields = {"topic": topic, "tags": _TAGS, "epic": epic}
    if item.is_below("epic summary"):
        return Found("summary", {**fields, "summary": item.text}, item.line, item.text, when)
    if item.is_below(*_QUESTIONS):
        category = "question" if item.is_below("question") else "assumption"
        status = "resolved" if item.checked else "open"
        known = {**fields, "finding": item.text, "category": category, "status": status}
        return Found("finding", known, item.line, item.text, when, "status")
    if item.is_below(*_OPEN):
        closed = item.checked or (not item.is_below("action item") and bool(_ACCEPTED.search(item.text)))
        category = "action item" if item.is_below("action item") else "retrospective"
        known = {**fields, "finding": item.text, "category": category, "status": "closed" if closed else "open"}
        key = action_key(epic, item.text) if item.is_below("action item") else item.text
        return Found("finding", known, item.line, key, when, "status")
    return Found("learning", {**fields, "learning": item.text, "category": item.heading.lower() or "retrospective"}, item.line, item.text, when)  # fmt: skip


def _verdict(source: Source, meta: dict[str, str], topic: str | None, when: str | None) -> Found:
    line = next((number for number, line in enumerate(source.lines, 1) if line.startswith("verdict")), 1)
    why = "\n".join(item.text for item in items(source.text) if _is_verdict(item))
    said = f"{topic or 'The epic'}: {meta['verdict']}"
    fields = {"decision": said[:1].upper() + said[1:], "rationale": why or None, "topic": topic, "tags": _TAGS}
    return Found("decision", fields, line, f"verdict {meta['verdict']}", when)


def _epic_in(name: str) -> str | None:
    matched = re.search(r"epic-([\w.]+?)-retro", name)
    return matched[1] if matched else None
