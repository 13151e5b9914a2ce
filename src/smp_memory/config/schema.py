"""Definition of every setting: default, allowed values, what depends on it, and whether it protects. Pure.

`SETTINGS` has one row for each setting. `NEEDED_FOR` says what SMP refuses while a value cannot be used. `LOWERS` has the protective
settings: a change that lowers protection and comes with the store's files counts only after the user trusts it (docs/adr/0019).
To add a kind of value, write a class with the three parts of `ValueCheck`. `allowed` completes "Allowed: …" in an error.
"""

from __future__ import annotations

from smp_memory.model.types import KINDS

TYPE_CHECKING = False  # typing itself is not loaded at run time: `import smp_memory` must be fast
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class ValueCheck(Protocol):
        """What values a setting may have."""

        allowed: str

        def accepts(self, value: Any) -> bool: ...

        def parse(self, text: str) -> Any:
            """Parse the text of an environment variable; raises ValueError."""


class ChoiceOf:
    """One of several words."""

    __slots__ = ("allowed", "words")

    def __init__(self, *words: str) -> None:
        self.words = words
        self.allowed = "one of " + ", ".join(words)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    def parse(self, text: str) -> Any:
        return text


class Whole:
    """An integer in a closed range."""

    __slots__ = ("allowed", "high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.allowed = f"a whole number from {low} to {high}" if low < high else f"only {low}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def parse(self, text: str) -> Any:
        return int(_plain(text))


class Positive:
    """A number above 0, fractions allowed."""

    __slots__ = ("allowed", "high")

    def __init__(self, high: float) -> None:
        self.high = high
        self.allowed = f"a number above 0, at most {high}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= self.high

    def parse(self, text: str) -> Any:
        number = float(_plain(text))
        return int(number) if number.is_integer() else number


class Between:
    """A number in a closed range, fractions allowed."""

    __slots__ = ("allowed", "high", "low")

    def __init__(self, low: float, high: float) -> None:
        self.low = low
        self.high = high
        self.allowed = f"a number from {low} to {high}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high

    def parse(self, text: str) -> Any:
        return float(_plain(text))


_SWITCH_WORDS = {
    "true": True,
    "1": True,
    "on": True,
    "yes": True,
    "false": False,
    "0": False,
    "off": False,
    "no": False,
}


class Switch:
    """A boolean. In the environment also 1 or 0, on or off, yes or no, case-insensitive."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "true or false"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)

    def parse(self, text: str) -> Any:
        return _SWITCH_WORDS.get(text.strip().lower(), text)


class NameList:
    """A list of names without commas."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "a list of names; in the environment with commas between them"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(name, str) and name.strip() for name in value)

    def parse(self, text: str) -> Any:
        return _json(text) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]


class FunctionName:
    """A Python function by its name, `module:function`; an argument may be the function itself. None: no function."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "module:function; as an argument also the function itself"

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, str):
            return value is None or callable(value)
        module, _, function = value.partition(":")
        return all(part.isidentifier() for part in [*module.split("."), *function.split(".")])

    def parse(self, text: str) -> Any:
        return text.strip()


class Origin:
    """The store that writes a session, as `smp push` and `smp pull` record it in a copy. None: this is no copy."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "what `smp push` and `smp pull` write: an object with store, address, session, seq and checksum"

    def accepts(self, value: Any) -> bool:
        if value is None:
            return True
        texts = ("store", "address", "session", "checksum")
        return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in texts)

    def parse(self, text: str) -> Any:
        return _json(text)


class Replacement:
    """The text that replaces a secret; `{kind}` in it is the kind of secret."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = "1 to 64 characters on one line, such as [REDACTED] or [REDACTED:{kind}]"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and len(value.strip()) > 0 and len(value) <= 64 and value.isprintable()

    def parse(self, text: str) -> Any:
        return text


class Patterns:
    """Kinds of secrets with regular expressions; `smp_memory.privacy.custom_patterns` checks that they are safe to run."""

    __slots__ = ("allowed",)

    def __init__(self) -> None:
        self.allowed = 'a list of {"type": …, "regex": …}; in the environment as JSON'

    def accepts(self, value: Any) -> bool:
        return isinstance(value, list) and all(_is_pattern(item) for item in value)

    def parse(self, text: str) -> Any:
        return _json(text)


def _is_pattern(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and set(item) == {"type", "regex"}
        and all(isinstance(each, str) for each in item.values())
    )


def _json(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(text[:80]) from None


def _plain(text: str) -> str:
    """Reject what Python accepts and JSON does not: `1_000` and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text


