"""Which turns are new, and into which session do they go? What hooks write, when the host has its answer.

A prompt is recorded when it is sent, a reply when it is there. Where a host keeps a transcript that can be read, everything
in it since the last reading is recorded: so what was interrupted, or whose event never came, is there, too.

Guarantees
- Nothing is stored twice: each turn has an idempotency key of the host's own ids, notes are changed under their lock, and
  what an event said keeps its key when the transcript has it (`Note.expect`, `Note.take`).
- Fenced recall is taken out before; secrets are, by the store, as with every write.
- What is said while `hooks.record` is off is never recorded: every event moves the place up to which the transcript counts as
  read to its end, and recording begins again with the next prompt that is sent while it is on. Other conversations do not
  take such a conversation in.
- The session is made when there is something to record, one for each of the host's, and continued when the host continues.
"""

from __future__ import annotations

import os
import time

from smp_memory.integrations.hooks import events
from smp_memory.integrations.hooks import session_state as notes
from smp_memory.integrations.hooks.failures import note_failure
from smp_memory.integrations.hooks.session_state import known_name, new_name
from smp_memory.integrations.hooks.transcripts import (
    ASSISTANT,
    SUMMARY,
    USER,
    TranscriptTurn,
    answers_only,
    lines_from,
    reader_of,
    size_of,
)
from smp_memory.model.types import names_where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.session_state import HookSession, SessionStates
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_BEHIND_SECONDS, _AWAITED_SECONDS, _HERE_SECONDS = 60.0, 30.0, 0.8  # how long to wait for a lock
_ENOUGH_TURNS = 4  # a shorter session need not leave anything
_OTHERS = 3  # so many sessions whose end nobody saw are looked at, at the start of one
_QUIET_SECONDS = 300  # a transcript that nobody wrote to for so long is not in use
_TWICE_SECONDS = 2  # two prompts of the same words within this time are one, unless the host says otherwise


def record(
    event: HookEvent,
    root: str,
    given: list[str] | None,
    notices: list[str] | None = None,
    *,
    is_behind: bool = False,
    is_awaited: bool = False,
) -> None:
    """Record what an event says, and keep its note; `given`: the memories that were injected, None if that failed.
    `notices`: those of the note that were told.

    is_behind: nobody waits for it. is_awaited: the caller asked to wait (`--wait`). Neither: the host waits, because it must.
    """
    from smp_memory.memory import open_memory
    from smp_memory.store import incomplete

    seconds = _BEHIND_SECONDS if is_behind else _AWAITED_SECONDS if is_awaited else _HERE_SECONDS
    settings = {"concurrency": {"lock_timeout_ms": int(seconds * 1000)}}
    incomplete.caller_tells = True  # in the note at the start of a session; nothing else is printed
    with open_memory(root, config=settings, create=False, trust=False) as memory:
        with notes.SessionStates(memory.store.state, seconds) as kept:
            _Recording(event, memory, kept, given, notices).run()
        if event.kind == events.END:
            from smp_memory.context.digest import renew_digests

            renew_digests(memory)
        if is_behind:
            memory.query("smp", limit=1, track_access=False)  # the index catches up now, not before the next prompt


