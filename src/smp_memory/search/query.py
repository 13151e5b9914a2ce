"""Validated queries: `Query` checks the options of a search once, so that the query path can rely on them. Pure.

Guarantees: an invalid option is an `InvalidQuery` that names it. No text is a syntax error.
"""

from __future__ import annotations

from smp_memory import search
from smp_memory.errors import InvalidQuery, InvalidRecord
from smp_memory.model import ids
from smp_memory.model.times import parse, to_microseconds, to_moment
from smp_memory.model.types import CONFIDENCE_WORDS, kind_of
from smp_memory.search.time_ranges import Range, parse_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.search.filters import FieldFilter

RELEVANCE, NEWEST, OLDEST, PRIORITY, IMPORTANCE = "relevance", "newest", "oldest", "priority", "importance"
FADED_FIRST, UNIMPORTANT_FIRST = "priority_asc", "importance_asc"
SEVERITY, MILDEST_FIRST, ACCESS, LEAST_USED_FIRST = "severity", "severity_asc", "access", "access_asc"
_SORTS = {
    "relevance": RELEVANCE,
    "relevance_desc": RELEVANCE,
    "newest": NEWEST,
    "time": NEWEST,
    "time_desc": NEWEST,
    "-time": NEWEST,
    "oldest": OLDEST,
    "time_asc": OLDEST,
    "+time": OLDEST,
    "priority": PRIORITY,
    "priority_desc": PRIORITY,
    "priority_asc": FADED_FIRST,
    "importance": IMPORTANCE,
    "importance_desc": IMPORTANCE,
    "importance_asc": UNIMPORTANT_FIRST,
    "severity": SEVERITY,
    "severity_desc": SEVERITY,
    "severity_asc": MILDEST_FIRST,
    "access": ACCESS,
    "access_desc": ACCESS,
    "access_asc": LEAST_USED_FIRST,
}
SORT_NAMES = frozenset(("sort", "sort_by", "sortBy"))  # of the option
_SORT_FIELDS = {
    "timestamp": "time",
    "created": "time",
    "ts": "time",
    "decay.priority": "priority",
    "access_count": "access",
    "access.count": "access",
    "decay.access_count": "access",
}
COUNTABLE = ("type", "tag", "agent", "day", "month", "session", "topic")
MODES = ("default", "weighted", "product")
LIMIT = 10_000
MAX_VALUES = 100  # tags, agents or topics in one query; SQLite takes some more
_MAX_DEPTH = 10

# Aliases: names that the designs use, and the option's name.
_ALIASES = {
    "type": "types",
    "topics": "topic",
    "tag": "tags",
    "tags_any": "tags",
    "tags_all": "all_tags",
    "tags_none": "not_tags",
    "agent": "agents",
    "author": "agents",
    "authors": "agents",
    "time_range": "time",
    "when": "time",
    "filters": "where",
    "filter": "where",
    "session": "sessions",
    "sort_by": "sort",
    "sortBy": "sort",
    "minPriority": "min_priority",
    "includeDecayed": "include_decayed",
    "includeRelated": "include_related",
    "dateFilter": "time",
    "agentFilter": "agents",
    "confidenceFilter": "confidence",
    "aggregations": "count_by",
    "aggregate": "count_by",
    "max_depth": "depth",
    "date_filter": "time",
    "agent_filter": "agents",
    "confidence_filter": "confidence",
    "now": "at",
}
_TAG_PARTS = {"include": "tags", "any": "tags", "all": "all_tags", "exclude": "not_tags", "none": "not_tags"}
OPERATIONS = ("count", "sum", "avg", "min", "max")
_COUNTED_FIELDS = {"tags": "tag", "author": "agent", "agent_id": "agent", "date": "day", "session_id": "session"}


