"""Read a session's metadata from its files, also with a merge conflict that git left, and the start time of one without any.

Files of design 000 have no metadata, and a person may write none.
"""

from __future__ import annotations

import json
import os
import re

from smp_memory.errors import FormatTooNew, InvalidFormat, InvalidRecord, SessionCorrupt, SMPError, StorageCorrupt
from smp_memory.files.disk import TICK_NS
from smp_memory.git.metadata_conflicts import decode_metadata, find_conflict, last_metadata_line
from smp_memory.model.session_info import FORMAT, SessionInfo
from smp_memory.model.times import parse
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.files.reader import SessionReader
    from smp_memory.git.metadata_conflicts import MetadataConflict

    class MetadataOwner(Protocol):
        """A live session, `store.file_session.FileSession`."""

        session: str
        reader: SessionReader

        @property
        def store(self) -> Any: ...

        def info_path(self) -> str: ...


UNKNOWN = "1970-01-01T00:00:00Z"
_FIRST_BYTES = 1 << 16
_LIMIT_BYTES = 1 << 20
_FORMAT = re.compile(rb'format"?: ?([0-9]{1,9})')
_reported_conflicts: set[str] = set()


def may_have_settings(disk: Disk, path: str) -> bool:
    """Whether the metadata must be decoded for settings: decoding YAML costs 50 ms."""
    try:
        data = disk.read(path, 0, _LIMIT_BYTES)
    except (FileNotFoundError, StorageCorrupt):
        return False
    found = _FORMAT.search(data)
    return b"config" in data or found is None or int(found[1]) != FORMAT


def load(session: MetadataOwner) -> SessionInfo:
    """The metadata of a live session. Raises SessionCorrupt if it cannot be read."""
    store, path = session.store, session.info_path()
    store.check_open()
    try:
        info = _read(session, path)
        if info.format > FORMAT:
            raise FormatTooNew(
                f"Session {session.session} has format {info.format}; this SMP knows {FORMAT}. Install a newer one.",
                session=session.session,
                path=path,
                format=info.format,
                limit=FORMAT,
            )
        if info.created_text == UNKNOWN:
            info.created_text = first_time(session.reader)
        info.path = path
        return info
    except FileNotFoundError:
        if not store.has_session(session.session):
            raise store.session_not_found(session.session) from None
        info = SessionInfo(session.session, first_time(session.reader))
        info.is_assumed = True
        return info
    except (
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
        InvalidFormat,
        InvalidRecord,
        StorageCorrupt,
    ) as error:
        raise SessionCorrupt(
            f"The metadata of session {session.session} cannot be read: {path}: {str(error).removesuffix('.')}. Its memories are not affected; "
            "correct the file, or let `smp repair` quarantine it.",
            session=session.session,
            path=path,
        ) from error


def _read(session: MetadataOwner, path: str) -> SessionInfo:
    layout: Layout = session.store.layout
    data = (session.store.disk.read_small if layout.info_file else session.store.disk.read)(path)
    conflict = find_conflict(layout, data)
    if conflict is not None and conflict.is_open and not conflict.is_derived:
        _report_conflict(session, path, conflict.line)
    if layout.info_file:
        return decode_metadata(layout, data, session.session, conflict)
    fields = conflict.fields if conflict is not None else last_metadata_line(layout, data)
    if fields is None:
        raise FileNotFoundError(path)
    return layout.decode_info(json.dumps(fields).encode(), session.session)


def _report_conflict(session: MetadataOwner, path: str, line: int) -> None:
    """Log a merge conflict, once per process."""
    if path not in _reported_conflicts:
        _reported_conflicts.add(path)
        text = f"{path}:{line}: git left a merge conflict in the session's metadata; `smp validate` says what differs and what to do"
        telemetry.emit("corruption", telemetry.WARNING, "head_conflict", text, session.session, path=path, line=line)


def open_conflict(session: MetadataOwner) -> MetadataConflict | None:
    """The merge conflict that git left in the metadata for a person to resolve."""
    layout = session.store.layout
    try:
        found = find_conflict(layout, session.store.disk.read(session.info_path()))
    except (FileNotFoundError, StorageCorrupt):
        return None
    is_open = found is not None and not found.is_derived and (found.is_open or layout.info_file)
    return found if is_open else None


def first_time(reader: SessionReader) -> str:
    """The earliest time among the first entries of its files; `UNKNOWN` if none has one."""
    layout, disk, times = reader.layout, reader.disk, []
    for name in layout.files(disk, reader.folder, reader.session):
        try:
            data = disk.read(os.path.join(reader.folder, name), 0, _FIRST_BYTES)
        except (FileNotFoundError, SMPError):
            continue  # `validate` reports a file that cannot be read
        values = (
            piece.fields.get(layout.field_names.time) for piece in layout.codec_of(name).decode(data) if piece.fields
        )
        first = next((time for time in values if time is not None), None)
        try:
            times += [parse(first, "created")] if first is not None else []
        except SMPError:
            continue
    return min(times, default=UNKNOWN)


def read_info(disk: Disk, layout: Layout, reader: SessionReader) -> SessionInfo:
    """The metadata of a session whose files the reader has just read."""
    path = os.path.join(reader.folder, layout.info_file)
    if layout.info_file and not disk.exists(path):
        info = SessionInfo(reader.session, UNKNOWN)
    elif layout.info_file:
        info = layout.decode_info(disk.read_small(path), reader.session)
    else:
        lines = [line for state in reader.states.values() for line in state.metadata_lines]
        info = layout.decode_info(json.dumps(lines[-1] if lines else {}).encode(), reader.session)
    if info.created_text == UNKNOWN:
        info.created_text = first_time(reader)
    return info


def describe_metadata(store: Any, reader: SessionReader, saved: str, now_ns: int) -> str:
    """Version of a session's metadata, its user, project, settings and title, as JSON for the index.

    Empty if `load` would raise or report anything, or if a change at this moment could leave the version as it is.
    `store` is a `store.file_store.FileStore`; `saved` is what the index has, and is returned if the version is the same.
    """
    version, layout = store.metadata_version(reader.session), store.layout
    if not isinstance(version, list) or now_ns - max(version[2:]) <= TICK_NS:
        return ""
    if saved and json.loads(saved)[0] == version:
        return saved
    try:
        data = store.disk.read_small(os.path.join(reader.folder, layout.info_file))
        info = layout.decode_info(data, reader.session) if find_conflict(layout, data) is None else None
        if info is None or info.format > FORMAT or store.metadata_version(reader.session) != version:
            return ""
        return json.dumps([version, info.user, info.project, info.config, info.title])
    except (SMPError, OSError, ValueError, TypeError, AttributeError, RecursionError):
        return ""
