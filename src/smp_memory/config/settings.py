"""Immutable settings of a store or a session, under one schema with sources.

A value comes from the first of these that has one: an argument, the environment (`SMP_` and the dotted name in
capitals, `SMP_CONCURRENCY_LOCK_TIMEOUT_MS`), the session's own overrides, the file `config.json` at the store's
root, the default. `smp_memory.config.schema` defines the settings.

Guarantees: a `Config` is immutable; every value in it was validated. Nothing in a file, in the metadata of a session or in the
environment keeps a store from being read: an unknown key has no effect (`unused`); a value that cannot be used counts as not given
(`invalid`), and `require` refuses what depends on it. In an argument both are an `InvalidConfig`, which names the key and what is allowed.
`layout` and `format` belong to the whole store: once the file states them, the environment does not change them, an argument that
names another layout is a `LayoutMismatch`, and a session cannot override them. A file of a newer format is `FormatTooNew`, whatever
else it contains. A setting that names code to run is accepted only from the environment and from arguments. With `trusted`, a value
of the file or of a session that lowers protection counts only if the user trusted it (`held`).
Non-guarantees: nothing is read or written here; the caller passes the content of files and `os.environ`. Unknown `SMP_*`
variables are ignored, because other tools may own them; an empty variable counts as not set.
"""

from __future__ import annotations

from smp_memory.config.schema import (
    DEFAULT_ROOTS,
    FORMAT,
    LOWERS,
    NEEDED_FOR,
    RECORD,
    REMOVE,
    SETTINGS,
    WRITE,
)
from smp_memory.config.sources import (
    BY_PATH,
    Values,
    collect,
    from_environment,
    of_session,
    of_store,
    reject_newer_format,
    reject_other_layout,
    safe,
    suggestion,
    unknown_setting,
)
from smp_memory.errors import InvalidConfig, NotAllowed

TYPE_CHECKING = False  # typing itself is not loaded at run time: `import smp_memory` must be fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    Trusted = dict[str, dict[str, Any]]  # by session, "" for the file: the protective settings that the user trusted

__all__ = ["DEFAULT_ROOTS", "FORMAT", "RECORD", "REMOVE", "SETTINGS", "WRITE", "Config"]

COPY_OF = "copy_of"
_MB, _KB = 1024 * 1024, 1024
_LISTED_KEYS, _VALUE_CHARACTERS = 20, 320
_CONSEQUENCES = {
    WRITE: "nothing is written",
    REMOVE: "nothing is compacted, archived, expired or purged",
    RECORD: "hooks record nothing",
}


class HeldSetting:
    """A value in the store's files that lowers protection, and the trusted value that holds instead."""

    __slots__ = ("key", "session", "source", "stated", "trusted")

    def __init__(self, layer: Values, key: str, trusted: Any, stated: Any) -> None:
        self.source, self.session, self.key, self.trusted, self.stated = (
            layer.source,
            layer.session,
            key,
            trusted,
            stated,
        )

    def __str__(self) -> str:
        return f"{self.key} {_json(self.trusted)} → {_json(self.stated)}"


