"""What all adapters share: the names of a framework as sessions, its items, messages and opaque states as memories.

Guarantees
    names      Any sequence of texts names one session, and different sequences name different sessions. A session is created by the
               first write, not by reading. Names, and keys of items, are identifiers: they come back as they were given.
    items      `Items` is a map from keys to JSON values. Of several puts of one key at once the last one wins; none fails or doubles.
    messages   `Messages` is a list of JSON messages in the order of writing; each comes back equal. A large message of which a part is
               missing comes back as its role and the beginning of its text. Processes may read, pop, clear and replace at once.
    states     `OpaqueLog` is a list of JSON values that people do not read. They are not redacted, searched or shown to agents.
    keeping    Sessions of adapters are not compacted, archived or expired by themselves, and may grow to 250 MiB.

Redaction applies to items and messages: a secret in them comes back as `[REDACTED:kind]`. It does not apply to names, keys and states.
Text that SMP itself recalled, in a fence, is not stored again: it is missing in what comes back, or a placeholder stands for it.

A value is stored once: its text in the field that people read and searches find, the rest in `exact`, with null where the text was.
Names and keys that are not ids themselves are in `opaque`.
"""

from __future__ import annotations

import base64
import json
import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import smp_memory
from smp_memory.adapters.message_codec import joined, slug_of, split, text_of_parts, turn_of
from smp_memory.errors import DuplicateId, MemoryNotFound, SessionArchived, SessionExists, SessionNotFound
from smp_memory.lifecycle.message_parts import parts_of
from smp_memory.model.ids import LIMIT, sha256_hex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any, TypeVar

    from smp_memory.adapters.message_codec import MessageTurn
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

    T = TypeVar("T")

SETTINGS = {
    "compaction.enabled": False,
    "lifecycle.auto_archive": False,
    "retention.enabled": False,
    "storage.max_session_size_mb": 250,
}
_OPEN_SESSIONS = 256  # kept open by one adapter
_KNOWN_IDS = 10_000  # whose names are remembered
_TRIES = 10  # how often other processes may delete a session or an item between two steps of a write
_DIGEST_LENGTH = 16  # letters of 5 bits
_BASE32 = frozenset("abcdefghijklmnopqrstuvwxyz234567")
_STATE = "state"  # the kind of turns that are states
_ITEM = "item"  # begins the ids of items


# -- names


@lru_cache(_KNOWN_IDS)
def id_for(prefix: str, *names: str) -> tuple[str, dict[str, Any]]:
    """A valid id for names of any length and characters, different for different names; and the fields from which `names_in` knows them.

    A single name of small letters and digits with - between stays as it is behind the prefix. Others get a digest, and no word of a name
    with an @ is shown: ids are seen by everybody.
    """
    slug = slug_of("-".join(name for name in names if "@" not in name))
    tail = slug[-_DIGEST_LENGTH:]
    looks_like_digest = len(tail) == _DIGEST_LENGTH and _BASE32.issuperset(tail)
    if names == (slug,) and slug and not looks_like_digest and len(prefix) + len(slug) < LIMIT:
        return f"{prefix}-{slug}", {}
    digest = base64.b32encode(bytes.fromhex(sha256_hex(json.dumps(names).encode())[:20])).decode().lower()
    short = slug[: LIMIT - len(prefix) - _DIGEST_LENGTH - 2].strip("-")
    return "-".join(filter(None, (prefix, short, digest))), {"opaque": to_opaque(names)}


