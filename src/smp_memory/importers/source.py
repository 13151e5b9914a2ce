"""Files of other tools as readers see them, and what readers make of them.

A reader is a function of a `Source`. It yields values in order: an `IngestedSession` says which session the memories after it belong to;
memories before the first one belong to the session of the importer.

Guarantees: files are read, never changed. Links are not followed and pipes are not opened. A line that cannot be read is noted in
`Source.unread` with its number and costs only itself. `raw_lines`, `json_lines` and `chat_exports.items_of` hold one line or item at a time, whatever
the size of the file; `text` is for notes of up to `LIMIT_BYTES`.
"""

from __future__ import annotations

import io
import json
import os
import stat as modes
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Reader = Callable[["Source"], Iterable["IngestedSession | IngestedMemory"]]


LIMIT_BYTES = 4 << 20  # of a note, which is read as a whole
LINE_BYTES = 128 << 20  # of one line or item of a large file
_CHUNK_BYTES = 1 << 20
_PACKED_BYTES = 1 << 8  # unpacked at once: at most 8 MB, because 4 bytes may stand for a block of 128 KB
ANYWHERE = "anywhere: "  # prefix of a key that is independent of the file
HALF_WRITTEN = "half-written: the file ends in the middle of it"


class IngestedMemory(NamedTuple):
    """A memory found in a file, not stored yet."""

    type: str
    fields: dict[str, Any]
    line: int
    key: str  # identifies the memory when the file is read again
    when: str | None = None  # the time stated in the file
    follows: str = ""  # the field that is updated when the file is read again: `status` or `content`


class IngestedSession(NamedTuple):
    """The session of the memories that follow; it is created if there is none."""

    id: str  # empty: the session of the importer
    title: str = ""
    project: str = ""
    created: str | None = None  # the time stated in the file
    user: str | None = None
    agents: tuple[str, ...] = ()
    host: str = ""  # a tool with conversations; then keys are made of the host's ids and are independent of the file
    host_session: str = ""  # its id for this one
    context: dict[str, Any] = {}  # noqa: RUF012 - never changed


class UnreadLine(NamedTuple):
    """A line of a file that was not understood."""

    file: str
    line: int
    why: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


class ImportFile(NamedTuple):
    """A file with memories, and its reader."""

    path: str
    name: str  # relative to what is imported, with slashes
    reader: Reader
    kind: str
    project: str = ""  # of the importer's session
    has_git_times: bool = False  # a text whose lines have the times at which git saw them
    member: str = ""  # the file inside of a zip archive


class Source:
    """A file of another tool. Readers add lines that they do not understand to `unread`."""

    def __init__(self, path: str, name: str, member: str = "", on_bytes: Callable[[int], None] | None = None) -> None:
        self.path = path
        self.name = name  # relative to what is imported, with slashes
        self.member = member
        self.unread: list[UnreadLine] = []
        self.kind_left_out = ""  # what kind of files it is one of, if it is left out as a whole
        self.left_out: list[str] = []
        self.count_bytes = on_bytes or _ignore  # called with the number of bytes that were read
        self._text: str | None = None
        self._lines: list[str] | None = None

    def cannot_read(self, line: int, why: str) -> None:
        self.unread.append(UnreadLine(self.name, line, why))

    def leave_out_whole(self, kind: str) -> None:
        """Say that the file is not imported; the report counts the files of each kind."""
        self.kind_left_out = kind

    def leave_out(self, why: str) -> None:
        """Note that something was understood, but is not imported."""
        self.left_out.append(f"{self.name}: {why}")

    # -- notes

    @property
    def text(self) -> str:
        """The whole file; empty if it cannot be read."""
        if self._text is None:
            self._text = self._decoded()
        return self._text

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = self.text.splitlines()
        return self._lines

    def _decoded(self) -> str:
        data = b"".join(self.chunks(LIMIT_BYTES + 1))
        if len(data) > LIMIT_BYTES:
            self.cannot_read(1, f"larger than {LIMIT_BYTES:,} bytes")
            return ""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.cannot_read(data.count(b"\n", 0, error.start) + 1, "not UTF-8 text")
            return ""

    # -- large files

    def chunks(self, most: int | None = None) -> Iterator[bytes]:
        """The bytes of the file, unpacked, piece by piece, `most` in all."""
        file = self._opened()
        if file is None:
            return
        with file:
            while most is None or most > 0:
                try:
                    data = file.read(min(_CHUNK_BYTES, most or _CHUNK_BYTES))
                except Exception as error:  # archives raise errors of their own
                    self.cannot_read(1, f"cannot be read: {_reason(error)}")
                    return
                if not data:
                    return
                most = None if most is None else most - len(data)
                self.count_bytes(len(data))
                yield data

    def raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines with their numbers, each with its newline if it has one; a line above `LINE_BYTES` is noted as unread."""
        number, begun_bytes = 0, 0
        begun: list[bytes] = []  # the pieces of a line whose end was not read yet
        for chunk in self.chunks():
            first, newline, rest = chunk.partition(b"\n")
            begun_bytes += len(first)
            begun = [*begun, first] if begun_bytes <= LINE_BYTES else []
            if not newline:
                continue
            number += 1
            if begun_bytes <= LINE_BYTES:
                yield number, b"".join(begun) + newline
            else:
                self.cannot_read(number, f"longer than {LINE_BYTES:,} bytes")
            begun, begun_bytes = [], 0
            for line in io.BytesIO(rest):
                if line.endswith(b"\n"):
                    number += 1
                    yield number, line
                else:
                    begun, begun_bytes = [line], len(line)
        if begun_bytes > LINE_BYTES:
            self.cannot_read(number + 1, f"longer than {LINE_BYTES:,} bytes")
        elif begun_bytes:
            yield number + 1, b"".join(begun)

    def json_lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The objects of a file of JSON lines."""
        loads = json.loads
        for number, line in self.raw_lines():
            try:
                value = loads(line)
            except (ValueError, RecursionError):
                if line.strip(b"\0 \t\r\n"):
                    self.cannot_read(number, "not JSON" if line.endswith(b"\n") else HALF_WRITTEN)
                continue
            if type(value) is dict:
                yield number, value
            else:
                self.cannot_read(number, "not a JSON object")

    def json_value(self) -> Any:
        """The one JSON value of a file of up to `LINE_BYTES`; None if it cannot be read."""
        data = b"".join(self.chunks(LINE_BYTES + 1))
        if len(data) > LINE_BYTES:
            self.cannot_read(1, f"larger than {LINE_BYTES:,} bytes")
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            if data:
                self.cannot_read(1, "not JSON")
            return None

    # -- opening

    def _opened(self) -> Any:
        try:
            mode = os.lstat(self.path).st_mode
            if not modes.S_ISREG(mode):  # opening a pipe would block
                is_link = modes.S_ISLNK(mode)
                self.cannot_read(
                    1, "a symbolic link; only its target is read, where it is" if is_link else "not a plain file"
                )
                return None
            if self.member:
                return _zip_member(self.path, self.member)
            return _open_zstd(self.path) if self.path.endswith(".zst") else open(self.path, "rb")
        except OSError as error:
            self.cannot_read(1, f"cannot be read: {_reason(error)}")
            return None


