"""Which of the newest memories speak of these words? Posting lists in RAM, scored as tantivy scores its own.

Which words wait for tantivy? The newest memories as they were taken in, in blocks, in the rows' own file.

A commit of tantivy takes longer than a question may, so what was taken in since the last one is kept here, and each
process holds it in its tail. What came at once is one block, packed together if it may stay for long; many small ones
are joined. The table `recent` says which memories wait, and in which block each stands as it is now.

Guarantees: what is taken out is not handed out any more; after `scrub` no block holds a byte of it either.
"""

from __future__ import annotations

import json
import zlib

from smp_memory.index.text_query import candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from smp_memory.index.engine import Document
    from smp_memory.index.rows import Rows
    from smp_memory.index.text_query import TextMatch, TextQuery, Weights


_K1, _B = 1.2, 0.75
_EXACT_LENGTHS = 40
_AT_ONCE = 50  # memories that are put into the posting lists in passing: a millisecond


class _Recent:
    __slots__ = ("created", "facts", "labels", "length", "terms", "tokens")

    def __init__(self, terms: str, labels: str, created: int, facts: int) -> None:
        self.terms = f" {terms} "
        self.labels = frozenset(labels.split())
        self.created = created
        self.facts = facts
        self.tokens = terms.count(" ") + 1 if terms else 0
        self.length = _rounded_length(self.tokens)


class UnindexedText:
    def __init__(self) -> None:
        self._docs: dict[int, _Recent] = {}
        self._postings: dict[str, dict[int, int]] = {}
        self._unposted: dict[int, _Recent] = {}  # not in the posting lists yet: looked through one by one
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._docs)

    def __contains__(self, doc: object) -> bool:
        return doc in self._docs

    def put(self, rows: Mapping[int, tuple[str, str, int, int]]) -> None:
        """Hold these, too, as they stand: doc -> (terms, labels, created, facts)."""
        for doc, row in rows.items():
            if doc in self._docs:
                self._take_out(doc)
            recent = self._docs[doc] = self._unposted[doc] = _Recent(*row)
            self.tokens += recent.tokens
        self.post(_AT_ONCE)

    def post(self, most: int = 1 << 60) -> None:
        """Put some more into the posting lists. A thousand new memories take a while; whoever asks now need not wait."""
        for doc in list(self._unposted)[:most]:
            for term in self._unposted.pop(doc).terms.split():
                posting = self._postings.get(term)
                if posting is None:
                    posting = self._postings[term] = {}
                posting[doc] = posting.get(doc, 0) + 1

    def keep(self, docs: set[int]) -> None:
        """Hold no others than these."""
        for doc in [doc for doc in self._docs if doc not in docs]:
            self._take_out(doc)

    def _take_out(self, doc: int) -> None:
        recent = self._docs.pop(doc)
        self.tokens -= recent.tokens
        if self._unposted.pop(doc, None) is not None:
            return
        for term in set(recent.terms.split()):
            posting = self._postings[term]
            del posting[doc]
            if not posting:
                del self._postings[term]

    def terms(self) -> Iterable[str]:
        self.post()
        return self._postings

    def frequency(self, term: str) -> int:
        """How many of its documents have a term."""
        return len(self._postings.get(term, ())) + len(self._unposted_with(term))

    def _unposted_with(self, term: str) -> list[int]:
        if not self._unposted:
            return []
        inside = f" {term} "
        return [doc for doc, recent in self._unposted.items() if inside in recent.terms]

    def _counts(self, term: str) -> Mapping[int, int]:
        """How often each document has a term, of those that have it."""
        posted = self._postings.get(term, {})
        others = self._unposted_with(term)
        return {**posted, **{doc: self._docs[doc].terms.split().count(term) for doc in others}} if others else posted

    def search(self, wanted: TextQuery, weights: Weights, mean_length: float) -> list[TextMatch]:
        if not self._docs:
            return []
        scores: dict[int, float] = {}
        for term, weight in weights.of_term.items():
            for doc, count in self._counts(term).items():
                norm = _K1 * (1 - _B + _B * self._docs[doc].length / mean_length)
                scores[doc] = scores.get(doc, 0.0) + weight * (1 + _K1) * count / (count + norm)
        for doc in self._having(weights.uncounted):
            scores.setdefault(doc, 0.0)
        if not weights.of_term and not (wanted.terms or wanted.characters or wanted.patterns):
            scores = dict.fromkeys(self._docs, 0.0)
        if weights.patterns:
            having = [self._having(group) for group in weights.patterns]
            scores = {doc: scores.get(doc, 0.0) for doc in set.intersection(*having)}
        excluded = self._having(weights.excluded)
        self.post(_AT_ONCE)
        return candidates(
            (doc, score, self._docs[doc].created, self._docs[doc].facts)
            for doc, score in scores.items()
            if doc not in excluded and _fits(self._docs[doc], wanted)
        )

    def _having(self, terms: Iterable[str]) -> set[int]:
        """The docs that have one of these."""
        return {doc for term in terms for doc in self._counts(term)}


