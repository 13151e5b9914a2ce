"""What are the bytes, and who may touch them? The primitives between a store and the operating system.

All store code reads, changes and locks files through one object, the *system*. `RealSystem` is the machine;
`smp.files.memory_system.MemorySystem` is a tree in RAM; `smp.testing` has systems that lose power or run full.

Guarantees: a primitive does one thing, fails with the `OSError` that the operating system gives, and never retries;
`open` neither follows a link at the end of the path nor waits for the other end of a pipe, and no child process
inherits its result; a lock belongs to one `open`, excludes every other one (of this process too), and is gone when
its descriptor is closed or its process dies.
Non-guarantees: `write` and `pwrite` may write less than they were given; nothing but `sync` (content and size of a
file) and `sync_dir` (the names in a folder) makes anything durable; after a failed `sync` nobody knows what the disk
holds; where a link or a name in the middle of a path leads is the caller's care; `pwrite` on a descriptor opened
with O_APPEND differs between systems (Linux appends, `MemorySystem` refuses), as does a second `lock` of one
descriptor (granted on POSIX, refused on Windows). Windows neither replaces nor unlinks a file that is
open, and follows links.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False  # `import typing` costs several milliseconds at each start of a hook
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

if sys.platform == "win32":
    import msvcrt
    from _thread import allocate_lock
else:
    import fcntl
    from fcntl import flock

    _TRY_LOCK, _UNLOCK = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN

Data = bytes | bytearray | memoryview


class Stat(Protocol):
    """The part of `os.stat_result` that store code may use."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_dev(self) -> int: ...
    @property
    def st_nlink(self) -> int: ...
    @property
    def st_uid(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_ctime_ns(self) -> int: ...


class System(Protocol):
    """The primitives. Arguments are positional, except `mode`."""

    def open(self, path: str, flags: int, /, mode: int = 0o600) -> int:
        """A descriptor for the file; `flags` as for `os.open`."""

    def close(self, fd: int, /) -> None:
        """Give the descriptor back, and with it its lock."""

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end of the file."""

    def write(self, fd: int, data: Data, /) -> int:
        """Write at the end (O_APPEND) or at the position; how many bytes were taken."""

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        """Write at `offset`; how many bytes were taken."""

    def ftruncate(self, fd: int, size: int, /) -> None:
        """Cut the file, or let it grow by zeros."""

    def sync(self, fd: int, /) -> None:
        """Return when the file's content and size are durable."""

    def sync_dir(self, path: str, /) -> None:
        """Return when the names in the folder are durable (Windows: at once, nothing can be done)."""

    def fstat(self, fd: int, /) -> Stat:
        """What is open here."""

    def lstat(self, path: str, /) -> Stat:
        """What has this name; a link at the end is not followed."""

    def replace(self, src: str, dst: str, /) -> None:
        """Rename a file over a file or a folder over nothing, atomically."""

    def link(self, src: str, dst: str, /) -> None:
        """Give a file a second name; FileExistsError if the name is taken."""

    def unlink(self, path: str, /) -> None:
        """Remove a file's name."""

    def mkdir(self, path: str, /, mode: int = 0o700) -> None:
        """Make one folder."""

    def rmdir(self, path: str, /) -> None:
        """Remove an empty folder."""

    def listdir(self, path: str, /) -> list[str]:
        """The names in a folder, in no order."""

    def chmod(self, path: str, mode: int, /) -> None:
        """Set the permissions."""

    def set_modified(self, path: str, time_ns: int, /) -> None:
        """Set when a file was last written."""

    def lock(self, fd: int, /) -> bool:
        """Try to lock exclusively, without waiting; whether we have it now."""

    def unlock(self, fd: int, /) -> None:
        """Free the lock; nothing happens if there is none."""

    def boot_id(self) -> str:
        """Differs after each start of the machine. Equal ids of two processes mean: no power loss between them."""

    def yield_cpu(self) -> None:
        """Let other threads and processes run."""


_ALWAYS = 0
for _flag in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT"):
    _ALWAYS |= getattr(os, _flag, 0)

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_DIR_SYNC = {errno.EINVAL, errno.EBADF, errno.ENOSYS, getattr(errno, "ENOTSUP", errno.EINVAL)}
_REAL_FAILURE = {errno.EIO, errno.ENOSPC, errno.EBADF, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)}
_LOCK_AT = 2**31 - 2  # Windows: the locked byte is unreadable to others, so it lies far beyond any content


