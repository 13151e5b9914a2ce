"""Results of deletion, restoration, purge and erasure: what, by whom, when and why, never the content.

The deletion records have the fields of design 003; see docs/reference/designs.md.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import Corrupt, UserError
from smp_memory.model.times import to_moment, to_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from smp_memory.model.record import Record

    class State(Protocol):
        def read(self, name: str) -> bytes: ...
        def write(self, name: str, data: bytes, *, durable: bool = False) -> None: ...
        def remove(self, name: str) -> None: ...


BEYOND_REACH = (
    "copies in backups, snapshots and synchronised folders",
    "the history of a version control system that holds these files",
    "the transcripts that your coding agent keeps of its conversations",
    "the memory of processes that read it before, and what they derived from it",
    "the index of another user of the same store, until that user next uses it",
    "blocks that the file system or the disk has freed and not yet overwritten",
)


class ChangedMemories:
    """The memories that one call deleted or restored, or would as a preview."""

    records: list[Record]

    @property
    def count(self) -> int:
        return len(self.records)

    @property
    def ids(self) -> list[str]:
        return [record.id for record in self.records]

    @property
    def redacted(self) -> dict[str, int]:
        """What redaction took out of the reason, which is the same for all: kinds and how many of each."""
        return next((record.redacted for record in self.records if record.redacted), {})

    def __len__(self) -> int:
        return len(self.records)

    def __bool__(self) -> bool:
        return bool(self.records)


class Deletion(ChangedMemories):
    """What one call deleted or, as a preview, would delete. It can be restored until the deadline."""

    def __init__(
        self,
        records: list[Record],
        at: datetime,
        by: str | None,
        reason: str | None,
        deadlines: dict[str, datetime],
        echoes: Sequence[str] = (),
        *,
        preview: bool,
    ) -> None:
        self.records = records
        self.at = at
        self.by = by
        self.reason = reason
        self.deadlines = deadlines  # by session: the end of the period in which it can be restored
        self.echoes = list(echoes)  # turns that repeat what is deleted, `session/ID`, taken along or not
        self.preview = preview

    @property
    def refs(self) -> list[str]:
        """`session/ID`."""
        return [record.ref for record in self.records]

    def to_dict(self) -> dict[str, Any]:
        """Counts and ids, and for each session its deletion record."""
        return {
            "preview": self.preview,
            "count": self.count,
            "ids": self.refs,
            **({"echoes": self.echoes} if self.echoes else {}),
            "deletions": [self._record_of(session) for session in dict.fromkeys(r.session for r in self.records)],
            **({"redacted": self.redacted} if self.redacted else {}),
        }

    def _record_of(self, session: str) -> dict[str, Any]:
        items = [record for record in self.records if record.session == session]
        return {
            "session_id": session,
            "deleted_at": to_text(self.at),
            "deleted_by": self.by,
            "reason": self.reason,
            "deleted_items": [
                {"type": record.type, "id": record.id, "timestamp": to_text(record.created)} for record in items
            ],
            "recovery_deadline": to_text(self.deadlines[session]),
        }

    def __repr__(self) -> str:
        return f"Deletion({'would delete' if self.preview else 'deleted'} {self.count}: {self.refs[:5]})"


class Restoration(ChangedMemories):
    """What one call restored or, as a preview, would restore."""

    def __init__(self, records: list[Record], echoes: Sequence[str] = (), *, preview: bool) -> None:
        self.records = records
        self.echoes = list(echoes)  # turns in the trash that repeat what is restored, `session/ID`, taken along or not
        self.preview = preview

    def to_dict(self) -> dict[str, Any]:
        data = {"preview": self.preview, "count": self.count, "ids": [record.ref for record in self.records]}
        data |= {"echoes": self.echoes} if self.echoes else {}
        return {**data, "redacted": self.redacted} if self.redacted else data


class Trashed:
    """A deleted memory in the trash: by whom, when and why it was deleted, and when it will be purged."""

    __slots__ = ("announced", "at", "by", "purged_from", "reason", "record")

    def __init__(
        self,
        record: Record,
        at: datetime,
        by: str | None,
        reason: str | None,
        purged_from: datetime | None,
        announced: datetime | None,
    ) -> None:
        self.record = record
        self.at = at
        self.by = by
        self.reason = reason
        self.purged_from = purged_from  # the earliest time of an automatic purge; None: never
        self.announced = announced  # when a purge first found it due

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def session(self) -> str:
        return self.record.session

    def to_dict(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "id": self.id,
            "type": self.record.type,
            "text": self.record.text,
            "created": to_text(self.record.created),
            "deleted_at": to_text(self.at),
            "deleted_by": self.by,
            "reason": self.reason,
            "purged_from": to_text(self.purged_from) if self.purged_from else None,
        }

    def __repr__(self) -> str:
        return f"Trashed({self.record.ref} by {self.by} at {to_text(self.at)}: {self.reason})"


class Purged:
    """The result of a purge: what was removed for good, what was announced, and why it refused to run, if so."""

    __slots__ = ("announced", "ids", "refused", "waiting")

    def __init__(self) -> None:
        self.ids: list[str] = []  # `session/ID`
        self.announced: list[str] = []  # due; a purge at least a day later removes them
        self.waiting = 0  # in the trash, not yet due or announced less than a day ago
        self.refused = ""

    @property
    def count(self) -> int:
        return len(self.ids)

    def add(self, other: Purged) -> None:
        self.ids += other.ids
        self.announced += other.announced
        self.waiting += other.waiting
        self.refused = self.refused or other.refused

    def to_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "ids": self.ids,
            "announced": self.announced,
            "waiting": self.waiting,
            "refused": self.refused or None,
        }

    def __repr__(self) -> str:
        return f"Purged({self.count} gone, {len(self.announced)} announced, {self.waiting} waiting{', refused: ' + self.refused if self.refused else ''})"


class Receipt:
    """The result of an erasure: what was erased, which files were searched for remains, and what it cannot reach. No content."""

    __slots__ = (
        "at", "beyond_reach", "by", "bytes_after", "bytes_before", "echoes", "elsewhere", "ids", "left", "pending", "pieces", "preview",
        "reason", "redacted", "removed", "rewritten", "searched_bytes", "searched_files", "summaries",
    )  # fmt: skip

    def __init__(
        self,
        ids: list[str],
        at: datetime,
        by: str | None,
        reason: str | None,
        redacted: dict[str, int],
        *,
        preview: bool,
    ) -> None:
        self.ids = ids  # `session/ID`
        self.at = at
        self.by = by
        self.reason = reason
        self.redacted = redacted  # what redaction took out of the reason: kinds and how many of each
        self.preview = preview
        self.rewritten: list[str] = []  # files, relative to the store
        self.removed: list[str] = []  # files and folders removed as a whole
        self.bytes_before = 0
        self.bytes_after = 0
        self.searched_files = 0
        self.searched_bytes = 0
        self.pieces = 0  # the number of fragments of the erased text that were searched for
        self.echoes: list[str] = []  # turns that repeat what is erased, `session/ID`, taken along or not
        self.summaries: list[str] = []  # summaries made by SMP that quoted it; the quotations were removed
        self.elsewhere: list[str] = []  # other memories and files with the same text
        self.left: list[str] = []  # files of SMP that still contain a fragment
        self.pending: list[str] = []  # steps that are still to be done
        self.beyond_reach = list(BEYOND_REACH)  # what SMP cannot erase; a backend may know more of it

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def staying_echoes(self) -> list[str]:
        """The turns that say the same and were not erased."""
        return [each for each in self.echoes if each not in self.ids]

    @property
    def verified(self) -> bool:
        """Whether all files were searched and no file of SMP contains the text, apart from other memories."""
        return bool(self.pieces) and not self.left

    @property
    def complete(self) -> bool:
        return self.verified and not self.pending

    def to_dict(self) -> dict[str, Any]:
        return {
            "preview": self.preview,
            "count": self.count,
            "ids": self.ids,
            "erased_at": to_text(self.at),
            "erased_by": self.by,
            "reason": self.reason,
            "rewritten": self.rewritten,
            "removed": self.removed,
            "summaries": self.summaries,
            **({"echoes": self.echoes, "staying_echoes": self.staying_echoes} if self.echoes else {}),
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "verified": self.verified,
            "searched": {"files": self.searched_files, "bytes": self.searched_bytes, "pieces": self.pieces},
            "elsewhere": self.elsewhere,
            "left": self.left,
            "pending": self.pending,
            "beyond_reach": self.beyond_reach,
            **({"redacted": self.redacted} if self.redacted else {}),
        }

    def __repr__(self) -> str:
        state = "complete" if self.complete else "verified" if self.verified else "not verified"
        return f"Receipt({self.count} erased, {state}, {len(self.pending)} pending)"


class AnnouncedPurge(NamedTuple):
    """The check that found a deletion due."""

    deleted: str  # time of the deletion: after a restoration and another deletion, it is announced again
    at: datetime
    passed: timedelta | None = None  # `Evidence.passed` at that check


class PurgeCheck(NamedTuple):
    """The result of one check of a session's trash."""

    due: list[str]  # announced at least a day ago
    new: list[str]  # announced by this check
    announced: dict[str, AnnouncedPurge]  # all that are announced from now on
    waiting: int


