"""What was said, by the host's own file? Reading a transcript from where we stopped, and what a turn is. Reads only.

A transcript is JSON lines that the host appends to. Which lines are turns is for the host's own reader to tell
(`claude_transcript`, `codex_transcript`); here is what they share.

Guarantees: whole lines only; a line that cannot be read is left out, and costs nothing but itself. Of the texts that an
assistant says between its tools only the last before the next prompt is a turn: that is its answer. Fenced recall is gone.
"""

from __future__ import annotations

import os
import stat as modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT_BYTES = 64 << 20  # of one reading; what lies before is left out
USER, ASSISTANT, SUMMARY = "user", "assistant", "summary"


class TranscriptTurn:
    """Something that was said: by whom, what, and the host's id for it."""

    __slots__ = ("at", "by_event", "key", "role", "text")

    def __init__(self, role: str, text: str, key: str, at: str = "", by_event: bool = False) -> None:
        self.role = role
        self.text = text
        self.key = key
        self.at = at
        self.by_event = by_event  # told by an event; the transcript will have it, too

    def __repr__(self) -> str:
        return f"Turn({self.role}, {self.text[:40]!r}, {self.key})"


def reader_of(client: str) -> Callable[[list[dict[str, Any]]], list[TranscriptTurn]] | None:
    """What makes turns of a host's lines; None: its transcripts are not read."""
    if client == "claude-code":
        from smp_memory.integrations.hooks.claude_transcript import turns_in

        return turns_in
    if client == "codex":
        from smp_memory.integrations.hooks.codex_transcript import turns_in as turns_in_rollout

        return turns_in_rollout
    return None


def size_of(path: str) -> int:
    """How long a transcript is; -1 if there is none, or none that can be read as text."""
    if not path.endswith(".jsonl"):
        return -1
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return -1
    return found.st_size if modes.S_ISREG(found.st_mode) else -1  # a pipe would never end


def lines_from(path: str, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The lines behind an offset, and where the next reading begins. A file that was cut is read anew."""
    import json

    size = size_of(path)
    if size < 0:
        return [], offset
    start = offset if 0 <= offset <= size else 0
    skips = size - start > LIMIT_BYTES
    if skips:
        start = size - LIMIT_BYTES
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(LIMIT_BYTES)
    end = data.rfind(b"\n") + 1
    first = data.find(b"\n") + 1 if skips else 0  # it begins in the middle of a line
    found = []
    for line in data[first:end].splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found, start + end


def answers_only(turns: list[TranscriptTurn]) -> list[TranscriptTurn]:
    """Without what an assistant said before its last word, and without what was only recalled or is empty."""
    from smp_memory.integrations.hooks.events import printable
    from smp_memory.privacy.fence import strip

    found: list[TranscriptTurn] = []
    for turn in turns:
        turn.text = strip(printable(turn.text)).strip()
        if not turn.text:
            continue
        if turn.role == ASSISTANT and found and found[-1].role == ASSISTANT:
            found.pop()
        found.append(turn)
    return found


def text_of(content: Any, kinds: tuple[str, ...]) -> str:
    """The text of a message: a string, or the parts of these kinds."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [
        part["text"]
        for part in content
        if isinstance(part, dict) and part.get("type") in kinds and isinstance(part.get("text"), str)
    ]
    return "\n\n".join(parts)
