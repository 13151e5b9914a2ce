"""Export, import, anonymised copies, and redaction of what is stored. Functions of a scope.

Guarantees: what is imported equals what was exported: metadata, memories, histories, relations, pins, deletions, fields
that SMP does not know, and the numbers that were given out. With a viewer, an export holds what the viewer may see. Each call
leaves a line in the audit log. An import reads and validates the whole file before it stores anything: a file that is damaged,
incomplete or inconsistent is an `InvalidFormat` with its line, a session whose id exists is `SessionExists`. Secrets are redacted as
at every other write, by the settings of the store, not by those in the file.
"""

from __future__ import annotations

import os

from smp_memory.config.settings import COPY_OF, WRITE
from smp_memory.errors import (
    InvalidFormat,
    InvalidRecord,
    MemoryNotFound,
    SessionExists,
    SMPError,
    UserError,
    from_os_error,
)
from smp_memory.exchange import file_format
from smp_memory.exchange.export import (
    SessionAnonymiser,
    anonymising,
    counting,
    exported_session,
    format_named,
    numbered,
    restoring,
    write,
)
from smp_memory.files.disk import Disk
from smp_memory.model import ids
from smp_memory.model.entry import CHANGE, PUT, Entry
from smp_memory.model.history import SessionHistory
from smp_memory.model.ids import new_uid
from smp_memory.model.rewrite_plan import RewritePlan
from smp_memory.model.session_info import names_of
from smp_memory.model.times import to_text
from smp_memory.observe.incomplete import SESSION_GONE, each_existing, left_out
from smp_memory.observe.telemetry import observed
from smp_memory.privacy.settings import checked, clean_reason, count_kinds, redactor_even_if_off, redactor_of
from smp_memory.privacy.visibility import entries_for
from smp_memory.write import validation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.exchange.file_format import Exported
    from smp_memory.model.record import Record
    from smp_memory.model.storage_reports import RedactionReport
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.privacy.redaction import RedactedSpan
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.scope import Scope
    from smp_memory.store.port import SessionStore, Store


# -- reading a file


def read_sessions(
    store: Store,
    source: str | bytes | os.PathLike[str],
    format: str | None,
    session: str | None,
    key: Placeholders | None,
) -> tuple[str, list[tuple[Exported, list[RedactedSpan]]]]:
    """The format, and the validated sessions of a file with the redactions in each; nothing is stored."""
    data, name = _read(source)
    chosen = format_named(format, None) if format else file_format.format_of(data, name)
    sessions = file_format.read(chosen, data, name)
    if key is not None:
        sessions = [restoring(key)(each) for each in sessions]
    if session is not None:
        _rename(sessions, session, name)
    removals = [_validate(store.config, each, name) for each in sessions]
    _reject_existing(store, sessions, name)
    return chosen, list(zip(sessions, removals, strict=True))


def _read(source: str | bytes | os.PathLike[str]) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, "the text"
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return source.encode("utf-8", "surrogatepass"), "the text"
    from smp_memory.files.system import RealSystem

    path = os.path.realpath(os.fspath(source))
    try:
        return Disk(RealSystem()).read(path), os.fspath(source)
    except FileNotFoundError:
        raise InvalidFormat(f"There is no file {os.fspath(source)}.", path=os.fspath(source)) from None
    except OSError as error:
        raise from_os_error(error, path, "reading an export") from error


def _rename(sessions: list[Exported], session: str, name: str) -> None:
    if len(sessions) != 1:
        raise InvalidFormat(
            f"{name} contains {len(sessions)} sessions; a new id can be given only to a single one.", path=name
        )
    sessions[0].info.id = ids.check(session, "session")


def _reject_existing(store: Store, sessions: list[Exported], name: str) -> None:
    """Raise if the id of any session exists in the store, or twice in the file."""
    existing = set(names_of(store.sessions()))
    for session in sessions:
        if session.info.id in existing:
            raise SessionExists(
                f"{name}:{session.line}: session {session.info.id} already exists. Nothing was imported; give the new "
                "one another id (session=…, smp import --as ID).",
                session=session.info.id,
                path=name,
                line=session.line,
            )
        existing.add(session.info.id)


def _validate(config: Config, session: Exported, name: str) -> list[RedactedSpan]:
    """Validate a session, fix its numbers and redact secrets in place. Returns the redactions."""
    info, line = session.info, session.line
    removals: list[RedactedSpan] = []
    try:
        validation.plain("metadata", {**info.to_dict(), "other": info.other})
        config.require(WRITE)
        own = checked(config.override_session(info.config, info.id)).own
        if own.invalid:
            raise own.invalid[0]
        redactor = redactor_of(config)
        if redactor is not None:
            cleaned, removals = redactor.redact_fields(
                {"project": info.project, "tags": info.tags, "context": info.context}
            )
            info.project, info.tags, info.context = cleaned["project"], cleaned["tags"], cleaned["context"]
        for entry in session.entries:
            line = entry.line
            _check_entry(entry)
            if redactor is not None:
                entry.data, found = redactor.redact_fields(entry.data)
                removals += found
    except SMPError as error:
        raise InvalidFormat(f"{name}:{line}: {error.message} Nothing was imported.", path=name, line=line) from None
    _check_consistency(session, name)
    return removals


