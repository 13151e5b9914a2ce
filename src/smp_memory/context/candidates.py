"""Which memories could an agent need now? Candidates for its prompt, each with how much it is wanted, and why.

    task, topic   what matches them: decisions, open findings, learnings, preferences, and turns of any session
    session       its last turns, newest decisions, open findings, preferences
    agent         its own state, here or in the last session where it had one
    global        what was promoted from other sessions, and what files of the designs hold for all of them (`shared_files`)

Guarantees: all come from one state of the index, as their records stand in the files, the agent may see them, and their
sessions are within reach (`smp_memory.context.builder`). The same
store, question and time give the same candidates. What is settled, superseded or about somebody else is left out.
"""

from __future__ import annotations

from heapq import merge

from smp_memory.context.budget import ContextItem
from smp_memory.context.format import head_of, said_by
from smp_memory.index.rows import POSITION_BITS
from smp_memory.index.selection import RowConditions
from smp_memory.index.tokens import parse, terms, without_signs
from smp_memory.model.ids import STATE_PREFIX
from smp_memory.model.session_info import GLOBAL_SESSION as GLOBAL
from smp_memory.model.types import KINDS, NUMBERED, SEVERITY_WEIGHTS, names_where
from smp_memory.policies.statuses import is_settled
from smp_memory.search.query import NEWEST, Query
from smp_memory.search.ranking import Ranking
from smp_memory.search.scoring import CANDIDATES, RARITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import Any

    from smp_memory.context.builder import SessionReach
    from smp_memory.index.rows import Row
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind
    from smp_memory.store.visible_index import VisibleFinder

_MATCHING, _EARLIER, _JUDGED, _SPARE = 20, 6, 32, 10
_FIRST_BLOCK, _BLOCK = 24, 8  # memories that are read at once
_NEWEST, _PREFERENCES, _STATES = 30, 30, 200
_UNKNOWN_GRAVITY = 0.5
_ENOUGH = 0.4  # of the best match: what fits less is left out
_MOST_WORDS = 12
_FEW = 8
_LEAST = 0.02
_POSITION = (1 << POSITION_BITS) - 1
_CHARACTERS = 12  # no tokeniser takes more for one, but for very long words
FROM_A_FILE = "holds in all sessions, read from a file for them"  # such a memory has no place in the index
_NEW, _NEW_WITH_A_TASK = 0.45, 0.2  # how much it counts that something is new


class ContextRequest:
    """Who needs what."""

    __slots__ = ("agent", "now", "policy", "reach", "session", "task", "topic", "turns", "words")

    def __init__(
        self,
        agent: str | None,
        task: str | None,
        topic: str | None,
        session: str | None,
        turns: int,
        now: datetime,
        policy: Any,
        reach: SessionReach | None = None,
    ) -> None:
        self.agent = agent
        self.task = task
        self.topic = topic
        self.session = session
        self.turns = turns
        self.now = now
        self.policy = policy
        self.reach = reach  # the sessions that may be gathered from; None: all
        self.words = _words(f"{topic or ''} {task or ''}")  # task and topic as words alone, each once


def _words(text: str) -> str:
    return " ".join(dict.fromkeys(without_signs(text).split()))


class Candidate:
    """A memory that may be needed, before it is read."""

    __slots__ = ("row", "score", "section", "why")

    def __init__(self, row: Row, section: str, score: float, why: str) -> None:
        self.row = row
        self.section = section
        self.score = score
        self.why = why


