"""A store in files under examination, read-only and as far as it can be read. Each session is read once.

Guarantees: no damage keeps a store from being checked. Invalid settings count as not set, an unreadable `config.json`
counts as missing; both are reported as issues. All that a check calls, directly or not, reaches the disk through
`ReadOnlySystem`: creating, writing, truncating, renaming, linking, removing and changing permissions fail with EROFS, as on a
read-only file system. Locks can be tried: that writes nothing, and the checks release them at once.
Non-guarantees: a store of a newer format is not read any further, because the same files may mean something else there.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any, NoReturn

from smp_memory.config import Config
from smp_memory.config_file import with_store_facts_at_top
from smp_memory.errors import FormatTooNew, InvalidConfig, SMPError, StorageError
from smp_memory.files.cold_segment import decode_cold_entry
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import CONFIG_FILE, FLAG
from smp_memory.files.layouts.layout import QUARANTINE as QUARANTINE_FOLDER
from smp_memory.files.reader import SessionReader
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.model.health import COLD, ENTRY, METADATA, PROBLEM, QUARANTINE, WARNING, HealthIssue, StoredContent
from smp_memory.model.session_info import FORMAT
from smp_memory.store.cold_storage import cold_segment_of
from smp_memory.store.examination import PlainExamination, PlainSessionExamination
from smp_memory.store.file_store import FileStore
from smp_memory.store.verification import validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from smp_memory.files.system import Data, System
    from smp_memory.files.user_state import UserState
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.reports import Report
    from smp_memory.store.file_session import FileSession

CONFIGURATION = "configuration"
_PEOPLE = ("user_id", "agent_ids", "config")  # metadata in which a mail address is a name, not a secret
_LAYOUT_IN_TEXT = re.compile(rb'"layout"\s*:\s*"([a-z]{1,20})"')
_RECENT_SECONDS = 60
_MAX_INVALID_SETTINGS = 50  # removed one by one


class FileExamination(PlainExamination):
    """A store in files under examination."""

    store: FileStore
    state: UserState

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
        self.system = system  # can write; only fixes use it
        self.is_in_folder = isinstance(system, RealSystem)
        self.disk = Disk(ReadOnlySystem(system))
        self.config_issues: list[HealthIssue] = []
        self.config_path = os.path.join(root, CONFIG_FILE)
        self.stored_config = self._read_stored_config()
        self.layout_name = self._layout_name()
        stored_layout = (self.stored_config or {}).get("layout", self.layout_name)
        if stored_layout != self.layout_name:
            self._add_config_issue(
                "config.json names an unknown layout, so the store cannot be opened.",
                f'The files have this layout: "layout": "{self.layout_name}".',
            )
        config = self._load_config(environ, arguments)
        self.state = _read_only_state(open_user_state(root, Disk(system)))
        layout = layout_named(self.layout_name)
        super().__init__(FileStore(root, layout, self.disk.system, config, _reject_write, self.state), now, quick=quick)

    def session_ids(self) -> list[str]:
        return [] if self.is_too_new else self.store.session_ids()

    def has(self, session: str) -> bool:
        try:
            return self.store.layout.exists(self.disk, self.root, session)
        except StorageError:
            return True

    def session(self, name: str) -> FileSessionExamination:
        return FileSessionExamination(self, name)

    def close(self) -> None:
        self.store.close()

    def is_recent_or_gone(self, path: str) -> bool:
        """Whether a file or folder may belong to work in progress: it was just modified, or has been removed meanwhile."""
        stat = self.disk.stat(path)
        if stat is None or not self.is_in_folder:
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


class FileSessionExamination(PlainSessionExamination):
    """A session in files under examination: its files are read once, for all checks."""

    subject: FileExamination
    files: FileSession

    def _read_history(self) -> SessionHistory:
        store = self.subject.store
        self.reader = SessionReader(store.disk, store.layout, store.root, self.id)
        return self.reader.catch_up()

    @property
    def session_history(self) -> SessionHistory:
        """The state that results from the session's entries, as they were read last."""
        return self.reader.session_history

    @property
    def metadata_path(self) -> str:
        return os.path.join(self.reader.folder, self.reader.layout.info_file or f"{self.id}.jsonl")

    def config_issue(self) -> HealthIssue | None:
        """The issue for invalid settings of the session itself, if there are any."""
        info = self.info
        try:
            if info is not None and info.config:
                self.subject.config.override_session(info.config, self.id)
        except InvalidConfig as error:
            advice = "Correct the settings in the session's metadata."
            return HealthIssue(CONFIGURATION, WARNING, error.message, advice, self.id, path=self.metadata_path)
        return None

    def validate(self) -> Report:
        return validate(self.files, self.reader)

    def cold_ids(self) -> set[str]:
        return {row.id for row in cold_segment_of(self.files).rows()}

    def entries(self) -> Iterator[Entry]:
        for state in self.reader.states.values():
            yield from state.entries

    def contents(self) -> Iterator[StoredContent]:
        for name, state in self.reader.states.items():
            path = os.path.join(self.reader.folder, name)
            for entry in state.entries:
                yield StoredContent(ENTRY, entry.id, path, entry.line, entry.data)
        yield from self._metadata_contents()
        yield from self._cold_contents()
        yield from self._quarantine_contents()

    def _metadata_contents(self) -> Iterator[StoredContent]:
        earlier = [
            line for state in self.reader.states.values() for line in state.metadata_lines[:-1]
        ]  # of the log layout
        for line in earlier:
            fields = {name: value for name, value in line.items() if name not in _PEOPLE}
            yield StoredContent(METADATA, "", self.metadata_path, 0, fields)
        info = self.info
        if info is not None:
            fields = {"project": info.project, "tags": info.tags, "context": info.context, "other": info.other}
            yield StoredContent(METADATA, "", self.metadata_path, 0, fields)

    def _cold_contents(self) -> Iterator[StoredContent]:
        segment = cold_segment_of(self.files)
        try:
            for each in segment.entries():
                entry = decode_cold_entry(each, self.subject.layout_name)
                if entry is not None:
                    yield StoredContent(COLD, each.row.id, segment.path, 0, entry.data)
        except SMPError:
            return  # it was rewritten meanwhile, or is damaged, which the check `cold` reports

    def _quarantine_contents(self) -> Iterator[StoredContent]:
        disk, folder = self.subject.disk, os.path.join(self.reader.private, QUARANTINE_FOLDER)
        for name in disk.names(folder):
            path = os.path.join(folder, name)
            try:
                text = disk.read(path).decode("utf-8", "replace")
            except (OSError, SMPError):
                continue
            yield StoredContent(QUARANTINE, "", path, 0, text)


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


