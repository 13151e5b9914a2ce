"""Read stories and retrospectives of all versions of BMAD.

Stories: "Dev Agent Record" and "QA Results". Completion notes are learnings of the developer, QA results are findings; the model
used and the files touched are left out, as is the rest of the story, which is a plan and not a memory. Findings of a story that
is done count as resolved, unless their checkbox is empty.

Retrospectives:
    Findings, Action items         findings; those accepted as they are count as closed
    Acceptance verdict             a decision
    Open questions, Assumptions    open findings
    everything else                learnings; the summary of the epic is a summary
"""

from __future__ import annotations

import posixpath
import re

from smp_memory.importers.bmad_sprint_status import action_key
from smp_memory.importers.ingest import IngestedMemory, Source
from smp_memory.importers.markdown_items import MarkdownItem, date_in, front_matter, items

SECTIONS = ("dev agent record", "qa results", "senior developer review")
_IGNORED_SECTIONS = ("agent model", "file list", "change log", "context reference")


def read_story(source: Source) -> list[IngestedMemory]:
    title = front_matter(source.text)[0].get("title") or _title(source)
    done = _status(source) in ("done", "completed", "accepted")
    found = []
    for item in items(source.text):
        section = next((name for name in SECTIONS if item.is_below(name)), None)
        if section is not None and not item.is_below(*_IGNORED_SECTIONS):
            found.append(_story_item(item, section, title, done))
    return found


def _story_item(item: MarkdownItem, section: str, title: str, done: bool) -> IngestedMemory:
    by_dev = section == "dev agent record"
    fields = {
        "author": "dev" if by_dev else "qa",
        "topic": title,
        "tags": ["bmad", "bmad.story"],
        "section": item.heading,
    }
    if by_dev and not item.is_below("debug"):
        return IngestedMemory(
            "learning", {**fields, "learning": item.text, "category": "completion note"}, item.line, item.text
        )
    status = "resolved" if item.checked or (done and item.checked is None) else "open"
    known = {**fields, "finding": item.text, "category": "debug" if by_dev else "qa", "status": status}
    return IngestedMemory("finding", known, item.line, item.text, None, "status")


def _title(source: Source) -> str:
    first = next((line.strip("# ") for line in source.lines if line.startswith("# ")), "")
    return first or posixpath.basename(source.name).removesuffix(".md")


def _status(source: Source) -> str:
    """The status of a story: from its front matter, a line `Status: done`, or below a heading."""
    status = front_matter(source.text)[0].get("status", "")
    for number, line in enumerate(source.lines):
        name, colon, value = line.strip("#*- ").partition(":")
        if status or name.strip().lower() != "status":
            continue
        below = next((each for each in source.lines[number + 1 : number + 4] if each.strip()), "")
        status = value if colon and value.strip() else below if line.startswith("#") else ""
    return status.strip("*_` ").lower()


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


def read_retrospective(source: Source) -> list[IngestedMemory]:
    meta, _ = front_matter(source.text)
    when = date_in(meta.get("date", "")) or date_in(source.name)
    epic = meta.get("epic") or _epic_in(source.name)
    topic = f"epic {epic}" if epic else None
    found = [_retrospective_item(item, topic, epic, when) for item in items(source.text) if not _is_verdict(item)]
    if meta.get("verdict"):
        found.append(_verdict(source, meta, topic, when))
    elif not found and source.text.strip():
        source.cannot_read(1, "no verdict and no items: not a known form of a retrospective")
    return found


def _is_verdict(item: MarkdownItem) -> bool:
    return item.is_below("acceptance verdict")


def _retrospective_item(item: MarkdownItem, topic: str | None, epic: str | None, when: str | None) -> IngestedMemory:
    fields = {"topic": topic, "tags": _TAGS, "epic": epic}
    if item.is_below("epic summary"):
        return IngestedMemory("summary", {**fields, "summary": item.text}, item.line, item.text, when)
    if item.is_below(*_QUESTIONS):
        category = "question" if item.is_below("question") else "assumption"
        status = "resolved" if item.checked else "open"
        known = {**fields, "finding": item.text, "category": category, "status": status}
        return IngestedMemory("finding", known, item.line, item.text, when, "status")
    if item.is_below(*_OPEN):
        closed = item.checked or (not item.is_below("action item") and bool(_ACCEPTED.search(item.text)))
        category = "action item" if item.is_below("action item") else "retrospective"
        known = {**fields, "finding": item.text, "category": category, "status": "closed" if closed else "open"}
        key = action_key(epic, item.text) if item.is_below("action item") else item.text
        return IngestedMemory("finding", known, item.line, key, when, "status")
    return IngestedMemory("learning", {**fields, "learning": item.text, "category": item.heading.lower() or "retrospective"}, item.line, item.text, when)  # fmt: skip


def _verdict(source: Source, meta: dict[str, str], topic: str | None, when: str | None) -> IngestedMemory:
    line = next((number for number, line in enumerate(source.lines, 1) if line.startswith("verdict")), 1)
    why = "\n".join(item.text for item in items(source.text) if _is_verdict(item))
    decision = f"{topic or 'The epic'}: {meta['verdict']}"
    fields = {"decision": decision[:1].upper() + decision[1:], "rationale": why or None, "topic": topic, "tags": _TAGS}
    return IngestedMemory("decision", fields, line, f"verdict {meta['verdict']}", when)


def _epic_in(name: str) -> str | None:
    matched = re.search(r"epic-([\w.]+?)-retro", name)
    return matched[1] if matched else None
