"""Which memories speak of these words, and how much? Words in tantivy, and the newest ones in a tail beside it.

A commit of tantivy takes tens of milliseconds, so memories first go into the *tail*: what `smp_memory.index.unindexed` keeps, held
in RAM as posting lists. When the tail is long enough it is merged into tantivy in one go, and so is at once what is more
than a tail can hold. Both are scored by BM25 with the same figures (documents, document frequencies, mean length), so a
memory's score does not depend on where it is.

Docs in `gone` are hidden until the next merge takes them out of tantivy: what was removed, and the old state of what was
changed, whose new state is in the tail.

Guarantees: tantivy commits before SQLite does, so what the rows say is in tantivy is there; what a crash left twice
counts once.
"""

from __future__ import annotations

import os
from operator import itemgetter

from smp_memory.index import unindexed
from smp_memory.index.engine import PREFIX, TantivyEngine, is_here
from smp_memory.index.rows import IndexUnusable
from smp_memory.index.text_query import EXPANSIONS, TextMatch, TextQuery, Weights, inverse_frequency
from smp_memory.index.unindexed import UnindexedText
from smp_memory.index.wildcards import beginning, matcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smp_memory.index.engine import Document
    from smp_memory.index.rows import Rows

__all__ = ["TextIndex", "TextMatch", "TextQuery"]
TAIL_LIMIT = 1500
_FREQUENCIES = 10_000  # terms whose frequency is remembered


