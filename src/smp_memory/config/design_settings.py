"""Translate the settings of the original designs 001, 003 and 004 into SMP's own. Pure.

Each key of a design is either translated, or known and without effect in SMP: such a key stays in the file, `Config.unused` names
it, and it is reported once. A key whose value matches SMP's behaviour (`compression.enabled: false`) is not reported. A setting
under SMP's own name takes precedence. See docs/reference/designs.md.
"""

from __future__ import annotations

from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TYPES = {"conversation": "conversation", "decision": "decision", "finding": "finding", "preference": "preference"}
_PLURALS = {"decisions": "decision", "findings": "finding", "preferences": "preference"}
_RULES = {
    "conversation_turns": "conversation",
    **_PLURALS,
    "agent_states": "agent_state",
}  # names in `decay_rules` of 003
_HALF_LIVES = ("conversation", "decision", "finding", "other")
_NEVER_HOURS = 10_000_000  # the longest half-life

_SAME = {
    "privacy.auto_purge": "retention.enabled",
    "privacy_config.auto_redaction.enabled": "privacy.redaction.enabled",
    "privacy_config.auto_redaction.patterns": "privacy.redaction.patterns",
    "privacy_config.auto_redaction.replacement": "privacy.redaction.replacement",
    "privacy.auto_redaction.enabled": "privacy.redaction.enabled",
    "privacy.auto_redaction.patterns": "privacy.redaction.patterns",
    "privacy.auto_redaction.replacement": "privacy.redaction.replacement",
    "privacy_config.auto_purge.enabled": "retention.enabled",
    "storage.auto_compact": "compaction.enabled",
    "compaction_config.auto_compact": "compaction.enabled",
    "decay.min_decay_factor": "decay.minimum_factor",
    "decay_config.min_decay_factor": "decay.minimum_factor",
    "decay_config.minimum_decay_factor": "decay.minimum_factor",
    "minimum_decay_factor": "decay.minimum_factor",
    "min_decay_factor": "decay.minimum_factor",
    "decay_config.enabled": "decay.enabled",
    "quota_policy.warning_threshold_pct": "storage.warning_percent",
    "quota_policy.critical_threshold_pct": "storage.critical_percent",
    **{f"privacy.retention_days.{name}": f"retention.days.{name}" for name in _TYPES},
    **{
        f"privacy_config.retention_limits.{name}_days": f"retention.days.{kind}"
        for name, kind in {**_TYPES, **_PLURALS}.items()
    },
    **{f"decay_config.{name}.decay_rate": f"decay.rates.{name}" for name in _TYPES},
    **{f"decay_config.{name}.half_life_hours": f"decay.half_life_hours.{name}" for name in _TYPES},
    **{f"decay.type_specific.{name}.half_life_hours": f"decay.half_life_hours.{name}" for name in _TYPES},
    **{f"decay_rules.{name}.decay_rate": f"decay.rates.{kind}" for name, kind in _RULES.items()},
}
_SHARES = {"storage.compaction_threshold": 1, "compaction_config.threshold": 1, "compaction.keep_percentage": -1}
_COMPUTED = (
    *_SHARES,
    "compaction.trigger_threshold_mb",
    "quota_policy.max_session_size_bytes",
    "decay_config.half_life_hours",
    *(f"decay.type_specific.{name}.decay_enabled" for name in _TYPES),
)
# The rules of 003 are sentences: the numbers in these become settings, each of the others must be one of `_KEPT_RULES`.
_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_SENTENCES = (
    (rf"remove decayed memories \(priority < {_NUMBER}\)", "compaction.faded_below"),
    (rf"summarize old conversation \(> {_NUMBER} days\)", "compaction.old_turns_days"),
    (rf"last {_NUMBER} hours of conversation", "compaction.keep_turns_hours"),
    (rf"memories with priority > {_NUMBER}", "compaction.keep_priority"),
    (rf"memories accessed in last {_NUMBER} hours", "compaction.keep_used_hours"),
)
_KEPT_RULES = (
    "archive resolved findings",
    "compress agent state history",
    "remove duplicate index entries",
    "active decisions (not resolved)",
    "open findings (not resolved)",
    "explicit user preferences",
    "user-pinned memories",
)
_TRIGGERS = {  # action: the share of the quota from which it runs, the share that it frees
    "gentle compaction": ("storage.warning_percent", "storage.gentle_percent"),
    "aggressive compaction": ("storage.critical_percent", "storage.forced_percent"),
}
_RULE_LISTS = (
    "compaction_rules.automatic_triggers",
    "compaction_rules.compaction_operations.priority_order",
    "compaction_rules.preservation_rules.never_remove",
    "compaction_rules.preservation_rules.always_preserve",
)
# Known, without effect in SMP; with the values that match what SMP does, which are not reported.
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    "storage.root_path": (".bmad/memory",),
    "storage.root_directory": ("./memory", "memory"),
    "storage.format": ("jsonl",),
    "storage.encoding": ("utf-8",),
    "storage.compression.enabled": (False,),
    "storage.compression.algorithm": ("gzip",),
    "concurrency.lock_retry_interval_ms": (),
    "concurrency.max_concurrent_writes": (),
    "concurrency.max_retries": (),
    "concurrency.retry_backoff_ms": (),
    "indexing.enabled": (True,),
    "indexing.update_strategy": ("incremental",),
    "indexing.rebuild_threshold_writes": (),
    "indexing.cache_size_mb": (),
    "decay.update_interval_hours": (),
    "decay.update_interval_minutes": (),
    "decay_config.update_interval_hours": (),
    "update_interval_hours": (),
    "version": ("1.0",),
    "compaction.strategy": ("relevance_based",),
    "privacy.audit_deletions": (True,),
    "privacy_config.auto_purge.schedule_cron": (),
    "performance.batch_write_size": (),
    "performance.batch_write_interval_ms": (),
    "performance.index_cache_ttl_seconds": (),
    "performance.lazy_load": (True,),
    "performance.cache_size": (),
    "performance.index_in_memory": (),
    "compaction_rules.manual_triggers": ([{"command": "compact_session", "user_initiated": True}],),
    **{
        f"decay_rules.{name}.{field}": (KINDS[kind].decay[at],)
        for name, kind in _RULES.items()
        for at, field in ((0, "base_priority"), (2, "access_boost"))
    },
    **dict.fromkeys((f"decay_rules.{name}.{field}" for name in _RULES for field in ("note", "special_rules")), ()),
    "quota_policy.size_calculation.include": (),
    "quota_policy.size_calculation.exclude": (),
    "integrity.enable_checksums": (True,),
    "integrity.checksum_algorithm": ("sha256",),
}
_KEYS = frozenset((*_SAME, *_COMPUTED, *_WITHOUT_EFFECT, *_RULE_LISTS))
_SECTIONS = frozenset(key[:at] for key in _KEYS for at, character in enumerate(key) if character == ".")


