"""Detect which sessions changed since they were indexed.

The stat data of a session's files and folders is compared with what was seen when it was indexed. The index keeps it with the
session, in two packed columns, so that a new process needs one pass of stat calls over all sessions and nothing else: no
listing of their folders, no object for each. In a store with very many sessions not all files are checked for each query of a
process: the change table (`files.activity`) tells which sessions SMP wrote, and a scan of the others runs a few times per
second, which is when edits by hand are noticed. The first query of a process checks all of them.

Stat data is kept only if all of it is older than a tick of the clock. Otherwise a second change within the same tick would be
missed; the next query checks such a session again.
"""

from __future__ import annotations

import os
import time
from struct import Struct, error

from smp_memory.files.activity import changed_slots, slot_of
from smp_memory.files.disk import TICK_NS
from smp_memory.index.rows import LISTED
from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping
    from typing import Any

    from smp_memory.index.index import Index
    from smp_memory.index.rows import IndexedSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.record_reader import PlacedFiles

    Stats = dict[str, tuple[int, ...]]  # by path: inode, size, modification and change time

_ALWAYS_SCAN_SECONDS = 0.0015  # a scan of all files that takes no longer than this is done every time,
_ALWAYS_SCAN_SESSIONS = 50  # and so is one of so few sessions, however busy the machine is
_PAUSE_FACTOR = 20  # otherwise the pause between two scans is so many times as long as a scan
_SHORTEST_PAUSE_SECONDS = 0.25
_DEFER_SECONDS = 600  # a reader that defers the check of files does it if the last one is older than this
_SAVE_SECONDS = 60  # how often the time of the last check is saved
_MANY = 200  # sessions: with fewer a check of all files is never deferred
_MARKS, _CHECKED = "marks", "checked"  # keys in the index's table `meta`
_FEW = 8  # up to so many sessions are fetched from the index one by one

_PACKED = Struct("Qqqq")  # inode, size, modification and change time
_MISSING = bytes(_PACKED.size)
_LOW_BITS = 2**63 - 1
_SEPARATOR = "\0"  # no file name contains it


class StatCache:
    """Stat data by session: of its files, and of the folders in which new files may appear."""

    def __init__(self, store: PlacedFiles) -> None:
        self._store = store
        self._base = os.path.join(store.root, store.layout.sessions, "")
        self._seen: dict[str, tuple[str, bytes]] = {}  # paths below the base, joined, and their packed stat data

    def load(self, saved: Collection[tuple[str, bytes, bytes]]) -> None:
        """Remember what the index knows: id, `watched` and `stats` of sessions."""
        decoded = {watched: os.fsdecode(watched) for watched in {each[1] for each in saved}}  # most have the same files
        self._seen |= {
            name: (name + decoded[watched].replace(_SEPARATOR, _SEPARATOR + name), stats)
            for name, watched, stats in saved
            if stats
        }

    def remember(self, name: str, paths: Stats) -> tuple[bytes, bytes]:
        """Remember the stat data of a session; returns it for the index: what follows the id in each path, and the stat data."""
        below = [path[len(self._base) :] for path in paths]
        stats = b"".join([_pack(each) for each in paths.values()])
        self._seen[name] = (_SEPARATOR.join(below), stats)
        return os.fsencode(_SEPARATOR.join([path[len(name) :] for path in below])), stats

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    @property
    def remembered(self) -> Collection[str]:
        return self._seen.keys()

    def has_changed(self, name: str) -> bool:
        seen = self._seen.get(name)
        return seen is None or self._current(seen[0]) != seen[1]

    def changed(self, written: Container[str] | None = None) -> list[str]:
        """The remembered sessions that have changed. With `written` only the folders of sessions not in it are compared."""
        seen = self._seen
        if written is not None:
            seen = {name: each if name in written else self._of_folders(*each) for name, each in seen.items()}
        found = self._current(_SEPARATOR.join([paths for paths, _ in seen.values()])) if seen else b""
        if found == b"".join([stats for _, stats in seen.values()]):
            return []
        changed, start = [], 0
        for name, (_, stats) in seen.items():
            end = start + len(stats)
            if found[start:end] != stats:
                changed.append(name)
            start = end
        return changed

    def _of_folders(self, paths: str, stats: bytes) -> tuple[str, bytes]:
        """The part of a session's stat data that is about folders; all of it where the session is a file. Folders come first."""
        if not self._store.layout.info_file:
            return paths, stats
        inner = self._store.layout.inner_folders
        if not inner:
            return paths.partition(_SEPARATOR)[0], stats[: _PACKED.size]
        each = paths.split(_SEPARATOR)
        count = 1 + sum(f"{each[0]}{os.sep}{name}" in each for name in inner)
        return _SEPARATOR.join(each[:count]), stats[: count * _PACKED.size]

    def _current(self, paths: str) -> bytes:
        """The packed stat data of these paths as it is now; zeros where there is none."""
        pack, packed = _PACKED.pack, []
        for found in self._store.disk.system.lstat_below(self._base, paths.split(_SEPARATOR)):
            if found is None:
                packed.append(_MISSING)
                continue
            try:
                packed.append(pack(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))
            except error:
                packed.append(_pack((found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)))
        return b"".join(packed)

    def matches_cursors(self, name: str, cursors: Mapping[str, Any], paths: Stats) -> bool:
        """Whether the session has exactly the files of the cursors, unchanged."""
        folder = self._store.layout.folder(self._store.root, name)
        files = {os.path.join(folder, file): tuple(cursor[:4]) for file, cursor in cursors.items()}
        return all(paths.get(path) == seen for path, seen in files.items()) and len(files) == sum(
            1 for path in paths if path not in self._folders(paths, folder)
        )

    def _folders(self, paths: Stats, folder: str) -> set[str]:
        inner = (os.path.join(folder, name) for name in self._store.layout.inner_folders)
        return {folder, *inner, *(os.path.dirname(path) for path in paths)}

    def stat_session(self, name: str) -> Stats:
        """Current stat data of a session's files, and of the folders in which new files may appear."""
        layout, disk = self._store.layout, self._store.disk
        folder = layout.folder(self._store.root, name)
        # Where a session is a single file, a new one appears in the listing of all sessions.
        found = {folder: self.identity(folder)} if layout.info_file else {}
        for inner in layout.inner_folders:
            if disk.is_folder(path := os.path.join(folder, inner)):
                found[path] = self.identity(path)
        for file in layout.files(disk, folder, name):
            path = os.path.join(folder, file)
            found[path] = self.identity(path)
        return found

    def identity(self, path: str) -> tuple[int, ...]:
        found = self._store.disk.stat(path)
        return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _pack(identity: tuple[int, ...]) -> bytes:
    try:
        return _PACKED.pack(*identity) if identity else _MISSING
    except error:  # a number of more than 64 bits: an inode on Windows, a time in the far future
        return _PACKED.pack(*(number & _LOW_BITS for number in identity))


