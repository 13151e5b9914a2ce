"""Conversations of Codex: a rollout, a folder of them, or all.

    ~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl[.zst]       $CODEX_HOME instead of ~/.codex if it is set
    ~/.codex/archived_sessions/…

Which lines are turns is in `smp_memory.integrations.hooks.transcripts`, which hooks use, too. Rollouts of agents that another
conversation started are left out.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from smp_memory.importers.conversations import SUBAGENT, conversation, files_below, some, text_of
from smp_memory.importers.registry import found_files
from smp_memory.importers.source import ImportFile
from smp_memory.integrations.hooks.events import CODEX
from smp_memory.integrations.hooks.transcripts import codex_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.registry import Found, ImportOptions, Places
    from smp_memory.importers.source import IngestedMemory, IngestedSession, Source

_FOLDERS = ("sessions", "archived_sessions")
_THREAD = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-([^_.]+)")


def found(places: Places) -> list[Found]:
    home = _home(places)
    return found_files(home, "conversations of Codex", [path for path, _ in _rollouts(home)])


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    start = path or _home(options.places)
    listed = [ImportFile(*each, read_rollout, "conversation") for each in _rollouts(start)]
    return some(listed, start, "rollouts (rollout-*.jsonl, rollout-*.jsonl.zst)")


def _home(places: Places) -> str:
    return places.path("CODEX_HOME", ".codex")


def _rollouts(path: str) -> list[tuple[str, str]]:
    """The rollouts at a path; of the home of Codex only those in its folders of sessions."""
    below = [name for name in _FOLDERS if os.path.isdir(os.path.join(path, name))]
    if below:
        pairs = [(name, each) for name in below for each in files_below(os.path.join(path, name), _is_rollout)]
        return [(whole, f"{folder}/{name}") for folder, (whole, name) in pairs]
    return files_below(path, _is_rollout) if os.path.exists(path) else []


def _is_rollout(name: str, folder: str) -> bool:
    return name.startswith("rollout-") and name.endswith((".jsonl", ".jsonl.zst"))


def read_rollout(source: Source) -> Iterator[IngestedSession | IngestedMemory]:
    facts = _Facts()
    turns = codex_turns(facts.of(source.json_lines()))
    if facts.is_agent:
        return source.leave_out_whole(SUBAGENT)
    name = os.path.basename(source.path)
    in_name = _THREAD.match(name)
    session = facts.session or (in_name[1] if in_name else name.partition(".")[0])
    yield from conversation(
        CODEX, session, turns, source, title=facts.title, created=facts.created, cwd=facts.cwd, branch=facts.branch
    )


class _Facts:
    """What the lines of a rollout say about the whole conversation; the first `session_meta` counts, others are of its ancestors."""

    def __init__(self) -> None:
        self.session = self.created = self.cwd = self.branch = self.title = ""
        self.is_agent = False

    def of(self, lines: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in lines:
            payload = line.get("payload")
            if line.get("type") == "session_meta" and isinstance(payload, dict) and not self.session:
                self.session = text_of(payload, "id") or text_of(payload, "session_id")
                self.created = text_of(payload, "timestamp") or text_of(line, "timestamp")
                self.cwd, self.branch = text_of(payload, "cwd"), text_of(payload.get("git"), "branch")
                self.is_agent = isinstance(payload.get("source"), dict) and "subagent" in payload["source"]
            elif line.get("type") == "event_msg" and text_of(payload, "type") == "thread_name_updated":
                self.title = text_of(payload, "thread_name") or self.title
            yield number, line