def _check_entry(entry: Entry) -> None:
    validation.plain(entry.id, entry.data)
    validation.optional_text("by", entry.by)
    if entry.op not in (PUT, CHANGE):
        validation.optional_text("reason", entry.data.get("reason"))
    if entry.op == PUT and None in entry.data.values():
        raise InvalidRecord(f"{entry.id}: a field of a new memory must not be null.", field="id")


def _check_consistency(session: Exported, name: str) -> None:
    session_history = SessionHistory()
    session_history.add(numbered(session.entries))
    for problem in sorted(session_history.problems, key=lambda problem: problem.line):
        raise InvalidFormat(
            f"{name}:{problem.line}: {problem.message} Nothing was imported.", path=name, line=problem.line
        )
    info = session.info
    info.numbers = {
        **session_history.numbers,
        **{key: max(number, session_history.numbers.get(key, 0)) for key, number in info.numbers.items()},
    }
    info.seq = max(info.seq, session_history.seq)


def store_session(store: Store, session: Exported) -> SessionStore:
    """Store an imported session, or a copy made here, as a new session."""
    info = session.info
    info.uid = new_uid()
    info.config.pop(COPY_OF, None)  # this one is nobody's copy
    info.generation = max(info.generation, 1)  # so that the metadata keeps the counters
    quota_bytes = store.config.override_session(info.config, info.id).quota_bytes
    return store.create(info, session.entries, quota_bytes)


def free_id(store: Store, preferred: str) -> str:
    """The preferred id, with a number if it exists already."""
    existing, number, free = set(names_of(store.sessions())), 1, preferred
    while free in existing:
        number += 1
        free = f"{preferred}-{number}"
    return free


@observed("export")
def export(
    scope: Scope,
    path: str | os.PathLike[str] | None = None,
    format: str | None = None,
    *,
    anonymise: Placeholders | None = None,
    restore: Placeholders | None = None,
    agents: bool = False,
    force: bool = False,
) -> str:
    """Write the sessions of the scope into one file and return its path, or return the text if there is no path."""
    if anonymise is not None and restore is not None:
        raise UserError("Give anonymise or restore, not both.", field="restore")
    chosen = format_named(format, path)
    target = None if path is None else os.path.abspath(os.fspath(path))
    viewer = scope.viewer

    def carried(sessions: list[SessionStore]) -> Iterable[Exported]:
        found: Iterable[Exported] = map(exported_session, sessions)
        if viewer is not None:
            found = (_visible(each, viewer) for each in found)
        if anonymise is None and restore is None:
            return found
        return map(restoring(restore) if anonymise is None else anonymising(anonymise, sessions, agents), found)  # type: ignore[arg-type]

    sessions, counts, result = _write(scope, chosen, target, carried, force)
    by = scope.author if viewer is None else viewer.agent
    facts = {"format": chosen, "anonymised": True if anonymise is not None else None, "to": target}
    for session, count in zip(sessions, counts, strict=True):
        _note(scope, "export", by, session.session, count, **facts)
    return result


def backup(scope: Scope, path: str) -> None:
    """Write all sessions of a store into one file; the audit log does not name them, because nothing leaves the user's state."""
    _write(scope, "jsonl", path, lambda sessions: map(exported_session, sessions), False)


def _write(
    scope: Scope,
    format: str,
    target: str | None,
    carried: Callable[[list[SessionStore]], Iterable[Exported]],
    force: bool,
) -> tuple[list[SessionStore], list[int], str]:
    """Write the sessions of a scope; gives those that were written, the counts of their memories, and the path or the text."""
    sessions = _sessions(scope)
    while True:
        counts: list[int] = []
        pieces = file_format.write(format, counting(carried(sessions), counts), len(sessions))
        try:
            result = b"".join(pieces).decode() if target is None else write(target, pieces, force)
            return sessions, counts, result
        except SESSION_GONE as error:
            sessions = _without(scope, sessions, error)


@observed("export")
def export_memories(
    scope: Scope, refs: Iterable[str], format: str | None = None, *, anonymise: Placeholders | None = None
) -> str:
    """The text of an export of some memories (`session/ID`) with their whole histories. Raises MemoryNotFound for one that is missing.

    Each session is exported with its metadata; what its memories point to may be missing in the file.
    """
    chosen = format_named(format, None)
    by_session: dict[str, list[str]] = {}
    for ref in dict.fromkeys(refs):
        name, _, id = ref.partition("/")
        by_session.setdefault(name, []).append(id)
    sessions = [scope.store.session(name) for name in by_session]
    carried = [_only(exported_session(session), by_session[session.session]) for session in sessions]
    if anonymise is not None:
        carried = list(map(anonymising(anonymise, sessions, False), carried))
    text = b"".join(file_format.write(chosen, carried, len(carried))).decode()
    for name, names in by_session.items():
        facts: dict[str, Any] = {"ids": names, "format": chosen, "anonymised": True if anonymise is not None else None}
        _note(scope, "export", scope.author, name, len(names), **facts)
    return text


