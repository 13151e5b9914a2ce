"""The log of what hooks told agents: which memories at which event, in the user's state of a store.

    hooks/told.jsonl     {"v": 1, "at": "2026-01-31T14:00:00Z", "client": "claude-code", "event": "prompt", "session": "claude-code-2026-01-31-5f0c1a7e",
                          "turn": "TURN-0007", "told": [["review/DEC-0001", 2, 0.91]], "pointed": [], "tokens": 41}

A line is written at each prompt, start of a session and start of an agent for which hooks recall, also if nothing was told. A memory is its ref, its
revision and, at a prompt, its relevance. `turn` is the turn of `session` that recorded the prompt; null: it was not recorded.

Guarantees: the log holds ids and numbers, no text of a prompt or a memory. It never grows beyond `LOG_BYTES`: if it is full, the older half is
dropped. Lines that are torn, damaged or of a newer version are skipped. Refs of erased memories are removed from it, as from the access
log (`forget`); the events stay.
Non-guarantees: lines that were written just before a power loss may be lost. Names of sessions that are gone stay, as in the audit log.
"""

from __future__ import annotations

import json

from smp_memory.errors import SMPError
from smp_memory.model.ids import is_valid
from smp_memory.model.times import to_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import Any, Protocol

    class State(Protocol):
        def read(self, name: str) -> bytes: ...
        def write(self, name: str, data: bytes, *, durable: bool = False) -> None: ...
        def append(self, name: str, data: bytes, *, durable: bool = False) -> None: ...
        def lock(self, folder: str, about: str, timeout_seconds: float) -> AbstractContextManager[None]: ...


FOLDER = "hooks"
LOG = f"{FOLDER}/told.jsonl"
LOG_BYTES = 1 << 20
_VERSION = 1
_LOCK_SECONDS = 5.0
_LONGEST_WORD = 40


class ToldMemory:
    """A memory that was told or pointed at."""

    __slots__ = ("ref", "relevance", "revision")

    def __init__(self, ref: str, revision: int, relevance: float | None = None) -> None:
        self.ref = ref  # empty: it was erased since
        self.revision = revision
        self.relevance = relevance  # None: not at a prompt

    def to_list(self) -> list[Any]:
        return [self.ref, self.revision, None if self.relevance is None else round(self.relevance, 4)]


class ToldEvent:
    """One event at which hooks could tell something."""

    __slots__ = ("at", "client", "event", "pointed", "session", "tokens", "told", "turn")

    def __init__(
        self,
        at: str,
        client: str,
        event: str,
        session: str,
        turn: str | None,
        told: list[ToldMemory],
        pointed: list[ToldMemory],
        tokens: int,
    ) -> None:
        self.at = at
        self.client = client  # the host
        self.event = event  # prompt, start or agent-start
        self.session = session  # of the conversation
        self.turn = turn  # the id of the turn with the prompt
        self.told = told
        self.pointed = pointed
        self.tokens = tokens

    @property
    def when(self) -> datetime:
        return to_moment(self.at)

    @property
    def turn_ref(self) -> str | None:
        return f"{self.session}/{self.turn}" if self.turn else None

    def names(self, ref: str) -> bool:
        """Whether this memory was told or pointed at."""
        return any(each.ref == ref for each in (*self.told, *self.pointed))

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "client": self.client,
            "event": self.event,
            "session": self.session,
            "turn": self.turn,
            "told": [each.to_list() for each in self.told],
            "pointed": [each.to_list() for each in self.pointed],
            "tokens": self.tokens,
        }


def note_told(state: State, event: ToldEvent) -> None:
    """Append an event. The caller holds the lock of the folder."""
    line = json.dumps({"v": _VERSION, **event.to_dict()}, separators=(",", ":")).encode() + b"\n"
    log = _read(state)
    if len(log) + len(line) > LOG_BYTES:
        state.write(LOG, log[-LOG_BYTES // 2 :].partition(b"\n")[2] + line)
    else:
        state.append(LOG, line if not log or log.endswith(b"\n") else b"\n" + line)  # after a torn line


def told_events(
    state: State, *, limit: int | None = None, ref: str | None = None, session: str | None = None
) -> list[ToldEvent]:
    """The newest events first: all, those that told or pointed at a memory (`session/ID`), or those of a conversation."""
    found: list[ToldEvent] = []
    needle = json.dumps(ref or session).encode()  # parsing every line takes ten times as long
    for line in reversed(_read(state).split(b"\n")):
        if limit is not None and len(found) >= limit:
            break
        event = _parse(line) if line and (needle == b"null" or needle in line) else None
        if event is not None and (not ref or event.names(ref)) and (not session or event.session == session):
            found.append(event)
    return found


def forget(state: State, erased: Mapping[str, Collection[str]]) -> None:
    """Remove the refs of erased memories, given by session. Raises SMPError or OSError."""
    log = _read(state)
    if not any(session.encode() in log for session in erased):
        return
    with state.lock(FOLDER, "the log of what hooks told", _LOCK_SECONDS):
        events = [event for event in map(_parse, _read(state).split(b"\n")) if event is not None]
        lines = [
            json.dumps({"v": _VERSION, **_without(event, erased).to_dict()}, separators=(",", ":")) for event in events
        ]
        state.write(LOG, "".join(f"{line}\n" for line in lines).encode())


def _without(event: ToldEvent, erased: Mapping[str, Collection[str]]) -> ToldEvent:
    for each in (*event.told, *event.pointed):
        session, _, id = each.ref.rpartition("/")
        if id in erased.get(session, ()):
            each.ref = ""
    if event.turn in erased.get(event.session, ()):
        event.turn = None
    return event


def _read(state: State) -> bytes:
    try:
        return state.read(LOG)
    except (OSError, SMPError):
        return b""


def _parse(line: bytes) -> ToldEvent | None:
    """The event of a line; None if it is torn, damaged or of another version."""
    try:
        fields = json.loads(line)
        if fields.pop("v") != _VERSION:
            return None
        event = ToldEvent(
            **{**fields, "told": list(_memories(fields["told"])), "pointed": list(_memories(fields["pointed"]))}
        )
        return event if _is_sound(event) else None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _memories(values: Iterable[Any]) -> Iterator[ToldMemory]:
    for ref, revision, relevance in values:
        session, slash, id = ref.partition("/")
        if ref and not (slash and is_valid(session) and is_valid(id)):
            raise ValueError(ref)
        yield ToldMemory(ref, int(revision), None if relevance is None else float(relevance))


def _is_sound(event: ToldEvent) -> bool:
    """Whether all parts are what they must be: they are printed, so they must not be free text."""
    words = (event.client, event.event)
    return (
        all(len(word) <= _LONGEST_WORD and is_valid(word) for word in words)
        and is_valid(event.session)
        and (event.turn is None or is_valid(event.turn))
        and type(event.tokens) is int
        and bool(event.when)
    )
