"""Measure recall precision: whether the right memory is in the prompt, and nothing else.

    python benchmarks/recall.py [--set projects] [--semantic off] [--projects 12] [--first 60] [--json FILE] [--markdown FILE]

Sets: `projects` (generated, see recall_projects.py), `locomo` and `longmemeval` (development data, see recall_sets.py; skipped
with a message where they are absent). Measured with and without the embedding model, if it is installed:

    hook       false injection: share of prompts that need no memory and get one; miss: share of those that need one and do not get
               it; precision: share of injected memories that answer; tokens; abstention
    query      any@1/5/10, all@10, mrr
    context    share of prompts whose gold memory is in `context(task=…)`, beside the search's first hits of the same size
    digest     how often the digest at the start of a session holds what that session asks for
    superseded, names, and a curve: the same three figures for each floor of relevance
    size       with --sizes 1000,10000,100000: query and hook among so much noise

The held-out part of the projects is for checking, not for choosing weights: it needs --held-out, and the output says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

import quality_chart
import recall_measures as measures
import recall_sets
import retrieval
from recall_projects import DEVELOPMENT, HELD_OUT

import smp_memory
from smp_memory.index import embeddings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from recall_sets import LabelledStore

SETS = ("projects", "locomo", "longmemeval")
_QUICK_PROJECTS, _QUICK_FLOORS, _QUICK_BUDGETS = 2, (0.2, 0.5), (800,)
_SIZE_PROJECTS = 3
_CONFIG = {
    "durability": "os",
    "storage": {"max_session_size_mb": 250},
    "hooks": {"record": False},
}


def measure(stores: Iterable[LabelledStore], semantic: str, budgets: Iterable[int], floors: Iterable[float]) -> Any:
    """All figures of a set of stores, over all their cases."""
    answers: list[measures.Answer] = []
    digests: list[measures.Digest] = []
    start = time.perf_counter()
    for store in stores:
        found, digest = ask(store, semantic, budgets)
        answers += found
        digests += [digest] if digest is not None else []
        print(f"  {store.name}: {len(found)} prompts, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return {
        "prompts": {"": {"stores": len(digests) or None, "prompts": len(answers)}},
        "hook": {"": measures.hook_figures(answers)},
        "hook by kind": measures.hook_by_kind(answers),
        "query": {"all": measures.query_figures(answers), **measures.query_by_kind(answers)},
        "superseded": {"": measures.supersession(answers)},
        "names": {"": measures.names(answers)},
        "context": measures.contexts(answers),
        "digest": {"": measures.digests(digests)},
        "floor": measures.curve(answers, floors),
    }


def ask(store: LabelledStore, semantic: str, budgets: Iterable[int]) -> tuple[list[measures.Answer], Any]:
    """Write a store to a temporary folder and ask all its cases."""
    budgets = tuple(budgets)
    with tempfile.TemporaryDirectory(prefix="smp-recall-") as folder:
        config = {**_CONFIG, "search": {"semantic": semantic}}
        with smp_memory.open(folder, config=config) as memory:
            _keep_config(folder, config)
            cases = store.write(memory)
            memory.reindex()  # a query alone makes the vectors of some memories only
            memory.query("what is all this about", limit=1, track_access=False)  # index and model are loaded now
            asker = measures.Asker(memory, folder, budgets)
            digest = asker.digest(cases) if budgets else None
            return [asker.answer(case) for case in cases], digest


def _keep_config(folder: str, config: dict[str, Any]) -> None:
    """Write the settings into the store: the hook reads them there."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8-sig") as file:
        stored = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**stored, **config}, file)


