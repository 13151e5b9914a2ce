"""What hooks know about each session of a host, and the log of their failures, in the user's state of a store.

Each session of a host has one small JSON file; one lock is for all. A file says which SMP session it belongs to, which memories
were injected, which files the agent used last, up to which offset the transcript was read, which turns propose a memory, and whether
recording was off. It holds ids, offsets, digests and names of files, no text of the conversation.

Guarantees: a file that is missing, damaged or written by a newer version counts as empty: memories are injected once more,
and idempotency keys prevent that a turn is stored twice. Files of sessions that were not continued for 60 days are removed.

The SMP session of a host's session is named by host, day and a digest of the host's id:

    claude-code-2026-01-31-5f0c1a7e

A session that is continued days later keeps its name, because its file has it, or, if the file is lost, because a session with the
same digest exists. Two sessions of a host on one day have different names.

The log, `hooks.log`, has one line of JSON for each failure; `smp doctor` shows it:

    {"at": "2026-01-31T14:00:00Z", "client": "claude-code", "event": "Stop", "error": "LockTimeout E_LOCK_TIMEOUT"}

Guarantees: logging never raises, the log never grows beyond `LOG_BYTES`, and it holds no memory and no prompt: only the class of
an error, its code, the environment variable that has a bad value and the source line, not its message. Non-guarantee: on a disk
that is full or read-only nothing is logged.
"""

from __future__ import annotations

import os
import time

from smp_memory.errors import SMPError
from smp_memory.model.ids import is_valid, sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Any

    from smp_memory.files.user_state import UserState
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.model.record import Record

FOLDER = "hooks"
WITHOUT_MEMORIES = "left-nothing"  # the file that names the last session that ended without a memory
_KEPT_SECONDS = 60 * 86_400
_MOST_INJECTED = 400
_MOST_PENDING = 50
_PROMPT_CHARACTERS = 40
_MOST_NOTICES = 50
MOST_FILES = 3
_LONGEST_KEY = 200
_MOST_RECORDED = 400
_POINTED_AT = "?"  # at the end of a mark
_MOST_PROPOSING = 20
_DUPLICATE_SECONDS = 2  # two prompts of the same words within this time are one, unless the host gives them ids
MIN_TURNS = 4  # a shorter conversation is not expected to leave memories


