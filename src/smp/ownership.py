"""Whose store is this? Above the folder in which we work anybody may have put one, to read along and to be recalled.

Guarantees: loads nothing but `os`. On systems without owners every store counts as ours.
"""

from __future__ import annotations

import os


def is_ours(root: str, folder: str) -> bool:
    """Whether a store is ours, or of whoever owns the folder in which we work."""
    if not hasattr(os, "getuid"):
        return True
    try:
        return os.stat(root).st_uid in (os.getuid(), os.stat(folder or os.curdir).st_uid)
    except OSError:
        return False
