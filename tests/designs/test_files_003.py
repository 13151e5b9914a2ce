"""Files in the shapes of designs 002 and 003, with values of our own."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import yaml

import smp_memory

STATE = """\
# notes of an agent
agent_state:
  agent_id: "veritas"
  session_id: "s1"
  last_updated: "2026-02-03T09:00:00Z"

  # what it does now
  current_context:
    current_task: "read_ledger"
    active_artifacts:
      - path: "/docs/ledger.md"
        status: "reviewed"

  working_memory:
    concerns_identified:
      - "Totals differ"
      - "No currency"
    verification_summary:
      critical: 1
      all_resolved: false

  session_learnings:
    - "Totals need a currency"

  memory_refs:
    findings_created: ["FIND-001"]

  decay:
    priority: 0.9
    last_accessed: "2026-02-03T10:00:00Z"
    access_count: 4
"""
DECISIONS = """\
decisions:
  - id: "DEC-001"
    timestamp: "2026-02-03T09:00:00Z"
    turn_ref: 2
    made_by: "architect"
    agreed_by: ["veritas"]

    decision: "Keep totals in cents"
    rationale: "No rounding"
    alternatives_considered:
      - option: "Floats"
        rejected_because: "They round"

    confidence: "high"
    reversible: false  # would need a migration
    implementation_impact: "high"

    tags: ["ledger", "money"]

    decay:
      priority: 1.0
      last_accessed: "2026-02-03T11:00:00Z"
      access_count: 5
"""
FINDINGS = """\
findings:
  - id: "FIND-001"
    timestamp: "2026-02-03T09:05:00Z"
    turn_ref: 2
    discovered_by: "veritas"
    severity: "critical"
    category: "missing_requirement"
    finding: "No currency is named"
    location:
      artifact: "/docs/ledger.md"
      line_numbers: [4, 9]
    resolution:
      status: "open"
      next_steps: "Ask the owner"
    tags: ["money"]
    decay:
      priority: 1.0
      last_accessed: "2026-02-03T11:00:00Z"
      access_count: 2
"""
CONVERSATION = """\
# Conversation History
**Session:** s1
**Started:** 2026-02-03 09:00:00 UTC
**Participants:** user-9, architect

---

## Turn 1 - 2026-02-03 09:00:00
**Speaker:** user
**Type:** message

Please look at the ledger.

---

## Turn 2 - 2026-02-03 09:00:05
**Speaker:** architect
**Type:** message
**Memory-Refs:** [DEC-001, FIND-001]

Cents it is.

---

