"""Fit the coefficients of the relevance model (`smp_memory.search.relevance`) on the development projects, and check them.

    python benchmarks/relevance_fit.py [--projects N] [--semantic off]

The first hits of every prompt are labelled: 1 if the memory answers, 0 if not; stale and neutral memories are left out. Coefficients come from
a logistic regression. One domain is left out at a time, its prompts are judged by the coefficients of the others, and the output
gives false injection, miss and precision for several floors, and how many memories of each relevance answered. The held-out part
is never read. The output has the constants for the module.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from dataclasses import dataclass

import recall_measures as measures
import recall_sets
from recall_projects import DEVELOPMENT

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recall_sets import Case, LabelledStore

_HITS = 20
_MOST_INJECTED = 8
_PENALTY = 1.0  # of large coefficients
_STEPS = 12
_FLOORS = tuple(round(0.3 + 0.05 * step, 2) for step in range(14))


@dataclass
class Sample:
    """One hit of a prompt."""

    case: int
    ref: str
    features: list[float]  # a 1 for the bias, then the model's features
    label: int | None


@dataclass
class Prompts:
    """The prompts of one store with their samples."""

    domain: str
    cases: list[Case]
    samples: list[Sample]


def collect(store: LabelledStore, semantic: str) -> tuple[Prompts, list[str]]:
    samples: list[Sample] = []
    names: list[str] = []
    with tempfile.TemporaryDirectory(prefix="smp-relevance-") as folder:
        config = {"durability": "os", "search.semantic": semantic}
        with smp_memory.open(os.path.join(folder, "store"), config=config) as memory:
            cases = store.write(memory)
            for place, case in enumerate(cases):
                for hit in memory.query(case.text, limit=_HITS, at=case.at, track_access=False):
                    features = hit.explain.get("relevance", {})
                    names = list(features) or names
                    samples.append(
                        Sample(place, hit.record.ref, [1.0, *features.values()], _label(case, hit.record.ref))
                    )
    return Prompts(store.name.split("-")[0], cases, samples), names


def _label(case: Case, ref: str) -> int | None:
    if ref in case.gold:
        return 1
    return None if ref in case.neutral or ref in case.stale else 0


# --- Logistic regression -------------------------------------------------------------------------------------------


def fit(samples: list[Sample]) -> list[float]:
    """Coefficients by Newton's method, with a penalty on their squares."""
    rows = [(each.features, each.label) for each in samples if each.label is not None]
    size = len(rows[0][0])
    found = [0.0] * size
    for _ in range(_STEPS):
        gradient = [-_PENALTY * value if place else 0.0 for place, value in enumerate(found)]
        curvature = [
            [_PENALTY if row == column and row else 0.0 for column in range(size)] for row in range(size)
        ]  # the bias is not penalised
        for features, label in rows:
            expected = probability(found, features)
            spread = expected * (1 - expected)
            for row, value in enumerate(features):
                if value:
                    gradient[row] += value * (label - expected)
                    weight = value * spread
                    line = curvature[row]
                    for column, other in enumerate(features):
                        line[column] += weight * other
        found = [value + step for value, step in zip(found, _solve(curvature, gradient), strict=True)]
    return found


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a linear system by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in range(size):
            if row != at and rows[row][at]:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
    return [rows[at][size] / rows[at][at] for at in range(size)]


def probability(coefficients: list[float], features: list[float]) -> float:
    total = sum(a * b for a, b in zip(coefficients, features, strict=True))
    return 1 / (1 + math.exp(-max(min(total, 30.0), -30.0)))


# --- Checking ------------------------------------------------------------------------------------------------------


def judged(stores: list[Prompts]) -> list[tuple[Prompts, list[float]]]:
    """Each store with the probabilities of its samples, by coefficients fitted without its domain."""
    found = []
    for domain in dict.fromkeys(store.domain for store in stores):
        others = [sample for store in stores if store.domain != domain for sample in store.samples]
        coefficients = fit(others)
        for store in stores:
            if store.domain == domain:
                found.append((store, [probability(coefficients, each.features) for each in store.samples]))
    return found


def figures(found: list[tuple[Prompts, list[float]]], floor: float) -> dict[str, float | None]:
    answers = []
    for store, relevances in found:
        injected: dict[int, list[tuple[float, str]]] = {}
        for sample, relevance in zip(store.samples, relevances, strict=True):
            if relevance >= floor and sample.ref not in store.cases[sample.case].stale:
                injected.setdefault(sample.case, []).append((relevance, sample.ref))
        for place, case in enumerate(store.cases):
            refs = [ref for _, ref in sorted(injected.get(place, []), reverse=True)[:_MOST_INJECTED]]
            answers.append(measures.Answer(case, refs, 0, []))
    return measures.injection(answers, lambda answer: answer.injected)


def calibration(found: list[tuple[Prompts, list[float]]]) -> list[tuple[float, int, float]]:
    """For each tenth of relevance: how many memories, and the share of them that answered."""
    tenths: dict[int, list[int]] = {}
    for store, relevances in found:
        for sample, relevance in zip(store.samples, relevances, strict=True):
            if sample.label is not None:
                tenths.setdefault(min(int(relevance * 10), 9), []).append(sample.label)
    return [(tenth / 10, len(labels), sum(labels) / len(labels)) for tenth, labels in sorted(tenths.items())]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--projects", type=int, metavar="N", help="only the first N projects")
    parser.add_argument("--semantic", default="off", choices=("auto", "minilm", "off"), help="off: words alone")
    given = parser.parse_args(words)
    stores, names = [], []
    with tempfile.TemporaryDirectory(prefix="smp-relevance-state-") as state:
        os.environ["SMP_STATE_DIR"] = state  # nothing is left in the user's state
        for store in recall_sets.generated(DEVELOPMENT, given.projects):
            prompts, found = collect(store, given.semantic)
            names = found or names
            stores.append(prompts)
            print(f"  {store.name}", file=sys.stderr)
    checked = judged(stores)
    print("floor  false   miss  words  precision")
    for floor in _FLOORS:
        row = figures(checked, floor)
        values = (row[name] or 0.0 for name in ("false injection", "miss", "miss, names or words shared", "precision"))
        print(f"{floor:5.2f}" + "".join(f"{value:7.3f}" for value in values))
    print("relevance from, memories, share that answers")
    for start, count, answering in calibration(checked):
        print(f"{start:5.1f}{count:8,}{answering:7.3f}")
    bias, *others = fit([sample for store in stores for sample in store.samples])
    print(f"BIAS = {bias:.3f}")
    print("COEFFICIENTS = {")
    for name, value in zip(names, others, strict=True):
        print(f'    "{name}": {value:.3f},')
    print("}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
