"""Charts of the statistics as SVG: lines, sparklines, bars, and the decay curve of a memory. Pure; see `analytics.svg` for colours.

Guarantees: each chart has a role and a title that says what it shows; text is escaped; the same values give the same bytes.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from smp_memory.analytics import svg
from smp_memory.analytics.curves import STEPS, DecayCurve, decay_points, sentence
from smp_memory.analytics.facts import DAY, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from smp_memory.analytics.curves import KnownUse
    from smp_memory.decay import Policy
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record

SERIES_COLORS = (
    svg.ACCENT, "var(--series-2, #c9722b)", "var(--series-3, #2f9e73)", "var(--series-4, #8a63d2)", "var(--series-5, #b8479b)",
)  # fmt: skip


def sparkline(values: Sequence[float], title: str, *, width: float = 96, height: float = 24) -> str:
    """A small line without axes; the last value has a dot."""
    numbers = _finite(values)
    if not numbers:
        return svg.chart(width, height, f"{title}: no values", [], "sparkline")
    top, inner = max([*numbers, 1e-9]), height - 6
    step = (width - 8) / max(len(numbers) - 1, 1)
    points = [(4 + place * step, 3 + inner * (1 - value / top)) for place, value in enumerate(numbers)]
    shape = points if len(points) > 1 else [(4, points[0][1]), (width - 4, points[0][1])]
    parts = [svg.area(shape, height - 3), svg.path(shape, width=1.5), svg.dot(*shape[-1], 2.5)]
    return svg.chart(width, height, f"{title}: {', '.join(f'{value:g}' for value in numbers)}", parts, "sparkline")


def bar_list(
    items: Sequence[tuple[str, float]],
    title: str,
    *,
    width: float = 420,
    href: Callable[[str], str] | None = None,
    unit: str = "",
) -> str:
    """Bars with names on the left and numbers on the right; `href` gives the address of a name."""
    row, size, names = 26, 12, min(160.0, width * 0.38)
    numbers = _finite([value for _, value in items])
    largest = max([*numbers, 1e-9])
    room = width - names - 76
    parts = []
    for place, ((name, _), value) in enumerate(zip(items, numbers, strict=True)):
        y = 4 + place * row
        length = max(room * value / largest, 2 if value > 0 else 0)
        text = svg.label(names, y + 15, svg.shortened(name, names - 4, size), size=size, fill=svg.TEXT, anchor="end")
        parts += [
            svg.link(href(name), name, text) if href is not None else text,
            _bar(names + 10, y + 4, room, svg.LINE, 0.6),
            _bar(names + 10, y + 4, length, svg.ACCENT, 1),
            svg.label(names + room + 18, y + 15, f"{value:,g}{unit}", size=size),
        ]
    said = ", ".join(f"{name} {value:,g}{unit}" for (name, _), value in zip(items[:20], numbers, strict=False))
    height, heading = 8 + row * max(len(items), 1), f"{title}: {said or 'nothing'}"
    return svg.chart(width, height, heading, parts, "bar-list", has_links=href is not None)


def _bar(x: float, y: float, length: float, fill: str, opacity: float) -> str:
    where = f'x="{svg.number(x)}" y="{svg.number(y)}" width="{svg.number(length)}" height="14" rx="3"'
    return f'<rect {where} fill="{fill}" fill-opacity="{opacity:g}"/>'


def line_chart(
    series: Mapping[str, Sequence[float]],
    labels: Sequence[str],
    title: str,
    *,
    width: float = 640,
    height: float = 240,
) -> str:
    """Lines over the same periods, the first one filled, with a legend; at most five series are drawn."""
    shown = dict(list(series.items())[: len(SERIES_COLORS)])
    numbers = {name: _finite(values) for name, values in shown.items()}
    ticks = _ticks(max((value for values in numbers.values() for value in values), default=0.0))
    frame = _Frame(12 + max(svg.width_of(f"{tick:,g}", 11) for tick in ticks), 30, width - 14, height - 28)
    count = max((len(values) for values in numbers.values()), default=0)
    parts = [part for tick in ticks for part in _grid_line(frame, tick, ticks[-1])]
    parts += _period_labels(frame, labels, count)
    for place, values in enumerate(numbers.values()):
        color = SERIES_COLORS[place]
        points = [(frame.x(at, count), frame.y(value / ticks[-1])) for at, value in enumerate(values)]
        if points and place == 0:
            parts.append(svg.area(points, frame.bottom))
        if points:
            parts += [svg.path(points, stroke=color), svg.dot(*points[-1], 3.5, fill=color)]
    parts += _legend(frame, list(numbers), width)
    said = "; ".join(f"{name}: {', '.join(f'{value:g}' for value in values)}" for name, values in numbers.items())
    more = f" ({len(series) - len(shown)} more are not drawn)" if len(series) > len(shown) else ""
    return svg.chart(width, height, f"{title}{more}: {said or 'no values'}", parts, "line-chart")


class _Frame:
    """The area of a chart in which values are drawn."""

    def __init__(self, left: float, top: float, right: float, bottom: float) -> None:
        self.left, self.top, self.right, self.bottom = left, top, right, bottom

    def x(self, place: float, count: int) -> float:
        return self.left + (self.right - self.left) * (place / (count - 1) if count > 1 else 0.5)

    def y(self, share: float) -> float:
        return self.bottom - (self.bottom - self.top) * min(max(share, 0.0), 1.0)


def _grid_line(frame: _Frame, tick: float, largest: float) -> list[str]:
    y = frame.y(tick / largest)
    return [
        svg.line(frame.left, y, frame.right, y),
        svg.label(frame.left - 8, y + 4, f"{tick:,g}", anchor="end"),
    ]


def _period_labels(frame: _Frame, labels: Sequence[str], count: int) -> list[str]:
    """As many labels as there is room for, always with the last one."""
    if not count or not labels:
        return []
    each = max(svg.width_of(text, 11) for text in labels) + 16
    every = max(1, -int(-count * each // (frame.right - frame.left)))
    places = [place for place in range(min(count, len(labels))) if (count - 1 - place) % every == 0]
    return [
        svg.label(
            frame.x(place, count), frame.bottom + 18, labels[place],
            anchor="end" if place == count - 1 and count > 1 else "start" if place == 0 and count > 1 else "middle",
        )
        for place in places
    ]  # fmt: skip


def _legend(frame: _Frame, names: list[str], width: float) -> list[str]:
    parts, x, room = [], frame.left, (width - frame.left) / max(len(names), 1)
    for place, name in enumerate(names if len(names) > 1 or names != [""] else []):
        short = svg.shortened(name, room - 30, 12)
        parts += [
            svg.dot(x + 4, 12, 4, fill=SERIES_COLORS[place], stroke="none"),
            svg.label(x + 14, 16, short, size=12, fill=svg.TEXT),
        ]
        x += svg.width_of(short, 12) + 34
    return parts


def _ticks(largest: float) -> list[float]:
    """Up to six round numbers from 0 to at least the largest value."""
    step = 1.0
    while step * 5 < largest:
        step = step * 2 if f"{step:e}"[0] != "2" else step * 2.5
    count = max(1, -int(-largest // step))
    return [step * place for place in range(count + 1)]


def _finite(values: Sequence[float]) -> list[float]:
    """The values as numbers from 0 on: what is no finite number counts as 0."""
    return [float(value) if isfinite(value) and value > 0 else 0.0 for value in values]


# -- the decay curve


def decay_chart(
    record: Record,
    policy: Policy,
    now: datetime,
    *,
    threshold: float = 0.3,
    days_ahead: float = 90,
    history: RecordHistory | None = None,
    uses: Sequence[KnownUse] | None = None,
    width: float = 640,
    height: float = 220,
) -> str:
    """The priority of a memory: its past as known, its future dotted, the threshold, today, and the known uses."""
    curve = decay_points(
        record, policy, now, threshold=threshold, days_ahead=days_ahead, history=history, uses=uses, steps=STEPS
    )
    return draw_decay(curve, width=width, height=height)


def draw_decay(curve: DecayCurve, *, width: float = 640, height: float = 220) -> str:
    """A decay curve as a chart."""
    frame = _Frame(38, 22, width - 16, height - 30)
    start, end = curve.past[0][0], curve.future[-1][0]
    today, priority = curve.today

    def place(point: tuple[int, float]) -> tuple[float, float]:
        share = (point[0] - start) / (end - start) if end > start else 1.0
        return frame.left + (frame.right - frame.left) * share, frame.y(point[1])

    past, future = [place(point) for point in curve.past], [place(point) for point in curve.future]
    x, y = place((today, priority))
    parts = [part for tick in (0.0, 0.5, 1.0) for part in _grid_line(frame, tick, 1.0)]
    parts += [svg.line(x, frame.top - 4, x, frame.bottom, stroke=svg.MUTED, dash="2 4")]
    parts += _threshold_line(frame, curve)
    if len(past) > 1:
        parts += [svg.area(past, frame.bottom), svg.path(past)]
    parts.append(svg.path(future, dash="2 5"))
    parts += [_tick_mark(*place(point), frame.bottom) for point in curve.uses]
    parts += [svg.dot(*place(point), 3, fill=svg.SURFACE, stroke=svg.ACCENT) for point in curve.changes]
    if curve.below is not None and today < curve.below <= end:
        parts.append(svg.dot(*place((curve.below, curve.threshold)), 4, fill=svg.WARNING))
    parts.append(svg.dot(x, y, 5))
    parts += _time_labels(frame, (start, today, end), x)
    parts += _today_label(frame, x, y, priority)
    return svg.chart(width, height, sentence(curve), parts, "decay-chart")


def _threshold_line(frame: _Frame, curve: DecayCurve) -> list[str]:
    """The threshold, with its label on the side where the curve does not end."""
    y = frame.y(curve.threshold)
    is_above = curve.future[-1][1] < curve.threshold
    return [
        svg.line(frame.left, y, frame.right, y, stroke=svg.WARNING, dash="5 4"),
        svg.label(
            frame.right,
            y - 5 if is_above else y + 14,
            f"faded below {curve.threshold:g}",
            fill=svg.WARNING,
            anchor="end",
        ),
    ]


def _tick_mark(x: float, y: float, bottom: float) -> str:
    """A known use: a dot on the curve and a stroke at the axis."""
    stroke = f'<path d="M{svg.number(x)} {svg.number(bottom)}v-7" stroke="{svg.ACCENT}" stroke-width="2" fill="none"/>'
    return stroke + svg.dot(x, y, 3.5)


def _today_label(frame: _Frame, x: float, y: float, priority: float) -> list[str]:
    """The priority of today beside its dot, on the side with more room."""
    is_left = x > (frame.left + frame.right) / 2
    above = y - 10
    anchor = "end" if is_left else "start"
    return [svg.label(x + (-9 if is_left else 9), above, f"{priority:.2f}", size=13, fill=svg.TEXT, anchor=anchor)]


def _time_labels(frame: _Frame, times: tuple[int, int, int], x: float) -> list[str]:
    start, today, end = times
    y, room = frame.bottom + 18, 90.0
    parts = [svg.label(min(max(x, frame.left + 18), frame.right - 18), y, "today", fill=svg.TEXT, anchor="middle")]
    if x - frame.left > room:
        parts.append(svg.label(frame.left, y, _day(start)))
    if frame.right - x > room:
        parts.append(svg.label(frame.right, y, f"{_day(end)} (+{(end - today) / DAY:.0f} days)", anchor="end"))
    return parts


def _day(time: int) -> str:
    moment = moment_of(time)
    return f"{moment:%Y-%m-%d}" if moment is not None else ""
