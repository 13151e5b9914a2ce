"""Open the folders of a path one component at a time, without following links.

Uses `openat` with O_NOFOLLOW for each component. Where there is no `openat` (Windows), each component is checked before the path is
used.
"""

from __future__ import annotations

import errno
import os
import stat as modes

HAS_OPENAT = os.open in os.supports_dir_fd
if os.name == "posix":
    NOFOLLOW = os.O_NOFOLLOW
    FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    _WALK = FOLDER | NOFOLLOW | getattr(os, "O_PATH", 0)  # an intermediate folder is neither listed nor synced
else:
    NOFOLLOW, FOLDER, _WALK = 0, os.O_RDONLY, os.O_RDONLY


def close_folder(folder: int | None) -> None:
    if folder is not None:
        os.close(folder)


def walk(prefix: str, folders: list[str], path: str) -> int:
    """Open the folders one after the other, none of them through a link; returns the last descriptor."""
    folder = open_component(prefix + folders[0], None, _WALK, path)
    for name in folders[1:]:
        try:
            inner = open_component(name, folder, _WALK, path)
        finally:
            os.close(folder)
        folder = inner
    return folder


def open_component(name: str, folder: int | None, flags: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if modes.S_ISLNK(status.st_mode):
                raise link_error(path) from None
        raise type(error)(error.errno, error.strerror, path) from None


def check_components(prefix: str, parts: list[str], path: str) -> None:
    """Without `openat`: reject a path that leads through a link or a junction."""
    so_far = prefix.rstrip(os.sep)
    for name in parts[:-1]:
        so_far = f"{so_far}{os.sep}{name}"
        status = os.lstat(so_far)
        if modes.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", False):
            raise link_error(path)


def link_error(path: str) -> OSError:
    return OSError(errno.ELOOP, "a symbolic link inside the store is not followed", path)
