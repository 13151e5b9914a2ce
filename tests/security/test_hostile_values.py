"""Entries with values of any type and size cost themselves only, also with the right checksum; files of any size cost bounded work.

The daily run plants one value into each field, another one in each field and layout; SMP_SOAK=1 plants every value into every field.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files import file_state
from smp_memory.files.codec import signature
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.model.entry import CHANGE, DELETE, RESTORE
from smp_memory.model.types import KINDS
from tests.crash.scenarios import SOAK
from tests.security import hostile_values
from tests.security.hostile_values import MACHINE, OTHER, SESSION, SIGNED, STATES, VALUES, Planter, fields_of, use

AMENDED = (*KINDS["decision"].rank, "updated", "updated_by", "deleted", "deleted_by", "restored", "restored_by", "reason", "changes", *MACHINE)  # fmt: skip
LARGE = ("long text",)  # planted into few fields
OF_LARGE = ("author", "topic", "tags", "unknown", "created")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))
    for name in ("SMP_ROOT", "SMP_SESSION"):
        monkeypatch.delenv(name, raising=False)


def planted(root: Path, layout: str, state: str, values: list[str], step: int) -> Planter:
    """A store with one value in each field, in turn; `step` 0 plants the first value into all fields."""
    hostile_values.make_store(root, layout)
    planter = Planter(root, layout, state)
    number = 0
    for kind in KINDS:
        for name in fields_of(kind):
            number += step
            chosen = values[number % len(values)]
            if chosen not in LARGE or name in OF_LARGE:
                planter.put(kind, name, VALUES[chosen])
    for op in (CHANGE, DELETE, RESTORE):
        for name in AMENDED:
            number += step
            if values[number % len(values)] not in LARGE:
                planter.amend(op, name, VALUES[values[number % len(values)]])
    assert planter.count or set(values) <= {"very deep"}  # which no encoder can write
    return planter


@pytest.mark.parametrize(
    ("layout", "state"), [("jsonl", SIGNED), ("markdown", SIGNED), ("log", "edited"), ("single", "unsigned")]
)
def test_values_of_any_type_in_any_field_cost_their_entry_only(tmp_path: Path, layout: str, state: str) -> None:
    values = [name for name in VALUES if name not in LARGE]
    planted(tmp_path / "store", layout, state, values, 7)
    assert use(tmp_path / "store", writes=layout == "jsonl", most=2) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("layout", "state", "value"),
    [(layout, state, value) for layout in NAMES for state in STATES for value in VALUES] if SOAK else [],
)
def test_every_value_in_every_field_costs_its_entry_only(tmp_path: Path, layout: str, state: str, value: str) -> None:
    planted(tmp_path / "store", layout, state, [value], 0)
    assert use(tmp_path / "store", writes=True) == []


# -- one entry, reported with file and line


@pytest.mark.parametrize(
    ("name", "value"),
    [("created", 1770000000), ("created", "yesterday"), ("relations", 7), ("tags", [[1]]), ("author", {"a": 1}), ("id", 7)],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["jsonl", "log", "single"])
def test_signed_entry_with_a_wrong_value_is_reported_with_its_line(
    tmp_path: Path, layout: str, name: str, value: Any
) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, layout)
    Planter(root, layout, SIGNED).put("decision", name, value)
    with smp_memory.open(root) as memory:
        [problem] = [each for each in memory.session(SESSION).validate().problems if each.severity == "error"]
        assert problem.code == "invalid"
        assert "PLANTEDTEXT" in Path(problem.path).read_text().splitlines()[problem.line - 1]
        hits = memory.query("deploy", limit=100, min_relevance=0)
        assert {f"{SESSION}/DEC-0001", f"{OTHER}/DEC-0001"} <= {hit.record.ref for hit in hits}
        assert [(each.path, each.line) for each in hits.problems] == [(problem.path, problem.line)]


def test_change_that_states_another_type_is_checked_as_one_of_its_memory(tmp_path: Path) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, "log")
    Planter(root, "log", SIGNED).amend(CHANGE, "agreed_by", [[1]], kind="finding")
    with smp_memory.open(root) as memory:
        session = memory.session(SESSION)
        assert session.get("DEC-0001").agreed_by == []
        assert [each.code for each in session.validate().problems if each.severity == "error"] == ["invalid"]


def test_value_that_a_caller_may_store_can_be_read_again(tmp_path: Path) -> None:
    fields = ("approved_by", "agreed_by", "visibility", "trust", "author_kind", "access", "key", "agent", "role", "own")
    for name in fields:
        with smp_memory.open(tmp_path / name) as memory:
            for value in (7, True, "text", ["a", "b"], {"a": 1}, [{"a": 1}]):
                try:
                    record = memory.create_session().add("preference", {"key": "k", "value": "v", name: value})
                except SMPError:
                    continue
                with smp_memory.open(tmp_path / name) as again:
                    assert again.get(record.ref) == record


# -- metadata, settings and shared files


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single"])
def test_metadata_with_values_of_any_type_costs_its_session_only(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, layout)
    names = ("created_at", "user_id", "agent_ids", "status", "metadata", "context", "config", "smp", "participants", "tags", "own")  # fmt: skip
    values = [value for name, value in VALUES.items() if name not in (*LARGE, "very deep")]
    for number in range(len(values) if SOAK else 3):
        for place, name in enumerate(names):
            _write_metadata(root, layout, name, values[(number * 5 + place) % len(values)])
            with smp_memory.open(root) as memory:
                assert memory.session(OTHER).get("DEC-0001").text.startswith("Deploy")
                for call in (
                    memory.query,
                    memory.validate,
                    memory.session_states,
                    lambda: memory.session(SESSION).info,
                ):
                    _without_foreign_error(call)
    if SOAK:
        assert use(root, writes=False, most=1) == []


def _without_foreign_error(call: Any) -> None:
    try:
        repr(call())
    except SMPError:
        pass


def _write_metadata(root: Path, layout: str, name: str, value: Any) -> None:
    data = {"id": SESSION, "session_id": SESSION, "type": "session", "created_at": "2026-01-01T00:00:00Z", name: value}
    text = json.dumps(data)
    folder = Path(layout_named(layout).folder(str(root), SESSION))
    if layout == "single":
        with (folder / f"{SESSION}.jsonl").open("a") as file:
            file.write(text + "\n")
    elif layout == "markdown":
        (folder / "metadata.yaml").write_text(f"session: {text}\n")
    else:
        (folder / "manifest.json").write_text(text)


def test_shared_file_with_values_of_any_type_does_no_harm(tmp_path: Path) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, "jsonl")
    (root / "shared").mkdir()
    for value in (7, {"a": 1}, [[]], "yesterday", {"tags": {"a": [1]}, "author": [1], "relations": 7}):
        fields = {"a": value, "b": {"value": 1, "author": value}}
        (root / "shared" / "user-preferences.json").write_text(json.dumps(fields))
        with smp_memory.open(root) as memory:
            repr([memory.global_memory.preferences(), memory.context(task="deploy").text, memory.doctor()])
            assert memory.query("deploy").ids


# -- sizes


def test_file_beyond_the_limit_is_reported_and_other_files_are_read(tmp_path: Path) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, "jsonl")
    with (root / "sessions" / SESSION / "findings.jsonl").open("ab") as file:
        file.truncate((256 << 20) + 1)
    with smp_memory.open(root) as memory:
        session = memory.session(SESSION)
        assert session.get("DEC-0001").text.startswith("Deploy")
        [problem] = [each for each in session.validate().problems if each.severity == "error"]
        assert (problem.code, Path(problem.path).name) == ("too_large", "findings.jsonl")
        assert "256 MiB" in problem.message
        assert memory.query("deploy").ids


def test_session_beyond_the_limit_costs_its_largest_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, "jsonl")
    monkeypatch.setattr(file_state, "SESSION_LIMIT_BYTES", 1 << 20)
    findings = root / "sessions" / SESSION / "findings.jsonl"
    with findings.open("ab") as file:
        file.truncate(2 << 20)
    before = findings.read_bytes()
    for lock in root.rglob("lock"):
        lock.unlink()  # as in a clone
    with smp_memory.open(root) as memory:
        session = memory.session(SESSION)
        assert session.get("DEC-0001").text.startswith("Deploy")
        assert memory.query("deploy").ids
        assert memory.context(task="deploy")
        [problem] = [each for each in session.validate().problems if each.severity == "error"]
        assert (problem.code, Path(problem.path).name) == ("too_large", "findings.jsonl")
        for write in (lambda: session.add_decision("refused"), session.repair):
            with pytest.raises(SMPError, match="1 MiB"):
                write()
        memory.session(OTHER).add_decision("accepted")
    assert findings.read_bytes() == before


@pytest.mark.parametrize("layout", ["jsonl", "single"])
def test_line_beyond_the_limit_is_reported_and_its_neighbours_are_read(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, layout)
    planter = Planter(root, layout, SIGNED)
    planter.put("decision", "unknown", "x" * (17 << 20))
    planter.put("decision", "unknown", "small")
    with smp_memory.open(root) as memory:
        session = memory.session(SESSION)
        assert {"DEC-0001", "DEC-1002"} == {record.id for record in session.records("decision")}
        [problem] = [each for each in session.validate().problems if each.severity == "error"]
        assert "16 MiB" in problem.message


@pytest.mark.parametrize(("layout", "file"), [("jsonl", "manifest.json"), ("markdown", "metadata.yaml")])
def test_metadata_beyond_the_limit_costs_its_session_only(tmp_path: Path, layout: str, file: str) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, layout)
    with (Path(layout_named(layout).folder(str(root), SESSION)) / file).open("ab") as opened:
        opened.write(b"#" * (5 << 20))
    with smp_memory.open(root) as memory:
        with pytest.raises(SMPError, match="4 MiB"):
            _ = memory.session(SESSION).info
        assert memory.query("deploy", sessions=OTHER).ids


def test_settings_beyond_the_limit_count_as_damaged(tmp_path: Path) -> None:
    root = tmp_path / "store"
    hostile_values.make_store(root, "jsonl")
    with (root / "config.json").open("ab") as file:
        file.write(b" " * (5 << 20))
    with smp_memory.open(root) as memory:
        assert memory.query("deploy").ids
        with pytest.raises(SMPError, match=r"config\.json.*4 MiB"):
            memory.session(SESSION).add_decision("refused")


@pytest.mark.parametrize("line", ['**Tags:** ["\\ud800"]', '**Topic:** "a\\ud800"', '**Extra:** {"zz":"\\ud800"}'])
def test_half_a_surrogate_pair_in_a_markdown_block_costs_its_entry_only(tmp_path: Path, line: str) -> None:
    with smp_memory.open(tmp_path, layout="markdown") as memory:
        memory.create_session("s1").add_turn("user", "Deploy on Fridays")
    path = tmp_path / "active/s1/conversation.md"
    path.write_text(path.read_text() + f"\n## Turn 9\n{line}\n\nplanted\n")
    with smp_memory.open(tmp_path) as memory:
        assert [hit.record.text for hit in memory.query("deploy")] == ["Deploy on Fridays"]
        assert memory.context(task="deploy")
        assert [problem.code for problem in memory.session("s1").validate().problems] == ["damaged"]


@pytest.mark.parametrize("change", [{"created": {}}, {"created": 7}, {"type": []}, {"updated": {}}, {"agreed_by": 7}])
def test_change_of_a_fact_to_a_wrong_type_costs_nothing_else(tmp_path: Path, change: dict[str, Any]) -> None:
    with smp_memory.open(tmp_path) as memory:
        session = memory.create_session("s1")
        session.add_decision("Deploy on Fridays")
        session.add_decision("Deploy never")
    path = tmp_path / "sessions/s1/decisions.jsonl"
    fields = {
        "id": "DEC-0002",
        "seq": 9,
        "revision": 2,
        "updated": "2026-02-01T00:00:00Z",
        "changes": change,
        "schema": 1,
    }
    body = json.dumps(fields, separators=(",", ":"))[:-1].encode()
    path.write_bytes(path.read_bytes() + body + f',"checksum":"{signature(body)}"}}\n'.encode())
    with smp_memory.open(tmp_path) as memory:
        assert "DEC-0001" in [
            hit.record.id for hit in memory.query("deploy", where={"decision": {"contains": "Fridays"}})
        ]
        assert memory.timeline()
        assert memory.session("s1").get("DEC-0001").created
        if "agreed_by" in change:
            memory.session("s1").anonymised_record("DEC-0002")


@pytest.mark.parametrize("layout", NAMES)
def test_deletion_at_the_end_of_time_stops_no_maintenance(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, layout=layout, clock=lambda: datetime(9999, 12, 31, 23, 59, tzinfo=UTC)) as memory:
        session = memory.create_session("s1")
        session.delete(session.add_decision("Gone").id)
    with smp_memory.open(tmp_path) as memory:
        assert memory.maintain()
        assert memory.session("s1").restore("DEC-0001")


def test_line_of_many_beginnings_is_read_in_bounded_time(tmp_path: Path) -> None:
    """Each beginning of an entry was tried with all of the rest of the line, which took hours."""
    root = tmp_path / "store"
    hostile_values.make_store(root, "jsonl")
    with (root / "sessions" / SESSION / "decisions.jsonl").open("ab") as file:
        file.write(b'{"id":"' * 600_000 + b',"checksum":"x"}\n')
    with smp_memory.open(root) as memory:
        assert memory.session(SESSION).get("DEC-0001").text.startswith("Deploy")
        assert [each.code for each in memory.session(SESSION).validate().problems if each.severity == "error"] == [
            "damaged"
        ]
