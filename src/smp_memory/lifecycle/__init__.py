"""Operations on sessions over their lifetime: opening, archiving, compaction, deletion, erasure, maintenance.

A door: all modules but `open_session` are loaded when they are first used, because most commands only read or add.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.lifecycle import compaction as compaction
    from smp_memory.lifecycle import deletion as deletion
    from smp_memory.lifecycle import maintenance as maintenance
    from smp_memory.lifecycle import session_size as session_size
    from smp_memory.lifecycle import session_states as session_states
    from smp_memory.lifecycle import sessions as sessions

__getattr__ = door(__name__, "compaction", "deletion", "maintenance", "session_size", "session_states", "sessions")
