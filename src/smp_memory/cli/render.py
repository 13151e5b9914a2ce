"""Terminal output: colour, tables, bars, wrapped text, and escaping of untrusted text.

Guarantees: whatever a memory, an id or a file name contains, only printable characters reach the terminal: control
characters, escape sequences and bidirectional marks are shown as `\\x1b`, and no text can begin a new line where a program
expects one. All text is printed by `Screen.line`. `Screen.json` is exact instead: JSON escapes these characters.
Non-guarantees: a terminal may display a character wider or narrower than Unicode says.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TextIO

_UNPRINTABLE = (
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_MIN_COLUMNS, _MIN_LAST_COLUMNS = 10, 24  # narrowest width of a table's column, and of its widest one, if possible
_MIN_FIRST_COLUMNS = 44  # of a text that comes first
_LONGEST_CUT_WORD = 14  # characters; a longer word may be cut
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?")
_MINUTES, _DATE = 16, 10  # columns of a time without its seconds, and of the day alone
_SPACES = re.compile(r"[ \t\r\n]+")

# Until a line is printed, styles are marked in it by Unicode noncharacters, which no text contains.
_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
    "match": "1;33",
}
_BEGIN = {style: chr(0xFDD0 + number) for number, style in enumerate(_CODES)}
_END = "\ufdef"
_MARKS = re.compile("[\ufdd0-\ufdef]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_AS_COLOR = {_BEGIN[style]: f"\x1b[{code}m" for style, code in _CODES.items()} | {_END: "\x1b[0m"}
_AS_ASCII = str.maketrans(
    {
        "…": "...",
        "→": "->",
        "←": "<-",
        "×": "x",
        "█": "#",
        "░": ".",
        "·": "-",
        "–": "-",
        "├": "|",
        "└": "`",
        "─": "-",
        "│": "|",
        "✓": "ok",
        "✗": "!!",
        **dict(zip("▁▂▃▄▅▆▇", "_.:-=+*", strict=True)),
    }
)


class Screen:
    """An output stream: a terminal, a pipe or a file."""

    def __init__(self, stream: TextIO, *, may_color: bool = True) -> None:
        self._stream = stream
        self._encoding = (stream.encoding or "utf-8").lower()
        self.is_terminal = stream.isatty()
        self.has_color = (
            may_color and self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where lines may have any length."""
        if not self.is_terminal:
            return None
        try:
            return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    @property
    def height(self) -> int:
        """Lines of the terminal."""
        try:
            return int(os.environ.get("LINES", "0")) or os.get_terminal_size(self._stream.fileno()).lines or 24
        except (OSError, ValueError):
            return 24

    def line(self, text: str = "") -> None:
        """Print one line, escaped. All text that others wrote is printed here."""
        self._stream.write(self.printable(text) + "\n")

    def write(self, text: str) -> None:
        """Print text that `printable` has escaped."""
        self._stream.write(text)

    def encoded(self, text: str) -> bytes:
        """Escaped text in the encoding of the stream, for a pager."""
        return text.encode(self._encoding, "backslashreplace")

    def status(self, text: str) -> None:
        """Show a transient line on a terminal: the next one replaces it, an empty one clears it."""
        if self.is_terminal and os.environ.get("TERM") != "dumb":
            self._stream.write(f"\r{self.printable(truncate(text, (self.width or 80) - 1))}\x1b[K")
            self._stream.flush()

    def printable(self, text: str) -> str:
        """The text as it is printed: escaped, with colour if the stream has it."""
        text = safe(text)
        if not self.has_color:
            text = _MARKS.sub("", text)
        elif _MARKS.search(text):
            text = _MARKS.sub(lambda mark: _AS_COLOR.get(mark[0], ""), text) + "\x1b[0m"
        if "utf" not in self._encoding:
            text = text.translate(_AS_ASCII).encode(self._encoding, "backslashreplace").decode(self._encoding)
        return text

    def error(self, message: str, code: str) -> None:
        self.line(f"{paint('red', 'smp:')} {message} {paint('dim', f'({code})')}")

    def json(self, data: Any, *, on_one_line: bool = False) -> None:
        import json

        indent = None if on_one_line else 2
        text = json.dumps(data, ensure_ascii="utf" not in self._encoding, indent=indent, default=str)
        self._stream.write(re.sub(_UNPRINTABLE, _json_escape, text) + "\n")

    def flush(self) -> None:
        self._stream.flush()


# -- words


def safe(text: str) -> str:
    """Escape all characters that could control a terminal or mislead a reader."""
    if text.isprintable() or _MARKS.sub("", text).isprintable():
        return text  # before the expression is compiled, which takes as long as a hundred lines
    return re.sub(_UNPRINTABLE, _visible, text)


