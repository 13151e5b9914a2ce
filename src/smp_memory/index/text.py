"""The text index: terms in tantivy, and those of the newest memories in a memtable (the *tail*).

A commit of tantivy takes tens of milliseconds, so memories first go into the tail: rows of
`smp_memory.index.unindexed`, held in RAM as posting lists. When the tail is long enough it is merged into tantivy at
once; more memories than a tail can hold go to tantivy directly. Both are scored by BM25 with the same figures
(documents, document frequencies, mean length), so a memory's score does not depend on where it is.

Docs in the table `gone` are hidden until the next merge removes them from tantivy: removed memories, and the old
state of changed ones, whose new state is in the tail.

Guarantees: tantivy commits before SQLite does, so what the rows say is in tantivy is there; what a crash left in both
counts once.
"""

from __future__ import annotations

import os
from operator import itemgetter

from smp_memory import index
from smp_memory.index import unindexed
from smp_memory.index.query import EXPANSIONS, MatchColumns, TextMatch, TextQuery, Weights, only_docs
from smp_memory.index.rows import IndexUnusable
from smp_memory.index.unindexed import UnindexedText
from smp_memory.text.names import (
    LONG,
    MORE_THAN_ONE,
    NEAR_START,
    REPLACED,
    SHORTEST,
    distance,
    simple_variants,
    variants,
)
from smp_memory.text.tokenizer import STOP_WORDS, inverse_frequency, stem
from smp_memory.text.wildcards import literal_prefix, term_matcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Protocol

    from smp_memory.index.engine import Document, TantivyEngine
    from smp_memory.index.rows import Rows

    class Counts(Protocol):
        """The figures of a corpus by which terms are weighed: those of the whole index, or of some sessions."""

        @property
        def documents(self) -> int: ...

        def document_frequency(self, term: str) -> int: ...


__all__ = ["TextIndex", "TextMatch", "TextQuery"]
TAIL_LIMIT = 1500
_CORRECTED_WEIGHT = 0.7  # of a term that was perhaps meant, beside that of a term that was typed
_FREQUENCIES = 10_000  # terms whose frequency is remembered


