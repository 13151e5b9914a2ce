"""Collect a session with its whole history for an export, anonymise it or restore the names, and write the export file atomically.

Guarantees: the entries are those that readers see, in the order of writing, including memories and earlier revisions that compaction
moved to cold storage. The file has mode 0600, gets its name only when it is complete and synced, and never replaces another file without
`force`. A session with unreadable entries is rejected: nothing is left out silently.
In an anonymised export a name has the same placeholder in every session; names are learned from all sessions before the
first one is changed. `smp_memory.privacy.anonymisation` defines what counts as a name.
"""

from __future__ import annotations

import os

from smp_memory.errors import InvalidFormat, InvalidRecord, SessionCorrupt, from_os_error
from smp_memory.exchange import file_format
from smp_memory.exchange.file_format import Exported
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.model.entry import CHANGE, PUT, Entry, is_revision
from smp_memory.model.history import COLD
from smp_memory.observe.incomplete import errors
from smp_memory.privacy.anonymisation import Anonymiser, Placeholders, without_placeholders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from smp_memory.files.codec import Fields
    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.store.port import SessionStore


def exported_session(storage: SessionStore) -> Exported:
    """A session for an export: every entry of every memory, in the order of writing."""
    while True:  # repeated if compaction moved memories meanwhile
        before = storage.version(COLD)
        exported = _collect(storage, storage.history(segment=COLD))
        if storage.version(COLD) == before:
            return exported


def _collect(storage: SessionStore, cold: SessionHistory) -> Exported:
    session_history, info = storage.history(), storage.info()
    problems = [*session_history.unreadable, *session_history.problems, *cold.unreadable]
    damaged = next(iter(errors(problems)), None)
    if damaged is not None:
        raise SessionCorrupt(
            f"{damaged}. Repair the session first: smp repair.", session=storage.session, path=damaged.path
        )
    entries = entries_of({**cold.histories, **session_history.histories}, cold.earlier)
    for numbers in (session_history.numbers, cold.numbers):
        info.numbers.update({key: max(number, info.numbers.get(key, 0)) for key, number in numbers.items()})
    info.seq = max(info.seq, session_history.seq, entries[-1].seq if entries else 0)
    exported = Exported(info, entries)
    exported.orphans = list(session_history.orphans)
    exported.cold = {each.id: (each.moved, each.why) for each in cold.moved if each.id in cold.histories}
    return exported


def entries_of(histories: Mapping[str, RecordHistory], earlier: Iterable[Entry] = ()) -> list[Entry]:
    """All entries; of a memory whose earlier states are in the cold segment, these in place of the one that joins them."""
    by_id: dict[str, list[Entry]] = {}
    for entry in earlier:
        by_id.setdefault(entry.id, []).append(entry)
    entries: list[Entry] = []
    for name, history in histories.items():
        steps = history.entries
        if name in by_id:
            steps = sorted({each.seq: each for each in (*steps, *by_id[name])}.values(), key=_seq)
        revision = 0
        for entry in steps:
            revision += is_revision(entry)
            entries.append(copy_of(entry, name, entry.data, entry.by, revision if entry.op == CHANGE else 0))
    return numbered(sorted(entries, key=_seq))


def copy_of(entry: Entry, id: str, data: dict[str, Any], by: str | None, revision: int) -> Entry:
    twin = Entry(
        entry.op,
        entry.type,
        id,
        entry.at,
        data,
        entry.seq,
        by=by,
        revision=revision,
        schema=entry.schema,
        line=entry.line,
    )
    twin.file, twin.uid, twin.uids = entry.file, entry.uid, entry.uids
    return twin


def counting(sessions: Iterable[Exported], counts: list[int]) -> Iterator[Exported]:
    """Pass the sessions on, appending the number of memories of each to `counts`."""
    for session in sessions:
        counts.append(len({entry.id for entry in session.entries}))
        yield session


def _seq(entry: Entry) -> int:
    return entry.seq


def numbered(entries: list[Entry]) -> list[Entry]:
    """Number the entries in their order; those that have numbers keep them as far as they increase: entries typed by hand have none."""
    last = 0
    for entry in entries:
        entry.seq = last = max(entry.seq, last + 1)
    return entries


def format_named(format: str | None, path: str | os.PathLike[str] | None) -> str:
    if format is None and path is not None:
        format = file_format.ENDINGS.get(os.fspath(path).rpartition(".")[2].lower())
    chosen = format or "json"
    if chosen not in file_format.FORMATS:
        raise InvalidFormat(
            f"format: {chosen!r} is not a format. Use one of: {', '.join(file_format.FORMATS)}.", field="format"
        )
    return chosen


