"""Read notes of BMAD's agents: sidecars, sanctums, decision logs, debug logs and memlogs.

Markdown notes are read item by item. The type of an item follows from the headings above it, else from the file: below
"Preferences" a preference, below "Decisions" a decision, below "Open questions" an open finding, else the usual type for that
kind of file. Files with instructions and personas become one artifact each.

Each entry of a memlog becomes a memory by its type; `by` becomes the author.

    - (decision by pm) use OAuth 2.0          a decision of pm
    - (question) who pays for it?             an open finding
    - (insight) people skip the wall          a learning

A memlog that is not in its own format is read as Markdown, section by section.
"""

from __future__ import annotations

import posixpath
import re
from datetime import datetime

from smp_memory.importers.ingest import IngestedMemory, Source
from smp_memory.importers.markdown_items import MarkdownItem, date_in, front_matter, items

_ARTIFACT_FILES = ("instructions", "access-boundaries", "index", "persona", "creed", "capabilities", "readme")
_USER_FILES = ("bond", "preferences")
_BY_HEADING = (
    (("decision", "decided"), "decision"),
    (("preference",), "preference"),
    (
        ("question", "open item", "todo", "to do", "next step", "follow-up", "blocker", "issue", "risk", "bug"),
        "finding",
    ),
    (("lesson", "learn", "pattern", "insight"), "learning"),
)


def read_sidecar(source: Source) -> list[IngestedMemory]:
    """`<agent>-sidecar/…`: the memory of an agent in versions 6.0 to 6.8."""
    folders = source.name.split("/")
    agent = next((part.removesuffix("-sidecar") for part in folders if part.endswith("-sidecar")), None)
    return _of_agent(source, agent, "sidecar")


def read_sanctum(source: Source) -> list[IngestedMemory]:
    """`_bmad/memory/<agent>/…`: the memory of an agent made with BMAD's builder; each session there is a summary."""
    parts = source.name.split("/")
    agent = parts[2] if len(parts) > 3 else None
    if "sessions" in parts:
        when = date_in(posixpath.basename(source.name))
        return _whole(source, "summary", "summary", agent, "sanctum", when)
    return _of_agent(source, agent, "sanctum")


def read_decision_log(source: Source) -> list[IngestedMemory]:
    return read_items(source, "decision", "decision-log")


def read_debug_log(source: Source) -> list[IngestedMemory]:
    return read_items(source, "finding", "debug-log", "dev")


def _of_agent(source: Source, agent: str | None, tag: str) -> list[IngestedMemory]:
    stem = posixpath.basename(source.name).partition(".")[0].lower()
    if stem in _ARTIFACT_FILES:
        return _whole(source, "artifact", "content", agent, tag)
    return read_items(source, "preference" if stem in _USER_FILES else "learning", tag, agent)


def read_items(source: Source, usual: str, tag: str, author: str | None = None) -> list[IngestedMemory]:
    """Every item as a memory; its type follows from the headings, else it is `usual`."""
    found = []
    for item in items(source.text):
        type = next((type for words, type in _BY_HEADING if item.is_below(*words)), usual)
        found.append(as_memory(item, type, tag, author))
    if source.lines and not found and source.text.strip():
        source.cannot_read(1, "no items that could be imported")
    return found


def as_memory(item: MarkdownItem, type: str, tag: str, author: str | None = None) -> IngestedMemory:
    fields = {"author": author, "topic": item.heading or None, "tags": ["bmad", f"bmad.{tag}"]}
    if type == "finding":
        fields |= {"finding": item.text, "category": tag, "status": "resolved" if item.checked else "open"}
    elif type == "learning":
        fields |= {"learning": item.text, "category": tag}
    else:
        fields[type] = item.text  # the field has the name of the type
    when = date_in(item.text[:24]) or date_in(" ".join(reversed(item.headings)))
    return IngestedMemory(type, fields, item.line, f"{type} {item.text}", when, "status" if type == "finding" else "")


def _whole(
    source: Source, type: str, field: str, agent: str | None, tag: str, when: str | None = None
) -> list[IngestedMemory]:
    if not source.text.strip():
        return []
    name = posixpath.basename(source.name)
    fields = {"author": agent, "tags": ["bmad", f"bmad.{tag}"], field: source.text}
    if type == "artifact":
        fields |= {"name": f"{agent}: {name}" if agent else name, "path": source.name, "format": "markdown"}
    return [IngestedMemory(type, fields, 1, f"whole {name}", when, field if type == "artifact" else "")]


DECISIONS = ("decision", "direction", "change", "override", "constraint", "version", "lock", "kill", "outcome")
OPEN = ("question", "gap", "assumption", "crack", "risk", "blocker")
EVENTS = ("event", "technique")
_LABEL = re.compile(r"\((?:([A-Za-z][\w-]*)(?: by ([^()]+))?|by ([^()]+))\)\s+(.*)")
_TOPICS = ("topic", "idea", "scope", "name")


def read_memlog(source: Source) -> list[IngestedMemory]:
    meta, length = front_matter(source.text)
    if not length:
        if source.lines:
            source.cannot_read(1, "no front matter: not in the format of a memlog, read as Markdown")
        return read_items(source, "decision" if "decision" in source.text.lower() else "learning", "memlog")
    topic = next((meta[name] for name in _TOPICS if meta.get(name)), None)
    updated = _local_time(meta.get("updated", ""))
    found = []
    for number, line in enumerate(source.lines[length:], length + 1):
        if line.startswith("- ") and line[2:].strip():
            found.append(_entry(line[2:].strip(), number, topic, updated))
        elif line.strip():
            source.cannot_read(number, "not an entry (a line that begins with '- ')")
    return found


def _entry(text: str, line: int, topic: str | None, when: str | None) -> IngestedMemory:
    matched = _LABEL.match(text)
    kind, by, content = "", None, text
    if matched:
        kind, by, content = (matched[1] or "").lower(), matched[2] or matched[3], matched[4]
    fields = {"author": by, "topic": topic, "tags": ["bmad", "bmad.memlog"], "memlog_type": kind or None}
    if kind in DECISIONS:
        type, fields["decision"] = "decision", content
    elif kind in OPEN:
        type, fields["finding"], fields["category"], fields["status"] = "finding", content, kind, "open"
    elif kind in EVENTS:
        type, fields["content"], fields["role"], fields["kind"] = "conversation", content, "system", kind
    else:
        type, fields["learning"], fields["category"] = "learning", content, kind or "note"
    return IngestedMemory(type, fields, line, text, when)


def _local_time(text: str) -> str | None:
    """Parse `updated`, which is local time without a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone().isoformat()
