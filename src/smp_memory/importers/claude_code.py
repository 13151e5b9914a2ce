"""Conversations of Claude Code: a transcript, the folder of a project, or all projects.

    ~/.claude/projects/<project>/<session>.jsonl            $CLAUDE_CONFIG_DIR instead of ~/.claude if it is set

Which lines are turns is in `smp_memory.integrations.hooks.transcripts`, which hooks use, too. Transcripts of subagents
(`agent-*.jsonl`, `<session>/subagents/`) are left out: the conversation that started them has what they answered.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.importers.conversations import SUBAGENT, conversation, files_below, some, text_of
from smp_memory.importers.registry import found_files
from smp_memory.importers.source import ImportFile
from smp_memory.integrations.hooks.events import CLAUDE
from smp_memory.integrations.hooks.transcripts import claude_turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.importers.registry import Found, ImportOptions, Places
    from smp_memory.importers.source import IngestedMemory, IngestedSession, Source

_TITLES = {
    "custom-title": "customTitle",
    "ai-title": "aiTitle",
    "summary": "summary",
}  # by type of line, the best first
_UUID_LENGTH = 36


def found(places: Places) -> list[Found]:
    folder = _default(places)
    listed = [path for path, name in _transcripts(folder) if not _is_of_subagent(name)]
    return found_files(folder, "conversations of Claude Code", listed)


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    start = path or _default(options.places)
    listed = [ImportFile(*each, read_transcript, "conversation") for each in _transcripts(start)]
    return some(listed, start, "transcripts (*.jsonl)")


def _default(places: Places) -> str:
    return os.path.join(places.path("CLAUDE_CONFIG_DIR", ".claude"), "projects")


def _transcripts(path: str) -> list[tuple[str, str]]:
    if not os.path.exists(path):
        return []
    return files_below(path, lambda name, folder: name.endswith(".jsonl"))


def _is_of_subagent(name: str) -> bool:
    parts = name.split("/")
    return parts[-1].startswith("agent-") or "subagents" in parts[:-1]


def read_transcript(source: Source) -> Iterable[IngestedSession | IngestedMemory]:
    if _is_of_subagent(source.name):
        source.leave_out_whole(SUBAGENT)
        return ()
    facts = _Facts()
    turns = claude_turns(facts.of(source.json_lines()))
    stem = os.path.basename(source.path).partition(".")[0]
    is_named_after_session = len(stem) == _UUID_LENGTH and stem.count("-") == 4
    return conversation(
        CLAUDE,
        stem if is_named_after_session else facts.session or stem,
        turns,
        source,
        title=facts.title,
        created=facts.created,
        cwd=facts.cwd,
        branch=facts.branch,
    )


class _Facts:
    """What the lines of a transcript say about the whole conversation."""

    def __init__(self) -> None:
        self.session = self.created = self.cwd = self.branch = ""
        self._titles: dict[str, str] = {}

    def of(self, lines: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in lines:
            type = line.get("type")
            if isinstance(type, str) and type in _TITLES:
                self._titles[type] = text_of(line, _TITLES[type])
            elif not self.created or not self.cwd or not self.session:
                self.session = self.session or text_of(line, "sessionId")
                self.cwd = self.cwd or text_of(line, "cwd")
                self.branch = self.branch or text_of(line, "gitBranch")
                self.created = self.created or text_of(line, "timestamp")
            yield number, line

    @property
    def title(self) -> str:
        return next((title for type in _TITLES if (title := self._titles.get(type))), "")
