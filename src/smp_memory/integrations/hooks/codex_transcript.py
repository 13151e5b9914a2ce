"""Parse turns from the lines of a Codex rollout. Pure.

Turns are `response_item` lines with a message of `user` or `assistant`; `event_msg` lines repeat them. Lines have no
id: their time, role and text together serve as one. A `compacted` line carries the summary that replaces the turns
before it.

Left out: what Codex puts before the first prompt in the user's name (instructions, the environment), tools, reasoning.
"""

from __future__ import annotations

from smp_memory.integrations.hooks.session_state import digest
from smp_memory.integrations.hooks.transcripts import (
    ASSISTANT,
    SUMMARY,
    USER,
    TranscriptTurn,
    keep_final_replies,
    message_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOST_PREFIXES = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<user_shell_command>",
    "<skill>",
    "# AGENTS.md instructions",
)
_PART_TYPES = {USER: ("input_text",), ASSISTANT: ("output_text",)}


def parse_turns(lines: list[dict[str, Any]]) -> list[TranscriptTurn]:
    """The turns in these lines, in order."""
    turns: list[TranscriptTurn] = []
    for line in lines:
        payload, at = line.get("payload"), line.get("timestamp")
        if not isinstance(payload, dict):
            continue
        at = at if isinstance(at, str) else ""
        if line.get("type") == "compacted" and isinstance(payload.get("message"), str):
            turns.append(_turn(SUMMARY, payload["message"], at))
            continue
        role = payload.get("role")
        if line.get("type") != "response_item" or payload.get("type") != "message" or role not in (USER, ASSISTANT):
            continue
        text = message_text(payload.get("content"), _PART_TYPES[role]).strip()
        if text and not (role == USER and text.startswith(_HOST_PREFIXES)):
            turns.append(_turn(role, text, at))
    return keep_final_replies(turns)


def _turn(role: str, text: str, at: str) -> TranscriptTurn:
    return TranscriptTurn(role, text, f"{at}:{role}:{digest(text)[:16]}", at)
