"""Detect which sessions changed since they were indexed.

The stat data of a session's files and folders is compared with what was seen when it was indexed. In a store with very
many sessions not all files are checked for each query: the change table (`files.activity`) tells which sessions SMP
wrote, and a scan of the others runs a few times per second, which is when edits by hand are noticed.
"""

from __future__ import annotations

import os
import time

from smp_memory.files.activity import changed_slots, slot_of
from smp_memory.files.partial_reader import TICK_NS
from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.index.index import Index
    from smp_memory.index.rows import IndexedSession
    from smp_memory.store.file_store import FileStore

    Stats = dict[str, tuple[int, ...]]  # by path: inode, size, modification and change time

_ALWAYS_SCAN_SECONDS = 0.0015  # a scan of all files that takes no longer than this is done every time
_PAUSE_FACTOR = 20  # otherwise the pause between two scans is so many times as long as a scan
_SHORTEST_PAUSE_SECONDS = 0.25
_FEW = 8  # up to so many sessions are fetched from the index one by one


class StatCache:
    """Stat data by session: of its files, and of the folders in which new files may appear."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._seen: dict[str, Stats] = {}

    def remember(self, name: str, paths: Stats) -> None:
        self._seen[name] = paths

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def has_changed(self, name: str) -> bool:
        stats = self._seen.get(name)
        if stats is None:
            return True
        lstat = self._store.disk.system.lstat
        try:
            for path, seen in stats.items():
                found = lstat(path)
                if seen != (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns):
                    return True
        except OSError:
            return True
        return False

    def matches_cursors(self, name: str, cursors: Mapping[str, Any], paths: Stats) -> bool:
        """Whether the session has exactly the files of the cursors, unchanged."""
        folder = self._store.layout.folder(self._store.root, name)
        files = {os.path.join(folder, file): tuple(cursor[:4]) for file, cursor in cursors.items()}
        return all(paths.get(path) == seen for path, seen in files.items()) and len(files) == sum(
            1 for path in paths if path not in self._folders(paths, folder)
        )

    @staticmethod
    def _folders(paths: Stats, folder: str) -> set[str]:
        return {folder, *(os.path.dirname(path) for path in paths)}

    def stat_session(self, name: str) -> Stats:
        """Current stat data of a session's files, and of the folders in which new files may appear."""
        store = self._store
        folder = store.layout.folder(store.root, name)
        found = {folder: self.identity(folder)}
        for file in store.layout.files(store.disk, folder, name):
            path = os.path.join(folder, file)
            for each in (os.path.dirname(path), path):
                if each not in found:
                    found[each] = self.identity(each)
        return found

    def identity(self, path: str) -> tuple[int, ...]:
        found = self._store.disk.stat(path)
        return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class ChangeDetector:
    """Finds sessions that changed since the index was caught up with them."""

    def __init__(self, store: FileStore, indexed: set[str] | None = None) -> None:
        self._store = store
        self.stats = StatCache(store)
        self.indexed = indexed or set()  # sessions in the index
        self.marks = b""  # the change table at the last complete catch-up
        self._indexed_version = -1
        self._names: list[str] = []
        self._base_seen: tuple[int, ...] = ()
        self._slots: dict[int, list[str]] = {}
        self._scanned_at = -1e9
        self._scan_seconds = 0.0

    def changed_sessions(self, index: Index, sessions: list[str] | None, marks: bytes) -> list[str]:
        """Those of these sessions (None: all) that the index must read; `marks` is the change table as read before."""
        stale = self._with_changed_stat(index, sessions, marks)
        if not stale:
            return stale
        known = index.rows.sessions() if len(stale) > _FEW else {name: index.rows.session(name) for name in stale}
        return [name for name in stale if not self._is_caught_up(name, known.get(name))]

    def _with_changed_stat(self, index: Index, sessions: list[str] | None, marks: bytes) -> list[str]:
        """Sessions whose files differ from those that this process remembers."""
        if sessions is not None:
            return [name for name in sessions if self.stats.has_changed(name)]
        since = time.monotonic() - self._scanned_at
        if self._scan_seconds > _ALWAYS_SCAN_SECONDS and since < max(
            _SHORTEST_PAUSE_SECONDS, _PAUSE_FACTOR * self._scan_seconds
        ):
            changed = changed_slots(self.marks, marks) if marks != self.marks else set()
            if not changed or (
                self._base_identity() == self._base_seen and all(slot in self._slots for slot in changed)
            ):
                return [name for slot in changed for name in self._slots[slot] if self.stats.has_changed(name)]
        return self._scan_all(index)

    def _scan_all(self, index: Index) -> list[str]:
        started = time.monotonic()
        names = self._session_ids()
        version = index.rows.data_version()
        if version != self._indexed_version:  # another process may have indexed sessions that are gone by now
            self.indexed, self._indexed_version = set(index.rows.session_ids()), version
        stale = [name for name in names if self.stats.has_changed(name)]
        stale += self.indexed.difference(names)
        self._scanned_at = time.monotonic()
        self._scan_seconds = self._scanned_at - started
        return stale

    def _session_ids(self) -> list[str]:
        """The live sessions; listed again only if their folder has changed."""
        now = self._base_identity()
        if now != self._base_seen or not self._names:
            self._names = self._store.session_ids()
            self._base_seen = now if now and _is_settled(now) and not self._has_empty_folders() else ()
            self._slots = {}
            for name in self._names:
                self._slots.setdefault(slot_of(name), []).append(name)
        return self._names

    def _has_empty_folders(self) -> bool:
        """Whether there are folders without a session's files: a first file makes them sessions without changing the parent."""
        store = self._store
        if not store.layout.info_file:
            return False
        folders = store.disk.folders(os.path.join(store.root, store.layout.sessions))
        return any(ids.is_valid(name) for name in set(folders).difference(self._names))

    def _base_identity(self) -> tuple[int, ...]:
        """Identity of the sessions' folder; it changes with each new session."""
        return self.stats.identity(os.path.join(self._store.root, self._store.layout.sessions))

    def _is_caught_up(self, name: str, known: IndexedSession | None) -> bool:
        """Whether the index has the session as it is, because another process or an earlier one indexed it."""
        if known is None or not known.files:
            return False
        paths = self.stats.stat_session(name)
        if not self.stats.matches_cursors(name, known.files, paths):
            return False
        now = time.time_ns()
        waiting = [cursor for cursor in known.files.values() if not cursor[8]]
        if any(now - max(cursor[2], cursor[3]) > TICK_NS for cursor in waiting):
            return False  # the file can be compared by digest now
        if not waiting:
            self.stats.remember(name, paths)
        return True


def _is_settled(identity: tuple[int, ...]) -> bool:
    return time.time_ns() - max(identity[2:]) > TICK_NS
