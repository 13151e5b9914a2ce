"""Primitives between a store and the operating system.

All store code reads, changes and locks files through one object, the *system*. `RealSystem` is the operating system;
`smp_memory.files.memory_system.MemorySystem` is a tree in RAM; `smp_memory.testing` has systems that lose power or run full.

Paths below a root. `RealSystem(root)` resolves every path below `root` one component at a time (`openat` with
O_NOFOLLOW), for every primitive that opens, lists or changes something. A symbolic link or a `..` below the root is an OSError (ELOOP), and a path
outside the root cannot be opened or changed. So files that another user put into a store cannot lead SMP out of it,
even if they change while SMP works. `openat2` would do the same in one call, but Python reaches it through `ctypes`
only, which takes 9 ms to load; the _walk takes 2 µs (docs/adr/0019-hostile-stores.md).

Guarantees: a primitive does one thing, fails with the `OSError` that the operating system gives, and never retries;
`open` neither follows a link at the end of the path nor waits for the other end of a pipe, and no child process
inherits its result; a lock belongs to one `open`, excludes every other one (of this process too), and is released when
its descriptor is closed or its process dies.
Non-guarantees: `write` and `pwrite` may write less than they were given; nothing but `sync` (content and size of a
file) and `sync_dir` (the names in a folder) makes anything durable; after a failed `sync` nobody knows what the disk
holds; links above the root, and all links without a root, are followed (but for the last component); `pwrite` on a
descriptor opened with O_APPEND differs between systems (Linux appends, `MemorySystem` refuses), as does a second `lock`
of one descriptor (granted on POSIX, refused on Windows). Windows neither replaces nor unlinks a file that is open, and
has no `openat`: there each component is checked before the path is used, which a racing process could outrun.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
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
        """Close the descriptor and release its lock."""

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end of the file."""

    def write(self, fd: int, data: Data, /) -> int:
        """Write at the end (O_APPEND) or at the position; returns how many bytes were written."""

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        """Write at `offset`; returns how many bytes were written."""

    def ftruncate(self, fd: int, size: int, /) -> None:
        """Truncate the file, or extend it with zeros."""

    def sync(self, fd: int, /) -> None:
        """Return when the file's content and size are durable."""

    def sync_dir(self, path: str, /) -> None:
        """Return when the names in the folder are durable (Windows: at once, it has no such call)."""

    def fstat(self, fd: int, /) -> Stat:
        """The status of an open file."""

    def lstat(self, path: str, /) -> Stat:
        """The status of a path; a link at the end is not followed."""

    def lstat_below(self, folder: str, paths: Iterable[str], /) -> Iterator[Stat | None]:
        """The status of each of these paths below a folder, None where there is none; for many paths faster than `lstat`."""

    def replace(self, src: str, dst: str, /) -> None:
        """Rename a file, replacing an existing one, or a folder to a free name, atomically."""

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
        """Try to lock exclusively, without waiting; whether the lock is held now."""

    def unlock(self, fd: int, /) -> None:
        """Release the lock, if there is one."""

    def boot_id(self) -> str:
        """An id of the current boot. Equal ids of two processes mean that there was no power loss between them."""

    def yield_cpu(self) -> None:
        """Let other threads and processes run."""


_ALWAYS = 0
for _flag in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT"):
    _ALWAYS |= getattr(os, _flag, 0)

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


# -- paths, one component at a time without following links

_HAS_OPENAT = os.open in os.supports_dir_fd
if os.name == "posix":
    _NOFOLLOW = os.O_NOFOLLOW
    _FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    _WALK = _FOLDER | _NOFOLLOW | getattr(os, "O_PATH", 0)  # an intermediate folder is neither listed nor synced
else:
    _NOFOLLOW, _FOLDER, _WALK = 0, os.O_RDONLY, os.O_RDONLY


def _close_folder(folder: int | None) -> None:
    if folder is not None:
        os.close(folder)


