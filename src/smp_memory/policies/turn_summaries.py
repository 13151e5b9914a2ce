"""Which turns belong together, and what did they say? Summaries that stand where turns have gone to the cold segment.

Turns are grouped as they were said; a group ends after `MOST_TURNS`, or after a pause once it has `FEW_TURNS`. A summary
takes at most a tenth of the bytes of its turns, and a group too small for that gets none: a summary must never cost
what it saves. It names its turns, their time and who spoke.

Guarantees: pure; the same turns give the same summaries; a callable that is plugged in and fails, or gives no text, is
replaced by the summary of our own; whatever it gives is cut to size.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.times import to_text
from smp_memory.policies.summaries import shortened, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from smp_memory.model.record import Record
    from smp_memory.policies.preservation import WeighedMemory

    Summariser = Callable[[Sequence[str]], str]

MOST_TURNS, FEW_TURNS = 400, 20
PAUSE = timedelta(hours=12)
SMALLEST_BYTES = 4_000  # of a group that is worth a summary
MOST_CHARACTERS = 1_200
OVERHEAD_BYTES = 260  # what an entry takes besides its text
LOOKED_AT = 160  # sentences of a group, and of these so many closely: a compaction summarises many groups
WALKED = 48
COST = 0.17  # the largest share of its turns' bytes that a summary may take with all around it
AUTHOR = "smp"
_OPENING = re.compile(r"\d+ turns?, [^:]*: ?")
_LAST_OF_RUN = re.compile(r"(.*)-(\d{1,9})")
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")


class TurnSummary(NamedTuple):
    """A summary to be written, and the turns that it stands for."""

    text: str
    covers: list[str]  # ids
    first: str  # the times of the first and last turn
    last: str
    turn_bytes: int

    @property
    def size_bytes(self) -> int:
        return len(self.text.encode()) + OVERHEAD_BYTES

    def fields(self) -> dict[str, Any]:
        """The fields of the summary as a memory; `covers` in runs, `TURN-0001..TURN-0400`, because ids add up."""
        return {"author": AUTHOR, "author_kind": "system", "summary": self.text, "covers": runs(self.covers)}

    def to_dict(self) -> dict[str, Any]:
        return {
            "covers": runs(self.covers),
            "turns": len(self.covers),
            "first": self.first,
            "last": self.last,
            "bytes": self.size_bytes,
            "text": self.text,
        }


def summaries(turns: Sequence[WeighedMemory], summariser: Summariser | None = None) -> list[TurnSummary]:
    """The summaries of these turns, oldest first."""
    return [
        _summary(group, size, summariser)
        for group in groups(turns)
        if (size := sum(weighed.size_bytes for weighed in group)) >= SMALLEST_BYTES
    ]


def most_bytes(turns: Sequence[WeighedMemory]) -> int:
    """How many bytes the summaries of these turns take at most; cheap, nothing is summarised."""
    sizes = [sum(weighed.size_bytes for weighed in group) for group in groups(turns)]
    return sum(min(4 * MOST_CHARACTERS, size // 10) + OVERHEAD_BYTES for size in sizes if size >= SMALLEST_BYTES)


def groups(turns: Sequence[WeighedMemory]) -> Iterator[list[WeighedMemory]]:
    """The turns in the order in which they were written, in groups."""
    group: list[WeighedMemory] = []
    before = None
    for weighed in sorted(turns, key=attrgetter("record.seq", "record.id")):
        created = weighed.created
        paused = len(group) >= FEW_TURNS and before is not None and created - before > PAUSE
        if paused or len(group) == MOST_TURNS:
            yield group
            group = []
        group.append(weighed)
        before = created
    if group:
        yield group


def runs(ids: Sequence[str]) -> list[str]:
    """Ids with numbers that follow each other as one: `TURN-0001..TURN-0004`."""
    found: list[list[str]] = []
    expected = None  # what would follow the last one: prefix and number
    for id in ids:
        prefix, _, digits = id.rpartition("-")
        number = int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 10 else None
        if number is not None and (prefix, number) == expected:
            found[-1].append(id)
        else:
            found.append([id])
        expected = (prefix, number + 1) if number is not None else None
    return [name for run in found for name in (run if len(run) < 3 else [f"{run[0]}..{run[-1]}"])]


def covers(said: object, id: str) -> bool:
    """Whether a summary's `covers` names this memory."""
    own = _LAST_OF_RUN.fullmatch(id)
    for each in said if isinstance(said, list) else ():
        first, _, last = str(each).partition("..")
        if id in (first, last):
            return True
        ends = [_LAST_OF_RUN.fullmatch(first), _LAST_OF_RUN.fullmatch(last)]
        if own and ends[0] and ends[1] and own[1] == ends[0][1] and int(ends[0][2]) <= int(own[2]) <= int(ends[1][2]):
            return True
    return False


def without_quotes(text: str, is_quoted: Callable[[str], bool]) -> str:
    """A summary without the sentences that are quoted from somewhere; how it opens stays."""
    opening = _OPENING.match(text)
    start = opening.end() if opening else 0
    said = _SENTENCE.split(text[start:])
    left = [sentence for sentence in said if not is_quoted(sentence)]
    if len(left) == len(said):
        return text
    return (text[:start] + " ".join(left)).strip() or "…"


def _summary(group: list[WeighedMemory], size: int, summariser: Summariser | None) -> TurnSummary:
    records = [weighed.record for weighed in group]
    room = min(MOST_CHARACTERS, size // 10)
    opening = _opening(records)
    said = _said([record.text for record in records], summariser, room - len(opening))
    text = _within(f"{opening} {said}".strip(), room, size // 10)
    first, last = records[0], records[-1]
    return TurnSummary(text, [record.id for record in records], to_text(first.created), to_text(last.created), size)


def _opening(records: list[Record]) -> str:
    """`84 turns, 2026-01-02 to 2026-01-03, of user, architect:`"""
    days = [to_text(record.created)[:10] for record in (records[0], records[-1])]
    speakers = Counter(record.author if isinstance(record.author, str) else "user" for record in records)
    named = ", ".join(shortened(name, 40) for name, _ in speakers.most_common(4))
    when = days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"
    return f"{len(records)} turn{'s' if len(records) > 1 else ''}, {when}, of {named}:"


def _said(texts: list[str], summariser: Summariser | None, room: int) -> str:
    if summariser is not None:
        try:
            given = summariser(texts)
        except Exception:  # somebody else's code; ours is good enough
            given = ""
        if str(given or "").strip():
            return str(given).strip().encode("utf-8", "replace").decode()
    return summarise(texts, max_characters=max(1, room), looked_at=LOOKED_AT, walked=WALKED)


def _within(text: str, characters: int, size: int) -> str:
    """A text of at most so many characters, and so many bytes."""
    text = shortened(text, characters)
    encoded = text.encode()
    return text if len(encoded) <= size else encoded[: size - 3].decode(errors="ignore") + "…"