# -- the settings

FORMAT = 1
DEFAULT_ROOTS = {"jsonl": ".bmad/memory", "single": ".bmad/sessions", "markdown": ".bmad/sessions", "log": "memory"}


class Setting:
    """One row of the schema."""

    __slots__ = ("check", "default", "doc", "path", "store_wide", "user_only", "variable")

    def __init__(
        self, path: str, default: Any, check: ValueCheck, doc: str, store_wide: bool = False, user_only: bool = False
    ) -> None:
        self.path = path
        self.default = default
        self.check = check
        self.doc = doc
        self.store_wide = store_wide
        self.user_only = user_only  # names code to run: never from a store, which may come from a stranger
        self.variable = "SMP_" + path.upper().replace(".", "_")


SETTINGS = (
    Setting("layout", "jsonl", ChoiceOf("jsonl", "markdown", "single", "log"), "How memories look on disk.", True),
    Setting("format", FORMAT, Whole(FORMAT, FORMAT), "The version of the file format.", True),
    Setting("durability", "always", ChoiceOf("always", "interval", "os"), "When a write is synced to disk."),
    Setting("sync_interval_seconds", 1.0, Positive(60), "How often the disk is synced when durability is interval."),
    Setting("concurrency.lock_timeout_ms", 5000, Whole(0, 600_000), "How long a writer waits for another one."),
    Setting("storage.max_session_size_mb", 10, Positive(250), "The maximum size of a session, in MiB."),
    Setting("storage.max_content_kb", 1024, Whole(1, 1024), "The maximum size of one memory, in KiB."),
    Setting("storage.warning_percent", 80, Between(1, 100), "The share of its quota from which a session is compacted gently."),
    Setting("storage.critical_percent", 95, Between(1, 100), "The share from which it is compacted in any case."),
    Setting("storage.gentle_percent", 10, Between(0, 100), "The share of a session that gentle compaction frees."),
    Setting("storage.forced_percent", 20, Between(0, 100), "The share that forced compaction frees."),
    Setting("search.semantic", "auto", ChoiceOf("auto", "minilm", "off"), "The embedding model that searches use besides words: auto, the small one of every installation; minilm, the larger one of the extra `models`."),
    Setting("offline", False, Switch(), "Whether a store in PostgreSQL is read from the index on this computer, as of the last catch-up, without asking the server.", user_only=True),
    Setting("search.catch_up_ms", 10_000, Whole(0, 3_600_000), "How long a query may bring the index of a store in PostgreSQL up to date, in milliseconds; hooks: 500. Then it answers from what is there, and says so."),
    Setting("search.model_ms", 1000, Whole(0, 60_000), "How long a new process may take to load a larger embedding model, in milliseconds; hooks: 150. Else the static model answers."),
    Setting("search.embedder", None, FunctionName(), "A function of yours as the embedding model, see finding.md; never from a store.", user_only=True),
    Setting("privacy.redaction.enabled", True, Switch(), "Whether secrets are redacted when memories are written, see privacy.md."),
    Setting("privacy.redaction.off", [], NameList(), "Rules or kinds that are not applied, such as phone."),
    Setting("privacy.redaction.patterns", [], Patterns(), "Additional patterns to redact."),
    Setting("privacy.redaction.replacement", "[REDACTED:{kind}]", Replacement(), "The text that replaces a secret."),
    Setting("context.share_users", False, Switch(), "Whether a context includes memories from sessions of other users."),
    Setting("track_access", True, Switch(), "Whether being found raises the priority of a memory."),
    Setting("decay.enabled", True, Switch(), "Whether memories decay at all."),
    Setting("decay.policy", "smp", ChoiceOf("smp", "half-life", "boosted", "simple"), "The policy by which memories decay."),
    Setting("decay.related", False, Switch(), "Whether memories decay with those that they are related to: the latest use of one counts for all."),
    Setting("decay.rates.conversation", KINDS["conversation"].decay[1], Between(0, 10), "The decay rate of turns per day: smp, simple."),
    Setting("decay.rates.decision", KINDS["decision"].decay[1], Between(0, 10), "The decay rate of decisions per day: smp, simple."),
    Setting("decay.rates.finding", KINDS["finding"].decay[1], Between(0, 10), "The decay rate of findings per day: smp, simple."),
    Setting("decay.rates.preference", KINDS["preference"].decay[1], Between(0, 10), "The decay rate of preferences per day: smp, simple."),
    Setting("decay.rates.agent_state", KINDS["agent_state"].decay[1], Between(0, 10), "The decay rate of agent states per day: smp, simple."),
    Setting("decay.rates.artifact", KINDS["artifact"].decay[1], Between(0, 10), "The decay rate of artifacts per day: smp, simple."),
    Setting("decay.floors.conversation", KINDS["conversation"].decay[3], Between(0, 1), "Turns do not decay below this: smp."),
    Setting("decay.floors.decision", KINDS["decision"].decay[3], Between(0, 1), "Decisions do not decay below this: smp."),
    Setting("decay.floors.finding", KINDS["finding"].decay[3], Between(0, 1), "Findings do not decay below this: smp."),
    Setting("decay.floors.preference", KINDS["preference"].decay[3], Between(0, 1), "Preferences do not decay below this: smp; inferred ones, 0.3."),
    Setting("decay.floors.agent_state", KINDS["agent_state"].decay[3], Between(0, 1), "Agent states do not decay below this: smp."),
    Setting("decay.half_life_hours.conversation", KINDS["conversation"].half_life_hours, Positive(10_000_000), "The half-life of turns: half-life, boosted."),
    Setting("decay.half_life_hours.decision", KINDS["decision"].half_life_hours, Positive(10_000_000), "The half-life of decisions: half-life, boosted."),
    Setting("decay.half_life_hours.finding", KINDS["finding"].half_life_hours, Positive(10_000_000), "The half-life of findings: half-life, boosted."),
    Setting("decay.half_life_hours.preference", KINDS["preference"].half_life_hours, Positive(10_000_000), "The half-life of preferences: boosted; with half-life they do not decay."),
    Setting("decay.half_life_hours.other", 168, Positive(10_000_000), "The half-life of all other types: half-life, boosted."),
    Setting("decay.minimum_factor", 0.1, Between(0, 1), "No memory decays below this: half-life, boosted."),
    Setting("compaction.enabled", True, Switch(), "Whether sessions are compacted automatically; `smp compact` works in any case."),
    Setting("compaction.faded_below", 0.3, Between(0, 1), "Memories with a priority below this are compacted first."),
    Setting("compaction.old_turns_days", 7, Between(0, 36_500), "Turns older than this are compacted next, into summaries."),
    Setting("compaction.keep_turns_hours", 24, Between(0, 876_000), "Turns younger than this stay."),
    Setting("compaction.keep_used_hours", 48, Between(0, 876_000), "Memories written or found within this time stay."),
    Setting("compaction.keep_priority", 0.7, Between(0, 1), "Memories with a priority above this stay."),
    Setting("compaction.keep_importance", 0.9, Between(0, 1), "Memories at least this important stay."),
    Setting("compaction.keep_referenced", True, Switch(), "Whether memories that an open or pinned memory refers to stay."),
    Setting("lifecycle.idle_hours", 24, Between(0, 876_000), "When an unused session is idle."),
    Setting("lifecycle.decaying_days", 7, Between(0, 36_500), "When an unused session is decaying."),
    Setting("lifecycle.archive_days", 30, Between(0, 36_500), "When an unused session is archived."),
    Setting("lifecycle.purge_days", 30, Between(0, 36_500), "How long a deleted session can be restored."),
    Setting("lifecycle.auto_archive", True, Switch(), "Whether maintenance archives unused sessions."),
    Setting("lifecycle.auto_purge", True, Switch(), "Whether maintenance purges deleted sessions and memories after that time."),
    Setting("maintenance.auto", True, Switch(), "Whether opening a store runs due, cheap maintenance tasks, a few times a day."),
    Setting("health.stale_days", 90, Between(0, 36_500), "The age from which `smp doctor` reports open memories that nobody touched; 0 means never."),
    Setting("observability.slow_ms", 1000, Whole(0, 600_000), "How long an operation or a wait for a lock takes before it is logged as slow; 0 logs all."),
    Setting("recall.min_relevance", 0.55, Between(0, 1), "How relevant a memory must be before a hook tells it to an agent unasked."),
    Setting("recall.min_pointer", 0.33, Between(0, 1), "How relevant a memory must be before a hook points at it on one line with its id, and before a context or `recall` over MCP contains it."),
    Setting("proposals.enabled", True, Switch(), "Whether rules propose memories from turns (`smp review`, hooks, MCP). A session may have its own value."),
    Setting("hooks.recall", True, Switch(), "Whether hooks of coding agents put memories into the conversation."),
    Setting("hooks.recall_agents", True, Switch(), "Whether they do so for agents that the host starts, too."),
    Setting("hooks.record", True, Switch(), "Whether they record what is said."),
    Setting("hooks.ask_to_record", True, Switch(), "Whether they ask the agent to write down what a conversation decided or found, if nothing of it was written down."),
    Setting("hooks.log_told", True, Switch(), "Whether they log which memories they told, by id (`smp told`)."),
    Setting("hooks.start_tokens", 1200, Whole(0, 100_000), "How much they recall at the start of a session."),
    Setting("hooks.prompt_tokens", 500, Whole(0, 100_000), "How much at each prompt, and for each agent that is started."),
    Setting("copy_of", None, Origin(), "Set in a session that `smp push` or `smp pull` copied: the store that writes it. This store only reads it."),
    Setting("retention.enabled", False, Switch(), "Whether old memories are moved to the trash automatically."),
    Setting("retention.days.conversation", KINDS["conversation"].retention_days, Whole(0, 36_500), "How long turns are kept; 0 means for ever."),
    Setting("retention.days.decision", KINDS["decision"].retention_days, Whole(0, 36_500), "How long decisions are kept."),
    Setting("retention.days.finding", KINDS["finding"].retention_days, Whole(0, 36_500), "How long findings are kept."),
    Setting("retention.days.preference", KINDS["preference"].retention_days, Whole(0, 36_500), "How long preferences are kept."),
)  # fmt: skip


