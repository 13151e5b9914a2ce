"""Find the memories that an agent may need now: candidates for its prompt, by the reason for which they are there.

    matches     what matches the task, of any type, in the order of the search; with a topic or tags, only what has them
    written     the same of what was written down, if turns have filled the others
    turns       the last turns of the session; if it has none, those of the session before
    state       the agent's own state, here or in the last session where it had one
    wishes      preferences, and standing wishes that the user only said (`smp_memory.model.wishes`)
    critical    with a task: open critical findings
    recent      with a task: what was written down last in the session, and what holds in all sessions
    <type>      without one: the newest of each type that is written down, findings by severity

Guarantees: all come from one state of the index; their sessions are visible (`smp_memory.context.visible_sessions`). The same store,
request and time give the same candidates. Settled memories are left out.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, zip_longest

from smp_memory.context.budget import section_of
from smp_memory.context.trace import CUT, NOT_FOR_AGENT, Candidate
from smp_memory.index.query import RowConditions
from smp_memory.index.rows import POSITION_BITS
from smp_memory.model.ids import STATE_PREFIX
from smp_memory.model.session_info import GLOBAL_SESSION as GLOBAL
from smp_memory.model.times import to_microseconds
from smp_memory.model.types import CRITICAL, KINDS, NUMBERED, SEVERITY_WEIGHTS, names_where
from smp_memory.search.query import NEWEST, Query
from smp_memory.search.ranking import Ranking, sort_key
from smp_memory.search.scoring import CANDIDATES, RARITY
from smp_memory.search.succession import SETTLED, SuccessionOrder
from smp_memory.text.names import with_corrections
from smp_memory.text.tokenizer import parse, terms, without_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from smp_memory.context.request import ContextRequest
    from smp_memory.index.rows import Row
    from smp_memory.model.types import Kind
    from smp_memory.store.port import IndexSearcher

_TOKENS_PER_LINE = 26  # so many memories are ranked as could fit
_FEWEST, _MOST, _SPARE = 16, 2000, 10
_NEWEST, _PREFERENCES, _WISHES, _STATES = 30, 30, 20, 200
_MOST_WORDS, _RARE_WORDS = 48, 16  # of a task of more words only the rarest are searched
_UNKNOWN_GRAVITY = 0.5
_FEW = 8  # matches that were written down
_BELOW_MATCHES = 0.01  # the score of what does not match, beside matches: it stands below them
_STEP = 0.01  # by which the score falls from one candidate to the next where there is no other measure
_POSITION = (1 << POSITION_BITS) - 1


class CandidateSearch:
    """The candidates for one prompt."""

    def __init__(self, searcher: IndexSearcher, request: ContextRequest) -> None:
        self._searcher = searcher
        self._request = request
        self.at = to_microseconds(request.now)
        self.allows = request.visible_sessions.allows
        self.default_session = request.session  # the session whose ids are given without a session
        self.warnings: list[str] = []  # of a search by meaning
        self.words = ""  # what is searched for: the task, or a topic that no memory has
        self.notes = [*request.notes]  # and that no memory has the topic or the tags
        self._narrow: Query | None = None  # topic and tags, if some memory has them
        self._sessions: dict[int, str] = {}  # by number
        self._allowed: dict[int, bool] = {}
        self._numbers: dict[str, list[int]] = {}
        self._sessions_searched: list[int] | None = None  # their numbers in the index; None: all of them
        self._met_hidden_session = False

    @property
    def is_for_task(self) -> bool:
        """Whether something matches or does not; otherwise the context is a digest."""
        return bool(self.words) or self._narrow is not None

    def collect(self) -> dict[str, list[Candidate]]:
        """The candidates by reason, best first.

        Searches all sessions; if a match is in a session that is not visible, again in the visible ones only. Most stores have one
        user, and to know the user of every session costs reading the metadata of all.
        """
        found = self._collect()
        if self._met_hidden_session:
            self._sessions_searched = self._searcher.session_numbers(self._request.visible_sessions.sessions())
            self.default_session = self._request.session
            self.notes = [*self._request.notes]
            if self._request.trace is not None:
                self._request.trace.clear()
            found = self._collect()
        return found

    def _collect(self) -> dict[str, list[Candidate]]:
        self._narrow_down()
        turns = self._last_turns()
        found = {"state": self._own_state(), "turns": turns, "wishes": self._wishes()}
        if not self.is_for_task:
            return {**found, **self._newest()}
        last = {each.row.doc for each in turns}
        matches = self._matches()
        for each in matches:
            each.section = "turn" if each.row.doc in last else each.section
        return {
            **found,
            "matches": matches,
            "written": self._written(matches),
            "critical": self._critical(),
            "recent": self._recent(),
        }

    # -- queries to the index

    def _rows(
        self, types: tuple[str, ...], limit: int, session: str | None = None, *, narrow: bool = True
    ) -> list[Row]:
        """The newest memories of these types; with `narrow`, those with the topic and the tags of the request."""
        return self._select(self._conditions(types, session, narrow), limit)

    def _conditions(self, types: tuple[str, ...], session: str | None = None, narrow: bool = False) -> RowConditions:
        conditions = self._searcher.conditions(self._narrow) if narrow and self._narrow is not None else RowConditions()
        conditions.types = [KINDS[name].number for name in types]
        conditions.valid_at = self.at
        conditions.sessions = self._sessions_searched
        if session is not None:
            if session not in self._numbers:
                self._numbers[session] = self._searcher.session_numbers([session])
            conditions.sessions = self._numbers[session]
        return conditions

    def _select(self, conditions: RowConditions, limit: int) -> list[Row]:
        """The newest memories of visible sessions that meet the conditions."""
        states = [KINDS[name].number for name in _states()]
        # most states are another agent's, which the id says without reading the memory
        select = self._searcher.select if conditions.types == states else self._searcher.select_visible
        return [row for row in select(conditions, NEWEST, limit) if self._is_visible(row)]

    def _is_visible(self, row: Row) -> bool:
        number = row.doc >> POSITION_BITS
        allowed = self._allowed.get(number)
        if allowed is None:
            allowed = self._allowed[number] = self._request.visible_sessions.allows(self._session_of(row))
        if not allowed:
            self._met_hidden_session = True
        return allowed

    def _session_of(self, row: Row) -> str:
        number = row.doc >> POSITION_BITS
        if number not in self._sessions:
            self._sessions[number] = self._searcher.session_of(row.doc)
        return self._sessions[number]

    # -- what the context is about

    def _narrow_down(self) -> None:
        """Decide which words are searched, and whether topic and tags narrow the search: not if no memory has them."""
        request = self._request
        self._narrow, about = None, request.task or ""
        if request.topic or request.tags:
            given = Query({"topic": request.topic, "tags": request.tags or None}, request.now)
            conditions = self._searcher.conditions(given)
            conditions.sessions = self._sessions_searched
            if self._select(conditions, 1):
                self._narrow = given
            else:
                about = f"{request.topic or ''} {about}"
                what = " and ".join(
                    name for name, value in (("this topic", request.topic), ("these tags", request.tags)) if value
                )
                self.notes.append(f"No memory has {what}: not narrowed, and searched as words.")
        words = self._searched(without_signs(about))
        self.words = words if parse(words) else ""  # a task of signs alone is none
        if request.trace is not None:
            request.trace.words, request.trace.is_narrowed = self.words, self._narrow is not None

    def _searched(self, words: str) -> str:
        """The words to search for; of a long task the rarest that some memory has."""
        if len(words.split()) <= _MOST_WORDS:
            return words
        each = dict.fromkeys(words.split())
        frequency = {word: min(map(self._searcher.document_frequency, terms(word)), default=0) for word in each}
        rare = sorted((word for word in each if frequency[word]), key=lambda word: frequency[word])
        return " ".join(rare[:_RARE_WORDS])

    @property
    def _most(self) -> int:
        """As many memories as could fit."""
        return min(max(self._request.max_tokens // _TOKENS_PER_LINE, _FEWEST), _MOST)

    def _matches(self) -> list[Candidate]:
        """What matches the words, best first; of a topic or tags then all the rest, newest first."""
        enough = self._most
        found = self._search(enough) if self.words else []
        if self._narrow is not None and len(found) < enough:
            known = {each.row.doc for each in found}
            rows = self._select(self._conditions((), narrow=True), enough)
            least = min((each.score for each in found), default=1.0)
            left = self._unsettled([row for row in rows if row.doc not in known], "matches")
            found += _by_rank(left, least, "has the topic or the tags")
        return found

    def _search(self, enough: int, types: tuple[str, ...] = ()) -> list[Candidate]:
        """What matches the words, best first, as a query ranks it."""
        request = self._request
        query = Query({"text": self.words}, request.now)
        conditions = self._conditions(types, narrow=True)
        text, _ = with_corrections(self.words, parse(self.words), self._searcher, conditions)
        matches = self._searcher.search(text, conditions, max(CANDIDATES, enough), RARITY)
        ranking = Ranking(query, self._searcher, request.policy)
        ranked = ranking.rank_matches(matches, text, conditions, enough, _SPARE)
        self.warnings = list(self._searcher.warnings)
        ordered = sorted((each for each in ranked if self._is_visible(each.row)), key=sort_key(query.sort))
        if self._searcher.has_successions:
            order = SuccessionOrder(ranking, self._searcher, conditions, self.at, self.allows)
            ordered = [each for each in order.ordered(ordered) if self._is_visible(each.row)]
        found = [
            Candidate(
                each.row,
                section_of(NUMBERED[each.row.type]),
                each.score,
                "matches",
                partial(ranking.relevance, each),
                partial(ranking.explain, each),
            )
            for each in (ordered if request.trace is not None else ordered[:enough])
        ]
        if request.trace is not None:
            self._trace_matches(found, enough)
        return [each for each in found[:enough] if _is_unsettled(each.row) and not _kind_of(each.row).is_named_by_agent]

    def _trace_matches(self, found: list[Candidate], enough: int) -> None:
        trace = self._request.trace
        assert trace is not None
        for rank, each in enumerate(found, 1):
            if _kind_of(each.row).is_named_by_agent:
                trace.drop("matches", each, NOT_FOR_AGENT, "states of agents are not told as matches")
            elif not _is_unsettled(each.row):
                trace.drop("matches", each, SETTLED, f"its status is {each.row.status}")
            elif rank > enough:
                trace.drop("matches", each, CUT, f"rank {rank} of the matches; {enough} are read for this budget")

    def _written(self, matches: list[Candidate]) -> list[Candidate]:
        """Matches that were written down, if turns have filled the others: a long conversation repeats its words."""
        types = names_where("is_written_down")
        if not self.words or len(matches) < self._most - _SPARE:
            return []
        if sum(_kind_of(each.row).is_written_down for each in matches) >= _FEW:
            return []
        return self._search(_FEW, types) if self._rows(types, 1) else []

    # -- candidates for other reasons

    def _last_turns(self) -> list[Candidate]:
        """The last turns of the session; if it has none, those of the session before."""
        request, types = self._request, names_where("is_said")
        rows = self._rows(types, request.turns, request.session, narrow=False) if request.session else []
        where = "this session"
        if not rows:
            rows = self._rows(types, max(request.turns, 1), narrow=False)
            rows = [row for row in rows if row.doc >> POSITION_BITS == rows[0].doc >> POSITION_BITS][: request.turns]
            if request.session:
                where = "the session before"
        if self.default_session is None:
            self.default_session = self._latest(rows)
        return [
            Candidate(row, "turn", 1 - _STEP * rank, f"{rank + 1} from the end of {where}")
            for rank, row in enumerate(rows)
        ]

    def _latest(self, turns: list[Row]) -> str | None:
        """The session with the newest turn, else the one with the newest other memory."""
        for row in turns or self._rows((*names_where("is_written_down"), *_states()), _NEWEST, narrow=False):
            session = self._searcher.session_of(row.doc)
            if session != GLOBAL:
                return session
        return None

    def _own_state(self) -> list[Candidate]:
        """The agent's state in the session, or in the last one where it had a state."""
        agent = self._request.agent
        if agent is None:
            return []
        name = STATE_PREFIX + agent
        row = self._searcher.row(self.default_session, name) if self.default_session else None
        if row is None or row.deleted:
            here = self._rows(_states(), _STATES, self.default_session, narrow=False) if self.default_session else []
            row = self._state_in(here, name) or self._state_in(self._rows(_states(), _STATES, narrow=False), name)
        return [Candidate(row, "state", 1.0, "its own state")] if row is not None and self._is_visible(row) else []

    def _state_in(self, rows: list[Row], name: str) -> Row | None:
        """The agent's state among these rows; after a deletion its id is `STATE-<agent>-2`."""
        for row in rows:
            if row.id == name or row.id.startswith(name + "-"):
                record = self._searcher.records([row]).get(row.doc)
                if record is not None and record.given.get("agent") == self._request.agent:
                    return row
        return None

    def _wishes(self) -> list[Candidate]:
        """Preferences and standing wishes, taking turns; those of the session and of `global` before others, the newest first."""
        types = names_where("is_named_by_key")
        rows = self._rows(types, _PREFERENCES, narrow=False)
        if len(rows) == _PREFERENCES:  # there may be older ones of this session
            here = [
                self._rows(types, _PREFERENCES, each, narrow=False) for each in (self.default_session, GLOBAL) if each
            ]
            rows = list({row.doc: row for row in chain(*here, rows)}.values())
        said = [row for row in self._searcher.select_wishes(self._conditions(()), _WISHES) if self._is_visible(row)]
        order = {self.default_session: 0, GLOBAL: 1}
        preferences = sorted(rows, key=lambda row: (order.get(self._session_of(row), 2), *_newest_first(row)))
        wishes = sorted(said, key=lambda row: (min(order.get(self._session_of(row), 1), 1), *_newest_first(row)))
        found: list[Candidate] = []
        for preference, wish in zip_longest(preferences, wishes):
            score = 1 - _STEP * len(found)
            if preference is not None:
                found.append(Candidate(preference, NUMBERED[preference.type], score, self._place_of(preference)))
            if wish is not None:
                found.append(Candidate(wish, types[0], score - _STEP / 2, "a standing wish"))
        return found

    def _place_of(self, row: Row) -> str:
        session = self._session_of(row)
        return {GLOBAL: "holds in all sessions", self.default_session: "of this session"}.get(
            session, "of another session"
        )

    def _critical(self) -> list[Candidate]:
        """Open findings of the gravest severity."""
        found = []
        for name in names_where("is_open_until_closed"):
            rows = self._rows((name,), KINDS[name].context_newest // 2)
            found += self._unsettled([row for row in rows if _severity(row) == CRITICAL], "critical")
        return [
            Candidate(row, NUMBERED[row.type], _BELOW_MATCHES / (1 + rank), _open_why(row, "of the store"))
            for rank, row in enumerate(sorted(found, key=_newest_first))
        ]

    def _recent(self) -> list[Candidate]:
        """What was written down last in the session, and in `global`."""
        types = _curated_without_key()
        rows = self._rows(types, _NEWEST, self.default_session) if self.default_session else []
        found = _by_rank(self._unsettled(rows, "recent"), _BELOW_MATCHES, "new in this session")
        if self.default_session != GLOBAL:
            rows = self._unsettled(self._rows(types, _NEWEST, GLOBAL), "recent")
            found += _by_rank(rows, _BELOW_MATCHES / 2, "holds in all sessions")
        return found

    def _unsettled(self, rows: Iterable[Row], lane: str) -> list[Row]:
        """Those of these rows that are not settled."""
        found = list(rows)
        trace = self._request.trace
        for row in found if trace is not None else ():
            if trace is not None and not _is_unsettled(row):
                settled = Candidate(row, section_of(NUMBERED[row.type]), 0.0, "")
                trace.drop(lane, settled, SETTLED, f"its status is {row.status}")
        return [row for row in found if _is_unsettled(row)]

    def _newest(self) -> dict[str, list[Candidate]]:
        """Of each type that is written down the newest, those of the session before others; findings by severity."""
        types = _curated_without_key()
        rows = {name: self._rows((name,), KINDS[name].context_newest) for name in types}
        if any(
            len(found) == KINDS[name].context_newest for name, found in rows.items()
        ):  # there may be older ones here
            for session in filter(None, (self.default_session, GLOBAL)):
                for row in self._rows(types, _NEWEST, session):
                    rows[NUMBERED[row.type]].append(row)
        return {name: self._newest_of(name, found) for name, found in rows.items()}

    def _newest_of(self, name: str, rows: list[Row]) -> list[Candidate]:
        places = {self.default_session: 0, GLOBAL: 1}
        reasons = ("new in this session", "holds in all sessions", "new in the store")
        by_severity = KINDS[name].is_open_until_closed
        found = [
            (-_gravity(row) if by_severity else 0.0, places.get(self._session_of(row), 2), -row.created, -row.doc, row)
            for row in self._unsettled({row.doc: row for row in rows}.values(), name)
        ]
        found.sort(key=lambda each: each[:4])
        return [
            Candidate(
                row,
                name,
                (-grave or 1.0) - _STEP * rank / 10,
                _open_why(row, reasons[place]) if grave else reasons[place],
            )
            for rank, (grave, place, _, _, row) in enumerate(found[: self._most])
        ]


def _by_rank(rows: Iterable[Row], best: float, why: str) -> list[Candidate]:
    """Candidates whose scores fall from the best one."""
    return [
        Candidate(row, section_of(NUMBERED[row.type]), best / (1 + _STEP * (rank + 1)), why)
        for rank, row in enumerate(rows)
    ]


def _is_unsettled(row: Row) -> bool:
    return row.status is None or row.status.lower() not in _kind_of(row).settled or _kind_of(row).is_named_by_key


def _open_why(row: Row, why: str) -> str:
    return f"open, {row.severity}; {why}" if row.severity else f"open; {why}"


def _newest_first(row: Row) -> tuple[Any, ...]:
    """By time; at the same time by position in the session."""
    return -row.created, -(row.doc & _POSITION), row.id


def _severity(row: Row) -> str:
    return row.severity.strip().lower() if isinstance(row.severity, str) else ""


def _gravity(row: Row) -> float:
    return SEVERITY_WEIGHTS.get(_severity(row), _UNKNOWN_GRAVITY)


def _kind_of(row: Row) -> Kind:
    return KINDS[NUMBERED[row.type]]


def _states() -> tuple[str, ...]:
    return names_where("is_named_by_agent")


def _curated_without_key() -> tuple[str, ...]:
    """The types that are written down, but for those with a key: of these only one per key is included."""
    return tuple(name for name in names_where("is_written_down") if not KINDS[name].is_named_by_key)
