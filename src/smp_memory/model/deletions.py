"""What was taken away, by whom, why, and can it come back? Records of it, as 003 §8.3 states them, without any content."""

from __future__ import annotations

from smp_memory.model.times import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from smp_memory.model.record import Record

BEYOND_REACH = (
    "copies in backups, snapshots and synchronised folders",
    "the history of a version control system that holds these files",
    "the memory of processes that read it before, and what they made of it",
    "the index of another user of the same store, until that user next uses it",
    "blocks that the file system or the disk has freed and not yet overwritten",
)


class Deletion:
    """What one call deleted or, as a preview, would delete. Until the deadline it can be restored."""

    __slots__ = ("at", "by", "deadlines", "preview", "reason", "records")

    def __init__(
        self,
        records: list[Record],
        at: datetime,
        by: str | None,
        reason: str | None,
        deadlines: dict[str, datetime],
        *,
        preview: bool,
    ) -> None:
        self.records = records
        self.at = at
        self.by = by
        self.reason = reason
        self.deadlines = deadlines  # by session: until when it can be restored
        self.preview = preview

    @property
    def count(self) -> int:
        return len(self.records)

    @property
    def ids(self) -> list[str]:
        return [record.id for record in self.records]

    @property
    def refs(self) -> list[str]:
        """`session/ID`."""
        return [record.ref for record in self.records]

    @property
    def redacted(self) -> dict[str, int]:
        """What redaction took out of the reason: kinds and how many of each."""
        return _redacted(self.records)

    def to_dict(self) -> dict[str, Any]:
        """Counts and ids, and for each session its deletion record."""
        return {
            "preview": self.preview,
            "count": self.count,
            "ids": self.refs,
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

    def __len__(self) -> int:
        return len(self.records)

    def __bool__(self) -> bool:
        return bool(self.records)

    def __repr__(self) -> str:
        return f"Deletion({'would delete' if self.preview else 'deleted'} {self.count}: {self.refs[:5]})"


class Restoration:
    """What one call brought back or, as a preview, would bring back."""

    __slots__ = ("preview", "records")

    def __init__(self, records: list[Record], *, preview: bool) -> None:
        self.records = records
        self.preview = preview

    @property
    def count(self) -> int:
        return len(self.records)

    @property
    def ids(self) -> list[str]:
        return [record.id for record in self.records]

    @property
    def redacted(self) -> dict[str, int]:
        """What redaction took out of the reason: kinds and how many of each."""
        return _redacted(self.records)

    def to_dict(self) -> dict[str, Any]:
        data = {"preview": self.preview, "count": self.count, "ids": [record.ref for record in self.records]}
        return {**data, "redacted": self.redacted} if self.redacted else data

    def __len__(self) -> int:
        return len(self.records)

    def __bool__(self) -> bool:
        return bool(self.records)


def _redacted(records: list[Record]) -> dict[str, int]:
    """All of them have the same reason."""
    return next((record.redacted for record in records if record.redacted), {})


class Trashed:
    """A memory in the trash: who put it there, when and why, and when it will go for good."""

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
        self.purged_from = purged_from  # the first moment at which a purge may take it; None: never by itself
        self.announced = announced  # the look that found it due

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
    """What a purge did: what is gone for good, what it announced, and why it refused, if it did."""

    __slots__ = ("announced", "ids", "refused", "waiting")

    def __init__(self) -> None:
        self.ids: list[str] = []  # `session/ID`
        self.announced: list[str] = []  # due; a purge at least a day later takes them
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
    """What an erasure did, what it looked through afterwards, and what it cannot reach. No content."""

    __slots__ = (
        "at",
        "by",
        "bytes_after",
        "bytes_before",
        "elsewhere",
        "ids",
        "left",
        "pending",
        "pieces",
        "preview",
        "reason",
        "redacted",
        "removed",
        "rewritten",
        "searched_bytes",
        "searched_files",
        "summaries",
    )

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
        self.removed: list[str] = []  # files and folders that went as a whole
        self.bytes_before = 0
        self.bytes_after = 0
        self.searched_files = 0
        self.searched_bytes = 0
        self.pieces = 0  # of the erased text that were looked for
        self.summaries: list[str] = []  # that SMP made of it, among other memories; what they quote of it went
        self.elsewhere: list[str] = []  # other memories and files that say the same
        self.left: list[str] = []  # files of SMP's own that still hold a piece
        self.pending: list[str] = []  # what still has to happen

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def verified(self) -> bool:
        """Whether the text was looked for everywhere and found in no file of SMP's own, but for other memories."""
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
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "verified": self.verified,
            "searched": {"files": self.searched_files, "bytes": self.searched_bytes, "pieces": self.pieces},
            "elsewhere": self.elsewhere,
            "left": self.left,
            "pending": self.pending,
            "beyond_reach": list(BEYOND_REACH),
            **({"redacted": self.redacted} if self.redacted else {}),
        }

    def __repr__(self) -> str:
        state = "complete" if self.complete else "verified" if self.verified else "not verified"
        return f"Receipt({self.count} erased, {state}, {len(self.pending)} pending)"
