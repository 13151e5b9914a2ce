"""Deletion, restoration, purge and erasure of memories. Functions of a scope.

Memories are named by an id, by several ids, or by the criteria of a query; all words of a text must occur.
Guarantees: counts and ids in a report are those of the memories changed. What one call deletes or restores in a session is one
transaction. A preview changes nothing. A call without ids and criteria is refused: it would select everything. Turns that repeat a selected
memory (its echoes) are reported, and taken along with `echoes`; those of archived sessions are not found. The parts of a turn with a large
message (`opaque.parts`, written by adapters) always go with the turn.
"""

from __future__ import annotations

from datetime import timedelta

from smp_memory import search
from smp_memory.config.settings import REMOVE
from smp_memory.errors import InvalidQuery, InvalidRecord, MemoryNotFound
from smp_memory.lifecycle import clock_state
from smp_memory.lifecycle.compaction import cold_ids_among, cold_records, missing_memory, restore_cold
from smp_memory.lifecycle.message_parts import names_with_parts, part_ids, parts_of
from smp_memory.lifecycle.open_session import OpenSession, open_session
from smp_memory.lifecycle.purge import purge_archives, purge_due, trashed
from smp_memory.model.deletions import Deletion, Purged, PurgeNotes, Receipt, Restoration
from smp_memory.model.session_info import names_of
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.model.types import KINDS
from smp_memory.observe.incomplete import each_existing
from smp_memory.observe.telemetry import observed
from smp_memory.privacy.fence import strip_reason
from smp_memory.privacy.settings import clean_reason
from smp_memory.search.query import SORT_NAMES, Query
from smp_memory.search.records import find
from smp_memory.write.operations import Delete, Restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import datetime
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.lifecycle.clock_trust import Evidence
    from smp_memory.model.deletions import Trashed
    from smp_memory.model.record import Record
    from smp_memory.privacy.redaction import RedactedSpan
    from smp_memory.scope import Scope
    from smp_memory.store.port import SessionStore, Store


