"""The command doctor: text output, JSON, exit codes, and stores that no other command can open."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.commands import COMMANDS
from smp_memory.cli.main import main
from tests.e2e.terminal import Terminal, on_a_terminal
from tests.unit.health.sample_store import QUICKLY, TOKEN, digest, made, memories
from tests.user_state import state_folder

NOT_WELL = 1


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with made(tmp_path) as memory:
        monkeypatch.setenv("SMP_ROOT", memory.root)
        return Path(memory.root)


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    found = main(["doctor", *words])
    told = capsys.readouterr()
    assert found == code, told
    return told.out if code in (0, NOT_WELL) else told.err


def test_healthy_store(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = digest(store)
    told = run(capsys)
    assert "1 session, 8 memories" in told
    assert "✓ No issues; " in told
    assert told.count("✓") == 1
    assert run(capsys, "--verbose").count("✓") == len(smp_memory.open(store).doctor().checks) + 1
    assert json.loads(run(capsys, "--json"))["ok"] is True
    assert digest(store) == before


def test_issues_are_printed_with_location_and_advice(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store / "sessions/review/findings.jsonl"
    path.write_text('{"broken\n' + path.read_text().replace("no rate limit", TOKEN))
    told = run(capsys, code=NOT_WELL)
    assert "✗ 1 memory cannot be read" in told
    assert "(review, sessions/review/findings.jsonl:1)" in told
    assert "→ smp repair --session review" in told
    assert "github_token in finding" in told
    assert "→ smp redact --session review" in told
    assert "2 problems, 1 note" in told
    assert TOKEN not in told
    findings = json.loads(run(capsys, "--json", code=NOT_WELL))["findings"]
    assert [(finding["check"], finding["severity"]) for finding in findings[:2]] == [
        ("contents", "problem"),
        ("secrets", "problem"),
    ]


def test_notes_do_not_fail(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with smp_memory.open(store, config=QUICKLY) as memory:
        memory.session("review").add_finding("The login form has no rate limit at all")
    assert "1 note" in run(capsys)


def test_fix_applies_safe_fixes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with smp_memory.open(store) as memory:
        before = memories(memory)
    os.chmod(store / "sessions/review/decisions.jsonl", 0o644)
    assert "Run: smp doctor --fix" in run(capsys, code=NOT_WELL)
    assert os.stat(store / "sessions/review/decisions.jsonl").st_mode & 0o777 == 0o644
    told = run(capsys, "--fix")
    assert "fixed permissions" in told
    assert "✓ No issues; " in told
    os.chmod(store / "sessions/review/decisions.jsonl", 0o644)
    assert json.loads(run(capsys, "--fix", "--only", "index", "--json", code=NOT_WELL))["fixed"] == []
    with smp_memory.open(store) as memory:
        assert memories(memory) == before


def test_user_errors_of_doctor(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "add --fix" in run(capsys, "--only", "index", code=2)
    assert "erase" in run(capsys, "--fix", "--only", "erase", code=3)
    assert "nowhere" in run(capsys, "--session", "nowhere", code=8)
    monkeypatch.setenv("SMP_ROOT", str(store / "nothing"))
    assert "no store" in run(capsys, code=7)


def test_one_session_or_all(store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with smp_memory.open(store, config=QUICKLY) as memory:
        memory.create_session("other").add_decision("Something else again")
    path = store / "sessions/other/decisions.jsonl"
    path.write_text("{\n" + path.read_text())
    run(capsys, "--session", "review")
    monkeypatch.setenv("SMP_SESSION", "review")
    run(capsys)
    run(capsys, "--all", code=NOT_WELL)


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "log"])
def test_store_with_broken_config_is_found(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".bmad").mkdir()
    main(["init", "--layout", layout])
    main(["add", "decision", "Use files"])
    config = next(tmp_path.rglob("config.json"))
    config.write_text("{broken")
    capsys.readouterr()
    assert "config.json:1: not valid JSON" in run(capsys, code=NOT_WELL)
    assert layout in capsys.readouterr().out + run(capsys, code=NOT_WELL)


def test_quick_skips_heavy_checks(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "--quick")
    assert ", 2 skipped (--quick)" in told
    assert "- secrets: metadata, cold segments and quarantine were not searched (--quick)" in told
    assert run(capsys, "--quick", "--verbose").count("skipped (") == 3


def test_notes_about_which_nothing_needs_to_be_done_are_one_line(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store / "sessions/review/findings.jsonl"
    path.write_text(path.read_text().replace("no rate limit", "a rate limit"))
    told = run(capsys)
    assert "edited by hand" not in told
    assert "· 1 note (contents 1): nothing needs to be done; smp doctor --verbose lists them" in told
    assert "FIND-0001 was edited by hand." in run(capsys, "--verbose")


def test_hostile_text_cannot_control_the_terminal(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = state_folder(store) / "hooks.log"
    path.touch(0o600)
    path.write_text(
        json.dumps({"at": "never", "client": "x", "event": "\x1b]0;title\x07", "error": "a\nb\u202ec"}) + "\n"
    )
    told = run(capsys, code=NOT_WELL)
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_colours_and_wrapped_lines_on_a_terminal(store: Path) -> None:
    with smp_memory.open(store, config=QUICKLY) as memory:
        session = memory.session("review")
        session.add_decision("Rests on much", references=[f"TURN-{number}" for number in range(1000, 1003)])
    told = on_a_terminal(store, "doctor", exit_code=NOT_WELL, COLUMNS="60")
    assert "\x1b[33m!" in told
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", told).splitlines()
    assert max(len(line) for line in plain[2:-2]) <= 60


def test_advised_commands_resolve_the_issues(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = Path(smp_memory.__file__).parent.glob("health/*.py")
    words = {word for path in sources for word in re.findall(r"\bsmp ((?:session |git )?[a-z]+)\b", path.read_text())}
    assert {"redact", "repair", "compact", "session restore", "resolve"} <= words
    assert words <= set(COMMANDS)
    with smp_memory.open(store, config={**QUICKLY, "privacy": {"redaction": {"enabled": False}}}) as memory:
        session = memory.session("review")
        session.add_decision("Rests on what is not there", references=["TURN-0404"])
        session.add_finding(f"The key is {TOKEN}")
        session.add_decision("Use passkeys", relations=[{"kind": "supersedes", "target": "DEC-0001"}])
        session.add_finding("The login form has no rate limit at all")
        session.relate("DEC-0003", "LEARN-0001")
        session.delete("LEARN-0001")
    for command in (
        "edit review/DEC-0002 references=[]",
        "redact --session review",
        "resolve review/DEC-0001 --status superseded",
        "duplicates --session review --merge",
        "restore review/LEARN-0001",
    ):
        assert json.loads(run(capsys, "--json", code=main_of(capsys)))["findings"]
        assert main(command.split()) == 0
        capsys.readouterr()
    assert json.loads(run(capsys, "--json"))["findings"] == []


def main_of(capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code of a look, whatever it is."""
    code = main(["doctor"])
    capsys.readouterr()
    return code


