"""Which memories, how good, why? The query path on one screen.

    question → conditions → candidates (words: the text engine; none: rows by time)
             → score, with neighbours and session counted in → rows → priority → relevance → the page → records

Guarantees: every hit meets the question as its record stands in the files; the order is the same for the same store,
question and time. A memory that fades moves down by a bounded factor; it is hidden only if the question says so.

Aggregate a field over all memories that match a question: count, sum, avg, min, max. Pure.
"""

from __future__ import annotations

import time

from smp_memory.errors import QueryTimeout
from smp_memory.index.documents import label_key, text_of
from smp_memory.index.tokens import joined_terms, parse, spelled
from smp_memory.index.wildcards import fits_spelling, is_loose
from smp_memory.model.hits import Hit, Hits
from smp_memory.search.field_values import level_of, reader_of, with_computed
from smp_memory.search.query import (
    ACCESS,
    FADED_FIRST,
    IMPORTANCE,
    LEAST_USED_FIRST,
    MILDEST_FIRST,
    NEWEST,
    OLDEST,
    PRIORITY,
    RELEVANCE,
    SEVERITY,
    UNIMPORTANT_FIRST,
)
from smp_memory.search.ranking import Ranking
from smp_memory.search.scoring import CANDIDATES, RARITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp_memory.index.text_query import Found
    from smp_memory.model.record import Record
    from smp_memory.search.query import Query
    from smp_memory.search.ranking import Judged
    from smp_memory.store.finder import Finder

    Page = list[tuple[Judged, Record]]


_ALL = 1 << 30
_BLOCK = 64
_GROWTH = 8


