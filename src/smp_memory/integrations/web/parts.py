"""What templates show of values: addresses, times and sizes in words, a memory in one line, scores, differences. Pure.

Guarantees: `visible` spells out control characters and marks that change the direction of text as `\\x1b`, so that no memory can disguise what it
says. Parts of an address are quoted, so that none can leave its place.
"""

from __future__ import annotations

import difflib
import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from smp_memory.lifecycle.transitions import PURGED
from smp_memory.model.record import name_and_content
from smp_memory.model.times import to_text, validity_text
from smp_memory.model.types import KINDS
from smp_memory.search.scoring import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import date, datetime, timedelta

    from smp_memory.lifecycle.transitions import Transition
    from smp_memory.model.record import Record

_MISLEADING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_UNITS = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))
_COMPARED_WORDS = 2000
_WORD = re.compile(r"\w+")
_GRAVE = ("critical", "high")
PART_TITLES = {
    "text": "words of the query",
    "context": "turns around it",
    "session": "its session",
    "author": "names its author",
    "time": "names its time",
    "meaning": "meaning",
}
_FACTOR_TITLES = {
    "strength": "strength of the best match",
    "worth": "worth of the text",
    "fading": "fading",
    "session_idle": "idle session",
    "settled": "settled",
}


# -- invisible characters, addresses


def visible(text: str) -> str:
    """The text with control characters and marks of direction spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return _MISLEADING.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def spelled_marks(text: str) -> dict[str, str]:
    """The characters of a text that `visible` spells out, by their spelling."""
    return {_spelled(found): found[0] for found in _MISLEADING.finditer(text.replace("\r\n", "\n"))}


def url(path: str, *parts: str, **query: Any) -> str:
    """A path with quoted parts and a query; empty values are left out: `url("/memory/{}/{}", session, id)`."""
    filled = path.format(*(quote(part, safe="") for part in parts))
    given = [(name, value) for name, values in query.items() for value in _values(values)]
    return f"{filled}?{urlencode(given)}" if given else filled


def _values(values: Any) -> list[str]:
    each = values if isinstance(values, (list, tuple)) else [values]
    return [str(value) for value in each if value not in (None, "", False)]


def memory_url(ref: str, **query: Any) -> str:
    session, _, id = ref.partition("/")
    return url("/memory/{}/{}", session, id, **query)


# -- texts


def line_of(record: Record) -> str:
    """The content of a memory as one line; of a preference with its key."""
    name, content = name_and_content(record)
    text = plain(content)
    return " ".join((f"{plain(name)}: {text}" if name else text).split())


def plain(value: Any) -> str:
    """A JSON value as text."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def first_items(values: Mapping[Any, Any], most: int) -> list[tuple[Any, Any]]:
    return list(islice(values.items(), most))


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def label_of(name: str) -> str:
    """`alternatives_considered` as a person reads it."""
    return name.replace("_", " ").strip().capitalize() or name


def noun_of(record: Record) -> str:
    return KINDS[record.type].noun


def plural_of(name: str) -> str:
    """The plural of a type of memory: `agent states`."""
    return KINDS[name].plural.replace("_", " ") if name in KINDS else name


def choices(known: Iterable[str], value: str = "") -> list[tuple[str, str]]:
    """The options of a select for words; a value that is not among the known ones stays one."""
    return [(word, label_of(word).lower()) for word in dict.fromkeys([*known, *([value] if value else [])])]