def test_fix_does_not_run_maintenance_on_opening(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A day on which sessions would be archived and the trash purged by whoever opens the store next."""
    long_ago = 1_500_000_000
    for path in (store, *store.rglob("*")):
        os.utime(path, (long_ago, long_ago))
    os.chmod(store / "sessions/review/decisions.jsonl", 0o644)
    (state_folder(store) / "index/gone-0a1b2c3d").mkdir(mode=0o700)
    os.utime(state_folder(store) / "index/gone-0a1b2c3d", (long_ago, long_ago))
    assert [fixed["name"] for fixed in json.loads(run(capsys, "--fix", "--json"))["fixed"]] == ["permissions", "index"]
    assert not (state_folder(store) / "maintenance.json").exists()


def test_invalid_environment_variable_is_named(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "smp_memory", "--root", str(store), "doctor"],
        env={**os.environ, "SMP_HOOKS_RECALL": "nein", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Correct or unset SMP_HOOKS_RECALL." in done.stdout


def test_doctor_counts_the_memories_that_smp_alone_counts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with smp_memory.open(tmp_path / ".bmad/memory") as memory:
        session = memory.create_session("review")
        session.add_decision("Use OAuth 2.0")
        session.delete(session.add_decision("Use SAML").id)
    cli = Terminal(capsys)
    assert "1 session, 1 memory\n" in cli.ok("doctor")
    assert "1 session, 1 memory:" in cli.ok()


def test_memory_from_the_year_one_does_not_stop_the_check_of_the_quota(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with smp_memory.open(tmp_path / ".bmad/memory") as memory:
        memory.create_session("review").add_decision("Use OAuth 2.0", created="0001-01-01T00:00:03Z")
    checks = Terminal(capsys).json("doctor")["checks"]
    assert [check["findings"] for check in checks if check["name"] == "quota"] == [0]


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_session_whose_name_is_not_an_id_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        memory.create_session("notes").add_decision("Use OAuth 2.0")
        memory.create_session("other")
    (found,) = [path for path in (tmp_path / "store").rglob("notes*") if ".smp" not in path.parts]
    found.rename(found.with_name(found.name.replace("notes", "my \x1b[31mnotes")))
    told = Terminal(capsys)("doctor", "--root", "store")[1]
    assert "my \\x1b[31mnotes is not read: the name of a session has only letters" in told
    assert "\x1b" not in told
