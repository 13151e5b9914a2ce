"""Entries that a person types into a file without an id or a time are memories at once, in every layout."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files.layouts import NAMES
from smp_memory.model.types import KINDS
from tests.conformance.layout_files import FOLDERS, by_hand, decisions_file, filled, opened, texts, turns_file, visible

pytestmark = pytest.mark.parametrize("layout", NAMES)
TEXT = "Sessions last 8 hours"
MTIME = 1_770_000_000  # 2026-02-02T02:40:00Z
TIME = "2026-02-02T02:40:00Z"


def typed(layout: str, decision: str = TEXT, **fields: str) -> str:
    """A decision with neither an id nor a time."""
    if layout == "markdown":
        more = "".join(f"    {name}: {value}\n" for name, value in fields.items())
        return f"\n  - decision: {decision}\n    made_by: architect\n{more}"
    more = "".join(f', "{name}": "{value}"' for name, value in fields.items())
    inner = f'"decision": "{decision}", "author": "architect"{more}'
    if layout == "jsonl":
        return f"{{{inner}}}\n"
    name = "data" if layout == "single" else "content"
    return f'{{"type": "decision", "{name}": {{{inner}}}}}\n'


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
    os.utime(path, (MTIME, MTIME))


def with_typed(root: Path, layout: str, text: str | None = None) -> Path:
    filled(root, layout)
    path = decisions_file(root, layout)
    append(path, typed(layout) if text is None else text)
    return path


def test_typed_entry_is_listed_found_and_shown_and_reading_changes_no_byte(tmp_path: Path, layout: str) -> None:
    with_typed(tmp_path, layout)
    before = visible(tmp_path)
    session = opened(tmp_path)
    assert texts(session) == ["Use OAuth", "Use Postgres", "Use Python", TEXT]
    record = session.get("DEC-0004")
    assert (record.decision, record.author, record.typed_by_hand) == (TEXT, "architect", True)
    assert record.to_dict()["created"] == TIME
    assert record.to_dict()["typed_by_hand"] is True
    assert not session.get("DEC-0001").typed_by_hand
    assert "typed_by_hand" not in session.get("DEC-0001").to_dict()
    hits = session.query("how long do sessions last")
    assert [hit.record.id for hit in hits][:1] == ["DEC-0004"]
    assert hits[0].record.typed_by_hand
    assert [r.id for r in session.records("decision", last=1)] == ["DEC-0004"]
    report = session.validate()
    assert report.ok
    assert [(p.code, p.id) for p in report.problems] == [("typed", "DEC-0004")]
    assert "id" in report.problems[0].message
    assert visible(tmp_path) == before
    assert opened(tmp_path).get("DEC-0004").decision == TEXT


def test_next_write_gives_typed_entry_its_id_and_time_in_the_file(tmp_path: Path, layout: str) -> None:
    path = with_typed(tmp_path, layout)
    session = opened(tmp_path)
    added = session.add_decision("Added later")
    assert added.id == "DEC-0005"
    text = path.read_text()
    assert "DEC-0004" in text
    assert TIME in text
    for seen in (session, opened(tmp_path)):
        record = seen.get("DEC-0004")
        assert (record.decision, record.to_dict()["created"], record.typed_by_hand) == (TEXT, TIME, True)
        assert texts(seen) == ["Use OAuth", "Use Postgres", "Use Python", TEXT, "Added later"]
        assert seen.validate().ok
    assert [hit.record.id for hit in session.query("sessions last hours")][:1] == ["DEC-0004"]


def test_repair_gives_typed_entry_its_id_and_sets_nothing_aside(tmp_path: Path, layout: str) -> None:
    path = with_typed(tmp_path, layout)
    report = opened(tmp_path).repair()
    assert report.ok
    assert any("DEC-0004" in action and "typed in by hand" in action for action in report.actions)
    assert "DEC-0004" in path.read_text()
    assert not list(tmp_path.rglob("quarantine/*"))
    assert opened(tmp_path).get("DEC-0004").decision == TEXT
    assert opened(tmp_path).repair().actions == []


@pytest.mark.parametrize("change", ["update", "delete", "relate", "transaction"])
def test_typed_entry_can_be_changed_by_its_provisional_id(tmp_path: Path, layout: str, change: str) -> None:
    path = with_typed(tmp_path, layout)
    session = opened(tmp_path)
    if change == "update":
        session.update("DEC-0004", rationale="Shifts are that long")
    elif change == "delete":
        session.delete("DEC-0004", reason="wrong")
    elif change == "relate":
        session.relate("DEC-0001", "DEC-0004", "relates_to")
    else:
        with session.transaction() as work:
            work.add_finding("Tokens live longer", severity="high")
            work.update("DEC-0004", rationale="Shifts are that long")
    assert "DEC-0004" in path.read_text()
    for seen in (session, opened(tmp_path)):
        record = seen.find("DEC-0004")
        assert record is not None
        assert record.decision == TEXT
        assert record.deleted is (change == "delete")
        if change in ("update", "transaction"):
            assert record.rationale == "Shifts are that long"
        assert seen.validate().ok


def test_entry_that_lacks_only_its_time_gets_only_that(tmp_path: Path, layout: str) -> None:
    text = by_hand(layout, "DEC-0009", TEXT)
    for known in (
        '"timestamp": "2026-02-01T10:00:00Z", ',
        '"ts": "2026-02-01T10:00:00Z", ',
        "    timestamp: 2026-02-01T10:00:00Z\n",
    ):
        text = text.replace(known, "")
    assert "2026" not in text
    path = with_typed(tmp_path, layout, text)
    session = opened(tmp_path)
    assert session.get("DEC-0009").to_dict()["created"] == TIME
    session.add_decision("Added later")
    assert path.read_text().count("DEC-0009") == 1
    assert opened(tmp_path).get("DEC-0009").to_dict()["created"] == TIME
    assert session.records("decision")[-1].id == "DEC-0010"


def test_two_typed_entries_keep_their_order_and_text(tmp_path: Path, layout: str) -> None:
    path = with_typed(tmp_path, layout, typed(layout) + typed(layout, "Cookies are strict", rationale="see RFC"))
    session = opened(tmp_path)
    assert texts(session)[3:] == [TEXT, "Cookies are strict"]
    session.update("DEC-0005", topic="web")
    assert [r.id for r in opened(tmp_path).records("decision")] == [f"DEC-{n:04}" for n in range(1, 6)]
    assert (session.get("DEC-0005").rationale, session.get("DEC-0005").topic) == ("see RFC", "web")
    assert path.read_text().index(TEXT) < path.read_text().index("Cookies are strict")


def test_number_of_a_purged_memory_is_not_given_to_a_typed_entry(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.erase("DEC-0003", reason="test")
    append(decisions_file(tmp_path, layout), typed(layout))
    assert opened(tmp_path).get("DEC-0004").decision == TEXT
    for note in tmp_path.rglob(".smp/**/lock"):
        note.write_bytes(b"")  # as in a fresh clone
    assert opened(tmp_path).get("DEC-0004").decision == TEXT


def test_removed_typed_entry_is_not_reported_as_missing(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    before = path.read_bytes()
    session.add_decision("One")
    after = path.read_bytes()
    append(path, typed(layout))
    assert texts(session)[-1] == TEXT
    path.write_bytes(after)
    assert texts(session)[-1] == "One"
    session.add_decision("Two")
    assert before in path.read_bytes()
    assert not list(tmp_path.rglob("quarantine/*"))


def test_session_with_only_typed_entries_is_read_and_completed(tmp_path: Path, layout: str) -> None:
    memory = smp_memory.open(tmp_path, layout=layout)
    memory.create_session("s1")
    path = decisions_file(tmp_path, layout)
    append(path, ("decisions:\n" if layout == "markdown" else "") + typed(layout))
    session = memory.session("s1")
    assert texts(session) == [TEXT]
    session.delete("DEC-0001")
    assert texts(opened(tmp_path)) == []


def test_comments_and_order_of_a_typed_entry_stay(tmp_path: Path, layout: str) -> None:
    if layout != "markdown":
        pytest.skip("only YAML has comments")
    path = with_typed(
        tmp_path,
        layout,
        "\n  # asked for by ada\n  - decision: >\n      Sessions last\n      8 hours\n    # not more\n    made_by: architect\n",
    )
    session = opened(tmp_path)
    session.add_decision("Added later")
    text = path.read_text()
    assert "# asked for by ada" in text
    assert "# not more" in text
    assert opened(tmp_path).get("DEC-0004").decision.strip() == TEXT


def test_typed_turn_without_number_is_a_turn(tmp_path: Path, layout: str) -> None:
    filled(tmp_path, layout)
    path = turns_file(tmp_path, layout)
    texts_of = {
        "markdown": "\n## Turn\n**Speaker:** user\n\nSecond words\n",
        "jsonl": '{"role": "user", "content": "Second words"}\n',
        "single": '{"type": "conversation", "data": {"role": "user", "content": "Second words"}}\n',
        "log": '{"type": "conversation", "content": {"role": "user", "message": "Second words"}}\n',
    }
    append(path, texts_of[layout])
    session = opened(tmp_path)
    assert [turn.content for turn in session.records("conversation")] == ["First words", "Second words"]
    assert session.get("TURN-0002").typed_by_hand
    session.add_turn("user", "Third words\n## Turn\nstays text")
    seen = opened(tmp_path)
    assert [(t.id, t.content) for t in seen.records("conversation")] == [
        ("TURN-0001", "First words"),
        ("TURN-0002", "Second words"),
        ("TURN-0003", "Third words\n## Turn\nstays text"),
    ]
    assert seen.get("TURN-0002").to_dict()["created"] == TIME
    assert "TURN-0002" in path.read_text() or "## Turn 2 - 2026-02-02 02:40:00" in path.read_text()


def test_typed_artifact_and_agent_state_get_ids_from_their_file_or_agent(tmp_path: Path, layout: str) -> None:
    filled(tmp_path, layout)
    folder = tmp_path / FOLDERS[layout]
    wanted = "plan" if layout == "markdown" else "ART-0001"
    if layout == "markdown":
        for name in ("artifacts", "agent-states"):
            (folder / name).mkdir()
        append(folder / "artifacts" / "plan.md", "## Artifact - 2026-02-01 10:00\n**Name:** plan\n\nStep one\n")
        append(folder / "agent-states" / "ada.yaml", "agent_state:\n  - agent: ada\n    state: {step: 2}\n")
    for kind, data in (
        ("artifact", {"name": "plan", "content": "Step one"}),
        ("agent_state", {"agent": "ada", "state": {"step": 2}}),
    ):
        if layout == "jsonl":
            append(folder / f"{KINDS[kind].file}.jsonl", json.dumps(data) + "\n")
        elif layout != "markdown":
            inner = "data" if layout == "single" else "content"
            append(decisions_file(tmp_path, layout), json.dumps({"type": kind, inner: data}) + "\n")
    session = opened(tmp_path)
    assert session.get(wanted).content == "Step one"
    assert session.get("STATE-ada").state == {"step": 2}
    session.update(wanted, topic="plans")
    session.add("agent_state", agent="ada", state={"step": 3})
    seen = opened(tmp_path)
    assert (seen.get(wanted).content, seen.get(wanted).topic) == ("Step one", "plans")
    assert seen.get("STATE-ada").state == {"step": 3}
    assert seen.validate().ok


def test_typed_entry_with_merge_markers_in_its_file_can_be_read_but_not_changed(tmp_path: Path, layout: str) -> None:
    path = with_typed(tmp_path, layout)
    other = typed(layout, "Sessions last 9 hours")
    with path.open("a") as file:
        file.write(f"<<<<<<< HEAD\n{other}=======\n{typed(layout, 'Cookies are strict')}>>>>>>> other\n")
    session = opened(tmp_path)
    assert {TEXT, "Sessions last 9 hours", "Cookies are strict"} <= set(texts(session))
    with pytest.raises(SMPError, match="merge"):
        session.update("DEC-0004", topic="web")
    session.repair()
    assert session.update("DEC-0004", topic="web").topic == "web"


def test_conversion_keeps_typed_entries(tmp_path: Path, layout: str) -> None:
    with_typed(tmp_path, layout)
    memory = smp_memory.open(tmp_path)
    memory = memory.convert("jsonl" if layout != "jsonl" else "markdown")
    assert memory.session("s1").get("DEC-0004").decision == TEXT


def test_signed_entry_that_lost_its_id_is_damage_and_not_a_new_memory(tmp_path: Path, layout: str) -> None:
    filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    text = path.read_text()
    mark = "- id: DEC-0002" if layout == "markdown" else '"id":"DEC-0002"'
    path.write_text(text.replace(mark, mark.replace("id", "ie")))
    session = opened(tmp_path)
    assert texts(session) == ["Use OAuth", "Use Python"]
    (problem,) = [each for each in session.validate().problems if each.severity == "error"]
    assert "checksum" in problem.message
