"""Read a host's transcript from an offset, and the steps that all transcript parsers share. Reads only.

A transcript is JSON lines that the host appends to. The host's parser decides which lines are turns
(`claude_transcript`, `codex_transcript`).

Guarantees: whole lines only; a line that cannot be read is skipped, and the others are not affected. Of the texts that an
assistant writes between its tool calls only the last before the next prompt is a turn: its reply. Fenced recall is removed.
"""

from __future__ import annotations

import os
import stat as modes
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT_BYTES = 64 << 20  # of one read; older lines are skipped
_IDLE_SECONDS = 300  # a transcript that was not written to for this long is not in use
USER, ASSISTANT, SUMMARY = "user", "assistant", "summary"


class TranscriptTurn:
    """One turn: its role, its text and the host's id for it."""

    __slots__ = ("at", "by_event", "key", "role", "text")

    def __init__(self, role: str, text: str, key: str, at: str = "", by_event: bool = False) -> None:
        self.role = role
        self.text = text
        self.key = key
        self.at = at
        self.by_event = by_event  # taken from an event; the transcript will contain it, too

    def __repr__(self) -> str:
        return f"Turn({self.role}, {self.text[:40]!r}, {self.key})"


def transcript_size(path: str) -> int:
    """The size of a transcript in bytes; -1 if it does not exist or is not a regular file ending in .jsonl."""
    if not path.endswith(".jsonl"):
        return -1
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return -1
    return status.st_size if modes.S_ISREG(status.st_mode) else -1  # reading a pipe would never end


def read_lines(path: str, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The lines after an offset, and the offset for the next read. A file that became shorter is read from its start."""
    import json

    size = transcript_size(path)
    if size < 0:
        return [], offset
    start = offset if 0 <= offset <= size else 0
    is_skipping = size - start > LIMIT_BYTES
    if is_skipping:
        start = size - LIMIT_BYTES
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(LIMIT_BYTES)
    end = data.rfind(b"\n") + 1
    first = data.find(b"\n") + 1 if is_skipping else 0  # the read begins in the middle of a line
    lines = []
    for line in data[first:end].splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            lines.append(value)
    return lines, start + end


def is_in_use(path: str) -> bool:
    """Whether a transcript was written to recently, or its time cannot be read."""
    try:
        return time.time() - os.stat(path).st_mtime < _IDLE_SECONDS
    except OSError:
        return True


def from_last_prompt(turns: list[TranscriptTurn]) -> list[TranscriptTurn]:
    """The turns from the last prompt on."""
    last = max((position for position, turn in enumerate(turns) if turn.role == USER), default=0)
    return turns[last:]


def keep_final_replies(turns: list[TranscriptTurn]) -> list[TranscriptTurn]:
    """The turns without recalled text and empty turns, and with only the last of consecutive assistant texts."""
    from smp_memory.integrations.hooks.events import replace_surrogates
    from smp_memory.privacy.fence import strip

    kept: list[TranscriptTurn] = []
    for turn in turns:
        turn.text = strip(replace_surrogates(turn.text)).strip()
        if not turn.text:
            continue
        if turn.role == ASSISTANT and kept and kept[-1].role == ASSISTANT:
            kept.pop()
        kept.append(turn)
    return kept


def message_text(content: Any, part_types: tuple[str, ...]) -> str:
    """The text of a message: a string, or its parts of these types."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [
        part["text"]
        for part in content
        if isinstance(part, dict) and part.get("type") in part_types and isinstance(part.get("text"), str)
    ]
    return "\n\n".join(parts)