def _ids_and_criteria(id: Any, criteria: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Ids and criteria; both may be in one object, as in `delete({"ids": ["DEC-0001"]})` and `delete({"tags": ["old"]})`."""
    if hasattr(id, "keys") and not hasattr(id, "ref"):
        id, criteria = None, {**id, **criteria}
    if criteria.get("ids") is not None:
        if id is not None:
            raise InvalidQuery("ids: given twice, also as id.", field="ids")
        ids = criteria["ids"]
        id = [ids] if _is_one(ids) else list(ids)
    return id, {name: value for name, value in criteria.items() if name != "ids"}


_MOST_DAYS = 36500


def _min_age(older_than: Any, now: datetime) -> timedelta:
    """The minimum time in the trash: a number of days, or the time since a date."""
    if isinstance(older_than, (int, float)) and not isinstance(older_than, bool):
        if not 0 <= older_than <= _MOST_DAYS:
            raise InvalidRecord(
                f"older_than: must be from 0 to {_MOST_DAYS} days, not {older_than}.", field="older_than"
            )
        return timedelta(days=older_than)
    date = older_than.isoformat() if hasattr(older_than, "isoformat") else older_than
    since = now - to_moment(parse(date, "older_than"))
    if since < timedelta(0):
        raise InvalidRecord("older_than: this date is in the future; give a past date, or days.", field="older_than")
    return since


def _is_one(id: Any) -> bool:
    return id is not None and not isinstance(id, (list, tuple, set, frozenset))


_PAGE = 5000
_MOST_ATTEMPTS = 3
_NOT_CRITERIA = SORT_NAMES | {"limit", "offset", "count_by", "aggregate", "aggregations"}
_FILTERS = [
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


# -- the trash


def delete(
    scope: Scope, id: Any, reason: str | None, by: str | None, preview: bool, echoes: bool, criteria: dict[str, Any]
) -> Any:
    """Hide memories at once. With one id and without `echoes` the record is returned, else a `Deletion`."""
    id, criteria = _ids_and_criteria(id, criteria)
    if _is_one(id) and not criteria and not preview and not echoes:
        session, name = _session_and_id(scope, id)
        opened = _open(scope, session)
        return _delete_records(opened, _one_with_parts(opened, name, deleted=False), reason, by)[0]
    now = scope.now()

    def act(session: OpenSession, ids: list[str]) -> list[Record]:
        return _delete_records(session, ids, reason, by)

    found: list[Record] = []  # turns that repeat what is deleted

    def select() -> list[Record]:
        selected = _select(scope, id, criteria, deleted=False)
        found[:] = echoes_of(scope, selected, deleted=False)
        return _with_parts(scope, selected + found if echoes else selected, deleted=False)

    records = _with_retries(scope, select, act, preview)
    purge_times = {name: now + _retention(_open(scope, name).config) for name in {record.session for record in records}}
    stored = clean_reason(scope.config, reason)[0]
    return Deletion(
        records, now, by or scope.author, stored, purge_times, [each.ref for each in found], preview=preview
    )


def echoes_of(scope: Scope, records: Collection[Record], *, deleted: bool | None = None) -> list[Record]:
    """The turns that repeat these memories and are not among them; only those that are deleted, or only those that are not."""
    refs = [record.ref for record in records if KINDS[record.type].is_written_down]
    related = scope.index.related(refs, kinds=("repeats",), viewer=scope.viewer) if refs else {}
    known = {record.ref for record in records}
    names = dict.fromkeys(each.ref for near in related.values() for each in near if each.ref not in known)
    found = scope.index.records(names, scope.viewer).values() if names else ()
    return [each for each in found if deleted is None or each.deleted is deleted]


def restore(
    scope: Scope, id: Any, reason: str | None, by: str | None, preview: bool, echoes: bool, criteria: dict[str, Any]
) -> Any:
    """Restore deleted memories and those that compaction moved. With one id and without `echoes` the record is returned, else a `Restoration`.

    In a session those from the trash are restored in one transaction, then those from the cold segment.
    """
    id, criteria = _ids_and_criteria(id, criteria)
    if _is_one(id) and not criteria and not preview and not echoes:
        session, name = _session_and_id(scope, id)
        opened = _open(scope, session)
        if cold_ids_among(opened, [name]):
            return restore_cold(opened, _cold_with_parts(opened, [name]))[0]
        return _restore_records(opened, _one_with_parts(opened, name, deleted=True), reason, by)[0]

    def act(session: OpenSession, ids: list[str]) -> list[Record]:
        return _restore_records(session, ids, reason, by)

    cold = _in_cold_segments(scope, id) if id is not None else {}
    rest = None if id is None else [each for each in _as_list(id) if not _is_in(scope, each, cold)]
    records: list[Record] = []
    found: list[Record] = []  # deleted turns that repeat what is restored

    def select() -> list[Record]:
        selected = _select(scope, rest or None, criteria, deleted=True)
        found[:] = echoes_of(scope, selected, deleted=True)
        return _with_parts(scope, selected + found if echoes else selected, deleted=True)

    if rest or criteria or id is None:
        records = _with_retries(scope, select, act, preview)
    for session, ids in cold.items():
        records += (cold_records if preview else restore_cold)(_open(scope, session), ids)
    return Restoration(records, [each.ref for each in found], preview=preview)


def _in_cold_segments(scope: Scope, id: Any) -> dict[str, list[str]]:
    """The ids that compaction moved, and those of their parts, by session."""
    cold = {session: _cold_with_parts(_open(scope, session), ids) for session, ids in _by_session(scope, id).items()}
    return {session: ids for session, ids in cold.items() if ids}


def _cold_with_parts(session: OpenSession, ids: list[str]) -> list[str]:
    return cold_ids_among(session, names_with_parts(session.store, session.id, ids))


def _is_in(scope: Scope, id: Any, named: dict[str, list[str]]) -> bool:
    session, name = _session_and_id(scope, id)
    return name in named.get(session, ())


def _delete_records(session: OpenSession, ids: Iterable[str], reason: str | None, by: str | None) -> list[Record]:
    why = _clean_reason(session, reason)
    return _commit(session, [Delete(id, by or session.author, *why) for id in ids], "deleting")


def _restore_records(session: OpenSession, ids: Iterable[str], reason: str | None, by: str | None) -> list[Record]:
    why = _clean_reason(session, reason)
    return _commit(session, [Restore(id, by or session.author, *why) for id in ids], "restoring")


def _commit(session: OpenSession, operations: list[Any], name: str) -> list[Record]:
    many = len(operations) > 1
    session.commit(operations, f"{name} {len(operations)} memories" if many else name, atomic=many)
    return [operation.record for operation in operations if operation.record is not None]


def _clean_reason(session: OpenSession, reason: str | None) -> tuple[str | None, list[RedactedSpan]]:
    """A reason without recalled text and with secrets redacted, and the redacted spans."""
    reason = strip_reason(reason)
    return session.redactor.redact(reason) if session.redactor is not None and type(reason) is str else (reason, [])


def deleted(scope: Scope) -> list[Trashed]:
    """The trash: who deleted what, when and why, and from when on it may be purged; the latest first."""
    trash: list[Trashed] = []
    _for_each_session(scope, lambda each: trash.extend(session_trash(scope.store, each.storage, each.config)))
    return sorted(trash, key=lambda each: each.at, reverse=True)


def session_trash(store: Store, storage: SessionStore, config: Config) -> list[Trashed]:
    """The deleted memories of one session, by these settings."""
    announced = PurgeNotes(store.state, storage.session).announced()
    retention, auto = _retention(config), config["lifecycle.auto_purge"]
    return [
        trashed(history, storage.session, announced.get(name), retention, auto)
        for name, history in storage.history().histories.items()
        if history.deletion is not None
    ]


# -- purge and erasure


@observed("purge", memories=lambda done: len(done.ids))
def purge(
    scope: Scope,
    older_than: float | datetime | str | None = None,
    by: str | None = None,
    now: datetime | str | None = None,
    evidence: Evidence | None = None,
) -> Purged:
    """Remove memories from the files that have been in the trash for `lifecycle.purge_days`, or `older_than`: days or a date.

    It takes two calls at least a day apart: the first announces, a later one removes. After a jump of the clock
    nothing is removed, and `refused` says why.
    """
    store = scope.store
    store.check_open()
    moment = scope.now() if now is None else to_moment(parse(now, "now"))
    evidence = clock_state.evidence(store, scope.clock.source) if evidence is None else evidence
    min_age = None if older_than is None else _min_age(older_than, moment)
    report = Purged()

    def purge_one(session: OpenSession) -> None:
        if min_age is None:
            session.config.require(REMOVE)
        retention = _retention(session.config) if min_age is None else min_age

        def audit(ids: list[str]) -> bool:
            return store.audit.note("purge", at=to_text(moment), by=by, session=session.id, ids=ids)

        notes = PurgeNotes(store.state, session.id)
        report.add(purge_due(session.storage, notes, moment, retention, evidence, audit))

    _for_each_session(scope, purge_one)
    for _, purged in purge_archives(store, moment, evidence, by, min_age) if scope.sessions is None else ():
        report.add(purged)
    clock_state.record(store, moment, scope.clock.source)
    return report


@observed("erase", memories=lambda receipt: len(receipt.ids))
def erase(
    scope: Scope,
    id: Any,
    reason: str | None,
    by: str | None,
    preview: bool,
    echoes: bool,
    criteria: dict[str, Any],
    renew_digests: Callable[[], tuple[list[str], list[str]]],
) -> Receipt:
    """Remove the bytes of memories, deleted and archived ones too, from every file that SMP owns, at once and for good."""
    from smp_memory.search.archive_search import SUMMARY_ID

    id, criteria = _ids_and_criteria(id, criteria)
    store, now = scope.store, scope.now()
    store.check_open()
    reason, redacted = clean_reason(scope.config, reason)
    by_session: dict[str, list[str]] = _by_session(scope, id) if id is not None else {}
    if criteria or id is None:
        for record in _query_all(scope, criteria, include_deleted=True, include_archived=True):
            if record.id != SUMMARY_ID:  # of an archive that could not be read
                by_session.setdefault(record.session, []).append(record.id)
    by_session = {session: list(dict.fromkeys(ids)) for session, ids in by_session.items()}
    found = _echoes_of_names(scope, by_session)
    for session, name in (each.rsplit("/", 1) for each in found if echoes):
        by_session.setdefault(session, []).append(name)
    by_session = {session: names_with_parts(store, session, ids) for session, ids in by_session.items()}
    refs = [f"{session}/{name}" for session, ids in by_session.items() for name in ids]
    receipt = Receipt(refs, now, by or scope.author, reason, redacted, preview=preview)
    receipt.echoes = found

    def audit() -> None:
        for session, ids in by_session.items():
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

    for head in (head for session in by_session for head in store.sessions(id=session)):
        store.session(head.session).config.require_original()  # the next exchange would bring it back to a copy
    if by_session:
        store.erase(by_session, receipt, audit, renew_digests)
    return receipt


def _echoes_of_names(scope: Scope, by_session: dict[str, list[str]]) -> list[str]:
    """The refs of turns that repeat these memories and are not among them."""
    names = [f"{session}/{id}" for session, ids in by_session.items() for id in ids]
    records = scope.index.records(names, scope.viewer) if names else {}
    return [each.ref for each in echoes_of(scope, records.values()) if each.ref not in names]


# -- selecting memories


def _open(scope: Scope, session: str) -> OpenSession:
    opened = scope.opened
    return opened if isinstance(opened, OpenSession) and opened.id == session else open_session(scope, session)


def _for_each_session(scope: Scope, work: Callable[[OpenSession], None]) -> None:
    """Run `work` on the sessions of the scope; in a whole store, sessions that are archived meanwhile are skipped."""
    for name in scope.sessions if scope.sessions is not None else ():
        work(_open(scope, name))
    if scope.sessions is None:
        for _ in each_existing(
            names_of(scope.store.sessions()), lambda name: work(open_session(scope, name, restore=False))
        ):
            pass


def _session_and_id(scope: Scope, id: Any) -> tuple[str, str]:
    """Session and id of one memory: an id, `session/ID`, a record or a hit. The session is not opened or restored."""
    name = getattr(id, "ref", id)
    if not isinstance(name, str):
        raise InvalidRecord(f"id: {id!r} is neither the id of a memory nor a memory.", field="id")
    if scope.sessions is not None:  # memories of other sessions are not found here
        return scope.sessions[0], name.removeprefix(f"{scope.sessions[0]}/")
    session, _, memory_id = name.rpartition("/")
    if not session:
        raise InvalidQuery(f"id: name the session, too: session-id/{name}.", field="id")
    return session, memory_id


def _by_session(scope: Scope, id: Any) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for each in _as_list(id):
        session, name = _session_and_id(scope, each)
        ids.setdefault(session, []).append(name)
    return ids


def _select(scope: Scope, id: Any, criteria: dict[str, Any], *, deleted: bool) -> list[Record]:
    """The memories that are named or match the criteria, either deleted ones or those that are not."""
    selected: dict[str, Record] = {}
    for name, ids in (_by_session(scope, id) if id is not None else {}).items():
        session = _open(scope, name)
        for memory_id in ids:
            record = find(session.storage, memory_id)
            if record is None:
                raise missing_memory(session, memory_id)
            if record.deleted is not deleted:
                state = "is not deleted" if deleted else "is deleted"
                raise MemoryNotFound(f"{memory_id} {state} in session {name}.", id=memory_id, session=name)
            selected[record.ref] = record
    if criteria or id is None:
        matching = _query_all(scope, criteria, include_deleted=deleted)
        selected |= {record.ref: record for record in matching if record.deleted is deleted}
    return list(selected.values())


def _with_parts(scope: Scope, records: list[Record], *, deleted: bool) -> list[Record]:
    """Memories and the parts of the turns among them, either deleted parts or those that are not."""
    found = {record.ref: record for record in records}
    for turn in (record for record in records if part_ids(record)):
        parts = parts_of(_open(scope, turn.session).storage, turn)
        found |= {part.ref: part for part in parts if part.deleted is deleted}
    return list(found.values())


def _one_with_parts(session: OpenSession, id: str, *, deleted: bool) -> list[str]:
    record = find(session.storage, id)
    parts = parts_of(session.storage, record) if record is not None else []
    return [id, *(part.id for part in parts if part.deleted is deleted)]


def _query_all(
    scope: Scope, criteria: dict[str, Any], *, include_deleted: bool, include_archived: bool = False
) -> list[Record]:
    given = _check_criteria(scope, criteria)
    records: list[Record] = []
    while True:
        options = {
            **given,
            "include_deleted": include_deleted,
            "include_archived": include_archived,
            "include_expired": True,
            "track_access": False,
            "topic_in_text": False,
            "sort": "oldest",
            "limit": _PAGE,
            "offset": len(records),
        }
        hits = search.path.query(scope, None, options)
        records += hits.records
        if not hits.more:
            return records


def _check_criteria(scope: Scope, criteria: dict[str, Any]) -> dict[str, Any]:
    """The criteria as options of a query; refused if they order or limit, or if they select everything."""
    wrong = next((name for name in criteria if name in _NOT_CRITERIA), None)
    if wrong is not None:
        raise InvalidQuery(
            f"{wrong}: not allowed here, because all matches are selected. Give narrower criteria.", field=wrong
        )
    given = {name: value for name, value in criteria.items() if name not in ("include_deleted", "include_expired")}
    if isinstance(given.get("text"), str):
        given["text"] = _require_all_words(given["text"])
    query = Query(given, scope.now())
    if not any(getattr(query, name) not in (None, "", []) for name in _FILTERS) and not given.get("where"):
        raise InvalidQuery(
            "Name the memories: an id, or a topic, tag, type, agent, time, field or text. For a whole "
            "session: smp session delete ID, memory.delete_session(id).",
            field="id",
        )
    return given


def _with_retries(
    scope: Scope,
    find: Callable[[], list[Record]],
    act: Callable[[OpenSession, list[str]], list[Record]],
    preview: bool,
) -> list[Record]:
    """Act on the selected memories, session by session; if another process changed one meanwhile, select again."""
    done: list[Record] = []
    for attempt in range(_MOST_ATTEMPTS):
        records = find()
        if preview:
            return records
        try:
            for session in dict.fromkeys(record.session for record in records):
                ids = [record.id for record in records if record.session == session]
                done += act(_open(scope, session), ids)
            return done
        except MemoryNotFound:
            if attempt + 1 == _MOST_ATTEMPTS:
                raise
    return done


def _as_list(id: Any) -> Iterable[Any]:
    return [id] if _is_one(id) else id


def _retention(config: Config) -> timedelta:
    return timedelta(days=float(config["lifecycle.purge_days"]))


def _require_all_words(text: str) -> str:
    """Quote each word, so that all must occur; words with quotes, stars or a minus are kept as they are."""
    if '"' in text:
        return text
    return " ".join(word if word[0] == "-" or "*" in word else f'"{word}"' for word in text.split())