class Search:
    """One question on its way to an answer."""

    def __init__(self, question: Query, finder: Finder, ranking: Ranking) -> None:
        self._question = question
        self._finder = finder
        self._ranking = ranking
        self._deadline = None if question.timeout is None else time.monotonic() + question.timeout
        self._conditions = finder.conditions(question)
        self._text = text = parse(question.text)
        self._loose = [each for each in text.patterns if is_loose(each)]
        self._loosely_excluded = [each for each in text.excluded_patterns if is_loose(each)]
        self._has_phrases = bool(text.phrases) or any(len(words) > 1 for words in text.excluded)
        self._is_close = self._has_phrases or bool(self._loose or self._loosely_excluded)

    def only(self, docs: set[int]) -> None:
        """Ask these memories alone."""
        self._conditions.docs = docs if self._conditions.docs is None else self._conditions.docs & docs

    def run(self) -> Hits:
        question = self._question
        wanted = question.offset + question.limit + 1
        page = self._page(wanted) if not self._conditions.impossible else []
        hits = [self._hit(judged, record) for judged, record in page[question.offset : wanted - 1]]
        if question.include_related:
            self._add_related(hits)
        counts, left_out = self._counts(), list(self._finder.left_out.values())
        problems = self._finder.problems(question.sessions)
        found = Hits(hits, more=len(page) >= wanted, counts=counts, left_out=left_out, problems=problems)
        if question.aggregations:
            every = [] if self._conditions.impossible else self._page(_ALL)
            found.aggregations = aggregated(question.aggregations, [_with_figures(*each) for each in every])
        return found

    # -- which ones

    def _page(self, wanted: int) -> Page:
        """The first so many hits in the order asked for."""
        if self._question.text:
            return self._by_words(wanted) if self._text else []
        if self._question.sort in (NEWEST, OLDEST) and not self._question.then_by:
            return self._by_time(wanted)
        rows = self._finder.select(self._conditions, NEWEST, -1)
        return self._first(self._in_order(self._ranking.of_rows(rows)), wanted)

    def _by_words(self, wanted: int) -> Page:
        """The best by text, judged among themselves; then the next ones, until the page is full or nothing is left.

        How many are judged together does not depend on the page, so pages neither overlap nor leave anything out.
        """
        page: Page = []
        seen: set[int] = set()
        lowest = 1.0
        limit = CANDIDATES if self._question.sort == RELEVANCE else _ALL
        while True:
            found = self._finder.search(self._text, self._conditions, limit, RARITY)
            self._check_time()
            enough = wanted if limit == CANDIDATES and not self._refuses_many else _ALL
            ordered = self._judged(found, enough, seen, lowest)
            part = self._first(ordered, wanted - len(page))
            if len(part) < wanted - len(page) and len(ordered) >= enough:  # some were refused: the others count, too
                ordered = self._judged(found, _ALL, seen, lowest)
                part = self._first(ordered, wanted - len(page))
            page += part
            if len(page) >= wanted or len(found) < limit:
                return page
            seen.update(each.row.doc for each in ordered)
            lowest = min((each.relevance for each in ordered), default=lowest)
            limit *= _GROWTH

    def _judged(self, found: list[Found], enough: int, seen: set[int], lowest: float) -> list[Judged]:
        """What was found and not seen before, in the order asked for; not better than what was."""
        judged = self._ranking.of_found(found, self._text, self._conditions, enough)
        ordered = self._in_order(each for each in judged if each.row.doc not in seen)
        for each in ordered:
            each.relevance = min(each.relevance, lowest)
        return ordered

    def _by_time(self, wanted: int) -> Page:
        """Rows come in the order asked for, so only as many are looked at as are needed."""
        page: Page = []
        offset, size = 0, wanted
        while len(page) < wanted:
            rows = self._finder.select(self._conditions, self._question.sort, size, offset)
            page += self._first(self._ranking.of_rows(rows), wanted - len(page))
            if len(rows) < size:
                break
            offset += size
            size = max(_BLOCK, size)
            self._check_time()
        return page

    def _in_order(self, judged: Iterable[Judged]) -> list[Judged]:
        if not self._question.then_by:
            return sorted(judged, key=_ORDERS[self._question.sort])
        keys = [_FIRST[each] for each in (self._question.sort, *self._question.then_by)]
        return sorted(judged, key=lambda each: (*(key(each) for key in keys), -each.row.created, each.row.doc))

    def _first(self, judged: Iterable[Judged], wanted: int) -> Page:
        """The first of these that meet the question as their records stand in the files."""
        page: Page = []
        block: list[Judged] = []
        has_bounds = self._has_bounds
        for each in judged:
            if not has_bounds or self._meets_bounds(each):
                block.append(each)
            if len(block) >= wanted - len(page):
                page += self._with_records(block)
                block = []
                self._check_time()
                if len(page) >= wanted:
                    return page[:wanted]
        page += self._with_records(block)
        return page[:wanted]

    def _with_records(self, block: list[Judged]) -> Iterator[tuple[Judged, Record]]:
        records = self._finder.records([each.row for each in block])
        for each in block:
            record = records.get(each.row.doc)
            if record is not None and self._meets(each, record):
                yield each, record

    @property
    def _has_bounds(self) -> bool:
        question = self._question
        return (question.min_priority, question.min_relevance) != (None, None) or not question.include_decayed

    def _meets_bounds(self, judged: Judged) -> bool:
        question = self._question
        if question.min_priority is not None and judged.priority < question.min_priority:
            return False
        if question.min_relevance is not None and judged.relevance < question.min_relevance:
            return False
        return bool(question.include_decayed) or not self._ranking.has_faded(judged)

    def _meets(self, judged: Judged, record: Record) -> bool:
        """What the index cannot know, and what may have changed since it looked."""
        question = self._question
        if record.deleted and not question.include_deleted:
            return False
        if question.topic_in_text and not self._is_about(record):
            return False
        if self._is_close and not (self._has_right_phrases(record) and self._has_right_words(record)):
            return False
        return not question.where or question.where.admits(record, judged)

    @property
    def _refuses_many(self) -> bool:
        """Whether many candidates may be refused when they are looked at closely."""
        asked = self._question
        return (
            asked.where.refuses_many or self._has_bounds or self._is_close or bool(asked.topic_in_text and asked.topics)
        )

    @property
    def _is_picky(self) -> bool:
        """Whether some candidates are refused only when they are looked at closely."""
        asked = self._question
        return bool(asked.where) or self._has_bounds or self._is_close or bool(asked.topic_in_text and asked.topics)

    def _is_about(self, record: Record) -> bool:
        """Whether a topic asked for is the memory's own, one of its tags, or a part of its text (000 §4)."""
        own = [label_key(each) for each in (record.topic, *record.tags)]
        text = text_of(record.given).casefold()
        return not self._question.topics or any(
            any(each == label_key(topic) or each.startswith(label_key(topic) + ".") for each in own)
            or topic.casefold() in text
            for topic in self._question.topics
        )

    def _has_right_phrases(self, record: Record) -> bool:
        """The index knows words, not their order."""
        if not self._has_phrases:
            return True
        terms = f" {joined_terms(text_of(record.given))} "
        return all(f" {' '.join(words)} " in terms for words in self._text.phrases) and not any(
            f" {' '.join(words)} " in terms for words in self._text.excluded
        )

    def _has_right_words(self, record: Record) -> bool:
        """The index knows stems, not endings."""
        if not (self._loose or self._loosely_excluded):
            return True
        words = spelled(f"{text_of(record.given)}\n{record.id}")
        return all(fits_spelling(each, words) for each in self._loose) and not any(
            fits_spelling(each, words) for each in self._loosely_excluded
        )

    # -- the answer

    def _hit(self, judged: Judged, record: Record) -> Hit:
        return Hit(record, judged.relevance, judged.priority, lambda: self._ranking.explain(judged))

    def _add_related(self, hits: list[Hit]) -> None:
        depth, kinds = self._question.depth, self._question.kinds
        for hit in hits:
            near = self._finder.related([hit.record.ref], "", depth, kinds)
            rows = self._finder.rows(list(near))
            records = self._finder.records([rows[doc] for doc in near if doc in rows])
            hit.related = [record for record in records.values() if record is not None and not record.deleted]

    def _counts(self) -> dict[str, dict[str, int]]:
        """Counts of all that match, not only of this page."""
        question = self._question
        if not question.count_by:
            return {}
        docs = None
        if question.text or self._is_picky or self._conditions.impossible:
            docs = [] if self._conditions.impossible else [judged.row.doc for judged, _ in self._page(_ALL)]
        return {by: self._finder.counts(by, self._conditions, docs) for by in question.count_by}

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise QueryTimeout(
                f"The query took longer than {self._question.timeout:g} s. Ask for less: one session, a type, a time.",
                timeout=self._question.timeout,
            )


