"""Tell state that this user's SMP wrote from state that came with a repository.

A journal is acted upon: files are moved, removed and appended to. So it carries a message authentication code, made with
a key that lies outside every store (`smp.files.user_state`). The key is not bound to a path: a store that was moved or
copied still recovers its own journal.

A file that belongs to another user of this machine was put there by that user, who can write to the store anyway: it counts as
authentic, so that several users can share a store. All files of a clone belong to whoever cloned it.
"""

from __future__ import annotations

import os

from smp.files.sha256 import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.files.disk import Disk

_BLOCK_BYTES = 64


def code(key: bytes, purpose: str, body: bytes) -> str:
    """HMAC-SHA256 over what the file is for and what it says. (`hmac` would load OpenSSL, 4 ms at each start.)"""
    block = key.ljust(_BLOCK_BYTES, b"\0")
    inner = bytes(byte ^ 0x36 for byte in block)
    outer = bytes(byte ^ 0x5C for byte in block)
    message = purpose.encode() + b"\0" + body
    return sha256_hex(outer + bytes.fromhex(sha256_hex(inner + message)))


def is_authentic(disk: Disk, path: str, purpose: str, body: bytes, given: object) -> bool:
    """Whether this user's SMP, or another user of this machine, wrote the file."""
    if given == code(disk.system.secret(), purpose, body):
        return True
    found = disk.stat(path)
    return found is not None and hasattr(os, "getuid") and bool(found.st_uid != os.getuid())
