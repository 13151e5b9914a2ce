"""Chart of shares from 0 to 1 against the size of the store or a floor of relevance, drawn as SVG without any library; for light and dark pages."""

from __future__ import annotations

from math import log10
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 360, 60, 36, 280, 50
_STYLE = """
text { fill: #1f2328; font: 12px sans-serif } .grid { stroke: #d0d7de } .line { fill: none; stroke-width: 2 }
.a { stroke: #0969da } .b { stroke: #bc4c00 } .c { stroke: #1a7f37 } .d { stroke: #8250df }
.meaning { stroke-dasharray: 6 4 } .title { font-weight: bold }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .grid { stroke: #3d444d }
.a { stroke: #58a6ff } .b { stroke: #ffa657 } .c { stroke: #56d364 } .d { stroke: #d2a8ff } }
"""
_CLASSES = "abcd"


MEMORIES, FLOOR = "memories", "floor of relevance"  # what is on the x axis; memories on a logarithmic scale


def chart(title: str, lines: dict[tuple[str, str], dict[float, float]], axis: str = MEMORIES) -> str:
    """A line for each figure and way of searching (`words`; `meaning`, dashed; or empty): {(figure, way): {size or floor: share}}."""
    sizes = sorted({size for points in lines.values() for size in points})
    figures = list(dict.fromkeys(figure for figure, _ in lines))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{_LEFT}" y="18">{escape(title)}</text>',
        *_axes(sizes, axis),
    ]
    for (figure, way), points in lines.items():
        style = f"line {_CLASSES[figures.index(figure) % len(_CLASSES)]} {way}".rstrip()
        path = " ".join(f"{_x(size, sizes, axis):.1f},{_y(share):.1f}" for size, share in sorted(points.items()))
        parts.append(f'<polyline class="{style}" points="{path}"/>')
    return "\n".join([*parts, *_legend(lines, figures), "</svg>", ""])


def _axes(sizes: list[float], axis: str) -> list[str]:
    right = _WIDTH - _RIGHT
    parts = []
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    for size in sizes if axis == MEMORIES else sizes[::2]:
        x = _x(size, sizes, axis)
        shown = f"{size:,}" if axis == MEMORIES else f"{size:.2f}"
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{shown}</text>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 10}" text-anchor="middle">{axis}</text>')
    return parts


def _legend(lines: dict[tuple[str, str], dict[float, float]], figures: list[str]) -> list[str]:
    left = _WIDTH - _RIGHT + 14
    parts = []
    for place, (figure, way) in enumerate(lines):
        y = _TOP + 10 + 20 * place
        style = f"line {_CLASSES[figures.index(figure) % len(_CLASSES)]} {way}".rstrip()
        parts.append(f'<line class="{style}" x1="{left}" x2="{left + 26}" y1="{y}" y2="{y}"/>')
        by = {"words": ", words", "meaning": ", words and meaning"}.get(way, "")
        parts.append(f'<text x="{left + 32}" y="{y + 4}">{escape(figure + by)}</text>')
    return parts


def _x(size: float, sizes: list[float], axis: str) -> float:
    scale = log10 if axis == MEMORIES else float
    low, high = scale(sizes[0]), scale(sizes[-1])
    share = (scale(size) - low) / (high - low) if high > low else 0.5
    return _LEFT + share * (_WIDTH - _RIGHT - _LEFT)


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)
