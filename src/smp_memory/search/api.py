"""Ask a session or a whole store. The ways to find, shared by both.

    for hit in session.query("which database did we choose?"):
        print(hit.relevance, hit.record.decision, hit.explain)

A query is caught up with everything that was acknowledged before it, by any process. It takes no lock that a writer
would wait for, and writes nothing that matters.
"""

from __future__ import annotations

import time

from smp_memory import event_log
from smp_memory.errors import (
    InvalidQuery,
    MemoryNotFound,
    SessionArchived,
    SessionCorrupt,
    SessionNotFound,
    StorageCorrupt,
)
from smp_memory.import_lock import loading
from smp_memory.model import ids
from smp_memory.store.incomplete import explained

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from typing import Any, TypeVar

    from smp_memory.config import Config
    from smp_memory.model.hits import Hit, Hits, Related
    from smp_memory.model.record import Record, Records
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.overview.participants import Participants
    from smp_memory.overview.summary import SessionSummary
    from smp_memory.overview.timeline import Timeline
    from smp_memory.overview.topics import Topics
    from smp_memory.search.query import Query
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.finder import Finder

    _Overview = TypeVar("_Overview", Topics, Timeline, Participants, SessionSummary)

_loaded: list[bool] = []


def load() -> None:
    """Load what answers questions; once, and while nobody forks."""
    if not _loaded:
        with loading:
            import smp_memory.decay.policies
            import smp_memory.search.path
            import smp_memory.search.ranking
            import smp_memory.store.indexer  # noqa: F401
        _loaded.append(True)


