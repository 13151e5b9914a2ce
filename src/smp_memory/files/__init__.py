"""Session files: the only place where memories are stored, and everything that reads, appends to, replaces and repairs them.

From the ground up: `system` (operating system), `disk` (writes, syncs, renames), `lock` (one writer per session), `journal` (changes of
several files), `codec` and the formats (entries as bytes), `entry_fields`, `layouts` (which file holds what), `reader` (without a
lock) and `writer` (under the lock).

A door: the writer is loaded at the first write, because most processes only read.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files import writer as writer

__getattr__ = door(__name__, "writer")