<!-- more follows -->
"""
METADATA = """\
session:
  id: "s1"
  created_at: "2026-02-03T09:00:00Z"
  last_accessed: "2026-02-03T11:00:00Z"
  status: "active"
  storage:
    total_bytes: 4711
    quota_bytes: 10485760
    utilization_pct: 0.1
  participants:
    user_id: "user-9"
    agents:
      - agent_id: "architect"
        message_count: 12
        last_active: "2026-02-03T11:00:00Z"
  context:
    project_name: "Ledger"
    project_phase: "build"
    primary_topic: "totals"
    tags: ["money"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    session = tmp_path / "active" / "s1"
    (session / "agent-states").mkdir(parents=True)
    (session / "agent-states" / "veritas.yaml").write_text(STATE)
    (session / "decisions.yaml").write_text(DECISIONS)
    (session / "findings.yaml").write_text(FINDINGS)
    (session / "conversation.md").write_text(CONVERSATION)
    (session / "metadata.yaml").write_text(METADATA)
    return tmp_path


def test_agent_state_of_the_design_is_read_as_one_memory(folder: Path) -> None:
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        (state,) = session.records("agent_state")
        assert (state.id, state.agent, state.created.isoformat()) == (
            "STATE-veritas",
            "veritas",
            "2026-02-03T09:00:00+00:00",
        )
        assert state.state["working_memory"]["concerns_identified"] == ["Totals differ", "No currency"]
        assert state.state["current_context"]["active_artifacts"] == [{"path": "/docs/ledger.md", "status": "reviewed"}]
        assert state.access == {"count": 4, "last": "2026-02-03T10:00:00Z"}
        assert session.validate().ok
    assert (folder / "active/s1/agent-states/veritas.yaml").read_text() == STATE


def test_agent_state_can_be_changed_and_keeps_its_history(folder: Path) -> None:
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        session.update_agent_state("veritas", {"current_context": {"current_task": "rest"}})
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        (state,) = session.records("agent_state")
        assert state.state == {"current_context": {"current_task": "rest"}}
        assert session.validate().ok
        before = session.as_of("2026-02-04T00:00:00Z").get("STATE-veritas")
        assert before.state["session_learnings"] == ["Totals need a currency"]
    items = yaml.safe_load((folder / "active/s1/agent-states/veritas.yaml").read_text())["agent_state"]
    assert [item["id"] for item in items] == ["STATE-veritas", "STATE-veritas"]


def test_repair_keeps_an_agent_state_whole(folder: Path) -> None:
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        before = {record.id: record.to_dict() for record in session.records()}
        session.repair()
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        assert {record.id: record.to_dict() for record in session.records()} == before
        assert not list((folder / "active/s1/.smp").glob("quarantine/*"))
        assert session.validate().ok


def test_damaged_agent_state_affects_no_other_memory(folder: Path) -> None:
    path = folder / "active/s1/agent-states/veritas.yaml"
    path.write_text(STATE.replace('  agent_id: "veritas"\n', ""))
    with smp_memory.open(folder) as memory:
        report = memory.session("s1").validate()
        assert [problem.message for problem in report.problems if "agent_id" in problem.message]
        assert memory.session("s1").get("DEC-001").decision == "Keep totals in cents"


def test_memories_of_all_files_are_read(folder: Path) -> None:
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        decision, finding = session.get("DEC-001"), session.get("FIND-001")
        assert (decision.author, decision.impact, decision.turn_ref) == ("architect", "high", 2)
        assert (finding.status, finding.author) == ("open", "veritas")
        assert [turn.content for turn in session.records("turns")] == ["Please look at the ledger.", "Cents it is."]
        assert {each.id for each in session.find_related("FIND-001")} == {"TURN-0002"}


def test_uses_that_an_entry_states_count(folder: Path) -> None:
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        by_use = session.query(types=["decision", "finding"], sort="access", track_access=False)
        assert by_use.ids == ["DEC-001", "FIND-001"]
        assert by_use.records[0].access == {"count": 5, "last": "2026-02-03T11:00:00Z"}


def test_head_keeps_every_field_when_it_is_changed(folder: Path) -> None:
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        info = session.info
        assert (info.user, info.agents, info.project, info.tags) == ("user-9", ["architect"], "Ledger", ["money"])
        session.change_info(project="Books")
        text = (folder / "active/s1/metadata.yaml").read_text()
        for kept in ("Books", "build", "totals", "user-9", "architect"):
            assert kept in text


def test_figures_and_overviews_are_not_stale_after_maintenance(folder: Path) -> None:
    path = folder / "active/s1/metadata.yaml"
    (folder / "active/s1/indexes").mkdir()
    (folder / "active/s1/indexes/topics.yaml").write_text("topic_index:\n  topics:\n    gone:\n      mentions: 9\n")
    written = path.stat().st_mtime_ns
    with smp_memory.open(folder) as memory:
        memory.maintain(only=["index"])
        assert memory.session("s1").info.project == "Ledger"
    found = yaml.safe_load(path.read_text())["session"]
    files = [each for each in path.parent.glob("**/*") if each.suffix in (".yaml", ".md") and each != path]
    size = sum(each.stat().st_size for each in files if each.parent.name != "indexes")
    assert found["storage"]["total_bytes"] == size
    assert found["storage"]["as_of"]
    assert path.stat().st_mtime_ns == written
    topics = (folder / "active/s1/indexes/topics.yaml").read_text()
    assert "gone" not in topics
    assert "money" in topics


@pytest.mark.parametrize("with_entry_of_smp", [False, True])
def test_last_entry_is_read_when_another_key_follows_the_list(tmp_path: Path, with_entry_of_smp: bool) -> None:
    path = tmp_path / "active" / "s1" / "decisions.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(DECISIONS)
    with smp_memory.open(tmp_path) as memory:
        if with_entry_of_smp:
            memory.session("s1").add_decision("Round down")
        wanted = [record.id for record in memory.session("s1").records()]
    relations = '\nmemory_relationships:\n  - source: "DEC-001"\n    target: "FIND-001"\n    relationship: "resolves"\n'
    path.write_text(path.read_text() + relations)
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert [record.id for record in session.records()] == wanted
        assert [each for each in session.validate().problems if each.code in ("damaged", "invalid")] == []
        assert {"kind": "resolves", "target": "FIND-001"} in session.get("DEC-001").relations
        session.repair()
        assert [record.id for record in session.records()] == wanted


def test_doctor_names_files_in_the_folder_of_a_session_that_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "active" / "s1"
    (folder / "indexes").mkdir(parents=True)
    (folder / "decisions.yaml").write_text(DECISIONS)
    (folder / "indexes" / "topics.yaml").write_text("topic_index:\n  version: 1\n")
    with smp_memory.open(tmp_path) as memory:
        assert [each for each in memory.doctor().findings if each.check == "unread"] == []
        (folder / "relationships.yaml").write_text("memory_relationships: []\n")
        [found] = [each for each in memory.doctor().findings if each.check == "unread"]
        assert (found.severity, found.path) == ("note", str(folder / "relationships.yaml"))
    assert (folder / "relationships.yaml").exists()


@pytest.mark.parametrize("mib", [5, 10])
def test_quota_bytes_in_a_head_hold_for_the_session(tmp_path: Path, mib: int) -> None:
    folder = tmp_path / "active" / "s1"
    folder.mkdir(parents=True)
    head = 'session:\n  id: "s1"\n  created_at: "2026-02-03T09:00:00Z"\n  storage:\n    total_bytes: 5\n    quota_bytes: {}\n'
    (folder / "decisions.yaml").write_text(DECISIONS)
    (folder / "metadata.yaml").write_text(head.format(mib * 1024 * 1024))
    with smp_memory.open(tmp_path) as memory:
        assert memory.session("s1").size_report().quota_bytes == mib * 1024 * 1024
        memory.maintain()
    with smp_memory.open(tmp_path) as memory:
        assert memory.session("s1").size_report().quota_bytes == mib * 1024 * 1024
        storage = yaml.safe_load((folder / "metadata.yaml").read_text())["session"]["storage"]
        assert (storage["total_bytes"], storage["quota_bytes"]) == (len(DECISIONS), mib * 1024 * 1024)


def test_summary_of_another_program_says_below_its_key_when_a_session_was_archived(tmp_path: Path) -> None:
    source = tmp_path / "made" / "s1"
    source.mkdir(parents=True)
    (source / "metadata.yaml").write_text('session:\n  id: "s1"\n  created_at: "2026-02-03T09:00:00Z"\n')
    (source / "decisions.yaml").write_text(DECISIONS)
    away = tmp_path / "store" / "archived" / "s1"
    away.mkdir(parents=True)
    with tarfile.open(away / "archive.tar.gz", "w:gz") as archive:
        archive.add(source, "s1")
    (away / "summary.yaml").write_text('summary:\n  session_id: "s1"\n  archived_at: "2026-04-01T00:00:00Z"\n')
    with smp_memory.open(tmp_path / "store") as memory:
        [archived] = memory.archived_sessions()
        assert str(archived.when) == "2026-04-01 00:00:00+00:00"


MIXED = {
    "conversation.md": "\n---\n\n".join(
        f"## Turn {n} - 2026-02-03 09:0{2 * n}:00\n**Speaker:** user\n\nHello\n" for n in (1, 2, 3)
    ),
    "decisions.yaml": "decisions:\n"
    + "".join(f'  - id: "DEC-00{n}"\n    timestamp: "2026-02-03T09:0{n}:30Z"\n    decision: "D{n}"\n' for n in (3, 5)),
}
IN_ORDER = ["TURN-0001", "DEC-003", "TURN-0002", "DEC-005", "TURN-0003"]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    folder = tmp_path / "active" / "s1"
    folder.mkdir(parents=True)
    for name, text in MIXED.items():
        (folder / name).write_text(text)
    return tmp_path


def ids(session: smp_memory.SessionMemory) -> list[str]:
    return [record.id for record in session.records()]


def test_memories_come_back_from_an_archive_of_another_layout_in_their_order(mixed: Path) -> None:
    with smp_memory.open(mixed) as memory:
        assert ids(memory.session("s1")) == IN_ORDER
        memory.archive_session("s1")
        memory.convert("log")
    with smp_memory.open(mixed) as memory:
        assert ids(memory.session("s1")) == IN_ORDER


def test_tidying_one_entry_does_not_move_the_next_one_in_the_order(mixed: Path) -> None:
    with smp_memory.open(mixed) as memory:
        session = memory.session("s1")
        session.update("DEC-003", rationale="Depth")
        session.tidy()
        assert ids(session) == IN_ORDER
    with smp_memory.open(mixed) as memory:
        assert ids(memory.session("s1")) == IN_ORDER
