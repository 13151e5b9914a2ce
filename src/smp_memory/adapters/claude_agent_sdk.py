"""Sessions of the Claude Agent SDK in a store: each transcript is a session, each of its lines a turn.

    ClaudeAgentOptions(session_store=SMPSessionStore("path/to/store"))

Guarantees: entries come back equal, in the order of writing, except for secrets, which are redacted. An entry whose `uuid` is known is not
added again. What the user and Claude said is the content of a turn, which queries find. Entries and the summary of a batch are
stored together, whoever else appends. A deleted session and those of its subagents go to the trash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, Messages, from_opaque, to_opaque, turn_of
from smp_memory.errors import Conflict, DuplicateId, SMPError
from smp_memory.model.times import parse, to_text

try:
    from claude_agent_sdk import SessionStore, fold_session_summary
except ImportError as error:
    raise ImportError("SMPSessionStore needs claude-agent-sdk: pip install 'smp-memory[claude-agent-sdk]'") from error

if TYPE_CHECKING:
    import os
    from typing import Any

    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from smp_memory.adapters.bridge import BridgeSession, MessageTurn
    from smp_memory.memory import Memory
    from smp_memory.session import SessionMemory

_SUMMARY = "SUM-transcript"  # the id of the memory with the summary of a session
_TRIES = 20  # how often other processes may append between reading the summary and writing it
_SPOKEN = ("user", "assistant")  # types of entries


class SMPSessionStore(SessionStore):
    """A `SessionStore` over a store of SMP."""

    def __init__(self, memory: Memory | str | os.PathLike[str] | None = None, *, author: str | None = None) -> None:
        self.bridge = Bridge(memory, "claude_agent_sdk", author)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if entries:
            await aio.call(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await aio.call(lambda: Messages(self._session(key)).all() or None)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return await aio.call(self._list_sessions, project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        return await aio.call(self._list_summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        await aio.call(self._delete, key)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        return await aio.call(self._list_subkeys, key["project_key"], key["session_id"])

    async def close(self) -> None:
        """Close the store if this object opened it."""
        await aio.call(self.bridge.close)

    def _session(self, key: SessionKey) -> BridgeSession:
        subpath = key.get("subpath")
        return self.bridge.session(key["project_key"], key["session_id"], *([subpath] if subpath else []))

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        turns = [_turn(entry) for entry in entries]
        target = self._session(key)
        for tries_left in reversed(range(_TRIES)):
            try:
                return target.write(lambda session: _append(session, key, entries, turns))
            except (Conflict, DuplicateId):  # another process appended, too
                if not tries_left:
                    raise

    def _list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        found = ((names[1], self._modified(names)) for names in self._transcripts(project_key))
        return [{"session_id": name, "mtime": time} for name, time in found if time is not None]

    def _list_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        found: list[SessionSummaryEntry] = []
        for names in self._transcripts(project_key):
            time = self._modified(names)
            record = self.bridge.session(*names).read(lambda session: session.find(_SUMMARY), None)
            if time is not None and record is not None:
                found.append({"session_id": names[1], "mtime": time, "data": from_opaque(record.opaque)})
        return found

    def _transcripts(self, project_key: str) -> list[tuple[str, ...]]:
        return [names for names in self.bridge.namespaces((project_key,)) if len(names) == 2]

    def _modified(self, names: tuple[str, ...]) -> int | None:
        """When a session was last written to, in milliseconds; None if it was deleted meanwhile."""
        written = self.bridge.session(*names).read(lambda session: session.written, None)
        return None if written is None else int(written.timestamp() * 1000)

    def _list_subkeys(self, project_key: str, session_id: str) -> list[str]:
        return [names[2] for names in self.bridge.namespaces((project_key, session_id)) if len(names) == 3]

    def _delete(self, key: SessionKey) -> None:
        project, session = key["project_key"], key["session_id"]
        self._session(key).delete()
        if not key.get("subpath"):
            for subpath in self._list_subkeys(project, session):
                self.bridge.session(project, session, subpath).delete()


def _append(
    session: SessionMemory, key: SessionKey, entries: list[SessionStoreEntry], turns: list[MessageTurn]
) -> None:
    """Store entries and, of a main transcript, the summary that they give."""
    before = session.find(_SUMMARY) if not key.get("subpath") else None
    with session.transaction() as tx:
        for turn in turns:
            turn.add_to(tx, session)
        if key.get("subpath"):
            return
        known: Any = before and {"session_id": key["session_id"], "mtime": 0, "data": from_opaque(before.opaque)}
        data = fold_session_summary(known, key, entries)["data"]
        fields = {"summary": _title(data), "opaque": to_opaque(data)}
        if before is None:
            tx.add("summary", {"id": _SUMMARY, **fields})
        else:
            tx.update(_SUMMARY, before.revision, **fields)


def _title(data: dict[str, Any]) -> str:
    names = ("custom_title", "ai_title", "summary_hint", "first_prompt")
    return next((str(data[name]) for name in names if data.get(name)), "Transcript of the Claude Agent SDK")


def _turn(entry: SessionStoreEntry) -> MessageTurn:
    """The turn for a line of a transcript. What is no message, such as a title or a mode, is not shown to agents."""
    given: dict[str, Any] = dict(entry)
    said = given.get("message") if given.get("type") in _SPOKEN else None
    fields = _said(said) if isinstance(said, dict) else {}
    if not fields:
        fields = {"role": "system", "kind": "state", "visibility": "private", "content": f"[{given.get('type')}]"}
    if isinstance(given.get("uuid"), str):
        fields["idempotency_key"] = given["uuid"]
    created = _time(given.get("timestamp"))
    return turn_of(given, **fields, **({"created": created} if created else {}))