def _ignore(count: int) -> None:
    pass


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _zip_member(path: str, member: str) -> Any:
    """A file in a zip archive; the archive is closed with it."""
    import zipfile

    try:
        return zipfile.ZipFile(path).open(member)
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError) as error:
        raise OSError(0, f"not a readable zip archive: {error}") from error


def _open_zstd(path: str) -> Any:
    """A file that zstd packed, opened for reading."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14

        return zstd.open(path, "rb")
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise OSError(0, "packed with zstd; to unpack it: pip install 'smp-memory[import]'") from None
    return _Unpacked(open(path, "rb"), zstandard.ZstdDecompressor)


class _Unpacked:
    """A file that the package `zstandard` unpacks. Its own reader takes a file that was cut for a complete one."""

    def __init__(self, file: Any, make: Callable[[], Any]) -> None:
        self._file, self._make = file, make
        self._frame = make().decompressobj()

    def __enter__(self) -> _Unpacked:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """About so many bytes; none at the end."""
        pieces: list[bytes] = []
        count = 0
        while count < size:
            data = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof and (data or self._file.peek(1)):
                self._frame = self._make().decompressobj()
            data = data or self._file.read(_PACKED_BYTES)
            if not data:
                if not self._frame.eof and not count:
                    raise EOFError(HALF_WRITTEN)
                break
            pieces.append(self._frame.decompress(data))
            count += len(pieces[-1])
        return b"".join(pieces)


_GIT_TIMEOUT_SECONDS = 20
_NO_MATCH = 1  # exit code of `git config` if no setting matches


class LineTimes:
    """The times of the lines of one file: from git, else from the file. Looked up on first use.

    Never raises and never waits long; a line that is not committed has the file's time; no time is in the future. Runs only
    `git`, without pagers and hooks; if a repository configures filters, which `git blame` would run, git is not used.
    """

    def __init__(self, path: str, now: datetime, is_in_git: bool) -> None:
        self._path = path
        self._now = now
        self._by_line: dict[int, datetime] | None = None if is_in_git else {}

    def at(self, line: int) -> datetime:
        if self._by_line is None:
            self._by_line = _blame_times(self._path)
        return min(self._by_line.get(line) or self.of_file(), self._now)

    @property
    def is_known_to_git(self) -> bool:
        if self._by_line is None:
            self._by_line = _blame_times(self._path)
        return bool(self._by_line)

    def of_file(self) -> datetime:
        try:
            return min(datetime.fromtimestamp(int(os.stat(self._path).st_mtime), UTC), self._now)
        except (OSError, OverflowError, ValueError):
            return self._now


def _blame_times(path: str) -> dict[int, datetime]:
    folder, name = os.path.split(path)
    if _has_filters(folder):
        return {}
    code, output = _git(folder, "blame", "--no-textconv", "--line-porcelain", "--", name)
    if code:
        return {}
    found: dict[int, datetime] = {}
    line, committed = 0, False
    for text in output.split(b"\n"):
        words = text.split(b" ")
        if len(words) in (3, 4) and len(words[0]) in (40, 64) and words[2].isdigit():
            line, committed = int(words[2]), words[0].strip(b"0") != b""
        elif text.startswith(b"author-time ") and committed:
            try:
                found[line] = datetime.fromtimestamp(int(text[12:]), UTC)
            except (ValueError, OverflowError, OSError):
                continue
    return found


@lru_cache(maxsize=256)
def _has_filters(folder: str) -> bool:
    """Whether the repository itself configures filters, which git would run; True if unknown."""
    code, output = _git(folder, "config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    has_own = any(line.startswith((b"local", b"worktree")) for line in output.splitlines())
    return has_own if code == 0 else code != _NO_MATCH


def _git(folder: str, *arguments: str) -> tuple[int, bytes]:
    """The exit code, -1 if git could not be run, and the output."""
    import subprocess

    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env=environ,
            capture_output=True,
            timeout=_GIT_TIMEOUT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return -1, b""
    return done.returncode, done.stdout
