"""Find the memories that an agent may need now: candidates for its prompt, each with a score and the reason for it.

    task, topic   matches: decisions, open findings, learnings, preferences, and turns of any session
    session       its last turns, newest decisions, open findings, preferences
    agent         its own state, here or in the last session where it had one
    global        memories promoted from other sessions, and those that files of the designs hold for all of them
                  (`Store.shared_records`)

Guarantees: all come from one state of the index, with their records as the files hold them; the agent may see them, and their
sessions are visible (`smp_memory.context.visible_sessions`). The same store, request and time give the same candidates. Settled and
superseded memories and preferences for somebody else are left out.
"""

from __future__ import annotations

from heapq import merge

from smp_memory.context.budget import ContextItem, line_prefix, line_text
from smp_memory.index.query import RowConditions
from smp_memory.index.rows import POSITION_BITS
from smp_memory.index.tokenizer import parse, terms, without_signs
from smp_memory.model.ids import STATE_PREFIX
from smp_memory.model.session_info import GLOBAL_SESSION as GLOBAL
from smp_memory.model.times import is_valid, to_microseconds
from smp_memory.model.types import KINDS, NUMBERED, SEVERITY_WEIGHTS, names_where
from smp_memory.policies.currency import outdated
from smp_memory.policies.statuses import is_settled
from smp_memory.search.names import with_corrections
from smp_memory.search.query import NEWEST, Query
from smp_memory.search.ranking import Ranking
from smp_memory.search.scoring import CANDIDATES, RARITY
from smp_memory.search.succession import SuccessionOrder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import Any

    from smp_memory.context.visible_sessions import VisibleSessions
    from smp_memory.index.rows import Row
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind
    from smp_memory.search.ranking import RankedRow
    from smp_memory.store.port import IndexSearcher

_MOST_MATCHES, _MOST_EARLIER, _MOST_RANKED, _SPARE = 20, 6, 32, 10
_FIRST_BLOCK, _BLOCK = 24, 8  # memories that are read in one call
_NEWEST, _PREFERENCES, _STATES = 30, 30, 200
_UNKNOWN_GRAVITY = 0.5
_MIN_SHARE_OF_BEST = 0.4  # matches below this share of the best relevance are left out
_MOST_WORDS = 12
_FEW = 8
_MIN_SCORE = 0.02
_POSITION = (1 << POSITION_BITS) - 1
_CHARACTERS_PER_TOKEN = 12  # more than any tokenizer has, but for very long words
SHARED_FILE_REASON = "holds in all sessions, read from a file for them"  # such a memory is not in the index
_RECENCY, _RECENCY_WITH_TASK = 0.45, 0.2  # the score of the newest memory


class ContextRequest:
    """The arguments of a context, checked."""

    __slots__ = ("agent", "now", "policy", "session", "task", "topic", "turns", "visible_sessions", "words")

    def __init__(
        self,
        agent: str | None,
        task: str | None,
        topic: str | None,
        session: str | None,
        turns: int,
        now: datetime,
        policy: Any,
        visible_sessions: VisibleSessions | None = None,
    ) -> None:
        self.agent = agent
        self.task = task
        self.topic = topic
        self.session = session
        self.turns = turns
        self.now = now
        self.policy = policy
        self.visible_sessions = visible_sessions  # None: all sessions are
        self.words = _words(f"{topic or ''} {task or ''}")  # task and topic as words alone, each once


def _words(text: str) -> str:
    return " ".join(dict.fromkeys(without_signs(text).split()))


class Candidate:
    """A row of the index that may become a context item, before its memory is read."""

    __slots__ = ("row", "score", "section", "why")

    def __init__(self, row: Row, section: str, score: float, why: str) -> None:
        self.row = row
        self.section = section
        self.score = score
        self.why = why


