"""Renders what a terminal showed as an SVG, line by line, in the colours of the reader's theme.

Each command appears after the one before it; without animation (PyPI, `prefers-reduced-motion`) everything is visible at once.
Only colour and weight (SGR) are interpreted; every other control sequence is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

COLUMN, LINE, MARGIN, HEADER = 8.4, 20, 16, 34
SECONDS_PER_STEP = 1.6
_SGR = re.compile(r"\x1b\[([\d;]*)m")
_OTHER_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1a]")
_PROGRESS = re.compile(r"\r[^\r\n]*?\x1b\[K")  # shown for a moment only
_COLOURS = {1: "red", 2: "green", 3: "yellow", 4: "blue", 5: "magenta", 6: "cyan"}

STYLE = """
  svg { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
  .back { fill: #ffffff; stroke: #d0d7de; } .bar { fill: #f6f8fa; } .dot { fill: #d0d7de; }
  text { fill: #1f2328; white-space: pre; } .bold { font-weight: 600; } .dim { fill: #656d76; } .prompt { fill: #1a7f37; }
  .red { fill: #cf222e; } .green { fill: #1a7f37; } .yellow { fill: #7d4e00; } .blue { fill: #0969da; }
  .magenta { fill: #8250df; } .cyan { fill: #1b7c83; }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117; stroke: #30363d; } .bar { fill: #161b22; } .dot { fill: #30363d; }
    text { fill: #e6edf3; } .dim { fill: #8d96a0; } .prompt { fill: #3fb950; }
    .red { fill: #ff7b72; } .green { fill: #3fb950; } .yellow { fill: #d29922; } .blue { fill: #58a6ff; }
    .magenta { fill: #d2a8ff; } .cyan { fill: #39c5cf; }
  }
  @keyframes appear { from { opacity: 0; } }
  .step { animation: appear 0.3s backwards; }
  @media (prefers-reduced-motion: reduce) { .step { animation: none; } }
"""


class Step(NamedTuple):
    command: str
    output: str  # with control sequences


class Run(NamedTuple):
    """Characters of one line in one style."""

    column: int
    text: str
    classes: str


def render(steps: list[Step], title: str, columns: int = 100) -> str:
    """The whole session as one picture."""
    groups, row = [], 0
    for number, step in enumerate(steps):
        command = [Run(0, "$ ", "prompt"), Run(2, step.command, "bold")]
        lines = [part for line in [command, *runs_of(step.output)] for part in wrapped(line, columns)]
        drawn = "\n".join(_line(line, row + index) for index, line in enumerate(lines) if line)
        groups.append(f'<g class="step" style="animation-delay: {number * SECONDS_PER_STEP:.1f}s">\n{drawn}\n</g>')
        row += len(lines) + 1
    width, height = round(columns * COLUMN + 2 * MARGIN), HEADER + MARGIN + row * LINE
    dots = "".join(f'<circle class="dot" cx="{20 + 18 * each}" cy="17" r="5"/>' for each in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f'<path class="bar" d="M1 {HEADER}V9a8 8 0 0 1 8-8H{width - 9}a8 8 0 0 1 8 8V{HEADER}z"/>{dots}\n'
        + "\n".join(groups)
        + "\n</svg>\n"
    )


def _line(runs: list[Run], row: int) -> str:
    y = HEADER + MARGIN + row * LINE + 6
    return f'<text y="{y}">{"".join(map(_span, runs))}</text>'


def _span(run: Run) -> str:
    style = f' class="{run.classes}"' if run.classes else ""
    return f'<tspan x="{MARGIN + run.column * COLUMN:.1f}"{style}>{escape(run.text)}</tspan>'


def runs_of(output: str) -> Iterator[list[Run]]:
    """The lines of an output, each in pieces of one style; empty lines at the end are left out."""
    text = _OTHER_CONTROL.sub("", _PROGRESS.sub("", output).replace("\r\n", "\n")).rstrip()
    classes: dict[str, str] = {}
    for line in text.split("\n") if text else []:
        runs, column, place = [], 0, 0
        for found in [*_SGR.finditer(line), None]:
            piece = line[place : found.start() if found else len(line)]
            if piece.strip():
                runs.append(Run(column, piece, " ".join(classes.values())))
            column += len(piece)
            if found:
                _apply(found[1], classes)
                place = found.end()
        yield runs


def wrapped(runs: list[Run], columns: int) -> list[list[Run]]:
    """A line that is wider than the terminal goes on in the next row."""
    rows: list[list[Run]] = [[]]
    for run in runs:
        text, column = run.text, run.column
        while text:
            row, place = divmod(column, columns)
            rows += [[] for _ in range(row + 1 - len(rows))]
            part, text = text[: columns - place], text[columns - place :]
            rows[row].append(Run(place, part, run.classes))
            column += len(part)
    return rows


def _apply(codes: str, classes: dict[str, str]) -> None:
    for code in map(int, filter(None, (codes or "0").split(";"))):
        if code == 0:
            classes.clear()
        elif code in (1, 2):
            classes["weight"] = "bold" if code == 1 else "dim"
        elif code == 22:
            classes.pop("weight", None)
        elif code == 39:
            classes.pop("colour", None)
        elif code % 10 in _COLOURS and code // 10 in (3, 9):
            classes["colour"] = _COLOURS[code % 10]
