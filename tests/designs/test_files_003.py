"""Files in the shapes of designs 002 and 003, with values of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_agent_state_is_read_as_what_it_is(folder: Path) -> None:
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
    assert (folder / "active/s1/agent-states/veritas.yaml").read_text().startswith(STATE)


def test_repair_does_not_shred_an_agent_state(folder: Path) -> None:
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        before = {record.id: record.to_dict() for record in session.records()}
        session.repair()
    with smp_memory.open(folder) as memory:
        session = memory.session("s1")
        assert {record.id: record.to_dict() for record in session.records()} == before
        assert not list((folder / "active/s1/.smp").glob("quarantine/*"))
        assert session.validate().ok


def test_damaged_agent_state_costs_that_state_alone(folder: Path) -> None:
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
    text = path.read_text()
    for figure in ("total_bytes", "utilization_pct", "last_accessed", "message_count"):
        assert figure not in text
    assert path.stat().st_mtime_ns == written
    topics = (folder / "active/s1/indexes/topics.yaml").read_text()
    assert "gone" not in topics
    assert "money" in topics
