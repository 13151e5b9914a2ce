"""Create, write, sync, rename and remove files. The only module that does.

Guarantees
- An append that fails half-way (disk full) leaves the file as it was; after `sync` it is on the disk, and a new file's folder entry too.
- `replace` leaves either the old or the new content under a name, at every moment, also after a power loss.
- Files are created 0600, folders 0700. A link, a device or a file with several names where a plain file should be is rejected, so that
  nobody can make SMP write somewhere else: what is not replaced as a whole is opened by `open_write`.
- The folder of an open store that somebody moved or removed is not made again (`StoreNotFound`).
Non-guarantees: after a failed sync nobody knows what is on the disk (`DurabilityUnknown`); it is never repeated on the same file,
because the kernel may have dropped the data. The caller rewrites the file to a new one.
Reads, lookups and openings that fail for a transient reason are retried, three times with growing pauses; a failure that persists
raises the last error. Only what changes nothing is retried: stat, listing a folder, opening without creating (or a lock file), reading.
Writes, renames, removals and syncs never are. Every retry is a log event (`io_retry`).
"""

from __future__ import annotations

import errno
import os
import stat as modes
import time

from smp_memory.errors import DurabilityUnknown, StorageCorrupt, StoreNotFound, from_os_error
from smp_memory.observe import telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from smp_memory.files.system import System

    Result = TypeVar("Result")

TEMPORARY = ".smp-new"  # the ending of unfinished files; no reader reads them
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe that somebody planted must not wait for ever
_CHUNK = 1 << 20
FILE_LIMIT_BYTES = 256 << 20  # of a file that is read whole; larger than a session may be configured to grow
SMALL_FILE_LIMIT_BYTES = 4 << 20  # of session metadata, settings and shared files of the designs
TICK_NS = 50_000_000  # more than the coarsest clock of a file system that SMP is used on


class OpenFile:
    """A file that is being appended to, under the lock.

    If it is kept open, call `is_unchanged` before using it again: a rewrite or an editor may have put another file in its place.
    """

    __slots__ = ("_appended", "_descriptor", "_disk", "_system", "created", "has_name", "identity", "modified_before", "path", "size_before")  # fmt: skip

    def __init__(self, disk: Disk, descriptor: int, path: str, created: bool, status: Any) -> None:
        self._disk = disk
        self._system = disk.system
        self._descriptor = descriptor
        self.path = path
        self.created = created
        self.identity = identity(status)
        self.has_name = True
        self.size_before, self.modified_before = status.st_size, status.st_mtime_ns
        self._appended: list[bytes] = []  # since `size_before`

    def is_unchanged(self, known: list[int]) -> bool:
        """Whether the file still has the identity in the writer state: not replaced, not moved, not changed."""
        status = self._system.fstat(self._descriptor)
        self.identity = now = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        self.size_before, self.modified_before = status.st_size, status.st_mtime_ns
        self._appended.clear()
        self.created = False
        return now == known[:4] and bool(status.st_nlink == 1)

    def append(self, data: bytes) -> None:
        """Append whole entries; if that fails half-way the file is truncated to its size before."""
        self._appended.append(data)
        try:
            done = self._system.write(self._descriptor, data)
            while done < len(data):
                done += self._system.write(self._descriptor, data[done:])
        except OSError as error:
            self.undo_appends(self.identity[1])
            raise from_os_error(error, self.path, "writing") from error
        self.identity[1] += done  # the times are read once for all appends of a commit

    def undo_appends(self, size: int) -> None:
        """Truncate the file to a size since which only this process appended. Frees space, so it works on a full disk."""
        ours = b"".join(self._appended)
        stored = self._disk.read_open(self._descriptor, size)
        if not ours[size - self.size_before :].startswith(stored):
            raise DurabilityUnknown(
                f"A write to {self.path} failed, and another program wrote to the file meanwhile. The write could not be "
                "undone; part of it may be in the file.",
                path=self.path,
            )
        self._system.ftruncate(self._descriptor, size)
        self._appended = [ours[: size - self.size_before]]
        self.refresh_identity()

    def truncate_torn(self, size: int) -> None:
        """Cut off what a power loss left behind the last complete line. The caller has read the file under its lock."""
        self._system.ftruncate(self._descriptor, size)
        self.size_before = size
        self._appended.clear()
        self.refresh_identity()

    def refresh_identity(self) -> list[int]:
        """Read the identity after a write, and whether the file still has a name."""
        status = self._system.fstat(self._descriptor)
        self.has_name = status.st_nlink != 0
        self.identity = now = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        return now

    def sync(self) -> None:
        """The commit point: returns when the bytes, and a new file's folder entry, are on the disk."""
        began = time.monotonic()
        try:
            self._system.sync(self._descriptor)
            telemetry.SYNC_SECONDS.observe((), time.monotonic() - began)
            if self.created:
                folder = os.path.dirname(self.path)
                self._disk.sync_folder(folder)
                # The process that made the folder may have died before its sync.
                self._disk.sync_folder(os.path.dirname(folder))
        except OSError as error:
            try:
                self.undo_appends(self.size_before)
            except (OSError, DurabilityUnknown):
                pass
            raise DurabilityUnknown(
                f"The disk did not confirm a write to {self.path} ({error.strerror}). It was not acknowledged and may or may not be stored. "
                "Check the disk; the next write copies the file to a new one first.",
                path=self.path,
                errno=error.errno,
            ) from error

    def close(self) -> None:
        self._system.close(self._descriptor)


