"""The command that `smp install` writes: a name where hosts find it, the absolute path inside a virtual environment."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from smp_memory.cli.main import main
from smp_memory.integrations.hooks.file_edit import command_here, environment_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="programs are files that may be run")


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process runs in a virtual environment that has `smp`."""
    folder = tmp_path / "my project" / ".venv"
    program(folder / "bin" / "smp")
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "executable", str(program(folder / "bin" / "python")))
    return folder


def test_active_virtual_environment_gives_the_absolute_path(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(venv / "bin"))
    assert shlex.split(command_here()) == [str(venv / "bin" / "smp")]
    assert environment_of(command_here()) == str(venv)


def test_virtual_environment_that_is_not_active_gives_the_absolute_path(
    venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    assert shlex.split(command_here()) == [str(venv / "bin" / "smp")]


def test_virtual_environment_without_the_program_gives_its_python(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (venv / "bin" / "smp").unlink()
    monkeypatch.setenv("PATH", "/usr/bin")
    assert shlex.split(command_here()) == [str(venv / "bin" / "python"), "-m", "smp_memory"]
    assert environment_of(command_here()) == str(venv)


def test_link_outside_of_the_environment_gives_the_name(
    venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pipx and uv install it: a link in a folder of the PATH."""
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "smp").symlink_to(venv / "bin" / "smp")
    monkeypatch.setenv("PATH", str(tmp_path / "local"))
    assert command_here() == "smp"
    assert environment_of("smp") is None


def test_another_installation_on_the_path_is_not_named(
    venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "other" / "smp")
    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    assert shlex.split(command_here()) == [str(venv / "bin" / "smp")]


def test_system_installation_gives_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "bin" / "python")))
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin" / "smp").parent))
    assert command_here() == "smp"


@pytest.mark.parametrize("more", [["--yes"], ["--dry-run"], ["--user", "--yes"]])
def test_install_says_that_it_writes_the_path_of_the_environment(
    venv: Path,
    more: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(venv / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.chdir(venv.parent)
    assert main(["install", "claude-code", *more]) in (0, None)
    out = capsys.readouterr().out
    assert f"virtual environment {venv}" in " ".join(out.split())
    if "--dry-run" not in more:
        home = tmp_path / "home" if "--user" in more else venv.parent
        settings = json.loads((home / ".claude" / "settings.json").read_text())
        command = settings["hooks"]["Stop"][0]["hooks"][0]["command"]
        assert shlex.split(command) == [str(venv / "bin" / "smp"), "hook"]
