"""Whose store is this, and what does its `config.json` say? Asked before a store is opened, of files that anybody may have made.

Guarantees: loads nothing but `errno`, `os` and `stat`. A pipe, a device or a link in the place of `config.json` is not read and does
not make anybody wait. On systems without owners every store counts as ours.
"""

from __future__ import annotations

import errno
import os
import stat

_LIMIT_BYTES = 1 << 20
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def is_ours(root: str, folder: str) -> bool:
    """Whether a store is ours, or of whoever owns the folder in which we work."""
    if not hasattr(os, "getuid"):
        return True
    try:
        return os.stat(root).st_uid in (os.getuid(), os.stat(folder or os.curdir).st_uid)
    except OSError:
        return False


def config_bytes(root: str) -> bytes:
    """The bytes of a store's `config.json`; none if it is not a plain file."""
    try:
        return plain_bytes(os.path.join(root, "config.json"), _LIMIT_BYTES, flags=_NOFOLLOW)
    except OSError:
        return b""


def plain_bytes(path: str, limit: int, *, flags: int = 0) -> bytes:
    """The bytes of a plain file, up to a limit. A pipe or a device is an OSError, and nobody waits for it."""
    descriptor = os.open(path, _READ | flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file", path)
        parts = []
        while limit > 0 and (part := os.read(descriptor, min(limit, 1 << 20))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
