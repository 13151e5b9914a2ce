"""Candidates for one request: by time, or by text with what is near in meaning, the turns beside, and successors.

Everything here works with docs and rows of one state of an index (`Searcher`).
"""

from __future__ import annotations

from itertools import islice

from smp_memory.index.counting import count_matches, empty
from smp_memory.index.embeddings import ModelUnavailable
from smp_memory.index.query import MatchColumns, RowConditions, RowSelection, TextMatch, only_docs, text_matches
from smp_memory.index.rows import AUTHOR_SHIFT, POSITION_BITS
from smp_memory.model.candidates import (
    NEAR_ENOUGH,
    NEWER,
    NOT_VALID,
    REPEATED,
    ROLE,
    VALIDITY,
    Candidates,
    Facets,
)
from smp_memory.model.statuses import HIDDEN_MEMORY, last_successors
from smp_memory.model.types import KINDS
from smp_memory.text.names import mistyped
from smp_memory.text.tokenizer import ParsedText, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from smp_memory.index.searcher import FoundRow, Searcher
    from smp_memory.index.vectors import Vectors
    from smp_memory.model.candidates import Candidate, CandidateRequest

FALL_BACK = (ModelUnavailable, ImportError, OSError, ValueError)  # without embeddings the search uses terms alone
NEAREST = 50  # so many of the best by meaning are added
EXPANDED = 10  # the turns around so many of the best, by text and by meaning, become candidates
_REACH = 2  # so many turns before and after a turn are around it
_MAX_COMPARED = 5000  # up to so many memories are compared with the query vector one by one
_SPARE = 4  # factor of candidates fetched where some may not meet the conditions
_AT_ONE_TIME = 1000  # memories that were created in the same microsecond, of which a text search returns the best
_MAX_NEAR = 1000
_MOST_STEPS = 200
_MOST_PAIRS = 1000  # old and new memories in one step
# `+`: with the affinity of the column SQLite would not use the index of `doc >> 24`
_EDGES = """SELECT old.session, old.id, memory.doc FROM wanted
    CROSS JOIN succession old ON old.session = place AND old.id = name
    CROSS JOIN session ON session.id = old.new_session
    CROSS JOIN memory ON memory.doc >> 24 = +session.no AND memory.id = old.new_id"""
# Of the memories that a turn repeats, one that is not deleted comes first, then the most alike, then the newest.
_ECHOES = """SELECT turn, deleted IS NOT NULL, -score, -created, doc, facts
    FROM wanted CROSS JOIN echo ON turn = wanted.no CROSS JOIN memory ON doc = echo.memory"""
_ALL = 1 << 30
_TURN = KINDS["conversation"].number
_TURNS = f"SELECT doc, 0.0, created, facts FROM wanted CROSS JOIN memory ON doc = wanted.no WHERE type = {_TURN}"


def candidates_by_time(searcher: Searcher, request: CandidateRequest, conditions: RowConditions) -> Candidates:
    rows = searcher.select(conditions, request.order, request.limit, request.offset, wishes=request.only_wishes)
    found = Candidates(searcher.candidates(rows, fetch=request.fetch))
    found.is_all = request.limit is None or len(rows) < request.limit
    if NOT_VALID in request.fetch:
        found.not_valid = searcher.count_not_valid(conditions)
    repeated = RepeatedMemories(searcher, request, [row.doc for row in rows])
    if repeated:
        found.matches = repeated.named(found.matches, [row.doc for row in rows])
        found.repeated = repeated.candidates(conditions)
    if NEWER in request.fetch and searcher.has("succession"):
        found.newer = _newer(searcher, request, conditions, [*rows, *repeated.rows])
    return found


def _newer(
    searcher: Searcher,
    request: CandidateRequest,
    conditions: RowConditions,
    rows: Sequence[FoundRow],
    vector: QueryVector | None = None,
) -> dict[str, list[Candidate]]:
    """By ref the memories that directly took its place, along whole chains; `meets` says whether they meet the conditions."""
    chains = SuccessionChains(searcher, rows, request.now)
    if not chains.newer:
        return {}
    new = list({doc: chains.rows[doc] for docs in chains.newer.values() for doc in docs}.values())
    admitted = searcher.select_docs(conditions, [row.doc for row in new])
    meanings = vector.similarities([row.doc for row in new]) if vector is not None else {}
    made = searcher.candidates(new, meanings=meanings, fetch=request.fetch)
    by_doc = {
        row.doc: each if row.doc in admitted else each._replace(meets=False)
        for row, each in zip(new, made, strict=True)
    }
    names = searcher.refs(list(chains.newer))
    return {names[old]: [by_doc[doc] for doc in docs] for old, docs in chains.newer.items()}