class CandidateSearch:
    """The candidates for one prompt."""

    def __init__(self, searcher: IndexSearcher, request: ContextRequest, shared: list[Record] | None = None) -> None:
        self._searcher = searcher
        self._shared = shared or []  # memories outside of the index
        self._request = request
        self._at = to_microseconds(request.now)
        self._allows = None if request.visible_sessions is None else request.visible_sessions.allows
        self.default_session = request.session  # the session whose ids are given without a session
        self._candidates: dict[int, Candidate] = {}
        self._sessions: dict[int, str] = {}
        self._numbers: dict[str, list[int]] = {}
        self._sessions_searched: list[int] | None = None  # their numbers in the index; None: all of them
        self._met_hidden_session = False

    def collect(self) -> None:
        """Search all sessions; if a match is in a session that is not visible, search again in the visible ones only.

        Most stores have one user, and to know the user of every session costs reading the metadata of all.
        """
        self._collect()
        if self._met_hidden_session and self._request.visible_sessions is not None:
            self._sessions_searched = self._searcher.session_numbers(self._request.visible_sessions.sessions())
            self._candidates.clear()
            self.default_session = self._request.session
            self._collect()

    def _collect(self) -> None:
        self._add_last_turns()
        self._add_own_state()
        self._add_matches()
        self._add_newest()
        self._add_preferences()

    def items(self) -> Iterator[ContextItem]:
        """The context items, best first; memories are read as they are drawn."""
        keys: set[str] = set()
        return merge(self._indexed(keys), self._from_shared_files(keys), key=lambda item: -item.score)

    def _from_shared_files(self, keys: set[str]) -> Iterator[ContextItem]:
        """Memories of shared files, ranked below preferences of the session `global`, which win for the same key."""
        words = set(self._request.words.casefold().split())
        scored = []
        for rank, record in enumerate(self._shared):
            text = f"{line_text(record)} {record.given.get('topic', '')}".casefold()
            fit = sum(word in text for word in words) / len(words) if words else _RECENCY
            score = 0.69 if KINDS[record.type].is_named_by_key else 0.3 + 0.5 * fit
            scored.append((max(score - 0.001 * rank, _MIN_SCORE), record))
        for score, record in sorted(scored, key=lambda each: -each[0]):
            if self._is_included(record, record.type, keys):
                yield ContextItem(
                    record,
                    record.type,
                    score,
                    SHARED_FILE_REASON,
                    line_prefix(record, self.default_session),
                    line_text(record),
                )

    def _indexed(self, keys: set[str]) -> Iterator[ContextItem]:
        ordered = sorted(self._candidates.values(), key=_best_first)
        start, size = 0, _FIRST_BLOCK
        while start < len(ordered):
            block = ordered[start : start + size]
            start, size = start + size, _BLOCK
            records = self._searcher.records([each.row for each in block])
            replaced = self._searcher.successors([each.row for each in block], self._at, self._allows)
            older = outdated([record for record in records.values() if record is not None], one_user=True)
            for each in block:
                record = records.get(each.row.doc)
                if record is None or record.deleted or each.row.doc in replaced or record.ref in older:
                    continue
                if self._is_included(record, each.section, keys):
                    yield ContextItem(
                        record,
                        each.section,
                        each.score,
                        each.why,
                        line_prefix(record, self.default_session),
                        line_text(record),
                    )

    def enough_for(self, max_tokens: int) -> list[ContextItem]:
        """As many items as could fit for any counter."""
        items: list[ContextItem] = []
        characters = 0
        for item in self.items():
            items.append(item)
            characters += len(item.line)
            if characters > _CHARACTERS_PER_TOKEN * max_tokens:
                break
        return items

    # -- queries to the index

    def _rows(self, types: tuple[str, ...], limit: int, session: str | None = None) -> list[Row]:
        conditions = RowConditions()
        conditions.valid_at = self._at
        conditions.types = [KINDS[name].number for name in types]
        if session is not None:
            if session not in self._numbers:
                self._numbers[session] = self._searcher.session_numbers([session])
            conditions.sessions = self._numbers[session]
        return self._select(conditions, limit)

    def _select(self, conditions: RowConditions, limit: int) -> list[Row]:
        """The newest memories of visible sessions that meet the conditions."""
        if conditions.sessions is None:
            conditions.sessions = self._sessions_searched
        states = [KINDS[name].number for name in _states()]
        # most states are another agent's, which the id says without reading the memory
        select = self._searcher.select if conditions.types == states else self._searcher.select_visible
        return [row for row in select(conditions, NEWEST, limit) if self._is_visible(row)]

    def _is_visible(self, row: Row) -> bool:
        is_visible = self._allows is None or self._allows(self._session_of(row))
        self._met_hidden_session |= not is_visible
        return is_visible

    def _search(self, words: str, types: tuple[str, ...] = ()) -> list[tuple[Row, float]]:
        """Rows that match these words with their relevance, best first."""
        query = Query({"text": words, "types": types}, self._request.now)
        conditions = self._searcher.conditions(query)
        conditions.sessions = self._sessions_searched
        text, _ = with_corrections(words, parse(words), self._searcher, conditions)
        if not text:
            return []
        matches = self._searcher.search(text, conditions, CANDIDATES, RARITY)
        ranking = Ranking(query, self._searcher, self._request.policy)
        ranked = ranking.rank_matches(matches, text, conditions, _MOST_RANKED, _SPARE)
        ordered = sorted((each for each in ranked if self._is_visible(each.row)), key=_most_relevant)
        order = SuccessionOrder(ranking, self._searcher, conditions, self._at, self._allows)
        return [(each.row, each.score) for each in order.ordered(ordered) if self._is_visible(each.row)]

    def _relevant(self, matches: list[tuple[Row, float]], limit: int) -> list[tuple[Row, float]]:
        """The first matches whose relevance is near that of the best one that the agent may see."""
        for rank, (row, best) in enumerate(matches):
            if self._searcher.is_visible(row):
                return [each for each in matches[rank : rank + limit] if each[1] >= _MIN_SHARE_OF_BEST * best]
        return []

    def _rare_words(self) -> str:
        """The words of the task; of a long one the rarest that some memory has."""
        words = self._request.words.split()
        if len(words) <= _MOST_WORDS:
            return self._request.words
        frequency = {word: min(map(self._searcher.document_frequency, terms(word)), default=0) for word in words}
        rare = sorted((word for word in words if frequency[word]), key=lambda word: frequency[word])
        return " ".join(rare[:_MOST_WORDS])

    # -- the sources of candidates

    def _add_last_turns(self) -> None:
        """The last turns of the session; if it has none, those of the session before."""
        request, types = self._request, names_where("is_said")
        rows = self._rows(types, request.turns, request.session) if request.session else []
        where, penalty = "this session", 0.0
        if not rows:
            rows = self._rows(types, max(request.turns, 1))
            rows = [row for row in rows if row.doc >> POSITION_BITS == rows[0].doc >> POSITION_BITS][: request.turns]
            if request.session:
                where, penalty = "the session before", 0.2
        if self.default_session is None:
            self.default_session = self._latest(rows)
        for rank, row in enumerate(rows):
            self._add(row, "turn", 0.86 - 0.03 * rank - penalty, f"{rank + 1} from the end of {where}")

    def _latest(self, turns: list[Row]) -> str | None:
        """The session with the newest turn, else the one with the newest other memory."""
        for row in turns or self._rows((*names_where("is_written_down"), *_states()), _NEWEST):
            session = self._searcher.session_of(row.doc)
            if session != GLOBAL:
                return session
        return None

    def _add_own_state(self) -> None:
        """The agent's state in the session, or in the last one where it had a state."""
        agent = self._request.agent
        if agent is None:
            return
        name = STATE_PREFIX + agent
        row = self._searcher.row(self.default_session, name) if self.default_session else None
        if row is None or row.deleted:
            row = self._state_in(
                self._rows(_states(), _STATES, self.default_session) if self.default_session else [], name
            )
        if row is None:
            row = self._state_in(self._rows(_states(), _STATES), name)
        if row is not None:
            self._add(row, "state", 0.95, "its own state")

    def _state_in(self, rows: list[Row], name: str) -> Row | None:
        """The agent's state among these rows; after a deletion its id is `STATE-<agent>-2`."""
        for row in rows:
            if row.id == name or row.id.startswith(name + "-"):
                record = self._searcher.records([row]).get(row.doc)
                if record is not None and record.given.get("agent") == self._request.agent:
                    return row
        return None

    def _add_matches(self) -> None:
        request, curated_types = self._request, names_where("is_written_down")
        if request.topic:
            query = Query({"topic": request.topic, "types": curated_types}, request.now)
            rows = self._select(self._searcher.conditions(query), _MOST_MATCHES)
            for rank, row in enumerate(rows):
                self._score(row, 0.75 - 0.01 * rank, "is about the topic")
        words = self._rare_words()
        if not words:
            return
        matches = self._search(words)  # all types: a filter costs more than skipping the others
        turns = [each for each in matches if _kind_of(each[0]).is_turn]
        curated = [each for each in matches if _kind_of(each[0]).is_written_down]
        if len(curated) < _FEW:  # turns may have filled the limit
            curated = self._search(words, curated_types)
        for row, relevance in self._relevant(curated, _MOST_MATCHES):
            self._score(row, relevance, f"matches ({relevance:.2f})")
        for row, relevance in self._relevant(turns, _MOST_EARLIER):
            self._add(row, "earlier", 0.25 + 0.45 * relevance, f"matches ({relevance:.2f})")

    def _add_newest(self) -> None:
        """The newest decisions, findings and learnings of the session and of `global`; without a task, of the whole store."""
        types = _curated_without_key()
        rows = [row for name in types for row in self._rows((name,), KINDS[name].context_newest)]
        in_session = [row for row in rows if self._is_of(row, self.default_session)]
        if self.default_session and len(in_session) < _FEW and len(rows) >= _NEWEST:  # it may have older ones
            in_session = self._rows(types, _NEWEST, self.default_session)
        self._score_by_recency(in_session, 0.0, "new in this session")
        self._score_by_recency(self._rows(types, _NEWEST, GLOBAL), 0.05, "holds in all sessions")
        if not self._request.words:
            self._score_by_recency(rows, 0.15, "new in the store")

    def _score_by_recency(self, rows: list[Row], penalty: float, why: str) -> None:
        """Score rows by their rank within their type: newer ones higher, findings by severity first."""
        best = _RECENCY_WITH_TASK if self._request.words else _RECENCY
        ranks: dict[int, int] = {}
        for row in sorted(filter(_is_unsettled, rows), key=_gravest_first):
            rank = ranks[row.type] = ranks.get(row.type, -1) + 1
            if rank < _NEWEST:
                self._score(row, max(best - penalty - 0.02 * rank, _MIN_SCORE), why)

    def _add_preferences(self) -> None:
        """Preferences of the session before global ones before others: of one key the first is taken."""
        scopes: list[tuple[str | None, float, str]] = [(GLOBAL, 0.4, "holds in all sessions")]
        if self.default_session:
            scopes.append((self.default_session, 0.6, "of this session"))
        if not self._request.words:
            scopes.append((None, 0.2, "of another session"))
        for session, fit, why in scopes:
            for rank, row in enumerate(self._rows(names_where("is_named_by_key"), _PREFERENCES, session)):
                self._score(row, fit - 0.005 * rank, why)

    # -- scores

    def _score(self, row: Row, fit: float, why: str) -> None:
        kind = _kind_of(row)
        if not kind.is_named_by_key and not _is_unsettled(row):
            return
        if kind.is_open_until_closed:
            grave = f"open, {row.severity}; {why}" if row.severity else f"open; {why}"
            self._add(row, kind.name, 0.7 * _gravity(row.severity) + 0.3 * fit, grave)
        elif kind.is_named_by_key:
            bonus = 0.15 if self._is_of(row, self.default_session) else 0.05 if self._is_of(row, GLOBAL) else 0.0
            self._add(row, kind.name, 0.6 + 0.2 * fit + bonus, why)
        else:
            base, share = kind.context_score
            self._add(row, kind.name, base + share * fit, why)

    def _is_of(self, row: Row, session: str | None) -> bool:
        return self._session_of(row) == session

    def _session_of(self, row: Row) -> str:
        number = row.doc >> POSITION_BITS
        if number not in self._sessions:
            self._sessions[number] = self._searcher.session_of(row.doc)
        return self._sessions[number]

    def _add(self, row: Row, section: str, score: float, why: str) -> None:
        known = self._candidates.get(row.doc)
        if known is None or known.score < score:
            self._candidates[row.doc] = Candidate(row, section, max(score, _MIN_SCORE), why)

    def _is_included(self, record: Record, section: str, keys: set[str]) -> bool:
        """The conditions that need the memory itself, not only its row."""
        if section not in KINDS or not is_valid(record.given, self._at):  # a state or a turn is in the index
            return section not in KINDS
        if KINDS[section].is_named_by_key:
            key = record.key if isinstance(record.key, str) else ""
            if not self._applies(record) or (key and key in keys):
                return False
            keys.add(key)
        elif KINDS[section].statuses:
            return not is_settled(record)
        return True

    def _applies(self, record: Record) -> bool:
        """Whether a preference is for this agent, or for its task or topic."""
        value = record.applies_to
        names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        request = self._request
        about = f"{request.topic or ''} {request.task or ''}".casefold()
        for name in names:
            word = str(name).casefold()
            if word in ("", "*", "all", "any", "everything") or name == request.agent or word in about:
                return True
        return not names or not (request.agent or about.strip())


