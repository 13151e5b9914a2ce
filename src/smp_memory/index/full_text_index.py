"""The search port (`smp_memory.search.port`) over rows in SQLite, text in tantivy and vectors, fed by any storage.

A *feed* (`IndexFeed`) knows where memories are stored: it opens the index, brings it up to what was acknowledged, and reads records. The
index knows neither files nor databases. `smp_memory.index.stored_feed` is the feed of a store, in files or in PostgreSQL,
`smp_memory.index.history_index` that of histories in RAM.

Guarantees: the calls inside one `snapshot` see one state. A damaged index is rebuilt once during a call; answers are by names, so a rebuild
between two calls of a snapshot does no harm.
"""

from __future__ import annotations

from functools import partial

from smp_memory.index.counting import count_matches, count_rows, empty
from smp_memory.index.echoes import MOST_AT_AN_ANSWER, MOST_IN_BACKGROUND, unpacked_text
from smp_memory.index.index import load_problems
from smp_memory.index.query import RowSelection
from smp_memory.index.rows import POSITION_BITS
from smp_memory.index.searcher import Searcher
from smp_memory.index.text_candidates import TextCandidates, candidates_by_time, columns_of
from smp_memory.model.candidates import (
    NEWEST,
    PROBLEMS,
    Candidates,
    Facets,
    FoundRecords,
    RelatedRef,
    SessionActivity,
    Vocabulary,
)
from smp_memory.observe import incomplete

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Protocol, TypeVar

    from smp_memory.errors import SMPError
    from smp_memory.index.access_counts import PendingAccesses
    from smp_memory.index.index import Index
    from smp_memory.index.rows import PlacedRow
    from smp_memory.model.candidates import Candidate, CandidateRequest, LeftOut
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.visibility import Viewer

    T = TypeVar("T")
    Progress = Callable[[str, int], None] | None

    class IndexFeed(Protocol):
        """Where the memories of an index come from. All but `mutex` is called while the mutex is held."""

        pending: PendingAccesses  # accesses that the index has not counted

        @property
        def mutex(self) -> threading.RLock:
            """Held while the index is used. A child made by `fork` has its own."""

        @property
        def folder(self) -> str:
            """The folder of the index; empty if it has none."""

        def caught_up(self, sessions: list[str] | None) -> Index:
            """The index with all that was acknowledged in these sessions (None: all) before the call."""

        def refresh(self, index: Index) -> None:
            """Bring what the index keeps in RAM up to its rows; called inside a read transaction."""

        def add_vectors(self, index: Index) -> None:
            """Add missing embeddings, as many as a query can wait for, and choose the models that answer."""

        def embed_missing(self, seconds: float | None) -> int: ...

        def read(self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut]) -> dict[int, Record | None]:
            """The records of these rows as they are stored now. `gone` gets sessions that were archived or deleted meanwhile."""

        def session_not_found(self, session: str) -> SMPError: ...

        def recovers(self, index: Index | None, error: BaseException) -> bool:
            """Whether the work may be repeated after this error, because a damaged index was discarded; may raise a better error."""

        def private(self, sessions: list[str] | None) -> Index:
            """A new index in RAM of these sessions, where no other can be kept."""

        def saved_metadata(self, session: str | None = None) -> dict[str, tuple[object, SessionInfo]]: ...

        def count_accesses(self, *, from_start: bool = False) -> None: ...

        def rebuild(self, progress: Progress = None) -> int: ...

        def close(self) -> None: ...


_USAGE = f"""SELECT s.id, s.size, s.last, (SELECT max(a.last) FROM access a
    WHERE a.doc >= s.no << {POSITION_BITS} AND a.doc < (s.no + 1) << {POSITION_BITS}), m.id,
    (SELECT beginning FROM prompt p WHERE p.doc >= s.no << {POSITION_BITS} AND p.doc < (s.no + 1) << {POSITION_BITS} ORDER BY p.doc LIMIT 1)
    FROM session s LEFT JOIN memory m ON m.doc = (s.no << {POSITION_BITS} | (s.size - 1))"""
