"""Read turns from the transcript of a host, from an offset on. Reads only.

A transcript is JSON lines that the host appends to; a parser for each host decides which lines are turns. Parsers take numbered lines
and keep only what they need of each, so that importers can give them files of any size.

Guarantees: whole lines only; a line that cannot be read is skipped, and the others are not affected. Of the texts that an
assistant writes between its tool calls only the last before the next prompt is a turn: its reply. Fenced recall is removed.
"""

from __future__ import annotations

import os
import stat as modes
import time

from smp_memory.integrations.hooks.events import replace_surrogates, strip_host_blocks
from smp_memory.integrations.hooks.session_state import digest
from smp_memory.model.session_info import TITLE_CHARACTERS
from smp_memory.privacy.fence import strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Line = dict[str, Any]
    Numbered = Iterable[tuple[int, Line]]

LIMIT_BYTES = 64 << 20  # of one read; older lines are skipped
_MARGIN_BYTES = 1000  # for the other fields of a memory
_UTF8_BYTES = 4  # most bytes of one character
_IDLE_SECONDS = 300  # a transcript that was not written to for this long is not in use
USER, ASSISTANT, SUMMARY = "user", "assistant", "summary"


class TranscriptTurn:
    """One turn: its role, its text and the host's id for it."""

    __slots__ = ("at", "by_event", "is_open", "key", "line", "role", "text")

    def __init__(self, role: str, text: str, key: str, at: str = "", by_event: bool = False, line: int = 0) -> None:
        self.role = role
        self.text = text
        self.key = key
        self.at = at
        self.by_event = by_event  # taken from an event; the transcript will contain it, too
        self.line = line
        self.is_open = False  # a tool was called after this text, so it is no reply unless the conversation ended here

    @property
    def lasting_key(self) -> str:
        """The host's id; of a line without one its time, role and text."""
        return self.key or f"{self.at}:{self.role}:{digest(self.text)[:16]}"

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
    kept: list[TranscriptTurn] = []
    for turn in turns:
        turn.text = strip(replace_surrogates(turn.text)).strip()
        if not turn.text:
            continue
        if turn.role == ASSISTANT and kept and kept[-1].role == ASSISTANT:
            kept.pop()
        kept.append(turn)
    return kept


def cut(text: str, limit_bytes: int) -> str:
    """A text that fits into a memory; what was not kept is said at its end."""
    limit = limit_bytes - _MARGIN_BYTES
    if len(text) * _UTF8_BYTES <= limit:
        return text
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", "ignore")
    return f"{kept}… [{len(text) - len(kept)} more characters were not kept]"


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


_FILE_FIELDS = ("file_path", "notebook_path", "path")  # of the input of a tool
_LONGEST_PATH = 300  # characters; a longer text is no path


def used_files(lines: list[Line]) -> list[str]:
    """The files that tool calls in these lines name, the last one first."""
    found: list[str] = []
    for line in lines:
        message = line.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            given = part.get("input") if isinstance(part, dict) and part.get("type") == "tool_use" else None
            if isinstance(given, dict):
                values = [
                    replace_surrogates(value) for name in _FILE_FIELDS if isinstance(value := given.get(name), str)
                ]
                found += [
                    value for value in values if "." in value and len(value) <= _LONGEST_PATH and value.isprintable()
                ]
    return list(dict.fromkeys(reversed(found)))


def given_title(lines: list[Line]) -> str:
    """The name that a person gave the conversation in Claude Code, in these lines; the host's own summaries are not taken."""
    titles = [_text(line, "customTitle") for line in lines if line.get("type") == "custom-title"]
    words = replace_surrogates(titles[-1]).split() if titles else ()
    return "".join(filter(str.isprintable, " ".join(words)))[:TITLE_CHARACTERS]


# -- Claude Code
#
# Every line of the conversation has a `uuid` and names the one before it, `parentUuid`. Where a person went back and edited a
# prompt, two prompts have the same parent; only the last of them counts, with all its descendants.
# Left out: meta lines of the host (`isMeta`), agents and teams beside the conversation (`isSidechain`, `teamName`), results of
# tools, commands of the host and their output. A summary that replaces compacted turns is kept as a summary.

_CLAUDE_PREFIXES = (
    "<command-name>",
    "<command-message>",
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<task-notification>",
    "[Request interrupted by user",
)


