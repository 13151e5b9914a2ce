"""Who else can read this? Rights, owners, links and second names of everything that SMP keeps in a store.

Files should be 0600 and folders 0700; all should belong to one user; none should be a link or have two names, because SMP
does not write through those. Files that are not SMP's own are not looked at.
"""

from __future__ import annotations

import os
import stat as modes
from typing import TYPE_CHECKING, Any, NamedTuple

from smp.files.disk import TEMPORARY
from smp.files.layouts.layout import PRIVATE
from smp.health.check import Check
from smp.health.looking import kind_of
from smp.health.report import NOTE, WARNING, Finding, several
from smp.model import ids
from smp.store.away_places import ARCHIVE_FOLDERS
from smp.store.file_store import CONFIG_FILE
from smp.store.indexer import FOLDER as INDEX
from smp.store.shelf import DELETED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.files.disk import Disk
    from smp.health.subject import Subject

_MOST = 5
_SHARED = ("shared", "global", "archive")
_IN_INDEX = f"{os.sep}{INDEX}{os.sep}"
FILE_MODE, FOLDER_MODE = 0o600, 0o700


class Place(NamedTuple):
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


def places(subject: Subject) -> Iterator[Place]:
    """Everything that SMP keeps in a store, the store's folder first; links are not followed."""
    found = subject.disk.stat(subject.root)
    if found is None:
        return
    yield Place(subject.root, found)
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


def _below(subject: Subject, disk: Disk, path: str) -> Iterator[Place]:
    found = disk.stat(path)
    if found is None:
        return
    yield Place(path, found)
    if modes.S_ISDIR(found.st_mode):
        is_index = _IN_INDEX in path
        for name in disk.names(path):
            if is_index and subject.is_young(os.path.join(path, name)):
                continue  # whoever makes an index sets the rights of its files last; its folder is closed
            yield from _below(subject, disk, os.path.join(path, name))


class AccessRights(Check):
    name = "permissions"
    title = "nobody else can read it"

    def store(self, subject: Subject) -> Iterator[Finding]:
        every = list(places(subject))
        self.said = f"{len(every):,} files and folders"
        if os.name == "posix" and every:
            yield from self._too_open(every)
            yield from self._of_others(every)
        found = [finding for place in every[1:] if (finding := self._odd(place)) is not None]
        yield from several(found, _MOST, "{} more are links or have several names.")

    def _too_open(self, every: list[Place]) -> Iterator[Finding]:
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
            yield Finding(self.name, severity, message, advice, path=first.path, fix="permissions", details=details)

    def _of_others(self, every: list[Place]) -> Iterator[Finding]:
        owner = every[0].found.st_uid
        others = [place for place in every if place.found.st_uid != owner]
        if others:
            message = (
                f"{len(others):,} files or folders do not belong to the owner of the store (user {owner}), such as "
                f"{os.path.basename(others[0].path)} (user {others[0].found.st_uid}). Writing to them may fail."
            )
            advice = f"As an administrator: chown -R {owner} on the store's folder."
            details = tuple({"path": each.path, "uid": each.found.st_uid} for each in others)
            yield Finding(self.name, WARNING, message, advice, path=others[0].path, details=details)

    def _odd(self, place: Place) -> Finding | None:
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
        return Finding(self.name, WARNING, message, advice, path=place.path)
