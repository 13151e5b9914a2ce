"""Plan a compaction: which memories go to the cold segment, in stages, with reasons (design 003).

    1 faded      priority below 0.3, the lowest first
    2 old turns  conversation older than 7 days, the oldest first
    3 resolved   settled findings, the longest unchanged first
    4 history    earlier states of agents; the current one stays
    5 settled    decisions that are settled or superseded, and inferred preferences, the longest unchanged first

The design's own fifth stage, duplicate index entries, does not exist here: the index is derived and rewritten whole.
The first stage uses the priority without a floor: floors keep a memory findable, and with them decisions,
preferences, artifacts and learnings could never go. The fifth stage is SMP's own: a session full of decisions that
nobody needs any more must not become unwritable. What must stay is decided by `lifecycle.retention`. Turns that go
leave summaries, whichever stage took them, and a plan accounts for their size.

Turns are summarised in groups, in their order; a group ends after `MAX_TURNS`, or after a pause once it has
`MIN_TURNS_BEFORE_PAUSE`. A summary takes at most a tenth of the bytes of its turns, and a group too small for that
gets none: a summary must never cost what it saves. It names its turns, their time and their authors. A plugged-in
callable that fails, or returns no text, is replaced by SMP's own summary; whatever it returns is cut to size.

Guarantees: pure; a stage begins only when those before it do not free enough, and stops as soon as the target is
reached; nothing preserved is ever in a plan; the same memories give the same plan and summaries. Nothing is destroyed: what a plan
names goes to the cold segment, and stays there until it is erased.
Non-guarantees: a target may be out of reach; then `reached` is False and the plan names all that may go.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.lifecycle.retention import DEFAULT_RULES, PINNED, preserved
from smp_memory.lifecycle.summaries import shortened, summarise
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_text
from smp_memory.model.types import ACTIVE, EXPLICIT, KINDS, OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from smp_memory.lifecycle.retention import PreservationRules, WeighedMemory
    from smp_memory.model.record import Record

    Choice = tuple["PlannedRemoval", WeighedMemory]
    Summariser = Callable[[Sequence[str]], str]


FADED, OLD_TURNS, RESOLVED, HISTORY = "faded", "old_turns", "resolved_findings", "state_history"
SETTLED = "settled"
STAGES = (FADED, OLD_TURNS, RESOLVED, HISTORY, SETTLED)
NOT_NEEDED = "may go, but enough is freed without it"
NOT_COVERED = "no rule takes it"
_EXAMPLES = 5


class PlannedRemoval(NamedTuple):
    """One move to the cold segment: a memory with all its entries, or (stage `state_history`) its earlier ones."""

    id: str
    bytes: int
    why: str
    stage: str


class CompactionPlan(NamedTuple):
    target_bytes: int
    removed: list[PlannedRemoval]
    histories: list[PlannedRemoval]  # memories that stay, whose earlier entries go
    summaries: list[TurnSummary]
    kept: dict[str, str]  # reasons by id

    @property
    def freed_bytes(self) -> int:
        """The bytes that the session's files will lose, less those of the summaries written instead."""
        gone = sum(removal.bytes for removal in (*self.removed, *self.histories))
        return gone - sum(summary.size_bytes for summary in self.summaries)

    @property
    def reached(self) -> bool:
        return self.freed_bytes >= self.target_bytes

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.removed or self.histories)

    def to_dict(self) -> dict[str, Any]:
        """The plan for a person to review; what stays is counted by reason, with examples."""
        return {
            "target_bytes": self.target_bytes,
            "freed_bytes": self.freed_bytes,
            "reached": self.reached,
            "stages": {stage: _figures(self, stage) for stage in STAGES},
            "removed": [removal._asdict() for removal in self.removed],
            "histories": [removal._asdict() for removal in self.histories],
            "summaries": [summary.to_dict() for summary in self.summaries],
            "kept": _by_reason(self.kept),
        }


def plan(
    memories: Sequence[WeighedMemory],
    target_bytes: int,
    now: datetime,
    rules: PreservationRules = DEFAULT_RULES,
    summariser: Summariser | None = None,
) -> CompactionPlan:
    """The plan that frees about `target_bytes`."""
    kept = preserved(memories, now, rules)
    chosen = _chosen(memories, kept, target_bytes, now, rules)
    removed = [removal for removal, _ in chosen if removal.stage != HISTORY]
    turns = [weighed for removal, weighed in chosen if _is_turn(weighed)]
    histories = [removal for removal, _ in chosen if removal.stage == HISTORY]
    _add_reasons_of_others(memories, kept, removed, now, rules)
    return CompactionPlan(target_bytes, removed, histories, summaries(turns, summariser), kept)


def estimate_gain(memories: Sequence[WeighedMemory], now: datetime, rules: PreservationRules = DEFAULT_RULES) -> int:
    """The number of bytes that compaction could free at most, roughly."""
    kept = preserved(memories, now, rules)
    return max(0, _net_bytes(list(_candidates(memories, kept, now, rules))))


# -- choice


def _chosen(
    memories: Sequence[WeighedMemory], kept: dict[str, str], target_bytes: int, now: datetime, rules: PreservationRules
) -> list[Choice]:
    """The candidates needed for the target: first assuming that summaries cost the maximum, then what they cost here."""
    every = list(_candidates(memories, kept, now, rules))
    careful = _enough(every, target_bytes, MAX_COST)
    turn_bytes = sum(removal.bytes for removal, weighed in careful if _is_turn(weighed))
    closer = _enough(every, target_bytes, 1.1 * _summary_bytes(careful) / turn_bytes if turn_bytes else 0.0)
    if len(closer) == len(careful):  # then they are the same
        return careful
    return closer if _net_bytes(closer) >= target_bytes else careful


