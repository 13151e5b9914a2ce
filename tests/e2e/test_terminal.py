"""`smp` at a real pseudo-terminal: the first screen, long lists in a pager, scopes in words."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from tests.e2e.terminal import Screenplay, Terminal
from tests.user_state import state_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are those of Unix")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, with a home that has no settings of coding agents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMP_ROOT", raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return tmp_path


@pytest.fixture
def store(project: Path) -> Path:
    with smp_memory.open(project / ".bmad/memory") as memory:
        review = memory.create_session("review", user="ada")
        for number in range(60):
            review.add_turn("user", f"Question {number}")
        review.add_finding("Login has no rate limit", severity="critical", author="veritas")
        memory.create_session("other").add_decision("Use SAML", author="architect")
    return project / ".bmad/memory"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


# -- smp alone


def test_smp_alone_without_a_store_suggests_to_create_one(project: Path, cli: Terminal) -> None:
    out = cli.ok()
    assert "smp init" in out
    data = cli.json()
    assert data["root"] is None
    assert [step["command"] for step in data["next"]] == ["smp init", "smp demo"]


def test_smp_alone_shows_an_empty_store(project: Path, cli: Terminal) -> None:
    cli.ok("init")
    out = cli.ok()
    assert "0 sessions, 0 memories" in out
    assert "smp add decision" in out
    assert "smp install" in out


def test_smp_alone_shows_what_a_store_holds_and_what_happened_last(store: Path, cli: Terminal) -> None:
    out = cli.ok()
    assert "2 sessions, 62 memories: 60 turns, 1 decision, 1 finding" in out
    assert "1 open finding: 1 critical" in out
    assert "Last session: other, written just now" in out
    assert "other/DEC-0001" in out
    assert "architect: Use SAML" in out
    data = cli.json()
    assert (data["sessions"], data["memories"], data["changed_sessions"]) == (2, 62, 0)
    assert data["newest"][0]["text"] == "Use SAML"
    assert cli.json("status").keys() == data.keys()


def test_figures_follow_every_kind_of_change(store: Path, cli: Terminal) -> None:
    cli.ok()
    cli.ok("resolve", "review/FIND-0001")
    assert "open finding" not in cli.ok()
    cli.ok("delete", "other/DEC-0001")
    assert cli.json()["by_type"] == {"conversation": 60, "finding": 1}
    cli.ok("session", "delete", "review")
    assert (cli.json()["sessions"], cli.json()["memories"]) == (1, 0)
    path = store / "sessions/other/learnings.jsonl"
    path.write_text('{"learning": "typed by hand"}\n{"broken\n')
    data = cli.json()
    assert (data["by_type"], data["unreadable"]) == ({"learning": 1}, 1)
    assert data["next"][0]["command"] == "smp doctor"


def test_figures_that_lag_behind_say_so(store: Path, cli: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok()
    cli.ok("add", "decision", "Use PostgreSQL", "--session", "other")
    monkeypatch.setattr("smp_memory.store.status._FEW_BYTES", 0)
    assert "As of the last index: 1 session changed since" in cli.ok()
    assert cli.json()["changed_sessions"] == 1
    shutil.rmtree(state_folder(store) / "index")
    assert "2 sessions; memories are not counted, because there is no index yet" in cli.ok()
    monkeypatch.undo()


def test_smp_alone_without_trust_suggests_it(store: Path, cli: Terminal) -> None:
    cli.ok("trust", "--revoke")
    out = cli.ok()
    assert "not trusted" in out
    assert "smp trust" in out


def test_smp_alone_shows_damaged_settings_as_a_problem(store: Path, cli: Terminal) -> None:
    (store / "config.json").write_text("{")
    out = cli.ok()
    assert "config.json" in out
    assert "smp doctor" in out


@pytest.mark.parametrize(
    ("settings", "notice"),
    [
        ("", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"layout": "jsonl", "hooks": {"recall": "x"}}', "hooks.recall"),
    ],
)
@pytest.mark.parametrize("is_indexed", [True, False])
def test_smp_alone_names_settings_that_cannot_be_used(
    store: Path, cli: Terminal, settings: str, notice: str, is_indexed: bool
) -> None:
    if is_indexed:
        cli.ok()
    (store / "config.json").write_text(settings)
    data = cli.json()
    assert notice in data["notices"][0]
    assert data["memories"] > 0
    assert data["next"][0]["command"] == "smp doctor"
    assert notice in cli.ok()


def test_smp_alone_shows_a_newer_format_as_a_problem(store: Path, cli: Terminal) -> None:
    (store / "config.json").write_text('{"layout": "jsonl", "format": 99}')
    data = cli.json()
    assert "format 99" in data["problem"]
    assert "memories" not in data


def test_smp_alone_shows_settings_behind_a_link_as_a_problem(store: Path, cli: Terminal, project: Path) -> None:
    (store / "config.json").rename(project / "elsewhere.json")
    (store / "config.json").symlink_to(project / "elsewhere.json")
    data = cli.json()
    assert "not a plain file" in data["problem"]
    assert [step["command"] for step in data["next"]] == ["smp doctor"]


def test_smp_root_makes_only_the_store_that_it_names_trusted(
    store: Path, cli: Terminal, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = project / "copy"
    shutil.copytree(store, copy)
    monkeypatch.setenv("SMP_ROOT", str(store))
    assert cli.json()["trusted"] is True
    assert cli.json("--root", str(copy))["trusted"] is False
    assert "you have not trusted it" in cli("doctor", "--quick", "--root", str(copy))[1]
    monkeypatch.setenv("SMP_ROOT", str(copy))
    assert cli.json()["trusted"] is True


def test_smp_alone_writes_nothing_into_the_store(store: Path, cli: Terminal) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    cli.ok()
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_smp_alone_loads_neither_the_store_nor_argparse(store: Path, cli: Terminal) -> None:
    cli.ok()
    code = (
        "import sys; from smp_memory.cli.main import main; main([]); heavy = ('smp_memory.memory', 'smp_memory.session', "
        "'smp_memory.store.file_store', 'smp_memory.store.indexer', 'argparse', 'typing', 'dataclasses', 'yaml', 'tantivy', 'threading'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    source = str(Path(smp_memory.__file__).parents[1])
    done = subprocess.run([sys.executable, "-S", "-c", code], env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.endswith("[]\n"), done.stdout


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_smp_alone_works_for_every_layout(project: Path, cli: Terminal, layout: str) -> None:
    cli.ok("init", "--layout", layout)
    cli.ok("add", "decision", "Use OAuth 2.0")
    data = cli.json()
    assert (data["layout"], data["memories"], data["newest"][0]["text"]) == (layout, 1, "Use OAuth 2.0")


# -- lists and scopes


def test_list_shows_the_newest_fifty_and_says_so(store: Path, cli: Terminal) -> None:
    out = cli.ok("list")
    assert "50 of 62 memories in all 2 sessions, newest last. More: --last N, --all-memories" in out
    assert "review/TURN-0012 " not in out
    assert out.splitlines()[-2].startswith("other/DEC-0001")
    assert "62 memories in all 2 sessions" in cli.ok("list", "--all-memories")
    assert "2 of 62 memories" in cli.ok("list", "--last", "2")
    assert "1 memory in session other" in cli.ok("list", "--session", "other")
    assert "The newest 2 in session review, newest last" in cli.ok("list", "--session", "review", "--last", "2")
    assert len(cli.json("list")) == 62
    assert [each["id"] for each in cli.json("list", "turns", "--last", "2")] == ["TURN-0059", "TURN-0060"]


@pytest.mark.parametrize(
    "command", ["query", "topics", "timeline", "agents", "summary", "stats", "list", "trash", "validate"]
)
def test_commands_that_read_state_their_scope(
    store: Path, cli: Terminal, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "all 2 sessions" in cli.ok(command).lower()
    monkeypatch.setenv("SMP_SESSION", "other")
    out = cli.ok(command)
    assert "all 2 sessions" not in out.lower()
    assert "other" in out
    assert "all 2 sessions" in cli.ok(command, "--all").lower()


def test_export_is_about_all_sessions(store: Path, cli: Terminal) -> None:
    assert cli.json("export", "all.json")["sessions"] == ["other", "review"]
    assert cli.json("export", "one.json", "--session", "other")["sessions"] == ["other"]


# -- the pager


@pytest.fixture
def pager(project: Path) -> Path:
    """A pager that keeps what it gets in a file, and prints its arguments."""
    program = project / "pager.sh"
    program.write_text(
        f'#!/bin/sh\nprintf "pager:%s:%s:%s\\n" "$1" "$LESS" "$LESSHISTFILE"\ncat > "{project}/paged.txt"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def play(folder: Path, *words: str, **environment: str) -> str:
    with Screenplay(
        [sys.executable, "-m", "smp_memory", *words], folder, {"LINES": "20", "COLUMNS": "100", **environment}
    ) as run:
        return run.until_the_end()


def test_long_list_goes_through_the_pager_and_a_short_one_does_not(store: Path, pager: Path, project: Path) -> None:
    shown = play(project, "list", SMP_PAGER=str(pager))
    assert "pager::FRX:-" in shown
    assert "Question 30" not in shown
    assert "Question 30" in (project / "paged.txt").read_text()
    shown = play(project, "list", "--last", "3", SMP_PAGER=str(pager))
    assert "pager:" not in shown
    assert "Question 59" in shown


def test_no_pager_with_its_option_with_json_and_on_a_dumb_terminal(store: Path, pager: Path, project: Path) -> None:
    for words, environment in (
        (("--no-pager",), {}),
        (("--json",), {}),
        ((), {"TERM": "dumb"}),
        ((), {"SMP_PAGER": ""}),
    ):
        shown = play(project, "list", *words, **{"SMP_PAGER": str(pager), **environment})
        assert "pager:" not in shown
        assert "Question 30" in shown


def test_settings_of_less_are_kept(store: Path, pager: Path, project: Path) -> None:
    assert "pager::iR:-" in play(project, "list", PAGER=str(pager), LESS="iR")


def test_pager_that_is_quit_early_ends_without_an_error(store: Path, project: Path) -> None:
    quitter = project / "quit.sh"
    quitter.write_text("#!/bin/sh\nhead -n 1\n")
    quitter.chmod(0o755)
    shown = play(project, "list", "--all-memories", SMP_PAGER=str(quitter))
    assert "Traceback" not in shown
    assert "smp:" not in shown


def test_pager_that_does_not_exist_prints_the_list(store: Path, project: Path) -> None:
    shown = play(project, "list", SMP_PAGER="no-such-pager-here")
    assert "cannot start the pager no-such-pager-here" in shown
    assert "Question 30" in shown


def test_less_opens_a_list_at_its_end_and_leaves_no_history(store: Path, project: Path) -> None:
    if shutil.which("less") is None:
        pytest.skip("less is not installed")
    with Screenplay([sys.executable, "-m", "smp_memory", "list"], project, {"LINES": "20", "COLUMNS": "100"}) as run:
        run.wait_for("newest last")
        run.type("?Question 3\n")
        run.wait_for("TURN-0040")  # it moves up to the match
        run.type("\x03")  # Ctrl-C belongs to less
        shown = run.until_the_end("q")
    assert "Use SAML" in shown
    assert run.exit_code == 0
    assert not (project / "home/.lesshst").exists()
    assert not (project / "home/.local/state/lesshst").exists()


# -- commands that take long


def test_command_that_waits_shows_what_it_does(store: Path, project: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with (store / "sessions/other/.smp/lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = ["add", "finding", "Slow", "--session", "other"]
        with Screenplay([sys.executable, "-m", "smp_memory", *words], project, {"NO_COLOR": "1"}) as run:
            run.wait_for("smp add … 1 s")
            fcntl.flock(lock, fcntl.LOCK_UN)
            shown = run.until_the_end()
    assert shown == "FIND-0001 stored in session other\n"


def test_commands_about_the_whole_store_reject_a_session(store: Path, cli: Terminal) -> None:
    for words in (["--session", "review"], ["--session=review"], ["status", "--session", "review"], ["metrics", "--session", "review"], ["convert", "--to", "markdown", "--session", "review"], ["reindex", "--session", "review"], ["maintain", "--session", "review"], ["session", "list", "--session", "review"]):  # fmt: skip
        assert "is about the whole store and takes no --session" in cli.fails(2, *words)
    assert "--session" not in cli.ok("help", "metrics")


def test_memory_of_why_not_is_found_by_its_id_in_any_session(store: Path, cli: Terminal) -> None:
    assert cli.json("query", "login", "--why-not", "FIND-0001")["ref"] == "review/FIND-0001"
    assert cli.json("query", "login", "--why-not", "DEC-0001")["ref"] == "other/DEC-0001"
    cli.fails(2, "query", "login", "--why-not", "")


# -- help


@pytest.mark.parametrize("words", [["--help"], ["help", "all"], ["help", "session"], ["help", "query"]])
def test_help_is_printed_on_a_terminal_without_unicode(project: Path, words: list[str]) -> None:
    source = str(Path(smp_memory.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "smp_memory", *words], env=environment, capture_output=True, check=True)  # fmt: skip
    assert done.stdout.startswith(b"usage: smp")
    assert b"..." in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_help_that_cannot_be_written_is_an_error(project: Path) -> None:
    source = str(Path(smp_memory.__file__).parents[1])
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "smp_memory", "help", "query"], env={**os.environ, "PYTHONPATH": source}, stdout=full, stderr=subprocess.PIPE, check=False)  # fmt: skip
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