def columns_of(rows: Sequence[FoundRow | TextMatch]) -> MatchColumns:
    return MatchColumns([row.doc for row in rows], [row.created for row in rows], [row.facts for row in rows])


class TextCandidates:
    """The answer to a request with a text."""

    def __init__(
        self,
        searcher: Searcher,
        request: CandidateRequest,
        conditions: RowConditions,
        complete: Callable[[list[Candidate]], list[Candidate]] | None = None,
    ) -> None:
        """`complete` adds to some candidates what is left out of the others."""
        assert request.text is not None
        self._complete = complete
        self._searcher = searcher
        self._request = request
        self._conditions = conditions
        self._text = request.text
        self._corrected: dict[str, str] = {}
        self._not_valid: set[int] = set()
        self._vector: QueryVector | None = None
        if request.with_corrections and request.text.words:
            self._correct()

    def _correct(self) -> None:
        """Search known terms for unknown words, too; only terms of memories that meet the conditions: nothing is said about others."""
        searcher, text = self._searcher, self._text
        unknown = [word for word in text.words if not searcher.document_frequency(word)]
        for word, term, is_name in mistyped(self._request.words, frozenset(unknown)) if unknown else ():
            known = searcher.index.text.corrected(word.lower(), term, is_name, searcher.counts)
            if (
                known is not None
                and known not in text.words
                and searcher.search(ParsedText((known,)), self._conditions, 1, self._not_valid)
            ):
                self._corrected[word] = known
        if self._corrected:
            self._text = text._replace(corrected=tuple(dict.fromkeys(self._corrected.values())))

    def found(self) -> Candidates:
        searcher, request, text = self._searcher, self._request, self._text
        limit = _ALL if request.limit is None else request.limit
        matches = self._search(limit)
        is_all = len(matches) < limit
        if request.with_memory:
            matches = self._with_memory(matches)
        others, meanings = self._others(matches)
        if others and len(matches) > request.front:  # what was added stands with the front
            added = {each.doc for each in others}
            matches = matches[: request.front] + [each for each in matches[request.front :] if each.doc not in added]
        every = [*matches, *others]
        docs = [each.doc for each in every]
        repeated = RepeatedMemories(searcher, request, [*docs[: request.front], *docs[len(matches) :]])
        has_successions = NEWER in request.fetch and searcher.has("succession")
        is_lazy = request.front > 0 and not (
            repeated or has_successions or self._conditions.needs_rows or request.with_memory
        )
        rows: list[FoundRow] = []
        if is_lazy:
            made = searcher.brief_candidates(every, meanings)
        else:
            rows = searcher.fetch(docs)
            scores = {each.doc: each.match for each in every}
            made = searcher.candidates(rows, scores, meanings, self._conditions, request.fetch)
            made = repeated.named(made, docs)
        found = Candidates(made[: len(matches)])
        found.others, found.is_all = made[len(matches) :], is_all
        found.text, found.corrected = text, self._corrected
        found.meaning_weight = self._vector.weight if self._vector is not None else 0.0
        words = dict.fromkeys((*text.words, *(word for phrase in text.phrases for word in phrase)))  # in their order
        found.frequencies = {word: searcher.document_frequency(word) for word in words}
        found.documents = searcher.counts.documents
        found.not_valid = len(searcher.visible(list(self._not_valid))) if self._not_valid else 0
        if repeated:
            found.repeated = repeated.candidates(self._conditions)
        if has_successions:
            found.newer = _newer(searcher, request, self._conditions, [*rows, *repeated.rows], self._vector)
        if is_lazy and self._complete is not None:
            found.complete = self._complete
        if request.by_meaning:
            found.warnings = searcher.index.take_warnings()
        return found

    def _search(self, limit: int) -> list[TextMatch]:
        if self._conditions.is_impossible or not self._text:
            return []
        return self._searcher.search(self._text, self._conditions, limit, self._not_valid)

    def _others(self, matches: Sequence[TextMatch]) -> tuple[list[TextMatch], dict[int, float]]:
        """Memories without any of the words: near in meaning, and turns beside the best; and the similarities of all."""
        searcher, request, others = self._searcher, self._request, []
        meanings: dict[int, float] = {}
        front = matches[: request.front]
        vector = _vector(searcher, request.words, self._text, front) if request.by_meaning and self._text else None
        self._vector = vector
        if vector is not None:
            meanings = vector.similarities([each.doc for each in front])
            known = {each.doc for each in front}
            near = [row for row in _nearest(searcher, vector, self._conditions, NEAREST) if row.doc not in known]
            meanings.update(vector.similarities([row.doc for row in near]))
            others = text_matches(
                (row.doc, 0.0, row.created, row.facts) for row in near if meanings.get(row.doc, 0.0) >= NEAR_ENOUGH
            )
        if request.with_neighbours and (front or others):
            beside = _turns_beside(searcher, [*front, *others], meanings, self._conditions)
            if vector is not None:
                meanings.update(vector.similarities([row.doc for row in beside]))
            others += beside
        return others, meanings

    def _with_memory(self, matches: list[TextMatch]) -> list[TextMatch]:
        """Add the memory of the request, as the match that it would be without any condition."""
        doc = self._searcher.doc(self._request.with_memory)
        if doc is None:
            return matches
        others = [each for each in matches if each.doc != doc]
        if len(others) == len(matches):
            others = others[: self._request.front - 1]
        own = _match_of(self._searcher, doc, self._text)
        return sorted([*others, own], key=lambda each: (-each.match, each.doc))

    # -- counting

    def facets(self, fields: Sequence[str]) -> Facets:
        """Counts over all that the request finds, without reading every row."""
        if self._conditions.is_impossible or not self._text:
            return Facets(empty(fields))
        found = self._all_matches()
        counts = count_matches(self._searcher.rows, fields, found)
        return Facets(counts, len(self._searcher.visible(list(self._not_valid))))

    def _all_matches(self) -> MatchColumns:
        searcher, request, conditions = self._searcher, self._request, self._conditions
        found = searcher.all_matches(self._text, conditions, self._not_valid)
        others: dict[int, FoundRow | TextMatch] = {}
        if request.front and (request.by_meaning or request.with_neighbours):
            added, _ = self._others(self._search(request.front))
            others = {each.doc: each for each in added}
            if conditions.needs_rows:
                bounded = searcher.fetch(list(others))
                others = {row.doc: row for row in bounded if conditions.meets_bounds(row)}
        if conditions.needs_rows:
            meeting = {row.doc for row in searcher.fetch(found.docs) if conditions.meets_bounds(row)}
            found = only_docs(found, meeting.__contains__)
        if NEWER in request.fetch and searcher.has("succession"):
            others |= {row.doc: row for row in self._successors({*found.docs, *others})}
        known = set(found.docs) if others else ()
        more = columns_of([row for doc, row in others.items() if doc not in known])
        return MatchColumns(*(one + other for one, other in zip(found, more, strict=True)))

    def _successors(self, docs: set[int]) -> list[FoundRow]:
        """The memories that took the place of some of these and meet the conditions."""
        searcher, request = self._searcher, self._request
        superseded = searcher.fetch(list(searcher.superseded() & docs))
        newer = _newer(searcher, request, self._conditions, superseded)
        allows = None if request.sessions is None else set(request.sessions).__contains__
        names = searcher.refs([row.doc for row in superseded]).values() if newer else ()
        ends = {each.ref: each for name in names for each in last_successors(name, newer, allows) if each.meets}
        return searcher.fetch([row.doc for row in searcher.placed(ends.values())])