def _fits(recent: _Recent, wanted: TextQuery) -> bool:
    """What tantivy does for its documents."""
    if wanted.since is not None and recent.created < wanted.since:
        return False
    if wanted.until is not None and recent.created >= wanted.until:
        return False
    labels, terms = recent.labels, recent.terms
    if any(labels.isdisjoint(group) for group in wanted.labels) or not labels.isdisjoint(wanted.without):
        return False
    if not all(f" {word} " in terms for words in wanted.phrases for word in words):
        return False
    return not any(f" {words[0]} " in terms for words in wanted.excluded if len(words) == 1)


def _rounded_length(length: int) -> int:
    """Tantivy keeps lengths in one byte: exact up to 40, then in steps that double every eight."""
    if length < _EXACT_LENGTHS:
        return length
    rest = length - 24
    bits = rest.bit_length() - 4
    return ((rest >> bits) << bits) + 24


_EFFORT = 4  # of zlib: less would take a tenth more room, the usual 6 twice the time
_SMALL = 32  # memories in a block, and blocks with fewer


def put(rows: Rows, documents: Sequence[Document], version: int) -> None:
    """Memories that came at once; what was known of them before does not count any more."""
    if documents:
        small = [each for (each,) in rows.all("SELECT version FROM block WHERE count < ? ORDER BY 1", (_SMALL,))]
        if len(small) >= _SMALL:  # a new process has to open them all
            _write(rows, list(_taken(rows, small)), small[-1])
        _write(rows, documents, version)


def _write(rows: Rows, documents: Sequence[Document], version: int) -> None:
    effort = 0 if rows.meta("generation") else _EFFORT  # beside what was merged, they will soon be merged, too
    if documents:
        rows.do("INSERT INTO block VALUES (?, ?, ?)", (version, len(documents), _packed(documents, effort)))
        rows.do_many(f"INSERT OR REPLACE INTO recent VALUES (?, {version})", ((each[0],) for each in documents))


def _taken(rows: Rows, versions: Sequence[int]) -> Iterator[Document]:
    """What some blocks hold, as far as it counts; the blocks go."""
    current = dict(rows.each("SELECT doc, version FROM recent"))
    for version in versions:
        packed = rows.one("SELECT data FROM block WHERE version = ?", (version,))
        rows.do("DELETE FROM block WHERE version = ?", (version,))
        yield from (each for each in _unpacked(packed) if current.get(each[0]) == version)


def since(rows: Rows, version: int) -> Iterator[Document]:
    """What came after a version, as it is now."""
    current = dict(rows.each("SELECT doc, version FROM recent WHERE version > ?", (version,)))
    if current:
        for number, packed in rows.each("SELECT version, data FROM block WHERE version > ?", (version,)):
            yield from (each for each in _unpacked(packed) if current.get(each[0]) == number)


def count(rows: Rows) -> int:
    return int(rows.one("SELECT count(*) FROM recent") or 0)


def docs(rows: Rows) -> set[int]:
    return {doc for (doc,) in rows.each("SELECT doc FROM recent")}


def take_out(rows: Rows, docs: Iterable[int]) -> None:
    rows.do_many("DELETE FROM recent WHERE doc = ?", ((doc,) for doc in docs))


def clear(rows: Rows) -> None:
    rows.do("DELETE FROM recent")
    rows.do("DELETE FROM block")


def scrub(rows: Rows) -> None:
    """Blocks anew, without what was taken out or is known in a later state."""
    for (version,) in rows.all("SELECT version FROM block"):
        _write(rows, list(_taken(rows, [version])), version)


def _packed(documents: Sequence[Document], effort: int) -> bytes:
    """A line for all that is not words, column by column, then a line of words for each memory."""
    docs, words, *others = zip(*documents, strict=True)
    head = json.dumps([docs, *others], ensure_ascii=False, separators=(",", ":"))
    lines = "\n".join([head, *words])
    if lines.count("\n") != len(words):  # an id that somebody spoilt; any white space parts words
        lines = "\n".join([head, *(text.replace("\n", " ") for text in words)])
    return zlib.compress(lines.encode(errors="surrogatepass"), effort)


def _unpacked(packed: bytes) -> Iterator[Document]:
    head, *words = zlib.decompress(packed).decode(errors="surrogatepass").split("\n")
    docs, *others = json.loads(head)
    return zip(docs, words, *others, strict=True)
