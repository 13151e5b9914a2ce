"""A memory and its direct relations as an SVG graph that can be walked: each neighbour is a link. Pure.

Layout: the memory in the middle, those that point to it on the left, those that it points to on the right, one row for each, so
that no two boxes and no two labels overlap, whatever the names are. The order is by kind and name: the same memories give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from smp_memory.analytics import svg
from smp_memory.model.record import Record
from smp_memory.model.succession import SUCCESSION_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.model.hits import Related

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

    def overlaps(self, other: Box) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


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
