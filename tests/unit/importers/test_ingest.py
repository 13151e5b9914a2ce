"""An import adds what is new, once, whatever state the files are in; before its first write the store is saved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.importers import import_from
from smp_memory.importers.chat_exports import items_of
from smp_memory.importers.import_run import Progress
from smp_memory.importers.source import HALF_WRITTEN, LINE_BYTES, Source
from smp_memory.memory import Memory
from tests import host_transcripts as hosts
from tests.postgres_server import Server
from tests.user_state import state_folder


def texts(memory: Memory) -> list[str]:
    return [record.text for session in memory.sessions() for record in session.records("turn")]


def transcript(folder: Path, lines: hosts.Lines, end: bytes = b"") -> Path:
    return hosts.write_lines(folder / f"{hosts.CLAUDE_SESSION}.jsonl", lines, end)


def import_twice(memory: Memory, path: Path) -> None:
    lines = hosts.claude_lines()
    transcript(path, lines[:6])
    first = import_from(memory, "claude-code", path)
    assert (first.count, texts(memory)) == (2, hosts.CLAUDE_TEXTS[:2])
    assert import_from(memory, "claude-code", path).count == 0
    transcript(path, lines)
    grown = import_from(memory, "claude-code", path)
    assert (grown.count, grown.known, texts(memory)) == (3, 2, hosts.CLAUDE_TEXTS)
    assert len(memory.sessions()) == 1


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_grown_file_adds_only_its_new_turns(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        import_twice(memory, tmp_path / "transcripts")
    with smp_memory.open(tmp_path / "store") as memory:
        assert import_from(memory, "claude-code", tmp_path / "transcripts").count == 0
        assert memory.query("which login")


def test_import_into_postgres(postgres: Server, tmp_path: Path) -> None:
    with smp_memory.open(postgres.new_schema_address()) as memory:
        import_twice(memory, tmp_path)
        before = import_from(memory, "claude-code", tmp_path)
        assert before.backup is None  # nothing was written
        hosts.write_lines(tmp_path / hosts.CODEX_NAME, hosts.codex_lines())
        saved = import_from(memory, "codex", tmp_path).backup
        assert saved is not None
    with smp_memory.open(tmp_path / "again") as restored:
        restored.import_(Path(saved))
        assert texts(restored) == hosts.CLAUDE_TEXTS


def test_damaged_lines_cost_only_themselves(tmp_path: Path) -> None:
    lines = [json.dumps(line).encode() for line in hosts.claude_lines()]
    lines[4:4] = [b"{damaged", b"[1, 2]", b"\xff\xfe\x00", b"", b"\0\0\0", b"[" * 100_000, b'"text"']
    half = json.dumps(hosts.claude_line("user", "u9", "a3", "half")).encode()[:-9]
    path = tmp_path / f"{hosts.CLAUDE_SESSION}.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n" + half)
    with smp_memory.open(":memory:") as memory:
        report = import_from(memory, "claude-code", path)
        assert texts(memory) == hosts.CLAUDE_TEXTS
    found = {each.line: each.why for each in report.unread}
    assert found == {
        5: "not JSON", 6: "not a JSON object", 7: "not JSON", 10: "not JSON", 11: "not a JSON object", 19: HALF_WRITTEN
    }  # fmt: skip


def test_last_line_without_a_newline_counts(tmp_path: Path) -> None:
    path = transcript(tmp_path, hosts.claude_lines()[:6])
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    with smp_memory.open(":memory:") as memory:
        assert import_from(memory, "claude-code", path).unread == []
        assert texts(memory) == hosts.CLAUDE_TEXTS[:2]


def test_huge_line_is_skipped_alone(tmp_path: Path) -> None:
    lines = hosts.claude_lines()[:6]
    path = transcript(tmp_path, lines[:4])
    with path.open("ab") as file:
        for _ in range(LINE_BYTES // (8 << 20) + 1):
            file.write(b" " * (8 << 20))
        file.write(b"\n" + b"".join(json.dumps(line).encode() + b"\n" for line in lines[4:]))
    with smp_memory.open(":memory:") as memory:
        [unread] = import_from(memory, "claude-code", path).unread
        assert (unread.line, unread.why) == (5, f"longer than {LINE_BYTES:,} bytes")
        assert texts(memory) == hosts.CLAUDE_TEXTS[:2]


def test_long_turn_is_shortened_and_says_so(tmp_path: Path) -> None:
    lines = [hosts.claude_line("user", "u1", None, "é" * 2_000_000), hosts.claude_line("user", "u2", "u1", "next")]
    path = transcript(tmp_path, lines)
    with smp_memory.open(":memory:") as memory:
        report = import_from(memory, "claude-code", path)
        assert (report.count, report.unread) == (2, [])
        assert "more characters were not kept" in texts(memory)[0]
        assert import_from(memory, "claude-code", path).count == 0


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    hosts.whole_home(tmp_path / "home")
    root = tmp_path / "store"
    with smp_memory.open(root) as memory:
        memory.create_session("mine").add_decision("Use tea")
    folders = [root, state_folder(root)]
    before = {each: each.read_bytes() for folder in folders for each in folder.rglob("*") if each.is_file()}
    with smp_memory.open(root) as memory:
        report = import_from(memory, "claude-code", tmp_path / "home/.claude", dry_run=True)
        assert (report.count, report.known, report.dry_run, report.backup) == (5, 0, True, None)
    assert {each: each.read_bytes() for folder in folders for each in folder.rglob("*") if each.is_file()} == before


def test_store_is_saved_before_the_first_write(tmp_path: Path) -> None:
    path = transcript(tmp_path, hosts.claude_lines())
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("mine", project="shop")
        session.update(session.add_decision("Use tea").id, rationale="good")
        report = import_from(memory, "claude-code", path)
        assert report.backup is not None
        assert import_from(memory, "claude-code", path).backup is None
        with smp_memory.open(tmp_path / "restored") as restored:
            restored.import_(Path(report.backup))
            assert [each.id for each in restored.sessions()] == ["mine"]
            assert restored.session("mine").history("DEC-0001") == session.history("DEC-0001")
        assert os.stat(report.backup).st_mode & 0o077 == 0
        transcript(tmp_path / "other", [{**line, "uuid": f"x{line.get('uuid')}"} for line in hosts.claude_lines()])
        assert import_from(memory, "claude-code", tmp_path / "other", backup=False).backup is None


def test_only_the_newest_backups_are_kept(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("mine")
        saved = []
        for number in range(8):
            transcript(tmp_path, [hosts.claude_line("user", f"u{number}", None, f"question {number}")])
            saved.append(import_from(memory, "claude-code", tmp_path).backup)
    assert [each is not None and os.path.exists(each) for each in saved] == [False] * 3 + [True] * 5


def test_deleted_turn_and_deleted_conversation_do_not_come_back(tmp_path: Path) -> None:
    path = transcript(tmp_path, hosts.claude_lines())
    with smp_memory.open(tmp_path / "store") as memory:
        [name] = import_from(memory, "claude-code", path).sessions
        memory.session(name).delete("TURN-0001")
        assert import_from(memory, "claude-code", path).count == 0
        assert texts(memory) == hosts.CLAUDE_TEXTS[1:]
        memory.delete_session(name)
        report = import_from(memory, "claude-code", path)
        assert (report.count, memory.sessions()) == (0, [])
        assert "in the trash" in report.left_out[0]


def test_archived_conversation_is_continued(tmp_path: Path) -> None:
    path = transcript(tmp_path, hosts.claude_lines()[:6])
    with smp_memory.open(tmp_path / "store") as memory:
        [name] = import_from(memory, "claude-code", path).sessions
        memory.archive_session(name)
        transcript(tmp_path, hosts.claude_lines())
        assert import_from(memory, "claude-code", path, dry_run=True).count == 3
        assert memory.sessions() == []
        assert import_from(memory, "claude-code", path).count == 3
        assert texts(memory) == hosts.CLAUDE_TEXTS


def test_secrets_are_redacted(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    lines = [hosts.claude_line("user", "u1", None, f"My token is {secret}, mail ada@example.org")]
    lines.append({"type": "custom-title", "customTitle": f"With {secret}", "sessionId": hosts.CLAUDE_SESSION})
    path = transcript(tmp_path / "t", lines)
    with smp_memory.open(tmp_path / "store") as memory:
        import_from(memory, "claude-code", path)
        assert import_from(memory, "claude-code", path).count == 0
    stored = b"".join(each.read_bytes() for each in (tmp_path / "store").rglob("*") if each.is_file())
    assert secret.encode() not in stored
    assert b"ada@example.org" not in stored


def test_no_proposals_from_conversations_that_are_imported_without(tmp_path: Path) -> None:
    path = transcript(tmp_path, hosts.claude_lines())
    with smp_memory.open(":memory:") as memory:
        import_from(memory, "claude-code", path)
        assert memory.proposals()
    with smp_memory.open(":memory:") as memory:
        import_from(memory, "claude-code", path, proposals=False)
        assert memory.proposals() == []


def test_progress_counts_bytes_sessions_and_memories(tmp_path: Path) -> None:
    for number in range(3):
        hosts.write_lines(tmp_path / f"{number}{hosts.CLAUDE_SESSION[1:]}.jsonl", hosts.claude_lines())
    seen: list[Progress] = []
    with smp_memory.open(":memory:") as memory:
        import_from(memory, "claude-code", tmp_path, progress=seen.append)
    assert [each.bytes for each in seen] == sorted(each.bytes for each in seen)
    last = seen[-1]
    assert (last.number, last.files, last.bytes, last.sessions, last.memories) == (3, 3, last.all_bytes, 2, 10)


def test_link_is_not_followed(tmp_path: Path) -> None:
    path = transcript(tmp_path / "outside", hosts.claude_lines())
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/a.jsonl").symlink_to(path)
    transcript(tmp_path / "inside", hosts.claude_lines()[:6])
    with smp_memory.open(":memory:") as memory:
        import_from(memory, "claude-code", tmp_path / "inside")
        assert texts(memory) == hosts.CLAUDE_TEXTS[:2]


def test_concurrent_imports_add_each_turn_once(tmp_path: Path) -> None:
    hosts.whole_home(tmp_path / "home")
    for number in range(5):
        name = f"{number}{hosts.CLAUDE_SESSION[1:]}.jsonl"
        hosts.write_lines(tmp_path / "home/.claude/projects/more" / name, hosts.claude_lines())
    root = tmp_path / "store"
    smp_memory.open(root).close()
    words = [sys.executable, "-m", "smp_memory", "import", "--from", "claude-code", str(tmp_path / "home/.claude"), "--root", str(root), "--json"]  # fmt: skip
    running = [subprocess.Popen(words, stdout=subprocess.DEVNULL, env=dict(os.environ)) for _ in range(3)]
    assert [process.wait(timeout=100) for process in running] == [0, 0, 0]
    with smp_memory.open(root) as memory:
        assert len(memory.sessions()) == 6
        assert all(len(session.records()) == 5 for session in memory.sessions())


# -- arrays of JSON

ITEMS: list[dict[str, Any]] = [{"id": number, "mapping": {"x": "]},[{" * number}} for number in range(50)]


def items(tmp_path: Path, text: str) -> tuple[list[int], list[tuple[int, str]]]:
    path = tmp_path / "x.json"
    path.write_text(text)
    source = Source(str(path), "x.json")
    found = [value["id"] for _, value in items_of(source, "mapping")]
    return found, [(each.line, each.why) for each in source.unread]


@pytest.mark.parametrize("write", [json.dumps, lambda value: json.dumps(value, indent=1)], ids=["compact", "indented"])
def test_array_is_read_item_by_item(tmp_path: Path, write: Callable[[Any], str]) -> None:
    assert items(tmp_path, write(ITEMS)) == (list(range(50)), [])
    assert items(tmp_path, write(ITEMS[3])) == ([3], [])
    assert items(tmp_path, "") == ([], [])


def test_half_written_array_loses_its_last_item(tmp_path: Path) -> None:
    text = json.dumps(ITEMS)
    for cut in range(len(text) - 60, len(text) - 2, 7):
        assert items(tmp_path, text[:cut]) == (list(range(49)), [(1, HALF_WRITTEN)])


def test_damaged_item_costs_only_itself(tmp_path: Path) -> None:
    written = [json.dumps(each) for each in ITEMS]
    written[7] = written[7][:9] + " nonsense " + written[7][12:]
    written[20], written[30] = "7", "[[]]"
    found, unread = items(tmp_path, "[" + ",\n".join(written) + "]")
    assert found == [each for each in range(50) if each not in (7, 20, 30)]
    no_item = "no object with the field mapping"
    assert unread == [(8, "damaged JSON"), (21, no_item), (31, no_item)]


def test_item_larger_than_a_chunk_is_read(tmp_path: Path) -> None:
    large = [{"id": 1, "mapping": "x" * 5_000_000}, {"id": 2, "mapping": "é\n" * 500_000}]
    assert items(tmp_path, json.dumps(large, ensure_ascii=False)) == ([1, 2], [])
