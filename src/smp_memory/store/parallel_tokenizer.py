"""Can another processor help with a large build? One more process makes the words of a session while we take in another.

Most of the time of a build goes into reading files and making words of texts. The words can be made elsewhere: a process
of our own is asked for one session ahead, through pipes. It reads the files itself, and says what it has read; its words
are used only if we have read the same bytes.

Guarantees: nothing depends on it. If it cannot be started, dies, is late, or has read another state, the words are made
here. It writes nothing, holds no lock, and ends with the build. It is not started for a small build, where it would cost
more than it saves, nor on Windows, nor inside a program that is not Python's own.
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
from smp_memory.index.documents import index_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.files.partial_reader import Cursor
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.stat_cache import StatCache

MUCH_BYTES = 20_000_000  # of files: with less there is not enough to do
_MOST_BYTES = 200_000_000  # of one session: the words of more are not sent at once
_PATIENCE_SECONDS = 20.0  # with an answer, at most
_LATE = 0.5  # by so much of the time that we needed for another session an answer may be late
_SEVERAL = 2  # sessions and processors: one for each of us
_LENGTH = 8  # bytes, in which an answer's length is told
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from smp_memory.store.parallel_tokenizer import serve; serve(*sys.argv[2:])"
)


class TokenizedSession:
    """The words of a session's memories in the order of writing, and what was read to make them."""

    __slots__ = ("_cursors", "each")

    def __init__(self, cursors: dict[str, Cursor], each: list[str]) -> None:
        self._cursors = cursors
        self.each = each

    def are_of(self, reader: IncrementReader) -> bool:
        """Whether they were made of the same bytes, by what cursors tell: identity, end, digest."""
        return _same(self._cursors) == _same(reader.cursors()) and len(self.each) == len(
            reader.session_history.histories
        )


def _same(cursors: dict[str, Cursor]) -> dict[str, Cursor]:
    return {name: cursor[:-1] for name, cursor in cursors.items()}  # the last one says when it was looked at


class ParallelTokenizer:
    """The other process. Close it."""

    def __init__(self, root: str, layout: str) -> None:
        self._asked, self._since = "", 0.0
        self._process = _started(root, layout)

    def ask(self, session: str) -> None:
        """Let it begin with a session, while we do another; not if it is still at work."""
        if self._process is not None and not self._asked:
            try:
                self._process.stdin.write(session.encode() + b"\n")
                self._process.stdin.flush()
                self._asked, self._since = session, time.monotonic()
            except OSError:
                self.close()

    def take(self, session: str) -> TokenizedSession | None:
        """What was asked for before; None if it was not, or does not come in time."""
        if self._process is None or not self._asked:
            return None
        try:
            late = min((time.monotonic() - self._since) * _LATE, _PATIENCE_SECONDS)
            if not self._is_there(late if self._asked == session else 0):
                return None
            asked, self._asked = self._asked, ""
            answer = json.loads(self._read(int.from_bytes(self._read(_LENGTH), "big")))
            return TokenizedSession(*answer) if answer is not None and asked == session else None
        except (OSError, EOFError, ValueError, TypeError):
            self.close()
            return None

    def _is_there(self, seconds: float) -> bool:
        import select

        poll = select.poll()
        poll.register(self._process.stdout.fileno(), select.POLLIN)
        return bool(poll.poll(int(seconds * 1000)))

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            if not self._is_there(_PATIENCE_SECONDS):
                raise TimeoutError
            part = os.read(self._process.stdout.fileno(), min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """It has nothing to lose."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                try:
                    pipe.close()
                except OSError:
                    pass
            process.wait()


def with_words(
    store: FileStore, looks: StatCache, names: list[str], known: set[str]
) -> Iterator[tuple[str, TokenizedSession | None]]:
    """Sessions one after the other, those that are not known with their words if there is somebody who makes them."""
    ahead = _for_build(store, looks, [name for name in names if name not in known])
    try:
        for name, following in zip_longest(names, names[1:]):
            words = ahead.take(name) if ahead is not None else None
            if ahead is not None and following is not None and following not in known:
                ahead.ask(following)
            yield name, words
    finally:
        if ahead is not None:
            ahead.close()


def _for_build(store: FileStore, looks: StatCache, new: list[str]) -> ParallelTokenizer | None:
    """Somebody who helps with these sessions, if they are several and there is much in them."""
    if len(new) < _SEVERAL or not isinstance(store.disk.system, RealSystem):
        return None
    sizes = accumulate(look[1] for name in new for look in looks.of(name).values() if look)
    return ParallelTokenizer(store.root, store.layout.name) if any(size > MUCH_BYTES for size in sizes) else None


def _started(root: str, layout: str) -> Any:
    """A Python like this one, which finds the same modules; None if there cannot be one."""
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
    """Not a program with Python inside: it would begin anew."""
    name = os.path.basename(sys.executable or "")
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


# -- the other process


def serve(root: str, layout: str) -> None:
    """Answer for each session that is asked for, until nobody asks any more."""
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
        if sum(sizes) > _MOST_BYTES or reader.catch_up() is None or reader.is_overlaid:
            return None
        return reader.cursors(), [index_terms(history) for history in reader.session_history.histories.values()]
    except Exception:  # whatever is wrong with the session, who asked will find it, too
        return None
