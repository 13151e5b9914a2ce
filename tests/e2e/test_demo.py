"""`smp demo` shows everything that was acknowledged, and the commands that it suggests work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SMP_") or name == "SMP_STATE_DIR"},
    "PYTHONPATH": str(Path(smp_memory.__file__).parent.parent),
    "PYTHONWARNINGS": "error",
}


def demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smp_memory", "demo", *words],
        env=ENVIRONMENT, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
def test_acknowledged_memories_are_kept_and_suggested_commands_work(tmp_path: Path, layout: str) -> None:
    done = demo(tmp_path, "--layout", layout, "--keep", "my demo")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    counts = {
        word: int(number) for word, number in re.findall(r"^  (acknowledged|found|lost) +([\d,]+) ", done.stdout, re.M)
    }
    assert counts["acknowledged"] == counts["found"] > 0
    assert counts["lost"] == 0
    assert re.search(r"veritas +\d+ writes acknowledged .* killed in the middle", done.stdout)
    assert "changed by ada" in done.stdout
    answer = done.stdout.partition("A query in plain words")[2]
    assert re.search(r"DEC-\d+ .* architect.*\n +Use OAuth 2.0 for sign-in\n +text +█", answer)
    assert "Login has no rate limit" in answer
    assert "password = [REDACTED:password]" in done.stdout
    assert "query: not found; after restoring: found" in done.stdout
    assert "✓ removed from every file of the store" in done.stdout
    assert "</smp-recalled-" in done.stdout
    steps = done.stdout.partition("Next steps")[2].strip().splitlines()
    commands = [re.split(r"  +", step.strip())[0] for step in steps]
    assert len(commands) == 5
    script = "set -e\n" + "\n".join(commands)
    tried = subprocess.run(["sh", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    assert "FIND-" in tried.stdout
    assert shlex.quote(str(tmp_path / "my demo")) in commands[0]


def test_figures_as_json_and_nothing_left_behind(tmp_path: Path) -> None:
    done = demo(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["lost"], facts["valid"], facts["killed"], facts["folder"]) == ([], True, "veritas", None)
    assert facts["acknowledged"] == facts["found"] > 0
    assert os.listdir(tmp_path) == []


def test_demo_fails_and_names_memories_that_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from smp_memory.cli.commands import demo as demo_module
    from smp_memory.cli.main import main

    def forgetful(self: demo_module.Demo, command: str) -> object:
        return [] if command == "list" else {"ok": True, "sessions": {demo_module.SESSION: {"problems": []}}}

    monkeypatch.setattr(demo_module.Demo, "run_command", forgetful)
    monkeypatch.setattr(demo_module, "_WRITES", 3)
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 1
    assert "✗ DEC-0001" in capsys.readouterr().out