def _with_figures(judged: Judged, record: Record) -> dict[str, Any]:
    facts = judged.facts
    return with_computed(record.to_dict(), judged.priority, facts.access_count, facts.last_access)


def _number(value: Any) -> float:
    return -1.0 if value is None else float(value)


def _severity(judged: Judged) -> int:
    """0 without one; 1 to 5 from info to critical."""
    level = level_of(judged.row.severity)
    return 0 if level is None else level + 1


def _before(key: Any) -> Any:
    """An order by a key; of equals the newest first."""
    return lambda judged: (key(judged), -judged.row.created, judged.row.doc)


_FIRST: dict[str, Any] = {
    RELEVANCE: lambda judged: -judged.relevance,
    NEWEST: lambda judged: -judged.row.created,
    OLDEST: lambda judged: judged.row.created,
    PRIORITY: lambda judged: -judged.priority,
    FADED_FIRST: lambda judged: judged.priority,
    IMPORTANCE: lambda judged: -_number(judged.row.importance),
    UNIMPORTANT_FIRST: lambda judged: _number(judged.row.importance) if judged.row.importance is not None else 2.0,
    SEVERITY: lambda judged: -_severity(judged),
    MILDEST_FIRST: lambda judged: _severity(judged) or 6,
    ACCESS: lambda judged: -judged.facts.access_count,
    LEAST_USED_FIRST: lambda judged: judged.facts.access_count,
}
_ORDERS: dict[str, Any] = {
    **{name: _before(key) for name, key in _FIRST.items()},
    NEWEST: lambda judged: (-judged.row.created, -judged.row.doc),
    OLDEST: lambda judged: (judged.row.created, judged.row.doc),
}


def aggregated(wanted: list[tuple[str, str]], records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By field and operation. `count` gives how many memories have each value; the others are over numbers, None if there are none."""
    found: dict[str, dict[str, Any]] = {}
    for field, operation in wanted:
        read = reader_of(field)
        values = [each for record in records for value in read(record) for each in _each(value)]
        found.setdefault(field, {})[operation] = (
            _counted(values) if operation == "count" else _reduced(values, operation)
        )
    return found


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _counted(values: list[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        if value is not None and not isinstance(value, (dict, list)):
            name = value if isinstance(value, str) else str(value)
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _reduced(values: list[Any], operation: str) -> float | None:
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if not numbers:
        return None
    if operation == "avg":
        return sum(numbers) / len(numbers)
    if operation == "sum":
        return float(sum(numbers))
    return float(min(numbers) if operation == "min" else max(numbers))
