"""The commands of `smp`: name, module and a one-line description of each, in the order of `smp help all`.

A command `NAME` is two functions in its module: `NAME_arguments(parser)` adds its arguments, `run_NAME(call)` runs it and
may return an exit code. The docstring of `run_NAME` is the command's help; its part after `Examples:` is printed last.
Only the module of the command that runs is loaded.

`EVERYDAY` names the commands that `smp --help` shows.
"""

from __future__ import annotations

GROUPS: tuple[tuple[str, dict[str, tuple[str, str]]], ...] = (
    (
        "Get started",
        {
            "status": ("status", "Show the store, what it holds and what to do next"),
            "init": ("stores", "Create a store below this folder"),
            "web": ("servers", "Show the store in a browser"),
            "demo": ("demo", "Run a demo: agents write, one is killed, nothing is lost"),
            "install": ("install", "Install hooks and the MCP server in a coding agent or BMAD"),
            "trust": ("stores", "Let hooks use the store of this project"),
            "completion": ("completion", "Print a completion script for bash, zsh or fish"),
        },
    ),
    (
        "Write",
        {
            "add": ("write", "Add a memory: a decision, a finding, a preference, …"),
            "edit": ("write", "Change fields of a memory, directly or in your editor"),
            "resolve": ("write", "Close a finding or a decision"),
            "relate": ("write", "Relate one memory to another"),
            "undo": ("read", "Take back your last change, after showing it"),
            "pin": ("write", "Exempt memories from decay"),
            "unpin": ("write", "Let memories decay again"),
            "mute": ("write", "Turn memories off for recall; searches still find them"),
            "unmute": ("write", "Turn memories on for recall again"),
            "review": ("review", "Go through sentences worth writing down; keep or drop them"),
            "promote": ("agents", "Copy memories of a session to the global session"),
        },
    ),
    (
        "Read",
        {
            "query": ("search", "Find memories by words, type, tag, author, time or any field"),
            "list": ("read", "List memories, the newest last"),
            "show": ("read", "Show one memory with all its fields"),
            "history": ("read", "Show the changes of a memory: who, what and when"),
            "similar": ("search", "Find memories with a similar text"),
            "related": ("search", "Show the memories related to one as a tree"),
            "told": ("told", "Show what hooks told agents, prompt by prompt"),
            "watch": ("search", "Print matching memories as they are written"),
            "priority": ("search", "Show the priority of a memory and how it will decay"),
            "topics": ("overview", "Show topics and tags by weight"),
            "timeline": ("overview", "Show memories by hour or day"),
            "agents": ("overview", "Show the authors, with counts and topics"),
            "summary": ("overview", "Show the most important memories on one page"),
            "index": ("overview", "Print a lookup index of a session as JSON"),
            "analytics": ("analytics", "Show what is used, trends, impact, forecasts, decay rates"),
            "stats": ("sessions", "Show counts and sizes"),
        },
    ),
    (
        "Sessions",
        {
            "session new": ("sessions", "Start a session"),
            "session list": ("sessions", "List the sessions of the store"),
            "session show": ("sessions", "Show the participants and the project of a session"),
            "session title": ("sessions", "Give a session a title"),
            "session archive": ("sessions", "Archive a session; opening it restores it"),
            "session delete": ("sessions", "Move a whole session to the trash"),
            "session restore": ("sessions", "Restore an archived or deleted session"),
            "session erase": ("sessions", "Remove a deleted session for good, at once"),
        },
    ),
    (
        "Delete and protect",
        {
            "delete": ("deletion", "Hide memories; they can be restored"),
            "restore": ("deletion", "Restore deleted memories"),
            "trash": ("deletion", "Show the trash, or remove for good what is due"),
            "erase": ("deletion", "Remove the bytes of memories from every file, at once"),
            "redact": ("deletion", "Remove secrets from what is already stored"),
            "audit": ("deletion", "Show what was deleted, redacted or exported, and why"),
        },
    ),
    (
        "Maintain",
        {
            "doctor": ("checks", "Check a whole store, and fix what is safe to fix"),
            "validate": ("checks", "Read everything and report problems with file and line"),
            "repair": ("checks", "Repair what can be repaired, quarantine the rest"),
            "quarantine": ("checks", "Show quarantined data, and put it back"),
            "maintain": ("upkeep", "Run due tasks: compaction, archiving, purging, checks"),
            "compact": ("upkeep", "Move faded memories to a cold segment"),
            "tidy": ("upkeep", "Merge appended changes into their entries"),
            "duplicates": ("upkeep", "Find findings and preferences that say the same"),
            "convert": ("transfer", "Convert the store to another layout, folder or database"),
            "reindex": ("upkeep", "Rebuild the index from the files"),
            "config": ("stores", "Show or change the settings"),
            "metrics": ("servers", "Print metrics for Prometheus"),
        },
    ),
    (
        "Exchange",
        {
            "export": ("exchange", "Export sessions with their history to one file"),
            "import": ("imports", "Import exported sessions, and data of other tools"),
            "anonymise": ("exchange", "Copy a session with placeholders in place of names"),
            "push": ("transfer", "Send sessions to another store; repeat to send what is new"),
            "pull": ("transfer", "Get sessions from another store; repeat to get what is new"),
        },
    ),
    (
        "Agents and other programs",
        {
            "context": ("agents", "Print the memories for an agent's prompt"),
            "mcp": ("servers", "Serve the memory to an agent over MCP"),
            "token create": ("servers", "Create a token for a client of a shared server"),
            "token list": ("servers", "List the tokens of clients"),
            "token revoke": ("servers", "Revoke a token at once"),
            "hook": ("install", "Recall and record, called by a coding agent at its events"),
            "workflow check": ("agents", "Check the memory requirements of a workflow"),
            "macp": ("agents", "Answer messages of agents: JSON in, JSON out"),
            "git setup": ("git", "Let git merge the store of this project entry by entry"),
            "git resolve": ("git_resolve", "Show both sides of merge conflicts, and keep one"),
            "git check": ("git", "Check that no secret and no private file is staged"),
            "git merge-driver": ("git", "Merge one file, called by git"),
        },
    ),
    (
        "BMAD",
        {
            "digest": ("agents", "Write a summary of the memories to a Markdown file"),
            "memlog init": ("agents", "Create a memlog, BMAD's working memory"),
            "memlog append": ("agents", "Append to a memlog; safe for concurrent processes"),
            "memlog set": ("agents", "Set a field in the front matter of a memlog"),
        },
    ),
)

EVERYDAY = (
    *("init", "add", "query", "list", "show", "edit", "resolve", "delete", "restore", "session list"),
    *("web", "install", "doctor"),
)

COMMANDS = {name: command for _, commands in GROUPS for name, command in commands.items()}
FAMILIES = {name.partition(" ")[0] for name in COMMANDS if " " in name}
