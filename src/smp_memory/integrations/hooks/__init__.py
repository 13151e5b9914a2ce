"""What does a coding agent have to do to remember? Nothing: its hooks recall and record.

    entry        one event in, at most one JSON document out; what is slow goes on behind
    events       what happened, whatever the host calls it
    place        which store belongs to this project?
    recall       what should the agent know now that it has not been told?
    answers      how does each host want to be told?
    behind       how does work go on when the host has its answer?
    record       which turns are new, and into which session do they go?
    note         what do hooks know of a host's session?
    transcript, claude_transcript, codex_transcript    what was said, by the host's own file?
    failures     what went wrong, without a word of what was said
    install/     how do hooks get into a host's settings, and out again?

Guarantees: the exit code is 0, and on failure nothing is printed: no host stops because of its memory. What is injected is
fenced, and fenced text is never recorded. Loading this package loads nothing.
"""
