"""Queries as the index understands them: conditions on rows and their SQL, text queries and matches, term weights."""

from __future__ import annotations

import json
from collections import namedtuple
from functools import partial

from smp_memory.index.rows import POSITION_BITS
from smp_memory.text.memory_text import label_key
from smp_memory.text.wildcards import is_loose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from typing import Any, NamedTuple

    from smp_memory.index.rows import Rows
    from smp_memory.text.tokenizer import ParsedText

DELETED = "x"  # the label of deleted memories
NOT_VALID = "(since > ? OR until <= ?)"  # of the table `validity`
_FEW = 2000  # rows: up to so many are collected first; beyond, each candidate is tested


def tag_label(tag: str) -> str:
    return "g" + label_key(tag).replace(" ", "\u2423")


def topic_label(topic: str) -> str:
    return "o" + label_key(topic).replace(" ", "\u2423")


class RowConditions:
    """Conditions on a memory, in the numbers of one index. None and empty: no condition."""

    __slots__ = (
        "agents", "all_tags", "changed_since", "confidence", "docs", "include_deleted", "min_confidence", "min_importance", "not_tags",
        "only_deleted", "pinned", "sessions", "since", "tags", "topics", "types", "until", "valid_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sessions: list[int] | None = None
        self.types: list[int] = []
        self.agents: list[int] | None = None
        self.tags: Sequence[str] = ()
        self.all_tags: Sequence[str] = ()
        self.not_tags: Sequence[str] = ()
        self.topics: Sequence[str] = ()
        self.since: int | None = None
        self.until: int | None = None
        self.changed_since: int | None = None
        self.min_importance: float | None = None
        self.min_confidence: float | None = None
        self.confidence: Sequence[float] = ()
        self.pinned: bool | None = None
        self.include_deleted = False
        self.only_deleted = False  # only for `RowSelection`: memories in the trash, whatever `include_deleted` says
        self.docs: set[int] | None = None
        self.valid_at: int | None = None  # microseconds: only what holds then

    @property
    def is_impossible(self) -> bool:
        return self.sessions == [] or self.agents == [] or self.docs == set()

    def labels(self) -> list[list[str]]:
        """Groups of labels; a memory must have one of each group."""
        groups = [[tag_label(tag)] for tag in self.all_tags]
        if self.sessions is not None:
            groups.append([f"s{number}" for number in self.sessions])
        if self.types:
            groups.append([f"t{number}" for number in self.types])
        if self.agents is not None:
            groups.append([f"a{number}" for number in self.agents])
        if self.tags:
            groups.append([tag_label(tag) for tag in self.tags])
        if self.topics:
            groups.append([label(topic) for topic in self.topics for label in (topic_label, tag_label)])
        return groups

    def without(self) -> list[str]:
        labels = [tag_label(tag) for tag in self.not_tags]
        return labels if self.include_deleted else [*labels, DELETED]

    @property
    def needs_rows(self) -> bool:
        """Whether there are conditions besides labels and times."""
        return (
            self.min_importance is not None
            or self.min_confidence is not None
            or bool(self.confidence)
            or self.changed_since is not None
            or self.pinned is not None
            or self.docs is not None
        )

    @property
    def is_narrow(self) -> bool:
        """Whether anything but deleted memories is excluded."""
        return bool(self.labels()) or bool(self.not_tags) or self.needs_rows or (self.since, self.until) != (None, None)

    @property
    def has_label_conditions(self) -> bool:
        """Whether there are conditions on tags or topics, which a row does not have."""
        return bool(self.tags or self.all_tags or self.not_tags or self.topics)

    def admits(self, row: Any) -> bool:
        """Whether a row meets all conditions but those on tags, topics and bounds."""
        return self.admits_values(row.doc, row.type, row.author, row.created) and (
            self.include_deleted or not row.deleted
        )

    def admits_values(self, doc: int, type: int, author: Hashable, created: int) -> bool:
        """The same for these values of a row, deletion aside."""
        return (
            (self.sessions is None or doc >> POSITION_BITS in self.sessions)
            and (not self.types or type in self.types)
            and (self.agents is None or author in self.agents)
            and (self.since is None or created >= self.since)
            and (self.until is None or created < self.until)
        )

    def meets_bounds(self, row: Any) -> bool:
        """Whether a row meets the conditions that labels cannot express."""
        if self.min_importance is not None and (row.importance is None or row.importance < self.min_importance):
            return False
        if self.min_confidence is not None and (row.confidence is None or row.confidence < self.min_confidence):
            return False
        if self.changed_since is not None and max(row.updated or -1, row.deleted or -1) < self.changed_since:
            return False
        if self.confidence and row.confidence not in self.confidence:
            return False
        if self.pinned is not None and bool(row.pinned) is not self.pinned:
            return False
        return self.docs is None or row.doc in self.docs


def in_sessions(numbers: frozenset[int] | None) -> RowConditions:
    """The conditions of memories in these sessions, by number; None: in all."""
    conditions = RowConditions()
    conditions.sessions = None if numbers is None else sorted(numbers)
    return conditions


class RowSelection:
    """Row conditions as SQL."""

    def __init__(self, rows: Rows, conditions: RowConditions, *, first_by_time: bool = False) -> None:
        """`first_by_time`: only the first rows by time are wanted, so those of several types are found in the order of time."""
        self._rows = rows
        self._first_by_time = first_by_time
        self._parts: list[str] = []
        self._values: list[Any] = []
        self._add_all(conditions)

    @property
    def where(self) -> str:
        return " AND ".join(self._parts) or "1"

    @property
    def values(self) -> list[Any]:
        return self._values

    def _add_all(self, conditions: RowConditions) -> None:
        if conditions.sessions is not None:
            self._one_of(f"doc >> {POSITION_BITS}", conditions.sessions)
        if conditions.docs is not None:
            self._one_of("doc", sorted(conditions.docs))
        if conditions.types:
            self._one_of("+type" if self._first_by_time and len(conditions.types) > 1 else "type", conditions.types)
        if conditions.agents is not None:
            self._one_of("author", conditions.agents)
        if conditions.only_deleted:
            self._add("deleted IS NOT NULL")
        elif not conditions.include_deleted:
            self._add("deleted IS NULL")
        for comparison, value in (
            ("created >= ?", conditions.since),
            ("created < ?", conditions.until),
            ("max(ifnull(updated, -1), ifnull(deleted, -1)) >= ?", conditions.changed_since),
            ("importance >= ?", conditions.min_importance),
            ("confidence >= ?", conditions.min_confidence),
        ):
            if value is not None:
                self._add(comparison, value)
        if conditions.confidence:
            self._one_of("confidence", conditions.confidence)
        if conditions.pinned is not None:
            self._add("pinned = 1" if conditions.pinned else "pinned IS NULL")
        if conditions.valid_at is not None:
            self._add(f"doc NOT IN (SELECT doc FROM validity WHERE {NOT_VALID})", *[conditions.valid_at] * 2)
        self._add_tags(conditions)

    def _add_tags(self, conditions: RowConditions) -> None:
        for tag in conditions.all_tags:
            self._tagged("tag", [tag])
        if conditions.tags:
            self._tagged("tag", conditions.tags)
        for tag in conditions.not_tags:
            self._tagged("tag", [tag], "NOT ")
        if conditions.topics:
            self._add_topics(conditions.topics)

    def _add_topics(self, topics: Sequence[str]) -> None:
        """Add a condition on topics: a memory's topic, or one of its tags."""
        parts, values = self._parts, self._values
        self._parts, self._values = [], []
        self._tagged("topic", topics)
        self._tagged("tag", topics)
        either, given = f"({' OR '.join(self._parts)})", self._values
        self._parts, self._values = [*parts, either], [*values, *given]

    def _tagged(self, table: str, names: Sequence[str], negation: str = "") -> None:
        """Require one of these tags or one below it. Frequent tags are looked up for each row, rare ones collected first."""
        alternatives = " OR ".join([f"({table} = ? OR ({table} >= ? AND {table} < ?))"] * len(names))
        values = [edge for name in names for edge in _below(name)]
        count = self._rows.one(
            f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {alternatives} LIMIT {_FEW})", values
        )
        if int(count or 0) < _FEW:
            self._add(f"doc {negation}IN (SELECT doc FROM {table} WHERE {alternatives})", *values)
        else:
            self._add(
                f"{negation}EXISTS (SELECT 1 FROM {table} WHERE {table}.doc = memory.doc AND ({alternatives}))",
                *values,
            )

    def _one_of(self, column: str, values: Sequence[Any]) -> None:
        if len(values) == 1:
            self._add(f"{column} = ?", values[0])
        elif len(values) > _FEW:  # SQLite limits the number of parameters
            self._add(f"{column} IN (SELECT value FROM json_each(?))", json.dumps(values))
        else:
            self._add(f"{column} IN ({','.join('?' * len(values))})", *values)

    def _add(self, part: str, *values: Any) -> None:
        self._parts.append(part)
        self._values += values


