"""Memories keep their identity and their changes when a person edits ids, machine lines or types entries with taken ids."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import decisions_file, filled, opened, texts, turns_file, visible
from tests.conformance.test_typed_entries import append

pytestmark = pytest.mark.parametrize("layout", NAMES)


def typed_with_id(layout: str, id: str, decision: str) -> str:
    """A decision with an id but without a time."""
    if layout == "markdown":
        return f"\n  - id: {id}\n    decision: {decision}\n"
    if layout == "jsonl":
        return f'{{"id": "{id}", "decision": "{decision}"}}\n'
    name = "data" if layout == "single" else "content"
    return f'{{"id": "{id}", "type": "decision", "{name}": {{"decision": "{decision}"}}}}\n'


def with_id_changed_in_first_entry(root: Path, layout: str, old: str, new: str) -> None:
    """Give a memory another id in its first entry only, as a person does who looks at that entry."""
    path = decisions_file(root, layout)
    data = path.read_text()
    assert data.count(old) > 1
    path.write_text(data.replace(old, new, 1))


def test_changes_follow_a_memory_whose_id_was_changed_by_hand(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.update("DEC-0002", rationale="Joins", by="bob")
    with_id_changed_in_first_entry(tmp_path, layout, "DEC-0002", "DEC-0077")
    for look in (session, opened(tmp_path)):
        assert texts(look) == ["Use OAuth", "Use Postgres", "Use Python"]
        record = look.get("DEC-0077")
        assert (record.decision, record.rationale, record.revision) == ("Use Postgres", "Joins", 2)
        assert [problem.code for problem in look.validate().problems] == ["edited"]
    writer = opened(tmp_path)
    writer.update("DEC-0077", impact="high", by="bob")
    writer.delete("DEC-0077", "not needed")
    again = opened(tmp_path)
    assert [step["op"] for step in again.history("DEC-0077")] == ["put", "change", "change", "delete"]
    assert again.find("DEC-0002") is None
    assert [problem.code for problem in again.validate().problems] == ["edited"]


def test_changes_of_a_memory_whose_id_was_changed_by_hand_are_erased_with_it(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    session.update("DEC-0002", rationale="Confidential reasons", by="bob")
    with_id_changed_in_first_entry(tmp_path, layout, "DEC-0002", "DEC-0077")
    assert opened(tmp_path).erase("DEC-0077").complete
    assert not [name for name, data in visible(tmp_path).items() if b"Confidential" in data or b"Postgres" in data]


def test_copied_entry_with_a_new_id_and_text_is_a_memory_of_its_own(tmp_path: Path, layout: str) -> None:
    """Both keep the uid; what is said of the first one is not said of the copy."""
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    data = path.read_text()
    begin = data.index("  - id: DEC-0002" if layout == "markdown" else '{"id":"DEC-0002"')
    end = data.index("  - id: DEC-0003" if layout == "markdown" else '{"id":"DEC-0003"')
    path.write_text(data + data[begin:end].replace("DEC-0002", "DEC-0050").replace("Use Postgres", "Use SQLite"))
    session.update("DEC-0002", rationale="Joins")
    look = opened(tmp_path)
    assert (look.get("DEC-0002").decision, look.get("DEC-0002").rationale) == ("Use Postgres", "Joins")
    assert (look.get("DEC-0050").decision, look.get("DEC-0050").rationale) == ("Use SQLite", None)


@pytest.mark.parametrize("action", ["write", "repair", "archive", "convert"])
def test_typed_entry_does_not_take_the_id_of_a_stored_memory_of_the_same_second(
    tmp_path: Path, layout: str, action: str
) -> None:
    """A typed entry gets the file's time in whole seconds, which may be before the time of the stored memory."""
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    append(path, typed_with_id(layout, "DEC-0002", "Use SQLite"))
    early = int(session.get("DEC-0002").created.timestamp()) - 60
    os.utime(path, (early, early))
    session = opened(tmp_path)
    before = {record.id: record.decision for record in session.records("decision")}
    assert (before["DEC-0002"], before["DEC-0004"]) == ("Use Postgres", "Use SQLite")
    if action == "write":
        session.update("DEC-0001", rationale="Known")
    elif action == "repair":
        session.repair()
    elif action == "convert":
        session.memory.convert("log" if layout == "jsonl" else "jsonl").close()
    else:
        session.memory.archive_session("s1")
    assert {record.id: record.decision for record in opened(tmp_path).records("decision")} == before


@pytest.mark.parametrize(
    "form",
    ["  - {decision: Use SQLite, made_by: ada}", "  -\n    decision: Use SQLite", "  - \n      decision: Use SQLite"],
)
def test_typed_entry_in_another_yaml_form_keeps_its_text_and_can_be_tidied(
    tmp_path: Path, layout: str, form: str
) -> None:
    if layout != "markdown":
        pytest.skip("other layouts have no YAML")
    filled(tmp_path, layout).update("DEC-0001", rationale="Known")
    path = decisions_file(tmp_path, layout)
    append(path, f"\n{form}\n")
    session = opened(tmp_path)
    assert session.tidy().ids == ["DEC-0001"]
    session.add_decision("Later")
    record = opened(tmp_path).get("DEC-0004")
    assert (record.decision, record.typed_by_hand) == ("Use SQLite", True)
    assert form.split("decision: ")[1] in path.read_text()
    assert [problem.code for problem in opened(tmp_path).validate().problems] == ["unsigned"]


@pytest.mark.parametrize("cut", ["line", "checksum"])
@pytest.mark.parametrize("file", ["decisions", "turns"])
def test_repair_signs_a_last_entry_that_lost_its_machine_line(tmp_path: Path, layout: str, cut: str, file: str) -> None:
    """The writers' notes say that it was written whole, so it is an edit and not an unfinished write."""
    if layout != "markdown":
        pytest.skip("other layouts have no machine line")
    session = filled(tmp_path, layout)
    session.update("DEC-0001", rationale="Known")
    path, begin = {
        "decisions": (decisions_file(tmp_path, layout), "    smp: "),
        "turns": (turns_file(tmp_path, layout), "<!-- end "),
    }[file]
    data = path.read_text()
    path.write_text(data[: data.rindex(begin if cut == "line" else " sha256:")] + "\n")
    before = {record.id: record.given for record in opened(tmp_path).records()}
    opened(tmp_path).repair()
    again = opened(tmp_path)
    assert {record.id: record.given for record in again.records()} == before
    assert [step["op"] for step in again.history("DEC-0001")] == ["put", "change"]
    assert again.validate().ok
