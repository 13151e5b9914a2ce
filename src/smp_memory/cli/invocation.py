"""State of one invocation of a command: options, store, default session, output."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import Screen, one_line, truncate
from smp_memory.errors import InvalidRecord, MemoryNotFound, SessionNotFound, UserError
from smp_memory.model.session_info import LIVE, full_session_name, is_short_name, names_of, short_session_name
from smp_memory.scope import join_workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Any

    from smp_memory.cli.terminal import ProgressLine, WaitingLine
    from smp_memory.memory import Memory
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory

_LISTED_SESSIONS, _SHOWN_CHARACTERS = 5, 40


def write_notices(record: Record) -> list[str]:
    """What the writer of a memory should know: redactions and warnings, one line each."""
    from smp_memory.privacy.settings import redaction_notice

    redactions = redaction_notice(record.redacted)
    return [
        *([f"{record.id}: {redactions}"] if redactions else []),
        *(f"{record.id}: {text}" for text in record.warnings),
    ]


def update_fields(
    session: SessionMemory, memory_id: str, changes: dict[str, Any], expected_revision: int | None
) -> Record:
    """Update a memory by field names that a person typed; reject those that `update` would take for its own arguments."""
    if "by" in changes:  # an alias of `author` here, but an argument of `update`
        changes["author"] = changes.pop("by")
    fixed = next((name for name in ("id", "self", "expected_revision") if name in changes), None)
    if fixed:
        raise InvalidRecord(f"{fixed}: cannot be changed.", field=fixed)
    record: Record = session.update(memory_id, expected_revision, **changes)
    return record


class Invocation:
    """One invocation of a command. The store is opened when it is first used and closed at the end."""

    def __init__(self, options: Namespace, command: str = "") -> None:
        self.options = options
        self._command = command
        self._waiting: WaitingLine | None = None
        self.screen = Screen(sys.stdout, may_color=not options.no_color)
        self._memory: Memory | None = None
        self._default_session: str | None = None
        self.mentions_trust = True
        self._notified: set[str] = set()

    # -- the store

    @property
    def root(self) -> str | None:
        """The folder of the store if --root or SMP_ROOT names one."""
        return self.options.root or os.environ.get("SMP_ROOT") or None

    @property
    def memory(self) -> Memory:
        """The store. It must exist: a mistyped folder must not become a new store."""
        if self._memory is None:
            from smp_memory.memory import open_memory
            from smp_memory.observe import incomplete

            incomplete.caller_reports = True
            incomplete.take_reported()
            self._memory = open_memory(self.root, create=False)
            self._notify_untrusted(self._memory)
            self._notify_settings(self._memory.config.notices())
        return self._memory

    def _notify_untrusted(self, memory: Memory) -> None:
        """Print once that hooks do not use this store, because it is not trusted."""
        if self.mentions_trust and not memory.is_trusted and not memory.mark_trust_notice_shown():
            self.notify(
                "You have not trusted this store yet, so hooks neither recall from it nor record to it. "
                "If it is yours or your team's: smp trust"
            )

    def _notify_settings(self, notices: list[str]) -> None:
        """Print settings that cannot be used or do not count yet, each once."""
        for text in notices:
            if text not in self._notified:
                self._notified.add(text)
                self.notify(text)

    def use_store(self, memory: Memory) -> None:
        """Use this store from now on; close the one that was in use."""
        self.close()
        self._memory = memory

    # -- the session

    @property
    def author(self) -> str | None:
        return self.options.author or os.environ.get("SMP_AUTHOR") or None

    @property
    def session_name(self) -> str | None:
        return self.options.session or os.environ.get("SMP_SESSION") or None

    def session(self, name: str | None = None, *, create: bool = False) -> SessionMemory:
        """The session of this name, else of --session or SMP_SESSION, else the last written, else (`create`) a new one."""
        name = name or self.session_name or self._find_default_session()
        if name is not None:
            name = self.full_name(name, LIVE)
            session = self.memory.session(name, author=self.author)
            self._notify_settings(session.opened.storage.config.notices(session_only=True))
            return session
        if not create:
            raise SessionNotFound(self.no_session_message())
        session = self.memory.create_session(author=self.author)
        self.notify(f"There is no active session; started {session.id}.")
        return session

    def full_name(self, name: str, *states: str) -> str:
        """The id of a session in one of these states, of its id or its short id."""
        return full_session_name(name, self.memory.store.sessions(*states)) if is_short_name(name) else name

    def no_session_message(self) -> str:
        """The message for a store without an active session. After some weeks without use all may be archived."""
        archived = self.memory.archived_sessions()
        if archived:
            last = max(archived, key=lambda each: str(each.when or "")).session
            count = "1 session is" if len(archived) == 1 else f"{len(archived):,} sessions are"
            return f"{count} archived in {self.memory.root}, none is active. Restore the last one: smp session restore {last}"
        return f"There is no session in {self.memory.root} yet. Start one: smp session new"

    def _find_default_session(self) -> str | None:
        """The session written last. Cached: another process may write to another session while this command runs."""
        if self._default_session is None:
            from smp_memory.current_session import current_session

            self._default_session = current_session(self.memory)
        return self._default_session

    def resolve(self, reference: str) -> tuple[SessionMemory, str]:
        """The session and the id of a memory: `session/ID`, or `ID` of the default session, else of the only session that has it."""
        name, slash, memory_id = reference.rpartition("/")
        if slash and name:
            return self.session(full_session_name(name, self.memory.store.sessions())), memory_id
        if self.session_name is not None:
            return self.session(), reference
        return self.session(self._session_with(reference)), reference

    def _session_with(self, memory_id: str) -> str | None:
        """The only session with a memory of this id; None: none has it, so the default session reports that. Raises if several have it."""
        names = self._sessions_with(memory_id)
        if not names:
            return None
        if len(names) > 1:
            shown = [self._described(name, memory_id) for name in names[:_LISTED_SESSIONS]]
            more = f"; and {len(names) - _LISTED_SESSIONS:,} more" if len(names) > _LISTED_SESSIONS else ""
            raise UserError(f"{len(names):,} sessions have a memory {memory_id}. Name the session, or use --session: {'; '.join(shown)}{more}", sessions=names)  # fmt: skip
        if len(self.memory.store.sessions(limit=2)) > 1:
            self.notify(f"{memory_id} is in session {names[0]}.")
        return names[0]

    def _described(self, session: str, memory_id: str) -> str:
        """The reference of a memory and the beginning of its text."""
        history = self.memory.store.session(session).history([memory_id]).histories.get(memory_id)
        record = history.record(session) if history is not None else None
        text = truncate(one_line(record.text), _SHOWN_CHARACTERS) if record is not None else ""
        return f"{short_session_name(session)}/{memory_id} ({text})" if text else f"{session}/{memory_id}"

    def _sessions_with(self, memory_id: str) -> list[str]:
        """The live sessions that have a memory of this id, also a deleted one; the newest memory first."""
        from smp_memory.model.candidates import CandidateRequest

        names = names_of(self.memory.store.sessions())
        asked = CandidateRequest(refs=[f"{name}/{memory_id}" for name in names], include_deleted=True)
        found = self.memory.store.indexer.candidates(asked).matches
        return [each.session for each in sorted(found, key=lambda each: each.created, reverse=True)]

    def resolve_by_session(self, references: Iterable[str]) -> list[tuple[SessionMemory, list[str]]]:
        """The ids of several memories by session, without repetitions."""
        by_session: dict[str, tuple[SessionMemory, list[str]]] = {}
        for session, memory_id in map(self.resolve, references):
            by_session.setdefault(session.id, (session, []))[1].append(memory_id)
        return [(session, list(dict.fromkeys(ids))) for session, ids in by_session.values()]

    def record(self, reference: str, *, include_deleted: bool = False) -> Record:
        """The memory of a reference, `ID` or `session/ID`; raises if there is none."""
        session, memory_id = self.resolve(reference)
        history = self.history(session, memory_id)
        record = history.record(session.id) if history is not None else None
        if not include_deleted and (record is None or record.deleted):
            record = session.get(memory_id)  # raises with the reason
        if record is None:
            raise session.missing(memory_id)
        return record

    def add_hint(self, error: MemoryNotFound) -> MemoryNotFound:
        """The same error; if the session was not named, its message says which other sessions have such an id, or that none has."""
        memory_id, session = error.details.get("id"), error.details.get("session")
        if not isinstance(memory_id, str) or session is None or session != self._default_session:
            return type(error)(error.message, **error.details)
        matches = [name for name in self._sessions_with(memory_id) if name != session]
        if not matches and len(self.memory.store.sessions(limit=2)) == 1:
            return type(error)(error.message, **error.details)
        if not matches:
            here, anywhere = f"does not exist in session {session}.", "does not exist in any session."
            return type(error)(error.message.replace(here, anywhere), **error.details)
        where = f"Session {matches[0]} has" if len(matches) == 1 else f"{len(matches):,} other sessions have"
        return type(error)(f"{error.message} {where} one: {matches[0]}/{memory_id}", **error.details)

    def history(self, session: SessionMemory, memory_id: str) -> RecordHistory | None:
        """The history of a memory; read without loading a large session."""
        return self.memory.store.session(session.id).history([memory_id]).histories.get(memory_id)

    # -- what is searched

    @property
    def scope(self) -> Memory | SessionMemory:
        """The session named by --session or SMP_SESSION, else the whole store."""
        return self.memory if self.options.all or self.session_name is None else self.session()

    @property
    def read_scope(self) -> Memory | SessionMemory:
        """The same for what is read and not searched: the only session of a store in place of the store, for short ids."""
        scope = self.scope
        if scope is self.memory and len(self.memory.store.sessions(limit=2)) == 1:
            return self.memory.session(self.memory.store.sessions(limit=1)[0].session)
        return scope

    @property
    def read_sessions(self) -> list[SessionMemory]:
        """The sessions of the scope."""
        return self.memory.sessions() if self.scope is self.memory else [self.session()]

    @property
    def target(self) -> Memory | SessionMemory:
        """The session that a command works on, or with its option --all the whole store."""
        return self.memory if self.options.all else self.session()

    @property
    def has_one_session(self) -> bool:
        """Whether the scope is one session, so that ids are unique without it."""
        return self.scope is not self.memory or len(self.memory.store.sessions(limit=2)) == 1

    @property
    def scope_text(self) -> str:
        """The scope in words: `all 12 sessions`, `session checkout-review`."""
        if self.scope is not self.memory:
            return f"session {self.session_name}"
        names = names_of(self.memory.store.sessions())
        return f"session {names[0]}" if len(names) == 1 else f"all {len(names):,} sessions" if names else "0 sessions"

    @property
    def scope_data(self) -> dict[str, Any]:
        """The scope for JSON: the session that was named, or None, and the number of sessions."""
        if self.scope is not self.memory:
            return {"session": self.session_name, "sessions": 1}
        return {"session": None, "sessions": len(self.memory.store.sessions())}

    # -- the answer

    def answer(self, data: Any, lines: Iterable[str], *, newest_last: bool = False) -> None:
        """Print the data as JSON, or the lines; with --json the lines are not computed. Long output goes through a pager."""
        from smp_memory.cli.terminal import may_page, print_paged

        self.stop_waiting()
        if self.options.json:
            self.screen.json(data)
        elif may_page(self.screen, self.options):
            print_paged(self.screen, lines, at_end=newest_last)
        else:
            for line in lines:
                self.screen.line(line)

    def start_waiting(self) -> None:
        """Show what is running, on a terminal, if it takes longer than a second; until the answer or a message is printed."""
        if self._waiting is None and sys.stderr is not None and sys.stderr.isatty() and not self.options.verbose:
            from smp_memory.cli.terminal import WaitingLine

            self._waiting = WaitingLine(self._stderr(), f"smp {self._command}")

    def stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def answer_written(self, record: Record, line: str) -> None:
        """Answer with a memory that was written, its redactions and warnings."""
        data = record.to_dict()
        if record.warnings:
            data.setdefault("warnings", list(record.warnings))
        if record.redacted:
            data.setdefault("redacted", record.redacted)
        self.answer(data, [line])
        for text in write_notices(record):
            self.notify(text)

    def notify(self, text: str) -> None:
        """Print a message for people on stderr; programs may ignore it."""
        self.stop_waiting()
        self._stderr().line(text)

    def notify_redacted(self, what: str, kinds: dict[str, int] | None) -> None:
        """Print on stderr what redaction removed from a text that is not a memory, such as a reason."""
        if kinds:
            from smp_memory.privacy.settings import redaction_notice

            self.notify(f"{what}: {redaction_notice(kinds)}")

    def _stderr(self) -> Screen:
        return Screen(sys.stderr, may_color=not self.options.no_color)

    def notify_unreadable(self) -> None:
        """Print one line on stderr if entries of the files could not be read."""
        if self._memory is not None:
            from smp_memory.observe import incomplete

            problems = incomplete.take_reported()
            if problems:
                self.notify(incomplete.describe(problems))
            self.notify_other_layouts()

    def notify_other_layouts(self) -> None:
        """Print one line on stderr if there are sessions in another layout, which are not read."""
        if self._memory is not None and self._memory.store.files is not None:
            text = self._memory.store.files.unread_notice()
            if text:
                self.notify(text)

    def progress_line(self) -> ProgressLine:
        """A status line on stderr that the command updates."""
        self.stop_waiting()
        from smp_memory.cli.terminal import ProgressLine

        return ProgressLine(self._stderr())

    # -- questions

    @property
    def is_interactive(self) -> bool:
        """Whether a person can be asked: standard input and output are terminals."""
        return sys.stdin.isatty() and self.screen.is_terminal and not self.options.json

    def confirm(self, question: str) -> bool:
        """Ask a person a yes-or-no question; no is the default."""
        self.stop_waiting()
        self.screen.flush()
        sys.stdout.write(f"{question} [y/N] ")
        sys.stdout.flush()
        is_confirmed = sys.stdin.readline().strip().lower() in ("y", "yes")
        self.start_waiting()
        return is_confirmed

    # -- the end

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        if self._memory is not None:
            join_workers(self._memory.store)
            self._memory.store.close()  # without renewing figures, which maintenance does: commands are short
            self._memory = None

    def __enter__(self) -> Invocation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_waiting()
        self.close()
