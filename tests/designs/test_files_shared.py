"""Files for all sessions and metadata of sessions, in the shapes of the designs, with values of our own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.git.merge import merge


def test_global_files_of_003_are_read_and_shown(tmp_path: Path) -> None:
    folder = tmp_path / "global"
    folder.mkdir()
    (folder / "cross-session-preferences.yaml").write_text(
        'preferences:\n  - id: "PREF-001"\n    timestamp: "2026-02-03T09:00:00Z"\n    topic: tone\n'
        '    preference: "Short answers"\n    confidence: explicit\n'
    )
    (folder / "learned-patterns.yaml").write_text(
        'patterns:\n  - "Check totals first"\n  - pattern: "Ask for units"\n    category: review\n'
    )
    (folder / "user-profile.yaml").write_text('profile:\n  language: "de"\n  name: "Ada"\n')
    with smp_memory.open(tmp_path) as memory:
        assert memory.layout == "markdown"
        shared = memory.global_memory
        assert [(each.id, each.preference) for each in shared.preferences()] == [("PREF-001", "Short answers")]
        assert [each.learning for each in shared.patterns()] == ["Check totals first", "Ask for units"]
        assert shared.profile() == {"language": "de", "name": "Ada"}
        shared.set_profile("language", "en")
        assert shared.profile() == {"language": "en", "name": "Ada"}


def test_shared_files_of_001_are_read_and_shown(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "sessions" / "s1").mkdir(parents=True)
    (tmp_path / "sessions" / "s1" / "manifest.json").write_text('{"session_id": "s1"}')
    (tmp_path / "shared" / "user-preferences.json").write_text('{"tone": "dry", "units": {"value": "metric"}}')
    (tmp_path / "shared" / "agent-knowledge.json").write_text('{"learnings": [{"lesson": "Totals differ"}]}')
    with smp_memory.open(tmp_path) as memory:
        shared = memory.global_memory
        assert {each.key: each.value for each in shared.preferences()} == {"tone": "dry", "units": "metric"}
        assert [each.learning for each in shared.patterns()] == ["Totals differ"]


def shared_store(root: Path, name: str, content: str) -> Path:
    """A store of the design that the file belongs to, with this file."""
    if name.startswith("shared"):
        (root / "sessions" / "s1").mkdir(parents=True)
        (root / "sessions" / "s1" / "manifest.json").write_text('{"session_id": "s1"}')
    else:
        (root / "active" / "s1").mkdir(parents=True)
        (root / "active" / "s1" / "metadata.yaml").write_text("session:\n  id: s1\n")
    path = root / name
    path.parent.mkdir()
    path.write_text(content)
    return path


PROFILE = """\
user_profile:
  name: "Ada"
  communication:
    style: concise
    languages: [de, en]
    hours: {from: 8, to: 17}
  verbose: false
  projects:
    - name: shop
      phase: review
