"""Who else can read this? Rights, owners, links and second names of everything that SMP keeps in a store.

Files should be 0600 and folders 0700; all should belong to one user; none should be a link or have two names, because SMP
does not write through those. Files that are not SMP's own are not looked at.

Who holds which lock, and for how long? And does the one who signed it still live?

A lock is the kernel's: it is gone when its holder dies. One that is held for long is a process that hangs or does
something large; one whose signer is gone is held by a child that the signer left behind.

Guarantees: nothing is written. To see whether a lock is held it is tried and let go of at once.
Non-guarantees: a writer that waits for nothing at all (`concurrency.lock_timeout_ms` 0) may meet that moment.

What did crashes leave behind? Unfinished files, plans and conversions, and what was set aside for a person to look at.

What recovery knows how to finish or take away has the fix `recovery`. What was set aside in quarantine is never touched:
it may be the only copy of something.

Guarantees: what is younger than a minute, or belongs to a session whose lock is held, is taken for work in progress.
"""

from __future__ import annotations

import os
import re
import stat as modes
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.journal import QUARANTINE, Journal
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.lock import HOLDER_BYTES
from smp_memory.health.readonly_system import kind_of
from smp_memory.health.report import NOTE, WARNING, Check, HealthIssue, counted, named, several
from smp_memory.model import ids
from smp_memory.model.times import to_moment
from smp_memory.store.archive_index import DELETED, ArchiveIndex
from smp_memory.store.archive_names import ARCHIVE_FOLDERS, folders_of_archives
from smp_memory.store.file_store import CONFIG_FILE, FLAG
from smp_memory.store.indexer import FOLDER
from smp_memory.store.indexer import FOLDER as INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.files.disk import Disk
    from smp_memory.health.subject import HealthSubject, SessionSubject


_MOST = 5
_SHARED = ("shared", "global", "archive")
_IN_INDEX = f"{os.sep}{INDEX}{os.sep}"
FILE_MODE, FOLDER_MODE = 0o600, 0o700


class OwnedPath(NamedTuple):
    path: str
    found: Any  # its stat

    @property
    def is_folder(self) -> bool:
        return modes.S_ISDIR(self.found.st_mode)

    @property
    def is_plain(self) -> bool:
        """Whether its rights may be set: a folder, or a file with one name."""
        return self.is_folder or (modes.S_ISREG(self.found.st_mode) and self.found.st_nlink == 1)

    @property
    def is_too_open(self) -> bool:
        return bool(self.is_plain and self.found.st_mode & 0o077)


def places(subject: HealthSubject) -> Iterator[OwnedPath]:
    """Everything that SMP keeps in a store, the store's folder first; links are not followed."""
    found = subject.disk.stat(subject.root)
    if found is None:
        return
    yield OwnedPath(subject.root, found)
    for name in subject.disk.names(subject.root):
        if _is_ours(name, subject.store.layout.sessions, subject.layout_name):
            yield from _below(subject, subject.disk, os.path.join(subject.root, name))
    if subject.state.on_disk:
        yield from _below(subject, subject.state.disk, subject.state.folder)


def _is_ours(name: str, sessions: str, layout: str) -> bool:
    if name in (PRIVATE, CONFIG_FILE, *ARCHIVE_FOLDERS, DELETED, *_SHARED) or (sessions and name == sessions):
        return True
    if name.startswith(CONFIG_FILE) and name.endswith(TEMPORARY):
        return True
    return layout == "single" and name.endswith(".jsonl") and ids.is_valid(name.removesuffix(".jsonl"))


def _below(subject: HealthSubject, disk: Disk, path: str) -> Iterator[OwnedPath]:
    found = disk.stat(path)
    if found is None:
        return
    yield OwnedPath(path, found)
    if modes.S_ISDIR(found.st_mode):
        is_index = _IN_INDEX in path
        for name in disk.names(path):
            if is_index and subject.is_young(os.path.join(path, name)):
                continue  # whoever makes an index sets the rights of its files last; its folder is closed
            yield from _below(subject, disk, os.path.join(path, name))


