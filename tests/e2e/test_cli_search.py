"""Search commands as a person or a script uses them: most calls in this process, some in real ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from tests.e2e.terminal import Terminal, can_read, on_a_terminal
from tests.user_state import state_folder

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SMP_") or name == "SMP_STATE_DIR"},
    "PYTHONPATH": str(Path(smp_memory.__file__).parent.parent),
    "PYTHONWARNINGS": "error",
}


class QueryProcess(Terminal):
    def ids(self, *words: str) -> list[str]:
        return [hit["record"]["id"] for hit in self.json("query", *words)["hits"]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> QueryProcess:
    """In a folder with two sessions, one of them empty of logins."""
    with smp_memory.open(tmp_path / ".bmad" / "memory") as memory:
        shop = memory.create_session("shop", user="ada", project="shop")
        shop.add_turn("user", "How do customers log in?")
        shop.add_decision(
            "Use PostgreSQL as the database",
            rationale="SQLite has one writer",
            author="architect",
            tags=["storage.db"],
            importance=0.9,
        )
        shop.add_finding("Login has no rate limit", severity="critical", author="veritas", tags=["security.login"])
        shop.add_decision("Five login attempts a minute", author="architect", tags=["security.login", "auth"])
        shop.relate("DEC-0002", "FIND-0001", "resolves")
        shop.relate("DEC-0002", "DEC-0001", "depends_on")
        other = memory.create_session("billing", user="bob")
        other.add_finding("Invoices are numbered twice", severity="low", author="veritas", references=["shop/DEC-0001"])
    return QueryProcess(capsys)


@contextmanager
def start(folder: Path, *words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command that runs in the background; it is killed if the test fails before it ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "smp_memory", *words],
        env=ENVIRONMENT, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    ) as started:  # fmt: skip
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


# -- words


def test_query_words_in_any_order(cli: QueryProcess) -> None:
    assert cli.ids("which", "database", "did", "we", "choose")[0] == "DEC-0001"
    assert cli.ids("which database did we choose?")[0] == "DEC-0001"
    assert cli.ids("writer")[0] == "DEC-0001"
    assert cli.ids('"rate limit"')[0] == "FIND-0001"
    assert cli.ids("invoic*") == ["FIND-0001"]


@pytest.mark.parametrize(
    "words",
    [
        ("login", "-rate"),
        ("-rate", "login"),
        ("login", "--", "-rate"),
        ("--", "login", "-rate"),
        ("--limit", "5", "login -rate"),
        ("login", "--type", "finding,decision", "-rate", "--session", "shop"),
        ("login", '-"rate limit"'),
        ("login", "-rat*"),
    ],
)
def test_excluded_words(cli: QueryProcess, words: tuple[str, ...]) -> None:
    found = cli.ids(*words)
    assert "DEC-0002" in found
    assert "FIND-0001" not in found


def test_words_that_look_like_options_are_searched(cli: QueryProcess) -> None:
    assert cli.ids("-http", "database")[0] == "DEC-0001"  # not -h
    assert cli.ids("--", "--explain", "database")[0] == "DEC-0001"
    assert "usage: smp query" in cli.ok("query", "-h")
    assert "--frobnicate" in cli.fails(2, "query", "x", "--frobnicate")
    assert "-x" in cli.fails(2, "query", "x", "-x")
    assert "Did you mean 'smp query'?" in cli.fails(2, "search", "x")


HOSTILE = ['"', '""', "(", "a AND", "*", "**", "-", "--", "~", "a:b", "\\", "'", "\x00", "\x1b[31m", "😀", "NOT", "-" * 50, "a" * 5000, "%s", "\ud800"]  # fmt: skip


@pytest.mark.parametrize("words", HOSTILE)
def test_query_accepts_any_words(cli: QueryProcess, words: str) -> None:
    code, out, err = cli("query", "--limit", "3", "--", words)
    assert (code, err) == (0, "")
    assert "\x1b" not in out


# -- filters


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--type", "finding"), ["billing/FIND-0001", "shop/FIND-0001"]),
        (("--type", "finding", "--session", "shop"), ["shop/FIND-0001"]),
        (("--type", "findings,turn", "--session", "shop"), ["shop/FIND-0001", "shop/TURN-0001"]),
        (("--tag", "security"), ["shop/DEC-0002", "shop/FIND-0001"]),
        (("--tag", "storage,auth"), ["shop/DEC-0001", "shop/DEC-0002"]),
        (("--tag", "security", "--tag", "auth", "--all-tags"), ["shop/DEC-0002"]),
        (("--tag", "security", "--not-tag", "auth"), ["shop/FIND-0001"]),
        (("--agent", "veritas", "--agent", "ada"), ["billing/FIND-0001", "shop/FIND-0001", "shop/TURN-0001"]),
        (("--topic", "storage"), ["shop/DEC-0001"]),
        (("--where", "severity=critical"), ["shop/FIND-0001"]),
        (("--where", "severity?", "--where", "severity!=critical"), ["billing/FIND-0001"]),
        (("--min-importance", "0.8"), ["shop/DEC-0001"]),
        (("--references", "shop/DEC-0001"), ["billing/FIND-0001", "shop/DEC-0002"]),
        (("--related-to", "shop/DEC-0001", "--kind", "depends_on"), ["shop/DEC-0002"]),
        (("--related-to", "FIND-0001", "--depth", "2", "--session", "shop"), ["shop/DEC-0001", "shop/DEC-0002"]),
        (("--pinned",), []),
        (("--until", "2020-01-01"), []),
        (("--since", "2020-01-01", "--type", "turn"), ["shop/TURN-0001"]),
        (("--time", "last 24 hours", "--type", "turn"), ["shop/TURN-0001"]),
        (("login", "--min-relevance", "0.01", "--type", "finding"), ["shop/FIND-0001"]),
        (("--no-decayed", "--type", "turn"), ["shop/TURN-0001"]),
    ],
)
def test_filters(cli: QueryProcess, words: tuple[str, ...], expected: list[str]) -> None:
    hits = cli.json("query", *words)["hits"]
    assert sorted(f"{hit['record']['session']}/{hit['record']['id']}" for hit in hits) == expected


def test_deleted_memories_only_with_include_deleted(cli: QueryProcess) -> None:
    cli.ok("delete", "shop/FIND-0001")
    assert "FIND-0001" not in cli.ids("login")
    assert "FIND-0001" in cli.ids("login", "--include-deleted")
    assert re.search(r"FIND-0001 .* deleted", cli.ok("query", "login", "--include-deleted"))


def test_paging_sorting_and_counting(cli: QueryProcess) -> None:
    assert cli.ids("--session", "shop", "--sort", "oldest") == ["TURN-0001", "DEC-0001", "FIND-0001", "DEC-0002"]
    page = cli.json("query", "--session", "shop", "--limit", "1", "--offset", "1", "--sort", "oldest")
    assert [hit["record"]["id"] for hit in page["hits"]] == ["DEC-0001"]
    assert page["more"] is True
    assert "--offset 2" in cli.ok("query", "--session", "shop", "--limit", "1", "--offset", "1")
    counts = cli.json("query", "--count-by", "type,session", "--limit", "0")
    assert counts["hits"] == []
    assert counts["counts"] == {"type": {"decision": 2, "finding": 2, "conversation": 1}, "session": {"shop": 4, "billing": 1}}  # fmt: skip
    out = cli.ok("query", "--count-by", "type", "--limit", "0")
    assert "By type" in out
    assert "No results" not in out


def test_query_searches_all_sessions_unless_one_is_named(cli: QueryProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(cli.ids()) == 5
    monkeypatch.setenv("SMP_SESSION", "billing")
    assert cli.ids() == ["FIND-0001"]
    assert len(cli.ids("--all")) == 5
    assert "E_SESSION_NOT_FOUND" in cli.fails(8, "query", "x", "--session", "nowhere")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--where", "nonsense"), "where: "),
        (("--time", "next blue moon"), "time: "),
        (("--type", "nonsense"), "types: "),
        (("--min-priority", "7"), "min_priority: "),
        (("--limit", "-1"), "limit: "),
        (("--count-by", "colour"), "count_by: "),
    ],
)
def test_invalid_option_value_is_named(cli: QueryProcess, words: tuple[str, ...], expected: str) -> None:
    err = cli.fails(6, "query", "x", *words)
    assert expected in err
    assert "E_INVALID_QUERY" in err
    assert err.count("\n") == 1
    assert json.loads(cli.fails(6, "query", "x", *words, "--json"))["error"]["number"] == "MEM_E004"


def test_related_to_a_missing_memory_is_rejected(cli: QueryProcess) -> None:
    assert "DEC-0099" in cli.fails(11, "query", "--related-to", "shop/DEC-0099")
    assert "E_USER" in cli.fails(2, "query", "--limit", "many")


# -- the answer


def test_query_output_as_text(cli: QueryProcess) -> None:
    lines = cli.ok("query", "writer").splitlines()
    assert re.fullmatch(r"[█░]{8} \d\.\d\d  shop/DEC-0001  \d{4}-\d\d-\d\d \d\d:\d\d  decision  architect", lines[0])
    assert lines[1].strip() == "Use PostgreSQL as the database"
    assert lines[2].strip() == "rationale: SQLite has one writer"
    assert lines[-1] == "To see all fields of a memory: smp show shop/DEC-0001"
    assert "  DEC-0001  " in cli.ok("query", "database", "--session", "shop").splitlines()[0]
    assert "└─ shop/FIND-0001" in cli.ok("query", "attempts", "--include-related")


def test_query_output_as_json(cli: QueryProcess) -> None:
    answer = cli.json("query", "login", "--include-related", "--session", "shop")
    assert set(answer) == {"hits", "more", "counts", "scope"}
    hit = next(hit for hit in answer["hits"] if hit["record"]["id"] == "DEC-0002")
    assert set(hit) == {"record", "score", "relevance", "priority", "explain", "related"}
    assert hit["record"] == cli.json("show", "shop/DEC-0002")
    assert 0 < hit["relevance"] <= 1
    assert "text" in hit["explain"]
    assert {record["id"] for record in hit["related"]} == {"DEC-0001", "FIND-0001"}


def test_explain_shows_score_parts(cli: QueryProcess) -> None:
    out = cli.ok("query", "login", "--explain")
    assert re.search(r"^ +text +[█░]{20}  \d\.\d\d  words in the memory$", out, re.M)
    assert re.search(r"^ +priority +policy=smp ", out, re.M)
    assert "words in the memory" not in cli.ok("query", "login", "--explain", "--mode", "weighted")


def test_no_results_names_options_to_leave_out(cli: QueryProcess) -> None:
    out = cli.ok("query", "login", "--type", "preference", "--session", "billing")
    assert out.startswith("No results in session billing.")
    out = cli.ok("query", "login", "--agent", "architect", "--tag", "storage")
    assert "without --agent" not in out
    assert "  without --tag: 1\n" in out
    assert "  without the words: 1\n" in out
    assert "  without any option: " in cli.ok("query", "login", "--agent", "nobody", "--until", "2020")
    assert "  without --session: 2" in cli.ok("query", "login", "--session", "billing")
    assert "Try other words" in cli.ok("query", "zebra")
    assert cli.json("query", "zebra") == {
        "hits": [],
        "more": False,
        "counts": {},
        "scope": {"session": None, "sessions": 2},
    }


def test_query_of_an_empty_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cli = QueryProcess(capsys)
    assert "E_STORE_NOT_FOUND" in cli.fails(7, "query", "x")
    cli.ok("init")
    assert "no memory yet" in cli.ok("query")
    assert "No results" in cli.ok("query", "x")
    assert "0 memories" in cli.ok("reindex")
    assert "smp session new" in cli.ok("topics")
    cli.ok("session", "new", "s1")
    for command in ("topics", "timeline", "agents", "summary"):
        assert cli.ok(command)


# -- similar, related, priority


def test_similar_to_a_text_or_a_memory(cli: QueryProcess) -> None:
    cli.ok("add", "finding", "Logins are not limited: no rate, no pause", "--session", "shop")
    found = [hit["record"]["id"] for hit in cli.json("similar", "shop/FIND-0001")["hits"]]
    assert "FIND-0002" in found
    assert "FIND-0001" not in found
    assert cli.json("similar", "FIND-0001", "--session", "shop")["hits"]
    assert cli.json("similar", "numbers", "of", "invoices")["hits"][0]["record"]["session"] == "billing"
    assert cli.json("similar", "database")["hits"][0]["record"]["id"] == "DEC-0001"
    assert "E_MEMORY_NOT_FOUND" in cli.fails(11, "similar", "shop/DEC-0099")
    assert "See: smp similar --help" in cli.fails(2, "similar")
    assert "No results" in cli.ok("similar", "zebra")


def test_related_is_a_tree(cli: QueryProcess) -> None:
    assert cli.ok("related", "shop/DEC-0002", "--kind", "resolves") == (
        "shop/DEC-0002  architect  Five login attempts a minute\n"
        "└─ → resolves  shop/FIND-0001  veritas  Login has no rate limit\n"
    )
    out = cli.ok("related", "FIND-0001", "--session", "shop", "--depth", "3")
    assert re.findall(r"[←→] (\w+)  (\S+)", out) == [
        ("resolves", "shop/DEC-0002"),
        ("depends_on", "shop/DEC-0001"),
        ("references", "billing/FIND-0001"),
    ]
    answer = cli.json("related", "shop/FIND-0001", "--depth", "2")
    assert answer["id"] == "shop/FIND-0001"
    assert [(each["record"]["id"], each["steps"], each["kind"], each["via"]) for each in answer["related"]] == [
        ("DEC-0002", 1, "resolves", "shop/FIND-0001"),
        ("DEC-0001", 2, "depends_on", "shop/DEC-0002"),
    ]
    assert "It has no relations" in cli.ok("related", "shop/TURN-0001")
    assert "E_MEMORY_NOT_FOUND" in cli.fails(11, "related", "shop/DEC-0099")
    assert "depth" in cli.fails(6, "related", "shop/DEC-0001", "--depth", "99")


def test_priority_now_and_in_the_future(cli: QueryProcess) -> None:
    now = cli.json("priority", "shop/FIND-0001")
    assert (now["id"], now["session"]) == ("FIND-0001", "shop")
    assert 0 < now["priority"] <= 1
    assert [step["priority"] <= now["priority"] for step in now["ahead"]] == [True] * 4
    later = cli.json("priority", "shop/TURN-0001", "--at", "2099-01-01")
    assert later["priority"] < 0.5
    assert (later["at"], later["ahead"]) == ("2099-01-01T00:00:00Z", [])
    assert "in 30 days" in cli.ok("priority", "shop/DEC-0001")
    cli.ok("pin", "shop/DEC-0001")
    assert "pinned" in cli.ok("priority", "shop/DEC-0001")
    assert cli.fails(3, "priority", "shop/DEC-0001", "--at", "soon").count("\n") == 1
    assert "E_MEMORY_NOT_FOUND" in cli.fails(11, "priority", "shop/DEC-0099")


# -- overviews


def test_topics(cli: QueryProcess) -> None:
    out = cli.ok("topics", "--session", "shop")
    assert re.search(r"1\.00  security +2 ", out)
    assert cli.json("topics", "--all")["topic_index"]["topics"]["security.login"]["mentions"] == 2
    assert cli.ok("topics", "--session", "shop", "--yaml").startswith("topic_index:\n")
    assert "No memory has a topic" in cli.ok("topics", "--session", "billing")


def test_timeline(cli: QueryProcess) -> None:
    out = cli.ok("timeline", "--all", "--per", "day")
    assert re.match(r"\d{4}-\d\d-\d\d  [█░]+  5 memories\n  \d\d:\d\d:\d\d  shop/TURN-0001  ada  How do", out)
    assert len(cli.json("timeline", "--session", "shop")["timeline_index"]["events"]) == 4
    assert (
        cli.ok("timeline", "--all", "--until", "2020-01-01")
        == "There are no memories in this period.\nOf all 2 sessions.\n"
    )
    assert "E_INVALID_QUERY" in cli.fails(6, "timeline", "--all", "--since", "soon")


def test_agents(cli: QueryProcess) -> None:
    assert re.search(r"^architect +agent +█+ 2 ", cli.ok("agents", "--session", "shop"), re.M)
    assert set(cli.json("agents", "--all")["agent_index"]["agents"]) == {"ada", "architect", "veritas"}


def test_summary(cli: QueryProcess) -> None:
    out = cli.ok("summary", "--session", "shop")
    assert "\nKey decisions\n" in out
    assert "\n- FIND-0001 critical: Login has no rate limit (veritas, " in out
    assert cli.ok("summary", "--all", "--yaml")
    assert cli.json("summary", "--session", "billing")["session_summary"]["sessions"] == ["billing"]


# -- reindex


def test_reindex(cli: QueryProcess, tmp_path: Path) -> None:
    facts = cli.json("reindex")
    assert facts["memories"] == 5
    assert facts["index_bytes"] > 0
    assert facts["file_bytes"] == sum(
        path.stat().st_size for path in (tmp_path / ".bmad/memory").rglob("*.json*") if ".smp" not in path.parts
    )
    assert cli.ok("reindex").startswith("✓ 5 memories indexed in ")
    shutil.rmtree(state_folder(tmp_path / ".bmad/memory") / "index")
    assert cli.ids("database")[0] == "DEC-0001"


# -- watch


def test_watch_prints_writes_of_other_processes(cli: QueryProcess, tmp_path: Path) -> None:
    with start(tmp_path, "watch", "login", "--type", "finding") as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert "Watching" in watching.stderr.readline()
        cli.ok("add", "decision", "Login stays", "--session", "shop")
        cli.ok(
            "add", "finding", "Login leaks\nforged", "--severity", "high", "--author", "veritas", "--session", "shop"
        )
        line = watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        rest, err = watching.communicate()
    assert re.fullmatch(r"\d\d:\d\d  shop/FIND-0002  veritas  high, open  Login leaks forged\n", line)
    assert (watching.returncode, rest, err) == (0, "", "")


def test_watch_prints_one_json_object_per_line(cli: QueryProcess, tmp_path: Path) -> None:
    with start(tmp_path, "watch", "--json", "--session", "shop", "--for", "60") as watching:
        assert watching.stdout is not None
        came = False
        while not came:  # it may not watch yet when the first ones are written
            cli.ok("add", "finding", "number one", "--session", "shop")
            came = can_read(watching.stdout.fileno(), 0.2)
        line = watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        watching.communicate()
    found = json.loads(line)
    assert found["record"]["finding"] == "number one"
    assert set(found) == {"record", "score", "relevance", "priority", "explain"}
    assert watching.returncode == 0


def test_watch_ends_after_its_timeout(cli: QueryProcess) -> None:
    code, out, _ = cli("watch", "--for", "0.1")
    assert (code, out) == (0, "")
    assert "E_INVALID_QUERY" in cli.fails(6, "watch", "--time", "next blue moon", "--for", "1")


# -- the terminal


def test_words_are_highlighted_on_a_terminal_only(cli: QueryProcess, tmp_path: Path) -> None:
    assert "\x1b[1;33mdatabase\x1b[0m" in on_a_terminal(tmp_path, "query", "databases")
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(tmp_path, "query", "databases", **environment)
    assert "\x1b" not in on_a_terminal(tmp_path, "query", "databases", "--no-color")
    assert "\x1b" not in cli.ok("query", "databases")


def test_output_fits_the_terminal(cli: QueryProcess, tmp_path: Path) -> None:
    cli.ok("add", "finding", "long words " * 200, "--session", "shop", "--tag", "a" * 60, "--author", "x" * 60)
    cli.ok("add", "finding", "茶" * 300, "--session", "shop")
    for words in ("query words 茶茶 --explain", "query --count-by agent,tag", "related shop/DEC-0002", "topics --all", "timeline --all", "summary --all"):  # fmt: skip
        lines = on_a_terminal(tmp_path, *words.split(), "--no-color").splitlines()
        assert [line for line in lines if len(line) > 80] == []


def test_hostile_text_cannot_control_the_terminal(cli: QueryProcess) -> None:
    hostile = "needle \x1b[2J\x1b]0;title\x07b\x9b31m\r\x08\u202e\u2028\nforged-line"
    cli.ok(
        "add", "finding", hostile, "--session", "shop", "--author", hostile, "--severity", hostile, "--topic", hostile
    )
    cli.ok("relate", "shop/FIND-0002", "shop/DEC-0001", "--kind", "resolves")
    commands = ["query needle --explain", "query --count-by agent,topic", "similar needle", "related shop/FIND-0002", "priority shop/FIND-0002"]  # fmt: skip
    for words in (*commands, "topics --all", "timeline --all", "agents --all", "summary --all", "agents --all --yaml"):
        for more in ((), ("--json",)):
            out = cli.ok(*words.split(), *more)
            assert not [letter for letter in out if letter in "\x1b\x07\x9b\r\x08\u202e\u2028"]
            assert not any(line.startswith("forged") for line in out.splitlines())
    for command in ("query", "similar", "related", "priority", "watch"):
        code, _, err = cli(command, hostile, "--where" if command in ("query", "watch") else "--nonsense", hostile)
        assert code
        assert "\x1b" not in err


# -- starting


def test_query_does_not_load_yaml_or_unused_modules(cli: QueryProcess, tmp_path: Path) -> None:
    code = "import sys; from smp_memory.cli.main import main; main(sys.argv[1:]); print([name for name in ('yaml', 'tempfile', 'subprocess', 'difflib', 'smp_memory.cli.commands.demo', 'smp_memory.cli.commands.overview') if name in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "query", "database"],
        env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "DEC-0001" in done.stdout
    assert json.loads(done.stderr.replace("'", '"')) == []


# -- what does not hold, and typing errors


def test_expired_memories_are_left_out_and_the_output_says_so(cli: QueryProcess) -> None:
    cli("add", "finding", "Guests use gate nine", "--session", "shop", "--valid-until", "2020-01-01", "--alias", "G9")
    out = cli("query", "gate nine")[1]
    assert "1 memory that is not valid now was left out. To find them, too: --include-expired" in out
    assert "No memory" not in out
    assert cli.json("query", "gate nine")["not_valid"] == 1
    assert cli.ids("gate", "nine", "--include-expired") == cli.ids("G9", "--include-expired") == ["FIND-0002"]
    assert "valid until 2020-01-01" in cli("query", "gate nine", "--include-expired")[1]


def test_superseded_memories_come_after_their_successor(cli: QueryProcess) -> None:
    cli("add", "decision", "MySQL replaces everything", "--session", "shop", "--field", "supersedes=DEC-0001")
    assert cli.ids("PostgreSQL", "--session", "shop") == ["DEC-0003", "DEC-0001"]
    assert "superseded by DEC-0003" in cli("query", "PostgreSQL", "--session", "shop")[1]


def test_corrected_words_are_named(cli: QueryProcess) -> None:
    assert cli.json("query", "PostgreSLQ")["corrected"] == {"PostgreSLQ": "postgresql"}
    assert "No memory has PostgreSLQ; searched for postgresql, too." in cli("query", "PostgreSLQ")[1]
