"""Checks of a store's files and their fixes: permissions and owners, leftovers of crashed operations.

    permissions  Files should be 0600 and folders 0700; all should belong to one user; none should be a link or have two
                 names, because SMP does not write through those. Files that do not belong to SMP are not checked.
    leftovers    Unfinished files, journals and conversions, and quarantined data. What recovery can finish or remove has
                 the fix `recovery`. Quarantine is never touched: it may hold the only copy of something.

Guarantees: the checks write nothing. A file that was modified within the last minute is taken for work in progress. The fixes
change no memory.
"""

from __future__ import annotations

import os
import stat as modes
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.config.sources import CONVERTING
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.files.layouts.layout import ARCHIVE_FOLDERS, CONFIG_FILE, PRIVATE, QUARANTINE
from smp_memory.health.examination import NOTE, WARNING, Check, HealthIssue, counted, limited, named
from smp_memory.index.stored_feed import FOLDER as INDEX
from smp_memory.model import ids
from smp_memory.model.session_info import DELETED
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.archive_names import folders_of_archives
from smp_memory.store.convert import root_journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.store.file_examination import FileExamination, FileSessionExamination


_MAX_ISSUES = 5
_SHARED = ("shared", "global", "archive")
_IN_INDEX = f"{os.sep}{INDEX}{os.sep}"
FILE_MODE, FOLDER_MODE = 0o600, 0o700


class OwnedPath(NamedTuple):
    path: str
    stat: Any

    @property
    def is_folder(self) -> bool:
        return modes.S_ISDIR(self.stat.st_mode)

    @property
    def is_plain(self) -> bool:
        """Whether its permissions may be set: a folder, or a file with one name."""
        return self.is_folder or (modes.S_ISREG(self.stat.st_mode) and self.stat.st_nlink == 1)

    @property
    def is_too_open(self) -> bool:
        return bool(self.is_plain and self.stat.st_mode & 0o077)


def owned_paths(subject: FileExamination) -> Iterator[OwnedPath]:
    """Every file and folder that SMP keeps in a store, the store's folder first; links are not followed."""
    stat = subject.disk.stat(subject.root)
    if stat is None:
        return
    yield OwnedPath(subject.root, stat)
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


def _below(subject: FileExamination, disk: Disk, path: str) -> Iterator[OwnedPath]:
    stat = disk.stat(path)
    if stat is None:
        return
    yield OwnedPath(path, stat)
    if modes.S_ISDIR(stat.st_mode):
        is_index = _IN_INDEX in path
        for name in disk.names(path):
            if is_index and subject.is_recent_or_gone(os.path.join(path, name)):
                continue  # permissions of index files are set last while it is built; their folder is 0700
            yield from _below(subject, disk, os.path.join(path, name))


