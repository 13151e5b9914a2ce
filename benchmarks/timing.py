"""Measurement of time: the sides that are compared run in small alternating rounds, because machines are noisy.

A ratio is the median of the rounds' own ratios: what slows the machine for a second slows both sides of that round.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MICROSECONDS, MILLISECONDS, SECONDS = ("µs", 1e6), ("ms", 1e3), ("s", 1.0)


@dataclass
class Target:
    """What the issue asks for: a limit on the ratio or on the measured value itself."""

    of: str  # "ratio" or "value"
    at_most: float | None = None
    at_least: float | None = None

    def met(self, row: Row) -> bool:
        number = row.ratio if self.of == "ratio" else row.value
        if number is None:
            return False
        return (self.at_most is None or number <= self.at_most) and (self.at_least is None or number >= self.at_least)

    def __str__(self) -> str:
        sign, limit = ("≤", self.at_most) if self.at_most is not None else ("≥", self.at_least)
        return f"{sign} {limit:,g}{' ×' if self.of == 'ratio' else ''}"


@dataclass
class Row:
    """One line of the report."""

    figure: str
    case: str
    unit: str
    value: float
    raw: float | None = None  # what stands on the other side of the ratio
    ratio: float | None = None
    target: Target | None = None
    details: dict[str, Any] = field(default_factory=dict)
    group: str = ""  # the section of the report

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.target.met(self)


class Sides:
    """What each side took, round by round: a list of seconds per round."""

    def __init__(self) -> None:
        self.rounds: dict[str, list[list[float]]] = {}

    def all(self, side: str) -> list[float]:
        return sorted(second for each in self.rounds[side] for second in each)

    def at(self, side: str, share: float) -> float:
        return quantile(self.all(side), share)

    def ratio(self, side: str, other: str, of: Callable[[list[float]], float] = median) -> float:
        """The median over the rounds of `of(side) / of(other)`."""
        pairs = zip(self.rounds[side], self.rounds[other], strict=True)
        return median(of(mine) / of(others) for mine, others in pairs)

    def details(self, side: str, unit: tuple[str, float]) -> dict[str, float]:
        seconds, (name, factor) = self.all(side), unit
        return {f"{label} {name}": quantile(seconds, share) * factor for label, share in SHARES}


SHARES = (("p50", 0.5), ("p95", 0.95), ("max", 1.0))


def quantile(numbers: list[float], share: float) -> float:
    """Of sorted numbers; no interpolation, so that it is one that really happened."""
    return numbers[min(int(share * len(numbers)), len(numbers) - 1)]


def alternate(sides: dict[str, Callable[[], list[float]]], rounds: int) -> Sides:
    """Run the sides in turn; every round begins with another one. A first round that does not count warms up."""
    names = list(sides)
    found = Sides()
    found.rounds = {name: [] for name in names}
    for number in range(-1, rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            seconds = sides[name]()
            if number >= 0:
                found.rounds[name].append(seconds)
    return found


def each(work: Callable[[Any], Any], items: Iterable[Any]) -> list[float]:
    """The seconds that each item took."""
    clock = time.perf_counter
    seconds = []
    for item in items:
        start = clock()
        work(item)
        seconds.append(clock() - start)
    return seconds


def whole(work: Callable[[], Any]) -> list[float]:
    start = time.perf_counter()
    work()
    return [time.perf_counter() - start]


def progress(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)
