"""The importers by name. A module is loaded when its importer is used; loading this table loads none.

The module of an importer has two functions:

    found(places: Places) -> list[Found]                                   what `smp import --scan` offers on this machine
    files(path: str | None, options: ImportOptions) -> list[ImportFile]    what to read; raises UserError if there is nothing to read

`path` is absolute, or None for the importer's usual place. Both only look at names and sizes; readers open the files.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

CONVERSATIONS, NOTES = "conversations", "notes"


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
)  # fmt: skip


def importer_named(name: str) -> Importer:
    for each in IMPORTERS:
        if each.name == name:
            return each
    raise UserError(
        f"There is no importer {name}. There are: {', '.join(each.name for each in IMPORTERS)}.", field="name"
    )


def places_here(project: str | None = None) -> Places:
    """The places of this machine and user."""
    return Places(os.path.expanduser("~"), os.environ, sys.platform, project or os.getcwd())


def found_files(path: str, title: str, paths: list[str]) -> list[Found]:
    """One offer for these files; none if there are none."""
    sizes = [size for each in paths if (size := size_of(each)) > 0]
    return [Found(path, title, len(sizes), sum(sizes))] if sizes else []


def size_of(path: str) -> int:
    """The size in bytes; 0 if there is no such file."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
