"""Each generation of BMAD is recognised by its folders, and what it says of itself is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from smp_memory.integrations.bmad.customisation import find_skills
from smp_memory.integrations.bmad.project import ALPHA, CUSTOM, HIDDEN, MEMLOG, PLAIN, V4, find_project
from tests.unit.bmad import trees


@pytest.mark.parametrize(
    ("make", "generation", "version", "output", "has_hook_ins"),
    [
        (trees.v4, V4, "4.44.3", "docs", False),
        (trees.alpha, ALPHA, "6.0.0-alpha.7", "_bmad-output", False),
        (lambda root: trees.alpha(root, ".bmad"), HIDDEN, "6.0.0-alpha.7", "_bmad-output", False),
        (trees.plain, PLAIN, "6.0.4", "out", False),
        (trees.skills, CUSTOM, "6.8.0", "_bmad-output", True),
        (trees.newest, MEMLOG, "6.12.0", "_bmad-output", True),
    ],
)
def test_generations(
    tmp_path: Path, make: Callable[[Path], Path], generation: str, version: str, output: str, has_hook_ins: bool
) -> None:
    make(tmp_path)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    project = find_project(str(tmp_path / "src" / "deep"))
    assert project is not None
    assert project.folder == str(tmp_path)
    assert (project.generation, project.version, project.output_folder()) == (generation, version, output)
    assert project.has_hook_ins is has_hook_ins
    assert project.digest_path() == str(tmp_path / output / "memory" / "MEMORY.md")


def test_a_store_of_our_own_is_no_bmad(tmp_path: Path) -> None:
    (tmp_path / ".bmad" / "memory").mkdir(parents=True)
    (tmp_path / "bmad").mkdir()
    assert find_project(str(tmp_path)) is None


@pytest.mark.parametrize("said", ["../outside", "/etc", "", "{project-root}/../x", "."])
def test_the_output_stays_inside_the_project(tmp_path: Path, said: str) -> None:
    trees.newest(tmp_path)
    (tmp_path / "_bmad/custom/config.user.toml").write_text(f'[core]\noutput_folder = "{said}"\n')
    project = find_project(str(tmp_path))
    assert project is not None
    assert project.digest_path() == str(
        tmp_path / ("etc" if said == "/etc" else "_bmad-output") / "memory" / "MEMORY.md"
    )


def test_later_layers_win_and_damaged_ones_say_nothing(tmp_path: Path) -> None:
    trees.newest(tmp_path)
    (tmp_path / "_bmad/config.user.toml").write_text('[core]\noutput_folder = "{project-root}/one"\n')
    (tmp_path / "_bmad/custom/config.toml").write_text('[core]\noutput_folder = "two"\n')
    (tmp_path / "_bmad/custom/config.user.toml").write_text("[core\n")
    project = find_project(str(tmp_path))
    assert project is not None
    assert project.output_folder() == "two"


def test_skills_say_what_they_are(tmp_path: Path) -> None:
    project = find_project(str(trees.newest(tmp_path)))
    assert project is not None
    assert [(skill.name, skill.kind, skill.uses_memlog()) for skill in find_skills(project)] == [
        ("bmad-agent-architect", "agent", False),
        ("bmad-party-mode", "workflow", True),
        ("bmad-spec", "workflow", True),
    ]


def test_a_skill_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    trees.newest(tmp_path)
    manifest = tmp_path / "_bmad/_config/skill-manifest.csv"
    manifest.write_text(
        manifest.read_text() + '"../../bmad-agent-evil","x","x","x","x"\n"bmad-agent-pm","x","x","x","x"\n'
    )
    project = find_project(str(tmp_path))
    assert project is not None
    assert "../../bmad-agent-evil" not in [skill.name for skill in find_skills(project)]