class Disk:
    def __init__(self, system: System, root: str = "") -> None:
        self.system = system
        self._root = root  # of an open store: neither it nor a folder above it is made

    # -- reading

    def stat(self, path: str) -> Any | None:
        """The status of a path, without following links; None if nothing has that name."""
        try:
            return self.system.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return self._retry_lookup(error, path, "looking at a file", None, lambda: self.system.lstat(path))

    def _retry_lookup(self, error: OSError, path: str, operation: str, default: Any, call: Callable[[], Any]) -> Any:
        """Retry a lookup that failed; `default` if there is no such file or folder."""
        try:
            return retry_mapped(error, path, operation, call)
        except (FileNotFoundError, NotADirectoryError):
            return default

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(self.system.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            names: list[str] = self._retry_lookup(
                error, folder, "listing a folder", [], lambda: sorted(self.system.listdir(folder))
            )
            return names

    def folders(self, folder: str) -> list[str]:
        return [name for name in self.names(folder) if self.is_folder(os.path.join(folder, name))]

    def is_folder(self, path: str) -> bool:
        status = self.stat(path)
        return status is not None and modes.S_ISDIR(status.st_mode)

    def read(self, path: str, offset: int = 0, size: int = -1, limit_bytes: int = FILE_LIMIT_BYTES) -> bytes:
        """The bytes of a file from an offset on. Raises FileNotFoundError only if it does not exist, StorageCorrupt beyond the limit."""
        try:
            return self.read_once(path, offset, size, limit_bytes)
        except FileNotFoundError:
            raise
        except OSError as error:
            return retry_mapped(error, path, "reading a file", lambda: self.read_once(path, offset, size, limit_bytes))

    def read_small(self, path: str) -> bytes:
        """The same of session metadata, settings and shared files of the designs."""
        return self.read(path, limit_bytes=SMALL_FILE_LIMIT_BYTES)

    def read_once(self, path: str, offset: int, size: int, limit_bytes: int = FILE_LIMIT_BYTES) -> bytes:
        descriptor = self.open_read(path)
        try:
            if size >= 0:
                return self.read_open(descriptor, offset, size)
            data = self.read_open(descriptor, offset, max(0, limit_bytes - offset) + 1)
        finally:
            self.system.close(descriptor)
        if offset + len(data) > limit_bytes:
            raise StorageCorrupt(
                f"{path} is larger than {limit_bytes >> 20} MiB, the most that SMP reads of such a file. If it is yours, move a "
                "part of it away.",
                path=path,
                limit=limit_bytes,
            )
        return data

    def read_open(self, descriptor: int, offset: int, size: int = -1) -> bytes:
        """The same of an open file, also where one pread returns less than the file has. Raises OSError."""
        parts = []
        while size != 0:
            part = self.system.pread(descriptor, _CHUNK if size < 0 else min(size, _CHUNK), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size = size - len(part) if size > 0 else size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def open_read(self, path: str) -> int:
        """A descriptor for a plain file; the caller closes it. FileNotFoundError only if it does not exist."""
        try:
            descriptor = self.system.open(path, os.O_RDONLY | _NONBLOCK)
        except FileNotFoundError:
            raise
        except NotADirectoryError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
        except OSError as error:
            status = self.stat(path)
            if status is not None and not modes.S_ISREG(status.st_mode):  # the system itself rejects a link
                raise _not_plain_error(path) from error
            flags = os.O_RDONLY | _NONBLOCK
            descriptor = retry_mapped(error, path, "reading a file", lambda: self.system.open(path, flags))
        try:
            self._check_plain(descriptor, path)
        except BaseException as error:
            self.system.close(descriptor)
            if isinstance(error, OSError):
                raise from_os_error(error, path, "reading a file") from error
            raise
        return descriptor

    # -- appending

    def open_append(self, path: str, *, create: bool = True) -> OpenFile:
        """Open a file for appending, creating it if need be."""
        descriptor, status, created = self.open_write(path, os.O_APPEND, create=create)
        return OpenFile(self, descriptor, path, created, status)

    def open_write(self, path: str, flags: int = 0, *, create: bool = False) -> tuple[int, Any, bool]:
        """A descriptor for writing into a plain file with one name; the caller closes it. Also its status, and whether it is new."""
        flags |= os.O_RDWR | _NONBLOCK
        created = False
        try:
            descriptor = self.system.open(path, flags)
        except FileNotFoundError:
            if not create:
                raise
            try:
                descriptor = self.system.open(path, flags | os.O_CREAT | os.O_EXCL)
                created = True
            except FileExistsError:  # another process created it meanwhile
                descriptor = self.system.open(path, flags)
        except OSError as error:
            descriptor = retry(error, path, lambda: self.system.open(path, flags))
        try:
            return descriptor, self._check_plain(descriptor, path), created
        except BaseException:
            self.system.close(descriptor)
            raise

    def _check_plain(self, descriptor: int, path: str) -> Any:
        status = self.system.fstat(descriptor)
        if not modes.S_ISREG(status.st_mode) or (status.st_nlink > 1 and not self._is_being_linked(path, status)):
            raise _not_plain_error(path)
        return status

    def _is_being_linked(self, path: str, status: Any) -> bool:
        """Whether the second name is the one that `link_new` removes last: its process is at work, or died."""
        here = os.path.dirname(path)
        for folder in (here, os.path.join(here, ".smp")):
            for name in self.names(folder):
                twin = self.stat(os.path.join(folder, name)) if name.endswith(TEMPORARY) else None
                if twin is not None and twin.st_ino == status.st_ino:
                    try:
                        self.remove(os.path.join(folder, name))
                    except OSError:
                        pass  # a disk that can only be read
                    return bool(status.st_nlink == 2)
        now = self.stat(path)
        return now is not None and bool(now.st_ino == status.st_ino and now.st_nlink == 1)

    # -- replacing

    def write_new(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Create a file that must not exist yet. Its folder entry is not synced."""
        descriptor = self.system.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                done = 0
                while done < len(data):
                    done += self.system.write(descriptor, data[done:])
            except OSError as error:
                self.system.close(descriptor)
                descriptor = -1
                self.system.unlink(path)
                raise from_os_error(error, path, "writing") from error
            if sync:
                self.system.sync(descriptor)
        finally:
            if descriptor >= 0:
                self.system.close(descriptor)

    def write_replacement(self, path: str, data: bytes, written_ns: int) -> list[int]:
        """Write the temporary file that will replace a file, with that file's modification time (`written_ns` if it is new).

        Returns the identity of the temporary file.
        """
        temporary = path + TEMPORARY
        self.remove(temporary)
        self.write_new(temporary, data)
        old = self.stat(path)
        before = old.st_mtime_ns if old is not None else written_ns
        if before and (old is None or old.st_size != len(data)):  # otherwise a backup by size and time would miss it
            self.set_modified_time(temporary, before)
        return identity(self.stat(temporary))

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of a file, atomically and durably."""
        temporary = path + TEMPORARY
        self.remove(temporary)
        self.write_new(temporary, data)
        self.system.replace(temporary, path)
        self._confirm_name(path)

    def recreate(self, path: str) -> bool:
        """Replace a file by a copy of it, durably. False, and nothing is changed, if it changes meanwhile."""
        before = self.stat(path)
        if before is None:
            return True
        temporary = path + TEMPORARY
        self.remove(temporary)
        self.write_new(temporary, self.read(path))
        now = self.stat(path)
        if now is None or identity(now) != identity(before):
            self.remove(temporary)
            return False
        self.system.replace(temporary, path)
        self._confirm_name(path)
        return True

    def move(self, source: str, target: str) -> None:
        self.system.replace(source, target)

    def link_new(self, source: str, target: str) -> None:
        """Move a finished file to a new name; FileExistsError if the name is taken."""
        self.system.link(source, target)
        self._confirm_name(target)  # otherwise a power loss could remove both names
        try:
            self.remove(source)
        except OSError:
            pass  # the next process that opens the file removes it

    def _confirm_name(self, path: str) -> None:
        try:
            self.sync_folder(os.path.dirname(path))
        except OSError as error:
            raise DurabilityUnknown(
                f"{path} was written, but the disk did not confirm its name ({error.strerror}). It may be lost.",
                path=path,
                errno=error.errno,
            ) from error

    def complete_append(self, path: str, offset: int, data: bytes, stored: bytes = b"") -> bool:
        """Write data at an offset where `stored`, a part of it, ends the file already. A new folder entry is not synced.

        False, and nothing is changed, if the file does not end in that part any more.
        """
        descriptor, status, _ = self.open_write(path, create=True)
        try:
            if self.read_open(descriptor, offset) != stored or status.st_size != offset + len(stored):
                return False
            try:
                done = 0
                while done < len(data):
                    done += self.system.pwrite(descriptor, data[done:], offset + done)
            except OSError as error:
                if data.startswith(self.read_open(descriptor, offset)):
                    self.system.ftruncate(descriptor, status.st_size)
                raise from_os_error(error, path, "writing") from error
            self.system.sync(descriptor)
            return True
        finally:
            self.system.close(descriptor)

    def truncate_tail(self, path: str, size: int, tail: bytes) -> bool:
        """Cut a tail off a file, durably. False, and nothing is changed, if other bytes follow `size`."""
        try:
            descriptor, _, _ = self.open_write(path)
        except FileNotFoundError:
            return False
        try:
            if self.read_open(descriptor, size) != tail:
                return False
            self.system.ftruncate(descriptor, size)
            self.system.sync(descriptor)
            return True
        finally:
            self.system.close(descriptor)

    def set_modified_time(self, path: str, modified_ns: int) -> None:
        """Set a file's modification time back after a write that people would not call one. A failure is ignored."""
        try:
            self.system.set_modified(path, modified_ns)
        except OSError:
            pass

    def sync_file(self, path: str) -> None:
        """Sync the bytes of a file, if it exists. Raises DurabilityUnknown if the sync fails."""
        try:
            descriptor = self.system.open(path, os.O_RDWR)
        except FileNotFoundError:
            return
        try:
            self.system.sync(descriptor)
        except OSError as error:
            raise DurabilityUnknown(
                f"The disk did not confirm what was written to {path} ({error.strerror}). It may be lost; check the "
                "disk. The next write copies the file to a new one first.",
                path=path,
                errno=error.errno,
            ) from error
        finally:
            self.system.close(descriptor)

    def sync_folder(self, path: str) -> None:
        try:
            self.system.sync_dir(path)
        except PermissionError:
            pass  # a folder above the store that this user may not read cannot be synced

    # -- folders and removal

    def make_folder(self, path: str, *, within: str = "", sync: bool = True) -> None:
        """Create a folder and those above it, durably; FileNotFoundError if the folder `within` does not exist.

        Without `sync` the caller syncs them, or moves them into a folder that it syncs.
        """
        if self.exists(path):
            if not self.is_folder(path):
                raise StorageCorrupt(f"{path} is a file or a link, but SMP needs a folder there.", path=path)
            return
        if _is_or_contains(path, within):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if _is_or_contains(path, self._root):
            raise moved_store_error(self._root)
        parent = os.path.dirname(path)
        if parent and parent != path and not self.exists(parent):  # a folder above the store may be a link
            self.make_folder(parent, within=within, sync=sync)
        try:
            self.system.mkdir(path, 0o700)
        except FileExistsError:
            return
        if parent and sync:
            self.sync_folder(parent)

    def remove(self, path: str) -> None:
        try:
            self.system.unlink(path)
        except FileNotFoundError:
            pass

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a folder with its content; links are removed, not followed."""
        status = self.stat(path)
        if status is None:
            return
        if not modes.S_ISDIR(status.st_mode):
            self.remove(path)
            return
        for name in self.names(path):
            self.remove_tree(os.path.join(path, name))
        try:
            self.system.rmdir(path)
        except FileNotFoundError:
            pass


def _is_or_contains(path: str, folder: str) -> bool:
    return f"{folder}{os.sep}".startswith(f"{path}{os.sep}")


def moved_store_error(root: str) -> StoreNotFound:
    return StoreNotFound(
        f"The store in {root} was moved or removed while it was open. Nothing was written; open it again.", path=root
    )


def _not_plain_error(path: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"{path} is not a plain file with one name; SMP does not touch it. If it is a link, or has a second name "
        "(a hard link, as some backups make them), put a copy in its place.",
        path=path,
    )


def identity(status: Any) -> list[int]:
    """The identity of a file's state: inode, size, time of the last modification and of the last change."""
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


PAUSES_SECONDS: tuple[float, ...] = (0.01, 0.04, 0.16)
TRANSIENT = {
    errno.EINTR,  # a signal came
    errno.EAGAIN,  # try again
    errno.EMFILE,  # too many files open in this process
    errno.ENFILE,  # too many files open on this machine
    errno.ENOMEM,  # too little memory
    errno.EIO,  # the device or the network failed; reading again is safe
    errno.EBUSY,
    getattr(errno, "ESTALE", errno.EAGAIN),  # a file server replaced the file; it is opened again
    getattr(errno, "ETIMEDOUT", errno.EAGAIN),
}


def retry(error: OSError, path: str, call: Callable[[], Result]) -> Result:
    """Repeat a call that has just raised this error; raises the last error if it does not succeed."""
    for number, pause in enumerate(PAUSES_SECONDS, 1):
        if error.errno not in TRANSIENT:
            break
        name = errno.errorcode.get(error.errno or 0, str(error.errno))
        text = f"{path}: {error.strerror or name}; retrying the read ({number} of {len(PAUSES_SECONDS)})."
        telemetry.emit("storage", telemetry.WARNING, "io_retry", text, path=path, errno=name, attempt=number)
        time.sleep(pause)
        try:
            return call()
        except OSError as last:
            error = last
    raise error


def retry_mapped(error: OSError, path: str, operation: str, call: Callable[[], Result]) -> Result:
    """The same, with the last error as an SMPError, unless there is no such file or folder."""
    try:
        return retry(error, path, call)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as last:
        raise from_os_error(last, path, operation) from last
