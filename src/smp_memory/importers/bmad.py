"""Find the files of a BMAD project that contain memories, of all versions of BMAD, and read notes of its agents.

Notes are sidecars, sanctums, decision logs, debug logs and memlogs. Markdown is read item by item. The type of an item follows from
the headings above it, else from the file: below "Preferences" a preference, below "Decisions" a decision, below "Open questions" an
open finding, else the usual type for that kind of file. Files with instructions and personas become one artifact each.

Each entry of a memlog becomes a memory by its type; `by` becomes the author. A memlog that is not in its own format is read as
Markdown, section by section.

    - (decision by pm) use OAuth 2.0          a decision of pm
    - (question) who pays for it?             an open finding
    - (insight) people skip the wall          a learning

Guarantees: read-only; links are not followed, and neither the store nor folders of tools and packages are entered. The order
is deterministic.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from datetime import datetime
from typing import TYPE_CHECKING

from smp_memory.discovery import project_name
from smp_memory.errors import UserError
from smp_memory.importers import bmad_stories
from smp_memory.importers.markdown_items import MarkdownItem, date_in, front_matter, items
from smp_memory.importers.registry import Found, ImportOptions, Places, found_files
from smp_memory.importers.source import ImportFile, IngestedMemory, Source
from smp_memory.integrations.bmad.project import V4, Project, find_project, yaml_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.source import Reader

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


_NOT_ENTERED = frozenset("node_modules __pycache__ venv env dist build target vendor .git .smp".split())  # noqa: SIM905
_ENTERED_HIDDEN = (".bmad", ".ai", ".bmad-user-memory", ".working")
_MAX_FILES = 500_000


def found(places: Places) -> list[Found]:
    """The BMAD project that the project's folder is in."""
    project = find_project(places.project)
    if project is None:
        return []
    return found_files(project.folder, str(project), [file.path for file in find_memory_files(project)])


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    """All files with memories of the project at a path, or of the one that the project's folder is in."""
    start = path or options.places.project
    if not os.path.isdir(start):
        raise UserError(f"{start} is not a folder; for BMAD, give the folder of a project.", path=start)
    project = find_project(start)
    if project is None:
        raise UserError(
            f"There is no BMAD project in {start} or above it: no _bmad, .bmad-core, bmad/_cfg or .bmad/_cfg. "
            "For other folders give --from NAME; `smp import --list` shows the names.",
            path=start,
        )
    return find_memory_files(project, options.store)


def find_memory_files(project: Project, store: str | None = None) -> list[ImportFile]:
    """All files with memories by path; the sprint status first, because it states what is done. `store` is not entered."""
    return sorted(_walk(project, store), key=lambda file: (file.kind != "sprint status", file.name))


def _walk(project: Project, store: str | None) -> Iterator[ImportFile]:
    debug_log, story_folders = _v4_paths(project)
    excluded = os.path.realpath(store) if store else None
    file_count = 0
    for folder, folders, names in os.walk(project.folder):
        folders[:] = sorted(name for name in folders if _is_entered(os.path.join(folder, name), name, excluded))
        below = os.path.relpath(folder, project.folder).replace(os.sep, "/")
        file_count += len(names)
        if file_count > _MAX_FILES:
            return
        for name in sorted(names):
            whole = name if below == "." else f"{below}/{name}"
            found = _reader(whole, name, debug_log, story_folders)
            if found is not None:
                path, name_of_project = os.path.join(folder, name), project_name(project.folder)
                yield ImportFile(path, whole, *found, project=name_of_project, has_git_times=True)


def _is_entered(path: str, name: str, excluded: str | None) -> bool:
    if name in _NOT_ENTERED or (name.startswith(".") and name not in _ENTERED_HIDDEN):
        return False
    return not os.path.islink(path) and os.path.realpath(path) != excluded


def _reader(whole: str, name: str, debug_log: str, story_folders: tuple[str, ...]) -> tuple[Reader, str] | None:
    if name.endswith(".memlog.md"):
        return read_memlog, "memlog"
    if name.startswith(".decision-log") and name.endswith((".md", ".txt", ".decision-log")):
        return read_decision_log, "decision log"
    if name in ("sprint-status.yaml", "sprint-status.yml"):
        return bmad_stories.read_sprint_status, "sprint status"
    if not name.endswith(".md"):
        return None
    if whole == debug_log:
        return read_debug_log, "debug log"
    if fnmatch.fnmatchcase(name, "epic-*-retro-*.md") or name == "RETROSPECTIVE.md":
        return bmad_stories.read_retrospective, "retrospective"
    parts = whole.split("/")
    if any(part.endswith("-sidecar") for part in parts[:-1]) and _is_agent_memory(parts):
        return read_sidecar, "sidecar"
    if parts[0] == ".bmad-user-memory":
        return read_sidecar, "sidecar"
    if parts[:2] == ["_bmad", "memory"] and len(parts) > 3:
        return read_sanctum, "sanctum"
    if any(whole.startswith(folder + "/") or f"/{folder}/" in whole for folder in story_folders):
        return bmad_stories.read_story, "story"
    return None


def _is_agent_memory(parts: list[str]) -> bool:
    """Since alpha 17, the copies beside an agent are templates, and its memories are in `_memory`."""
    return parts[:2] == ["_bmad", "_memory"] if parts[0] == "_bmad" else parts[0] in ("bmad", ".bmad")


def _v4_paths(project: Project) -> tuple[str, tuple[str, ...]]:
    """The paths of the debug log and of stories, from the configuration of version 4 or by convention."""
    debug_log, folder = ".ai/debug-log.md", "docs/stories"
    if project.generation == V4:
        config = os.path.join(project.home, "core-config.yaml")
        debug_log = yaml_value(config, "devDebugLog") or debug_log
        folder = (yaml_value(config, "devStoryLocation") or folder).strip("/")
    return debug_log, tuple(dict.fromkeys((folder, "stories", "implementation-artifacts")))
