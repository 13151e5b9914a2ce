"""The session that takes the memories of one conversation or of one importer.

Keys, times, what hooks recorded before, updates from a file that changed, batches: see `smp_memory.importers.ingest`.
"""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, MemoryNotFound, SessionExists, SizeLimitExceeded
from smp_memory.importers.conversations import RecordedTurns, turn_of
from smp_memory.importers.source import ANYWHERE, UnreadLine
from smp_memory.integrations.hooks.session_state import (
    SessionStates,
    name_of_conversation,
    read_state,
    session_digest,
    turn_digest,
    turn_key,
)
from smp_memory.integrations.hooks.transcripts import cut
from smp_memory.model.history import COLD
from smp_memory.model.ids import sha256_hex
from smp_memory.model.session_info import ARCHIVED, LIVE
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_moment, to_text
from smp_memory.model.types import KINDS
from smp_memory.privacy.fence import MARK, strip, without_recalled
from smp_memory.privacy.settings import redactor_of
from smp_memory.write import validation

if TYPE_CHECKING:
    from datetime import datetime

    from smp_memory.importers.import_run import ImportRun
    from smp_memory.importers.source import IngestedMemory, IngestedSession, LineTimes
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.store.port import SessionStore

    _Item = tuple[str, dict[str, Any]]  # type and fields

_BATCH_SIZE = 500  # memories per sync
_BY = "smp import"
_LOCK_SECONDS = 30.0
IN_TRASH = "in the trash; restore or erase it to import it again"


