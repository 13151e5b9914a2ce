"""How does what was found come into a session? What is not there yet is added, with its time and where it comes from.

Guarantees
- Importing adds; it deletes nothing and changes nothing that others wrote. Two things follow their file when it is read
  again: what it says is done is resolved, and an artifact that mirrors a file gets its new content. History keeps the rest.
- Running it twice adds nothing twice, also when many processes do it at once: each memory has an idempotency key made of its
  file and what it says. What was deleted meanwhile stays deleted.
- Each memory has `source`: file, line and tool. What cannot be stored is named with file and line, and the rest goes on.
- With `dry_run` nothing is written, not even a session.
Non-guarantees: a file that was moved or an entry that was reworded counts as new. What was erased is no longer known, and
comes again if its file still says it.

What did a file say? A memory before it is stored, and what could not be understood. Values, and reading a file.

Guarantees: a file is read once, as UTF-8 text, up to a limit; what cannot be read is an `Unread` with its line.
"""

from __future__ import annotations

import os
import stat as modes
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidRecord, SessionExists, SizeLimitExceeded
from smp_memory.files.sha256 import sha256_hex
from smp_memory.importers.markdown_items import LineTimes
from smp_memory.model.times import to_moment, to_text
from smp_memory.policies.statuses import SETTLED, is_settled
from smp_memory.store.archive_copy import of_archive
from smp_memory.store.cold_storage import cold_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.importers.bmad_files import Holder
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.store.file_session import FileSession

    Reader = Callable[["Source"], list["IngestedMemory"]]


LIMIT_BYTES = 4 << 20
ANYWHERE = "anywhere: "  # how a key begins that is the same in whatever file it stands


class IngestedMemory(NamedTuple):
    """A memory that a file speaks of."""

    type: str
    fields: dict[str, Any]
    line: int
    key: str  # what makes it the same memory when the file is read again
    when: str | None = None  # a time that the file itself gives
    follows: str = ""  # a field that follows the file when it is read again: `status` or `content`


