"""What does a memlog of BMAD's say? Each entry becomes a memory, by its type; `by` becomes the author.

    - (decision by pm) use OAuth 2.0          a decision of pm
    - (question) who pays for it?             an open finding
    - (insight) people skip the wall          a learning

A memlog that is not in its own format is read as Markdown, section by section.
"""

from __future__ import annotations

import re
from datetime import datetime

from smp.importers.agent_notes import noted
from smp.importers.found import Found, Source
from smp.importers.markdown_items import front_matter

DECISIONS = ("decision", "direction", "change", "override", "constraint", "version", "lock", "kill", "outcome")
OPEN = ("question", "gap", "assumption", "crack", "risk", "blocker")
EVENTS = ("event", "technique")
_LABEL = re.compile(r"\((?:([A-Za-z][\w-]*)(?: by ([^()]+))?|by ([^()]+))\)\s+(.*)")
_TOPICS = ("topic", "idea", "scope", "name")


def read_memlog(source: Source) -> list[Found]:
    meta, length = front_matter(source.text)
    if not length:
        if source.lines:
            source.cannot_read(1, "no front matter: not in the format of a memlog, read as Markdown")
        return noted(source, "decision" if "decision" in source.text.lower() else "learning", "memlog")
    topic = next((meta[name] for name in _TOPICS if meta.get(name)), None)
    said = _local(meta.get("updated", ""))
    found = []
    for number, line in enumerate(source.lines[length:], length + 1):
        if line.startswith("- ") and line[2:].strip():
            found.append(_entry(line[2:].strip(), number, topic, said))
        elif line.strip():
            source.cannot_read(number, "not an entry (a line that begins with '- ')")
    return found


def _entry(text: str, line: int, topic: str | None, when: str | None) -> Found:
    matched = _LABEL.match(text)
    kind, by, said = "", None, text
    if matched:
        kind, by, said = (matched[1] or "").lower(), matched[2] or matched[3], matched[4]
    fields = {"author": by, "topic": topic, "tags": ["bmad", "bmad.memlog"], "memlog_type": kind or None}
    if kind in DECISIONS:
        type, fields["decision"] = "decision", said
    elif kind in OPEN:
        type, fields["finding"], fields["category"], fields["status"] = "finding", said, kind, "open"
    elif kind in EVENTS:
        type, fields["content"], fields["role"], fields["kind"] = "conversation", said, "system", kind
    else:
        type, fields["learning"], fields["category"] = "learning", said, kind or "note"
    return Found(type, fields, line, text, when)


def _local(text: str) -> str | None:
    """`updated` is the local time of the machine, without a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone().isoformat()
