"""How do memories that other tools wrote come into a store? Their files are read, never changed.

    found            a memory as a file says it, and what could not be understood
    markdown_items   what does a Markdown file say, item by item?
    line_times       when was a line written?
    bmad_files       which files of a BMAD project hold memories, and who reads each?
    memlogs, agent_notes, sprint_status, retrospectives, stories    BMAD's files
    taking_in        what is new goes into a session, with where it comes from

Guarantees: importing only adds; repeating it adds nothing twice; every memory says from which file and line it came, and
every line that was not understood is named. Loading this package loads nothing.
"""
