"""LangChain: `SMPChatMessageHistory`, `SMPRetriever` and `SMPKeyValueStore`.

    history = SMPChatMessageHistory("memory", "trip to Rome")
    documents = SMPRetriever(memory="memory", k=4).invoke("Which database did we choose?")

Guarantees: a conversation is a session, a message is a turn and comes back equal; messages of one call are stored with one sync. A
retriever finds what `smp query` finds. A key-value store holds JSON values; each is a memory that people can read and search.
Secrets in messages and values are redacted before they are stored. See docs/adapters/langchain.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import smp_memory
from smp_memory import search
from smp_memory.adapters.bridge import Bridge, BridgeOwner, Items, Messages
from smp_memory.memory import Memory
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message, messages_from_dict
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.stores import BaseStore
    from pydantic import Field
except ImportError as error:
    raise ImportError("LangChain is not installed: pip install 'smp-memory[langchain]'") from error

_TYPES = {"user": "human", "assistant": "ai", "system": "system"}


class SMPChatMessageHistory(BridgeOwner, BaseChatMessageHistory):
    """The messages of one conversation. `session_id` may have any characters; `limit`: give only so many of the last messages."""

    def __init__(
        self, memory: Any = None, session_id: str = "default", *, limit: int | None = None, author: str | None = None
    ) -> None:
        self.bridge = Bridge(memory, "langchain", author)
        self._messages = Messages(self.bridge.session(str(session_id)))
        self._limit = limit

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # read-only, as in other histories
        found = self._messages.all() if self._limit is None else self._messages.last(self._limit)
        return messages_from_dict([{"type": data["type"], "data": data} for data in map(_with_type, found)])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._messages.add_many(map(_to_json, messages))

    def clear(self) -> None:
        """Move the messages to the trash."""
        self._messages.clear()


def _to_json(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    return {"type": message.type, **message.model_dump(mode="json", exclude_defaults=True)}


def _with_type(message: dict[str, Any]) -> dict[str, Any]:
    """A message as LangChain knows it; one that somebody else wrote into the session has a role and a content."""
    if "type" in message:
        return message
    role, content = message["role"], message["content"]
    return {"type": _TYPES[role], "content": content} if role in _TYPES else {"type": "chat", **message}


class SMPRetriever(BaseRetriever):
    """Finds memories as documents. `memory` is a `Memory`, a folder or an address; None: the nearest store.

    `options` are those of `Memory.query`: types, tags, sessions, min_relevance, … Private memories are found only if `agent` is their author.
    """

    memory: Any = None
    k: int = 4
    agent: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if not isinstance(self.memory, Memory):
            self.memory = smp_memory.open(self.memory)

    def _get_relevant_documents(self, query: str, *, k: int | None = None, **_: Any) -> list[Document]:
        whole = self.memory.scope
        scope = Scope(whole.store, whole.sessions, whole.config, whole.clock, viewer=Viewer(self.agent))
        hits = search.path.query(scope, query, {"limit": self.k if k is None else k, **self.options})
        return [_document(hit) for hit in hits]


def _document(hit: Any) -> Document:
    record = hit.record
    facts = {
        "session": record.session,
        "type": record.type,
        "author": record.author,
        "created": record.created.isoformat(),
        "tags": record.tags,
        "relevance": hit.relevance,
    }
    return Document(id=record.ref, page_content=record.text, metadata=facts)


class SMPKeyValueStore(BridgeOwner, BaseStore[str, Any]):
    """Keys and JSON values in one session, which `name` names."""

    def __init__(self, memory: Any = None, name: str = "default", *, author: str | None = None) -> None:
        self.bridge = Bridge(memory, "langchain_store", author)
        self._items = Items(self.bridge.session(name))

    def mget(self, keys: Sequence[str]) -> list[Any]:
        found = [self._items.get(key) for key in keys]
        return [None if item is None else item.value for item in found]

    def mset(self, key_value_pairs: Sequence[tuple[str, Any]]) -> None:
        for key, value in key_value_pairs:
            self._items.put(key, value)

    def mdelete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._items.delete(key)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        yield from (item.key for item in self._items.all() if item.key.startswith(prefix or ""))
