"""What is due? Pure rules about size and age: they say what should happen, why, and when; nothing here does it.

    clock          can this clock be trusted with what cannot be undone?
    states         in which state is a session, and what happens to it next?
    standing       does a memory still stand open?
    quota          how full is a session, and how long will it last?
    compaction     which memories go to the cold segment? with preserving (which stay?) and turn_groups (what is left?)
    summarise      what do many texts say in few sentences? with sentences, and archive_summary for a whole session
    retention      which memories have been kept long enough?
    consolidation  which memories say the same? with likeness

The time, the figures and the records are handed in; no clock and no disk is read. What a rule decides is a value that
can be shown to a person before it is carried out.
"""
