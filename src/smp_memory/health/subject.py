"""The store under examination and its sessions, opened read-only and as far as possible. Each session is read once.

Guarantees: no damage keeps a store from being checked. Invalid settings count as not set, an unreadable `config.json`
counts as missing; both are reported as issues. Nothing is written (`smp_memory.health.readonly_system`).
Non-guarantees: a store of a newer format is not read any further, because the same files may mean something else there.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

from smp_memory.config import Config
from smp_memory.config_file import with_store_facts_at_top
from smp_memory.errors import FormatTooNew, InvalidConfig, SMPError, StorageError
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.reader import SessionReader
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.health.readonly_system import ReadOnlySystem, read_only_state
from smp_memory.health.report import PROBLEM, WARNING, HealthIssue
from smp_memory.model.session_info import FORMAT
from smp_memory.store.file_session import FileSession
from smp_memory.store.file_store import CONFIG_FILE, FLAG, FileStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from smp_memory.files.system import System
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo

CONFIGURATION = "configuration"
_LAYOUT_IN_TEXT = re.compile(rb'"layout"\s*:\s*"([a-z]{1,20})"')
_RECENT_SECONDS = 60
_MAX_INVALID_SETTINGS = 50  # removed one by one


class HealthSubject:
    """A store under examination."""

    def __init__(
        self,
        system: System,
        root: str,
        now: datetime,
        *,
        environ: Mapping[str, str],
        arguments: Mapping[str, Any] | None = None,
        quick: bool = False,
    ) -> None:
        self.root = root
        self.now = now
        self.quick = quick
        self.system = system  # can write; only fixes use it
        self.disk = Disk(ReadOnlySystem(system))
        self.config_issues: list[HealthIssue] = []
        self.is_too_new = False
        self.config_path = os.path.join(root, CONFIG_FILE)
        self.stored_config = self._read_stored_config()
        self.layout_name = self._layout_name()
        stored_layout = (self.stored_config or {}).get("layout", self.layout_name)
        if stored_layout != self.layout_name:
            self._add_config_issue(
                "config.json names an unknown layout, so the store cannot be opened.",
                f'The files have this layout: "layout": "{self.layout_name}".',
            )
        self.config = self._load_config(environ, arguments)
        layout = layout_named(self.layout_name)
        self.state = read_only_state(open_user_state(root, Disk(system)))
        self.store = FileStore(root, layout, self.disk.system, self.config, _reject_write, self.state)

    def session_ids(self) -> list[str]:
        return [] if self.is_too_new else self.store.session_ids()

    def session(self, name: str) -> SessionSubject:
        return SessionSubject(self, name)

    def close(self) -> None:
        self.store.close()

    def is_recent_or_gone(self, path: str) -> bool:
        """Whether a file or folder may belong to work in progress: it was just modified, or has been removed meanwhile."""
        stat = self.disk.stat(path)
        if stat is None or not isinstance(self.system, RealSystem):
            return stat is None
        return bool(time.time() - stat.st_mtime_ns / 1e9 < _RECENT_SECONDS)

    # -- the settings that are valid

    def _read_stored_config(self) -> dict[str, Any] | None:
        """The content of `config.json`; None if it is missing or cannot be used."""
        try:
            data = self.disk.read(self.config_path)
        except FileNotFoundError:
            return None
        except (OSError, SMPError) as error:
            self._add_config_issue(
                f"config.json cannot be read: {_reason(error)}.", "Make it a plain file that you may read."
            )
            return None
        try:
            stored = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            self._layout_in_text = _LAYOUT_IN_TEXT.search(data)
            self._add_config_issue(
                "config.json is not valid JSON, so the store cannot be opened. The memories are not affected.",
                f'Correct it in an editor, or replace it by {{"layout": "{self._layout_name()}", "format": {FORMAT}}}.',
                getattr(error, "lineno", 0),
            )
            return None
        if not isinstance(stored, dict):
            self._add_config_issue("config.json is not a JSON object, so the store cannot be opened.", "Correct it.")
            return None
        return with_store_facts_at_top(stored)

    _layout_in_text: re.Match[bytes] | None = None

    def _layout_name(self) -> str:
        name = (getattr(self, "stored_config", None) or {}).get("layout")
        if name is None and self._layout_in_text is not None:
            name = self._layout_in_text[1].decode()
        return name if name in NAMES else self._detect_layout()

    def _detect_layout(self) -> str:
        """The layout in which most sessions are found."""

        def sessions(name: str) -> int:
            layout = layout_named(name)
            try:
                found = layout.session_ids(self.disk, self.root)
                return sum(layout.exists(self.disk, self.root, session) for session in found)
            except StorageError:
                return 0

        return max(NAMES, key=lambda name: (sessions(name), name == "jsonl"))

    def _load_config(self, environ: Mapping[str, str], arguments: Mapping[str, Any] | None) -> Config:
        """The settings without the invalid ones, each of which becomes an issue."""
        stored: dict[str, Any] = json.loads(json.dumps(self.stored_config or {}))
        stored.pop(FLAG, None)
        given, variables = dict(arguments or {}), dict(environ)
        for _ in range(_MAX_INVALID_SETTINGS):
            try:
                return Config.build(
                    {**stored, "layout": self.layout_name}, self.config_path, None, "", variables, given
                )
            except InvalidConfig as error:
                self._add_invalid_setting(error)
                if not _remove_setting(str(error.details.get("key", "")), stored, given, variables):
                    break
            except FormatTooNew as error:
                self.is_too_new = True
                self._add_config_issue(error.message, "Install a newer SMP; nothing else was checked.")
                break
            except SMPError:
                break
        return Config.build({"layout": self.layout_name, "format": FORMAT}, self.config_path)

    def _add_invalid_setting(self, error: InvalidConfig) -> None:
        key, source = str(error.details.get("key", "")), str(error.details.get("source", ""))
        kind, _, name = source.partition(" ")
        advice = {
            "file": f"Correct {key} in config.json, or remove it.",
            "environment": f"Correct or unset the environment variable {name}.",
        }
        self._add_config_issue(f"{error.message} The store cannot be opened.", advice.get(kind, ""))

    def _add_config_issue(self, message: str, advice: str, line: int = 0) -> None:
        self.config_issues.append(
            HealthIssue(CONFIGURATION, PROBLEM, message, advice, path=self.config_path, line=line)
        )


class SessionSubject:
    """A session under examination: its files are read once, for all checks."""

    def __init__(self, subject: HealthSubject, name: str) -> None:
        self.subject = subject
        self.id = name
        self.files: FileSession = subject.store.session(name)
        store = subject.store
        self.reader = SessionReader(store.disk, store.layout, store.root, name)
        self.reader.catch_up()
        self._records: list[Record] | None = None
        self._config: Config | None = None
        self._info: SessionInfo | None = None
        self._has_info = False  # cached: reading YAML metadata takes tens of milliseconds

    @property
    def session_history(self) -> SessionHistory:
        """The state that results from the session's entries, as they were read last."""
        return self.reader.session_history

    @property
    def records(self) -> list[Record]:
        """The memories that are not deleted, in the order of writing."""
        if self._records is None:
            found = (
                history.record(self.id)
                for history in self.session_history.histories.values()
                if history.deletion is None
            )
            self._records = [record for record in found if record is not None]
        return self._records

    @property
    def info(self) -> SessionInfo | None:
        """The session metadata; None if it cannot be read."""
        if not self._has_info:
            self._has_info = True
            try:
                self._info = self.files.info()
            except (SMPError, OSError):
                self._info = None
        return self._info

    @property
    def config(self) -> Config:
        """The settings of this session; its own overrides are left out if they are invalid."""
        if self._config is None:
            info = self.info
            try:
                overrides = info.config if info is not None else None
                store_config = self.subject.config
                self._config = store_config.override_session(overrides, self.id) if overrides else store_config
            except InvalidConfig:
                self._config = self.subject.config
        return self._config

    def config_issue(self) -> HealthIssue | None:
        """The issue for invalid settings of the session itself, if there are any."""
        info = self.info
        try:
            if info is not None and info.config:
                self.subject.config.override_session(info.config, self.id)
        except InvalidConfig as error:
            advice = "Correct the settings in the session's metadata."
            return HealthIssue(CONFIGURATION, WARNING, error.message, advice, self.id, path=metadata_path(self))
        return None


def metadata_path(session: SessionSubject) -> str:
    layout = session.subject.store.layout
    return os.path.join(session.reader.folder, layout.info_file or f"{session.id}.jsonl")


def _reject_write(session: str, used: int, new: int, quota: int) -> None:
    raise AssertionError("health checks do not write")


def _remove_setting(key: str, stored: dict[str, Any], given: dict[str, Any], variables: dict[str, str]) -> bool:
    """Remove a setting from every source that has it; False if none has."""
    removed = variables.pop("SMP_" + key.upper().replace(".", "_"), None) is not None
    for settings in (stored, stored.get("memory_config"), given):
        removed = _remove_key(settings, key) or removed
    return removed


def _remove_key(settings: Any, key: str) -> bool:
    if not isinstance(settings, dict):
        return False
    if key in settings:
        del settings[key]
        return True
    for name in list(settings):
        if key.startswith(f"{name}."):
            if not isinstance(settings[name], dict) or not _remove_key(settings[name], key[len(name) + 1 :]):
                del settings[name]
            return True
    return False


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(getattr(error, "message", error))
