"""Two clones of a store write the same session, and their files are merged: each memory keeps its identity."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES, layout_named
from tests.conformance.clones import SESSION, clone, memory_files, opened, said, serious, united

pytestmark = pytest.mark.parametrize("layout", NAMES)


def base_store(tmp_path: Path, layout: str) -> Path:
    with smp_memory.open(tmp_path / "base", layout=layout) as memory:
        session = memory.create_session(SESSION)
        session.add("finding", finding="Common finding", author="ada")
        session.add("preference", preference="tabs", key="indent", author="ada")
    return tmp_path / "base"


def merged(tmp_path: Path, layout: str, *writers: Callable[[smp_memory.SessionMemory], Any]) -> list[Path]:
    """The union of what the writers did in clones of one store, in every order of the clones."""
    base = base_store(tmp_path, layout)
    before = memory_files(base)
    sides = []
    for number, write in enumerate(writers):
        side = clone(base, tmp_path / f"side{number}")
        session = opened(side)
        write(session)
        session.memory.close()
        sides.append(side)
    return [
        united(before, list(order), tmp_path / f"merged{number}", layout)
        for number, order in enumerate(permutations(sides))
    ]


def facts(session: smp_memory.SessionMemory) -> dict[str, Any]:
    return {
        said(record): (record.id, getattr(record, "status", None), [each["target"] for each in record.relations])
        for record in session.records()
    }


def by_text(session: smp_memory.SessionMemory, text: str) -> Any:
    return next(record for record in session.records(include_deleted=True) if said(record) == text)


def write_a(session: smp_memory.SessionMemory) -> None:
    finding = session.add("finding", finding="A: password in log", severity="critical", author="a")
    session.add("decision", decision="A decides", author="a", relations=[{"kind": "about", "target": finding.id}])


def write_b(session: smp_memory.SessionMemory) -> None:
    finding = session.add("finding", finding="B: typo", author="b")
    session.update(finding.id, status="resolved", by="b")
    session.add("decision", decision="B decides", author="b")
    session.relate("DEC-0001", finding.id, "about")


def check_both(session: smp_memory.SessionMemory) -> None:
    ids = {name: id for name, (id, _, _) in facts(session).items()}
    assert ids["A: password in log"] != ids["B: typo"]
    assert facts(session) == {
        "Common finding": ("FIND-0001", "open", []),
        "tabs": ("PREF-0001", None, []),
        "A: password in log": (ids["A: password in log"], "open", []),
        "B: typo": (ids["B: typo"], "resolved", []),
        "A decides": (ids["A decides"], "active", [ids["A: password in log"]]),
        "B decides": (ids["B decides"], "active", [ids["B: typo"]]),
    } | {name: value for name, value in facts(session).items() if name.startswith("later")}
    for text, id in ids.items():
        assert said(session.get(id)) == text


def test_resolution_stays_with_the_finding_it_was_made_for(tmp_path: Path, layout: str) -> None:
    seen = []
    for root in merged(tmp_path, layout, write_a, write_b):
        session = opened(root)
        check_both(session)
        assert serious(session) == []
        seen.append(facts(session))
    assert seen[0] == seen[1]
    assert seen[0]["A: password in log"][0] == "FIND-0002"
    assert seen[0]["B: typo"][0] == "FIND-0003"


def test_ids_stay_after_the_next_write_and_after_repair(tmp_path: Path, layout: str) -> None:
    for root in merged(tmp_path, layout, write_a, write_b):
        session = opened(root)
        before = facts(session)
        assert session.add("finding", finding="later 1", author="c").id == "FIND-0004"
        session.add("turn", content="later 2", author="c")
        assert {name: value for name, value in facts(session).items() if not name.startswith("later")} == before
        assert session.validate().problems == []
        session.memory.close()
        again = opened(root)
        check_both(again)
        assert again.validate().problems == []
        assert again.repair().problems == []
        check_both(again)
        last = again.records("finding", last=1)
        assert [said(each) for each in last] == ["later 1"]


def test_index_finds_both_memories_of_one_id(tmp_path: Path, layout: str) -> None:
    for root in merged(tmp_path, layout, write_a, write_b):
        session = opened(root)
        for _ in range(2):
            found = {said(hit): hit for hit in session.memory.query("password typo decides")}
            ids = {name: id for name, (id, _, _) in facts(session).items()}
            assert found["B: typo"].id == ids["B: typo"]
            assert found["A: password in log"].id == ids["A: password in log"]
            assert found["B decides"].relations[0]["target"] == ids["B: typo"]
            assert found["A decides"].relations[0]["target"] == ids["A: password in log"]
            session.update(ids["B: typo"], category="later", by="c")
            assert session.get(ids["B: typo"]).category == "later"


def test_memory_of_doubled_id_can_be_changed_deleted_and_erased(tmp_path: Path, layout: str) -> None:
    for root in merged(tmp_path, layout, write_a, write_b):
        session = opened(root)
        session.update("FIND-0003", finding="B: corrected", by="c")
        assert said(session.get("FIND-0002")) == "A: password in log"
        assert said(session.get("FIND-0003")) == "B: corrected"
        session.delete("FIND-0003", by="c")
        assert "B: corrected" not in facts(session)
        session.restore("FIND-0003")
        session.erase("FIND-0003", reason="asked for")
        assert "A: password in log" in facts(session)
        assert "B: corrected" not in facts(session)
        assert [each.severity for each in session.validate().problems if each.severity == "error"] == []


def test_line_doubled_by_cherry_pick_counts_once(tmp_path: Path, layout: str) -> None:
    base = base_store(tmp_path, layout)
    before = memory_files(base)
    side = clone(base, tmp_path / "side")
    session = opened(side)
    write_b(session)
    expected = facts(session)
    session.memory.close()
    root = united(before, [side, side], tmp_path / "merged", layout)
    session = opened(root)
    assert facts(session) == expected
    assert serious(session) == []
    session.add("turn", content="later", author="c")
    session.repair()
    assert {name: value for name, value in facts(session).items() if name != "later"} == expected
    assert session.validate().problems == []


def test_concurrent_changes_of_different_fields_are_both_kept(tmp_path: Path, layout: str) -> None:
    roots = merged(
        tmp_path,
        layout,
        lambda session: session.update("FIND-0001", severity="high", by="a"),
        lambda session: session.update("FIND-0001", category="logs", by="b"),
    )
    for root in roots:
        session = opened(root)
        record = session.get("FIND-0001")
        assert (record.severity, record.category) == ("high", "logs")
        assert session.validate().problems == []
        session.update("FIND-0001", severity="low", by="c")
        assert session.validate().problems == []


def test_concurrent_changes_of_one_field_are_reported_until_settled(tmp_path: Path, layout: str) -> None:
    roots = merged(
        tmp_path,
        layout,
        lambda session: session.update("FIND-0001", severity="high", by="a"),
        lambda session: session.update("FIND-0001", severity="low", by="b"),
    )
    values = set()
    for root in roots:
        session = opened(root)
        values.add(session.get("FIND-0001").severity)
        assert [each.code for each in session.validate().problems] == ["conflicting_change"]
        session.add("turn", content="later", author="c")
        session.update("FIND-0001", category="x", by="c")
        assert [each.code for each in session.validate().problems] == ["conflicting_change"]
        session.update("FIND-0001", severity="medium", by="c")
        assert session.validate().problems == []
        session.memory.close()
        assert opened(root).validate().problems == []
    assert len(values) == 1


def test_agent_state_of_two_clones_is_one_memory(tmp_path: Path, layout: str) -> None:
    roots = merged(
        tmp_path,
        layout,
        lambda session: session.add("agent_state", agent="veritas", state={"step": 1}, author="veritas"),
        lambda session: session.add("agent_state", agent="veritas", state={"step": 2}, author="veritas"),
    )
    states = []
    for root in roots:
        session = opened(root)
        records = session.records("agent_state")
        assert [record.id for record in records] == ["STATE-veritas"]
        states.append(records[0].state)
        assert serious(session) == []
        session.add("agent_state", agent="veritas", state={"step": 3}, author="veritas")
        assert session.get("STATE-veritas").state == {"step": 3}
        hits = session.memory.query(types="agent_state")
        assert [hit.state for hit in hits] == [{"step": 3}]
        assert serious(session) == []
    assert states[0] == states[1]


def test_preferences_of_one_key_in_two_clones_are_reported_and_the_later_one_is_used(
    tmp_path: Path, layout: str
) -> None:
    roots = merged(
        tmp_path,
        layout,
        lambda session: session.add("preference", preference="en", key="language", author="a"),
        lambda session: session.add("preference", preference="de", key="language", author="b"),
    )
    for root in roots:
        session = opened(root)
        assert [each.code for each in session.validate().problems if each.code != "duplicate_id"] == ["same_preference"]
        session.add("preference", preference="fr", key="language", author="c")
        assert {said(each) for each in session.records("preference")} == {"tabs", "en", "fr"}


def test_three_clones_keep_three_memories_of_one_id(tmp_path: Path, layout: str) -> None:
    def writer(name: str) -> Callable[[smp_memory.SessionMemory], None]:
        def write(session: smp_memory.SessionMemory) -> None:
            finding = session.add("finding", finding=f"{name} finds", author=name)
            session.add("turn", content=f"{name} says", author=name)
            session.update(finding.id, category=name, by=name)
            session.add("learning", learning=f"{name} learns", author=name, references=[finding.id])

        return write

    seen = []
    for root in merged(tmp_path, layout, writer("a"), writer("b"), writer("c")):
        session = opened(root)
        for name in "abc":
            finding = by_text(session, f"{name} finds")
            assert finding.category == name
            assert by_text(session, f"{name} learns").references == [finding.id]
        assert serious(session) == []
        seen.append([(record.id, said(record), record.revision) for record in session.records()])
        session.add("finding", finding="later", author="x")
        assert session.validate().problems == []
        assert len({record.id for record in session.records("finding")}) == 5
    assert all(each == seen[0] for each in seen)


def test_merged_session_is_exported_imported_and_converted_with_its_ids(tmp_path: Path, layout: str) -> None:
    for number, root in enumerate(merged(tmp_path, layout, write_a, write_b)):
        session = opened(root)
        expected = facts(session)
        other = smp_memory.open(tmp_path / f"other{number}")
        other.import_(session.memory.export(format="jsonl"))
        assert facts(other.session(SESSION)) == expected
        assert other.session(SESSION).validate().problems == []
        session.memory.convert("log" if layout != "log" else "markdown")
        assert facts(opened(root)) == expected
        assert serious(opened(root)) == []


def test_own_id_of_two_clones_gets_a_suffix(tmp_path: Path, layout: str) -> None:
    roots = merged(
        tmp_path,
        layout,
        lambda session: session.add("decision", decision="A", id="auth", author="a"),
        lambda session: session.add("decision", decision="B", id="auth", author="b"),
    )
    for root in roots:
        session = opened(root)
        assert {record.id: said(record) for record in session.records("decision")} == {"auth": "A", "auth-2": "B"}
        session.update("auth-2", rationale="why", by="c")
        assert session.get("auth-2").rationale == "why"
        assert session.validate().problems == []


def test_new_number_is_not_that_of_a_memory_in_the_cold_segment(tmp_path: Path, layout: str) -> None:
    """The numbers in the head count: a doubled id is not shown under one that was given out."""
    roots = merged(tmp_path, layout, write_a, write_b)
    info = opened(roots[0]).info
    info.generation, info.numbers = 1, {"FIND": 7}
    head, name = layout_named(layout).encode_info(info), layout_named(layout).info_file
    path = next(path for path in roots[0].rglob("*") if path.name == (name or f"{SESSION}.jsonl"))
    path.write_bytes(head if name else path.read_bytes() + head)
    assert by_text(opened(roots[0]), "B: typo").id == "FIND-0008"


def test_erasing_one_memory_of_a_doubled_id_leaves_references_to_the_other(tmp_path: Path, layout: str) -> None:
    root = merged(tmp_path, layout, write_a, write_b)[0]
    session = opened(root)
    session.erase("FIND-0003", reason="asked for")
    assert by_text(session, "A decides").relations[0]["target"] == "FIND-0002"
    assert [each.code for each in session.validate().problems if each.severity == "warning"] == ["dangling_reference"]


def test_one_line_edited_on_two_branches_is_an_error_that_names_both_lines(tmp_path: Path, layout: str) -> None:
    base = base_store(tmp_path, layout)
    name = next(name for name, data in memory_files(base).items() if b"Common finding" in data)
    ours, theirs = clone(base, tmp_path / "ours"), clone(base, tmp_path / "theirs")
    data = (base / name).read_bytes()
    codec = layout_named(layout).codec_of(Path(name).name)
    piece = next(
        each for each in codec.decode(data) if each.fields and b"Common finding" in data[each.start : each.end]
    )
    entry = data[piece.start : piece.end]
    edited = [entry.replace(b"Common finding", text) for text in (b"Ours edits it", b"Theirs edits")]
    for root, order in ((ours, edited), (theirs, edited[::-1])):
        (root / name).write_bytes(data[: piece.start] + order[0] + b"\n" + order[1] + data[piece.end :])
        session = opened(root)
        problem = next(each for each in session.validate().problems if each.code == "conflicting_put")
        assert problem.severity == "error"
        assert f"{root / name}:" in problem.message
    assert [said(opened(root).get("FIND-0001")) for root in (ours, theirs)] == ["Ours edits it"] * 2


def test_session_made_in_two_clones_has_the_memories_of_both(tmp_path: Path, layout: str) -> None:
    sides = []
    for name in ("a", "b"):
        with smp_memory.open(tmp_path / name, layout=layout) as memory:
            session = memory.create_session(SESSION)
            assert session.info.uid
            session.add("turn", content=f"{name} says", author=name)
            turn = session.add("turn", content=f"{name} goes on", author=name)
            session.add("decision", decision=f"{name} decides", author=name, turn_ref=turn.id)
        sides.append(tmp_path / name)
    for number, order in enumerate(permutations(sides)):
        session = opened(united({}, list(order), tmp_path / f"merged{number}", layout))
        assert len(session.records()) == 6
        for name in "ab":
            assert by_text(session, f"{name} decides").turn_ref == by_text(session, f"{name} goes on").id
        assert serious(session) == []
        assert ("united_session" in {each.code for each in session.validate().problems}) is (layout == "single")


def test_snapshot_of_an_earlier_time_has_the_ids_that_are_shown_now(tmp_path: Path, layout: str) -> None:
    for root in merged(tmp_path, layout, write_a, write_b):
        session = opened(root)
        moment = session.get("FIND-0003").created
        session.update("FIND-0003", finding="B: corrected", by="c")
        assert said(session.as_of(moment).get("FIND-0003")) == "B: typo"
        steps = session.history("FIND-0003")
        assert [step["op"] for step in steps] == ["put", "change", "change"]
        assert not any("id" in step["changes"] for step in steps)  # a rename is upkeep