"""


def test_each_value_of_a_nested_profile_has_its_key_path_and_its_value(tmp_path: Path) -> None:
    shared_store(tmp_path, "global/user-profile.yaml", PROFILE)
    with smp_memory.open(tmp_path) as memory:
        assert memory.global_memory.profile() == {
            "name": "Ada",
            "communication.style": "concise",
            "communication.languages": ["de", "en"],
            "communication.hours.from": 8,
            "communication.hours.to": 17,
            "verbose": False,
            "projects": [{"name": "shop", "phase": "review"}],
        }
        text = str(memory.context())
        for told in ("communication.style = concise", "communication.languages = de, en", "phase: review", "= False"):
            assert told in text
        assert memory.query("concise")[0].record.key == "communication.style"


KNOWLEDGE = [
    ({"architect": ["Prefer PostgreSQL here", {"lesson": "Pool connections"}]}, "architect"),
    ({"architect": {"database": {"pooling": "Use HikariCP with 50 connections"}}}, "architect"),
    ({"agents": {"architect": ["Prefer PostgreSQL here"]}}, "architect"),
    ([{"agent_id": "architect", "content": "Prefer PostgreSQL here"}], "architect"),
    ([{"agent": "architect", "knowledge": "Prefer PostgreSQL here", "confidence": 0.9}], "architect"),
    ({"learnings": [{"author": "architect", "description": "Prefer PostgreSQL here"}]}, "architect"),
    ({"architect": [{"knowledge": "Prefer PostgreSQL here", "author": "analyst"}]}, "analyst"),
]


@pytest.mark.parametrize(("content", "author"), KNOWLEDGE)
def test_knowledge_of_agents_keeps_text_and_author(tmp_path: Path, content: object, author: str) -> None:
    shared_store(tmp_path, "shared/agent-knowledge.json", json.dumps(content))
    with smp_memory.open(tmp_path) as memory:
        patterns = memory.global_memory.patterns()
        assert patterns
        assert {each.author for each in patterns} == {author}
        assert all(len(each.learning.split()) > 1 for each in patterns)
        told = str(memory.context())
        assert all(each.learning in told for each in patterns)


def test_knowledge_that_is_no_sentence_is_named_by_its_keys(tmp_path: Path) -> None:
    shared_store(tmp_path, "shared/agent-knowledge.json", '{"architect": {"retries": 3, "db": {"engine": "pg"}}}')
    with smp_memory.open(tmp_path) as memory:
        assert [(each.learning, each.topic) for each in memory.global_memory.patterns()] == [
            ("retries: 3", "architect.retries"),
            ("db.engine: pg", "architect.db.engine"),
        ]


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


JSON_VALUES = st.recursive(
    st.text("abcxyz ", min_size=1).filter(str.strip) | st.integers(10, 99) | st.booleans(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(
            st.sampled_from(["style", "name", "value", "content", "pattern", "key", "notes"]), inner, min_size=1
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(content=JSON_VALUES, name=st.sampled_from(["user-preferences", "agent-knowledge"]))
def test_no_leaf_of_a_shared_file_is_lost(content: object, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shared_store(root, f"shared/{name}.json", json.dumps(content))
        with smp_memory.open(root) as memory:
            stored = json.dumps(
                [history.data() for history in memory.store.files.unindexed_memories().get("global", {}).values()]
            )
            for leaf in leaves(content):
                assert (leaf.strip() if isinstance(leaf, str) else json.dumps(leaf)) in stored


FOREIGN = {
    "003": ("global/cross-session-preferences.yaml", "# Mine\ntone: dry  # always\n"),
    "003 list": ("global/cross-session-preferences.yaml", "# Mine\npreferences:\n  - key: tone\n    value: dry\n"),
    "003 bare list": ("global/cross-session-preferences.yaml", "- key: tone\n  value: dry\n"),
    "001": ("shared/user-preferences.json", '{"tone": "dry"}'),
    "001 list": ("shared/user-preferences.json", '[{"key": "tone", "value": "dry"}]'),
}


def shown(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text())
    part = content[-1]["smp"] if isinstance(content, list) else content["smp"]
    assert isinstance(part, dict)
    return part


@pytest.mark.parametrize("form", FOREIGN)
def test_memories_for_all_sessions_stand_in_the_files_of_the_design(tmp_path: Path, form: str) -> None:
    name, content = FOREIGN[form]
    path = shared_store(tmp_path, name, content)
    with smp_memory.open(tmp_path) as memory:
        record = memory.global_memory.set_preference("units", "metric", author="ada")
        assert [(each["key"], each["value"]) for each in shown(path)["preferences"]] == [("units", "metric")]
        memory.global_memory.set_preference("units", "imperial")
        assert [each["value"] for each in shown(path)["preferences"]] == ["imperial"]
        assert {each.key: each.value for each in memory.global_memory.preferences()} == {
            "tone": "dry",
            "units": "imperial",
        }
        assert len(memory.query("units")) == 1
        memory.global_memory.demote(record.id)
        assert "imperial" not in path.read_text()
        assert "dry" in path.read_text()
        memory.session("global").restore(record.id)
        memory.erase(f"global/{record.id}")
        assert "imperial" not in path.read_text()
    if name.endswith(".yaml"):
        assert path.read_text().startswith(content)


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
def test_new_files_of_the_design_show_all_that_holds_in_all_sessions(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, create=True, layout=layout) as memory:
        finding = memory.create_session("s1").add_finding("Totals differ by a cent", author="veritas")
        memory.global_memory.promote(finding.ref)
        memory.global_memory.set_profile("role", "engineer")
        memory.global_memory.add_pattern("Only for one", visibility="private", author="veritas")
    texts = {path.name: path.read_text() for folder in ("global", "shared") for path in tmp_path.glob(f"{folder}/*")}
    expected = {
        "jsonl": {"user-preferences.json": "engineer", "agent-knowledge.json": "Totals differ by a cent"},
        "markdown": {"user-profile.yaml": "role: engineer", "learned-patterns.yaml": "Totals differ by a cent"},
    }[layout]
    assert texts.keys() == expected.keys()
    for name, text in expected.items():
        assert text in texts[name]
        assert "Only for one" not in texts[name]
    with smp_memory.open(tmp_path) as memory:
        converted = memory.convert("markdown" if layout == "jsonl" else "jsonl")
        names = sorted(path.name for folder in ("global", "shared") for path in tmp_path.glob(f"{folder}/*"))
        assert len(names) == 2
        assert not set(names) & set(expected)
        converted.delete_session("global")
        assert not [path for folder in ("global", "shared") for path in tmp_path.glob(f"{folder}/*")]
        converted.close()


def test_edited_part_of_smp_is_kept_before_it_is_written_anew(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, create=True, layout="markdown") as memory:
        memory.global_memory.set_preference("units", "metric")
        path = tmp_path / "global" / "cross-session-preferences.yaml"
        path.write_text(path.read_text().replace("metric", "furlongs"))
        memory.global_memory.set_preference("tone", "dry")
        assert "furlongs" not in path.read_text()
        kept = list((tmp_path / "active" / "global" / ".smp" / "quarantine").iterdir())
        assert [("furlongs" in each.read_text()) for each in kept] == [True]


def test_write_for_all_sessions_is_stored_when_a_shared_file_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = shared_store(tmp_path, "global/cross-session-preferences.yaml", "profile: [unclosed\n")
    with smp_memory.open(tmp_path) as memory, caplog.at_level(logging.WARNING, logger="smp_memory"):
        memory.global_memory.set_preference("units", "metric")
        assert [each.key for each in memory.global_memory.preferences()] == ["units"]
    assert path.read_text() == "profile: [unclosed\n"
    assert "cross-session-preferences.yaml" in caplog.text
    assert "shared_files_stale" in [getattr(record, "smp_event", None) for record in caplog.records]


def test_concurrent_writers_leave_all_memories_in_the_file(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, create=True, layout="jsonl"):
        pass
    code = (
        "import sys, smp_memory\n"
        "with smp_memory.open(sys.argv[1]) as memory:\n"
        "    for number in range(10):\n"
        "        memory.global_memory.set_preference(f'{sys.argv[2]}{number}', number)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(shown(tmp_path / "shared" / "user-preferences.json")["preferences"]) == 30


def test_merge_of_shared_files_takes_the_changes_of_both_sides_outside_of_smp(tmp_path: Path) -> None:
    def sides(name: str, part: str) -> bytes:
        return f"{name}\nsmp:\n  note: n\n  checksum: sha256:{part}\n  patterns:\n    - id: {part}\n".encode()

    base = sides("patterns:\n  - One\n", "a")
    merged = merge(
        base,
        sides("patterns:\n  - One\n  - Two\n", "b"),
        sides("patterns:\n  - One\n  - Three\n", "c"),
        "global/learned-patterns.yaml",
    )
    assert merged.conflicts == []
    content = yaml.safe_load(merged.data)
    assert content["patterns"] == ["One", "Two", "Three"]
    assert content["smp"]["checksum"] == "sha256:b"


def test_shared_file_that_cannot_be_read_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "user-profile.yaml").write_text("profile: [unclosed\n")
    with smp_memory.open(tmp_path) as memory, caplog.at_level(logging.WARNING, logger="smp_memory"):
        assert memory.global_memory.profile() == {}
    assert "user-profile.yaml" in caplog.text


def test_figures_in_metadata_are_replaced_by_those_of_now(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    manifest = {
        "session_id": "s1",
        "created_at": "2026-02-03T09:00:00Z",
        "updated_at": "2026-02-03T10:00:00Z",
        "user_id": "u-1",
        "agent_ids": ["architect"],
        "metadata": {"project_name": "ledger", "session_type": "audit"},
        "statistics": {"total_messages": 9, "size_bytes": 4711},
        "version": "1.0",
        "owner_team": "books",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        session.change_info(project="books")
        stored = json.loads((folder / "manifest.json").read_text())
    assert (stored["statistics"]["total_messages"], stored["statistics"]["size_bytes"]) == (0, 0)
    assert stored["statistics"]["as_of"] > "2026-02-03T10:00:00Z"
    assert stored["updated_at"] is None
    assert (stored["owner_team"], stored["version"], stored["metadata"]["session_type"]) == ("books", "1.0", "audit")


def test_settings_in_the_head_of_004_hold_for_the_session(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    head = {
        "session_id": "s1",
        "user_id": "u-1",
        "created_at": "2026-02-03T09:00:00Z",
        "decay_config": {"enabled": True, "half_life_hours": 99, "min_decay_factor": 0.3},
        "compaction_config": {"auto_compact": False, "threshold": 0.9},
        "total_entries": 3,
    }
    (folder / "metadata.json").write_text(json.dumps(head))
    (folder / "memory.jsonl").write_text("")
    with smp_memory.open(tmp_path) as memory:
        config = memory.session("s1").config
        assert (config["decay.half_life_hours.decision"], config["compaction.enabled"]) == (99, False)
        memory.session("s1").add_decision("Written")


def test_metadata_of_003_keeps_its_agents(tmp_path: Path) -> None:
    folder = tmp_path / "active" / "s1"
    folder.mkdir(parents=True)
    (folder / "metadata.yaml").write_text(
        "session:\n  id: s1\n  participants:\n    user_id: u-1\n    observers: [eve]\n    agents:\n"
        "      - agent_id: architect\n        role: lead\n        message_count: 4\n"
    )
    with smp_memory.open(tmp_path) as memory:
        memory.session("s1").change_info(project="books")
        assert memory.session("s1").info.agents == ["architect"]
    text = (folder / "metadata.yaml").read_text()
    for kept in ("role: lead", "observers", "eve"):
        assert kept in text
    assert "message_count" not in text
