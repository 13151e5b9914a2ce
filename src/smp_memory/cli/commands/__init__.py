"""Which commands are there? Name, module and one line for each, in the order of the overview.

A command `NAME` is two functions in its module: `NAME_arguments(parser)` says what it takes, `run_NAME(call)` does it
and may return an exit code. The docstring of `run_NAME` is the command's help; its part after `Examples:` comes last.
Only the module of the command that was asked for is loaded.
"""

from __future__ import annotations

GROUPS: tuple[tuple[str, dict[str, tuple[str, str]]], ...] = (
    (
        "Begin",
        {
            "init": ("stores", "Make a store below this folder"),
            "demo": ("demo", "See it at work: agents write, one is killed, nothing is lost"),
            "session new": ("sessions", "Start a session"),
            "session list": ("sessions", "List the sessions of the store"),
            "session show": ("sessions", "Show who takes part in a session and what it is about"),
            "session archive": ("keeping", "Pack a session away; opening it brings it back"),
            "session restore": ("keeping", "Bring an archived session back"),
            "session delete": ("keeping", "Move a whole session to the trash"),
            "session undelete": ("keeping", "Bring a deleted session back"),
            "session purge": ("keeping", "Remove a deleted session for good"),
        },
    ),
    (
        "Write",
        {
            "add": ("writing", "Add a memory of any type"),
            "decide": ("writing", "Add a decision, with its reasons"),
            "note": ("writing", "Add a finding: something that was noticed"),
        },
    ),
    (
        "Find",
        {
            "query": ("finding", "Find memories by words, type, tag, author, time or any field"),
            "similar": ("finding", "Find memories that say much the same"),
            "related": ("finding", "Draw what a memory is connected with"),
            "watch": ("finding", "Print matching memories as they are written"),
            "priority": ("finding", "Show the priority of a memory and how it will fade"),
            "topics": ("overviews", "Show what a session is about"),
            "timeline": ("overviews", "Show what happened when"),
            "agents": ("overviews", "Show who took part, and with what"),
            "summary": ("overviews", "Show what matters on a page"),
        },
    ),
    (
        "Agents",
        {
            "context": ("context", "Print what an agent should have in its prompt now"),
            "promote": ("promote", "Let memories of a session hold in all sessions"),
            "workflow check": ("workflow", "Check what a workflow says about memory"),
            "macp": ("macp", "Answer messages of agents: JSON in, JSON out"),
        },
    ),
    (
        "Read",
        {
            "list": ("reading", "List the memories of a session"),
            "show": ("reading", "Show one memory with all its fields"),
            "history": ("reading", "Show who changed what in a memory, and when"),
            "stats": ("sessions", "Show how many memories there are and how much room they take"),
        },
    ),
    (
        "Change",
        {
            "edit": ("changing", "Change fields of a memory, here or in your editor"),
            "resolve": ("changing", "Close a finding or a decision"),
            "relate": ("changing", "Relate one memory to another"),
            "pin": ("changing", "Keep memories from fading"),
            "unpin": ("changing", "Let memories fade again"),
            "delete": ("forgetting", "Hide memories; they can be restored"),
            "deleted": ("forgetting", "Show the trash: who deleted what, when and why"),
            "restore": ("forgetting", "Bring deleted memories back"),
        },
    ),
    (
        "Look after",
        {
            "doctor": ("doctor", "Look a whole store over, and put right what is safe to"),
            "validate": ("checking", "Read everything and report what is wrong, with file and line"),
            "repair": ("checking", "Put right what can be, and set the rest aside"),
            "quarantine": ("quarantine", "Look at what was set aside, and put it back"),
            "maintain": ("maintenance", "Run what is due: compaction, archiving, purging, checks"),
            "compact": ("keeping", "Make room: move what has faded to a cold segment"),
            "tidy": ("tidying", "Fold changes into their entries: files show what holds"),
            "archived": ("keeping", "List the memories in the cold segment"),
            "archive": ("keeping", "Pack a session away, as `session archive`"),
            "unarchive": ("keeping", "Bring an archived session back, as `session restore`"),
            "duplicates": ("keeping", "Find findings and preferences that say the same"),
            "convert": ("stores", "Change how the memories look on disk"),
            "reindex": ("indexing", "Make the index anew from the files"),
            "config": ("stores", "Show or change the settings"),
        },
    ),
    (
        "Hand on",
        {
            "export": ("exchanging", "Write a session with its history into one file"),
            "import": ("exchanging", "Take in what was exported"),
            "anonymise": ("exchanging", "Copy a session with placeholders in the place of names"),
        },
    ),
    (
        "BMAD",
        {
            "digest": ("digest", "Write what is remembered on a page for people and agents"),
            "memlog init": ("memlog", "Make a memlog, BMAD's working memory"),
            "memlog append": ("memlog", "Append to a memlog; safe when several do so at once"),
            "memlog set": ("memlog", "Set a field in the head of a memlog"),
        },
    ),
    (
        "Serve",
        {
            "install": ("install", "Put memory into a coding agent or BMAD, or take it out"),
            "trust": ("trust", "Let hooks use the store of this project"),
            "git setup": ("git", "Let git merge the store of this project entry by entry"),
            "git check": ("git", "Check that no secret and no private file is staged"),
            "git merge-driver": ("git", "Merge one file, called by git"),
            "hook": ("hook", "Recall and record, called by a coding agent at its events"),
            "mcp": ("mcp", "Serve the memory to an agent over MCP"),
        },
    ),
    (
        "Privacy",
        {
            "redact": ("privacy", "Take secrets out of what is already stored"),
            "erase": ("forgetting", "Take the bytes of memories out of every file, with a receipt"),
            "purge": ("forgetting", "Take out for good what has been in the trash long enough"),
            "audit": ("privacy", "Show what was deleted, redacted or handed out, and why"),
        },
    ),
)

COMMANDS = {name: command for _, commands in GROUPS for name, command in commands.items()}
FAMILIES = {name.partition(" ")[0] for name in COMMANDS if " " in name}
