"""Read candidates from one state of an `Index`, as one viewer may see it.

A searcher serves one state: it represents the index as it was when a snapshot began. Its methods work with *docs*, the index's numbers of
memories; names become docs in `conditions` and docs become names in `candidates`.

Guarantees: a hidden memory is not returned, not counted, not traversed along relations, takes nobody's place in a limit, and cannot be
distinguished from one that does not exist.
Non-guarantees: the frequencies of terms that many memories have, and the number of memories, include hidden ones, so scores may differ
slightly because of them. Memories outside of the viewer's sessions are in no figure but the mean length of a memory.
"""

from __future__ import annotations

from collections import namedtuple
from functools import partial

from smp_memory.index.access_counts import add_counts, docs_of
from smp_memory.index.counting import CountsWithin
from smp_memory.index.query import (
    NOT_VALID,
    RowConditions,
    RowSelection,
    TextMatch,
    in_sessions,
    only_docs,
    text_query,
)
from smp_memory.index.relations import RelationGraph
from smp_memory.index.rows import AUTHOR_SHIFT, POSITION_BITS
from smp_memory.model.candidates import (
    GUARDED,
    LABELS,
    LATEST,
    NEWER,
    NEWEST,
    OLDEST,
    PROBLEMS,
    RELATIONS,
    REPEATED,
    TRAITS,
    VALIDITY,
    Candidate,
)
from smp_memory.model.candidates import NOT_VALID as NOT_VALID_COUNT
from smp_memory.model.types import KINDS, NUMBERED
from smp_memory.text.tokenizer import ParsedText
from smp_memory.text.wildcards import RARITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any, NamedTuple

    from smp_memory.index.access_counts import AccessCount, PendingAccesses
    from smp_memory.index.index import Index
    from smp_memory.index.query import MatchColumns
    from smp_memory.index.rows import PlacedRow
    from smp_memory.index.text import Counts
    from smp_memory.model.candidates import CandidateRequest, LeftOut
    from smp_memory.model.record import Record
    from smp_memory.privacy.visibility import Viewer

    ReadRecords = Callable[[Index, Iterable[Any], dict[str, LeftOut]], dict[int, Record | None]]

    class FoundRow(NamedTuple):
        """The row of a memory, and its uses."""

        doc: int
        id: str
        type: int
        created: int
        updated: int | None
        author: int | None
        importance: float | None
        confidence: float | None
        pinned: int | None
        deleted: int | None
        status: str | None
        severity: str | None
        impact: str | None
        approved: int | None
        facts: int
        uses: int | None
        last_use: int | None
        places: str

else:
    FoundRow = namedtuple(
        "FoundRow",
        "doc id type created updated author importance confidence pinned deleted status severity impact approved facts uses last_use places",
    )

_FETCHED_MORE = 30  # matches, of which some may have expired
_RARE = 10  # memories: a term that so few have is counted among visible ones
_BLOCK = 64  # rows read at once to find visible ones
_POSITION = (1 << POSITION_BITS) - 1
_TYPE = 15  # bits of `facts`
_FIELDS = """memory.doc, memory.id, type, created, updated, author, importance, confidence, pinned, deleted, status, severity, impact, approved,
    facts, uses, last_use, places"""
_USES = "LEFT JOIN (SELECT doc AS used, count AS uses, last AS last_use FROM access) ON used = memory.doc"
_OF_DOCS = f"SELECT {_FIELDS} FROM wanted CROSS JOIN memory ON memory.doc = wanted.no {_USES}"
_WISHES = f"wish CROSS JOIN memory ON memory.doc = turn {_USES}"  # in this order, because few turns are wishes
_SESSIONS = "SELECT wanted.no, session.id, last FROM wanted CROSS JOIN session ON session.no = wanted.no"
_BOUNDS = "SELECT no, since, until FROM wanted CROSS JOIN validity ON doc = wanted.no"
_SUPERSEDED = f"""SELECT memory.doc FROM succession old CROSS JOIN session ON session.id = old.session
    CROSS JOIN memory ON memory.doc >> {POSITION_BITS} = +session.no AND memory.id = old.id"""
