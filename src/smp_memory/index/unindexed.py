"""The memtable: memories that are stored but not yet in tantivy.

A commit of tantivy takes longer than a query may, so what was added since the last one is kept here. `UnindexedText`
holds it in RAM and scores it as tantivy scores its own documents. The functions below it store it: memories that were
added together are one block, compressed if it may stay for long; many small blocks are joined. The table `recent`
says which memories are unindexed, and which block has the current state of each.

Guarantees: what is removed is not returned any more; after `scrub` no block contains a byte of it.
"""

from __future__ import annotations

import json
import zlib

from smp_memory.index.query import text_matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from smp_memory.index.engine import Document
    from smp_memory.index.query import TextMatch, TextQuery, Weights
    from smp_memory.index.rows import Rows


_K1, _B = 1.2, 0.75
_EXACT_LENGTHS = 40
_AT_ONCE = 50  # memories added to the posting lists along with a query: a millisecond


class _Document:
    __slots__ = ("created", "facts", "labels", "terms", "tokens")

    def __init__(self, terms: str, labels: str, created: int, facts: int) -> None:
        # A term has a space on both sides of its own, so that it can be found and counted as a part of the text.
        self.terms = f" {terms.replace(' ', '  ')} "
        self.labels = labels
        self.created = created
        self.facts = facts
        self.tokens = terms.count(" ") + 1 if terms else 0


class UnindexedText:
    """Unindexed documents in RAM: posting lists, and BM25 scores like tantivy's."""

    def __init__(self) -> None:
        self._docs: dict[int, _Document] = {}
        self._postings: dict[str, dict[int, int]] = {}
        self._unposted: dict[int, _Document] = {}  # not in the posting lists yet: searched one by one
        self.tokens = 0
        self._was_searched = False

    def __len__(self) -> int:
        return len(self._docs)

    def __contains__(self, doc: object) -> bool:
        return doc in self._docs

    def put(self, rows: Mapping[int, tuple[str, str, int, int]]) -> None:
        """Add or replace documents: doc -> (terms, labels, created, facts)."""
        for doc, row in rows.items():
            if doc in self._docs:
                self._take_out(doc)
            document = self._docs[doc] = self._unposted[doc] = _Document(*row)
            self.tokens += document.tokens

    def post(self, most: int = 1 << 60) -> None:
        """Move some documents into the posting lists, with every search but the first, which is the only one of most processes."""
        for doc in list(self._unposted)[:most]:
            for term in self._unposted.pop(doc).terms.split():
                posting = self._postings.get(term)
                if posting is None:
                    posting = self._postings[term] = {}
                posting[doc] = posting.get(doc, 0) + 1

    def keep(self, docs: set[int]) -> None:
        """Remove all other documents."""
        for doc in [doc for doc in self._docs if doc not in docs]:
            self._take_out(doc)

    def _take_out(self, doc: int) -> None:
        document = self._docs.pop(doc)
        self.tokens -= document.tokens
        if self._unposted.pop(doc, None) is not None:
            return
        for term in set(document.terms.split()):
            posting = self._postings[term]
            del posting[doc]
            if not posting:
                del self._postings[term]

    def terms(self) -> Iterable[str]:
        self.post()
        return self._postings

    def terms_among(self, variants: Collection[str]) -> set[str]:
        """Those of these terms, which all begin with the same letter, that a document has."""
        found = {each for each in variants if each in self._postings}
        if self._unposted and variants:
            import re

            begun = re.compile(f"(?<= ){re.escape(next(iter(variants))[0])}[^ ]+")
            for document in self._unposted.values():
                found.update(term for term in begun.findall(document.terms) if term in variants)
        return found

    def frequency(self, term: str) -> int:
        """The number of documents that have a term."""
        inside = f" {term} "
        return len(self._postings.get(term, ())) + sum([inside in each.terms for each in self._unposted.values()])

    def _counts(self, term: str) -> Mapping[int, int]:
        """The number of occurrences of a term in each document that has it."""
        posted, inside = self._postings.get(term, {}), f" {term} "
        others = {doc: each.terms.count(inside) for doc, each in self._unposted.items() if inside in each.terms}
        return {**posted, **others} if others else posted

    def search(self, query: TextQuery, weights: Weights, mean_length: float) -> list[TextMatch]:
        if not self._docs:
            return []
        if self._was_searched:
            self.post(_AT_ONCE)
        self._was_searched = True
        docs, scores = self._docs, dict[int, float]()
        norms: dict[int, float] = {}  # by number of tokens
        for term, weight in weights.of_term.items():
            for doc, count in self._counts(term).items():
                tokens = docs[doc].tokens
                if tokens not in norms:
                    norms[tokens] = _K1 * (1 - _B + _B * _rounded_length(tokens) / mean_length)
                scores[doc] = scores.get(doc, 0.0) + weight * (1 + _K1) * count / (count + norms[tokens])
        for doc in self._docs_with_any(weights.uncounted):
            scores.setdefault(doc, 0.0)
        if not weights.of_term and not (query.terms or query.characters or query.patterns):
            scores = dict.fromkeys(self._docs, 0.0)
        if weights.patterns:
            having = [self._docs_with_any(group) for group in weights.patterns]
            scores = {doc: scores.get(doc, 0.0) for doc in set.intersection(*having)}
        excluded = self._docs_with_any(weights.excluded)
        meets = _filters(query)
        return text_matches([
            (doc, score, found.created, found.facts)
            for doc, score in scores.items()
            if meets(found := docs[doc]) and doc not in excluded
        ])  # fmt: skip

    def _docs_with_any(self, terms: Iterable[str]) -> set[int]:
        """The docs that have any of these terms."""
        return {doc for term in terms for doc in self._counts(term)}