def _below(name: str) -> tuple[str, str, str]:
    name = label_key(name)
    return name, name + ".", name + "/"


# -- text queries

EXPANSIONS = 60  # of a pattern: so many of its most frequent terms count for the score; the others match, too


class TextQuery:
    """A query to the text index: terms that may occur, and labels that must or must not."""

    __slots__ = (
        "at_least", "characters", "corrected", "excluded", "excluded_patterns", "labels", "patterns", "phrases", "rarity", "since", "terms",
        "until", "without",
    )  # fmt: skip

    def __init__(
        self,
        terms: Sequence[str] = (),
        phrases: Sequence[Sequence[str]] = (),
        patterns: Sequence[str] = (),
        excluded: Sequence[Sequence[str]] = (),
        excluded_patterns: Sequence[str] = (),
        labels: Sequence[Sequence[str]] = (),
        without: Sequence[str] = (),
        since: int | None = None,
        until: int | None = None,
        rarity: float = 0.0,
        characters: Sequence[str] = (),
        corrected: Sequence[str] = (),
        at_least: int = 1,
    ) -> None:
        self.terms = terms  # any of them
        self.at_least = at_least  # so many of the terms; needs labels
        self.corrected = corrected  # or any of these, with less weight: known terms that were perhaps meant
        self.characters = characters  # or any of these: `库*`
        self.phrases = phrases  # all words of all of them; their order is not checked here
        self.patterns = patterns  # all of them: `auth*`
        self.excluded = excluded  # none of these words; phrases are not checked here
        self.excluded_patterns = excluded_patterns
        self.labels = labels  # at least one of each group
        self.without = without  # none of these labels
        self.since = since  # microseconds, included
        self.until = until  # not included
        self.rarity = rarity  # above 0: rare words count for more than in BM25


