"""Immutable settings of a store or a session, under one schema with sources.

A value comes from the first of these that has one: an argument, the environment (`SMP_` and the dotted name in
capitals, `SMP_CONCURRENCY_LOCK_TIMEOUT_MS`), the session's own overrides, the file `config.json` at the store's
root, the default. To add a setting, add one line to `SETTINGS`.

Guarantees: a `Config` is immutable; every value in it was validated; an unknown key or a bad value is an
`InvalidConfig` that names the key, where it came from and what is allowed. `layout` and `format` belong to the
whole store: once the file states them, the environment does not change them, an argument that names another layout
is a `LayoutMismatch`, and a session cannot override them. A file of a newer format is `FormatTooNew`, whatever else
it contains. A setting that names code to run is accepted only from the environment and from arguments.
Non-guarantees: nothing is read or written here; the caller passes the content of files and `os.environ`. Unknown `SMP_*`
variables are ignored, because other tools may own them; an empty variable counts as not set.
"""

from __future__ import annotations

from smp_memory.config_values import (
    Between,
    ChoiceOf,
    FunctionName,
    NameList,
    Patterns,
    Positive,
    Replacement,
    Switch,
    Whole,
)
from smp_memory.errors import FormatTooNew, InvalidConfig, LayoutMismatch
from smp_memory.model.types import KINDS

TYPE_CHECKING = False  # typing itself is not loaded at run time: `import smp_memory` must be fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from smp_memory.config_values import ValueCheck
    from smp_memory.design_settings import DesignSettings

    Flat = dict[str, Any]
    Layer = tuple[str, Flat]  # where the values came from, and the values by dotted name


FORMAT = 1
DEFAULT_ROOTS = {"jsonl": ".bmad/memory", "single": ".bmad/sessions", "markdown": ".bmad/sessions", "log": "memory"}

_MB, _KB = 1024 * 1024, 1024
_QUOTED_CHARACTERS = 80


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
    Setting("search.semantic", "auto", ChoiceOf("auto", "off"), "Whether searches use embeddings besides words: auto, if a model is installed."),
    Setting("search.embedder", None, FunctionName(), "A function of yours as the embedding model, see finding.md; never from a store.", user_only=True),
    Setting("privacy.redaction.enabled", True, Switch(), "Whether secrets are redacted when memories are written, see privacy.md."),
    Setting("privacy.redaction.off", [], NameList(), "Rules or kinds that are not applied, such as phone."),
    Setting("privacy.redaction.patterns", [], Patterns(), "Additional patterns to redact."),
    Setting("privacy.redaction.replacement", "[REDACTED:{kind}]", Replacement(), "The text that replaces a secret."),
    Setting("context.share_users", False, Switch(), "Whether a context includes memories from sessions of other users."),
    Setting("track_access", True, Switch(), "Whether being found raises the priority of a memory."),
    Setting("decay.enabled", True, Switch(), "Whether memories decay at all."),
    Setting("decay.policy", "smp", ChoiceOf("smp", "half-life", "boosted", "simple"), "The policy by which memories decay."),
    Setting("decay.rates.conversation", KINDS["conversation"].decay[1], Between(0, 10), "The decay rate of turns per day: smp, simple."),
    Setting("decay.rates.decision", KINDS["decision"].decay[1], Between(0, 10), "The decay rate of decisions per day: smp, simple."),
    Setting("decay.rates.finding", KINDS["finding"].decay[1], Between(0, 10), "The decay rate of findings per day: smp, simple."),
    Setting("decay.rates.preference", KINDS["preference"].decay[1], Between(0, 10), "The decay rate of preferences per day: smp, simple."),
    Setting("decay.rates.agent_state", KINDS["agent_state"].decay[1], Between(0, 10), "The decay rate of agent states per day: smp, simple."),
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
    Setting("recall.min_relevance", 0.65, Between(0, 1), "How relevant a memory must be before hooks and MCP hand it to an agent: the probability that it answers. A context takes weaker matches last."),
    Setting("hooks.recall", True, Switch(), "Whether hooks of coding agents put memories into the conversation."),
    Setting("hooks.recall_agents", True, Switch(), "Whether they do so for agents that the host starts, too."),
    Setting("hooks.record", True, Switch(), "Whether they record what is said."),
    Setting("hooks.start_tokens", 1200, Whole(0, 100_000), "How much they recall at the start of a session."),
    Setting("hooks.prompt_tokens", 500, Whole(0, 100_000), "How much at each prompt, and for each agent that is started."),
    Setting("retention.enabled", False, Switch(), "Whether old memories are moved to the trash automatically."),
    Setting("retention.days.conversation", KINDS["conversation"].retention_days, Whole(0, 36_500), "How long turns are kept; 0 means for ever."),
    Setting("retention.days.decision", KINDS["decision"].retention_days, Whole(0, 36_500), "How long decisions are kept."),
    Setting("retention.days.finding", KINDS["finding"].retention_days, Whole(0, 36_500), "How long findings are kept."),
    Setting("retention.days.preference", KINDS["preference"].retention_days, Whole(0, 36_500), "How long preferences are kept."),
)  # fmt: skip

