"""The conditions of a query that one memory does not meet, in words.

Each condition is tested alone by the code that queries use: row conditions by the index (`IndexSearcher.select`), words by a text search, the rest by
`search.path.RecordCheck`. So what is said here is what keeps the memory out of the answer.

Guarantees: the searcher must see the memory; nothing is read but this memory and its row. The order is: place, existence, fields, words, figures.
"""

from __future__ import annotations

from copy import copy
from datetime import timedelta

from smp_memory.index.query import RowConditions
from smp_memory.model.times import EPOCH, to_text, validity, validity_text
from smp_memory.model.types import KINDS
from smp_memory.search.field_values import with_computed
from smp_memory.search.query import NEWEST
from smp_memory.search.ranking import DECAYED_BELOW
from smp_memory.search.scoring import RARITY
from smp_memory.text.tokenizer import ParsedText, terms
from smp_memory.text.wildcards import is_loose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from smp_memory.index.query import TextMatch
    from smp_memory.index.rows import Row
    from smp_memory.model.record import Record
    from smp_memory.search.filters import Condition
    from smp_memory.search.path import RecordCheck
    from smp_memory.search.query import Query
    from smp_memory.search.ranking import RankedRow
    from smp_memory.store.port import IndexSearcher

_AT_ONE_TIME = 1000  # memories that were created in the same microsecond, of which a text search returns the best
_MOST_SHOWN = 80  # characters of a value


