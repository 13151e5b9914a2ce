"""The tantivy text engine; the only module that uses tantivy.

Its files are in a folder of their own that the rows name; one that the rows do not name is a leftover. Every error
that tantivy raises for damaged files becomes `IndexUnusable`.

Positions are not stored, because they would take a fifth of the index. For a phrase the engine matches all its words;
the caller checks their order in the text.
"""

from __future__ import annotations

import json
import os

from smp_memory.import_lock import loading
from smp_memory.index.query import MatchColumns, text_matches
from smp_memory.index.rows import IndexUnusable
from smp_memory.text.libraries import LibraryMissing, leave_disk, report_missing
from smp_memory.text.tokenizer import inverse_frequency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence
    from typing import Any

    from smp_memory.index.query import TextMatch, TextQuery, Weights

    Document = tuple[int, str, str, int, int]  # doc, terms, labels, created, facts

PREFIX = "text-"
_HEAP_BYTES = 48_000_000


class TantivyEngine:
    """One tantivy index, on disk or in RAM."""

    def __init__(self, path: str | None, *, create: bool) -> None:
        """Open or create an engine at a path (None: in RAM)."""
        try:
            with loading:
                import tantivy
        except (ImportError, OSError) as error:
            leave_disk("tantivy", error)
            raise LibraryMissing("tantivy") from error
        self._path = path
        self._writer: Any = None  # between the first `feed` and `commit`
        try:
            if path is not None and create:
                _make_folder(path)
            self._index = tantivy.Index(_schema(), path=path) if create else tantivy.Index.open(path or "")
            tokenizer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
            self._index.register_tokenizer("whitespace", tokenizer)
        except Exception as error:
            raise IndexUnusable(str(error)) from error
        self._searcher: Any = None
        self._query_parts: _QueryParts | None = None

    def reload(self) -> None:
        """Make the last commit of any process visible."""
        try:
            self._index.reload()
            self._searcher = self._index.searcher()
        except Exception as error:
            raise IndexUnusable(str(error)) from error

    def stamp(self) -> int:
        """The opstamp of the last commit; 0 in RAM, where no other process commits."""
        if self._path is None:
            return 0
        try:
            with open(os.path.join(self._path, "meta.json"), encoding="utf-8") as file:
                return int(json.load(file)["opstamp"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IndexUnusable(str(error)) from error

    @property
    def documents(self) -> int:
        return int(self._searcher.num_docs)

    def frequency(self, term: str) -> int:
        return int(self._searcher.doc_freq("text", term))

    def terms_with_prefix(self, prefix: str) -> list[str]:
        return [term for term, _ in self._searcher.terms_with_prefix("text", prefix)]

    def docs(self) -> set[int]:
        """All docs in the engine."""
        import tantivy

        self.reload()
        try:
            count = max(self.documents, 1)
            hits = self._searcher.search(tantivy.Query.all_query(), count, count=False).hits
            return set(self._searcher.fast_field_values("doc", [address for _, address in hits]))
        except Exception as error:
            raise IndexUnusable(str(error)) from error

    def feed(self, documents: Iterable[Document], removed: Iterable[int] = ()) -> None:
        """Remove documents, then add others. Not visible before `commit`; tantivy's thread works meanwhile."""
        import tantivy

        try:
            if self._writer is None:
                self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
            writer = self._writer
            removed_docs = sorted(set(removed))
            if removed_docs:  # not by a term: for a number, tantivy-py 0.27 silently deletes nothing
                writer.delete_documents_by_query(tantivy.Query.term_set_query(self._index.schema, "doc", removed_docs))
            for doc, terms, labels, created, facts in documents:
                document = tantivy.Document()
                document.add_text("text", terms)
                document.add_text("label", labels)
                document.add_unsigned("doc", doc)
                document.add_integer("created", created)
                document.add_unsigned("facts", facts)
                writer.add_document(document)
        except Exception as error:
            raise IndexUnusable(str(error)) from error

    def commit(self) -> None:
        """Commit everything that was fed."""
        writer, self._writer = self._writer, None
        try:
            writer.commit()
            writer.wait_merging_threads()
            for name in os.listdir(self._path) if self._path is not None else ():
                os.chmod(os.path.join(self._path or "", name), 0o600)
        except Exception as error:
            raise IndexUnusable(str(error)) from error

    def roll_back(self) -> None:
        """Drop everything that was fed."""
        self._writer = None

    def search(self, query: TextQuery, weights: Weights, limit: int, hidden: Container[int] | None) -> list[TextMatch]:
        """The best `limit` matches without the hidden ones, so there may be fewer."""
        hits, columns = self._find(query, weights, limit)
        matches = text_matches(zip(columns.docs, [score for score, _ in hits], *columns[1:], strict=True))
        return [each for each in matches if each.doc not in hidden] if hidden is not None else matches

    def all_matches(self, query: TextQuery, weights: Weights) -> MatchColumns:
        """All matches, also those that are hidden."""
        return self._find(query, weights, max(self.documents, 1))[1]

    def _find(self, query: TextQuery, weights: Weights, limit: int) -> tuple[list[Any], MatchColumns]:
        """Score and address of the best matches, and what the engine stores of them."""
        if self._query_parts is None:
            self._query_parts = _QueryParts(self._index.schema)
        built = _QueryBuilder(self._query_parts, _boosts(self, weights), weights).build(query)
        if built is None:
            return [], MatchColumns([], [], [])
        try:
            hits = self._searcher.search(built, max(min(limit, self.documents), 1), count=False).hits
            addresses = [address for _, address in hits]
            docs = self._searcher.fast_field_values("doc", addresses)
            times = self._searcher.fast_field_values("created", addresses)
            facts = self._searcher.fast_field_values("facts", addresses)
        except Exception as error:
            raise IndexUnusable(str(error)) from error
        return hits, MatchColumns(docs, times, facts)


def _make_folder(path: str) -> None:
    """Create the folder of a new engine; remove folders of earlier ones that were never committed."""
    from shutil import rmtree

    for name in os.listdir(os.path.dirname(path)):
        if name.startswith(PREFIX):
            rmtree(os.path.join(os.path.dirname(path), name), ignore_errors=True)
    os.mkdir(path, 0o700)


def _schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("label", tokenizer_name="whitespace", index_option="basic")
    builder.add_unsigned_field("doc", fast=True, indexed=True)
    builder.add_integer_field("created", fast=True)
    builder.add_unsigned_field("facts", fast=True)
    return builder.build()


class _QueryParts:
    """Schema and constants that every tantivy query needs, looked up once."""

    __slots__ = ("integer", "must", "never", "query", "schema", "should")

    def __init__(self, schema: Any) -> None:
        import tantivy

        self.schema = schema
        self.query = tantivy.Query
        self.must, self.should, self.never = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot
        self.integer = tantivy.FieldType.Integer


class _QueryBuilder:
    """Build the tantivy query for a `TextQuery`."""

    def __init__(self, parts: _QueryParts, boosts: dict[str, float], weights: Weights) -> None:
        self._schema, self._query, self._integer = parts.schema, parts.query, parts.integer
        self._must, self._should, self._not = parts.must, parts.should, parts.never
        self._weights = weights
        self._boosts = boosts

    def build(self, query: TextQuery) -> Any | None:
        """None if nothing can match. Phrases and patterns decide what matches; each word counts once for the score."""
        needed = [self._all_of(words) for words in query.phrases] + [
            self._one_of(t) for t in self._weights.patterns if t
        ]
        if None in needed or not all(self._weights.patterns):
            return None
        scoring = [self._term(term) for term in self._boosts]
        if self._weights.uncounted:
            scoring.append(self._constant(self._one_of(self._weights.uncounted)))
        if (query.terms or query.characters) and not needed and not scoring:
            return None
        parts: list[tuple[Any, Any]] = [(self._must, self._constant(each)) for each in needed]
        alone = not (query.labels or needed or query.since is not None or query.until is not None)
        if needed or alone:  # without any `must`, at least one `should` has to match
            parts += [(self._should, each) for each in scoring]
        elif scoring:
            parts.append((self._must, self._any(scoring, query.at_least)))
        for labels in query.labels:
            parts.append((self._must, self._constant(self._any([self._label(label) for label in labels]))))
        for label in query.without:
            parts.append((self._not, self._label(label)))
        excluded = [*self._weights.excluded, *(words[0] for words in query.excluded if len(words) == 1)]
        if excluded:
            parts.append((self._not, self._one_of(excluded)))
        if query.since is not None or query.until is not None:
            parts.append((self._must, self._constant(self._between(query.since, query.until))))
        if not any(part[0] is not self._not for part in parts):
            parts.append((self._must, self._constant(self._query.all_query())))
        return parts[0][1] if len(parts) == 1 else self._query.boolean_query(parts)

    def _one_of(self, terms: Sequence[str]) -> Any:
        return self._query.term_set_query(self._schema, "text", list(terms))

    def _any(self, queries: list[Any], at_least: int = 1) -> Any:
        return self._query.boolean_query([(self._should, query) for query in queries], at_least)

    def _constant(self, query: Any) -> Any:
        return self._query.const_score_query(query, 0.0)

    def _term(self, term: str) -> Any:
        query = self._query.term_query(self._schema, "text", term)
        boost = self._boosts[term]
        return query if abs(boost - 1) < 1e-6 else self._query.boost_query(query, boost)

    def _label(self, label: str) -> Any:
        return self._query.term_query(self._schema, "label", label, index_option="basic")

    def _all_of(self, words: Sequence[str]) -> Any | None:
        """A query for all words of a phrase; None if one of them is not in the engine."""
        if any(word not in self._boosts for word in words):
            return None
        return self._query.boolean_query([(self._must, self._term(word)) for word in dict.fromkeys(words)])

    def _between(self, since: int | None, until: int | None) -> Any:
        return self._query.range_query(
            self._schema, "created", self._integer, since, until, include_lower=True, include_upper=until is None
        )


def _boosts(engine: TantivyEngine, weights: Weights) -> dict[str, float]:
    """Our weight of each term in the engine, relative to tantivy's own."""
    boosts, documents = {}, engine.documents
    for term, weight in weights.of_term.items():
        having = engine.frequency(term)
        if having:
            boosts[term] = weight / inverse_frequency(documents, having)
    return boosts


_available: list[bool] = []


def is_available() -> bool:
    """Whether tantivy can be loaded. Without it (no wheel for the platform) everything stays in the memtable."""
    if not _available:
        try:
            with loading:
                import tantivy  # noqa: F401
            _available.append(True)
        except (ImportError, OSError) as error:
            _available.append(False)
            report_missing("tantivy", error)
    return _available[0]
