"""`smp import --from bmad` as a person uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from smp_memory.cli.main import main
from tests.unit.bmad import projects


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = projects.newest(tmp_path / "shop")
    projects.put(root, {"_bmad-output/a/.memlog.md": "---\ntopic: x\n---\n\nprose\n- (decision) tea\n"})
    monkeypatch.chdir(root)
    assert main(["init"]) == 0
    return root


def test_second_import_adds_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["import", "--from", "bmad", "--dry-run"]) == 0
    assert "27 memories would be added" in capsys.readouterr().out
    assert main(["import", "."]) == 0  # a folder is a BMAD project
    said = capsys.readouterr().out
    steps = [line.split() for line in said.splitlines()[:5]]
    assert [(step[0], step[2]) for step in steps] == [
        ("1", "backup"),
        ("2", "install"),
        ("3", "migrate"),
        ("4", "validate"),
        ("5", "clean"),
    ]
    assert "27 memories added to bmad-import" in said
    assert "27 memories are stored, readable and found; a second run would add nothing" in said
    assert "_bmad-output/a/.memlog.md:5 not understood" in said
    assert "BMAD's files were not changed" in said
    assert main(["import", "--from", "bmad", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["added"] == {}
    assert facts["known"] == 28
    assert facts["importer"] == "bmad"
    assert [(step["name"], step["ok"]) for step in facts["steps"]][3] == ("validate", True)
    assert facts["not_understood"] == [
        {"file": "_bmad-output/a/.memlog.md", "line": 5, "why": "not an entry (a line that begins with '- ')"}
    ]
    assert main(["import", "--from", "bmad", "--as", "other", "--json"]) == 0
    assert sum(json.loads(capsys.readouterr().out)["added"].values()) == 27
    assert main(["audit", "--json"]) == 0
    assert [(entry["action"], entry["count"]) for entry in json.loads(capsys.readouterr().out)["entries"]] == [
        ("import", 27)
    ] * 2
    assert main(["query", "tea", "--session", "bmad-import", "--json"]) == 0
    assert "_bmad-output/a/.memlog.md" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["import"], "PATH is missing"),
        (["import", "x.json", "--dry-run"], "--dry-run"),
        (["import", "--from", "bmad", "nowhere"], "does not exist"),
        (["import", "--from", "bmad", "--format", "json"], "--format"),
        (["import", "--from", "mcp-memory"], "PATH is missing"),
    ],
)
def test_contradicting_import_options_are_rejected(
    project: Path, words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert why in capsys.readouterr().err


def test_import_from_a_folder_without_bmad_is_rejected(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["import", str(tmp_path / "empty")]) == 2
    assert "There is no BMAD project" in capsys.readouterr().err


def test_concurrent_imports_add_each_memory_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "smp_memory", "import", "--from", "bmad", "--json"]
    running = [subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL, env=dict(os.environ)) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    capsys.readouterr()
    assert main(["list", "--session", "bmad-import", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 27
