"""Parts of SVG charts: escaped text, colours that follow the page, numbers, shortened labels. Pure.

Colours are CSS variables with fallbacks in presentation attributes, so a page themes the charts by setting `--accent`, `--text`,
`--muted`, `--line`, `--surface`, `--warning`; a strict content security policy needs no exception, because there is neither a style
attribute nor a style element. Without variables the charts follow `currentColor`, so they are readable on light and dark pages.
Guarantees: all text and addresses are escaped, and characters that XML does not allow are replaced; nothing raises, whatever a memory holds.
"""

from __future__ import annotations

import re
from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ACCENT = "var(--accent, #3b76d6)"
TEXT = "var(--text, currentColor)"
MUTED = "var(--muted, #7d8590)"
LINE = "var(--line, rgba(128,136,148,.28))"
SURFACE = "var(--surface, none)"
WARNING = "var(--warning, #c9722b)"
FONT = 'font-family="var(--font, system-ui, sans-serif)"'

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HIDDEN = re.compile("[\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_NARROW_LETTERS, _BROAD_LETTERS = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@—…%")
# Widths in units of the font size, rather too wide than too narrow: a page may have a broad font.
_NARROW, _USUAL, _BROAD, _FULL = 0.38, 0.62, 0.98, 1.05


def text_of(value: object) -> str:
    """A value as escaped text on one line; bidirectional and invisible marks are dropped, forbidden characters replaced."""
    line = " ".join(_HIDDEN.sub("", _NOT_XML.sub("\ufffd", str(value))).split())
    return escape(line, quote=True)


def number(value: float) -> str:
    """A coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def width_of(text: str, size: float) -> float:
    """The approximate width of a text in this font size."""
    return size * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if letter > "\u04ff" and letter not in _BROAD_LETTERS:
        return _FULL  # beyond Latin, Greek and Cyrillic
    return _NARROW if letter in _NARROW_LETTERS else _BROAD if letter in _BROAD_LETTERS else _USUAL


def shortened(value: object, width: float, size: float) -> str:
    """A text on one line that fits into the width, with an ellipsis if it was cut. Not escaped yet."""
    line = " ".join(_HIDDEN.sub("", str(value)[:1000]).split())
    if width_of(line, size) <= width:
        return line
    while line and width_of(line + "…", size) > width:
        line = line[:-1]
    return line.rstrip() + "…"


def chart(width: float, height: float, title: str, parts: Iterable[str], name: str, *, has_links: bool = False) -> str:
    """An SVG element with an accessible title; one with links is a group, because the content of an image cannot be reached."""
    label, role = text_of(title), "group" if has_links else "img"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart {name}" role="{role}" aria-label="{label}" '
        f'viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}" height="{number(height)}" {FONT}>'
        f"<title>{label}</title>{''.join(parts)}</svg>"
    )


def label(x: float, y: float, value: object, *, size: float = 11, fill: str = MUTED, anchor: str = "start") -> str:
    where = f'x="{number(x)}" y="{number(y)}"'
    return f'<text {where} font-size="{number(size)}" fill="{fill}" text-anchor="{anchor}">{text_of(value)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = LINE, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="1"{dashes}/>'


def path(points: Iterable[tuple[float, float]], *, stroke: str = ACCENT, width: float = 2, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path d="{outline(points)}" fill="none" stroke="{stroke}" stroke-width="{number(width)}" '
        f'stroke-linejoin="round" stroke-linecap="round"{dashes}/>'
    )


def outline(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def area(points: list[tuple[float, float]], bottom: float) -> str:
    closed = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
    return f'<path d="{outline(closed)}Z" fill="{ACCENT}" fill-opacity="0.12" stroke="none"/>'


def dot(x: float, y: float, radius: float, *, fill: str = ACCENT, stroke: str = SURFACE) -> str:
    where = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
    return f'<circle {where} fill="{fill}" stroke="{stroke}" stroke-width="2"/>'


def link(address: str, title: str, inner: str) -> str:
    """A link around a part of a chart. The address is escaped; the caller chooses it."""
    return f'<a href="{escape(_NOT_XML.sub("", address), quote=True)}" aria-label="{text_of(title)}">{inner}</a>'