# -- what depends on a setting

WRITE, REMOVE, RECORD = (
    "write",
    "remove",
    "record",
)  # storing anything; compaction, archiving, expiry, purge; recording by hooks
_ALL = (WRITE, REMOVE)
# By section: what is refused while a value in it cannot be used. "" is the whole file; a section that is not here has harmless defaults.
NEEDED_FOR = {
    "": _ALL,
    "layout": _ALL,
    "format": _ALL,
    "durability": _ALL,
    "sync_interval_seconds": _ALL,
    "storage": _ALL,
    "privacy": _ALL,
    "copy_of": _ALL,
    "hooks": (RECORD,),
    "track_access": (REMOVE,),
    "decay": (REMOVE,),
    "compaction": (REMOVE,),
    "lifecycle": (REMOVE,),
    "maintenance": (REMOVE,),
    "retention": (REMOVE,),
    # sections and keys of the original designs
    "memory_config": _ALL,
    "privacy_config": _ALL,
    "quota_policy": _ALL,
    "decay_config": (REMOVE,),
    "decay_rules": (REMOVE,),
    "min_decay_factor": (REMOVE,),
    "minimum_decay_factor": (REMOVE,),
    "compaction_config": (REMOVE,),
    "compaction_rules": (REMOVE,),
}


# -- protective settings


