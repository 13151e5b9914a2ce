"""Record the turns of a conversation after an event, in the session that belongs to the host's session.

A prompt is recorded when it is sent, a reply when it is complete. Where a host keeps a transcript that can be read, everything
in it since the last read is recorded: so turns that were interrupted, or whose event never came, are recorded, too.

Guarantees
- Nothing is stored twice: each turn has an idempotency key made of the host's ids, session states are changed under their lock, and
  a turn that was recorded from an event keeps its key when it is read from the transcript (`HookSession.add_pending`,
  `HookSession.take_pending`).
- Fenced recall is removed before; secrets are redacted by the store, as with every write.
- What is said while `hooks.record` is off is never recorded: every event moves the offset up to which the transcript counts as
  read to its end, and recording begins again with the next prompt that is sent while it is on. Other conversations do not
  record such a conversation either.
- The session is created when there is something to record, one for each of the host's, and continued when the host continues.
"""

from __future__ import annotations

import os
import time

from smp_memory.config.settings import RECORD
from smp_memory.discovery import folder_of_store, project_name
from smp_memory.errors import InvalidRecord, SessionExists, SessionNotFound, SMPError
from smp_memory.integrations.hooks import events, session_state
from smp_memory.integrations.hooks.session_state import (
    MOST_FILES,
    digest,
    find_session_name,
    is_same_prompt,
    log_failure,
    new_session_name,
    turn_key,
)
from smp_memory.integrations.hooks.told import log_told
from smp_memory.integrations.hooks.transcripts import (
    ASSISTANT,
    SUMMARY,
    USER,
    TranscriptTurn,
    claude_turns,
    codex_turns,
    cut,
    from_last_prompt,
    given_title,
    is_in_use,
    keep_final_replies,
    read_lines,
    transcript_size,
    used_files,
)
from smp_memory.memory import Memory, open_memory
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.proposals import proposals_in
from smp_memory.model.session_info import names_of
from smp_memory.model.times import to_text
from smp_memory.model.types import names_where
from smp_memory.observe import incomplete
from smp_memory.privacy.settings import redaction_notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.integrations.hooks.events import HookEvent
    from smp_memory.integrations.hooks.reader import HookRecall
    from smp_memory.integrations.hooks.session_state import HookSession, SessionStates
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_BACKGROUND_SECONDS, _AWAITED_SECONDS, _FOREGROUND_SECONDS = 60.0, 30.0, 0.8  # how long to wait for a lock
_MOST_OTHERS = 3  # sessions without an end event that are caught up at the start of one
_PARSERS = {events.CLAUDE: claude_turns, events.CODEX: codex_turns}  # other hosts keep no transcript that can be read


def record(
    event: HookEvent,
    root: str,
    recall: HookRecall | None,
    *,
    is_background: bool = False,
    is_awaited: bool = False,
) -> None:
    """Record the turns of an event, and save the state of its session.

    recall         what was put into the conversation; None if that failed or the event takes nothing.
    is_background  nobody waits for this process.
    is_awaited     the caller asked to wait (`--wait`). Without both the host waits, because there is no fork.
    """
    seconds = _BACKGROUND_SECONDS if is_background else _AWAITED_SECONDS if is_awaited else _FOREGROUND_SECONDS
    settings = {"concurrency": {"lock_timeout_ms": int(seconds * 1000)}}
    incomplete.caller_reports = True  # in the notice at the start of a session; nothing else is printed
    with open_memory(root, config=settings, create=False, trust=False) as memory:
        with session_state.SessionStates(memory.store.state, seconds) as states:
            _Recording(event, memory, states, recall).run()
        if event.kind == events.END:
            from smp_memory.context.digest import renew_digests

            renew_digests(memory.scope)
        if is_background:
            memory.store.indexer.embed_missing(_BACKGROUND_SECONDS)  # catch up the index now, not at the next prompt


