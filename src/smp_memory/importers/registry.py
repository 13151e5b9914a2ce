"""The importers by name. A module is loaded when its importer is used; loading this table loads none.

The module of an importer has two functions:

    found(places: Places) -> list[Found]                                   what `smp import --scan` offers on this machine
    files(path: str | None, options: ImportOptions) -> list[ImportFile]    what to read; raises UserError if there is nothing to read

`path` is absolute, or None for the importer's usual place. Both look at names, sizes and beginnings; readers open the files. An importer whose
memories are no list, such as a graph, has instead of `files`:

    merge(run: ImportRun, path: str | None, session: str | None) -> None    stores what it finds and fills the report of the run
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import UserError
from smp_memory.files.ownership import plain_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

CONVERSATIONS, NOTES = "conversations", "notes"
_SETTINGS_BYTES = 16 << 20


class Importer(NamedTuple):
    """One importer."""

    name: str
    title: str
    about: str
    formats: str  # what PATH may be
    module: str
    kind: str = NOTES  # CONVERSATIONS: each becomes a session of its own; NOTES: all go to one session
    has_default: bool = False  # PATH may be left out

    @property
    def session(self) -> str:
        """The session of memories that belong to no conversation."""
        return f"{self.name}-import"

    def load(self) -> Any:
        return import_module(f"smp_memory.importers.{self.module}")


class Places(NamedTuple):
    """Where a machine keeps the files of other tools."""

    home: str
    environ: Mapping[str, str]
    platform: str
    project: str  # the folder of the project, for files that are in it

    def path(self, variable: str, *default: str) -> str:
        """The folder that an environment variable names, else one below the home folder."""
        return self.environ.get(variable) or os.path.join(self.home, *default)


class Found(NamedTuple):
    """Something on this machine that an importer can read."""

    path: str
    title: str
    count: int  # type: ignore[assignment]  # of files, or of conversations in one file
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class ImportOptions(NamedTuple):
    """What `files` may need beside the path."""

    places: Places
    store: str | None = None  # its folder, which is not entered
    settings: Mapping[str, str] = {}


IMPORTERS = (
    Importer("claude-code", "Claude Code", "conversations of Claude Code", "a transcript (.jsonl), the folder of a project, or ~/.claude/projects", "claude_code", CONVERSATIONS, True),
    Importer("codex", "Codex", "conversations of Codex", "a rollout (.jsonl, .jsonl.zst), a folder of them, or ~/.codex", "codex", CONVERSATIONS, True),
    Importer("gemini", "Gemini CLI", "conversations of Gemini CLI", "a chat (.jsonl, .json), a folder of them, or ~/.gemini/tmp", "gemini", CONVERSATIONS, True),
    Importer("cursor", "Cursor", "conversations of Cursor", "state.vscdb, an agent transcript (.jsonl), or a folder of both", "cursor", CONVERSATIONS, True),
    Importer("chatgpt", "ChatGPT", "the export of ChatGPT", "the export (.zip), its folder, or a conversations.json", "chatgpt", CONVERSATIONS),
    Importer("claude-ai", "Claude.ai", "the export of Claude.ai", "the export (.zip), its folder, or a conversations.json", "claude_ai", CONVERSATIONS),
    Importer("bmad", "BMAD", "memlogs, agents' notes, decision logs, retrospectives and stories of a BMAD project", "a project folder", "bmad", has_default=True),
    Importer("mcp-memory", "MCP memory server", "entities, observations and relations of the reference MCP memory server", "its memory.jsonl", "mcp_memory"),
    Importer("claude-mem", "claude-mem", "observations, session summaries and prompts", "claude-mem.db or its folder", "claude_mem", CONVERSATIONS, has_default=True),
    Importer("markdown", "Markdown", "notes (Obsidian or plain), and rules in CLAUDE.md, AGENTS.md, .cursorrules and the like", "a folder or a file", "markdown_notes", has_default=True),
    Importer("basic-memory", "basic-memory", "notes with observations and relations", "a project folder or a note", "basic_memory", has_default=True),
    Importer("mem0", "mem0", "memories that get_all or an export wrote, and the history database", "a .json, .jsonl, .zip or history.db", "mem0", has_default=True),
    Importer("conversation-log", "conversation log", "Markdown with headings '## Turn 1 - TIME', and lists such as decisions.yaml beside it", "a log, or a folder with logs", "conversation_log", CONVERSATIONS, has_default=True),
    Importer("jsonl", "JSONL", "any JSON lines, with --map", "a .jsonl or .json file", "tables"),
    Importer("csv", "CSV", "any table with a header, with --map", "a .csv or .tsv file", "tables"),
)  # fmt: skip


def importer_named(name: str) -> Importer:
    for each in IMPORTERS:
        if each.name == name:
            return each
    raise UserError(
        f"There is no importer {name}. Use one of: {', '.join(each.name for each in IMPORTERS)}.", field="name"
    )


def places_here() -> Places:
    """The places of this machine and user."""
    return Places(os.path.expanduser("~"), os.environ, sys.platform, os.getcwd())


def found_files(path: str, title: str, paths: list[str]) -> list[Found]:
    """One offer for these files; none if there are none."""
    sizes = [size for each in paths if (size := size_of(each)) > 0]
    return [Found(path, title, len(sizes), sum(sizes))] if sizes else []


def size_of(path: str) -> int:
    """The size in bytes; 0 if there is no such file."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):  # a path with a null character
        return 0


def json_settings(path: str) -> Any:
    """A small JSON file in which a tool keeps its settings; None if it cannot be read."""
    try:
        return json.loads(plain_bytes(path, _SETTINGS_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