class DesignSettings:
    """The settings of a design in one file, session or argument, collected key by key."""

    def __init__(self) -> None:
        self.translated: dict[str, tuple[str, Any]] = {}  # by SMP's name: the design's name, the value
        self.unused: list[str] = []
        self._numbers: dict[str, float] = {}

    @staticmethod
    def knows(path: str) -> bool:
        return path in _KEYS

    @staticmethod
    def is_section(path: str) -> bool:
        return path in _SECTIONS

    def add(self, path: str, value: Any) -> str | None:
        """Add a key. Returns a description of the allowed values if the value is invalid, else None."""
        if path in _SAME:
            self.translated[_SAME[path]] = path, value
        elif path in _WITHOUT_EFFECT:
            if value not in _WITHOUT_EFFECT[path]:
                self.unused.append(path)
        elif path in _RULE_LISTS:
            return self._add_rules(path, value)
        elif path.endswith(".decay_enabled"):
            return self._add_decay_switch(path, value)
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
            return "a number above 0"
        elif path in _SHARES and value > 1:
            return "a number from 0 to 1"
        else:
            self._numbers[path] = value
        return None

    def _add_decay_switch(self, path: str, value: Any) -> str | None:
        if not isinstance(value, bool):
            return "true or false"
        kind = path.split(".")[2]
        if not value:
            self.translated[f"decay.half_life_hours.{kind}"] = path, _NEVER_HOURS
        return None

    def _add_rules(self, path: str, value: Any) -> str | None:
        rules = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(rules, list):
            return "a list of rules"
        for rule in rules:
            found = _trigger(rule) if isinstance(rule, dict) else _sentence(rule)
            if found is None:
                self.unused.append(path)
            for name, number in found or ():
                self.translated[name] = path, number
        return None

    def finish(self, own: dict[str, Any]) -> dict[str, tuple[str, Any]]:
        """The translated settings, without those given under SMP's own name in `own`."""
        for path, number in self._numbers.items():
            for name, value in self._computed(path, number, own):
                self.translated.setdefault(name, (path, value))
        half_lives = [path for name, (path, _) in self.translated.items() if name.startswith("decay.half_life_hours.")]
        if half_lives:
            has_rates = any(
                name.startswith("decay.rates.") and path.startswith("decay_config.")
                for name, (path, _) in self.translated.items()
            )
            self.translated.setdefault("decay.policy", (half_lives[0], "boosted" if has_rates else "half-life"))
        return {name: each for name, each in self.translated.items() if name not in own}

    @staticmethod
    def _computed(path: str, number: float, own: dict[str, Any]) -> list[tuple[str, Any]]:
        if path in _SHARES:
            if _SHARES[path] < 0:
                return [("storage.gentle_percent", round(100 - 100 * number, 6))]
            return [("storage.warning_percent", round(100 * number, 6))]
        if path == "compaction.trigger_threshold_mb":
            share = 100 * number / float(own.get("storage.max_session_size_mb", 10))
            return [("storage.warning_percent", round(min(share, 100.0), 6))]
        if path == "quota_policy.max_session_size_bytes":
            return [("storage.max_session_size_mb", number / (1024 * 1024))]
        return [(f"decay.half_life_hours.{name}", number) for name in _HALF_LIVES]


def _sentence(rule: Any) -> list[tuple[str, float]] | None:
    """The setting that a rule of 003 states; empty: SMP does so; None: SMP does not know it."""
    import re  # rare, and slow to load

    text = rule.strip().lower() if isinstance(rule, str) else ""
    for pattern, name in _SENTENCES:
        found = re.fullmatch(pattern, text)
        if found:
            return [(name, float(found[1]))]
    return [] if text in _KEPT_RULES else None


def _trigger(rule: dict[str, Any]) -> list[tuple[str, float]] | None:
    """The settings of a trigger: `{"condition": "size > 80% of quota", "action": …, "target_reduction": "10% of current size"}`."""
    import re  # rare, and slow to load

    names = _TRIGGERS.get(str(rule.get("action")).strip().lower())
    limit = re.fullmatch(rf"size > {_NUMBER}% of quota", str(rule.get("condition")).strip().lower())
    freed = re.fullmatch(rf"{_NUMBER}% of current size", str(rule.get("target_reduction")).strip().lower())
    return [(names[0], float(limit[1])), (names[1], float(freed[1]))] if names and limit and freed else None