class _Recording:
    """One event, under the lock of the notes."""

    def __init__(
        self,
        event: HookEvent,
        memory: Memory,
        kept: SessionStates,
        given: list[str] | None,
        notices: list[str] | None = None,
    ) -> None:
        self._event = event
        self._memory = memory
        self._kept = kept
        self._given = given
        self._note = note = kept.of(event.session)
        self._records = bool(self._config_of(note.session)["hooks.record"])
        note.notices_told(notices or [])
        if note.client and not event.is_sure:
            event.client = note.client
        note.client = event.client
        self._path = event.transcript or self._note.transcript
        self._session: SessionMemory | None = None

    def _config_of(self, session: str) -> Config:
        """The settings of this conversation's session, or of the store as long as there is none."""
        store = self._memory.store
        is_there = session and store.layout.exists(store.disk, store.root, session)
        return store.session(session).usable_config() if is_there else self._memory.config

    def run(self) -> None:
        note, event = self._note, self._event
        note.since = note.since or _now()
        if note.was_off and not _is_continued(note, self._path):
            note.offset = max(size_of(self._path), 0)
        note.transcript = self._path
        note.ended = False
        self._note_given()
        if self._is_recorded():
            {
                events.START: self._start,
                events.PROMPT: self._prompt,
                events.REPLY: self._reply,
                events.AGENT_START: _nothing,
                events.AGENT_REPLY: self._agent_reply,
                events.COMPACT: self._catch_up,
                events.COMPACTED: self._compacted,
                events.END: self._end,
            }[event.kind]()
        note.ended = event.kind == events.END
        self._kept.keep(note)
        if event.kind == events.START and self._records:
            self._catch_up_with_others()

    def _is_recorded(self) -> bool:
        """Whether the event is recorded. The transcript is skipped up to its end if not, and before the first prompt that is."""
        note, event = self._note, self._event
        if self._records and not note.is_off:
            return True
        note.skip_to(size_of(self._path))
        if not self._records or event.kind != events.PROMPT or not event.is_from_a_person:
            return False
        self._kept.keep(note)  # before a crash can leave a note that is on, with the old place in the transcript
        note.is_off = False
        return True

    def _note_given(self) -> None:
        """Remember which memories this conversation was told."""
        note, event = self._note, self._event
        if event.kind == events.START:
            if event.source != "resume":
                note.given = []
            if self._given is not None and event.source in ("", "startup", "clear"):
                self._kept.was_told()
        if event.kind in (events.START, events.PROMPT):
            note.given += self._given or []

    # -- events

    def _start(self) -> None:
        if self._note.offset < 0:  # what was said before the hooks were there is not theirs
            resumes = self._event.source in ("resume", "fork", "compact")
            self._note.offset = max(size_of(self._path), 0) if resumes else 0

    def _prompt(self) -> None:
        note, event = self._note, self._event
        if note.offset < 0:
            note.offset = max(size_of(self._path), 0)
        said = answers_only([TranscriptTurn(USER, event.prompt, "", by_event=True)])
        if not said or not event.is_from_a_person:
            return
        turn = said[0]
        turn.key = f"prompt:{event.turn}" if event.turn else f"prompt:{int(time.time())}:{notes.digest(turn.text)[:16]}"
        if not event.turn and _is_the_same(note.prompted, turn.key):
            return
        if event.turn and note.prompted == turn.key:
            return
        note.prompted = turn.key
        note.expect(USER, turn.text, turn.key)
        self._keep([turn])

    def _reply(self) -> None:
        note, event = self._note, self._event
        known = f"{event.turn}:{notes.digest(event.reply)[:16]}"
        if event.turn and event.reply and note.replied == known:
            return  # two hooks were told of it
        first = note.offset < 0
        turns = self._unread()
        if first:
            turns = _from_last_prompt(turns)
        if event.prompt and not any(turn.role == USER for turn in turns):
            turns = answers_only([TranscriptTurn(USER, event.prompt, f"prompt:{known}")]) + turns
        turns = self._with_reply(turns, known)
        note.replied = known if event.reply else note.replied
        self._keep(turns)

    def _with_reply(self, turns: list[TranscriptTurn], known: str) -> list[TranscriptTurn]:
        """With what the event says was said last, unless the transcript has it already."""
        replies = answers_only([TranscriptTurn(ASSISTANT, self._event.reply, f"reply:{known}", by_event=True)])
        if not replies:
            return turns
        reply = replies[0]
        if turns and turns[-1].role == ASSISTANT:
            last = turns[-1].text
            if last.endswith(reply.text) or reply.text.endswith(last):
                return turns
            turns = turns[:-1]  # said on the way; the answer is not there yet
        elif not turns and notes.digest(reply.text) == self._note.last:
            return turns
        self._note.expect(ASSISTANT, reply.text, reply.key)
        return [*turns, reply]

    def _agent_reply(self) -> None:
        event = self._event
        said = answers_only([TranscriptTurn(ASSISTANT, event.reply, "")])
        if said:
            said[0].key = f"agent:{event.agent_id}:{notes.digest(said[0].text)[:16]}"
            self._keep(said, author=event.agent or None)

    def _catch_up(self) -> None:
        self._keep(self._unread())

    def _compacted(self) -> None:
        said = answers_only([TranscriptTurn(SUMMARY, self._event.summary, "")])
        if said:
            said[0].key = f"summary:{notes.digest(said[0].text)[:16]}"
            self._note.summaries += 1  # the transcript will have it, too, in other words
            self._keep(said)

    def _end(self) -> None:
        first = self._note.offset < 0
        turns = self._unread()
        self._keep(_from_last_prompt(turns) if first else turns)
        self._say_if_nothing_was_left()

    # -- the transcript

    def _unread(self) -> list[TranscriptTurn]:
        """What the transcript says since it was last read. It counts as read when the note is kept."""
        note, reader = self._note, reader_of(self._event.client)
        if reader is None or size_of(self._path) < 0:
            return []
        lines, note.offset = lines_from(self._path, note.offset)
        found: list[TranscriptTurn] = []
        for turn in reader(lines):
            if turn.role == SUMMARY and note.summaries > 0:
                note.summaries -= 1
            else:
                found.append(turn)
        return found

    def _catch_up_with_others(self) -> None:
        """Sessions that ended while nobody looked: a host that was killed sends no event."""
        looked_at = 0
        for note in self._kept.others(self._note):
            if note.ended or note.is_off or size_of(note.transcript) <= note.offset or _is_in_use(note.transcript):
                continue
            looked_at += 1
            if looked_at > _OTHERS:
                break
            told = {
                "hook_event_name": "SessionEnd",
                "session_id": note.host_session,
                "cwd": self._event.cwd,
            }
            ended = events.HookEvent(note.client, "SessionEnd", told)
            try:
                _Recording(ended, self._memory, self._kept, None).run()
            except Exception as error:  # another conversation's trouble is not this one's
                note_failure(self._memory.root, ended.client, ended.name, error)

    # -- the store

    def _keep(self, turns: list[TranscriptTurn], author: str | None = None) -> None:
        note, client = self._note, self._event.client
        if not turns:
            return
        items: list[tuple[str, dict[str, Any]]] = []
        for turn in turns:
            known = "" if turn.by_event else note.take(turn.role, turn.text)
            if turn.role == ASSISTANT:
                note.last = notes.digest(turn.text)
            elif turn.role == USER:
                note.last = ""
            note.turns += 0 if known else 1
            key = known or turn.key or f"{turn.at}:{turn.role}:{notes.digest(turn.text)[:16]}"  # a line without an id
            fields: dict[str, Any] = {"idempotency_key": self._key(key)}
            if turn.at:
                fields["created"] = turn.at
            if turn.role == SUMMARY:
                items.append((SUMMARY, {"summary": self._cut(turn.text), "author": client, **fields}))
                continue
            if turn.role == ASSISTANT:
                fields["author"] = author or client
            items.append(("conversation", {"role": turn.role, "content": self._cut(turn.text), **fields}))
        self._kept.keep(self._before_writing())
        written, failed = _add(self._opened(), items)
        for error in failed:
            note_failure(self._memory.root, client, self._event.name, error)
        for record in written:
            self._note_what_to_tell(record)

    def _note_what_to_tell(self, record: Record | SessionMemory) -> None:
        """What the writer of a memory or whoever made or brought back a session should know is told to the conversation at its next event."""
        from smp_memory.privacy.settings import redaction_notice

        if record.redacted:
            taken_out = redaction_notice(dict.fromkeys(record.redacted, 1))
            self._note.add_notice(f"SMP recorded this conversation without some of its text: {taken_out}")
        for text in record.warnings:
            self._note.add_notice(f"SMP: {text}")

    def _before_writing(self) -> HookSession:
        """The note as it must be if this process dies now: keys are known, the transcript is not yet read."""
        before = self._kept.of(self._event.session)
        after = notes.HookSession({**self._note.to_dict(), "offset": before.offset, "last": before.last})
        after.replied, after.prompted = before.replied, before.prompted
        after.expect_all_of(before)
        return after

    def _key(self, key: str) -> str:
        full = f"{self._event.client}:{notes.digest(self._event.session)[:16]}:{key}"
        return full if len(full) <= 200 else f"{full[:80]}:{notes.digest(full)}"

    def _cut(self, text: str) -> str:
        limit = self._memory.config.content_limit_bytes - 1000
        if len(text.encode("utf-8", "replace")) <= limit:
            return text
        kept = text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
        return f"{kept}… [{len(text) - len(kept)} more characters were not kept]"

    def _opened(self) -> SessionMemory:
        """The session of this conversation, made if there is none."""
        if self._session is None:
            self._session = self._known_session() or self._made_session()
            self._note_what_to_tell(self._session)
            self._note.session = self._session.id
            self._kept.keep(self._before_writing())
        return self._session

    def _known_session(self) -> SessionMemory | None:
        from smp_memory.errors import SessionNotFound

        memory, note = self._memory, self._note
        name = note.session or known_name(self._event, memory.store.session_ids())
        try:
            return memory.session(name, author=self._event.client) if name else None
        except SessionNotFound:
            return None  # somebody deleted it

    def _made_session(self) -> SessionMemory:
        from smp_memory.errors import SessionExists
        from smp_memory.integrations.hooks.project_store import project_of

        event = self._event
        about = {"project": project_of(self._memory.root, event.cwd) or None, "agents": [event.client]}
        host = {"host": event.client, "host_session": event.session}
        try:
            return self._memory.create_session(new_name(event), author=event.client, **about, **host)  # type: ignore[arg-type]
        except SessionExists:
            name = f"{new_name(event)}-{os.urandom(2).hex()}"
            return self._memory.create_session(name, author=event.client, **about, **host)  # type: ignore[arg-type]

    # -- did it leave anything?

    def _say_if_nothing_was_left(self) -> None:
        note = self._note
        if note.session and note.turns >= _ENOUGH_TURNS:
            found = self._memory.query(
                types=list(names_where("is_written_down")), since=note.since, limit=1, track_access=False
            )
            if not found:
                self._kept.say_nothing_was_left(note.session, note.turns, _now())


