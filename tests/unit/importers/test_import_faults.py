"""Files that are hostile, damaged or odd cost only themselves, and an import never doubles, revives or misplaces memories."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import UserError
from smp_memory.importers import import_from
from smp_memory.importers.chat_exports import items_of
from smp_memory.importers.registry import Places, importer_named
from smp_memory.importers.source import Source
from smp_memory.memory import Memory
from smp_memory.privacy.fence import fence
from tests import host_transcripts as hosts
from tests.unit.importers.planted import json_lines, put


@pytest.fixture
def memory() -> Iterator[Memory]:
    with smp_memory.open(":memory:") as memory:
        yield memory


def table(folder: Path, *rows: dict[str, object], name: str = "rows.jsonl") -> Path:
    put(folder, {name: json_lines(list(rows))})
    return folder / name


def names(memory: Memory) -> list[str]:
    return sorted(session.id for session in memory.sessions())


# -- conversations that hooks record meanwhile


def begin_by_hooks(memory: Memory, name: str, texts: list[str]) -> None:
    session = memory.create_session(name, host="claude-code", host_session=hosts.CLAUDE_SESSION)
    for text in texts:
        session.add("turn", role="user", content=text)


def test_conversation_that_hooks_begin_during_the_import_is_not_doubled(memory: Memory, tmp_path: Path) -> None:
    from smp_memory.integrations.hooks.session_state import name_of_conversation

    folder = tmp_path / "p"
    hosts.write_lines(folder / f"0{hosts.CLAUDE_SESSION[1:]}.jsonl", [hosts.claude_line("user", "g", None, "first")])
    hosts.write_lines(folder / f"{hosts.CLAUDE_SESSION}.jsonl", hosts.claude_lines())
    today = name_of_conversation("claude-code", hosts.CLAUDE_SESSION, memory.now().strftime("%Y-%m-%d"))

    def progress(done: object) -> None:
        if today not in names(memory) and len(names(memory)) == 1:
            begin_by_hooks(memory, today, hosts.CLAUDE_TEXTS[:1])

    import_from(memory, "claude-code", folder, progress=progress)
    assert len(names(memory)) == 2
    assert sorted(record.text for record in memory.session(today).records("turn")) == sorted(hosts.CLAUDE_TEXTS)


def test_doubled_conversation_is_not_filled_a_second_time(memory: Memory, tmp_path: Path) -> None:
    path = hosts.write_lines(tmp_path / f"{hosts.CLAUDE_SESSION}.jsonl", hosts.claude_lines())
    import_from(memory, "claude-code", path)
    [first] = names(memory)
    second = first.replace("2026-01-31", "2026-02-03")
    begin_by_hooks(memory, second, ["Something that only hooks saw"])
    assert import_from(memory, "claude-code", path).count == 0
    assert len(memory.session(second).records()) == 1
    hosts.write_lines(path, [*hosts.claude_lines(), hosts.claude_line("user", "u9", "a3", "a later prompt")])
    assert import_from(memory, "claude-code", path).sessions == {first: 1}


# -- names of sessions that mean something


@pytest.mark.parametrize("name", ["global", "GLOBAL", "knowledge-graph", "Knowledge-Graph"])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "conversation-log"])
def test_files_cannot_choose_a_reserved_session(memory: Memory, tmp_path: Path, kind: str, name: str) -> None:
    files = {
        "jsonl": ("rows.jsonl", json.dumps({"text": "obey me", "session": name})),
        "csv": ("rows.csv", f"text,session\nobey me,{name}\n"),
        "conversation-log": ("log.md", f"**Session:** {name}\n\n## Turn 1 - 2026-01-11 14:30:00\n**Speaker:** user\n\nobey me\n"),
    }  # fmt: skip
    file, text = files[kind]
    report = import_from(memory, kind, put(tmp_path, {file: text}) / file)
    assert names(memory) == [f"{kind}-{name}"]
    assert any(f"goes to {kind}-{name}" in note for note in report.notes)


# -- what was deleted


@pytest.mark.parametrize("kind", ["jsonl", "markdown", "conversation-log", "mcp-memory"])
def test_deleted_session_is_left_out_and_named(memory: Memory, tmp_path: Path, kind: str) -> None:
    files = {
        "jsonl": ("rows.jsonl", json.dumps({"text": "tea", "session": "kitchen"})),
        "markdown": ("note.md", "# Tea\n\nGreen.\n"),
        "conversation-log": ("log.md", "**Session:** kitchen\n\n## Turn 1 - 2026-01-11 14:30:00\n**Speaker:** user\n\ntea\n"),
        "mcp-memory": ("memory.jsonl", json.dumps({"type": "entity", "name": "tea", "entityType": "drink", "observations": ["green"]})),
    }  # fmt: skip
    file, text = files[kind]
    path = put(tmp_path, {file: text}) / file
    [name] = import_from(memory, kind, path).sessions
    memory.delete_session(name)
    report = import_from(memory, kind, path)
    assert (report.count, names(memory)) == (0, [])
    assert [text for text in report.left_out if text.startswith(name)] == [
        f"{name}: in the trash; restore or erase it to import it again"
    ]


def test_session_made_again_after_its_deletion_takes_an_import(memory: Memory, tmp_path: Path) -> None:
    memory.create_session("kitchen").add("learning", learning="old")
    memory.delete_session("kitchen")
    memory.create_session("kitchen").add("learning", learning="new")
    assert import_from(memory, "jsonl", table(tmp_path, {"text": "tea", "session": "kitchen"})).count == 1


# -- metadata and rows that a store rejects


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("field", ["title", "project", "user"])
def test_unusable_metadata_is_reported_and_the_rest_is_imported(
    memory: Memory, tmp_path: Path, field: str, dry_run: bool
) -> None:
    rows = [
        {"text": "tea", "session": "one", field: "\ud800" if field != "title" else "x" * 2_000_000},
        {"text": "milk", "session": "two"},
    ]
    report = import_from(memory, "jsonl", table(tmp_path, *rows), dry_run=dry_run, settings={"map": f"{field}={field}"})
    assert (report.count, report.sessions) == (2, {"one": 1, "two": 1})
    assert [(each.line, each.why.partition(",")[0]) for each in report.unread] == [(1, f"{field} of the session one")]


@pytest.mark.parametrize("dry_run", [True, False])
def test_rejected_row_is_announced_and_leaves_no_empty_session(memory: Memory, tmp_path: Path, dry_run: bool) -> None:
    rows = [{"text": "x" * 40_000_000, "session": "one"}, {"text": "milk", "session": "two"}]
    report = import_from(memory, "jsonl", table(tmp_path, *rows), dry_run=dry_run)
    assert (report.count, [each.line for each in report.unread]) == (1, [1])
    assert names(memory) == ([] if dry_run else ["two"])


def test_removed_recalled_text_is_counted(memory: Memory, tmp_path: Path) -> None:
    recalled = fence("what SMP told before")
    rows = [{"text": f"New.\n{recalled}"}, {"text": recalled}, {"text": "plain"}]
    report = import_from(memory, "jsonl", table(tmp_path, *rows))
    assert (report.count, report.fenced, report.unread) == (2, 2, [])


# -- pipes


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes in folders")
@pytest.mark.parametrize("kind", ["gemini", "cursor", "claude-mem", "mem0"])
def test_pipe_in_the_place_of_a_file_does_not_block(tmp_path: Path, kind: str) -> None:
    if kind == "gemini":
        folder = tmp_path / "tmp/abc"
        hosts.write_lines(folder / "chats/session-a.jsonl", hosts.gemini_lines())
        os.mkfifo(folder / ".project_root")
    else:
        folder = tmp_path
        os.mkfifo(folder / {"cursor": "state.vscdb", "claude-mem": "claude-mem.db", "mem0": "history.db"}[kind])
    script = (
        "import sys, smp_memory\nfrom smp_memory.importers import import_from\n"
        "with smp_memory.open(':memory:') as memory:\n"
        "    try:\n        print(import_from(memory, *sys.argv[1:]).count)\n"
        "    except smp_memory.errors.UserError as error:\n        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, kind, str(folder)], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- one bad value


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1" + "0" * 6000, "-1" + "0" * 400, "1e400"])
@pytest.mark.parametrize("field", ["created", "confidence", "title", "tags", "type"])
def test_huge_number_costs_only_its_field(memory: Memory, tmp_path: Path, field: str, value: str) -> None:
    rows = f'{{"text": "tea", "{field}": {value}}}\n{{"text": "milk"}}\n'
    path = put(tmp_path, {"rows.jsonl": rows}) / "rows.jsonl"
    import_from(memory, "jsonl", path, settings={"map": f"{field}={field}"})
    assert "milk" in [record.text for record in memory.session("jsonl-import").records()]


def test_header_with_a_bare_carriage_return_is_reported(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"text,\rsession\rtea,one\n")
    report = import_from(memory, "csv", tmp_path / "rows.csv")
    assert (report.count, report.unread[0].line, "header" in report.unread[0].why) == (0, 1, True)


def archive(path: Path, version: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("conversations.json", "[]")
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02")
    path.write_bytes(data[: at + 6] + bytes((version, 0)) + data[at + 8 :])
    return path


def test_archive_of_a_newer_version_is_reported(memory: Memory, tmp_path: Path) -> None:
    path = archive(tmp_path / "Downloads/export.zip", 200)
    places = Places(str(tmp_path), {}, "linux", str(tmp_path))
    assert importer_named("chatgpt").load().found(places) == []
    with pytest.raises(UserError):
        import_from(memory, "chatgpt", path)


@pytest.mark.parametrize("path", ["/a\0b", "/\ud800"])
def test_scan_survives_settings_with_an_impossible_path(tmp_path: Path, path: str) -> None:
    put(tmp_path, {".mcp.json": json.dumps({"env": {"MEMORY_FILE_PATH": path}})})
    places = Places(str(tmp_path), {}, "linux", str(tmp_path))
    assert importer_named("mcp-memory").load().found(places) == []


# -- large and packed files


@pytest.mark.parametrize("filling", ["\n", "x", "{"])
def test_skipped_text_of_an_array_is_not_held(tmp_path: Path, filling: str) -> None:
    million = 1 << 20
    path = tmp_path / "conversations.json"
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for _ in range(24):
            file.write(filling * (million if filling != "{" else 64) + " " * (million if filling == "{" else 0))
        file.write('{"mapping": 1}]')
    tracemalloc.start()
    found = [value for _, value in items_of(Source(str(path), path.name), "mapping")]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [{"mapping": 1}]
    assert peak < 12 * million


def test_packed_rollout_is_unpacked_in_pieces(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "rollout-a.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\n" * (256 << 20)))
    tracemalloc.start()
    size = sum(map(len, Source(str(path), path.name).chunks()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 256 << 20
    assert peak < 32 << 20


# -- tables and folders


def test_large_cell_is_one_memory_and_a_larger_one_costs_only_its_row(memory: Memory, tmp_path: Path) -> None:
    large, huge = "line of a cell\n" * 12_000, "too large, and more\n" * 900_000
    text = f'text,mood\n"{large}",good\n"{huge}",bad\n"after ""it""",fine\n'
    report = import_from(memory, "csv", put(tmp_path, {"rows.csv": text}) / "rows.csv")
    records = memory.session("csv-import").records()
    assert [record.text[:14] for record in records] == ["line of a cell", 'after "it"']
    assert [each.line for each in report.unread] == [12_003]
    assert csv.field_size_limit() == 131_072


def test_folder_that_begins_like_the_store_is_read(tmp_path: Path) -> None:
    text = "## Turn 1 - 2026-01-11 14:30:00\n**Speaker:** user\n\ntea\n"
    folder = put(tmp_path / "store-logs", {"log.md": text})
    with smp_memory.open(tmp_path / "store") as memory:
        assert import_from(memory, "conversation-log", folder).count == 1
