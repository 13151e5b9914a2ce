"""The content of `config.json` as an object: facts found at once, one setting changed, the layout of a new store.

Change the settings that a session has of its own, in its head.
"""

from __future__ import annotations

import os

from smp_memory.config import WRAPPER, usual_name
from smp_memory.files.layouts import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.store.file_session import FileSession


def with_facts_outside(stored: dict[str, Any]) -> dict[str, Any]:
    """A config file whose layout and format are found at once, also if it has one object around all of it."""
    inner = stored.get(WRAPPER)
    if not isinstance(inner, dict):
        return stored
    facts = {name: inner[name] for name in ("layout", "format", "converting") if name in inner and name not in stored}
    return {**facts, **stored, WRAPPER: {name: value for name, value in inner.items() if name not in facts}}


def with_setting(stored: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The settings of a file with one of them changed or, for None, taken out."""
    from copy import deepcopy

    changed: dict[str, Any] = deepcopy(stored)
    inner = changed[WRAPPER] if isinstance(changed.get(WRAPPER), dict) else changed
    _take_out(inner, name)
    if value is not None:
        *sections, last = name.split(".")
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return changed


def _take_out(settings: dict[str, Any], name: str, prefix: str = "") -> None:
    """Take a setting out, in whatever way it is written: nested, with dots, under another name."""
    for key, value in list(settings.items()):
        if usual_name(prefix + key) == name:
            del settings[key]
        elif isinstance(value, dict):
            _take_out(value, name, f"{prefix}{key}.")
            if not value:
                del settings[key]


def layout_asked_for(config: Mapping[str, Any] | None) -> str:
    """The layout of a new store as the settings or the environment say it; a wrong one is `Config`'s to refuse."""
    asked = (config or {}).get("layout") or os.environ.get("SMP_LAYOUT")
    return str(asked) if asked in NAMES else "jsonl"


def set_session_config(files: FileSession, config: Config, name: str, value: Any) -> None:
    """Set or, for None, take out one setting under the session's lock. A wrong one changes nothing; raises InvalidConfig."""
    config.source(name)  # an unknown one is an error that suggests the right one

    def change() -> None:
        info = files.info_to_change()
        info.config = with_setting(info.config, name, value)
        config.override_session(info.config, files.session)
        files.write_info(info)

    files.exclusively("changing the session's settings", change)