class ChangeDetector:
    """Finds sessions that changed since the index was caught up with them."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self.stats = StatCache(store)
        self.indexed: set[str] = set()  # sessions that are known to be in the index; all of them after a scan
        self.marks = b""  # the change table at the last complete catch-up
        self._indexed_version: int | None = None
        self._names: list[str] = []
        self._base_seen: tuple[int, ...] = ()
        self._slots: dict[int, list[str]] = {}
        self._scanned_at = -1e9
        self._scan_seconds = 0.0
        self._saved_at = self._scanned_at

    def changed_sessions(self, index: Index, sessions: list[str] | None, marks: bytes) -> list[str]:
        """Those of these sessions (None: all) that the index must read; `marks` is the change table as read before."""
        stale = self._with_changed_stat(index, sessions, marks)
        known = {name: index.rows.session(name) for name in stale}
        self.indexed.update(name for name, found in known.items() if found is not None)
        return [name for name in stale if not self._is_caught_up(name, known[name])]

    def _with_changed_stat(self, index: Index, sessions: list[str] | None, marks: bytes) -> list[str]:
        """Sessions whose files differ from those that this process remembers."""
        if sessions is not None:
            if len(sessions) > _FEW and self._indexed_version is None:
                self._load(index)
            return [name for name in sessions if self.stats.has_changed(name)]
        since = time.monotonic() - self._scanned_at
        is_slow = self._scan_seconds > _ALWAYS_SCAN_SECONDS and len(self.stats.remembered) > _ALWAYS_SCAN_SESSIONS
        if is_slow and since < max(_SHORTEST_PAUSE_SECONDS, _PAUSE_FACTOR * self._scan_seconds):
            changed = changed_slots(self.marks, marks) if marks != self.marks else set()
            if not changed:
                return []
            slots = self._slots or self._by_slot()
            if self._base_identity() == self._base_seen and all(slot in slots for slot in changed):
                return [name for slot in changed for name in slots[slot] if self.stats.has_changed(name)]
        return self._scan_all(index, marks)

    def _scan_all(self, index: Index, marks: bytes) -> list[str]:
        started = time.monotonic()
        if self._indexed_version is None:
            self._load(index)
        elif self._indexed_version != index.rows.data_version():
            # Another process may have indexed sessions that are gone by now.
            self._indexed_version = index.rows.data_version()
            self.indexed = set(index.rows.session_ids())
        names, remembered = self._session_ids(), self.stats.remembered
        stale = self.stats.changed(self._written_since_check(index, marks) if self._store.defers_file_checks else None)
        stale += [name for name in names if name not in remembered]
        stale += self.indexed.difference(names, stale)
        self._scanned_at = time.monotonic()
        self._scan_seconds = self._scanned_at - started
        return stale

    def live_sessions(self) -> list[str] | None:
        """The live sessions if all were checked a moment ago, and none came or went since; else None, also if one could not be read."""
        is_recent = time.monotonic() - self._scanned_at < _SHORTEST_PAUSE_SECONDS
        if not is_recent or not self._base_seen or self.indexed != set(self._names):
            return None
        return sorted(self._names) if self._base_identity() == self._base_seen else None

    def _load(self, index: Index) -> None:
        self._indexed_version = index.rows.data_version()
        saved = index.rows.stats_of_sessions()
        self.indexed = {name for name, _, _ in saved}
        self.stats.load(saved)
        if (identity := self._base_identity()) and index.rows.meta(LISTED) == _pack(identity):
            self._names, self._base_seen = list(self.indexed), identity

    def _written_since_check(self, index: Index, marks: bytes) -> set[str] | None:
        """The sessions that SMP wrote since all files were checked; None if that is too long ago, or not known."""
        saved, checked = index.rows.meta(_MARKS), index.rows.meta(_CHECKED, 0)
        if not marks or not saved or not 0 <= time.time() - checked < _DEFER_SECONDS:
            return None
        slots = changed_slots(saved, marks)
        return {name for name in self.stats.remembered if slot_of(name) in slots} if slots else set()

    def save_check(self, index: Index, marks: bytes) -> None:
        """Save that all files were checked, for processes that defer it; `marks` is the change table as read before."""
        if len(self.indexed) < _MANY or self._scanned_at == self._saved_at or self._store.defers_file_checks:
            return
        self._saved_at = self._scanned_at
        listed = _pack(self._base_seen) if self.indexed.issuperset(self._names) else _MISSING
        is_same = index.rows.meta(_MARKS) == marks and index.rows.meta(LISTED) == listed
        if is_same and time.time() - index.rows.meta(_CHECKED, 0) < _SAVE_SECONDS:
            return
        hints = {_MARKS: marks, _CHECKED: int(time.time()), LISTED: listed}
        index.rows.save_hints(hints, self._indexed_version)

    def _session_ids(self) -> list[str]:
        """The live sessions; listed again only if their folder has changed. The stat data tells whether one is still a session."""
        now = time.time_ns()
        identity = self._base_identity()
        if identity != self._base_seen or not self._names:
            disk, root, layout = self._store.disk, self._store.root, self._store.layout
            names, remembered = layout.names(disk, root), self.stats.remembered
            unknown = [name for name in names if name not in remembered]
            others = {name for name in unknown if not ids.is_valid(name) or not layout.exists(disk, root, name)}
            self._names = [name for name in names if name not in others] if others else names
            # A first file makes an empty folder a session without changing the folder of all sessions.
            has_empty_folders = any(ids.is_valid(name) and disk.is_folder(layout.folder(root, name)) for name in others)
            self._base_seen = identity if _is_settled(identity, now) and not has_empty_folders else ()
            self._slots = {}
        return self._names

    def _by_slot(self) -> dict[int, list[str]]:
        for name in self._names:
            self._slots.setdefault(slot_of(name), []).append(name)
        return self._slots

    def _base_identity(self) -> tuple[int, ...]:
        """Identity of the sessions' folder; it changes with each new session."""
        return self.stats.identity(os.path.join(self._store.root, self._store.layout.sessions))

    def _is_caught_up(self, name: str, known: IndexedSession | None) -> bool:
        """Whether the index has the session as it is, because another process or an earlier one indexed it."""
        if known is None:
            return False
        now = time.time_ns()
        paths = self.stats.stat_session(name)
        if not paths or not all(paths.values()) or not self.stats.matches_cursors(name, known.files, paths):
            return False
        if (known.watched, known.stats) == self.stats.remember(name, paths):
            return True
        self.stats.forget(name)
        waiting = [cursor for cursor in known.files.values() if not cursor[8]]
        if any(now - max(cursor[2], cursor[3]) > TICK_NS for cursor in waiting):
            return False  # the file can be compared by digest now
        return bool(waiting) or not are_settled(paths, now)  # otherwise it is indexed again, to save its stat data


def are_settled(paths: Stats, now_ns: int) -> bool:
    """Whether stat data taken at this time or later would be different after any further change."""
    return all(_is_settled(identity, now_ns) for identity in paths.values())


def _is_settled(identity: tuple[int, ...], now_ns: int) -> bool:
    return bool(identity) and now_ns - max(identity[2:]) > TICK_NS
