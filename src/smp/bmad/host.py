"""What does BMAD get? For each of its agents, and for workflows in which agents look back, a file in `_bmad/custom/`.

That folder is the user's: BMAD's installer makes it and never writes to it again. Nothing else in `_bmad` is touched. Older
versions of BMAD have no such place; there the hints say what a person can do, and no file is changed.
"""

from __future__ import annotations

import os

from smp.bmad.hook_ins import OURS, hook_in
from smp.bmad.project import MEMLOG, V4, Project, find_project, is_inside, read
from smp.bmad.skills import AGENT, Skill, skills_of
from smp.bmad.toml_lists import NotMergeable, put, take
from smp.errors import UserError
from smp.hooks.install import PROJECT, Where
from smp.hooks.install.edit import Edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "BMAD"
ABOUT = "what agents and workflows recall and record, in _bmad/custom/*.toml"
WITH_MEMLOG, ALL_WORKFLOWS = "memlog", "workflows"
_OF_MEMLOG = "memlog` with the same arguments"


def is_there(where: Where) -> bool:
    return find_project(where.start) is not None


def edits(where: Where, command: str) -> list[Edit]:
    """One for each skill that is hooked into; those that were hooked into before stay so."""
    project = find_project(where.start) if where.scope == PROJECT else None
    if project is None or not project.has_hook_ins or _is_elsewhere(project):
        return []
    memlog = project.generation == MEMLOG and WITH_MEMLOG in where.asked
    skills = {skill.name: skill for skill in skills_of(project)}
    meant = [
        skill
        for skill in skills.values()
        if skill.is_always_meant
        or ALL_WORKFLOWS in where.asked
        or OURS in read(_path(project, skill.name))
        or (memlog and skill.uses_memlog())
    ]
    found = [_edit(project, skill, command, memlog and skill.uses_memlog()) for skill in meant]
    return found + [_leftover(project, name) for name in _orphans(project, set(skills))]


def hints(where: Where) -> list[str]:
    if where.scope != PROJECT:
        return ["BMAD is installed in projects, not for a user: leave --user out."]
    project = find_project(where.start)
    if project is None:
        return [
            "There is no BMAD here (no _bmad, .bmad-core, bmad or .bmad folder of its own), in this folder or above."
        ]
    digest = os.path.relpath(project.digest_path(), project.folder).replace(os.sep, "/")
    said = [f"This is {project}. What its workflows have written so far comes in with: smp import --from bmad"]
    if _is_elsewhere(project):
        return [
            *said,
            f"{project.custom} leads out of the project; nothing was changed. Put a folder of its own there.",
        ]
    if project.has_hook_ins:
        return [*said, f"For people and tools without a shell: smp digest writes {digest}"]
    return [*said, *_by_hand(project, digest)]


def _by_hand(project: Project, digest: str) -> list[str]:
    """What can be done where the installer writes every file that agents read."""
    said = [
        "This version has no file for additions that its installer leaves alone, so nothing was changed.",
        f"`smp digest` writes what is remembered into {digest}, which agents can read.",
    ]
    if project.generation == V4:
        return [*said, f"To have it read by the developer agent, add it by hand in .bmad-core/core-config.yaml: devLoadAlwaysFiles: [{digest}]"]  # fmt: skip
    return [
        *said,
        f"Tell your agents of it in AGENTS.md or CLAUDE.md: Read {digest} before you start.",
        "The hooks of a coding agent work with every version of BMAD: smp install claude-code",
    ]


def _is_elsewhere(project: Project) -> bool:
    """A project that came from somebody else must not make us write outside of it."""
    return not is_inside(project.folder, project.custom)


# -- one file


def _path(project: Project, name: str) -> str:
    return os.path.join(project.custom, f"{name}.toml")


def _edit(project: Project, skill: Skill, command: str, memlog: bool) -> Edit:
    path = _path(project, skill.name)
    digest = os.path.relpath(project.digest_path(), project.folder).replace(os.sep, "/")

    def putting(text: str) -> str:
        lists = hook_in(skill, command, digest, memlog or _OF_MEMLOG in text)
        try:
            return put(text, skill.kind, lists, OURS)
        except NotMergeable as error:
            raise UserError(_to_add(path, skill.kind, lists, error), path=path) from None

    return Edit(path, _about(skill), putting, _taking(path))


def _leftover(project: Project, name: str) -> Edit:
    """Of a skill that is no longer installed: nothing is put in, what is there can be taken out."""
    path = _path(project, name)
    return Edit(path, "what was put in for a skill that is gone", lambda text: text, _taking(path))


def _taking(path: str) -> Callable[[str], str]:
    def taking(text: str) -> str:
        try:
            left = take(text, OURS)
        except NotMergeable as error:
            raise UserError(f"{path}: {error}. It was not changed; take out the lines that begin with {OURS!r} by hand.", path=path) from None  # fmt: skip
        return left if left.strip() else ""

    return taking


def _orphans(project: Project, known: set[str]) -> list[str]:
    try:
        names = sorted(os.listdir(project.custom))
    except OSError:
        return []
    stems = [name.removesuffix(".toml") for name in names if name.endswith(".toml")]
    return [stem for stem in stems if stem not in known and OURS in read(_path(project, stem))]


def _about(skill: Skill) -> str:
    return f"memory of {skill.short_name}" if skill.kind == AGENT else f"memory in {skill.short_name}"


def _to_add(path: str, table: str, lists: dict[str, list[str]], error: NotMergeable) -> str:
    import json

    lines = [f"{path}: {error}. No file was changed. To add it by hand, put this into [{table}]:"]
    for name, items in lists.items():
        lines.append(f"  {name}: {', '.join(json.dumps(item, ensure_ascii=False) for item in items)}")
    return "\n".join(lines)