_WITH_DELETED = f"SELECT id FROM session WHERE no IN (SELECT DISTINCT doc >> {POSITION_BITS} FROM memory WHERE deleted)"
_IDS = "SELECT id FROM memory WHERE doc >= ? AND doc < ? ORDER BY doc"


class FullTextIndex:
    """The search index of one store."""

    def __init__(self, feed: IndexFeed) -> None:
        self.feed = feed
        self._mutex: object = None  # that of the process in which the state below was made
        self._depth = 0  # of nested snapshots
        self._index: Index | None = None  # inside a read transaction
        self._sessions: set[str] | None = None  # those that are caught up; None: all
        self._has_vectors = False  # whether missing embeddings were added
        self._searchers: dict[object, Searcher] = {}  # by `Viewer.key`

    @property
    def folder(self) -> str:
        return self.feed.folder

    def snapshot(self, *, all_sessions: bool = False, by_meaning: bool = False) -> _Snapshot:
        return _Snapshot(self, all_sessions, by_meaning)

    def begin(self) -> threading.RLock:
        """Begin a snapshot, or another one inside of it; returns the mutex that it holds."""
        mutex = self.feed.mutex
        mutex.acquire()
        if mutex is not self._mutex:  # a child made by `fork`
            self._mutex, self._depth, self._index = mutex, 0, None
        self._depth += 1
        return mutex

    def end(self, mutex: threading.RLock) -> None:
        self._depth -= 1
        try:
            if not self._depth:
                self._leave()
        finally:
            mutex.release()

    def distrust(self, error: BaseException) -> None:
        """Discard the index if an error in a snapshot may come from values of a damaged one; the next call rebuilds it."""
        if self._index is not None and self.feed.recovers(self._index, error):
            self._index, self._searchers = None, {}  # it is closed

    def _leave(self) -> None:
        index, self._index, self._searchers = self._index, None, {}
        if index is not None:
            index.rows.roll_back()

    def _enter(self, index: Index, sessions: Sequence[str] | None, has_vectors: bool) -> None:
        """Begin a read transaction, so that rows and text are from one moment."""
        self._index, self._has_vectors = index, has_vectors
        self._sessions = None if sessions is None else set(sessions)
        index.rows.do("BEGIN")
        self.feed.refresh(index)  # the first read fixes the state of the transaction

    def answer(
        self,
        work: Callable[[Searcher], T],
        viewer: Viewer | None = None,
        sessions: Sequence[str] | None = None,
        *,
        by_meaning: bool = False,
        has_text: bool = False,
        is_follow_up: bool = False,
    ) -> T:
        """Run work on a searcher over these sessions (None: all); `is_follow_up`: the state of the snapshot will do, whatever it has."""
        mutex = self.begin()
        try:
            for _ in range(2):
                try:
                    self._catch_up(sessions, by_meaning, has_text, is_follow_up)
                    return work(self._searcher(viewer))
                except BaseException as error:
                    if not self.feed.recovers(self._index, error):
                        raise
                    self._index, self._searchers = None, {}  # it is closed
            self._enter(self.feed.private(None if sessions is None else list(sessions)), sessions, True)
            return work(self._searcher(viewer))
        finally:
            self.end(mutex)

    def _catch_up(self, sessions: Sequence[str] | None, by_meaning: bool, has_text: bool, is_follow_up: bool) -> None:
        if (
            self._index is not None
            and (is_follow_up or self._covers(sessions))
            and (self._has_vectors or not by_meaning)
        ):
            return
        self._leave()
        # It is known from here on, so that one which another process removes meanwhile is left; it covers nothing before `_enter`.
        index = self._index = self.feed.caught_up(None if sessions is None else list(sessions))
        self._sessions = set()
        if (
            by_meaning or has_text or not index.echoes.has_more_than(MOST_AT_AN_ANSWER)
        ):  # a list need not wait for those of a large import
            self._find_echoes(index, MOST_AT_AN_ANSWER)
        if by_meaning:
            self.feed.add_vectors(index)
        self._enter(index, sessions, by_meaning)

    def _find_echoes(self, index: Index, most: int | None) -> None:
        index.echoes.catch_up(index.text, lambda rows: self.feed.read(index, rows, {}), most)

    def _covers(self, sessions: Sequence[str] | None) -> bool:
        return self._sessions is None or (sessions is not None and self._sessions.issuperset(sessions))

    def _searcher(self, viewer: Viewer | None) -> Searcher:
        """A searcher of this state; one for each viewer, because it remembers what is hidden."""
        assert self._index is not None
        key = None if viewer is None else viewer.key
        known = self._searchers.get(key)
        if known is None:
            known = self._searchers[key] = Searcher(self._index, self.feed.pending, self.feed.read, viewer)
        return known

    # -- the port

    def candidates(self, request: CandidateRequest) -> Candidates:
        def work(searcher: Searcher) -> Candidates:
            if not request.ignores_missing:
                self._check_sessions(searcher, request.sessions)
            conditions = searcher.conditions(request)
            if request.text is not None:
                found = TextCandidates(searcher, request, conditions, partial(self._complete, request)).found()
            else:
                found = candidates_by_time(searcher, request, conditions)
            found.has_successions, found.has_echoes = searcher.has("succession"), searcher.has("echo")
            if PROBLEMS in request.fetch:
                found.problems = load_problems(searcher.rows, request.sessions)
                if found.problems:
                    incomplete.report(found.every_problem)
            return found

        sessions = None if request.related_to else request.sessions
        has_text = request.text is not None
        return self.answer(work, request.viewer, sessions, by_meaning=request.by_meaning, has_text=has_text)

    def _complete(self, request: CandidateRequest, brief: list[Candidate]) -> list[Candidate]:
        """Candidates with everything that a request asks for, made of those that a search by text returned."""
        return self.answer(lambda searcher: searcher.completed(brief, request.fetch), request.viewer, is_follow_up=True)

    def _check_sessions(self, searcher: Searcher, sessions: Sequence[str] | None) -> None:
        for name in sessions or ():
            if not searcher.rows.has_session(name):
                raise self.feed.session_not_found(name)

    def records(self, wanted: Iterable[Candidate | str], viewer: Viewer | None = None) -> FoundRecords:
        def work(searcher: Searcher) -> FoundRecords:
            found = FoundRecords()
            found.update({record.ref: record for record in searcher.records(wanted, found.left_out)})
            return found

        return self.answer(work, viewer, is_follow_up=True)

    def facets(self, request: CandidateRequest, fields: Sequence[str]) -> Facets:
        def work(searcher: Searcher) -> Facets:
            if not request.ignores_missing:
                self._check_sessions(searcher, request.sessions)
            conditions = searcher.conditions(request)
            if request.text is not None:
                return TextCandidates(searcher, request, conditions).facets(fields)
            if conditions.is_impossible:
                return Facets(empty(fields))
            if searcher.viewer is None:
                selection = RowSelection(searcher.rows, conditions)
                return Facets(count_rows(searcher.rows, fields, selection.where, selection.values))
            rows = searcher.select(conditions, NEWEST, None)
            return Facets(count_matches(searcher.rows, fields, columns_of(rows)))

        sessions = None if request.related_to else request.sessions
        return self.answer(work, request.viewer, sessions, by_meaning=request.by_meaning)

    def related(
        self, refs: Iterable[str], depth: int = 1, kinds: Sequence[str] = (), viewer: Viewer | None = None
    ) -> dict[str, list[RelatedRef]]:
        def work(searcher: Searcher) -> dict[str, list[RelatedRef]]:
            found: dict[str, list[RelatedRef]] = {}
            for ref in refs:
                start = searcher.doc(ref)
                if start is None:
                    continue
                near = searcher.relations.near([start], depth, kinds)
                names = searcher.refs([start, *near])
                found[ref] = [
                    RelatedRef(names[doc], steps, kind, names[via])
                    for doc, (steps, kind, via) in near.items()
                    if doc in names
                ]
            return found

        return self.answer(work, viewer)

    def vocabulary(self, words: Iterable[str], viewer: Viewer | None = None) -> Vocabulary:
        def work(searcher: Searcher) -> Vocabulary:
            return Vocabulary(searcher.counts.documents, {each: searcher.document_frequency(each) for each in words})

        return self.answer(work, viewer)

    def activity(
        self, sessions: Sequence[str] | None = None, *, ids_from: int | None = None
    ) -> dict[str, SessionActivity]:
        def work(searcher: Searcher) -> dict[str, SessionActivity]:
            self._check_sessions(searcher, sessions)
            rows, pending = searcher.rows, self._pending_uses(searcher)
            deleted = {name for (name,) in rows.all(_WITH_DELETED)}
            wanted = None if sessions is None else set(sessions)
            return {
                name: SessionActivity(
                    size, last, max(used or 0, pending.get(name, 0)), last_id, name in deleted,
                    [] if ids_from is None else _ids(searcher, name, ids_from, size),
                    unpacked_text(prompt) if prompt else "",
                )
                for name, size, last, used, last_id, prompt in rows.all(_USAGE)
                if wanted is None or name in wanted
            }  # fmt: skip

        return self.answer(work, None, sessions)

    def _pending_uses(self, searcher: Searcher) -> dict[str, int]:
        """The last access of each session that the index has not counted yet."""
        found: dict[str, int] = {}
        for name, (_, last) in self.feed.pending.by_name(searcher.rows).items():
            session = name.rpartition("/")[0]
            found[session] = max(last, found.get(session, 0))
        return found

    def saved_metadata(self, session: str | None = None) -> dict[str, tuple[object, SessionInfo]]:
        with self.feed.mutex:
            return self.feed.saved_metadata(session)

    def count_accesses(self, *, from_start: bool = False) -> None:
        with self.feed.mutex:
            self._leave()
            self.feed.count_accesses(from_start=from_start)

    def is_intact(self) -> bool:
        return self.answer(lambda searcher: searcher.index.is_intact())

    def rebuild(self, progress: Progress = None) -> int:
        with self.feed.mutex:
            self._leave()
            count = self.feed.rebuild(progress)
            self._find_echoes(self.feed.caught_up(None), None)
            return count

    def embed_missing(self, seconds: float | None = None) -> int:
        with self.feed.mutex:
            self._leave()
            self._find_echoes(self.feed.caught_up(None), None if seconds is None else MOST_IN_BACKGROUND)
            return self.feed.embed_missing(seconds)

    def close(self) -> None:
        with self.feed.mutex:
            self._leave()
            self.feed.close()


def _ids(searcher: Searcher, session: str, position: int, size: int) -> list[str]:
    number = searcher.rows.one("SELECT no FROM session WHERE id = ?", (session,))
    first = int(number) << POSITION_BITS
    return [id for (id,) in searcher.rows.each(_IDS, (first | position, first | size))]


class _Snapshot:
    """The context of `FullTextIndex.snapshot`. A class, because `contextlib` takes longer to load than this module."""

    def __init__(self, index: FullTextIndex, all_sessions: bool, by_meaning: bool) -> None:
        self._index, self._all_sessions, self._by_meaning = index, all_sessions, by_meaning

    def __enter__(self) -> None:
        self._mutex = self._index.begin()
        if self._all_sessions:
            try:
                self._index.answer(lambda searcher: None, by_meaning=self._by_meaning)
            except BaseException:
                self._index.end(self._mutex)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self._index.distrust(error)
        finally:
            self._index.end(self._mutex)
