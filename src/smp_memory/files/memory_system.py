"""The primitives of `system` over a tree in RAM.

`smp_memory.open(":memory:")` uses it, and so do the systems of `smp_memory.testing`.

Guarantees: the errors are those of Linux, by number and class; each primitive is atomic between threads; an append
takes time in proportion to its bytes; every change gives new time stamps, later than all before; inode and descriptor numbers are
never reused, so a stale one fails (EBADF) instead of meaning another file.
Non-guarantees: permissions are kept but not enforced; there are no symbolic links; `..` is resolved in the text of
the path; a relative path starts at the root. `pwrite` with O_APPEND is rejected (EINVAL), because Linux and macOS
disagree about it. `sync` and `sync_dir` only check their argument.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from smp_memory.files.system import TYPE_CHECKING, Data
from smp_memory.import_lock import held_at_no_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.files.system import System

_WRITABLE = os.O_WRONLY | os.O_RDWR
_ACCESS = os.O_RDONLY | _WRITABLE
_ONLY_FOLDER: int = getattr(os, "O_DIRECTORY", 0)
_UID: int = getattr(os, "getuid", lambda: 0)()
_LONGEST_NAME = 255
_FIRST_FD = 1_000_000  # larger than any descriptor of this process


class MemoryNode:
    """An inode."""

    __slots__ = ("changed", "holder", "links", "mode", "modified", "number")

    def __init__(self, number: int, mode: int) -> None:
        self.number = number
        self.mode = mode
        self.links = 0
        self.modified = self.changed = 0
        self.holder: MemoryFile | None = None  # the holder of the lock


class MemoryFileNode(MemoryNode):
    __slots__ = ("data",)

    def __init__(self, number: int, mode: int, data: Data = b"") -> None:
        super().__init__(number, stat.S_IFREG | mode & 0o7777)
        self.data = bytearray(data)


class MemoryFolderNode(MemoryNode):
    __slots__ = ("names",)

    def __init__(self, number: int, mode: int) -> None:
        super().__init__(number, stat.S_IFDIR | mode & 0o7777)
        self.names: dict[str, MemoryNode] = {}


class MemoryFile:
    """An open file description: the target of a descriptor and the owner of a lock."""

    __slots__ = ("flags", "node", "position")

    def __init__(self, node: MemoryNode, flags: int) -> None:
        self.node = node
        self.flags = flags
        self.position = 0


class MemoryStat:
    """The result of `fstat` and `lstat`."""

    __slots__ = ("st_ctime_ns", "st_ino", "st_mode", "st_mtime_ns", "st_nlink", "st_size", "st_uid")

    def __init__(self, node: MemoryNode) -> None:
        self.st_mode = node.mode
        self.st_ino = node.number
        self.st_nlink = node.links
        self.st_uid = _UID
        self.st_size = len(node.data) if isinstance(node, MemoryFileNode) else 0
        self.st_mtime_ns = node.modified
        self.st_ctime_ns = node.changed


Entry = tuple[MemoryFolderNode, str, MemoryNode | None]  # a name in a folder, and the node that has it


class MemorySystem:
    """A system whose disk is a tree in RAM, at first an empty root.

    `disk` starts from a copy of another one's tree, of the same boot, without its locks and descriptors. `boot`
    names the boot, `now_ns` is the clock of the time stamps.
    """

    def __init__(
        self,
        *,
        disk: MemorySystem | None = None,
        boot: str | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._guard = held_at_no_fork
        self._now_ns = now_ns
        self._open: dict[int, MemoryFile] = {}
        self._next_fd = _FIRST_FD
        if disk is None:
            self._boot = boot or os.urandom(16).hex()
            self._next_number = 2
            self._stamp = 0
            self._root = MemoryFolderNode(1, 0o755)
            self._root.links = 2
            self._touch(self._root)
        else:
            with disk._guard:
                self._boot = boot or disk._boot
                self._next_number = disk._next_number
                self._stamp = disk._stamp
                self._root = _copy(disk._root)

    # Files

    def open(self, path: str, flags: int, /, mode: int = 0o600) -> int:
        with self._guard:
            self._gate("open", bool(flags & (os.O_CREAT | os.O_TRUNC)))
            node = self._node_to_open(path, flags, mode)
            if isinstance(node, MemoryFolderNode) and flags & (_WRITABLE | os.O_CREAT | os.O_TRUNC):
                raise _error(errno.EISDIR, path)
            if isinstance(node, MemoryFileNode) and flags & _ONLY_FOLDER:
                raise _error(errno.ENOTDIR, path)
            if isinstance(node, MemoryFileNode) and flags & os.O_TRUNC and node.data:
                self._resize(node, 0)
            fd = self._next_fd
            self._next_fd += 1
            self._open[fd] = MemoryFile(node, flags)
            return fd

    def _node_to_open(self, path: str, flags: int, mode: int) -> MemoryNode:
        if not flags & os.O_CREAT:
            return self._node(path)
        folder, name, node = self._place(path)
        if node is None:
            node = self._new(MemoryFileNode, mode)
            self._rename((folder, name, node))
        elif flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        return node

    def close(self, fd: int, /) -> None:
        with self._guard:
            self._gate("close", False)
            _release(self._opened(fd))
            del self._open[fd]

    def pread(self, fd: int, size: int, offset: int, /) -> bytes:
        with self._guard:
            self._gate("pread", False)
            file = self._opened(fd)
            if file.flags & _ACCESS == os.O_WRONLY:
                raise _error(errno.EBADF)
            if not isinstance(file.node, MemoryFileNode):
                raise _error(errno.EISDIR)
            if offset < 0 or size < 0:
                raise _error(errno.EINVAL)
            return bytes(memoryview(file.node.data)[offset : offset + size])

    def write(self, fd: int, data: Data, /) -> int:
        with self._guard:
            self._gate("write", True)
            file, node = self._writable(fd)
            offset = len(node.data) if file.flags & os.O_APPEND else file.position
            size = self._splice(node, offset, data)
            file.position = offset + size
            return size

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        with self._guard:
            self._gate("pwrite", True)
            file, node = self._writable(fd)
            if offset < 0 or file.flags & os.O_APPEND:
                raise _error(errno.EINVAL)
            return self._splice(node, offset, data)

    def ftruncate(self, fd: int, size: int, /) -> None:
        with self._guard:
            self._gate("ftruncate", True)
            file = self._opened(fd)
            if size < 0 or not file.flags & _WRITABLE or not isinstance(file.node, MemoryFileNode):
                raise _error(errno.EINVAL)
            self._resize(file.node, size)

    def sync(self, fd: int, /) -> None:
        with self._guard:
            self._gate("sync", True)
            self._settle(self._opened(fd).node)

    def fstat(self, fd: int, /) -> MemoryStat:
        with self._guard:
            self._gate("fstat", False)
            return MemoryStat(self._opened(fd).node)

    # Names

    def sync_dir(self, path: str, /) -> None:
        with self._guard:
            self._gate("sync_dir", True)
            self._settle(self._folder(path))

    def lstat(self, path: str, /) -> MemoryStat:
        with self._guard:
            self._gate("lstat", False)
            return MemoryStat(self._node(path))

    def lstat_below(self, folder: str, paths: Iterable[str], /) -> Iterator[MemoryStat | None]:
        for path in paths:
            try:
                yield self.lstat(os.path.join(folder, path))
            except OSError:
                yield None

    def replace(self, src: str, dst: str, /) -> None:
        with self._guard:
            self._gate("replace", True)
            from_folder, old_name, node = self._place(src)
            to_folder, new_name, there = self._place(dst)
            if node is None:
                raise _error(errno.ENOENT, src, dst)
            if there is node:
                return
            wrong = _why_not_replace(node, from_folder, there, to_folder)
            if wrong:
                raise _error(wrong, src, dst)
            self._rename((from_folder, old_name, None), (to_folder, new_name, node), gone=there)

    def link(self, src: str, dst: str, /) -> None:
        with self._guard:
            self._gate("link", True)
            node = self._node(src)
            folder, name, there = self._place(dst)
            if there is not None:
                raise _error(errno.EEXIST, src, dst)
            if isinstance(node, MemoryFolderNode):
                raise _error(errno.EPERM, src, dst)
            self._rename((folder, name, node))

    def unlink(self, path: str, /) -> None:
        with self._guard:
            self._gate("unlink", True)
            folder, name, node = self._place(path)
            if not isinstance(node, MemoryFileNode):
                raise _error(errno.ENOENT if node is None else errno.EISDIR, path)
            self._rename((folder, name, None), gone=node)

    def mkdir(self, path: str, /, mode: int = 0o700) -> None:
        with self._guard:
            self._gate("mkdir", True)
            folder, name, node = self._place(path)
            if node is not None:
                raise _error(errno.EEXIST, path)
            self._rename((folder, name, self._new(MemoryFolderNode, mode)))

    def rmdir(self, path: str, /) -> None:
        with self._guard:
            self._gate("rmdir", True)
            folder, name, node = self._place(path)
            if not isinstance(node, MemoryFolderNode):
                raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)
            if node is self._root:
                raise _error(errno.EBUSY, path)
            if node.names:
                raise _error(errno.ENOTEMPTY, path)
            self._rename((folder, name, None), gone=node)

    def listdir(self, path: str, /) -> list[str]:
        with self._guard:
            self._gate("listdir", False)
            return list(self._folder(path).names)

    def chmod(self, path: str, mode: int, /) -> None:
        with self._guard:
            self._gate("chmod", False)
            node = self._node(path)
            node.mode = stat.S_IFMT(node.mode) | mode & 0o7777
            node.changed = self._tick()

    def set_modified(self, path: str, time_ns: int, /) -> None:
        with self._guard:
            self._gate("set_modified", False)
            node = self._node(path)
            node.modified, node.changed = time_ns, self._tick()

    # Processes

    def lock(self, fd: int, /) -> bool:
        with self._guard:
            self._gate("lock", False)
            file = self._opened(fd)
            if file.node.holder is None:
                file.node.holder = file
            return file.node.holder is file

    def unlock(self, fd: int, /) -> None:
        with self._guard:
            self._gate("unlock", False)
            _release(self._opened(fd))

    def boot_id(self) -> str:
        with self._guard:
            self._gate("boot_id", False)
            return self._boot

    def yield_cpu(self) -> None:
        with self._guard:
            self._gate("yield_cpu", False)
        time.sleep(0)

    # Extension points of subclasses; always called under the guard

    def _gate(self, call: str, changes: bool) -> None:
        """Called before each primitive; `changes`: it may change content on the disk or its durability."""

    def _splice(self, file: MemoryFileNode, offset: int, data: Data) -> int:
        """Write into a file, over a gap of zeros if need be."""
        with memoryview(data).cast("B") as view:
            size, end = len(view), len(file.data)
            if size:
                if offset > end:
                    file.data += bytes(offset - end)
                file.data[offset : offset + size] = view
                self._touch(file)
        return size

    def _resize(self, file: MemoryFileNode, size: int) -> None:
        """Truncate a file, or extend it with zeros."""
        if size < len(file.data):
            del file.data[size:]
        else:
            file.data += bytes(size - len(file.data))
        self._touch(file)

    def _rename(self, *entries: Entry, gone: MemoryNode | None = None) -> None:
        """Change names in one atomic step; `gone` is the node that loses its name."""
        for folder, name, node in entries:
            if node is None:
                del folder.names[name]
            else:
                folder.names[name] = node
                if len(entries) == 1:
                    node.links += 1 if isinstance(node, MemoryFileNode) else 2
                node.changed = self._tick()
            self._touch(folder)
        if gone is not None:
            gone.links = gone.links - 1 if isinstance(gone, MemoryFileNode) else 0
            gone.changed = self._tick()

    def _settle(self, node: MemoryNode) -> None:
        """Make the content of a file, or the names in a folder, durable."""

    # Paths, descriptors, stamps

    def _node(self, path: str) -> MemoryNode:
        if not path:
            raise _error(errno.ENOENT, path)
        node: MemoryNode = self._root
        for part in _parts(path):
            if not isinstance(node, MemoryFolderNode):
                raise _error(errno.ENOTDIR, path)
            if part not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[part]
        return node

    def _folder(self, path: str) -> MemoryFolderNode:
        node = self._node(path)
        if not isinstance(node, MemoryFolderNode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _place(self, path: str) -> tuple[MemoryFolderNode, str, MemoryNode | None]:
        """The folder of a name, the name, and the node that has it."""
        parts = _parts(path)
        if not parts:
            if path:
                return self._root, ".", self._root
            raise _error(errno.ENOENT, path)
        if len(os.fsencode(parts[-1])) > _LONGEST_NAME:
            raise _error(errno.ENAMETOOLONG, path)
        folder = self._folder("/" + "/".join(parts[:-1]))
        return folder, parts[-1], folder.names.get(parts[-1])

    def _opened(self, fd: int) -> MemoryFile:
        try:
            return self._open[fd]
        except KeyError:
            raise _error(errno.EBADF) from None

    def _writable(self, fd: int) -> tuple[MemoryFile, MemoryFileNode]:
        file = self._opened(fd)
        if not file.flags & _WRITABLE or not isinstance(file.node, MemoryFileNode):
            raise _error(errno.EBADF)
        return file, file.node

    def _new(self, kind: type[MemoryNode], mode: int) -> MemoryNode:
        node = kind(self._next_number, mode)
        self._next_number += 1
        self._touch(node)
        return node

    def _tick(self) -> int:
        self._stamp = max(self._stamp + 1, self._now_ns())
        return self._stamp

    def _touch(self, node: MemoryNode) -> None:
        node.modified = node.changed = self._tick()


def _release(file: MemoryFile) -> None:
    if file.node.holder is file:
        file.node.holder = None


def _error(code: int, path: str | None = None, other: str | None = None) -> OSError:
    if path is None:
        return OSError(code, os.strerror(code))
    return OSError(code, os.strerror(code), path, None, other)


def _parts(path: str) -> list[str]:
    if "\0" in path:
        raise ValueError("embedded null byte")
    parts: list[str] = []
    for part in path.replace(os.sep, "/").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return parts


def _why_not_replace(
    node: MemoryNode, folder: MemoryFolderNode, there: MemoryNode | None, to_folder: MemoryFolderNode
) -> int:
    """The error of moving `node` from `folder` to the name of `there` in `to_folder`; 0 if there is none."""
    if isinstance(node, MemoryFolderNode):
        if _holds(node, to_folder):
            return errno.EINVAL
        if isinstance(there, MemoryFileNode):
            return errno.ENOTDIR
    elif isinstance(there, MemoryFolderNode) and not _holds(there, folder):
        return errno.EISDIR
    return errno.ENOTEMPTY if isinstance(there, MemoryFolderNode) and there.names else 0


def _holds(folder: MemoryFolderNode, inner: MemoryFolderNode) -> bool:
    """Whether `inner` is this folder or somewhere below it."""
    below = (node for node in folder.names.values() if isinstance(node, MemoryFolderNode))
    return folder is inner or any(_holds(node, inner) for node in below)


def _copy(root: MemoryFolderNode) -> MemoryFolderNode:
    """The same tree in new nodes; hard links stay hard links, locks are dropped."""
    copies: dict[int, MemoryNode] = {}

    def copy(node: MemoryNode) -> MemoryNode:
        if node.number in copies:
            return copies[node.number]
        twin = (
            MemoryFolderNode(node.number, node.mode)
            if isinstance(node, MemoryFolderNode)
            else MemoryFileNode(node.number, node.mode)
        )
        copies[node.number] = twin
        twin.links, twin.modified, twin.changed = node.links, node.modified, node.changed
        if isinstance(node, MemoryFolderNode) and isinstance(twin, MemoryFolderNode):
            twin.names = {name: copy(inner) for name, inner in node.names.items()}
        elif isinstance(node, MemoryFileNode) and isinstance(twin, MemoryFileNode):
            twin.data = bytearray(node.data)
        return twin

    twin = copy(root)
    assert isinstance(twin, MemoryFolderNode)
    return twin


if TYPE_CHECKING:
    _checked: System = MemorySystem()
