"""When was a line written? By git where it knows, else by the file's own time.

Guarantees: never raises and never waits long; a line that was not committed yet has the file's time; no time lies in the
future. Nothing is run but `git`, without pagers and hooks; and where a repository brings filters of its own, which `git blame`
would run, git is not asked for times.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import lru_cache

_SECONDS = 20
_NOTHING_FOUND = 1  # how `git config` ends when no setting fits


class LineTimes:
    """The times of the lines of one file, looked up when the first is asked for."""

    def __init__(self, path: str, now: datetime) -> None:
        self._path = path
        self._now = now
        self._by_line: dict[int, datetime] | None = None

    def at(self, line: int) -> datetime:
        if self._by_line is None:
            self._by_line = _blamed(self._path)
        return min(self._by_line.get(line) or self.of_file(), self._now)

    @property
    def is_known_to_git(self) -> bool:
        if self._by_line is None:
            self._by_line = _blamed(self._path)
        return bool(self._by_line)

    def of_file(self) -> datetime:
        try:
            return min(datetime.fromtimestamp(int(os.stat(self._path).st_mtime), UTC), self._now)
        except (OSError, OverflowError, ValueError):
            return self._now


def _blamed(path: str) -> dict[int, datetime]:
    folder, name = os.path.split(path)
    if _has_filters(folder):
        return {}
    code, said = _git(folder, "blame", "--no-textconv", "--line-porcelain", "--", name)
    if code:
        return {}
    found: dict[int, datetime] = {}
    line, committed = 0, False
    for text in said.split(b"\n"):
        words_of_line = text.split(b" ")
        if len(words_of_line) in (3, 4) and len(words_of_line[0]) in (40, 64) and words_of_line[2].isdigit():
            line, committed = int(words_of_line[2]), words_of_line[0].strip(b"0") != b""
        elif text.startswith(b"author-time ") and committed:
            try:
                found[line] = datetime.fromtimestamp(int(text[12:]), UTC)
            except (ValueError, OverflowError, OSError):
                continue
    return found


@lru_cache(maxsize=256)
def _has_filters(folder: str) -> bool:
    """Whether the repository itself names programs that git would run over its files; also if that cannot be told."""
    code, said = _git(folder, "config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    own = any(line.startswith((b"local", b"worktree")) for line in said.splitlines())
    return own if code == 0 else code != _NOTHING_FOUND


def _git(folder: str, *words: str) -> tuple[int, bytes]:
    """The exit code, -1 if there is none, and what was said."""
    import subprocess

    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *words],
            cwd=folder,
            env=environ,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return -1, b""
    return done.returncode, done.stdout