def claude_turns(lines: Numbered) -> list[TranscriptTurn]:
    """The turns in lines of a Claude Code transcript, in order."""
    kept = [_claude_line(number, line) for number, line in lines]
    abandoned = _abandoned_lines(kept)
    turns: list[TranscriptTurn] = []
    prompts: set[str] = set()
    message_id = ""
    for each in kept:
        if not each.role or each.id in abandoned:
            continue
        if each.role == ASSISTANT:
            if each.text and turns and turns[-1].role == ASSISTANT and message_id == each.group != "":
                turns[-1].text += "\n\n" + each.text  # one message split over several lines
            elif each.text:
                turns.append(TranscriptTurn(ASSISTANT, each.text, each.id, each.at, line=each.number))
            if each.calls_tool and turns:
                turns[-1].is_open = True
            message_id = each.group
        elif each.text:
            # The prompt's event carries the same id.
            key = f"prompt:{each.group}" if each.role == USER and each.group and each.group not in prompts else each.id
            turns.append(TranscriptTurn(each.role, each.text, key, each.at, line=each.number))
            prompts.add(each.group)
    return keep_final_replies(turns)


class _ClaudeLine:
    """What is needed of one line; `role` is empty if it is not part of the conversation."""

    __slots__ = ("at", "calls_tool", "group", "id", "number", "parent", "role", "text")

    def __init__(self, number: int, id: str, parent: str) -> None:
        self.number, self.id, self.parent = number, id, parent
        self.role = self.text = self.at = ""
        self.group = ""  # the id of the message or of the prompt
        self.calls_tool = False


def _claude_line(number: int, line: Line) -> _ClaudeLine:
    kept = _ClaudeLine(number, _text(line, "uuid"), _text(line, "parentUuid"))
    if not _is_conversation(line):
        return kept
    message, kept.at = line["message"], _text(line, "timestamp")
    content = message.get("content")
    if line["type"] == "assistant":
        kept.role, kept.text, kept.group = ASSISTANT, message_text(content, ("text",)), _text(message, "id")
        kept.calls_tool = _has_part(content, "tool_use")
    elif line.get("isCompactSummary"):
        kept.role, kept.text = SUMMARY, message_text(content, ("text",))
    else:
        kept.role, kept.text, kept.group = USER, _prompt_text(content), _text(line, "promptId")
    return kept


def _is_conversation(line: Line) -> bool:
    return (
        line.get("type") in ("user", "assistant")
        and isinstance(line.get("message"), dict)
        and not (line.get("isMeta") or line.get("isSidechain") or line.get("teamName"))
    )


def _prompt_text(content: Any) -> str:
    """The text of a prompt; empty for a tool result, a command, or text that the host inserted."""
    if _has_part(content, "tool_result"):
        return ""
    text = strip_host_blocks(message_text(content, ("text",))).strip()
    return "" if text.startswith(_CLAUDE_PREFIXES) else text


def _has_part(content: Any, type: str) -> bool:
    return isinstance(content, list) and any(isinstance(part, dict) and part.get("type") == type for part in content)


def _abandoned_lines(lines: list[_ClaudeLine]) -> set[str]:
    """The ids of prompts that were edited later, and of all their descendants."""
    last: dict[str, str] = {}
    abandoned_ids: set[str] = set()
    for each in lines:
        if each.role in (USER, SUMMARY) and each.text and each.parent and each.id:
            if each.parent in last:
                abandoned_ids.add(last[each.parent])
            last[each.parent] = each.id
    if abandoned_ids:
        for each in lines:  # a child comes after its parent
            if each.parent in abandoned_ids:
                abandoned_ids.add(each.id)
    return abandoned_ids - {""}


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


# -- Codex
#
# Turns are `response_item` lines with a message of `user` or `assistant`; `event_msg` lines repeat them. Lines have no id: their
# time, role and text together serve as one. A `compacted` line carries the summary that replaces the turns before it.
# Left out: what Codex puts before the first prompt in the user's name (instructions, the environment), tools, reasoning.

_CODEX_PREFIXES = (
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
_CODEX_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_PART_TYPES = {USER: ("input_text",), ASSISTANT: ("output_text",)}


def codex_turns(lines: Numbered) -> list[TranscriptTurn]:
    """The turns in lines of a Codex rollout, in order."""
    turns: list[TranscriptTurn] = []
    for number, line in lines:
        payload, at = line.get("payload"), _text(line, "timestamp")
        if not isinstance(payload, dict):
            continue
        if line.get("type") == "compacted" and isinstance(payload.get("message"), str):
            turns.append(_codex_turn(SUMMARY, payload["message"], at, number))
            continue
        role = payload.get("role")
        if line.get("type") == "response_item" and payload.get("type") in _CODEX_CALLS and turns:
            turns[-1].is_open = True
        if line.get("type") != "response_item" or payload.get("type") != "message" or role not in (USER, ASSISTANT):
            continue
        text = message_text(payload.get("content"), _PART_TYPES[role]).strip()
        if text and not (role == USER and text.startswith(_CODEX_PREFIXES)):
            turns.append(_codex_turn(role, text, at, number))
    return keep_final_replies(turns)


def _codex_turn(role: str, text: str, at: str, line: int) -> TranscriptTurn:
    return TranscriptTurn(role, text, f"{at}:{role}:{digest(text)[:16]}", at, line=line)