# -- memories that turns repeat


class RepeatedMemories:
    """The written memories that some docs repeat, as far as a request asks for them."""

    def __init__(self, searcher: Searcher, request: CandidateRequest, docs: Sequence[int]) -> None:
        self._searcher = searcher
        self._names: dict[int, str] = {}  # by turn the ref of its memory, or HIDDEN_MEMORY
        self.rows: list[FoundRow] = []  # of the memories
        if REPEATED in request.fetch and searcher.has("echo"):
            pairs = list(searcher.rows.of(_ECHOES, docs))
            if request.sessions is not None:
                pairs = [each for each in pairs if searcher.session_of(each[4]) in request.sessions]
            if pairs:
                self._choose(pairs)

    def _choose(self, pairs: list[tuple[int, bool, float, int, int, int]]) -> None:
        """Choose one memory for each turn, given `_ECHOES`: the first in the order of these tuples."""
        hidden = self._searcher.hidden((memory, facts) for _, _, _, _, memory, facts in pairs)
        chosen: dict[int, tuple[int, bool, float, int, int, int]] = {}
        for each in pairs:
            if each[4] not in hidden and (each[0] not in chosen or each < chosen[each[0]]):
                chosen[each[0]] = each
        self.rows = self._searcher.fetch(list({each[4]: None for each in chosen.values()}))
        names = {row.doc: f"{self._searcher.session_of(row.doc)}/{row.id}" for row in self.rows}
        self._names = {turn: names[chosen[turn][4]] if turn in chosen else HIDDEN_MEMORY for turn, *_ in pairs}

    def __bool__(self) -> bool:
        return bool(self._names)

    def named(self, candidates: list[Candidate], docs: Sequence[int]) -> list[Candidate]:
        """These candidates with what they repeat, given their docs."""
        names = self._names
        return [
            each._replace(repeats=names[doc]) if doc in names else each
            for each, doc in zip(candidates, docs, strict=True)
        ]

    def candidates(self, conditions: RowConditions) -> dict[str, Candidate]:
        """The memories by ref; `meets` says whether they meet the conditions."""
        admitted = self._searcher.select_docs(conditions, [row.doc for row in self.rows])
        made = self._searcher.candidates(self.rows, fetch=[VALIDITY])
        return {
            each.ref: each if row.doc in admitted else each._replace(meets=False)
            for row, each in zip(self.rows, made, strict=True)
        }


