"""Collect and validate the settings of one source: a file, the metadata of a session, the environment, arguments. Pure.

Guarantees: whatever the source holds, the result is a `Values`: each valid setting by its dotted name, an `InvalidConfig` for each
value that cannot be used, the keys without effect. Settings of the original designs are translated (`design_settings`).
"""

from __future__ import annotations

from smp_memory.config.schema import FORMAT, SETTINGS
from smp_memory.errors import FormatTooNew, InvalidConfig, LayoutMismatch

TYPE_CHECKING = False  # typing itself is not loaded at run time: `import smp_memory` must be fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.config.design_settings import DesignSettings

BY_PATH = {setting.path: setting for setting in SETTINGS}
_SECTIONS = {path[:at] for path in BY_PATH for at, character in enumerate(path) if character == "."}
_OTHER_NAMES = {"privacy.auto_redaction": "privacy.redaction.enabled"}  # the name in a design
WRAPPER = "memory_config"  # the design of the jsonl layout puts all settings inside it
CONVERTING = "converting"  # a fact about the files, beside the settings: a conversion is under way
_QUOTED_CHARACTERS = 80


class Values(dict[str, "Any"]):
    """The settings of one source by dotted name, and what is wrong with others of that source."""

    def __init__(self, source: str = "", session: str = "", path: str = "") -> None:
        super().__init__()
        self.source = source
        self.session = session  # empty: not of a session
        self.place = f"{source}, {path}" if path else source  # for errors
        self.invalid: list[InvalidConfig] = []
        self.unused: list[str] = []  # known from a design, without effect in SMP
        self.unknown: list[str] = []

    def reject(self, key: str, problem: str, **details: object) -> None:
        """Add a value that cannot be used."""
        self.pop(key, None)
        self.invalid.append(InvalidConfig(problem, key=key, source=self.source, **details))

    def reject_value(self, key: str, value: Any, allowed: str) -> None:
        problem = f"Bad value for the setting '{key}' ({self.place}): {quoted(value)}. Allowed: {allowed}."
        self.reject(key, problem, allowed=allowed)

    def copy(self) -> Values:
        copied = Values(self.source, self.session)
        copied.update(self)
        copied.place, copied.invalid = self.place, list(self.invalid)
        copied.unused, copied.unknown = self.unused, self.unknown
        return copied

    def raise_first(self) -> Values:
        """Raise the first error, for a caller who is there to correct it."""
        if self.invalid:
            raise self.invalid[0]
        if self.unknown:
            raise unknown_setting(self.unknown[0], self.source)
        return self


def collect(mapping: Any, values: Values) -> Values:
    """Flatten nested settings to dotted names and validate each. Dotted names are accepted as keys, too."""
    if isinstance(mapping, InvalidConfig):
        values.invalid.append(mapping)
    elif mapping is not None:
        _Collection(values).add(mapping)
    return values


