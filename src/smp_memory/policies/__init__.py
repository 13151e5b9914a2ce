"""Rules about size, age and duplicates: each decides what should happen, when and why, and carries nothing out. Pure.

    clock_trust      whether the clock can be trusted with irreversible steps
    session_states   the state of a session, and its next transition
    statuses         open, settled and active: what the statuses of memories mean
    quota            size and growth of a session, and the warning before it is full
    retention        memories that compaction must keep, and memories that have expired
    purge            deleted memories that may be removed for good, by two checks
    compaction_plan  the memories that go to the cold segment, and the summaries of their turns
    summaries        extractive summaries of texts, and the summary of an archived session
    consolidation    duplicate memories, and their merge

Time, figures and records are arguments; no clock and no disk is read. A decision is a value that can be shown to a
person before it is carried out.
"""