class UnreadLine(NamedTuple):
    """A place in a file that was not understood."""

    file: str
    line: int
    why: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class Source:
    """A text file of another tool. Readers note in `unread` what they do not understand."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name  # relative to the project, with slashes
        self.unread: list[UnreadLine] = []
        self.text = self._read()
        self.lines = self.text.splitlines()

    def cannot_read(self, line: int, why: str) -> None:
        self.unread.append(UnreadLine(self.name, line, why))

    def _read(self) -> str:
        try:
            mode = os.lstat(self.path).st_mode
            if not modes.S_ISREG(mode):  # a pipe would be waited for
                is_link = modes.S_ISLNK(mode)
                self.cannot_read(1, "a link; the file itself is read where it is" if is_link else "not a plain file")
                return ""
            with open(self.path, "rb") as file:
                data = file.read(LIMIT_BYTES + 1)
        except OSError as error:
            self.cannot_read(1, f"cannot be read: {error.strerror}")
            return ""
        if len(data) > LIMIT_BYTES:
            self.cannot_read(1, f"larger than {LIMIT_BYTES:,} bytes")
            return ""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.cannot_read(data.count(b"\n", 0, error.start) + 1, "not UTF-8 text")
            return ""


SESSION = "bmad-import"
_AT_ONCE = 200  # memories for each sync
_BY = "smp import"


class IngestReport:
    """What came in, what was there already, and what was not understood."""

    def __init__(self, session: str, dry_run: bool) -> None:
        self.session = session
        self.dry_run = dry_run
        self.added: dict[str, int] = {}
        self.known = 0
        self.followed = 0
        self.files: dict[str, int] = {}
        self.unread: list[UnreadLine] = []

    @property
    def count(self) -> int:
        return sum(self.added.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "session": self.session,
            "dry_run": self.dry_run,
            "added": self.added,
            "known": self.known,
            "followed": self.followed,
            "files": self.files,
            "not_understood": [each.to_dict() for each in self.unread],
        }


def take_in(
    memory: Memory,
    holders: Iterable[Holder],
    tool: str,
    session: str | None = None,
    *,
    project: str | None = None,
    author: str | None = None,
    dry_run: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> IngestReport:
    """Read the files one by one and add what is new. `progress` gets the file and how many memories came in so far."""
    taking = _Taking(memory, tool, session or SESSION, project, author, dry_run)
    for holder in holders:
        if progress is not None:
            progress(holder.name, taking.taken.count)
        taking.file(holder)
    taking.flush()
    taking.note()
    return taking.taken


class _Taking:
    def __init__(
        self, memory: Memory, tool: str, session: str, project: str | None, author: str | None, dry_run: bool
    ) -> None:
        self.taken = IngestReport(session, dry_run)
        self._memory = memory
        self._tool = tool
        self._project = project
        self._author = author
        self._into: SessionMemory | None = None
        self._known: dict[str, Record] = {}
        self._cold: dict[str, str] = {}  # keys of what was compacted: it is known, and stays where it is
        files = self._files(session)
        if files is not None:
            histories = files.view(lambda session_history: list(session_history.histories.values()))
            records = [record for history in histories if (record := history.record(session)) is not None]
            self._known = {record.idempotency_key: record for record in records if record.idempotency_key}
            self._cold = cold_history(files).idempotent
        self._new: set[str] = set()
        self._waiting: list[tuple[str, dict[str, Any]]] = []

    def _files(self, session: str) -> FileSession | None:
        """What is there already. A session that is archived comes back, unless nothing is to be written."""
        memory = self._memory
        archived = next((away.path for away in memory.archived_sessions() if away.session == session), None)
        if session not in memory.store.session_ids() and archived is None:
            return None
        if archived is not None and self.taken.dry_run:
            return of_archive(memory.store, archived, session).files
        self._into = memory.session(session, author=self._author)
        return memory.store.session(session)

    def file(self, holder: Holder) -> None:
        source = Source(holder.path, holder.name)
        found = holder.reader(source)
        self.taken.unread += source.unread
        if found or source.unread:
            self.taken.files[holder.name] = len(found)
        times = LineTimes(holder.path, self._memory.now())
        seen: dict[str, int] = {}
        for each in found:
            seen[each.key] = nth = seen.get(each.key, 0) + 1
            where = "" if each.key.startswith(ANYWHERE) else holder.name
            self._take(each, self._key(where, each.key, 1 if not where else nth), holder.name, times)

    def _key(self, name: str, said: str, nth: int) -> str:
        parts = "\0".join((self._tool, name, said, str(nth)))
        return f"{self._tool} {sha256_hex(parts.encode('utf-8', 'surrogatepass'))[:40]}"

    def _take(self, found: IngestedMemory, key: str, name: str, times: LineTimes) -> None:
        if key in self._new:
            return
        known = self._known.get(key)
        if known is not None:
            self.taken.known += 1
            self._follow(known, found)
            return
        if key in self._cold:
            self.taken.known += 1
            return
        fields = {field: value for field, value in found.fields.items() if value is not None}
        self._new.add(key)
        fields |= {
            "created": to_text(self._time(found, times)),
            "idempotency_key": key,
            "source": {"tool": self._tool, "file": name, "line": found.line, **_state(found)},
        }
        self._waiting.append((found.type, fields))
        if len(self._waiting) >= _AT_ONCE:
            self.flush()

    def _time(self, found: IngestedMemory, times: LineTimes) -> Any:
        """What git knows of the line, else what the file says, else the file's own time; never the future."""
        now = self._memory.now()
        if found.when is not None and not times.is_known_to_git:
            try:
                return min(to_moment(found.when), now)
            except (ValueError, OverflowError):
                pass
        return times.at(found.line)

    def _follow(self, known: Record, found: IngestedMemory) -> None:
        if known.deleted or not found.follows:
            return
        said = found.fields.get(found.follows)
        if found.follows == "status":
            if said not in SETTLED or is_settled(known):
                return
            if not self.taken.dry_run:
                self._session().resolve(known.id, f"{said} in {known.given['source']['file']}", by=_BY)
        else:
            source = {**known.given["source"], **_state(found)}
            if source == known.given["source"]:
                return
            if not self.taken.dry_run:
                self._session().update(known.id, by=_BY, **{found.follows: said}, source=source)
        self.taken.followed += 1

    def flush(self) -> None:
        """Store what waits; what is refused is named, and the rest is stored without it."""
        items, self._waiting = self._waiting, []
        if not items:
            return
        if self.taken.dry_run:
            for type, _ in items:
                self._count(type)
            return
        session = self._session()
        try:
            session.add_many(items)
            for type, _ in items:
                self._count(type)
            return
        except (InvalidRecord, SizeLimitExceeded):
            pass
        for type, fields in items:
            try:
                session.add(type, fields)
                self._count(type)
            except (InvalidRecord, SizeLimitExceeded) as error:
                if "field" not in error.details:
                    raise  # the session is full
                if "recalled from memory" not in error.message:  # our own digest, quoted somewhere
                    self.taken.unread.append(
                        UnreadLine(fields["source"]["file"], fields["source"]["line"], error.message)
                    )

    def note(self) -> None:
        """In the audit log, as every import."""
        taken = self.taken
        if taken.count and not taken.dry_run:
            audit, at = self._memory.store.audit, to_text(self._memory.now())
            audit.note("import", at=at, by=self._author, session=taken.session, count=taken.count, format=self._tool)

    def _count(self, type: str) -> None:
        self.taken.added[type] = self.taken.added.get(type, 0) + 1

    def _session(self) -> SessionMemory:
        if self._into is None:
            name = self.taken.session
            try:
                self._into = self._memory.create_session(
                    name, project=self._project, tags=[self._tool], author=self._author, imported_from=self._tool
                )
            except SessionExists:  # another process was quicker
                self._into = self._memory.session(name, author=self._author)
        return self._into


def _state(found: IngestedMemory) -> dict[str, str]:
    """Of a text that mirrors a file: what it was, whatever is taken out of it when it is stored."""
    if found.follows in ("", "status"):
        return {}
    return {"digest": sha256_hex(str(found.fields[found.follows]).encode("utf-8", "surrogatepass"))[:16]}
