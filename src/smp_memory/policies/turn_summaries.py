"""Summaries of turns that compaction moves to the cold segment.

Turns are grouped in their order; a group ends after `MAX_TURNS`, or after a pause once it has
`MIN_TURNS_BEFORE_PAUSE`. A summary takes at most a tenth of the bytes of its turns, and a group too small for that
gets none: a summary must never cost what it saves. It names its turns, their time and their authors.

Guarantees: pure; the same turns give the same summaries; a plugged-in callable that fails, or returns no text, is
replaced by SMP's own summary; whatever it returns is cut to size.
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
    from smp_memory.policies.retention import WeighedMemory

    Summariser = Callable[[Sequence[str]], str]

MAX_TURNS, MIN_TURNS_BEFORE_PAUSE = 400, 20
PAUSE = timedelta(hours=12)
MIN_BYTES = 4_000  # of a group that gets a summary
MAX_CHARACTERS = 1_200
OVERHEAD_BYTES = 260  # the size of an entry besides its text
MAX_CANDIDATES = 160  # sentences of a group, and ranked ones below: a compaction summarises many groups
MAX_RANKED = 48
MAX_COST = 0.17  # the largest share of its turns' bytes that a summary may take, its entry's overhead included
AUTHOR = "smp"
_OPENING = re.compile(r"\d+ turns?, [^:]*: ?")
_ID = re.compile(r"(.*)-(\d{1,9})")
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")


class TurnSummary(NamedTuple):
    """A summary to be written, and the turns that it covers."""

    text: str
    covers: list[str]  # ids
    first: str  # the times of the first and last turn
    last: str
    turn_bytes: int

    @property
    def size_bytes(self) -> int:
        return len(self.text.encode()) + OVERHEAD_BYTES

    def fields(self) -> dict[str, Any]:
        """The fields of the summary as a memory; `covers` in ranges, `TURN-0001..TURN-0400`, because many ids take space."""
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
        if (size := sum(weighed.size_bytes for weighed in group)) >= MIN_BYTES
    ]


def max_summary_bytes(turns: Sequence[WeighedMemory]) -> int:
    """The largest size of the summaries of these turns; cheap, nothing is summarised."""
    sizes = [sum(weighed.size_bytes for weighed in group) for group in groups(turns)]
    return sum(min(4 * MAX_CHARACTERS, size // 10) + OVERHEAD_BYTES for size in sizes if size >= MIN_BYTES)


def groups(turns: Sequence[WeighedMemory]) -> Iterator[list[WeighedMemory]]:
    """The turns in the order in which they were written, in groups."""
    group: list[WeighedMemory] = []
    before = None
    for weighed in sorted(turns, key=attrgetter("record.seq", "record.id")):
        created = weighed.created
        paused = len(group) >= MIN_TURNS_BEFORE_PAUSE and before is not None and created - before > PAUSE
        if paused or len(group) == MAX_TURNS:
            yield group
            group = []
        group.append(weighed)
        before = created
    if group:
        yield group


def runs(ids: Sequence[str]) -> list[str]:
    """The ids, with three or more consecutive ones as a range: `TURN-0001..TURN-0004`."""
    found: list[list[str]] = []
    expected = None  # prefix and number that would continue the range
    for id in ids:
        prefix, _, digits = id.rpartition("-")
        number = int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 10 else None
        if number is not None and (prefix, number) == expected:
            found[-1].append(id)
        else:
            found.append([id])
        expected = (prefix, number + 1) if number is not None else None
    return [name for run in found for name in (run if len(run) < 3 else [f"{run[0]}..{run[-1]}"])]


def covers(covered: object, id: str) -> bool:
    """Whether a summary's field `covers` includes this id."""
    parsed = _ID.fullmatch(id)
    for each in covered if isinstance(covered, list) else ():
        first, _, last = str(each).partition("..")
        if id in (first, last):
            return True
        ends = [_ID.fullmatch(first), _ID.fullmatch(last)]
        if not (parsed and ends[0] and ends[1]) or parsed[1] != ends[0][1]:
            continue
        if int(ends[0][2]) <= int(parsed[2]) <= int(ends[1][2]):
            return True
    return False


def without_quotes(text: str, is_quoted: Callable[[str], bool]) -> str:
    """A summary without the sentences for which `is_quoted` is true; its opening stays."""
    opening = _OPENING.match(text)
    start = opening.end() if opening else 0
    sentences = _SENTENCE.split(text[start:])
    remaining = [sentence for sentence in sentences if not is_quoted(sentence)]
    if len(remaining) == len(sentences):
        return text
    return (text[:start] + " ".join(remaining)).strip() or "…"


def _summary(group: list[WeighedMemory], size: int, summariser: Summariser | None) -> TurnSummary:
    records = [weighed.record for weighed in group]
    room = min(MAX_CHARACTERS, size // 10)
    opening = _opening(records)
    body = _summarised([record.text for record in records], summariser, room - len(opening))
    text = _within(f"{opening} {body}".strip(), room, size // 10)
    first, last = records[0], records[-1]
    return TurnSummary(text, [record.id for record in records], to_text(first.created), to_text(last.created), size)


def _opening(records: list[Record]) -> str:
    """`84 turns, 2026-01-02 to 2026-01-03, of user, architect:`"""
    days = [to_text(record.created)[:10] for record in (records[0], records[-1])]
    speakers = Counter(record.author if isinstance(record.author, str) else "user" for record in records)
    named = ", ".join(shortened(name, 40) for name, _ in speakers.most_common(4))
    when = days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"
    return f"{len(records)} turn{'s' if len(records) > 1 else ''}, {when}, of {named}:"


def _summarised(texts: list[str], summariser: Summariser | None, room: int) -> str:
    if summariser is not None:
        try:
            given = summariser(texts)
        except Exception:  # foreign code; SMP's own summary replaces it
            given = ""
        if str(given or "").strip():
            return str(given).strip().encode("utf-8", "replace").decode()
    return summarise(texts, max_characters=max(1, room), max_candidates=MAX_CANDIDATES, max_ranked=MAX_RANKED)


def _within(text: str, characters: int, size: int) -> str:
    """A text of at most `characters` characters and `size` bytes."""
    text = shortened(text, characters)
    encoded = text.encode()
    return text if len(encoded) <= size else encoded[: size - 3].decode(errors="ignore") + "…"