# -- successions


class SuccessionChains:
    """The successions that begin at some memories: `newer` has the docs of the memories that directly took the place of each.

    A succession counts if its new memory exists, is not deleted, is visible to the viewer, and is valid already. So a successor that was
    deleted or that begins later replaces nothing. One that has expired does: what it replaced does not come back. Which memory of a chain
    counts is decided by `smp_memory.model.statuses.last_successors`.
    """

    def __init__(self, searcher: Searcher, rows: Iterable[FoundRow], at: int) -> None:
        self._searcher = searcher
        self._at = at
        self.rows = {row.doc: row for row in rows}
        self.newer: dict[int, list[int]] = {}
        edge = dict(self.rows)
        for _ in range(_MOST_STEPS):
            edge = self._step(edge)
            if not edge:
                break

    def _step(self, edge: dict[int, FoundRow]) -> dict[int, FoundRow]:
        """Add the memories that supersede these; returns those that were not known yet."""
        searcher = self._searcher
        old = {(searcher.session_of(doc), row.id): row for doc, row in edge.items()}
        edges = islice(searcher.rows.of_names(_EDGES, list(old)), _MOST_PAIRS)
        stated = [(old[session, id], doc) for session, id, doc in edges]
        rows = searcher.fetch(list({doc for _, doc in stated})) if stated else []
        found = {row.doc: row for row in searcher.visible_rows(rows) if not row.deleted}
        later = searcher.not_valid(list(found), self._at, only_later=True) if found else set()
        new: dict[int, FoundRow] = {}
        for before, doc in stated:
            row = found.get(doc)
            if row is None or doc in later or doc == before.doc or not searcher.may_supersede(row, before):
                continue
            if doc not in self.rows:
                self.rows[doc] = new[doc] = row
            if doc not in self.newer.setdefault(before.doc, []):
                self.newer[before.doc].append(doc)
        return new


# -- neighbours, and what is near in meaning


class QueryVector:
    """The embedding of a text, and the vectors of the same model."""

    def __init__(self, vectors: Vectors, embedding: bytes) -> None:
        self._vectors, self._embedding = vectors, embedding
        self.weight = vectors.embedder.weight
        self._known: dict[int, float] = {}  # similarities

    def similarities(self, docs: Sequence[int]) -> dict[int, float]:
        """The similarity of these documents to the text, 0 to 1."""
        known = self._known
        known.update(self._vectors.similarities(self._embedding, [doc for doc in docs if doc not in known]))
        return {doc: known[doc] for doc in docs if doc in known}

    def nearest(self, limit: int, docs: Sequence[int] | None) -> list[int]:
        near = self._vectors.scaled(self._vectors.nearest(self._embedding, limit, docs))
        self._known |= near
        return list(near)


def _vector(searcher: Searcher, words: str, text: ParsedText, front: Sequence[TextMatch]) -> QueryVector | None:
    """The embedding of a text by the best model that understands it. Names of authors are left out: a name is near to every text that contains it."""
    if not searcher.index.answering:
        return None
    numbers = {each.facts >> AUTHOR_SHIFT for each in front} - {0}
    first_names = {name[0] for number in numbers if (name := terms(searcher.rows.name_of(number)))}
    names, written = first_names & set(text.words), words.split()
    found = None
    for vectors in searcher.index.answering:
        frame = vectors.embedder.question_words | names
        content = [word for word in written if not frame.issuperset(terms(word))]
        try:
            found = QueryVector(vectors, embedding := vectors.embedder.embed([" ".join(content or written)]))
        except FALL_BACK as error:
            searcher.index.leave_model(error, vectors)
            continue
        if any(embedding):
            break
    return found


