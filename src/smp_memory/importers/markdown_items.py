"""Split Markdown into items or into sections, each with its line and the headings above it.

Items are list items, paragraphs and table rows; a section is all text between two headings. Guarantees: pure, never raises, linear in the text. Front matter, comments and placeholders such as "None yet" are no items. Text
indented below an item belongs to it, and so does a code block after it.
"""

from __future__ import annotations

import re
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
_MAX_PLACEHOLDER = 200  # characters
_DATE = re.compile(r"(?<!\d)(20\d\d-[01]\d-[0-3]\d)(?:[T ]([0-2]\d:[0-5]\d(?::[0-5]\d)?)(Z?))?")


class MarkdownItem(NamedTuple):
    text: str
    line: int
    headings: tuple[str, ...]  # the headings above it, outermost first
    checked: bool | None = None  # the checkbox of a task list

    @property
    def heading(self) -> str:
        return self.headings[-1] if self.headings else ""

    def is_below(self, *words: str) -> bool:
        """Whether a heading above it contains one of the words."""
        above = " ".join(self.headings).lower()
        return any(word in above for word in words)


def front_matter(text: str) -> tuple[dict[str, str], int]:
    """The plain fields of the front matter, and its number of lines."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}, 0
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    pairs = (line.partition(":") for line in lines[1:end] if not line.startswith((" ", "\t", "#")))
    return {name.strip(): value.strip().strip("\"'") for name, colon, value in pairs if colon}, end + 1 if end else 0


def properties(text: str) -> tuple[dict[str, list[str]], int]:
    """The fields of the front matter as lists of texts, and its number of lines: `a: x`, `a: [x, y]`, and lists below `a:`."""
    lines = text.splitlines()
    _, length = front_matter(text)
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines[1 : max(length - 1, 1)]:
        stripped = line.strip()
        if stripped.startswith("- "):
            current.append(_unquoted(stripped[2:]))
        elif stripped and not line.startswith((" ", "\t", "#")):
            name, _, value = stripped.partition(":")
            current = found[name.strip()] = _values(value.strip())
    return {name: [value for value in values if value] for name, values in found.items()}, length


def _values(value: str) -> list[str]:
    if value.startswith("[") and value.endswith("]"):
        return [_unquoted(each) for each in value[1:-1].split(",")]
    return [_unquoted(value)]


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'").strip()


def date_in(text: str) -> str | None:
    """The first date, or date and time, as ISO 8601; a time without a zone stays without one."""
    found = _DATE.search(text)
    if found is None:
        return None
    day, time, zone = found.groups()
    return f"{day}T{time}{zone}" if time else day


class Section(NamedTuple):
    headings: tuple[str, ...]  # its own heading and those above it, outermost first; empty before the first
    lines: list[str]
    line: int  # the number of the first of these lines


def sections(text: str) -> list[Section]:
    """The sections of a text that have text of their own, in order, without its front matter."""
    _, begin = front_matter(text)
    headings: list[tuple[int, str]] = []
    found = [Section((), [], begin + 1)]
    fence = ""
    for number, line in enumerate(text.splitlines()[begin:], begin + 1):
        opening, heading = _FENCE.match(line), None if fence else _HEADING.match(line)
        if opening and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else opening[1]
        if heading is None:
            found[-1].lines.append(line)
            continue
        headings = [each for each in headings if each[0] < len(heading[1])]
        headings.append((len(heading[1]), _heading_text(heading[2])))
        found.append(Section(tuple(title for _, title in headings), [], number + 1))
    return [section for section in found if any(line.strip() for line in section.lines)]


def first_title(lines: list[str]) -> str:
    """The first heading of the first level; empty if there is none."""
    return next((line.strip("# ") for line in lines if line.startswith("# ")), "")


def _heading_text(text: str) -> str:
    return text.rstrip().rstrip("#").strip("* \t")


def items(text: str) -> list[MarkdownItem]:
    """All items of a text, in order."""
    found: list[MarkdownItem] = []
    for lines, line, headings, checked in _blocks(text):
        content = "\n".join(lines).strip()
        is_label = len(lines) == 1 and content.endswith(":") and not content.startswith("#")  # a label for what follows
        if content and not is_label and not (len(content) < _MAX_PLACEHOLDER and _EMPTY.match(content)):
            found.append(MarkdownItem(content, line, headings, checked))
    return found


def _blocks(text: str) -> Iterator[tuple[list[str], int, tuple[str, ...], bool | None]]:
    headings: list[tuple[int, str]] = []
    _, begin = front_matter(text)
    block: list[str] = []
    first, indent, checked, columns = 0, -1, None, []  # type: ignore[var-annotated]
    fence, comment, gap = "", False, False

    def current() -> tuple[list[str], int, tuple[str, ...], bool | None]:
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
            yield current()
            block, indent, checked = [], -1, None
        gap = not line.strip()
        if heading:
            headings = [each for each in headings if each[0] < len(heading[1])]
            headings.append((len(heading[1]), _heading_text(heading[2])))
            columns = []
        elif is_row:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not columns:
                columns = cells
            elif not _RULE.match(line.strip()):
                block, first = [_row(columns, cells)], number
                yield current()
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
    yield current()


def _row(columns: list[str], cells: list[str]) -> str:
    pairs = ((columns[at] if at < len(columns) else "", cell) for at, cell in enumerate(cells) if cell)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs)
