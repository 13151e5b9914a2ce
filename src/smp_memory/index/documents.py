"""Index documents: the row, labels and terms that the index stores for a memory. Pure.

Labels are exact-match filters in the text index: `s12` the session, `t1` the type, `a3` the author, `gauth.oauth` a
tag and each tag above it, `oLogin` the topic, `x` deleted.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from smp_memory.index.rows import NULL
from smp_memory.index.tokenizer import bag_of_terms
from smp_memory.model.decay import impact_level
from smp_memory.model.entry import BY_MAINTENANCE, is_maintenance
from smp_memory.model.standing_instructions import instructions_in
from smp_memory.model.statuses import SUCCESSION_KINDS, may_supersede, successions
from smp_memory.model.times import EPOCH, to_moment, validity
from smp_memory.model.types import CONFIDENCE_WORDS, KINDS
from smp_memory.privacy.fence import strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.model.history import RecordHistory
    from smp_memory.model.types import Kind

DELETED = "x"
ROLES = {"user": 1, "assistant": 2, "system": 3, "tool": 4, "agent": 5}
_NOT_SEARCHED = frozenset([
    "author_kind", "idempotency_key", "access", "visibility", "trust", "relations", "references", "turn_ref", "role",
    "superseded_by", "supersedes", "valid_from", "valid_until",
])  # fmt: skip
_NUMBERS_NOT_SEARCHED = frozenset(["confidence", "importance", "pinned", "format"])
ROLE, GUARDED, NAMES_TIME, ASKS = 7 << 4, 1 << 7, 1 << 24, 1 << 25  # bit masks in `facts_number`
WORDS_SHIFT, STATED_SHIFT, AUTHOR_SHIFT = 8, 16, 26
_MANY_WORDS = 255
_TIME_TERMS = frozenset(
    """ago yesterday today tonight tomorrow weekend recent week weeks month months year years day days morning night
    januari january februari february march april june juli july august septemb september octob october novemb november
    decemb december monday tuesday wednesday thursday friday saturday sunday summer winter spring autumn""".split()  # noqa: SIM905
)  # with and without endings
_MAX_KEY = 300  # characters of a tag or topic that are indexed
_LABELS = 2000  # cached
_LARGEST = 1e300
_MAX_TURN = 10**9


def facts_number(
    type_number: int,
    role: int,
    words: int,
    author: int,
    guarded: bool = False,
    asking_words: int = 0,
    marks: int = 0,
) -> int:
    """What a text match tells of a memory, in one number: type, role, number of words, how many of them state something
    and do not ask, author, whether visibility must be checked, and for a turn the marks ASKS and NAMES_TIME."""
    stated = max(min(words - asking_words, _MANY_WORDS), 0)
    lengths = min(words, _MANY_WORDS) << WORDS_SHIFT | stated << STATED_SHIFT
    return author << AUTHOR_SHIFT | marks | lengths | guarded << 7 | role << 4 | type_number


def facts_in(number: int) -> tuple[int, int, int, int, bool, int, int]:
    """Type, role, number of words (255: or more), author, whether visibility must be checked, words that state, marks."""
    words, stated = number >> WORDS_SHIFT & 255, number >> STATED_SHIFT & 255
    guarded, marks = bool(number & GUARDED), number & (ASKS | NAMES_TIME)
    return number & 15, number >> 4 & 7, words, number >> AUTHOR_SHIFT, guarded, stated, marks


def questions_in(text: str) -> tuple[int, bool]:
    """The number of words in the sentences of a text that end with a question mark, and whether the last one does."""
    if _QUESTION_MARKS.isdisjoint(text):
        return 0, False
    sentences = text.rstrip(_AROUND_END).translate(_SENTENCE_ENDS).split("\0")
    words = sum(len(each[:-1].split()) for each in sentences if each.endswith("?"))
    return words, len(sentences) > 1 and not sentences[-1] and sentences[-2].endswith("?")


_QUESTION_MARKS = frozenset("?\uff1f\u061f")
_AROUND_END = " \t\r\n\"')]}*_\u201d\u2019\u300d"
_SENTENCE_ENDS = str.maketrans(dict.fromkeys(".!\n\u3002\uff01", "\0") | dict.fromkeys(_QUESTION_MARKS, "?\0"))


def microseconds(text: str) -> int:
    """A canonical time in microseconds; 0 for one that cannot be read."""
    start = _seconds.get(text[:19])
    if start is None:
        start = _seconds_of(text)
    fraction = text[20:-1]
    return start + (int(fraction) if len(fraction) == _DIGITS and fraction.isdigit() else 0)


_DIGITS = 6
_seconds: dict[str, int] = {}  # many memories are written in one second
_SECONDS_LIMIT = 10_000


def _seconds_of(text: str) -> int:
    try:
        since = to_moment(text) - EPOCH
    except (ValueError, OverflowError):
        return 0
    found = (since.days * 86400 + since.seconds) * 1_000_000
    if len(_seconds) >= _SECONDS_LIMIT:
        _seconds.clear()
    _seconds[text[:19]] = found
    return found


class IndexDocument:
    """Everything that the index stores of one memory in its current state."""

    __slots__ = ("access", "facts", "labels", "last_change", "relations", "row", "successions", "tags", "terms", "topic", "validity", "wish")  # fmt: skip

    def __init__(
        self,
        doc: int,
        session: str,
        history: RecordHistory,
        number_of: Callable[[str], int],
        places: str,
    ) -> None:
        data, first, last = history.data(), history.first, history.last
        type = KINDS[first.type]
        kind = type.number
        author = data.get("author")
        number = number_of(author) if isinstance(author, str) and author else 0
        created = microseconds(first.at)
        plain = _FILTERED_FIELDS.isdisjoint(data)  # most turns have none of these fields
        self.tags = [] if plain else [key for key in map(label_key, _list(data.get("tags"))) if key]
        self.topic = None if plain else label_key(data.get("topic")) or None
        self.relations = [] if plain or _RELATION_FIELDS.isdisjoint(data) else list(_relations(data, session))
        self.successions = [] if plain or not may_supersede(data) else list(successions(data, session, first.id))
        self.validity = None if plain else _validity(data)
        self.access = _access(data["access"], created) if "access" in data else None
        self.terms = terms = _index_terms(history)
        guarded = "visibility" in data or type.is_named_by_agent
        words = terms.count(" ") + 1
        role = _role(data.get("role"))
        turn = _turn_facts(data, terms) if role else ()
        self.facts = facts = facts_number(kind, role, words, number, guarded, *turn)
        self.last_change = 0 if kind == _SUMMARY else created if len(history.entries) == 1 else _last_change(history)
        deleted = history.deletion is not None
        self.labels = labels = self._labels(f"s{doc >> 24} t{kind}", number, deleted)
        self.wish = type.is_turn and not deleted and bool(wish_of(data))
        self.row: tuple[Any, ...] = (
            doc,
            first.id,
            kind,
            created,
            microseconds(last.at) if last is not first else NULL,
            number or NULL,
            *(_NO_NUMBERS if plain else _number_values(data)),
            1 if deleted else NULL,
            *(_NO_STATUS if plain and not type.is_open_until_closed else _status_values(type, data)),
            facts,
            crc32(f"{terms}\0{labels}\0{facts}\0{created}".encode(errors="replace")),
            places,
        )

    def _labels(self, place: str, author: int, deleted: bool) -> str:
        labels = f"{place} a{author}" if author else place
        if self.topic:
            labels = f"{labels} {_topic_labels(self.topic)}"
        for tag in self.tags:
            labels = f"{labels} {_tag_labels(tag)}"
        return f"{labels} {DELETED}" if deleted else labels


def _index_terms(history: RecordHistory) -> str:
    """The terms of a memory; the last one is its id. Other names of its subject count twice: they name it."""
    data = history.data()
    names = bag_of_terms("\n".join(_texts("aliases", data["aliases"]))) if "aliases" in data else ""
    return f"{bag_of_terms(text_of(data))}{names}{history.first.id.lower()}"


_FILTERED_FIELDS = frozenset([
    "approved_by", "confidence", "impact", "importance", "pinned", "references", "relations", "resolution",
    "severity", "status", "superseded_by", "supersedes", "tags", "topic", "turn_ref", "valid_from", "valid_until",
])  # fmt: skip
_NO_NUMBERS, _NO_STATUS = (NULL,) * 3, (NULL,) * 4
_RELATION_FIELDS = frozenset(["references", "relations", "superseded_by", "supersedes", "turn_ref"])
_SUMMARY = KINDS["summary"].number  # compaction writes it


def _last_change(history: RecordHistory) -> int:
    """The last write, change, deletion or restoration of a memory in microseconds; maintenance and accesses do not count."""
    changes = (entry for entry in reversed(history.entries) if entry.by != BY_MAINTENANCE and not is_maintenance(entry))
    return max(microseconds(history.first.at), microseconds(next(changes, history.first).at))


def _access(value: Any, created: int) -> tuple[int, int] | None:
    """Access count and last access from the memory's file; None if they cannot be read."""
    count, last = (value.get("count"), value.get("last")) if isinstance(value, dict) else (None, None)
    if type(count) is not int or not 0 < count < 1 << 62:
        return None
    if last is None:  # the designs count accesses without always recording the last one
        return count, created
    if not isinstance(last, str):
        return None
    try:
        return count, microseconds(last)
    except ValueError:
        return None


