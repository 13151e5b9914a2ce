"""What is being looked at? A store as far as it can be opened, and its sessions one by one, each read once.

Guarantees: nothing that is wrong with a store keeps it from being looked at. Settings that cannot be used count as not set,
a `config.json` that cannot be read as missing; what was wrong is a finding. Nothing is written (`smp_memory.health.readonly_system`).
Non-guarantees: a store of a newer format is not read any further; it may mean something else by the same files.
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
from smp_memory.health.readonly_system import ReadOnlySystem, looked_at
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
_YOUNG_SECONDS = 60
_MOST_WRONG = 50  # settings that are taken out one by one


class HealthSubject:
    """A store that is looked at."""

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
        self.system = system  # the machine itself; for what is not looked at through `disk`
        self.disk = Disk(ReadOnlySystem(system))
        self.wrong: list[HealthIssue] = []  # what was wrong with the settings
        self.is_too_new = False
        self.config_path = os.path.join(root, CONFIG_FILE)
        self.stored = self._stored()
        self.layout_name = self._layout_name()
        said = (self.stored or {}).get("layout", self.layout_name)
        if said != self.layout_name:
            self._add(
                PROBLEM,
                "The layout that config.json names is not one that SMP knows, so that nobody can open the store.",
                f'By what is there it should say "layout": "{self.layout_name}".',
            )
        self.config = self._config(environ, arguments)
        layout = layout_named(self.layout_name)
        self.state = looked_at(open_user_state(root, Disk(system)))
        self.store = FileStore(root, layout, self.disk.system, self.config, _nothing_is_written, self.state)

    def session_ids(self) -> list[str]:
        return [] if self.is_too_new else self.store.session_ids()

    def session(self, name: str) -> SessionSubject:
        return SessionSubject(self, name)

    def close(self) -> None:
        self.store.close()

    def is_young(self, path: str) -> bool:
        """Whether somebody may still be at work on a file or folder; also of one that is not there any more."""
        found = self.disk.stat(path)
        if found is None or not isinstance(self.system, RealSystem):
            return found is None
        return bool(time.time() - found.st_mtime_ns / 1e9 < _YOUNG_SECONDS)

    # -- the settings, as far as they go

    def _stored(self) -> dict[str, Any] | None:
        """What `config.json` says; None if it is not there, or says nothing."""
        try:
            data = self.disk.read(self.config_path)
        except FileNotFoundError:
            return None
        except (OSError, SMPError) as error:
            self._add(
                PROBLEM, f"config.json cannot be read: {_reason(error)}.", "Make it a plain file that you may read."
            )
            return None
        try:
            stored = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            self._said_in_text = _LAYOUT_IN_TEXT.search(data)
            line = getattr(error, "lineno", 0)
            self._add(
                PROBLEM,
                "config.json is not valid JSON, so that nobody can open the store. The memories are not affected.",
                f'Correct it in an editor, or replace it by {{"layout": "{self._layout_name()}", "format": {FORMAT}}}.',
                line,
            )
            return None
        if not isinstance(stored, dict):
            self._add(PROBLEM, "config.json is not a JSON object, so that nobody can open the store.", "Correct it.")
            return None
        return with_store_facts_at_top(stored)

    _said_in_text: re.Match[bytes] | None = None

    def _layout_name(self) -> str:
        said = (getattr(self, "stored", None) or {}).get("layout")
        if said is None and self._said_in_text is not None:
            said = self._said_in_text[1].decode()
        return said if said in NAMES else self._recognised()

    def _recognised(self) -> str:
        """The layout of which most sessions are found."""

        def sessions(name: str) -> int:
            layout = layout_named(name)
            try:
                found = layout.session_ids(self.disk, self.root)
                return sum(layout.exists(self.disk, self.root, session) for session in found)
            except StorageError:
                return 0

        return max(NAMES, key=lambda name: (sessions(name), name == "jsonl"))

    def _config(self, environ: Mapping[str, str], arguments: Mapping[str, Any] | None) -> Config:
        """The settings without those that cannot be used."""
        stored: dict[str, Any] = json.loads(json.dumps(self.stored or {}))
        stored.pop(FLAG, None)
        given, around = dict(arguments or {}), dict(environ)
        for _ in range(_MOST_WRONG):
            try:
                return Config.build({**stored, "layout": self.layout_name}, self.config_path, None, "", around, given)
            except InvalidConfig as error:
                self._wrong_setting(error)
                if not _take_out(str(error.details.get("key", "")), stored, given, around):
                    break
            except FormatTooNew as error:
                self.is_too_new = True
                self._add(PROBLEM, error.message, "Install a newer SMP; nothing else was looked at.")
                break
            except SMPError:
                break
        return Config.build({"layout": self.layout_name, "format": FORMAT}, self.config_path)

    def _wrong_setting(self, error: InvalidConfig) -> None:
        key, source = str(error.details.get("key", "")), str(error.details.get("source", ""))
        kind, _, name = source.partition(" ")
        advice = {
            "file": f"Correct {key} in config.json, or take it out.",
            "environment": f"Correct or unset the environment variable {name}.",
        }
        self._add(PROBLEM, f"{error.message} Nobody can open the store like this.", advice.get(kind, ""))

    def _add(self, severity: str, message: str, advice: str, line: int = 0) -> None:
        self.wrong.append(HealthIssue(CONFIGURATION, severity, message, advice, path=self.config_path, line=line))


class SessionSubject:
    """A session that is looked at: its files are read once, for all checks."""

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
        self._has_info = False  # to read one in YAML takes tens of milliseconds

    @property
    def session_history(self) -> SessionHistory:
        """What the files add up to, as they were read last."""
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
        """The head; None if it cannot be read."""
        if not self._has_info:
            self._has_info = True
            try:
                self._info = self.files.info()
            except (SMPError, OSError):
                self._info = None
        return self._info

    @property
    def config(self) -> Config:
        """The settings that hold here; the session's own are left out if they cannot be used."""
        if self._config is None:
            info = self.info
            try:
                own = info.config if info is not None else None
                self._config = self.subject.config.override_session(own, self.id) if own else self.subject.config
            except InvalidConfig:
                self._config = self.subject.config
        return self._config

    def wrong_settings(self) -> HealthIssue | None:
        """What is wrong with the session's own settings."""
        info = self.info
        try:
            if info is not None and info.config:
                self.subject.config.override_session(info.config, self.id)
        except InvalidConfig as error:
            advice = "Correct the head of the session."
            return HealthIssue(CONFIGURATION, WARNING, error.message, advice, self.id, path=head_path(self))
        return None


def head_path(session: SessionSubject) -> str:
    layout = session.subject.store.layout
    return os.path.join(session.reader.folder, layout.info_file or f"{session.id}.jsonl")


def _nothing_is_written(session: str, used: int, new: int, quota: int) -> None:
    raise AssertionError("a look writes nothing")


def _take_out(key: str, stored: dict[str, Any], given: dict[str, Any], around: dict[str, str]) -> bool:
    """Take a setting out of wherever it may have come from; False if it was nowhere."""
    taken = around.pop("SMP_" + key.upper().replace(".", "_"), None) is not None
    for settings in (stored, stored.get("memory_config"), given):
        taken = _take_key(settings, key) or taken
    return taken


def _take_key(settings: Any, key: str) -> bool:
    if not isinstance(settings, dict):
        return False
    if key in settings:
        del settings[key]
        return True
    for name in list(settings):
        if key.startswith(f"{name}."):
            if not isinstance(settings[name], dict) or not _take_key(settings[name], key[len(name) + 1 :]):
                del settings[name]
            return True
    return False


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(getattr(error, "message", error))