def _nearest(searcher: Searcher, vector: QueryVector, conditions: RowConditions, limit: int) -> list[FoundRow]:
    """The visible memories nearest to a vector that meet all conditions, best first."""
    fetched = limit
    while True:
        near = _nearest_rows(searcher, vector, conditions, fetched)
        left = searcher.visible_rows(near)
        if len(left) >= limit or fetched >= _MAX_NEAR or len(near) < fetched:
            return left[:limit]
        fetched *= 4


def _nearest_rows(searcher: Searcher, vector: QueryVector, conditions: RowConditions, limit: int) -> list[FoundRow]:
    if conditions.is_impossible:
        return []
    docs = _docs_if_few(searcher, conditions) if conditions.is_narrow else None
    if conditions.is_narrow and docs is None and conditions.has_label_conditions:
        return []
    spare = 1 if docs is not None else _SPARE if conditions.is_narrow else 1.2
    near = searcher.fetch(vector.nearest(int(spare * limit), docs))
    if conditions.valid_at is not None:
        wrong = searcher.not_valid([row.doc for row in near], conditions.valid_at)
        near = [row for row in near if row.doc not in wrong]
    if docs is None:
        near = [row for row in near if conditions.admits(row) and conditions.meets_bounds(row)]
    return near[:limit]


def _docs_if_few(searcher: Searcher, conditions: RowConditions) -> list[int] | None:
    """All documents that meet the conditions, if they are few; else None."""
    selection = RowSelection(searcher.rows, conditions)
    found = searcher.rows.all(
        f"SELECT doc FROM memory WHERE {selection.where} LIMIT {_MAX_COMPARED + 1}", selection.values
    )
    return [doc for (doc,) in found] if len(found) <= _MAX_COMPARED else None


def _turns_beside(
    searcher: Searcher, found: Sequence[TextMatch], meanings: Mapping[int, float], conditions: RowConditions
) -> list[TextMatch]:
    """Visible turns around the best of these memories: an answer may have none of the query's words."""
    turns = [(each.doc, each.match) for each in found if each.facts & ROLE]
    beside = neighbours(turns, {each.doc for each in found}, meanings)
    kept = _TURNS if conditions.include_deleted else f"{_TURNS} AND deleted IS NULL"
    found = text_matches(searcher.rows.of(kept, beside)) if beside else []
    if conditions.valid_at is not None:
        wrong = searcher.not_valid(beside, conditions.valid_at)
        found = [each for each in found if each.doc not in wrong]
    if conditions.is_narrow:
        admits = conditions.admits_values
        found = [each for each in found if admits(each.doc, _TURN, each.facts >> AUTHOR_SHIFT, each.created)]
    hidden = searcher.hidden([(each.doc, each.facts) for each in found])
    return [each for each in found if each.doc not in hidden]


def _match_of(searcher: Searcher, doc: int, text: ParsedText) -> TextMatch:
    """A memory as a match of a text, whatever the other conditions are; with a score of 0 if it has none of the words."""
    row = searcher.fetch([doc])[0]
    alone = RowConditions()
    alone.include_deleted = True
    alone.since, alone.until = row.created, row.created + 1
    words = (*text.words, *(word for phrase in text.phrases for word in phrase))
    loose = ParsedText(words, characters=text.characters, corrected=text.corrected)
    for each in (text, loose):
        found = searcher.search(each, alone, _AT_ONE_TIME)
        own = next((match for match in found if match.doc == doc), None)
        if own is not None:
            return own
    return TextMatch(doc, 0.0, row.created, row.facts)


def neighbours(turns: Sequence[tuple[int, float]], known: Collection[int], meanings: Mapping[int, float]) -> list[int]:
    """The docs around the best of these turns (doc and text score) that are not in `known`. Some may not exist."""
    best = sorted([(-match, doc) for doc, match in turns])[:EXPANDED]
    if meanings:
        best += sorted([(-meanings[doc], doc) for doc, _ in turns if meanings.get(doc)])[:EXPANDED]
    around: set[int] = set()
    for _, doc in best:
        around.update(each for each in range(doc - _REACH, doc + _REACH + 1) if each >> POSITION_BITS == doc >> POSITION_BITS)  # fmt: skip
    return sorted(around.difference(known))