class Query:
    """A validated query; see `Memory.query` for its options."""

    __slots__ = (
        "agents",
        "aggregations",
        "all_tags",
        "confidence",
        "count_by",
        "depth",
        "include_archived",
        "include_decayed",
        "include_deleted",
        "include_expired",
        "include_related",
        "kinds",
        "limit",
        "min_confidence",
        "min_importance",
        "min_priority",
        "min_relevance",
        "mode",
        "not_tags",
        "now",
        "offset",
        "pinned",
        "references",
        "related_to",
        "sessions",
        "sort",
        "tags",
        "text",
        "then_by",
        "time",
        "timeout",
        "topic_in_text",
        "topics",
        "types",
        "where",
    )

    def __init__(self, options: Mapping[str, Any], now: datetime) -> None:
        given = _by_own_name(options)
        self.now = to_microseconds(_moment(given.pop("at", None), now))
        self.text = _text(given.pop("text", None))
        self.types = [_type(name) for name in _texts("types", given.pop("types", None))]
        self.tags = _texts("tags", given.pop("tags", None))
        self.all_tags = _texts("all_tags", given.pop("all_tags", None))
        self.not_tags = _texts("not_tags", given.pop("not_tags", None))
        self.agents = _texts("agents", given.pop("agents", None))
        self.topics = _texts("topic", given.pop("topic", None))
        self.topic_in_text = _flag("topic_in_text", given.pop("topic_in_text", None), False)
        self.time = self._range(given)
        self.confidence = _confidences(given.pop("confidence", None))
        self.min_confidence = _confidence("min_confidence", given.pop("min_confidence", None))
        self.min_importance = _unit("min_importance", given.pop("min_importance", None))
        self.min_priority = _unit("min_priority", given.pop("min_priority", None))
        self.min_relevance = _unit("min_relevance", given.pop("min_relevance", None))
        self.pinned = _flag("pinned", given.pop("pinned", None))
        self.where = _filter(given.pop("where", None))
        self.references = _texts("references", given.pop("references", None))
        self.related_to = _texts("related_to", given.pop("related_to", None))
        self.depth = _whole("depth", given.pop("depth", None), 1, 1, _MAX_DEPTH)
        self.kinds = _texts("kinds", given.pop("kinds", None))
        self.include_decayed = _flag("include_decayed", given.pop("include_decayed", None), True)
        self.include_archived = _flag("include_archived", given.pop("include_archived", None), False)
        self.include_deleted = _flag("include_deleted", given.pop("include_deleted", None), False)
        self.include_expired = _flag("include_expired", given.pop("include_expired", None), False)
        self.include_related = _flag("include_related", given.pop("include_related", None), False)
        self.sessions = _sessions(given.pop("sessions", None))
        self.sort, *self.then_by = _sorts(given.pop("sort", None), self.text)
        self.mode = _choice("mode", given.pop("mode", None) or "default", MODES)
        self.limit = _whole("limit", given.pop("limit", None), 20, 0, LIMIT)
        self.offset = _whole("offset", given.pop("offset", None), 0, 0, 10_000_000)
        self.count_by, self.aggregations = _aggregations(given.pop("count_by", None))
        self.timeout = _seconds(given.pop("timeout", None))
        if given:
            name = next(iter(given))
            raise InvalidQuery(f"{name}: not a part of a query. {_suggestion(name)}", field=name)

    def _range(self, given: dict[str, Any]) -> Range | None:
        time, since, until = (given.pop(name, None) for name in ("time", "since", "until"))
        found = parse_range(time, self.now, field="time") if time is not None else None
        if since is not None and until is not None:
            parse_range(
                {"since": since, "until": until}, self.now, field="since"
            )  # rejects a range that ends before it begins
        for value, bound in ((since, "since"), (until, "until")):
            if value is None:
                continue
            other = parse_range({bound: value}, self.now, field=bound)
            found = other if found is None else _intersection(found, other)
        return found

    @property
    def valid_at(self) -> int | None:
        """The time at which memories must hold; None: it does not matter."""
        return None if self.include_expired else self.now

    @property
    def scope(self) -> str:
        """The session that ids without a session belong to, if the query is about one session."""
        return self.sessions[0] if self.sessions is not None and len(self.sessions) == 1 else ""


