"""Who may talk to the HTTP server? Whoever knows the token in a file that only its owner can read.

Guarantees: a token has 256 random bits and is compared in constant time; it is never printed or logged, only the path of its
file is. A file that others may read or write, or that holds no token, is refused.
"""

from __future__ import annotations

import hmac
import os
import secrets
from typing import TYPE_CHECKING

from smp.errors import InvalidConfig, from_os_error

if TYPE_CHECKING:
    from smp.files.disk import Disk

FILE = "mcp-token"
_SHORTEST = 16


def token_in(path: str) -> str:
    """The token in a file; a new one if there is no such file."""
    from smp.files.disk import Disk
    from smp.files.system import RealSystem

    disk, target = Disk(RealSystem()), os.path.abspath(path)
    try:
        if not disk.exists(target):
            _make(disk, target)
        found = disk.stat(target)
        if found is not None and os.name == "posix" and found.st_mode & 0o077:
            raise InvalidConfig(f"{path}: others may read this token. Make it yours alone: chmod 600 {path}", path=path)
        token = disk.read(target).decode("ascii", "replace").strip()
    except OSError as error:
        raise from_os_error(error, path, "reading the token") from error
    if len(token) < _SHORTEST or not token.isprintable() or " " in token or "\ufffd" in token:
        raise InvalidConfig(
            f"{path}: this is no token; it needs {_SHORTEST} characters or more. Remove the file, and a new one is made.",
            path=path,
        )
    return token


def _make(disk: Disk, path: str) -> None:
    disk.make_folder(os.path.dirname(path))
    try:
        disk.write_new(path, (secrets.token_urlsafe(32) + "\n").encode())
    except FileExistsError:
        pass  # another process was quicker; its token holds
    disk.sync_folder(os.path.dirname(path))


def is_token(token: str, header: str | None) -> bool:
    """Whether an Authorization header holds the token."""
    kind, _, given = (header or "").partition(" ")
    matches = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return kind.lower() == "bearer" and matches
