"""Examination of a store through the port: what the health checks of any backend read. Each session is read once.

A backend whose storage can be damaged in ways of its own derives from these classes, adds checks and fixes (`store.checks` for the
file backend), and returns its examination from `Store.examine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.errors import SMPError
from smp_memory.model.health import COLD, ENTRY, METADATA, StoredContent
from smp_memory.model.history import COLD as COLD_SEGMENT
from smp_memory.privacy.settings import session_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.model.entry import Entry
    from smp_memory.model.health import Check, HealthIssue
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Report
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import SessionStore, Store

    Fix = Callable[[Any, list[HealthIssue], Callable[[], Store]], Iterator[str]]


class PlainExamination:
    """An opened store under examination."""

    is_in_folder = False  # in a folder of this machine
    is_too_new = False  # of a newer format: nothing else of it is read

    def __init__(self, store: Store, now: datetime, *, quick: bool = False) -> None:
        self.store = store
        self.root = store.root
        self.config: Config = store.config
        self.layout_name = store.layout_name
        self.state = store.state
        self.now = now
        self.quick = quick
        self.checks: tuple[type[Check], ...] = ()  # of the backend's own storage
        self.fixes: dict[str, Fix] = {}

    def session_ids(self) -> list[str]:
        return self.store.session_ids()

    def has(self, session: str) -> bool:
        return session in self.store.session_ids()

    def session(self, name: str) -> PlainSessionExamination:
        return PlainSessionExamination(self, name)

    def fix(self, name: str, issues: list[HealthIssue], open_store: Callable[[], Store]) -> Iterator[str]:
        return self.fixes[name](self, issues, open_store)

    def close(self) -> None:
        pass


class PlainSessionExamination:
    """A session under examination."""

    def __init__(self, subject: PlainExamination, name: str) -> None:
        self.subject = subject
        self.id = name
        self.files: SessionStore = subject.store.session(name)
        self._history = self._read_history()
        self._records: list[Record] | None = None
        self._config: Config | None = None
        self._info: SessionInfo | None = None
        self._has_info = False  # cached: reading YAML metadata takes tens of milliseconds

    def _read_history(self) -> SessionHistory:
        return self.files.history()

    @property
    def session_history(self) -> SessionHistory:
        return self._history

    @property
    def records(self) -> list[Record]:
        """The memories that are not deleted, in the order of writing."""
        if self._records is None:
            histories = self.session_history.histories.values()
            found = (history.record(self.id) for history in histories if history.deletion is None)
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
        """The settings of this session."""
        if self._config is None:
            config = self.subject.config
            self._config = session_settings(config, self.info) if self.info is not None else config
        return self._config

    def validate(self) -> Report:
        return self.files.validate()

    def cold_ids(self) -> set[str]:
        return set(self.files.history(segment=COLD).histories)

    def entries(self) -> Iterator[Entry]:
        """Every entry that was read."""
        for history in self.session_history.histories.values():
            yield from history.entries

    def contents(self) -> Iterator[StoredContent]:
        """Every place that holds text: entries, metadata, the cold segment."""
        yield from (StoredContent(ENTRY, entry.id, entry.file, entry.line, entry.data) for entry in self.entries())
        info = self.info
        if info is not None:
            fields = {"project": info.project, "tags": info.tags, "context": info.context, "other": info.other}
            yield StoredContent(METADATA, "", self.files.location, 0, fields)
        for history in self.files.history(segment=COLD_SEGMENT).histories.values():
            yield StoredContent(COLD, history.first.id, history.first.file, 0, history.data())
