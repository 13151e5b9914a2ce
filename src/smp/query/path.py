"""Which memories, how good, why? The query path on one screen.

    question → conditions → candidates (words: the text engine; none: rows by time)
             → score, with neighbours and session counted in → rows → priority → relevance → the page → records

Guarantees: every hit meets the question as its record stands in the files; the order is the same for the same store,
question and time. A memory that fades moves down by a bounded factor; it is hidden only if the question says so.
"""

from __future__ import annotations

import time

from smp.errors import QueryTimeout
from smp.index.memories import text_of
from smp.index.patterns import fits_spelling, is_loose
from smp.index.words import joined_terms, parse, spelled
from smp.model.hit import Hit, Hits
from smp.query.question import FADED_FIRST, IMPORTANCE, NEWEST, OLDEST, PRIORITY, RELEVANCE
from smp.query.ranking import Ranking
from smp.query.score import CANDIDATES, RARITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from smp.index.wanted import Found
    from smp.model.record import Record
    from smp.query.question import Question
    from smp.query.ranking import Judged
    from smp.store.finder import Finder

    Page = list[tuple[Judged, Record]]

_ALL = 1 << 30
_BLOCK = 64
_GROWTH = 8


class Query:
    """One question on its way to an answer."""

    def __init__(self, question: Question, finder: Finder, ranking: Ranking) -> None:
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
        counts = self._counts()
        finder = self._finder
        problems = finder.problems(question.sessions)
        return Hits(
            hits, more=len(page) >= wanted, counts=counts, left_out=list(finder.left_out.values()), problems=problems
        )

    # -- which ones

    def _page(self, wanted: int) -> Page:
        """The first so many hits in the order asked for."""
        if self._question.text:
            return self._by_words(wanted) if self._text else []
        if self._question.sort in (NEWEST, OLDEST):
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
        return sorted(judged, key=_ORDERS[self._question.sort])

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
        if self._is_close and not (self._has_right_phrases(record) and self._has_right_words(record)):
            return False
        return not question.where or question.where.admits(record, judged)

    @property
    def _refuses_many(self) -> bool:
        """Whether many candidates may be refused when they are looked at closely."""
        return self._question.where.refuses_many or self._has_bounds or self._is_close

    @property
    def _is_picky(self) -> bool:
        """Whether some candidates are refused only when they are looked at closely."""
        return bool(self._question.where) or self._has_bounds or self._is_close

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


def _number(value: Any) -> float:
    return -1.0 if value is None else float(value)


_ORDERS: dict[str, Any] = {
    RELEVANCE: lambda judged: (-judged.relevance, -judged.row.created, judged.row.doc),
    NEWEST: lambda judged: (-judged.row.created, -judged.row.doc),
    OLDEST: lambda judged: (judged.row.created, judged.row.doc),
    PRIORITY: lambda judged: (-judged.priority, -judged.row.created, judged.row.doc),
    FADED_FIRST: lambda judged: (judged.priority, -judged.row.created, judged.row.doc),
    IMPORTANCE: lambda judged: (-_number(judged.row.importance), -judged.row.created, judged.row.doc),
}
