"""What did a session's files look like when it was taken in? Compared again before each answer."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.store.file_store import FileStore

    Paths = dict[str, tuple[int, ...]]


class StatCache:
    """By session: its files, and the folders in which new ones may appear, with inode, size and two times of each."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._seen: dict[str, Paths] = {}

    def remember(self, name: str, paths: Paths) -> None:
        self._seen[name] = paths

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def has_changed(self, name: str) -> bool:
        look = self._seen.get(name)
        if look is None:
            return True
        lstat = self._store.disk.system.lstat
        try:
            for path, seen in look.items():
                found = lstat(path)
                if seen != (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns):
                    return True
        except OSError:
            return True
        return False

    def agree(self, name: str, cursors: Mapping[str, Any], paths: dict[str, tuple[int, ...]]) -> bool:
        """Whether the files are those that the cursors speak of, no more and no fewer."""
        folder = self._store.layout.folder(self._store.root, name)
        files = {os.path.join(folder, file): tuple(cursor[:4]) for file, cursor in cursors.items()}
        return all(paths.get(path) == seen for path, seen in files.items()) and len(files) == sum(
            1 for path in paths if path not in self._folders(paths, folder)
        )

    @staticmethod
    def _folders(paths: dict[str, tuple[int, ...]], folder: str) -> set[str]:
        return {folder, *(os.path.dirname(path) for path in paths)}

    def of(self, name: str) -> dict[str, tuple[int, ...]]:
        """All that tells whether a session has changed: its files, and the folders in which new ones may appear."""
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
