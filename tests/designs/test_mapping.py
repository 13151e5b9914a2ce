"""docs/reference/designs.md names every method, error, metric and log event of the designs, and every name that it gives for one exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory import designs, errors
from smp_memory.integrations.store_metrics import STORE
from smp_memory.observe import telemetry

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = (DOCS / "reference/designs.md").read_text("utf-8")

# The names that each design lists: methods of its interfaces and classes, and functions that it shows.
NAMES = {
    "000": """SessionMemory add query delete get_context write_memory delete_memory decay_priority check_quota compact""",
    "001": """createSession loadSession deleteSession archiveSession addConversation addDecision addFinding updatePreference query
        getDecisions getFindings getPreferences delete compactSession rebuildIndex updateDecayFactors getStatistics
        getGlobalStatistics writeMemory acquireLock releaseLock acquireSession triggerMemoryCompaction queryMemory
        calculateRelevance calculateTextScore calculateImportance deleteMemories logDeletion logCompaction rewriteCompacted""",
    "002": """getByTopic getByAgent getByTimeRange findSimilar findRelated AgentMemoryInterface getConversationContext
        getRelevantDecisions recordDecision recordFinding""",
    "003": """getByTopic getByAgent getByTimeRange getByType findSimilar findRelated query summarizeSession getTopics getTimeline
        createSession activateSession deactivateSession archiveSession deleteSession restoreSession undeleteSession compactSession
        validateSession repairSession acquireLock releaseLock tryLock isLocked FileLock isStale begin writeDecision writeFinding
        writePreference updateAgentState commit rollback isActive getModifications MemoryTransaction calculatePriority
        updateOnAccess decayAllMemories ExponentialDecay deleteMemory deleteByTopic deleteByDateRange deleteByAgent
        listDeletedMemories restoreMemory purgeDeleted anonymizeSession anonymizeMemory AnonymizationConfig compact
        estimateCompactionGain MemoryCompactor getCurrentSize getQuotaUtilization getSizeBreakdown predictTimeToQuota getSession
        writeMemory readMemory queryMemories StorageEngine IndexManager buildTopicIndex buildTimelineIndex buildAgentIndex
        updateIndex writeAtomic appendAtomic MemoryPersistenceError ErrorRecovery AgentMemoryInterface getConversationContext
        getRelevantDecisions getRelevantFindings getUserPreferences recordDecision recordFinding recordPreference
        loadAgentContext recordVerificationResults beginTransaction QueryOptions""",
    "004": """createSession loadSession closeSession addMemory getMemory deleteMemory queryMemories searchByTopic searchByType
        searchByTimeRange deleteMemoriesByTopic deleteMemoriesByTimeRange exportSession compactSession rebuildIndex
        getSessionStats calculateDecayFactor calculateChecksum migrateMemoryEntry lockFile unlockFile appendMemory readMemory
        calculateRelevance ConcurrencyError SizeLimitError CorruptionError IOError CompactionEngine QueryEngine DecayEngine""",
}  # fmt: skip
CODES = {
    "001": {
        "STORAGE_IO_ERROR": "E_STORAGE_IO", "STORAGE_FULL": "E_STORAGE_FULL", "STORAGE_CORRUPT": "E_STORAGE_CORRUPT",
        "LOCK_TIMEOUT": "E_LOCK_TIMEOUT", "CONCURRENT_MODIFICATION": "E_CONCURRENT_MOD", "INVALID_FORMAT": "E_INVALID_FORMAT",
        "SCHEMA_VALIDATION_FAILED": "E_SCHEMA_INVALID", "SIZE_LIMIT_EXCEEDED": "E_SIZE_LIMIT",
        "SESSION_NOT_FOUND": "E_SESSION_NOT_FOUND", "SESSION_ARCHIVED": "E_SESSION_ARCHIVED",
        "SESSION_CORRUPTED": "E_SESSION_CORRUPT", "QUERY_TIMEOUT": "E_QUERY_TIMEOUT", "INVALID_QUERY": "E_INVALID_QUERY",
    },
    "003": {
        "QUOTA_EXCEEDED": "MEM_E001", "LOCK_TIMEOUT": "MEM_E002", "CORRUPTION_DETECTED": "MEM_E003", "INVALID_QUERY": "MEM_E004",
        "SESSION_NOT_FOUND": "MEM_E005", "COMPACTION_FAILED": "MEM_E006",
    },
}  # fmt: skip
FILES = """{session-id}.jsonl manifest.json conversation.jsonl decisions.jsonl findings.jsonl preferences.jsonl index.json
    user-preferences.json agent-knowledge.json config.json metadata.yaml conversation.md decisions.yaml findings.yaml
    preferences.yaml agent-states artifacts topics.yaml timeline.yaml agents.yaml summary.yaml archive.tar.gz deletion-record.yaml
    backup.tar.gz cross-session-preferences.yaml learned-patterns.yaml user-profile.yaml metadata.json memory.jsonl
    tombstones.jsonl global_index.json topic_index.json lock"""
FIELDS = """id type ts data priority access role content decision by rationale issue severity status key value deleted session_id
    created_at updated_at user_id agent_ids metadata project_name session_type tags statistics total_messages total_decisions
    total_findings size_bytes last_accessed version timestamp agent_id context conversation_id parent_message_id topic tokens
    processing_time_ms references decay_factor made_by approved_by alternatives_considered option rejected_reason impact
    discovered_by category description evidence recommendation confidence learned_from inverted_index topic_index temporal_index
    access_count last_decay_update storage total_bytes quota_bytes utilization_pct last_compaction decay base_priority
    current_priority decay_rate participants agents message_count project_phase primary_topic turn_ref agents_involved reversible
    agreed_by rejected_because implementation_impact finding location section line_numbers root_cause resolution resolved_at
    resolved_by action_taken next_steps preference source applies_to projects domains current_context current_task current_phase
    focus_area active_artifacts working_memory session_learnings memory_refs created_by relationship target deleted_at deleted_by
    reason deleted_items reason_specific recovery_deadline backup_location archived_at original_size_bytes compressed_size_bytes
    importance checksum message total_entries total_size_bytes decay_config half_life_hours min_decay_factor preferences language
    verbosity custom line_number byte_offset current_relevance schema_version expires_at pid operation alternatives"""
METRICS = """memory.sessions.active memory.entries.total memory.size.bytes memory.operations.write.duration_ms
    memory.operations.query.duration_ms memory.locks.contention.count memory.compaction.count memory.errors.corruption.count"""


def rows(title: str) -> list[list[str]]:
    """The rows of the tables below a heading, up to the next one of the same or a higher level."""
    level = len(title) - len(title.lstrip("#"))
    start = DOCUMENT.index(f"\n{title}\n") + len(title) + 2
    end = re.search(rf"^#{{1,{level}}} ", DOCUMENT[start:], re.MULTILINE)
    part = DOCUMENT[start : start + end.start()] if end else DOCUMENT[start:]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


INNER = [row for row in rows("### Functions and classes inside the designs") if row[0][:3].isdigit()]
CALLS = [row for row in rows("## Calls") if row[0][:3].isdigit() and row not in INNER]
ERRORS = [row for row in rows("## Errors") if row[0][:3].isdigit()]


def subjects() -> dict[str, Any]:
    memory = smp_memory.open(":memory:")
    session = memory.create_session("s")
    agent = session.agent("a")
    return {"memory": memory, "session": session, "agent": agent, "tx": session.transaction(), "smp_memory": smp_memory}


@pytest.mark.parametrize("design", NAMES)
def test_every_name_of_a_design_is_in_the_tables(design: str) -> None:
    told = " ".join(f"{row[1]} {row[-1]}" for row in (*CALLS, *INNER, *ERRORS))
    missing = [name for name in NAMES[design].split() if not re.search(rf"\b{name}\b", told)]
    assert missing == []


@pytest.mark.parametrize("design", [design for design in NAMES if design > "000"])
def test_every_listed_method_has_a_python_name_in_the_module(design: str) -> None:
    """Those of interfaces; what stands only in the table of inner functions needs none."""
    listed = {name for row in CALLS for name in re.findall(r"\w+", row[1])}
    for name in NAMES[design].split():
        if name not in listed or name[0].isupper() or name in ("loadAgentContext", "recordVerificationResults"):
            continue
        own = re.sub(r"([A-Z])", r"_\1", name).lower()
        kinds = (designs.MemoryManager, designs.MemoryTransaction, designs.AgentMemoryInterface)
        assert any(callable(getattr(kind, own, None)) for kind in kinds), own


def test_every_method_of_the_module_is_in_the_table() -> None:
    told = {
        re.sub(r"([A-Z])", r"_\1", word).lower() for row in CALLS for word in re.findall(r"\w+", f"{row[1]} {row[2]}")
    }
    for kind in (designs.MemoryManager, designs.MemoryTransaction, designs.AgentMemoryInterface):
        public = {name for name in vars(kind) if not name.startswith("_")} - {"memory", "close"}
        assert public - told == set(), kind


def test_every_name_in_the_column_of_calls_exists() -> None:
    found = subjects()
    for row in CALLS:
        for code in codes(row[2]):
            chain = re.match(r"(?:with )?(memory|session|agent|tx|smp_memory)\.(\w+)", code)
            if chain:
                assert hasattr(found[chain[1]], chain[2]), code
            else:
                assert "." not in code.split("(")[0].lstrip("."), code


@pytest.mark.parametrize("row", INNER, ids=lambda row: row[1])
def test_every_inner_name_is_mapped_to_something_that_exists(row: list[str]) -> None:
    for code in codes(row[2]):
        if code.startswith("smp_memory."):
            module, _, name = code.rpartition(".")
            try:
                importlib.import_module(code)
            except ModuleNotFoundError:
                assert hasattr(importlib.import_module(module), name), code


@pytest.mark.parametrize("design", CODES)
def test_every_error_code_is_that_of_its_class(design: str) -> None:
    told = {
        codes(row[1])[0]: (codes(row[2])[0], codes(row[3])[0])
        for row in ERRORS
        if row[0].startswith(design) and codes(row[2])
    }
    assert {name: code for name, (code, _) in told.items()} == CODES[design]
    for code, kind in told.values():
        assert code in (getattr(errors, kind).code, getattr(errors, kind).number), kind


def test_every_class_in_the_table_of_errors_exists() -> None:
    for row in ERRORS:
        kind = getattr(errors, codes(row[3])[0])
        alias = getattr(designs, codes(row[1])[0], None)
        assert alias in (None, kind), row


def test_every_metric_of_the_design_is_exported() -> None:
    known = {each.instrument: each.name for each in (*STORE, *telemetry.PROCESS)}
    told = {codes(row[0])[0]: codes(row[1])[0] for row in rows("## Metrics") if codes(row[0])}
    assert told == {name: known[name] for name in METRICS.split()}


@pytest.mark.parametrize("names", [FILES, FIELDS], ids=["files", "fields"])
def test_every_file_and_field_is_in_this_document_or_in_that_of_the_format(names: str) -> None:
    text = DOCUMENT + (DOCS / "FORMAT.md").read_text("utf-8")
    missing = [name for name in names.split() if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]
    assert missing == []


def test_every_event_in_the_table_is_documented() -> None:
    logging = (DOCS / "reference/log-events.md").read_text("utf-8")
    events = {code for row in rows("## Log events") for code in codes(row[1]) if re.fullmatch(r"[a-z]+_[a-z_]+", code)}
    assert len(events) >= 12
    assert [event for event in sorted(events) if f"`{event}`" not in logging] == []


def test_every_setting_in_the_table_of_figures_exists() -> None:
    config = smp_memory.open(":memory:").config
    settings = [
        code for row in rows("## Figures") for code in codes(row[1]) if re.fullmatch(r"[a-z]+(\.[a-z_]+)+", code)
    ]
    settings = [code for code in settings if code.split(".")[0] not in ("session", "agent")]
    assert len(settings) > 20
    for name in settings:
        config[name]  # an unknown one is an error
