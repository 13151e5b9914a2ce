"""How does it look on a terminal? Colour, tables, bars, and text that cannot do anything to the terminal.

Guarantees: whatever a memory, an id or a file name contains, only printable characters reach the terminal: controls,
escape sequences and marks that turn the direction of text are shown as `\\x1b`, and no text can begin a new line
where a program expects one. There is one way out, `Screen.line`. `Screen.json` is exact instead: JSON escapes them.
Non-guarantees: a terminal's own idea of how wide a character is may differ from Unicode's.
"""

from __future__ import annotations

import os
import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TextIO

_HOSTILE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_A_WORD, _SOME_WORDS = 10, 24  # columns that a table tries to leave to a cell
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?")
_MINUTES, _DATE = 16, 10  # columns of a time without its seconds, and of the day alone
_SPACES = re.compile(r"[ \t\r\n]+")

# Styles stand in a line as characters that no text has (Unicode noncharacters) until it is printed.
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
    }
)


class Screen:
    """Where text goes: a terminal, a pipe or a file."""

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

    def line(self, text: str = "") -> None:
        """Print one line, the only way out for text that others wrote."""
        self._stream.write(self._printable(text) + "\n")

    def passing(self, text: str) -> None:
        """Show a line for a moment, on a terminal: the next one takes its place, an empty one clears it."""
        if self.is_terminal and os.environ.get("TERM") != "dumb":
            self._stream.write(f"\r{self._printable(cut(text, (self.width or 80) - 1))}\x1b[K")
            self._stream.flush()

    def _printable(self, text: str) -> str:
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
        self._stream.write(_HOSTILE.sub(_json_escape, text) + "\n")

    def flush(self) -> None:
        self._stream.flush()


# -- words


def safe(text: str) -> str:
    """The same text with everything visible that could steer a terminal or deceive an eye."""
    if text.isascii() and text.isprintable():
        return text
    return _HOSTILE.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def _json_escape(found: re.Match[str]) -> str:
    """The same character for every JSON reader, harmless for a terminal."""
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
    return f"{number:,} {word[:-1]}ies" if word.endswith("ry") else f"{number:,} {word}s"


def size_text(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024 / 1024:.1f} MiB"


def time_text(time: str) -> str:
    """`2026-01-31T14:30:05.123Z` as `2026-01-31 14:30:05`; all times are UTC."""
    return time[:19].replace("T", " ")


