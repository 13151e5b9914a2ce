"""The command `smp` as a person or a script uses it: most calls in this process, some in real ones."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.cli.commands import COMMANDS, EVERYDAY
from smp_memory.cli.main import main
from tests.e2e.terminal import Terminal, on_a_terminal

LAYOUTS = ("jsonl", "markdown", "single", "log")
SOURCE = str(Path(smp_memory.__file__).parent.parent)
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SMP_") or name == "SMP_STATE_DIR"},
    "PYTHONPATH": SOURCE,
    "PYTHONWARNINGS": "error",
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if (name.startswith("SMP_") and name != "SMP_STATE_DIR") or name in ("NO_COLOR", "VISUAL", "EDITOR", "COLUMNS"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def empty(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


@pytest.fixture
def cli(empty: Terminal) -> Terminal:
    """In a folder with a store and one session."""
    empty.ok("init")
    empty.ok("session", "new", "shop", "--user", "ada")
    return empty


def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smp_memory", *words],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


# -- help and mistakes


def test_unknown_option_suggests_a_similar_one(empty: Terminal) -> None:
    error = empty.fails(2, "add", "decision", "Use OAuth", "--rational", "Standard")
    assert "Did you mean --rationale?" in error
    assert "Did you mean" not in empty.fails(2, "add", "decision", "Use OAuth", "--qqq")


def test_help_shows_everyday_commands_and_help_all_the_rest(empty: Terminal) -> None:
    for words in (("--help",), ("-h",), ("help",)):
        out = empty.ok(*words)
        assert [name for name in COMMANDS if f"\n  {name} " in out] == [name for name in COMMANDS if name in EVERYDAY]
        assert "smp help all" in out
    every = empty.ok("help", "all")
    assert all(f"\n  {name} " in every for name in COMMANDS)
    assert max(map(len, (out + every).splitlines())) <= 80
    assert 10 <= len(EVERYDAY) <= 14


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_help_are_accepted_by_the_parser(empty: Terminal, name: str) -> None:
    import shlex

    from smp_memory.cli.arguments import build_parser

    out = empty.ok(*name.split(), "--help")
    examples = [line.strip() for line in out.partition("Examples:")[2].splitlines() if f"smp {name}" in line]
    assert examples
    assert out == empty.ok("help", *name.split())
    for example in examples:
        words = shlex.split(example.partition(f"smp {name}")[2].partition("&&")[0].partition(" < ")[0])
        assert build_parser(name)[0].parse_intermixed_args(words)


def test_help_and_version_load_neither_the_store_nor_argparse() -> None:
    code = (
        "import sys; from smp_memory.cli.main import main; main([sys.argv[1]]); "
        "print([name for name in ('smp_memory.memory', 'smp_memory.session', 'argparse', 'json', 'typing', 'dataclasses') if name in sys.modules])"
    )
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-S", "-c", code, option], env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
        assert done.stdout.endswith("[]\n"), done.stdout


def test_version() -> None:
    assert run("--version").stdout == f"smp {smp_memory.__version__}\n"


def test_help_of_a_family(empty: Terminal) -> None:
    assert "session new" in empty.ok("session", "--help")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("frobnicate",), "Unknown command: frobnicate"),
        (("lst",), "Did you mean 'smp list'?"),
        (("session",), "Subcommands: new, list, show"),
        (("session", "frobnicate"), "Subcommands: new, list, show"),
        (("list", "--frobnicate"), "--frobnicate"),
        (("--frobnicate",), "Unknown option: --frobnicate"),
        (("--root",), "--root needs a value"),
        (("add", "decision"), "TEXT"),
        (("list", "--last", "0"), "above 0"),
        (("list", "--last", "x"), "above 0"),
        (("convert",), "--to"),
        (("convert", "--to", "xml"), "xml"),
        (("add", "decision", "x", "--field", "novalue"), "name=value"),
        (("edit", "DEC-0001", "novalue"), "name=value"),
        (("config", "set", "durability"), "smp config set NAME VALUE"),
        (("config", "durability"), "choose from 'get', 'set', 'unset'"),
        (("--vers",), "Did you mean --version?"),
        (("--unknown",), "smp --help"),
    ],
)
def test_user_errors_are_one_line(empty: Terminal, words: tuple[str, ...], expected: str) -> None:
    err = empty.fails(2, *words)
    assert expected in err
    assert "E_USER" in err
    assert err.count("\n") == 1


def test_id_that_no_session_has_is_said_to_be_in_none(cli: Terminal) -> None:
    cli.ok("session", "new", "other")
    assert "DEC-0009 does not exist in any session." in cli.fails(11, "show", "DEC-0009")
    assert "DEC-0009 does not exist in session shop." in cli.fails(11, "show", "DEC-0009", "--session", "shop")


def test_errors_as_json_go_to_stderr(cli: Terminal) -> None:
    for words in (("show", "DEC-0009", "--json"), ("--json", "show", "DEC-0009")):
        error = json.loads(cli.fails(11, *words))["error"]
        assert error == {
            "code": "E_MEMORY_NOT_FOUND",
            "number": None,
            "message": "DEC-0009 does not exist in session shop.",
            "exit_code": 11,
            "id": "DEC-0009",
            "session": "shop",
        }
    assert json.loads(cli.fails(2, "frobnicate", "--json"))["error"]["code"] == "E_USER"


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (("add", "nonsense", "x"), 3, "E_SCHEMA_INVALID"),
        (("add", "decision", ""), 3, "E_SCHEMA_INVALID"),
        (("add", "decision", "x", "--importance", "7"), 3, "E_SCHEMA_INVALID"),
        (("add", "decision", "x", "--created", "yesterday"), 3, "E_SCHEMA_INVALID"),
        (("add", "decision", "x" * 1_100_000), 20, "E_SIZE_LIMIT, MEM_E001"),
        (("config", "get", "nonsense"), 5, "E_CONFIG_INVALID"),
        (("list", "--session", "nonsense"), 8, "E_SESSION_NOT_FOUND, MEM_E005"),
        (("session", "new", "shop"), 9, "E_SESSION_EXISTS"),
        (("session", "new", "--set", "user=x"), 2, "E_USER"),
        (("pin", "DEC-0001"), 11, "E_MEMORY_NOT_FOUND"),
        (("list", "--root", "nowhere"), 7, "E_STORE_NOT_FOUND"),
        (("demo", "--keep", "."), 2, "E_USER"),
    ],
)
def test_exit_codes(cli: Terminal, words: tuple[str, ...], exit_code: int, code: str) -> None:
    assert f"({code})" in cli.fails(exit_code, *words)


def test_mistyped_root_creates_no_store(empty: Terminal, tmp_path: Path) -> None:
    empty.fails(7, "add", "decision", "x", "--root", "typo")
    empty.fails(7, "list")
    assert os.listdir(tmp_path) == []


def test_internal_error_is_one_line_and_debug_shows_the_traceback(
    cli: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("smp_memory.memory.Memory.sessions", broken)
    assert "E_INTERNAL" in cli.fails(70, "session", "list")
    monkeypatch.setenv("SMP_DEBUG", "1")
    main(["session", "list"])
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "exit_code"), [(PermissionError(13, "no"), 52), (OSError(28, "full"), 51), (OSError(5, "io"), 50)]
)
def test_operating_system_errors_have_exit_codes(
    cli: Terminal, monkeypatch: pytest.MonkeyPatch, error: OSError, exit_code: int
) -> None:
    def failing(self: object) -> None:
        raise error

    monkeypatch.setattr("smp_memory.memory.Memory.sessions", failing)
    assert "(E_STORAGE_" in cli.fails(exit_code, "session", "list")


def test_ctrl_c(cli: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("smp_memory.memory.Memory.sessions", interrupted)
    assert "Interrupted" in cli.fails(130, "session", "list")


# -- init


@pytest.mark.parametrize(
    ("layout", "root"),
    [("jsonl", ".bmad/memory"), ("markdown", ".bmad/sessions"), ("single", ".bmad/sessions"), ("log", "memory")],
)
def test_init_creates_the_store_in_the_default_folder_of_its_layout(
    empty: Terminal, tmp_path: Path, layout: str, root: str
) -> None:
    out = empty.ok("init", "--layout", layout)
    assert str(tmp_path / root) in out
    assert "smp session new" in out
    assert empty.json("init") == {"root": str(tmp_path / root), "layout": layout, "created": False}
    empty.ok("add", "decision", "found without saying where")
    assert len(empty.json("list")) == 1


def test_init_in_another_folder_and_with_root(empty: Terminal, tmp_path: Path) -> None:
    assert empty.json("init", "a")["root"] == str(tmp_path / "a" / ".bmad" / "memory")
    assert empty.json("init", "--root", "b")["root"] == str(tmp_path / "b")
    assert (tmp_path / "b" / "config.json").exists()


def test_init_of_an_existing_store(cli: Terminal) -> None:
    assert "already" in cli.ok("init")
    assert "already" in cli.ok("init", "--layout", "jsonl")
    for layout in ("markdown", "single", "log"):
        assert "E_LAYOUT_MISMATCH" in cli.fails(13, "init", "--layout", layout)
    assert cli.json("session", "list")[0]["id"] == "shop"


# -- which store, which session


def test_root_and_session_by_option_before_or_after_and_by_environment(
    empty: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty.ok("init", "--root", "one")
    for name in ("a", "b"):
        empty.ok("session", "new", name, "--root", "one")
    empty.ok("--root", "one", "--session", "a", "add", "decision", "first")
    empty.ok("add", "decision", "second", "--root=one", "--session=a")
    monkeypatch.setenv("SMP_ROOT", str(tmp_path / "one"))
    monkeypatch.setenv("SMP_SESSION", "a")
    assert [record["decision"] for record in empty.json("list")] == ["first", "second"]
    assert empty.json("list", "--session", "b") == []
    assert empty.json("session", "--session", "b", "show")["id"] == "b"


def test_default_session_is_the_one_written_last(cli: Terminal, tmp_path: Path) -> None:
    cli.ok("session", "new", "newer")
    _make_older(tmp_path / ".bmad/memory/sessions/shop", 4000)
    assert cli.json("add", "decision", "x")["session"] == "newer"
    _make_older(tmp_path / ".bmad/memory/sessions/newer", 4000)
    cli.ok("add", "decision", "y", "--session", "shop")
    assert [(each["session"], each["decision"]) for each in cli.json("list")] == [("newer", "x"), ("shop", "y")]
    assert cli.json("add", "decision", "z")["session"] == "shop"
    assert [row["id"] for row in cli.json("session", "list")] == ["newer", "shop"]


def _make_older(folder: Path, seconds: int) -> None:
    for file in folder.iterdir():
        if file.is_file():
            found = file.stat()
            os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns - seconds * 1_000_000_000))


def test_without_session_add_starts_one_and_list_explains_how(empty: Terminal) -> None:
    empty.ok("init")
    assert "smp session new" in empty.ok("list")
    assert empty.json("list") == []
    assert "no session" in empty.ok("session", "list")
    assert "no session" in empty.ok("validate", "--all")
    code, out, err = empty("add", "decision", "x", "--json")
    assert code == 0
    assert json.loads(out)["session"] in err
    assert len(empty.json("session", "list")) == 1


def test_author_by_option_and_environment(cli: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.json("add", "decision", "x", "--author", "architect")["author"] == "architect"
    monkeypatch.setenv("SMP_AUTHOR", "veritas")
    assert cli.json("add", "decision", "y")["author"] == "veritas"
    assert cli.json("add", "turn", "z", "--role", "user")["author"] == "ada"
    assert cli.json("add", "turn", "z", "--role", "user", "--author", "bob")["author"] == "bob"
    cli.ok("edit", "DEC-0001", "impact=big")
    assert cli.json("history", "DEC-0001")[-1]["by"] == "veritas"


def test_id_alone_means_the_only_session_that_has_it(cli: Terminal, tmp_path: Path) -> None:
    """A newcomer who has started another session was only told that DEC-0001 does not exist."""
    cli.ok("add", "decision", "Use OAuth")
    cli.ok("session", "new", "two")
    _make_older(tmp_path / ".bmad/memory/sessions/shop", 4000)
    for words in (("show", "DEC-0009"), ("show", "two/DEC-0001"), ("show", "DEC-0001", "--session", "two")):
        assert "has one" not in cli.fails(11, *words)
    for words in (("show",), ("history",), ("priority",), ("pin",)):
        code, _, err = cli(*words, "DEC-0001")
        assert (code, err) == (0, "DEC-0001 is in session shop.\n")
    cli.ok("session", "new", "three")
    cli.ok("add", "decision", "Use SAML", "--session", "two")
    _make_older(tmp_path / ".bmad/memory/sessions/two", 4000)
    _make_older(tmp_path / ".bmad/memory/sessions/three", -60)
    for words in (("show",), ("delete",), ("edit",)):
        said = cli.fails(2, *words, "DEC-0001")
        assert "2 sessions have a memory DEC-0001." in said
        assert "two/DEC-0001 (Use SAML); shop/DEC-0001 (Use OAuth)" in said
    assert cli.json("show", "two/DEC-0001")["decision"] == "Use SAML"


# -- sessions


def test_session_new_show_list(empty: Terminal) -> None:
    empty.ok("init")
    words = (
        "--user",
        "ada",
        "--agent",
        "a",
        "--agent",
        "b",
        "--project",
        "shop",
        "--tag",
        "x.y",
        "--set",
        "phase=review",
        "--set",
        "n=3",
    )
    made = empty.json("session", "new", "s1", *words)
    assert made["id"] == "s1"
    assert made["agents"] == ["a", "b"]
    assert made["context"] == {"phase": "review", "n": 3}
    empty.ok("add", "decision", "x")
    shown = empty.json("session", "show", "s1")
    assert (shown["project"], shown["memories"], shown["by_type"]) == ("shop", 1, {"decision": 1})
    out = empty.ok("session", "show")
    assert "a, b" in out
    assert "review" in out
    listed = empty.json("session", "list")
    assert [(row["id"], row["project"], row["memories"]) for row in listed] == [("s1", "shop", 1)]
    assert "last write" in empty.ok("session", "list")


def test_session_list_counts_memories(cli: Terminal) -> None:
    for session, count in (("shop", 3), ("other", 2), ("empty", 0)):
        if session != "shop":
            cli.ok("session", "new", session)
        for number in range(count):
            cli.ok("add", "decision", f"number {number}", "--session", session)
    cli.ok("delete", "DEC-0002", "--session", "shop")
    listed = {row["id"]: row for row in cli.json("session", "list")}
    assert {name: row["memories"] for name, row in listed.items()} == {"shop": 2, "other": 2, "empty": 0}
    for name, row in listed.items():
        shown = cli.json("stats", "--session", name)
        assert (row["memories"], row["bytes"]) == (shown["memories"], shown["bytes"])


def test_damaged_session_metadata_does_not_hide_other_sessions(cli: Terminal, tmp_path: Path) -> None:
    cli.ok("session", "new", "other", "--project", "fine")
    (tmp_path / ".bmad/memory/sessions/shop/manifest.json").write_text("{")
    out = cli.ok("session", "list")
    assert "damaged" in out
    assert "fine" in out


# -- adding


def test_add_with_every_option(cli: Terminal) -> None:
    record = cli.json(
        *("add", "decision", "Use OAuth", "--tag", "auth", "--tag", "security.login", "--topic", "login", "--pin"),
        *("--importance", "0.9", "--confidence", "high", "--created", "2026-01-31T14:30:00Z", "--id", "MY-1"),
        *(
            "--idempotency-key",
            "k1",
            "--field",
            'impact={"days": 3}',
            "--field",
            "owner=Ada Lovelace",
            "--field",
            'number="7"',
        ),
    )
    expected = {
        "id": "MY-1",
        "decision": "Use OAuth",
        "tags": ["auth", "security.login"],
        "topic": "login",
        "pinned": True,
        "importance": 0.9,
        "confidence": "high",
        "created": "2026-01-31T14:30:00Z",
        "impact": {"days": 3},
        "owner": "Ada Lovelace",
        "number": "7",
        "idempotency_key": "k1",
    }
    assert record | expected == record
    assert cli.json("add", "decision", "again", "--idempotency-key", "k1")["id"] == "MY-1"
    assert len(cli.json("list")) == 1


def test_preference_with_a_key_has_one_value_for_all_authors(cli: Terminal) -> None:
    """The command line put the text beside the value; agents were then told `style = concise (verbose)`."""
    with smp_memory.open() as memory:
        memory.session("shop").add_preference("style", "concise")
    record = cli.json("add", "preference", "verbose", "--field", "key=style")
    assert (record["key"], record["value"], record.get("preference")) == ("style", "verbose", None)
    assert "style = verbose\n" in cli.ok("context")
    assert cli.json("add", "preference", "Tabs, not spaces")["preference"] == "Tabs, not spaces"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_type_on_every_layout(empty: Terminal, layout: str) -> None:
    empty.ok("init", "--layout", layout)
    empty.ok("session", "new", "s1", "--user", "ada")
    added = [
        empty.json("add", "turn", "hello", "--role", "user")["id"],
        empty.json("add", "decision", "d")["id"],
        empty.json("add", "finding", "f")["id"],
        empty.json("add", "preference", "concise", "--field", "key=style")["id"],
        empty.json("add", "agent_state", '{"task": "x"}', "--author", "veritas")["id"],
        empty.json("add", "artifact", "# R", "--field", "name=r.md")["id"],
        empty.json("add", "learning", "l")["id"],
        empty.json("add", "summary", "s")["id"],
    ]
    assert added[:2] == ["TURN-0001", "DEC-0001"]
    assert added[4] == "STATE-veritas"
    assert sorted(record["id"] for record in empty.json("list")) == sorted(added)
    assert all(memory_id in empty.ok("list") for memory_id in added)
    assert empty.json("show", "STATE-veritas")["state"] == {"task": "x"}
    assert empty.json("validate")["ok"]


def test_decisions_and_findings_are_added(cli: Terminal) -> None:
    decision = cli.json(
        "add", "decision", "A", "--rationale", "why", "--alternative", "B", "--alternative", "C", "--impact", "big"
    )
    assert (decision["rationale"], decision["alternatives_considered"], decision["impact"]) == (
        "why",
        ["B", "C"],
        "big",
    )
    finding = cli.json("add", "finding", "slow", "--severity", "low", "--category", "speed")
    assert (finding["type"], finding["severity"], finding["category"]) == ("finding", "low", "speed")
    assert cli.ok("add", "finding", "again").startswith("FIND-0002 stored in session shop")


def test_text_that_looks_like_an_option_or_json(cli: Terminal) -> None:
    assert cli.json("add", "decision", "--author", "a", "--", "--drop it")["decision"] == "--drop it"
    assert cli.json("add", "decision", "-5")["decision"] == "-5"
    assert cli.json("add", "decision", '{"a": 1}')["decision"] == '{"a": 1}'
    assert cli.json("add", "decision", "x", "--field", "y=NaN")["y"] == "NaN"


def test_fields_and_options_of_the_same_name(cli: Terminal) -> None:
    words = ("--field", "rationale=why", "--field", "author=bob", "--field", "pinned=true", "--field", "tags=a,b")
    record = cli.json("add", "decision", "x", *words)
    assert (record["rationale"], record["author"], record["pinned"], record["tags"]) == ("why", "bob", True, ["a", "b"])
    assert cli.json("add", "decision", "x", "--rationale", "option", *words)["rationale"] == "option"


def test_text_from_standard_input(cli: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    given("zwei\nZeilen ü\n".encode())
    assert cli.json("add", "decision", "-")["decision"] == "zwei\nZeilen ü"
    given(b"whole file\n")
    assert cli.json("add", "artifact", "-", "--field", "name=f")["content"] == "whole file\n"
    given(b"caf\xe9")
    assert "UTF-8" in cli.fails(3, "add", "decision", "-")
    given(b"")
    assert "E_SCHEMA_INVALID" in cli.fails(3, "add", "decision", "-")


def test_standard_input_of_a_real_process(cli: Terminal, tmp_path: Path) -> None:
    done = run("add", "finding", "-", "--severity", "low", input="from a pipe\n", cwd=tmp_path)
    assert done.stdout == "FIND-0001 stored in session shop\n"
    assert cli.json("show", "FIND-0001")["finding"] == "from a pipe"


# -- reading


def test_list_filters(cli: Terminal) -> None:
    cli.ok("add", "decision", "one", "--tag", "security.login")
    cli.ok("add", "decision", "two", "--tag", "security", "--tag", "api")
    cli.ok("add", "decision", "three", "--tag", "securityx")
    cli.ok("add", "finding", "four", "--tag", "api")

    def texts(*words: str) -> list[str]:
        return [record.get("decision") or record["finding"] for record in cli.json("list", *words)]

    assert texts("--tag", "security") == ["one", "two"]
    assert texts("--tag", "security", "--tag", "api", "--all-tags") == ["two"]
    assert texts("--tag", "security", "--tag", "api") == ["one", "two", "four"]
    assert texts("decisions", "--last", "1") == ["three"]
    assert texts("--tag", "api", "--last", "1") == ["four"]
    assert texts("findings") == ["four"]
    assert texts("turns") == []
    assert "No memory matches in session shop" in cli.ok("list", "turns")
    assert "E_SCHEMA_INVALID" in cli.fails(3, "list", "nonsense")


def test_list_of_an_empty_session(cli: Terminal) -> None:
    assert cli.ok("list") == "There is no memory in session shop yet. Add one: smp add finding TEXT\n"


def test_show_by_id_and_by_session_and_id(cli: Terminal) -> None:
    cli.ok(
        "add",
        "decision",
        "several\nlines",
        "--rationale",
        "why",
        "--tag",
        "a",
        "--field",
        'cost={"days": 3}',
        "--author",
        "me",
    )
    cli.ok("session", "new", "other")
    cli.ok("add", "decision", "elsewhere", "--session", "other")
    out = cli.ok("show", "shop/DEC-0001")
    for expected in ("DEC-0001  decision in session shop", "by me", "several\n", "lines\n", "why", "days: 3"):
        assert expected in out
    assert cli.json("show", "other/DEC-0001")["decision"] == "elsewhere"
    assert cli.json("show", "shop/DEC-0001")["cost"] == {"days": 3}


def test_history_shows_author_old_and_new_values(cli: Terminal) -> None:
    cli.ok("add", "decision", "x", "--rationale", "old", "--author", "architect")
    cli.ok("edit", "DEC-0001", "rationale=new", "--author", "ada")
    cli.ok("delete", "DEC-0001", "--reason", "a mistake")
    cli.ok("restore", "DEC-0001")
    out = cli.ok("history", "DEC-0001")
    for expected in ("added by architect", "changed by ada", "- old", "+ new", "reason: a mistake", "restored"):
        assert expected in out
    assert [step["op"] for step in cli.json("history", "DEC-0001")] == ["put", "change", "delete", "restore"]


def test_stats(cli: Terminal) -> None:
    cli.ok("add", "decision", "x")
    cli.ok("add", "finding", "y")
    figures = cli.json("stats")
    assert (figures["memories"], figures["by_type"]) == (2, {"decision": 1, "finding": 1})
    out = cli.ok("stats")
    assert "decisions.jsonl" in out
    assert "█" in out
    assert "of 10.0 MiB" in out


# -- changing


def test_edit_fields(cli: Terminal) -> None:
    cli.ok("add", "decision", "x", "--impact", "big")
    words = ("rationale=because", "importance=0.5", "impact=null", "tags=a, b.c", "by=bob")
    record = cli.json("edit", "--expect-revision", "1", "DEC-0001", *words)
    assert (record["rationale"], record["importance"], record["tags"]) == ("because", 0.5, ["a", "b.c"])
    assert record["author"] == "bob"
    assert "impact" not in record
    assert "nothing changed" in cli.ok("edit", "DEC-0001", "rationale=because")
    assert "E_CONCURRENT_MOD" in cli.fails(32, "edit", "DEC-0001", "x=1", "--expect-revision", "1")
    for name in ("id", "self", "expected_revision", "created"):
        assert "cannot be changed" in cli.fails(3, "edit", "DEC-0001", f"{name}=2026-01-31")
    cli.ok("add", "turn", "said")
    assert "cannot be changed" in cli.fails(3, "edit", "TURN-0001", "content=other")


def test_resolve_and_relate(cli: Terminal) -> None:
    cli.ok("add", "finding", "bad")
    cli.ok("add", "decision", "good")
    record = cli.json("resolve", "FIND-0001", "fixed it", "--author", "ada")
    assert (record["status"], record["resolution"]["resolved_by"]) == ("resolved", "ada")
    assert cli.json("resolve", "FIND-0001", "--status", "rejected")["status"] == "rejected"
    assert cli.json("relate", "DEC-0001", "FIND-0001", "--kind", "resolves")["relations"] == [
        {"kind": "resolves", "target": "FIND-0001"}
    ]
    assert cli.json("relate", "shop/DEC-0001", "shop/FIND-0001")["relations"][1]["kind"] == "relates_to"
    assert "resolves → FIND-0001" in cli.ok("show", "DEC-0001")
    assert "E_MEMORY_NOT_FOUND" in cli.fails(11, "relate", "DEC-0001", "FIND-0099")
    removed = ("relate", "DEC-0001", "shop/FIND-0001", "--kind", "resolves", "--remove")
    assert "Removed: DEC-0001 resolves FIND-0001" in cli.ok(*removed)
    assert "There is no such relation" in cli.ok(*removed)
    assert cli.json("show", "DEC-0001")["relations"] == [{"kind": "relates_to", "target": "FIND-0001"}]


def test_pin_unpin_delete_restore_several_ids_or_none(cli: Terminal) -> None:
    for text in ("a", "b", "c"):
        cli.ok("add", "decision", text)
    assert [record["pinned"] for record in cli.json("pin", "DEC-0001", "DEC-0002")] == [True, True]
    assert "pinned" in cli.ok("list")
    cli.ok("unpin", "shop/DEC-0001", "DEC-0002", "DEC-0002")
    assert not any(record["pinned"] for record in cli.json("list"))
    cli.fails(11, "delete", "DEC-0001", "DEC-0099")
    assert len(cli.json("list")) == 3
    cli.ok("delete", "DEC-0001", "DEC-0003", "--reason", "why not")
    assert [record["id"] for record in cli.json("list")] == ["DEC-0002"]
    assert [record["id"] for record in cli.json("trash")] == ["DEC-0001", "DEC-0003"]
    assert "deleted" in cli.fails(11, "show", "DEC-0001")
    assert "why not" in cli.ok("show", "DEC-0001", "--deleted")
    cli.fails(11, "show", "DEC-0099", "--deleted")
    cli.ok("restore", "DEC-0001")
    assert len(cli.json("list")) == 2


# -- the editor


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes $EDITOR a program that does to the file what a piece of Python says."""

    def make(code: str) -> None:
        script = tmp_path / "my editor.py"
        script.write_text(
            f"import sys, re, os, pathlib\nfile = pathlib.Path(sys.argv[1])\ntext = file.read_text('utf-8')\n{code}\n"
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} '{script}'")
        monkeypatch.setenv("TMPDIR", str(drafts))
        monkeypatch.setattr("tempfile.tempdir", str(drafts))

    drafts = tmp_path / "drafts"
    drafts.mkdir()
    make.drafts = drafts  # type: ignore[attr-defined]
    return make


