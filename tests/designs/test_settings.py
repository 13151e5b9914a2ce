"""Settings as the designs write them: translated, or kept and reported once; none closes the store."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.config.settings import Config
from smp_memory.errors import InvalidConfig

FILE = "config.json"
OF_001: dict[str, Any] = {
    "memory_config": {
        "version": "1.0",
        "storage": {
            "root_path": ".bmad/memory",
            "format": "jsonl",
            "encoding": "utf-8",
            "max_session_size_mb": 20,
            "compression": {"enabled": False, "algorithm": "gzip"},
        },
        "concurrency": {"lock_timeout_ms": 4000, "lock_retry_interval_ms": 50, "max_concurrent_writes": 4},
        "indexing": {
            "enabled": True,
            "update_strategy": "incremental",
            "rebuild_threshold_writes": 500,
            "cache_size_mb": 3,
        },
        "decay": {
            "enabled": True,
            "update_interval_hours": 12,
            "minimum_factor": 0.2,
            "rates": {"conversation": 0.2, "decision": 0.03, "finding": 0.06, "preference": 0.02},
        },
        "compaction": {
            "enabled": True,
            "trigger_threshold_mb": 15,
            "keep_percentage": 0.7,
            "strategy": "relevance_based",
        },
        "privacy": {
            "auto_redaction": False,
            "retention_days": {"conversation": 60, "decision": 300, "finding": 150, "preference": 700},
            "auto_purge": True,
            "audit_deletions": True,
        },
        "performance": {"batch_write_size": 50, "index_cache_ttl_seconds": 200, "lazy_load": True},
    }
}
OF_004: dict[str, Any] = {
    "version": "1.0",
    "storage": {
        "root_directory": "./memory",
        "max_session_size_mb": 5,
        "compaction_threshold": 0.85,
        "auto_compact": False,
    },
    "concurrency": {"lock_timeout_ms": 3000, "max_retries": 2, "retry_backoff_ms": 50},
    "decay": {
        "enabled": True,
        "update_interval_minutes": 30,
        "type_specific": {
            "conversation": {"half_life_hours": 100},
            "decision": {"half_life_hours": 700},
            "finding": {"half_life_hours": 300},
            "preference": {"decay_enabled": False},
        },
        "min_decay_factor": 0.15,
    },
    "performance": {"cache_size": 50, "batch_write_interval_ms": 500, "index_in_memory": True},
    "integrity": {"enable_checksums": True, "checksum_algorithm": "sha256"},
}
TRANSLATED = [
    (OF_001, "storage.max_session_size_mb", 20),
    (OF_001, "concurrency.lock_timeout_ms", 4000),
    (OF_001, "decay.minimum_factor", 0.2),
    (OF_001, "decay.rates.conversation", 0.2),
    (OF_001, "storage.warning_percent", 75),
    (OF_001, "storage.gentle_percent", 30),
    (OF_001, "privacy.redaction.enabled", False),
    (OF_001, "retention.enabled", True),
    (OF_001, "retention.days.finding", 150),
    (OF_004, "storage.max_session_size_mb", 5),
    (OF_004, "storage.warning_percent", 85),
    (OF_004, "compaction.enabled", False),
    (OF_004, "decay.policy", "half-life"),
    (OF_004, "decay.half_life_hours.decision", 700),
    (OF_004, "decay.minimum_factor", 0.15),
]
UNUSED = {
    "001": [
        "concurrency.lock_retry_interval_ms",
        "concurrency.max_concurrent_writes",
        "indexing.rebuild_threshold_writes",
        "indexing.cache_size_mb",
        "decay.update_interval_hours",
        "performance.batch_write_size",
        "performance.index_cache_ttl_seconds",
    ],
    "004": [
        "concurrency.max_retries",
        "concurrency.retry_backoff_ms",
        "decay.update_interval_minutes",
        "performance.cache_size",
        "performance.batch_write_interval_ms",
        "performance.index_in_memory",
    ],
}


@pytest.mark.parametrize(("file", "name", "value"), TRANSLATED, ids=[name for _, name, _ in TRANSLATED])
def test_setting_of_a_design_is_applied(file: dict[str, Any], name: str, value: Any) -> None:
    config = Config.build(file, FILE)
    assert config[name] == pytest.approx(value) if isinstance(value, float) else config[name] == value
    assert config.source(name) == f"file {FILE}"


@pytest.mark.parametrize(("design", "file"), [("001", OF_001), ("004", OF_004)])
def test_setting_without_an_equivalent_is_named(design: str, file: dict[str, Any]) -> None:
    config = Config.build(file, FILE)
    assert [key for _, key in config.unused] == UNUSED[design]
    assert pickle.loads(pickle.dumps(config)).unused == config.unused


@pytest.mark.parametrize(
    ("key", "value"),
    [("storage.compression.enabled", True), ("privacy.audit_deletions", False), ("integrity.enable_checksums", False)],
)
def test_setting_that_cannot_be_met_is_reported(key: str, value: object) -> None:
    assert Config.build({key: value}, FILE).unused == [(f"file {FILE}", key)]


@pytest.mark.parametrize("file", [OF_001, OF_004], ids=["001", "004"])
def test_store_with_settings_of_a_design_opens_and_reports_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, file: dict[str, Any]
) -> None:
    (tmp_path / FILE).write_text(json.dumps(file))
    with caplog.at_level(logging.WARNING, logger="smp_memory"):
        for _ in range(3):
            with smp_memory.open(tmp_path) as memory:
                memory.set_config("durability", "os")
    told = [record.getMessage() for record in caplog.records if "without effect" in record.getMessage()]
    assert len(told) == 1
    assert "performance.batch_write" in told[0]
    stored = json.loads((tmp_path / FILE).read_text())
    assert stored.get("memory_config", stored)["performance"] == file.get("memory_config", file)["performance"]


def test_own_setting_name_overrides_that_of_a_design() -> None:
    config = Config.build({"storage": {"compaction_threshold": 0.5, "warning_percent": 60}}, FILE)
    assert config["storage.warning_percent"] == 60


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("storage.compaction_threshold", "high"),
        ("storage.compaction_threshold", 5),
        ("compaction.trigger_threshold_mb", True),
        ("decay.type_specific.decision.decay_enabled", "no"),
        ("privacy.retention_days.decision", "long"),
        ("decay.min_decay_factor", 7),
    ],
)
def test_bad_value_is_reported_under_the_name_of_the_design(key: str, value: object) -> None:
    assert [error.details["key"] for error in Config.build({key: value}, FILE).invalid] == [key]


@pytest.mark.parametrize("key", ["indexing.shards", "performance.turbo", "decay_config.magic"])
def test_key_that_no_design_has_is_reported(key: str) -> None:
    assert Config.build({key: 1}, FILE).unknown == [key]


def test_session_overrides_of_004_hold_for_their_session() -> None:
    memory = smp_memory.open(":memory:")
    session = memory.create_session(
        "s",
        decay_config={"enabled": True, "half_life_hours": 500, "min_decay_factor": 0.3},
        compaction_config={"auto_compact": False, "threshold": 0.92},
    )
    config = memory.session("s").config
    assert (config["decay.policy"], config["decay.half_life_hours.finding"]) == ("half-life", 500)
    assert (config["compaction.enabled"], config["storage.warning_percent"]) == (False, 92)
    assert memory.config["compaction.enabled"] is True
    assert session.validate().ok


def test_privacy_config_of_001_with_its_patterns_and_replacement() -> None:
    patterns = [
        {"type": "email", "regex": "\\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Z|a-z]{2,}\\b"},
        {"type": "api_key", "regex": "\\b[A-Za-z0-9]{32,}\\b"},
        {"type": "password", "regex": "password[\\s:=]+[^\\s]+"},
        {"type": "ticket", "regex": "TICKET-\\d+"},
    ]
    own = {
        "privacy_config": {
            "auto_redaction": {"enabled": True, "patterns": patterns, "replacement": "[REDACTED]"},
            "retention_limits": {"conversation_days": 9, "decisions_days": 8},
            "auto_purge": {"enabled": False, "schedule_cron": "0 3 * * 1"},
        }
    }
    memory = smp_memory.open(":memory:", config=own)
    text = "ask bob@example.com, key " + "q7" * 20 + ", password: hunter2x or TICKET-4711"
    turn = memory.create_session("s").add_turn("user", text)
    assert turn.content == "ask [REDACTED], key [REDACTED], [REDACTED] or [REDACTED]"
    assert (memory.config["retention.days.decision"], memory.config["retention.enabled"]) == (8, False)
    assert [key for _, key in memory.config.unused] == ["privacy_config.auto_purge.schedule_cron"]
    assert memory.redact(preview=True) == []


@pytest.mark.parametrize("regex", [r"(a+)+b", r"\d+x", r"[a-z]+@[a-z]+", r"(\d+)"])
def test_pattern_with_exponential_cost_is_rejected(regex: str) -> None:
    with pytest.raises(InvalidConfig, match=r"too long|repeat"):
        smp_memory.open(":memory:", config={"privacy.redaction.patterns": [{"type": "own", "regex": regex}]})


def test_decay_block_of_001_at_the_top_level_opens_the_store(tmp_path: Path) -> None:
    block = {
        "decay_config": {"conversation": {"decay_rate": 0.1, "half_life_hours": 168}},
        "update_interval_hours": 24,
        "minimum_decay_factor": 0.1,
        "version": "2.3",
    }
    (tmp_path / "config.json").write_text(json.dumps(block))
    with smp_memory.open(tmp_path) as memory:
        assert memory.config["decay.minimum_factor"] == 0.1
        assert memory.config["decay.half_life_hours.conversation"] == 168
        assert [key for _, key in memory.config.unused] == ["update_interval_hours", "version"]
    assert json.loads((tmp_path / "config.json").read_text()).items() >= block.items()


def test_quota_policy_of_003_with_its_size_calculation_does_not_close_the_store() -> None:
    policy = {
        "max_session_size_bytes": 5 * 1024 * 1024,
        "warning_threshold_pct": 70,
        "critical_threshold_pct": 90,
        "size_calculation": {"include": ["All YAML files"], "exclude": ["Lock files"]},
    }
    config = Config.build({"quota_policy": policy}, FILE)
    assert config["storage.max_session_size_mb"] == 5
    assert (config["storage.warning_percent"], config["storage.critical_percent"]) == (70, 90)
    unused = [key for _, key in config.unused]
    assert unused == ["quota_policy.size_calculation.include", "quota_policy.size_calculation.exclude"]