def _by_own_name(options: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in _each_option(options):
        own_name = _ALIASES.get(name) or _ALIASES.get(_snake(name), _snake(name))
        if value is None:
            continue
        if own_name in given:
            raise InvalidQuery(f"{name}: given twice, also as {own_name}.", field=name)
        given[own_name] = value
    return given


def _each_option(options: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The options of a query; `tags: {include: […], exclude: […]}` are two of them."""
    for name, value in options.items():
        if name in ("tags", "tag") and isinstance(value, dict):
            for part, tags in value.items():
                if part not in _TAG_PARTS:
                    raise InvalidQuery(f"tags: {part!r} is not one of {', '.join(_TAG_PARTS)}.", field="tags")
                yield _TAG_PARTS[part], tags
        else:
            yield name, value


def _snake(name: Any) -> Any:
    """`minImportance` as `min_importance`."""
    if not isinstance(name, str) or name.islower():
        return name
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _suggestion(name: Any) -> str:
    from difflib import get_close_matches

    known = {*Query.__slots__, "topic", "since", "until", "at"} - {"topics", "now"}
    close = get_close_matches(str(name), known, 1)
    if close:
        return f"Did you mean {close[0]}?"
    return "Fields of a memory go into where: where={" + f'"{name}": …' + "}."


def _moment(value: Any, now: datetime) -> datetime:
    if value is None:
        return now
    try:
        return to_moment(parse(value, "at"))
    except InvalidRecord as error:
        raise InvalidQuery(error.message, field="at") from None


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise InvalidQuery(f"text: must be text, not {type(value).__name__}.", field="text")


def _texts(field: str, value: Any) -> list[str]:
    """One or several texts."""
    if value is None:
        return []
    values: Iterable[Any] = [value] if isinstance(value, str) or hasattr(value, "ref") else value
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise InvalidQuery(f"{field}: must be text or a list of texts, not {type(value).__name__}.", field=field)
    if len(values) > MAX_VALUES and field != "sessions":
        raise InvalidQuery(
            f"{field}: {len(values)} values are too many, at most {MAX_VALUES} are allowed.",
            field=field,
            limit=MAX_VALUES,
        )
    found: dict[str, None] = {}
    for item in values:
        text = item if isinstance(item, str) else getattr(item, "ref", None)
        if not isinstance(text, str) or not text or not _is_utf8(text):
            raise InvalidQuery(f"{field}: {item!r} is not text, or empty.", field=field)
        found[text] = None
    return list(found)


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _type(name: str) -> str:
    try:
        return kind_of(name).name
    except InvalidRecord as error:
        raise InvalidQuery(f"types: {error.message.removeprefix('type: ')}", field="types") from None


def _filter(where: Any) -> FieldFilter | None:
    """None if there is no condition."""
    return (search.filters.compile_filter(where) or None) if where else None


def _sessions(value: Any) -> list[str] | None:
    if value is None or value == "all":
        return None
    found = _texts("sessions", value)
    for name in found:
        if not ids.is_valid(name):
            raise InvalidQuery(f"sessions: {name[:80]!r} is not the id of a session.", field="sessions")
    return found


def _sorts(value: Any, text: str) -> list[str]:
    """The sort orders; each further one applies to memories that are equal in those before it."""
    if value is None:
        return [RELEVANCE if text else NEWEST]
    return [_sort(each) for each in value] if isinstance(value, (list, tuple)) and value else [_sort(value)]


def _aggregations(value: Any) -> tuple[list[str], list[tuple[str, str]]]:
    """What to count by: names, or fields with an operation, `{"field": "importance", "op": "avg"}`."""
    items = value if isinstance(value, (list, tuple)) else [value]
    names = [each for each in items if not isinstance(each, dict)] if value is not None else []
    counted = [_choice("count_by", name, COUNTABLE) for name in _texts("count_by", names)]
    others: list[tuple[str, str]] = []
    for each in items:
        if not isinstance(each, dict):
            continue
        field, operation = each.get("field"), each.get("op", each.get("operation", "count"))
        if not isinstance(field, str) or not field or set(each) - {"field", "op", "operation"}:
            raise InvalidQuery(f'count_by: {each!r} is not of the form {{"field": …, "op": …}}.', field="count_by")
        operation = _choice("count_by", operation, OPERATIONS)
        known = _COUNTED_FIELDS.get(field, field)
        if operation == "count" and known in COUNTABLE:
            counted.append(known)
        else:
            others.append((field, operation))
    return list(dict.fromkeys(counted)), others


def _sort(value: Any) -> str:
    name = f"{value.get('field')} {value.get('direction', 'desc')}" if isinstance(value, dict) else value
    if isinstance(name, str):
        field, _, direction = name.partition(" ")
        field = _SORT_FIELDS.get(field, field)
        name = f"{field}_{direction.lower()}" if direction else field
        if name in _SORTS:
            return _SORTS[name]
    raise InvalidQuery(
        f"sort: {value!r} is not an order. Use one of {RELEVANCE}, {NEWEST}, {OLDEST}, {PRIORITY}, {FADED_FIRST}, "
        f"{IMPORTANCE}, {UNIMPORTANT_FIRST}, {SEVERITY}, {MILDEST_FIRST}, {ACCESS}, {LEAST_USED_FIRST}.",
        field="sort",
    )


def _choice(field: str, value: Any, words: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in words:
        return value
    raise InvalidQuery(f"{field}: {value!r} is not one of {', '.join(words)}.", field=field)


def _unit(field: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidQuery(f"{field}: must be a number from 0 to 1, not {value!r}.", field=field, limit=1)
    return float(value)


def _confidence(field: str, value: Any) -> float | None:
    if isinstance(value, str):
        if value not in CONFIDENCE_WORDS:
            raise InvalidQuery(
                f"{field}: {value!r} is not one of {', '.join(CONFIDENCE_WORDS)} or a number from 0 to 1.", field=field
            )
        return CONFIDENCE_WORDS[value]
    return _unit(field, value)


def _confidences(value: Any) -> list[float]:
    values = [value] if isinstance(value, (str, int, float)) else value or []
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise InvalidQuery("confidence: must be a word, a number from 0 to 1, or a list of them.", field="confidence")
    found = [_confidence("confidence", item) for item in values]
    return [number for number in found if number is not None]


def _flag(field: str, value: Any, default: bool | None = None) -> bool | None:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidQuery(f"{field}: must be true or false, not {value!r}.", field=field)
    return value


def _whole(field: str, value: Any, default: int, low: int, high: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidQuery(
            f"{field}: must be a whole number from {low} to {high}, not {value!r}.", field=field, limit=high
        )
    return value


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise InvalidQuery(f"timeout: must be a number of seconds above 0, not {value!r}.", field="timeout")
    return float(value)


def _intersection(one: Range, other: Range) -> Range:
    starts = [start for start in (one.start, other.start) if start is not None]
    ends = [end for end in (one.end, other.end) if end is not None]
    return Range(max(starts, default=None), min(ends, default=None))