def _only(carried: Exported, ids: list[str]) -> Exported:
    """An export with the entries of these memories alone."""
    wanted = set(ids)
    missing = wanted.difference(entry.id for entry in carried.entries)
    if missing:
        name = min(missing)
        raise MemoryNotFound(f"No memory {name} in session {carried.info.id}.", id=name, session=carried.info.id)
    carried.entries = [entry for entry in carried.entries if entry.id in wanted]
    return carried


@observed("redact", sessions=len)
def redact(scope: Scope, preview: bool, reason: str | None) -> list[RedactionReport]:
    """Take secrets out of what is already stored, history included; one report for each session that has some."""
    reason, of_reason = clean_reason(scope.config, reason)
    done: list[RedactionReport] = []
    for session in _sessions(scope):
        try:
            if not preview:
                session.config.require(WRITE)
            plan = RewritePlan("redacting", redactor=redactor_even_if_off(session.config))
            found = session.rewrite(plan, dry_run=preview).redaction
            assert found is not None
        except SESSION_GONE as error:
            _without(scope, [session], error)
            continue
        if found and not preview:
            ids, kinds = list(found.memories), found.kinds
            facts: dict[str, Any] = {"ids": ids, "kinds": kinds, "reason": reason, "stored": True}
            _note(scope, "redact", scope.author, session.session, len(ids), **facts)
            found.reason = of_reason
        if found or found.pending:
            done.append(found)
    return done


@observed("anonymise")
def anonymised_copy(
    scope: Scope,
    id: str | None,
    placeholders: Placeholders | None = None,
    agents: bool = False,
    config: Mapping[str, Any] | None = None,
) -> str:
    """Store a copy of the session with placeholders for people, projects and places; returns the id of the copy."""
    store, sessions = scope.store, _sessions(scope)
    carried = anonymising(placeholders, sessions, agents, config)(exported_session(sessions[0]))
    carried.info.id = free_id(store, carried.info.id) if id is None else id
    store_session(store, carried)
    scope.note_session_use(carried.info.id)
    count = len({entry.id for entry in carried.entries})
    _note(scope, "anonymise", scope.author, sessions[0].session, count, into=carried.info.id)
    return carried.info.id


def anonymised_record(
    scope: Scope,
    record: Record,
    placeholders: Placeholders | None = None,
    agents: bool = False,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The fields of one memory with placeholders. Nothing is stored."""
    (session,) = _sessions(scope)
    anonymiser = SessionAnonymiser(placeholders, agents, config)
    anonymiser.learn(exported_session(session))
    _note(scope, "anonymise", scope.author, session.session, 1, ids=[record.id])
    return anonymiser.fields(record.to_dict())


@observed("import", sessions=len)
def import_sessions(
    scope: Scope,
    source: str | bytes | os.PathLike[str],
    format: str | None,
    session: str | None,
    restore: Placeholders | None,
) -> list[str]:
    """Take in what `export` wrote: a path, or the text itself. Returns the ids of the new sessions."""
    chosen, found = read_sessions(scope.store, source, format, session, restore)
    made: list[str] = []
    for carried, removals in found:
        try:
            store_session(scope.store, carried)
        except SMPError as error:
            if made:
                raise type(error)(
                    f"{error.message} Imported before that: {', '.join(made)}.", **error.details
                ) from error
            raise
        scope.note_session_use(carried.info.id)
        made.append(carried.info.id)
        count = len({entry.id for entry in carried.entries})
        _note(scope, "import", scope.author, carried.info.id, count, kinds=count_kinds(removals), format=chosen)
    return made


def _sessions(scope: Scope) -> list[SessionStore]:
    if scope.sessions is not None:
        return [scope.store.session(name) for name in scope.sessions]
    return [found for _, found in each_existing(names_of(scope.store.sessions()), scope.store.session)]


def _without(scope: Scope, sessions: list[SessionStore], error: SMPError) -> list[SessionStore]:
    """The sessions of a store but for one that was archived meanwhile; a session asked for by name must be there."""
    gone = error.details.get("session")
    there = [session for session in sessions if session.session != gone]
    if scope.sessions is not None or len(there) == len(sessions):
        raise error
    left_out(str(gone), error)
    return there


def _visible(carried: Exported, viewer: Viewer) -> Exported:
    """An export without memories that are hidden now, and without revisions that were hidden."""
    session_history = SessionHistory()
    session_history.add(carried.entries)
    seen = [
        history for history in session_history.histories.values() if viewer.may_see(history.first.type, history.data())
    ]
    entries = [entry for history in seen for entry in entries_for(history, viewer)]
    carried.entries = sorted(entries, key=lambda entry: entry.seq)
    return carried


def _note(scope: Scope, action: str, by: str | None, session: str, count: int, **facts: Any) -> None:
    scope.store.audit.note(action, at=to_text(scope.now()), by=by, session=session, count=count, **facts)
