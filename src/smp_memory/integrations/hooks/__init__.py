"""Hooks of coding agents: recall memories at the start of a session and at prompts, record the conversation.

    entry          the process `smp hook`: one event in, at most one JSON document out
    events         the events of four hosts in one vocabulary, and the answer in each host's format
    recall         the memories to inject at an event
    record         the turns to store after an event
    session_state  what hooks know about a host's session: ids, offsets, digests; the log of failures
    transcripts    turns from the host's transcript files
    hosts, file_edit, json_edit    add hooks to a host's settings, and remove them

Guarantees: the exit code is 0, and on failure nothing is printed: no host stops because of its memory. Injected text is
fenced, and fenced text is never recorded. Loading this package loads nothing.
"""
