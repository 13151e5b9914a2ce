"""Export, import, anonymised copies, and redaction of what is stored. Functions of a scope.

Guarantees: what is imported equals what was exported: metadata, memories, histories, relations, pins, deletions, fields
that SMP does not know, and the numbers that were given out. With a viewer, an export holds what the viewer may see. Each call
leaves a line in the audit log.
"""

from __future__ import annotations

import os

from smp_memory.config.settings import WRITE
from smp_memory.errors import MemoryNotFound, SMPError, UserError
from smp_memory.exchange import file_format
from smp_memory.exchange.export import (
    SessionAnonymiser,
    anonymising,
    counting,
    exported_session,
    format_named,
    restoring,
    write,
)
from smp_memory.exchange.import_ import free_id, read_sessions, store_session
from smp_memory.model.history import SessionHistory
from smp_memory.model.storage_reports import names_of
from smp_memory.model.times import to_text
from smp_memory.observe.incomplete import SESSION_GONE, each_existing, left_out
from smp_memory.observe.tracing import observed
from smp_memory.privacy.settings import clean_reason, count_kinds, redactor_even_if_off
from smp_memory.privacy.visibility import entries_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from smp_memory.errors import SMPError
    from smp_memory.exchange.file_format import Exported
    from smp_memory.model.record import Record
    from smp_memory.model.storage_reports import RedactionReport
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.scope import Scope
    from smp_memory.store.port import SessionStore


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
    sessions = _sessions(scope)
    chosen = format_named(format, path)
    target = None if path is None else os.path.abspath(os.fspath(path))
    viewer = scope.viewer
    while True:
        carried = map(exported_session, sessions)
        if viewer is not None:
            carried = (_visible(each, viewer) for each in carried)  # type: ignore[assignment]
        if anonymise is not None or restore is not None:
            change = restoring(restore) if anonymise is None else anonymising(anonymise, sessions, agents)  # type: ignore[arg-type]
            carried = map(change, carried)
        counts: list[int] = []
        pieces = file_format.write(chosen, counting(carried, counts), len(sessions))
        try:
            result = b"".join(pieces).decode() if target is None else write(target, pieces, force)
            break
        except SESSION_GONE as error:
            sessions = _without(scope, sessions, error)
    by = scope.author if viewer is None else viewer.agent
    facts = {"format": chosen, "anonymised": True if anonymise is not None else None, "to": target}
    for session, count in zip(sessions, counts, strict=True):
        _note(scope, "export", by, session.session, count, **facts)
    return result


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
    for name, ids in by_session.items():
        facts: dict[str, Any] = {"ids": ids, "format": chosen, "anonymised": True if anonymise is not None else None}
        _note(scope, "export", scope.author, name, len(ids), **facts)
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
            found = session.redact(redactor_even_if_off(session.config), preview=preview)
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
