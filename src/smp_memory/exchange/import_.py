"""Import an export file: read it, validate it as a whole, and only then store it session by session.

Guarantees: a file that is damaged, incomplete or inconsistent is an `InvalidFormat` with its line, and nothing was stored.
A session whose id exists is `SessionExists` before the first one is stored. Secrets are redacted as at every other write, by
the settings of the store, not by those in the file.
"""

from __future__ import annotations

import os

from smp_memory.config.settings import WRITE
from smp_memory.errors import InvalidFormat, InvalidRecord, SessionExists, SMPError, from_os_error
from smp_memory.exchange import file_format
from smp_memory.exchange.export import format_named, numbered, restoring
from smp_memory.files.disk import Disk
from smp_memory.model import ids
from smp_memory.model.entry import CHANGE, PUT, Entry
from smp_memory.model.history import SessionHistory
from smp_memory.model.ids import new_uid
from smp_memory.model.storage_reports import names_of
from smp_memory.privacy.settings import checked, redactor_of
from smp_memory.write import validation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.config.settings import Config
    from smp_memory.exchange.file_format import Exported
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.privacy.redaction import RedactedSpan
    from smp_memory.store.port import SessionStore, Store


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