class CandidateSearch:
    """The candidates for one prompt."""

    def __init__(self, finder: VisibleFinder, wanted: ContextRequest, shared: list[Record] | None = None) -> None:
        self._finder = finder
        self._shared = shared or []  # memories outside of the index
        self._wanted = wanted
        self.home = wanted.session  # the session whose ids need no session before them
        self._found: dict[int, Candidate] = {}
        self._sessions: dict[int, str] = {}
        self._numbers: dict[str, list[int]] = {}
        self._within: list[int] | None = None  # numbers of the sessions that are asked; None: all of them
        self._met_others = False

    def gather(self) -> None:
        """Ask all sessions; if some of what is found is another user's, ask again only those that may be gathered from.

        Most stores have one user, and to know the user of every session costs reading all their heads.
        """
        self._gather()
        if self._met_others and self._wanted.reach is not None:
            self._within = self._finder.session_numbers(self._wanted.reach.sessions())
            self._found.clear()
            self.home = self._wanted.session
            self._gather()

    def _gather(self) -> None:
        self._last_turns()
        self._own_state()
        self._matching()
        self._newest()
        self._preferences()

    def items(self) -> Iterator[ContextItem]:
        """What may come into the prompt, best first; memories are read as they are needed."""
        keys: set[str] = set()
        return merge(self._indexed(keys), self._from_shared_files(keys), key=lambda item: -item.score)

    def _from_shared_files(self, keys: set[str]) -> Iterator[ContextItem]:
        """Behind all preferences of the session `global`, which go first for one key."""
        words = set(self._wanted.words.casefold().split())
        found = []
        for place, record in enumerate(self._shared):
            text = f"{said_by(record)} {record.given.get('topic', '')}".casefold()
            fit = sum(word in text for word in words) / len(words) if words else _NEW
            score = 0.69 if KINDS[record.type].is_named_by_key else 0.3 + 0.5 * fit
            found.append((max(score - 0.001 * place, _LEAST), record))
        for score, record in sorted(found, key=lambda each: -each[0]):
            if self._is_needed(record, record.type, keys):
                yield ContextItem(record, record.type, score, FROM_A_FILE, head_of(record, self.home), said_by(record))

    def _indexed(self, keys: set[str]) -> Iterator[ContextItem]:
        ordered = sorted(self._found.values(), key=_best_first)
        start, size = 0, _FIRST_BLOCK
        while start < len(ordered):
            block = ordered[start : start + size]
            start, size = start + size, _BLOCK
            records = self._finder.records([each.row for each in block])
            for each in block:
                record = records.get(each.row.doc)
                if record is not None and not record.deleted and self._is_needed(record, each.section, keys):
                    yield ContextItem(
                        record, each.section, each.score, each.why, head_of(record, self.home), said_by(record)
                    )

    def enough_for(self, max_tokens: int) -> list[ContextItem]:
        """As many of them as could fit if a token had few characters."""
        found: list[ContextItem] = []
        characters = 0
        for item in self.items():
            found.append(item)
            characters += len(item.line)
            if characters > _CHARACTERS * max_tokens:
                break
        return found

    # -- what is asked of the index

    def _rows(self, types: tuple[str, ...], limit: int, session: str | None = None) -> list[Row]:
        conditions = RowConditions()
        conditions.types = [KINDS[name].number for name in types]
        if session is not None:
            if session not in self._numbers:
                self._numbers[session] = self._finder.session_numbers([session])
            conditions.sessions = self._numbers[session]
        return self._select(conditions, limit)

    def _select(self, conditions: RowConditions, limit: int) -> list[Row]:
        """The newest memories that meet the conditions, within reach."""
        if conditions.sessions is None:
            conditions.sessions = self._within
        states = [KINDS[name].number for name in _states()]
        # most states are another agent's: told apart by their ids, without reading them
        select = self._finder.select if conditions.types == states else self._finder.select_shown
        return [row for row in select(conditions, NEWEST, limit) if self._is_in_reach(row)]

    def _is_in_reach(self, row: Row) -> bool:
        reach = self._wanted.reach
        if reach is None or reach.allows(self._session_of(row)):
            return True
        self._met_others = True
        return False

    def _search(self, words: str, types: tuple[str, ...] = ()) -> list[tuple[Row, float]]:
        """What matches these words, best first."""
        question = Query({"text": words, "types": types}, self._wanted.now)
        text, conditions = parse(question.text), self._finder.conditions(question)
        if not text:
            return []
        conditions.sessions = self._within
        found = self._finder.search(text, conditions, CANDIDATES, RARITY)
        ranking = Ranking(question, self._finder, self._wanted.policy)
        judged = ranking.rank_matches(found, text, conditions, _JUDGED, _SPARE)
        return sorted(((each.row, each.relevance) for each in judged if self._is_in_reach(each.row)), key=_fits_best)

    def _good(self, found: list[tuple[Row, float]], limit: int) -> list[tuple[Row, float]]:
        """The first ones that fit nearly as well as the best that the agent may see."""
        for place, (row, best) in enumerate(found):
            if self._finder.shows(row):
                return [each for each in found[place : place + limit] if each[1] >= _ENOUGH * best]
        return []

    def _telling_words(self) -> str:
        """Those words of a long task that say most: the rare ones that some memory has."""
        words = self._wanted.words.split()
        if len(words) <= _MOST_WORDS:
            return self._wanted.words
        known = {word: min(map(self._finder.document_frequency, terms(word)), default=0) for word in words}
        rare = sorted((word for word in words if known[word]), key=lambda word: known[word])
        return " ".join(rare[:_MOST_WORDS])

    # -- the parts

    def _last_turns(self) -> None:
        """Of the session; at its beginning, of the one before."""
        wanted = self._wanted
        said = names_where("is_said")
        rows = self._rows(said, wanted.turns, wanted.session) if wanted.session else []
        where, penalty = "this session", 0.0
        if not rows:
            rows = self._rows(said, max(wanted.turns, 1))
            rows = [row for row in rows if row.doc >> POSITION_BITS == rows[0].doc >> POSITION_BITS][: wanted.turns]
            if wanted.session:
                where, penalty = "the session before", 0.2
        if self.home is None:
            self.home = self._latest(rows)
        for place, row in enumerate(rows):
            self._add(row, "turn", 0.86 - 0.03 * place - penalty, f"{place + 1} from the end of {where}")

    def _latest(self, turns: list[Row]) -> str | None:
        """The session that was spoken in last, else the one that was written in last."""
        for row in turns or self._rows((*names_where("is_written_down"), *_states()), _NEWEST):
            session = self._finder.session_of(row.doc)
            if session != GLOBAL:
                return session
        return None

    def _own_state(self) -> None:
        """In the session, or in the last one where the agent had a state."""
        agent = self._wanted.agent
        if agent is None:
            return
        name = STATE_PREFIX + agent
        row = self._finder.row(self.home, name) if self.home else None
        if row is None or row.deleted:
            row = self._state_among(self._rows(_states(), _STATES, self.home) if self.home else [], name)
        if row is None:
            row = self._state_among(self._rows(_states(), _STATES), name)
        if row is not None:
            self._add(row, "state", 0.95, "its own state")

    def _state_among(self, rows: list[Row], name: str) -> Row | None:
        """The agent's state among these; after a deletion its id is `STATE-<agent>-2`."""
        for row in rows:
            if row.id == name or row.id.startswith(name + "-"):
                record = self._finder.records([row]).get(row.doc)
                if record is not None and record.given.get("agent") == self._wanted.agent:
                    return row
        return None

    def _matching(self) -> None:
        wanted, written_types = self._wanted, names_where("is_written_down")
        if wanted.topic:
            question = Query({"topic": wanted.topic, "types": written_types}, wanted.now)
            rows = self._select(self._finder.conditions(question), _MATCHING)
            for place, row in enumerate(rows):
                self._consider(row, 0.75 - 0.01 * place, "is about the topic")
        words = self._telling_words()
        if not words:
            return
        found = self._search(words)  # all types: to leave some out costs more than to pass over them
        turns = [each for each in found if _kind_of(each[0]).is_turn]
        written = [each for each in found if _kind_of(each[0]).is_written_down]
        if len(written) < _FEW:  # what was said may drown what was written down
            written = self._search(words, written_types)
        for row, relevance in self._good(written, _MATCHING):
            self._consider(row, relevance, f"matches ({relevance:.2f})")
        for row, relevance in self._good(turns, _EARLIER):
            self._add(row, "earlier", 0.25 + 0.45 * relevance, f"matches ({relevance:.2f})")

    def _newest(self) -> None:
        """What was written last, in the session, for all sessions, and without a task in the whole store."""
        written = _written_without_key()
        rows = [row for name in written for row in self._rows((name,), KINDS[name].context_newest)]
        own = [row for row in rows if self._is_of(row, self.home)]
        if self.home and len(own) < _FEW and len(rows) >= _NEWEST:  # it may have older ones
            own = self._rows(written, _NEWEST, self.home)
        self._consider_new(own, 0.0, "new in this session")
        self._consider_new(self._rows(written, _NEWEST, GLOBAL), 0.05, "holds in all sessions")
        if not self._wanted.words:
            self._consider_new(rows, 0.15, "new in the store")

    def _consider_new(self, rows: list[Row], penalty: float, why: str) -> None:
        """The newer, the more it is worth, among others of its type; of findings, the graver."""
        worth = _NEW_WITH_A_TASK if self._wanted.words else _NEW
        places: dict[int, int] = {}
        for row in sorted(filter(_stands, rows), key=_new_and_grave):
            place = places[row.type] = places.get(row.type, -1) + 1
            if place < _NEWEST:
                self._consider(row, max(worth - penalty - 0.02 * place, _LEAST), why)

    def _preferences(self) -> None:
        """The session's own before global ones before others: of one key the first is taken."""
        scopes: list[tuple[str | None, float, str]] = [(GLOBAL, 0.4, "holds in all sessions")]
        if self.home:
            scopes.append((self.home, 0.6, "of this session"))
        if not self._wanted.words:
            scopes.append((None, 0.2, "of another session"))
        for session, fit, why in scopes:
            for place, row in enumerate(self._rows(names_where("is_named_by_key"), _PREFERENCES, session)):
                self._consider(row, fit - 0.005 * place, why)

    # -- what a candidate is worth

    def _consider(self, row: Row, fit: float, why: str) -> None:
        kind = _kind_of(row)
        if not kind.is_named_by_key and not _stands(row):
            return
        if kind.is_open_until_closed:
            grave = f"open, {row.severity}; {why}" if row.severity else f"open; {why}"
            self._add(row, kind.name, 0.7 * _gravity(row.severity) + 0.3 * fit, grave)
        elif kind.is_named_by_key:
            nearer = 0.15 if self._is_of(row, self.home) else 0.05 if self._is_of(row, GLOBAL) else 0.0
            self._add(row, kind.name, 0.6 + 0.2 * fit + nearer, why)
        else:
            base, share = kind.context_score
            self._add(row, kind.name, base + share * fit, why)

    def _is_of(self, row: Row, session: str | None) -> bool:
        return self._session_of(row) == session

    def _session_of(self, row: Row) -> str:
        number = row.doc >> POSITION_BITS
        if number not in self._sessions:
            self._sessions[number] = self._finder.session_of(row.doc)
        return self._sessions[number]

    def _add(self, row: Row, section: str, score: float, why: str) -> None:
        known = self._found.get(row.doc)
        if known is None or known.score < score:
            self._found[row.doc] = Candidate(row, section, max(score, _LEAST), why)

    def _is_needed(self, record: Record, section: str, keys: set[str]) -> bool:
        """What only the memory itself can tell."""
        if section not in KINDS:  # a state or a turn
            return True
        if KINDS[section].is_named_by_key:
            key = record.key if isinstance(record.key, str) else ""
            if not self._applies(record) or (key and key in keys):
                return False
            keys.add(key)
        elif KINDS[section].statuses:
            return not is_settled(record) and not self._finder.is_superseded(record)
        return True

    def _applies(self, record: Record) -> bool:
        """Whether a preference is for this agent, or for what it is about to do."""
        said = record.applies_to
        names = [said] if isinstance(said, str) else said if isinstance(said, list) else []
        wanted = self._wanted
        about = f"{wanted.topic or ''} {wanted.task or ''}".casefold()
        for name in names:
            word = str(name).casefold()
            if word in ("", "*", "all", "any", "everything") or name == wanted.agent or word in about:
                return True
        return not names or not (wanted.agent or about.strip())