class TargetSession:
    """A session while memories are added to it. It is created with its first memory."""

    def __init__(self, run: ImportRun, session: IngestedSession) -> None:
        self._run = run
        self._memory = run.memory
        self._report = run.report
        self._given = session
        self._names = _existing_names(
            run, session
        )  # sessions with this conversation: one, unless it was doubled before
        self.id = _fullest(run, session, self._names) or session.id
        self._left_out = self._reason_to_leave_out()
        self._is_wanted = False  # whether a memory was found for it
        self._opened: SessionMemory | None = None
        self._known: dict[str, Record] = {}
        self._elsewhere: set[str] = set()  # keys of compacted memories and of other sessions with this conversation
        self._recorded = RecordedTurns()
        self._is_read = False
        self._new = run.new_keys(self.id)
        self._seen: dict[str, int] = {}  # keys of the current file
        self._last: datetime | None = None
        self._pending: list[_Item] = []
        self._rejected: set[str] = set()  # metadata that cannot be stored

    # -- what is found

    def add(self, found: IngestedMemory, file: str, times: LineTimes) -> None:
        self._is_wanted = True
        if self._left_out:
            return
        self._read_known(file)
        key = self._key(found, file)
        if key in self._new:
            return
        if self._is_known(key):
            if key in self._known:
                self._update_from_file(self._known[key], found)
            return
        self._new.add(key)
        at = self._time(found, times)
        fields = {field: value for field, value in found.fields.items() if value is not None}
        if self._given.host:
            fields = self._shortened(fields)
        fields |= {
            "created": to_text(at),
            "idempotency_key": key,
            "source": {"tool": self._run.tool, "file": file, "line": found.line, **_state(found)},
        }
        self._pending.append((found.type, fields))
        if len(self._pending) >= _BATCH_SIZE and not self._recorded:
            self._flush()

    def end_file(self) -> None:
        """Count equal keys anew: the next file may have the same ones."""
        self._seen.clear()

    def finish(self) -> None:
        """Store what is pending, and write the import to the audit log."""
        if self._left_out and self._is_wanted:
            self._report.left_out.append(f"{self.id}: {self._left_out}")
        if self._recorded:
            self._pending = [each for each in self._pending if not self._is_recorded(each[1])]
        self._flush()
        count = self._report.sessions.get(self.id, 0)
        if count and not self._report.dry_run:
            self._memory.store.audit.note(
                "import",
                at=to_text(self._memory.now()),
                by=self._run.author,
                session=self.id,
                count=count,
                sync=not self._given.host,  # hundreds of conversations would wait for as many syncs
                format=self._run.tool,
            )

    def _key(self, found: IngestedMemory, file: str) -> str:
        if self._given.host:
            return turn_key(self._given.host, self._given.host_session, found.key)
        tool, where = self._run.tool, "" if found.key.startswith(ANYWHERE) else file
        self._seen[found.key] = nth = self._seen.get(found.key, 0) + 1
        parts = "\0".join((tool, where, found.key, str(nth if where else 1)))
        return f"{tool} {_digest(parts)[:40]}"

    def _time(self, found: IngestedMemory, times: LineTimes) -> datetime:
        """The time of the line in git, else the time stated in the file, else the time before it, else the file's; never in the future."""
        if not times.is_known_to_git:
            for stated in (found.when, None if self._last else self._given.created):
                moment = _moment(stated)
                if moment is not None:
                    self._last = min(moment, self._memory.now())
                    return self._last
            if self._last is not None and self._given.host:
                return self._last
        return times.at(found.line)

    def _shortened(self, fields: dict[str, Any]) -> dict[str, Any]:
        limit = self._memory.config.content_limit_bytes
        return {name: cut(value, limit) if name in _TEXTS else value for name, value in fields.items()}

    # -- what is known

    def _reason_to_leave_out(self) -> str:
        """Why nothing is imported into it; empty if it is. What was said while recording was off is imported only if its file is named."""
        if self.id in self._run.deleted:
            return IN_TRASH
        if (
            self._given.host
            and not self._run.is_single
            and read_state(self._memory.store.state, self._given.host_session).was_off
        ):
            return "recording was off in it; name its file to import it"
        return ""

    def _read_known(self, file: str) -> None:
        """Read what the session has; turns that came from hooks or from another file may have other keys."""
        if self._is_read:
            return
        self._is_read = True
        storage = self._storage()
        if storage is not None:
            self._note_known(storage, self.id, file)
        for name in self._names:
            state = next((each.state for each in self._memory.store.sessions(LIVE, ARCHIVED, id=name)), "")
            if state and name != self.id:
                self._note_known(self._memory.store.session(name, state), name, file)

    def _note_known(self, storage: SessionStore, name: str, file: str) -> None:
        for history in storage.history().histories.values():
            record = history.record(name)
            if record is None:
                continue
            if record.idempotency_key and name == self.id:
                self._known[record.idempotency_key] = record
            elif record.idempotency_key:
                self._elsewhere.add(record.idempotency_key)
            if self._given.host and _file_of(record) != file:
                self._recorded.add(record)
        self._elsewhere.update(storage.history(segment=COLD).idempotent)

    def _is_known(self, key: str) -> bool:
        """Whether a memory was imported or recorded under this key; it is counted."""
        known = self._known.get(key)
        if known is None and key not in self._elsewhere:
            return False
        self._report.known += 1
        self._recorded.discard(known)
        return True

    def _storage(self) -> SessionStore | None:
        """The existing session, or None. An archived session is restored, except in a dry run."""
        memory = self._memory
        heads = [each for each in memory.store.sessions(LIVE, ARCHIVED, id=self.id) if each.has_memories]
        if not heads:
            return None
        if heads[0].state == ARCHIVED and self._report.dry_run:
            return memory.store.session(self.id, ARCHIVED)
        self._opened = memory.session(self.id, author=self._author)
        return memory.store.session(self.id)

    def _is_recorded(self, fields: dict[str, Any]) -> bool:
        """Whether hooks recorded this turn under another key."""
        redactor = redactor_of(self._memory.config)
        role, text = turn_of(fields)
        if redactor is not None:
            text = redactor.redact(text)[0]
        is_recorded = self._recorded.take(turn_digest(role, text), to_moment(fields["created"]))
        self._report.known += is_recorded
        return is_recorded

    def _update_from_file(self, known: Record, found: IngestedMemory) -> None:
        """Carry over what changed in the file since: that a finding is settled there, or the text that a memory mirrors."""
        if known.deleted or not found.follows:
            return
        source = {**known.given["source"], **_state(found)}
        if found.follows == "status":
            is_changed = found.fields.get("status") in KINDS[known.type].settled and not is_settled(known)
        else:
            is_changed = source != known.given["source"]
        if not is_changed:
            return
        try:
            if not self._report.dry_run:
                self._carry_over(known, found, source)
            self._report.followed += 1
        except MemoryNotFound:  # another process deleted it meanwhile
            pass
        except (InvalidRecord, SizeLimitExceeded) as error:
            self._report.unread.append(UnreadLine(source["file"], found.line, error.message))

    def _carry_over(self, known: Record, found: IngestedMemory, source: dict[str, Any]) -> None:
        if found.follows == "status":
            self._session().resolve(known.id, f"{found.fields['status']} in {source['file']}", by=_BY)
            return
        changed = {name: value for name, value in found.fields.items() if value is not None and name != "id"}
        if known.type != found.type:  # the tool calls it something else now
            changed = {KINDS[known.type].text: found.fields[found.follows]}
        self._session().update(known.id, by=_BY, **changed, source=source)

    # -- storing

    def _flush(self) -> None:
        """Store the pending memories; rejected ones are reported, the rest is stored."""
        items, self._pending = self._pending, []
        if items and self._report.dry_run:
            items = [item for item in items if self._is_accepted(item)]
            if items and self._opened is None:
                self._metadata(items[0])
            self._count(items)
            return
        if items and self._opened is None:
            items = self._created_for(items)
        if not items or self._opened is None:
            return
        self._run.before_write()
        try:
            self._opened.add_many(items)
        except (InvalidRecord, SizeLimitExceeded):
            for item in items:
                self._add_one(self._opened, item)
        else:
            self._count(items)

    def _created_for(self, items: list[_Item]) -> list[_Item]:
        """Open or create the session, and return what is to be stored in it. If all is rejected or known by now, none is created."""
        items = list(dropwhile(lambda item: not self._is_accepted(item), items))
        if not items:
            return []
        self._run.before_write()
        if not self._given.host:
            self._session(items[0])
            return items
        with SessionStates(self._memory.store.state, _LOCK_SECONDS):  # hooks create sessions of conversations under it
            items = self._not_recorded_meanwhile(items)
            if items:
                self._session(items[0])
        return items

    def _not_recorded_meanwhile(self, items: list[_Item]) -> list[_Item]:
        """The items without what hooks recorded since this import listed the sessions."""
        host, host_session = self._given.host, self._given.host_session
        days = {to_text(self._run.began)[:10], to_text(self._memory.now())[:10]}
        names = [self.id, read_state(self._memory.store.state, host_session).session]
        names += [name_of_conversation(host, host_session, day) for day in sorted(days)]
        found = [name for name in dict.fromkeys(names) if name and self._memory.store.sessions(LIVE, ARCHIVED, id=name)]
        if not found:
            return items
        self._names = list(dict.fromkeys([*self._names, *found]))
        self.id = _fullest(self._run, self._given, self._names) or self.id
        self._is_read = False
        self._read_known(items[0][1]["source"]["file"])
        kept = [item for item in items if not self._is_known(item[1]["idempotency_key"])]
        return [item for item in kept if not (self._recorded and self._is_recorded(item[1]))]

    def _is_accepted(self, item: _Item) -> bool:
        """Whether a store takes a memory; one that it rejects is reported."""
        kind = KINDS[item[0]]
        try:
            without_recalled(kind, validation.draft(kind, item[1], self._memory.config.content_limit_bytes).data)
        except (InvalidRecord, SizeLimitExceeded) as error:
            self._reject(item, error)
            return False
        return True

    def _add_one(self, session: SessionMemory, item: _Item) -> None:
        try:
            session.add(*item)
            self._count([item])
        except (InvalidRecord, SizeLimitExceeded) as error:
            if "field" not in error.details:
                raise  # the session is full
            self._reject(item, error)

    def _reject(self, item: _Item, error: InvalidRecord | SizeLimitExceeded) -> None:
        if "recalled from memory" in error.message:  # a recalled digest, quoted in the file
            self._report.fenced += 1
        else:
            self._cannot_read(item, error.message)

    def _cannot_read(self, item: _Item, why: str) -> None:
        source = item[1]["source"]
        self._report.unread.append(UnreadLine(source["file"], source["line"], why))

    def _count(self, items: list[_Item]) -> None:
        report = self._report
        if not items:
            return
        for type, fields in items:
            report.added[type] = report.added.get(type, 0) + 1
            report.fenced += _has_recalled(fields.get(KINDS[type].text))
        report.sessions[self.id] = report.sessions.get(self.id, 0) + len(items)
        self._run.note_name(self.id)

    @property
    def _author(self) -> str | None:
        return self._given.host or self._run.author

    def _session(self, first: _Item | None = None) -> SessionMemory:
        """The session, created if there is none; `first` is the memory that it is created for."""
        self._run.before_write()
        if self._opened is None:
            try:
                self._opened = self._memory.create_session(
                    self.id,
                    tags=[self._run.tool],
                    author=self._author,
                    created=self._created(),
                    config=None if self._run.proposals else {"proposals.enabled": False},
                    imported_from=self._run.tool,
                    **self._metadata(first),
                )
                self._report.new_sessions.append(self.id)
            except SessionExists:  # another process created it meanwhile
                self._opened = self._memory.session(self.id, author=self._author)
        return self._opened

    def _metadata(self, first: _Item | None) -> dict[str, Any]:
        """What is known about the session. What a store rejects is left out, and reported with the line of the first memory."""
        given = self._given
        wanted: dict[str, Any] = {"user": given.user, "project": given.project, "agents": list(given.agents)}
        wanted |= {"title": given.title, "host": given.host, "host_session": given.host_session, **given.context}
        usable = {}
        for name, value in wanted.items():
            try:
                if value:
                    _check_metadata(name, value)
                    usable[name] = value
            except (InvalidRecord, SizeLimitExceeded) as error:
                if first is not None and name not in self._rejected:
                    self._rejected.add(name)
                    self._cannot_read(first, f"{name} of the session {self.id}, left out: {error.message}")
        return usable

    def _created(self) -> str | None:
        moment = _moment(self._given.created)
        return None if moment is None else to_text(min(moment, self._memory.now()))


