"""The memlog, BMAD's working memory: its format, and writing to one from several processes.

    ---
    topic: Onboarding
    updated: 2026-06-07T14:22
    ---

    - (idea by user) let people try it with sample data first
    - (decision) one account to begin with

BMAD's own script reads the file, adds a line and replaces the file. If two do so at once, both succeed, and one entry is
lost. Here a writer holds a lock from reading to replacing.

Guarantees: for the same file, the same call and the same minute, the bytes are those that BMAD's own script writes: the front
matter in its order with `updated` last, one line for each entry, always at the end. A text without front matter is
refused, as there; the message names the line. Every acknowledged entry is in the file, in the order of acknowledgement, whichever
process wrote it; a crash leaves the old file or the new one, synced. Nothing is left beside the file: the lock is on the file itself,
and a queue for it on its folder. A link stays a link; the file keeps its mode, a new one is 0600.
Non-guarantees: BMAD's script takes no lock. If it writes at the same moment as SMP, an entry can be lost, as between two
of its own calls; SMP checks once more before it replaces the file, which makes that rare. Where a folder cannot be locked
(Windows, some network disks), a file `.memlog.md.lock` stays beside the memlog.
"""

from __future__ import annotations

import os
import time

from smp_memory.errors import InvalidFormat, LockTimeout, UserError, from_os_error
from smp_memory.files.disk import TEMPORARY, Disk, identity
from smp_memory.files.system import RealSystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.system import System


NAME = ".memlog.md"
_FENCE = "---"


def split(text: str, path: str = NAME) -> tuple[dict[str, str], str]:
    """The front matter, in its order, and all that follows it."""
    lines = text.splitlines()
    if not lines or lines[0] != _FENCE:
        raise InvalidFormat(f"{path}:1: a memlog begins with a line ---, and this does not. It was not changed.", path=path, line=1)  # fmt: skip
    end = next((number for number, line in enumerate(lines[1:], 1) if line == _FENCE), None)
    if end is None:
        raise InvalidFormat(f"{path}:1: the front matter has no end (a second line ---). It was not changed.", path=path, line=1)  # fmt: skip
    meta = {}
    for line in lines[1:end]:
        name, colon, value = line.partition(":")
        if colon:
            meta[name.strip()] = value.strip()
    return meta, "\n".join(lines[end + 1 :]).lstrip("\n")


def joined(meta: dict[str, str], body: str) -> str:
    """The whole text. Line breaks in a value become spaces: a value cannot end the front matter."""
    head = "\n".join(f"{name}: {' '.join(value.splitlines())}" for name, value in meta.items())
    return f"{_FENCE}\n{head}\n{_FENCE}\n\n" + body.rstrip("\n") + "\n"


def new_text(fields: list[tuple[str, str]], minute: str) -> str:
    """A new memlog."""
    return joined(_set_updated({name.strip(): value.strip() for name, value in fields}, minute), "")


def append_entry(text: str, content: str, kind: str | None, by: str | None, minute: str, path: str = NAME) -> str:
    """The text with one more entry, on one line."""
    meta, body = split(text, path)
    label = kind or ""
    if by:
        label = f"{label} by {by}".strip()
    entry = f"- {f'({label}) ' if label else ''}{' '.join(content.split())}"
    return joined(_set_updated(meta, minute), body.rstrip("\n") + "\n" + entry if body.strip() else entry)


def set_field(text: str, name: str, value: str, minute: str, path: str = NAME) -> str:
    """The text with a field of the front matter set or replaced; it keeps its position."""
    meta, body = split(text, path)
    meta[name] = value
    return joined(_set_updated(meta, minute), body)


def entries(body: str) -> int:
    return sum(line.startswith("- ") for line in body.splitlines())


def _set_updated(meta: dict[str, str], minute: str) -> dict[str, str]:
    meta.pop("updated", None)
    meta["updated"] = minute
    return meta


TIMEOUT_SECONDS = 10.0
_WAIT_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005)
_MOST_ATTEMPTS = 100  # how often another program may replace the file before our own replacement


