"""A read-only view of a `System`: every call that would change something fails.

Guarantees: all that a check calls, directly or not, reaches the disk through `ReadOnlySystem`: creating, writing,
truncating, renaming, linking, removing and changing permissions fail with EROFS, as on a read-only file system.
Locks can be tried: that writes nothing, and the checks release them at once.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NoReturn

from smp_memory.files.disk import Disk

if TYPE_CHECKING:
    from smp_memory.files.system import Data, System
    from smp_memory.files.user_state import UserState

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class ReadOnlySystem:
    """The reading calls of another system; all changing calls raise `OSError(EROFS)`."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.close = system.close
        self.pread = system.pread
        self.fstat = system.fstat
        self.lstat = system.lstat
        self.listdir = system.listdir
        self.lock = system.lock
        self.unlock = system.unlock
        self.boot_id = system.boot_id
        self.secret = system.secret
        self.yield_cpu = system.yield_cpu

    def open(self, path: str, flags: int, /, mode: int = 0o600) -> int:
        if flags & _CHANGES:
            _refuse(path)
        return self._system.open(path, flags, mode)

    def write(self, fd: int, data: Data, /) -> int:
        _refuse()

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        _refuse()

    def ftruncate(self, fd: int, size: int, /) -> None:
        _refuse()

    def sync(self, fd: int, /) -> None:
        _refuse()

    def sync_dir(self, path: str, /) -> None:
        _refuse(path)

    def replace(self, src: str, dst: str, /) -> None:
        _refuse(dst)

    def link(self, src: str, dst: str, /) -> None:
        _refuse(dst)

    def unlink(self, path: str, /) -> None:
        _refuse(path)

    def mkdir(self, path: str, /, mode: int = 0o700) -> None:
        _refuse(path)

    def rmdir(self, path: str, /) -> None:
        _refuse(path)

    def chmod(self, path: str, mode: int, /) -> None:
        _refuse(path)

    def set_modified(self, path: str, time_ns: int, /) -> None:
        _refuse(path)


def read_only_state(state: UserState) -> UserState:
    """The same user state, with a disk that cannot be written."""
    state.disk = Disk(ReadOnlySystem(state.disk.system))
    return state


def _refuse(path: str = "") -> NoReturn:
    raise OSError(errno.EROFS, "health checks do not write", path or None)


if TYPE_CHECKING:

    def _checked(system: System) -> System:
        return ReadOnlySystem(system)