def _number_values(data: dict[str, Any]) -> tuple[float | str, float | str, int | str]:
    """Importance, confidence, pinned."""
    pinned = 1 if data.get("pinned") is True else NULL
    return _number(data.get("importance")), _confidence(data.get("confidence")), pinned


def _status_values(kind: Kind, data: dict[str, Any]) -> tuple[str, str, str, int | str]:
    """Status, severity, impact, approved."""
    impact = impact_level(data["impact"]) or NULL if "impact" in data else NULL
    approved = 1 if data.get("approved_by") else NULL
    return status_of(kind, data), _word(data.get("severity")), impact, approved


def _turn_facts(data: dict[str, Any], terms: str) -> tuple[int, int]:
    """The number of words in questions of a turn, and its marks."""
    content = data.get("content")
    words, asks = questions_in(content) if isinstance(content, str) else (0, False)
    marks = 0 if _TIME_TERMS.isdisjoint(terms.split()) else NAMES_TIME
    return words, marks | ASKS if asks else marks


def _role(role: Any) -> int:
    """The number of a role; a name that is not a role is an agent's."""
    return 0 if role is None else ROLES.get(role, ROLES["agent"]) if isinstance(role, str) else 0


def wish_of(data: dict[str, Any]) -> str:
    """The standing instructions in a turn of a user, without recalled text; empty if there are none."""
    text = data.get("content")
    if data.get("role") != "user" or not isinstance(text, str):
        return ""
    return instructions_in(strip(text))