_ORDERS = {NEWEST: "created DESC, memory.doc DESC", OLDEST: "created, memory.doc"}
_row = partial(tuple.__new__, FoundRow)
_candidate = partial(tuple.__new__, Candidate)
_EMPTY: Mapping[int, float] = {}
_NOTHING_MORE = frozenset(
    (NEWER, NOT_VALID_COUNT, PROBLEMS, REPEATED)
)  # of `fetch`: what is not about a single candidate


class Searcher:
    """One state of an index for one viewer."""

    def __init__(self, index: Index, pending: PendingAccesses, read: ReadRecords, viewer: Viewer | None) -> None:
        """`pending`: the accesses that the index has not counted; `read` returns the records of rows."""
        self.index = index
        self.rows = index.rows
        self.viewer = viewer
        self._uncounted = pending
        self._read = read
        self._pending: dict[str, AccessCount] | None = None  # accesses that the index has not counted yet, by ref
        self._hidden: dict[int, bool] = {}  # by doc, of memories with a visibility of their own
        self._frequencies: dict[str, int] = {}
        self._known: dict[int, FoundRow] = {}  # rows of candidates, by doc
        self._within: frozenset[int] | None = None  # the numbers of the viewer's sessions; None: all
        if viewer is not None and viewer.sessions is not None:
            self._within = frozenset(self._session_numbers(viewer.sessions))
        # The figures of the corpus that weigh terms: of a viewer with sessions of its own, those of these sessions.
        self.counts: Counts = index.text if self._within is None else CountsWithin(index, self._within)

    def _session_numbers(self, names: Collection[str]) -> list[int]:
        found = dict(
            self.rows.of("SELECT id, session.no FROM wanted CROSS JOIN session ON id = wanted.no", list(names))
        )
        return [found[name] for name in names if name in found]

    @property
    def relations(self) -> RelationGraph:
        return RelationGraph(self.rows, self.refs, None if self.viewer is None else self.visible)

    def has(self, table: str) -> bool:
        """Whether a table that is empty in most stores has rows."""
        known = self.index.filled.get(table)
        if known is None:
            known = self.index.filled[table] = self.rows.one(f"SELECT 1 FROM {table} LIMIT 1") is not None
        return known

    # -- names and docs

    def session_of(self, doc: int) -> str:
        return self.rows.session_of(doc) or ""

    def doc(self, ref: str, scope: str = "") -> int | None:
        """The doc of a visible memory, `session/ID`; names without a session belong to `scope`."""
        session, _, id = ref.rpartition("/")
        name = f"{session or scope}/{id}"
        found = docs_of([name], self.rows)[name]
        return found if found is not None and found in self.visible([found]) else None

    def placed(self, wanted: Iterable[Candidate | str]) -> list[PlacedRow | FoundRow]:
        """These memories, as far as they are in the index; a candidate is at its position unless its session has changed."""
        at: dict[int, Candidate] = {}
        names: list[str] = []
        for each in wanted:
            if isinstance(each, str):
                names.append(each)
            elif (number := self.index.session_numbers.get(each.session)) is not None:
                at[number << POSITION_BITS | each.position] = each
            else:
                names.append(each.ref)
        known = self._known
        found: list[PlacedRow | FoundRow] = [known[doc] for doc in at if doc in known]
        if len(found) < len(at):
            found += self.rows.places([doc for doc in at if doc not in known])
        found = [row for row in found if row.id == at[row.doc].id]
        if len(found) < len(at):
            docs = {row.doc for row in found}
            names += [each.ref for doc, each in at.items() if doc not in docs]
        if names:
            found += self.rows.places([doc for doc in docs_of(names, self.rows).values() if doc is not None])
        return found

    def refs(self, docs: Sequence[int]) -> dict[int, str]:
        found = self.rows.of("SELECT doc, id FROM wanted CROSS JOIN memory ON doc = wanted.no", docs)
        return {doc: f"{self.session_of(doc)}/{id}" for doc, id in found}

    # -- visibility

    def visible(self, docs: Sequence[int]) -> set[int]:
        """Those of these memories that the viewer may see."""
        if self.viewer is None:
            return set(docs)
        facts = self.rows.of("SELECT doc, facts FROM wanted CROSS JOIN memory ON doc = wanted.no", docs)
        found: list[tuple[int, int]] = list(facts)
        return {doc for doc, _ in found} - self.hidden(found)

    def hidden(self, found: Iterable[tuple[int, int]]) -> set[int]:
        """The docs of those of these memories, given with their facts, that the viewer may not see."""
        if self.viewer is None:
            return set()
        outside: set[int] = set()
        if self._within is not None:
            found = list(found)
            outside = {doc for doc, _ in found if doc >> POSITION_BITS not in self._within}
        if self.viewer.sees_private:
            return outside
        guarded = [doc for doc, facts in found if facts & GUARDED and doc not in outside]
        unknown = [doc for doc in guarded if doc not in self._hidden]
        if unknown:
            records = self._read(self.index, self.rows.places(unknown), {})
            for doc in unknown:
                record = records.get(doc)
                self._hidden[doc] = record is None or not self.viewer.sees(record)
        return outside.union(doc for doc in guarded if self._hidden[doc])

    def visible_rows(self, rows: list[FoundRow]) -> list[FoundRow]:
        hidden = self.hidden((row.doc, row.facts) for row in rows)
        return [row for row in rows if row.doc not in hidden] if hidden else rows

    def may_supersede(self, new: FoundRow, old: FoundRow) -> bool:
        """Whether the author of a new memory could see the old one, if that matters: nobody hides a memory that is hidden from them."""
        if self.viewer is None or self.viewer.sees_private or not old.facts & GUARDED:
            return True
        record = self._read(self.index, self.rows.places([old.doc]), {}).get(old.doc)
        author = self.rows.name_of(new.author) if new.author else None
        return record is not None and self.viewer.sees(record) and type(self.viewer)(author or None).sees(record)

    # -- conditions, in the index's numbers

    def conditions(self, request: CandidateRequest) -> RowConditions:
        made = RowConditions()
        if request.sessions is not None:
            made.sessions = self._session_numbers(request.sessions)
        made.types = [KINDS[name].number for name in request.types]
        if request.authors:
            found = (self.rows.known_number(name) for name in request.authors)
            made.agents = [number for number in found if number is not None]
        made.tags, made.all_tags, made.not_tags = request.tags, request.all_tags, request.not_tags
        made.topics, made.since, made.until = request.topics, request.since, request.until
        made.changed_since = request.changed_since
        made.min_importance, made.min_confidence = request.min_importance, request.min_confidence
        made.confidence, made.pinned = request.confidence, request.pinned
        made.include_deleted, made.only_deleted = request.include_deleted, request.only_deleted
        made.valid_at = request.valid_at if request.valid_at is not None and self.has("validity") else None
        if request.refs is not None:
            made.docs = {doc for doc in docs_of(list(request.refs), self.rows).values() if doc is not None}
        if request.references:
            referring = self.relations.referring(request.references, request.scope, request.depth)
            made.docs = referring if made.docs is None else made.docs & referring
        if request.related_to:
            near = set(self.relations.related(request.related_to, request.scope, request.depth, request.kinds))
            made.docs = near if made.docs is None else made.docs & near
        return made

    # -- rows

    def fetch(self, docs: Sequence[int]) -> list[FoundRow]:
        """The rows of these memories, in this order; each is read once."""
        known = self._known
        missing = [doc for doc in docs if doc not in known]
        known.update([(row[0], row) for row in map(_row, self.rows.of(_OF_DOCS, missing))])
        return [known[doc] for doc in docs if doc in known]

    def select(
        self, conditions: RowConditions, order: str, limit: int | None, offset: int = 0, *, wishes: bool = False
    ) -> list[FoundRow]:
        """Visible rows that meet all conditions, by time."""
        if conditions.is_impossible or limit == 0:
            return []
        selection = RowSelection(self.rows, conditions, first_by_time=limit is not None)
        source = _WISHES if wishes else f"memory {_USES}"
        by = "said DESC, turn DESC" if wishes else _ORDERS[order]
        sql = f"SELECT {_FIELDS} FROM {source} WHERE {selection.where} ORDER BY {by} LIMIT ? OFFSET ?"

        def read(size: int, start: int) -> list[FoundRow]:
            return list(map(_row, self.rows.each(sql, (*selection.values, size, start))))

        if self.viewer is None or limit is None:
            return self.visible_rows(read(-1 if limit is None else limit, offset))
        found: list[FoundRow] = []
        start, end = 0, offset + limit
        while True:
            size = max(end - len(found), _BLOCK if start else 0)
            rows = read(size, start)
            found += self.visible_rows(rows)
            start += size
            if len(found) >= end or len(rows) < size:
                return found[offset:end]

    def select_docs(self, conditions: RowConditions, docs: Collection[int]) -> set[int]:
        """Those of these memories that meet the conditions."""
        if not docs or conditions.is_impossible:
            return set()
        before = conditions.docs
        conditions.docs = set(docs) if before is None else before & set(docs)
        try:
            selection = RowSelection(self.rows, conditions)
        finally:
            conditions.docs = before
        sql = f"SELECT doc FROM memory WHERE {selection.where}"
        return {doc for (doc,) in self.rows.each(sql, selection.values)}

    # -- candidates

    def candidates(
        self,
        rows: Sequence[FoundRow],
        matches: Mapping[int, float] = _EMPTY,
        meanings: Mapping[int, float] = _EMPTY,
        conditions: RowConditions | None = None,
        fetch: Collection[str] = (),
    ) -> list[Candidate]:
        """These rows by names; with `conditions`, rows that do not meet their bounds are marked."""
        sessions = self._sessions({row.doc >> POSITION_BITS for row in rows})
        self._known.update({row.doc: row for row in rows})
        name_of = self.rows.name_of
        authors: dict[int | None, str] = {None: ""}
        for number in {row.author for row in rows if row.author is not None}:
            authors[number] = name_of(number)
        if self._pending is None:
            self._pending = self._uncounted.by_name(self.rows)
        if self._pending:
            rows = list(map(self._with_pending, rows))
        bounded = conditions is not None and conditions.needs_rows
        found = [
            _candidate(
                (
                    sessions[doc >> POSITION_BITS][0], id, doc & _POSITION, NUMBERED[type], created, facts & TRAITS, authors[author],
                    matches.get(doc, 0.0), meanings.get(doc, 0.0), True, created if updated is None else updated, importance, confidence, pinned is not None,
                    deleted is not None, status, severity, impact, approved is not None, uses or 0, last_use,
                    sessions[doc >> POSITION_BITS][1], None, None, None, (), (), "",
                )
            )
            for doc, id, type, created, updated, author, importance, confidence, pinned, deleted, status, severity, impact,
                approved, facts, uses, last_use, _ in rows
        ]  # fmt: skip
        if bounded and conditions is not None:
            meets = conditions.meets_bounds
            found = [each if meets(row) else each._replace(meets=False) for each, row in zip(found, rows, strict=True)]
        return found if _NOTHING_MORE.issuperset(fetch) else self._with_more(found, rows, fetch)

    def brief_candidates(self, matches: Sequence[TextMatch], meanings: Mapping[int, float]) -> list[Candidate]:
        """Matches of a text with what a match tells: enough to score them all, before the rows of a few are read (`completed`)."""
        sessions = self._sessions({each.doc >> POSITION_BITS for each in matches})
        authors = {
            number: self.rows.name_of(number) for number in {each.facts >> AUTHOR_SHIFT for each in matches} if number
        }
        authors[0] = ""
        return [
            _candidate(
                (
                    sessions[doc >> POSITION_BITS][0], "", doc & _POSITION, NUMBERED[facts & _TYPE], created, facts & TRAITS,
                    authors[facts >> AUTHOR_SHIFT], match, meanings.get(doc, 0.0), True, None, None, None, None, None, None,
                    None, None, None, 0, None, sessions[doc >> POSITION_BITS][1], None, None, None, (), (), "",
                )
            )
            for doc, match, created, facts in matches
        ]  # fmt: skip

    def completed(self, brief: Sequence[Candidate], fetch: Collection[str]) -> list[Candidate]:
        """The same candidates with everything that the index knows of them."""
        numbers = self.index.session_numbers
        missing = {each.session for each in brief if each.session not in numbers}  # the index was rebuilt meanwhile
        if missing:
            known = {name: number for number, name in self.rows.session_names().items()}
            brief = [each for each in brief if each.session in known]
            numbers.update((name, known[name]) for name in missing if name in known)
        places = [numbers[each.session] << POSITION_BITS | each.position for each in brief]
        matches, meanings = {}, {}
        for doc, each in zip(places, brief, strict=True):
            matches[doc] = each.match
            if each.meaning:
                meanings[doc] = each.meaning
        return self.candidates(self.fetch(places), matches, meanings, None, fetch)

    def _sessions(self, numbers: Collection[int]) -> dict[int, tuple[str, int]]:
        """Name and last write of sessions, by number; of these and perhaps of others."""
        known = self.index.sessions
        missing = [number for number in numbers if number not in known]
        for number, name, last in self.rows.of(_SESSIONS, missing) if missing else ():
            known[number] = name, last
            self.index.session_numbers[name] = number
        return known

    def _with_pending(self, row: FoundRow) -> FoundRow:
        pending = self._pending.get(f"{self.session_of(row.doc)}/{row.id}") if self._pending else None
        if pending is None:
            return row
        count, last = add_counts((row.uses or 0, row.last_use or 0), pending)
        return row._replace(uses=count, last_use=last)

    def _with_more(self, found: list[Candidate], rows: Sequence[FoundRow], fetch: Collection[str]) -> list[Candidate]:
        docs = [row.doc for row in rows]
        if LATEST in fetch:
            found = [each._replace(latest=self._latest(row)) for each, row in zip(found, rows, strict=True)]
        if VALIDITY in fetch and self.has("validity"):
            bounds = {doc: (since, until) for doc, since, until in self.rows.of(_BOUNDS, docs)}
            found = [
                each._replace(valid_from=bounds[doc][0], valid_until=bounds[doc][1]) if doc in bounds else each
                for each, doc in zip(found, docs, strict=True)
            ]
        if LABELS in fetch:
            labels = self._labels(docs)
            found = [each._replace(labels=labels.get(doc, ())) for each, doc in zip(found, docs, strict=True)]
        if RELATIONS in fetch:
            stated = self._relations(docs)
            found = [each._replace(relations=stated.get(doc, ())) for each, doc in zip(found, docs, strict=True)]
        return found

    def _latest(self, row: FoundRow) -> tuple[int, int, int | None]:
        """The latest creation, change and use among a memory and those that it is related to; deleted ones do not count."""
        created, updated, used = row.created, row.updated or row.created, row.last_use
        for other in map(self._with_pending, self.fetch(list(self.relations.near([row.doc], 1)))):
            if other.deleted:
                continue
            created, updated = max(created, other.created), max(updated, other.updated or other.created)
            used = max(filter(None, (used, other.last_use)), default=None)
        return created, updated, used

    def _labels(self, docs: Sequence[int]) -> dict[int, list[str]]:
        found: dict[int, set[str]] = {}
        for table in ("tag", "topic"):
            rows = self.rows.of(f"SELECT doc, {table} FROM wanted CROSS JOIN {table} ON doc = wanted.no", docs)
            for doc, label in rows:
                found.setdefault(doc, set()).add(label)
        return {doc: sorted(labels) for doc, labels in found.items()}

    def _relations(self, docs: Sequence[int]) -> dict[int, list[tuple[str, str]]]:
        """Without those that point to a hidden memory: they would tell that it exists."""
        sql = "SELECT source, kind, session, target FROM wanted CROSS JOIN relation ON source = wanted.no"
        stated = [(doc, kind, f"{session}/{target}") for doc, kind, session, target in self.rows.of(sql, docs)]
        known = docs_of(list({target for _, _, target in stated}), self.rows) if self.viewer is not None else {}
        existing = [doc for doc in known.values() if doc is not None]
        hidden = set(existing) - self.visible(existing)
        found: dict[int, list[tuple[str, str]]] = {}
        for doc, kind, target in stated:
            if known.get(target) not in hidden:
                found.setdefault(doc, []).append((kind, target))
        return found

    # -- text

    def search(
        self, text: ParsedText, conditions: RowConditions, limit: int, not_valid: set[int] | None = None
    ) -> list[TextMatch]:
        """The best visible matches that meet the conditions that are labels, best first. `not_valid` gets those that are not valid.

        Hidden and invalid memories are removed before the limit is applied: the best match normalises all scores and brings its neighbours.
        """
        query = text_query(text, conditions, RARITY)
        fetched = limit if conditions.valid_at is None else limit + _FETCHED_MORE
        while True:
            found = left = self.index.text.search(query, fetched, self.counts)
            if conditions.valid_at is not None:
                wrong = self.not_valid([each.doc for each in found], conditions.valid_at)
                left = [each for each in found if each.doc not in wrong] if wrong else found
                if not_valid is not None:
                    not_valid |= wrong
            if self.viewer is not None:
                hidden = self.hidden((each.doc, each.facts) for each in left)
                left = [each for each in left if each.doc not in hidden] if hidden else left
            if len(left) >= limit or len(found) < fetched:
                return left[:limit]
            fetched *= 4

    def all_matches(self, text: ParsedText, conditions: RowConditions, not_valid: set[int]) -> MatchColumns:
        """All visible matches of a text that meet the conditions that are labels, in any order and without scores."""
        found = self.index.text.all_matches(text_query(text, conditions, 0.0))
        if conditions.valid_at is not None:
            wrong = self.not_valid(found.docs, conditions.valid_at)
            not_valid |= wrong
            found = only_docs(found, lambda doc: doc not in wrong) if wrong else found
        hidden = self.hidden(zip(found.docs, found.facts, strict=True)) if self.viewer is not None else ()
        return only_docs(found, lambda doc: doc not in hidden) if hidden else found

    def document_frequency(self, term: str) -> int:
        """The number of memories with a term. For a viewer, hidden and deleted ones do not count for a rare term: it must not be known
        by them alone."""
        known = self._frequencies.get(term)
        if known is None:
            known = self.counts.document_frequency(term)
            if self.viewer is not None and not self.viewer.sees_private and 0 < known <= _RARE:
                known = len(self.all_matches(ParsedText((term,)), in_sessions(self._within), set()).docs)
            self._frequencies[term] = known
        return known

    def not_valid(self, docs: Sequence[int], at: int, *, only_later: bool = False) -> set[int]:
        """Those of these memories that have expired or are not valid yet; or only the latter."""
        if not self.has("validity"):
            return set()
        return {
            doc
            for doc, since, until in self.rows.of(_BOUNDS, docs)
            if (since is not None and since > at) or (not only_later and until is not None and until <= at)
        }

    def count_not_valid(self, conditions: RowConditions) -> int:
        """How many visible memories meet the conditions but for `valid_at`."""
        at, conditions.valid_at = conditions.valid_at, None
        if at is None or conditions.is_impossible:
            return 0
        try:
            selection = RowSelection(self.rows, conditions)
        finally:
            conditions.valid_at = at
        sql = f"SELECT doc FROM validity WHERE {NOT_VALID} AND doc IN (SELECT doc FROM memory WHERE {selection.where})"
        return len(self.visible([doc for (doc,) in self.rows.all(sql, [at, at, *selection.values])]))

    # -- records

    def superseded(self) -> set[int]:
        """The docs of all memories that others say they supersede, whether or not that counts."""
        return {doc for (doc,) in self.rows.each(_SUPERSEDED)} if self.has("succession") else set()

    def records(self, wanted: Iterable[Candidate | str], gone: dict[str, LeftOut]) -> list[Record]:
        """The records of these memories that exist and are visible, as the backend has them now."""
        found = self._read(self.index, self.placed(wanted), gone).values()
        sees = self.viewer.sees if self.viewer is not None else None
        return [record for record in found if record is not None and (sees is None or sees(record))]