def _is_less(old: Any, new: Any) -> bool:
    return bool(new < old)


def _is_more(old: Any, new: Any) -> bool:
    return bool(new > old)


def _is_sooner(old: int, new: int) -> bool:
    """Of days after which something is removed; 0 means never."""
    return new != 0 and (old == 0 or new < old)


def _adds_any(old: list[Any], new: list[Any]) -> bool:
    return any(each not in old for each in new)


def _lacks_any(old: list[Any], new: list[Any]) -> bool:
    return any(each not in new for each in old)


def _is_less_durable(old: str, new: str) -> bool:
    order = ("always", "interval", "os")
    return order.index(new) > order.index(old)


# Whether the step from an old value to a new one lowers protection: SMP redacts less, tells or records more, removes earlier, syncs less.
LOWERS: dict[str, Callable[[Any, Any], bool]] = {
    "durability": _is_less_durable,
    "privacy.redaction.enabled": _is_less,
    "privacy.redaction.off": _adds_any,
    "privacy.redaction.patterns": _lacks_any,
    "context.share_users": _is_more,
    "lifecycle.purge_days": _is_less,
    "lifecycle.auto_purge": _is_more,
    "maintenance.auto": _is_more,
    "recall.min_relevance": _is_less,
    "recall.min_pointer": _is_less,
    "proposals.enabled": _is_more,
    "hooks.recall": _is_more,
    "hooks.recall_agents": _is_more,
    "hooks.record": _is_more,
    "hooks.ask_to_record": _is_more,
    "hooks.log_told": _is_more,
    "hooks.start_tokens": _is_more,
    "hooks.prompt_tokens": _is_more,
    "retention.enabled": _is_more,
    "retention.days.conversation": _is_sooner,
    "retention.days.decision": _is_sooner,
    "retention.days.finding": _is_sooner,
    "retention.days.preference": _is_sooner,
}
