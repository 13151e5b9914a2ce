"""Read stories, retrospectives and the sprint status of all versions of BMAD.

Stories: "Dev Agent Record" and "QA Results". Completion notes are learnings of the developer, QA results are findings; the model
used and the files touched are left out, as is the rest of the story, which is a plan and not a memory. Findings of a story that
is done count as resolved, unless their checkbox is empty.

Retrospectives:
    Findings, Action items         findings; those accepted as they are count as closed
    Acceptance verdict             a decision
    Open questions, Assumptions    open findings
    everything else                learnings; the summary of the epic is a summary

`sprint-status.yaml`: action items become findings with their status, the rest one artifact: the state of epics and stories, one line
each. It follows the file, and its history keeps earlier states.
"""

from __future__ import annotations

import posixpath
import re
from datetime import datetime
from typing import Any

from smp_memory.errors import InvalidFormat
from smp_memory.importers.markdown_items import MarkdownItem, date_in, first_title, front_matter, items
from smp_memory.importers.source import ANYWHERE, IngestedMemory, Source
from smp_memory.integrations.bmad.workflow import Located, WorkflowText, parse

_STATUSES = {"open": "open", "in-progress": "in-progress", "done": "done"}
_SPRINT_TAGS = ["bmad", "bmad.sprint"]
_OWNER = re.compile(r"\bowner\b", re.IGNORECASE)


def read_sprint_status(source: Source) -> list[IngestedMemory]:
    try:
        data = parse(WorkflowText(source.text, source.name))
    except InvalidFormat as error:
        source.cannot_read(int(error.details.get("line") or 1), _reason(error, source.name))  # type: ignore[call-overload]
        return []
    if not isinstance(data, dict) or not data:
        source.cannot_read(1, "not a mapping")
        return []
    when = _time(data.get("last_updated")) or _time(data.get("generated"))
    return [*_state(source, data.get("development_status"), when), *_actions(source, data.get("action_items"))]


def _state(source: Source, states: Any, when: str | None) -> list[IngestedMemory]:
    if states is None:
        return []
    if not isinstance(states, dict):
        source.cannot_read(_line(source, "development_status"), "development_status is not a mapping")
        return []
    lines = []
    for name, state in states.items():
        if isinstance(state, Located):
            lines.append(f"{name}: {state.text}")
        else:
            source.cannot_read(_line(source, name), f"{name}: not a status")
    fields = {"name": "Sprint status", "path": source.name, "content": "\n".join(lines), "tags": _SPRINT_TAGS}
    return [
        IngestedMemory("artifact", fields, _line(source, "development_status"), "development_status", when, "content")
    ]


def _actions(source: Source, actions: Any) -> list[IngestedMemory]:
    if actions is None or (isinstance(actions, Located) and actions.text in ("", "~", "null")):
        return []
    if not isinstance(actions, list):
        source.cannot_read(_line(source, "action_items"), "action_items is not a list")
        return []
    found = []
    for number, item in enumerate(actions, 1):
        action = item.get("action") if isinstance(item, dict) else None
        if not isinstance(action, Located) or not action.text.strip():
            line = next((value.line for value in _leaves(item)), _line(source, "action_items"))
            source.cannot_read(line, f"action item {number} has no action")
            continue
        known = {name: value.text for name, value in item.items() if isinstance(value, Located)}
        status = _STATUSES.get(known.get("status", "open"))
        if status is None:
            source.cannot_read(item["status"].line, f"status {known['status']!r} is not open, in-progress or done")
        fields = {
            "finding": action.text,
            "category": "action item",
            "status": status or "open",
            "tags": _SPRINT_TAGS,
            "owner": known.get("owner"),
            "epic": known.get("epic"),
            "document": known.get("ref"),
        }
        found.append(
            IngestedMemory("finding", fields, action.line, action_key(known.get("epic"), action.text), None, "status")
        )
    return found


def action_key(epic: str | None, text: str) -> str:
    """The key of an action item, the same in a retrospective and in the sprint status."""
    content = _OWNER.split(text, maxsplit=1)[0].rstrip(" \t\r\n(—–,;|*-") or text
    return f"{ANYWHERE}action of epic {epic}: {' '.join(content.split()).casefold().strip('*. ')}"


def _leaves(value: Any) -> list[Located]:
    if isinstance(value, Located):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [leaf for each in inner for leaf in _leaves(each)]


def _line(source: Source, name: str) -> int:
    """The line of a key."""
    for number, line in enumerate(source.lines, 1):
        if line.strip().startswith((f"{name}:", f'"{name}"')):
            return number
    return 1


def _time(value: Any) -> str | None:
    """Parse `MM-DD-YYYY HH:MM` in local time, or an ISO date."""
    text = value.text.strip() if isinstance(value, Located) else ""
    for form in ("%m-%d-%Y %H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).astimezone().isoformat()
        except ValueError:
            continue
    return None


def _reason(error: InvalidFormat, name: str) -> str:
    return error.message.removeprefix(name).lstrip(":0123456789 ").rstrip(".") or "not YAML"


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
    return first_title(source.lines) or posixpath.basename(source.name).removesuffix(".md")


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


_RETROSPECTIVE_TAGS = ["bmad", "bmad.retrospective"]
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
    fields = {"topic": topic, "tags": _RETROSPECTIVE_TAGS, "epic": epic}
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
    fields = {
        "decision": decision[:1].upper() + decision[1:],
        "rationale": why or None,
        "topic": topic,
        "tags": _RETROSPECTIVE_TAGS,
    }
    return IngestedMemory("decision", fields, line, f"verdict {meta['verdict']}", when)


def _epic_in(name: str) -> str | None:
    matched = re.search(r"epic-([\w.]+?)-retro", name)
    return matched[1] if matched else None