class _Collection:
    """Collects the settings of one mapping; those of a design are translated at the end."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._design: DesignSettings | None = None

    def add(self, mapping: Any) -> None:
        self._add_section(mapping, "", is_top=True)
        if self._design is None:
            return
        for path, (key, value) in self._design.finish(self._values).items():
            check = BY_PATH[path].check
            if check.accepts(value):
                self._values[path] = value
            else:
                self._values.reject_value(key, value, check.allowed)
        self._values.unused = self._design.unused

    def _add_section(self, mapping: Any, prefix: str, *, is_top: bool = False) -> None:
        if not _is_section(mapping):
            _reject_section(self._values, prefix, mapping)
            return
        for key, value in mapping.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            if not _is_section(value):
                path = canonical_name(path)
            if path in BY_PATH:
                self._add_value(path, value)
            elif is_top and path == WRAPPER:
                self._add_section(value, "") if _is_section(value) else _reject_section(self._values, path, value)
            elif path in _SECTIONS:
                self._add_section(value, path)
            elif not (is_top and path == CONVERTING) and not self._add_design_setting(path, value):
                self._values.unknown.append(path)

    def _add_value(self, path: str, value: Any) -> None:
        values, check = self._values, BY_PATH[path].check
        if path in values or any(error.details.get("key") == path for error in values.invalid):
            values.reject(path, f"The setting '{path}' is given twice ({values.place}).")
        elif check.accepts(value):
            values[path] = value
        else:
            values.reject_value(path, value, check.allowed)

    def _add_design_setting(self, path: str, value: Any) -> bool:
        """Add a setting or a section of a design; False if the path belongs to no design."""
        from smp_memory.config.design_settings import DesignSettings

        if self._design is None:
            self._design = DesignSettings()
        if DesignSettings.knows(path):
            allowed = self._design.add(path, value)
            if allowed is not None:
                self._values.reject_value(path, value, allowed)
        elif DesignSettings.is_section(path):
            self._add_section(value, path)
        else:
            return False
        return True


def from_environment(environ: Mapping[str, str], stated: Values) -> Values:
    values = Values("environment")
    for setting in SETTINGS:
        text = environ.get(setting.variable)
        if not text:
            continue
        values.source = values.place = f"environment {setting.variable}"
        try:
            value = setting.check.parse(text)
        except ValueError:
            value = None
        if value is None or not setting.check.accepts(value):
            values.reject_value(setting.path, text, setting.check.allowed)
        elif not (setting.store_wide and setting.path in stated):
            values[setting.path] = value
    values.source = "environment"
    return values


def of_store(values: Values) -> Values:
    """Reject settings that name code to run: they must not come with the files of a store."""
    for path in [path for path in values if BY_PATH[path].user_only and values[path] != BY_PATH[path].default]:
        problem = (
            f"The setting '{path}' ({values.place}) is not accepted from a store, because it names code to run. "
            f"Set {BY_PATH[path].variable} in your environment, or give it as an argument."
        )
        values.reject(path, problem)
    return values


def of_session(mapping: Mapping[str, Any] | None, session_id: str, path: str = "") -> Values:
    values = of_store(collect(mapping, Values(f"session {session_id}", session_id, path)))
    for name in [name for name in values if BY_PATH[name].store_wide]:
        problem = f"The setting '{name}' ({values.place}) belongs to the whole store; a session cannot override it."
        values.reject(name, problem)
    return values


def reject_newer_format(file: Any, file_path: str) -> None:
    """Checked first: the files of a newer format may mean something else."""
    found = file.get("format") if _is_section(file) else None
    if isinstance(found, int) and not isinstance(found, bool) and found > FORMAT:
        raise FormatTooNew(
            f"The store has format {quoted(found)}, this version of smp knows formats up to {FORMAT} (file {file_path}). "
            "Nothing was changed; use a newer smp.",
            path=file_path,
            found=found,
            known=FORMAT,
        )


def reject_other_layout(stated: Values, requested: Values, file_path: str) -> None:
    if "layout" in stated and requested.get("layout", stated["layout"]) != stated["layout"]:
        raise LayoutMismatch(
            f"The store has the layout {stated['layout']} (file {file_path}), requested was {requested['layout']}. "
            "Leave the layout out to open it as it is, or convert it.",
            path=file_path,
            found=stated["layout"],
            asked=requested["layout"],
        )


def _reject_section(values: Values, path: str, value: Any) -> None:
    inside = ", ".join(known[len(path) + 1 :] for known in BY_PATH if known.startswith(path + ".")) or "settings"
    what = f"The setting '{path}'" if path else "The settings"
    allowed = f"an object with {inside}"
    values.reject(path, f"{what} ({values.place}) must be {allowed}, not {quoted(value)}.", allowed=allowed)


def canonical_name(path: str) -> str:
    """The name of a setting; an alias is replaced."""
    return _OTHER_NAMES.get(path, path)


def spellings(name: str) -> list[str]:
    """The names under which a setting may be given."""
    return [name, *(other for other, known in _OTHER_NAMES.items() if known == name)]


def is_setting(name: str) -> bool:
    return name in BY_PATH


def suggestion(path: str) -> str | None:
    """The known setting whose name is nearest to an unknown one."""
    import difflib  # rare, and slow to load

    if path in _OTHER_NAMES:
        return canonical_name(path)
    last_names = {name.rpartition(".")[2]: name for name in BY_PATH}  # for names given without their section
    path = path[: 4 * _QUOTED_CHARACTERS]
    near = difflib.get_close_matches(path, list(BY_PATH), 1)
    last = difflib.get_close_matches(path.rpartition(".")[2], list(last_names), 1)
    return near[0] if near else last_names[last[0]] if last else None


def unknown_setting(path: str, source: str) -> InvalidConfig:
    """The error for an unknown setting; it suggests a known one."""
    near = suggestion(path)
    known = ", ".join([setting.path for setting in SETTINGS[:8]])
    hint = f"Did you mean '{near}'?" if near else f"Known settings: {known}, …; `smp config` lists all."
    message = f"Unknown setting {quoted(path)} ({source}). {hint}"
    return InvalidConfig(message, key=path, source=source, suggestion=near)


def _is_section(value: Any) -> bool:
    return hasattr(value, "items") and hasattr(value, "keys")


def safe(key: str) -> str:
    return key if key.isprintable() and len(key) <= _QUOTED_CHARACTERS else quoted(key)


def quoted(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # too many digits, too many levels
        text = f"a value of the type {type(value).__name__}"
    return text if len(text) <= _QUOTED_CHARACTERS else text[: _QUOTED_CHARACTERS - 1] + "…"