def _walk(prefix: str, folders: list[str], path: str) -> int:
    """Open the folders one after the other, none of them through a link; returns the last descriptor."""
    folder = _open_component(prefix + folders[0], None, _WALK, path)
    for name in folders[1:]:
        try:
            inner = _open_component(name, folder, _WALK, path)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_component(name: str, folder: int | None, flags: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if modes.S_ISLNK(status.st_mode):
                raise _link_error(path) from None
        raise type(error)(error.errno, error.strerror, path) from None


def _check_components(prefix: str, parts: list[str], path: str) -> None:
    """Without `openat`: reject a path that leads through a link or a junction."""
    so_far = prefix.rstrip(os.sep)
    for name in parts[:-1]:
        so_far = f"{so_far}{os.sep}{name}"
        status = os.lstat(so_far)
        if modes.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", False):
            raise _link_error(path)


# -- what root creates belongs to the owner of the folder: after `sudo smp …` the owner can still read and write the store


def _is_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


def _create_for_owner(name: str, flags: int, mode: int, folder: int | None) -> int:
    try:
        descriptor = os.open(name, flags | os.O_EXCL, mode, dir_fd=folder)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(name, flags, mode, dir_fd=folder)
    _give_to_owner(descriptor, name, folder)
    return descriptor


def _give_folder_to_owner(name: str, folder: int | None) -> None:
    descriptor = os.open(name, _FOLDER | _NOFOLLOW, dir_fd=folder)
    try:
        if not os.listdir(descriptor):  # else it is not the new one
            _give_to_owner(descriptor, name, folder)
    finally:
        os.close(descriptor)


def _give_to_owner(descriptor: int, name: str, folder: int | None) -> None:
    """`descriptor` is of a file or folder that this process has just created, so nobody gets what was root's before."""
    owner = os.fstat(folder) if folder is not None else os.stat(os.path.dirname(name) or ".")
    if owner.st_uid != 0:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _link_error(path: str) -> OSError:
    return OSError(errno.ELOOP, "a symbolic link inside the store is not followed", path)


class RealSystem:
    """The operating system. Threads may share it; its only state is the root below which no link is followed."""

    root = _prefix = ""

    def __init__(self, root: str = "") -> None:
        self.root = root
        self._prefix = root if root.endswith(os.sep) or not root else root + os.sep

    def open(self, path: str, flags: int, /, mode: int = 0o600) -> int:
        folder, name = self._resolve(path)
        if folder is None and not flags & os.O_CREAT:
            return os.open(name, flags | _ALWAYS, mode)
        try:
            if flags & os.O_CREAT and _is_root():
                return _create_for_owner(name, flags | _ALWAYS, mode, folder)
            return os.open(name, flags | _ALWAYS, mode, dir_fd=folder)
        finally:
            _close_folder(folder)

    def mkdir(self, path: str, /, mode: int = 0o700) -> None:
        folder, name = self._resolve(path, outside=True)
        try:
            os.mkdir(name, mode, dir_fd=folder)
            if _is_root():
                _give_folder_to_owner(name, folder)
        finally:
            _close_folder(folder)

    def rmdir(self, path: str, /) -> None:
        folder, name = self._resolve(path)
        try:
            os.rmdir(name, dir_fd=folder)
        finally:
            _close_folder(folder)

    def unlink(self, path: str, /) -> None:
        folder, name = self._resolve(path)
        try:
            os.unlink(name, dir_fd=folder)
        finally:
            _close_folder(folder)

    def replace(self, src: str, dst: str, /) -> None:
        self._both(os.replace, src, dst)

    def link(self, src: str, dst: str, /) -> None:
        self._both(os.link, src, dst)

    def _both(self, act: Callable[..., None], src: str, dst: str) -> None:
        source, old = self._resolve(src)
        try:
            target, new = self._resolve(dst)
            try:
                act(old, new, src_dir_fd=source, dst_dir_fd=target)
            finally:
                _close_folder(target)
        finally:
            _close_folder(source)

    def chmod(self, path: str, mode: int, /) -> None:
        folder, name = self._resolve(path)
        try:
            if modes.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise _link_error(path)
            os.chmod(name, mode, dir_fd=folder)
        finally:
            _close_folder(folder)

    def set_modified(self, path: str, time_ns: int, /) -> None:
        folder, name = self._resolve(path)
        try:
            if folder is None:
                os.utime(name, ns=(time_ns, time_ns), follow_symlinks=os.utime not in os.supports_follow_symlinks)
            else:
                os.utime(name, ns=(time_ns, time_ns), dir_fd=folder, follow_symlinks=False)
        finally:
            _close_folder(folder)

    def listdir(self, path: str, /) -> list[str]:
        if not _HAS_OPENAT or not self._is_below(path):
            self._resolve(path, outside=True)
            return os.listdir(path)
        folder = self._open_folder(path)
        try:
            return os.listdir(folder)
        finally:
            os.close(folder)

    # -- paths below the root

    def _is_below(self, path: str) -> bool:
        return bool(self._prefix) and path.startswith(self._prefix)

    def _resolve(self, path: str, *, outside: bool = False) -> tuple[int | None, str]:
        """The folder of a path, opened without following links below the root, and the name in it.

        The folder is None, and the name is the whole path, if no folder needs to be opened. The caller closes the folder.
        `outside`: the root itself and folders above it are allowed, too.
        """
        prefix = self._prefix
        if not prefix:
            return None, path
        if not path.startswith(prefix):
            if outside or path == self.root:
                return None, path
            raise OSError(errno.ELOOP, f"lies outside the store {self.root}", path)
        parts = path[len(prefix) :].rstrip(os.sep).split(os.sep)
        if ".." in parts or "" in parts or "." in parts:
            raise OSError(errno.ELOOP, "is not a plain path below the store", path)
        if not _HAS_OPENAT:
            _check_components(prefix, parts, path)
            return None, path
        return (None, path) if len(parts) == 1 else (_walk(prefix, parts[:-1], path), parts[-1])

    def _open_folder(self, path: str) -> int:
        """A descriptor of a folder below the root, for listing and syncing."""
        folder, name = self._resolve(path)
        try:
            return _open_component(name, folder, _FOLDER | _NOFOLLOW, path)
        finally:
            _close_folder(folder)

    _boot = ""
    close = staticmethod(os.close)
    write = staticmethod(os.write)
    ftruncate = staticmethod(os.ftruncate)
    sync = staticmethod(_sync)
    fstat = staticmethod(os.fstat)
    # Opens nothing and returns sizes and times only: walking the path would cost readers more than it gains.
    lstat = staticmethod(os.lstat)

    def lstat_below(self, folder: str, paths: Iterable[str], /) -> Iterator[Stat | None]:
        """Relative to a descriptor of the folder: the way to the store is walked once, not for each path."""
        lstat = os.lstat
        base: int | None = None
        try:
            base = os.open(folder, _WALK & ~_NOFOLLOW) if _HAS_OPENAT else None
        except OSError:
            pass  # the folder is gone, or cannot be opened: the whole paths say what is there
        try:
            for path in paths:
                try:
                    yield lstat(path, dir_fd=base) if base is not None else lstat(os.path.join(folder, path))
                except OSError:
                    yield None
        finally:
            _close_folder(base)

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
            fd = self._open_folder(path) if self._is_below(path) else os.open(path, _FOLDER)
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
    """The kernel's id of this boot; without one an id of this process, as if every process started after a power loss.

    Wall clock minus uptime would distinguish boots only until the clock is set or the machine sleeps.
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
