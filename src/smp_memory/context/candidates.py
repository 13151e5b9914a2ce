"""Find the memories that an agent may need now: candidates for its prompt, by the reason for which they are there.

    matches     what matches the task, of any type, in the order of the search; with a topic or tags, only what has them
    written     the same of what was written down, if turns have filled the others
    turns       the last turns of the session; if it has none, those of the session before
    state       the agent's own state, here or in the last session where it had one
    wishes      preferences, and standing instructions that the user only said (`smp_memory.model.standing_instructions`)
    critical    with a task: open critical findings
    <type>      without one: the newest of each type that is written down, findings by severity

Guarantees: all come from one state of the index; their sessions are visible (`smp_memory.context.visible_sessions`). The same store,
request and time give the same candidates. Settled memories are left out.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, zip_longest

from smp_memory.context.budget import section_of
from smp_memory.context.trace import CUT, NOT_FOR_AGENT, ContextCandidate
from smp_memory.model.candidates import CandidateRequest, Vocabulary
from smp_memory.model.ids import STATE_PREFIX
from smp_memory.model.session_info import GLOBAL_SESSION as GLOBAL
from smp_memory.model.statuses import SETTLED
from smp_memory.model.times import to_microseconds
from smp_memory.model.types import CRITICAL, KINDS, SEVERITY_WEIGHTS, names_where
from smp_memory.search.path import request_of
from smp_memory.search.query import Query
from smp_memory.search.ranking import Ranking, sort_key
from smp_memory.search.scoring import CANDIDATES
from smp_memory.search.succession import SuccessionOrder
from smp_memory.text.tokenizer import parse, terms, without_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from smp_memory.context.trace import ContextRequest
    from smp_memory.model.candidates import Candidate
    from smp_memory.model.types import Kind
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.search.port import SearchIndex
    from smp_memory.search.ranking import Ranked

_TOKENS_PER_LINE = 26  # so many memories are ranked as could fit
_FEWEST, _MOST, _SPARE = 16, 2000, 10
_NEWEST, _PREFERENCES, _WISHES, _STATES = 30, 30, 20, 200
_MOST_WORDS, _RARE_WORDS = 48, 16  # of a task of more words only the rarest are searched
_UNKNOWN_GRAVITY = 0.5
_FEW = 8  # matches that were written down
_BELOW_MATCHES = 0.01  # the score of what does not match, beside matches: it stands below them
_STEP = 0.01  # by which the score falls from one candidate to the next where there is no other measure


class CandidateSearch:
    """The candidates for one prompt."""

    def __init__(self, index: SearchIndex, viewer: Viewer | None, request: ContextRequest) -> None:
        self._index = index
        self._viewer = viewer
        self._request = request
        self.at = to_microseconds(request.now)
        self.allows = request.visible_sessions.allows
        self.default_session = request.session  # the session whose ids are given without a session
        self.warnings: list[str] = []  # of a search by meaning
        self.words = ""  # what is searched for: the task, or a topic that no memory has
        self.notes = [*request.notes]  # and that no memory has the topic or the tags
        self.vocabulary: Vocabulary | None = None  # of the words that were searched for
        self.has_states = False  # whether any memory took the place of another one, or is repeated by a turn
        self.ended: list[ContextCandidate] = []  # deleted and settled memories that match
        self._narrow: dict[str, list[str]] = {}  # topic and tags, if some memory has them
        self._sessions_searched: list[str] | None = None  # None: all of them
        self._met_hidden_session = False

    @property
    def is_narrowed(self) -> bool:
        """Whether only memories with the topic or the tags of the request are searched."""
        return bool(self._narrow)

    @property
    def is_for_task(self) -> bool:
        """Whether something matches or does not; otherwise the context is a digest."""
        return bool(self.words) or bool(self._narrow)

    def collect(self) -> dict[str, list[ContextCandidate]]:
        """The candidates by reason, best first.

        Searches all sessions; if a match is in a session that is not visible, again in the visible ones only. Most stores have one
        user, and to know the user of every session costs reading the metadata of all.
        """
        found = self._collect()
        if self._met_hidden_session:
            self._sessions_searched = self._request.visible_sessions.sessions()
            self.default_session = self._request.session
            self.notes = [*self._request.notes]
            if self._request.trace is not None:
                self._request.trace.clear()
            found = self._collect()
        return found

    def _collect(self) -> dict[str, list[ContextCandidate]]:
        self._narrow_down()
        turns = self._last_turns()
        found = {"state": self._own_state(), "turns": turns, "wishes": self._wishes()}
        if not self.is_for_task:
            return {**found, **self._newest()}
        last = {each.ref for each in turns}
        matches = self._matches()
        for each in matches:
            each.section = "turn" if each.ref in last else each.section
        return {
            **found,
            "matches": matches,
            "written": self._written(matches),
            "critical": self._critical(),
        }

    # -- queries to the index

    def _newest_of_types(
        self, types: tuple[str, ...], limit: int, session: str | None = None, *, narrow: bool = True
    ) -> list[Candidate]:
        """The newest memories of these types; with `narrow`, those with the topic and the tags of the request."""
        return self._select(self._conditions(types, session, narrow), limit)

    def _conditions(self, types: tuple[str, ...], session: str | None = None, narrow: bool = False) -> CandidateRequest:
        asked = CandidateRequest(types=types, valid_at=self.at, viewer=self._viewer, now=self.at, ignores_missing=True)
        asked.sessions = self._sessions_searched if session is None else [session]
        return asked.with_changes(**self._narrow) if narrow else asked

    def _select(self, request: CandidateRequest, limit: int) -> list[Candidate]:
        """The newest memories of visible sessions that meet a request."""
        found = self._index.candidates(request.with_changes(limit=limit))
        self.has_states = found.has_successions or found.has_echoes
        hidden = self._hidden_sessions(found.matches)
        return [each for each in found.matches if each.session not in hidden]

    def _hidden_sessions(self, candidates: Iterable[Candidate]) -> set[str]:
        """The sessions of these candidates that are not visible."""
        hidden = {session for session in {each.session for each in candidates} if not self.allows(session)}
        if hidden:
            self._met_hidden_session = True
        return hidden

    # -- what the context is about

    def _narrow_down(self) -> None:
        """Decide which words are searched, and whether topic and tags narrow the search: not if no memory has them."""
        request = self._request
        self._narrow, about = {}, request.task or ""
        if request.topic or request.tags:
            given = Query({"topic": request.topic, "tags": request.tags or None}, request.now)
            labels = {"topics": given.topics, "tags": given.tags}
            if self._select(self._conditions(()).with_changes(valid_at=given.now, **labels), 1):
                self._narrow = labels
            else:
                about = f"{request.topic or ''} {about}"
                what = " and ".join(
                    name for name, value in (("this topic", request.topic), ("these tags", request.tags)) if value
                )
                self.notes.append(f"No memory has {what}: not narrowed, and searched as words.")
        words = self._searched(without_signs(about))
        self.words = words if parse(words) else ""  # a task of signs alone is none
        if request.trace is not None:
            request.trace.words, request.trace.is_narrowed = self.words, bool(self._narrow)

    def _searched(self, words: str) -> str:
        """The words to search for; of a long task the rarest that some memory has."""
        if len(words.split()) <= _MOST_WORDS:
            return words
        each = dict.fromkeys(words.split())
        found = {word: terms(word) for word in each}
        every = {term for those in found.values() for term in those}
        known = self._index.vocabulary(every, self._viewer).frequencies
        frequency = {word: min((known[term] for term in those), default=0) for word, those in found.items()}
        rare = sorted((word for word in each if frequency[word]), key=lambda word: frequency[word])
        return " ".join(rare[:_RARE_WORDS])

    @property
    def _most(self) -> int:
        """As many memories as could fit."""
        return min(max(self._request.max_tokens // _TOKENS_PER_LINE, _FEWEST), _MOST)

    def _matches(self) -> list[ContextCandidate]:
        """What matches the words, best first; of a topic or tags then all the rest, newest first."""
        enough = self._most
        found = self._search(enough) if self.words else []
        if self._narrow and len(found) < enough:
            known = {each.ref for each in found}
            others = self._select(self._conditions((), narrow=True), enough)
            least = min((each.score for each in found), default=1.0)
            left = self._unsettled([each for each in others if each.ref not in known], "matches")
            found += _by_rank(left, least, "has the topic or the tags")
        return found

    def _search(self, enough: int, types: tuple[str, ...] = ()) -> list[ContextCandidate]:
        """What matches the words, best first, as a query ranks it."""
        request = self._request
        query = Query({"text": self.words, "include_expired": True}, request.now)
        asked = request_of(query, request.policy, self._viewer).with_changes(
            types=types, valid_at=self.at, sessions=self._sessions_searched, ignores_missing=True,
            limit=max(CANDIDATES, enough), include_deleted=True, **self._narrow,
        )  # fmt: skip
        asked.with_neighbours = asked.with_neighbours and not asked.has_labels
        answer = self._index.candidates(asked)
        if self.vocabulary is None:
            self.vocabulary = Vocabulary(answer.documents, answer.frequencies)
        self.warnings = answer.warnings
        ranking = Ranking(query, request.policy)
        ranked = ranking.rank(answer, enough, _SPARE)
        hidden = self._hidden_sessions(each.candidate for each in ranked)
        ordered = sorted((each for each in ranked if each.candidate.session not in hidden), key=sort_key(query.sort))
        ordered = list(SuccessionOrder(ranking, self.allows).ordered(ordered, answer))
        hidden = self._hidden_sessions(each.candidate for each in ordered)
        ordered = [each for each in ordered if each.candidate.session not in hidden]
        self._read_predecessors(ordered)
        found = [
            ContextCandidate(
                each.candidate,
                section_of(each.candidate.type),
                each.score,
                "matches",
                partial(ranking.relevance, each),
                partial(ranking.explain, each),
            )
            for each in (ordered if request.trace is not None else ordered[:enough])
        ]
        self.ended += [each for each in found if each.candidate.deleted or not _is_unsettled(each.candidate)]
        found = [each for each in found if not each.candidate.deleted]
        if request.trace is not None:
            self._trace_matches(found, enough)
        return [
            each
            for each in found[:enough]
            if _is_unsettled(each.candidate) and not _kind_of(each.candidate).is_named_by_agent
        ]

    def _read_predecessors(self, ordered: list[Ranked]) -> None:
        """Read what was superseded: a successor is as relevant as that."""
        old = {each.ref: each.predecessor[0] for each in ordered if each.predecessor is not None}
        records = self._index.records([each.candidate for each in old.values()], self._viewer) if old else {}
        for each in ordered if old else ():
            if each.predecessor is not None:
                each.predecessor = (old[each.ref], records.get(old[each.ref].ref))

    def _trace_matches(self, found: list[ContextCandidate], enough: int) -> None:
        trace = self._request.trace
        assert trace is not None
        for rank, each in enumerate(found, 1):
            if _kind_of(each.candidate).is_named_by_agent:
                trace.drop("matches", each, NOT_FOR_AGENT, "states of agents are not told as matches")
            elif not _is_unsettled(each.candidate):
                trace.drop("matches", each, SETTLED, f"its status is {each.candidate.status}")
            elif rank > enough:
                trace.drop("matches", each, CUT, f"rank {rank} of the matches; {enough} are read for this budget")

    def _written(self, matches: list[ContextCandidate]) -> list[ContextCandidate]:
        """Matches that were written down, if turns have filled the others: a long conversation repeats its words."""
        types = names_where("is_written_down")
        if not self.words or len(matches) < self._most - _SPARE:
            return []
        if sum(_kind_of(each.candidate).is_written_down for each in matches) >= _FEW:
            return []
        return self._search(_FEW, types) if self._newest_of_types(types, 1) else []

    # -- candidates for other reasons

    def _last_turns(self) -> list[ContextCandidate]:
        """The last turns of the session; if it has none, those of the session before."""
        request, types = self._request, names_where("is_said")
        rows = self._newest_of_types(types, request.turns, request.session, narrow=False) if request.session else []
        where = "this session"
        if not rows:
            rows = self._newest_of_types(types, max(request.turns, 1), narrow=False)
            rows = [row for row in rows if row.session == rows[0].session][: request.turns]
            if request.session:
                where = "the session before"
        if self.default_session is None:
            self.default_session = self._latest(rows)
        return [
            ContextCandidate(row, "turn", 1 - _STEP * rank, f"{rank + 1} from the end of {where}")
            for rank, row in enumerate(rows)
        ]

    def _latest(self, turns: list[Candidate]) -> str | None:
        """The session with the newest turn, else the one with the newest other memory."""
        for row in turns or self._newest_of_types((*names_where("is_written_down"), *_states()), _NEWEST, narrow=False):
            if row.session != GLOBAL:
                return row.session
        return None

    def _own_state(self) -> list[ContextCandidate]:
        """The agent's state in the session, or in the last one where it had a state."""
        agent = self._request.agent
        if agent is None:
            return []
        name = STATE_PREFIX + agent
        row = self._state_here(name) if self.default_session else None
        if row is None:
            here = (
                self._newest_of_types(_states(), _STATES, self.default_session, narrow=False)
                if self.default_session
                else []
            )
            row = self._state_in(here, name) or self._state_in(
                self._newest_of_types(_states(), _STATES, narrow=False), name
            )
        return (
            [ContextCandidate(row, "state", 1.0, "its own state")]
            if row is not None and not self._hidden_sessions([row])
            else []
        )

    def _state_here(self, name: str) -> Candidate | None:
        asked = CandidateRequest(refs=[f"{self.default_session}/{name}"], viewer=self._viewer, limit=1)
        found = self._index.candidates(asked).matches
        return found[0] if found else None

    def _state_in(self, rows: list[Candidate], name: str) -> Candidate | None:
        """The agent's state among these rows; after a deletion its id is `STATE-<agent>-2`."""
        for row in rows:
            if row.id == name or row.id.startswith(name + "-"):
                record = self._index.records([row], self._viewer).get(row.ref)
                if record is not None and record.given.get("agent") == self._request.agent:
                    return row
        return None

    def _wishes(self) -> list[ContextCandidate]:
        """Preferences and standing instructions, taking turns; those of the session and of `global` before others, the newest first."""
        types = names_where("is_named_by_key")
        rows = self._newest_of_types(types, _PREFERENCES, narrow=False)
        if len(rows) == _PREFERENCES:  # there may be older ones of this session
            here = [
                self._newest_of_types(types, _PREFERENCES, each, narrow=False)
                for each in (self.default_session, GLOBAL)
                if each
            ]
            rows = list({row.ref: row for row in chain(*here, rows)}.values())
        said = self._select(self._conditions(()).with_changes(only_wishes=True), _WISHES)
        order = {self.default_session: 0, GLOBAL: 1}
        preferences = sorted(rows, key=lambda row: (order.get(row.session, 2), *_newest_first(row)))
        wishes = sorted(said, key=lambda row: (min(order.get(row.session, 1), 1), *_newest_first(row)))
        found: list[ContextCandidate] = []
        for preference, wish in zip_longest(preferences, wishes):
            score = 1 - _STEP * len(found)
            if preference is not None:
                found.append(ContextCandidate(preference, preference.type, score, self._place_of(preference)))
            if wish is not None:
                found.append(ContextCandidate(wish, types[0], score - _STEP / 2, "a standing instruction"))
        return found

    def _place_of(self, row: Candidate) -> str:
        places = {GLOBAL: "holds in all sessions", self.default_session: "of this session"}
        return places.get(row.session, "of another session")

    def _critical(self) -> list[ContextCandidate]:
        """Open findings of the gravest severity."""
        found = []
        for name in names_where("is_open_until_closed"):
            rows = self._newest_of_types((name,), KINDS[name].context_newest // 2)
            found += self._unsettled([row for row in rows if _severity(row) == CRITICAL], "critical")
        return [
            ContextCandidate(row, row.type, _BELOW_MATCHES / (1 + rank), _open_why(row, "of the store"))
            for rank, row in enumerate(sorted(found, key=_newest_first))
        ]

    def _unsettled(self, rows: Iterable[Candidate], lane: str) -> list[Candidate]:
        """Those of these rows that are not settled."""
        found = list(rows)
        trace = self._request.trace
        for row in found if trace is not None else ():
            if trace is not None and not _is_unsettled(row):
                settled = ContextCandidate(row, section_of(row.type), 0.0, "")
                trace.drop(lane, settled, SETTLED, f"its status is {row.status}")
        return [row for row in found if _is_unsettled(row)]

    def _newest(self) -> dict[str, list[ContextCandidate]]:
        """Of each type that is written down the newest, those of the session before others; findings by severity."""
        types = _curated_without_key()
        rows = {name: self._newest_of_types((name,), KINDS[name].context_newest) for name in types}
        if any(
            len(found) == KINDS[name].context_newest for name, found in rows.items()
        ):  # there may be older ones here
            for session in filter(None, (self.default_session, GLOBAL)):
                for row in self._newest_of_types(types, _NEWEST, session):
                    rows[row.type].append(row)
        return {name: self._newest_of(name, found) for name, found in rows.items()}

    def _newest_of(self, name: str, rows: list[Candidate]) -> list[ContextCandidate]:
        places = {self.default_session: 0, GLOBAL: 1}
        reasons = ("new in this session", "holds in all sessions", "new in the store")
        by_severity = KINDS[name].is_open_until_closed
        found = [
            (-_gravity(row) if by_severity else 0.0, places.get(row.session, 2), *_newest_first(row), row)
            for row in self._unsettled({row.ref: row for row in rows}.values(), name)
        ]
        found.sort(key=lambda each: each[:5])
        return [
            ContextCandidate(
                row,
                name,
                (-grave or 1.0) - _STEP * rank / 10,
                _open_why(row, reasons[place]) if grave else reasons[place],
            )
            for rank, (grave, place, _, _, _, row) in enumerate(found[: self._most])
        ]


def _by_rank(rows: Iterable[Candidate], best: float, why: str) -> list[ContextCandidate]:
    """Candidates whose scores fall from the best one."""
    return [
        ContextCandidate(row, section_of(row.type), best / (1 + _STEP * (rank + 1)), why)
        for rank, row in enumerate(rows)
    ]


def _is_unsettled(row: Candidate) -> bool:
    return row.status is None or row.status.lower() not in _kind_of(row).settled or _kind_of(row).is_named_by_key


def _open_why(row: Candidate, why: str) -> str:
    return f"open, {row.severity}; {why}" if row.severity else f"open; {why}"


def _newest_first(row: Candidate) -> tuple[Any, ...]:
    """By time; at the same time by position in the session."""
    return -row.created, -row.position, row.id


def _severity(row: Candidate) -> str:
    return row.severity.strip().lower() if isinstance(row.severity, str) else ""


def _gravity(row: Candidate) -> float:
    return SEVERITY_WEIGHTS.get(_severity(row), _UNKNOWN_GRAVITY)


def _kind_of(row: Candidate) -> Kind:
    return KINDS[row.type]


def _states() -> tuple[str, ...]:
    return names_where("is_named_by_agent")


def _curated_without_key() -> tuple[str, ...]:
    """The types that are written down, but for those with a key: of these only one per key is included."""
    return tuple(name for name in names_where("is_written_down") if not KINDS[name].is_named_by_key)
