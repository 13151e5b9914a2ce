"""A store in the shape of one of the designs, without `config.json`, is found from the project's folder and below."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import smp_memory
from smp_memory.discovery import discovery
from smp_memory.errors import StoreNotFound

TURN = '{"id":"m1","type":"conversation","ts":"2026-02-03T08:00:00Z","data":{"role":"user","content":"Which port?"}}\n'
MESSAGE = '{"id":"msg-1","timestamp":"2026-02-03T08:00:00Z","agent_id":"ada","role":"user","content":"Which port?"}\n'
ENTRY = (
    '{"id":"mem_1","session_id":"s1","timestamp":"2026-02-03T08:00:00Z","type":"conversation",'
    '"content":{"role":"user","message":"Which port?"}}\n'
)
SHAPES = {
    "000": (".bmad/sessions", "s1.jsonl", TURN, "single"),
    "001": (".bmad/memory", "sessions/s1/conversation.jsonl", MESSAGE, "jsonl"),
    "001 without memories": (".bmad/memory", "sessions/s1/manifest.json", '{"session_id": "s1"}', "jsonl"),
    "001 with settings only": (".bmad/memory", "config.json", '{"memory_config": {"version": "1.0"}}', "jsonl"),
    "002": (".bmad/sessions", "active/s1/metadata.yaml", 'session:\n  id: "s1"\n', "markdown"),
    "003": (".bmad/sessions", "active/s1/decisions.yaml", "decisions:\n", "markdown"),
    "003 with an archive only": (".bmad/sessions", "archived/s1/summary.yaml", "summary:\n", "markdown"),
    "003 with global memory only": (".bmad/sessions", "global/user-profile.yaml", "profile:\n", "markdown"),
    "004": ("memory", "sessions/s1/memory.jsonl", ENTRY, "log"),
    "004 with settings only": (
        "memory",
        "config.json",
        '{"version": "1.0", "storage": {"root_directory": "./memory"}, "decay": {"enabled": true}}',
        "log",
    ),
}


def make(project: Path, place: str, file: str, text: str) -> Path:
    path = project / place / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return project / place


@pytest.mark.parametrize("shape", SHAPES)
def test_store_of_a_design_is_found_and_not_made_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    place, file, text, layout = SHAPES[shape]
    root = make(tmp_path, place, file, text)
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    for folder in (tmp_path, below):
        found = discovery(str(folder))
        assert (found.root, found.is_ours) == (str(root), True)
        monkeypatch.chdir(folder)
        with smp_memory.open(create=False) as memory:
            assert (memory.root, memory.layout) == (str(root), layout)
    others = {".bmad/memory", ".bmad/sessions", "memory"} - {place}
    assert not any((tmp_path / other).exists() for other in others)


@pytest.mark.parametrize("shape", ["000", "001", "004"])
def test_memories_of_a_found_store_are_read_and_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    place, file, text, _ = SHAPES[shape]
    make(tmp_path, place, file, text)
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert memory.session("s1").records()[0].content == "Which port?"
        memory.session("s1").add_decision("Port 443")
    with smp_memory.open() as memory:
        assert [record.text for record in memory.session("s1").records()] == ["Which port?", "Port 443"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", '{"theme": "dark"}'),
        ("notes.jsonl", '{"note": 1}\n'),
        ("memory.jsonl", '{"type": "entity"}\n'),
        ("sessions/s1/manifest.json", "{}"),
        ("sessions/s1/metadata.json", "{}"),
        ("active/s1/metadata.yaml", "a: 1\n"),
    ],
)
def test_foreign_folder_named_memory_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str
) -> None:
    make(tmp_path, "memory", file, text)
    monkeypatch.chdir(tmp_path)
    assert discovery(str(tmp_path)).root is None
    with pytest.raises(StoreNotFound):
        smp_memory.open()
    assert [path.name for path in (tmp_path / "memory").rglob("*") if path.is_file()] == [file.rpartition("/")[2]]


def test_sessions_behind_a_link_do_not_make_a_store(tmp_path: Path) -> None:
    elsewhere = make(tmp_path / "elsewhere", "x", "s1/memory.jsonl", ENTRY)
    (tmp_path / "project" / "memory").mkdir(parents=True)
    (tmp_path / "project" / "memory" / "sessions").symlink_to(elsewhere)
    assert discovery(str(tmp_path / "project")).root is None


def test_store_that_is_named_is_found_only_if_it_is_one(tmp_path: Path) -> None:
    root = make(tmp_path, "memory", "sessions/s1/memory.jsonl", ENTRY)
    assert discovery(str(tmp_path), {"SMP_ROOT": str(root)}).root == str(root)
    assert discovery(str(tmp_path), {"SMP_ROOT": str(tmp_path)}).root is None


def test_store_with_a_config_comes_before_one_that_is_only_recognised(tmp_path: Path) -> None:
    make(tmp_path, ".bmad/memory", "sessions/s1/conversation.jsonl", MESSAGE)
    own = make(tmp_path, ".bmad/sessions", "config.json", json.dumps({"layout": "single", "format": 1}))
    assert discovery(str(tmp_path)).root == str(own)


def test_init_uses_the_store_of_a_design_that_is_there(tmp_path: Path) -> None:
    from smp_memory.cli.main import main

    root = make(tmp_path, ".bmad/sessions", "s1.jsonl", TURN)
    assert main(["init", str(tmp_path)]) == 0
    assert not (tmp_path / ".bmad" / "memory").exists()
    assert json.loads((root / "config.json").read_text())["layout"] == "single"


def test_another_store_of_the_project_is_named_once_and_by_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, ".bmad/sessions", "s1.jsonl", TURN)
    other = make(tmp_path, "memory", "sessions/s1/memory.jsonl", ENTRY)
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert memory.layout == "single"
        said = [record.getMessage() for record in caplog.records if str(other) in record.getMessage()]
        assert len(said) == 1
        assert "is another store of this project and is not read" in said[0]
        [found] = [each for each in memory.doctor().findings if each.check == "stores"]
        assert str(other) in found.message
    caplog.clear()
    with smp_memory.open() as memory:
        assert [record for record in caplog.records if str(other) in record.getMessage()] == []


def test_a_project_with_one_store_has_no_note_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, ".bmad/sessions", "s1.jsonl", TURN)
    (tmp_path / "memory").mkdir()
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert [each for each in memory.doctor().findings if each.check == "stores"] == []


def test_sessions_of_000_beside_those_of_003_are_reported_and_taken_in_by_convert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make(tmp_path, ".bmad/sessions", "s0.jsonl", TURN)
    make(tmp_path, ".bmad/sessions", "active/s1/decisions.yaml", "decisions:\n  - id: D1\n    decision: Use port 80\n")
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert memory.layout == "markdown"
        assert [each.session for each in memory.doctor().findings if each.check == "layouts"] == ["s0"]
        assert any(report.problems for session, report in memory.validate().items() if session == "s0")
        memory.convert("markdown")
    with smp_memory.open(root) as memory:
        assert [turn.content for turn in memory.session("s0").records()] == ["Which port?"]
        assert [each for each in memory.doctor().findings if each.check == "layouts"] == []
