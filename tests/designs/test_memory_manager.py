"""The usage examples of the designs, call by call, through `smp_memory.designs`, with values of our own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from smp_memory.designs import (
    AgentMemoryInterface,
    ConcurrencyError,
    CorruptionError,
    MemoryManager,
    MemoryPersistenceError,
    SessionMemoryManager,
    SizeLimitError,
)
from smp_memory.errors import InvalidRecord, LockTimeout, SessionNotFound, SMPError
from smp_memory.session import SessionMemory

NOW = datetime(2026, 1, 11, 12, tzinfo=UTC)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[MemoryManager]:
    with MemoryManager(tmp_path / "store", layout="markdown", clock=lambda: NOW) as manager:
        yield manager


# -- 001 §5.1, §7.1, §10.2, §13


def manager_of_001(folder: Path) -> MemoryManager:
    config = {"memory_config": {"version": "1.0", "storage": {"max_session_size_mb": 10}, "decay": {"enabled": True}}}
    return MemoryManager({"rootPath": str(folder / ".bmad" / "memory"), "config": config})


def test_example_of_001(tmp_path: Path) -> None:
    memory_manager = manager_of_001(tmp_path)
    session_id = memory_manager.create_session(
        {
            "user_id": "user-9",
            "agent_ids": ["bmad-master", "architect"],
            "metadata": {"project_name": "ledger", "session_type": "architecture_review"},
        }
    )
    assert re.match(r"^sess-", session_id)
    memory_manager.add_conversation(
        session_id,
        {
            "agent_id": "architect",
            "role": "assistant",
            "content": "A ledger needs a database that keeps every transaction.",
            "context": {"conversation_id": "conv-1", "topic": "database_selection"},
        },
    )
    memory_manager.add_decision(
        session_id,
        {
            "made_by": "architect",
            "decision": "Keep the ledger in a database",
            "rationale": "Transactions",
            "impact": "high",
            "tags": ["database"],
        },
    )
    results = memory_manager.query(
        session_id,
        {"text": "database transactions", "types": ["decisions", "findings"], "min_relevance": 0.0, "limit": 10},
    )
    assert [hit.record.decision for hit in results] == ["Keep the ledger in a database"]
    memory_manager.add_conversation(session_id, {"role": "user", "content": "A secret", "tags": ["sensitive"]})
    assert memory_manager.delete(session_id, {"tags": ["sensitive"], "types": ["conversation"]}).count == 1
    assert (tmp_path / ".bmad/memory/sessions" / session_id / "manifest.json").exists()
    assert memory_manager.load_session(session_id).info.project == "ledger"


def test_query_and_deletions_of_001(tmp_path: Path) -> None:
    memory_manager = manager_of_001(tmp_path)
    session_id = memory_manager.create_session(user_id="user-9")
    memory_manager.add_finding(
        session_id, {"discovered_by": "analyst", "description": "No pool for the database", "tags": ["database"]}
    )
    query = {
        "text": "database scalability",
        "types": ["decisions", "findings"],
        "time_range": {"start": "2020-01-10T00:00:00Z", "end": "2099-01-11T23:59:59Z"},
        "tags": ["database", "architecture"],
        "agents": ["architect", "analyst"],
        "min_relevance": 0.0,
        "limit": 20,
        "sort": "relevance_desc",
    }
    assert memory_manager.query(session_id, query).ids == ["FIND-0001"]
    for number in range(3):
        memory_manager.add_conversation(session_id, {"role": "user", "content": f"{number}", "tags": ["sensitive"]})
    assert memory_manager.delete(session_id, {"ids": ["TURN-0001", "FIND-0001"]}).ids == ["TURN-0001", "FIND-0001"]
    criteria = {
        "types": ["conversation"],
        "time_range": {"start": "2020-01-10T00:00:00Z", "end": "2099-01-10T23:59:59Z"},
        "tags": ["sensitive"],
    }
    assert memory_manager.delete(session_id, criteria).count == 2
    memory_manager.delete_session(session_id)
    with pytest.raises(SessionNotFound):
        memory_manager.load_session(session_id)


def test_other_methods_of_001(tmp_path: Path) -> None:
    memory_manager = manager_of_001(tmp_path)
    session_id = memory_manager.create_session({"user_id": "test-user"})
    memory_manager.add_conversation(session_id, {"agent_id": "test", "content": "test message"})
    assert len(memory_manager.query(session_id, {"text": "test message"})) == 1
    memory_manager.add_decision(session_id, {"decision": "A"})
    memory_manager.add_decision(session_id, {"decision": "B", "tags": ["x"]})
    memory_manager.add_finding(session_id, {"description": "F", "severity": "high"})
    memory_manager.update_preference(session_id, {"key": "style", "value": "brief", "category": "talk"})
    memory_manager.update_preference(session_id, {"key": "style", "value": "long"})
    assert [record.decision for record in memory_manager.get_decisions(session_id)] == ["A", "B"]
    assert [record.decision for record in memory_manager.get_decisions(session_id, {"tags": ["x"]})] == ["B"]
    assert [record.finding for record in memory_manager.get_findings(session_id, {"where": {"severity": "high"}})] == [
        "F"
    ]
    assert [record.value for record in memory_manager.get_preferences(session_id)] == ["long"]
    stats = memory_manager.get_statistics(session_id)
    assert (stats.total_messages, stats.total_decisions, stats.total_findings) == (1, 2, 1)
    assert 0 < stats.size_bytes <= 10 * 1024 * 1024
    other = memory_manager.create_session({"user_id": "other"})
    memory_manager.add_decision(other, {"decision": "C"})
    everything = memory_manager.get_global_statistics()
    assert (everything.total_sessions, everything.total_decisions) == (2, 3)
    assert memory_manager.update_decay_factors(other) == {"DEC-0001": pytest.approx(0.95, abs=0.01)}
    memory_manager.rebuild_index(session_id)
    assert memory_manager.compact_session(session_id).removed == []
    memory_manager.archive_session(other)
    assert memory_manager.load_session(other).id == other


# -- 003 §4.2, §5.2, §7, §8, §9, §11, appendix B


def filled(manager: MemoryManager) -> SessionMemory:
    session: SessionMemory = manager.create_session(
        "user-9", {"project_name": "Shop", "project_phase": "requirements", "tags": ["oauth"]}
    )
    manager.add_conversation({"role": "user", "content": "Who may log in?"})
    manager.write_memory(
        session.id, {"type": "finding", "finding": "No second factor", "discovered_by": "veritas", "turn_ref": 1,
                     "severity": "critical", "tags": ["authentication"]},
    )  # fmt: skip
    manager.write_memory(
        session.id, {"type": "decision", "decision": "Ask for a second factor", "made_by": "architect",
                     "tags": ["authentication"], "relations": [{"kind": "resolves", "target": "FIND-0001"}]},
    )  # fmt: skip
    return session


def test_queries_of_003(manager: MemoryManager) -> None:
    filled(manager)
    memory = manager
    decisions = memory.query(
        {
            "filters": [
                {"field": "type", "operator": "equals", "value": "decision"},
                {"field": "tags", "operator": "contains", "value": "authentication"},
            ],
            "sort": [{"field": "decay.priority", "direction": "desc"}, {"field": "timestamp", "direction": "desc"}],
        }
    )
    assert decisions.ids == ["DEC-0001"]
    related = memory.find_related("FIND-0001", {"includeDecayed": False, "minPriority": 0.5})
    assert {each.id for each in related} == {"DEC-0001", "TURN-0001"}
    context = memory.query(
        {
            "filters": [{"field": "type", "operator": "equals", "value": "conversation_turn"}],
            "sort": [{"field": "timestamp", "direction": "desc"}],
            "includeRelated": True,
        }
    )[:20]
    assert [hit.id for hit in context] == ["TURN-0001"]
    assert [record.id for record in context[0].related] == ["FIND-0001"]


def test_decay_aware_queries_of_003(manager: MemoryManager) -> None:
    filled(manager)
    memory = manager
    recent = memory.get_by_topic("authentication", {"minPriority": 0.7, "sortBy": "decay.priority"})
    everything = memory.get_by_topic("authentication", {"includeDecayed": True, "sortBy": "decay.priority"})
    assert [record.id for record in recent] == [record.id for record in everything] == ["DEC-0001", "FIND-0001"]
    decayed = memory.query(
        {
            "filters": [{"field": "decay.priority", "operator": "lessThan", "value": 0.3}],
            "sort": [{"field": "decay.priority", "direction": "asc"}],
        }
    )
    assert decayed.ids == []
    assert memory.calculate_priority("DEC-0001", NOW + timedelta(days=20)) < memory.calculate_priority("DEC-0001", NOW)
    memory.update_on_access("DEC-0001")
    assert memory.decay_all_memories().keys() == {"TURN-0001", "FIND-0001", "DEC-0001"}


def test_query_interface_of_003(manager: MemoryManager) -> None:
    session = filled(manager)
    for first in ((), (session,), (session.id,)):
        assert [record.id for record in manager.get_by_agent(*first, "veritas", {"limit": 5})] == ["FIND-0001"]
        assert [record.id for record in manager.get_by_type(*first, "decision")] == ["DEC-0001"]
        assert len(manager.get_by_time_range(*first, NOW - timedelta(days=1), NOW + timedelta(days=1))) == 3
        assert [record.id for record in manager.find_similar(*first, "a second factor", {"limit": 1})] != []
        assert manager.summarize_session(*first)
        assert manager.get_topics(*first)[0].name == "authentication"
        assert len(manager.get_timeline(*first).to_dict()["timeline_index"]["events"]) >= 3


def test_lifecycle_of_003(manager: MemoryManager) -> None:
    session = filled(manager)
    manager.deactivate_session(session.id)
    with pytest.raises(InvalidRecord, match="session"):
        manager.get_by_topic("authentication")
    manager.activate_session(session.id)
    assert len(manager.get_by_topic("authentication")) == 2
    assert manager.validate_session(session.id).ok
    assert manager.repair_session(session.id).ok
    manager.archive_session(session.id, "done")
    assert manager.restore_session(session.id).id == session.id
    manager.delete_session(session.id, "no longer needed")
    manager.undelete_session(session.id, "needed after all")
    assert manager.get_session(session.id).info.project == "Shop"
    assert manager.compact(session.id, 1).removed == manager.compact_session().removed == []


def test_transaction_of_003(manager: MemoryManager) -> None:
    session = filled(manager)
    transaction = manager.begin_transaction(session.id)
    transaction.write_decision({"decision": "A", "made_by": "architect"})
    transaction.write_finding({"finding": "B", "severity": "minor"})
    transaction.write_preference({"preference": "C", "category": "policy", "topic": "mfa"})
    transaction.update_agent_state("veritas", {"current_task": "verify"})
    assert transaction.is_active()
    assert len(transaction.get_modifications()) == 4
    assert len(session.records()) == 3
    transaction.commit()
    assert not transaction.is_active()
    assert len(session.records()) == 7
    again = manager.begin_transaction()
    again.write_decision({"decision": "never"})
    again.rollback()
    assert (again.is_active(), again.get_modifications(), len(session.records())) == (False, [], 7)
    again.begin()
    again.write_decision({"decision": "now"})
    again.commit()
    assert len(session.records()) == 8


def test_deletion_interface_of_003(manager: MemoryManager) -> None:
    session = filled(manager)
    assert manager.delete_memory("TURN-0001", "private") is True
    assert manager.delete_memory("TURN-0009", "private") is False
    assert [(each.record.id, each.reason) for each in manager.list_deleted_memories()] == [("TURN-0001", "private")]
    assert manager.restore_memory("TURN-0001", "needed").id == "TURN-0001"
    assert manager.delete_by_topic("authentication", "old").count == 2
    assert [record.id for record in session.records()] == ["TURN-0001"]
    session.restore(["FIND-0001", "DEC-0001"])
    assert manager.delete_by_agent("veritas", "wrong agent").ids == ["FIND-0001"]
    assert manager.delete_by_date_range(NOW - timedelta(days=1), NOW + timedelta(days=1), "test").count == 2
    assert manager.purge_deleted(NOW - timedelta(days=1)).ids == []


def test_anonymizer_of_003(manager: MemoryManager) -> None:
    session = filled(manager)
    manager.add_conversation(session, {"role": "user", "content": "user-9 works on Shop in /home/user-9/shop.py"})
    config = {
        "remove_user_names": True,
        "remove_project_names": True,
        "remove_file_paths": True,
        "replace_with_placeholders": True,
        "preserve_structure": True,
    }
    copy = manager.anonymize_session(session.id, config)
    text = copy.get("TURN-0002").content
    assert not any(word in text for word in ("user-9", "Shop", "/home"))
    assert copy.get("DEC-0001").relations == session.get("DEC-0001").relations
    assert manager.anonymize_memory(session, "TURN-0002", config)["content"] == text
    assert "Shop" in manager.anonymize_memory("TURN-0002", {"remove_project_names": False})["content"]


def test_size_monitor_of_003(manager: MemoryManager) -> None:
    session = filled(manager)
    breakdown = manager.get_size_breakdown(session.id)
    assert manager.get_current_size(session.id) == breakdown.total_bytes > 0
    assert {"conversation", "decisions", "findings", "agent_states"} <= breakdown.components.keys()
    assert breakdown.largest_files[0].percentage > 0
    assert 0 < manager.get_quota_utilization(session.id) < 1
    assert manager.predict_time_to_quota(session.id) is None or manager.predict_time_to_quota(session.id) > 0
    assert manager.estimate_compaction_gain() >= 0


def test_agent_interface_of_003(manager: MemoryManager) -> None:
    session = filled(manager)
    agent = manager.get_agent_memory(session.id, "veritas")
    assert isinstance(agent, AgentMemoryInterface)
    assert [turn.content for turn in agent.get_conversation_context()] == ["Who may log in?"]
    assert agent.get_conversation_context(turn_count=0) == []
    assert [record.id for record in agent.get_relevant_decisions("authentication")] == ["DEC-0001"]
    assert agent.get_relevant_findings("authentication") == []  # the decision resolves it
    session.add_finding("Passwords may be empty", tags=["authentication"])
    assert [record.id for record in agent.get_relevant_findings("authentication")] == ["FIND-0002"]
    agent.record_decision({"decision": "Check again", "rationale": "Critical"})
    agent.record_finding({"finding": "No timeout", "severity": "important"})
    agent.record_preference({"category": "workflow", "topic": "depth", "preference": "Rather thorough than fast"})
    agent.update_agent_state({"current_task": "verify"})
    assert [record.text for record in agent.get_user_preferences()] == ["Rather thorough than fast"]
    assert agent.get_user_preferences("depth")
    assert {record.author for record in session.by_agent("veritas").records} == {"veritas"}
    assert [hit.id for hit in agent.query("timeout")] == ["FIND-0003"]
    assert isinstance(agent.find_similar("FIND-0003"), list)


def load_agent_context(memory: SessionMemoryManager, session_id: str, agent_id: str) -> dict[str, Any]:
    """Pattern 1 of appendix B."""
    turns = memory.query_memories(
        session_id,
        {
            "filters": [{"field": "type", "operator": "equals", "value": "turn"}],
            "sort": [{"field": "timestamp", "direction": "desc"}],
            "limit": 20,
        },
    )
    decisions = memory.query_memories(
        session_id,
        {
            "filters": [
                {"field": "type", "operator": "equals", "value": "decision"},
                {"field": "decay.priority", "operator": "greaterThan", "value": 0.5},
            ]
        },
    )
    findings = memory.query_memories(
        session_id,
        {
            "filters": [
                {"field": "type", "operator": "equals", "value": "finding"},
                {"field": "resolution.status", "operator": "equals", "value": "open"},
            ]
        },
    )
    preferences = memory.query_memories(
        session_id, {"filters": [{"field": "type", "operator": "equals", "value": "preference"}]}
    )
    return {
        "conversation_history": turns.records,
        "relevant_decisions": decisions.records,
        "open_findings": findings.records,
        "user_preferences": preferences.records,
        "agent_state": memory.read_memory(session_id, f"agent-states/{agent_id}"),
    }


def record_verification_results(memory: SessionMemoryManager, session_id: str, findings: list[dict[str, Any]]) -> None:
    """Pattern 2 of appendix B."""
    transaction = memory.begin_transaction(session_id)
    try:
        for finding in findings:
            transaction.write_memory({"type": "finding", **finding, "decay": {"priority": 1.0, "access_count": 0}})
        transaction.write_memory(
            {
                "type": "decision",
                "decision": f"Verification completed with {len(findings)} findings",
                "made_by": "veritas",
                "decay": {"priority": 0.95, "access_count": 0},
            }
        )
        transaction.update_agent_state("veritas", {"last_verification": "2026-01-11T12:00:00Z"})
        transaction.commit()
    except SMPError:
        transaction.rollback()
        raise


def test_patterns_of_appendix_b(manager: MemoryManager) -> None:
    session = filled(manager)
    new = [{"finding": "No lockout", "resolution": {"status": "open"}}, {"finding": "No log"}]
    record_verification_results(manager, session.id, new)
    context = load_agent_context(manager, session.id, "veritas")
    assert [record.id for record in context["conversation_history"]] == ["TURN-0001"]
    assert {record.id for record in context["relevant_decisions"]} == {"DEC-0001", "DEC-0002"}
    assert {record.finding for record in context["open_findings"]} == {"No second factor", "No lockout", "No log"}
    assert context["user_preferences"] == []
    assert context["agent_state"].state == {"last_verification": "2026-01-11T12:00:00Z"}
    with pytest.raises(SMPError):
        record_verification_results(manager, session.id, [{"finding": "Kept back"}, {"severity": "low"}])
    assert "Kept back" not in [getattr(record, "finding", "") for record in session.records()]


# -- 004 §6


def test_basic_usage_of_004(tmp_path: Path) -> None:
    memory_manager = MemoryManager({"storageRoot": str(tmp_path / "memory"), "defaultDecayHalfLife": 100})
    session = memory_manager.create_session("user123")
    memory_id = memory_manager.add_memory(
        session.id,
        {
            "type": "conversation",
            "content": {"role": "user", "message": "How do people log in?"},
            "importance": 0.8,
            "tags": ["oauth2", "authentication"],
        },
    )
    memory_manager.add_memory(
        session.id,
        {
            "type": "decision",
            "content": {"decision": "With a code", "rationale": "Safest", "alternatives": ["Implicit flow"]},
            "importance": 0.9,
            "tags": ["oauth2", "security"],
            "references": [memory_id],
        },
    )
    found = memory_manager.search_by_topic(session.id, "oauth2")
    assert {record.id for record in found} == {memory_id, "DEC-0001"}
    assert memory_manager.memory.layout == "log"
    assert memory_manager.memory.config["decay.policy"] == "half-life"
    assert memory_manager.memory.config["decay.half_life_hours.conversation"] == 100
    memory_manager.close_session(session.id)
    assert memory_manager.load_session(session.id).info.user == "user123"
    memory_manager.close()


def test_advanced_querying_of_004(manager: MemoryManager) -> None:
    session = manager.create_session("user123")
    manager.add_memory(
        session.id, {"type": "decision", "content": {"decision": "A"}, "importance": 0.9, "tags": ["security"]}
    )
    manager.add_memory(session.id, {"type": "decision", "content": {"decision": "B"}, "importance": 0.9, "tags": ["security", "deprecated"]})  # fmt: skip
    manager.add_memory(session.id, {"type": "finding", "content": {"message": "C"}, "references": ["DEC-0001"]})
    manager.add_memory(session.id, {"type": "finding", "content": {"message": "D"}, "references": ["FIND-0001"]})
    results = manager.query_memories(
        session.id,
        {
            "types": ["decision", "finding"],
            "tags": {"include": ["security"], "exclude": ["deprecated"]},
            "timeRange": {"start": NOW - timedelta(days=1), "end": NOW + timedelta(days=1)},
            "minImportance": 0.7,
            "sortBy": "relevance",
            "limit": 10,
        },
    )
    assert results.ids == ["DEC-0001"]
    related = manager.query_memories(session.id, {"references": ["DEC-0001"], "maxDepth": 2})
    assert sorted(related.ids) == ["FIND-0001", "FIND-0002"]
    assert len(manager.search_by_type(session.id, "finding")) == 2
    assert len(manager.search_by_time_range(session.id, NOW - timedelta(days=1), NOW + timedelta(days=1))) == 4


def test_privacy_operations_of_004(manager: MemoryManager) -> None:
    session = manager.create_session("user123")
    for tag in ("personal_info", "personal_info", "other"):
        manager.add_memory(session.id, {"type": "finding", "content": {"message": tag}, "tags": [tag]})
    assert manager.delete_memory(session.id, "FIND-0001") is True
    assert manager.get_memory(session.id, "FIND-0001") is None
    assert manager.delete_memory(session.id, "FIND-0001") is False
    assert manager.delete_memories_by_topic(session.id, "personal_info") == 1
    assert json.loads(manager.export_session(session.id, "json"))
    assert len(manager.export_session(session.id, "jsonl").splitlines()) > 3
    assert manager.delete_memories_by_time_range(session.id, NOW - timedelta(days=1), NOW + timedelta(days=1)) == 1
    stats = manager.get_session_stats(session.id)
    assert (stats.findings, stats.total_entries, stats.deleted) == (0, 0, 3)


# -- the rest


def test_existing_store_keeps_its_layout(tmp_path: Path) -> None:
    MemoryManager(tmp_path / "memory", layout="single").close()
    with MemoryManager({"storageRoot": str(tmp_path / "memory")}) as manager:
        assert manager.memory.layout == "single"


def test_options_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="colour"):
        MemoryManager({"rootPath": str(tmp_path), "colour": "red"})


def test_wrong_arguments_are_refused_with_an_error_that_says_so(manager: MemoryManager) -> None:
    with pytest.raises(InvalidRecord, match="activate one first"):
        manager.add_decision({"decision": "A"})
    session = filled(manager)
    for call in (
        lambda: manager.add_decision("no-such-session", {"decision": "A"}),
        lambda: manager.query("no-such-session", {"text": "A"}),
        lambda: manager.compact_session("no-such-session"),
        lambda: manager.load_session("no-such-session"),
    ):
        with pytest.raises(SessionNotFound, match="no-such-session"):
            call()
    with pytest.raises(InvalidRecord, match="arguments"):
        manager.get_by_topic()
    with pytest.raises(InvalidRecord, match="arguments"):
        manager.get_by_topic(session, "authentication", {}, {})
    assert manager.get_by_topic("../../elsewhere") == []


def test_errors_have_the_names_of_the_designs() -> None:
    assert (MemoryPersistenceError, ConcurrencyError) == (SMPError, LockTimeout)
    assert issubclass(SizeLimitError, MemoryPersistenceError)
    assert issubclass(CorruptionError, MemoryPersistenceError)