class AccessRightsCheck(Check):
    name = "permissions"
    title = "only the owner can read the files"
    failed = "some permissions or owners are wrong"

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        all_paths = list(owned_paths(subject))
        self.summary = f"{len(all_paths):,} files and folders checked"
        if os.name == "posix" and all_paths:
            yield from self._too_open(all_paths)
            yield from self._of_others(all_paths)
        issues = [issue for owned in all_paths[1:] if (issue := self._not_plain(owned)) is not None]
        yield from limited(issues, _MAX_ISSUES, "{} more are links or have several names.")

    def _too_open(self, all_paths: list[OwnedPath]) -> Iterator[HealthIssue]:
        files = [owned for owned in all_paths if owned.is_too_open and not owned.is_folder]
        folders = [owned for owned in all_paths if owned.is_too_open and owned.is_folder]
        for those, severity, what in ((files, WARNING, "files"), (folders, NOTE, "folders")):
            if not those:
                continue
            first = those[0]
            mode = modes.S_IMODE(first.stat.st_mode)
            name = f"{os.path.basename(first.path)} ({mode:04o})"
            count = f"{name} is" if len(those) == 1 else f"{len(those):,} {what}, such as {name}, are"
            message = f"{count} open to other users of this machine."
            right_mode = FILE_MODE if what == "files" else FOLDER_MODE
            advice = f"smp doctor --fix sets {'it' if len(those) == 1 else 'them'} to {right_mode:04o}."
            details = tuple({"path": each.path, "mode": f"{modes.S_IMODE(each.stat.st_mode):04o}"} for each in those)
            yield HealthIssue(self.name, severity, message, advice, path=first.path, fix="permissions", details=details)

    def _of_others(self, all_paths: list[OwnedPath]) -> Iterator[HealthIssue]:
        owner = all_paths[0].stat.st_uid
        others = [owned for owned in all_paths if owned.stat.st_uid != owner]
        if others:
            message = (
                f"{len(others):,} files or folders do not belong to the owner of the store (user {owner}), such as "
                f"{os.path.basename(others[0].path)} (user {others[0].stat.st_uid}). Writing to them may fail."
            )
            advice = f"As an administrator: chown -R {owner} on the store's folder."
            details = tuple({"path": each.path, "uid": each.stat.st_uid} for each in others)
            yield HealthIssue(self.name, WARNING, message, advice, path=others[0].path, details=details)

    def _not_plain(self, owned: OwnedPath) -> HealthIssue | None:
        if owned.is_plain or owned.path.endswith(TEMPORARY):
            return None
        if _IN_INDEX in owned.path and modes.S_ISREG(owned.stat.st_mode):
            return None  # two indexes may share files while one replaces the other
        if modes.S_ISREG(owned.stat.st_mode):
            what = f"has {owned.stat.st_nlink} names"
        else:
            what = "is a link" if modes.S_ISLNK(owned.stat.st_mode) else "is no file"
        message = f"{os.path.basename(owned.path)} {what}; SMP does not read or write through it."
        advice = "Find out where it leads, then put a plain file or folder in its place."
        return HealthIssue(self.name, WARNING, message, advice, path=owned.path)


RECOVERY = "recovery"
_FIX = "The next write to the session recovers it, or: smp doctor --fix"
_ERASING = "erasing.json"