def test_edit_in_the_editor(cli: Terminal, editor: Any) -> None:
    cli.ok("add", "decision", "old\ntext", "--rationale", "why", "--impact", "big", "--tag", "a")
    editor(
        "assert os.stat(file).st_mode & 0o077 == 0\n"
        "text = text.replace('old\\n  text', 'new\\n  words: - # here')\n"
        "text = re.sub('impact: .*\\n', '', text) + 'owner: Ada\\n'\n"
        "file.write_text(text, 'utf-8')"
    )
    assert "revision 2" in cli.ok("edit", "DEC-0001")
    record = cli.json("show", "DEC-0001")
    assert (record["decision"], record["owner"], record["rationale"]) == ("new\nwords: - # here", "Ada", "why")
    assert "impact" not in record
    assert list(editor.drafts.iterdir()) == []


@pytest.mark.parametrize("code", ["pass", "file.write_text('')", "file.write_text('# only a comment')"])
def test_unchanged_or_empty_file_in_the_editor_changes_nothing(cli: Terminal, editor: Any, code: str) -> None:
    cli.ok("add", "decision", "x", "--rationale", "why")
    editor(code)
    assert "nothing changed" in cli.ok("edit", "DEC-0001")
    assert cli.json("show", "DEC-0001")["revision"] == 1


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [("decision: [", 4), ("- a list", 4), ("importance: 7\ndecision: x", 3), ("rationale: only", 3)],
)
def test_invalid_text_from_the_editor_is_kept(cli: Terminal, editor: Any, text: str, exit_code: int) -> None:
    cli.ok("add", "decision", "x")
    editor(f"file.write_text({text!r})")
    err = cli.fails(exit_code, "edit", "DEC-0001")
    (kept,) = editor.drafts.iterdir()
    assert str(kept) in err
    assert kept.read_text() == text
    assert cli.json("show", "DEC-0001")["revision"] == 1
    kept.write_text("decision: corrected")
    cli.ok("edit", "DEC-0001", "--from", str(kept))
    assert cli.json("show", "DEC-0001")["decision"] == "corrected"


