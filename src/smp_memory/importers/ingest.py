"""Ingest memories from the files of another tool into a session, with their time and origin.

Guarantees
- Importing adds; it deletes nothing and changes no memories of others. Two things follow their file when it is read again:
  a finding that the file marks as done is resolved, and an artifact that mirrors a file gets the new content; the history
  keeps the earlier states.
- Repeating an import adds nothing twice, also with concurrent processes: each memory has an idempotency key made of its file
  and text. A deleted memory stays deleted.
- Each memory has `source`: file, line and tool. What cannot be stored is reported with file and line, and the rest is stored.
- A file is read once, as UTF-8 text, up to a limit; what cannot be read is an `UnreadLine`.
- With `dry_run` nothing is written, not even a session.
Non-guarantees: a moved file or a reworded entry counts as new. An erased memory is no longer known, and is imported again if
its file still has it.
"""

from __future__ import annotations

import os
import stat as modes
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidRecord, SessionExists, SizeLimitExceeded
from smp_memory.model.history import COLD
from smp_memory.model.ids import sha256_hex
from smp_memory.model.session_info import ARCHIVED, LIVE
from smp_memory.model.statuses import is_settled
from smp_memory.model.times import to_moment, to_text
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.store.port import SessionStore

    Reader = Callable[["Source"], list["IngestedMemory"]]


LIMIT_BYTES = 4 << 20
ANYWHERE = "anywhere: "  # prefix of a key that is independent of the file


class IngestedMemory(NamedTuple):
    """A memory found in a file, not stored yet."""

    type: str
    fields: dict[str, Any]
    line: int
    key: str  # identifies the memory when the file is read again
    when: str | None = None  # the time stated in the file
    follows: str = ""  # the field that is updated when the file is read again: `status` or `content`


class UnreadLine(NamedTuple):
    """A line of a file that was not understood."""

    file: str
    line: int
    why: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class Source:
    """A text file of another tool. Readers add lines that they do not understand to `unread`."""

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
            if not modes.S_ISREG(mode):  # opening a pipe would block
                is_link = modes.S_ISLNK(mode)
                self.cannot_read(
                    1, "a symbolic link; only its target is read, where it is" if is_link else "not a plain file"
                )
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


class ImportFile(NamedTuple):
    """A file with memories, and its reader."""

    path: str
    name: str  # relative to the project, with slashes
    reader: Reader
    kind: str


SESSION = "bmad-import"
_BATCH_SIZE = 200  # memories per sync
_BY = "smp import"


class IngestReport:
    """The result of an import: memories added, known and updated, and lines not understood."""

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


def ingest_files(
    memory: Memory,
    files: Iterable[ImportFile],
    tool: str,
    session: str | None = None,
    *,
    project: str | None = None,
    author: str | None = None,
    dry_run: bool = False,
    progress: Callable[[str, int], None] | None = None,
) -> IngestReport:
    """Read the files one by one and add new memories. `progress` gets the file and the number of memories added so far."""
    ingest = _Ingest(memory, tool, session or SESSION, project, author, dry_run)
    for file in files:
        if progress is not None:
            progress(file.name, ingest.report.count)
        ingest.read_file(file)
    ingest.flush()
    ingest.log_import()
    return ingest.report