class LeftoversCheck(Check):
    name = "leftovers"
    title = "no leftovers of crashes or repairs"
    failed = "there are leftovers of crashes or repairs"

    def session(self, session: FileSessionExamination) -> Iterator[HealthIssue]:
        reader, subject = session.reader, session.subject
        path = reader.journal.path
        if reader.journal.exists() and not subject.is_recent_or_gone(path):
            plan = reader.journal.load()
            committed = "A change was committed to the journal and not carried out yet; readers see it already."
            message = committed if plan is not None else "A journal was begun and never committed; it has no effect."
            if reader.journal.is_rejected:
                message = "The journal was not written by SMP, so it is not carried out: the next write moves it into quarantine."
            yield HealthIssue(self.name, WARNING, message, _FIX, session.id, path=path, fix=RECOVERY)
        left = [path for path in _temporary(session) if not subject.is_recent_or_gone(path)]
        if left:
            message = (
                f"{counted(len(left), 'unfinished file')} of a crashed rewrite: {_names(left)}. Nothing reads them."
            )
            yield HealthIssue(
                self.name, NOTE, message, _FIX, session.id, path=left[0], fix=RECOVERY, details=_paths(left)
            )
        yield from self._quarantined(session)

    def _quarantined(self, session: FileSessionExamination) -> Iterator[HealthIssue]:
        disk, folder = session.subject.disk, os.path.join(session.reader.private, QUARANTINE)
        found = [os.path.join(folder, name) for name in disk.names(folder)]
        if found:
            message = f"{counted(len(found), 'file')} in quarantine after a crash or a repair: {_names(found)}."
            advice = (
                f"`smp quarantine` shows them and puts them back. Delete them in {folder} when you do not need them."
            )
            yield HealthIssue(self.name, NOTE, message, advice, session.id, path=found[0], details=_paths(found))

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        yield from self._whole_store(subject)
        left = [path for path in _temporary_of_store(subject) if not subject.is_recent_or_gone(path)]
        if left:
            message = f"{counted(len(left), 'unfinished file or folder', 'unfinished files or folders')}: {_names(left)}. Nothing reads them."
            advice = "smp doctor --fix removes them."
            yield HealthIssue(self.name, NOTE, message, advice, path=left[0], fix=RECOVERY, details=_paths(left))
        yield from self._archives(subject)
        yield from self._old_indexes(subject)

    def _whole_store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        private = os.path.join(subject.root, PRIVATE)
        plan = root_journal(subject.disk, subject.root)
        staging = os.path.join(private, CONVERTING)
        flag = isinstance(subject.stored_config, dict) and subject.stored_config.get(CONVERTING)
        if (plan.exists() or subject.disk.exists(staging) or flag) and not subject.is_recent_or_gone(
            subject.config_path
        ):
            outcome = "it will be finished" if plan.load() is not None else "it will be reverted without loss"
            message = f"A conversion to another layout was interrupted; {outcome} when the store is next opened."
            yield HealthIssue(
                self.name, WARNING, message, "smp doctor --fix, or any other command.", path=private, fix=RECOVERY
            )
        erasing = subject.state.path(_ERASING)
        if subject.state.has(_ERASING) and not subject.is_recent_or_gone(erasing):
            message = "An erasure or a redaction was interrupted; the rest is done when the store is next opened."
            yield HealthIssue(
                self.name, WARNING, message, "smp doctor --fix, or any other command.", path=erasing, fix=RECOVERY
            )

    def _archives(self, subject: FileExamination) -> Iterator[HealthIssue]:
        archive = ArchiveIndex(subject.store)
        both = [name for name in subject.session_ids() if not subject.is_recent_or_gone(archive.archive_path(name))]
        for name in both:
            message = f"{name} is active, and an archive of it exists as well: archiving or restoring was interrupted."
            path = archive.archive_path(name)
            advice = "The active session counts. smp doctor --fix removes the archive."
            yield HealthIssue(self.name, NOTE, message, advice, name, path=path, fix=RECOVERY)
        known = {
            *subject.session_ids(),
            *(each.session for each in (*archive.archived(), *archive.deleted()) if each.has_memories),
        }
        if not subject.store.layout.info_file:
            private = os.path.join(subject.root, PRIVATE)
            lost = [name for name in subject.disk.folders(private) if _is_orphaned(subject, private, name, known)]
            if lost:
                message = f"The files of {named(lost)} were removed, but SMP's own files beside them are still there."
                advice = "Somebody removed the session by hand. Delete the folder when you need nothing in it."
                path = os.path.join(private, lost[0])
                yield HealthIssue(self.name, NOTE, message, advice, lost[0], path=path)

    def _old_indexes(self, subject: FileExamination) -> Iterator[HealthIssue]:
        base, disk = subject.state.path(INDEX), subject.state.disk
        if not subject.state.on_disk or not disk.is_folder(base):
            return
        names = disk.names(base)
        kept = next((name for name in names if name.startswith("index-")), "")
        old = [os.path.join(base, name) for name in names if name != kept]
        old = [path for path in old if not subject.is_recent_or_gone(path)]
        if old:
            message = f"{counted(len(old), 'index', 'indexes')} no longer in use: {_names(old)}."
            advice = "smp doctor --fix removes them, and rebuilds the index."
            yield HealthIssue(self.name, NOTE, message, advice, path=old[0], fix="index", details=_paths(old))


def _temporary(session: FileSessionExamination) -> Iterator[str]:
    """Unfinished files of a session, in the folders that its recovery cleans."""
    reader, disk = session.reader, session.subject.disk
    folders = {os.path.dirname(os.path.join(reader.folder, name)) for name in reader.states}
    is_shared = not reader.layout.info_file
    for folder in sorted(folders | {reader.folder, reader.private}):
        for name in disk.names(folder):
            ours = not is_shared or folder == reader.private or name.startswith(f"{session.id}.")
            if name.endswith(TEMPORARY) and ours:
                yield os.path.join(folder, name)


