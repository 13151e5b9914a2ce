"""Fit the coefficients of the relevance (`smp_memory.search.relevance`) on the development stores, and check them.

    python benchmarks/relevance_fit.py

`ANSWERS` is fitted on the first hits of every prompt: 1 if the memory answers, 0 if not. Hits of prompts that need no memory count in full, wrong
hits of other prompts less: for an agent a memory about the same subject does no harm, an unrelated one does. `near` prompts and stale facts are
left out. `ABOUT` is fitted on prompts: 1 if they need a memory of this project, 0 if they have nothing to do with it.

One store is left out at a time, and its prompts are judged by the coefficients of the others: the output says for several floors how many
prompts of each kind reach them. The held-out part is never read. The output has the constants for the module.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from dataclasses import dataclass

import recall_stores as stores

from smp_memory.search.relevance import ABOUT, ANSWERS

_HITS = 30
_PENALTY = 0.5  # of large coefficients
_STEPS = 15
_WRONG_OF_NEEDED = 0.3  # the weight of a wrong hit of a prompt that needs another memory
_RIGHT = 2.0  # the weight of the hits that answer one prompt, together more than one
_UNRELATED = ("general", "smalltalk")
_SHARES = (0.02, 0.05)  # of unrelated prompts above a floor
_STEEPNESS = 3.0  # multiplies `ANSWERS`: with a flat curve weak matches come near to strong ones at a floor
_PRIOR = -2.0  # added to the bias of `ABOUT`: in the stores most prompts need a memory, in ordinary work few do


@dataclass
class Sample:
    """A hit of a prompt, or a prompt."""

    store: str
    kind: str
    features: list[float]  # a 1 for the bias, then the model's features
    label: int
    weight: float = 1.0
    estimate: float = 0.0


def collect(store: stores.LabelledStore) -> tuple[list[list[Sample]], list[Sample]]:
    """The hits of each prompt, and the prompts."""
    hits: list[list[Sample]] = []
    prompts: list[Sample] = []
    config = {"durability": "os", "hooks": {"record": False}}
    with tempfile.TemporaryDirectory(prefix="smp-relevance-") as folder:
        written = stores.write(store, os.path.join(folder, "store"), config)
        with written.memory as memory:
            stale = written.stale_refs()
            for prompt in store.prompts:
                right = written.refs(prompt.keys) - stale
                found = memory.query(prompt.text, limit=_HITS, track_access=False)
                rows = [(hit.record.ref, hit.explain.get("relevance")) for hit in found if not hit.superseded_by]
                usable = [(ref, row) for ref, row in rows if row and (ref in right or ref not in stale)]
                if usable:
                    hits.append(_samples(store.name, prompt.kind, usable, right))
                    about = [1.0, *(usable[0][1][name] for name in ABOUT if name != "bias")]
                    prompts.append(Sample(store.name, prompt.kind, about, int(prompt.kind in stores.NEEDS)))
    return hits, prompts


def _samples(store: str, kind: str, rows: list[tuple[str, dict[str, float]]], right: set[str]) -> list[Sample]:
    answering = sum(ref in right for ref, _ in rows) or 1
    wrong = 1.0 if kind in _UNRELATED else _WRONG_OF_NEEDED if kind in stores.NEEDS else 0.0
    return [
        Sample(
            store,
            kind,
            [1.0, *(row[name] for name in ANSWERS if name != "bias")],
            int(ref in right),
            _RIGHT / math.sqrt(answering) if ref in right else wrong,
        )
        for ref, row in rows
    ]


# --- Logistic regression -------------------------------------------------------------------------------------------


def fit(samples: list[Sample]) -> list[float]:
    """Coefficients by Newton's method, with a penalty on their squares."""
    rows = [each for each in samples if each.weight]
    size = len(rows[0].features)
    found = [0.0] * size
    for _ in range(_STEPS):
        gradient = [-_PENALTY * value if place else 0.0 for place, value in enumerate(found)]
        curvature = [[_PENALTY if row == column and row else 0.0 for column in range(size)] for row in range(size)]
        for each in rows:
            expected = probability(found, each.features)
            spread = each.weight * expected * (1 - expected)
            for row, value in enumerate(each.features):
                if value:
                    gradient[row] += each.weight * value * (each.label - expected)
                    for column, other in enumerate(each.features):
                        curvature[row][column] += value * spread * other
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


def estimate_left_out(samples: list[Sample]) -> None:
    """Set the estimate of each sample, by coefficients fitted without its store."""
    for name in dict.fromkeys(each.store for each in samples):
        coefficients = fit([each for each in samples if each.store != name])
        for each in samples:
            if each.store == name:
                each.estimate = probability(coefficients, each.features)


def report(title: str, best: list[tuple[str, float]]) -> None:
    """For the floors that some unrelated prompts reach: how many prompts of each kind do, given kind and best estimate."""
    unrelated = sorted((value for kind, value in best if kind in _UNRELATED), reverse=True)
    for share in _SHARES:
        floor = unrelated[int(share * len(unrelated))]
        shares = []
        for kind in stores.KINDS:
            values = [value for each, value in best if each == kind]
            if values:
                shares.append(f"{kind} {sum(value > floor for value in values) / len(values):.2f}")
        print(f"{title}: floor {floor:.2f} ({share:.0%} of unrelated prompts): {', '.join(shares)}")


def show(name: str, constants: dict[str, float], coefficients: list[float]) -> None:
    rounded = {key: round(value, 2) for key, value in zip(constants, coefficients, strict=True)}
    print(f"{name} = {rounded}")


def main() -> int:
    hits: list[list[Sample]] = []
    prompts: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="smp-relevance-state-") as state:
        os.environ["SMP_STATE_DIR"] = state  # nothing is left in the user's state
        for store in stores.read_part(stores.DEVELOPMENT):
            found, asked = collect(store)
            hits += found
            prompts += asked
    prompts = [each for each in prompts if each.kind in (*stores.NEEDS, *_UNRELATED)]
    every = [each for group in hits for each in group]
    estimate_left_out(every)
    estimate_left_out(prompts)
    answering = [(group[0].kind, max(_best(group))) for group in hits if _best(group)]
    report("a hit that answers (of prompts that need none: any hit)", answering)
    report("the prompt is about the project", [(each.kind, each.estimate) for each in prompts])
    show("ANSWERS", ANSWERS, [_STEEPNESS * value for value in fit(every)])
    bias, *others = fit(prompts)
    show("ABOUT", ABOUT, [bias + _PRIOR, *others])
    return 0


def _best(group: list[Sample]) -> list[float]:
    needs = group[0].kind in stores.NEEDS
    return [each.estimate for each in group if each.label or not needs] or [0.0]


if __name__ == "__main__":
    sys.exit(main())
