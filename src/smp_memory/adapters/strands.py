"""Strands: a session repository and a memory store in SMP.

    Agent(session_manager=RepositorySessionManager("s-1", SMPSessionRepository()),
          memory_manager=MemoryManager([SMPMemoryStore()]))

Guarantees: a session of Strands is one session of SMP. Messages are its turns and come back equal, but for redacted secrets. The states of
agents are kept exactly; they are not redacted, searched or shown to agents. The last write of a state or a message wins.
Non-guarantees: as with Strands' own repositories, two processes that talk in one session at once give the same numbers to their messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, BridgeOwner, Items, Messages, OpaqueLog, is_state, item_of

try:
    from strands.memory.types import MemoryEntry, MemoryStore
    from strands.session.session_repository import SessionRepository
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage
except ImportError as error:
    raise ImportError("Strands is not installed: pip install 'smp-memory[strands]'") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from strands.memory.types import Metadata, SearchOptions
    from strands.multiagent.base import MultiAgentBase

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record

FRAMEWORK = "strands"
_SESSION, _AGENT, _MULTI_AGENT = "session", "agent", "multi-agent"


class SMPSessionRepository(BridgeOwner, SessionRepository):
    """Sessions, agents and messages of Strands."""

    def __init__(self, memory: Memory | str | os.PathLike[str] | None = None) -> None:
        self.bridge = Bridge(memory, FRAMEWORK)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        if self.read_session(session.session_id) is not None:
            raise SessionException(f"Session {session.session_id} already exists")
        self._write_state(session.session_id, _SESSION, "", session.to_dict())
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        state = self._read_state(session_id, _SESSION, "")
        return None if state is None else Session.from_dict(state)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Move a session to the trash of the store."""
        if self.read_session(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")
        self.bridge.session(session_id).delete()

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        self._write_state(session_id, _AGENT, session_agent.agent_id, session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        state = self._read_state(session_id, _AGENT, agent_id)
        return None if state is None else SessionAgent.from_dict(state)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        previous = self.read_agent(session_id, session_agent.agent_id)
        if previous is None:
            raise SessionException(f"Agent {session_agent.agent_id} in session {session_id} does not exist")
        session_agent.created_at = previous.created_at
        self.create_agent(session_id, session_agent)

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        self._messages(session_id).add_many([_to_json(agent_id, session_message)])

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        found = self._turns(session_id, agent_id).get(message_id, [])
        return _session_message(self._messages(session_id).message(found[-1])) if found else None

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message. The old one goes to the trash of the session."""
        before = self._turns(session_id, agent_id).get(session_message.message_id, [])
        if not before:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        session_message.created_at = _session_message(self._messages(session_id).message(before[-1])).created_at
        self.create_message(session_id, agent_id, session_message)
        for turn in before:
            self._messages(session_id).remove(turn.id)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        if self.read_agent(session_id, agent_id) is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        turns = sorted(self._turns(session_id, agent_id).items())
        return [_session_message(self._messages(session_id).message(found[-1])) for _, found in turns[offset:][:limit]]

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        self._write_state(session_id, _MULTI_AGENT, multi_agent.id, multi_agent.serialize_state())

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        return self._read_state(session_id, _MULTI_AGENT, multi_agent_id)

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
        self.create_multi_agent(session_id, multi_agent)

    def _write_state(self, session_id: str, kind: str, name: str, state: dict[str, Any]) -> None:
        """Append a state. The last one with a kind and a name holds."""
        log = OpaqueLog(self.bridge.session(session_id))
        log.add_many([(f"The state of the {kind} {name}".strip(), [kind, name, state])])

    def _read_state(self, session_id: str, kind: str, name: str) -> dict[str, Any] | None:
        states = OpaqueLog(self.bridge.session(session_id)).records()
        return next((value[2] for value, _ in reversed(states) if value[:2] == [kind, name]), None)

    def _messages(self, session_id: str) -> Messages:
        return Messages(self.bridge.session(session_id))

    def _turns(self, session_id: str, agent_id: str) -> dict[int, list[Record]]:
        """The turns of an agent by the numbers of its messages; several of one number while it is replaced."""
        found: dict[int, list[Record]] = {}
        messages = self._messages(session_id)
        for turn in messages.records():
            message = {} if is_state(turn) else messages.message(turn)
            if message.get("agent") == agent_id:
                found.setdefault(message["message_id"], []).append(turn)
        return found


def _to_json(agent_id: str, message: SessionMessage) -> dict[str, Any]:
    """A message as JSON, with its readable text as `text`; its content is left out if it is this text alone."""
    data = message.to_dict()
    shown: Mapping[str, Any] = data["redact_message"] or data["message"]
    text = "\n".join(block["text"] for block in shown["content"] if block.get("text"))
    if data["redact_message"] is None and shown["content"] == [{"text": text}]:
        data["message"] = {name: value for name, value in shown.items() if name != "content"}
    return {"text": text, "agent": agent_id, "role": shown["role"], **data}


def _session_message(data: dict[str, Any]) -> SessionMessage:
    message = {"content": [{"text": data["text"]}], **data["message"]}
    return SessionMessage.from_dict({**data, "message": message})


class SMPMemoryStore(BridgeOwner, MemoryStore):
    """What a store knows, for a `MemoryManager`. Memories that an agent adds are learnings of a session of this name.

    `options` are those of `Memory.recall`: `{"sessions": "notes"}`, `{"types": "decision"}`. Without them the whole store is searched.
    """

    def __init__(
        self,
        memory: Memory | str | os.PathLike[str] | None = None,
        name: str = "smp",
        *,
        description: str | None = "What was decided, found out and learned.",
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.bridge = Bridge(memory, FRAMEWORK)
        self._options = options or {}
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        limit = (options or {}).get("max_search_results") or self.max_search_results or 5
        if not query.strip():
            return []
        hits = await aio.call(self.bridge.memory.recall, query, limit=limit, **self._options)
        return [_memory_entry(hit.record, hit.relevance) for hit in hits]

    async def add(self, content: str, metadata: Metadata | None = None) -> str:
        """Add a memory and return its key."""
        key = str(uuid4())
        items = Items(self.bridge.session("memories of", self.name))
        await aio.call(items.put, key, {"content": content, "metadata": metadata or {}})
        return key


def _memory_entry(record: Record, relevance: float) -> MemoryEntry:
    item = item_of(record)
    metadata = item.value.get("metadata", {}) if item and isinstance(item.value, dict) else {}
    about = {"id": record.ref, "type": record.type, "created": record.created.isoformat(), "relevance": relevance}
    return MemoryEntry(content=record.text, metadata={**metadata, **about})
