"""Sessions of the Claude Agent SDK in a store: each transcript is a session, each of its lines a turn.

    ClaudeAgentOptions(session_store=SMPSessionStore("path/to/store"))

Guarantees: entries come back equal, in the order of writing, except for secrets, which are redacted. An entry whose `uuid` is known is not
added again. What the user and Claude said is the content of a turn, which queries find. Entries and the summary of a batch are
stored together, whoever else appends. A deleted session and those of its subagents go to the trash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, Messages, add_turns, to_opaque
from smp_memory.adapters.message_codec import turn_of, valid, without_blobs
from smp_memory.errors import Conflict, DuplicateId, InvalidRecord
from smp_memory.model.ids import sha256_hex
from smp_memory.model.times import parse
from smp_memory.privacy.fence import strip
from smp_memory.write import content_blocks

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

    from smp_memory.adapters.bridge import BridgeSession
    from smp_memory.adapters.message_codec import MessageTurn
    from smp_memory.memory import Memory
    from smp_memory.session import SessionMemory

_SUMMARY = "SUM-transcript"  # the id of the memory with the summary of a session
_TRIES = 20  # how often other processes may append between reading the summary and writing it
_SPOKEN = ("user", "assistant")  # types of entries
_TITLES = ("custom_title", "ai_title", "summary_hint", "first_prompt")
_KEY_CHARACTERS = 200  # of an idempotency key


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
        return [{"session_id": target.names[1], "mtime": time} for target, time in self._transcripts(project_key)]

    def _list_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        found: list[SessionSummaryEntry] = []
        for target, time in self._transcripts(project_key):
            record = target.read(lambda session: session.find(_SUMMARY), None)
            if record is not None:
                found.append({"session_id": target.names[1], "mtime": time, "data": record.exact})
        return found

    def _transcripts(self, project_key: str) -> list[tuple[BridgeSession, int]]:
        """The main transcripts of a project, and when each was last written to, in milliseconds."""
        written = {session.id: time for time, session in self.bridge.memory.sessions_by_time()}
        found = [self.bridge.session(*names) for names in self.bridge.namespaces((project_key,)) if len(names) == 2]
        return [(each, int(written[each.id].timestamp() * 1000)) for each in found if each.id in written]

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
    if key.get("subpath"):
        return add_turns(session, turns)
    before = session.find(_SUMMARY)
    known: Any = before and {"session_id": key["session_id"], "mtime": 0, "data": before.exact}
    data = without_blobs(fold_session_summary(known, key, entries)["data"])
    fields = {"summary": _title(data), "exact": data}
    with session.transaction() as tx:
        for turn in turns:
            turn.add_to(tx, session)
        if before is None:
            tx.add("summary", {"id": _SUMMARY, **fields})
        else:
            tx.update(_SUMMARY, before.revision, **fields)


def _title(data: dict[str, Any]) -> str:
    found = (str(data.get(name) or "") for name in _TITLES)
    return next((title for each in found if (title := strip(each).strip())), "Transcript of the Claude Agent SDK")


def _turn(entry: SessionStoreEntry) -> MessageTurn:
    """The turn for a line of a transcript. What is no message, such as a title or a mode, is not shown to agents."""
    given: dict[str, Any] = dict(entry)
    fields = _said(given)
    if not fields:
        about = valid(str(given.get("type")))
        fields = {"role": "system", "kind": "state", "visibility": "private", "content": f"[{about}]"}
    uuid = given.get("uuid")
    if isinstance(uuid, str):
        is_key = uuid.isascii() and 0 < len(uuid) <= _KEY_CHARACTERS
        fields["idempotency_key"] = uuid if is_key else sha256_hex(to_opaque(uuid).encode())
    created = _time(given.get("timestamp"))
    return turn_of(given, **fields, **({"created": created} if created else {}))


def _said(entry: dict[str, Any]) -> dict[str, Any]:
    """Role and text of a line with a message; empty for other lines."""
    message = entry.get("message")
    if entry.get("type") not in _SPOKEN or not isinstance(message, dict):
        return {}
    role, content = entry["type"], message.get("content")
    if isinstance(content, list) and content:
        if all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content):
            role = "tool"
        try:
            content = content_blocks.turn_fields({"role": role, "content": content})["content"]
        except InvalidRecord:
            return {}
    return {"role": role, "content": content} if isinstance(content, str) and content.strip() else {}


def _time(value: Any) -> str | None:
    try:
        return parse(value, "timestamp")
    except InvalidRecord:
        return None
