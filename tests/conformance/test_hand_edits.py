"""Files changed by hand or by git: valid changes are read, damage is reported, and nothing else is affected."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import smp_memory
from smp_memory.errors import InvalidConfig
from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import (
    blocks,
    by_hand,
    decisions_file,
    filled,
    line_of,
    opened,
    texts,
    turns_file,
    visible,
)

pytestmark = pytest.mark.parametrize("layout", NAMES)
ALL = ["Use OAuth", "Use Postgres", "Use Python"]


def edit(path: Path, old: str, new: str) -> None:
    data = path.read_bytes()
    assert old.encode() in data
    path.write_bytes(data.replace(old.encode(), new.encode()))


def problems(session: smp_memory.SessionMemory) -> list[tuple[str, str, int]]:
    return [(each.code, each.severity, each.line) for each in session.validate().problems]


def looked_at(root: Path) -> smp_memory.SessionMemory:
    """Open, read and validate; not one visible byte may change."""
    before = visible(root)
    session = opened(root)
    session.records(include_deleted=True)
    session.records("decision", last=1)
    session.stats()
    session.validate()
    _ = session.info
    assert visible(root) == before
    return session


def appended(root: Path, session: smp_memory.SessionMemory, path: Path) -> smp_memory.Record:
    """The next write works, leaves every earlier byte as it was, and is seen by all."""
    before = visible(root)
    record: smp_memory.Record = session.add_decision("Appended")
    for name, data in visible(root).items():
        assert data.startswith(before.get(name, b"")), f"{name} was rewritten"
    assert opened(root).get(record.id).decision == "Appended"
    assert session.get(record.id).decision == "Appended"
    return record


def test_changed_text_is_read_and_reported_as_hand_edit(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    edit(path, "Use Postgres", "Use SQLite")
    seen = looked_at(tmp_path)
    assert texts(seen) == texts(session) == ["Use OAuth", "Use SQLite", "Use Python"]
    assert (seen.get("DEC-0002").edited, seen.get("DEC-0001").edited) == (True, False)
    report = seen.validate()
    assert report.ok
    assert [(each.code, each.severity, each.id, each.path) for each in report.problems] == [
        ("edited", "note", "DEC-0002", str(path))
    ]
    assert report.problems[0].line == line_of(path, "DEC-0002")
    assert appended(tmp_path, session, path).id == "DEC-0004"
    fixed = seen.repair()
    assert any("DEC-0002 was edited by hand" in action for action in fixed.actions)
    assert problems(opened(tmp_path)) == []
    assert texts(opened(tmp_path)) == ["Use OAuth", "Use SQLite", "Use Python", "Appended"]


def test_changed_turn_is_read(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    edit(turns_file(tmp_path, layout), "First words", "Other words")
    assert looked_at(tmp_path).get("TURN-0001").content == session.get("TURN-0001").content == "Other words"
    assert [code for code, _, _ in problems(session)] == ["edited"]


@pytest.mark.parametrize("newline", [True, False], ids=["newline", "no newline"])
def test_entry_appended_by_hand_is_read(tmp_path: Path, layout: str, newline: bool) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    text = by_hand(layout, "DEC-0100", "By hand")
    path.write_bytes(path.read_bytes() + (text if newline else text.rstrip("\n")).encode())
    for seen in (looked_at(tmp_path), session):
        assert texts(seen) == [*ALL, "By hand"]
        assert seen.get("DEC-0100").to_dict()["created"] == "2026-02-01T10:00:00Z"
        assert problems(seen) == [("unsigned", "note", line_of(path, "DEC-0100"))]
    assert appended(tmp_path, session, path).id == "DEC-0101"
    assert opened(tmp_path).update("DEC-0100", rationale="why").revision == 2
    assert opened(tmp_path).validate().ok


def test_entry_inserted_by_hand_with_all_kinds_of_fields_is_read(tmp_path: Path, layout: str) -> None:
    filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    parts = blocks(layout, path.read_text())
    text = by_hand(
        layout, "my-own", "In between", made_by='"bob"', priority="0.5", odd_key='["a", 1, null]', confidence='"high"'
    )
    path.write_text("".join([*parts[:2], text, *parts[2:]]))
    session = looked_at(tmp_path)
    assert texts(session) == ["Use OAuth", "In between", "Use Postgres", "Use Python"]
    record = session.get("my-own")
    assert (record.author, record.priority, record.odd_key, record.confidence_value) == (
        "bob",
        0.5,
        ["a", 1, None],
        0.9,
    )
    assert problems(session) == [("unsigned", "note", line_of(path, "my-own"))]
    appended(tmp_path, session, path)
    assert session.delete("my-own").deleted


@pytest.mark.parametrize("number", [1, 2, 3])
def test_removed_entry_is_gone_and_its_id_is_not_reused(tmp_path: Path, layout: str, number: int) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    parts = blocks(layout, path.read_text())
    path.write_text("".join(parts[:number] + parts[number + 1 :]))
    left = [text for place, text in enumerate(ALL, 1) if place != number]
    assert texts(looked_at(tmp_path)) == texts(session) == left
    assert [code for code, _, _ in problems(session)] == (["missing_entries"] if number == 3 else [])
    assert appended(tmp_path, session, path).id == "DEC-0004"


def test_removing_a_file_removes_its_memories(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.records()
    path = decisions_file(tmp_path, layout)
    if layout == "single":
        path.unlink()
        with pytest.raises(smp_memory.errors.SessionNotFound):
            session.records()
        return
    path.unlink()
    seen = looked_at(tmp_path)
    assert texts(seen) == texts(session) == []
    assert seen.add_decision("New").id == "DEC-0004"
    assert texts(session) == ["New"]


def test_reordered_entries_are_read(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.update("DEC-0001", rationale="why")
    path = decisions_file(tmp_path, layout)
    head, *entries = blocks(layout, path.read_text())
    path.write_text(head + "".join(reversed(entries)))
    for seen in (looked_at(tmp_path), session):
        assert sorted(texts(seen)) == sorted(ALL)
        assert (seen.get("DEC-0001").rationale, seen.get("DEC-0001").revision) == ("why", 2)
        assert problems(seen) == []
    appended(tmp_path, session, path)


@pytest.mark.parametrize("what", ["crlf", "bom", "crlf and bom"])
def test_line_ends_and_byte_order_marks_are_accepted(tmp_path: Path, layout: str, what: str) -> None:
    session = filled(tmp_path, layout)
    session.add_artifact("a", "one\ntwo\n\nthree")
    for path in tmp_path.rglob("*"):
        if path.is_file() and ".smp" not in path.parts and path.name != "config.json":
            data = path.read_bytes()
            if "crlf" in what:
                data = data.replace(b"\n", b"\r\n")
            path.write_bytes((b"\xef\xbb\xbf" if "bom" in what else b"") + data)
    path = decisions_file(tmp_path, layout)
    for seen in (looked_at(tmp_path), session):
        assert texts(seen) == ALL
        assert seen.get("ART-0001").content == "one\ntwo\n\nthree"
        assert seen.get("TURN-0001").content == "First words"
        assert (seen.info.user, seen.info.project) == ("ada", "shop")
        assert [each for each in seen.validate().problems if each.severity != "note"] == []
    assert appended(tmp_path, session, path).id == "DEC-0004"
    assert texts(looked_at(tmp_path)) == [*ALL, "Appended"]
    session.repair()
    assert b"\r" not in path.read_bytes()
    assert not path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert problems(opened(tmp_path)) == []
    assert opened(tmp_path).get("ART-0001").content == "one\ntwo\n\nthree"


def test_last_line_without_newline_is_read(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert texts(looked_at(tmp_path)) == texts(session) == ALL
    appended(tmp_path, session, path)
    appended(tmp_path, opened(tmp_path), path)
    assert texts(session) == [*ALL, "Appended", "Appended"]
    assert [code for code, severity, _ in problems(session) if severity != "note"] == []


def test_every_writer_completes_a_last_line_without_newline(tmp_path: Path, layout: str) -> None:
    """The first writer only looks at the file and writes to another one; the second appends to it."""
    filled(tmp_path, layout).memory.close()
    path = decisions_file(tmp_path, layout)
    if layout in ("jsonl", "markdown"):
        with turns_file(tmp_path, layout).open("a") as file:
            file.write("\n")  # so that the first writer has to look
    path.write_bytes(path.read_bytes() + by_hand(layout, "DEC-0100", "By hand").rstrip("\n").encode())
    opened(tmp_path).add_turn("user", "elsewhere")
    opened(tmp_path).add_decision("Appended")
    assert texts(opened(tmp_path)) == [*ALL, "By hand", "Appended"]
    assert opened(tmp_path).validate().ok


def test_entries_on_both_sides_of_conflict_markers_are_read(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    ours, theirs = by_hand(layout, "DEC-0010", "Ours"), by_hand(layout, "DEC-0011", "Theirs")
    path.write_text(f"{path.read_text()}<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> branch\n")
    for seen in (looked_at(tmp_path), session):
        assert texts(seen) == [*ALL, "Ours", "Theirs"]
        report = seen.validate()
        assert report.ok
        marks = [each for each in report.problems if each.code == "conflict"]
        assert [each.line for each in marks] == [line_of(path, mark) for mark in ("<<<<<<<", "=======", ">>>>>>>")]
        assert {each.path for each in marks} == {str(path)}
    assert appended(tmp_path, session, path).id == "DEC-0012"
    report = session.repair()
    assert any("merge marker" in action for action in report.actions)
    assert "<<<<<<<" not in path.read_text()
    assert texts(opened(tmp_path)) == [*ALL, "Ours", "Theirs", "Appended"]


def test_duplicate_id_after_a_git_merge_is_resolved(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path / "one", layout)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    session.add_decision("Ours")
    other = opened(tmp_path / "two")
    other.add_decision("Theirs")
    other.update("DEC-0004", rationale="theirs too")
    path = decisions_file(tmp_path / "one", layout)
    theirs = blocks(layout, decisions_file(tmp_path / "two", layout).read_text())[4]
    path.write_text(path.read_text() + theirs)
    for seen in (looked_at(tmp_path / "one"), session):
        assert sorted(texts(seen)) == sorted([*ALL, "Ours", "Theirs"])
        first, second = seen.get("DEC-0004").decision, seen.get("DEC-0005").decision
        assert [first, second] == texts(seen)[3:]  # made at the same time: the uid decides
        assert [code for code, _, _ in problems(seen)] == ["duplicate_id"]
    assert appended(tmp_path / "one", session, path).id == "DEC-0006"
    assert session.repair().actions == []
    again = opened(tmp_path / "one")
    assert {record.id: record.decision for record in again.records("decision")} == {
        "DEC-0001": "Use OAuth", "DEC-0002": "Use Postgres", "DEC-0003": "Use Python",
        "DEC-0004": first, "DEC-0005": second, "DEC-0006": "Appended",
    }  # fmt: skip
    assert problems(again) == []


def test_repair_does_not_move_an_entry_without_sequence_number(tmp_path: Path, layout: str) -> None:
    """It was written with seq 0, and so became the first memory of its session."""
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    path.write_text(path.read_text() + by_hand(layout, "DEC-0003", "Typed"))
    assert texts(session) == [*ALL, "Typed"]
    assert any("DEC-0003 was allocated twice" in action for action in session.repair().actions)
    for seen in (session, opened(tmp_path)):
        assert texts(seen) == [*ALL, "Typed"]
        assert seen.get("DEC-0004").decision == "Typed"
        assert [code for code, _, _ in problems(seen)] == ["unsigned"]
    session.add_decision("Next")
    assert texts(opened(tmp_path)) == [*ALL, "Typed", "Next"]


def test_repeated_entry_counts_once(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    parts = blocks(layout, path.read_text())
    path.write_text("".join([*parts, parts[1]]))
    assert texts(looked_at(tmp_path)) == texts(session) == ALL
    assert [code for code, _, _ in problems(session)] == ["duplicate_entry"]
    session.repair()
    assert path.read_text().count("Use OAuth") == 1
    assert problems(opened(tmp_path)) == []


BROKEN = {
    "jsonl": '{"id": "DEC-0099", "decision": broken}\n',
    "single": '{"id": "DEC-0099", "type": "decision", "data": {"decision": "x"\n',
    "log": "just some words\n",
    "markdown": '\n  - id: DEC-0099\n    decision: "never closed\n',
}


def test_unreadable_data_in_the_middle_is_reported(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    parts = blocks(layout, path.read_text())
    path.write_text("".join([*parts[:2], BROKEN[layout], *parts[2:]]))
    for seen in (looked_at(tmp_path), session):
        assert texts(seen) == ALL
        report = seen.validate()
        assert not report.ok
        assert [(each.code, each.severity, each.path) for each in report.problems] == [("damaged", "error", str(path))]
        assert report.problems[0].line == line_of(path, BROKEN[layout].strip("\n").split("\n")[0])
        assert str(report.problems[0]).startswith(f"{path}:{report.problems[0].line}: error: ")
    appended(tmp_path, session, path)
    report = session.repair()
    assert any("quarantined" in action for action in report.actions)
    assert texts(opened(tmp_path)) == [*ALL, "Appended"]
    assert BROKEN[layout].strip() not in path.read_text()
    kept = [each.read_text() for each in tmp_path.rglob("*") if "quarantine" in each.parts and each.is_file()]
    assert any(BROKEN[layout].strip() in text for text in kept)
    left = opened(tmp_path).validate()
    assert left.ok
    assert {each.code for each in left.problems} == {"quarantine"}


def test_broken_last_entry_is_quarantined_by_the_next_write(tmp_path: Path, layout: str) -> None:
    if layout == "markdown":
        pytest.skip("only its machine line is broken")
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    for seen in (looked_at(tmp_path), session):
        assert texts(seen) == ALL[:2]
        assert [code for code, _, _ in problems(seen)] == ["torn"]
    record = session.add_decision("Appended")
    assert record.id == "DEC-0004"
    assert texts(opened(tmp_path)) == [*ALL[:2], "Appended"]
    kept = [each.read_bytes() for each in tmp_path.rglob("*") if "quarantine" in each.parts and each.is_file()]
    assert len(kept) == 1
    assert b"Use Python" in kept[0]
    assert [code for code, _, _ in problems(opened(tmp_path))] == ["quarantine"]


def test_entry_with_a_broken_machine_line_is_kept(tmp_path: Path, layout: str) -> None:
    if layout != "markdown":
        pytest.skip("has no machine line")
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    path.write_bytes(path.read_bytes()[:-30])
    for seen in (looked_at(tmp_path), session):
        assert texts(seen) == ALL
        assert [code for code, _, _ in problems(seen)] == ["edited"]
    assert session.add_decision("Appended").id == "DEC-0004"
    assert texts(opened(tmp_path)) == [*ALL, "Appended"]
    assert [code for code, _, _ in problems(opened(tmp_path))] == ["edited"]
    session.repair()
    assert texts(opened(tmp_path)) == [*ALL, "Appended"]


WRONG = [
    ("tags", "5"), ("tags", '"a, b"'), ("tags", '{"a": 1}'), ("tags", '[1, null, ["x"]]'), ("relations", '"DEC-0001"'),
    ("relations", '{"led_to": "DEC-0001"}'), ("relations", '["DEC-0001", 5, {"kind": 1}]'), ("references", "5"), ("idempotency_key", '["a"]'),
    ("idempotency_key", '{"a": 1}'), ("importance", '"high"'), ("confidence", "[]"), ("pinned", '"yes"'), ("access", '"often"'),
    ("author", "5"), ("author", '["a"]'), ("topic", "{}"), ("status", "5"), ("resolution", '"done"'), ("created", "5"), ("seq", '"x"'),
    ("seq", "-5"), ("revision", '"x"'), ("schema", "99"), ("tx", "5"), ("tx", '"1-2"'), ("extra", "5"), ("extra", '{"id": "x"}'), ("changes", "5"),
    ("deleted", "false"), ("updated", "5"), ("visibility", "[]"), ("author_kind", "{}"), ("turn_ref", '"?"'), ("session_id", '"other"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[f"{name}={value}" for name, value in WRONG])
def test_invalid_value_typed_by_hand_affects_only_its_entry(tmp_path: Path, layout: str, name: str, value: str) -> None:
    filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    parts = blocks(layout, path.read_text())
    path.write_text("".join([*parts[:2], by_hand(layout, "hand", "By hand", **{name: value}), *parts[2:]]))
    session = looked_at(tmp_path)
    assert [text for text in texts(session) if text != "By hand"] == ALL
    found = session.find("hand")
    if found is None:
        assert [each.path for each in session.validate().problems if each.severity == "error"] == [str(path)]
    else:
        repr(
            [found, found.to_dict(), found.created, found.author_kind, found.status, found.confidence_value, found.text]
        )
        session.as_of("2030-01-01").records()
        session.history("hand")
        session.update("hand", rationale="why")
        session.relate("hand", "DEC-0001")
        session.relate("DEC-0001", "hand")
        session.resolve("hand", "done")
        session.add_decision("x", idempotency_key="a")
        assert opened(tmp_path).get("hand").rationale == "why"
    appended(tmp_path, session, path)
    session.repair()
    assert set(ALL) <= set(texts(opened(tmp_path)))
    if found is not None:
        converted = session.memory.convert("log" if layout != "log" else "markdown")
        assert set(ALL) <= set(texts(converted.session("s1")))


def test_entry_without_time_or_text_is_reported(tmp_path: Path, layout: str) -> None:
    filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    parts = blocks(layout, path.read_text())
    bad = by_hand(layout, "wrong-time", "x").replace("2026-02-01T10:00:00Z", "tomorrow")
    empty = by_hand(layout, "empty", "x").replace("decision: x", "own: x").replace('"decision": "x"', '"own": "x"')
    no_id = by_hand(layout, "a b", "x")
    path.write_text("".join([*parts[:2], bad, empty, no_id, *parts[2:]]))
    session = looked_at(tmp_path)
    assert texts(session) == ALL
    report = session.validate()
    assert [(each.code, each.path) for each in report.problems] == [("invalid", str(path))] * 3
    assert [each.line for each in report.problems] == [line_of(path, word) for word in ("wrong-time", "empty", "a b")]
    assert [
        "time" in report.problems[0].message,
        "decision" in report.problems[1].message,
        "id" in report.problems[2].message,
    ] == [True] * 3
    appended(tmp_path, session, path)


def test_broken_metadata_does_not_affect_memories(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    name = {"jsonl": "manifest.json", "markdown": "metadata.yaml", "log": "metadata.json", "single": "s1.jsonl"}[layout]
    path = decisions_file(tmp_path, layout).parent / name
    lines = path.read_bytes().split(b"\n")
    lines[0] = b"{[}"
    path.write_bytes(b"\n".join(lines) if layout == "single" else b"{[}\n: x")
    before = visible(tmp_path)
    seen = opened(tmp_path)
    assert texts(seen) == texts(session) == ALL
    report = seen.validate()
    assert {each.path for each in report.problems if each.severity == "error"} == {str(path)}
    assert visible(tmp_path) == before
    assert seen.add_decision("Appended").id == "DEC-0004"
    seen.add_turn("user", "still works")
    assert seen.repair().actions
    assert texts(opened(tmp_path)) == [*ALL, "Appended"]
    assert opened(tmp_path).validate().ok
    assert opened(tmp_path).info.id == "s1"


def test_edited_metadata_is_read(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    folder = decisions_file(tmp_path, layout).parent
    name = {"jsonl": "manifest.json", "markdown": "metadata.yaml", "log": "metadata.json", "single": "s1.jsonl"}[layout]
    edit(folder / name, "shop", "mall")
    assert looked_at(tmp_path).info.project == session.info.project == "mall"
    assert session.validate().ok
    session.change_info(tags=["new"])
    assert (opened(tmp_path).info.project, session.info.tags) == ("mall", ["new"])


def test_foreign_files_are_not_touched(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    folder = decisions_file(tmp_path, layout).parent
    for name in (
        "notes.txt",
        "README.md",
        ".gitignore",
        "decisions.jsonl.orig",
        "decisions.yaml~",
        "#x#",
        "index.json.bak",
    ):
        (folder / name).write_text("mine")
    looked_at(tmp_path)
    session.add_decision("Appended")
    session.repair()
    converted = session.memory.convert("markdown" if layout != "markdown" else "single")
    assert texts(converted.session("s1")) == [*ALL, "Appended"]
    left = [path.name for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes() == b"mine"]
    assert len(left) == 7


def test_store_with_handwritten_entries_can_be_converted(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.update_agent_state("v", {})
    with decisions_file(tmp_path, layout).open("a") as file:
        file.write(by_hand(layout, "DEC-0100", "By hand"))
    memory = session.memory
    for to in [*NAMES, layout]:
        memory = memory.convert(to)
        assert texts(memory.session("s1")) == [*ALL, "By hand"]
        assert {record.id for record in memory.session("s1")} >= {"STATE-v", "TURN-0001", "DEC-0100"}


# -- stores made by hand

HAND_MADE = {
    "jsonl": {
        "sessions/s1/decisions.jsonl": """\
            {"id": "dec-001", "timestamp": "2026-01-11T10:10:00Z", "made_by": "architect", "decision": "Use Postgres", "tags": ["db"], "references": {"findings": ["finding-003"]}, "decay_factor": 1.0}
        """,
        "sessions/s1/conversation.jsonl": """\
            {"id": "msg-001", "timestamp": "2026-01-11T10:05:23Z", "agent_id": "architect", "role": "assistant", "content": "Postgres.", "metadata": {"tokens": 15}}
        """,
    },
    "markdown": {
        "active/s1/decisions.yaml": """\
            decisions:
              - id: "dec-001"
                timestamp: "2026-01-11T10:10:00Z"
                turn_ref: 2
                made_by: "architect"

                decision: "Use Postgres"
                tags: ["db"]

                decay:
                  priority: 1.0
        """,
        "active/s1/conversation.md": """\
            # Conversation History
            **Session:** s1

            ---

            ## Turn 1 - 2026-01-11 10:05:23
            **Speaker:** architect
            **Type:** message
            **Memory-Refs:** [dec-001]

            Postgres.

            ---
        """,
    },
    "single": {
        "s1.jsonl": """\
            {"id":"msg-001","type":"conversation","ts":"2026-01-11T10:05:23Z","data":{"role":"assistant","content":"Postgres.","by":"architect"},"priority":1.0,"access":0}
            {"id":"dec-001","type":"decision","ts":"2026-01-11T10:10:00Z","data":{"decision":"Use Postgres","by":"architect","tags":["db"]},"priority":0.95,"access":3}
        """,
    },
    "log": {
        "sessions/s1/memory.jsonl": """\
            {"id": "msg-001", "session_id": "s1", "timestamp": "2026-01-11T10:05:23Z", "type": "conversation", "content": {"role": "assistant", "message": "Postgres.", "author": "architect", "metadata": {}}, "importance": 0.85}
            {"id": "dec-001", "session_id": "s1", "timestamp": "2026-01-11T10:10:00Z", "type": "decision", "content": {"decision": "Use Postgres", "made_by": "architect"}, "tags": ["db"], "decay_factor": 1.0}
        """,
    },
}  # fmt: skip


def hand_made(root: Path, layout: str) -> None:
    for name, text in HAND_MADE[layout].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text))


def check_hand_made(session: smp_memory.SessionMemory) -> None:
    decision = session.get("dec-001")
    assert (decision.decision, decision.author, decision.tags) == ("Use Postgres", "architect", ["db"])
    turn = next(iter(session.records("conversation")))
    assert (turn.content, turn.author) == ("Postgres.", "architect")
    assert turn.to_dict()["created"] == "2026-01-11T10:05:23Z"


def test_handwritten_session_is_recognised_read_and_written(tmp_path: Path, layout: str) -> None:
    hand_made(tmp_path, layout)
    before = visible(tmp_path)
    memory = smp_memory.open(tmp_path)
    assert memory.layout == layout
    assert [session.id for session in memory.sessions()] == ["s1"]
    session = memory.session("s1")
    check_hand_made(session)
    assert session.validate().ok
    assert {name: data for name, data in visible(tmp_path).items() if name != "config.json"} == before
    assert session.info.id == "s1"
    assert session.add_decision("New").id == "DEC-0001"
    assert session.update("dec-001", rationale="ACID").revision == 2
    with session.transaction() as tx:
        tx.relate(tx.add_finding("y"), "dec-001", "led_to")
        tx.add_turn("user", "x")
    check_hand_made(opened(tmp_path))
    for name, data in before.items():
        assert (tmp_path / name).read_bytes().startswith(data)
    session.delete("dec-001")
    assert [record.id for record in opened(tmp_path).records("decision")] == ["DEC-0001"]
    assert opened(tmp_path).validate().ok


def test_deletion_in_the_form_of_the_designs_is_read(tmp_path: Path, layout: str) -> None:
    hand_made(tmp_path, layout)
    if layout == "single":
        with (tmp_path / "s1.jsonl").open("a") as file:
            file.write('{"id": "dec-001", "deleted": true, "ts": "2026-01-12T00:00:00Z"}\n')
    elif layout == "log":
        line = '{"id": "dec-001", "timestamp": "2026-01-12T00:00:00Z", "reason": "outdated"}\n'
        (tmp_path / "sessions/s1/tombstones.jsonl").write_text(line)
    elif layout == "jsonl":
        with (tmp_path / "sessions/s1/decisions.jsonl").open("a") as file:
            file.write('{"id": "dec-001", "deleted": true, "timestamp": "2026-01-12T00:00:00Z"}\n')
    else:
        with (tmp_path / "active/s1/decisions.yaml").open("a") as file:
            file.write("  - id: dec-001\n    deleted: 2026-01-12T00:00:00Z\n    reason: outdated\n")
    session = smp_memory.open(tmp_path).session("s1")
    assert session.records("decision") == []
    gone = session.find("dec-001")
    assert gone is not None
    assert gone.to_dict()["deleted"]["at"] == "2026-01-12T00:00:00Z"
    assert gone.type == "decision"
    assert session.validate().ok
    assert session.restore("dec-001").decision == "Use Postgres"
    converted = session.memory.convert("jsonl" if layout != "jsonl" else "log")
    assert [step["op"] for step in converted.session("s1").history("dec-001")] == ["put", "delete", "restore"]


READ = """
import os, sys
import smp_memory
from smp_memory.errors import InvalidConfig

