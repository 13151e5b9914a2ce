"""A store in files under examination, read-only and as far as it can be read. Each session is read once.

Guarantees: no damage keeps a store from being checked. Invalid settings count as not set, an unreadable `config.json`
counts as missing; both are reported as issues. All that a check calls, directly or not, reaches the disk through a system in which
every call that changes something fails with EROFS, as on a read-only file system. Locks can be tried: that writes nothing, and the
checks release them at once.
Non-guarantees: a store of a newer format is not read any further, because the same files may mean something else there.
"""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any, NoReturn, cast

from smp_memory.config.config_file import read_settings
from smp_memory.config.settings import WRITE, Config, needed_for, setting_advice
from smp_memory.config.sources import safe, suggestion
from smp_memory.discovery import layout_of_store
from smp_memory.errors import FormatTooNew, InvalidConfig, SMPError, StorageError
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import CONFIG_FILE
from smp_memory.files.layouts.layout import QUARANTINE as QUARANTINE_FOLDER
from smp_memory.files.reader import SessionReader
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.health.examination import (
    COLD,
    ENTRY,
    METADATA,
    NOTE,
    PROBLEM,
    QUARANTINE,
    WARNING,
    Examination,
    HealthIssue,
    SessionExamination,
    StoredContent,
    metadata_texts,
)
from smp_memory.privacy.settings import checked
from smp_memory.store.cold_storage import cold_segment_of
from smp_memory.store.file_store import FileStore
from smp_memory.store.verification import validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from smp_memory.files.system import System
    from smp_memory.files.user_state import UserState
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.reports import Report
    from smp_memory.store.file_session import FileSession

CONFIGURATION = "configuration"
_PEOPLE = ("user_id", "agent_ids", "config")  # metadata in which a mail address is a name, not a secret
_RECENT_SECONDS = 60


class FileExamination(Examination):
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
        self.disk = _read_only(system)
        self.config_issues: list[HealthIssue] = []
        self.config_path = os.path.join(root, CONFIG_FILE)
        self.stored_config = self._read_stored_config()
        self.layout_name = layout_of_store(self.disk, root, self.stored_config) or self._detect_layout()
        self.state = open_user_state(root, Disk(system))
        self.state.disk = _read_only(self.state.disk.system)
        config = self._load_config(environ, arguments)
        layout = layout_named(self.layout_name)
        super().__init__(
            FileStore(root, layout, self.disk.system, config, _reject_write, self.state),
            now,
            quick=quick,
            is_owner=True,
        )

    def session_ids(self) -> list[str]:
        return [] if self.is_too_new else self.store.session_ids()

    def has(self, session: str) -> bool:
        try:
            return self.store.layout.exists(self.disk, self.root, session)
        except StorageError:
            return True

    def session(self, name: str) -> FileSessionExamination:
        return FileSessionExamination(self, name)

    def is_recent_or_gone(self, path: str) -> bool:
        """Whether a file or folder may belong to work in progress: it was just modified, or has been removed meanwhile."""
        stat = self.disk.stat(path)
        if stat is None or not self.is_in_folder:
            return stat is None
        return bool(time.time() - stat.st_mtime_ns / 1e9 < _RECENT_SECONDS)

    # -- the settings that are valid

    def _read_stored_config(self) -> dict[str, Any] | InvalidConfig | None:
        """The content of `config.json`; None if it is missing or cannot be read."""
        try:
            return read_settings(lambda: self.disk.read_small(self.config_path), self.config_path)
        except FormatTooNew as error:
            self.is_too_new = True
            self._add_config_issue(error.message, "Install a newer SMP; nothing else was checked.")
        except (OSError, SMPError) as error:
            message = f"config.json cannot be read: {_reason(error)}."
            self._add_config_issue(message, "Make it a plain file that you may read.")
        return None

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
        """The settings; each that cannot be used, has no effect or does not count becomes an issue."""
        stored, trusted = self.stored_config, self.state.trusted_settings()
        config = checked(
            Config.build(
                *(stored, self.config_path, None, "", environ, arguments), layout=self.layout_name, trusted=trusted
            )
        )
        self.config_issues += _setting_issues(config, config.invalid, config.unknown, PROBLEM, path=self.config_path)
        return config

    def _add_config_issue(self, message: str, advice: str) -> None:
        self.config_issues.append(HealthIssue(CONFIGURATION, PROBLEM, message, advice, path=self.config_path))


