"""Conversations of ChatGPT, from its export.

A conversation is a tree of messages; the branch that ends in `current_node` is imported. Left out: other branches, messages to and from
tools, thoughts, custom instructions, and messages that ChatGPT does not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.importers.chat_exports import export_files, found_exports, items_of
from smp_memory.importers.conversations import conversation, text_of, time_of
from smp_memory.integrations.hooks.transcripts import ASSISTANT, USER, TranscriptTurn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.registry import Found, ImportOptions, Places
    from smp_memory.importers.source import ImportFile, IngestedMemory, IngestedSession, Source

HOST, MARKER = "chatgpt", "mapping"
_CONTENT_TYPES = ("text", "multimodal_text")


def found(places: Places) -> list[Found]:
    return found_exports(places, MARKER, "export of ChatGPT")


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    return export_files(path or "", MARKER, read_export)


def read_export(source: Source) -> Iterator[IngestedSession | IngestedMemory]:
    for line, each in items_of(source, MARKER):
        id = text_of(each, "conversation_id") or text_of(each, "id")
        if not id or not isinstance(each[MARKER], dict):
            source.cannot_read(line, "a conversation without an id or messages")
            continue
        turns = [turn for node in _branch(each) if (turn := _turn(node, line)) is not None]
        title, created = text_of(each, "title"), time_of(each.get("create_time"))
        yield from conversation(HOST, id, turns, source, title=title, created=created)


def _branch(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages from the root to the current node; from the last one if that is not known."""
    nodes = fields[MARKER]
    name = text_of(fields, "current_node")
    name = name if name in nodes else next(reversed(nodes), "")
    branch, seen = [], set()
    while name in nodes and name not in seen:
        seen.add(name)
        node = nodes[name]
        if isinstance(node, dict) and isinstance(node.get("message"), dict):
            branch.append(node["message"])
        name = text_of(node, "parent")
    return branch[::-1]


def _turn(message: dict[str, Any], line: int) -> TranscriptTurn | None:
    role, content = text_of(message.get("author"), "role"), message.get("content")
    metadata = message.get("metadata")
    is_hidden = message.get("weight") == 0 or (
        isinstance(metadata, dict) and bool(metadata.get("is_visually_hidden_from_conversation"))
    )
    if role not in (USER, ASSISTANT) or is_hidden or text_of(message, "recipient") not in ("", "all"):
        return None
    if text_of(content, "content_type") not in _CONTENT_TYPES or not isinstance(content, dict):
        return None
    parts = content.get("parts")
    texts = (
        [each if isinstance(each, str) else text_of(each, "text") for each in parts] if isinstance(parts, list) else []
    )
    text = "\n\n".join(each for each in texts if each.strip())
    key = text_of(message, "id")
    return TranscriptTurn(role, text, key, time_of(message.get("create_time")), line=line) if text and key else None
