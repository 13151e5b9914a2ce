"""One call of a command: what was asked, of which store and session, and where the answer goes."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import Screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Any

    from smp_memory.cli.progress import Waiting
    from smp_memory.errors import MemoryNotFound
    from smp_memory.memory import Memory
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory


def notices(record: Record) -> list[str]:
    """What the writer of a memory should know, each in a line."""
    from smp_memory.privacy.settings import redaction_notice

    taken_out = redaction_notice(record.redacted)
    return [
        *([f"{record.id}: {taken_out}"] if taken_out else []),
        *(f"{record.id}: {text}" for text in record.warnings),
    ]


class Call:
    """Options as argparse left them; the store is opened when it is first used and closed at the end."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.screen = Screen(sys.stdout, may_color=not options.no_color)
        self._memory: Memory | None = None
        self._default_session: str | None = None
        self.tells_of_trust = True

    # -- the store

    @property
    def root(self) -> str | None:
        """The store's folder if one was named."""
        return self.options.root or os.environ.get("SMP_ROOT") or None

    @property
    def memory(self) -> Memory:
        """The store, which must be there: a mistyped folder must not become a new one."""
        if self._memory is None:
            from smp_memory.memory import open_memory
            from smp_memory.store import incomplete

            incomplete.caller_tells = True
            incomplete.take_met()
            self._memory = open_memory(self.root, create=False)
            self._tell_of_trust(self._memory)
        return self._memory

    def _tell_of_trust(self, memory: Memory) -> None:
        """Say once that hooks do not use a store that came with the folder."""
        if self.tells_of_trust and not memory.is_trusted and not memory.was_told_of_trust():
            self.remark(
                "This store is new to you, so hooks neither recall from it nor record to it. "
                "If it is yours or your team's, say so once: smp trust"
            )

    def use(self, memory: Memory) -> None:
        """From now on it is this store; the other one is closed."""
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
        """The session with this name, else the one asked for, else the one written last, else (`create`) a new one."""
        name = name or self.session_name or self._latest_session()
        if name is not None:
            return self.memory.session(name, author=self.author)
        if not create:
            from smp_memory.errors import SessionNotFound

            raise SessionNotFound(self.without_sessions())
        session = self.memory.create_session(author=self.author)
        self.remark(f"No session was in use; this starts {session.id}.")
        return session

    def without_sessions(self) -> str:
        """What to say of a store in which no session is in use: whoever comes back after weeks finds them archived."""
        away = self.memory.archived_sessions()
        if away:
            last = max(away, key=lambda each: str(each.when or "")).session
            many = "1 session is" if len(away) == 1 else f"{len(away):,} sessions are"
            return f"{many} archived in {self.memory.root}, none is in use. Bring the last one back: smp session restore {last}"
        return f"There is no session in {self.memory.root} yet. Start one: smp session new"

    def _latest_session(self) -> str | None:
        """Looked up once: another process may write to another session while this command is at work."""
        if self._default_session is None:
            from smp_memory.current_session import current_session

            self._default_session = current_session(self.memory)
        return self._default_session

    def place(self, reference: str) -> tuple[SessionMemory, str]:
        """The session and the id of a memory: `ID`, or `session/ID` for one of another session."""
        name, slash, memory_id = reference.rpartition("/")
        return (self.session(name), memory_id) if slash and name else (self.session(), reference)

    def record(self, reference: str, *, include_deleted: bool = False) -> Record:
        """The memory that is meant, `ID` or `session/ID`; it must be there."""
        session, memory_id = self.place(reference)
        history = self.history(session, memory_id)
        record = history.record(session.id) if history is not None else None
        if not include_deleted and (record is None or record.deleted):
            record = session.get(memory_id)  # says why not
        if record is None:
            raise session.missing(memory_id)
        return record

    def with_hint(self, error: MemoryNotFound) -> MemoryNotFound:
        """What to say of a memory that is not there; if no session was named and another one has such a memory, which."""
        memory_id, session = error.details.get("id"), error.details.get("session")
        told = type(error)(error.message, **error.details)
        if not isinstance(memory_id, str) or session is None or session != self._default_session:
            return told
        store = self.memory.store
        others = [name for name in store.session_ids() if name != session]
        having = store.indexer.answer(None, lambda finder: [name for name in others if finder.row(name, memory_id)])
        if not having:
            return told
        where = f"Session {having[0]} has" if len(having) == 1 else f"{len(having):,} other sessions have"
        return type(error)(f"{error.message} {where} one: {having[0]}/{memory_id}", **error.details)

    def history(self, session: SessionMemory, memory_id: str) -> RecordHistory | None:
        """All that happened to a memory; a large session is not read for it."""
        from smp_memory.store.history_lookup import history_of

        return history_of(self.memory.store.session(session.id), memory_id)

    # -- who is asked

    @property
    def asked(self) -> Memory | SessionMemory:
        """The session that was named, else the whole store."""
        return self.memory if self.options.all or self.session_name is None else self.session()

    @property
    def is_one_session(self) -> bool:
        """Whether an id says it all, without its session."""
        return self.asked is not self.memory or len(self.memory.store.session_ids()) == 1

    # -- the answer

    def answer(self, data: Any, lines: Iterable[str]) -> None:
        """Print the data as JSON, or the lines, which are not made if nobody wants them."""
        if self.options.json:
            self.screen.json(data)
            return
        for line in lines:
            self.screen.line(line)

    def written(self, record: Record, line: str) -> None:
        """Answer that a memory is written, with what its writer should know: redaction, warnings."""
        data = record.to_dict()
        if record.warnings:
            data.setdefault("warnings", list(record.warnings))
        if record.redacted:
            data.setdefault("redacted", record.redacted)
        self.answer(data, [line])
        for text in notices(record):
            self.remark(text)

    def remark_redacted(self, what: str, kinds: dict[str, int] | None) -> None:
        """Say what redaction took out of something that is not a memory."""
        if kinds:
            from smp_memory.privacy.settings import redaction_notice

            self.remark(f"{what}: {redaction_notice(kinds)}")

    def remark(self, text: str) -> None:
        """Something that a person should know and a program need not."""
        Screen(sys.stderr, may_color=not self.options.no_color).line(text)

    def tell_of_unreadable(self) -> None:
        """Say on stderr, in one line, that entries of the files could not be read."""
        if self._memory is not None:
            from smp_memory.store import incomplete

            problems = incomplete.take_met()
            if problems:
                self.remark(incomplete.told(problems))
            self.tell_of_other_layouts()

    def tell_of_other_layouts(self) -> None:
        """Say on stderr, in one line, that there are sessions in another layout, which nobody reads."""
        if self._memory is not None:
            from smp_memory.store.foreign_layouts import told

            text = told(self._memory.store)
            if text:
                self.remark(text)

    def waiting(self, text: str) -> Waiting:
        """A block that may take long, and what a person reads meanwhile."""
        from smp_memory.cli.progress import Waiting

        return Waiting(Screen(sys.stderr, may_color=not self.options.no_color), text)

    # -- the end

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