def value_text(value: Any) -> str:
    """A value on one line: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


def bar(share: float, columns: int = 24) -> str:
    full = min(columns, max(round(share * columns), 1 if share > 0 else 0))
    return paint("cyan", "█" * full) + paint("dim", "░" * (columns - full))


def bars(counts: dict[str, int], shown: Callable[[int], str], columns: int | None = None) -> Iterator[str]:
    """A bar for each number, the largest first."""
    names = {name: cut(safe(one_line(name)), max(_A_WORD, (columns or 1000) - 40)) for name in counts}
    widest, largest = max(map(width_of, names.values()), default=0), max(counts.values(), default=0) or 1
    for name, number in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"  {pad(names[name], widest)}  {bar(number / largest)}  {shown(number)}"


# -- columns


def width_of(text: str) -> int:
    """How many columns a text takes."""
    if text.isascii():
        return len(text)
    return len(text) + sum([_letter_width(letter) - 1 for letter in _NOT_ASCII.findall(text)])


@cache
def _letter_width(letter: str) -> int:
    from unicodedata import combining, east_asian_width

    if combining(letter) or letter == "\u200d" or _MARKS.match(letter):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def _fitting(text: str, columns: int) -> int:
    """How many letters of a text fit."""
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


def cut(text: str, columns: int) -> str:
    """The beginning of a text that fits; its styles are closed."""
    if _fitting(text, columns) == len(text):
        return text
    text = text[: _fitting(text, max(columns - 1, 0))]
    return text + "…" + (_END if _MARKS.search(text) else "")


def pad(text: str, columns: int, right: bool = False) -> str:
    gap = " " * max(0, columns - width_of(text))
    return gap + text if right else text + gap


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], columns: int | None, spare: Sequence[str] = ()
) -> Iterator[str]:
    """Rows below their heads; a head that starts with `>` aligns to the right. The last column takes what is left.

    Where it is too narrow, times lose their seconds and then their hour, and columns without a cell and then the
    `spare` ones are left out, before anything is cut.
    """
    body = [[safe(one_line(cell)) for cell in row] for row in rows]
    names = [head.removeprefix(">") for head in heads]
    right = [head.startswith(">") for head in heads]
    widths = [max(map(width_of, column)) for column in zip(names, *body, strict=True)]
    shown = range(len(heads)) if columns is None else _make_room(names, body, widths, columns, spare)
    last = shown[-1]

    def joined(cells: Sequence[str]) -> str:
        fitted = {at: _shortened(cells[at], widths[at]) for at in shown}
        padded = [pad(cell, widths[at], right[at]) if at < last or right[at] else cell for at, cell in fitted.items()]
        return "  ".join(padded).rstrip()

    yield paint("dim", joined(names))
    yield from map(joined, body)


def _shortened(cell: str, columns: int) -> str:
    """A cell that fits: a time as far as it goes, the name of such a column without its zone, all else cut."""
    if width_of(cell) <= columns:
        return cell
    if _TIME.fullmatch(cell) and columns >= _DATE:
        return cell[: _MINUTES if columns >= _MINUTES else _DATE]
    return cut(cell.removesuffix(" (UTC)"), columns)


def _make_room(
    names: list[str], body: list[list[str]], widths: list[int], columns: int, spare: Sequence[str]
) -> Sequence[int]:
    """Narrow the columns until all fit, and say which are shown."""
    shown = list(range(len(widths)))
    times = [at for at in shown if (cells := [row[at] for row in body if row[at]]) and all(map(_TIME.fullmatch, cells))]

    def excess() -> int:
        return max(0, sum(widths[at] for at in shown) + 2 * (len(shown) - 1) - columns)

    def is_tight() -> bool:  # also when the last column has given what it can
        return excess() > max(0, widths[shown[-1]] - _SOME_WORDS)

    if excess() and body:
        shown = [at for at in shown if at == 0 or any(row[at] for row in body)]
        for at in times:
            widths[at] = min(widths[at], _MINUTES)
    if is_tight():
        for at in times:
            widths[at] = min(widths[at], _DATE)
    for name in spare:
        if is_tight():
            shown = [at for at in shown if names[at] != name]
    _narrow(widths, shown, excess())
    return shown


def _narrow(widths: list[int], shown: list[int], excess: int) -> None:
    """Cut columns: the last one first, down to some words, then the widest of the middle."""
    last = shown[-1]
    given = min(excess, max(0, widths[last] - _SOME_WORDS))
    widths[last] -= given
    for _ in range(excess - given):
        widest = max(shown[1:-1], key=widths.__getitem__, default=last)
        at = widest if widths[widest] > _A_WORD else last
        widths[at] = max(1, widths[at] - 1)


def fields(pairs: Iterable[tuple[str, str]], columns: int | None) -> Iterator[str]:
    """Names and values; long and several lines stand below their name, indented."""
    known = list(pairs)
    widest = max((width_of(name) for name, _ in known), default=0)
    room = None if columns is None else max(20, columns - widest - 2)
    for name, value in known:
        lines = [part for line in text_lines(value) for part in wrapped(line, room)]
        yield f"{paint('dim', pad(name, widest))}  {lines[0]}"
        yield from (" " * (widest + 2) + line if line else "" for line in lines[1:])


def wrapped(line: str, columns: int | None) -> list[str]:
    """A line as several that fit, broken at spaces where there are any."""
    if columns is None:
        return [line]
    parts: list[str] = []
    text, at = safe(line), 0
    while True:
        window = text[at : at + columns + 1]
        end = _fitting(window, columns)
        if at + end == len(text):
            return [*parts, window]
        space = window.rfind(" ", 1, end + 1)
        parts.append(window[: space if space > 0 else end])
        at += space + 1 if space > 0 else end
