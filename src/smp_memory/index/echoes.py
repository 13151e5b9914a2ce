"""Echoes in the rows of an index: which turn repeats which written memory (`smp_memory.text.echoes`).

    when a turn is indexed      it is compared with the written memories of which it has enough clues, and with those beside it (`put`)
    when a memory is indexed    it is compared with the turns before it, which are found by its clues and read from the store (`catch_up`)

Guarantees: rows and text of a memory in one state give the same echoes, whatever was indexed first; at most `_MOST_TURNS` turns of those that
were indexed before a memory, and `_MOST_MEMORIES` memories of one turn, are compared, of the memories with one clue the last `_MOST_SHARING`, and a term
of more than `_MOST_DOCUMENTS` is no clue to turns. So indexing takes time in proportion to the memories, also where thousands of them say the same.
Deleted memories and turns take part. A memory that another process has to compare is compared by the next one; an answer compares `MOST_AT_AN_ANSWER`,
one without a text only if no more are waiting.
"""

from __future__ import annotations

from zlib import compress, decompress

from smp_memory.index.query import TextQuery
from smp_memory.index.rows import POSITION_BITS, IndexBusy
from smp_memory.model.types import KINDS
from smp_memory.text.echoes import AFTER, BEFORE, FEWEST_CLUES, is_beside, statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from smp_memory.index.documents import IndexDocument
    from smp_memory.index.rows import PlacedRow, Rows
    from smp_memory.index.text import TextIndex
    from smp_memory.model.record import Record

    ReadRecords = Callable[[list[PlacedRow]], dict[int, Record | None]]

_MOST_TURNS = 20  # that share clues with a memory, the best by text
_MOST_MEMORIES = 10  # that share clues with a turn, those with the most
_MOST_SHARING = 100  # memories that share one clue: what more of them say is no clue
_MOST_DOCUMENTS = 5000
MOST_AT_AN_ANSWER = 40  # new memories, some milliseconds; the rest waits for maintenance or for the next answers
MOST_IN_BACKGROUND = 1000
_AT_ONCE = 200  # memories that are compared in one step
_TURNS = [[f"t{KINDS['conversation'].number}"]]
_TURN_DOCS = f"SELECT doc FROM wanted CROSS JOIN memory ON doc = wanted.no WHERE type = {KINDS['conversation'].number}"
_CLUES_OF_TERMS = f"""SELECT term, doc FROM wanted CROSS JOIN clue ON term = wanted.no
    WHERE doc >= ifnull((SELECT doc FROM clue AS later WHERE later.term = wanted.no ORDER BY doc DESC LIMIT 1 OFFSET {_MOST_SHARING - 1}), 0)"""
_FEW_TURNS = 20  # up to so many, their clues are looked up; for more, all clues are read