def label_key(name: Any) -> str:
    """The index key of a tag or topic: case-folded, white space collapsed, cut to `_MAX_KEY` characters."""
    return _key(name) if isinstance(name, str) else ""


@lru_cache(_LABELS)
def _key(name: str) -> str:
    return " ".join(name.casefold().split())[:_MAX_KEY]


def tag_label(tag: str) -> str:
    return "g" + label_key(tag).replace(" ", "\u2423")


def topic_label(topic: str) -> str:
    return "o" + label_key(topic).replace(" ", "\u2423")


@lru_cache(_LABELS)  # many memories have the same tags
def _tag_labels(tag: str) -> str:
    return " ".join(map(tag_label, _levels(tag)))


@lru_cache(_LABELS)
def _topic_labels(topic: str) -> str:
    return " ".join(map(topic_label, _levels(topic)))


def _levels(name: str) -> Iterator[str]:
    """`a.b.c`: a, a.b, a.b.c."""
    parts = name.split(".")
    return (".".join(parts[: depth + 1]) for depth in range(len(parts)))


def text_of(data: dict[str, Any]) -> str:
    """The searchable text of a memory, without its id, which is a term of its own."""
    parts: list[str] = []
    for name, value in data.items():
        if name not in _NOT_SEARCHED:
            if type(value) is str:
                parts.append(value)
            else:
                parts += _texts(name, value)
    return "\n".join(parts)


def embedded_text(data: dict[str, Any]) -> str:
    """The text of a memory that is embedded: all but its author."""
    return text_of({name: value for name, value in data.items() if name != "author"})


def _texts(name: str, value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) is list:
        for item in value:
            yield from _texts(name, item)
    elif type(value) is dict:
        for key, item in value.items():
            if type(item) in (str, list, dict):
                yield key
            yield from _texts(key, item)
    elif type(value) in (int, float) and name not in _NUMBERS_NOT_SEARCHED:
        yield str(value)


def status_of(kind: Kind, data: dict[str, Any]) -> str:
    """The status, from either field that the designs use; a finding without one is open."""
    resolution = data.get("resolution")
    inner = resolution.get("status") if isinstance(resolution, dict) else None
    status = data.get("status") or inner
    if status is None and kind.is_open_until_closed:
        status = kind.default_status
    return _word(status)


def _relations(data: dict[str, Any], session: str) -> Iterator[tuple[str, str, str]]:
    """Kind, session and id of each relation; plain references are of the kind `references`."""
    for relation in _list(data.get("relations")):
        if isinstance(relation, dict):
            yield from _pointer(relation.get("kind"), relation.get("target"), session)
    for reference in _list(data.get("references")):
        yield from _pointer("references", reference, session)
    for kind in SUCCESSION_KINDS:
        for target in _list(data.get(kind)):
            yield from _pointer(kind, target, session)
    yield from _pointer("turn", turn_id(data.get("turn_ref")), session)


def _validity(data: dict[str, Any]) -> tuple[int | None, int | None] | None:
    """From when and until when a memory holds; None without bounds."""
    if "valid_from" not in data and "valid_until" not in data:
        return None
    bounds = validity(data)
    return None if bounds == (None, None) else bounds


def turn_id(value: Any) -> Any:
    """The id of a turn given by its number, as in the designs: 3 is TURN-0003."""
    return f"TURN-{value:04d}" if type(value) is int and 0 < value < _MAX_TURN else value


def _pointer(kind: Any, target: Any, session: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(kind, str) and isinstance(target, str) and target:
        other, _, name = target.rpartition("/")
        yield kind, other or session, name


def _list(value: Any) -> list[Any]:
    """A list from a field that should be one; a person may have typed a single element, or anything."""
    return value if type(value) is list else [value] if type(value) is str else []


def _number(value: Any) -> float | str:
    return float(value) if type(value) in (int, float) and -_LARGEST < value < _LARGEST else NULL


def _confidence(value: Any) -> float | str:
    return CONFIDENCE_WORDS.get(value, NULL) if isinstance(value, str) else _number(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else NULL
