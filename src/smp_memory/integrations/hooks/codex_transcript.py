"""Which lines of a Codex rollout are turns? Pure.

Turns are `response_item` lines with a message of `user` or `assistant`; `event_msg` lines say the same again. Lines have no
id of their own: their time, role and text together serve as one. A `compacted` line carries the summary that replaces what
was before.

Left out: what Codex puts before the first prompt in the user's name (instructions, the environment), tools, reasoning.
"""

from __future__ import annotations

from smp_memory.integrations.hooks.session_state import digest
from smp_memory.integrations.hooks.transcripts import ASSISTANT, SUMMARY, USER, TranscriptTurn, answers_only, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NOT_SAID = (
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
_KINDS = {USER: ("input_text",), ASSISTANT: ("output_text",)}


def turns_in(lines: list[dict[str, Any]]) -> list[TranscriptTurn]:
    """What was said in these lines, in order."""
    found: list[TranscriptTurn] = []
    for line in lines:
        payload, at = line.get("payload"), line.get("timestamp")
        if not isinstance(payload, dict):
            continue
        at = at if isinstance(at, str) else ""
        if line.get("type") == "compacted" and isinstance(payload.get("message"), str):
            found.append(_turn(SUMMARY, payload["message"], at))
            continue
        role = payload.get("role")
        if line.get("type") != "response_item" or payload.get("type") != "message" or role not in (USER, ASSISTANT):
            continue
        said = text_of(payload.get("content"), _KINDS[role]).strip()
        if said and not (role == USER and said.startswith(_NOT_SAID)):
            found.append(_turn(role, said, at))
    return answers_only(found)


def _turn(role: str, text: str, at: str) -> TranscriptTurn:
    return TranscriptTurn(role, text, f"{at}:{role}:{digest(text)[:16]}", at)
