"""The session that takes the memories of one conversation or of one importer.

Keys, times, what hooks recorded before, updates from a file that changed, batches: see `smp_memory.importers.ingest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, MemoryNotFound, SessionExists, SizeLimitExceeded
from smp_memory.importers.source import ANYWHERE, UnreadLine
from smp_memory.integrations.hooks.session_state import (
    find_session_name,
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
from smp_memory.privacy.settings import redactor_of

if TYPE_CHECKING:
    from datetime import datetime

    from smp_memory.importers.import_run import ImportRun
    from smp_memory.importers.line_times import LineTimes
    from smp_memory.importers.source import IngestedMemory, IngestedSession
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.store.port import SessionStore

_BATCH_SIZE = 500  # memories per sync
_BY = "smp import"


class TargetSession:
    """A session while memories are added to it. It is created with its first memory."""

    def __init__(self, run: ImportRun, session: IngestedSession) -> None:
        self._run = run
        self._memory = run.memory
        self._report = run.report
        self._given = session
        self.id = _existing_name(run, session) or session.id
        self._left_out = self._reason_to_leave_out()
        self._opened: SessionMemory | None = None
        self._known: dict[str, Record] = {}
        self._cold: dict[str, str] = {}  # keys of compacted memories, which count as known
        self._recorded = _Recorded()
        self._is_read = False
        self._new = run.new_keys(self.id)
        self._seen: dict[str, int] = {}  # keys of the current file
        self._last: datetime | None = None
        self._pending: list[tuple[str, dict[str, Any]]] = []

    # -- what is found

    def add(self, found: IngestedMemory, file: str, times: LineTimes) -> None:
        if self._left_out:
            return
        self._read_known(file)
        key = self._key(found, file)
        if key in self._new:
            return
        known = self._known.get(key)
        if known is not None or key in self._cold:
            self._report.known += 1
            self._recorded.discard(known)
            if known is not None:
                self._update_from_file(known, found)
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
        if self._left_out:
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
        """Why a conversation is not imported; empty if it is. What was said while recording was off is imported only if its file is named."""
        if not self._given.host:
            return ""
        if self.id in self._run.deleted:
            return "in the trash; restore or erase it to import it again"
        if not self._run.is_single and read_state(self._memory.store.state, self._given.host_session).was_off:
            return "recording was off in it; name its file to import it"
        return ""

    def _read_known(self, file: str) -> None:
        """Read what the session has; turns that came from hooks or from another file may have other keys."""
        if self._is_read:
            return
        self._is_read = True
        storage = self._storage()
        if storage is None:
            return
        for history in storage.history().histories.values():
            record = history.record(self.id)
            if record is not None:
                if record.idempotency_key:
                    self._known[record.idempotency_key] = record
                if self._given.host and _file_of(record) != file:
                    self._recorded.add(record)
        self._cold = storage.history(segment=COLD).idempotent

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
        role, text = _turn(fields)
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
        if not items:
            return
        if self._report.dry_run:
            self._count(items)
            return
        session = self._session()
        try:
            session.add_many(items)
        except (InvalidRecord, SizeLimitExceeded):
            for item in items:
                self._add_one(session, item)
        else:
            self._count(items)

    def _add_one(self, session: SessionMemory, item: tuple[str, dict[str, Any]]) -> None:
        try:
            session.add(*item)
            self._count([item])
        except (InvalidRecord, SizeLimitExceeded) as error:
            if "field" not in error.details:
                raise  # the session is full
            if "recalled from memory" not in error.message:  # a recalled digest, quoted in the file
                source = item[1]["source"]
                self._report.unread.append(UnreadLine(source["file"], source["line"], error.message))

    def _count(self, items: list[tuple[str, dict[str, Any]]]) -> None:
        report = self._report
        for type, _ in items:
            report.added[type] = report.added.get(type, 0) + 1
        report.sessions[self.id] = report.sessions.get(self.id, 0) + len(items)
        self._run.note_name(self.id)

    @property
    def _author(self) -> str | None:
        return self._given.host or self._run.author

    def _session(self) -> SessionMemory:
        self._run.before_write()
        if self._opened is None:
            given = self._given
            context: dict[str, Any] = {"title": given.title, "host": given.host, "host_session": given.host_session}
            context = {name: value for name, value in context.items() if value} | given.context
            try:
                self._opened = self._memory.create_session(
                    self.id,
                    user=given.user,
                    agents=given.agents,
                    project=given.project or None,
                    tags=[self._run.tool],
                    author=self._author,
                    created=self._created(),
                    config=None if self._run.proposals else {"proposals.enabled": False},
                    imported_from=self._run.tool,
                    **context,
                )
                self._report.new_sessions.append(self.id)
            except SessionExists:  # another process created it meanwhile
                self._opened = self._memory.session(self.id, author=self._author)
        return self._opened

    def _created(self) -> str | None:
        moment = _moment(self._given.created)
        return None if moment is None else to_text(min(moment, self._memory.now()))


_TEXTS = ("content", "summary")


class _Recorded:
    """Turns that hooks recorded in a session, by the digest of their text, until they are found in the transcript."""

    def __init__(self) -> None:
        self._by_digest: dict[str, list[Record]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_digest)

    def add(self, record: Record) -> None:
        role, text = _turn(record.given)
        if text:
            self._by_digest.setdefault(turn_digest(role, text), []).append(record)

    def discard(self, record: Record | None) -> None:
        """Remove a turn that was found by its key."""
        if record is not None and self._by_digest:
            digest = turn_digest(*_turn(record.given))
            left = [each for each in self._by_digest.pop(digest, []) if each.id != record.id]
            if left:
                self._by_digest[digest] = left

    def take(self, digest: str, at: datetime) -> bool:
        """Remove the turn of this text that is next in time. False: there is none."""
        found = self._by_digest.get(digest)
        if not found:
            return False
        found.remove(min(found, key=lambda each: abs(each.created - at)))
        return True


def _file_of(record: Record) -> Any:
    """The file that a memory was imported from; None if it was written in another way."""
    source = record.given.get("source")
    return source.get("file") if isinstance(source, dict) else None


def _turn(fields: Any) -> tuple[str, str]:
    """The role and the text of a turn or a summary; an empty text for any other memory."""
    role = fields.get("role", "summary")
    return str(role), str(fields.get("content") or fields.get("summary") or "")


def _existing_name(run: ImportRun, session: IngestedSession) -> str:
    """The session in which hooks or an earlier import recorded the same conversation; empty if there is none."""
    if not session.host:
        return ""
    names = run.names_ending_in(session_digest(session.host_session))
    return find_session_name(session.host, session.host_session, names)


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
