"""The largest numbers given out in a session, as its head has them since the last rewrite.

They count when an id was given out twice: no memory is shown under the number of one that was purged or compacted.
"""

from __future__ import annotations

import json
import os

from smp.errors import SMPError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.files.session_reader import SessionReader


def numbers_in_head(reader: SessionReader) -> dict[str, int]:
    """By prefix; empty if the head cannot be read, which `validate` reports."""
    layout, name = reader.layout, reader.layout.info_file
    try:
        if name:
            heads = [reader.disk.read(os.path.join(reader.folder, name))]
        else:
            heads = [json.dumps(head).encode() for state in reader.states.values() for head in state.heads]
        found = [layout.decode_info(head, reader.session).numbers for head in heads]
        return {prefix: max(numbers.get(prefix, 0) for numbers in found) for prefix in set().union(*found)}
    except (OSError, SMPError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
