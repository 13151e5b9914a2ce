"""Queries against one state of an `index.Index`, in the terms of the search path; for any backend that keeps such an index.

A searcher serves one query: it represents the index as it was when the query began. The records come from the backend.
"""

from __future__ import annotations

from smp_memory.index.counting import count_matches, count_rows, empty
from smp_memory.index.documents import AUTHOR_SHIFT
from smp_memory.index.embeddings import ModelUnavailable
from smp_memory.index.query import (
    RowConditions,
    RowSelection,
    TextMatch,
    TextQuery,
    is_loose,
    only_docs,
    text_matches,
)
from smp_memory.index.rows import POSITION_BITS, Row
from smp_memory.index.validity import all_not_valid, not_valid
from smp_memory.model.reports import Problem
from smp_memory.model.types import KINDS
from smp_memory.observe import incomplete
from smp_memory.store.access_counts import add_counts
from smp_memory.store.succession import Successions
from smp_memory.store.unreadable import load_problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from smp_memory.index.index import Index
    from smp_memory.index.query import MatchColumns
    from smp_memory.index.tokenizer import ParsedText
    from smp_memory.model.hits import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.store.access_counts import AccessCount, PendingAccesses
    from smp_memory.store.port import SearchCriteria

    ReadRecords = Callable[[Index, Iterable[Row], dict[str, LeftOut]], dict[int, Record | None]]

FALL_BACK = (ModelUnavailable, ImportError, OSError, ValueError)  # without embeddings the search uses terms alone
_MAX_COMPARED = 5000  # up to so many memories are compared with the query vector one by one
_FETCHED_MORE = 30  # matches, of which some may have expired
_SPARE = 4  # factor of candidates fetched where some may not meet the conditions
_TURN, _FINDING = KINDS["conversation"].number, KINDS["finding"].number
_TURNS = f"SELECT doc, 0.0, created, facts FROM wanted CROSS JOIN memory ON doc = wanted.no WHERE type = {_TURN}"
_LAST_WRITTEN = "SELECT wanted.no, last FROM wanted CROSS JOIN session ON session.no = wanted.no"
_ENDS = f"SELECT s.id, size, m.id FROM session s LEFT JOIN memory m ON m.doc = (no << {POSITION_BITS} | (size - 1))"
_ALL_ACCESSES = f"""SELECT s.id, m.id, a.count, a.last FROM access a JOIN memory m ON m.doc = a.doc
    JOIN session s ON s.no = a.doc >> {POSITION_BITS}"""
_USAGE = f"""SELECT s.id, s.size, s.last, (SELECT max(a.last) FROM access a
    WHERE a.doc >= s.no << {POSITION_BITS} AND a.doc < (s.no + 1) << {POSITION_BITS}) FROM session s"""  # a constant
_WITH_DELETED = f"SELECT id FROM session WHERE no IN (SELECT DISTINCT doc >> {POSITION_BITS} FROM memory WHERE deleted)"
_WISHES = "wish CROSS JOIN memory ON doc = turn"  # in this order, because few turns are wishes
_SUPERSEDED = f"""SELECT memory.doc FROM succession old CROSS JOIN session ON session.id = old.session
    CROSS JOIN memory ON memory.doc >> {POSITION_BITS} = +session.no AND memory.id = old.id"""
_ORDERS = {"newest": "created DESC, doc DESC", "oldest": "created, doc"}