class FileSessionExamination(SessionExamination):
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

    def config_issues(self) -> Iterator[HealthIssue]:
        """The issues of the session's own settings."""
        own = self.config.own
        yield from _setting_issues(self.config, own.invalid, own.unknown, WARNING, self.id, self.metadata_path)

    def validate(self) -> Report:
        return validate(self.files, self.reader)

    def cold_ids(self) -> set[str]:
        return {each.entry.id for each in cold_segment_of(self.files).entries()}

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
            yield StoredContent(METADATA, "", self.metadata_path, 0, metadata_texts(info))

    def _cold_contents(self) -> Iterator[StoredContent]:
        segment = cold_segment_of(self.files)
        for each in segment.entries():
            yield StoredContent(COLD, each.entry.id, segment.path, each.entry.line, each.entry.data)

    def _quarantine_contents(self) -> Iterator[StoredContent]:
        disk, folder = self.subject.disk, os.path.join(self.reader.private, QUARANTINE_FOLDER)
        for name in disk.names(folder):
            path = os.path.join(folder, name)
            try:
                text = disk.read(path).decode("utf-8", "replace")
            except (OSError, SMPError):
                continue
            yield StoredContent(QUARANTINE, "", path, 0, text)


def _setting_issues(
    config: Config, invalid: list[InvalidConfig], unknown: list[str], severity: str, session: str = "", path: str = ""
) -> Iterator[HealthIssue]:
    """The issues of a store's settings or of a session's own: values that cannot be used, unknown keys, values that wait for trust."""
    for error in invalid:
        effect = "The default holds" + (", and nothing is written." if WRITE in needed_for(error) else ".")
        line = int(str(error.details.get("line", 0)))
        yield HealthIssue(
            CONFIGURATION, severity, f"{error.message} {effect}", setting_advice(error), session, path=path, line=line
        )
    for key in unknown:
        near = suggestion(key)
        message = f"{safe(key)} is not a setting of SMP; it is kept and has no effect."
        yield HealthIssue(CONFIGURATION, NOTE, message, f"Did you mean {near}?" if near else "", session, path=path)
    for each in config.held:
        if each.session == session:
            message = f"{each} lowers protection, came with the store's files and does not count yet."
            yield HealthIssue(
                CONFIGURATION, WARNING, message, "If you changed it or agree: smp trust", session, path=path
            )


# -- read-only access to the operating system

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READING = ("close", "pread", "fstat", "lstat", "lstat_below", "listdir", "lock", "unlock", "boot_id", "yield_cpu")
_WRITING = ("write", "pwrite", "ftruncate", "sync", "sync_dir", "replace", "link", "unlink", "mkdir", "rmdir", "chmod", "set_modified")  # fmt: skip


class _ReadOnlySystem:
    """The reading calls of another system; all changing calls raise `OSError(EROFS)`."""

    def __init__(self, system: System) -> None:
        self._system = system
        for name in _READING:
            setattr(self, name, getattr(system, name))
        for name in _WRITING:
            setattr(self, name, _refuse)

    def open(self, path: str, flags: int, /, mode: int = 0o600) -> int:
        if flags & _CHANGES:
            _refuse(path)
        return self._system.open(path, flags, mode)


def _refuse(*arguments: object) -> NoReturn:
    path = next((each for each in reversed(arguments) if isinstance(each, str)), None)
    raise OSError(errno.EROFS, "health checks do not write", path)


def _read_only(system: System) -> Disk:
    return Disk(cast("System", _ReadOnlySystem(system)))


def _reject_write(*_: object) -> None:
    raise AssertionError("health checks do not write")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(getattr(error, "message", error))