class TextIndex:
    """tantivy and the tail as one index."""

    def __init__(self, rows: Rows, folder: str | None) -> None:
        """The text index of these rows; with `folder` None, tantivy's files are in RAM, too."""
        self._rows = rows
        self._folder = folder
        self._engine: TantivyEngine | None = None  # opened when there is a merge
        self._is_current = False  # whether the engine was reloaded after the last known merge
        self._generation = -1  # the number of that merge
        self._checked_generation = -1  # the merge whose stamp was last compared with tantivy's
        self._tokens = self._token_docs = 0  # in the engine
        self._merging: TantivyEngine | None = None  # the engine fed by this transaction, if it adds many
        self._merged_tokens = self._merged_docs = 0  # by this transaction
        self._known_tail = UnindexedText()
        self._tail_version = -1  # of what is in RAM
        self._wanted_version = -1  # of the rows
        self._last_added: tuple[int, Sequence[Document]] = (
            -1,
            (),
        )  # version and documents of our own last addition, if the tail has everything before it
        self._gone: set[int] = set()
        self._frequencies: dict[str, int] = {}  # document frequencies of terms, since the last refresh
        self._corrections: dict[tuple[str, bool], str | None] = {}  # of unknown words, since the last refresh

    # -- synchronisation with the rows

    def refresh(self) -> None:
        """Bring the merge state up to the rows, and the tail when it is next used; inside or outside a transaction."""
        generation = int(self._rows.meta("generation", 0))
        if generation != self._generation:
            self._is_current = False
            self._tokens, self._token_docs = int(self._rows.meta("tokens", 0)), int(self._rows.meta("token_docs", 0))
            self._generation = generation
            self._forget_frequencies()
        version = int(self._rows.meta("tail_version", 0))
        if version != self._wanted_version:
            self._wanted_version = version
            self._forget_frequencies()

    @property
    def _tail(self) -> UnindexedText:
        """What tantivy does not have yet. Loaded for the first search: a list by time needs none of it."""
        if self._tail_version != self._wanted_version:
            self._load_tail(self._wanted_version)
        return self._known_tail

    def _load_tail(self, version: int) -> None:
        added, self._last_added = self._last_added, (-1, ())
        new = added[1] if added[0] == version else unindexed.since(self._rows, self._tail_version)
        self._known_tail.put({document[0]: document[1:] for document in new})
        if len(self._known_tail) != unindexed.count(self._rows):  # some were removed
            self._known_tail.keep(unindexed.docs(self._rows))
        self._gone = {doc for (doc,) in self._rows.each("SELECT doc FROM gone")}
        self._tail_version = version

    def forget(self) -> None:
        """Drop all cached state, because a transaction was rolled back."""
        self._generation = self._tail_version = self._wanted_version = self._checked_generation = -1
        self._is_current = False
        self._known_tail, self._gone, self._last_added = UnindexedText(), set(), (-1, ())
        self._forget_frequencies()
        if self._merging is not None:
            self._merging.roll_back()
            self._merging = None

    def _forget_frequencies(self) -> None:
        self._frequencies.clear()
        self._corrections.clear()

    def _open_engine(self, generation: int) -> TantivyEngine:
        if self._engine is None or not generation:  # generation 0: what an earlier attempt wrote does not count
            self._engine = index.engine.TantivyEngine(self._path(new=not generation), create=not generation)
        return self._engine

    def _merged(self) -> TantivyEngine | None:
        """The engine as of the last refresh; None without a merge. Opened on the first text query: it takes milliseconds."""
        if self._generation <= 0:
            return None
        engine = self._open_engine(self._generation)
        if not self._is_current:
            engine.reload()
            self._is_current = True
        return engine

    def _path(self, *, new: bool) -> str | None:
        if self._folder is None:
            return None
        if new:
            self._rows.set_meta("text_folder", f"{index.engine.PREFIX}{os.urandom(4).hex()}")
        return os.path.join(self._folder, str(self._rows.meta("text_folder", "")))

    # -- changes

    def add(self, added: Sequence[Document], gone: Sequence[int]) -> None:
        """Add documents and hide removed ones; the last call in the rows' transaction, which commits after it."""
        if self._merging is None:
            if not added and not gone:
                return
            rows = self._rows
            unindexed.remove(rows, gone)
            if rows.meta("generation"):
                rows.do_many("INSERT OR IGNORE INTO gone VALUES (?)", ((doc,) for doc in gone))
            pending = unindexed.count(rows) + int(rows.one("SELECT count(*) FROM gone") or 0)
            if not self.exceeds_tail(pending + len(added)):
                self._check_stamp()
                version = self._next_version()
                unindexed.put(rows, added, version)
                if version == self._tail_version + 1:
                    self._last_added = (version, added)
                return
            gone = ()  # they are in the table `gone` now
        self.feed(added, gone)
        self._finish()

    def exceeds_tail(self, count: int) -> bool:
        """Whether so many documents are too many for the tail."""
        return (count > TAIL_LIMIT or self._merging is not None) and index.engine.is_available()

    def feed(self, added: Sequence[Document], gone: Sequence[int]) -> None:
        """Feed documents to tantivy early, before `add` brings the last ones. Those in the tail are fed first."""
        if self._merging is None:
            rows = self._rows
            self._check_stamp()
            self._next_version()
            self._merging = self._open_engine(int(rows.meta("generation", 0)))
            pending = list(unindexed.since(rows, -1))
            self._merging.feed(pending, [doc for (doc,) in rows.each("SELECT doc FROM gone")])
            self._merged_tokens, self._merged_docs = _tokens(pending), len(pending)
            unindexed.clear(rows)
            rows.do("DELETE FROM gone")
        self._merging.feed(added, gone)
        self._merged_tokens += _tokens(added)
        self._merged_docs += len(added)

    def _finish(self) -> None:
        """Commit tantivy, before the rows are committed."""
        rows, engine = self._rows, self._merging
        assert engine is not None
        engine.commit()
        self._merging = None
        generation = int(rows.meta("generation", 0)) + 1
        tokens, count = int(rows.meta("tokens", 0)), int(rows.meta("token_docs", 0))
        for key, value in (
            ("tokens", tokens + self._merged_tokens),
            ("token_docs", count + self._merged_docs),
            ("generation", generation),
            ("stamp", engine.stamp()),
        ):
            rows.set_meta(key, value)
        self._checked_generation = generation

    def _next_version(self) -> int:
        version = int(self._rows.meta("tail_version", 0)) + 1
        self._rows.set_meta("tail_version", version)
        return version

    def _check_stamp(self) -> None:
        """Raise IndexUnusable if tantivy has more than the rows say: a merge may have died before the rows' commit."""
        generation = int(self._rows.meta("generation", 0))
        if generation not in (0, self._checked_generation):
            if self._open_engine(generation).stamp() != self._rows.meta("stamp"):
                raise IndexUnusable("the text index is ahead of the rows")
            self._checked_generation = generation

    # -- searching

    def search(self, query: TextQuery, limit: int, counts: Counts | None = None) -> list[TextMatch]:
        """The best matches, best first; terms are weighed by `counts`. Fewer than `limit` means that there are no more."""
        weights = self._weights(query, counts or self)
        found = self._tail.search(query, weights, self._mean_length())
        engine = self._merged()
        if engine is not None:
            hidden = _HiddenDocs(self._gone, self._tail) if self._gone or len(self._tail) else None
            found += engine.search(query, weights, limit + len(self._gone), hidden)
        found.sort(key=_by_doc)
        found.sort(key=_by_match, reverse=True)  # stable: equals stay in the order of their docs
        return found[:limit]

    def all_matches(self, query: TextQuery) -> MatchColumns:
        """All matches in any order, without scores."""
        weights = self._weights(query, self)
        tail = self._tail.search(query, weights, self._mean_length())
        engine = self._merged()
        if engine is None:
            return MatchColumns([each[0] for each in tail], [each[2] for each in tail], [each[3] for each in tail])
        found = engine.all_matches(query, weights)
        if self._gone or len(self._tail):
            hidden = _HiddenDocs(self._gone, self._tail)
            found = only_docs(found, lambda doc: doc not in hidden)
        for doc, _, created, facts in tail:
            found.docs.append(doc)
            found.created.append(created)
            found.facts.append(facts)
        return found

    def document_frequency(self, term: str) -> int:
        frequency = self._frequencies.get(term)
        if frequency is None:
            engine = self._merged()
            frequency = self._tail.frequency(term) + (engine.frequency(term) if engine is not None else 0)
            if len(self._frequencies) >= _FREQUENCIES:
                self._frequencies.clear()
            self._frequencies[term] = frequency
        return frequency

    def corrected(self, word: str, term: str, is_name: bool, counts: Counts) -> str | None:
        """The known term that an unknown word, whose term is given, is probably a mistyped form of; None if there is none.

        A wrong letter is a typing error only in names and long words: ordinary words often differ in one letter.
        """
        key = word, is_name
        if counts is not self:  # of some sessions: the terms of others are unknown
            return self._correction(word, term, is_name, counts)
        if key not in self._corrections:
            self._corrections[key] = self._correction(word, term, is_name, counts)
        return self._corrections[key]

    def _correction(self, word: str, term: str, is_name: bool, counts: Counts) -> str | None:
        most = MORE_THAN_ONE if is_name or len(term) >= LONG else REPLACED
        near = self._near_terms(word, term, counts, replaced=most > REPLACED)
        found = [each for each in near if each[0] < most and len(each[1]) >= SHORTEST and each[1] not in STOP_WORDS]
        return min(found, key=lambda each: (each[0], -counts.document_frequency(each[1]), each[1]), default=(0, None))[
            1
        ]

    def _near_terms(self, word: str, term: str, counts: Counts, *, replaced: bool) -> Iterator[tuple[int, str]]:
        """Known terms at distance 1, and how likely the error is: by their stems, then as stems of the word's simple variants."""
        engine, known = self._merged(), set[str]()
        if len(self._tail):
            known = self._tail.terms_among(set(variants(term, replaced=replaced)))
        if engine is not None:
            known.update(engine.terms_with_prefix(term[:NEAR_START]))
            known.update(each for each in variants(term, NEAR_START, replaced=replaced) if engine.frequency(each))
        known = {each for each in known if not each.startswith(term) and not term.startswith(each)}  # another ending
        found = [(distance(term, each), each) for each in known if abs(len(each) - len(term)) <= 1]
        found += [(distance(word, each), stem(each)) for each in simple_variants(word)]
        for error, each in found:
            if 0 < error < MORE_THAN_ONE and each != term and counts.document_frequency(each):
                yield error, each

    @property
    def documents(self) -> int:
        engine = self._merged()
        return len(self._tail) + (engine.documents if engine is not None else 0)

    def _mean_length(self) -> float:
        """The mean length as tantivy computes it, so that a memory in the tail has the score it would have in tantivy."""
        if self._tokens and self._generation > 0:
            return self._tokens / max(self._token_docs, 1)
        return self._tail.tokens / max(len(self._tail), 1) or 1.0

    def _weights(self, query: TextQuery, counts: Counts) -> Weights:
        """The weight of each term over tantivy and the tail together, by its frequency in `counts`."""
        patterns = [self._terms_like(pattern) for pattern in query.patterns]
        excluded = list({term for pattern in query.excluded_patterns for term in self._terms_like(pattern)})
        characters = [self._terms_like(character) for character in query.characters]
        terms = dict.fromkeys(query.terms)
        for group in (*query.phrases, *(group[:EXPANSIONS] for group in (*patterns, *characters))):
            terms.update(dict.fromkeys(group))
        count = counts.documents
        exponent = 1 + query.rarity
        of_term = {term: inverse_frequency(count, counts.document_frequency(term)) ** exponent for term in terms}
        for term in query.corrected:
            weight = inverse_frequency(count, counts.document_frequency(term)) ** exponent
            of_term.setdefault(term, _CORRECTED_WEIGHT * weight)
        uncounted = [term for group in characters for term in group[EXPANSIONS:] if term not in of_term]
        return Weights(of_term, patterns, excluded, uncounted)

    def _terms_like(self, pattern: str) -> list[str]:
        """The terms that a pattern matches, the most frequent first."""
        matches = term_matcher(pattern)
        found = {term for term in self._tail.terms() if matches(term)}
        engine = self._merged()
        if engine is not None:
            found.update(term for term in engine.terms_with_prefix(literal_prefix(pattern)) if matches(term))
        return sorted(found, key=lambda term: (-self.document_frequency(term), term))


def _tokens(documents: Iterable[Document]) -> int:
    return sum(document[1].count(" ") + 1 for document in documents)


class _HiddenDocs:
    """Docs whose state in tantivy is outdated."""

    __slots__ = ("_gone", "_tail")

    def __init__(self, gone: set[int], tail: UnindexedText) -> None:
        self._gone = gone
        self._tail = tail

    def __contains__(self, doc: object) -> bool:
        return doc in self._gone or doc in self._tail


_by_doc, _by_match = itemgetter(0), itemgetter(1)