class Config:
    """All settings of a store, or of one session in it. `config["concurrency.lock_timeout_ms"]` gives a value."""

    __slots__ = ("_layers", "_sources", "_trusted", "_values", "held", "slow_seconds")

    _layers: tuple[Values, Values, Values, Values]  # file, session, environment, arguments
    _values: dict[str, Any]
    _sources: dict[str, str]
    _trusted: Trusted | None
    held: list[HeldSetting]  # values of the store's files that lower protection and wait for `smp trust`
    slow_seconds: float  # an attribute, because every operation compares its duration with it

    def __init__(
        self, file: Values, session: Values, environment: Values, arguments: Values, trusted: Trusted | None = None
    ) -> None:
        values: dict[str, Any] = {setting.path: setting.default for setting in SETTINGS}
        sources, held = dict.fromkeys(values, "default"), list[HeldSetting]()
        for layer in (file, session, environment, arguments):
            is_stored = layer is file or (layer is session and layer.session)
            kept = _kept(layer, values, trusted) if trusted is not None and is_stored else []
            for path, value in layer.items():
                values[path] = value
                sources[path] = f"{layer.source} {BY_PATH[path].variable}" if layer is environment else layer.source
            for each in kept:
                values[each.key], sources[each.key] = each.trusted, "trusted"
            held += kept
        object.__setattr__(self, "_layers", (file, session, environment, arguments))
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_sources", sources)
        object.__setattr__(self, "_trusted", trusted)
        object.__setattr__(self, "held", held)
        object.__setattr__(self, "slow_seconds", values["observability.slow_ms"] / 1000)

    @classmethod
    def build(
        cls,
        file: Mapping[str, Any] | InvalidConfig | None,
        file_path: str,
        session: Mapping[str, Any] | None = None,
        session_id: str = "",
        environ: Mapping[str, str] | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        layout: str | None = None,
        trusted: Trusted | None = None,
    ) -> Config:
        """Determine every setting. Mappings are nested as in the file; `environ` is usually `os.environ`.

        file     the content of the file, or the reason why it cannot be used.
        layout   the layout that was recognised, for a file that does not name one.
        trusted  the protective settings that the user trusted; None: all values count.
        """
        reject_newer_format(file, file_path)
        stated = of_store(collect(file, Values(f"file {file_path}")))
        if layout is not None:
            stated.setdefault("layout", layout)
            for error in stated.invalid:
                error.details["layout"] = layout
        requested = collect(arguments, Values("argument")).raise_first()
        reject_other_layout(stated, requested, file_path)
        own = of_session(session, session_id)
        return cls(stated, own, from_environment(environ or {}, stated), requested, trusted)

    def override_session(
        self, mapping: Mapping[str, Any] | None, session_id: str, path: str = "", *, strict: bool = False
    ) -> Config:
        """The settings of one session: its overrides in place of another session's, below environment and arguments.

        `path` is the file that has them. `strict`: an unknown key or a bad value is an InvalidConfig, as in an argument.
        """
        file, _, environment, arguments = self._layers
        own = of_session(mapping, session_id, path)
        return Config(file, own.raise_first() if strict else own, environment, arguments, self._trusted)

    def without(self, key: str, problem: str) -> Config:
        """The settings without the value of one, which cannot be used because of this problem. Raises it for an argument."""
        file, session, environment, arguments = (layer.copy() for layer in self._layers)
        layer = next((layer for layer in (arguments, environment, session, file) if key in layer), arguments)
        if layer is arguments:
            raise InvalidConfig(problem, key=key, source="argument")
        layer.reject(key, f"{problem.rstrip('.')} ({layer.place}).")
        return Config(file, session, environment, arguments, self._trusted)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise unknown_setting(name, "argument")
        return self._values[name]

    def source(self, name: str) -> str:
        """The source of a value: default, file PATH, session ID, environment SMP_NAME, argument, or trusted (see `held`)."""
        if name not in self._sources:
            raise unknown_setting(name, "argument")
        return self._sources[name]

    def rows(self) -> list[tuple[str, Any, str, str]]:
        """Name, value, source and explanation of every setting, in the order of the schema."""
        return [(each.path, self._values[each.path], self._sources[each.path], each.doc) for each in SETTINGS]

    # -- what is wrong with the sources

    @property
    def unused(self) -> list[tuple[str, str]]:
        """Keys that have no effect, unknown or of a design: source and name of each."""
        return [(layer.source, key) for layer in self._layers for key in (*layer.unused, *layer.unknown)]

    @property
    def unknown(self) -> list[str]:
        """The keys among `unused` that neither SMP nor a design has."""
        return [key for layer in self._layers for key in layer.unknown]

    @property
    def invalid(self) -> list[InvalidConfig]:
        """Values that cannot be used, each as the error that names it. They count as not given."""
        return [error for layer in self._layers for error in layer.invalid]

    @property
    def own(self) -> Values:
        """The session's own settings."""
        return self._layers[1]

    def allows(self, purpose: str) -> bool:
        """Whether every setting that WRITE, REMOVE or RECORD depends on can be used, and the session is no copy."""
        return not self._values[COPY_OF] and not any(purpose in needed_for(error) for error in self.invalid)

    def require(self, purpose: str) -> None:
        """Raise InvalidConfig if a setting that the purpose depends on cannot be used, NotAllowed in a copy of a session."""
        self.require_original()
        for error in self.invalid:
            if purpose in needed_for(error):
                text = f"{error.message} Until it is corrected, {_CONSEQUENCES[purpose]}. {setting_advice(error)}"
                raise InvalidConfig(text, **error.details)

    def require_original(self) -> None:
        """Raise NotAllowed in a copy of a session, which another store writes."""
        if self._values[COPY_OF]:
            session, writer = self.own.session, self._values[COPY_OF]["address"]
            text = f"Session {session} is a copy; {writer} writes it. Nothing was changed."
            advice = (
                "Write there. `smp push --hand-over` there, or `smp pull --take-over` here, changes the writing side."
            )
            raise NotAllowed(f"{text} {advice}", session=session, writer=writer)

    def notices(self, *, to_agent: bool = False, session_only: bool = False) -> list[str]:
        """What the user must know: values that cannot be used, and held ones. `to_agent`: without any text from the files."""
        invalid = self.own.invalid if session_only else self.invalid
        held = [each for each in self.held if each.session or (not session_only and self.is_file_readable)]
        return [
            *([_invalid_notice(invalid, to_agent)] if invalid else []),
            *([_held_notice(held, to_agent)] if held else []),
        ]

    def unused_notice(self) -> str:
        """One line about keys without an effect; empty if there are none."""
        keys = [safe(key) for _, key in self.unused]
        more = f" and {len(keys) - _LISTED_KEYS:,} more" if len(keys) > _LISTED_KEYS else ""
        listed = ", ".join(keys[:_LISTED_KEYS]) + more
        where = self.unused[0][0] if keys else ""
        near = suggestion(self.unused[0][1]) if len(keys) == 1 else None
        hint = f" Did you mean {near}?" if near else ""
        return f"Settings without effect ({where}), which are kept: {listed}.{hint}" if keys else ""

    # -- protective settings

    def stated_protection(self, *, session: bool = False) -> dict[str, Any]:
        """The protective settings that the file states, or the session's own."""
        layer = self._layers[1 if session else 0]
        return {path: layer[path] for path in LOWERS if path in layer}

    @property
    def is_file_readable(self) -> bool:
        """Whether the file as a whole can be used."""
        return all(error.details.get("key") for error in self._layers[0].invalid)

    def note_trusted(self, session: str, settings: dict[str, Any]) -> None:
        """Let the user's own settings of a session count in what `override_session` returns from now on."""
        if self._trusted is not None:
            self._trusted[session] = settings

    def trusting_stated(self, session: str = "") -> Config:
        """The same settings with all values of the file, or of a session."""
        if self._trusted is None:
            return self
        file, own, environment, arguments = self._layers
        trusted = {**self._trusted, session: self.stated_protection(session=bool(session))}
        return Config(file, own, environment, arguments, trusted)

    # -- values

    def stated(self) -> dict[str, Any]:
        """The settings that the file states, by dotted name, but for those of its layout."""
        return {path: value for path, value in self._layers[0].items() if not BY_PATH[path].store_wide}

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
        """The section `decay`, as `smp_memory.model.decay.policy_of` expects it."""
        return self.section("decay")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A Config never changes; {name!r} cannot be set. Build a new one.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A Config never changes; {name!r} cannot be deleted.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (*self._layers, self._trusted)

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


