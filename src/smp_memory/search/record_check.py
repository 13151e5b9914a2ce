"""Check records against a query, and count them: what an index cannot answer. Pure."""

from __future__ import annotations

from collections import Counter

from smp_memory.text.memory_text import as_list, label_key, text_of
from smp_memory.text.tokenizer import joined_terms, spellings
from smp_memory.text.wildcards import is_loose, matches_spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.record import Record
    from smp_memory.search.query import Query
    from smp_memory.search.ranking import Ranked, Ranking
    from smp_memory.text.tokenizer import ParsedText

_LABELS = {"tag": "tags", "topic": "topic"}  # by what is counted the field


class RecordCheck:
    """The parts of a query that the index cannot answer, checked on each candidate and its record.

    The index knows terms, not their order (phrases) or their endings (wildcards inside a word); it has no computed
    values and not all fields; and a record may have changed since it was indexed.
    """

    def __init__(self, query: Query, text: ParsedText, ranking: Ranking) -> None:
        self._query = query
        self._text = text
        self._ranking = ranking
        self._wildcards = [each for each in text.patterns if is_loose(each)]
        self._excluded_wildcards = [each for each in text.excluded_patterns if is_loose(each)]
        self._has_phrases = bool(text.phrases) or any(len(words) > 1 for words in text.excluded)
        self._needs_text = self._has_phrases or bool(self._wildcards or self._excluded_wildcards)
        self.has_bounds = query.min_priority is not None or not query.include_decayed
        has_topics = bool(query.topic_in_text and query.topics)
        has_conditions = query.where is not None or query.min_relevance is not None or has_topics
        self.may_reject = has_conditions or self.has_bounds or self._needs_text

    def with_text(self, text: ParsedText) -> RecordCheck:
        """The same for another text."""
        return RecordCheck(self._query, text, self._ranking)

    def is_in_bounds(self, ranked: Ranked) -> bool:
        query = self._query
        if query.min_priority is not None and ranked.priority < query.min_priority:
            return False
        return bool(query.include_decayed) or not ranked.is_decayed

    def is_met(self, ranked: Ranked, record: Record) -> bool:
        query = self._query
        if record.deleted and not query.include_deleted:
            return False
        if query.topic_in_text and not self.has_topic(record):
            return False
        if self._needs_text and not (self.has_right_phrases(record) and self.has_right_words(record)):
            return False
        if query.min_relevance is not None and self._ranking.relevance(ranked, record) < query.min_relevance:
            return False
        return query.where is None or query.where.admits(record, ranked.computed)

    def has_topic(self, record: Record) -> bool:
        """Whether a topic of the query is the record's topic, one of its tags, or a part of its text (design 000)."""
        tags = record.tags if isinstance(record.tags, list) else [record.tags]  # a person may have typed anything
        labels = [label_key(each) for each in (record.topic, *tags)]
        text = text_of(record.given).casefold()
        return not self._query.topics or any(
            any(each == label_key(topic) or each.startswith(label_key(topic) + ".") for each in labels)
            or topic.casefold() in text
            for topic in self._query.topics
        )

    def has_right_phrases(self, record: Record) -> bool:
        if not self._has_phrases:
            return True
        terms = f" {joined_terms(text_of(record.given))} "
        return all(f" {' '.join(words)} " in terms for words in self._text.phrases) and not any(
            f" {' '.join(words)} " in terms for words in self._text.excluded
        )

    def has_right_words(self, record: Record) -> bool:
        if not (self._wildcards or self._excluded_wildcards):
            return True
        words = spellings(f"{text_of(record.given)}\n{record.id}")
        return all(matches_spelling(each, words) for each in self._wildcards) and not any(
            matches_spelling(each, words) for each in self._excluded_wildcards
        )


def count_records(field: str, records: list[Record]) -> dict[str, int]:
    """How many of these records have each value of a field, the most frequent first."""
    counts: Counter[str] = Counter()
    for record in records:
        if field in ("day", "month"):
            counts[record._created[: 10 if field == "day" else 7]] += 1
        elif field in ("tag", "topic"):
            counts.update({key for each in as_list(record.given.get(_LABELS[field])) if (key := label_key(each))})
        else:
            value = record.given.get("author") if field == "agent" else getattr(record, field)
            counts[value if isinstance(value, str) else ""] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