class Searcher:
    """Search operations over rows, text, vectors, relations and access counts."""

    _pending: dict[int, AccessCount] | None = None  # accesses that the index has not counted yet, by doc

    def __init__(self, index: Index, pending: PendingAccesses, read: ReadRecords) -> None:
        """`pending`: the accesses that the index has not counted; `read` returns the records of rows."""
        self._uncounted = pending
        self._read = read
        self._index = self.index = index
        self._rows = index.rows
        self.left_out: dict[str, LeftOut] = {}  # sessions that were archived or deleted during the query
        self._left_out: set[int] = set()  # matches that do not hold at the time of the query
        self._filled: dict[str, bool] = {}  # tables that most stores have no rows in

    def problems(self, sessions: Iterable[str] | None, allows: Callable[[str], bool] | None = None) -> list[Problem]:
        """Unreadable entries of these sessions (None: all); `allows` restricts them to the sessions of the answer."""
        found = load_problems(self._rows, sessions)
        if not found:
            return []
        return incomplete.report(
            [each for name, problems in found.items() if allows is None or allows(name) for each in problems]
        )

    # -- conditions, in the index's numbers

    def conditions(self, query: SearchCriteria) -> RowConditions:
        conditions = RowConditions()
        conditions.sessions = None if query.sessions is None else self.session_numbers(query.sessions)
        conditions.types = [KINDS[name].number for name in query.types]
        if query.agents:
            found = [self._rows.known_number(name) for name in query.agents]
            conditions.agents = [number for number in found if number is not None]
        conditions.tags, conditions.all_tags, conditions.not_tags = query.tags, query.all_tags, query.not_tags
        conditions.topics = [] if query.topic_in_text else query.topics
        if query.time is not None:
            conditions.since, conditions.until = query.time.start, query.time.end
        conditions.min_importance, conditions.min_confidence = query.min_importance, query.min_confidence
        conditions.confidence, conditions.pinned = query.confidence, query.pinned
        conditions.include_deleted = bool(query.include_deleted)
        conditions.valid_at = query.valid_at if query.valid_at is not None and self._has("validity") else None
        if query.references:
            conditions.docs = self._referring(query.references, query.scope, query.depth)
        if query.related_to:
            related = set(self.related(query.related_to, query.scope, query.depth, query.kinds))
            conditions.docs = related if conditions.docs is None else conditions.docs & related
        return conditions

    def session_numbers(self, names: Iterable[str]) -> list[int]:
        """The numbers of those sessions that are in the index."""
        found = [self._rows.one("SELECT no FROM session WHERE id = ?", (name,)) for name in names]
        return [number for number in found if number is not None]

    # -- text

    def search(self, text: ParsedText, conditions: RowConditions, limit: int, rarity: float) -> list[TextMatch]:
        """The best matches of a text that meet the conditions that are labels, best first."""
        text_query = _text_query(text, conditions, rarity)
        if conditions.valid_at is None:
            return self._index.text.search(text_query, limit)
        return self._only_valid(text_query, conditions.valid_at, limit)

    def all_matches(self, text: ParsedText, conditions: RowConditions) -> MatchColumns:
        """All matches of a text that meet the conditions that are labels, in any order."""
        found = self._index.text.all_matches(_text_query(text, conditions, 0.0))
        wrong = self.not_valid(found.docs, conditions.valid_at) if conditions.valid_at is not None else set()
        self._left_out |= wrong
        return only_docs(found, lambda doc: doc not in wrong) if wrong else found

    def _only_valid(self, query: TextQuery, at: int, limit: int) -> list[TextMatch]:
        """The best matches that hold at a time: what does not is no candidate, and takes no place of one."""
        fetched = limit + _FETCHED_MORE
        while True:
            found = self._index.text.search(query, fetched)
            wrong = self.not_valid([each.doc for each in found], at)
            left = [each for each in found if each.doc not in wrong] if wrong else found
            self._left_out |= wrong
            if len(left) >= limit or len(found) < fetched:
                return left[:limit]
            fetched *= 4

    # -- vectors, if there is an embedding model

    @property
    def has_vectors(self) -> bool:
        return self._index.vectors is not None

    def vector(self, text: str) -> Any:
        """The embedding of a text; None without a model."""
        embedder, vectors = self._index.embedder, self._index.vectors
        if embedder is None or vectors is None:
            return None
        try:
            return embedder.embed([text])
        except FALL_BACK as error:
            self._index.leave_vectors(error)
            return None

    @property
    def warnings(self) -> list[str]:
        """Why memories are not searched by meaning although there is an embedding model."""
        return [self._index.vector_failure] if self._index.vector_failure else []

    def nearest(self, vector: Any, conditions: RowConditions, limit: int) -> dict[int, Row]:
        """The memories nearest to a vector that meet all conditions, best first."""
        vectors = self._index.vectors
        if vectors is None or conditions.is_impossible:
            return {}
        docs = self._docs_if_few(conditions) if conditions.is_narrow else None
        if conditions.is_narrow and docs is None and conditions.has_label_conditions:
            return {}
        spare = 1 if docs is not None else _SPARE if conditions.is_narrow else 1.2
        found = [doc for doc, _ in vectors.nearest(vector, int(spare * limit), docs)]
        rows = self.rows(found)
        near = [rows[doc] for doc in found if doc in rows]
        if conditions.valid_at is not None:
            wrong = self.not_valid(found, conditions.valid_at)
            near = [row for row in near if row.doc not in wrong]
        if docs is None:
            near = [row for row in near if conditions.admits(row) and conditions.meets_bounds(row)]
        return {row.doc: row for row in near[:limit]}

    def _docs_if_few(self, conditions: RowConditions) -> list[int] | None:
        """All documents that meet the conditions, if they are few; else None."""
        selection = RowSelection(self._rows, conditions)
        found = self._rows.all(
            f"SELECT doc FROM memory WHERE {selection.where} LIMIT {_MAX_COMPARED + 1}", selection.values
        )
        return [doc for (doc,) in found] if len(found) <= _MAX_COMPARED else None

    def similarities(self, vector: Any, docs: Sequence[int]) -> dict[int, float]:
        """Cosine similarity of these documents to a vector, 0 to 1."""
        return self._index.vectors.cosines(vector, docs) if self._index.vectors is not None else {}

    # -- rows

    def select(self, conditions: RowConditions, order: str, limit: int, offset: int = 0) -> list[Row]:
        """Rows that meet all conditions, by time; a limit of -1 means all."""
        if conditions.is_impossible:
            return []
        selection = RowSelection(self._rows, conditions)
        return self._rows.select(selection.where, selection.values, _ORDERS[order], limit, offset)

    def select_wishes(self, conditions: RowConditions, limit: int) -> list[Row]:
        """Turns of users that are standing instructions and meet the conditions, the newest first."""
        if conditions.is_impossible:
            return []
        selection = RowSelection(self._rows, conditions)
        return self._rows.select(selection.where, selection.values, "said DESC, turn DESC", limit, source=_WISHES)

    def rows(self, docs: Sequence[int]) -> dict[int, Row]:
        return self._rows.by_docs(docs)

    def turns(self, docs: Sequence[int], conditions: RowConditions) -> list[TextMatch]:
        """Those of these memories that are turns and meet the conditions, as text matches without any term."""
        found = self._rows.of(_TURNS if conditions.include_deleted else f"{_TURNS} AND deleted IS NULL", docs)
        turns = text_matches(found)
        if conditions.valid_at is not None:
            wrong = self.not_valid(docs, conditions.valid_at)
            turns = [each for each in turns if each.doc not in wrong]
        if conditions.is_narrow:
            turns = [
                each
                for each in turns
                if conditions.admits_values(each.doc, _TURN, each.facts >> AUTHOR_SHIFT, each.created)
            ]
        return turns

    def row(self, session: str, id: str) -> Row | None:
        known = self._rows.session(session)
        return self._rows.by_id(known.number, id) if known is not None else None

    def document_frequency(self, term: str) -> int:
        return self._index.text.document_frequency(term)

    def corrected(self, word: str, term: str, is_name: bool) -> str | None:
        """A known term for a word with one typing error."""
        return self._index.text.corrected(word, term, is_name)

    @property
    def documents(self) -> int:
        return self._index.text.documents

    def author(self, number: int | None) -> str:
        return self._rows.name_of(number) if number else ""

    def accesses(self, docs: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Access counts of memories, including accesses that the index has not counted yet."""
        found = self._rows.of("SELECT doc, count, last FROM wanted CROSS JOIN access ON doc = wanted.no", docs)
        accesses = {doc: (count, last) for doc, count, last in found}
        if self._pending is None:
            self._pending = self._uncounted.by_doc(self._rows)
        if self._pending:
            for doc in self._pending.keys() & set(docs):
                accesses[doc] = add_counts(accesses.get(doc), self._pending[doc])
        return accesses

    def all_accesses(self) -> dict[str, AccessCount]:
        """Access counts of all memories that were ever accessed, by `session/ID`."""
        found = {f"{session}/{id}": (count, last) for session, id, count, last in self._rows.each(_ALL_ACCESSES)}
        for name, count in self._uncounted.by_name(self._rows).items():
            found[name] = add_counts(found.get(name), count)
        return found

    def last_written(self, docs: Iterable[int]) -> dict[int, int]:
        """When the sessions of these memories were last written, by number."""
        numbers = {doc >> POSITION_BITS for doc in docs}
        return dict(self._rows.of(_LAST_WRITTEN, list(numbers)))

    def session_usage(self) -> dict[str, tuple[int, int, int]]:
        """By session: number of memories, last write, last access; in microseconds, 0: never."""
        pending: dict[str, int] = {}
        for name, (_, last) in self._uncounted.by_name(self._rows).items():
            session = name.rpartition("/")[0]
            pending[session] = max(last, pending.get(session, 0))
        return {
            name: (size, last, max(used or 0, pending.get(name, 0)))
            for name, size, last, used in self._rows.all(_USAGE)
        }

    def sessions_with_deleted(self) -> list[str]:
        return [name for (name,) in self._rows.all(_WITH_DELETED)]

    def is_intact(self) -> bool:
        return bool(self._rows.one("PRAGMA quick_check") == "ok")

    def ends(self) -> dict[str, tuple[int, str | None]]:
        """By session: the number of allocated positions, and the id of the memory at the last one."""
        return {name: (size, last) for name, size, last in self._rows.each(_ENDS)}

    def ids_from(self, session: str, position: int = 0) -> dict[int, str]:
        """The ids of a session's memories from a position on."""
        known = self._rows.session(session)
        if known is None:
            return {}
        first = known.number << POSITION_BITS
        return dict(
            self._rows.each(
                "SELECT doc, id FROM memory WHERE doc >= ? AND doc < ?", (first | position, first | known.size)
            )
        )

    # -- counting

    def counts(
        self, fields: Sequence[str], conditions: RowConditions, matches: MatchColumns | None = None
    ) -> dict[str, dict[str, int]]:
        """How many memories meet the conditions, or are among these matches, by each of these fields."""
        if matches is not None:
            return count_matches(self._rows, fields, matches)
        if conditions.is_impossible:
            return empty(fields)
        selection = RowSelection(self._rows, conditions)
        return count_rows(self._rows, fields, selection.where, selection.values)

    # -- relations

    def related(
        self, names: Iterable[str], scope: str, depth: int, kinds: Sequence[str] = ()
    ) -> dict[int, tuple[int, str, int]]:
        """All memories up to `depth` steps away in either direction: doc -> (steps, kind, the doc it was reached from)."""
        edge: list[int] = []
        for name in names:
            row = self.row(*_split(name, scope))
            if row is not None:
                edge.append(row.doc)
        seen = set(edge)
        found: dict[int, tuple[int, str, int]] = {}
        for step in range(1, depth + 1):
            reached: list[int] = []
            for doc in edge:
                for kind, other in self._neighbours(doc):
                    if other not in seen and (not kinds or kind in kinds):
                        seen.add(other)
                        found[other] = (step, kind, doc)
                        reached.append(other)
            edge = reached
        return found

    def _neighbours(self, doc: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for kind, session, target in self._rows.all(
            "SELECT kind, session, target FROM relation WHERE source = ?", (doc,)
        ):
            row = self.row(session, target)
            if row is not None:
                found.append((kind, row.doc))
        own = self._rows.all("SELECT id FROM memory WHERE doc = ?", (doc,))
        if own:
            found += self._sources(self.session_of(doc), own[0][0])
        return found + self._of_same_turn(doc)

    def _referring(self, names: Iterable[str], scope: str, depth: int) -> set[int]:
        """Memories that refer to one of these, directly or over up to `depth` steps."""
        found: set[int] = set()
        edge = [_split(name, scope) for name in names]
        for _ in range(depth):
            new = {doc for session, id in edge for _, doc in self._sources(session, id)} - found
            found |= new
            edge = [name for name in (_split(self.ref(doc), "") for doc in new) if self.row(*name) is not None]
        return found

    def _of_same_turn(self, doc: int) -> list[tuple[str, int]]:
        """The other findings of the turn to which a finding belongs (design 003)."""
        own = self._rows.all("SELECT session, target FROM relation WHERE source = ? AND kind = 'turn'", (doc,))
        if not own or self._rows.one("SELECT type FROM memory WHERE doc = ?", (doc,)) != _FINDING:
            return []
        found = self._rows.all(
            "SELECT source FROM relation JOIN memory ON doc = source "
            "WHERE session = ? AND target = ? AND kind = 'turn' AND type = ? AND source != ?",
            (*own[0], _FINDING, doc),
        )
        return [("same_turn", other) for (other,) in found]

    def _sources(self, session: str, id: str) -> list[tuple[str, int]]:
        """Kind and doc of the memories that refer to a memory."""
        found = self._rows.all("SELECT kind, source FROM relation WHERE session = ? AND target = ?", (session, id))
        return [(kind, doc) for kind, doc in found]

    # -- all labels, relations and ends of validity, for statistics

    def labels(self, conditions: RowConditions) -> list[tuple[int, str]]:
        """The doc and each tag or topic of the memories that meet the conditions; each pair once."""
        where, values = self._where(conditions)
        both = (
            f"SELECT doc, tag FROM tag WHERE doc IN ({where}) UNION SELECT doc, topic FROM topic WHERE doc IN ({where})"
        )
        return self._rows.all(both, [*values, *values])

    def relations(self, conditions: RowConditions) -> list[tuple[int, str, str, str]]:
        """The relations of the memories that meet the conditions: doc, kind, session and id of the target."""
        where, values = self._where(conditions)
        return self._rows.all(f"SELECT source, kind, session, target FROM relation WHERE source IN ({where})", values)

    def expiries(self, conditions: RowConditions, since: int, until: int) -> list[tuple[int, int]]:
        """The memories that meet the conditions and cease to hold in this range: doc and time, the next first."""
        where, values = self._where(conditions)
        sql = f"SELECT doc, until FROM validity WHERE until >= ? AND until < ? AND doc IN ({where}) ORDER BY until, doc"
        return self._rows.all(sql, [since, until, *values])

    def _where(self, conditions: RowConditions) -> tuple[str, list[Any]]:
        """The docs of the memories that meet the conditions, as a subquery with its values."""
        if conditions.is_impossible:
            return "SELECT doc FROM memory WHERE 0", []
        selection = RowSelection(self._rows, conditions)
        return f"SELECT doc FROM memory WHERE {selection.where}", selection.values

    def session_of(self, doc: int) -> str:
        return self._rows.session_name(doc >> POSITION_BITS) or ""

    def ref(self, doc: int) -> str:
        """The name of a memory as `session/ID`."""
        row = self.rows([doc]).get(doc)
        return f"{self.session_of(doc)}/{row.id if row is not None else ''}"

    # -- records

    def records(self, rows: Iterable[Row]) -> dict[int, Record | None]:
        """The records of these rows, as the backend has them now."""
        return self._read(self._index, rows, self.left_out)

    # -- what a viewer may see: everything, see `store.visible_index`

    def select_visible(self, conditions: RowConditions, order: str, limit: int) -> list[Row]:
        return self.select(conditions, order, limit)

    def is_visible(self, row: Row) -> bool:
        return True

    # -- what holds at a time

    def _has(self, table: str) -> bool:
        if table not in self._filled:
            self._filled[table] = self._rows.one(f"SELECT 1 FROM {table} LIMIT 1") is not None
        return self._filled[table]

    def not_valid(self, docs: Sequence[int], at: int, *, only_later: bool = False) -> set[int]:
        """Those of these memories that have expired or do not hold yet; or only the latter."""
        return not_valid(self._rows, docs, at, only_later=only_later) if self._has("validity") else set()

    def not_valid_count(self, conditions: RowConditions, *, by_text: bool) -> int:
        """How many memories were left out as not valid: matches of the searches so far, or all that meet the conditions."""
        if conditions.valid_at is None:
            return 0
        docs = self._left_out if by_text else all_not_valid(self._rows, conditions)
        return len(self._visible_docs(docs)) if docs else 0

    def _visible_docs(self, docs: set[int]) -> set[int]:
        return docs

    @property
    def has_successions(self) -> bool:
        return self._has("succession")

    def successors(
        self, rows: Iterable[Row], at: int | None = None, allows: Callable[[str], bool] | None = None
    ) -> dict[int, list[Row]]:
        """By doc the memories that took the place of these, the newest first; only memories that have some."""
        return Successions(self._rows, self, at, allows).successors(rows) if self.has_successions else {}

    def superseded(self) -> set[int]:
        """The docs of all memories that others say they supersede, whether or not that counts."""
        return {doc for (doc,) in self._rows.each(_SUPERSEDED)} if self.has_successions else set()

    def is_superseded(self, record: Record, at: int | None = None) -> bool:
        """Whether a memory took the place of this one."""
        row = self.row(record.session, record.id) if self.has_successions else None
        return row is not None and bool(self.successors([row], at))

    def may_supersede(self, new: Row, old: Row) -> bool:
        """Whether the author of a new memory could see the old one, if that matters to the viewer."""
        return True


def _text_query(text: ParsedText, conditions: RowConditions, rarity: float) -> TextQuery:
    return TextQuery(
        text.words,
        text.phrases,
        text.patterns,
        text.excluded,
        [each for each in text.excluded_patterns if not is_loose(each)],  # endings are checked in the records
        conditions.labels(),
        conditions.without(),
        conditions.since,
        conditions.until,
        rarity,
        text.characters,
        text.corrected,
    )


def _split(name: str, scope: str) -> tuple[str, str]:
    session, _, id = name.rpartition("/")
    return session or scope, id