def _visible(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def _json_escape(found: re.Match[str]) -> str:
    """Escape a character for JSON: the same for every JSON reader, harmless for a terminal."""
    if found[0] == "\n":  # between values; inside them it is escaped already
        return "\n"
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def paint(style: str, text: str) -> str:
    return f"{_BEGIN[style]}{text}{_END}"


def one_line(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def text_lines(text: str) -> list[str]:
    """The lines of a text, tabs as spaces."""
    return [line.expandtabs(4) for line in text.split("\n")]


def plural(number: int, word: str) -> str:
    if number == 1:
        return f"1 {word}"
    return f"{number:,} {word[:-1]}ies" if word.endswith(("ry", "ty")) else f"{number:,} {word}s"


def size_text(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024 / 1024:.1f} MiB"


def time_text(time: str) -> str:
    """`2026-01-31T14:30:05.123Z` as `2026-01-31 14:30:05`; all times are UTC."""
    return time[:19].replace("T", " ")


_AGES = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3600, "hour"), (60, "minute"))


def age_text(seconds: float) -> str:
    """`2 hours ago`; `just now` for less than a minute; `in the future` for a clock that was set back."""
    if seconds < -60:
        return "in the future"
    for size, name in _AGES:
        if seconds >= size:
            return f"{plural(int(seconds // size), name)} ago"
    return "just now"


def short_age(seconds: float) -> str:
    """An age in a few letters, for columns: `now`, `5min`, `3h`, `12d`, `4mo`, `2y`."""
    for size, name in zip((size for size, _ in _AGES), ("y", "mo", "d", "h", "min"), strict=True):
        if seconds >= size:
            return f"{int(seconds // size)}{name}"
    return "now"


def value_text(value: Any) -> str:
    """A value on one line: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


def bar(share: float, columns: int = 24) -> str:
    full = min(columns, max(round(share * columns), 1 if share > 0 else 0))
    return paint("cyan", "█" * full) + paint("dim", "░" * (columns - full))


def sparkline(values: Sequence[float]) -> str:
    """Numbers from 0 on as a row of small bars; 0 is the lowest one."""
    largest = max(values, default=0) or 1
    return "".join(_BARS[min(len(_BARS) - 1, max(0, -int(-(len(_BARS) - 1) * value // largest)))] for value in values)


_BARS = "▁▂▃▄▅▆▇█"


def bars(counts: dict[str, int], format_number: Callable[[int], str], columns: int | None = None) -> Iterator[str]:
    """A bar chart, the largest number first."""
    names = {name: truncate(safe(one_line(name)), max(_MIN_COLUMNS, (columns or 1000) - 40)) for name in counts}
    widest, largest = max(map(width_of, names.values()), default=0), max(counts.values(), default=0) or 1
    for name, number in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"  {pad(names[name], widest)}  {bar(number / largest)}  {format_number(number)}"


# -- columns


def width_of(text: str) -> int:
    """The number of columns that a text takes."""
    if text.isascii():
        return len(text)
    return len(text) + sum([_letter_width(letter) - 1 for letter in _NOT_ASCII.findall(text)])


@cache
def _letter_width(letter: str) -> int:
    if letter == "\u200d" or _MARKS.match(letter):
        return 0
    if letter < "\u0300" or "\u2010" <= letter <= "\u2027":  # Latin letters, dashes, quotes, the ellipsis
        return 1
    from unicodedata import combining, east_asian_width

    if combining(letter):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def _fit_length(text: str, columns: int) -> int:
    """The number of characters of a text that fit into the columns."""
    if text.isascii():
        return min(len(text), columns)
    if len(text) <= columns and width_of(text) <= columns:
        return len(text)
    used = 0
    for at, letter in enumerate(text):
        used += _letter_width(letter)
        if used > columns:
            return at
    return len(text)


def truncate(text: str, columns: int) -> str:
    """Truncate a text to the columns, after a word if one ends near, with an ellipsis; open styles are closed."""
    if _fit_length(text, columns) == len(text):
        return text
    cut = text[: _fit_length(text, max(columns - 1, 0))]
    space = cut.rfind(" ") + 1
    if len(cut) - space < min(_LONGEST_CUT_WORD, space) and not text[len(cut)].isspace():
        cut = cut[:space]
    return cut + "…" + (_END if _MARKS.search(cut) else "")


def color_diff(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a unified diff in colour."""
    for line in lines:
        style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
        yield paint(style, line) if style else line


