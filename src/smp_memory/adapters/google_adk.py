"""Google ADK: a memory service whose memories are in SMP.

    Runner(app_name="shop", agent=agent, session_service=sessions, memory_service=SMPMemoryService())

All that a user of an app said and was told is one session of SMP: events are turns, memories that a program adds are learnings.
Guarantees: an event is added once, however often its session is added and by however many processes, and a deleted one is not
added again. Users and apps never see each other's memories. Deleted memories are in the trash of the session.
Non-guarantees: events without text are not stored, and of attached files only their type and size, because ADK's tools read text alone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, BridgeOwner, BridgeSession, Items, Messages, id_for, item_of, message_of
from smp_memory.adapters.message_codec import split
from smp_memory.errors import DuplicateId

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types
except ImportError as error:
    raise ImportError("Google ADK is not installed: pip install 'smp-memory[google-adk]'") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_EVENT = "event"  # begins the ids of events


class SMPMemoryService(BridgeOwner, BaseMemoryService):
    """Searches answer with at most `limit` memories, as many as ADK's own service by default."""

    def __init__(self, memory: Memory | str | os.PathLike[str] | None = None, *, limit: int = 10) -> None:
        self.bridge = Bridge(memory, "google_adk")
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        turns = [
            _turn(session_id or "", event, content, custom_metadata or {})
            for event in events
            if (content := _stored_content(event.content))
        ]
        if turns:
            user = self.bridge.session(app_name, user_id)
            await aio.call(user.write, lambda session: _add_new(session, turns))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        items = Items(self.bridge.session(app_name, user_id))
        for memory in memories:
            if content := _stored_content(memory.content):
                changes = {"content": content, "custom_metadata": {**memory.custom_metadata, **(custom_metadata or {})}}
                entry = memory.model_copy(update={"id": memory.id or str(uuid4()), **changes})
                await aio.call(items.put, entry.id, _to_json(entry))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        user = self.bridge.session(app_name, user_id)
        return SearchMemoryResponse(memories=await aio.call(self._search, user, query))

    def _search(self, user: BridgeSession, query: str) -> list[MemoryEntry]:
        session = user.opened()
        if session is None or not query.strip():
            return []
        hits = self.bridge.memory.recall(query, session=session.id, types=["turn", "learning"], limit=self._limit)
        return [entry for hit in hits if (entry := _entry(hit.record)) is not None]

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        if memory_id:
            await aio.call(self._delete, self.bridge.session(app_name, user_id), memory_id)

    def _delete(self, user: BridgeSession, memory_id: str) -> None:
        Items(user).delete(memory_id)
        events = Messages(user)
        for turn in events.records():
            entry = _entry(turn)
            if entry is not None and entry.id == memory_id:
                events.remove(turn.id)


def _add_new(session: SessionMemory, turns: Sequence[dict[str, Any]]) -> None:
    """Add the turns whose ids were never taken."""
    known = {record.id for record in session.records("turn", include_deleted=True)}
    new = list({turn["id"]: ("turn", turn) for turn in turns if turn["id"] not in known}.values())
    if not new:
        return
    try:
        session.add_many(new)
    except DuplicateId:  # another process added some of them, or they were deleted for good
        for turn in new:
            try:
                session.add_many([turn])
            except DuplicateId:
                pass


def _turn(session_id: str, event: Event, content: types.Content, metadata: Mapping[str, object]) -> dict[str, Any]:
    when = _moment(event.timestamp)
    entry = MemoryEntry(
        id=event.id,
        content=content,
        author=event.author,
        timestamp=when.isoformat() if when else None,
        custom_metadata=dict(metadata),
    )
    id, _ = id_for(_EVENT, session_id, event.id)
    text, rest = split(_to_json(entry))
    role = "user" if event.author == "user" else "assistant"
    data = {"id": id, "role": role, "author": event.author or None, "created": when, "content": text, **rest}
    return {name: value for name, value in data.items() if value is not None}


def _moment(timestamp: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (ValueError, OverflowError, OSError):
        return None  # not a time between the years 1 and 9999


def _stored_content(content: types.Content | None) -> types.Content | None:
    """The content with names of attached files in their places; None if it has no text."""
    parts = content.parts if content and content.parts else []
    if content is None or not any(part.text and part.text.strip() for part in parts):
        return None
    return content.model_copy(update={"parts": [_without_bytes(part) for part in parts]})


def _without_bytes(part: types.Part) -> types.Part:
    blob = part.inline_data
    if blob is None:
        return part
    return types.Part(text=f"[{blob.mime_type or 'file'}, {len(blob.data or b'')} bytes, not stored]")


def _to_json(entry: MemoryEntry) -> dict[str, Any]:
    """An entry as JSON, with its readable text as `text`; the parts are left out if they are this text alone."""
    data = entry.model_dump(mode="json", exclude_none=True)
    parts = data["content"].pop("parts")
    text = "\n".join(part["text"] for part in parts if part.get("text"))
    if parts != [{"text": text}]:
        data["content"]["parts"] = parts
    return {"text": text, **data}


def _entry(record: Record) -> MemoryEntry | None:
    """The entry that a memory holds; None if it is another memory, which somebody wrote into the session."""
    if record.id.startswith(f"{_EVENT}-"):
        value = message_of(record)
    elif item := item_of(record):
        value = item.value
    else:
        return None
    content = {"parts": [{"text": value.pop("text")}], **value.pop("content")}
    return MemoryEntry.model_validate({**value, "content": content})