class Memlog:
    """One memlog, by its path. Several threads or processes may have objects for the same one."""

    def __init__(self, path: str, system: System | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.path = path
        self._real = os.path.realpath(path)
        self._disk = Disk(system or RealSystem())
        self._timeout_seconds = timeout_seconds

    def init(self, fields: list[tuple[str, str]], minute: str | None = None) -> int:
        """Create the memlog. Returns the number of entries, as all methods do."""
        disk, path = self._disk, self._real
        data = _bytes(new_text(fields, minute or _minute()))
        temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}{TEMPORARY}"
        try:
            if not disk.exists(path):
                disk.make_folder(os.path.dirname(path))
                disk.write_new(temporary, data)
                disk.link_new(temporary, path)
                return 0
        except FileExistsError:
            disk.remove(temporary)
        except OSError as error:
            raise from_os_error(error, path, "making a memlog") from error
        raise UserError(f"{self.path} already exists; append to it, or set a field.", path=self.path)

    def append(self, text: str, kind: str | None = None, by: str | None = None, minute: str | None = None) -> int:
        return self._change(lambda current: append_entry(current, text, kind, by, minute or _minute(), self.path))

    def set(self, name: str, value: str, minute: str | None = None) -> int:
        return self._change(lambda current: set_field(current, name, value, minute or _minute(), self.path))

    # -- changing

    def _change(self, work: Callable[[str], str]) -> int:
        with _MemlogLock(self._disk, self._real, self.path, self._timeout_seconds):
            try:
                for _ in range(_MOST_ATTEMPTS):
                    status, text = self._read()
                    after = work(text)
                    if self._replace_unchanged(status, _bytes(after)):
                        return entries(split(after)[1])
            except OSError as error:
                raise from_os_error(error, self._real, "writing a memlog") from error
        raise LockTimeout(f"{self.path}: another program keeps writing to it. Nothing was written; try again.", path=self.path)  # fmt: skip

    def _read(self) -> tuple[Any, str]:
        status = self._disk.stat(self._real)
        try:
            text = self._disk.read(self._real).decode("utf-8")
        except FileNotFoundError:
            raise _missing(self.path) from None
        except UnicodeDecodeError as error:
            raise InvalidFormat(f"{self.path}: not UTF-8 text (byte {error.start}). It was not changed.", path=self.path) from None  # fmt: skip
        return status, text.replace("\r\n", "\n").replace("\r", "\n")

    def _replace_unchanged(self, before: Any, data: bytes) -> bool:
        """Replace the file, unless it was changed since it was read; returns whether it was replaced."""
        disk, temporary = self._disk, self._real + TEMPORARY
        disk.remove(temporary)
        disk.write_new(temporary, data)
        disk.system.chmod(temporary, before.st_mode & 0o777)
        current = disk.stat(self._real)
        if current is None or identity(current) != identity(before):
            disk.remove(temporary)
            return False
        disk.move(temporary, self._real)
        disk.sync_folder(os.path.dirname(self._real))
        return True


class _MemlogLock:
    """The lock of a memlog. A writer first locks the folder as a queue, so that none starves, and then the file.

    The file is replaced while it is locked. A writer that got the lock of a replaced file opens the new one; no other
    can have locked that, because only the first in the queue tries.
    """

    def __init__(self, disk: Disk, path: str, name: str, timeout_seconds: float) -> None:
        self._disk = disk
        self._system = disk.system
        self._path = path
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._held = -1

    def __enter__(self) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        try:
            queue, is_lock_file = self._open_queue()
        except FileNotFoundError:
            raise _missing(self._name) from None
        except OSError as error:
            raise from_os_error(error, self._path, "locking a memlog") from error
        try:
            self._wait(queue, deadline)
            if is_lock_file:
                self._held, queue = queue, -1
                return
            while True:
                self._held = self._open_file()
                self._wait(self._held, deadline)
                status = self._disk.stat(self._path)
                if status is not None and status.st_ino == self._system.fstat(self._held).st_ino:
                    return
                self._system.close(self._held)
                self._held = -1
        except BaseException:
            self.__exit__()
            raise
        finally:
            if queue >= 0:
                self._system.close(queue)

    def __exit__(self, *_: object) -> None:
        if self._held >= 0:
            self._system.close(self._held)
            self._held = -1

    def _open_queue(self) -> tuple[int, bool]:
        """Open the folder, or a lock file beside the memlog where a folder cannot be locked; and whether it is the latter."""
        if os.name != "nt":
            folder = self._system.open(os.path.dirname(self._path), os.O_RDONLY)
            try:
                self._system.lock(folder)
                self._system.unlock(folder)
                return folder, False
            except OSError:
                self._system.close(folder)
        if not self._disk.exists(self._path):
            raise FileNotFoundError
        return self._disk.open_write(self._path + ".lock", create=True)[0], True

    def _open_file(self) -> int:
        try:
            return self._disk.open_read(self._path)
        except FileNotFoundError:
            raise _missing(self._name) from None
        except OSError as error:
            raise from_os_error(error, self._path, "reading a memlog") from error

    def _wait(self, descriptor: int, deadline: float) -> None:
        waits = 0
        while not self._system.lock(descriptor):
            left = deadline - time.monotonic()
            if left <= 0:
                raise LockTimeout(
                    f"Could not lock {self._name} within {self._timeout_seconds:g} s: another process is writing to it. "
                    "Nothing was written; try again.",
                    path=self._name,
                    limit=self._timeout_seconds,
                )
            time.sleep(min(_WAIT_SECONDS[min(waits, len(_WAIT_SECONDS) - 1)], left))
            waits += 1


def _missing(path: str) -> UserError:
    return UserError(f"There is no memlog {path}. Create it: smp memlog init --path {path}", path=path)


def _minute() -> str:
    return time.strftime("%Y-%m-%dT%H:%M")  # local and without a zone, as BMAD writes it


def _bytes(text: str) -> bytes:
    try:
        return text.replace("\n", os.linesep).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidFormat(
            f"Not valid text: a lone surrogate at position {error.start}. Nothing was written."
        ) from None