def _temporary_of_store(subject: FileExamination) -> Iterator[str]:
    """Files and folders below the root that were never renamed to their final name, or were about to be removed."""
    private = os.path.join(subject.root, PRIVATE)
    for name in subject.disk.names(private):
        if name.endswith(TEMPORARY) or name.startswith(("leaving-", "coming-")):
            yield os.path.join(private, name)
    folders = folders_of_archives(subject.disk, subject.root)
    if subject.store.layout.info_file:
        folders = [*folders, os.path.join(subject.root, subject.store.layout.sessions)]
    for folder, start in ((subject.root, "config.json"), *((folder, "") for folder in folders)):
        for name in subject.disk.names(folder):
            if name.endswith(TEMPORARY) and name.startswith(start):
                yield os.path.join(folder, name)


def _is_orphaned(subject: FileExamination, private: str, name: str, known: set[str]) -> bool:
    """Whether a private folder belongs to a session that does not exist any more."""
    if not ids.is_valid(name) or name in known or name in (INDEX, CONVERTING):
        return False
    return subject.disk.exists(os.path.join(private, name, "lock"))


def _names(paths: list[str]) -> str:
    return named(os.path.basename(path) for path in paths)


def _paths(paths: list[str]) -> tuple[dict[str, str], ...]:
    return tuple({"path": path} for path in paths)


# -- fixes

_ABANDONED_SECONDS = 3600  # the process that wrote it would be finished by now


def restrict_permissions(
    subject: FileExamination, issues: list[HealthIssue], open_store: Callable[[], Any]
) -> Iterator[str]:
    """Remove the permissions of others, where this user may, and never through a link."""
    disk, changed = Disk(subject.system), 0
    for owned in list(owned_paths(subject)):
        now = disk.stat(owned.path)
        if now is not None and OwnedPath(owned.path, now).is_too_open:
            disk.system.chmod(owned.path, FOLDER_MODE if owned.is_folder else FILE_MODE)
            changed += 1
    if changed:
        yield f"{changed:,} files and folders can be read by their owner only now"


def recover(subject: FileExamination, issues: list[HealthIssue], open_store: Callable[[], Any]) -> Iterator[str]:
    """Recover session by session; opening the store has already recovered what concerns it as a whole."""
    store = open_store()
    sessions = [issue.session for issue in issues if issue.session]
    for name in dict.fromkeys(sessions):
        if store.layout.exists(store.disk, store.root, name):
            store.session(name).run_locked("recovering", _do_nothing)
            yield f"{name}: the interrupted change was finished or reverted"
    archive = ArchiveIndex(store)
    leftovers = [str(detail["path"]) for issue in issues if not issue.session for detail in issue.details]
    for name in dict.fromkeys([*sessions, *(_session_of_leftover(path) for path in leftovers)]):
        if ids.is_valid(name):
            with archive.locked(name, "recovering"):
                pass
    for path in leftovers:
        if store.disk.exists(path) and _is_abandoned(subject, store.disk, path):
            store.disk.remove_tree(path)
    removed = [path for path in leftovers if not store.disk.exists(path)]
    if removed:
        yield f"{len(removed):,} unfinished files or folders removed"


def _do_nothing() -> None:
    """Acquiring the lock is what recovers a session."""


def _session_of_leftover(path: str) -> str:
    """The session of `leaving-NAME.smp-new` and the like; a valid name in any case."""
    name = os.path.basename(path).removesuffix(".smp-new").removeprefix("leaving-").removeprefix("coming-")
    return name if ids.is_valid(name) else "recovery"


def _is_abandoned(subject: FileExamination, disk: Disk, path: str) -> bool:
    found = disk.stat(path)
    if found is None or not subject.is_in_folder:
        return found is not None
    return bool(time.time() - found.st_mtime_ns / 1e9 > _ABANDONED_SECONDS)