def _kept(layer: Values, below: Mapping[str, Any], trusted: Trusted) -> list[HeldSetting]:
    """The settings of the file or of a session that lower protection against what was trusted, else against the values below."""
    approved = trusted.get(layer.session, {})
    found = []
    for path, lowers in LOWERS.items():
        if path in layer or path in approved:
            old = approved.get(path)
            old = old if path in approved and BY_PATH[path].check.accepts(old) else below[path]
            new = layer.get(path, below[path])
            if lowers(old, new):
                found.append(HeldSetting(layer, path, old, new))
    return found


# -- texts


def needed_for(error: InvalidConfig) -> tuple[str, ...]:
    """What depends on the setting that an error is about."""
    return NEEDED_FOR.get(str(error.details.get("key", "")).partition(".")[0], ())


def setting_advice(error: InvalidConfig) -> str:
    """How to correct the setting that an error is about."""
    key, source = error.details.get("key", ""), str(error.details.get("source", ""))
    kind, _, name = source.partition(" ")
    if kind == "environment":
        return f"Correct or unset {name}."
    if not key and "://" in name:
        return "Correct the row `settings` of the table `meta`, for example to {}; your memories are not affected."
    if not key:
        example = f'{{"layout": "{error.details.get("layout") or "jsonl"}", "format": {FORMAT}}}'
        return f"Correct it in an editor, or replace it by {example}; your memories are not affected."
    option = f" --session {name}" if kind == "session" else ""
    found = f", which writes {error.details.get('layout')}" if key == "layout" and not option else ""
    return f"Correct it, or remove it: smp config unset {key}{option}{found}"


def _invalid_notice(invalid: list[InvalidConfig], to_agent: bool) -> str:
    needed = {purpose for error in invalid for purpose in needed_for(error)}
    effects = ["the default holds", *(text for purpose, text in _CONSEQUENCES.items() if purpose in needed)]
    effect = " and ".join(effects[:2] if WRITE in needed else effects)  # without writes nothing else can happen
    if to_agent:
        keys = ", ".join(dict.fromkeys(str(error.details.get("key") or "the whole config.json") for error in invalid))
        return f"Settings of this store cannot be used: {keys}. Until they are corrected, {effect}. The user can do that: smp doctor"
    more = f" ({len(invalid) - 1:,} more cannot be used: smp doctor)" if len(invalid) > 1 else ""
    return f"{invalid[0].message} Until it is corrected, {effect}. {setting_advice(invalid[0])}{more}"


def _held_notice(held: list[HeldSetting], to_agent: bool) -> str:
    what = ", ".join(dict.fromkeys(each.key for each in held)) if to_agent else "; ".join(map(str, held[:_LISTED_KEYS]))
    return (
        f"Settings in the store's files lower protection and do not count yet ({what}). "
        "If you changed them or agree: smp trust"
    )


def _json(value: Any) -> str:
    import json  # rare

    return json.dumps(value, ensure_ascii=True)[:_VALUE_CHARACTERS]