def pad(text: str, columns: int, right: bool = False) -> str:
    gap = " " * max(0, columns - width_of(text))
    return gap + text if right else text + gap


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    columns: int | None,
    optional: Sequence[str] = (),
    wide: int = -1,
) -> Iterator[str]:
    """A table; a header that starts with `>` aligns its column to the right. The column `wide` takes the remaining width: the last, or the first.

    If the table is too wide, times lose their seconds and then their hour, and empty columns and then the `optional` ones
    are left out, before any cell is truncated.
    """
    body = [[safe(one_line(cell)) for cell in row] for row in rows]
    names = [header.removeprefix(">") for header in headers]
    right = [header.startswith(">") for header in headers]
    widths = [max(map(width_of, column)) for column in zip(names, *body, strict=True)]
    visible = range(len(headers)) if columns is None else _fit_columns(names, body, widths, columns, optional, wide)
    last = visible[-1]

    def line(cells: Sequence[str]) -> str:
        fitted = {at: _shorten(cells[at], widths[at]) for at in visible}
        padded = [pad(cell, widths[at], right[at]) if at < last or right[at] else cell for at, cell in fitted.items()]
        return "  ".join(padded).rstrip()

    yield paint("dim", line(names))
    yield from map(line, body)


def _shorten(cell: str, columns: int) -> str:
    """Shorten a cell: a time to minutes or the date, the header of such a column without its zone, all else truncated."""
    if width_of(cell) <= columns:
        return cell
    if _TIME.fullmatch(cell) and columns >= _DATE:
        return cell[: _MINUTES if columns >= _MINUTES else _DATE]
    return truncate(cell.removesuffix(" (UTC)"), columns)


def _fit_columns(
    names: list[str], body: list[list[str]], widths: list[int], columns: int, optional: Sequence[str], wide: int
) -> Sequence[int]:
    """Narrow the columns until all fit; returns the indices of the visible ones."""
    visible = list(range(len(widths)))
    times = [
        at for at in visible if (cells := [row[at] for row in body if row[at]]) and all(map(_TIME.fullmatch, cells))
    ]

    def excess() -> int:
        return max(0, sum(widths[at] for at in visible) + 2 * (len(visible) - 1) - columns)

    def is_too_wide() -> bool:  # even with the wide column at its minimum
        return excess() > max(0, widths[visible[wide]] - (_MIN_FIRST_COLUMNS if wide == 0 else _MIN_LAST_COLUMNS))

    if excess() and body:
        visible = [at for at in visible if at == 0 or any(row[at] for row in body)]
        for at in times:
            widths[at] = min(widths[at], _MINUTES)
    if is_too_wide():
        for at in times:
            widths[at] = min(widths[at], _DATE)
    for name in optional:
        if is_too_wide():
            visible = [at for at in visible if names[at] != name]
    _narrow(widths, visible, excess(), wide)
    return visible


def _narrow(widths: list[int], visible: list[int], excess: int, wide: int) -> None:
    """Reduce widths by the excess: the wide column first, down to its minimum, then the widest in the middle."""
    last = visible[wide]
    reduction = min(
        excess, max(0, widths[last] - (_MIN_COLUMNS if wide == 0 else _MIN_LAST_COLUMNS))
    )  # a cut id is of no use
    widths[last] -= reduction
    for _ in range(excess - reduction):
        widest = max(visible[1:-1], key=widths.__getitem__, default=last)
        at = widest if widths[widest] > _MIN_COLUMNS else last
        widths[at] = max(1, widths[at] - 1)


def fields(pairs: Iterable[tuple[str, str]], columns: int | None) -> Iterator[str]:
    """Names and values in two columns; long values are wrapped and indented."""
    items = list(pairs)
    widest = max((width_of(name) for name, _ in items), default=0)
    value_columns = None if columns is None else max(20, columns - widest - 2)
    for name, value in items:
        lines = [part for line in text_lines(value) for part in wrap(line, value_columns)]
        yield f"{paint('dim', pad(name, widest))}  {lines[0]}"
        yield from (" " * (widest + 2) + line if line else "" for line in lines[1:])


def wrap(line: str, columns: int | None) -> list[str]:
    """Break a line into several that fit, at spaces where there are any."""
    if columns is None:
        return [line]
    parts: list[str] = []
    text, at = safe(line), 0
    while True:
        window = text[at : at + columns + 1]
        end = _fit_length(window, columns)
        if at + end == len(text):
            return [*parts, window]
        space = window.rfind(" ", 1, end + 1)
        parts.append(window[: space if space > 0 else end])
        at += space + 1 if space > 0 else end


def print_help(text: str) -> None:
    """Print help as `Screen` prints everything: with ASCII characters where the terminal has no others."""
    screen = Screen(sys.stdout)
    for line in text.removesuffix("\n").split("\n"):
        screen.line(line)
    sys.stdout.flush()