class AccessRightsCheck(Check):
    name = "permissions"
    title = "nobody else can read it"

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        every = list(places(subject))
        self.said = f"{len(every):,} files and folders"
        if os.name == "posix" and every:
            yield from self._too_open(every)
            yield from self._of_others(every)
        found = [finding for place in every[1:] if (finding := self._odd(place)) is not None]
        yield from several(found, _MOST, "{} more are links or have several names.")

    def _too_open(self, every: list[OwnedPath]) -> Iterator[HealthIssue]:
        files = [place for place in every if place.is_too_open and not place.is_folder]
        folders = [place for place in every if place.is_too_open and place.is_folder]
        for those, severity, what in ((files, WARNING, "files"), (folders, NOTE, "folders")):
            if not those:
                continue
            first = those[0]
            mode = modes.S_IMODE(first.found.st_mode)
            name = f"{os.path.basename(first.path)} ({mode:04o})"
            count = f"{name} is" if len(those) == 1 else f"{len(those):,} {what}, such as {name}, are"
            message = f"{count} open to other users of this machine."
            wanted = FILE_MODE if what == "files" else FOLDER_MODE
            advice = f"smp doctor --fix makes {'it' if len(those) == 1 else 'them'} {wanted:04o}."
            details = tuple({"path": each.path, "mode": f"{modes.S_IMODE(each.found.st_mode):04o}"} for each in those)
            yield HealthIssue(self.name, severity, message, advice, path=first.path, fix="permissions", details=details)

    def _of_others(self, every: list[OwnedPath]) -> Iterator[HealthIssue]:
        owner = every[0].found.st_uid
        others = [place for place in every if place.found.st_uid != owner]
        if others:
            message = (
                f"{len(others):,} files or folders do not belong to the owner of the store (user {owner}), such as "
                f"{os.path.basename(others[0].path)} (user {others[0].found.st_uid}). Writing to them may fail."
            )
            advice = f"As an administrator: chown -R {owner} on the store's folder."
            details = tuple({"path": each.path, "uid": each.found.st_uid} for each in others)
            yield HealthIssue(self.name, WARNING, message, advice, path=others[0].path, details=details)

    def _odd(self, place: OwnedPath) -> HealthIssue | None:
        if place.is_plain or place.path.endswith(TEMPORARY):
            return None
        if _IN_INDEX in place.path and modes.S_ISREG(place.found.st_mode):
            return None  # two indexes may share files as long as one takes the place of the other
        kind = kind_of(place.found)
        what = (
            f"has {place.found.st_nlink} names"
            if kind == "file"
            else f"is a {kind}"
            if kind == "link"
            else "is no file"
        )
        message = f"{os.path.basename(place.path)} {what}; SMP does not read or write through it."
        advice = "See where it leads, then put a plain file or folder in its place."
        return HealthIssue(self.name, WARNING, message, advice, path=place.path)


_SIGNED = re.compile(r"process (\d{1,10}) on (.{1,80}) since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ), (.*)", re.DOTALL)
_LONG_SECONDS = 60


class LocksCheck(Check):
    name = "locks"
    title = "no lock is stuck"

    def __init__(self) -> None:
        self._held = self._tried = 0

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        yield from self._look(session.subject, session.reader.private, f"session {session.id}", session.id)

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        yield from self._look(subject, os.path.join(subject.root, PRIVATE), "the store", None)

    def _look(self, subject: HealthSubject, folder: str, what: str, session: str | None) -> Iterator[HealthIssue]:
        path = os.path.join(folder, "lock")
        held = _is_held(subject, path)
        if held is None:
            return
        self._tried += 1
        self._held += held
        self.said = f"{counted(self._tried, 'lock')}, {self._held:,} held now"
        if not held:
            return
        text = subject.disk.read(path, 0, HOLDER_BYTES).decode(errors="replace").strip("\0 \n")
        signed = _SIGNED.match(text)
        seconds = _since(signed, subject.now)
        waits = " Another process waits for it." if _is_held(subject, os.path.join(folder, "queue")) else ""
        details: tuple[dict[str, Any], ...] = ({"holder": text, "seconds": seconds, "waiting": bool(waits)},)
        if signed is not None and _is_gone(signed):
            message = f"The lock of {what} is held, but process {signed[1]}, which took it, is gone.{waits}"
            advice = f"A child of that process holds it; find it with: lsof {path}"
            yield HealthIssue(self.name, WARNING, message, advice, session, path=path, details=details)
        elif seconds is not None and seconds >= _LONG_SECONDS:
            message = f"The lock of {what} has been held for {_length(seconds)}: {text}.{waits}"
            advice = "Others cannot write meanwhile. Wait for it, or end that process; what it acknowledged is stored."
            yield HealthIssue(
                self.name, WARNING if waits else NOTE, message, advice, session, path=path, details=details
            )