_TEXTS = ("content", "summary")


def _file_of(record: Record) -> Any:
    """The file that a memory was imported from; None if it was written in another way."""
    source = record.given.get("source")
    return source.get("file") if isinstance(source, dict) else None


def _existing_names(run: ImportRun, session: IngestedSession) -> list[str]:
    """The sessions in which hooks or earlier imports recorded the same conversation, in every state."""
    if not session.host:
        return []
    names = run.names_ending_in(session_digest(session.host_session))
    return [name for name in names if name.startswith(session.host + "-")]


def _fullest(run: ImportRun, session: IngestedSession, names: list[str]) -> str:
    """The session that continues a conversation: of several the one of this host's id that has the most memories; empty if there is none."""
    if len(names) < 2:
        return "".join(names)
    counts: dict[str, tuple[bool, int, str]] = {}
    for name in names:
        for head in run.memory.store.sessions(LIVE, ARCHIVED, id=name):
            storage = run.memory.store.session(name, head.state)
            is_named = storage.info().context.get("host_session") == session.host_session
            counts[name] = is_named, len(storage.history().histories), name
    return max(counts or names, key=lambda name: counts.get(name, (False, 0, name)))


def _has_recalled(text: Any) -> bool:
    """Whether a text quotes what SMP recalled, which is not stored again."""
    return isinstance(text, str) and MARK in text and strip(text) != text


def _check_metadata(name: str, value: Any) -> None:
    fields: dict[str, Any] = {"user": None, "agents": (), "project": None, "tags": (), "context": {}}
    validation.session_fields(**fields | ({name: value} if name in fields else {"context": {name: value}}))


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else to_moment(text)
    except (ValueError, OverflowError):
        return None


def _digest(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "surrogatepass"))


def _state(found: IngestedMemory) -> dict[str, str]:
    """The digest of a text that mirrors a file, taken before redaction, to detect changes of the file."""
    if found.follows in ("", "status"):
        return {}
    return {"digest": _digest(str(found.fields[found.follows]))[:16]}
