"""What the statistics know of one memory, and the shapes that they share. Pure.

Times are integer microseconds since 1970 UTC, as in the index. A memory whose time cannot be read has `created` 0; it is
counted, but it is in no period, and says nothing about age.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.times import EPOCH, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

DAY = 86_400_000_000
_MAX_TEXT = 160


class MemoryFacts(NamedTuple):
    """One memory, without its content."""

    doc: int  # its place among those that were read
    session: str
    id: str
    type: str
    author: str  # empty: unknown
    created: int  # 0: unknown
    pinned: bool = False
    uses: int = 0
    last_use: int | None = None

    @property
    def ref(self) -> str:
        return f"{self.session}/{self.id}"

    @property
    def is_used(self) -> bool:
        return self.uses > 0


def moment_of(microseconds: int | None) -> datetime | None:
    """The time; None for an unknown one, and for one beyond the year 9999."""
    if not microseconds:
        return None
    from datetime import timedelta

    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def time_text(microseconds: int | None) -> str | None:
    moment = moment_of(microseconds)
    return None if moment is None else to_text(moment)


def brief(text: str, longest: int = _MAX_TEXT) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest and len(text) <= longest * 4 else line[: longest - 1] + "…"


def dicts(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [each.to_dict() for each in values]


def memories(number: int) -> str:
    return "1 memory" if number == 1 else f"{number:,} memories"