def _filters(query: TextQuery) -> Callable[[_Document], bool]:
    """Tells whether a document meets the query's times, labels, phrases and exclusions, as tantivy checks it for its own."""
    since, until, least = query.since, query.until, query.at_least
    needed = [f" {word} " for words in query.phrases for word in words]
    banned = [f" {words[0]} " for words in query.excluded if len(words) == 1]
    words = [f" {word} " for word in query.terms] if least > 1 else []
    of_labels: dict[str, bool] = {}  # many documents have the same

    def meets_labels(text: str) -> bool:
        labels = frozenset(text.split())
        found = labels.isdisjoint(query.without) and not any(labels.isdisjoint(group) for group in query.labels)
        of_labels[text] = found
        return found

    def meets(document: _Document) -> bool:
        has_labels = of_labels.get(document.labels)
        if not (meets_labels(document.labels) if has_labels is None else has_labels):
            return False
        if (since is not None and document.created < since) or (until is not None and document.created >= until):
            return False
        terms = document.terms
        if needed and not all(word in terms for word in needed):
            return False
        if words and sum(word in terms for word in words) < least:
            return False
        return not (banned and any(word in terms for word in banned))

    return meets


def _rounded_length(length: int) -> int:
    """The length as tantivy stores it, in one byte: exact up to 40, then in steps that double every eight."""
    if length < _EXACT_LENGTHS:
        return length
    rest = length - 24
    bits = rest.bit_length() - 4
    return ((rest >> bits) << bits) + 24


_ZLIB_LEVEL = 4  # a lower level takes a tenth more space, the usual 6 twice the time
_SMALL = 32  # memories in a block, and blocks with fewer


def put(rows: Rows, documents: Sequence[Document], version: int) -> None:
    """Store documents that were added together; they replace earlier states of the same docs."""
    if documents:
        small = [each for (each,) in rows.all("SELECT version FROM block WHERE count < ? ORDER BY 1", (_SMALL,))]
        if len(small) >= _SMALL:  # a new process has to read them all
            _write(rows, list(_pop_blocks(rows, small)), small[-1])
        _write(rows, documents, version)


def _write(rows: Rows, documents: Sequence[Document], version: int) -> None:
    level = 0 if rows.meta("generation") else _ZLIB_LEVEL  # where there are merges, they will soon be merged, too
    if documents:
        rows.do("INSERT INTO block VALUES (?, ?, ?)", (version, len(documents), _packed(documents, level)))
        rows.do_many(f"INSERT OR REPLACE INTO recent VALUES (?, {version})", ((each[0],) for each in documents))


def _pop_blocks(rows: Rows, versions: Sequence[int]) -> Iterator[Document]:
    """Remove blocks, and return those of their documents that are current."""
    current = dict(rows.each("SELECT doc, version FROM recent"))
    for version in versions:
        packed = rows.one("SELECT data FROM block WHERE version = ?", (version,))
        rows.do("DELETE FROM block WHERE version = ?", (version,))
        yield from (each for each in _unpacked(packed) if current.get(each[0]) == version)


def since(rows: Rows, version: int) -> Iterator[Document]:
    """The documents added after a version that are current."""
    current = dict(rows.each("SELECT doc, version FROM recent WHERE version > ?", (version,)))
    if current:
        for number, packed in rows.each("SELECT version, data FROM block WHERE version > ?", (version,)):
            yield from (each for each in _unpacked(packed) if current.get(each[0]) == number)


def count(rows: Rows) -> int:
    return int(rows.one("SELECT count(*) FROM recent") or 0)


def docs(rows: Rows) -> set[int]:
    return {doc for (doc,) in rows.each("SELECT doc FROM recent")}


def remove(rows: Rows, docs: Iterable[int]) -> None:
    rows.do_many("DELETE FROM recent WHERE doc = ?", ((doc,) for doc in docs))


def clear(rows: Rows) -> None:
    rows.do("DELETE FROM recent")
    rows.do("DELETE FROM block")


def scrub(rows: Rows) -> None:
    """Rewrite all blocks without documents that were removed or have a later state."""
    for (version,) in rows.all("SELECT version FROM block"):
        _write(rows, list(_pop_blocks(rows, [version])), version)


def _packed(documents: Sequence[Document], level: int) -> bytes:
    """One line of JSON with all columns but the terms, then a line of terms for each memory."""
    docs, words, *others = zip(*documents, strict=True)
    head = json.dumps([docs, *others], ensure_ascii=False, separators=(",", ":"))
    lines = "\n".join([head, *words])
    if lines.count("\n") != len(words):  # a damaged id; any white space separates terms
        lines = "\n".join([head, *(text.replace("\n", " ") for text in words)])
    return zlib.compress(lines.encode(errors="surrogatepass"), level)


def _unpacked(packed: bytes) -> Iterator[Document]:
    head, *words = zlib.decompress(packed).decode(errors="surrogatepass").split("\n")
    docs, *others = json.loads(head)
    return zip(docs, words, *others, strict=True)
