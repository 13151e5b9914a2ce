"""Forget: the trash, what comes back from it, what goes for good. The ways to take away, shared by a session and a store.

    session.delete(topic="billing", time="last week", reason="asked to", preview=True).count
    session.restore("DEC-0002")
    session.erase("TURN-0004", reason="a password").complete

Which memories are meant is said by an id, several ids, or by the criteria of `query`; all words of a text must be there.
Guarantees: counts and ids are those of what was done. What one call deletes or restores of a session happens together
or not at all. A preview changes nothing. No criteria at all is refused: that would be everything.

Which memories a deletion, restoration or erasure means, and how long ago a date is. Pure.
"""

from __future__ import annotations

from datetime import timedelta

from smp_memory.errors import InvalidQuery, InvalidRecord, MemoryNotFound
from smp_memory.model.times import parse, to_moment, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.model.deletions import Deletion, Purged, Receipt, Restoration, Trashed
    from smp_memory.model.hits import Hits
    from smp_memory.model.record import Record
    from smp_memory.policies.clock_trust import Evidence
    from smp_memory.session import SessionMemory
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.write.operations import Operation


def asked_for(id: Any, criteria: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Ids and criteria; both may be in one object, as in `delete({"ids": ["DEC-0001"]})` and `delete({"tags": ["old"]})`."""
    if hasattr(id, "keys") and not hasattr(id, "ref"):
        id, criteria = None, {**id, **criteria}
    if criteria.get("ids") is not None:
        if id is not None:
            raise InvalidQuery("ids: given twice, also as id.", field="ids")
        ids = criteria["ids"]
        id = [ids] if is_one(ids) else list(ids)
    return id, {name: value for name, value in criteria.items() if name != "ids"}


def age(older_than: Any, now: datetime) -> timedelta:
    """How long something must have been in the trash: a number of days, or since a date."""
    if isinstance(older_than, (int, float)) and not isinstance(older_than, bool):
        return timedelta(days=older_than)
    date = older_than.isoformat() if hasattr(older_than, "isoformat") else older_than
    since = now - to_moment(parse(date, "older_than"))
    if since < timedelta(0):
        raise InvalidRecord(
            "older_than: this date is in the future; give one that is past, or days.", field="older_than"
        )
    return since


def is_one(id: Any) -> bool:
    return id is not None and not isinstance(id, (list, tuple, set, frozenset))


_PAGE = 5000
_TRIES = 3
_ORDERING = frozenset(("limit", "offset", "sort", "sort_by", "sortBy", "count_by", "aggregate", "aggregations"))
_NARROWING = [
    "text",
    "types",
    "tags",
    "all_tags",
    "not_tags",
    "agents",
    "topics",
    "time",
    "confidence",
    "min_confidence",
    "min_importance",
    "min_priority",
    "min_relevance",
    "pinned",
    "references",
    "related_to",
]


class DeletionMethods:
    """What a session and a store have in common when something is to be forgotten."""

    if TYPE_CHECKING:  # what `Asking` and its heirs have

        def _asked_store(self) -> FileStore: ...

        def _asked_sessions(self) -> list[str] | None: ...

        def _asked_config(self) -> Config: ...

        def _asked_at(self) -> datetime: ...

        def _opened(self, id: str) -> SessionMemory: ...

        def query(self, text: str | Mapping[str, Any] | None = None, **asked: Any) -> Hits: ...

    def _session_meant(self, name: str) -> SessionMemory:
        """The session with this name, of which something is to be forgotten."""
        raise NotImplementedError

    def _files_of(self, session: str) -> FileSession:
        return self._asked_store().session(session)

    # -- the trash

    def delete(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        **criteria: Any,
    ) -> Any:
        """Hide memories at once; `restore` brings them back until they are purged.

        With one id the record is returned; with several, with criteria or as a preview a `Deletion`: its `count` and
        `ids` are those of what was deleted or, as a preview, would be.
        """
        id, criteria = asked_for(id, criteria)
        if is_one(id) and not criteria and not preview:
            session, name = self._place_of(id)
            return session._delete_one(name, reason, by)
        return self._delete_several(id, reason, by, preview, criteria)

    def _delete_several(
        self, id: Any, reason: str | None, by: str | None, preview: bool, criteria: dict[str, Any]
    ) -> Deletion:
        from smp_memory.model.deletions import Deletion

        now = self._asked_at()

        def act(session: SessionMemory, ids: list[str]) -> list[Record]:
            return session._delete_together(ids, reason, by)

        found = self._again_if_gone(lambda: self._meant(id, criteria, deleted=False), act, preview)
        kept = {name: now + _kept(self._session_meant(name).config) for name in {record.session for record in found}}
        author = by or getattr(self, "_author", None)
        return Deletion(found, now, author, reason, kept, preview=preview)

    def restore(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        **criteria: Any,
    ) -> Any:
        """Bring memories back, deleted ones and those that compaction took out. With one id the record is returned, else a
        `Restoration`. Of a session those from the trash come together or not at all, then those from the cold segment.
        """
        id, criteria = asked_for(id, criteria)
        if is_one(id) and not criteria and not preview:
            session, name = self._place_of(id)
            return session._restore_one(name, reason, by)
        return self._restore_several(id, reason, by, preview, criteria)

    def _restore_several(
        self, id: Any, reason: str | None, by: str | None, preview: bool, criteria: dict[str, Any]
    ) -> Restoration:
        from smp_memory.model.deletions import Restoration

        def act(session: SessionMemory, ids: list[str]) -> list[Record]:
            return session._restore_together(ids, reason, by)

        cold = self._in_cold_segments(id) if id is not None else {}
        rest = None if id is None else [each for each in _each(id) if not self._is_among(each, cold)]
        found: list[Record] = []
        if rest or criteria or id is None:
            found = self._again_if_gone(lambda: self._meant(rest or None, criteria, deleted=True), act, preview)
        for session, names in cold.items():
            found += self._session_meant(session)._bring_back(names, preview)
        return Restoration(found, preview=preview)

    def _in_cold_segments(self, id: Any) -> dict[str, list[str]]:
        """Those that compaction took out of their sessions."""
        named = self._named(id)
        found = {session: self._session_meant(session)._cold_among(names) for session, names in named.items()}
        return {session: names for session, names in found.items() if names}

    def _is_among(self, id: Any, named: dict[str, list[str]]) -> bool:
        session, name = self._names_of(id)
        return name in named.get(session, ())

    def deleted(self) -> list[Trashed]:
        """The trash: who deleted what, when and why, and from when on a purge may take it; the latest first."""
        from smp_memory.store.purge import announced_in, trashed

        found: list[Trashed] = []

        def look_at(session: SessionMemory) -> None:
            files, config = self._files_of(session.id), session.config
            announced, kept, auto = announced_in(files), _kept(config), config["lifecycle.auto_purge"]

            def look(session_history: Any) -> list[Trashed]:
                trash = [
                    (name, history)
                    for name, history in session_history.histories.items()
                    if history.deletion is not None
                ]
                return [trashed(history, session.id, announced.get(name), kept, auto) for name, history in trash]

            found.extend(files.view(look))

        self._over_sessions(look_at)
        return sorted(found, key=lambda each: each.at, reverse=True)

    # -- for good

    def purge(
        self,
        *,
        older_than: float | datetime | str | None = None,
        by: str | None = None,
        now: datetime | str | None = None,
        evidence: Evidence | None = None,
    ) -> Purged:
        """Take memories out of the files that have been in the trash for `lifecycle.purge_days`, or `older_than`: days or a date.

        It takes two calls at least a day apart: the first announces, a later one takes. After a jump of the clock
        nothing happens, and `refused` says why.
        """
        from smp_memory.model.deletions import Purged
        from smp_memory.store import clock_state, purge
        from smp_memory.store.archive_erasure import purge_archives

        store = self._asked_store()
        store.check_open()
        moment = self._asked_at() if now is None else to_moment(parse(now, "now"))
        known = clock_state.evidence(store) if evidence is None else evidence
        wanted = None if older_than is None else age(older_than, moment)
        done = Purged()

        def look_at(session: SessionMemory) -> None:
            kept = _kept(session.config) if wanted is None else wanted

            def note(names: list[str]) -> bool:
                return store.audit.note("purge", at=to_text(moment), by=by, session=session.id, ids=names)

            done.add(purge.purge(self._files_of(session.id), moment, kept, known, note))

        self._over_sessions(look_at)
        for _, purged in purge_archives(store, moment, known, by, wanted) if self._asked_sessions() is None else ():
            done.add(purged)
        clock_state.note(store, moment)
        return done

    def erase(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        **criteria: Any,
    ) -> Receipt:
        """Take the bytes of memories, deleted and archived ones too, out of every file that SMP owns, at once and for good.

        The receipt says what was rewritten, where the text was looked for afterwards, and what SMP cannot reach.
        """
        from smp_memory.model.deletions import Receipt
        from smp_memory.privacy.settings import clean_reason
        from smp_memory.search.archive_search import SUMMARY_ID
        from smp_memory.store.erasure import check_there, erase

        id, criteria = asked_for(id, criteria)
        store, now = self._asked_store(), self._asked_at()
        store.check_open()
        reason = clean_reason(self._asked_config(), reason)
        wanted: dict[str, list[str]] = {}
        for each in () if id is None else _each(id):
            session, name = self._names_of(each)
            wanted.setdefault(session, []).append(name)
        if criteria or id is None:
            for record in self._matching(criteria, include_deleted=True, include_archived=True):
                if record.id != SUMMARY_ID:  # of an archive that could not be looked into
                    wanted.setdefault(record.session, []).append(record.id)
        wanted = {session: list(dict.fromkeys(ids)) for session, ids in wanted.items()}
        for session, ids in wanted.items():
            check_there(store, session, ids)
        refs = [f"{session}/{name}" for session, ids in wanted.items() for name in ids]
        receipt = Receipt(refs, now, by or getattr(self, "_author", None), reason, preview=preview)

        def note() -> None:
            for session, ids in wanted.items():
                store.audit.note(
                    "erase",
                    at=to_text(now),
                    by=receipt.by,
                    session=session,
                    ids=ids,
                    reason=reason,
                    verified=receipt.verified,
                    complete=receipt.complete,
                )

        if wanted and not preview:
            memory: Any = getattr(self, "_memory", self)
            erase(store, wanted, receipt, note, memory._renew_digests)
        return receipt

    # -- which ones

    def _over_sessions(self, work: Callable[[SessionMemory], None]) -> None:
        """Do something with this session; or with all of a store, but for those that are put away meanwhile."""
        names = self._asked_sessions()
        for name in names if names is not None else ():
            work(self._session_meant(name))
        if names is None:
            from smp_memory.store.incomplete import each_there

            for _ in each_there(self._asked_store().session_ids(), lambda name: work(self._opened(name))):
                pass

    def _place_of(self, id: Any) -> tuple[SessionMemory, Any]:
        """The session and the id of one memory: an id, `session/ID`, a record or a hit."""
        session, name = self._names_of(id)
        return self._session_meant(session), name

    def _names_of(self, id: Any) -> tuple[str, str]:
        """The same by name, so that a session that is put away stays so."""
        name = getattr(id, "ref", id)
        if not isinstance(name, str):
            raise InvalidRecord(f"id: {id!r} is neither the id of a memory nor a memory.", field="id")
        known = self._asked_sessions()
        if known is not None:  # what belongs to another session does not exist here
            return known[0], name.removeprefix(f"{known[0]}/")
        session, _, memory_id = name.rpartition("/")
        if not session:
            raise InvalidQuery(f"id: say of which session: session-id/{name}.", field="id")
        return session, memory_id

    def _named(self, id: Any) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for each in _each(id):
            session, name = self._place_of(each)
            named.setdefault(session.id, []).append(name)
        return named

    def _meant(self, id: Any, criteria: dict[str, Any], *, deleted: bool) -> list[Record]:
        """The memories that are meant, deleted ones or those that are not."""
        found: dict[str, Record] = {}
        for session, ids in (self._named(id) if id is not None else {}).items():
            for name in ids:
                record = self._session_meant(session).find(name)
                if record is None:
                    raise self._session_meant(session)._missing(name)
                if record.deleted is not deleted:
                    state = "is not deleted" if deleted else "is deleted"
                    raise MemoryNotFound(f"{name} {state} in session {session}.", id=name, session=session)
                found[record.ref] = record
        if criteria or id is None:
            matching = self._matching(criteria, include_deleted=deleted)
            found |= {record.ref: record for record in matching if record.deleted is deleted}
        return list(found.values())

    def _matching(
        self, criteria: dict[str, Any], *, include_deleted: bool, include_archived: bool = False
    ) -> list[Record]:
        asked = self._narrowed(criteria)
        records: list[Record] = []
        while True:
            hits = self.query(
                **asked,
                include_deleted=include_deleted,
                include_archived=include_archived,
                track_access=False,
                topic_in_text=False,
                sort="oldest",
                limit=_PAGE,
                offset=len(records),
            )
            records += hits.records
            if not hits.more:
                return records

    def _narrowed(self, criteria: dict[str, Any]) -> dict[str, Any]:
        """The criteria, if they leave something out."""
        from smp_memory.search.query import Query

        wrong = next((name for name in criteria if name in _ORDERING), None)
        if wrong is not None:
            raise InvalidQuery(f"{wrong}: all that matches is meant; say more exactly what.", field=wrong)
        given = {name: value for name, value in criteria.items() if name != "include_deleted"}
        if isinstance(given.get("text"), str):
            given["text"] = _all_words(given["text"])
        question = Query(given, self._asked_at())
        if not any(getattr(question, name) not in (None, "", []) for name in _NARROWING) and not given.get("where"):
            raise InvalidQuery(
                "Say which memories are meant: an id, or a topic, tag, type, agent, time, field or text. For a whole "
                "session: smp session delete ID, memory.delete_session(id).",
                field="id",
            )
        return given

    def _again_if_gone(
        self, find: Callable[[], list[Record]], act: Callable[[SessionMemory, list[str]], list[Record]], preview: bool
    ) -> list[Record]:
        """Do it to what is meant, session by session; if somebody was quicker with one of them, look again."""
        done: list[Record] = []
        for attempt in range(_TRIES):
            records = find()
            if preview:
                return records
            try:
                for session in dict.fromkeys(record.session for record in records):
                    ids = [record.id for record in records if record.session == session]
                    done += act(self._session_meant(session), ids)
                return done
            except MemoryNotFound:
                if attempt + 1 == _TRIES:
                    raise
        return done


class SessionDeletionMethods(DeletionMethods):
    """The part that only a session has: its own memories are changed in one transaction."""

    if TYPE_CHECKING:  # what `SessionMemory` has
        _author: str | None
        id: str

        def _commit(self, wishes: list[Operation], doing: str, atomic: bool) -> None: ...

        def _reason(self, reason: str | None) -> str | None: ...

    def _delete_one(self, id: str, reason: str | None, by: str | None) -> Any:
        return self._delete_together([id], reason, by)[0]

    def _restore_one(self, id: str, reason: str | None, by: str | None) -> Any:
        return self._restore_together([id], reason, by)[0]

    def _delete_together(self, ids: Iterable[str], reason: str | None, by: str | None) -> list[Record]:
        """Delete memories together or not at all."""
        from smp_memory.write.operations import Delete

        return self._mark([Delete(name, by or self._author, self._reason(reason)) for name in ids], "deleting")

    def _restore_together(self, ids: Iterable[str], reason: str | None, by: str | None) -> list[Record]:
        """Bring memories back together or not at all."""
        from smp_memory.write.operations import Restore

        return self._mark([Restore(name, by or self._author, self._reason(reason)) for name in ids], "restoring")

    def _mark(self, wishes: list[Any], doing: str) -> list[Record]:
        self._commit(wishes, doing if len(wishes) == 1 else f"{doing} {len(wishes)} memories", len(wishes) > 1)
        return [wish.record for wish in wishes if wish.record is not None]

    def _note_forgetting(self, wishes: list[Any]) -> None:
        """Deletions and restorations, in the audit log; by ids alone."""
        for action in dict.fromkeys(wish.forgets for wish in wishes):
            those = [wish for wish in wishes if wish.forgets == action]
            self._asked_store().audit.note(
                action,
                at=to_text(self._asked_at()),
                by=those[0].by,
                session=self.id,
                ids=[wish.id for wish in those],
                reason=those[0].reason,
                sync=False,
            )


def _each(id: Any) -> Iterable[Any]:
    return [id] if is_one(id) else id


def _kept(config: Config) -> timedelta:
    return timedelta(days=float(config["lifecycle.purge_days"]))


def _all_words(text: str) -> str:
    """Each word in quotes, which means that it must be there; quotes, stars and signs of the caller's own are kept."""
    if '"' in text:
        return text
    return " ".join(word if word[0] == "-" or "*" in word else f'"{word}"' for word in text.split())
