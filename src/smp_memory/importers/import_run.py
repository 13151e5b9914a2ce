"""What the parts of one import share: its store, its report, the sessions that exist, the backup before the first write."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.exchange.api import backup
from smp_memory.model.session_info import ARCHIVED, DELETED, GLOBAL_SESSION, LIVE, names_of
from smp_memory.model.times import to_text

if TYPE_CHECKING:
    from smp_memory.importers.source import IngestedSession, UnreadLine
    from smp_memory.memory import Memory

BACKUPS = "backups"  # folder in the user's state
_KEPT_BACKUPS = 5
_RESERVED = frozenset((GLOBAL_SESSION, "knowledge-graph"))  # the second is that of `smp_memory.integrations.mcp.graph`


class Progress(NamedTuple):
    """How far an import is."""

    file: str
    number: int  # of the file
    files: int
    bytes: int
    all_bytes: int
    sessions: int
    memories: int


class IngestReport:
    """The result of an import: memories added, known and updated, sessions, and lines not understood."""

    def __init__(self, importer: str, dry_run: bool) -> None:
        self.importer = importer
        self.dry_run = dry_run
        self.added: dict[str, int] = {}  # by type
        self.sessions: dict[str, int] = {}  # memories added, by session
        self.new_sessions: list[str] = []  # those that did not exist before
        self.known = 0
        self.followed = 0
        self.files: dict[str, int] = {}  # memories found, by file
        self.bytes = 0
        self.unread: list[UnreadLine] = []
        self.left_out: list[str] = []
        self.notes: list[str] = []  # what was done otherwise than the files say
        self.fenced = 0  # memories from which text that SMP had recalled was removed
        self.backup: str | None = None

    @property
    def count(self) -> int:
        return sum(self.added.values())

    def to_dict(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "unread"}
        return {**own, "not_understood": [each.to_dict() for each in self.unread]}


class ImportRun:
    """One import."""

    def __init__(
        self, memory: Memory, tool: str, author: str | None, *, dry_run: bool, backup: bool, proposals: bool
    ) -> None:
        self.memory = memory
        self.tool = tool
        self.author = author
        self.report = IngestReport(tool, dry_run)
        self.proposals = proposals
        self.left_out: Counter[str] = Counter()  # whole files, by kind
        self.is_single = False  # one file was named
        self._wants_backup = backup
        self._new_keys: dict[str, set[str]] = {}
        self._names: dict[str, list[str]] | None = None
        self.began = memory.now()
        there = frozenset(names_of(memory.store.sessions(LIVE, ARCHIVED)))
        self.deleted = frozenset(names_of(memory.store.sessions(DELETED))) - there

    def names_ending_in(self, suffix: str) -> list[str]:
        """The names of sessions that end in `-suffix`, in every state."""
        if self._names is None:
            self._names = {}
            for name in [*names_of(self.memory.store.sessions(LIVE, ARCHIVED)), *self.deleted]:
                self._names.setdefault(name.rpartition("-")[2], []).append(name)
        return self._names.get(suffix, [])

    def note_name(self, name: str) -> None:
        """Note a session that this import created."""
        names = self.names_ending_in(suffix := name.rpartition("-")[2])
        if self._names is not None and name not in names:
            self._names[suffix] = [*names, name]

    def allowed(self, session: IngestedSession) -> IngestedSession:
        """The session under another id if files must not choose its own: what it holds would count in all sessions, or be a graph."""
        if session.id.casefold() not in _RESERVED:
            return session
        name = f"{self.tool}-{session.id}"
        note = (
            f"{session.id} is the name of a session with a meaning of its own; what the files put there goes to {name}"
        )
        if note not in self.report.notes:
            self.report.notes.append(note)
        return session._replace(id=name)

    def new_keys(self, session: str) -> set[str]:
        """The keys that this import added to a session. In a dry run they are kept until its end: a session may have several files."""
        return self._new_keys.setdefault(session, set()) if self.report.dry_run else set()

    def before_write(self) -> None:
        """Export the store, once, before the first write."""
        if self._wants_backup:
            self._wants_backup = False
            self.report.backup = backup_store(self.memory)


def backup_store(memory: Memory) -> str | None:
    """Export all sessions to a new file in the user's state, and remove the oldest of such files; None if there is nothing to save."""
    state = memory.store.state
    if not state.on_disk or not memory.store.sessions():
        return None
    at = to_text(memory.now()).replace(":", "").replace("-", "")
    state.write(f"{BACKUPS}/.keep", b"")
    path = state.path(BACKUPS, f"before-import-{at}-{os.urandom(2).hex()}.jsonl")
    backup(memory.scope, path)
    for name in sorted(each for each in state.names(BACKUPS) if each.endswith(".jsonl"))[:-_KEPT_BACKUPS]:
        state.remove(f"{BACKUPS}/{name}")
    return path
