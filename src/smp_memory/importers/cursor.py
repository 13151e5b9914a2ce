"""Conversations of Cursor: its database, transcripts of its agent, or all of both.

    <user data>/Cursor/User/globalStorage/state.vscdb                     conversations of the editor
    ~/.cursor/projects/<project>/agent-transcripts/<id>/<id>.jsonl        a shorter form, without times and ids

In the database, `composerData:<id>` lists the messages of a conversation and `bubbleId:<id>:<message>` has each. The formats are not
documented; what does not look like this is left out or reported. A conversation that is in both places is imported once.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from smp_memory.importers.conversations import conversation, files_below, some, text_of, time_of
from smp_memory.importers.foreign_sqlite import opened
from smp_memory.importers.registry import found_files
from smp_memory.importers.source import ImportFile
from smp_memory.integrations.hooks.events import CURSOR, strip_host_blocks
from smp_memory.integrations.hooks.session_state import digest
from smp_memory.integrations.hooks.transcripts import ASSISTANT, USER, TranscriptTurn, message_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from smp_memory.importers.registry import Found, ImportOptions, Places
    from smp_memory.importers.source import IngestedMemory, IngestedSession, Source

_DATABASE = "state.vscdb"
_ROLES = {1: USER, 2: ASSISTANT}
_CONVERSATIONS = (
    "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
)
_MESSAGE = "SELECT value FROM cursorDiskKV WHERE key = ?"
_QUERY = ("<user_query>", "</user_query>")


def found(places: Places) -> list[Found]:
    database, projects = _database(places), _projects(places)
    transcripts = [path for path, _ in _listed(projects)]
    return [
        *found_files(database, "conversations of Cursor", [database]),
        *found_files(projects, "transcripts of Cursor's agent", transcripts),
    ]


def files(path: str | None, options: ImportOptions) -> list[ImportFile]:
    """What is at a path; without one the database and then the transcripts, which know less."""
    starts = [path] if path else [_database(options.places), _projects(options.places)]
    listed = [each for start in starts for each in _listed(start)]
    return some([_file(*each) for each in listed], starts[0], f"{_DATABASE} and no agent-transcripts/**/*.jsonl")


def _file(path: str, name: str) -> ImportFile:
    return ImportFile(path, name, read_transcript if path.endswith(".jsonl") else read_database, "conversation")


def _database(places: Places) -> str:
    if places.platform == "darwin":
        base = os.path.join(places.home, "Library", "Application Support")
    elif places.platform == "win32":
        base = places.path("APPDATA", "AppData", "Roaming")
    else:
        base = places.path("XDG_CONFIG_HOME", ".config")
    return os.path.join(base, "Cursor", "User", "globalStorage", _DATABASE)


def _projects(places: Places) -> str:
    return os.path.join(places.home, ".cursor", "projects")


def _listed(path: str) -> list[tuple[str, str]]:
    return files_below(path, _is_wanted) if os.path.exists(path) else []


def _is_wanted(name: str, folder: str) -> bool:
    return name == _DATABASE or (name.endswith(".jsonl") and "agent-transcripts" in folder.split("/"))


# -- the database


def read_database(source: Source) -> Iterator[IngestedSession | IngestedMemory]:
    with opened(source) as connection:
        if connection is not None:
            for number, (key, value) in enumerate(connection.execute(_CONVERSATIONS), 1):
                composer = _json(source, number, key, value)
                if composer is not None:
                    id = text_of(composer, "composerId") or str(key).partition(":")[2]
                    yield from _conversation(source, number, id, composer, connection)


def _conversation(
    source: Source, number: int, id: str, composer: dict[str, Any], connection: sqlite3.Connection
) -> Iterator[IngestedSession | IngestedMemory]:
    turns, folder = [], ""
    for name, message in _messages(source, number, id, composer, connection):
        type = message.get("type")
        role = _ROLES.get(type, "") if isinstance(type, int) else ""
        text = text_of(message, "text")
        if role and text.strip():
            at = time_of(message.get("createdAt"))
            turns.append(TranscriptTurn(role, strip_host_blocks(text) if role == USER else text, name, at, line=number))
        folder = folder or _folder(message.get("workspaceUris"))
    created = time_of(composer.get("createdAt"))
    return conversation(CURSOR, id, turns, source, title=text_of(composer, "name"), created=created, cwd=folder)


def _messages(
    source: Source, number: int, id: str, composer: dict[str, Any], connection: sqlite3.Connection
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The messages with their ids: inside of the conversation in older versions, else one by one."""
    headers, inside = composer.get("fullConversationHeadersOnly"), composer.get("conversation")
    for each in inside if isinstance(inside, list) else ():
        if isinstance(each, dict) and text_of(each, "bubbleId"):
            yield text_of(each, "bubbleId"), each
    for header in headers if isinstance(headers, list) else ():
        name = text_of(header, "bubbleId")
        row = connection.execute(_MESSAGE, (f"bubbleId:{id}:{name}",)).fetchone() if name else None
        message = _json(source, number, f"bubbleId:{id}:{name}", row[0]) if row is not None else None
        if message is not None:
            yield name, message


def _json(source: Source, number: int, key: Any, value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    source.count_bytes(len(value) if isinstance(value, str | bytes) else 0)
    try:
        found = json.loads(value)
    except (ValueError, TypeError, RecursionError):
        source.cannot_read(number, f"{key}: not JSON")
        return None
    return found if isinstance(found, dict) else None


def _folder(uris: Any) -> str:
    """The folder of the first workspace."""
    first = uris[0] if isinstance(uris, list) and uris else ""
    try:
        return unquote(urlparse(first).path) if isinstance(first, str) and first.startswith("file:") else ""
    except ValueError:
        return ""


# -- transcripts of the agent


def read_transcript(source: Source) -> Iterator[IngestedSession | IngestedMemory]:
    turns: list[TranscriptTurn] = []
    seen: dict[str, int] = {}
    for number, line in source.json_lines():
        role, message = line.get("role"), line.get("message")
        content = message.get("content") if isinstance(message, dict) else line.get("content")
        text = message_text(content, ("text",))
        if role not in (USER, ASSISTANT) or not text.strip():
            continue
        text = _query_in(text) if role == USER else text
        key = f"{role}:{digest(text)[:16]}"
        seen[key] = nth = seen.get(key, 0) + 1
        turns.append(TranscriptTurn(role, text, f"{key}:{nth}", line=number))
    id = os.path.basename(source.path).partition(".")[0]
    return conversation(CURSOR, id, turns, source)


def _query_in(text: str) -> str:
    """What the person wrote, without what Cursor put around it."""
    start, end = text.find(_QUERY[0]), text.rfind(_QUERY[1])
    return strip_host_blocks(text[start + len(_QUERY[0]) : end] if 0 <= start < end else text).strip()
