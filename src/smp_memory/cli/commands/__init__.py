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
            "session archive": ("session_lifecycle", "Pack a session away; opening it brings it back"),
            "session restore": ("session_lifecycle", "Bring an archived session back"),
            "session delete": ("session_lifecycle", "Move a whole session to the trash"),
            "session undelete": ("session_lifecycle", "Bring a deleted session back"),
            "session purge": ("session_lifecycle", "Remove a deleted session for good"),
        },
    ),
    (
        "Write",
        {
            "add": ("write", "Add a memory of any type"),
            "decide": ("write", "Add a decision, with its reasons"),
            "note": ("write", "Add a finding: something that was noticed"),
        },
    ),
    (
        "Find",
        {
            "query": ("search", "Find memories by words, type, tag, author, time or any field"),
            "similar": ("search", "Find memories that say much the same"),
            "related": ("search", "Draw what a memory is connected with"),
            "watch": ("search", "Print matching memories as they are written"),
            "priority": ("search", "Show the priority of a memory and how it will fade"),
            "topics": ("overview", "Show what a session is about"),
            "timeline": ("overview", "Show what happened when"),
            "agents": ("overview", "Show who took part, and with what"),
            "summary": ("overview", "Show what matters on a page"),
        },
    ),
    (
        "Agents",
        {
            "context": ("agents", "Print what an agent should have in its prompt now"),
            "promote": ("agents", "Let memories of a session hold in all sessions"),
            "workflow check": ("agents", "Check what a workflow says about memory"),
            "macp": ("agents", "Answer messages of agents: JSON in, JSON out"),
        },
    ),
    (
        "Read",
        {
            "list": ("read", "List the memories of a session"),
            "show": ("read", "Show one memory with all its fields"),
            "history": ("read", "Show who changed what in a memory, and when"),
            "stats": ("sessions", "Show how many memories there are and how much room they take"),
        },
    ),
    (
        "Change",
        {
            "edit": ("write", "Change fields of a memory, here or in your editor"),
            "resolve": ("write", "Close a finding or a decision"),
            "relate": ("write", "Relate one memory to another"),
            "pin": ("write", "Keep memories from fading"),
            "unpin": ("write", "Let memories fade again"),
            "delete": ("deletion", "Hide memories; they can be restored"),
            "deleted": ("deletion", "Show the trash: who deleted what, when and why"),
            "restore": ("deletion", "Bring deleted memories back"),
        },
    ),
    (
        "Look after",
        {
            "doctor": ("checks", "Look a whole store over, and put right what is safe to"),
            "validate": ("checks", "Read everything and report what is wrong, with file and line"),
            "repair": ("checks", "Put right what can be, and set the rest aside"),
            "quarantine": ("upkeep", "Look at what was set aside, and put it back"),
            "maintain": ("upkeep", "Run what is due: compaction, archiving, purging, checks"),
            "compact": ("session_lifecycle", "Make room: move what has faded to a cold segment"),
            "tidy": ("upkeep", "Fold changes into their entries: files show what holds"),
            "archived": ("session_lifecycle", "List the memories in the cold segment"),
            "archive": ("session_lifecycle", "Pack a session away, as `session archive`"),
            "unarchive": ("session_lifecycle", "Bring an archived session back, as `session restore`"),
            "duplicates": ("session_lifecycle", "Find findings and preferences that say the same"),
            "convert": ("stores", "Change how the memories look on disk"),
            "reindex": ("upkeep", "Make the index anew from the files"),
            "config": ("stores", "Show or change the settings"),
        },
    ),
    (
        "Hand on",
        {
            "export": ("exchange", "Write a session with its history into one file"),
            "import": ("exchange", "Take in what was exported"),
            "anonymise": ("exchange", "Copy a session with placeholders in the place of names"),
        },
    ),
    (
        "BMAD",
        {
            "digest": ("agents", "Write what is remembered on a page for people and agents"),
            "memlog init": ("bmad", "Make a memlog, BMAD's working memory"),
            "memlog append": ("bmad", "Append to a memlog; safe when several do so at once"),
            "memlog set": ("bmad", "Set a field in the head of a memlog"),
        },
    ),
    (
        "Serve",
        {
            "install": ("install", "Put memory into a coding agent or BMAD, or take it out"),
            "trust": ("privacy", "Let hooks use the store of this project"),
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
            "erase": ("deletion", "Take the bytes of memories out of every file, with a receipt"),
            "purge": ("deletion", "Take out for good what has been in the trash long enough"),
            "audit": ("privacy", "Show what was deleted, redacted or handed out, and why"),
        },
    ),
)

COMMANDS = {name: command for _, commands in GROUPS for name, command in commands.items()}
FAMILIES = {name.partition(" ")[0] for name in COMMANDS if " " in name}
