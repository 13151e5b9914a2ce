"""The times of the lines of a text file, from git where the file is in a repository."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import lru_cache

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
