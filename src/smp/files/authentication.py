"""Tell state that this user's SMP wrote from state that came with a repository.

A journal is acted upon: files are moved, removed and appended to. So it carries a message authentication code, made with
a key that lies outside every store (`smp.files.user_state`). The key is not bound to a path: a store that was moved or
copied still recovers its own journal.

Several users may share a store. A journal that only appends, and belongs to another user of the machine, counts as authentic
(`is_of_another_user`): whoever can put it there can append to the files as well, and without it a transaction of that user would
be seen half. All others without this user's code are foreign.
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


def is_authentic(disk: Disk, purpose: str, body: bytes, given: object) -> bool:
    """Whether this user's SMP wrote the file."""
    return given == code(disk.system.secret(), purpose, body)


def is_of_another_user(disk: Disk, path: str) -> bool:
    """Whether a file belongs to another user of this machine."""
    found = disk.stat(path)
    return found is not None and hasattr(os, "getuid") and bool(found.st_uid != os.getuid())
