"""LlamaIndex: chats whose messages are in SMP, and a memory block that recalls what a store knows.

    Memory.from_defaults("thread-1", chat_store=SMPChatStore(), memory_blocks=[SMPMemoryBlock()])

Guarantees: messages come back equal and in order, but for redacted secrets. `SMPChatStore` does what `SQLAlchemyChatStore` does; archiving
and deleting name the messages, so two processes that archive at once archive none twice. Deleted messages are in the trash of their session.
Non-guarantees: the window of a `Memory` (which messages leave it, and when) is LlamaIndex's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, Messages, OpaqueLog, is_state
from smp_memory.privacy.fence import fence, inside

try:
    from llama_index.core.base.llms.types import ChatMessage, TextBlock
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.memory import BaseMemoryBlock
    from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
except ImportError as error:
    raise ImportError("LlamaIndex is not installed: pip install 'smp-memory[llama-index]'") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record

FRAMEWORK = "llama_index"
_ACTIVE, _ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
_LONGEST = 1000  # characters of a recalled memory
_CHARS_PER_TOKEN = 4


class _Entry(NamedTuple):
    record: Record
    message: dict[str, Any]
    status: MessageStatus


class SMPChatStore(AsyncDBChatStore):
    """The messages of each key are the turns of one session."""

    _bridge: Bridge = PrivateAttr()

    def __init__(self, memory: Memory | str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._bridge = Bridge(memory, FRAMEWORK)

    def close(self) -> None:
        """Close the store if it was opened here."""
        self._bridge.close()

    async def get_messages(
        self, key: str, status: MessageStatus | None = _ACTIVE, limit: int | None = None, offset: int | None = None
    ) -> list[ChatMessage]:
        found = await aio.call(self._entries, key, status)
        return _chat_messages(found[offset or 0 :][:limit])

    async def count_messages(self, key: str, status: MessageStatus | None = _ACTIVE) -> int:
        return len(await aio.call(self._entries, key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = _ACTIVE) -> None:
        await self.add_messages(key, [message], status)

    async def add_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        await aio.call(self._messages(key).add_many, [_to_json(message, status) for message in messages])

    async def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        if messages:
            await aio.call(self._messages(key).replace, [_to_json(message, status) for message in messages])
        else:
            await self.delete_messages(key)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete a message by the number of its turn, 3 for TURN-0003."""
        found = [each for each in await aio.call(self._entries, key) if each.record.id == f"TURN-{idx:04d}"]
        return next(iter(await aio.call(self._delete, key, found)), None)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        if status is None:
            await aio.call(self._messages(key).clear)
        else:
            await aio.call(self._delete, key, await aio.call(self._entries, key, status))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        oldest = (await aio.call(self._entries, key, _ACTIVE))[:n]
        return await aio.call(self._delete, key, oldest)

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        oldest = (await aio.call(self._entries, key, _ACTIVE))[:n]
        if oldest:
            ids = [each.record.id for each in oldest]
            log = OpaqueLog(self._bridge.session(key))
            await aio.call(log.add_many, [(f"{len(ids)} messages left the window.", ids)])
        return _chat_messages(oldest)

    async def get_keys(self) -> list[str]:
        keys = [names[0] for names in await aio.call(self._bridge.namespaces) if len(names) == 1]
        return [key for key in keys if await aio.call(self._entries, key)]

    @classmethod
    def class_name(cls) -> str:
        return "SMPChatStore"

    def _messages(self, key: str) -> Messages:
        return Messages(self._bridge.session(key))

    def _entries(self, key: str, status: MessageStatus | None = None) -> list[_Entry]:
        """The messages with a status. What was archived is named by states among the turns; see `archive_oldest_messages`."""
        messages = self._messages(key)
        turns = messages.records()
        archived = {id for turn in turns if is_state(turn) for id in turn.given["opaque"]}
        entries = []
        for turn in turns:
            if not is_state(turn):
                message = messages.message(turn)
                own = MessageStatus(message.pop("status", _ACTIVE))
                entries.append(_Entry(turn, message, _ARCHIVED if turn.id in archived else own))
        return [each for each in entries if status in (None, each.status)]

    def _delete(self, key: str, entries: Sequence[_Entry]) -> list[ChatMessage]:
        """Delete messages; those that another process has not deleted meanwhile."""
        messages = self._messages(key)
        return _chat_messages([entry for entry in entries if messages.remove(entry.record.id)])


def _to_json(message: ChatMessage, status: MessageStatus) -> dict[str, Any]:
    """A message as JSON, with its readable text as `content`; the blocks are left out if they are this text alone."""
    text = message.content or ""
    is_text = message.blocks == [TextBlock(text=text)]
    data = message.model_dump(mode="json", exclude={"blocks"} if is_text else None)
    if status != _ACTIVE:
        data["status"] = status.value
    if not data["additional_kwargs"]:
        del data["additional_kwargs"]
    return {"content": text, **data}


def _chat_messages(entries: Iterable[_Entry]) -> list[ChatMessage]:
    return [ChatMessage.model_validate(_from_json(entry.message)) for entry in entries]


def _from_json(message: dict[str, Any]) -> dict[str, Any]:
    if "blocks" in message:
        return {name: value for name, value in message.items() if name != "content"}
    return message


class SMPMemoryBlock(BaseMemoryBlock[str]):
    """Recalls memories of a store that answer the latest message, and stores messages that leave the window.

    `options` are those of `Memory.recall`: `{"sessions": "notes"}`, `{"types": "decision"}`. Without them the whole store is searched.
    Messages of a chat whose `SMPChatStore` is in the same store are there already and are not stored again.
    """

    name: str = "SMPMemories"
    description: str | None = "Memories that may answer the latest message."
    priority: int = 1
    limit: int = 5
    options: dict[str, Any] = Field(default_factory=dict)
    _bridge: Bridge = PrivateAttr()

    def __init__(self, memory: Memory | str | os.PathLike[str] | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._bridge = Bridge(memory, FRAMEWORK)

    def close(self) -> None:
        """Close the store if it was opened here."""
        self._bridge.close()

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        said = [text for message in messages or () if (text := message.content)]
        if not said:
            return ""
        asked = next(
            (message.content for message in reversed(messages or ()) if message.role == "user" and message.content),
            said[-1],
        )
        return await aio.call(self._recalled, asked, frozenset(said))

    def _recalled(self, asked: str, said: frozenset[str]) -> str:
        """What is known beside what was said in the messages that are in the window."""
        hits = self._bridge.memory.recall(asked, limit=self.limit + len(said), **self.options)
        lines = [f"- {_shortened(hit.record.text)}" for hit in hits if hit.record.text not in said][: self.limit]
        return fence("\n".join(lines)) if lines else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        chats: dict[str, list[ChatMessage]] = {}
        for message in messages:
            copied = message.model_copy(deep=True)
            chats.setdefault(str(copied.additional_kwargs.pop("session_id", "")), []).append(copied)
        for chat, said in chats.items():
            if await aio.call(self._bridge.session(chat).opened) is None:
                kept = Messages(self._bridge.session(self.name, chat))
                await aio.call(kept.add_many, [_to_json(message, _ACTIVE) for message in said])

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Leave out the memories that answer least."""
        lines, too_much = inside(content).split("\n"), tokens_to_truncate * _CHARS_PER_TOKEN
        while lines and too_much > 0:
            too_much -= len(lines.pop())
        return fence("\n".join(lines)) if lines else None


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