class _Ingest:
    def __init__(
        self, memory: Memory, tool: str, session: str, project: str | None, author: str | None, dry_run: bool
    ) -> None:
        self.report = IngestReport(session, dry_run)
        self._memory = memory
        self._tool = tool
        self._project = project
        self._author = author
        self._target: SessionMemory | None = None
        self._known: dict[str, Record] = {}
        self._cold: dict[str, str] = {}  # keys of compacted memories, which count as known
        files = self._storage(session)
        if files is not None:
            histories = files.history().histories.values()
            records = [record for history in histories if (record := history.record(session)) is not None]
            self._known = {record.idempotency_key: record for record in records if record.idempotency_key}
            self._cold = files.history(segment=COLD).idempotent
        self._new: set[str] = set()
        self._pending: list[tuple[str, dict[str, Any]]] = []

    def _storage(self, session: str) -> SessionStore | None:
        """The existing session, or None. An archived session is restored, except in a dry run."""
        memory = self._memory
        heads = [each for each in memory.store.sessions(LIVE, ARCHIVED, id=session) if each.has_memories]
        if not heads:
            return None
        if heads[0].state == ARCHIVED and self.report.dry_run:
            return memory.store.session(session, ARCHIVED)
        self._target = memory.session(session, author=self._author)
        return memory.store.session(session)

    def read_file(self, file: ImportFile) -> None:
        source = Source(file.path, file.name)
        found = file.reader(source)
        self.report.unread += source.unread
        if found or source.unread:
            self.report.files[file.name] = len(found)
        times = LineTimes(file.path, self._memory.now())
        seen: dict[str, int] = {}
        for each in found:
            seen[each.key] = nth = seen.get(each.key, 0) + 1
            where = "" if each.key.startswith(ANYWHERE) else file.name
            self._add(each, self._key(where, each.key, 1 if not where else nth), file.name, times)

    def _key(self, name: str, key: str, nth: int) -> str:
        parts = "\0".join((self._tool, name, key, str(nth)))
        return f"{self._tool} {sha256_hex(parts.encode('utf-8', 'surrogatepass'))[:40]}"

    def _add(self, found: IngestedMemory, key: str, name: str, times: LineTimes) -> None:
        if key in self._new:
            return
        known = self._known.get(key)
        if known is not None:
            self.report.known += 1
            self._update_from_file(known, found)
            return
        if key in self._cold:
            self.report.known += 1
            return
        fields = {field: value for field, value in found.fields.items() if value is not None}
        self._new.add(key)
        fields |= {
            "created": to_text(self._time(found, times)),
            "idempotency_key": key,
            "source": {"tool": self._tool, "file": name, "line": found.line, **_state(found)},
        }
        self._pending.append((found.type, fields))
        if len(self._pending) >= _BATCH_SIZE:
            self.flush()

    def _time(self, found: IngestedMemory, times: LineTimes) -> Any:
        """The time of the line in git, else the time stated in the file, else the file's own time; never in the future."""
        now = self._memory.now()
        if found.when is not None and not times.is_known_to_git:
            try:
                return min(to_moment(found.when), now)
            except (ValueError, OverflowError):
                pass
        return times.at(found.line)

    def _update_from_file(self, known: Record, found: IngestedMemory) -> None:
        if known.deleted or not found.follows:
            return
        value = found.fields.get(found.follows)
        if found.follows == "status":
            if value not in KINDS[known.type].settled or is_settled(known):
                return
            if not self.report.dry_run:
                self._session().resolve(known.id, f"{value} in {known.given['source']['file']}", by=_BY)
        else:
            source = {**known.given["source"], **_state(found)}
            if source == known.given["source"]:
                return
            if not self.report.dry_run:
                self._session().update(known.id, by=_BY, **{found.follows: value}, source=source)
        self.report.followed += 1

    def flush(self) -> None:
        """Store the pending memories; rejected ones are reported, the rest is stored."""
        items, self._pending = self._pending, []
        if not items:
            return
        if self.report.dry_run:
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
                if "recalled from memory" not in error.message:  # a recalled digest, quoted in the file
                    self.report.unread.append(
                        UnreadLine(fields["source"]["file"], fields["source"]["line"], error.message)
                    )

    def log_import(self) -> None:
        """Write the import to the audit log."""
        report = self.report
        if report.count and not report.dry_run:
            audit, at = self._memory.store.audit, to_text(self._memory.now())
            audit.note("import", at=at, by=self._author, session=report.session, count=report.count, format=self._tool)

    def _count(self, type: str) -> None:
        self.report.added[type] = self.report.added.get(type, 0) + 1

    def _session(self) -> SessionMemory:
        if self._target is None:
            name = self.report.session
            try:
                self._target = self._memory.create_session(
                    name, project=self._project, tags=[self._tool], author=self._author, imported_from=self._tool
                )
            except SessionExists:  # another process created it meanwhile
                self._target = self._memory.session(name, author=self._author)
        return self._target


def _state(found: IngestedMemory) -> dict[str, str]:
    """The digest of a text that mirrors a file, taken before redaction, to detect changes of the file."""
    if found.follows in ("", "status"):
        return {}
    return {"digest": sha256_hex(str(found.fields[found.follows]).encode("utf-8", "surrogatepass"))[:16]}


# -- times of lines

_GIT_TIMEOUT_SECONDS = 20
_NO_MATCH = 1  # exit code of `git config` if no setting matches


class LineTimes:
    """The times of the lines of one file: from git, else from the file. Looked up on first use.

    Never raises and never waits long; a line that is not committed has the file's time; no time is in the future. Runs only
    `git`, without pagers and hooks; if a repository configures filters, which `git blame` would run, git is not used.
    """

    def __init__(self, path: str, now: datetime) -> None:
        self._path = path
        self._now = now
        self._by_line: dict[int, datetime] | None = None

    def at(self, line: int) -> datetime:
        if self._by_line is None:
            self._by_line = _blame_times(self._path)
        return min(self._by_line.get(line) or self.of_file(), self._now)

    @property
    def is_known_to_git(self) -> bool:
        if self._by_line is None:
            self._by_line = _blame_times(self._path)
        return bool(self._by_line)

    def of_file(self) -> datetime:
        try:
            return min(datetime.fromtimestamp(int(os.stat(self._path).st_mtime), UTC), self._now)
        except (OSError, OverflowError, ValueError):
            return self._now


def _blame_times(path: str) -> dict[int, datetime]:
    folder, name = os.path.split(path)
    if _has_filters(folder):
        return {}
    code, output = _git(folder, "blame", "--no-textconv", "--line-porcelain", "--", name)
    if code:
        return {}
    found: dict[int, datetime] = {}
    line, committed = 0, False
    for text in output.split(b"\n"):
        words = text.split(b" ")
        if len(words) in (3, 4) and len(words[0]) in (40, 64) and words[2].isdigit():
            line, committed = int(words[2]), words[0].strip(b"0") != b""
        elif text.startswith(b"author-time ") and committed:
            try:
                found[line] = datetime.fromtimestamp(int(text[12:]), UTC)
            except (ValueError, OverflowError, OSError):
                continue
    return found


@lru_cache(maxsize=256)
def _has_filters(folder: str) -> bool:
    """Whether the repository itself configures filters, which git would run; True if unknown."""
    code, output = _git(folder, "config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    has_own = any(line.startswith((b"local", b"worktree")) for line in output.splitlines())
    return has_own if code == 0 else code != _NO_MATCH


def _git(folder: str, *arguments: str) -> tuple[int, bytes]:
    """The exit code, -1 if git could not be run, and the output."""
    import subprocess

    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env=environ,
            capture_output=True,
            timeout=_GIT_TIMEOUT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return -1, b""
    return done.returncode, done.stdout