def _best_first(candidate: Candidate) -> tuple[Any, ...]:
    return -candidate.score, candidate.section, *_newest_first(candidate.row)


def _most_relevant(ranked: RankedRow) -> tuple[Any, ...]:
    return -ranked.score, *_newest_first(ranked.row)


def _is_unsettled(row: Row) -> bool:
    return row.status is None or row.status.lower() not in _kind_of(row).settled


def _gravest_first(row: Row) -> tuple[Any, ...]:
    return -_gravity(row.severity), *_newest_first(row)


def _newest_first(row: Row) -> tuple[Any, ...]:
    """By time; at the same time by position in the session."""
    return -row.created, -(row.doc & _POSITION), row.id


def _gravity(severity: Any) -> float:
    word = severity.strip().lower() if isinstance(severity, str) else ""
    return SEVERITY_WEIGHTS.get(word, _UNKNOWN_GRAVITY)


def _kind_of(row: Row) -> Kind:
    return KINDS[NUMBERED[row.type]]


def _states() -> tuple[str, ...]:
    return names_where("is_named_by_agent")


def _curated_without_key() -> tuple[str, ...]:
    """The types that are written down, but for those with a key: of these only one per key is included."""
    return tuple(name for name in names_where("is_written_down") if not KINDS[name].is_named_by_key)
