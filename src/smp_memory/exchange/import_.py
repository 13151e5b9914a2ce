"""Can this come in? A file is read, checked as a whole and only then stored, session by session.

Guarantees: a file that is damaged, not whole or makes no sense is an `InvalidFormat` with its line, and nothing was stored.
A session whose id is taken is `SessionExists` before the first one is stored. Secrets are taken out as at every other
write, by the store's own settings, whatever those inside the file say.
"""

from __future__ import annotations

import os

from smp_memory.errors import InvalidFormat, InvalidRecord, SessionExists, SMPError, from_os_error
from smp_memory.exchange import file_format
from smp_memory.exchange.export import format_named, numbered
from smp_memory.files.disk import Disk
from smp_memory.model import ids
from smp_memory.model.entry import CHANGE, PUT, Entry
from smp_memory.model.history import SessionHistory
from smp_memory.privacy.settings import check_settings, redactor_of
from smp_memory.store.session_import import place
from smp_memory.uids import new_uid
from smp_memory.write import validation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.config import Config
    from smp_memory.exchange.file_format import Exported
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.privacy.redaction import RedactedSpan
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore


def arrivals(
    store: FileStore,
    source: str | bytes | os.PathLike[str],
    format: str | None,
    session: str | None,
    key: Placeholders | None,
) -> tuple[str, list[tuple[Exported, list[RedactedSpan]]]]:
    """The format, and the sessions in a file with what was taken out of each; all checked, none stored."""
    data, name = _read(source)
    chosen = format_named(format, None) if format else file_format.format_of(data, name)
    found = file_format.read(chosen, data, name)
    if key is not None:
        from smp_memory.exchange.anonymised import revealed

        found = [revealed(key)(carried) for carried in found]
    if session is not None:
        _rename(found, session, name)
    removals = [_checked(store.config, carried, name) for carried in found]
    _refuse_taken(store, found, name)
    return chosen, list(zip(found, removals, strict=True))


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


def _rename(found: list[Exported], session: str, name: str) -> None:
    if len(found) != 1:
        raise InvalidFormat(f"{name} holds {len(found)} sessions; another id can be given to one only.", path=name)
    found[0].info.id = ids.check(session, "session")


def _refuse_taken(store: FileStore, found: list[Exported], name: str) -> None:
    """Before the first one is stored."""
    there = set(store.session_ids())
    for carried in found:
        if carried.info.id in there:
            raise SessionExists(
                f"{name}:{carried.line}: there is already a session {carried.info.id}. Nothing was imported; give the new "
                "one another id (session=…, smp import --as ID).",
                session=carried.info.id,
                path=name,
                line=carried.line,
            )
        there.add(carried.info.id)


def _checked(config: Config, carried: Exported, name: str) -> list[RedactedSpan]:
    """Whether it can be stored; numbers are put in order and secrets taken out. Returns what was taken out."""
    info, line = carried.info, carried.line
    removals: list[RedactedSpan] = []
    try:
        validation.plain("head", {**info.to_dict(), "other": info.other})
        check_settings(config.override_session(info.config, info.id))
        redactor = redactor_of(config)
        if redactor is not None:
            head, removals = redactor.redact_fields(
                {"project": info.project, "tags": info.tags, "context": info.context}
            )
            info.project, info.tags, info.context = head["project"], head["tags"], head["context"]
        for entry in carried.entries:
            line = entry.line
            _check_entry(entry)
            if redactor is not None:
                entry.data, found = redactor.redact_fields(entry.data)
                removals += found
    except SMPError as error:
        raise InvalidFormat(f"{name}:{line}: {error.message} Nothing was imported.", path=name, line=line) from None
    _check_together(carried, name)
    return removals


def _check_entry(entry: Entry) -> None:
    validation.plain(entry.id, entry.data)
    validation.optional_text("by", entry.by)
    if entry.op not in (PUT, CHANGE):
        validation.optional_text("reason", entry.data.get("reason"))
    if entry.op == PUT and None in entry.data.values():
        raise InvalidRecord(f"{entry.id}: a new memory has no fields without a value.", field="id")


def _check_together(carried: Exported, name: str) -> None:
    session_history = SessionHistory()
    session_history.add(numbered(carried.entries))
    for problem in sorted(session_history.problems, key=lambda problem: problem.line):
        raise InvalidFormat(
            f"{name}:{problem.line}: {problem.message} Nothing was imported.", path=name, line=problem.line
        )
    info = carried.info
    info.numbers = {
        **session_history.numbers,
        **{key: max(number, session_history.numbers.get(key, 0)) for key, number in info.numbers.items()},
    }
    info.seq = max(info.seq, session_history.seq)


def stored(store: FileStore, carried: Exported) -> FileSession:
    """A session of what came in, or of a copy made here."""
    info = carried.info
    info.uid = new_uid()
    info.generation = max(info.generation, 1)  # so that the head keeps the numbers
    return place(store, info, carried.entries, store.config.override_session(info.config, info.id).quota_bytes)


def free_id(store: FileStore, wanted: str) -> str:
    """This id, or one like it that is not taken."""
    there, number, free = set(store.session_ids()), 1, wanted
    while free in there:
        number += 1
        free = f"{wanted}-{number}"
    return free
