"""Tokenize sessions of a large index build in a second process.

Most of the time of a build goes into reading files and tokenizing texts. A child process is asked for one session ahead,
through pipes. It reads the files itself and says what it read; its terms are used only if this process read the same bytes.

Guarantees: nothing depends on it. If it cannot be started, dies, is late, or read another state, the terms are made in
this process. It writes nothing, holds no lock, and ends with the build. It is not started for a small build, where it
would cost more than it saves, nor on Windows, nor inside a program that embeds Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
from itertools import accumulate, zip_longest

from smp_memory.files.disk import Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.partial_reader import IncrementReader
from smp_memory.files.system import RealSystem
from smp_memory.text.memory_text import index_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.files.partial_reader import Cursor
    from smp_memory.store.change_detection import StatCache
    from smp_memory.store.file_store import FileStore

MIN_BYTES = 20_000_000  # of all files: a smaller build does not gain from it
_MAX_SESSION_BYTES = 200_000_000  # the terms of a larger session are not sent
_PATIENCE_SECONDS = 20.0  # the longest wait for an answer
_LATE = 0.5  # an answer may be late by this share of the time since it was requested
_SEVERAL = 2  # sessions and processors: one for each process
_LENGTH = 8  # bytes of the length before each answer
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from smp_memory.store.parallel_tokenizer import serve; serve(*sys.argv[2:])"
)


class TokenizedSession:
    """The terms of a session's memories in the order of writing, and the cursors of what was read."""

    __slots__ = ("_cursors", "each")

    def __init__(self, cursors: dict[str, Cursor], each: list[str]) -> None:
        self._cursors = cursors
        self.each = each

    def are_of(self, reader: IncrementReader) -> bool:
        """Whether they were made of the same bytes, by the cursors' identity, end and digest."""
        return _same(self._cursors) == _same(reader.cursors()) and len(self.each) == len(
            reader.session_history.histories
        )


def _same(cursors: dict[str, Cursor]) -> dict[str, Cursor]:
    return {name: cursor[:-1] for name, cursor in cursors.items()}  # without the time of the check


class ParallelTokenizer:
    """The child process. Close it."""

    def __init__(self, root: str, layout: str) -> None:
        self._requested, self._since = "", 0.0
        self._process = _started(root, layout)

    def request(self, session: str) -> None:
        """Request a session ahead; ignored while another request is open."""
        if self._process is not None and not self._requested:
            try:
                self._process.stdin.write(session.encode() + b"\n")
                self._process.stdin.flush()
                self._requested, self._since = session, time.monotonic()
            except OSError:
                self.close()

    def take(self, session: str) -> TokenizedSession | None:
        """The answer for a session; None if it was not requested, or does not come in time."""
        if self._process is None or not self._requested:
            return None
        try:
            late = min((time.monotonic() - self._since) * _LATE, _PATIENCE_SECONDS)
            if not self._is_ready(late if self._requested == session else 0):
                return None
            requested, self._requested = self._requested, ""
            answer = json.loads(self._read(int.from_bytes(self._read(_LENGTH), "big")))
            return TokenizedSession(*answer) if answer is not None and requested == session else None
        except (OSError, EOFError, ValueError, TypeError):
            self.close()
            return None

    def _is_ready(self, seconds: float) -> bool:
        import select

        poll = select.poll()
        poll.register(self._process.stdout.fileno(), select.POLLIN)
        return bool(poll.poll(int(seconds * 1000)))

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            if not self._is_ready(_PATIENCE_SECONDS):
                raise TimeoutError
            part = os.read(self._process.stdout.fileno(), min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Kill the child process; it holds nothing to save."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                try:
                    pipe.close()
                except OSError:
                    pass
            process.wait()


def with_terms(
    store: FileStore, stats: StatCache, names: list[str], known: set[str]
) -> Iterator[tuple[str, TokenizedSession | None]]:
    """The sessions in order; those not indexed yet with their terms, if the child process made them in time."""
    ahead = _for_build(store, stats, [name for name in names if name not in known])
    try:
        for name, following in zip_longest(names, names[1:]):
            terms = ahead.take(name) if ahead is not None else None
            if ahead is not None and following is not None and following not in known:
                ahead.request(following)
            yield name, terms
    finally:
        if ahead is not None:
            ahead.close()


def _for_build(store: FileStore, stats: StatCache, new: list[str]) -> ParallelTokenizer | None:
    """A tokenizer for these sessions, if they are several and large enough."""
    if len(new) < _SEVERAL or not isinstance(store.disk.system, RealSystem):
        return None
    sizes = accumulate(stat[1] for name in new for stat in stats.stat_session(name).values() if stat)
    return ParallelTokenizer(store.root, store.layout.name) if any(size > MIN_BYTES for size in sizes) else None


def _started(root: str, layout: str) -> Any:
    """Start a Python with the same module path; None if that is not possible."""
    if os.name != "posix" or not _is_python() or (os.cpu_count() or 1) < _SEVERAL:
        return None
    import subprocess

    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE, json.dumps(sys.path), root, layout],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _is_python() -> bool:
    """Whether the executable is Python; a program that embeds Python would start itself again."""
    name = os.path.basename(sys.executable or "")
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


# -- the child process


def serve(root: str, layout: str) -> None:
    """Answer each requested session, until standard input is closed."""
    import gc

    gc.disable()  # entries hold no cycles
    disk, kind = Disk(RealSystem(root)), layout_named(layout)
    for line in sys.stdin.buffer:
        answer = json.dumps(_answer(IncrementReader(disk, kind, root, line.decode().rstrip("\n")))).encode()
        sys.stdout.buffer.write(len(answer).to_bytes(_LENGTH, "big") + answer)
        sys.stdout.buffer.flush()


def _answer(reader: IncrementReader) -> tuple[dict[str, Cursor], list[str]] | None:
    try:
        sizes = [found[1] for found in reader.identities().values()]
        if sum(sizes) > _MAX_SESSION_BYTES or reader.catch_up() is None or reader.is_overlaid:
            return None
        return reader.cursors(), [
            index_terms(history.data(), history.first.id) for history in reader.session_history.histories.values()
        ]
    except Exception:  # the requesting process meets the same error
        return None