class EchoTable:
    """The echoes of one index, and what finding them takes."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._clues: dict[str, list[int]] | None = (
            None  # the docs of memories by term; read in the transaction that needs them
        )
        self._is_caught_up = False

    def forget(self) -> None:
        """Drop what is in RAM: a transaction begins or was rolled back, or memories were removed."""
        self._clues, self._is_caught_up = None, False

    def put(self, documents: Sequence[IndexDocument]) -> None:
        """Add what new memories state, and the echoes among new turns."""
        written = {document.row[0]: document.statement for document in documents if document.statement}
        if written:
            self._put_statements(written)
        turns = {document.row[0]: document for document in documents if document.said}
        if not turns:
            return
        found, first, last = self._sharing_clues(turns), documents[0].row[0], documents[-1].row[0]
        for doc in turns:
            for near in (*range(doc - AFTER, doc), *range(doc + 1, doc + BEFORE + 1)):
                if near in written or not first <= near <= last:
                    found.setdefault(doc, set()).add(near)
        known = self._known({memory for memories in found.values() for memory in memories}) if found else {}
        pairs = [(doc, memory) for doc, memories in found.items() for memory in memories if memory in known]
        self._compare((doc, turns[doc].said, memory, known[memory]) for doc, memory in pairs)

    def _put_statements(self, written: dict[int, str]) -> None:
        clues = [(clue, doc) for doc, text in written.items() for clue in statement(text).clues]
        packed = [(doc, packed_text(text)) for doc, text in written.items()]
        self._rows.do_many("INSERT OR REPLACE INTO statement VALUES (?,?)", packed)
        self._rows.do_many("INSERT OR IGNORE INTO clue VALUES (?,?)", clues)
        self._rows.do_many("INSERT OR IGNORE INTO uncompared VALUES (?)", [(doc,) for doc in written])
        self._is_caught_up = False
        if self._clues is not None:
            _add(self._clues, clues)

    def _sharing_clues(self, turns: dict[int, IndexDocument]) -> dict[int, set[int]]:
        """By turn the memories of which it has enough clues."""
        by_term = self._clues
        if by_term is None:
            by_term = {}
            if len(turns) <= _FEW_TURNS:
                terms = {term for turn in turns.values() for term in turn.terms.split()}
                _add(by_term, self._rows.of(_CLUES_OF_TERMS, list(terms)))
            else:
                self._clues = by_term
                _add(by_term, self._rows.each("SELECT term, doc FROM clue"))
        found = {}
        for doc, turn in turns.items() if by_term else ():
            shared = {term for term in turn.terms.split() if term in by_term}
            if len(shared) >= FEWEST_CLUES:
                counts: dict[int, int] = {}
                for term in shared:
                    for memory in by_term[term][-_MOST_SHARING:]:
                        counts[memory] = counts.get(memory, 0) + 1
                best = [memory for memory, count in counts.items() if count >= FEWEST_CLUES]
                if best:
                    found[doc] = set(sorted(best, key=lambda memory: (-counts[memory], memory))[:_MOST_MEMORIES])
        return found

    def _known(self, docs: Iterable[int]) -> dict[int, str]:
        """The texts of those of these docs that are written memories."""
        found = self._rows.of("SELECT doc, text FROM wanted CROSS JOIN statement ON doc = wanted.no", list(docs))
        return {doc: unpacked_text(data) for doc, data in found}

    def _compare(self, pairs: Iterable[tuple[int, str, int, str]]) -> None:
        """Add those of these turns and memories that are echoes."""
        found = []
        for doc, said, memory, stated in pairs:
            beside = doc >> POSITION_BITS == memory >> POSITION_BITS and is_beside(memory, doc)
            score = statement(stated).score(said, beside=beside)
            if score:
                found.append((doc, memory, score))
        if found:
            self._rows.do_many("INSERT OR REPLACE INTO echo VALUES (?,?,?)", found)

    # -- turns that were indexed before a memory

    def has_more_than(self, most: int) -> bool:
        """Whether more new memories than this wait to be compared."""
        if self._is_caught_up:
            return False
        return bool(self._rows.one("SELECT count(*) FROM (SELECT 1 FROM uncompared LIMIT ?)", (most + 1,)) > most)

    def catch_up(self, text: TextIndex, read: ReadRecords, most: int | None = None) -> None:
        """Compare new memories, or `most` of them, with the turns before them; `read` gives records. While another process writes, the next call does it."""
        if self._is_caught_up:
            return
        left = most if most is not None else self._rows.one("SELECT count(*) FROM uncompared")
        try:
            while docs := self._rows.all("SELECT doc FROM uncompared LIMIT ?", (min(left, _AT_ONCE),)):
                left -= len(docs)
                text.refresh()
                self._rows.begin()
                self._compare_with_older(text, [doc for (doc,) in docs], read)
                self._rows.do_many("DELETE FROM uncompared WHERE doc = ?", docs)
                self._rows.commit()
            self._is_caught_up = left > 0 or self._rows.one("SELECT 1 FROM uncompared") is None
        except IndexBusy:
            pass
        except BaseException:
            self._rows.roll_back()
            raise

    def _compare_with_older(self, text: TextIndex, docs: list[int], read: ReadRecords) -> None:
        known = self._known(docs)
        turns: dict[int, list[int]] = {}  # by memory
        for doc in docs:
            clues = statement(known[doc]).clues if doc in known else ()
            clues = tuple(term for term in clues if text.document_frequency(term) <= _MOST_DOCUMENTS)
            query = TextQuery(clues, labels=_TURNS, at_least=FEWEST_CLUES)
            best = text.search(query, _MOST_TURNS) if len(clues) >= FEWEST_CLUES else ()
            turns[doc] = [*(each.doc for each in best), *range(doc - BEFORE, doc), *range(doc + 1, doc + AFTER + 1)]
        every = list({turn for found in turns.values() for turn in found})
        every = [turn for (turn,) in self._rows.of(_TURN_DOCS, every)]
        records = read(self._rows.places(every))
        said = {turn: record.text for turn, record in records.items() if record is not None}
        self._compare(
            (turn, said[turn], memory, known[memory])
            for memory, found in turns.items()
            for turn in found
            if turn in said and memory in known
        )


def packed_text(text: str) -> bytes:
    """A text as rows have it. Plain, it would look like a copy that an erasure of another memory left."""
    return compress(text.encode(errors="surrogatepass"), 1)


def unpacked_text(data: bytes) -> str:
    return decompress(data).decode(errors="surrogatepass")


def _add(by_term: dict[str, list[int]], clues: Iterable[tuple[str, int]]) -> None:
    for term, doc in clues:
        by_term.setdefault(term, []).append(doc)
