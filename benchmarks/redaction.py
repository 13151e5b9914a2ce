"""Recall, precision and cost of redaction. Four tables.

    python benchmarks/redaction.py [--rounds 5] [--markdown FILE]

Recall and false positives on the labelled set of `tests/redaction_set`; precision and recall per rule on that of
`tests/privacy_samples.py`; the cost of a memory of about 400 bytes
without secrets; the worst rule on 100 kB of each hostile text of `tests/privacy_hostile.py`, in CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import sample_data

from smp_memory.privacy.redaction import GROUPS, Redactor, _lower
from tests.privacy_hostile import GENERATORS, every_rule
from tests.privacy_samples import hard_negatives, hard_positives, negatives, positives
from tests.redaction_set import harmless, secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE_BYTES = 100_000
LIMIT_MS, LIMIT_US = 50, 40
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
_NOTE = (
    "Login fails when src/components/checkout/PaymentMethod.tsx:142 calls https://api.example.org/v1/orders?page=2 at "
    "2026-01-11T10:30:00Z (commit 9fceb02d0ae598e95dc970b74767f19372d61af8, request 0b6f6f0e-7c39-4c0e-9a55-3f0f2a1d9c11); "
    "the key question is whether token_count=512 is enough. See DEC-0007: max_tokens: 4096, port 5432, version 1.10.3."
)


def by_surroundings(redactor: Redactor) -> list[str]:
    """A row per part of the labelled set: secrets, found, recall; harmless texts, redacted."""
    rows = []
    for part in ("first", "held_back", "last", "second"):
        there, clean = secrets(part), harmless(part)
        found = sum(not sample.is_left_in(redactor.redact(sample.text)[0]) for sample in there)
        wrong = sum(bool(redactor.redact(sample.text)[1]) for sample in clean)
        rows.append(f"| {part} | {len(there)} | {found} | {found / len(there):.3f} | {len(clean)} | {wrong} |")
    return ["| part | secrets | found | recall | harmless | redacted |", "|---|---:|---:|---:|---:|---:|", *rows]


def quality(redactor: Redactor) -> list[str]:
    """A row per rule: how many there are, how many were found, what was found in its name that was not there."""
    there: Counter[str] = Counter()
    found: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for sample in [*positives(), *hard_positives()]:
        group = _GROUP_OF[sample.kind]
        text, removals = redactor.redact(sample.text)
        there[group] += 1
        found[group] += sample.secret not in text
        wrong.update(_GROUP_OF[each.kind] for each in removals if _GROUP_OF[each.kind] != group)
    for text in [*negatives(), *hard_negatives()]:
        wrong.update(_GROUP_OF[each.kind] for each in redactor.redact(text)[1])
    rows = [_quality_row(group, there[group], found[group], wrong[group]) for group in GROUPS]
    total = _quality_row("all", there.total(), found.total(), wrong.total())
    head = ["| rule | secrets | found | recall | wrong | precision |", "|---|---:|---:|---:|---:|---:|"]
    return [
        *head,
        *rows,
        total,
        "",
        f"{there.total()} texts with a secret, {len(negatives()) + len(hard_negatives())} without.",
    ]


def _quality_row(name: str, there: int, found: int, wrong: int) -> str:
    precision = found / (found + wrong) if found + wrong else 1.0
    return f"| {name} | {there} | {found} | {found / there if there else 1:.3f} | {wrong} | {precision:.3f} |"


def best_seconds(work: Callable[[], object], rounds: int) -> float:
    """CPU time, the least of some rounds: others use this machine, too."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def cost(redactor: Redactor, rounds: int) -> list[str]:
    rng = random.Random(1)
    memories = [sample_data.memory(rng)[1] for _ in range(2000)]
    notes = [{"finding": f"{_NOTE} {number}", "author": "tester", "tags": ["auth"]} for number in range(2000)]
    rows = []
    for name, data in (("prose, fields of a memory", memories), ("technical, with paths, hashes, times", notes)):
        size = sum(len(json.dumps(each, ensure_ascii=False)) for each in data) / len(data)
        spent = (
            best_seconds(lambda data=data: [redactor.redact_fields(each) for each in data], rounds) / len(data) * 1e6
        )  # type: ignore[misc]
        rows.append(f"| {name} | {size:.0f} | {spent:.1f} | {spent / size * 400:.1f} |")
    return [f"| memory | bytes | µs | µs per 400 bytes (≤ {LIMIT_US}) |", "|---|---:|---:|---:|", *rows]


def hostile(redactor: Redactor, rounds: int) -> list[str]:
    rows = []
    for name, make in GENERATORS.items():
        text = make(HOSTILE_BYTES)
        low = _lower(text)
        spent = [
            (best_seconds(lambda rule=rule: list(rule.spans(text, low)), rounds) * 1e3, rule.kind or "by name")  # type: ignore[misc]
            for rule in every_rule()
        ]
        whole = best_seconds(lambda: redactor.redact(text), rounds) * 1e3
        worst, kind = max(spent)
        rows.append(f"| {name} | {worst:.0f} | {kind} | {whole:.0f} |")
    return [f"| text of 100 kB | worst rule, ms (≤ {LIMIT_MS}) | which | all rules, ms |", "|---|---:|---|---:|", *rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", metavar="FILE", help="write the tables to a file as well")
    options = parser.parse_args()
    redactor = Redactor()
    lines = [
        *by_surroundings(redactor),
        "",
        *quality(redactor),
        "",
        *cost(redactor, options.rounds),
        "",
        *hostile(redactor, options.rounds),
    ]
    print("\n".join(lines))
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