def _enough(every: list[Choice], target_bytes: int, cost: float) -> list[Choice]:
    freed, count = 0.0, 0
    for removal, weighed in every:
        if freed >= target_bytes:
            break
        freed += removal.bytes * (1 - cost if _is_turn(weighed) else 1)
        count += 1
    return every[:count]


def _net_bytes(chosen: list[Choice]) -> int:
    return sum(removal.bytes for removal, _ in chosen) - _summary_bytes(chosen)


def _summary_bytes(chosen: list[Choice]) -> int:
    return max_summary_bytes([weighed for _, weighed in chosen if _is_turn(weighed)])


def _candidates(
    memories: Sequence[WeighedMemory], kept: dict[str, str], now: datetime, rules: PreservationRules
) -> Iterator[Choice]:
    """All memories that may go, in order; each once."""
    decayed: list[WeighedMemory] = []
    rest: list[WeighedMemory] = []
    for weighed in memories:
        if weighed.record.id not in kept:
            (decayed if _is_decayed(weighed, rules) else rest).append(weighed)
    yield from _removals(FADED, sorted(decayed, key=_by_priority), f"faded: priority below {rules.decayed_below:g}")
    turns = [weighed for weighed in rest if _is_old_turn(weighed, now, rules)]
    yield from _removals(OLD_TURNS, sorted(turns, key=_by_order), f"a turn older than {rules.old_turns.days} days")
    settled = [weighed for weighed in rest if _is_closed(weighed)]
    for weighed in sorted(settled, key=_by_change):
        yield from _removals(RESOLVED, (weighed,), f"a settled {KINDS[weighed.record.type].noun}")
    states = (weighed for weighed in memories if _has_history(weighed, kept))
    for weighed in sorted(states, key=_by_history):
        yield (
            PlannedRemoval(weighed.record.id, weighed.history_bytes, "earlier states; the current one stays", HISTORY),
            weighed,
        )
    others = [weighed for weighed in rest if _is_settled(weighed)]
    yield from _removals(SETTLED, sorted(others, key=_by_change), "a settled decision or an inferred preference")


def _removals(stage: str, found: Iterable[WeighedMemory], why: str) -> Iterator[Choice]:
    for weighed in found:
        yield PlannedRemoval(weighed.record.id, weighed.size_bytes, why, stage), weighed


def _is_turn(weighed: WeighedMemory) -> bool:
    return KINDS[weighed.record.type].is_turn


def _is_decayed(weighed: WeighedMemory, rules: PreservationRules) -> bool:
    return weighed.priority_without_floor < rules.decayed_below


def _is_old_turn(weighed: WeighedMemory, now: datetime, rules: PreservationRules) -> bool:
    return _is_turn(weighed) and now - weighed.created > rules.old_turns


def _is_closed(weighed: WeighedMemory) -> bool:
    """Whether it is a settled finding, or of another type that stays until it is closed."""
    return KINDS[weighed.record.type].keeps == OPEN and is_settled(weighed.record)


def _is_settled(weighed: WeighedMemory) -> bool:
    """Whether it is a decision or preference; active decisions and explicit preferences are preserved before."""
    return KINDS[weighed.record.type].keeps in (ACTIVE, EXPLICIT)


def _has_history(weighed: WeighedMemory, kept: dict[str, str]) -> bool:
    record = weighed.record
    if not KINDS[record.type].is_named_by_agent or not weighed.history_bytes:
        return False
    return not record.deleted and kept.get(record.id) != PINNED


_by_priority = attrgetter("priority_without_floor", "record.seq", "record.id")
_by_order = attrgetter("record.seq", "record.id")
_by_change = attrgetter("updated", "record.id")


def _by_history(weighed: WeighedMemory) -> tuple[int, str]:
    return -weighed.history_bytes, weighed.record.id


# -- reasons and figures


def _add_reasons_of_others(
    memories: Sequence[WeighedMemory],
    kept: dict[str, str],
    removed: list[PlannedRemoval],
    now: datetime,
    rules: PreservationRules,
) -> None:
    gone = {removal.id for removal in removed}
    for weighed in memories:
        if weighed.record.id not in gone and weighed.record.id not in kept:
            by_age = _is_decayed(weighed, rules) or _is_old_turn(weighed, now, rules)
            could = by_age or _is_closed(weighed) or _is_settled(weighed)
            kept[weighed.record.id] = NOT_NEEDED if could else NOT_COVERED


def _figures(plan: CompactionPlan, stage: str) -> dict[str, int]:
    found = [removal for removal in (*plan.removed, *plan.histories) if removal.stage == stage]
    return {"memories": len(found), "bytes": sum(removal.bytes for removal in found)}


def _by_reason(kept: dict[str, str]) -> dict[str, dict[str, Any]]:
    examples: dict[str, list[str]] = {}
    for id, why in kept.items():
        examples.setdefault(why, []).append(id)
    return {
        why: {"memories": count, "examples": runs(examples[why][:_EXAMPLES])}
        for why, count in Counter(kept.values()).most_common()
    }


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