if sys.platform == "darwin":

    def _sync(fd: int, /) -> None:
        """fsync alone leaves the bytes in the drive's cache on macOS."""
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno in _REAL_FAILURE:
                raise
            os.fsync(fd)  # a file system (network, FAT) that does not know F_FULLFSYNC

elif sys.platform == "linux":
    _sync = os.fdatasync
else:
    _sync = os.fsync


class RealSystem:
    """The machine. Stateless: all instances are alike and may be shared between threads."""

    def open(self, path: str, flags: int, /, mode: int = 0o600) -> int:
        return os.open(path, flags | _ALWAYS, mode)

    def mkdir(self, path: str, /, mode: int = 0o700) -> None:
        os.mkdir(path, mode)

    _boot = ""
    close = staticmethod(os.close)
    write = staticmethod(os.write)
    ftruncate = staticmethod(os.ftruncate)
    sync = staticmethod(_sync)
    fstat = staticmethod(os.fstat)
    lstat = staticmethod(os.lstat)
    replace = staticmethod(os.replace)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)
    chmod = staticmethod(os.chmod)

    def listdir(self, path: str, /) -> list[str]:
        return os.listdir(path)

    def set_modified(self, path: str, time_ns: int, /) -> None:
        os.utime(path, ns=(time_ns, time_ns))

    def boot_id(self) -> str:
        if not RealSystem._boot:
            RealSystem._boot = _boot_id()
        return RealSystem._boot

    if sys.platform == "win32":
        _seeking = allocate_lock()

        def pread(self, fd: int, size: int, offset: int, /) -> bytes:
            with self._seeking:
                position = os.lseek(fd, 0, os.SEEK_CUR)
                try:
                    os.lseek(fd, offset, os.SEEK_SET)
                    return os.read(fd, size)
                finally:
                    os.lseek(fd, position, os.SEEK_SET)

        def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
            with self._seeking:
                position = os.lseek(fd, 0, os.SEEK_CUR)
                try:
                    os.lseek(fd, offset, os.SEEK_SET)
                    return os.write(fd, data)
                finally:
                    os.lseek(fd, position, os.SEEK_SET)

        def sync_dir(self, path: str, /) -> None:
            pass

        def lock(self, fd: int, /) -> bool:
            try:
                self._locking(fd, msvcrt.LK_NBLCK)
            except PermissionError:
                return False
            return True

        def unlock(self, fd: int, /) -> None:
            try:
                self._locking(fd, msvcrt.LK_UNLCK)
            except PermissionError:
                return  # was not locked

        def _locking(self, fd: int, how: int) -> None:
            with self._seeking:
                position = os.lseek(fd, 0, os.SEEK_CUR)
                try:
                    os.lseek(fd, _LOCK_AT, os.SEEK_SET)
                    msvcrt.locking(fd, how, 1)
                finally:
                    os.lseek(fd, position, os.SEEK_SET)

        def yield_cpu(self) -> None:
            import time

            time.sleep(0)

    else:
        pread = staticmethod(os.pread)
        pwrite = staticmethod(os.pwrite)
        yield_cpu = staticmethod(os.sched_yield)  # 1 µs; time.sleep(0) takes 100 µs on Linux

        def sync_dir(self, path: str, /) -> None:
            fd = os.open(path, _FOLDER)
            try:
                (_sync if sys.platform == "darwin" else os.fsync)(fd)
            except OSError as error:
                if error.errno not in _NO_DIR_SYNC:  # some network file systems know no fsync of folders
                    raise
            finally:
                os.close(fd)

        def lock(self, fd: int, /) -> bool:
            try:
                flock(fd, _TRY_LOCK)
            except BlockingIOError:
                return False
            return True

        def unlock(self, fd: int, /) -> None:
            flock(fd, _UNLOCK)


def _boot_id() -> str:
    """The kernel's id of this boot; elsewhere one of this process, as if every process came after a power loss.

    Wall clock minus uptime would tell boots apart only until the clock is set or the machine sleeps.
    """
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
        try:
            found = os.read(fd, 64).decode("ascii").strip()
        finally:
            os.close(fd)
    except (OSError, ValueError):
        found = ""
    return found or os.urandom(16).hex()


if TYPE_CHECKING:
    _checked: System = RealSystem()
