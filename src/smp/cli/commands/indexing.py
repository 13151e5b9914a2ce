"""Making the index anew: reindex."""

from __future__ import annotations

import os
import sys
import time

from smp.cli.render import Screen, paint, plural, size_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp.cli.arguments import Parser
    from smp.cli.call import Call

_WORTH_COMPARING = 1 << 20  # bytes; an empty index has its size, too
_QUIET_SECONDS, _PAUSE_SECONDS = 1.0, 0.1


def reindex_arguments(parser: Parser) -> None:
    pass


def run_reindex(call: Call) -> None:
    """Make the index anew from the files. Never needed; harmless at any time, also while others read and write.

    Queries keep the index up to date by themselves, and make it anew if it is missing or damaged.

    Examples:
      smp reindex
      smp reindex --json
    """
    memory, started = call.memory, time.monotonic()
    progress = Progress(call)
    count = memory.reindex(progress)
    progress.end()
    seconds = round(time.monotonic() - started, 3)
    index_bytes, file_bytes = _sizes(memory.root, memory.store.indexer.folder)
    facts = {"root": memory.root, "memories": count, "seconds": seconds, "index_bytes": index_bytes, "file_bytes": file_bytes}  # fmt: skip
    call.answer(facts, _done(facts))


class Progress:
    """Says how far it is, on a terminal and only if it takes long."""

    def __init__(self, call: Call) -> None:
        self._screen = Screen(sys.stderr, may_color=not call.options.no_color)
        self._next = time.monotonic() + _QUIET_SECONDS
        self._shown = False

    def __call__(self, session: str, done: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE_SECONDS
            self._shown = True
            self._screen.passing(f"{plural(done, 'memory')} … {session}")

    def end(self) -> None:
        if self._shown:
            self._screen.passing("")


def _sizes(root: str, index: str) -> tuple[int, int]:
    """Bytes of the index, and of the files that it is made from."""
    return _below(index), sum(_below(os.path.join(root, name)) for name in os.listdir(root) if name != ".smp")


def _below(path: str) -> int:
    """Bytes of the files below a folder, without SMP's own; or of one file."""
    total = 0 if os.path.isdir(path) else _size(path)
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name != ".smp"]
        total += sum(_size(os.path.join(folder, name)) for name in names)
    return total


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # gone meanwhile
        return 0


def _done(facts: dict[str, Any]) -> Iterator[str]:
    rate = f", {facts['memories'] / facts['seconds']:,.0f} a second" if facts["seconds"] > 1 else ""
    yield f"{paint('green', '✓')} {plural(facts['memories'], 'memory')} indexed in {facts['seconds']:.2f} s{rate}"
    share = f" ({facts['index_bytes'] / facts['file_bytes']:.2f} ×)" if facts["file_bytes"] >= _WORTH_COMPARING else ""
    yield f"  index {size_text(facts['index_bytes'])}, files {size_text(facts['file_bytes'])}{share}"
