"""Hooks of coding agents: recall memories at the start of a session and at prompts, record the conversation.

    entry          the process `smp hook`: one event in, at most one JSON document out
    events         the events of four hosts in one vocabulary, and the answer in each host's format
    project_store  the store of a project, and whether the user trusts it
    recall         the memories to inject at an event
    record         the turns to store after an event
    background     work that continues after the host has its answer
    session_state  what hooks know about a host's session: ids, offsets, digests
    transcripts, claude_transcript, codex_transcript    turns from the host's transcript files
    failures       the log of failures, without any text of the conversation
    install/       add hooks to a host's settings, and remove them

Guarantees: the exit code is 0, and on failure nothing is printed: no host stops because of its memory. Injected text is
fenced, and fenced text is never recorded. Loading this package loads nothing.
"""