def test_concurrent_change_during_editing_raises_conflict(cli: Terminal, editor: Any, tmp_path: Path) -> None:
    cli.ok("add", "decision", "x")
    words = [sys.executable, "-m", "smp_memory", "edit", "DEC-0001", "rationale=quick"]
    editor(
        f"import subprocess\nsubprocess.run({words!r}, env={ENVIRONMENT!r}, cwd={str(tmp_path)!r}, check=True, stdout=2)\n"
        "file.write_text(text + 'impact: slow\\n')"
    )
    err = cli.fails(32, "edit", "DEC-0001")
    (kept,) = editor.drafts.iterdir()
    assert str(kept) in err
    assert cli.json("show", "DEC-0001")["rationale"] == "quick"


def test_failing_or_missing_editor(cli: Terminal, editor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok("add", "decision", "x")
    editor("sys.exit(3)")
    assert "exit code 3" in cli.fails(2, "edit", "DEC-0001")
    monkeypatch.setenv("VISUAL", "/nowhere/editor")
    assert "Cannot start the editor" in cli.fails(2, "edit", "DEC-0001")
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "No editor" in cli.fails(2, "edit", "DEC-0001")
    assert "Cannot read" in cli.fails(2, "edit", "DEC-0001", "--from", "nowhere")
    assert "not both" in cli.fails(2, "edit", "DEC-0001", "a=1", "--from", "x")


def test_turns_cannot_be_edited(cli: Terminal, editor: Any) -> None:
    editor("raise SystemExit('was opened')")
    cli.ok("add", "turn", "said")
    assert "cannot be changed" in cli.fails(3, "edit", "TURN-0001")


# -- looking after


def test_validate_and_repair(cli: Terminal, tmp_path: Path) -> None:
    for text in ("a", "b", "c"):
        cli.ok("add", "decision", text)
    assert cli.ok("validate") == "✓ shop: 3 memories checked, no problems\n"
    file = tmp_path / ".bmad/memory/sessions/shop/decisions.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text(lines[0] + "{broken\n" + lines[2])
    code, out, _ = cli("validate", "--all")
    assert code == 41
    assert ".bmad/memory/sessions/shop/decisions.jsonl:2: error: " in out
    code, out, _ = cli("validate", "--json")
    assert (code, json.loads(out)["ok"]) == (41, False)
    before = file.read_bytes()
    assert "Nothing was changed" in cli.ok("repair", "--dry-run")
    assert file.read_bytes() == before
    assert "quarantined" in cli.ok("repair", "--all")
    assert cli.json("validate")["ok"]
    assert len(cli.json("list")) == 2
    assert "nothing to repair" in cli.ok("repair")


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_convert_to_another_layout_and_back(cli: Terminal, layout: str) -> None:
    cli.ok("add", "decision", "x", "--rationale", "several\nlines")
    cli.ok("edit", "DEC-0001", "rationale=other")
    before = cli.json("list"), cli.json("history", "DEC-0001")
    facts = cli.json("convert", "--to", layout)
    assert (facts["from"], facts["to"], facts["sessions"], facts["memories"]) == ("jsonl", layout, 1, 1)
    assert cli.json("init")["layout"] == layout
    assert (cli.json("list"), cli.json("history", "DEC-0001")) == before
    assert "to jsonl" in cli.ok("convert", "--to", "jsonl")
    assert "already" in cli.ok("convert", "--to", "jsonl")
    assert (cli.json("list"), cli.json("history", "DEC-0001")) == before


def test_config(cli: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / ".bmad/memory/config.json"
    assert "durability" in cli.ok("config")
    assert {row["name"]: row["source"] for row in cli.json("config")}["durability"] == "default"
    assert cli.ok("config", "get", "durability") == "always\n"
    assert "durability = os (file " in cli.ok("config", "set", "durability", "os")
    cli.ok("config", "set", "concurrency.lock_timeout_ms", "100")
    assert json.loads(file.read_text())["concurrency"] == {"lock_timeout_ms": 100}
    assert cli.json("config", "get", "concurrency.lock_timeout_ms")["value"] == 100
    before = file.read_bytes()
    for bad in ("durability=never", "concurrency.lock_timeout_ms=soon", "durabilty=os", "layout=log", "format=2"):
        assert "E_CONFIG_INVALID" in cli.fails(5, "config", "set", *bad.split("="))
    assert file.read_bytes() == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    cli.ok("config", "unset", "durability")
    assert cli.ok("config", "get", "durability") == "always\n"
    monkeypatch.setenv("SMP_DURABILITY", "interval")
    assert "environment SMP_DURABILITY" in cli.ok("config")
    cli.ok("add", "decision", "the store still works")


# -- what reaches the terminal

HOSTILE = "a\x1b[2J\x1b]0;title\x07b\x9b31m\rc\x08\u202ed\u2028e\nforged-line"


def test_hostile_text_cannot_control_the_terminal(empty: Terminal) -> None:
    empty.ok("init")
    empty.ok(
        "session",
        "new",
        "s1",
        "--user",
        HOSTILE,
        "--agent",
        HOSTILE,
        "--project",
        HOSTILE,
        "--set",
        f"k\x1b[1m={HOSTILE}",
    )
    empty.ok("add", "decision", HOSTILE, "--author", HOSTILE, "--rationale", HOSTILE, "--field", f"na\x1b[me={HOSTILE}")
    empty.ok("edit", "DEC-0001", f"rationale={HOSTILE}!", "--author", HOSTILE)
    empty.ok("add", "finding", HOSTILE, "--severity", HOSTILE)
    empty.ok("delete", "FIND-0001", "--reason", HOSTILE)
    commands = [
        "list",
        "show DEC-0001",
        "history DEC-0001",
        "history FIND-0001",
        "session list",
        "session show",
        "stats",
    ]
    for words in (*commands, "trash", "show --deleted FIND-0001", "validate", "config"):
        out = empty.ok(*words.split())
        assert not [letter for letter in out if letter in "\x1b\x07\x9b\r\x08\u202e\u2028"]
        json_out = empty.ok(*words.split(), "--json")
        assert not [letter for letter in json_out if letter in "\x1b\x07\x9b\r\x08\u202e\u2028"]
    assert empty.json("show", "DEC-0001")["decision"] == HOSTILE
    assert not any(line.startswith("forged") for line in empty.ok("list").splitlines())


def test_hostile_text_in_messages(cli: Terminal) -> None:
    for words in (
        ("show", f"X{HOSTILE}"),
        (HOSTILE,),
        ("list", f"--{HOSTILE}"),
        ("list", "--session", HOSTILE),
        ("list", HOSTILE),
    ):
        code, _, err = cli(*words)
        assert code
        assert "\x1b" not in err
        assert err.count("\n") == 1
    assert "title" in json.loads(cli("show", f"X{HOSTILE}", "--json")[2])["error"]["message"]


def test_text_that_is_not_unicode(cli: Terminal, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "smp_memory", "add", "decision", b"caf\xe9"],
        env=ENVIRONMENT,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"E_SCHEMA_INVALID" in done.stderr


def test_ascii_terminal(cli: Terminal, tmp_path: Path) -> None:
    cli.ok("add", "decision", "Grüße 茶")
    done = subprocess.run(
        [sys.executable, "-m", "smp_memory", "list"],
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert b"Gr\\xfc\\xdfe \\u8336" in done.stdout


def test_colour_on_a_terminal_only(cli: Terminal, tmp_path: Path) -> None:
    cli.ok("add", "decision", "x")
    assert "\x1b[" in on_a_terminal(tmp_path, "list")
    assert "\x1b[" not in on_a_terminal(tmp_path, "list", "--no-color")
    assert "\x1b[" not in on_a_terminal(tmp_path, "list", NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(tmp_path, "list", TERM="dumb")


def test_tables_fit_the_terminal(cli: Terminal, tmp_path: Path) -> None:
    cli.ok("add", "decision", "long " * 100)
    cli.ok("add", "decision", "茶" * 100)
    lines = on_a_terminal(tmp_path, "list", "--no-color", COLUMNS="70").splitlines()
    assert lines[3:] == ["2 memories in session shop, newest last"]
    assert all("…" in line and line.endswith("now") and len(line) <= 70 for line in lines[1:3])


# -- processes


def test_closed_pipe_prints_no_error(cli: Terminal, tmp_path: Path) -> None:
    for number in range(3):
        cli.ok("add", "decision", f"{number} " + "x" * 100_000)
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "smp_memory", "list"],
        env=ENVIRONMENT,
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(writing)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written(cli: Terminal, tmp_path: Path) -> None:
    cli.ok("add", "decision", "x")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "smp_memory", "list"],
            env=ENVIRONMENT,
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 51
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_is_cut_short_is_an_error(unbuffered: str, cli: Terminal, tmp_path: Path) -> None:
    for number in range(3):
        cli.ok("add", "decision", f"{number} " + "x" * 100_000)
    words = f"{sys.executable} -m smp_memory list --json | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}"
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["bash", "-c", words], env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_started_without_input_and_output(cli: Terminal, tmp_path: Path) -> None:
    words = f"{sys.executable} -m smp_memory add decision x >&- && {sys.executable} -m smp_memory list 2>&- && ! {sys.executable} -m smp_memory add decision - <&- 2>&-"
    done = subprocess.run(
        ["sh", "-c", words], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "DEC-0001" in done.stdout


def test_concurrent_processes_lose_nothing(cli: Terminal, tmp_path: Path) -> None:
    script = "import sys\nfrom smp_memory.cli.main import main\nfor n in range(20): assert main(['add', 'decision', f'{sys.argv[1]} {n}']) == 0"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, name], env=ENVIRONMENT, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for name in ("a", "b")
    ]
    told = [line.split()[0] for process in processes for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in processes] == [0, 0]
    records = cli.json("list")
    assert sorted(told) == sorted(record["id"] for record in records)
    assert {record["decision"] for record in records} == {f"{name} {n}" for name in "ab" for n in range(20)}


def test_interrupt_while_waiting_for_a_lock(cli: Terminal, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "smp_memory", "add", "decision", "-"],
        env=ENVIRONMENT, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        _wait_until_it_reads(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err == "smp: Interrupted. All acknowledged writes are stored. (E_INTERRUPTED)\n"


def _wait_until_it_reads(process: subprocess.Popen[str]) -> None:
    """Until it has loaded all it needs and sleeps, which it does only to read its input."""
    import time

    if not os.path.exists(f"/proc/{process.pid}/wchan"):
        pytest.skip("needs /proc to see that the process waits")
    for _ in range(1000):
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        called = Path(f"/proc/{process.pid}/syscall")
        try:
            number = called.read_text().split()[:2]
        except OSError:
            number = []
        if state == "S" and number in (["0", "0x0"], ["63", "0x0"]):  # read(0, …) on x86-64 and on ARM
            return
        time.sleep(0.01)
    time.sleep(1)


def test_a_memory_for_all_sessions_is_stored_under_global(cli: Terminal) -> None:
    assert cli.json("add", "preference", "Answer in German", "--session", "global")["session"] == "global"
    with smp_memory.open() as memory:
        assert [each.text for each in memory.global_memory.preferences()] == ["Answer in German"]


def test_key_of_a_memory_that_is_no_preference_is_refused(cli: Terminal) -> None:
    assert "--idempotency-key" in cli.fails(2, "add", "decision", "Use OAuth", "--key", "k")
    assert cli.json("add", "preference", "concise", "--key", "style")["value"] == "concise"


def test_bare_id_that_several_sessions_have_is_refused_also_if_the_current_session_has_it(cli: Terminal) -> None:
    """`smp delete DEC-0001` took the one of the current session, without a word about which."""
    cli.ok("add", "decision", "Use OAuth", "--session", "shop")
    cli.ok("session", "new", "two")
    cli.ok("add", "decision", "Use SAML", "--session", "two")
    for command in ("show", "delete", "pin", "resolve", "edit"):
        assert "two/DEC-0001 (Use SAML); shop/DEC-0001 (Use OAuth)" in cli.fails(2, command, "DEC-0001")
    assert cli.json("show", "DEC-0001", "--session", "two")["decision"] == "Use SAML"


def test_list_shows_the_text_first_and_sessions_by_their_short_names(cli: Terminal, tmp_path: Path) -> None:
    for name in ("claude-code-2026-01-31-5f0c1a7e", "claude-code-2026-02-01-00c0ffee"):
        cli.ok("session", "new", name)
        cli.ok(
            "add", "finding", "Login has no rate limit, so that passwords can be guessed by trying", "--session", name
        )
    head, first, second, _ = on_a_terminal(tmp_path, "list", "--no-color", COLUMNS="80").splitlines()
    assert head.split() == ["text", "id", "age", "state"]
    assert first.split("  ")[0] == "Login has no rate limit, so that passwords can …"
    assert ("5f0c1a7e/FIND-0001" in first, "00c0ffee/FIND-0001" in second) == (True, True)
    assert cli.json("show", "5f0c1a7e/FIND-0001")["id"] == "FIND-0001"
    assert cli.json("list", "--session", "00c0ffee")[0]["session"] == "claude-code-2026-02-01-00c0ffee"


@pytest.mark.parametrize("columns", [40, 80])
def test_lists_show_whole_ids_of_generated_sessions_and_break_no_line(
    cli: Terminal, tmp_path: Path, columns: int
) -> None:
    for number in range(3):
        name = f"session-2026-11-18-a704d{number}"
        cli.ok("session", "new", name)
        cli.ok("add", "decision", "Customers log in with OAuth and nothing else", "--session", name)
    for command in ("list", "timeline"):
        shown = on_a_terminal(tmp_path, command, "--no-color", COLUMNS=str(columns)).splitlines()
        assert max(map(len, shown)) <= columns
        for number in range(3):
            assert any(f" a704d{number}/DEC-0001 " in line for line in shown), shown
    assert cli.json("show", "a704d1/DEC-0001")["session"] == "session-2026-11-18-a704d1"


def test_list_footer_is_wrapped_between_words(cli: Terminal, tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / ".bmad/memory", config={"durability": "os"}) as memory:
        memory.create_session("two").add_many([("decision", f"Decision {number}") for number in range(60)])
    shown = on_a_terminal(tmp_path, "list", "--no-color", COLUMNS="40").splitlines()
    assert max(map(len, shown)) <= 40


def test_name_that_a_person_gave_is_not_shortened(cli: Terminal, tmp_path: Path) -> None:
    for name in ("shop-facade", "two"):
        cli.ok("session", "new", name)
        cli.ok("add", "decision", "Use OAuth", "--session", name)
    assert "shop-facade/DEC-0001" in on_a_terminal(tmp_path, "list", "--no-color", COLUMNS="80")


def test_list_takes_the_filters_of_query(cli: Terminal) -> None:
    cli.ok("add", "finding", "one", "--severity", "high", "--author", "ada")
    cli.ok("add", "finding", "two", "--severity", "low", "--author", "veritas")
    assert [each["finding"] for each in cli.json("list", "--where", "severity=high")] == ["one"]
    assert [each["finding"] for each in cli.json("list", "--agent", "veritas")] == ["two"]
    assert cli.json("list", "--time", "2020") == []


def test_version_is_an_option_and_a_command(cli: Terminal) -> None:
    assert cli.ok("version") == cli.ok("--version") == f"smp {smp_memory.__version__}\n"
    assert "Did you mean 'smp version'?" in cli.fails(2, "vers")


# -- undo


def test_undo_takes_back_an_added_memory_and_then_itself(cli: Terminal) -> None:
    cli.ok("add", "decision", "Use OAuth")
    code, out, _ = cli("undo")
    assert (code, "added DEC-0001  Use OAuth" in out, "Add --yes" in out) == (1, True, True)
    assert "Undone." in cli.ok("undo", "--yes")
    assert cli.json("list") == []
    cli.ok("undo", "--yes")
    assert [each["id"] for each in cli.json("list")] == ["DEC-0001"]


def test_undo_takes_back_changed_fields(cli: Terminal) -> None:
    cli.ok("add", "finding", "No rate limit", "--severity", "low")
    cli.ok("edit", "FIND-0001", "severity=high", "impact=large")
    assert "severity: low → high" in cli.ok("undo", "--dry-run")
    cli.ok("undo", "--yes")
    found = cli.json("show", "FIND-0001")
    assert (found["severity"], "impact" in found, found["revision"]) == ("low", False, 3)
    cli.ok("resolve", "FIND-0001", "done")
    cli.ok("undo", "--yes")
    assert cli.json("show", "FIND-0001").get("status") in (None, "open")


def test_undo_restores_all_memories_that_were_deleted_together(cli: Terminal) -> None:
    for text in ("one", "two", "three"):
        cli.ok("add", "decision", text, "--tag", "old")
    cli.ok("add", "decision", "four")
    cli.ok("delete", "--tag", "old", "--yes")
    assert len(cli.json("list")) == 1
    cli.ok("undo", "--yes")
    assert sorted(each["decision"] for each in cli.json("list")) == ["four", "one", "three", "two"]


def test_undo_leaves_the_changes_of_others_alone(cli: Terminal) -> None:
    cli.ok("add", "decision", "mine")
    cli.ok("add", "decision", "of an agent", "--author", "architect")
    assert "mine" in cli.ok("undo", "--dry-run")
    assert "of an agent" in cli.ok("undo", "--dry-run", "--author", "architect")
    assert "no change by nobody" in cli.ok("undo", "--dry-run", "--author", "nobody")


def test_undo_leaves_recorded_prompts_alone(cli: Terminal) -> None:
    cli.ok("add", "decision", "Use OAuth")
    cli.ok("add", "turn", "How do we log in?", "--role", "user")
    assert "Use OAuth" in cli.ok("undo", "--dry-run")


def test_undo_of_a_pinned_turn_unpins_it(cli: Terminal) -> None:
    cli.ok("add", "turn", "How do we log in?", "--role", "user")
    cli.ok("pin", "TURN-0001")
    cli.ok("undo", "--yes")
    assert cli.json("show", "TURN-0001")["pinned"] is False
