"""Inputs of decay policies: a few plain values, from a record or from a row of the index.

Times are integer microseconds since 1970 UTC. Confidence is a number or one of the words of `model.types`; impact is
a word such as `high`, or None where a memory describes its impact otherwise.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from smp_memory.model.types import CONFIDENCE_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEVELS = frozenset(("low", "medium", "high", "critical"))


class DecayInputs:
    """The values that policies read."""

    __slots__ = (
        "access_count",
        "approved",
        "confidence",
        "created",
        "impact",
        "importance",
        "last_access",
        "pinned",
        "severity",
        "status",
        "type",
        "updated",
    )

    def __init__(
        self,
        type: str,
        created: int,
        updated: int | None = None,
        importance: float | None = None,
        pinned: bool = False,
        status: str | None = None,
        severity: str | None = None,
        impact: str | None = None,
        confidence: float | str | None = None,
        approved: bool = False,
        access_count: int = 0,
        last_access: int | None = None,
    ) -> None:
        self.type = type
        self.created = created
        self.updated = created if updated is None else updated
        self.importance = importance
        self.pinned = pinned
        self.status = status
        self.severity = severity
        self.impact = impact
        self.confidence = CONFIDENCE_WORDS.get(confidence) if isinstance(confidence, str) else confidence
        self.approved = approved
        self.access_count = access_count
        self.last_access = last_access

    @classmethod
    def of(cls, record: Record, access_count: int | None = None, last_access: int | None = None) -> DecayInputs:
        """The inputs from a record; access count and last access are the record's, unless given."""
        access = record.access if isinstance(record.access, dict) else {}
        return cls(
            record.type,
            _microseconds(record.created),
            _microseconds(record.updated),
            importance=_number(record.importance),
            pinned=bool(record.pinned),
            status=_word(record, "status"),
            severity=_word(record, "severity"),
            impact=impact_level(getattr(record, "impact", None)),
            confidence=_number(record.confidence_value),
            approved=bool(getattr(record, "approved_by", None)),
            access_count=_count(access.get("count")) if access_count is None else access_count,
            last_access=_moment(access.get("last")) if last_access is None else last_access,
        )


def impact_level(impact: Any) -> str | None:
    """The level of an impact given as a word: `"high"` or `{"level": "high"}`; else None."""
    if isinstance(impact, dict):
        impact = impact.get("level")
    word = impact.strip().lower() if isinstance(impact, str) else ""
    return word if word in _LEVELS else None


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(text: Any) -> int | None:
    """A time from a file that a person may have edited; None if it cannot be read."""
    from smp_memory.model.times import to_moment

    try:
        return _microseconds(to_moment(text)) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _word(record: Record, field: str) -> str | None:
    value = getattr(record, field, None)
    return value if isinstance(value, str) else None
