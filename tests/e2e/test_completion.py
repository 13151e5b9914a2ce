"""Completion of command lines in real shells: bash, zsh and fish; and the candidates that they ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.commands import COMMANDS, FAMILIES
from smp_memory.cli.commands.completion import SCRIPTS
from smp_memory.cli.completion import candidates, main
from tests.e2e.terminal import can_read

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the shells are those of Unix")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two sessions, an index, and `smp` on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMP_ROOT", raising=False)
    with smp_memory.open(tmp_path / ".bmad/memory") as memory:
        review = memory.create_session("checkout-review", user="ada")
        review.add_decision("Use OAuth 2.0")
        review.add_finding("Login has no rate limit", severity="high")
        memory.create_session("other").add_decision("Use SAML")
        memory.query("oauth")
    return tmp_path


@pytest.fixture
def environment(project: Path) -> dict[str, str]:
    folder = project / "bin"
    folder.mkdir()
    program = folder / "smp"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m smp_memory "$@"\n')
    program.chmod(0o755)
    source = str(Path(smp_memory.__file__).parents[1])
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": source,
        "TERM": "xterm",
        "HOME": str(project),
    }


def shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def words(*line: str) -> list[str]:
    return [word for word, _ in candidates(list(line))]


# -- candidates


def test_commands_are_completed(project: Path) -> None:
    offered = words("")
    assert {name for name in COMMANDS if " " not in name} | FAMILIES | {"help"} == set(offered)
    assert words("sess") == ["session"]
    assert words("session", "er") == ["erase"]
    assert words("help", "val") == ["validate"]


def test_options_and_their_values_are_completed(project: Path) -> None:
    assert words("list", "--all-m") == ["--all-memories"]
    assert "--deleted" not in words("list", "--")
    assert words("add", "finding", "x", "--severity", "hi") == ["high"]
    assert words("add", "finding", "x", "--severity", "hi") == ["high"]
    assert words("convert", "--to", "ma") == ["markdown"]
    assert words("query", "--sort", "new") == ["newest"]
    assert words("add", "dec") == ["decision"]
    assert "durability" in words("config", "get", "durab")
    assert words("completion", "z") == ["zsh"]


def test_sessions_and_ids_are_completed(project: Path) -> None:
    assert words("list", "--session", "check") == ["checkout-review"]
    assert words("--session", "check") == ["checkout-review"]
    assert words("list", "--session", "=", "check") == ["checkout-review"]
    assert words("session", "show", "o") == ["other"]
    assert words("show", "FIND") == ["FIND-0001"]
    assert words("show", "DEC") == []  # two sessions have DEC-0001
    assert sorted(words("show", "checkout-review/")) == ["checkout-review/DEC-0001", "checkout-review/FIND-0001"]
    assert words("show", "--session", "other", "D") == ["DEC-0001"]
    assert words("add", "decision", "x", "--id", "D") == []


def test_value_after_an_equals_sign_is_completed_with_its_option(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["zsh", "list", "--session=ch"])
    main(["bash", "list", "--session", "=", "ch"])  # bash splits the word
    assert capsys.readouterr().out == "--session=checkout-review\tsession\ncheckout-review\n"


def test_archived_sessions_are_offered_for_restoring(project: Path) -> None:
    with smp_memory.open(project / ".bmad/memory") as memory:
        memory.archive_session("other")
    assert words("session", "restore", "o") == ["other"]
    assert words("session", "archive", "o") == []


def test_completion_never_fails_and_prints_nothing_on_errors(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".bmad/memory/config.json").write_text("{")
    lines = [
        [],
        ["bash"],
        ["bash", "show", "D"],
        ["bash", "--session", ""],
        ["bash", "nonsense", "x"],
        ["zsh", "list", "--root"],
    ]
    assert [main(line) for line in lines] == [0] * len(lines)
    monkeypatch.setenv("SMP_ROOT", str(project / "missing"))
    assert main(["bash", "show", "D"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "DEC" not in told.out


def test_names_with_control_characters_are_not_offered(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / ".bmad/memory/sessions/other/decisions.jsonl"
    hostile = '{"id": "DEC-\\u001b]0;x\\u0007", "decision": "x", "timestamp": "2026-01-31T14:30:00Z"}\n'
    path.write_text(path.read_text() + hostile + hostile.replace("\\u001b]0;x\\u0007", "$(touch x)"))
    with smp_memory.open(project / ".bmad/memory") as memory:
        memory.query("x")
    assert main(["fish", "show", "other/"]) == 0
    out = capsys.readouterr().out
    assert "other/DEC-0001" in out
    assert "\x1b" not in out
    assert "touch" not in out


# -- shells


def test_bash_completes_commands_sessions_and_ids(project: Path, environment: dict[str, str]) -> None:
    bash = shell("bash")

    def complete(*line: str) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in ("smp", *line))
        script = f'eval "$(smp completion bash)"; COMP_WORDS=({quoted}); COMP_CWORD={len(line)}; _smp_complete smp; printf "%s\\n" "${{COMPREPLY[@]}}"; complete -p smp'
        done = subprocess.run(
            [bash, "--norc", "-c", script], cwd=project, env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        *found, registered = done.stdout.splitlines()
        assert "-F _smp_complete smp" in registered
        return found

    assert complete("tru") == ["trust"]
    assert complete("session", "rest") == ["restore"]
    assert complete("list", "--session", "che") == ["checkout-review"]
    assert complete("show", "checkout-review/F") == ["checkout-review/FIND-0001"]
    assert complete("list", "--session", "=", "oth") == ["other"]


class Pty:
    """An interactive program on a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        import pty

        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self.ours, text.encode())

    def wait_for(self, text: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert can_read(self.ours, max(0, deadline - time.monotonic())), f"{text!r} is not in {self.shown!r}"
            self.shown += os.read(self.ours, 65536).decode(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


@pytest.fixture
def zsh(project: Path, environment: dict[str, str]) -> Iterator[Pty]:
    program = Pty([shell("zsh"), "-f", "-i"], project, {**environment, "PS1": "ready> "})
    try:
        program.type('autoload -Uz compinit; compinit -u -D; eval "$(smp completion zsh)"; print load""ed\n')
        program.wait_for("loaded")
        yield program
    finally:
        program.close()


def test_zsh_completes_commands_sessions_and_ids(zsh: Pty) -> None:
    for typed, completed in (
        ("smp tru", "trust"),
        ("smp session rest", "restore"),
        ("smp list --session che", "checkout-review"),
        ("smp show checkout-review/F", "FIND-0001"),
    ):
        zsh.type(f"\x15{typed}\t")
        zsh.wait_for(completed.removeprefix(typed.rpartition(" ")[2]))
        zsh.type("\x15print do''ne\n")
        zsh.wait_for("done")


def test_fish_completes_commands_sessions_and_ids(project: Path, environment: dict[str, str]) -> None:
    fish = shell("fish")

    def complete(line: str) -> list[str]:
        script = f"smp completion fish | source; complete -C '{line}'"
        done = subprocess.run(
            [fish, "--no-config", "-c", script],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [each.partition("\t")[0] for each in done.stdout.splitlines()]

    assert complete("smp tru") == ["trust"]
    assert complete("smp session rest") == ["restore"]
    assert complete("smp list --session che") == ["checkout-review"]
    assert complete("smp show checkout-review/F") == ["checkout-review/FIND-0001"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_is_valid_for_its_shell(name: str, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(SCRIPTS[name])
    check = ["--no-execute"] if name == "fish" else ["-n"]
    subprocess.run([shell(name), *check, str(path)], check=True, capture_output=True)
