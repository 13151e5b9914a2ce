"""A project made by BMAD's own installer: its resolver reads our additions, and its update keeps them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from smp_memory.cli.main import main
from smp_memory.integrations.bmad.customisation import OURS
from tests.e2e.npm_package import installed

pytestmark = pytest.mark.slow
VERSION = "6.12.0"
ROOT = Path(__file__).parents[2]


def bmad(project: Path, *words: str) -> None:
    package = installed("bmad-method", VERSION)
    command = json.loads((package / "package.json").read_text())["bin"]["bmad-method"]
    environ = {**os.environ, "HOME": str(project.parent), "CI": "1"}
    done = subprocess.run(
        ["node", str(package / command), "install", "--directory", str(project), "--yes", *words],
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def resolved(project: Path, skill: str, table: str) -> dict[str, list[str]]:
    script = project / "_bmad/scripts/resolve_customization.py"
    words = [
        sys.executable,
        str(script),
        "--skill",
        str(project / ".claude/skills" / skill),
        "--project-root",
        str(project),
    ]
    done = subprocess.run([*words, "--key", table], capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, list[str]] = json.loads(done.stdout)[table]
    return found


def snapshot(root: Path) -> dict[str, bytes]:
    found = (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_bmad_project_is_installed_resolved_and_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    bmad(project, "--modules", "bmm", "--tools", "claude-code")
    mine = project / "_bmad/custom/bmad-agent-pm.toml"
    mine.write_text('[agent]\npersistent_facts = ["We sell tea."] # ours\n')
    before = snapshot(project)
    monkeypatch.chdir(project)
    assert main(["install", "bmad", "--command", "smp", "--memlog", "--yes"]) == 0
    agent = resolved(project, "bmad-agent-pm", "agent")
    assert agent["persistent_facts"][0] == "We sell tea."
    assert agent["persistent_facts"][1].startswith(OURS)
    assert "smp context --agent pm" in agent["activation_steps_append"][0]
    party = resolved(project, "bmad-party-mode", "workflow")
    assert any("smp memlog" in fact for fact in party["persistent_facts"])
    changed = {name for name, data in snapshot(project).items() if before.get(name) != data}
    assert all(name.startswith("_bmad/custom/") for name in changed)
    custom = snapshot(project / "_bmad/custom")

    plugin = ["--custom-source", str(ROOT / "plugin")]
    bmad(
        project, "--action", "update", "--modules", "bmm", "--tools", "claude-code", *plugin
    )  # as `--with-module` calls it
    assert snapshot(project / "_bmad/custom") == custom
    assert (project / ".claude/skills/smp-recall/SKILL.md").exists()
    assert main(["install", "bmad", "--undo", "--yes"]) == 0
    left = {name: data for name, data in snapshot(project).items() if name.startswith("_bmad/custom/")}
    assert left == {name: data for name, data in before.items() if name.startswith("_bmad/custom/")}
