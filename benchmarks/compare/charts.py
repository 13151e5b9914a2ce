"""Charts of the comparison, drawn by matplotlib in an environment of its own: `python charts.py RESULTS WRITES.svg QUERIES.svg`.

The background is transparent and all colours have a middle lightness, so that they can be read on light and dark pages.
"""

from __future__ import annotations

import json
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_INK = "#7d8590"
_COLOURS = (
    "#d9730d",
    "#2da44e",
    "#a475f9",
    "#e5534b",
    "#b08800",
    "#1b9aaa",
    "#d6569f",
    "#6e7f2f",
    "#8d6e63",
    "#9aa51b",
    "#f2a65a",
)
_SMP = {"SMP jsonl": "-", "SMP jsonl, words alone": "--"}
_NO_SEARCH = {"filter", "last items", ""}
_MARKS = "osv^D<>pPX"


def points(peer: dict[str, Any], what: str) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    if what == "queries" and peer.get("search", "") in _NO_SEARCH:
        return found
    for each in peer["steps"].get("sizes") or []:
        value = (
            each.get("write", {}).get("ratio")
            if what == "writes"
            else each.get("query", {}).get("five words", {}).get("p50")
        )
        if value:
            found.append((each["size"], value))
    return found


def look(name: str, limits: list[str], others: list[str]) -> dict[str, Any]:
    """SMP is thick and blue, limits are grey and dotted."""
    if name in _SMP:
        return {"color": "#2f81f7", "linestyle": _SMP[name], "linewidth": 3, "marker": "o", "zorder": 5}
    thin = {"linewidth": 1.4, "markersize": 5}
    if name in limits:
        return {**thin, "color": _INK, "linestyle": ":", "marker": _MARKS[limits.index(name)]}
    place = others.index(name)
    return {**thin, "color": _COLOURS[place % len(_COLOURS)], "marker": _MARKS[place % len(_MARKS)]}


def draw(peers: dict[str, Any], what: str, title: str, path: str) -> None:
    figure, axes = pyplot.subplots(figsize=(7.2, 5.4))
    others = [name for name in peers if not name.startswith(("SMP", "limit"))]
    limits = [name for name in peers if name.startswith("limit")]
    own = _SMP if what == "queries" else list(_SMP)[:1]
    shown = [*(name for name in own if name in peers), *limits, *others]
    for name in shown:
        line = points(peers[name], what)
        if line:
            axes.plot(*zip(*line, strict=True), label=name, **look(name, limits, others))
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="memories in the store",
        ylabel="times a raw append" if what == "writes" else "ms, p50",
    )
    axes.set_title(title, color=_INK, fontsize=11, loc="left")
    axes.tick_params(colors=_INK, which="both")
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    axes.grid(color=_INK, alpha=0.25, linewidth=0.6)
    for side in axes.spines.values():
        side.set_color(_INK)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.14), ncol=2, frameon=False, fontsize=9, labelcolor=_INK)
    figure.savefig(
        path,
        transparent=True,
        bbox_inches="tight",
        metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")) if path.endswith("svg") else None,
    )


def main(words: list[str]) -> None:
    with open(words[0], encoding="utf-8") as file:
        peers = json.load(file)
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "smp", "font.family": "sans-serif"})
    draw(peers, "writes", "One write, against a raw append and sync", words[1])
    draw(peers, "queries", "A search with five words, the best ten", words[2])


if __name__ == "__main__":
    main(sys.argv[1:])
