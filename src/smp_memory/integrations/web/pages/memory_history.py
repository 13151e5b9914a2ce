"""The history of a memory with differences, newest first, and where its bytes are: files, lines, checksums."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp_memory.integrations.web.html import Child, Html, el, join, url
from smp_memory.integrations.web.layout import panel
from smp_memory.integrations.web.pages.memory_fields import label_of
from smp_memory.integrations.web.parts import difference, memory_url, pairs, when
from smp_memory.integrations.web.words import counted, moment_text, plain, shortened, size_text
from smp_memory.model.entry import is_maintenance, is_revision
from smp_memory.model.times import to_moment

if TYPE_CHECKING:
    from smp_memory.integrations.web.lookup import LocatedMemory
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.model.entry import Entry

_SHOWN_STEPS = 30
_SHOWN_ENTRIES = 10
_FIRST_CHARACTERS = 160  # of a value in the first step, which the page shows anyway
_DIFFERENCE_CHARACTERS = 3000
_VERBS = {"put": "written", "change": "changed", "delete": "deleted", "restore": "restored"}
_CHECKSUMS = {"signed": "checksum matches", "edited": "edited by hand", "unsigned": "typed in by hand, no checksum"}


# -- history


def history_panel(request: PageRequest, found: LocatedMemory) -> Html | None:
    if found.history is None:
        return None
    steps = found.history.steps()[::-1]
    shown = steps if request.get("history") == "all" else steps[:_SHOWN_STEPS]
    missing = len(steps) - len(shown)
    link = url(memory_url(found.ref), history="all")
    more = el("p", el("a", f"Show {counted(missing, 'earlier step')}", href=link), class_="note") if missing else None
    rows = el("ol", [_step(request, step) for step in shown], class_="history", reversed=True)
    title = "History" if len(steps) > 1 else "History: not changed since it was written"
    return panel(title, rows, more, class_="unchanged" if len(steps) == 1 else "")


def _step(request: PageRequest, step: dict[str, Any]) -> Html:
    is_first = step["op"] == "put" and step["revision"] == 1
    who = f" by {step['by']}" if step["by"] else " by hand, by somebody unknown" if step.get("edited_by_hand") else ""
    mark = f"revision {step['revision']}" if step["op"] in ("put", "change") else ""
    head = el(
        "p",
        el("b", _VERBS.get(step["op"], step["op"]).capitalize()),
        f"{who} ",
        when(to_moment(step["at"]), request.now),
        el("span", mark, class_="side") if mark else None,
        class_="step",
    )
    reason = el("p", "Reason: ", str(step["reason"]), class_="reason") if step.get("reason") else None
    return el("li", head, reason, [_change(name, change, is_first) for name, change in step.get("changes", {}).items()])


def _change(name: str, change: dict[str, Any], is_first: bool) -> Html:
    before, after = value_text(change["from"]), value_text(change["to"])
    said: Child
    if is_first:
        said = shortened(after, _FIRST_CHARACTERS)
    else:
        said = difference(shortened(before, _DIFFERENCE_CHARACTERS), shortened(after, _DIFFERENCE_CHARACTERS))
    return el(
        "div", el("span", label_of(name), class_="label"), el("div", said, class_="diff", dir="auto"), class_="change"
    )


def value_text(value: Any) -> str:
    """A value as text that can be compared: relations with arrows, other objects as JSON."""
    if isinstance(value, list) and value and all(isinstance(each, dict) and "target" in each for each in value):
        return "\n".join(f"{each.get('kind')} → {each['target']}" for each in value)
    if isinstance(value, (dict, list)) and any(isinstance(each, (dict, list)) for each in _items(value)):
        return json.dumps(value, ensure_ascii=False, indent=1)
    return plain(value)


def _items(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


# -- where its bytes are


def provenance_panel(request: PageRequest, found: LocatedMemory) -> Html | None:
    """Files and lines of every entry of the memory, whether the checksums match, and what SMP itself adds."""
    if found.history is None:
        return None
    entries = found.history.entries[::-1]
    rows, revision = [], found.history.revision
    for entry in entries[:_SHOWN_ENTRIES]:
        rows.append(_entry_row(found, entry, revision))
        revision -= is_revision(entry)
    folded = el("p", f"{len(entries) - _SHOWN_ENTRIES:,} earlier entries are not listed.", class_="hint")
    place = found.place or (found.session.folder if found.session is not None else "")
    uid = found.history.first.uid
    return panel(
        "Where its bytes are",
        pairs([("Folder" if not found.place else "In", el("code", _relative(request, place)))]),
        el("ul", rows, class_="places"),
        folded if len(entries) > _SHOWN_ENTRIES else None,
        el("p", f"Sequence number {found.history.first.seq}" + (f", uid {uid}" if uid else ""), class_="hint"),
        class_="page-only",
    )


def _entry_row(found: LocatedMemory, entry: Entry, revision: int) -> Html:
    what = "uses counted" if is_maintenance(entry) else _VERBS.get(entry.op, entry.op)
    if is_revision(entry):
        what = f"{what}, revision {revision}"
    size = entry.place[1] - entry.place[0]
    name = _name_in_session(found, entry.file)
    where = f"{name}:{entry.line}" if entry.line else name
    state = _CHECKSUMS.get(entry.state, entry.state)
    kind = "" if entry.state == "signed" else "tag warn"
    details = join(moment_text(to_moment(entry.at)), f", {size_text(size)}, " if size > 0 else ", ")
    return el("li", el("code", where), " ", what, el("small", details, el("span", state, class_=kind)))


def _name_in_session(found: LocatedMemory, path: str) -> str:
    """The path below the session's folder: `artifacts/ART-0001.md`."""
    folder = found.session.folder + os.sep if found.session is not None else ""
    return path[len(folder) :] if folder and path.startswith(folder) else os.path.basename(path) or "-"


def _relative(request: PageRequest, path: str) -> str:
    root = request.memory.root
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path
