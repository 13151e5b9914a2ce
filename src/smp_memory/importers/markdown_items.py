"""What does a Markdown file say, item by item? List items, paragraphs and rows of tables, each with its line and headings.

Guarantees: pure; any text gives items, none raises; time grows with its length. Front matter, comments and what is only a
placeholder are left out. What is indented below an item belongs to it, and so does a block of code behind it.

When was a line written? By git where it knows, else by the file's own time.

Guarantees: never raises and never waits long; a line that was not committed yet has the file's time; no time lies in the
future. Nothing is run but `git`, without pagers and hooks; and where a repository brings filters of its own, which `git blame`
would run, git is not asked for times.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


_HEADING = re.compile(r"(#{1,6})\s+(.*)$")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+(?:\[([ xX])\]\s+)?(.*)$")
_RULE = re.compile(r"[|:\-\s]+$")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_EMPTY = re.compile(
    r"[\W_]*(?:(?:n/?a|none(?: yet)?|tbd|todo|nothing(?: yet)?|\{\{.*\}\}|\(.*\))[\W_]*)?$", re.IGNORECASE
)
_SHORT = 200  # a longer text is no placeholder
_DATE = re.compile(r"(?<!\d)(20\d\d-[01]\d-[0-3]\d)(?:[T ]([0-2]\d:[0-5]\d(?::[0-5]\d)?)(Z?))?")


class MarkdownItem(NamedTuple):
    text: str
    line: int
    headings: tuple[str, ...]  # those above it, the widest first
    checked: bool | None = None  # of a task list

    @property
    def heading(self) -> str:
        return self.headings[-1] if self.headings else ""

    def is_below(self, *words: str) -> bool:
        """Whether a heading above it has one of the words."""
        above = " ".join(self.headings).lower()
        return any(word in above for word in words)


def front_matter(text: str) -> tuple[dict[str, str], int]:
    """Its plain fields, and how many lines it takes."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}, 0
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    pairs = (line.partition(":") for line in lines[1:end] if not line.startswith((" ", "\t", "#")))
    return {name.strip(): value.strip().strip("\"'") for name, colon, value in pairs if colon}, end + 1 if end else 0


def date_in(text: str) -> str | None:
    """A day, or a day and a time, as ISO 8601; a time without a zone is left without one."""
    found = _DATE.search(text)
    if found is None:
        return None
    day, time, zone = found.groups()
    return f"{day}T{time}{zone}" if time else day


def items(text: str) -> list[MarkdownItem]:
    """All that it says, in order."""
    found: list[MarkdownItem] = []
    for lines, line, headings, checked in _blocks(text):
        said = "\n".join(lines).strip()
        is_label = len(lines) == 1 and said.endswith(":") and not said.startswith("#")  # what follows says it
        if said and not is_label and not (len(said) < _SHORT and _EMPTY.match(said)):
            found.append(MarkdownItem(said, line, headings, checked))
    return found


def _blocks(text: str) -> Iterator[tuple[list[str], int, tuple[str, ...], bool | None]]:
    headings: list[tuple[int, str]] = []
    _, begin = front_matter(text)
    block: list[str] = []
    first, indent, checked, columns = 0, -1, None, []  # type: ignore[var-annotated]
    fence, comment, gap = "", False, False

    def done() -> tuple[list[str], int, tuple[str, ...], bool | None]:
        return block, first, tuple(title for _, title in headings), checked

    for number, line in enumerate(text.splitlines()[begin:], begin + 1):
        if fence:
            block.append(line)
            fence = "" if line.strip().startswith(fence) and not line.strip().strip(fence[0]) else fence
            continue
        if comment or (line.lstrip().startswith("<!--") and "-->" not in line):
            comment = "-->" not in line
            continue
        if line.strip().startswith("<!--") and line.strip().endswith("-->"):
            continue
        opening = _FENCE.match(line)
        if opening:
            fence = opening[1]
            first = first if block else number
            block.append(line)
            continue
        heading, item = _HEADING.match(line), _ITEM.match(line)
        is_row = line.lstrip().startswith("|")
        ends = bool(heading) or is_row or (item is not None and len(item[1]) <= max(indent, 0))
        ends = ends or (gap and bool(line.strip()) and not (indent >= 0 and line.startswith((" ", "\t"))))
        ends = ends or (item is not None and indent < 0)
        if ends:
            yield done()
            block, indent, checked = [], -1, None
        gap = not line.strip()
        if heading:
            headings = [each for each in headings if each[0] < len(heading[1])]
            headings.append((len(heading[1]), heading[2].rstrip().rstrip("#").strip("* \t")))
            columns = []
        elif is_row:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not columns:
                columns = cells
            elif not _RULE.match(line.strip()):
                block, first = [_row(columns, cells)], number
                yield done()
                block = []
        elif item and not block:
            first, indent, block = number, len(item[1]), [item[3]]
            checked = None if item[2] is None else item[2] != " "
        elif line.strip():
            columns = []
            first = first if block else number
            block.append(
                line.strip() if indent < 0 else line[min(indent + 2, len(line) - len(line.lstrip())) :].rstrip()
            )
    yield done()


def _row(columns: list[str], cells: list[str]) -> str:
    pairs = ((columns[at] if at < len(columns) else "", cell) for at, cell in enumerate(cells) if cell)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs)


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
