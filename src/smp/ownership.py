"""Whose store is this, and what does its `config.json` say? Asked before a store is opened, of files that anybody may have made.

Guarantees: loads nothing but `os` and `stat`. A pipe, a device or a link in the place of `config.json` is not read and does
not make anybody wait. On systems without owners every store counts as ours.
"""

from __future__ import annotations

import os
import stat

_LIMIT_BYTES = 1 << 20
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
        descriptor = os.open(os.path.join(root, "config.json"), _FLAGS)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _LIMIT_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)
