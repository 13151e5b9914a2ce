"""The conditions of a query that one memory does not meet, in words.

Each condition is tested alone, on the candidate and its record: words by the rules of the search port (`text.wildcards.matches_terms`), what the index
does not know by `search.ranking.RecordCheck`. So what is said here is what keeps the memory out of the answer. Pure.

The order is: place, existence, fields, words, figures.
"""

from __future__ import annotations

from datetime import timedelta

from smp_memory.model.times import EPOCH, to_text, validity, validity_text
from smp_memory.search.field_values import with_computed
from smp_memory.search.ranking import DECAYED_BELOW
from smp_memory.text.memory_text import as_list, index_terms, label_key
from smp_memory.text.tokenizer import ParsedText, terms
from smp_memory.text.wildcards import is_loose, matches_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from smp_memory.model.candidates import Candidate
    from smp_memory.model.record import Record
    from smp_memory.search.filters import Condition
    from smp_memory.search.query import Query
    from smp_memory.search.ranking import Ranked, RecordCheck

_MOST_SHOWN = 80  # characters of a value


class UnmetConditions:
    """Tests one memory against the conditions of one query."""

    def __init__(
        self, query: Query, candidate: Candidate, record: Record, check: RecordCheck, unrelated: Collection[str] = ()
    ) -> None:
        """`unrelated`: which of `references` and `related_to` the memory does not meet."""
        self._query = query
        self._candidate = candidate
        self._record = record
        self._check = check
        self._unrelated = unrelated
        self._terms = set(index_terms(record.given, record.id).split())

    def in_words(self, text: ParsedText, ranked: Ranked, relevance: float) -> Iterator[str]:
        """Every condition that is not met. `text`: the query's, with corrections; `ranked`: the memory as if it were a candidate."""
        yield from self._existence()
        yield from self._fields()
        yield from self._labels()
        yield from self._relations()
        yield from self._words(text)
        yield from self._figures(ranked, relevance)

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
        query, record, known = self._query, self._record, self._candidate
        if query.types and known.type not in query.types:
            yield f"type is {record.type}, the query asks for {_either(query.types)}"
        if query.agents and known.author not in query.agents:
            author = f"written by {record.author}" if record.author else "has no author"
            yield f"{author}, the query asks for {_either(query.agents)}"
        if query.time is not None and query.time.start is not None and known.created < query.time.start:
            yield f"created {record._created[:19]}, before {_moment(query.time.start)}"
        if query.time is not None and query.time.end is not None and known.created >= query.time.end:
            yield f"created {record._created[:19]}, not before {_moment(query.time.end)}"
        for name, value, least in (
            ("importance", known.importance, query.min_importance),
            ("confidence", known.confidence, query.min_confidence),
        ):
            if least is not None and (value is None or value < least):
                yield f"{_has(name, value)}, the query asks for {least:g} or more"
        if query.confidence and known.confidence not in query.confidence:
            asked = _either([f"{each:g}" for each in query.confidence])
            yield f"{_has('confidence', known.confidence)}, the query asks for {asked}"
        if query.pinned is not None and known.pinned is not query.pinned:
            yield "is not pinned" if query.pinned else "is pinned"

    def _labels(self) -> Iterator[str]:
        query = self._query
        tags = [label_key(each) for each in as_list(self._record.given.get("tags"))]
        topics = [*tags, label_key(self._record.given.get("topic"))]
        if query.tags and not _has_label(tags, query.tags):
            yield f"has no tag {_either(query.tags)}"
        for tag in query.all_tags:
            if not _has_label(tags, [tag]):
                yield f"has no tag {tag}"
        for tag in query.not_tags:
            if _has_label(tags, [tag]):
                yield f"has the tag {tag}, which the query excludes"
        if query.topics:
            in_text = query.topic_in_text
            if not (self._check.has_topic(self._record) if in_text else _has_label(topics, query.topics)):
                yield f"has neither the topic nor the tag {_either(query.topics)}"

    def _relations(self) -> Iterator[str]:
        query = self._query
        steps = f"{query.depth} step" + ("s" if query.depth > 1 else "")
        for name, words in (("references", "does not refer to"), ("related_to", "is not related to")):
            if name in self._unrelated:
                yield f"{words} {_either(getattr(query, name))} within {steps}"

    # -- words

    def _words(self, text: ParsedText) -> Iterator[str]:
        if not self._query.text:
            return
        if not text:
            yield "the text of the query has no word to search for"
        for phrase in text.phrases:
            part = ParsedText(phrases=(phrase,))
            if not matches_terms(part, self._terms) or not self._check.with_text(part).has_right_phrases(self._record):
                yield f'does not have the phrase "{self._written(phrase)}"'
        for pattern in text.patterns:
            part = ParsedText(patterns=(pattern,))
            if not matches_terms(part, self._terms) or not self._check.with_text(part).has_right_words(self._record):
                yield f"has no word like {pattern}"
        if (text.words or text.characters) and not (text.phrases or text.patterns):
            part = ParsedText(text.words, characters=text.characters, corrected=text.corrected)
            if not matches_terms(part, self._terms):
                yield "shares no word with the query"
        yield from self._excluded(text)

    def _excluded(self, text: ParsedText) -> Iterator[str]:
        for words in text.excluded:
            part = ParsedText(words) if len(words) == 1 else ParsedText(phrases=(words,))
            has_order = len(words) == 1 or self._check.with_text(part).has_right_phrases(self._record)
            if matches_terms(part, self._terms) and has_order:
                written = self._written(words)
                yield f'excluded by -"{written}"' if len(words) > 1 else f"excluded by -{written}"
        for pattern in text.excluded_patterns:
            part = ParsedText(patterns=(pattern,))
            if is_loose(pattern):
                is_excluded = self._check.with_text(part).has_right_words(self._record)
            else:
                is_excluded = matches_terms(part, self._terms)
            if is_excluded:
                yield f"excluded by -{pattern}"

    def _written(self, phrase: tuple[str, ...]) -> str:
        """A phrase as the query spells it; its terms if that is not known."""
        text = self._query.text
        pieces = (*text.split('"'), *(word.lstrip("-") for word in text.split()))
        return next((piece.strip() for piece in pieces if tuple(terms(piece)) == phrase), " ".join(phrase))

    # -- figures and conditions on fields

    def _figures(self, ranked: Ranked, relevance: float) -> Iterator[str]:
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


def _has_label(labels: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether one of these labels, case-folded, is a wanted one, or below it: `auth.oauth` is an `auth`."""
    keys = [label_key(each) for each in wanted]
    return any(label == key or label.startswith(f"{key}.") for label in labels for key in keys)


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _has(name: str, value: float | None) -> str:
    return f"has no {name}" if value is None else f"{name} is {value:g}"


def _moment(microseconds: int) -> str:
    return to_text(EPOCH + timedelta(microseconds=microseconds))[:19]