# -- read-only access to the operating system

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class ReadOnlySystem:
    """The reading calls of another system; all changing calls raise `OSError(EROFS)`."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.close = system.close
        self.pread = system.pread
        self.fstat = system.fstat
        self.lstat = system.lstat
        self.lstat_below = system.lstat_below
        self.listdir = system.listdir
        self.lock = system.lock
        self.unlock = system.unlock
        self.boot_id = system.boot_id
        self.yield_cpu = system.yield_cpu

    def open(self, path: str, flags: int, /, mode: int = 0o600) -> int:
        if flags & _CHANGES:
            _refuse(path)
        return self._system.open(path, flags, mode)

    def write(self, fd: int, data: Data, /) -> int:
        _refuse()

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        _refuse()

    def ftruncate(self, fd: int, size: int, /) -> None:
        _refuse()

    def sync(self, fd: int, /) -> None:
        _refuse()

    def sync_dir(self, path: str, /) -> None:
        _refuse(path)

    def replace(self, src: str, dst: str, /) -> None:
        _refuse(dst)

    def link(self, src: str, dst: str, /) -> None:
        _refuse(dst)

    def unlink(self, path: str, /) -> None:
        _refuse(path)

    def mkdir(self, path: str, /, mode: int = 0o700) -> None:
        _refuse(path)

    def rmdir(self, path: str, /) -> None:
        _refuse(path)

    def chmod(self, path: str, mode: int, /) -> None:
        _refuse(path)

    def set_modified(self, path: str, time_ns: int, /) -> None:
        _refuse(path)


def _read_only_state(state: UserState) -> UserState:
    """The same user state, with a disk that cannot be written."""
    state.disk = Disk(ReadOnlySystem(state.disk.system))
    return state


def _refuse(path: str = "") -> NoReturn:
    raise OSError(errno.EROFS, "health checks do not write", path or None)


if TYPE_CHECKING:

    def _checked(system: System) -> System:
        return ReadOnlySystem(system)