class HookSession:
    """What is known about one session of a host."""

    def __init__(self, fields: dict[str, Any] | None = None) -> None:
        known = fields or {}

        def text(name: str) -> str:
            value = known.get(name)
            return value if isinstance(value, str) else ""

        self.is_new = not known
        self.client = text("client")
        self.host_session = text("host_session")
        self.session = _valid_id(known.get("session"))  # the SMP session
        self.since = text("since")
        self.transcript = text("transcript")
        self.offset = _int(known.get("offset"))  # of the transcript, up to which it was read; -1: never
        self.injected = [mark for mark in _list(known.get("given")) if isinstance(mark, str)]  # see `injection_mark`
        self.files = [
            path for path in _list(known.get("files")) if isinstance(path, str)
        ]  # used by the last tool calls
        self._pending: list[list[str]] = [pair for pair in _list(known.get("ahead")) if _is_pair(pair)]
        self.recorded = [each for each in _list(known.get("recorded")) if isinstance(each, str)]  # digests of keys
        self.last_reply_digest = text("last")  # empty if a prompt came after it
        self.last_reply_key = text("replied")  # of its event
        self.last_prompt_key = text("prompted")  # of its event
        self.turns = max(_int(known.get("turns")), 0)
        self.summaries = max(
            _int(known.get("summaries")), 0
        )  # recorded from events before the transcript contains them
        # A stretch of the conversation begins when something was written down, or the host compacts or clears it.
        self.proposing = [
            each for each in _list(known.get("proposing")) if isinstance(each, str)
        ]  # turns since a write
        self.was_asked = bool(known.get("asked"))  # whether the agent was asked in this stretch to write something down
        self.written_until = text("written")  # up to when it is known whether something was written down
        self.ended = bool(known.get("ended"))
        self.is_off = bool(known.get("is_off"))  # recording was off at the newest event, or no prompt came since
        self.was_off = bool(known.get("was_off"))  # recording was off at some event
        self.notices = [
            text for text in _list(known.get("notices")) if isinstance(text, str)
        ]  # to be delivered, once each
        self.delivered = [text for text in _list(known.get("told")) if isinstance(text, str)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "client": self.client,
            "host_session": self.host_session,
            "session": self.session,
            "since": self.since,
            "transcript": self.transcript,
            "offset": self.offset,
            "turns": self.turns,
            "last": self.last_reply_digest,
            "replied": self.last_reply_key,
            "prompted": self.last_prompt_key,
            "summaries": self.summaries,
            "proposing": self.proposing[-_MOST_PROPOSING:],
            "asked": self.was_asked,
            "written": self.written_until,
            "ended": self.ended,
            "is_off": self.is_off,
            "was_off": self.was_off,
            "notices": self.notices[-_MOST_NOTICES:],
            "told": self.delivered[-_MOST_NOTICES:],
            "ahead": self._pending[-_MOST_PENDING:],
            "given": self.injected[-_MOST_INJECTED:],
            "files": self.files[:MOST_FILES],
            "recorded": self.recorded[-_MOST_RECORDED:],
        }

    def told_refs(self) -> set[str]:
        """The refs of the memories that were told in this conversation."""
        return {mark.rpartition("@")[0] for mark in self.injected if not mark.endswith(_POINTED_AT)}

    def skip_to(self, end: int) -> None:
        """Switch recording off until the next prompt, and never record the transcript before offset `end`."""
        self.is_off = self.was_off = True
        self.offset = max(end, 0)
        self.summaries = 0
        self.last_reply_digest = ""
        self._pending = []

    # -- notices to the conversation about what was recorded

    def add_notice(self, text: str) -> None:
        """Deliver a notice at the next event that takes text, unless this conversation had it already."""
        if text not in self.notices and text not in self.delivered:
            self.notices.append(text)

    def mark_delivered(self, texts: list[str]) -> None:
        self.notices = [text for text in self.notices if text not in texts]
        self.delivered += texts

    # -- turns that were recorded from an event before the transcript contained them

    def was_recorded(self, key: str) -> bool:
        """Whether a turn was recorded under this key. Then it is not recorded again, also if it was deleted or erased since."""
        return digest(key)[:16] in self.recorded

    def note_recorded(self, keys: Iterable[str]) -> None:
        self.recorded += [digest(key)[:16] for key in keys if key]

    def add_pending(self, role: str, text: str, key: str) -> None:
        """Note that a turn was recorded from an event under this key; the transcript will contain it, too."""
        self._pending.append([turn_digest(role, text), key])

    def add_pending_of(self, other: HookSession) -> None:
        """Add the pending turns of another state of the same session."""
        self._pending = other._pending + [pair for pair in self._pending if pair not in other._pending]

    def take_pending(self, role: str, text: str) -> str:
        """Remove a pending turn and return the key it was recorded under; empty if it was not recorded from an event."""
        wanted = turn_digest(role, text)
        for position, (known, key) in enumerate(self._pending):
            if known == wanted:
                del self._pending[position]
                return key
        return ""


def injection_mark(record: Record, *, is_told: bool = True) -> str:
    """What is noted about a memory that was told or pointed at: its ref and revision, because it is told again when it was changed."""
    return f"{record.ref}@{record.revision}" if is_told else f"{record.ref}@{record.revision}{_POINTED_AT}"


def file_name(host_session: str) -> str:
    """The name of a session's file: safe, whatever ids the host uses."""
    return f"{digest(host_session)[:16]}.json"


def digest(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "surrogatepass"))[:32]


def read_state(state: UserState, host_session: str) -> HookSession:
    """The state of a host's session as it is stored now, without a lock."""
    return HookSession(_load(state, file_name(host_session)))


def find_state(state: UserState, session: str) -> HookSession | None:
    """The state of the conversation that is recorded in an SMP session, without a lock; None if hooks know none."""
    for name in state.names(FOLDER):
        known = HookSession(_load(state, name)) if name.endswith(".json") else None
        if known is not None and known.session == session:
            return known
    return None


