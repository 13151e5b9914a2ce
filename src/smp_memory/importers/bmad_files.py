"""Find the files of a BMAD project that contain memories, of all versions of BMAD, and the reader of each.

Guarantees: read-only; links are not followed, and neither the store nor folders of tools and packages are entered. The order
is deterministic.
"""

from __future__ import annotations

import fnmatch
import os
from typing import TYPE_CHECKING

from smp_memory.importers import bmad_notes, bmad_sprint_status, bmad_stories
from smp_memory.importers.ingest import ImportFile
from smp_memory.integrations.bmad.project import V4, Project, yaml_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.ingest import Reader

_NOT_ENTERED = frozenset("node_modules __pycache__ venv env dist build target vendor .git .smp".split())  # noqa: SIM905
_ENTERED_HIDDEN = (".bmad", ".ai", ".bmad-user-memory", ".working")
_MAX_FILES = 500_000


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
                yield ImportFile(os.path.join(folder, name), whole, *found)


def _is_entered(path: str, name: str, excluded: str | None) -> bool:
    if name in _NOT_ENTERED or (name.startswith(".") and name not in _ENTERED_HIDDEN):
        return False
    return not os.path.islink(path) and os.path.realpath(path) != excluded


def _reader(whole: str, name: str, debug_log: str, story_folders: tuple[str, ...]) -> tuple[Reader, str] | None:
    if name.endswith(".memlog.md"):
        return bmad_notes.read_memlog, "memlog"
    if name.startswith(".decision-log") and name.endswith((".md", ".txt", ".decision-log")):
        return bmad_notes.read_decision_log, "decision log"
    if name in ("sprint-status.yaml", "sprint-status.yml"):
        return bmad_sprint_status.read_sprint_status, "sprint status"
    if not name.endswith(".md"):
        return None
    if whole == debug_log:
        return bmad_notes.read_debug_log, "debug log"
    if fnmatch.fnmatchcase(name, "epic-*-retro-*.md") or name == "RETROSPECTIVE.md":
        return bmad_stories.read_retrospective, "retrospective"
    parts = whole.split("/")
    if any(part.endswith("-sidecar") for part in parts[:-1]) and _is_agent_memory(parts):
        return bmad_notes.read_sidecar, "sidecar"
    if parts[0] == ".bmad-user-memory":
        return bmad_notes.read_sidecar, "sidecar"
    if parts[:2] == ["_bmad", "memory"] and len(parts) > 3:
        return bmad_notes.read_sanctum, "sanctum"
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
