"""Notes and memories of other tools are imported once, by type and with their time; what is not understood is reported."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.errors import UserError
from smp_memory.importers.import_run import IngestReport
from smp_memory.importers.ingest import import_from
from smp_memory.importers.registry import IMPORTERS, Places
from smp_memory.memory import Memory
from tests.postgres_server import Server
from tests.unit.importers import planted


@pytest.fixture
def memory() -> Iterator[Memory]:
    with smp_memory.open(":memory:") as opened:
        yield opened


def said(memory: Memory, session: str, type: str | None = None) -> list[str]:
    return [record.text for record in memory.session(session).records(type)]


def log(root: Path) -> Path:
    lists = {"s1/findings.yaml": planted.FINDINGS, "s1/agent-states/veritas.yaml": planted.STATE}
    planted.put(root, {"s1/conversation.md": planted.LOG, **lists})
    return root / "s1"


def database(root: Path) -> Path:
    planted.claude_mem(root / "claude-mem.db")
    return root / "claude-mem.db"


def history(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    planted.mem0_history(root / "history.db")
    return root / "history.db"


def file(name: str, text: str) -> Callable[[Path], Path]:
    return lambda root: planted.put(root, {name: text}) / name


ALL: list[tuple[str, Callable[[Path], Path], dict[str, int]]] = [
    ("claude-mem", database, {"conversation": 1, "decision": 1, "finding": 2, "learning": 1, "summary": 1}),
    ("markdown", lambda root: planted.put(root / "Vault", planted.VAULT), {"decision": 1, "finding": 2, "learning": 3}),
    ("markdown", lambda root: planted.put(root / "shop", planted.RULES), {"learning": 1, "preference": 7}),
    ("basic-memory", lambda root: planted.put(root / "bm", planted.BASIC_MEMORY), {"decision": 1, "finding": 1, "learning": 6}),
    ("mem0", file("export.json", json.dumps(planted.MEM0)), {"learning": 1, "preference": 1}),
    ("mem0", file("list.json", json.dumps(planted.MEM0["results"])), {"learning": 1, "preference": 1}),
    ("mem0", file("memories.json", json.dumps(planted.OPENMEMORY)), {"learning": 1}),
    ("mem0", history, {"learning": 1}),
    ("conversation-log", log, {"agent_state": 1, "conversation": 2, "finding": 2}),
    ("mcp-memory", file("memory.jsonl", planted.json_lines(planted.MEMORY_JSONL)), {"entity": 1, "observation": 2, "relation": 1}),
    ("jsonl", file("a.jsonl", planted.json_lines([{"text": "x", "kind": "decision"}, {"text": "x", "kind": "decision"}])), {"decision": 2}),
    ("csv", file("a.csv", "text,speaker\nHello,human\nHello,human\n"), {"conversation": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "plant", "added"), ALL)
def test_second_import_adds_nothing_and_dry_run_writes_nothing(
    memory: Memory, tmp_path: Path, name: str, plant: Callable[[Path], Path], added: dict[str, int]
) -> None:
    path = plant(tmp_path)
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    assert import_from(memory, name, path, dry_run=True).added == added
    assert memory.sessions() == []
    done = import_from(memory, name, path)
    assert (done.added, done.unread) == (added, [])
    records = [record for session in memory.sessions() for record in memory.session(session.id).records()]
    assert len(records) == sum(added.values())
    again = import_from(memory, name, path)
    assert (again.added, again.followed, again.known) == ({}, 0, len(records))
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before
    if name != "mcp-memory":
        assert all(record.given["source"]["file"] and record.given["source"]["line"] for record in records)


# -- claude-mem


def test_claude_mem_observations_have_type_time_and_project(memory: Memory, tmp_path: Path) -> None:
    done = import_from(memory, "claude-mem", database(tmp_path))
    first, second = sorted(done.sessions, key=lambda name: -done.sessions[name])
    assert first.startswith("claude-code-2026-01-05-")
    session = memory.session(first)
    assert session.info.project == "shop"
    decision = session.records("decision")[0]
    assert decision.text == "Use OAuth 2.0 for login"
    assert decision.given["rationale"] == "in short\nWhy: Use OAuth 2.0 for login\nfact one"
    assert decision.created.isoformat().startswith("2026-01-05T10:00:01")
    assert (decision.given["tags"], decision.given["references"]) == (["how-it-works"], ["src/login.py"])
    assert session.records("finding")[0].given["status"] == "resolved"
    assert (
        session.records("summary")[0].text == "Request: Add login\nLearned: OAuth needs PKCE\nNext steps: Rotate keys"
    )
    assert [(each.given["role"], each.text) for each in session.records("conversation")] == [
        ("user", "Add login with OAuth")
    ]
    assert memory.session(second).records("finding")[0].given["status"] == "open"


def test_claude_mem_database_of_first_version_is_read(memory: Memory, tmp_path: Path) -> None:
    planted.claude_mem(tmp_path / "old.db", first_version=True)
    done = import_from(memory, "claude-mem", tmp_path / "old.db")
    assert done.added == {"learning": 1, "summary": 1}


def test_claude_mem_rows_in_open_log_are_read_and_nothing_beside_it_changes(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "claude-mem.db"
    connection = planted.claude_mem(path, wal=True)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if not each.name.endswith("-shm")}
    assert path.with_name("claude-mem.db-wal").stat().st_size
    assert import_from(memory, "claude-mem", path).count == 6
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if not each.name.endswith("-shm")} == before
    planted.observation(connection, 9, memory_session_id="m1", type="change", title="A later one")
    connection.commit()  # nothing holds a lock
    connection.close()
    assert import_from(memory, "claude-mem", path).added == {"learning": 1}


def test_claude_mem_prompt_that_a_transcript_has_is_stored_once(memory: Memory, tmp_path: Path) -> None:
    turn = {"type": "user", "uuid": "u1", "sessionId": "c1", "cwd": "/x", "timestamp": planted.DAY, "message": {"role": "user", "content": "Add login with OAuth"}}  # fmt: skip
    planted.put(tmp_path, {"p/c1.jsonl": json.dumps(turn) + "\n"})
    import_from(memory, "claude-mem", database(tmp_path))
    assert import_from(memory, "claude-code", tmp_path / "p").added == {}
    (session,) = [each.id for each in memory.sessions() if memory.session(each.id).records("conversation")]
    assert said(memory, session, "conversation") == ["Add login with OAuth"]


def test_damaged_databases_are_reported(memory: Memory, tmp_path: Path) -> None:
    whole = database(tmp_path).read_bytes()
    for number, data in enumerate(
        (b"", b"not a database" * 100, whole[:5000], whole[:4096] + b"\xff" * len(whole[4096:]))
    ):
        path = tmp_path / f"{number}.db"
        path.write_bytes(data)
        for importer in ("claude-mem", "mem0"):
            assert import_from(memory, importer, path).unread


# -- Markdown


def test_note_has_tags_aliases_references_and_date(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, "markdown", planted.put(tmp_path / "Vault", planted.VAULT))
    session = memory.session("markdown-Vault")
    records = {record.text: record for record in session.records()}
    first = records["Auth design: Tokens are described in [[Tokens|the other note]], not in [[Nowhere]]. #review"]
    assert first.given["tags"] == ["security", "oauth.flows", "review"]
    assert first.given["references"] == ["Vault/Tokens.md"]
    assert first.created.isoformat().startswith("2026-01-05")
    assert [each for each in records.values() if each.given.get("aliases")] == [
        records["Auth design: Use OAuth 2.0 with PKCE"]
    ]
    assert "Auth design, Risk of replay:\n```sh\n# no heading\n```\nReplay is prevented by a nonce." in records
    status = {record.text: record.given["status"] for record in session.records("finding")}
    assert status == {"Auth design: Who rotates the keys?": "open", "Auth design: Where are the keys?": "resolved"}


def test_changed_section_is_updated_and_settled_question_is_resolved(memory: Memory, tmp_path: Path) -> None:
    root = planted.put(tmp_path / "Vault", planted.VAULT)
    import_from(memory, "markdown", root)
    note = root / "Projects" / "Auth.md"
    note.write_text(note.read_text().replace("by a nonce", "by a counter").replace("[ ] Who", "[x] Who"))
    again = import_from(memory, "markdown", root)
    assert (again.added, again.followed) == ({}, 2)
    texts = said(memory, "markdown-Vault")
    assert sum("by a counter" in text for text in texts) == 1
    assert sum("by a nonce" in text for text in texts) == 0
    assert {record.given["status"] for record in memory.session("markdown-Vault").records("finding")} == {"resolved"}
    assert import_from(memory, "markdown", root).followed == 0


def test_rules_become_preferences_with_heading_and_files(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, "markdown", planted.put(tmp_path / "shop", planted.RULES))
    records = {record.text: record for record in memory.session("markdown-shop").records()}
    assert records["Never mock the database\nbecause it hid a bug"].given["topic"] == "Style"
    assert records["Prefer unknown to any"].given["applies_to"] == ["src/**/*.ts", "*.tsx"]
    assert records["A web shop in Django."].type == "learning"
    assert not {"not a rule", "also not a rule"} & set(records)
    assert records["Use tabs"].given["source"] == {"tool": "markdown", "file": "shop/CLAUDE.md", "line": 7}


def test_one_file_and_its_folder_are_the_same_source(memory: Memory, tmp_path: Path) -> None:
    root = planted.put(tmp_path / "shop", {**planted.RULES, ".git/HEAD": ""})
    import_from(memory, "markdown", root)
    for name in planted.RULES:
        assert import_from(memory, "markdown", root / name).added == {}


def test_long_section_is_split_at_blank_lines(memory: Memory, tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {number} " + "word " * 100 for number in range(60))
    import_from(memory, "markdown", planted.put(tmp_path / "n", {"long.md": text}) / "long.md")
    records = memory.session("markdown-n").records()
    assert len(records) > 3
    assert max(len(record.text) for record in records) < 7000


# -- basic-memory, mem0


def test_basic_memory_observations_have_category_tags_and_context(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, "basic-memory", planted.put(tmp_path / "bm", planted.BASIC_MEMORY))
    records = {record.text: record for record in memory.session("basic-memory-import").records()}
    pour = records["Coffee brewing: Pour over gives clear flavour #brewing"]
    assert (pour.given["category"], pour.given["context"], pour.given["tags"]) == (
        "method",
        "from a friend",
        ["coffee", "brewing"],
    )
    assert records["Coffee brewing: Grind at 18 clicks"].type == "decision"
    assert records["Coffee brewing: Kettle leaks"].given["status"] == "open"
    requires = records["Coffee brewing requires Good water"]
    assert (requires.given["relation"], requires.given["references"]) == ("requires", ["bm/Good water.md"])
    assert "references" not in records["Coffee brewing relates to Nowhere"].given


def test_changed_memory_of_mem0_is_updated_also_from_another_kind_of_file(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, "mem0", history(tmp_path))
    assert said(memory, "mem0-import") == ["Likes green tea"]
    later = [{"id": "a", "memory": "Likes black tea", "categories": ["preferences"], "created_at": planted.DAY}]
    done = import_from(memory, "mem0", planted.put(tmp_path, {"x.json": json.dumps(later)}) / "x.json")
    assert (done.added, done.followed) == ({}, 1)
    assert said(memory, "mem0-import") == ["Likes black tea"]


def test_deleted_memories_of_mem0_are_left_out_and_counted(memory: Memory, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "backup.zip", "w") as archive:
        archive.writestr("memories.json", json.dumps(planted.OPENMEMORY))
    done = import_from(memory, "mem0", tmp_path / "backup.zip")
    assert done.left_out == ["backup.zip: memories that mem0 calls deleted or archived: 1"]
    assert memory.session("mem0-import").records()[0].given["tags"] == ["travel"]


def test_folder_of_vectors_gets_advice(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="get_all"):
        import_from(memory, "mem0", tmp_path)


# -- conversation logs


def test_log_becomes_its_session_with_turns_and_stored_memories(memory: Memory, tmp_path: Path) -> None:
    import_from(memory, "conversation-log", log(tmp_path))
    session = memory.session("session-2026-01-11-abc123")
    turns = session.records("conversation")
    assert [(turn.author, turn.given["role"]) for turn in turns] == [("user", "user"), ("veritas", "assistant")]
    assert turns[0].created.isoformat().startswith("2026-01-11T14:30:00")
    assert turns[1].given["references"] == ["FIND-001", "FIND-002"]
    assert {record.id: (record.text, record.status) for record in session.records("finding")} == {
        "FIND-001": ("No MFA requirement specified", "resolved"),
        "FIND-002": ("Missing session timeout", "open"),
    }
    assert session.info.user == "user-123"
    (state,) = session.records("agent_state")
    assert state.given["state"] == {"current_context": {"current_task": "verify_requirements"}}


def test_half_written_log_and_list_cost_only_their_bad_parts(memory: Memory, tmp_path: Path) -> None:
    folder = log(tmp_path)
    (folder / "conversation.md").write_text(
        planted.LOG + "\n## Turn 3 - yesterday\n\nno speaker\n\n## Turn 4 - 2026-01-11 15:00:00\n**Speaker:** us"
    )
    (folder / "findings.yaml").write_text(
        planted.FINDINGS + '  - id: "FIND-003"\n    finding: [unclosed\n  - finding: kept\n  - id: FIND-004\n'
    )
    done = import_from(memory, "conversation-log", folder)
    assert done.added == {"agent_state": 1, "conversation": 3, "finding": 3}
    whys = [each.why for each in done.unread]
    assert [why for why in whys if "turn" in why] == [
        "turn 3 has no speaker; imported without one",
        "turn 3: 'yesterday' is not a time; imported with the time of the file",
        "turn 4 has no text",
    ]
    assert any(why.startswith("not YAML") for why in whys)
    assert "a finding without finding" in whys


def test_files_of_the_store_itself_are_refused(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store", layout="markdown") as memory:
        memory.create_session("s").add_turn("user", "hello")
        with pytest.raises(UserError, match="part of this store"):
            import_from(memory, "conversation-log", tmp_path / "store")


# -- tables


def test_map_names_columns_and_others_are_kept(memory: Memory, tmp_path: Path) -> None:
    rows = [
        {
            "message": {"text": "We chose Postgres", "id": 7},
            "kind": "decision",
            "at": 1_767_607_200,
            "mood": "good",
            "thread": "A b",
        },
        {"message": {"text": [{"type": "text", "text": "in a block"}]}, "kind": "idea", "thread": "c"},
    ]
    given = {"map": "content=message.text,type=kind,created=at,session=thread"}
    path = planted.put(tmp_path, {"a.jsonl": planted.json_lines(rows)}) / "a.jsonl"
    done = import_from(memory, "jsonl", path, settings=given)
    first, second = done.sessions
    assert (first[:4], second) == ("A-b-", "c")
    decision = memory.session(first).records("decision")[0]
    assert (decision.text, decision.given["columns"]) == ("We chose Postgres", {"message": {"id": 7}, "mood": "good"})
    assert decision.created.isoformat().startswith("2026-01-05T10:00:00")
    idea = memory.session("c").records("learning")[0]
    assert (idea.text, idea.given["category"]) == ("in a block", "idea")


@pytest.mark.parametrize("text", ["content", "content=", "colour=x", "content=a,content=b"])
def test_wrong_map_is_an_error_that_names_the_pair(memory: Memory, tmp_path: Path, text: str) -> None:
    path = planted.put(tmp_path, {"a.csv": "text\nx\n"}) / "a.csv"
    with pytest.raises(UserError, match="--map"):
        import_from(memory, "csv", path, settings={"map": text})


def test_rows_that_cannot_be_read_cost_only_themselves(memory: Memory, tmp_path: Path) -> None:
    text = 'text;ts;from\n"two\nlines";05.01.2026;human\n;2026-01-05;bot\nlate;someday;bot;extra\n'
    path = planted.put(tmp_path, {"a.csv": text}) / "a.csv"
    done = import_from(memory, "csv", path, settings={"map": "content=text,topic=subject"})
    assert done.added == {"conversation": 2}
    assert sorted(each.line for each in done.unread) == [1, 4, 5, 5]
    assert said(memory, "csv-import")[0] == "two\nlines"


# -- what all have in common


def test_scan_finds_what_is_in_its_usual_place(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "shop"
    planted.put(project, planted.RULES)
    planted.put(home / "Vault", planted.VAULT)
    planted.put(home / "basic-memory", planted.BASIC_MEMORY)
    planted.claude_mem(home / ".claude-mem" / "claude-mem.db")
    vaults = {"vaults": {"1": {"path": str(home / "Vault")}, "2": {"path": 7}}}
    server = {"mcpServers": {"memory": {"env": {"MEMORY_FILE_PATH": str(home / "memory.jsonl")}}}}
    planted.put(home, {".config/obsidian/obsidian.json": json.dumps(vaults), ".claude/CLAUDE.md": "- Be brief\n"})
    planted.put(home, {"memory.jsonl": planted.json_lines(planted.MEMORY_JSONL), ".claude.json": json.dumps(server)})
    (home / ".mem0").mkdir()
    planted.mem0_history(home / ".mem0" / "history.db")
    places = Places(str(home), {}, "linux", str(project))
    offers = {each.name: each.load().found(places) for each in IMPORTERS}
    titles = [offer.title for offer in offers["markdown"]]
    assert titles[:1] + titles[-2:] == [
        "instructions of this project, ts.mdc",
        "your own instructions, CLAUDE.md",
        "Obsidian",
    ]
    assert [offer.count for offer in offers["markdown"]] == [1] * 7 + [3]
    found = {name: [offer.path for offer in found] for name, found in offers.items()}
    assert found["claude-mem"] == [str(home / ".claude-mem" / "claude-mem.db")]
    assert found["basic-memory"] == [str(home / "basic-memory")]
    assert found["mem0"] == [str(home / ".mem0" / "history.db")]
    assert found["mcp-memory"] == [str(home / "memory.jsonl")]
    with smp_memory.open(":memory:") as memory:
        for name in ("markdown", "claude-mem", "basic-memory", "mem0"):
            assert import_from(memory, name, places=places).count, name


def _import_into(root: str, name: str, path: str) -> dict[str, int]:
    with smp_memory.open(root) as memory:
        return import_from(memory, name, path, backup=False).added


@pytest.mark.parametrize("name", ["claude-mem", "markdown", "mcp-memory", "csv"])
def test_concurrent_imports_add_nothing_twice(tmp_path: Path, name: str) -> None:
    plant, added = next((plant, added) for each, plant, added in ALL if each == name)
    path, root = plant(tmp_path / "files"), str(tmp_path / "store")
    smp_memory.open(root).close()
    with get_context("spawn").Pool(3) as pool:
        pool.starmap(_import_into, [(root, name, str(path))] * 3)
        if name == "markdown":  # changes are carried over by all at once
            (path / "Tokens.md").write_text("Tokens live 20 minutes.\n")
            pool.starmap(_import_into, [(root, name, str(path))] * 3)
    with smp_memory.open(root) as memory:
        records = [record for each in memory.sessions() for record in memory.session(each.id).records()]
        assert len(records) == sum(added.values())


def test_every_importer_writes_to_postgres_once(postgres: Server, tmp_path: Path) -> None:
    with smp_memory.open(postgres.new_schema_address()) as memory:
        for number, (name, plant, added) in enumerate(ALL):
            path = plant(tmp_path / str(number))
            if name != "mem0":
                assert import_from(memory, name, path).added == added
            else:
                assert import_from(memory, name, path).count <= sum(
                    added.values()
                )  # the same memories in several files
            assert import_from(memory, name, path).added == {}


def test_deleted_memory_stays_deleted(memory: Memory, tmp_path: Path) -> None:
    path = ALL[3][1](tmp_path)
    import_from(memory, "basic-memory", path)
    session = memory.session("basic-memory-import")
    session.delete(session.records("decision")[0].id)
    assert import_from(memory, "basic-memory", path).added == {}
    assert session.records("decision") == []


def test_secret_in_a_note_is_redacted_and_no_change_of_it(memory: Memory, tmp_path: Path) -> None:
    path = planted.put(tmp_path / "n", {"a.md": "The key is AKIAIOSFODNN7EXAMPLE\n"}) / "a.md"
    import_from(memory, "markdown", path)
    assert "AKIA" not in said(memory, "markdown-n")[0]
    assert import_from(memory, "markdown", path).followed == 0


# -- anything at all in the files

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "id", "content"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = [
    "text", "content", "memory", "role", "type", "kind", "session", "created_at", "ts", "id", "tags", "metadata", "categories", "state", "message",
]  # fmt: skip
ROWS = st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6) | VALUES, max_size=6)


def attempt(name: str, path: Path) -> IngestReport:
    with smp_memory.open(":memory:") as memory:
        expected = import_from(memory, name, path, dry_run=True)
        assert memory.sessions() == []
        first = import_from(memory, name, path)
        assert first.count <= expected.count  # the write path may reject some
        assert import_from(memory, name, path).added == {}
        return first


@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_values_of_any_type_are_imported_or_reported(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    root = tmp_path_factory.mktemp("any")
    for name, file_name, text in (
        ("jsonl", "a.jsonl", planted.json_lines(rows)),
        ("mem0", "a.json", json.dumps({"results": rows})),
        ("mem0", "b.jsonl", planted.json_lines(rows)),
        ("mcp-memory", "m.jsonl", planted.json_lines(rows)),
    ):
        attempt(name, planted.put(root, {file_name: text}) / file_name)
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(NAMES)
    writer.writerows([list(each.values()) if isinstance(each, dict) else [each] for each in rows])
    (root / "a.csv").write_bytes(table.getvalue().encode("utf-8", "replace"))
    attempt("csv", root / "a.csv")
    shutil.rmtree(root)


CELLS = (
    st.none()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False)
    | st.text(max_size=12).filter(lambda text: text.isprintable())
    | st.binary(max_size=8)
)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=6, max_size=6), max_size=5))
def test_cells_of_any_type_in_databases_are_imported_or_reported(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[Any]]
) -> None:
    root = tmp_path_factory.mktemp("cells")
    for importer, tables, columns in (
        ("claude-mem", ("sdk_sessions", "observations", "session_summaries", "user_prompts"), ("content_session_id", "type", "title", "facts", "created_at_epoch", "prompt_text")),
        ("mem0", ("history",), ("memory_id", "new_memory", "event", "created_at", "is_deleted", "role")),
    ):  # fmt: skip
        path = root / f"{importer}.db"
        db = sqlite3.connect(path)
        for table in tables:
            db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            for cells in rows:
                planted.row(db, table, **dict(zip(columns, cells, strict=True)))
        db.commit()
        db.close()
        attempt(importer, path)
    shutil.rmtree(root)


MARKDOWN = st.lists(
    st.sampled_from(
        ["---", "title: x", "tags: [a, b/c, ]", "- [x] [y] z #t (c)", "# Decisions", "## Turn 1 - 2026-01-05", "**Speaker:** user", "```", "<!--", "- a [[b|c]]", "| a | b |", "text #1 #a/b", "globs: *", "  - id: 'x", "    finding: y", "%%", "", "\t- x", "- [FIND-001]", "**Memory Stored:**", "- Finding: x [FIND-001]", "\ufeff", "\x00", "\x1b[31m"]
    )
    | st.text(max_size=30),
    max_size=14,
).map("\n".join)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(MARKDOWN)
def test_any_markdown_is_imported_or_reported(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("notes")
    data = text.encode("utf-8", "replace")
    for name in ("a.md", "CLAUDE.md", "s/conversation.md", "s/findings.yaml", "s/decisions.yaml"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)
    for importer, path in (
        ("markdown", root),
        ("basic-memory", root),
        ("conversation-log", root / "s" / "conversation.md"),
    ):
        attempt(importer, path)
    shutil.rmtree(root)