def counted(number: int, one: str, many: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def memories(number: int) -> str:
    return counted(number, "memory", "memories")


def sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with a name such as `decisions.jsonl` or an id."""
    first = text.partition(" ")[0].rstrip(".,:;")
    return text if any(not each.isalpha() and each not in "'-" for each in first) else text[:1].upper() + text[1:]


def size_text(count: float) -> str:
    """`4.1 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return ""


# -- times


def ago(moment: datetime, now: datetime) -> str:
    """`3 days ago`, `in 2 hours`, `just now`."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 60:
        return "just now"
    if seconds > 0:
        return f"{duration(seconds)} ago"
    return f"in {duration(59 - seconds)}"  # a deadline of 30 days that was just set is in 30 days


def duration(seconds: float | timedelta) -> str:
    """The largest unit: `3 days`."""
    total = seconds if isinstance(seconds, (int, float)) else seconds.total_seconds()
    for size, unit in _UNITS:
        if total >= size:
            return counted(int(total // size), unit)
    return "less than a minute"


def moment_text(moment: datetime) -> str:
    """`2026-11-17 15:04`, UTC."""
    return to_text(moment)[:16].replace("T", " ")


def date_text(moment: datetime | date, now: datetime) -> str:
    """`12 Dec`, with the year if it is another one than now."""
    year = f" {moment.year}" if moment.year != now.year else ""
    return f"{moment.day} {moment:%b}{year}"


def day_title(day: date) -> str:
    """`Tuesday, 17 November 2026`."""
    return f"{day:%A}, {day.day} {day:%B} {day.year}"


def next_step_text(step: Transition, now: datetime) -> str:
    """What happens to a session by itself: `idle in 21 hours unless used`, `archived on 12 Dec unless used`."""
    if step.when is None:
        return step.why
    if step.state == PURGED:
        return "purged at the next maintenance" if step.when <= now else f"purged from {date_text(step.when, now)} on"
    if step.when <= now:
        return f"{step.state} at the next maintenance, because it was {step.why}"
    is_near = (step.when - now).total_seconds() < 48 * 3600
    when = ago(step.when, now) if is_near else f"on {date_text(step.when, now)}"
    return f"{step.state} {when} unless used"


# -- memories


def marks_of(record: Record) -> list[tuple[str, str]]:
    """Severity, status, validity, pin and the like, as far as a memory has them; each with the class of its tag."""
    data, kind = record.given, KINDS[record.type]
    found = []
    severity = data.get("severity")
    if severity:
        found.append((str(severity), "crit" if str(severity).lower() in _GRAVE else "warn"))
    status = record.status if kind.is_open_until_closed else data.get("status")
    if status:
        found.append((str(status), ""))
    if validity_text(data):
        found.append((validity_text(data), ""))
    if record.revision > 1:
        found.append((f"revision {record.revision}", ""))
    if record.pinned:
        found.append(("pinned", "on"))
    if record.muted:
        found.append(("not told to agents", "warn"))
    if record.deleted:
        found.append(("deleted", "crit"))
    if record.edited or record.typed_by_hand:
        found.append(("edited by hand", ""))
    return found


class TextPiece(NamedTuple):
    """A piece of a text, and the element that it stands in: `mark`, `ins`, `del`, or none."""

    element: str
    text: str


def highlighted(text: str, words: Collection[str]) -> list[TextPiece]:
    """The text with the words of a query marked."""
    if not words:
        return [TextPiece("", text)]
    pieces: list[TextPiece] = []
    at = 0
    for found in _WORD.finditer(text):
        if found[0].casefold() in words or _stem(found[0]) in words:
            pieces += [TextPiece("", text[at : found.start()]), TextPiece("mark", found[0])]
            at = found.end()
    return [*pieces, TextPiece("", text[at:])]


def words_of(text: str) -> frozenset[str]:
    """The words of a query that are marked in memories, with their stems."""
    from smp_memory.text.tokenizer import STOP_WORDS

    found = [each for each in _WORD.findall(text) if each.casefold() not in STOP_WORDS]
    return frozenset([each.casefold() for each in found] + [_stem(each) for each in found])


def _stem(word: str) -> str:
    from smp_memory.text.tokenizer import terms

    return next(iter(terms(word)), word.casefold())


def difference(before: str, after: str) -> list[TextPiece]:
    """Two texts as one, with what was removed and what was added."""
    old, new = re.findall(r"\s+|\w+|[^\w\s]", before), re.findall(r"\s+|\w+|[^\w\s]", after)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    head, tail = "".join(old[:start]), "".join(old[len(old) - end :])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    pieces = [TextPiece("", head), *_changed(old, new), TextPiece("", tail)]
    return [piece for piece in pieces if piece.text]


def _common(old: list[str], new: list[str]) -> int:
    """The length of the beginning that two lists have in common."""
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _changed(old: list[str], new: list[str]) -> Iterable[TextPiece]:
    """What lies between the common beginning and end. Comparing long or repetitive texts word by word would take seconds."""
    if not old or not new or len(old) + len(new) > _COMPARED_WORDS or len({*old, *new}) * 8 < len(old) + len(new):
        yield TextPiece("del", "".join(old))
        yield TextPiece("ins", "".join(new))
        return
    for op, a, b, c, d in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if op == "equal":
            yield TextPiece("", "".join(old[a:b]))
            continue
        yield TextPiece("del", "".join(old[a:b]))
        yield TextPiece("ins", "".join(new[c:d]))


# -- tables


class Table(NamedTuple):
    """The columns of a table in which rows differ, and what all rows have in common."""

    titles: list[str]
    rows: list[list[str]]
    common: list[tuple[str, str]]  # title and cell


def table_of(cell: Callable[[Any, int], str], items: Iterable[Any], titles: Sequence[str]) -> Table:
    """`cell` gives the cell of an item in a column. A column that says the same in every row is said once; the first always stays."""
    rows = [[cell(item, at) for at in range(len(titles))] for item in items]
    same = [at for at in range(1, len(titles)) if len(rows) > 1 and len({row[at].strip() for row in rows}) == 1]
    kept = [at for at in range(len(titles)) if at not in same]
    return Table(
        [titles[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        [(titles[at], rows[0][at]) for at in same],
    )


# -- figures


class Share(NamedTuple):
    """A part of a bar: where it begins, how long it is, its class and its title."""

    kind: str
    title: str
    at: float
    length: float


def shares_of(parts: Iterable[tuple[str, str, float]], whole: float, width: float = 300) -> list[Share]:
    """(class, title, value) as parts of a bar."""
    found: list[Share] = []
    at = 0.0
    for kind, title, value in parts:
        length = width * value / whole if whole else 0.0
        found.append(Share(kind, title, at, length))
        at += length
    return found


def score_parts(explain: Mapping[str, Any], width: float = 150) -> list[Share]:
    """The parts of a score as one bar."""
    factor = 1.0
    for name in _FACTOR_TITLES:
        factor *= explain[name] if _is_number(explain.get(name)) else 1.0
    given = [(name, explain[name] * factor) for name in PARTS if _is_number(explain.get(name)) and explain[name] > 0]
    named = [(f"part-{name}", f"{PART_TITLES[name]} {value:.2f}", min(value, 1.0)) for name, value in given]
    return shares_of(named, 1.0, width)


class ScoreRow(NamedTuple):
    """A part of a score, or a factor by which their sum is multiplied."""

    title: str
    figure: str
    kind: str
    length: str  # of its bar, of 90


def score_rows(explain: Mapping[str, Any]) -> list[ScoreRow]:
    parts = [(PART_TITLES[name], explain[name], f"part-{name}") for name in PARTS if _is_number(explain.get(name))]
    if not parts:
        return []
    factors = [(name, title) for name, title in _FACTOR_TITLES.items() if _is_number(explain.get(name))]
    rows = parts + [(f"× {title}", explain[name], "factor") for name, title in factors]
    return [
        ScoreRow(title, f"{value:.2f}", kind, f"{90 * min(max(value, 0.0), 1.0):.1f}") for title, value, kind in rows
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def score_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


class Quota(NamedTuple):
    """How full a session is."""

    share: float
    kind: str
    figures: str
    label: str


def quota_of(used_bytes: int, quota_bytes: int) -> Quota:
    share = min(used_bytes / quota_bytes, 1.0) if quota_bytes else 0.0
    kind = "crit" if share >= 0.95 else "warn" if share >= 0.8 else "fine"
    percent = "under 1%" if 0 < share < 0.01 else f"{share:.0%}"
    return Quota(
        share, kind, f"{size_text(used_bytes)}, {percent}", f"{size_text(used_bytes)} of {size_text(quota_bytes)}"
    )
