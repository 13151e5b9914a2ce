"""Conversations of Claude.ai, from its export.

If messages name the message before them and the conversation its last one, the branch that ends there is imported; else all messages
in their order. Left out: thoughts, tools, and the content of attached files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.importers.chat_exports import export_files, found_exports, items_of
from smp_memory.importers.conversations import conversation, text_of
from smp_memory.integrations.hooks.transcripts import ASSISTANT, USER, TranscriptTurn, message_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.registry import Found, ImportOptions, Places
    from smp_memory.importers.source import ImportFile, IngestedMemory, IngestedSession, Source

HOST, MARKER = "claude-ai", "chat_messages"
_ROLES = {"human": USER, "assistant": ASSISTANT}


def found(places: Places) -> list[Found]:
    return found_exports(places, MARKER, "export of Claude.ai")


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    return export_files(path or "", MARKER, read_export)


def read_export(source: Source) -> Iterator[IngestedSession | IngestedMemory]:
    for line, each in items_of(source, MARKER):
        id, messages = text_of(each, "uuid"), each[MARKER]
        if not id or not isinstance(messages, list):
            source.cannot_read(line, "a conversation without an id or messages")
            continue
        named = {text_of(message, "uuid"): message for message in messages if text_of(message, "uuid")}
        turns = [turn for message in _branch(each, named) if (turn := _turn(message, line)) is not None]
        title, created = text_of(each, "name"), text_of(each, "created_at")
        yield from conversation(HOST, id, turns, source, title=title, created=created)


def _branch(fields: dict[str, Any], named: dict[str, Any]) -> list[dict[str, Any]]:
    name = text_of(fields, "current_leaf_message_uuid")
    if name not in named or not text_of(named[name], "parent_message_uuid"):
        return list(named.values())
    branch: dict[str, Any] = {}
    while name in named and name not in branch:
        branch[name] = named[name]
        name = text_of(named[name], "parent_message_uuid")
    return list(branch.values())[::-1]


def _turn(message: dict[str, Any], line: int) -> TranscriptTurn | None:
    role = _ROLES.get(text_of(message, "sender"), "")
    text = message_text(message.get("content"), ("text",)) or text_of(message, "text")
    if not role or not text.strip():
        return None
    return TranscriptTurn(role, text, text_of(message, "uuid"), text_of(message, "created_at"), line=line)
