"""Values that a storage backend returns about what it keeps: logs, cold memories, quarantine, changes, redactions.

They hold texts, numbers and times only, and nothing of the backend that made them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from smp_memory.model.reports import Problem


class AppendLog(Protocol):
    """A log of a store, line by line: the audit log, the accesses to memories, the uses of sessions."""

    path: str  # where it is, for people

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        """Append lines, without their ends; `sync`: they survive a power loss."""

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        """The complete lines from an offset on, and the offset of the end."""

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        """Replace all lines before an offset; a line that is appended at the same moment may be lost."""

    def size_bytes(self) -> int: ...

    def problems(self) -> list[str]:
        """Lines that were changed, removed or damaged, if the log can tell."""


class RecordedDeletion(NamedTuple):
    """A memory that another program's deletion record names."""

    id: str
    by: str | None
    reason: str | None


class ColdMemory(NamedTuple):
    """A memory in the cold segment."""

    id: str
    type: str
    created: str
    moved: str  # when it was moved there
    why: str
    bytes: int
    entries: int
    is_history: bool  # earlier states of a memory that is in the session

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class MovedEntries(NamedTuple):
    """The result of a compaction."""

    removed: list[str]
    histories: list[str]
    summaries: list[str]
    freed_bytes: int  # by which the session shrank
    cold_bytes: int  # size of the cold segment


class TidyReport(NamedTuple):
    """What was folded, or would be in a dry run."""

    session: str
    ids: list[str]  # of memories whose changes were folded into their entry
    can_fold: bool  # False: the store keeps every change as an entry of its own

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class QuarantinedEntry(NamedTuple):
    """One file in quarantine."""

    session: str
    name: str
    path: str
    why: str
    time: str  # when it was put there, as the name says it
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class UnreadSession(NamedTuple):
    """The files of one session in another layout than the store's. They are not read."""

    layout: str
    session: str
    folder: str
    files: list[str]
    path: str  # of the first file

    def problem(self, current: str) -> Problem:
        return Problem(self.path, 0, "other_layout", f"{self.text(current)} {unread_advice(current)}")

    def text(self, current: str) -> str:
        shown = ", ".join(self.files[:5]) + (f" and {len(self.files) - 5} more" if len(self.files) > 5 else "")
        return f"Session {self.session}: {shown} of the layout {self.layout} are not read, because the store has the layout {current}."


def unread_advice(current: str) -> str:
    return f"`smp convert --to {current}` imports them."


class RedactionReport:
    """What was found in a session, or removed from it: kinds and counts."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.memories: dict[str, dict[str, int]] = {}  # by id
        self.head: dict[str, int] = {}
        self.set_aside: dict[str, int] = {}  # in quarantine
        self.pending: list[str] = []  # what could not be checked
        self.reason: dict[str, int] = {}  # removed from the reason given for the redaction; not part of `kinds`

    @property
    def kinds(self) -> dict[str, int]:
        """All of it, by kind."""
        kinds: dict[str, int] = {}
        for counts in (*self.memories.values(), self.head, self.set_aside):
            for kind, number in counts.items():
                kinds[kind] = kinds.get(kind, 0) + number
        return kinds

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def to_dict(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "count": len(self.memories),
            "kinds": self.kinds,
            "memories": self.memories,
            "head": self.head,
            "set_aside": self.set_aside,
            "pending": self.pending,
            **({"reason": self.reason} if self.reason else {}),
        }

    def __repr__(self) -> str:
        return f"Redaction({self.session}: {len(self.memories)} memories, {self.kinds})"