def _load(state: UserState, name: str) -> dict[str, Any] | None:
    """The fields of a file in the hooks' folder; None if it is missing or damaged."""
    import json

    try:
        fields = json.loads(state.read(_path(name)))
    except (OSError, SMPError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _save(state: UserState, name: str, fields: dict[str, Any]) -> None:
    import json

    state.write(_path(name), (json.dumps(fields) + "\n").encode())


def _path(name: str) -> str:
    return f"{FOLDER}/{name}"


def session_without_memories(state: UserState) -> dict[str, Any] | None:
    """The last session that ended without a decision, finding or learning, unless that was reported already."""
    known = _load(state, WITHOUT_MEMORIES)
    if known is None or not isinstance(known.get("turns"), int):
        return None
    return known if _valid_id(known.get("session")) else None


class SessionStates:
    """The states of all host sessions of a store, under their lock: a context manager."""

    def __init__(self, state: UserState, timeout_seconds: float) -> None:
        self._state = state
        self._lock = state.lock(FOLDER, "the session states of the hooks", timeout_seconds)

    def __enter__(self) -> SessionStates:
        self._lock.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, trace)

    def load(self, host_session: str) -> HookSession:
        session = read_state(self._state, host_session)
        session.host_session = host_session
        return session

    def save(self, session: HookSession) -> None:
        _save(self._state, file_name(session.host_session), session.to_dict())

    def load_others(self, session: HookSession) -> Iterator[HookSession]:
        """States of the other sessions, the newest first; files that are too old are removed."""
        excluded, files = file_name(session.host_session), []
        for name in self._state.names(FOLDER):
            written = self._state.modified_at(_path(name)) if name.endswith(".json") else None
            if written is None or name == excluded:
                continue
            if time.time() - written > _KEPT_SECONDS:
                self._state.remove(_path(name))
            else:
                files.append((written, name))
        for _, name in sorted(files, reverse=True):
            other = HookSession(_load(self._state, name))
            if other.client and other.host_session:
                yield other

    def note_session_without_memories(self, session: HookSession, at: str) -> None:
        """Note it with the number of its turns that propose a memory."""
        fields = {"session": session.session, "turns": session.turns, "proposing": len(session.proposing), "at": at}
        _save(self._state, WITHOUT_MEMORIES, fields)

    def clear_session_without_memories(self) -> None:
        """Remove the note after it was reported, so that it is reported once."""
        self._state.remove(_path(WITHOUT_MEMORIES))


def turn_digest(role: str, text: str) -> str:
    """A digest to recognise a turn. Of a prompt only its beginning: hosts append text before they write it to the transcript."""
    words = " ".join(text.split())
    return f"{role}:{digest(words[:_PROMPT_CHARACTERS] if role == 'user' else words)[:16]}"


def _valid_id(value: Any) -> str:
    """A valid session id, else empty: it is printed outside of the fence, so it must not be free text."""
    if not isinstance(value, str) or not value:
        return ""
    return value if is_valid(value) else ""


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def session_name(state: UserState, event: HookEvent) -> str:
    """The SMP session of the event's host session as stored, else the name that it would get today."""
    return read_state(state, event.session).session or new_session_name(event)


def new_session_name(event: HookEvent) -> str:
    return name_of_conversation(event.client, event.session, time.strftime("%Y-%m-%d", time.gmtime()))


def name_of_conversation(client: str, host_session: str, day: str) -> str:
    """The name of the SMP session for a host's session that began on this day."""
    return f"{client}-{day}-{session_digest(host_session)}"


def find_session_name(client: str, host_session: str, names: Iterable[str]) -> str:
    """The existing SMP session of a host's session, recognised by its name; empty if there is none."""
    prefix, suffix = client + "-", "-" + session_digest(host_session)
    return max((name for name in names if name.startswith(prefix) and name.endswith(suffix)), default="")


def session_digest(host_session: str) -> str:
    return digest(host_session)[:8]


def turn_key(client: str, host_session: str, key: str) -> str:
    """The idempotency key of a turn of a host's session, made of the host's id for the turn."""
    full = f"{client}:{digest(host_session)[:16]}:{key}"
    return full if len(full) <= _LONGEST_KEY else f"{full[:80]}:{digest(full)}"


def is_same_prompt(before: str, now: str) -> bool:
    """Whether two prompts without an id are the same one, for which two hooks were called."""
    parts, others = before.split(":"), now.split(":")
    return (
        len(parts) == len(others) == 3
        and parts[2] == others[2]
        and parts[1].isdigit()
        and int(others[1]) - int(parts[1]) <= _DUPLICATE_SECONDS
    )


# -- the log of failures

LOG = "hooks.log"
LOG_BYTES = 128 << 10


def log_failure(root: str, client: str, event: str, error: BaseException) -> None:
    try:
        _append_failure(root, client, event, error)
    except Exception:  # noqa: S110 - a failure of the log cannot be reported anywhere
        pass


def _append_failure(root: str, client: str, event: str, error: BaseException) -> None:
    import json

    from smp_memory.store.opening import user_state

    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"at": at, "client": client, "event": event, "error": _describe(error)}).encode() + b"\n"
    state = user_state(root)
    log = state.read(LOG) if state.has(LOG) else b""
    if len(log) + len(line) > LOG_BYTES:
        state.write(LOG, log[-LOG_BYTES // 2 :].partition(b"\n")[2] + line)
    else:
        state.append(LOG, line)


def _describe(error: BaseException) -> str:
    """An error without its message, which may quote the conversation."""
    kind = type(error).__name__
    code = getattr(error, "code", None)
    if isinstance(code, str):
        source = str(getattr(error, "details", {}).get("source", ""))
        variable = source.removeprefix("environment ") if source.startswith("environment SMP_") else ""
        return f"{kind} {code} {variable}".rstrip()
    if isinstance(error, OSError) and error.strerror:
        return f"{kind}: {error.strerror}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return kind
    return f"{kind} in {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
