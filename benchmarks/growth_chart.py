"""Chart of the latency of a query against the size of the store, drawn as SVG without any library."""

from __future__ import annotations

from math import log10

TYPE_CHECKING = False
if TYPE_CHECKING:
    from timing import Row

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 360, 70, 30, 130, 50
_COLOURS = ("#1f6feb", "#9a6700", "#8c959f")


def growth(rows: list[Row]) -> str:
    """Latency against the number of memories, both in powers of ten; empty if nothing of it was measured."""
    lines = {
        "SMP, p95": {_size(row): row.value for row in rows if row.figure == "query p95"},
        "SMP, p50": {_size(row): row.value for row in rows if row.figure == "query p50 against the bare engine"},
        "bare engine, p50": {
            _size(row): row.raw for row in rows if row.figure == "query p50 against the bare engine" and row.raw
        },
    }
    lines = {name: points for name, points in lines.items() if points}
    return _drawn(lines) if lines else ""


def _size(row: Row) -> int:
    return int(row.case.split()[0].replace(",", ""))


def _drawn(lines: dict[str, dict[int, float]]) -> str:
    sizes = sorted({size for points in lines.values() for size in points})
    values = [value for points in lines.values() for value in points.values()]
    low, high = 10 ** int(log10(min(values)) - 1), 10 ** (int(log10(max(values))) + 1)

    def x(size: int) -> float:
        span = log10(sizes[-1] / sizes[0]) or 1
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * log10(size / sizes[0]) / span

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - log10(value / low) / log10(high / low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-weight="bold">A query of five words, best 20 with records</text>',
    ]
    tick = low
    while tick <= high:
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#d0d7de"/>'
        )
        parts.append(f'<text x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g} ms</text>')
        tick *= 10
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{size:,}</text>')
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 10}" text-anchor="middle">memories</text>')
    for (name, points), colour in zip(lines.items(), _COLOURS, strict=False):
        path = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in sorted(points.items()))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for size, value in points.items():
            parts.append(f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>')
        last = max(points)
        parts.append(f'<text x="{x(last) + 8:.1f}" y="{y(points[last]) + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])