def measure_sizes(part: str, sizes: Iterable[int], semantic: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for size in sizes:
        answers: list[measures.Answer] = []
        start = time.perf_counter()
        for store in recall_sets.generated(part, _SIZE_PROJECTS, size):
            answers += ask(store, semantic, ())[0]
        print(f"  {size:,} memories of noise, {time.perf_counter() - start:.0f} s", file=sys.stderr)
        query = measures.query_figures(answers)
        hook = measures.hook_figures(answers)
        found[f"{size:,}"] = {
            **{name: query[name] for name in ("any@1", "any@5", "any@10", "mrr")},
            **{name: hook[name] for name in ("false injection", "miss", "precision")},
        }
    return found


# --- The report ----------------------------------------------------------------------------------------------------


def report(figures: dict[str, Any], markdown: bool) -> Iterator[str]:
    """Tables of everything that was measured: {set: {way: {table: {row: {column: figure}}}}}."""
    for title, tables in figures.items():
        yield f"{'## ' if markdown else ''}{title}"
        yield ""
        for name, rows in tables.items():
            if rows:
                yield from (_markdown_table if markdown else _text_table)(name, rows)
                yield ""


def _cells(name: str, rows: dict[str, dict[str, Any]]) -> list[list[str]]:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    if list(rows) == [""]:  # one row of many columns reads better upright
        return [[name, ""], *([column, _shown(rows[""][column])] for column in columns)]
    return [[name, *columns], *([row, *(_shown(cells.get(column)) for column in columns)] for row, cells in rows.items())]  # fmt: skip


def _shown(figure: Any) -> str:
    if figure is None:
        return "–"
    return f"{figure:.3f}" if isinstance(figure, float) and abs(figure) < 10 else f"{figure:,.0f}"


def _text_table(name: str, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    cells = _cells(name, rows)
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
    for row in cells:
        yield "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])  # fmt: skip


def _markdown_table(name: str, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    head, *others = _cells(name, rows)
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in others:
        yield f"| {' | '.join(row)} |"


def curve_chart(figures: dict[str, Any]) -> str:
    """False injection, miss and precision of the generated projects for each floor of relevance, as SVG."""
    lines: dict[tuple[str, str], dict[float, float]] = {}
    for title, tables in figures.items():
        way = "meaning" if title.endswith("words and meaning") else "words"
        for floor, row in tables.get("floor", {}).items() if " projects, by" in title else ():
            for name in ("false injection", "miss", "precision"):
                if row.get(name) is not None:
                    lines.setdefault((name, way), {})[float(floor)] = row[name]
    return quality_chart.chart("What a floor of relevance gives", lines, quality_chart.FLOOR)


# --- The command ---------------------------------------------------------------------------------------------------


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, action="append", help="one set; may be repeated (default: all)")
    parser.add_argument("--data", metavar="FOLDER", help="where the data are (default: SMP_BENCH_DATA)")
    parser.add_argument(
        "--semantic", default="both", choices=("both", "auto", "minilm", "off"), help="off: words alone"
    )
    parser.add_argument("--projects", type=int, metavar="N", help="only the first N generated projects")
    parser.add_argument("--first", type=int, metavar="N", help="only N questions of each conversation")
    parser.add_argument("--budgets", default=",".join(map(str, measures.BUDGETS)), help="of the context; empty: none")
    parser.add_argument("--sizes", default="", help="store sizes for the curve, such as 1000,10000,100000,1000000")
    parser.add_argument("--held-out", action="store_true", help="the held-out projects instead of the development ones")
    parser.add_argument("--quick", action="store_true", help="two projects and no development data, in seconds")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as JSON")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables there as Markdown")
    parser.add_argument("--chart", metavar="FILE", help="write the curve of the projects there as SVG")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    given = arguments(words)
    with tempfile.TemporaryDirectory(prefix="smp-recall-state-") as state:
        before = os.environ.get("SMP_STATE_DIR")
        os.environ["SMP_STATE_DIR"] = state  # nothing is left in the user's state
        try:
            figures = collect(given)
        finally:
            os.environ.pop("SMP_STATE_DIR")
            if before is not None:
                os.environ["SMP_STATE_DIR"] = before
    print("\n".join(report(figures, markdown=False)))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    if given.markdown:
        with open(given.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(["# Recall precision", "", *report(figures, markdown=True)]).rstrip() + "\n")
    if given.chart:
        with open(given.chart, "w", encoding="utf-8") as file:
            file.write(curve_chart(figures))
    return 0


def collect(given: argparse.Namespace) -> dict[str, Any]:
    """Measure everything that was asked for, by set and way of searching."""
    part = HELD_OUT if given.held_out else DEVELOPMENT
    if given.held_out:
        print("HELD-OUT projects: do not choose weights by these figures.", file=sys.stderr)
    ways = ["off", "auto"] if given.semantic == "both" else [given.semantic]
    if not embeddings.available():
        ways = ["off"]
    budgets = _QUICK_BUDGETS if given.quick else tuple(int(each) for each in given.budgets.split(",") if each)
    floors = _QUICK_FLOORS if given.quick else measures.FLOORS
    figures: dict[str, Any] = {}
    for semantic in ways:
        by = "words alone" if semantic == "off" else "words and meaning"
        for title, stores in _chosen_sets(given, part):
            figures[f"{title}, by {by}"] = measure(stores, semantic, budgets, floors)
        sizes = [int(each) for each in given.sizes.split(",") if each]
        if sizes:
            figures[f"{part} projects among noise, by {by}"] = {"size": measure_sizes(part, sizes, semantic)}
    return figures


def _chosen_sets(given: argparse.Namespace, part: str) -> Iterator[tuple[str, Iterable[LabelledStore]]]:
    chosen = given.set or (SETS[:1] if given.quick else SETS)
    if "projects" in chosen:
        most = given.projects or (_QUICK_PROJECTS if given.quick else None)
        yield f"{part} projects", recall_sets.generated(part, most)
    folder = retrieval.data_folder(given.data)
    for name in SETS[1:]:
        if name not in chosen:
            continue
        if folder is None:
            print(f"{name} is not measured: no data. Name their folder by --data or SMP_BENCH_DATA.", file=sys.stderr)
        else:
            yield name, getattr(recall_sets, name)(folder, given.first)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
