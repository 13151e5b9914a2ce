"""What do hooks know of a host's session? A small note for each in the user's state, and one lock for all of them.

A note says which SMP session it belongs to, which memories were injected, how far its transcript was read, and whether recording
was off. It holds ids, places and digests, nothing that anybody said.

Guarantees: a note that is missing, damaged or written by a newer version counts as empty: memories are recalled once more,
and idempotency keys see to it that no turn is stored twice. Notes of sessions that nobody continued for 60 days go.

What is a host's session called here? A name that says which host, which day, and which one.

    claude-code-2026-01-31-5f0c1a7e

Guarantees: a session that is continued days later keeps its name, because its note knows it, or, if the note is lost, because
a session that ends in the same letters is there. Two sessions of a host on one day have different names.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.user_state import UserState
    from smp_memory.integrations.hooks.events import HookEvent


FOLDER = "hooks"
LEFT_NOTHING = "left-nothing"  # the file that says which session ended without a memory
_KEPT_SECONDS = 60 * 86_400
_MOST_GIVEN = 400
_MOST_AHEAD = 50
_HEAD_CHARACTERS = 40
_MOST_NOTICES = 50


class HookSession:
    """What is known of one session of a host."""

    def __init__(self, fields: dict[str, Any] | None = None) -> None:
        known = fields if isinstance(fields, dict) else {}

        def text(name: str) -> str:
            value = known.get(name)
            return value if isinstance(value, str) else ""

        self.is_new = not known
        self.client = text("client")
        self.host_session = text("host_session")
        self.session = _id(known.get("session"))  # of SMP
        self.since = text("since")
        self.transcript = text("transcript")
        self.offset = _whole(known.get("offset"))  # up to here it was read; -1: never
        self.given = [ref for ref in _list(known.get("given")) if isinstance(ref, str)]
        self._ahead: list[list[str]] = [pair for pair in _list(known.get("ahead")) if _is_pair(pair)]
        self.last = text("last")  # digest of the newest reply, if nobody said anything since
        self.replied = text("replied")  # the event of the newest reply
        self.prompted = text("prompted")  # the event of the newest prompt
        self.turns = max(_whole(known.get("turns")), 0)
        self.summaries = max(_whole(known.get("summaries")), 0)  # told by the host before the transcript has them
        self.ended = bool(known.get("ended"))
        self.is_off = bool(known.get("is_off"))  # recording was off at the newest event, or no prompt came since
        self.was_off = bool(known.get("was_off"))  # recording was off at some event
        self.notices = [text for text in _list(known.get("notices")) if isinstance(text, str)]  # to be told, once each
        self.told = [text for text in _list(known.get("told")) if isinstance(text, str)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "client": self.client,
            "host_session": self.host_session,
            "session": self.session,
            "since": self.since,
            "transcript": self.transcript,
            "offset": self.offset,
            "turns": self.turns,
            "last": self.last,
            "replied": self.replied,
            "prompted": self.prompted,
            "summaries": self.summaries,
            "ended": self.ended,
            "is_off": self.is_off,
            "was_off": self.was_off,
            "notices": self.notices[-_MOST_NOTICES:],
            "told": self.told[-_MOST_NOTICES:],
            "ahead": self._ahead[-_MOST_AHEAD:],
            "given": self.given[-_MOST_GIVEN:],
        }

    def skip_to(self, end: int) -> None:
        """Recording is off: nothing of the transcript before `end` will be recorded, nor anything until the next prompt."""
        self.is_off = self.was_off = True
        self.offset = max(end, 0)
        self.summaries = 0
        self.last = ""
        self._ahead = []

    # -- what the conversation should know of what was recorded

    def add_notice(self, text: str) -> None:
        """Tell this at the next event that takes a text, unless it was told in this conversation already."""
        if text not in self.notices and text not in self.told:
            self.notices.append(text)

    def notices_told(self, texts: list[str]) -> None:
        self.notices = [text for text in self.notices if text not in texts]
        self.told += texts

    # -- what an event said before the transcript had it

    def expect(self, role: str, text: str, key: str) -> None:
        """A turn was recorded from an event, under this key; the transcript will have it, too."""
        self._ahead.append([_mark(role, text), key])

    def expect_all_of(self, other: HookSession) -> None:
        """What another note expects as well."""
        self._ahead = other._ahead + [pair for pair in self._ahead if pair not in other._ahead]

    def take(self, role: str, text: str) -> str:
        """The key under which this turn was recorded from an event; empty if it was not. Each can be taken once."""
        mark = _mark(role, text)
        for place, (known, key) in enumerate(self._ahead):
            if known == mark:
                del self._ahead[place]
                return key
        return ""


def name_of(host_session: str) -> str:
    """The name of a note: safe, whatever a host calls its sessions."""
    return f"{digest(host_session)[:16]}.json"


def digest(text: str) -> str:
    from smp_memory.files.sha256 import sha256_hex

    return sha256_hex(text.encode("utf-8", "surrogatepass"))[:32]


def read(state: UserState, host_session: str) -> HookSession:
    """The note as it is now, without a lock."""
    return _read(state.disk, state.path(FOLDER, name_of(host_session)))


def _read(disk: Disk, path: str) -> HookSession:
    import json

    from smp_memory.errors import SMPError

    try:
        return HookSession(json.loads(disk.read(path, 0, 1 << 20)))
    except (OSError, SMPError, ValueError, RecursionError):
        return HookSession()


def left_nothing(state: UserState) -> dict[str, Any] | None:
    """The session that ended last without a decision, a finding or a learning, if nobody was told of it yet."""
    import json

    from smp_memory.errors import SMPError

    try:
        known = json.loads(state.disk.read(state.path(FOLDER, LEFT_NOTHING), 0, 1 << 16))
    except (OSError, SMPError, ValueError, RecursionError):
        return None
    if not isinstance(known, dict) or not isinstance(known.get("turns"), int):
        return None
    return known if _id(known.get("session")) else None


class SessionStates:
    """All notes of a store, under their lock: a context manager."""

    def __init__(self, state: UserState, timeout_seconds: float) -> None:
        from smp_memory.files.lock import SessionLock

        self._disk = state.disk
        self._folder = state.path(FOLDER)
        state.make()
        state.disk.make_folder(self._folder)
        self._lock = SessionLock(state.disk, self._folder, "the notes of the hooks")
        self._timeout_seconds = timeout_seconds

    def __enter__(self) -> SessionStates:
        self._lock.acquire(self._timeout_seconds)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        self._lock.close()

    def of(self, host_session: str) -> HookSession:
        note = _read(self._disk, os.path.join(self._folder, name_of(host_session)))
        note.host_session = host_session
        return note

    def keep(self, note: HookSession) -> None:
        import json

        path = os.path.join(self._folder, name_of(note.host_session))
        self._disk.replace(path, (json.dumps(note.to_dict()) + "\n").encode())

    def others(self, note: HookSession) -> Iterator[HookSession]:
        """Notes of other sessions of hosts, the newest first; those that are too old go."""
        own, found = name_of(note.host_session), []
        for name in self._disk.names(self._folder):
            state = self._disk.stat(os.path.join(self._folder, name)) if name.endswith(".json") else None
            if state is None or name == own:
                continue
            if time.time() - state.st_mtime > _KEPT_SECONDS:
                self._disk.remove(os.path.join(self._folder, name))
            else:
                found.append((state.st_mtime, name))
        for _, name in sorted(found, reverse=True):
            known = _read(self._disk, os.path.join(self._folder, name))
            if known.client and known.host_session:
                yield known

    def say_nothing_was_left(self, session: str, turns: int, at: str) -> None:
        import json

        said = {"session": session, "turns": turns, "at": at}
        self._disk.replace(os.path.join(self._folder, LEFT_NOTHING), (json.dumps(said) + "\n").encode())

    def was_told(self) -> None:
        """Nobody needs to be told twice."""
        self._disk.remove(os.path.join(self._folder, LEFT_NOTHING))


def _mark(role: str, text: str) -> str:
    """What tells turns apart. Of a prompt its beginning: hosts put things behind it before they write it down."""
    words = " ".join(text.split())
    return f"{role}:{digest(words[:_HEAD_CHARACTERS] if role == 'user' else words)[:16]}"


def _id(value: Any) -> str:
    """The name of a session; empty if it is none. It is told outside of the fence."""
    if not isinstance(value, str) or not value:
        return ""
    from smp_memory.model.ids import is_valid

    return value if is_valid(value) else ""


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def name_for(state: UserState, event: HookEvent) -> str:
    """The session's name as its note has it, else the one that it would get today."""
    return read(state, event.session).session or new_name(event)


def new_name(event: HookEvent) -> str:
    return f"{event.client}-{time.strftime('%Y-%m-%d', time.gmtime())}-{_tail(event)}"


def known_name(event: HookEvent, names: Iterable[str]) -> str:
    """The name of a session that was begun for this one of the host; empty if there is none."""
    head, tail = event.client + "-", "-" + _tail(event)
    return max((name for name in names if name.startswith(head) and name.endswith(tail)), default="")


def _tail(event: HookEvent) -> str:
    return digest(event.session)[:8]
