"""Read a session's metadata from its files in any folder, and the start time of one whose metadata has none.

Files of design 000 have no metadata, and a person may write none.
"""

from __future__ import annotations

import json
import os

from smp_memory.errors import SMPError
from smp_memory.model.session_info import SessionInfo
from smp_memory.model.times import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.files.reader import SessionReader

UNKNOWN = "1970-01-01T00:00:00Z"
_FIRST_BYTES = 1 << 16


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
        info = layout.decode_info(disk.read(path), reader.session)
    else:
        lines = [line for state in reader.states.values() for line in state.metadata_lines]
        info = layout.decode_info(json.dumps(lines[-1] if lines else {}).encode(), reader.session)
    if info.created_text == UNKNOWN:
        info.created_text = first_time(reader)
    return info
