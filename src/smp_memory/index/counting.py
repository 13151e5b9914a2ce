"""Count memories of the index by type, author, session, day, month, tag and topic; several of these at once.

Rows that meet conditions are counted by SQLite, in one pass for everything that a row has. Matches of a text are counted from what a match tells
(`smp_memory.index.documents.facts_number`), without a row; of many matches, tags and topics are counted with sets of docs that are kept until the
index changes, and so are counts of rows.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from weakref import WeakKeyDictionary

from smp_memory.index.query import TextQuery, in_sessions
from smp_memory.index.rows import AUTHOR_SHIFT, POSITION_BITS
from smp_memory.model.types import NUMBERED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from smp_memory.index.index import Index
    from smp_memory.index.query import MatchColumns
    from smp_memory.index.rows import Rows

    Counts = dict[str, dict[str, int]]  # by field and name

_DAY = 86_400_000_000  # microseconds
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TYPE = 15  # bits of `facts`
_COLUMNS = {
    "type": "type",
    "agent": "coalesce(author, 0)",
    "session": f"doc >> {POSITION_BITS}",
    "day": f"(created - {_DAY - 1} * (created < 0)) / {_DAY}",
}
_LABELS = ("tag", "topic")  # tables, each with one column of that name
_FEW = 2000  # matches whose tags are looked up one by one
_AT_ONCE = 500
_MOST_KEPT = 32


class _Kept:
    """What was counted in one state of an index."""

    def __init__(self, version: object) -> None:
        self.version = version
        self.of_rows: dict[Any, Counts] = {}
        self.docs: dict[str, dict[str, set[int]]] = {}  # by table and label


_kept: WeakKeyDictionary[Rows, _Kept] = WeakKeyDictionary()


def count_rows(rows: Rows, fields: Sequence[str], where: str, values: Sequence[Any]) -> Counts:
    """Count the rows that meet a condition in SQL; by each field, the most frequent first."""
    kept, key = _kept_for(rows), (tuple(fields), where, tuple(values))
    if key not in kept.of_rows:
        if len(kept.of_rows) >= _MOST_KEPT:
            kept.of_rows.clear()
        kept.of_rows[key] = _count_rows(rows, fields, where, values)
    return {field: dict(counts) for field, counts in kept.of_rows[key].items()}


def _count_rows(rows: Rows, fields: Sequence[str], where: str, values: Sequence[Any]) -> Counts:
    names = list(dict.fromkeys("day" if field == "month" else field for field in fields if field not in _LABELS))
    columns = ", ".join(_COLUMNS[name] for name in names)
    numbers: dict[str, Counter[int]] = {name: Counter() for name in names}
    if names:
        groups = ", ".join(str(place + 1) for place in range(len(names)))
        sql = f"SELECT {columns}, count(*) FROM memory WHERE {where} GROUP BY {groups}"
        for *keys, count in rows.each(sql, values):
            for name, key in zip(names, keys, strict=True):
                numbers[name][key] += count
    found = {field: _named(rows, field, numbers["day" if field == "month" else field]) for field in fields if field not in _LABELS}  # fmt: skip
    for table in (field for field in fields if field in _LABELS):
        sql = f"SELECT {table}, count(*) FROM {table} WHERE doc IN (SELECT doc FROM memory WHERE {where}) GROUP BY 1"
        found[table] = _sorted(dict(rows.each(sql, values)))
    return {field: found[field] for field in fields}


def count_matches(rows: Rows, fields: Sequence[str], matches: MatchColumns) -> Counts:
    """Count matches of a text by each field, the most frequent first."""
    found: Counts = {}
    facts = Counter(matches.facts) if {"type", "agent"} & set(fields) else Counter()
    days = Counter([created // _DAY for created in matches.created]) if {"day", "month"} & set(fields) else Counter()
    for field in fields:
        if field == "type":
            found[field] = _named(rows, field, _shifted(facts, lambda number: number & _TYPE))
        elif field == "agent":
            found[field] = _named(rows, field, _shifted(facts, lambda number: number >> AUTHOR_SHIFT))
        elif field == "session":
            found[field] = _named(rows, field, Counter([doc >> POSITION_BITS for doc in matches.docs]))
        elif field in ("day", "month"):
            found[field] = _named(rows, field, days)
        else:
            found[field] = _sorted(_labels_of(rows, field, matches.docs))
    return found


def _shifted(counts: Mapping[int, int], key: Any) -> Counter[int]:
    found: Counter[int] = Counter()
    for number, count in counts.items():
        found[key(number)] += count
    return found


def _labels_of(rows: Rows, table: str, docs: list[int]) -> dict[str, int]:
    if len(docs) > _FEW:
        wanted = set(docs)
        counted = ((name, len(having & wanted)) for name, having in _docs_by_label(rows, table).items())
        return {name: count for name, count in counted if count}
    found: Counter[str] = Counter()
    for start in range(0, len(docs), _AT_ONCE):
        part = docs[start : start + _AT_ONCE]
        sql = f"SELECT {table} FROM {table} WHERE doc IN ({','.join('?' * len(part))})"
        found.update(name for (name,) in rows.each(sql, part))
    return found


def _docs_by_label(rows: Rows, table: str) -> dict[str, set[int]]:
    kept = _kept_for(rows)
    if table not in kept.docs:
        found: dict[str, set[int]] = {}
        for name, doc in rows.each(f"SELECT {table}, doc FROM {table}"):
            having = found.get(name)
            if having is None:
                having = found[name] = set()
            having.add(doc)
        kept.docs[table] = found
    return kept.docs[table]


def _kept_for(rows: Rows) -> _Kept:
    """What was counted in the state of the index that is read now."""
    version = rows.meta("generation", 0), rows.meta("tail_version", 0)
    kept = _kept.get(rows)
    if kept is None or kept.version != version:
        kept = _kept[rows] = _Kept(version)
    return kept


# -- names of what was counted


def _named(rows: Rows, field: str, numbers: Mapping[int, int]) -> dict[str, int]:
    sessions = rows.session_names() if field == "session" else {}
    found: dict[str, int] = {}
    for number, count in numbers.items():
        if field == "type":
            name = NUMBERED[number]
        elif field == "agent":
            name = rows.name_of(number) if number else ""
        elif field == "session":
            name = sessions[number]
        else:
            name = date.fromordinal(_EPOCH_DAY + number).isoformat()[: 10 if field == "day" else 7]
        found[name] = found.get(name, 0) + count
    return _sorted(found)


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def empty(fields: Iterable[str]) -> Counts:
    return {field: {} for field in fields}


class CountsWithin:
    """The figures of some sessions, by their numbers, in one state of an index."""

    def __init__(self, index: Index, sessions: frozenset[int]) -> None:
        self._index, self._sessions = index, sessions
        self._documents: int | None = None
        self._frequencies: dict[str, int] = {}

    @property
    def documents(self) -> int:
        if self._documents is None:
            counted = f"SELECT count(*) FROM wanted CROSS JOIN memory ON doc >> {POSITION_BITS} = wanted.no"
            self._documents = sum(count for (count,) in self._index.rows.of(counted, list(self._sessions)))
        return self._documents

    def document_frequency(self, term: str) -> int:
        known = self._frequencies.get(term)
        if known is None:
            query = TextQuery((term,), labels=in_sessions(self._sessions).labels())
            is_known = bool(self._sessions) and self._index.text.document_frequency(term)
            known = self._frequencies[term] = len(self._index.text.all_matches(query).docs) if is_known else 0
        return known
