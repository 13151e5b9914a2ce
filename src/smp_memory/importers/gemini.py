"""Conversations of Gemini CLI: a file, a folder of them, or all.

    ~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl, or .json of older versions

A line is a message, the metadata, `{"$set": {…}}` or `{"$rewindTo": "<id>"}`, which takes back that message and all after it. A message that
comes again replaces the earlier one. Conversations of subagents are left out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.files.ownership import plain_bytes
from smp_memory.importers.conversations import SUBAGENT, conversation, files_below, some, text_of
from smp_memory.importers.registry import found_files
from smp_memory.importers.source import ImportFile
from smp_memory.integrations.hooks.events import GEMINI, strip_host_blocks
from smp_memory.integrations.hooks.transcripts import ASSISTANT, USER, TranscriptTurn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.registry import Found, ImportOptions, Places
    from smp_memory.importers.source import IngestedMemory, IngestedSession, Source

_ROLES = {"user": USER, "gemini": ASSISTANT}
_ROOT_FILE = ".project_root"  # beside the folder of chats


def found(places: Places) -> list[Found]:
    folder = _default(places)
    return found_files(folder, "conversations of Gemini CLI", [path for path, _ in _chats(folder)])


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    start = path or _default(options.places)
    listed = [ImportFile(*each, read_chat, "conversation") for each in _chats(start)]
    return some(listed, start, "chats (session-*.jsonl, session-*.json)")


def _default(places: Places) -> str:
    return os.path.join(places.path("GEMINI_CLI_HOME", ""), ".gemini", "tmp")


def _chats(path: str) -> list[tuple[str, str]]:
    return files_below(path, _is_chat) if os.path.exists(path) else []


def _is_chat(name: str, folder: str) -> bool:
    return name.startswith("session-") and name.endswith((".jsonl", ".json"))


def read_chat(source: Source) -> Iterator[IngestedSession | IngestedMemory]:
    chat = _Chat()
    if source.path.endswith(".json"):
        value = source.json_value()
        chat.set(value if isinstance(value, dict) else {}, 1)
    else:
        for number, line in source.json_lines():
            chat.add(number, line)
    if text_of(chat.facts, "kind") == "subagent":
        return source.leave_out_whole(SUBAGENT)
    session = text_of(chat.facts, "sessionId") or os.path.basename(source.path).partition(".")[0]
    yield from conversation(
        GEMINI,
        session,
        list(chat.turns()),
        source,
        title=text_of(chat.facts, "summary"),
        created=text_of(chat.facts, "startTime"),
        cwd=_project_root(source.path),
    )


class _Chat:
    """The messages of a chat as they are after all lines, and its metadata."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self._messages: dict[str, tuple[int, dict[str, Any]]] = {}

    def add(self, number: int, line: dict[str, Any]) -> None:
        if isinstance(line.get("$rewindTo"), str):
            self._rewind(line["$rewindTo"])
        elif isinstance(line.get("$set"), dict):
            self.set(line["$set"], number)
        elif isinstance(line.get("id"), str):
            self._messages[line["id"]] = (number, line)
        elif isinstance(line.get("sessionId"), str):
            self.set(line, number)

    def set(self, facts: dict[str, Any], number: int) -> None:
        """Take metadata over; messages in it replace all."""
        self.facts |= {name: value for name, value in facts.items() if name != "messages"}
        messages = facts.get("messages")
        if isinstance(messages, list) and messages:
            named = [each for each in messages if isinstance(each, dict) and isinstance(each.get("id"), str)]
            self._messages = {each["id"]: (number, each) for each in named}

    def _rewind(self, id: str) -> None:
        """Take back a message and all after it; all, if it is not known, as Gemini CLI does."""
        known = list(self._messages)
        for each in known[known.index(id) :] if id in self._messages else known:
            del self._messages[each]

    def turns(self) -> Iterator[TranscriptTurn]:
        for id, (number, message) in self._messages.items():
            type = message.get("type")
            role = _ROLES.get(type, "") if isinstance(type, str) else ""
            text = _parts_text(message.get("content"))
            text = strip_host_blocks(text) if role == USER else text
            if role and text.strip():
                turn = TranscriptTurn(role, text, id, text_of(message, "timestamp"), line=number)
                turn.is_open = role == ASSISTANT and bool(message.get("toolCalls"))
                yield turn


def _parts_text(content: Any) -> str:
    """The text of a message: a text, a part, or a list of both; parts that are no text, or thoughts, are left out."""
    parts = content if isinstance(content, list) else [content]
    texts = [each if isinstance(each, str) else _part_text(each) for each in parts]
    return "".join(texts)


def _part_text(part: Any) -> str:
    return "" if isinstance(part, dict) and part.get("thought") else text_of(part, "text")


def _project_root(path: str) -> str:
    """The folder of the project, which newer versions note beside the chats; empty if it is not known."""
    try:
        noted = plain_bytes(os.path.join(os.path.dirname(path), "..", _ROOT_FILE), 4096)
        return noted.decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""