class UnmetConditions:
    """Tests one memory against the conditions of one query."""

    def __init__(self, query: Query, searcher: IndexSearcher, row: Row, record: Record, check: RecordCheck) -> None:
        self._query = query
        self._searcher = searcher
        self._row = row
        self._record = record
        self._check = check

    def in_words(self, text: ParsedText, ranked: RankedRow, relevance: float) -> Iterator[str]:
        """Every condition that is not met. `text`: the query's, with corrections; `ranked`: the memory as if it were a candidate."""
        yield from self._existence()
        yield from self._fields()
        yield from self._labels()
        yield from self._relations()
        yield from self._words(text)
        yield from self._figures(ranked, relevance)

    def _meets(self, **conditions: Any) -> bool:
        """Whether the row meets these conditions, and no other ones."""
        alone = RowConditions()
        alone.include_deleted, alone.docs = True, {self._row.doc}
        for name, value in conditions.items():
            setattr(alone, name, value)
        return bool(self._searcher.select(alone, NEWEST, 1))

    # -- existence, fields, labels, relations

    def _existence(self) -> Iterator[str]:
        query, record = self._query, self._record
        if query.sessions is not None and record.session not in query.sessions:
            yield f"in session {record.session}, the query asks for {_either(query.sessions)}"
        deletion = record.deletion
        if deletion is not None and not query.include_deleted:
            by = f" by {deletion.by}" if deletion.by else ""
            yield f"deleted{by} on {deletion.at[:10]}"
        since, until = validity(record.given)
        if query.valid_at is not None and until is not None and until <= query.valid_at:
            yield f"expired: {validity_text(record.given)}"
        if query.valid_at is not None and since is not None and since > query.valid_at:
            yield f"not valid yet: {validity_text(record.given)}"

    def _fields(self) -> Iterator[str]:
        query, record, row = self._query, self._record, self._row
        if query.types and not self._meets(types=[KINDS[name].number for name in query.types]):
            yield f"type is {record.type}, the query asks for {_either(query.types)}"
        if query.agents and not self._meets(agents=self._searcher.conditions(_only(query, "agents")).agents):
            author = f"written by {record.author}" if record.author else "has no author"
            yield f"{author}, the query asks for {_either(query.agents)}"
        if query.time is not None and query.time.start is not None and not self._meets(since=query.time.start):
            yield f"created {record._created[:19]}, before {_moment(query.time.start)}"
        if query.time is not None and query.time.end is not None and not self._meets(until=query.time.end):
            yield f"created {record._created[:19]}, not before {_moment(query.time.end)}"
        for name, value, least in (
            ("importance", row.importance, query.min_importance),
            ("confidence", row.confidence, query.min_confidence),
        ):
            if least is not None and not self._meets(**{f"min_{name}": least}):
                yield f"{_has(name, value)}, the query asks for {least:g} or more"
        if query.confidence and not self._meets(confidence=query.confidence):
            asked = _either([f"{each:g}" for each in query.confidence])
            yield f"{_has('confidence', row.confidence)}, the query asks for {asked}"
        if query.pinned is not None and not self._meets(pinned=query.pinned):
            yield "is not pinned" if query.pinned else "is pinned"

    def _labels(self) -> Iterator[str]:
        query = self._query
        if query.tags and not self._meets(tags=query.tags):
            yield f"has no tag {_either(query.tags)}"
        for tag in query.all_tags:
            if not self._meets(all_tags=[tag]):
                yield f"has no tag {tag}"
        for tag in query.not_tags:
            if not self._meets(not_tags=[tag]):
                yield f"has the tag {tag}, which the query excludes"
        if query.topics:
            has = self._check.has_topic(self._record) if query.topic_in_text else self._meets(topics=query.topics)
            if not has:
                yield f"has neither the topic nor the tag {_either(query.topics)}"

    def _relations(self) -> Iterator[str]:
        query = self._query
        steps = f"{query.depth} step" + ("s" if query.depth > 1 else "")
        for name, words in (("references", "does not refer to"), ("related_to", "is not related to")):
            names = getattr(query, name)
            docs = self._searcher.conditions(_only(query, name)).docs if names else None
            if docs is not None and self._row.doc not in docs:
                yield f"{words} {_either(names)} within {steps}"

    # -- words

    def text_match(self, text: ParsedText) -> TextMatch | None:
        """The memory as a match of a text, whatever the other conditions are; None if it does not match."""
        alone = RowConditions()
        alone.include_deleted = True
        alone.since, alone.until = self._row.created, self._row.created + 1
        found = self._searcher.search(text, alone, _AT_ONE_TIME, RARITY)
        return next((each for each in found if each.doc == self._row.doc), None)

    def _words(self, text: ParsedText) -> Iterator[str]:
        if not self._query.text:
            return
        if not text:
            yield "the text of the query has no word to search for"
        for phrase in text.phrases:
            part = ParsedText(phrases=(phrase,))
            if not self.text_match(part) or not self._check.with_text(part).has_right_phrases(self._record):
                yield f'does not have the phrase "{self._written(phrase)}"'
        for pattern in text.patterns:
            part = ParsedText(patterns=(pattern,))
            if not self.text_match(part) or not self._check.with_text(part).has_right_words(self._record):
                yield f"has no word like {pattern}"
        if (text.words or text.characters) and not (text.phrases or text.patterns):
            part = ParsedText(text.words, characters=text.characters, corrected=text.corrected)
            if not self.text_match(part):
                yield "shares no word with the query"
        yield from self._excluded(text)

    def _excluded(self, text: ParsedText) -> Iterator[str]:
        for words in text.excluded:
            part = ParsedText(words) if len(words) == 1 else ParsedText(phrases=(words,))
            has_order = len(words) == 1 or self._check.with_text(part).has_right_phrases(self._record)
            if self.text_match(part) and has_order:
                written = self._written(words)
                yield f'excluded by -"{written}"' if len(words) > 1 else f"excluded by -{written}"
        for pattern in text.excluded_patterns:
            part = ParsedText(patterns=(pattern,))
            if is_loose(pattern):
                is_excluded = self._check.with_text(part).has_right_words(self._record)
            else:
                is_excluded = self.text_match(part) is not None
            if is_excluded:
                yield f"excluded by -{pattern}"

    def _written(self, phrase: tuple[str, ...]) -> str:
        """A phrase as the query spells it; its terms if that is not known."""
        text = self._query.text
        pieces = (*text.split('"'), *(word.lstrip("-") for word in text.split()))
        return next((piece.strip() for piece in pieces if tuple(terms(piece)) == phrase), " ".join(phrase))

    # -- figures and conditions on fields

    def _figures(self, ranked: RankedRow, relevance: float) -> Iterator[str]:
        query = self._query
        if query.min_priority is not None and ranked.priority < query.min_priority:
            yield f"below min_priority {query.min_priority:g}: {ranked.priority:.2f}"
        if not query.include_decayed and ranked.is_decayed:
            yield f"decayed: its priority is {ranked.priority:.2f}, below {DECAYED_BELOW:g}"
        if query.min_relevance is not None and relevance < query.min_relevance:
            yield f"below min_relevance {query.min_relevance:g}: {relevance:.2f}"
        if query.where is not None:
            data = with_computed(self._record.to_dict(), ranked.computed)
            for condition in query.where.conditions:
                if not condition.matches(data):
                    yield _condition(condition, data)


def _condition(condition: Condition, data: dict[str, Any]) -> str:
    values = [value for value in condition.values_in(data) if value is not None]
    shown = ", ".join(repr(value)[:_MOST_SHOWN] for value in values[:3]) or "missing"
    return f"where {condition!r} does not hold: {condition.field} is {shown}"


def _only(query: Query, name: str) -> Query:
    """The query with one of these options alone."""
    alone = copy(query)
    for other in {"agents", "references", "related_to"} - {name}:
        setattr(alone, other, [])
    return alone


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _has(name: str, value: float | None) -> str:
    return f"has no {name}" if value is None else f"{name} is {value:g}"


def _moment(microseconds: int) -> str:
    return to_text(EPOCH + timedelta(microseconds=microseconds))[:19]