def write(path: str, pieces: Iterable[bytes], force: bool) -> str:
    """Write a file outside of the store that gets its name only when it is complete."""
    from smp_memory.files.system import RealSystem

    disk = Disk(RealSystem())
    if not force and disk.exists(path):
        raise _file_exists(path)
    temporary = f"{path}.{os.urandom(4).hex()}{TEMPORARY}"
    try:
        file = disk.open_append(temporary)
        try:
            for piece in pieces:
                file.append(piece)
            file.sync()
        finally:
            file.close()
        if force:
            disk.move(temporary, path)
        else:
            _name_new(disk, temporary, path)
        disk.sync_folder(os.path.dirname(path))
    except OSError as error:
        raise from_os_error(error, path, "exporting") from error
    finally:
        disk.remove(temporary)
    return path


def _name_new(disk: Disk, temporary: str, path: str) -> None:
    try:
        disk.link_new(temporary, path)
    except FileExistsError:
        raise _file_exists(path) from None
    except OSError:  # a file system without hard links
        if disk.exists(path):
            raise _file_exists(path) from None
        disk.move(temporary, path)


def _file_exists(path: str) -> InvalidFormat:
    return InvalidFormat(
        f"{path} already exists. Choose another name, or overwrite it with force (--force).", path=path
    )


# -- anonymised exports


class SessionTransform:
    """Applies a change to all fields and texts of an exported session."""

    def __init__(self, fields: Callable[[Fields], Fields], text: Callable[[str], str]) -> None:
        self._fields = fields
        self._text = text

    def __call__(self, session: Exported) -> Exported:
        info = session.info
        metadata = self._fields({**info.to_dict(), "other": info.other})
        info.id = metadata["id"]
        for name in ("user", "agents", "project", "tags", "context", "config", "other"):
            setattr(info, name, metadata[name])
        return Exported(info, [self._entry(entry) for entry in session.entries], session.line)

    def _entry(self, entry: Entry) -> Entry:
        by = self._text(entry.by) if isinstance(entry.by, str) else entry.by
        twin = copy_of(entry, self._text(entry.id), self._fields(entry.data), by, entry.revision)
        twin.uid, twin.uids = "", None  # they would link to the original
        return twin


_KEPT_UNLESS = {"remove_user_names": "users", "remove_project_names": "projects", "remove_file_paths": "paths"}
_FLAGS = (*_KEPT_UNLESS, "replace_with_placeholders", "preserve_structure")
_STRUCTURE = frozenset(("relations", "references", "turn_ref", "supersedes", "superseded_by", "covers"))


class SessionAnonymiser:
    """Anonymises sessions and records by the flags of design 003; one that is not given is true."""

    def __init__(self, placeholders: Placeholders | None, agents: bool, config: Mapping[str, Any] | None) -> None:
        flags = _checked_flags(config)
        off = [kept for flag, kept in _KEPT_UNLESS.items() if not flags[flag]]
        self._anonymiser = Anonymiser(Placeholders() if placeholders is None else placeholders, agents=agents, off=off)
        self._has_placeholders = flags["replace_with_placeholders"]
        self._dropped = frozenset() if flags["preserve_structure"] else _STRUCTURE

    def learn(self, session: Exported) -> None:
        learn(self._anonymiser, session)

    def fields(self, data: Fields) -> Fields:
        fields = {name: value for name, value in self._anonymiser.fields(data).items() if name not in self._dropped}
        return fields if self._has_placeholders else without_placeholders(fields)

    def transform(self) -> SessionTransform:
        return SessionTransform(self.fields, self._anonymiser.text)


def _checked_flags(config: Mapping[str, Any] | None) -> dict[str, bool]:
    given = {} if config is None else config
    if not hasattr(given, "items") or any(
        name not in _FLAGS or type(value) is not bool for name, value in given.items()
    ):
        raise InvalidRecord(f"config: give {', '.join(_FLAGS)}, each true or false.", field="config")
    return {name: given.get(name, True) for name in _FLAGS}


def anonymising(
    placeholders: Placeholders | None,
    sessions: Iterable[SessionStore],
    agents: bool,
    config: Mapping[str, Any] | None = None,
) -> SessionTransform:
    """A transform from names to placeholders. Names are learned from all sessions first, because texts refer to other sessions."""
    anonymiser = SessionAnonymiser(placeholders, agents, config)
    for files in sessions:
        anonymiser.learn(exported_session(files))
    return anonymiser.transform()


def restoring(placeholders: Placeholders) -> SessionTransform:
    """A transform from placeholders to the original names."""
    anonymiser = Anonymiser(placeholders)
    return SessionTransform(anonymiser.restore, anonymiser.restore_text)


def learn(anonymiser: Anonymiser, session: Exported) -> None:
    """Learn the names in a session: authors first, so that an approving agent is not taken for a person."""
    anonymiser.learn_session(session.info.to_dict())
    for entry in session.entries:
        if entry.op == PUT:
            anonymiser.learn({name: entry.data.get(name) for name in ("author", "author_kind", "role", "agent")})
    for entry in session.entries:
        if entry.op in (PUT, CHANGE):
            anonymiser.learn({**entry.data, "session": session.info.id})
        resolution = entry.data.get("resolution")
        resolver = resolution.get("resolved_by") if isinstance(resolution, dict) else None
        anonymiser.learn({"approved_by": [name for name in (entry.by, resolver) if isinstance(name, str)]})