class TextIndex:
    def __init__(self, rows: Rows, folder: str | None) -> None:
        """What belongs to these rows; `folder` None keeps tantivy's files in RAM, too."""
        self._rows = rows
        self._folder = folder
        self._engine: TantivyEngine | None = None  # once something was merged
        self._is_current = False  # whether the engine has seen the last merge that we know of
        self._generation = -1  # of that merge
        self._checked_generation = -1  # of the merge that was compared with tantivy's own stamp
        self._tokens = self._token_docs = 0  # in the engine
        self._merging: TantivyEngine | None = None  # what the words of this transaction go to, once there are many
        self._merged_tokens = self._merged_docs = 0  # by this transaction
        self._tail = UnindexedText()
        self._tail_version = -1
        self._ours: tuple[int, Sequence[Document]] = (
            -1,
            (),
        )  # version, and what it brought, if the tail has all before
        self._gone: set[int] = set()
        self._frequencies: dict[str, int] = {}  # of terms, in the state that was refreshed last

    # -- keeping up

    def refresh(self) -> None:
        """Know what the rows know; called inside a transaction, or alone."""
        generation = int(self._rows.meta("generation", 0))
        if generation != self._generation:
            self._is_current = False
            self._tokens, self._token_docs = int(self._rows.meta("tokens", 0)), int(self._rows.meta("token_docs", 0))
            self._generation = generation
            self._frequencies.clear()
        version = int(self._rows.meta("tail_version", 0))
        if version != self._tail_version:
            ours, self._ours = self._ours, (-1, ())
            new = ours[1] if ours[0] == version else unindexed.since(self._rows, self._tail_version)
            self._tail.put({document[0]: document[1:] for document in new})
            if len(self._tail) != unindexed.count(self._rows):  # some were taken out
                self._tail.keep(unindexed.docs(self._rows))
            self._gone = {doc for (doc,) in self._rows.each("SELECT doc FROM gone")}
            self._tail_version = version
            self._frequencies.clear()

    def forget(self) -> None:
        """The transaction was rolled back: what we believe may not hold."""
        self._generation = self._tail_version = self._checked_generation = -1
        self._is_current = False
        self._tail, self._gone, self._ours = UnindexedText(), set(), (-1, ())
        self._frequencies.clear()
        if self._merging is not None:
            self._merging.roll_back()
            self._merging = None

    def _opened(self, generation: int) -> TantivyEngine:
        if self._engine is None or not generation:  # without one: what an earlier attempt wrote does not count
            self._engine = TantivyEngine(self._path(new=not generation), create=not generation)
        return self._engine

    def _merged(self) -> TantivyEngine | None:
        """What was merged, as of the last refresh. Not opened before somebody asks for words: that takes milliseconds."""
        if self._generation <= 0:
            return None
        engine = self._opened(self._generation)
        if not self._is_current:
            engine.reload()
            self._is_current = True
        return engine

    def _path(self, *, new: bool) -> str | None:
        if self._folder is None:
            return None
        if new:
            self._rows.set_meta("text_folder", f"{PREFIX}{os.urandom(4).hex()}")
        return os.path.join(self._folder, str(self._rows.meta("text_folder", "")))

    # -- taking in

    def add(self, fresh: Sequence[Document], gone: Sequence[int]) -> None:
        """Take in new docs and hide old ones; the last call in the rows' transaction, which commits after it."""
        if self._merging is None:
            if not fresh and not gone:
                return
            rows = self._rows
            unindexed.take_out(rows, gone)
            if rows.meta("generation"):
                rows.do_many("INSERT OR IGNORE INTO gone VALUES (?)", ((doc,) for doc in gone))
            waiting = unindexed.count(rows) + int(rows.one("SELECT count(*) FROM gone") or 0)
            if not self.are_many(waiting + len(fresh)):
                self._check_stamp()
                version = self._next_version()
                unindexed.put(rows, fresh, version)
                if version == self._tail_version + 1:
                    self._ours = (version, fresh)
                return
            gone = ()  # they are among the hidden ones now
        self.feed(fresh, gone)
        self._finish()

    def are_many(self, count: int) -> bool:
        """Whether so many are too many for the tail."""
        return (count > TAIL_LIMIT or self._merging is not None) and is_here()

    def feed(self, fresh: Sequence[Document], gone: Sequence[int]) -> None:
        """Let tantivy begin with them, before `add` brings the last ones. What was in the tail goes there first."""
        if self._merging is None:
            rows = self._rows
            self._check_stamp()
            self._next_version()
            self._merging = self._opened(int(rows.meta("generation", 0)))
            waiting = list(unindexed.since(rows, -1))
            self._merging.feed(waiting, [doc for (doc,) in rows.each("SELECT doc FROM gone")])
            self._merged_tokens, self._merged_docs = _tokens(waiting), len(waiting)
            unindexed.clear(rows)
            rows.do("DELETE FROM gone")
        self._merging.feed(fresh, gone)
        self._merged_tokens += _tokens(fresh)
        self._merged_docs += len(fresh)

    def _finish(self) -> None:
        """Tantivy commits, before the rows do."""
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
        """Whether tantivy holds what the rows say, no more: a merge may have died before the rows were committed."""
        generation = int(self._rows.meta("generation", 0))
        if generation not in (0, self._checked_generation):
            if self._opened(generation).stamp() != self._rows.meta("stamp"):
                raise IndexUnusable("the text index is ahead of the rows")
            self._checked_generation = generation

    # -- searching

    def search(self, wanted: TextQuery, limit: int) -> list[TextMatch]:
        """The best candidates, best first. Fewer than asked for means that there are no more."""
        weights = self._weights(wanted)
        found = self._tail.search(wanted, weights, self._mean_length())
        engine = self._merged()
        if engine is not None:
            hidden = _Hidden(self._gone, self._tail) if self._gone or len(self._tail) else None
            found += engine.search(wanted, weights, limit + len(self._gone), hidden)
        found.sort(key=_by_doc)
        found.sort(key=_by_match, reverse=True)  # which leaves equals in the order of their docs
        return found[:limit]

    def document_frequency(self, term: str) -> int:
        frequency = self._frequencies.get(term)
        if frequency is None:
            engine = self._merged()
            frequency = self._tail.frequency(term) + (engine.frequency(term) if engine is not None else 0)
            if len(self._frequencies) >= _FREQUENCIES:
                self._frequencies.clear()
            self._frequencies[term] = frequency
        return frequency

    @property
    def documents(self) -> int:
        engine = self._merged()
        return len(self._tail) + (engine.documents if engine is not None else 0)

    def _mean_length(self) -> float:
        """As tantivy sees it, so that a memory in the tail has the score that it would have there."""
        if self._tokens and self._generation > 0:
            return self._tokens / max(self._token_docs, 1)
        return self._tail.tokens / max(len(self._tail), 1) or 1.0

    def _weights(self, wanted: TextQuery) -> Weights:
        """How much each word weighs, over tantivy and the tail together."""
        patterns = [self._terms_like(pattern) for pattern in wanted.patterns]
        excluded = list({term for pattern in wanted.excluded_patterns for term in self._terms_like(pattern)})
        characters = [self._terms_like(character) for character in wanted.characters]
        terms = dict.fromkeys(wanted.terms)
        for group in (*wanted.phrases, *(group[:EXPANSIONS] for group in (*patterns, *characters))):
            terms.update(dict.fromkeys(group))
        count = self.documents
        weigh = 1 + wanted.rarity
        of_term = {term: inverse_frequency(count, self.document_frequency(term)) ** weigh for term in terms}
        uncounted = [term for group in characters for term in group[EXPANSIONS:] if term not in of_term]
        return Weights(of_term, patterns, excluded, uncounted)

    def _terms_like(self, pattern: str) -> list[str]:
        """The terms that a pattern means, the most frequent first."""
        means = matcher(pattern)
        found = {term for term in self._tail.terms() if means(term)}
        engine = self._merged()
        if engine is not None:
            found.update(term for term in engine.terms_from(beginning(pattern)) if means(term))
        return sorted(found, key=lambda term: (-self.document_frequency(term), term))


def _tokens(documents: Iterable[Document]) -> int:
    return sum(document[1].count(" ") + 1 for document in documents)


class _Hidden:
    """What tantivy still knows, but the rows know better."""

    __slots__ = ("_gone", "_tail")

    def __init__(self, gone: set[int], tail: UnindexedText) -> None:
        self._gone = gone
        self._tail = tail

    def __contains__(self, doc: object) -> bool:
        return doc in self._gone or doc in self._tail


_by_doc, _by_match = itemgetter(0), itemgetter(1)
