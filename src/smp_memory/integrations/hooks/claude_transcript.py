"""Parse turns from the lines of a Claude Code transcript. Pure.

Every line of the conversation has a `uuid` and names the one before it, `parentUuid`. Where a person went back and edited a
prompt, two prompts have the same parent; only the last of them counts, with all its descendants.

Left out: meta lines of the host (`isMeta`), agents and teams beside the conversation (`isSidechain`, `teamName`),
results of tools, commands of the host and their output. A summary that replaces compacted turns is kept as a summary.
"""

from __future__ import annotations

from smp_memory.integrations.hooks.events import strip_host_blocks
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

    Line = dict[str, Any]

_HOST_PREFIXES = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<task-notification>",
    "[Request interrupted by user",
)


def parse_turns(lines: list[Line]) -> list[TranscriptTurn]:
    """The turns in these lines, in order."""
    abandoned = _abandoned_lines(lines)
    turns: list[TranscriptTurn] = []
    prompts: set[str] = set()
    message_id = ""
    for line in lines:
        if _text(line, "uuid") in abandoned or not _is_conversation(line):
            continue
        message = line["message"]
        key, at = _text(line, "uuid"), _text(line, "timestamp")
        if line["type"] == "assistant":
            text = message_text(message.get("content"), ("text",))
            if text and turns and turns[-1].role == ASSISTANT and message_id == _text(message, "id") != "":
                turns[-1].text += "\n\n" + text  # one message split over several lines
            elif text:
                turns.append(TranscriptTurn(ASSISTANT, text, key, at))
            message_id = _text(message, "id")
        elif line.get("isCompactSummary"):
            turns.append(TranscriptTurn(SUMMARY, message_text(message.get("content"), ("text",)), key, at))
        else:
            text = _prompt_text(message.get("content"))
            if text:
                prompt = _text(line, "promptId")  # the prompt's event carries the same id
                turns.append(
                    TranscriptTurn(USER, text, f"prompt:{prompt}" if prompt and prompt not in prompts else key, at)
                )
                prompts.add(prompt)
    return keep_final_replies(turns)


def _is_conversation(line: Line) -> bool:
    return (
        line.get("type") in ("user", "assistant")
        and isinstance(line.get("message"), dict)
        and not (line.get("isMeta") or line.get("isSidechain") or line.get("teamName"))
    )


def _is_prompt(line: Line) -> bool:
    return _is_conversation(line) and line["type"] == "user" and bool(_prompt_text(line["message"].get("content")))


def _prompt_text(content: Any) -> str:
    """The text of a prompt; empty for a tool result, a command, or text that the host inserted."""
    if isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    ):
        return ""
    text = strip_host_blocks(message_text(content, ("text",))).strip()
    return "" if text.startswith(_HOST_PREFIXES) else text


def _abandoned_lines(lines: list[Line]) -> set[str]:
    """The ids of prompts that were edited later, and of all their descendants."""
    last: dict[str, str] = {}
    abandoned_ids: set[str] = set()
    for line in lines:
        parent, name = _text(line, "parentUuid"), _text(line, "uuid")
        if parent and name and _is_prompt(line):
            if parent in last:
                abandoned_ids.add(last[parent])
            last[parent] = name
    if abandoned_ids:
        for line in lines:  # a child comes after its parent
            if _text(line, "parentUuid") in abandoned_ids:
                abandoned_ids.add(_text(line, "uuid"))
    return abandoned_ids - {""}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
