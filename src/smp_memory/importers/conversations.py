"""What importers of conversations share: files, sessions, turns, projects, and the end of a conversation that goes on.

A conversation becomes the session that hooks would record it in, with the same name and the same keys of turns, so that hooks and imports
continue each other.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smp_memory.discovery import project_name
from smp_memory.errors import UserError
from smp_memory.importers.source import IngestedMemory, IngestedSession
from smp_memory.integrations.hooks.events import replace_surrogates
from smp_memory.integrations.hooks.session_state import name_of_conversation, turn_digest
from smp_memory.integrations.hooks.transcripts import ASSISTANT, SUMMARY, is_in_use, keep_final_replies
from smp_memory.model.times import to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from smp_memory.importers.source import ImportFile, Source
    from smp_memory.integrations.hooks.transcripts import TranscriptTurn
    from smp_memory.model.record import Record

SUBAGENT = "a transcript of a subagent"
_DAY = re.compile(r"\d{4}-[01]\d-[0-3]\d")
_LONGEST_TITLE = 120  # characters
_LONGEST_MILLISECONDS = 8.64e15


def text_of(fields: Any, name: str) -> str:
    """A field that is a text, without halves of characters; empty if it is missing or something else."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return replace_surrogates(value) if isinstance(value, str) else ""


def time_of(value: Any) -> str:
    """A time as text: ISO 8601 as it is, seconds or milliseconds since 1970 converted; empty if it is none."""
    from datetime import UTC, datetime

    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LONGEST_MILLISECONDS:
        return ""
    seconds = value / 1000 if value > 1e11 else value
    try:
        return to_text(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def conversation(
    host: str,
    host_session: str,
    turns: list[TranscriptTurn],
    source: Source,
    *,
    title: str = "",
    created: str = "",
    cwd: str = "",
    project: str = "",
    **context: Any,
) -> Iterator[IngestedSession | IngestedMemory]:
    """The session of a conversation, and its turns; nothing if it has none."""
    turns = keep_final_replies(turns)
    if turns and turns[-1].is_open and is_in_use(source.path):
        turns.pop()  # an intermediate text of a reply that is being written
    if not turns:
        return
    began = next((at for at in (created, *(turn.at for turn in turns)) if _DAY.match(at)), "")
    day = began[:10] if began else "undated"
    yield IngestedSession(
        name_of_conversation(host, host_session, day),
        title=" ".join(title.split())[:_LONGEST_TITLE],
        project=project or (project_of(cwd) if cwd else ""),
        created=began or None,
        agents=(host,),
        host=host,
        host_session=host_session,
        context={name: value for name, value in context.items() if value},
    )
    for turn in turns:
        yield _memory(turn, host)


def _memory(turn: TranscriptTurn, host: str) -> IngestedMemory:
    if turn.role == SUMMARY:
        return IngestedMemory(
            SUMMARY, {"summary": turn.text, "author": host}, turn.line, turn.lasting_key, turn.at or None
        )
    fields = {"role": turn.role, "content": turn.text}
    if turn.role == ASSISTANT:
        fields["author"] = host
    return IngestedMemory("conversation", fields, turn.line, turn.lasting_key, turn.at or None)


# -- what hooks recorded before


class RecordedTurns:
    """Turns that hooks recorded in a session, by the digest of their text, until they are found in the transcript."""

    def __init__(self) -> None:
        self._by_digest: dict[str, list[Record]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_digest)

    def add(self, record: Record) -> None:
        role, text = turn_of(record.given)
        if text:
            self._by_digest.setdefault(turn_digest(role, text), []).append(record)

    def discard(self, record: Record | None) -> None:
        """Remove a turn that was found by its key."""
        if record is not None and self._by_digest:
            digest = turn_digest(*turn_of(record.given))
            left = [each for each in self._by_digest.pop(digest, []) if each.id != record.id]
            if left:
                self._by_digest[digest] = left

    def take(self, digest: str, at: datetime) -> bool:
        """Remove the turn of this text that is next in time. False: there is none."""
        found = self._by_digest.get(digest)
        if not found:
            return False
        found.remove(min(found, key=lambda each: abs(each.created - at)))
        return True


def turn_of(fields: Any) -> tuple[str, str]:
    """The role and the text of a turn or a summary; an empty text for any other memory."""
    role = fields.get("role", "summary")
    return str(role), str(fields.get("content") or fields.get("summary") or "")


# -- files


def files_below(path: str, is_wanted: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """The files at or below a path with their names relative to it; links are not followed.

    `is_wanted` gets the name of a file and its folder relative to `path`. A file that is named itself is always wanted.
    """
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        return [(real, os.path.basename(real))]
    found = []
    for folder, folders, names in os.walk(real):
        folders.sort()
        below = os.path.relpath(folder, real).replace(os.sep, "/")
        below = "" if below == "." else below
        for name in sorted(names):
            whole = os.path.join(folder, name)
            if is_wanted(name, below) and not os.path.islink(whole):
                found.append((whole, f"{below}/{name}" if below else name))
    return found


def some(files: list[ImportFile], path: str, what: str) -> list[ImportFile]:
    """The files, or an error that says what was looked for."""
    if not files:
        raise UserError(f"There is nothing to import at {path}: no {what}.", path=path)
    return files


# -- projects


@lru_cache(maxsize=1000)
def project_of(cwd: str) -> str:
    """The name of the project that a folder of this machine, or of another one, belongs to."""
    folder = os.path.normpath(cwd)
    return project_name(folder) if os.path.isabs(folder) else os.path.basename(folder.replace("\\", "/"))
