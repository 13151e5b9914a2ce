"""When a session began, for one whose head does not say it: files of design 000 have no head, and a person may write none."""

from __future__ import annotations

import os

from smp_memory.errors import SMPError
from smp_memory.model.times import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.reader import SessionReader

UNKNOWN = "1970-01-01T00:00:00Z"
_FIRST_BYTES = 1 << 16


def first_time(reader: SessionReader) -> str:
    """The earliest time among the first entries of its files; `UNKNOWN` if none says one."""
    layout, disk, times = reader.layout, reader.disk, []
    for name in layout.files(disk, reader.folder, reader.session):
        try:
            data = disk.read(os.path.join(reader.folder, name), 0, _FIRST_BYTES)
        except (FileNotFoundError, SMPError):
            continue  # `validate` reports a file that cannot be read
        said = (
            piece.fields.get(layout.field_names.time) for piece in layout.codec_of(name).decode(data) if piece.fields
        )
        first = next((time for time in said if time is not None), None)
        try:
            times += [parse(first, "created")] if first is not None else []
        except SMPError:
            continue
    return min(times, default=UNKNOWN)