def _nothing() -> None:
    pass


def _is_continued(note: HookSession, path: str) -> bool:
    """Whether a transcript is the one that was read before, and did not become shorter."""
    return note.transcript == path and size_of(path) >= note.offset


def _add(session: SessionMemory, items: list[tuple[str, dict[str, Any]]]) -> tuple[list[Record], list[Exception]]:
    """Store turns. One that cannot be stored does not keep the others from it; a strange time is left out."""
    from smp_memory.errors import InvalidRecord

    try:
        return session.add_many(items), []
    except InvalidRecord:
        written: list[Record] = []
        failed: list[Exception] = []
    for type, fields in items:
        for left_out in ((), ("created",)):
            try:
                written.append(
                    session.add(type, {name: value for name, value in fields.items() if name not in left_out})
                )
                break
            except InvalidRecord as error:
                refused = error
        else:
            failed.append(refused)
    return written, failed


def _from_last_prompt(turns: list[TranscriptTurn]) -> list[TranscriptTurn]:
    last = max((place for place, turn in enumerate(turns) if turn.role == USER), default=0)
    return turns[last:]


def _is_the_same(before: str, now: str) -> bool:
    """Whether two prompts without an id are one that two hooks were told of."""
    parts, others = before.split(":"), now.split(":")
    return (
        len(parts) == len(others) == 3
        and parts[2] == others[2]
        and parts[1].isdigit()
        and int(others[1]) - int(parts[1]) <= _TWICE_SECONDS
    )


def _is_in_use(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime < _QUIET_SECONDS
    except OSError:
        return True


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