_BY_PATH = {setting.path: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
_SECTIONS = {path[:at] for path in _BY_PATH for at, character in enumerate(path) if character == "."}
_OTHER_NAMES = {"privacy.auto_redaction": "privacy.redaction.enabled"}  # the name in a design
WRAPPER = "memory_config"  # the design of the jsonl layout puts all settings inside it


class Config:
    """All settings of a store, or of one session in it. `config["concurrency.lock_timeout_ms"]` gives a value."""

    __slots__ = ("_layers", "_sources", "_values", "slow_seconds")

    _layers: tuple[Layer, Layer, Layer, Layer]  # file, session, environment, arguments
    _values: Flat
    _sources: dict[str, str]
    slow_seconds: float  # an attribute, because every operation compares its duration with it

    def __init__(self, file: Layer, session: Layer, environment: Layer, arguments: Layer) -> None:
        values: Flat = {setting.path: setting.default for setting in SETTINGS}
        sources = dict.fromkeys(values, "default")
        for source, flat in (file, session, environment, arguments):
            for path, value in flat.items():
                values[path] = value
                sources[path] = f"{source} {_BY_PATH[path].variable}" if source == "environment" else source
        object.__setattr__(self, "_layers", (file, session, environment, arguments))
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_sources", sources)
        object.__setattr__(self, "slow_seconds", values["observability.slow_ms"] / 1000)

    @classmethod
    def build(
        cls,
        file: Mapping[str, Any] | None,
        file_path: str,
        session: Mapping[str, Any] | None = None,
        session_id: str = "",
        environ: Mapping[str, str] | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Config:
        """Determine every setting. Mappings are nested as in the file; `environ` is usually `os.environ`."""
        reject_newer_format(file, file_path)
        stated = _of_store(_flatten(file, f"file {file_path}"), f"file {file_path}")
        requested = _flatten(arguments, "argument")
        _reject_other_layout(stated, requested, file_path)
        return cls(
            (f"file {file_path}", stated),
            _session_layer(session, session_id),
            ("environment", _from_environment(environ or {}, stated)),
            ("argument", requested),
        )

    def override_session(self, mapping: Mapping[str, Any] | None, session_id: str) -> Config:
        """The settings of one session: its overrides in place of another session's, below environment and arguments."""
        file, _, environment, arguments = self._layers
        return Config(file, _session_layer(mapping, session_id), environment, arguments)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            _unknown(name, "argument")
        return self._values[name]

    def source(self, name: str) -> str:
        """The source of a value: default, file PATH, session ID, environment SMP_NAME or argument."""
        if name not in self._sources:
            _unknown(name, "argument")
        return self._sources[name]

    def rows(self) -> list[tuple[str, Any, str, str]]:
        """Name, value, source and explanation of every setting, in the order of the schema."""
        return [(each.path, self._values[each.path], self._sources[each.path], each.doc) for each in SETTINGS]

    @property
    def unused(self) -> list[tuple[str, str]]:
        """Settings of a design that have no effect in SMP: source and name of each."""
        return [(source, key) for source, flat in self._layers for key in getattr(flat, "unused", ())]

    def to_dict(self) -> dict[str, Any]:
        """All values, nested as in the file."""
        return _nested(self._values)

    @property
    def layout(self) -> str:
        return str(self._values["layout"])

    @property
    def format(self) -> int:
        return int(self._values["format"])

    @property
    def durability(self) -> str:
        return str(self._values["durability"])

    @property
    def sync_interval_seconds(self) -> float:
        return float(self._values["sync_interval_seconds"])

    @property
    def lock_timeout_seconds(self) -> float:
        return float(self._values["concurrency.lock_timeout_ms"] / 1000)

    @property
    def quota_bytes(self) -> int:
        return int(self._values["storage.max_session_size_mb"] * _MB)

    @property
    def content_limit_bytes(self) -> int:
        return int(self._values["storage.max_content_kb"] * _KB)

    def section(self, name: str) -> dict[str, Any]:
        """All settings of a section, nested as in the file: `config.section("lifecycle")`."""
        start = f"{name}."
        section: dict[str, Any] = _nested(
            {path: value for path, value in self._values.items() if path.startswith(start)}
        )[name]
        return section

    @property
    def decay(self) -> dict[str, Any]:
        """The section `decay`, as `smp_memory.decay.policy_of` expects it."""
        return self.section("decay")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A Config never changes; {name!r} cannot be set. Build a new one.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A Config never changes; {name!r} cannot be deleted.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, self._layers

    def __repr__(self) -> str:
        changed = [f"{path}={self._values[path]!r}" for path, source in self._sources.items() if source != "default"]
        return f"Config({', '.join(changed)})"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name as nested mappings."""
    nested: dict[str, Any] = {}
    for path, value in values.items():
        *sections, name = path.split(".")
        inner = nested
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return nested


def _flatten(mapping: Any, source: str) -> Flat:
    """Flatten nested settings to dotted names and validate each. Dotted names are accepted as keys, too."""
    flat = Values()
    if mapping is not None:
        _collect(mapping, "", source, flat, may_wrap=True)
    if flat.design is not None:
        for path, (key, value) in flat.design.finish(flat).items():
            setting = _BY_PATH[path]
            if not setting.check.accepts(value):
                _bad_value(key, value, source, setting.check.allowed)
            flat[path] = value
        flat.unused, flat.design = tuple(flat.design.unused), None
    return flat


class Values(dict[str, "Any"]):
    """Settings by dotted name, and the keys of a design without effect."""

    unused: tuple[str, ...] = ()
    design: DesignSettings | None = None


def _collect(mapping: Any, prefix: str, source: str, flat: Values, may_wrap: bool = False) -> None:
    if not _is_section(mapping):
        _not_a_section(prefix, mapping, source)
    for key, value in mapping.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if not _is_section(value):
            path = canonical_name(path)
        if path in _BY_PATH:
            if path in flat:
                raise InvalidConfig(f"The setting '{path}' is given twice ({source}).", key=path, source=source)
            flat[path] = _checked(_BY_PATH[path], value, source)
        elif path == WRAPPER and may_wrap:
            _collect(value, "", source, flat)
        elif path in _SECTIONS:
            _collect(value, path, source, flat)
        elif not _collect_design_setting(path, value, source, flat):
            _unknown(_first_leaf(path, value), source)


def _collect_design_setting(path: str, value: Any, source: str, flat: Values) -> bool:
    """Collect a setting or a section of a design; False if the path belongs to no design."""
    from smp_memory.design_settings import DesignSettings

    if DesignSettings.is_section(path) and _is_section(value) and len(value):
        _collect(value, path, source, flat)
        return True
    if not DesignSettings.knows(path):
        return False
    if flat.design is None:
        flat.design = DesignSettings()
    allowed = flat.design.add(path, value)
    if allowed is not None:
        _bad_value(path, value, source, allowed)
    return True


def _from_environment(environ: Mapping[str, str], stated: Flat) -> Flat:
    flat: Flat = {}
    for variable, setting in _BY_VARIABLE.items():
        text = environ.get(variable)
        if not text:
            continue
        source = f"environment {variable}"
        try:
            value = setting.check.parse(text)
        except ValueError:
            _bad_value(setting.path, text, source, setting.check.allowed)
        _checked(setting, value, source, text)
        if not (setting.store_wide and setting.path in stated):
            flat[setting.path] = value
    return flat


def _of_store(flat: Flat, source: str) -> Flat:
    """Settings from a store's own files, which must not name code to run."""
    for path, value in flat.items():
        if _BY_PATH[path].user_only and value != _BY_PATH[path].default:
            raise InvalidConfig(
                f"The setting '{path}' ({source}) is not accepted from a store, because it names code to run. Remove it there; "
                f"set {_BY_PATH[path].variable} in your environment, or give it as an argument.",
                key=path,
                source=source,
            )
    return flat


def _session_layer(mapping: Mapping[str, Any] | None, session_id: str) -> Layer:
    source = f"session {session_id}"
    flat = _of_store(_flatten(mapping, source), source)
    for path in flat:
        if _BY_PATH[path].store_wide:
            raise InvalidConfig(
                f"The setting '{path}' ({source}) belongs to the whole store; a session cannot override it.",
                key=path,
                source=source,
            )
    return source, flat


def reject_newer_format(file: Any, file_path: str) -> None:
    """Checked first: a newer format may have keys that this version does not know."""
    found = file.get("format") if _is_section(file) else None
    if isinstance(found, int) and not isinstance(found, bool) and found > FORMAT:
        raise FormatTooNew(
            f"The store has format {found}, this version of smp knows formats up to {FORMAT} (file {file_path}). "
            "Nothing was changed; use a newer smp.",
            path=file_path,
            found=found,
            known=FORMAT,
        )


def _reject_other_layout(stated: Flat, requested: Flat, file_path: str) -> None:
    if "layout" in stated and requested.get("layout", stated["layout"]) != stated["layout"]:
        raise LayoutMismatch(
            f"The store has the layout {stated['layout']} (file {file_path}), requested was {requested['layout']}. "
            "Leave the layout out to open it as it is, or convert it.",
            path=file_path,
            found=stated["layout"],
            asked=requested["layout"],
        )


def _checked(setting: Setting, value: Any, source: str, text: str | None = None) -> Any:
    if not setting.check.accepts(value):
        _bad_value(setting.path, value if text is None else text, source, setting.check.allowed)
    return value


def _bad_value(path: str, value: Any, source: str, allowed: str) -> NoReturn:
    raise InvalidConfig(
        f"Bad value for the setting '{path}' ({source}): {_quoted(value)}. Allowed: {allowed}.",
        key=path,
        source=source,
        allowed=allowed,
    )


def _not_a_section(path: str, value: Any, source: str) -> NoReturn:
    inside = ", ".join(known[len(path) + 1 :] for known in _BY_PATH if known.startswith(path + "."))
    what = f"The setting '{path}'" if path else "The settings"
    allowed = f"an object with {inside}" if path else "an object with settings"
    raise InvalidConfig(
        f"{what} ({source}) must be {allowed}, not {_quoted(value)}.", key=path, source=source, allowed=allowed
    )


def canonical_name(path: str) -> str:
    """The name of a setting; an alias is replaced."""
    return _OTHER_NAMES.get(path, path)


def _unknown(path: str, source: str) -> NoReturn:
    import difflib  # rare, and slow to load

    known = list(_BY_PATH)
    last_names = {name.rpartition(".")[2]: name for name in known}  # for names given without their section
    near = (
        [canonical_name(path)]
        if path in _OTHER_NAMES
        else difflib.get_close_matches(path, known, 1)
        or [last_names[name] for name in difflib.get_close_matches(path.rpartition(".")[2], list(last_names), 1)]
    )
    hint = (
        f"Did you mean '{near[0]}'?" if near else f"Known settings: {', '.join(known[:8])}, …; `smp config` lists all."
    )
    raise InvalidConfig(
        f"Unknown setting {_quoted(path)} ({source}). {hint}",
        key=path,
        source=source,
        suggestion=near[0] if near else None,
    )


def _first_leaf(path: str, value: Any) -> str:
    """The first key inside an unknown section: it gives a better suggestion than the section."""
    if not _is_section(value):
        return path
    first = next(iter(value.keys()), None)
    return path if first is None else f"{path}.{first}"


def _is_section(value: Any) -> bool:
    return hasattr(value, "items") and hasattr(value, "keys")


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _QUOTED_CHARACTERS else text[: _QUOTED_CHARACTERS - 1] + "…"
