"""Edit settings: the content of `config.json`, and the overrides in the metadata of a session."""

from __future__ import annotations

import os

from smp_memory.config import WRAPPER, canonical_name
from smp_memory.files.layouts import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from smp_memory.config import Config
    from smp_memory.model.session_info import SessionInfo

    class ConfigurableSession(Protocol):
        """The part of a session's store that changing its settings needs."""

        session: str

        def update_info(self, operation: str, change: Callable[[SessionInfo], None]) -> None: ...


def with_store_facts_at_top(stored: dict[str, Any]) -> dict[str, Any]:
    """Move layout, format and conversion state out of the wrapping object, so that they are at the top level of the file."""
    inner = stored.get(WRAPPER)
    if not isinstance(inner, dict):
        return stored
    facts = {name: inner[name] for name in ("layout", "format", "converting") if name in inner and name not in stored}
    return {**facts, **stored, WRAPPER: {name: value for name, value in inner.items() if name not in facts}}


def with_setting(stored: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """A copy of the settings with one changed or, for None, removed."""
    from copy import deepcopy

    changed: dict[str, Any] = deepcopy(stored)
    inner = changed[WRAPPER] if isinstance(changed.get(WRAPPER), dict) else changed
    _remove(inner, name)
    if value is not None:
        *sections, last = name.split(".")
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return changed


def _remove(settings: dict[str, Any], name: str, prefix: str = "") -> None:
    """Remove a setting in any notation: nested, dotted, or under an alias."""
    for key, value in list(settings.items()):
        if canonical_name(prefix + key) == name:
            del settings[key]
        elif isinstance(value, dict):
            _remove(value, name, f"{prefix}{key}.")
            if not value:
                del settings[key]


def requested_layout(config: Mapping[str, Any] | None) -> str:
    """The layout for a new store from settings or environment; `Config` rejects an unknown one."""
    layout = (config or {}).get("layout") or os.environ.get("SMP_LAYOUT")
    return str(layout) if layout in NAMES else "jsonl"


def set_session_config(files: ConfigurableSession, config: Config, name: str, value: Any) -> None:
    """Set or, for None, remove one override under the session's lock. Raises InvalidConfig, and then changes nothing."""
    config.source(name)  # raises for an unknown name, with a suggestion

    def change(info: SessionInfo) -> None:
        info.config = with_setting(info.config, name, value)
        config.override_session(info.config, files.session)

    files.update_info("changing the session's settings", change)