class _Recording:
    """The recording of one event, under the lock of the session states."""

    def __init__(self, event: HookEvent, memory: Memory, states: SessionStates, recall: HookRecall | None) -> None:
        self._event = event
        self._memory = memory
        self._states = states
        self._injected = recall.marks if recall is not None else None
        self._state = state = states.load(event.session)
        self._config = config = self._session_config(state.session)
        self._is_recording = bool(config["hooks.record"]) and config.allows(RECORD)
        self._is_proposing = bool(config["proposals.enabled"])
        if recall is not None:
            state.mark_delivered(recall.notices)
        self._asks_to_record = recall is not None and recall.asks_to_record
        state.was_asked = state.was_asked or self._asks_to_record
        if state.client and not event.is_client_certain:
            event.client = state.client
        state.client = event.client
        self._path = event.transcript or self._state.transcript
        self._session: SessionMemory | None = None
        self._recall = recall
        self._turn: str | None = None  # the id of the turn that recorded the prompt
        self._title = ""  # that a person gave the conversation in the host, since the transcript was last read
        self._is_repeated = False  # the same prompt came before: two hooks were called for it

    def _session_config(self, session: str) -> Config:
        """The settings of this conversation's session, or of the store as long as there is none."""
        store = self._memory.store
        exists = session and store.sessions(id=session)
        return store.session(session).config if exists else self._memory.config

    def run(self) -> None:
        state, event = self._state, self._event
        state.since = state.since or _now()
        if state.was_off and not _is_same_transcript(state, self._path):
            state.offset = max(transcript_size(self._path), 0)
        state.transcript = self._path
        state.ended = False
        self._update_injected()
        try:
            self._record_event()
        finally:
            self._log_told()
        state.ended = event.kind == events.END
        self._states.save(state)
        if event.kind == events.START and self._is_recording:
            self._catch_up_with_others()

    def _record_event(self) -> None:
        if self._is_recorded():
            {
                events.START: self._start,
                events.PROMPT: self._prompt,
                events.REPLY: self._reply,
                events.AGENT_START: _ignore,
                events.AGENT_REPLY: self._agent_reply,
                events.COMPACT: self._catch_up,
                events.COMPACTED: self._compacted,
                events.END: self._end,
            }[self._event.kind]()
            self._update_title()
            self._update_stretch()

    def _log_told(self) -> None:
        if self._recall is not None and not self._is_repeated:
            name = self._state.session or new_session_name(self._event)
            log_told(self._memory, self._config, self._event, self._recall, _now(), name, self._turn)

    def _is_recorded(self) -> bool:
        """Whether the event is recorded. If not, the transcript is skipped up to its end; also before the first prompt
        after recording was off."""
        state, event = self._state, self._event
        if self._is_recording and not state.is_off:
            return True
        state.skip_to(transcript_size(self._path))
        if not self._is_recording or event.kind != events.PROMPT or not event.is_from_a_person:
            return False
        self._states.save(state)  # first: a crash must not leave a state that is on with the old offset
        state.is_off = False
        return True

    def _update_injected(self) -> None:
        """Note which memories were injected into this conversation."""
        state, event = self._state, self._event
        if event.kind == events.START:
            if event.source != "resume":
                state.injected = []
            if self._injected is not None and event.source in ("", "startup", "clear"):
                self._states.clear_session_without_memories()
        if event.kind in (events.COMPACT, events.COMPACTED):
            state.injected = []
        if event.kind in (events.START, events.PROMPT):
            state.injected += self._injected or []

    def _update_stretch(self) -> None:
        """Begin a new stretch if something was written down, or the host compacts or clears the conversation."""
        state, event = self._state, self._event
        if event.kind == events.COMPACT or (event.kind == events.START and event.source == "clear"):
            state.was_asked = self._asks_to_record
        if event.kind != events.PROMPT and state.proposing and self._has_written_since(state.written_until):
            state.proposing, state.was_asked = [], False
            state.written_until = to_text(self._memory.now())

    def _update_title(self) -> None:
        """Take over the title, if there is a session: none is made for a title."""
        session = self._find_session() if self._title else None
        try:
            if session is not None and session.info.title != self._title:
                session.change_info(title=self._title)
        except SMPError as error:  # a title must not keep turns from being recorded
            log_failure(self._memory.root, self._event.client, self._event.name, error)

    # -- events

    def _start(self) -> None:
        if self._state.offset < 0:  # turns before the hooks were installed are not recorded
            resumes = self._event.source in ("resume", "fork", "compact")
            self._state.offset = max(transcript_size(self._path), 0) if resumes else 0

    def _prompt(self) -> None:
        state, event = self._state, self._event
        if state.offset < 0:
            state.offset = max(transcript_size(self._path), 0)
        turns = keep_final_replies([TranscriptTurn(USER, event.prompt, "", by_event=True)])
        if not turns or not event.is_from_a_person:
            return
        turn = turns[0]
        turn.key = f"prompt:{event.turn}" if event.turn else f"prompt:{int(time.time())}:{digest(turn.text)[:16]}"
        before = state.last_prompt_key
        if before == turn.key if event.turn else is_same_prompt(before, turn.key):
            self._is_repeated = True
            return
        state.last_prompt_key = turn.key
        state.add_pending(USER, turn.text, turn.key)
        self._turn = next((record.id for record in self._store([turn])), None)

    def _reply(self) -> None:
        state, event = self._state, self._event
        key = f"{event.turn}:{digest(event.reply)[:16]}"
        if event.turn and event.reply and state.last_reply_key == key:
            return  # two hooks were called for the same reply
        is_first_read = state.offset < 0
        turns = self._unread()
        if is_first_read:
            turns = from_last_prompt(turns)
        if event.prompt and not any(turn.role == USER for turn in turns):
            turns = keep_final_replies([TranscriptTurn(USER, event.prompt, f"prompt:{key}")]) + turns
        turns = self._with_reply(turns, key)
        state.last_reply_key = key if event.reply else state.last_reply_key
        self._store(turns)

    def _with_reply(self, turns: list[TranscriptTurn], key: str) -> list[TranscriptTurn]:
        """The turns with the reply of the event at their end, unless the transcript has it already."""
        replies = keep_final_replies([TranscriptTurn(ASSISTANT, self._event.reply, f"reply:{key}", by_event=True)])
        if not replies:
            return turns
        reply = replies[0]
        if turns and turns[-1].role == ASSISTANT:
            last = turns[-1].text
            if last.endswith(reply.text) or reply.text.endswith(last):
                return turns
            turns = turns[:-1]  # an intermediate text; the reply is not in the transcript yet
        elif not turns and digest(reply.text) == self._state.last_reply_digest:
            return turns
        self._state.add_pending(ASSISTANT, reply.text, reply.key)
        return [*turns, reply]

    def _agent_reply(self) -> None:
        event = self._event
        turns = keep_final_replies([TranscriptTurn(ASSISTANT, event.reply, "")])
        if turns:
            turns[0].key = f"agent:{event.agent_id}:{digest(turns[0].text)[:16]}"
            self._store(turns, author=event.agent or None)

    def _catch_up(self) -> None:
        self._store(self._unread())

    def _compacted(self) -> None:
        turns = keep_final_replies([TranscriptTurn(SUMMARY, self._event.summary, "")])
        if turns:
            turns[0].key = f"summary:{digest(turns[0].text)[:16]}"
            self._state.summaries += 1  # the transcript will contain it, too, in other words
            self._store(turns)

    def _end(self) -> None:
        is_first_read = self._state.offset < 0
        turns = self._unread()
        self._store(from_last_prompt(turns) if is_first_read else turns)
        self._note_if_without_memories()

    # -- the transcript

    def _unread(self) -> list[TranscriptTurn]:
        """The turns of the transcript since it was last read. They count as read when the state is saved."""
        state, parse_turns = self._state, _PARSERS.get(self._event.client)
        if parse_turns is None or transcript_size(self._path) < 0:
            return []
        lines, state.offset = read_lines(self._path, state.offset)
        state.files = used_files(lines)[:MOST_FILES] or state.files
        self._title = given_title(lines)
        turns: list[TranscriptTurn] = []
        for turn in parse_turns(enumerate(lines)):
            if turn.role == SUMMARY and state.summaries > 0:
                state.summaries -= 1
            else:
                turns.append(turn)
        return turns

    def _catch_up_with_others(self) -> None:
        """Record sessions that ended without an event: a host that was killed sends none."""
        caught_up = 0
        for other in self._states.load_others(self._state):
            if other.ended or other.is_off:
                continue
            if transcript_size(other.transcript) <= other.offset or is_in_use(other.transcript):
                continue
            caught_up += 1
            if caught_up > _MOST_OTHERS:
                break
            payload = {
                "hook_event_name": "SessionEnd",
                "session_id": other.host_session,
                "cwd": self._event.cwd,
            }
            ended = events.HookEvent(other.client, "SessionEnd", payload)
            try:
                _Recording(ended, self._memory, self._states, None).run()
            except Exception as error:  # a failure in another conversation must not affect this one
                log_failure(self._memory.root, ended.client, ended.name, error)

    # -- the store

    def _store(self, turns: list[TranscriptTurn], author: str | None = None) -> list[Record]:
        """Store turns that were not recorded yet, and return their records."""
        state, client = self._state, self._event.client
        if not turns:
            return []
        items: list[tuple[str, dict[str, Any]]] = []
        gone = self._deleted_keys()
        for turn in turns:
            recorded_key = "" if turn.by_event else state.take_pending(turn.role, turn.text)
            if turn.role == ASSISTANT:
                state.last_reply_digest = digest(turn.text)
            elif turn.role == USER:
                state.last_reply_digest = ""
            state.turns += 0 if recorded_key else 1
            key = recorded_key or turn.lasting_key
            if state.was_recorded(self._key(key)) or self._key(key) in gone:
                continue  # it is there, or a person has removed it since
            text = cut(turn.text, self._memory.config.content_limit_bytes)
            fields: dict[str, Any] = {"idempotency_key": self._key(key)}
            if turn.at:
                fields["created"] = turn.at
            if turn.role == SUMMARY:
                items.append((SUMMARY, {"summary": text, "author": client, **fields}))
                continue
            if turn.role == ASSISTANT:
                fields["author"] = author or client
            items.append(("conversation", {"role": turn.role, "content": text, **fields}))
        self._states.save(self._state_before_write())
        if not items:
            return []
        written, failed = _add(self._opened(), items)
        state.note_recorded(record.given.get("idempotency_key", "") for record in written)
        for error in failed:
            log_failure(self._memory.root, client, self._event.name, error)
        for record in written:
            self._add_notices(record)
            role = record.given.get("role", "") if self._is_proposing else ""
            if proposals_in(record.text, role) and record.id not in state.proposing:
                state.proposing.append(record.id)
        return written

    def _deleted_keys(self) -> set[Any]:
        """The keys of turns in the trash of the session. Needed only if the state does not know what was recorded."""
        name = self._state.session or find_session_name(
            self._event.client, self._event.session, names_of(self._memory.store.sessions())
        )
        if self._state.recorded or not self._memory.store.sessions(id=name or "-"):
            return set()
        index = self._memory.store.indexer
        deleted = index.candidates(CandidateRequest(sessions=[name], only_deleted=True, include_deleted=True)).matches
        return {record.given.get("idempotency_key") for record in index.records(deleted).values()}

    def _add_notices(self, record: Record | SessionMemory) -> None:
        """Add the warnings and redactions of a stored record or an opened session to the notices for the conversation."""
        if record.redacted:
            redaction = redaction_notice(dict.fromkeys(record.redacted, 1))
            self._state.add_notice(f"SMP records this conversation; {redaction}")
        for text in record.warnings:
            self._state.add_notice(f"SMP: {text}")

    def _state_before_write(self) -> HookSession:
        """The state to save before a write, in case this process dies in it: keys are noted, the transcript is not read."""
        before = self._states.load(self._event.session)
        after = session_state.HookSession({**self._state.to_dict(), "offset": before.offset})
        after.last_reply_digest = before.last_reply_digest
        after.last_reply_key, after.last_prompt_key = before.last_reply_key, before.last_prompt_key
        after.add_pending_of(before)
        return after

    def _key(self, key: str) -> str:
        return turn_key(self._event.client, self._event.session, key)

    def _opened(self) -> SessionMemory:
        """The session of this conversation, created if there is none."""
        if self._session is None:
            self._session = self._find_session() or self._create_session()
            self._add_notices(self._session)
            self._state.session = self._session.id
            self._states.save(self._state_before_write())
        return self._session

    def _find_session(self) -> SessionMemory | None:
        memory, state = self._memory, self._state
        name = state.session or find_session_name(
            self._event.client, self._event.session, names_of(memory.store.sessions())
        )
        try:
            return memory.session(name, author=self._event.client) if name else None
        except SessionNotFound:
            return None  # it was deleted

    def _create_session(self) -> SessionMemory:
        event = self._event
        folder = folder_of_store(self._memory.root) or event.cwd
        fields: dict[str, Any] = {
            "author": event.client,
            "project": project_name(folder) if folder else None,
            "agents": [event.client],
            "host": event.client,
            "host_session": event.session,
        }
        try:
            return self._memory.create_session(new_session_name(event), **fields)
        except SessionExists:
            return self._memory.create_session(f"{new_session_name(event)}-{os.urandom(2).hex()}", **fields)

    # -- sessions without memories

    def _note_if_without_memories(self) -> None:
        state = self._state
        if state.session and state.turns >= session_state.MIN_TURNS and not self._has_written_since(state.since):
            self._states.note_session_without_memories(state, _now())

    def _has_written_since(self, time: str) -> bool:
        """Whether anybody wrote down a memory since then, or since the conversation began; an agent may do so in another session."""
        types, since = list(names_where("is_written_down")), time or self._state.since
        return bool(self._memory.query(types=types, since=since, limit=1, include_expired=True, track_access=False))


def _ignore() -> None:
    pass


def _is_same_transcript(state: HookSession, path: str) -> bool:
    """Whether the transcript is the one that was read before, and did not become shorter."""
    return state.transcript == path and transcript_size(path) >= state.offset


def _add(session: SessionMemory, items: list[tuple[str, dict[str, Any]]]) -> tuple[list[Record], list[Exception]]:
    """Store turns one by one if they cannot be stored together: an invalid time is left out, an invalid turn skipped."""
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


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
