"""Read files of unknown origin safely, and check who owns a store, before it is opened.

Guarantees: loads nothing but `errno`, `os` and `stat`. A pipe or a device in the place of a file, or a link in the place
of `config.json`, is not read and does not block. On systems without file owners every store counts as ours.
"""

from __future__ import annotations

import errno
import os
import stat

_LIMIT_BYTES = 1 << 20
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def is_ours(root: str, folder: str) -> bool:
    """Whether a store belongs to this user or to the owner of the working folder."""
    if not hasattr(os, "getuid"):
        return True
    try:
        return os.stat(root).st_uid in (os.getuid(), os.stat(folder or os.curdir).st_uid)
    except OSError:
        return False


def merged_by(root: str) -> str:
    """How git merges a store: by SMP's "driver", as "text", or "" outside of a git work tree."""
    folder = os.path.realpath(root)
    while not os.path.lexists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return ""
    try:
        rules = plain_bytes(os.path.join(folder, ".gitattributes"), _LIMIT_BYTES)
    except OSError:  # there is none, or it is no plain file
        return "text"
    return "driver" if b"merge=smp" in rules else "text"


def config_bytes(root: str) -> bytes:
    """The bytes of a store's `config.json`; empty if it is not a plain file."""
    try:
        return plain_bytes(os.path.join(root, "config.json"), _LIMIT_BYTES, flags=_NOFOLLOW)
    except OSError:
        return b""


def plain_bytes(path: str, limit: int, *, flags: int = 0) -> bytes:
    """Read a plain file, up to a limit. A pipe or a device raises OSError at once instead of blocking."""
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
