"""Charts of the statistics as SVG: lines, sparklines, bars, the decay curve of a memory, and its relations. Pure.

The graph of relations: the memory in the middle, those that point to it on the left, those that it points to on the right, one row for
each, so that no two boxes and no two labels overlap, whatever the names are. The order is by kind and name; each neighbour is a link.
Guarantees: each chart has a role and a title that says what it shows; text is escaped; the same values give the same bytes.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.analytics import svg
from smp_memory.analytics.facts import DAY, moment_of
from smp_memory.analytics.forecast import DecayCurve, sentence
from smp_memory.model.record import Record
from smp_memory.model.statuses import SUCCESSION_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from smp_memory.model.candidates import Related

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
            svg.label(names + room + 18, y + 15, f"{value:,g}", size=size),
        ]
    said = ", ".join(f"{name} {value:,g}" for (name, _), value in zip(items[:20], numbers, strict=False))
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


# -- a memory and its relations

MAX_NEIGHBOURS = 14
_BOX, _LANE, _GAP = (200.0, 40.0), 104.0, 70.0  # a box; the room for a label at it; the room for the curve
_ROW = 54.0
_ARROW_ROW = 12.0
_MARGIN = 8.0
WIDTH = 2 * (_MARGIN + _BOX[0] + _LANE + _GAP) + _BOX[0]


class Neighbour(NamedTuple):
    """A memory beside another one."""

    ref: str
    name: str  # as shown: its id, or session/ID in another session
    text: str
    kind: str  # of the relation
    is_outgoing: bool  # the memory in the middle points to it


class Box(NamedTuple):
    """A rectangle of the graph, by its upper left corner."""

    x: float
    y: float
    width: float
    height: float


def neighbours(center: Record, related: Iterable[Related]) -> list[Neighbour]:
    """The direct relations of a memory, with their direction: those that its own fields state point outwards."""
    stated = _targets(center)
    found = []
    for each in related:
        if each.steps == 1:
            record = each.record
            name = record.id if record.session == center.session else record.ref
            is_outgoing = (each.kind, record.ref) in stated
            found.append(Neighbour(record.ref, name, record.text, each.kind, is_outgoing))
    return sorted(found, key=lambda each: (each.kind, each.ref))


def _targets(record: Record) -> set[tuple[str, str]]:
    """Kind and ref of what a memory points to, as the index has it."""
    given = record.given
    relations = given.get("relations")
    pairs = [
        (each.get("kind"), each.get("target"))
        for each in (relations if isinstance(relations, list) else ())
        if isinstance(each, dict)
    ]
    for kind in ("references", *SUCCESSION_KINDS):
        values = given.get(kind)
        pairs += [(kind, value) for value in (values if isinstance(values, list) else [values])]
    turn = given.get("turn_ref")
    pairs.append(("turn", f"TURN-{turn:04d}" if isinstance(turn, int) and not isinstance(turn, bool) else turn))
    return {
        (str(kind), target if "/" in target else f"{record.session}/{target}")
        for kind, target in pairs
        if isinstance(target, str)
    }


def boxes(incoming: int, outgoing: int) -> tuple[Box, list[Box], list[Box]]:
    """The box of the memory in the middle, and those of so many neighbours on the left and on the right."""
    rows = max(incoming, outgoing, 1)
    height = rows * _ROW
    width, tall = _BOX
    middle = _MARGIN + width + _LANE + _GAP
    arrows = max(tall, _ARROW_ROW * (rows + 1))  # each arrow has its own place at the box in the middle
    center = Box(middle, _MARGIN + (height - arrows) / 2, width, arrows)

    def column(x: float, count: int) -> list[Box]:
        top = _MARGIN + (height - count * _ROW) / 2 + (_ROW - tall) / 2
        return [Box(x, top + place * _ROW, width, tall) for place in range(count)]

    return center, column(_MARGIN, incoming), column(middle + width + _GAP + _LANE, outgoing)


def relation_graph(
    center: Record, related: Iterable[Related | Neighbour], href: Callable[[str], str], *, most: int = MAX_NEIGHBOURS
) -> str:
    """The graph of a memory; `related` as `find_related` returns it, `href` gives the address of `session/ID`."""
    given = list(related)
    known = [each for each in given if isinstance(each, Neighbour)]
    found = known + neighbours(center, (each for each in given if not isinstance(each, Neighbour)))
    shown = _balanced(found, most)
    incoming = [each for each in shown if not each.is_outgoing]
    outgoing = [each for each in shown if each.is_outgoing]
    middle, left, right = boxes(len(incoming), len(outgoing))
    parts: list[str] = []
    for places, those, is_left in ((left, incoming, True), (right, outgoing, False)):
        for row, (box, each) in enumerate(zip(places, those, strict=True)):
            parts.append(_edge(middle, box, each, (row + 1) / (len(those) + 1), is_left=is_left))
            parts.append(svg.link(href(each.ref), f"{each.kind}: {each.name}", _node(box, each.name, each.text)))
    parts.append(_node(middle, center.id, center.text, is_center=True))
    height = 2 * _MARGIN + max(len(incoming), len(outgoing), 1) * _ROW
    more = len(found) - len(shown)
    if more:
        parts.append(svg.label(WIDTH / 2, height + 6, f"and {more:,} more", anchor="middle"))
        height += 14
    return svg.chart(WIDTH, height, _title(center, incoming, outgoing, more), parts, "relation-graph", has_links=True)


def _balanced(found: list[Neighbour], most: int) -> list[Neighbour]:
    """The first neighbours of both directions, so that many of one do not hide the other."""
    incoming = [each for each in found if not each.is_outgoing]
    outgoing = [each for each in found if each.is_outgoing]
    take_in = min(len(incoming), max(most // 2, most - len(outgoing)))
    return incoming[:take_in] + outgoing[: most - take_in]


def _title(center: Record, incoming: list[Neighbour], outgoing: list[Neighbour], more: int) -> str:
    said = [f"{each.name} {each.kind} it" for each in incoming] + [f"it {each.kind} {each.name}" for each in outgoing]
    if not said:
        return f"{center.id} has no relations"
    return f"Relations of {center.id}: {'; '.join(said)}{f'; and {more} more' if more else ''}"


def _node(box: Box, name: str, text: str, *, is_center: bool = False) -> str:
    stroke = svg.ACCENT if is_center else svg.LINE
    where = (
        f'x="{svg.number(box.x)}" y="{svg.number(box.y)}" width="{svg.number(box.width)}" '
        f'height="{svg.number(box.height)}" rx="8"'
    )
    fill = f'fill="{svg.ACCENT}" fill-opacity="0.1"' if is_center else f'fill="{svg.SURFACE}"'
    room, top = box.width - 24, box.y + (box.height - _BOX[1]) / 2
    name_color = svg.TEXT if is_center else svg.ACCENT
    return (
        f'<rect {where} {fill} stroke="{stroke}" stroke-width="{"2" if is_center else "1"}"/>'
        + svg.label(box.x + 12, top + 17, svg.shortened(name, room, 12), size=12, fill=name_color)
        + svg.label(box.x + 12, top + 32, svg.shortened(text, room, 11))
    )


def _edge(middle: Box, box: Box, each: Neighbour, share: float, *, is_left: bool) -> str:
    """A curve from the middle to the lane of a neighbour, straight under its label; the arrow points at what is pointed to."""
    near = (middle.x if is_left else middle.x + middle.width, middle.y + middle.height * share)
    side = -1 if is_left else 1
    far = (box.x + box.width if is_left else box.x, box.y + box.height / 2)
    bend = (near[0] + side * _GAP, far[1])
    control = (near[0] + bend[0]) / 2
    start = near[0] + (side * _ARROW if not each.is_outgoing else 0)
    end = far[0] - (side * _ARROW if each.is_outgoing else 0)
    curve = (
        f"M{svg.number(start)} {svg.number(near[1])}C{svg.number(control)} {svg.number(near[1])} "
        f"{svg.number(control)} {svg.number(bend[1])} {svg.number(bend[0])} {svg.number(bend[1])}H{svg.number(end)}"
    )
    arrow = _arrow(*(far if each.is_outgoing else near), side if each.is_outgoing else -side)
    text = svg.shortened(each.kind.replace("_", " "), _LANE - 14, 11)
    words = svg.label((bend[0] + far[0]) / 2, far[1] - 6, text, anchor="middle")
    return f'<path d="{curve}" fill="none" stroke="{svg.MUTED}" stroke-width="1.5"/>{arrow}{words}'


_ARROW = 7.0


def _arrow(x: float, y: float, direction: int) -> str:
    back = x - direction * _ARROW
    points = (
        f"{svg.number(x)},{svg.number(y)} {svg.number(back)},{svg.number(y - 4)} {svg.number(back)},{svg.number(y + 4)}"
    )
    return f'<polygon points="{points}" fill="{svg.MUTED}"/>'