class SearchMethods:
    """What a session and a store have in common when they are asked."""

    def _asked_store(self) -> FileStore:
        raise NotImplementedError

    def _asked_sessions(self) -> list[str] | None:
        """The sessions that are asked; None: all."""
        raise NotImplementedError

    def _asked_config(self) -> Config:
        raise NotImplementedError

    def _asked_at(self) -> datetime:
        raise NotImplementedError

    # -- asking

    def query(self, text: str | Mapping[str, Any] | None = None, **asked: Any) -> Hits:
        """Find memories, best first.

        text      words as they come; `"a phrase"`, `prefix*`, `-without`. Any word may match, rare ones count more.
        types, tags, all_tags, not_tags, agents, topic    one or several; a tag finds those below it, too
        time      "last 24 hours", "since monday", "2026-01", ("2026-01-05", "2026-01-10"); or since=, until=
        where     {"severity": "critical", "impact.score": {"greater": 3}}: any field, nested ones with dots
        min_priority, min_importance, min_relevance, min_confidence, confidence, pinned
        references, related_to (with depth and kinds), include_related
        include_decayed, include_archived, include_deleted
        sort      relevance, newest, oldest, priority, importance, severity, access; with `_asc` the other way round; limit, offset
        count_by  type, tag, agent, day, session, topic: `hits.counts`; {"field": …, "op": "avg"}: `hits.aggregations`
        topic_in_text  whether a topic may also be a part of the text; True in the layout `single`
        mode      default, weighted or product;  at: the time of asking;  timeout in seconds
        """
        if text is not None and not isinstance(text, str) and hasattr(text, "keys"):
            asked = {**text, **asked}
        elif text is not None:
            asked["text"] = text
        load()
        track = asked.pop("track_access", True)
        if self._asked_config().layout == "single":  # as its design asks for a topic, 000 §4
            asked.setdefault("topic_in_text", True)
        hits = self._answer(self._question(asked))
        if track:
            self._note_access([hit.record for hit in hits], self._asked_at())
        return hits

    def _question(self, asked: dict[str, Any]) -> Query:
        """What is asked for, in these sessions unless it says otherwise."""
        from smp_memory.search.query import Query

        scope = self._asked_sessions()
        if scope is not None and asked.get("sessions") is None and asked.get("session") is None:
            asked = {**asked, "sessions": scope}
        return Query(asked, self._asked_at())

    def _answer(self, question: Query) -> Hits:
        from smp_memory.search.path import Search
        from smp_memory.search.ranking import Ranking, asks_by_meaning

        store, policy = self._asked_store(), self._policy()
        store.check_open()

        def ask(question: Query) -> Hits:
            began = time.monotonic()
            hits: Hits = store.indexer.answer(
                question.sessions,
                lambda finder: Search(question, finder, Ranking(question, finder, policy)).run(),
                with_others=question.leads_elsewhere,
                by_meaning=asks_by_meaning(question),
            )
            seconds = time.monotonic() - began
            if seconds >= event_log.SLOW_QUERY_SECONDS:
                text = f"A query took {seconds:.1f} s."
                event_log.emit(
                    "query", event_log.WARNING, "slow_query", text, seconds=round(seconds, 3), hits=len(hits)
                )
            return hits

        if not question.include_archived:
            hits = ask(question)
            if question.sessions is None:
                hits.archived_not_searched = store.archived_count()
        else:
            from smp_memory.search.archive_search import with_archived

            hits = with_archived(store, question, policy, ask)
        if question.sessions is None:
            hits.shared_not_searched = store.shared_count()
        return hits

    def _policy(self) -> Any:
        from smp_memory.decay.policies import policy_in

        return policy_in(self._asked_config())

    def _note_access(self, records: list[Record], now: datetime) -> None:
        """They were handed out now, whatever time the question was about."""
        config = self._asked_config()
        if config["track_access"]:
            self._asked_store().access.record([record.ref for record in records], now.timestamp())

    def watch(
        self, text: str | None = None, *, timeout: float | None = None, pause: float = 0.1, **asked: Any
    ) -> Iterator[Hit]:
        """Yield memories that match as any process writes them; for ever, or for so many seconds.

        What is there already is not yielded. `for hit in memory.watch(types="finding"): …`
        """
        from smp_memory.search.watch import watch

        scope = self._asked_sessions()
        if scope is not None:
            asked["sessions"] = scope
        if text:
            asked["text"] = text
        self._asked_store().check_open()
        return watch(self._asked_store(), asked, self._asked_at, self._policy(), timeout, pause)

    # -- shortcuts

    def by_topic(self, topic: str, **asked: Any) -> Hits:
        """Memories about a topic: those that say so, and those with the tag."""
        return self.query(topic=topic, **asked)

    def by_agent(self, agent: str, **asked: Any) -> Hits:
        return self.query(agents=agent, **asked)

    def by_type(self, type: str, **asked: Any) -> Hits:
        return self.query(types=type, **asked)

    def by_time_range(self, start: Any, end: Any = None, **asked: Any) -> Hits:
        """Memories of a time: two times, or one range such as "last week"."""
        return self.query(time=start if end is None else (start, end), **asked)

    def priority(self, id: Any, at: Any = None) -> float:
        """How present a memory is, 0 to 1, now or at a time: `session.priority("DEC-0001", at="2026-12-24")`."""
        from smp_memory.index.documents import decay_inputs
        from smp_memory.search.query import Query

        name = getattr(id, "ref", None) or id
        if not isinstance(name, str):
            raise InvalidQuery(f"id: give the id of a memory, not {name!r}.", field="id")
        question = Query({"at": at}, self._asked_at())
        sessions = self._asked_sessions()
        session, memory_id = _split(name, sessions[0] if sessions else "")
        if not session:
            raise InvalidQuery(f"id: say which session {name!r} is in: session/{name or 'ID'}.", field="id")
        store, policy = self._asked_store(), self._policy()
        store.check_open()

        def look(finder: Finder) -> float:
            row = finder.row(session, memory_id)
            if row is None:
                error = MemoryNotFound(
                    f"{memory_id} does not exist in session {session}.", id=memory_id, session=session
                )
                raise explained(error, finder.problems([session]))
            return float(policy.priority(decay_inputs(row, finder.accesses([row.doc])), question.now))

        return store.indexer.answer([session], look)

    # -- what is there

    def topics(self) -> Topics:
        """What is talked about: topics and tags, the weightiest first."""
        from smp_memory.overview import topics

        records = self._looked_over()
        return _marked(topics(records, priority=self._priority_of(), across_sessions=self._is_many()), records)

    def timeline(self, by: str = "hour", *, time: Any = None, since: Any = None, until: Any = None) -> Timeline:
        """What happened when; `time` is a range such as "last week"."""
        from smp_memory.overview import timeline
        from smp_memory.search.query import Query

        asked = Query({"time": time, "since": since, "until": until}, self._asked_at()).time
        start, end = (asked.start_time, asked.end_time) if asked is not None else (None, None)
        records, many = self._looked_over(), self._is_many()
        made = timeline(records, by=by, since=start, until=end, across_sessions=many, users=self._users())
        return _marked(made, records)

    def agents(self) -> Participants:
        """Who took part, and with what."""
        from smp_memory.overview import agents

        records = self._looked_over()
        return _marked(agents(records, across_sessions=self._is_many(), users=self._users()), records)

    def summarize(self) -> SessionSummary:
        """Decisions, open findings, preferences and topics in a page. No model is needed."""
        from smp_memory.overview import summarize

        records, many = self._looked_over(), self._is_many()
        made = summarize(records, self._head(), priority=self._priority_of(), across_sessions=many, users=self._users())
        return _marked(made, records)

    def _users(self) -> dict[str, str]:
        """The names of the users of the sessions asked, by session; a store overrides it."""
        try:
            head = self._head()
        except (SessionCorrupt, StorageCorrupt):  # an unreadable head costs the name
            return {}
        return {head.id: head.user} if head is not None and head.user else {}

    def _is_many(self) -> bool:
        return self._asked_sessions() is None

    def _head(self) -> SessionInfo | None:
        return None

    def _looked_over(self) -> Records:
        """All memories. Looking them over is not using them."""
        raise NotImplementedError

    def _priority_of(self) -> Callable[[Record], float]:
        from smp_memory.decay.inputs import DecayInputs
        from smp_memory.index.documents import microseconds
        from smp_memory.model.times import to_text

        policy, now = self._policy(), microseconds(to_text(self._asked_at()))
        used = self._asked_store().indexer.answer(self._asked_sessions(), lambda finder: finder.all_accesses())

        def priority(record: Record) -> float:
            count, last = used.get(record.ref, (None, None))
            return float(policy.priority(DecayInputs.of(record, count, last), now))

        return priority

    # -- what is near

    def find_similar(self, what: Any, **asked: Any) -> Hits:
        """Memories that say much the same as a text, or as the memory with an id; best first."""
        load()
        from smp_memory.index.documents import text_of

        record = self._record_meant(what)
        text = what if record is None else record.text or text_of(record.given)
        if not isinstance(text, str):
            raise InvalidQuery(f"find_similar: give a text or the id of a memory, not {what!r}.", field="text")
        return self._similar(text, record, asked)

    def _similar(self, text: str, record: Record | None, asked: dict[str, Any]) -> Hits:
        """Nothing is similar to a text without words. A record is not similar to itself, on whichever page that is."""
        from smp_memory.model.hits import Hits

        track = asked.pop("track_access", True)
        question = self._question({**asked, "text": similar_words(text)})
        if not question.text:
            return Hits([])
        first, end = question.offset, question.offset + question.limit
        question.offset, question.limit = 0, end + 1
        hits = self._answer(question)
        others = [hit for hit in hits if record is None or hit.record.ref != record.ref]
        more = hits.more or len(others) > end
        page = Hits(others[first:end], more=more, counts=hits.counts, left_out=hits.left_out, problems=hits.problems)
        page.archived_not_searched = hits.archived_not_searched
        page.shared_not_searched = hits.shared_not_searched
        if track:
            self._note_access(page.records, self._asked_at())
        return page

    def _record_meant(self, what: Any) -> Record | None:
        """The record, if it is one, or its id; None for any other text."""
        if not isinstance(what, str):
            found: Record | None = getattr(what, "record", what) if hasattr(what, "ref") else None
            return found
        session, _, memory_id = what.rpartition("/")
        if not ids.is_valid(memory_id) or (session and not ids.is_valid(session)):
            return None
        try:
            return self._find(session, memory_id)
        except (SessionArchived, SessionNotFound):
            return None

    def _find(self, session: str, memory_id: str) -> Record | None:
        sessions = self._asked_sessions()
        if not session and sessions is None:
            return None
        name = session or (sessions or [""])[0]
        trail = self._asked_store().session(name).view(lambda fold: fold.trails.get(memory_id))
        record: Record | None = trail.record(name) if trail is not None else None
        return record

    def find_related(
        self, id: Any, depth: int = 1, kinds: str | list[str] | None = None, **asked: Any
    ) -> list[Related]:
        """Memories that this one points to or that point to it, up to so many steps away, nearest first.

        With the parts of a `query` only those of them that meet it: `find_related("FIND-0001", min_priority=0.5)`.
        """
        load()
        from smp_memory.model.hits import Related
        from smp_memory.search.path import Search
        from smp_memory.search.query import LIMIT, Query
        from smp_memory.search.ranking import Ranking

        name = getattr(id, "ref", None) or id
        scope = self._asked_sessions()
        if isinstance(name, str) and name and "/" not in name and scope:
            name = f"{scope[0]}/{name}"
        question = Query({**asked, "related_to": [name], "depth": depth, "kinds": kinds}, self._asked_at())
        first, end = question.offset, question.offset + question.limit if "limit" in asked else None
        question.offset, question.limit = 0, LIMIT
        store, policy = self._asked_store(), self._policy()
        store.check_open()

        def look(finder: Finder) -> list[Related]:
            finder.problems(question.sessions)  # logged: a list has no field for them
            near = finder.related(question.related_to, "", question.depth, question.kinds)
            if not near and finder.row(*_split(name, "")) is None:
                error = MemoryNotFound(f"No memory {name} to start from.", id=name)
                raise explained(error, finder.problems([_split(name, "")[0]]))
            rows = finder.rows(list(near))
            records = finder.records([rows[doc] for doc in near if doc in rows])
            if asked:
                hits = Search(question, finder, Ranking(question, finder, policy)).run()
                wanted = {hit.record.ref for hit in hits}
                records = {doc: record for doc, record in records.items() if record and record.ref in wanted}
            return [
                Related(record, *near[doc][:2], finder.ref(near[doc][2]))
                for doc, record in records.items()
                if record is not None and (question.include_deleted or not record.deleted)
            ]

        return store.indexer.answer(question.sessions, look, with_others=True)[first:end]


def _marked(made: _Overview, records: Records) -> _Overview:
    """An overview with the entries that could not be read."""
    made.problems = records.problems
    return made


def _split(name: str, scope: str) -> tuple[str, str]:
    session, _, memory_id = name.rpartition("/")
    return session or scope, memory_id


def similar_words(text: str) -> str:
    """The words of a text without anything that a question could read as a sign."""
    from smp_memory.index.tokens import without_signs

    return without_signs(text)