def names_in(prefix: str, id: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that `id_for` made an id of."""
    return tuple(from_opaque(fields["opaque"])) if "opaque" in fields else (id[len(prefix) + 1 :],)


class Bridge:
    """A store as the memory of one framework. `framework` is a word of small letters, digits and `_`; it begins the ids of sessions."""

    def __init__(
        self, memory: Memory | str | os.PathLike[str] | None, framework: str, author: str | None = None
    ) -> None:
        self._is_own = memory is None or isinstance(memory, str) or hasattr(memory, "__fspath__")
        self.memory: Memory = smp_memory.open(memory) if self._is_own else memory  # type: ignore[arg-type,assignment]
        self.framework = framework
        self.author = author or framework
        self._known = lru_cache(_OPEN_SESSIONS)(lambda *names: BridgeSession(self, names))
        self._names: dict[str, tuple[str, ...]] = {}  # by session; a session keeps its names

    def session(self, *names: str) -> BridgeSession:
        """The session with these names, whether it exists or not."""
        return self._known(*names)

    def namespaces(self, prefix: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """The names of all sessions of the framework that begin with these, sorted."""
        wanted, start = tuple(prefix), f"{self.framework}-"
        heads = (head.session for head in self.memory.store.sessions())
        found = (self._names.get(id) or self._read_names(id) for id in heads if id.startswith(start))
        return sorted(names for names in found if names is not None and names[: len(wanted)] == wanted)

    def _read_names(self, id: str) -> tuple[str, ...] | None:
        try:
            context = self.memory.store.session(id).info().context
        except (SessionNotFound, SessionArchived):
            return None
        if context.get("framework") != self.framework:
            return None  # somebody's own session, which happens to have such an id
        self._names[id] = found = names_in(self.framework, id, context)
        return found

    def close(self) -> None:
        """Close the store if the bridge opened it."""
        if self._is_own:
            self.memory.close()


class BridgeOwner:
    """An object of a framework that may have opened its store."""

    __slots__ = ()
    bridge: Bridge

    def close(self) -> None:
        """Close the store if it was opened here."""
        self.bridge.close()


class BridgeSession:
    """A session by the names of a framework. Threads may share it."""

    def __init__(self, bridge: Bridge, names: tuple[str, ...]) -> None:
        self.bridge = bridge
        self.names = names
        self.id, self._exact = id_for(bridge.framework, *names)
        self._session: SessionMemory | None = None

    def opened(self) -> SessionMemory | None:
        """The session; None if it does not exist."""
        if self._session is None:
            try:
                self._session = self.bridge.memory.session(self.id, author=self.bridge.author)
            except SessionNotFound:
                return None
        return self._session

    def read(self, function: Callable[[SessionMemory], T], default: T) -> T:
        """The result of a function of the session; the default if it does not exist."""
        for _ in range(_TRIES):
            session = self.opened()
            if session is None:
                break
            try:
                return function(session)
            except (SessionNotFound, SessionArchived):
                self._session = None  # another process deleted or archived it
        return default

    def write(self, function: Callable[[SessionMemory], T]) -> T:
        """The result of a function that writes to the session, which is created if it does not exist."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return function(self.opened() or self._create())
            except (SessionNotFound, SessionExists):  # another process deleted or created it
                self._session = None
                if not tries_left:
                    raise
        raise AssertionError("unreachable")

    def delete(self, reason: str | None = None) -> None:
        """Move the session to the trash. Nothing happens if it does not exist."""
        try:
            self.bridge.memory.delete_session(self.id, reason, by=self.bridge.author)
        except SessionNotFound:
            pass
        self._session = None

    def _create(self) -> SessionMemory:
        self._session = self.bridge.memory.create_session(
            self.id,
            author=self.bridge.author,
            config=SETTINGS,
            framework=self.bridge.framework,
            namespace=list(self.names),
            **self._exact,
        )
        return self._session


# -- values


def to_opaque(value: Any) -> str:
    """A JSON value as text for the field `opaque`."""
    return base64.b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()


def from_opaque(text: str) -> Any:
    return json.loads(base64.b64decode(text))


# -- items


class Item(NamedTuple):
    key: str
    value: Any
    created: datetime
    updated: datetime
    score: float | None
    record: Record


class Items:
    """A map from keys to JSON values in one session. Each item is a learning with an id made of its key."""

    def __init__(self, session: BridgeSession) -> None:
        self.session = session

    def put(self, key: str, value: Any, **fields: Any) -> None:
        """Set the value of a key. An earlier value stays in the history of the memory. Other fields are those of a learning."""
        id, exact = id_for(_ITEM, key)
        text, rest = split(value)
        data = {"learning": text, **rest, **fields}
        named = {"item_key": key, **exact} if key.strip() else exact

        def set_value(session: SessionMemory) -> None:
            for tries_left in reversed(range(_TRIES)):
                try:
                    return _set_once(session, id, data, named)
                except (DuplicateId, MemoryNotFound):  # another process added, deleted or restored it between two steps
                    if not tries_left:
                        raise

        self.session.write(set_value)

    def get(self, key: str) -> Item | None:
        id, _ = id_for(_ITEM, key)
        record = self.session.read(lambda session: session.find(id), None)
        return None if record is None or record.deleted else item_of(record)

    def delete(self, key: str) -> bool:
        """Move an item to the trash; whether there was one."""
        id, _ = id_for(_ITEM, key)
        if self.get(key) is None:
            return False
        try:
            return bool(self.session.read(lambda session: session.delete(id), None))
        except MemoryNotFound:
            return False

    def all(self) -> list[Item]:
        """All items, the oldest first."""
        found: list[Record] = self.session.read(lambda session: list(session.records("learning")), [])
        return [item for record in found if (item := item_of(record)) is not None]

    def keys(self) -> list[str]:
        return [item.key for item in self.all()]

    def search(self, query: str, limit: int = 10, **options: Any) -> list[Item]:
        """The items that answer a query, best first; `score` is a relevance from 0 to 1."""
        session = self.session.opened()
        hits = session.query(query, types="learning", limit=limit, **options) if session is not None else []
        return [item for hit in hits if (item := item_of(hit.record, hit.relevance)) is not None]


def _set_once(session: SessionMemory, id: str, data: dict[str, Any], named: dict[str, Any]) -> None:
    before = session.find(id)
    if before is None:
        given = {name: value for name, value in data.items() if value is not None}
        session.add("learning", {"id": id, **given, **named})
    elif before.deleted:
        with session.transaction() as tx:
            tx.restore(id)
            tx.update(id, **data)
    else:
        session.update(id, **data)


def item_of(record: Record, score: float | None = None) -> Item | None:
    """The item that a memory holds; None if it is another memory, which somebody wrote into the session."""
    if not record.id.startswith(f"{_ITEM}-"):
        return None
    [key] = names_in(_ITEM, record.id, record.given)
    value = joined(str(record.get("learning")), record)
    return Item(key, value, record.created, record.updated, score, record)


# -- messages


class Messages:
    """A list of JSON messages in one session. Each is a turn; a large one has parts, which are artifacts."""

    def __init__(self, session: BridgeSession) -> None:
        self.session = session

    def add_many(self, messages: Iterable[Any], keys: Iterable[str] | None = None) -> None:
        """Append messages with one sync. With a key for each, a message whose key is known is not added again."""
        turns = [turn_of(message) for message in messages]
        for turn, key in zip(turns, keys or (), strict=keys is not None):
            turn.fields["idempotency_key"] = key
        if turns:
            self.session.write(lambda session: add_turns(session, turns))

    def replace(self, messages: Iterable[Any]) -> None:
        """Make these the messages, at once; the old ones go to the trash."""
        turns = [turn_of(message) for message in messages]
        self.session.write(lambda session: _replace(session, turns))

    def records(self, last: int | None = None) -> list[Record]:
        """The turns, or the last ones, the oldest first."""
        return self.session.read(lambda session: list(session.records("turn", last=last)), [])

    def all(self) -> list[Any]:
        return [self.message(record) for record in self.records()]

    def last(self, count: int) -> list[Any]:
        return [self.message(record) for record in self.records(count)] if count > 0 else []

    def message(self, record: Record) -> Any:
        """The message that a turn holds. A turn that somebody else wrote into the session has a role and a content."""
        state = record.get("opaque")
        if isinstance(state, str):
            return json.loads(state)
        if isinstance(state, dict):
            text = self.session.read(lambda session: text_of_parts(session, record), None)
            try:
                return json.loads(text or "")
            except ValueError:  # a part is missing or was changed by hand
                pass
        return message_of(record)

    def pop(self) -> Any:
        """Remove the last message and return it; None if there is none."""
        while found := self.records(1):
            message = self.message(found[0])
            if self.remove(found[0].id):  # else another process removed it
                return message
        return None

    def remove(self, id: str) -> bool:
        """Move a message, by the id of its turn, to the trash; whether it was there."""
        try:
            return bool(self.session.read(lambda session: session.delete(id), None))
        except MemoryNotFound:
            return False

    def clear(self) -> None:
        """Move all messages to the trash."""
        self.session.read(lambda session: _replace(session, []), None)


def _replace(session: SessionMemory, turns: list[MessageTurn]) -> None:
    """Delete all messages and append others, at once. If another process removes a message meanwhile, the rest is deleted."""
    before: list[str] | None = None
    while True:
        records = session.records("turn")
        parts = [part.id for turn in records for part in parts_of(session.opened.storage, turn) if not part.deleted]
        old = [*(turn.id for turn in records), *parts]
        try:
            with session.transaction() as tx:
                for id in old:
                    tx.delete(id)
                for turn in turns:
                    turn.add_to(tx, session)
            return
        except MemoryNotFound:
            if old == before:  # nobody removed anything: trying again would not help
                raise
            before = old


def message_of(record: Record) -> Any:
    """The message that the fields of a turn hold."""
    if "exact" not in record.given and "text_field" not in record.given:
        return {"role": record.get("role"), "content": record.get("content")}
    return joined(str(record.get("content")), record)


def add_turns(session: SessionMemory, turns: Iterable[MessageTurn]) -> None:
    """Append messages with one sync; if one has parts, all of them as a whole."""
    memories = [memory for turn in turns for memory in turn.memories(session)]
    if all(kind == "turn" for kind, _ in memories):
        session.add_many(memories)
        return
    with session.transaction() as tx:
        for kind, fields in memories:
            tx.add(kind, fields)


# -- opaque states


class OpaqueState(NamedTuple):
    value: Any
    record: Record


class OpaqueLog:
    """A list of JSON values in one session that only a framework understands, such as checkpoints.

    Each is a turn that says in `content` what it is; the value is in `opaque`, which is neither redacted nor searched. Its visibility is
    `private`, so no agent is shown it.
    """

    def __init__(self, session: BridgeSession) -> None:
        self.session = session

    def add_many(self, states: Iterable[tuple[str, Any]]) -> list[Record]:
        """Append values, each with a sentence about it: all of them or none."""
        turns = [self.fields(text, value) for text, value in states]

        def add(session: SessionMemory) -> list[Record]:
            if len(turns) == 1:
                return [session.add("turn", turns[0])]
            with session.transaction() as tx:
                added = [tx.add("turn", turn) for turn in turns]
            return [operation.record for operation in added]

        return self.session.write(add) if turns else []

    @staticmethod
    def fields(text: str, value: Any) -> dict[str, Any]:
        """The fields of the turn for a value; for a transaction."""
        return {"role": "system", "kind": _STATE, "content": text, "visibility": "private", "opaque": value}

    def records(self, last: int | None = None) -> list[OpaqueState]:
        """The values, or the last ones, the oldest first; the last ones without reading a large session."""
        found = Messages(self.session).records(last)
        return [OpaqueState(record.given["opaque"], record) for record in found if is_state(record)]


def is_state(record: Record) -> bool:
    """Whether a turn is a state of an `OpaqueLog`, not a message."""
    given = record.given
    return given.get("kind") == _STATE and "opaque" in given
