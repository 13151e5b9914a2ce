"""Conversations of each tool become sessions with their turns, times, title and project; what is no turn is left out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

import smp_memory
from smp_memory.errors import UserError
from smp_memory.importers import import_from
from smp_memory.importers.registry import IMPORTERS, Places, importer_named
from smp_memory.memory import Memory
from tests import host_transcripts as hosts


@pytest.fixture
def memory() -> Iterator[Memory]:
    with smp_memory.open(":memory:") as opened:
        yield opened


def places(home: Path, **environ: str) -> Places:
    return Places(str(home), environ, "linux", str(home))


def turns(memory: Memory, host: str) -> list[str]:
    found = [each for each in memory.sessions() if each.id.startswith(host)]
    return [record.text for session in found for record in session.records("turn")]


MADE: list[tuple[str, Callable[[Path], Any], list[str], str, str]] = [
    ("claude-code", hosts.claude_home, hosts.CLAUDE_TEXTS, "Login of the shop", "2026-01-31"),
    ("codex", hosts.codex_home, hosts.CODEX_TEXTS, "", "2026-02-01"),
    ("gemini", hosts.gemini_home, hosts.GEMINI_TEXTS, "The queue of the shop", "2026-02-02"),
]


@pytest.mark.parametrize(("name", "make", "texts", "title", "day"), MADE, ids=[each[0] for each in MADE])
def test_conversation_becomes_a_session(
    memory: Memory, tmp_path: Path, name: str, make: Callable[[Path], Any], texts: list[str], title: str, day: str
) -> None:
    make(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    report = import_from(memory, name, places=places(tmp_path))
    assert report.unread == []
    assert turns(memory, name) == texts
    [session] = memory.sessions()
    assert session.id.startswith(f"{name}-{day}-")
    assert (session.info.project, session.info.context.get("title", "")) == ("shop", title)
    assert (session.info.context["host"], session.info.agents) == (name, [name])
    assert session.info.created_text.startswith(day)
    for record in session.records():
        assert record.created.isoformat().startswith(day)
        source = record.given["source"]
        line = next(path for path in before if path.name == Path(source["file"]).name)
        assert record.text.split(".")[0] in line.read_text().splitlines()[source["line"] - 1]
    assert {record.author for record in session.records("turn")} == {"user", name}
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_compaction_summary_is_a_summary(memory: Memory, tmp_path: Path) -> None:
    hosts.claude_home(tmp_path)
    hosts.codex_home(tmp_path)
    for name in ("claude-code", "codex"):
        import_from(memory, name, places=places(tmp_path))
    texts = [record.text for session in memory.sessions() for record in session.records("summary")]
    assert texts == ["They chose OAuth 2.0.", "They use Redis."]


def test_transcript_project_folder_and_all_projects_are_the_same_session(memory: Memory, tmp_path: Path) -> None:
    path = hosts.claude_home(tmp_path)
    assert import_from(memory, "claude-code", path).count == 5
    assert import_from(memory, "claude-code", path.parent).count == 0
    assert import_from(memory, "claude-code", path.parent.parent).count == 0
    other = places(tmp_path / "other", CLAUDE_CONFIG_DIR=str(tmp_path / ".claude"))
    assert import_from(memory, "claude-code", places=other).known == 5
    assert len(memory.sessions()) == 1


def test_transcripts_of_subagents_are_left_out(memory: Memory, tmp_path: Path) -> None:
    hosts.claude_home(tmp_path)
    report = import_from(memory, "claude-code", places=places(tmp_path))
    assert report.left_out == ["2 × a transcript of a subagent"]
    assert report.count == 5


def test_packed_and_archived_rollouts_are_read(memory: Memory, tmp_path: Path) -> None:
    data = b"".join(json.dumps(line).encode() + b"\n" for line in hosts.codex_lines())
    archived = tmp_path / ".codex/archived_sessions"
    archived.mkdir(parents=True)
    (archived / f"{hosts.CODEX_NAME}.zst").write_bytes(zstandard.compress(data))
    (archived / "rollout-damaged.jsonl.zst").write_bytes(zstandard.compress(data)[:-20])
    report = import_from(memory, "codex", places=places(tmp_path))
    assert turns(memory, "codex") == hosts.CODEX_TEXTS
    assert [each.file for each in report.unread] == ["archived_sessions/rollout-damaged.jsonl.zst"]


def test_missing_unpacker_is_named(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"{hosts.CODEX_NAME}.zst"
    path.write_bytes(zstandard.compress(b"{}"))
    for module in ("zstandard", "compression"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    [unread] = import_from(memory, "codex", path).unread
    assert "pip install 'smp-memory[import]'" in unread.why


def test_rollout_of_an_agent_is_left_out(memory: Memory, tmp_path: Path) -> None:
    lines = hosts.codex_lines()
    lines[0]["payload"]["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": "x"}}}
    hosts.write_lines(tmp_path / hosts.CODEX_NAME, lines)
    report = import_from(memory, "codex", tmp_path)
    assert (report.count, report.left_out) == (0, ["1 × a transcript of a subagent"])


def test_legacy_chat_and_its_continuation_are_one(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "chats/session-old.json"
    path.parent.mkdir()
    path.write_text(json.dumps(hosts.gemini_legacy()))
    assert import_from(memory, "gemini", path).count == 2
    hosts.write_lines(tmp_path / "chats/session-old.jsonl", hosts.gemini_lines())
    report = import_from(memory, "gemini", tmp_path)
    assert (report.count, report.known) == (2, 4)
    assert turns(memory, "gemini") == hosts.GEMINI_TEXTS


def test_messages_in_metadata_replace_all_and_rewinding_to_an_unknown_message_takes_back_all(
    memory: Memory, tmp_path: Path
) -> None:
    new = [hosts.gemini_message("n1", "user", "Only this"), hosts.gemini_message("n2", "gemini", "Yes.")]
    lines = [*hosts.gemini_lines(), {"$rewindTo": "nobody"}, {"$set": {"messages": new}}]
    hosts.write_lines(tmp_path / "session-x.jsonl", lines)
    import_from(memory, "gemini", tmp_path)
    assert turns(memory, "gemini") == ["Only this", "Yes."]


def test_database_of_cursor_is_read_without_changing_it(memory: Memory, tmp_path: Path) -> None:
    path = hosts.cursor_home(tmp_path)
    running = sqlite3.connect(path)
    running.execute("PRAGMA journal_mode = WAL")
    later = {"type": 1, "text": "A question in the log"}
    composer = {"composerId": "l8", "createdAt": 1770102000000, "fullConversationHeadersOnly": [{"bubbleId": "w1"}]}
    rows = [("bubbleId:l8:w1", json.dumps(later)), ("composerData:l8", json.dumps(composer))]
    running.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
    running.commit()
    before = {each: each.read_bytes() for each in path.parent.iterdir() if not each.name.endswith("-shm")}
    assert any(each.name.endswith("-wal") and data for each, data in before.items())
    report = import_from(memory, "cursor", places=places(tmp_path))
    assert {each: each.read_bytes() for each in path.parent.iterdir() if not each.name.endswith("-shm")} == before
    running.close()
    assert report.unread == []
    assert sorted(turns(memory, "cursor")) == sorted([*hosts.CURSOR_TEXTS, "An old question", "A question in the log"])
    titles = {session.info.context.get("title"): session.info.project for session in memory.sessions()}
    assert titles["Search of the shop"] == "shop"


def test_database_at_rest_gets_no_files_beside_it(memory: Memory, tmp_path: Path) -> None:
    path = hosts.cursor_home(tmp_path)
    import_from(memory, "cursor", path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_damaged_row_of_the_database_costs_only_itself(memory: Memory, tmp_path: Path) -> None:
    rows = {**hosts.cursor_rows(), "composerData:half": b"{half", f"bubbleId:{hosts.CURSOR_SESSION}:b1": b"\xff"}
    report = import_from(memory, "cursor", hosts.cursor_database(tmp_path / "state.vscdb", rows))
    assert sorted(turns(memory, "cursor")) == ["An old question", hosts.CURSOR_TEXTS[1]]
    assert [each.why.rpartition(":")[2] for each in report.unread] == [" not JSON", " not JSON"]


def test_file_that_is_no_database_is_reported(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    path.write_bytes(b"no database" * 200)
    [unread] = import_from(memory, "cursor", path).unread
    assert "not a database" in unread.why


def test_conversation_in_both_places_of_cursor_is_imported_once(memory: Memory, tmp_path: Path) -> None:
    hosts.cursor_home(tmp_path)
    hosts.cursor_transcript(tmp_path)
    report = import_from(memory, "cursor", places=places(tmp_path))
    assert (report.count, report.known) == (3, 2)
    again = import_from(memory, "cursor", places=places(tmp_path))
    assert (again.count, again.known) == (0, 5)


def test_transcript_of_cursors_agent_alone(memory: Memory, tmp_path: Path) -> None:
    hosts.cursor_transcript(tmp_path)
    import_from(memory, "cursor", places=places(tmp_path))
    assert turns(memory, "cursor") == hosts.CURSOR_TEXTS


@pytest.mark.parametrize("form", ["zip", "folder", "file", "parts"])
def test_export_of_chatgpt_in_all_its_forms(memory: Memory, tmp_path: Path, form: str) -> None:
    other = hosts.gpt_conversation("0ther")
    if form == "zip":
        path = hosts.zipped(tmp_path / "x.zip", {"export/conversations.json": [hosts.gpt_conversation(), other]})
    elif form == "parts":
        path = hosts.zipped(
            tmp_path / "x.zip",
            {"conversations-000.json": [hosts.gpt_conversation()], "conversations-001.json": [other]},
        )
    else:
        path = tmp_path / "conversations.json"
        path.write_text(json.dumps([hosts.gpt_conversation(), other], indent=2))
        path = tmp_path if form == "folder" else path
    report = import_from(memory, "chatgpt", path)
    assert (report.count, report.unread, len(report.sessions)) == (4, [], 2)
    assert turns(memory, "chatgpt") == hosts.GPT_TEXTS * 2
    assert {session.info.context["title"] for session in memory.sessions()} == {"Paint of the shop"}
    assert {record.created.year for session in memory.sessions() for record in session.records()} == {2026}
    assert import_from(memory, "chatgpt", path).count == 0


def test_export_of_claude_ai(memory: Memory, tmp_path: Path) -> None:
    branched = hosts.ai_conversation("b2") | {"current_leaf_message_uuid": "m3"}
    branched["chat_messages"] = [
        hosts.ai_message("m1", "human", "Which door?") | {"parent_message_uuid": "0000"},
        hosts.ai_message("m2", "assistant", "Wood.", 1) | {"parent_message_uuid": "m1"},
        hosts.ai_message("m3", "assistant", "Glass.", 2) | {"parent_message_uuid": "m1"},
    ]
    path = hosts.zipped(tmp_path / "x.zip", {"conversations.json": [hosts.ai_conversation(), branched]})
    assert import_from(memory, "claude-ai", path).unread == []
    assert sorted(turns(memory, "claude-ai")) == sorted([*hosts.AI_TEXTS, "Which door?", "Glass."])


def test_export_of_another_service_is_named(memory: Memory, tmp_path: Path) -> None:
    path = hosts.zipped(tmp_path / "x.zip", {"conversations.json": [hosts.ai_conversation()]})
    with pytest.raises(UserError, match="--from claude-ai"):
        import_from(memory, "chatgpt", path)
    assert memory.sessions() == []


def test_worktree_belongs_to_the_project_of_its_repository(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "shop/.git/worktrees/fix").mkdir(parents=True)
    (tmp_path / "fix/src").mkdir(parents=True)
    (tmp_path / "fix/.git").write_text(f"gitdir: {tmp_path}/shop/.git/worktrees/fix\n")
    (tmp_path / "shop/.git/worktrees/fix/gitdir").write_text(f"{tmp_path}/fix/.git\n")
    (tmp_path / "shop/.git/worktrees/fix/commondir").write_text("../..\n")
    for number, cwd in enumerate((tmp_path / "fix/src", tmp_path / "shop")):
        lines = [{**line, "cwd": str(cwd)} for line in hosts.claude_lines()]
        hosts.write_lines(tmp_path / f"x/{number}{hosts.CLAUDE_SESSION[1:]}.jsonl", lines)
    import_from(memory, "claude-code", tmp_path / "x")
    assert [session.info.project for session in memory.sessions()] == ["shop", "shop"]


def test_reply_that_is_being_written_waits_for_the_next_import(memory: Memory, tmp_path: Path) -> None:
    lines = hosts.claude_lines()
    path = hosts.write_lines(tmp_path / f"{hosts.CLAUDE_SESSION}.jsonl", lines[:5])  # a tool runs
    import_from(memory, "claude-code", path)
    assert turns(memory, "claude-code") == hosts.CLAUDE_TEXTS[:1]
    hosts.write_lines(path, lines)
    import_from(memory, "claude-code", path)
    assert turns(memory, "claude-code") == hosts.CLAUDE_TEXTS


def test_scan_finds_what_is_on_the_machine(tmp_path: Path) -> None:
    hosts.whole_home(tmp_path)
    found = {
        each.name: [(Path(offer.path).name, offer.count) for offer in each.load().found(places(tmp_path))]
        for each in IMPORTERS
    }
    assert found["claude-code"] == [("projects", 1)]
    assert found["codex"] == [(".codex", 1)]
    assert found["gemini"] == [("tmp", 1)]
    assert found["cursor"] == [("state.vscdb", 1), ("projects", 1)]
    assert (found["chatgpt"], found["claude-ai"]) == ([("chatgpt.zip", 1)], [("claude.zip", 1)])
    assert all(offer == [] for offer in (each.load().found(places(tmp_path / "empty")) for each in IMPORTERS))


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("claude-code", {"session": "mine"}, "session of its own"),
        ("chatgpt", {}, "PATH is missing"),
        ("codex", {"path": "/nowhere/at/all"}, "does not exist"),
        ("other", {}, "no importer other"),
    ],
)
def test_wrong_calls_are_named(memory: Memory, name: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        import_from(memory, name, **options)


def test_every_importer_says_what_it_reads() -> None:
    for each in IMPORTERS:
        assert min(each.about, each.formats)
        module = importer_named(each.name).load()
        assert callable(getattr(module, "files", None) or module.merge)
