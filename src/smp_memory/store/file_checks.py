"""Health checks that only a store in files has, and the registry of them: `CHECKS` and `FIXES`.

In this module: settings, format, other layouts, unknown files, archives, shared files, locks.

    configuration  `config.json` and the sessions' own settings can be used
    format         sessions that were written by hand, by another program or by an older SMP
    layouts        no session has files in another layout than the store's, which nothing reads
    unread         files in a session's folder that SMP does not read: a person may believe that their text is remembered
    archives       every byte of every archive is read and compared with its manifest; nothing is unpacked
    shared         the files for all sessions (`smp_memory.store.shared_files`) can be read
    locks          The kernel releases a lock when its holder dies. A lock held for long belongs to a process that hangs or
                   does something large; if the process named in it is gone, a child of that process holds it.

Guarantees: nothing is written. Whether a lock is held is found out by trying it and releasing it at once.
Non-guarantees: a writer that does not wait at all (`concurrency.lock_timeout_ms` 0) may meet a lock while it is tried.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SMPError
from smp_memory.files.archive import read_archive
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.layouts import NAMES, layout_named, unread_sessions
from smp_memory.files.layouts.layout import OVERVIEWS, PRIVATE
from smp_memory.files.lock import HOLDER_BYTES
from smp_memory.health.examination import NOTE, NOTHING_TO_DO, PROBLEM, WARNING, Check, HealthIssue, counted, named
from smp_memory.model import ids
from smp_memory.model.session_info import FORMAT, GLOBAL_SESSION
from smp_memory.model.storage_reports import unread_advice
from smp_memory.model.times import to_moment
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.archive_names import foreign_summaries
from smp_memory.store.file_examination import CONFIGURATION, FileExamination
from smp_memory.store.file_leftovers import AccessRightsCheck, LeftoversCheck, recover, restrict_permissions
from smp_memory.store.index_check import IndexCheck, rebuild_index
from smp_memory.store.shared_files import unreadable_shared
from smp_memory.store.tidy import foreign_record, record_path, recorded_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from smp_memory.files.system import System
    from smp_memory.store.file_examination import FileSessionExamination


class ConfigurationCheck(Check):
    name = CONFIGURATION
    title = "all settings can be used"
    failed = "some settings cannot be used"
    fails_from = WARNING

    def session(self, session: FileSessionExamination) -> Iterator[HealthIssue]:
        yield from session.config_issues()

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        yield from subject.config_issues
        if subject.is_too_new:
            self.failed = "the store has a newer format"
        if subject.stored_config is None and not subject.config_issues and subject.session_ids():
            message = "There is no config.json; the layout was detected from the files. Opening the store creates one."
            yield HealthIssue(self.name, NOTE, message, path=subject.config_path)


class FormatCheck(Check):
    name = "format"
    title = "all sessions have the current format"
    failed = "some sessions have an older format"

    def __init__(self) -> None:
        self._older: list[str] = []

    def session(self, session: FileSessionExamination) -> Iterator[HealthIssue]:
        info, layout = session.info, session.subject.store.layout
        has_metadata = not layout.info_file or session.subject.disk.exists(session.metadata_path)
        if info is not None and (info.format < FORMAT or not has_metadata):
            self._older.append(session.id)
        yield from ()

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        self.summary = f"format {FORMAT}"
        live = set(subject.session_ids())
        self._older = [name for name in self._older if name in live]  # without those archived meanwhile
        if self._older:
            count = len(self._older)
            yield HealthIssue(
                self.name,
                NOTE,
                f"{count:,} {'session was' if count == 1 else 'sessions were'} written by hand, by another program or by an older SMP: "
                f"{named(self._older)}. All of it can be read; the next `smp maintain` writes format {FORMAT} into their metadata, if there is any.",
                details=tuple({"session": name} for name in self._older),
            )


class OtherLayoutsCheck(Check):
    name = "layouts"
    title = "all sessions have the store's layout"
    failed = "some sessions have another layout"

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        layout = subject.store.layout
        for each in unread_sessions(subject.disk, subject.root, layout):
            details = ({"layout": each.layout, "files": each.files},)
            yield HealthIssue(
                self.name,
                PROBLEM,
                each.text(layout.name),
                unread_advice(layout.name),
                each.session,
                path=each.path,
                details=details,
            )


_INDEX = "index.json"
_OF_DESIGNS = frozenset((_INDEX, "lock", ".lock"))  # made from the memories, or without a meaning here


class UnreadFilesCheck(Check):
    name = "unread"
    title = "all files of sessions are known"
    failed = "some files of sessions are not read"

    def session(self, session: FileSessionExamination) -> Iterator[HealthIssue]:
        reader, disk = session.reader, session.subject.disk
        if not reader.layout.info_file:  # its folder is that of all sessions
            return
        names = []
        for name in disk.names(reader.folder):
            path = os.path.join(reader.folder, name)
            if not disk.is_folder(path):
                names.append(name)
            elif name not in (PRIVATE, OVERVIEWS):
                names += [f"{name}/{inner}" for inner in disk.names(path)]
        if _INDEX in names:
            message = f"{_INDEX} in the folder of {session.id} is not kept up to date: SMP neither writes nor reads it."
            advice = f"For a fresh one: smp index --json --session {session.id}"
            yield HealthIssue(self.name, NOTE, message, advice, session.id, path=os.path.join(reader.folder, _INDEX))
        unknown = [name for name in names if not _is_known(name, session.id)]
        if unknown:
            message = f"{named(unknown)} in the folder of {session.id} {'is' if len(unknown) == 1 else 'are'} not read."
            advice = f"{NOTHING_TO_DO}; they are kept. Store what should be remembered as a memory: smp add."
            path = os.path.join(reader.folder, unknown[0])
            yield HealthIssue(self.name, NOTE, message, advice, session.id, path=path)

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        """Folders that hold the files of a session under a name that is not an id, such as `my notes`."""
        layout, disk = subject.store.layout, subject.disk
        names = [name for name in layout.names(disk, subject.root) if not ids.is_valid(name)]
        unread = [name for name in names if not name.endswith(TEMPORARY) and layout.exists(disk, subject.root, name)]
        if unread:
            one = len(unread) == 1
            message = f"{named(unread)} {'is' if one else 'are'} not read: the name of a session has only letters, digits, _ and -."
            advice = f"Rename {'it' if one else 'them'}, and SMP reads {'it' if one else 'them'}."
            path = os.path.join(subject.root, layout.sessions, unread[0])
            yield HealthIssue(self.name, WARNING, message, advice, path=path)


def _is_known(name: str, session: str) -> bool:
    if name in _OF_DESIGNS or name.endswith((".lock", TEMPORARY)):
        return True
    layouts = map(layout_named, NAMES)
    return any(
        name in (layout.info_file, layout.cold_file(session)) or layout.is_session_file(name, session)
        for layout in layouts
    )


class ArchivesCheck(Check):
    name = "archives"
    title = "all archives are intact"
    failed = "some archives are damaged"
    fails_from = PROBLEM
    is_heavy = True

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        yield from self._of_other_programs(subject)
        index = ArchiveIndex(subject.store)
        archives = [
            (archived.session, archived.path, bool(archived.metadata))
            for archived in index.archived()
            if archived.has_memories
        ]
        for deleted in index.deleted():
            path = index.trash_archive_path(deleted.path)
            if subject.disk.exists(path):
                archives.append((deleted.session, path, True))
        self.summary = f"{counted(len(archives), 'archive')} checked"
        for session, path, has_summary in archives:
            try:
                read_archive(subject.disk, path)
            except (SMPError, OSError) as error:
                if not subject.disk.exists(path):
                    continue  # it was restored meanwhile
                message = f"The archive of {session} is damaged: {getattr(error, 'message', error)}"
                advice = (
                    "Restore the file from a backup before the session is needed; do not delete what is left of it."
                )
                yield HealthIssue(self.name, PROBLEM, message, advice, session, path=path)
                continue
            if not has_summary:
                message = f"The archive of {session} is intact, but the summary beside it is missing or cannot be read."
                yield HealthIssue(self.name, NOTE, message, f"{NOTHING_TO_DO}.", session, path=path)

    def _of_other_programs(self, subject: FileExamination) -> Iterator[HealthIssue]:
        disk, root = subject.disk, subject.root
        for session, path in foreign_summaries(disk, root).items():
            message = (
                f"Another program archived {session} and left only a summary; the memories themselves are not there."
            )
            yield HealthIssue(self.name, NOTE, message, f"{NOTHING_TO_DO}; it is kept.", session, path=path)
        for session in sorted(filter(ids.is_valid, disk.folders(os.path.join(root, "deleted")))):
            record = foreign_record(disk, root, session)
            if record is not None:
                named = ", ".join(recorded_ids(record)) or "no readable id"
                message = f"Another program deleted memories of {session}: {named}."
                advice = "Those that are in the session are hidden when it is opened. The record is kept."
                yield HealthIssue(self.name, NOTE, message, advice, session, path=record_path(root, session))


class SharedFilesCheck(Check):
    name = "shared"
    title = "all files for all sessions can be read"
    failed = "some files for all sessions cannot be read"

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        number = len(subject.store.unindexed_memories([GLOBAL_SESSION]).get(GLOBAL_SESSION, ()))
        self.summary = counted(number, "memory", "memories") + (
            " in global/ or shared/: context uses them" if number else ""
        )
        for name, why in unreadable_shared(subject.store):
            path = os.path.join(subject.store.root, *name.split("/"))
            message = f"{name} cannot be read: {why}"
            yield HealthIssue(self.name, WARNING, message, "Correct the file; SMP never writes it.", path=path)


_HOLDER = re.compile(r"process (\d{1,10}) on (.{1,80}) since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ), (.*)", re.DOTALL)
_LONG_SECONDS = 60


class LocksCheck(Check):
    name = "locks"
    title = "no lock is held for long"
    failed = "a lock is held for long"

    def __init__(self) -> None:
        self._held = self._tried = 0

    def session(self, session: FileSessionExamination) -> Iterator[HealthIssue]:
        yield from self._check_lock(session.subject, session.reader.private, f"session {session.id}", session.id)

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        yield from self._check_lock(subject, os.path.join(subject.root, PRIVATE), "the store", None)

    def _check_lock(
        self, subject: FileExamination, folder: str, what: str, session: str | None
    ) -> Iterator[HealthIssue]:
        path = os.path.join(folder, "lock")
        held = _is_held(subject, path)
        if held is None:
            return
        self._tried += 1
        self._held += held
        self.summary = f"{counted(self._tried, 'lock')}, {self._held:,} held now"
        if not held:
            return
        text = subject.disk.read(path, 0, HOLDER_BYTES).decode(errors="replace").strip("\0 \n")
        holder = _HOLDER.match(text)
        seconds = _seconds_held(holder, subject.now)
        waits = " Another process waits for it." if _is_held(subject, os.path.join(folder, "queue")) else ""
        details: tuple[dict[str, Any], ...] = ({"holder": text, "seconds": seconds, "waiting": bool(waits)},)
        if holder is not None and _is_dead(holder):
            message = f"The lock of {what} is held, but process {holder[1]}, which acquired it, has ended.{waits}"
            advice = f"A child of that process holds it; find it with: lsof {path}"
            yield HealthIssue(self.name, WARNING, message, advice, session, path=path, details=details)
        elif seconds is not None and seconds >= _LONG_SECONDS:
            message = f"The lock of {what} has been held for {_duration(seconds)}: {text}.{waits}"
            advice = "Others cannot write meanwhile. Wait, or end that process; what it acknowledged is stored."
            yield HealthIssue(
                self.name, WARNING if waits else NOTE, message, advice, session, path=path, details=details
            )


def _is_held(subject: FileExamination, path: str) -> bool | None:
    """Whether a lock is held; None if there is no such file, or it cannot be tried."""
    system = subject.disk.system
    try:
        descriptor = subject.disk.open_read(path)
    except (OSError, SMPError):
        return None
    try:
        if system.lock(descriptor):
            system.unlock(descriptor)
            return False
        return True
    except OSError:  # a file system on which locking needs write access
        return None
    finally:
        system.close(descriptor)


def _seconds_held(holder: re.Match[str] | None, now: Any) -> int | None:
    try:
        return max(0, int((now - to_moment(holder[3])).total_seconds())) if holder else None
    except (ValueError, OverflowError):
        return None


def _is_dead(holder: re.Match[str]) -> bool:
    """Whether the process named in the lock has ended; False if it is of another machine or cannot be examined."""
    if not hasattr(os, "uname") or holder[2] != os.uname().nodename[:80]:
        return False
    try:
        os.kill(int(holder[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def _duration(seconds: int) -> str:
    if seconds < 7200:
        return f"{seconds // 60} minutes"
    return f"{seconds // 3600} hours" if seconds < 172_800 else f"{seconds // 86400} days"


# -- the registry

CHECKS = (
    ConfigurationCheck,
    FormatCheck,
    OtherLayoutsCheck,
    UnreadFilesCheck,
    ArchivesCheck,
    SharedFilesCheck,
    LeftoversCheck,
    AccessRightsCheck,
    IndexCheck,
    LocksCheck,
)
FIXES = {"permissions": restrict_permissions, "recovery": recover, "index": rebuild_index}


def examine_files(
    system: System,
    root: str,
    now: datetime,
    *,
    environ: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
    quick: bool = False,
) -> FileExamination:
    """The store in a folder under examination, whatever state it is in."""
    examination = FileExamination(system, root, now, environ=environ, arguments=arguments, quick=quick)
    examination.checks, examination.fixes = CHECKS, FIXES
    return examination
