"""Which of BMAD's skills can be hooked into, and how? Read from where a project's tools have them.

A skill says by its own `customize.toml` whether it is an agent or a workflow, and which lists can be added to. Without that
file its name decides. Only looks.
"""

from __future__ import annotations

import os

from smp.bmad.project import Project, read, table, toml

AGENT, WORKFLOW = "agent", "workflow"
_ALWAYS = ("bmad-party-mode", "bmad-retrospective")  # workflows in which agents look back
_SCRIPT = "memlog.py"
_MOST_FILES = 200


class Skill:
    def __init__(self, name: str, kind: str, folder: str | None) -> None:
        self.name = name
        self.kind = kind
        self.folder = folder  # None if only the manifest knows it

    @property
    def short_name(self) -> str:
        """How people call the agent: without BMAD's prefix."""
        return self.name.removeprefix("bmad-").removeprefix("agent-")

    @property
    def is_always_meant(self) -> bool:
        return self.kind == AGENT or self.name in _ALWAYS

    def uses_memlog(self) -> bool:
        """Whether it tells a model to call BMAD's memlog script."""
        if self.folder is None:
            return False
        texts = (os.path.join(at, name) for at, _, names in os.walk(self.folder) for name in sorted(names))
        return any(
            _SCRIPT in read(path) for path, _ in zip(texts, range(_MOST_FILES), strict=False) if path.endswith(".md")
        )


def skills_of(project: Project) -> list[Skill]:
    """All that can be hooked into, by name."""
    places = _places(project)
    known = {name for place in places for name in _names(place)} & _installed(project)
    found = []
    for name in sorted(known or _installed(project)):
        folder = next((place for place in (os.path.join(each, name) for each in places) if os.path.isdir(place)), None)
        kind = _kind(name, folder)
        if kind is not None:
            found.append(Skill(name, kind, folder))
    return found


def _places(project: Project) -> list[str]:
    """The folders of skills: those of the tools in the project, whatever they are called."""
    tops = [name for name in _names(project.folder) if name.startswith(".") and name != ".git"]
    return [path for path in (project.path(name, "skills") for name in tops) if os.path.isdir(path)]


def _installed(project: Project) -> set[str]:
    import csv

    rows = csv.reader(read(os.path.join(project.home, "_config", "skill-manifest.csv")).splitlines()[1:])
    try:
        return {row[0] for row in rows if row and _is_name(row[0])}
    except csv.Error:
        return set()


def _is_name(text: str) -> bool:
    """The name becomes the name of a file."""
    return bool(text) and text.replace("-", "").replace("_", "").isalnum()


def _kind(name: str, folder: str | None) -> str | None:
    if folder is None:
        return AGENT if name.startswith("bmad-agent-") else None
    said = toml(os.path.join(folder, "customize.toml"))
    return next((kind for kind in (AGENT, WORKFLOW) if "activation_steps_append" in table(said, kind)), None)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
