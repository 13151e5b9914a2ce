"""Operations on sessions over their lifetime: opening, archiving, compaction, deletion, erasure, maintenance.

Pure rules decide what should happen, when and why, and carry nothing out. Time, figures and records are arguments; a decision is a
value that can be shown to a person before it is carried out:

    clock_trust      whether the clock can be trusted with irreversible steps
    transitions      the state of a session, and its next transition
    quota            size and growth of a session, and the warning before it is full
    retention        memories that compaction must keep, and memories that have expired
    purge            deleted memories that may be removed for good, by two checks
    compaction_plan  the memories that go to the cold segment, and the summaries of their turns
    consolidation    duplicate memories, and their merge
    review           memories that turns propose, until somebody keeps or drops them
    conflicts        fields that two clones changed to different values
    undo             the last change of somebody, and its reversal

A door: all modules but the rules are loaded when they are first used, because most commands only search.
"""

from __future__ import annotations

from smp_memory.import_lock import door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.lifecycle import compaction as compaction
    from smp_memory.lifecycle import conflicts as conflicts
    from smp_memory.lifecycle import deletion as deletion
    from smp_memory.lifecycle import maintenance as maintenance
    from smp_memory.lifecycle import open_session as open_session
    from smp_memory.lifecycle import review as review
    from smp_memory.lifecycle import session_states as session_states
    from smp_memory.lifecycle import sessions as sessions
    from smp_memory.lifecycle import undo as undo

__getattr__ = door(
    __name__,
    "compaction",
    "conflicts",
    "deletion",
    "maintenance",
    "open_session",
    "review",
    "session_states",
    "sessions",
    "undo",
)