def _is_held(subject: HealthSubject, path: str) -> bool | None:
    """Whether somebody holds it; None if there is no such file, or that cannot be told."""
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
    except OSError:  # a file system whose locks want more than reading
        return None
    finally:
        system.close(descriptor)


def _since(signed: re.Match[str] | None, now: Any) -> int | None:
    try:
        return max(0, int((now - to_moment(signed[3])).total_seconds())) if signed else None
    except (ValueError, OverflowError):
        return None


def _is_gone(signed: re.Match[str]) -> bool:
    """Whether the process that signed does not live any more; False if that cannot be told."""
    if not hasattr(os, "uname") or signed[2] != os.uname().nodename[:80]:
        return False
    try:
        os.kill(int(signed[1]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def _length(seconds: int) -> str:
    if seconds < 7200:
        return f"{seconds // 60} minutes"
    return f"{seconds // 3600} hours" if seconds < 172_800 else f"{seconds // 86400} days"


RECOVERY = "recovery"
_FIX = "The next write does it, or: smp doctor --fix"
_PLAN = "journal.json"
_ERASING = "erasing.json"
_DAMAGED = "cold.gz.damaged-"


class LeftoversCheck(Check):
    name = "leftovers"
    title = "nothing is left over"

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        reader, subject = session.reader, session.subject
        path = reader.journal.path
        if reader.journal.exists() and not subject.is_young(path):
            plan = reader.journal.load()
            what = "A change was committed and not carried out yet; it is read as if it had been."
            message = what if plan is not None else "A plan was begun and never committed; nothing of it counts."
            if reader.journal.is_foreign:
                message = "A journal was not written by a user of this machine, and is not carried out: the next write sets it aside."
            yield HealthIssue(self.name, WARNING, message, _FIX, session.id, path=path, fix=RECOVERY)
        left = [path for path in _temporary(session) if not subject.is_young(path)]
        if left:
            message = (
                f"{_count(left, 'unfinished file')} of a crashed rewrite: {_names(left)}. No reader looks at them."
            )
            yield HealthIssue(
                self.name, NOTE, message, _FIX, session.id, path=left[0], fix=RECOVERY, details=_paths(left)
            )
        yield from self._set_aside(session)

    def _set_aside(self, session: SessionSubject) -> Iterator[HealthIssue]:
        disk, folder = session.subject.disk, os.path.join(session.reader.private, QUARANTINE)
        found = [os.path.join(folder, name) for name in disk.names(folder)]
        if found:
            message = f"{_count(found, 'piece')} set aside after a crash or a repair: {_names(found)}."
            advice = (
                f"`smp quarantine` shows them and puts them back. Delete them in {folder} when you do not need them."
            )
            yield HealthIssue(self.name, NOTE, message, advice, session.id, path=found[0], details=_paths(found))
        names = [name for name in disk.names(session.reader.private) if name.startswith(_DAMAGED)]
        if names:
            paths = [os.path.join(session.reader.private, name) for name in names]
            message = f"{_count(paths, 'copy', 'copies')} of a damaged cold segment, kept before it was rewritten."
            advice = "Delete them when nothing in them is missed."
            yield HealthIssue(self.name, NOTE, message, advice, session.id, path=paths[0], details=_paths(paths))

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        yield from self._whole_store(subject)
        left = [path for path in _temporary_of_store(subject) if not subject.is_young(path)]
        if left:
            message = f"{_count(left, 'unfinished file or folder', 'unfinished files or folders')}: {_names(left)}. Nobody reads them."
            advice = "smp doctor --fix takes them away."
            yield HealthIssue(self.name, NOTE, message, advice, path=left[0], fix=RECOVERY, details=_paths(left))
        yield from self._shelf(subject)
        yield from self._old_indexes(subject)

    def _whole_store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        private = os.path.join(subject.root, PRIVATE)
        plan = Journal(subject.disk, os.path.join(private, _PLAN), subject.root, "the store")
        staging = os.path.join(private, FLAG)
        flag = (subject.stored or {}).get(FLAG)
        if (plan.exists() or subject.disk.exists(staging) or flag) and not subject.is_young(subject.config_path):
            done = "it will be finished" if plan.load() is not None else "it will be taken back, and nothing is lost"
            message = f"A conversion to another layout was interrupted; {done} when the store is next opened."
            yield HealthIssue(
                self.name, WARNING, message, "smp doctor --fix, or any other command.", path=private, fix=RECOVERY
            )
        erasing = subject.state.path(_ERASING)
        if subject.state.has(_ERASING) and not subject.is_young(erasing):
            message = "An erasure or a redaction was interrupted; the rest is done when the store is next opened."
            yield HealthIssue(
                self.name, WARNING, message, "smp doctor --fix, or any other command.", path=erasing, fix=RECOVERY
            )

    def _shelf(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        shelf = ArchiveIndex(subject.store)
        both = [name for name in subject.session_ids() if not subject.is_young(shelf.archive_path(name))]
        for name in both:
            message = f"{name} is in its place, and an archive of it is there as well: archiving or restoring was interrupted."
            path = shelf.archive_path(name)
            advice = "The session in its place counts. smp doctor --fix takes the archive away."
            yield HealthIssue(self.name, NOTE, message, advice, name, path=path, fix=RECOVERY)
        live = {*subject.session_ids(), *(away.session for away in (*shelf.archived(), *shelf.deleted()))}
        if not subject.store.layout.info_file:
            private = os.path.join(subject.root, PRIVATE)
            lost = [name for name in subject.disk.folders(private) if _is_sessions(subject, private, name, live)]
            if lost:
                message = f"The files of {named(lost)} are not there any more, but what SMP kept beside them is."
                advice = "Somebody removed the session by hand. Delete the folder when nothing in it is missed."
                path = os.path.join(private, lost[0])
                yield HealthIssue(self.name, NOTE, message, advice, lost[0], path=path)

    def _old_indexes(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        base, disk = subject.state.path(FOLDER), subject.state.disk
        if not subject.state.on_disk or not disk.is_folder(base):
            return
        names = disk.names(base)
        kept = next((name for name in names if name.startswith("index-")), "")
        old = [os.path.join(base, name) for name in names if name != kept]
        old = [path for path in old if not subject.is_young(path)]
        if old:
            message = f"{_count(old, 'index', 'indexes')} that nobody uses any more: {_names(old)}."
            advice = "smp doctor --fix takes them away, and makes the index anew."
            yield HealthIssue(self.name, NOTE, message, advice, path=old[0], fix="index", details=_paths(old))


def _temporary(session: SessionSubject) -> Iterator[str]:
    """Unfinished files of a session, where its recovery looks for them."""
    reader, disk = session.reader, session.subject.disk
    folders = {os.path.dirname(os.path.join(reader.folder, name)) for name in reader.states}
    is_shared = not reader.layout.info_file
    for folder in sorted(folders | {reader.folder, reader.private}):
        for name in disk.names(folder):
            ours = not is_shared or folder == reader.private or name.startswith(f"{session.id}.")
            if name.endswith(TEMPORARY) and ours:
                yield os.path.join(folder, name)


def _temporary_of_store(subject: HealthSubject) -> Iterator[str]:
    """What waits below the root for a name that it never got, or to be removed."""
    private = os.path.join(subject.root, PRIVATE)
    for name in subject.disk.names(private):
        if name.endswith(TEMPORARY) or name.startswith(("leaving-", "coming-")):
            yield os.path.join(private, name)
    archives = [(folder, "") for folder in folders_of_archives(subject.disk, subject.root)]
    for folder, start in ((subject.root, "config.json"), *archives):
        for name in subject.disk.names(folder):
            if name.endswith(TEMPORARY) and name.startswith(start):
                yield os.path.join(folder, name)


def _is_sessions(subject: HealthSubject, private: str, name: str, live: set[str]) -> bool:
    if not ids.is_valid(name) or name in live or name in (FOLDER, FLAG):
        return False
    return subject.disk.exists(os.path.join(private, name, "lock"))


def _count(paths: list[str], one: str, many: str = "") -> str:
    return f"1 {one}" if len(paths) == 1 else f"{len(paths):,} {many or one + 's'}"


def _names(paths: list[str]) -> str:
    return named(os.path.basename(path) for path in paths)


def _paths(paths: list[str]) -> tuple[dict[str, str], ...]:
    return tuple({"path": path} for path in paths)
