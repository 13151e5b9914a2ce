"""Which lines of a Claude Code transcript are turns? Pure.

Every line of the conversation has a `uuid` and names the one before it, `parentUuid`. Where a person went back and wrote a
prompt anew, two prompts have the same parent; only the last of them counts, with all that follows from it.

Left out: what the host says to itself (`isMeta`), agents and teams beside the conversation (`isSidechain`, `teamName`),
results of tools, commands of the host and what they print. A summary that replaces what was compacted is kept as one.
"""

from __future__ import annotations

from smp_memory.integrations.hooks.events import without_host_words
from smp_memory.integrations.hooks.transcripts import ASSISTANT, SUMMARY, USER, TranscriptTurn, answers_only, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Line = dict[str, Any]

_NOT_SAID = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<task-notification>",
    "[Request interrupted by user",
)


def turns_in(lines: list[Line]) -> list[TranscriptTurn]:
    """What was said in these lines, in order."""
    abandoned = _abandoned(lines)
    found: list[TranscriptTurn] = []
    prompts: set[str] = set()
    message_id = ""
    for line in lines:
        if _text(line, "uuid") in abandoned or not _is_ours(line):
            continue
        message = line["message"]
        key, at = _text(line, "uuid"), _text(line, "timestamp")
        if line["type"] == "assistant":
            said = text_of(message.get("content"), ("text",))
            if said and found and found[-1].role == ASSISTANT and message_id == _text(message, "id") != "":
                found[-1].text += "\n\n" + said  # one message in several lines
            elif said:
                found.append(TranscriptTurn(ASSISTANT, said, key, at))
            message_id = _text(message, "id")
        elif line.get("isCompactSummary"):
            found.append(TranscriptTurn(SUMMARY, text_of(message.get("content"), ("text",)), key, at))
        else:
            said = _said_by_a_person(message.get("content"))
            if said:
                prompt = _text(line, "promptId")  # the event of the prompt has it, too
                found.append(
                    TranscriptTurn(USER, said, f"prompt:{prompt}" if prompt and prompt not in prompts else key, at)
                )
                prompts.add(prompt)
    return answers_only(found)


def _is_ours(line: Line) -> bool:
    return (
        line.get("type") in ("user", "assistant")
        and isinstance(line.get("message"), dict)
        and not (line.get("isMeta") or line.get("isSidechain") or line.get("teamName"))
    )


def _is_prompt(line: Line) -> bool:
    return _is_ours(line) and line["type"] == "user" and bool(_said_by_a_person(line["message"].get("content")))


def _said_by_a_person(content: Any) -> str:
    """A prompt; empty for a tool's result, a command, or what the host put there."""
    if isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    ):
        return ""
    said = without_host_words(text_of(content, ("text",))).strip()
    return "" if said.startswith(_NOT_SAID) else said


def _abandoned(lines: list[Line]) -> set[str]:
    """The lines of prompts that were written anew, and all that followed from them."""
    last: dict[str, str] = {}
    gone: set[str] = set()
    for line in lines:
        parent, name = _text(line, "parentUuid"), _text(line, "uuid")
        if parent and name and _is_prompt(line):
            if parent in last:
                gone.add(last[parent])
            last[parent] = name
    if gone:
        for line in lines:  # a child stands behind its parent
            if _text(line, "parentUuid") in gone:
                gone.add(_text(line, "uuid"))
    return gone - {""}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