def _best_first(candidate: Candidate) -> tuple[Any, ...]:
    return -candidate.score, candidate.section, *_newest_first(candidate.row)


def _fits_best(found: tuple[Row, float]) -> tuple[Any, ...]:
    return -found[1], *_newest_first(found[0])


def _stands(row: Row) -> bool:
    return row.status is None or row.status.lower() not in _kind_of(row).settled


def _new_and_grave(row: Row) -> tuple[Any, ...]:
    return -_gravity(row.severity), *_newest_first(row)


def _newest_first(row: Row) -> tuple[Any, ...]:
    """By time; of one moment, as they stand in their session."""
    return -row.created, -(row.doc & _POSITION), row.id


def _gravity(severity: Any) -> float:
    word = severity.strip().lower() if isinstance(severity, str) else ""
    return SEVERITY_WEIGHTS.get(word, _UNKNOWN_GRAVITY)


def _kind_of(row: Row) -> Kind:
    return KINDS[NUMBERED[row.type]]


def _states() -> tuple[str, ...]:
    return names_where("is_named_by_agent")


def _written_without_key() -> tuple[str, ...]:
    """Of what was written down all but preferences, of which each key holds once."""
    return tuple(name for name in names_where("is_written_down") if not KINDS[name].is_named_by_key)
