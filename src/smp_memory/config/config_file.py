"""Read and edit settings: the content of `config.json`, and the overrides in the metadata of a session."""

from __future__ import annotations

import json
import os
import re
from codecs import BOM_UTF8

from smp_memory.config.settings import Config
from smp_memory.config.sources import (
    CONVERTING,
    WRAPPER,
    Values,
    canonical_name,
    collect,
    is_setting,
    of_store,
    reject_newer_format,
    spellings,
    unknown_setting,
)
from smp_memory.errors import InvalidConfig, StorageCorrupt
from smp_memory.files.layouts import NAMES
from smp_memory.privacy.settings import checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from smp_memory.model.session_info import SessionInfo

    class ConfigurableSession(Protocol):
        """The part of a session's store that changing its settings needs."""

        session: str

        def update_info(self, change: Callable[[SessionInfo], None]) -> SessionInfo: ...


_LAYOUT_IN_TEXT = re.compile(rb'"layout"\s*:\s*"([a-z]{1,20})"')


def read_settings(read: Callable[[], bytes], path: str) -> dict[str, Any] | InvalidConfig | None:
    """The content of `config.json`, or the reason why it cannot be used; None if there is none. Raises FormatTooNew."""
    try:
        data = read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except StorageCorrupt as error:
        limit = error.details.get("limit")
        if not isinstance(limit, int):
            raise
        return _unreadable(path, f"larger than {limit >> 20} MiB, the most that SMP reads of it", b"")
    try:
        stored = json.loads(data.removeprefix(BOM_UTF8).decode())
    except (ValueError, RecursionError) as error:
        return _unreadable(path, f"not valid JSON: {error}", data, getattr(error, "lineno", 0))
    if not isinstance(stored, dict):
        return _unreadable(path, "must be a JSON object", data)
    stored = with_store_facts_at_top(stored)
    reject_newer_format(stored, path)
    return stored


def _unreadable(path: str, problem: str, data: bytes, line: int = 0) -> InvalidConfig:
    found = _LAYOUT_IN_TEXT.search(data)
    where = f"{path}:{line}" if line else path
    layout = found[1].decode() if found else None
    return InvalidConfig(f"{where}: {problem}.", key="", source=f"file {path}", path=path, line=line, layout=layout)


def with_store_facts_at_top(stored: dict[str, Any]) -> dict[str, Any]:
    """Move layout, format and conversion state out of the wrapping object, so that they are at the top level of the file."""
    inner = stored.get(WRAPPER)
    if not isinstance(inner, dict):
        return stored
    facts = {name: inner[name] for name in ("layout", "format", CONVERTING) if name in inner and name not in stored}
    return {**facts, **stored, WRAPPER: {name: value for name, value in inner.items() if name not in facts}}


def with_setting(stored: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """A copy of the settings with one changed or, for None, removed. All other keys stay, also unknown ones."""
    changed = _removed(stored, name)
    if isinstance(changed.get(WRAPPER), dict):
        changed[WRAPPER] = inner = _removed(changed[WRAPPER], name)
    else:
        inner = changed
    if value is not None:
        *sections, last = name.split(".")
        for section in sections:
            below = inner.get(section)
            inner[section] = inner = dict(below) if isinstance(below, dict) else {}
        inner[last] = value
    return changed


def _removed(settings: dict[str, Any], name: str, prefix: str = "") -> dict[str, Any]:
    """A copy without a setting in any notation: nested, dotted, or under an alias."""
    kept: dict[str, Any] = {}
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if name in (path, canonical_name(path)):
            continue
        may_contain = any(each.startswith(f"{path}.") for each in spellings(name))
        inner = _removed(value, name, f"{path}.") if isinstance(value, dict) and may_contain else value
        if inner or inner == value:  # a section that became empty goes
            kept[key] = inner
    return kept


def check_setting(name: str, value: Any) -> None:
    """Raise InvalidConfig for an unknown setting or a bad value that a caller gives."""
    if not is_setting(name):
        raise unknown_setting(name, "argument")
    of_store(collect({name: value}, Values("argument"))).raise_first()
    checked(Config.build(None, "", arguments={name: value}))


def check_removal(stored: dict[str, Any], name: str) -> None:
    """Raise InvalidConfig if there is neither such a setting nor such a key in the settings."""
    if with_setting(stored, name, None) == stored and not is_setting(name):
        raise unknown_setting(name, "argument")


def requested_layout(config: Mapping[str, Any] | None) -> str:
    """The layout for a new store from settings or environment; `Config` rejects an unknown one."""
    layout = (config or {}).get("layout") or os.environ.get("SMP_LAYOUT")
    return str(layout) if layout in NAMES else "jsonl"


def set_session_config(files: ConfigurableSession, name: str, value: Any) -> None:
    """Set or, for None, remove one override under the session's lock. Raises InvalidConfig, and then changes nothing."""
    if value is not None:
        check_setting(name, value)
        Config.build(None, "").override_session({name: value}, files.session, strict=True)

    def change(info: SessionInfo) -> None:
        if value is None:
            check_removal(info.config, name)
        info.config = with_setting(info.config, name, value)

    files.update_info(change)
