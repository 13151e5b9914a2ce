"""`smp install bmad`: the files it writes, byte for byte, and their removal."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from smp_memory.cli.main import main
from smp_memory.integrations.bmad.customisation import OURS
from tests.unit.bmad import projects

MINE = """# Ours: the architect answers in metric units.
[agent]
icon = "🏛️"  # stays

activation_steps_append = [
  "Read docs/standards.md.", # first
  # more to come
]

[[agent.menu]]
code = "XX"
description = "our own"
prompt = "Say hello."
"""


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = projects.newest(tmp_path / "shop")
    projects.put(root, {"_bmad/custom/bmad-agent-architect.toml": MINE})
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return root


def install(*words: str) -> int:
    return main(["install", "bmad", "--command", "smp", *words])


def test_install_and_undo_restore_every_byte(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(project)
    assert install("--dry-run") == 0
    assert snapshot(project) == before
    assert '+  "Memory (smp): run `smp context --agent architect' in capsys.readouterr().out
    assert install() == 1  # nobody to ask, and no --yes
    assert snapshot(project) == before

    assert install("--yes") == 0
    after = snapshot(project)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {
        "_bmad/custom/bmad-agent-architect.toml",
        "_bmad/custom/bmad-agent-architect.toml.smp-backup",
        "_bmad/custom/bmad-party-mode.toml",
    }
    agent = tomllib.loads((project / "_bmad/custom/bmad-agent-architect.toml").read_text())["agent"]
    assert agent["icon"] == "🏛️"
    assert agent["menu"][0]["code"] == "XX"
    assert agent["activation_steps_append"][0] == "Read docs/standards.md."
    assert "smp context --agent architect" in agent["activation_steps_append"][1]
    assert agent["persistent_facts"][0].startswith(OURS)
    assert "# more to come" in (project / "_bmad/custom/bmad-agent-architect.toml").read_text()
    assert "workflow" in tomllib.loads((project / "_bmad/custom/bmad-party-mode.toml").read_text())

    assert install("--yes") == 0
    assert snapshot(project) == after
    assert install("--undo", "--yes") == 0
    assert snapshot(project) == before
    assert install("--undo", "--yes") == 0
    assert snapshot(project) == before


def test_undo_keeps_changes_of_a_person(project: Path) -> None:
    install("--yes")
    path = project / "_bmad/custom/bmad-agent-architect.toml"
    path.write_text(path.read_text() + "\n[agent.extra]\nnew = true  # since\n")
    install("--undo", "--yes")
    assert path.read_text() == MINE + "\n[agent.extra]\nnew = true  # since\n"


def test_memlog_and_workflow_options_hold_until_undone(project: Path) -> None:
    before = snapshot(project)
    install("--memlog", "--yes")
    spec = project / "_bmad/custom/bmad-spec.toml"
    assert "smp memlog" in spec.read_text()
    assert "smp memlog" not in (project / "_bmad/custom/bmad-agent-architect.toml").read_text()
    assert (project / "_bmad/scripts/memlog.py").read_bytes() == b""  # what BMAD's installer wrote is never changed
    after = snapshot(project)
    install("--yes")
    assert snapshot(project) == after
    install("--undo", "--yes")
    assert snapshot(project) == before
    install("--workflows", "--yes")
    assert spec.exists()
    install("--undo", "--yes")
    assert snapshot(project) == before


def test_file_that_cannot_be_merged_stops_the_installation(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "_bmad/custom/bmad-party-mode.toml").write_text('workflow = {default_party = "x"}\n')
    before = snapshot(project)
    assert install("--yes") == 2
    assert snapshot(project) == before
    said = capsys.readouterr().err
    assert "bmad-party-mode.toml" in said
    assert "activation_steps_append" in said  # what to add by hand
    assert "No file was changed" in said


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_nothing_is_written_outside_of_the_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = project.parent / "outside"
    (project / "_bmad/custom").rename(outside)
    (project / "_bmad/custom").symlink_to(outside)
    before = snapshot(outside)
    assert install("--yes") == 1
    assert snapshot(outside) == before
    assert "leads out of the project" in capsys.readouterr().out


def test_additions_for_a_removed_skill_can_be_undone(project: Path) -> None:
    install("--workflows", "--yes")
    manifest = project / "_bmad/_config/skill-manifest.csv"
    manifest.write_text("".join(line for line in manifest.read_text().splitlines(True) if "bmad-spec" not in line))
    install("--undo", "--yes")
    assert not (project / "_bmad/custom/bmad-spec.toml").exists()


@pytest.mark.parametrize("make", [projects.v4, projects.alpha, projects.plain])
def test_older_versions_get_hints(
    tmp_path: Path, make: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path)  # type: ignore[operator]
    before = snapshot(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert install("--yes") == 1
    assert snapshot(tmp_path) == before
    said = capsys.readouterr().out
    assert "nothing was changed" in said
    assert "smp digest" in said


def test_project_without_bmad_is_listed_as_not_detected(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install("--yes")
    capsys.readouterr()
    assert main(["install", "--json", "--command", "smp"]) == 0
    row = next(each for each in json.loads(capsys.readouterr().out) if each["host"] == "bmad")
    assert (row["detected"], row["project"], row["user"]) == (True, "installed", "–")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert install("--yes", "--in", str(empty)) == 1
    assert "no BMAD here" in capsys.readouterr().out


def test_module_needs_the_plugin_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(project)
    assert install("--yes", "--with-module", str(project)) == 2
    assert snapshot(project) == before
    assert "plugin folder" in capsys.readouterr().err
    plugin = projects.put(
        project.parent / "plugin", {".claude-plugin/marketplace.json": "{}", "skills/module.yaml": "code: smp\n"}
    )
    assert install("--dry-run", "--with-module", str(plugin), "--json") == 0
    words = json.loads(capsys.readouterr().out)["module"]["command"]
    assert words[:4] == ["npx", "--yes", "bmad-method@6.12.0", "install"]
    assert words[words.index("--modules") + 1] == "bmm"
    assert words[words.index("--tools") + 1] == "claude-code"
    assert snapshot(project) == before
