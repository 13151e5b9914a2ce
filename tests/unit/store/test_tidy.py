"""Folding changes into their entries: memories and histories stay the same, and files show the current state."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.memory import Memory, open_memory
from smp_memory.model.rewrite_plan import RewritePlan
from smp_memory.session import SessionMemory
from smp_memory.testing import FrozenClock

VALUES: tuple[Any, ...] = ("a", "two\nlines", 3, 0.5, None, True, ["x", "y: z"], {"k": {"n": [1, None]}}, "before", "")
FIELDS = ("why_so", "note", "history", "smp", "hand", "before", "extra", "tags", "odd name")


def everything(session: SessionMemory, times: list[str] | None = None) -> dict[str, Any]:
    """All that a caller can see: records, histories, and what stood at each moment at which something was written."""
    records = session.records(include_deleted=True)
    histories = {record.id: session.history(record.id) for record in records}
    times = times if times is not None else [step["at"] for steps in histories.values() for step in steps]
    return {
        "records": [(record.to_dict(), record.seq, record.edited, record.updated_by) for record in records],
        "histories": histories,
        "as_of": {at: [record.to_dict() for record in session.as_of(at).records()] for at in times},
    }


def value_of(random_: random.Random, name: str) -> Any:
    return ["tag", "other"][: random_.randrange(3)] if name == "tags" else random_.choice(VALUES)


def act(session: SessionMemory, random_: random.Random, clock: FrozenClock) -> None:
    clock.advance(seconds=random_.choice((0, 0.000001, 0.25, 1, 3600)))
    there = {record.id: record for record in session.records(include_deleted=True)}
    what = random_.randrange(10)
    if what < 3 or not there:
        name = random_.choice(FIELDS)
        value = value_of(random_, name)
        fields = {} if value is None else {name: value}
        kind = random_.choice(("decision", "finding", "artifact"))
        text = {"decision": "decision", "finding": "finding", "artifact": "content"}[kind]
        session.add(
            kind,
            {text: f"text {random_.randrange(1000)}", **({"name": "a.md"} if kind == "artifact" else {}), **fields},
        )
        return
    if what == 3:
        with session.transaction() as tx:
            tx.add_decision("one of two")
            tx.add_finding("two of two", severity="low")
            if "DEC-0001" in there and there["DEC-0001"].deletion is None:
                tx.update("DEC-0001", note=random_.random())
        return
    record = there[random_.choice(list(there))]
    if record.deletion is not None:
        session.restore(record.id)
    elif what == 4:
        session.delete(record.id, random_.choice(("why not", None)))
    elif record.type != "conversation":
        names = random_.sample(FIELDS, random_.randrange(1, 3))
        session.update(record.id, by=random_.choice(("ada", "bo")), **{name: value_of(random_, name) for name in names})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**9))
def test_random_histories_are_equal_before_and_after_tidy(seed: int) -> None:
    random_ = random.Random(seed)
    clock = FrozenClock()
    memory = open_memory(":memory:", layout="markdown", clock=clock)
    session = memory.create_session("s")
    for _ in range(2):
        for _ in range(random_.randrange(4, 14)):
            act(session, random_, clock)
        before = everything(session)
        folded = session.tidy().ids
        assert everything(session, list(before["as_of"])) == before
        session._storage.reader.forget()
        assert everything(session, list(before["as_of"])) == before
        assert session.tidy().ids == []
        report = session.validate()
        assert report.problems == [], report.problems
        live = [
            history
            for history in session._storage.reader.session_history.histories.values()
            if history.deletion is None
        ]
        assert set(folded) <= {history.first.id for history in live}
        assert all(entry.place == history.first.place for history in live for entry in history.entries)


@pytest.mark.parametrize("other", ["jsonl", "single", "log"])
def test_conversion_of_folded_entries_to_another_layout_and_back_is_exact(tmp_path: Path, other: str) -> None:
    clock = FrozenClock()
    memory = open_memory(str(tmp_path / "store"), layout="markdown", clock=clock)
    session = memory.create_session("s")
    random_ = random.Random(7)
    for _ in range(40):
        act(session, random_, clock)
    before = everything(session)
    assert session.tidy().ids
    converted = memory.convert(other)
    assert everything(converted.session("s"), list(before["as_of"])) == before
    back = converted.convert("markdown")
    assert back.session("s").tidy().ids
    assert everything(back.session("s"), list(before["as_of"])) == before


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return smp_memory.open(str(tmp_path / "store"), layout="markdown")


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    session = memory.create_session("s", project="p")
    session.add_decision("Sessions last 12 hours", rationale="first needle")
    session.add_decision("Another one")
    session.update("DEC-0001", decision="Sessions last 8 hours", rationale="second needle", by="ada")
    session.update("DEC-0001", rationale=None, by="bo")
    return session


def text_of(session: SessionMemory, name: str = "decisions.yaml") -> str:
    return Path(session._storage.reader.folder, name).read_text()


def write(session: SessionMemory, text: str, name: str = "decisions.yaml") -> None:
    Path(session._storage.reader.folder, name).write_text(text)


def test_folded_file_shows_current_and_earlier_values(session: SessionMemory) -> None:
    assert session.tidy().ids == ["DEC-0001"]
    first, second = yaml.safe_load(text_of(session))["decisions"]
    assert (first["id"], first["decision"]) == ("DEC-0001", "Sessions last 8 hours")
    assert "rationale" not in first
    assert [(step["revision"], step["by"], step["before"]) for step in first["history"]] == [
        (2, "ada", {"decision": "Sessions last 12 hours", "rationale": "first needle"}),
        (3, "bo", {"rationale": "second needle"}),
    ]
    assert second["decision"] == "Another one"
    assert list(first)[-1] == list(second)[-1] == "smp"


def test_appends_after_tidy_stay_appends(session: SessionMemory) -> None:
    session.tidy()
    before = text_of(session)
    session.update("DEC-0001", status="superseded")
    assert text_of(session).startswith(before)
    assert session.get("DEC-0001").revision == 4
    assert session.tidy().ids == ["DEC-0001"]
    assert session.get("DEC-0001").revision == 4
    assert session.validate().problems == []


def test_tidy_leaves_other_layouts_and_dry_runs_alone(tmp_path: Path, session: SessionMemory) -> None:
    before = text_of(session)
    assert session.tidy(dry_run=True).ids == ["DEC-0001"]
    assert text_of(session) == before
    for layout in ("jsonl", "single", "log"):
        other = smp_memory.open(str(tmp_path / layout), layout=layout).create_session("s")
        other.add_decision("a")
        other.update("DEC-0001", decision="b")
        done = other.tidy()
        assert (done.ids, done.can_fold) == ([], False)


def test_deleted_memory_is_not_folded_and_restored_one_is(session: SessionMemory) -> None:
    session.delete("DEC-0001", "wrong")
    assert session.tidy().ids == []
    session.restore("DEC-0001")
    history = session.history("DEC-0001")
    assert session.tidy().ids == ["DEC-0001"]
    assert session.history("DEC-0001") == history
    assert "deleted: " in text_of(session)


def test_hand_edit_of_a_folded_entry_counts_as_one(memory: Memory, session: SessionMemory) -> None:
    session.tidy()
    write(session, text_of(session).replace("Sessions last 8 hours", "Sessions last 6 hours"))
    record = smp_memory.open(memory.root).session("s").get("DEC-0001")
    assert (record.decision, record.edited, record.revision) == ("Sessions last 6 hours", True, 3)
    assert session.history("DEC-0001")[0]["changes"]["decision"]["to"] == "Sessions last 12 hours"
    assert [problem.code for problem in session.validate().problems] == ["edited"]
    session.update("DEC-0001", status="superseded")
    assert session.tidy().ids == ["DEC-0001"]
    assert session.get("DEC-0001").edited
    session.repair()
    assert [problem.code for problem in session.validate().problems if problem.code != "quarantine"] == []
    assert session.get("DEC-0001").decision == "Sessions last 6 hours"
    assert session.get("DEC-0001").revision == 4


def test_removing_a_folded_change_by_hand_loses_only_that_change(session: SessionMemory) -> None:
    session.tidy()
    text = text_of(session)
    start, end = text.index("      - revision: 2"), text.index("      - revision: 3")
    write(session, text[:start] + text[end:])
    record = session.get("DEC-0001")
    assert (record.decision, record.revision) == ("Sessions last 8 hours", 2)


def test_entry_typed_by_hand_and_changed_later_is_folded(session: SessionMemory) -> None:
    typed = "\n  - id: DEC-0009\n    timestamp: 2026-01-11T14:30:05Z\n    decision: typed"
    write(session, text_of(session) + typed)
    session.update("DEC-0009", decision="changed")
    before = everything(session)
    assert "DEC-0009" in session.tidy().ids
    assert everything(session, list(before["as_of"])) == before


def test_erasure_reaches_into_the_history_of_a_folded_entry(memory: Memory, session: SessionMemory) -> None:
    session.tidy()
    session.erase("DEC-0001", "privacy")
    files = [path for path in Path(memory.root).rglob("*") if path.is_file()]
    assert not [path for path in files if b"needle" in path.read_bytes()]
    assert [record.id for record in session.records()] == ["DEC-0002"]


def test_redaction_reaches_into_the_history_of_a_folded_entry(memory: Memory, session: SessionMemory) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    memory.set_config("privacy.redaction.enabled", False)
    session = smp_memory.open(memory.root).session("s")
    session.update("DEC-0002", rationale=f"token {token}")
    session.update("DEC-0002", rationale="none")
    session.tidy()
    assert token in text_of(session)
    memory.set_config("privacy.redaction.enabled", True)
    session = smp_memory.open(memory.root).session("s")
    session.redact()
    assert token not in text_of(session)
    assert session.get("DEC-0002").revision == 3
    assert session.validate().problems == []


def test_purge_removes_a_folded_entry_that_was_deleted_later(session: SessionMemory) -> None:
    session.tidy()
    session.delete("DEC-0001", "wrong")
    deleted = session.find("DEC-0001").deletion.at
    files = session._storage
    assert files.rewrite(RewritePlan("purging", drop={"DEC-0001": "2020-01-01T00:00:00Z"})).dropped == []
    assert files.rewrite(RewritePlan("purging", drop={"DEC-0001": deleted})).dropped == ["DEC-0001"]
    assert "needle" not in text_of(session)
    assert [record.id for record in session.records(include_deleted=True)] == ["DEC-0002"]


def test_compaction_moves_a_folded_entry_and_restores_it(memory: Memory, session: SessionMemory) -> None:
    clock = FrozenClock(datetime(2025, 6, 1, 10, tzinfo=UTC))
    session = open_memory(memory.root, clock=clock).session("s")
    session.add_finding("settled")
    session.update("FIND-0001", status="resolved")
    session.update("FIND-0001", category="c")
    clock.advance(days=400)
    before = everything(session)
    assert "FIND-0001" in session.tidy().ids
    session.compact(1 << 40)
    moved = [each.id for each in session.archived()]
    assert "FIND-0001" in moved
    session.restore_archived(*moved)
    assert everything(session, list(before["as_of"]))["histories"] == before["histories"]
    session.tidy()
    assert everything(session, list(before["as_of"]))["histories"] == before["histories"]


def test_search_finds_folded_memories_with_complete_records(memory: Memory, session: SessionMemory) -> None:
    session.query("hours")
    session.tidy()
    hit = session.query("8 hours")[0].record
    assert (hit.id, hit.revision, hit.decision) == ("DEC-0001", 3, "Sessions last 8 hours")
    assert smp_memory.open(memory.root).session("s").query("8 hours")[0].record.revision == 3


def test_maintenance_folds_and_reports_it(memory: Memory, session: SessionMemory) -> None:
    report = memory.maintain(only=["tidy"])
    assert [task.did for task in report.tasks if task.name == "tidy"] == [["s: folded the changes of 1 memory"]]
    assert "history:" in text_of(session)
    assert memory.maintain(only=["tidy"]).did == []


def test_tidy_reports_the_folded_entries(
    memory: Memory, session: SessionMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    from smp_memory.cli.main import main

    assert main(["--root", memory.root, "tidy", "--session", "s"]) == 0
    assert "changes of 1 memory merged into their entries" in capsys.readouterr().out
    assert main(["--root", memory.root, "tidy", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["ids"] == []


def test_transaction_marks_do_not_outlive_folding(memory: Memory) -> None:
    """A folded entry at the end of its file looked like an unfinished part of the transaction that changed it."""
    session = memory.create_session("t")
    session.add_decision("one")
    session.add_decision("two")
    with session.transaction() as tx:
        tx.update("DEC-0002", decision="two, changed")
        tx.update("DEC-0001", decision="one, changed")
        tx.add_finding("of the same transaction", severity="low")
    session.tidy()
    fresh = smp_memory.open(memory.root).session("t")
    assert [record.text for record in fresh.records("decision")] == ["one, changed", "two, changed"]
    assert "tx=" not in text_of(session) + text_of(session, "findings.yaml")


def test_hand_edit_of_a_folded_entry_that_a_later_change_overlays_is_reported_once(session: SessionMemory) -> None:
    session.tidy()
    session.update("DEC-0001", decision="Sessions last 9 hours")
    write(session, text_of(session).replace("decision: Sessions last 8 hours", "decision: Sessions last 6 hours", 1))
    found = [problem for problem in session.validate().problems if problem.code == "overlaid"]
    assert len([problem for problem in found if "`decision`" in problem.message]) == 1
    assert session.get("DEC-0001").decision == "Sessions last 9 hours"
