"""Each generation of BMAD is recognised by its folders, and its configuration is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from smp_memory.integrations.bmad.customisation import find_skills
from smp_memory.integrations.bmad.project import ALPHA, CUSTOM, HIDDEN, MEMLOG, PLAIN, V4, find_project
from tests.unit.bmad import projects


@pytest.mark.parametrize(
    ("make", "generation", "version", "output", "has_customisation"),
    [
        (projects.v4, V4, "4.44.3", "docs", False),
        (projects.alpha, ALPHA, "6.0.0-alpha.7", "_bmad-output", False),
        (lambda root: projects.alpha(root, ".bmad"), HIDDEN, "6.0.0-alpha.7", "_bmad-output", False),
        (projects.plain, PLAIN, "6.0.4", "out", False),
        (projects.skills, CUSTOM, "6.8.0", "_bmad-output", True),
        (projects.newest, MEMLOG, "6.12.0", "_bmad-output", True),
    ],
)
def test_generation_is_detected_by_its_folders(
    tmp_path: Path, make: Callable[[Path], Path], generation: str, version: str, output: str, has_customisation: bool
) -> None:
    make(tmp_path)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    project = find_project(str(tmp_path / "src" / "deep"))
    assert project is not None
    assert project.folder == str(tmp_path)
    assert (project.generation, project.version, project.output_folder()) == (generation, version, output)
    assert project.has_customisation is has_customisation
    assert project.digest_path() == str(tmp_path / output / "memory" / "MEMORY.md")


def test_smp_store_is_not_detected_as_bmad(tmp_path: Path) -> None:
    (tmp_path / ".bmad" / "memory").mkdir(parents=True)
    (tmp_path / "bmad").mkdir()
    assert find_project(str(tmp_path)) is None


@pytest.mark.parametrize("said", ["../outside", "/etc", "", "{project-root}/../x", "."])
def test_output_folder_is_inside_the_project(tmp_path: Path, said: str) -> None:
    projects.newest(tmp_path)
    (tmp_path / "_bmad/custom/config.user.toml").write_text(f'[core]\noutput_folder = "{said}"\n')
    project = find_project(str(tmp_path))
    assert project is not None
    assert project.digest_path() == str(
        tmp_path / ("etc" if said == "/etc" else "_bmad-output") / "memory" / "MEMORY.md"
    )


def test_later_config_layers_win_and_damaged_ones_are_ignored(tmp_path: Path) -> None:
    projects.newest(tmp_path)
    (tmp_path / "_bmad/config.user.toml").write_text('[core]\noutput_folder = "{project-root}/one"\n')
    (tmp_path / "_bmad/custom/config.toml").write_text('[core]\noutput_folder = "two"\n')
    (tmp_path / "_bmad/custom/config.user.toml").write_text("[core\n")
    project = find_project(str(tmp_path))
    assert project is not None
    assert project.output_folder() == "two"


def test_skills_are_classified_by_their_customisation(tmp_path: Path) -> None:
    project = find_project(str(projects.newest(tmp_path)))
    assert project is not None
    assert [(skill.name, skill.kind, skill.uses_memlog()) for skill in find_skills(project)] == [
        ("bmad-agent-architect", "agent", False),
        ("bmad-party-mode", "workflow", True),
        ("bmad-spec", "workflow", True),
    ]


def test_skill_name_cannot_lead_to_a_file_outside(tmp_path: Path) -> None:
    projects.newest(tmp_path)
    manifest = tmp_path / "_bmad/_config/skill-manifest.csv"
    manifest.write_text(
        manifest.read_text() + '"../../bmad-agent-evil","x","x","x","x"\n"bmad-agent-pm","x","x","x","x"\n'
    )
    project = find_project(str(tmp_path))
    assert project is not None
    assert "../../bmad-agent-evil" not in [skill.name for skill in find_skills(project)]