def read(root):
    session = smp_memory.open(root).session("s1")
    assert len(session.records()) == int(os.environ["COUNT"]), session.records()
    session.validate(); session.stats(); session.info; session.as_of("2030-01-01"); session.records("decision", last=1)
    try:
        session.add_decision("x")
    except smp_memory.errors.StorageReadOnly as error:
        print("read-only:", error.path)

read(sys.argv[1])  # as ourselves, so that all modules are loaded: the other user may not see them
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
read(sys.argv[2])
"""


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder of our own that another user may enter; pytest's are closed, and not ours to open."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.parametrize("made", ["by smp", "by hand"])
def test_store_on_read_only_media_can_be_read(open_place: Path, layout: str, made: str) -> None:
    tmp_path = open_place
    root = tmp_path / "store"
    if made == "by smp":
        filled(root, layout).memory.close()
    else:
        hand_made(root, layout)
    shutil.copytree(root, tmp_path / "copy")
    (tmp_path / "read.py").write_text(READ)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*"))
    result = subprocess.run(
        [sys.executable, str(tmp_path / "read.py"), str(tmp_path / "copy"), str(root)],
        env={**os.environ, "PYTHONPATH": str(Path(smp_memory.__file__).parents[1]), "COUNT": "4" if made == "by smp" else "2"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*"))
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("read-only: ")
    assert after == before


def test_bad_setting_in_metadata_blocks_what_depends_on_it_in_that_session_only(tmp_path: Path, layout: str) -> None:
    """`session list`, `repair`, `stats` and maintenance of the whole store failed by it, and `validate` said nothing."""
    memory = smp_memory.open(tmp_path, layout=layout, config={"retention": {"enabled": True}})
    old = "2020-01-01T00:00:00Z"
    for name in ("kept", "other"):
        memory.create_session(name, config={"retention": {"enabled": name == "other"}}).add_turn(
            "user", "hi", created=old
        )
    memory.close()
    head = next(
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and b"retention" in path.read_bytes() and "kept" in str(path)
    )
    edit(head, "false", "5")
    memory = smp_memory.open(tmp_path, config={"retention": {"enabled": True}})
    session = memory.session("kept")
    with pytest.raises(InvalidConfig, match=r"retention\.enabled.*" + head.name):
        session.compact()
    session.add_decision("x")
    assert (session.stats().memories, len(memory.session_states()), len(session.records())) == (2, 2, 2)
    for report in (session.validate(), session.repair()):
        assert [(each.code, Path(each.path)) for each in report.problems if each.severity == "error"] == [
            ("settings", head)
        ]
    did = memory.maintain(only=["retention", "quota", "archive", "access"])
    assert did.ok
    assert (len(memory.session("kept").records()), len(memory.session("other").records())) == (2, 0)
    memory = memory.convert("log" if layout != "log" else "single")
    assert memory.session("kept").records()