class PurgeNotes:
    """Announced purges of a session, and memories whose purge began and is not in the audit log yet; in the user's state.

    purges/SESSION.json     {"announced": {"DEC-0001": [deleted at, announced at, passed seconds]}, "begun": ["DEC-0002"]}
    """

    def __init__(self, state: State, session: str) -> None:
        self._state = state
        self._name = f"purges/{session}.json"

    def announced(self) -> dict[str, AnnouncedPurge]:
        try:
            return {
                name: AnnouncedPurge(str(deleted), to_moment(at), timedelta(seconds=passed[0]) if passed else None)
                for name, (deleted, at, *passed) in self._load()["announced"].items()
            }
        except (UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return {}

    def begun(self) -> list[str]:
        names = self._load().get("begun")
        return [str(name) for name in names] if isinstance(names, list) else []

    def _load(self) -> dict[str, Any]:
        try:
            fields = json.loads(self._state.read(self._name))
        except (FileNotFoundError, Corrupt, ValueError, RecursionError):
            return {}
        return fields if isinstance(fields, dict) else {}

    def write(self, announced: dict[str, AnnouncedPurge], begun: list[str]) -> None:
        """Durably if a purge begins: the audit record is written from it after a crash."""
        if not announced and not begun:
            self._state.remove(self._name)
            return
        fields = {
            name: [
                each.deleted,
                to_text(each.at),
                *([] if each.passed is None else [round(each.passed.total_seconds(), 3)]),
            ]
            for name, each in sorted(announced.items())
        }
        data = json.dumps({"announced": fields, "begun": begun})
        self._state.write(self._name, data.encode() + b"\n", durable=bool(begun))

    def forget(self, ids: list[str]) -> None:
        """Remove memories that were erased."""
        announced = self.announced()
        if not announced.keys().isdisjoint(ids):
            self.write({name: each for name, each in announced.items() if name not in ids}, self.begun())