class Weights:
    """The weights of a query's terms, and the terms of its patterns."""

    __slots__ = ("excluded", "of_term", "patterns", "uncounted")

    def __init__(
        self, of_term: dict[str, float], patterns: list[list[str]], excluded: list[str], uncounted: Sequence[str] = ()
    ) -> None:
        self.of_term = of_term
        self.patterns = patterns  # for each pattern its terms, the most frequent first
        self.excluded = excluded  # the terms of all excluded patterns
        self.uncounted = uncounted  # terms that match, but are too many to count for the score


if TYPE_CHECKING:

    class TextMatch(NamedTuple):
        """One match: what is known of a memory before its row or its file is read."""

        doc: int
        match: float  # BM25; 0 for a neighbour or a near vector without any of the words
        created: int  # microseconds
        facts: int  # see `smp_memory.index.documents.facts_number`

else:  # `typing` takes a new process 5 ms to load
    TextMatch = namedtuple("TextMatch", "doc match created facts")


if TYPE_CHECKING:

    class MatchColumns(NamedTuple):
        """Many matches without their scores: three lists of one length. A tuple for each would cost the garbage collector more than the search."""

        docs: list[int]
        created: list[int]  # microseconds
        facts: list[int]

else:
    MatchColumns = namedtuple("MatchColumns", "docs created facts")


def only_docs(matches: MatchColumns, admits: Callable[[int], bool]) -> MatchColumns:
    """The matches whose doc is admitted."""
    kept = [place for place, doc in enumerate(matches.docs) if admits(doc)]
    return MatchColumns(*([column[place] for place in kept] for column in matches))


def text_matches(values: Iterable[tuple[int, float, int, int]]) -> list[TextMatch]:
    """Matches from tuples. They are many, so they are created without a Python call for each."""
    return list(map(partial(tuple.__new__, TextMatch), values))


def text_query(text: ParsedText, conditions: RowConditions, rarity: float) -> TextQuery:
    return TextQuery(
        text.words,
        text.phrases,
        text.patterns,
        text.excluded,
        [each for each in text.excluded_patterns if not is_loose(each)],  # endings are checked in the records
        conditions.labels(),
        conditions.without(),
        conditions.since,
        conditions.until,
        rarity,
        text.characters,
        text.corrected,
    )
