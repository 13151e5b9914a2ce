"""Retrieval quality through the public API: whether a question finds the memory that answers it.

Two public benchmarks with gold evidence are written turn by turn into fresh stores, one session per session, and asked
through `memory.query`. The data are not part of this repository; their folder is given by `--data` or SMP_BENCH_DATA.
Without them nothing is measured, and the exit code is 0.

    python benchmarks/retrieval.py [--only locomo] [--semantic off] [--mode weighted] [--kinds] [--contexts] [--sizes 1000,10000]
        [--markdown FILE]

For each question: any@k, is one gold memory among the first k; all@10, are all of them among the first ten; mrr, one by
the rank of the first; ndcg@10. Unit turn: the very memory; unit session: its session, ranked by its best memory.

With `--contexts`: the share of questions with a gold memory in `memory.context(task=question)`, beside the first hits of a search: as many as
fit into the tokens of this context, and into its budget.

With `--sizes`, the questions of two conversations are asked again among noise, in a store of each size (retrieval_sizes.py), and
with `--markdown` a chart of it is written beside the page.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from datetime import datetime, timedelta
from statistics import mean

import quality_chart
import retrieval_sizes

import smp_memory
from smp_memory.index import embeddings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Turn = dict[str, str]

HITS = 50  # enough to rank ten sessions
PAGE = 20  # what a caller asks for; its time is the latency
_HEAD = """\
# Benchmarks: does a question find the memory that answers it?

Made by `benchmarks/retrieval.py`; do not edit by hand. Repeat it with:
"""
_HOW = """\
The development halves of two public sets; `--data` names their folder. Every turn is written to a fresh store, one session per
session, and each question is asked through `memory.query`. any@k: one memory that answers is among the first k; unit turn: the
very memory, unit session: its session. All of the ranking was chosen on these same data; see
[ADR 25](adr/0025-recall.md) for how far to trust that."""
_AMONG_NOISE = """\
Two conversations of LoCoMo in one store, and noise up to each size: turns of other people, made of sentences of LongMemEval.
CPU ms: the median of one query."""
CONTEXT_TOKENS = 1500
_LINE_CHARACTERS = 450  # of a hit; a context of this size cuts memories at the same length
METRICS = ("any@1", "any@5", "any@10", "all@10", "mrr", "ndcg@10")
FLOORS = {
    ("LoCoMo", "turn"): {"any@5": 0.75, "any@10": 0.85},
    ("LoCoMo", "session"): {"any@5": 0.92},
    ("LongMemEval", "turn"): {"any@10": 0.80},
    ("LongMemEval", "session"): {"any@5": 0.875, "any@10": 0.88},
}
FLOORS_BY_MEANING = {  # with an embedding model
    ("LoCoMo", "turn"): {"any@5": 0.775, "any@10": 0.865},
    ("LoCoMo", "session"): {"any@5": 0.94},
    ("LongMemEval", "turn"): {"any@10": 0.80},
    ("LongMemEval", "session"): {"any@5": 0.875, "any@10": 0.91},
}


class Question:
    """What is asked, when, and which memories and sessions answer it. A memory is named by session and position."""

    def __init__(
        self, text: str, kind: str, at: str, memories: Iterable[tuple[str, int]], sessions: Iterable[str]
    ) -> None:
        self.text = text
        self.kind = kind
        self.at = at
        self.gold = {"turn": set(memories), "session": set(sessions)}


class Conversation:
    """Sessions of turns that share a store, and the questions about them."""

    def __init__(self, sessions: dict[str, list[Turn]], questions: list[Question]) -> None:
        self.sessions = sessions
        self.questions = questions


# --- The data ------------------------------------------------------------------------------------------------------


def locomo(folder: str) -> Iterator[Conversation]:
    """Two people who talk for months. Asked the day after their last conversation."""
    for each in _load(folder, "locomo-dev.json"):
        sessions: dict[str, list[Turn]] = {}
        places: dict[str, tuple[str, int]] = {}
        for turn in each["turns"]:
            turns = sessions.setdefault(turn["session"], [])
            places[turn["id"]] = (turn["session"], len(turns))
            turns.append({"role": "user", "author": turn["speaker"], "content": turn["text"], "created": turn["at"]})
        last = max(turn["at"] for turn in each["turns"])
        at = (datetime.fromisoformat(last) + timedelta(days=1)).isoformat()
        yield Conversation(
            sessions,
            [
                Question(asked["text"], asked["kind"], at, _placed(asked["evidence"], places), asked["sessions"])
                for asked in each["questions"]
            ],
        )


def longmemeval(folder: str) -> Iterator[Conversation]:
    """A user and an assistant, many sessions on many matters, all in one haystack."""
    data = _load(folder, "longmemeval-pool-dev.json")
    first = min(session["at"] for session in data["sessions"] if session["at"])
    sessions: dict[str, list[Turn]] = {}
    places: dict[str, tuple[str, int]] = {}
    for session in data["sessions"]:
        created = session["at"] or first  # some distractors have no date
        turns = sessions.setdefault(session["id"], [])
        for turn in session["turns"]:
            places[f"{session['id']}#{turn['n']}"] = (session["id"], len(turns))
            turns.append({"role": turn["role"], "author": turn["role"], "content": turn["text"], "created": created})
    questions = [
        Question(asked["text"], asked["kind"], asked["at"], _placed(asked["evidence"], places), asked["sessions"])
        for asked in data["questions"]
    ]
    yield Conversation(sessions, questions)


def _load(folder: str, name: str) -> Any:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def _placed(ids: list[str], places: dict[str, tuple[str, int]]) -> list[tuple[str, int]]:
    return [places[id] for id in ids if id in places]


SETS: dict[str, tuple[str, Callable[[str], Iterator[Conversation]]]] = {
    "locomo": ("LoCoMo", locomo),
    "longmemeval": ("LongMemEval", longmemeval),
}


# --- Writing and asking --------------------------------------------------------------------------------------------


class Answer:
    """How well one question was answered, by unit."""

    def __init__(self, question: Question, hits: list[tuple[str, int]], milliseconds: float) -> None:
        self.kind = question.kind
        self.context: dict[str, float] = {}  # figures of the context, if they were asked for
        self.milliseconds = milliseconds
        sessions = list(dict.fromkeys(session for session, _ in hits))
        self.figures = {
            unit: figures(ranked, question.gold[unit])
            for unit, ranked in (("turn", hits), ("session", sessions))
            if question.gold[unit]
        }


def figures(ranked: list[Any], gold: set[Any]) -> dict[str, float]:
    right = [each in gold for each in ranked]
    first = right.index(True) + 1 if any(right) else math.inf
    gained = sum(1 / math.log2(place + 2) for place, is_right in enumerate(right[:10]) if is_right)
    possible = sum(1 / math.log2(place + 2) for place in range(min(len(gold), 10)))
    found = {f"any@{k}": float(first <= k) for k in (1, 5, 10)}
    return {**found, "all@10": float(gold <= set(ranked[:10])), "mrr": 1 / first, "ndcg@10": gained / possible}


def answers(
    conversation: Conversation, options: dict[str, Any], layout: str, semantic: str, contexts: bool = False
) -> Iterator[Answer]:
    with tempfile.TemporaryDirectory(prefix="smp-retrieval-") as folder:
        memory = smp_memory.open(folder, layout=layout, config={"durability": "os", "search": {"semantic": semantic}})
        places = write(memory, conversation)
        memory.reindex()  # a query alone makes the vectors of some memories only
        memory.query("what is all this about", limit=1, track_access=False)  # index and model are loaded now
        for question in conversation.questions:
            start = time.perf_counter()
            memory.query(question.text, limit=PAGE, at=question.at, track_access=False, **options)
            milliseconds = (time.perf_counter() - start) * 1000
            hits = memory.query(question.text, limit=HITS, at=question.at, track_access=False, **options)
            answer = Answer(question, [places[hit.record.session, hit.record.id] for hit in hits], milliseconds)
            if contexts and question.gold["turn"]:
                gold = {f"{session}/{id}" for (session, id), place in places.items() if place in question.gold["turn"]}
                answer.context = context_figures(memory, question, gold, hits)
            yield answer
        memory.close()


def context_figures(memory: Any, question: Question, gold: set[str], hits: Any) -> dict[str, float]:
    """Whether a gold memory is in the context, in the first hits of the same size, and in those of the whole budget."""
    context = memory.context(task=question.text, max_tokens=CONTEXT_TOKENS, at=question.at, track_access=False)
    return {
        "tokens": context.tokens,
        "in the context": not gold.isdisjoint(context.ids),
        "in a search of this size": not gold.isdisjoint(first_hits(hits, context.tokens)),
        f"in a search of {CONTEXT_TOKENS:,} tokens": not gold.isdisjoint(first_hits(hits, CONTEXT_TOKENS)),
    }


def first_hits(hits: Any, tokens: int) -> Iterator[str]:
    """The refs of the first hits that fit, written as one line each."""
    for hit in hits:
        tokens -= (
            len(f"- {hit.record.created:%Y-%m-%d} {hit.record.ref}: {hit.record.text[:_LINE_CHARACTERS]}") // 4 + 1
        )
        if tokens < 0:
            return
        yield hit.record.ref


def write(memory: Any, conversation: Conversation) -> dict[tuple[str, str], tuple[str, int]]:
    """Write all turns; returns where in the data each stored memory came from."""
    places = {}
    for name, turns in conversation.sessions.items():
        session = memory.create_session(name, created=turns[0]["created"])
        for position, record in enumerate(session.add_many([("conversation", turn) for turn in turns])):
            places[name, record.id] = (name, position)
    return places


# --- The report ----------------------------------------------------------------------------------------------------


def table(name: str, found: list[Answer], kinds: bool) -> Iterator[str]:
    yield f"| {name} | unit | questions | {' | '.join(METRICS)} | p50 ms | p95 ms |"
    yield "|---" * (len(METRICS) + 5) + "|"
    groups = ["all", *(sorted({answer.kind for answer in found}) if kinds else [])]
    for unit in ("turn", "session"):
        for group in groups:
            yield _line(group, unit, [answer for answer in found if group in ("all", answer.kind)])


def _line(group: str, unit: str, found: list[Answer]) -> str:
    scored = [answer.figures[unit] for answer in found if unit in answer.figures]
    means = [f"{mean(each[metric] for each in scored):.3f}" for metric in METRICS] if scored else ["–"] * len(METRICS)
    times = sorted(answer.milliseconds for answer in found)
    latency = [f"{times[int(share * (len(times) - 1))]:.1f}" for share in (0.5, 0.95)]
    return f"| {group} | {unit} | {len(scored)} | {' | '.join(means + latency)} |"


def context_table(name: str, found: list[Answer]) -> Iterator[str]:
    asked = [answer.context for answer in found if answer.context]
    means = {figure: mean(each[figure] for each in asked) for figure in asked[0]} if asked else {}
    yield f"| {name}, contexts | questions | {' | '.join(means)} |"
    yield "|---" * (len(means) + 2) + "|"
    shown = [f"{value:,.0f}" if figure == "tokens" else f"{value:.3f}" for figure, value in means.items()]
    yield f"| all | {len(asked)} | {' | '.join(shown)} |"


def missed(name: str, found: list[Answer], by_meaning: bool) -> Iterator[str]:
    for (data, unit), floors in (FLOORS_BY_MEANING if by_meaning else FLOORS).items():
        for metric, floor in floors.items() if data == name else ():
            reached = mean(answer.figures[unit][metric] for answer in found if unit in answer.figures)
            if reached < floor:
                yield f"{name}, unit {unit}: {metric} is {reached:.4f}, to be reached: {floor}"


def data_folder(given: str | None) -> str | None:
    """Where the data are, or None."""
    folder = given or os.environ.get("SMP_BENCH_DATA")
    return folder if folder and os.path.isfile(os.path.join(folder, "locomo-dev.json")) else None


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", metavar="FOLDER", help="where the data are (default: SMP_BENCH_DATA)")
    parser.add_argument("--only", choices=SETS, help="one set of data")
    parser.add_argument("--semantic", default="auto", choices=("auto", "minilm", "off"), help="off: words alone")
    parser.add_argument("--mode", default="default", help="default, weighted or product")
    parser.add_argument("--layout", default="jsonl", help="of the stores that are written")
    parser.add_argument("--kinds", action="store_true", help="by kind of question, too")
    parser.add_argument(
        "--contexts", action="store_true", help="whether contexts of the questions have the answer, too"
    )
    parser.add_argument("--first", type=int, metavar="N", help="only the first N questions of each conversation")
    parser.add_argument("--sizes", default="", help="store sizes for the curve, such as 1000,10000,100000,1000000")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables there as well")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    given = arguments(words)
    folder = data_folder(given.data)
    if folder is None:
        print("Retrieval is not measured: no data. Name the folder of locomo-dev.json by --data or SMP_BENCH_DATA.")
        return 0
    if given.semantic == "minilm" and embeddings.package_folder() is None:
        print("Retrieval is not measured: the extra `models` is not installed.")
        return 1
    ways = [given.semantic] if embeddings.available() else ["off"]
    if given.markdown and ways == ["auto"]:
        ways.insert(0, "off")  # a page has both
    lines, wrong = [], []
    for semantic in ways:
        measured, missing = measure(given, folder, semantic)
        lines += [*measured, *(missing or ["All figures to be reached are reached."]), ""]
        wrong += missing
    if given.sizes:
        lines += measure_sizes(given, folder, ways)
    print("\n".join(lines))
    if given.markdown:
        options = "".join(f" --{name}" for name in ("kinds", "contexts") if getattr(given, name))
        options += f" --sizes {given.sizes}" if given.sizes else ""
        command = f"python benchmarks/retrieval.py --data FOLDER --markdown {given.markdown}{options}"
        with open(given.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join([_HEAD, f"    {command}", "", _HOW, "", *lines]).rstrip() + "\n")
    return 1 if wrong and given.mode == "default" and not given.first else 0


def measure(given: argparse.Namespace, folder: str, semantic: str) -> tuple[list[str], list[str]]:
    """The tables, and what is not reached."""
    by_meaning = semantic != "off"
    lines, wrong = [f"## By words{' and meaning' if by_meaning else ' alone'}", ""], []
    for key in [given.only] if given.only else SETS:
        name, conversations = SETS[key]
        found: list[Answer] = []
        for conversation in conversations(folder):
            conversation.questions = conversation.questions[: given.first]
            found += answers(conversation, {"mode": given.mode}, given.layout, semantic, given.contexts)
        lines += [*table(name, found, given.kinds), ""]
        lines += [*context_table(name, found), ""] if given.contexts else []
        floors = FLOORS_BY_MEANING if by_meaning else FLOORS
        wanted = [f"{u} {m} {v}" for (d, u), each in floors.items() if d == name for m, v in each.items()]
        lines += [f"To be reached: {', '.join(wanted)}.", ""]
        wrong += missed(name, found, by_meaning)
    return lines, wrong


def measure_sizes(given: argparse.Namespace, folder: str, ways: list[str]) -> list[str]:
    """The table of quality over size; the chart is written beside the page."""
    sizes = [int(size) for size in given.sizes.split(",")]
    lines = ["## Among noise", "", _AMONG_NOISE, ""]
    drawn: dict[tuple[str, str], dict[int, float]] = {}
    for semantic in ways:
        by = "words alone" if semantic == "off" else "words and meaning"
        found = retrieval_sizes.curve(folder, sizes, semantic, given.first)
        columns = list(next(iter(found.values())))
        lines += [f"| memories, by {by} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        lines += [
            f"| {size:,} | {' | '.join(f'{each[name]:.3f}' for name in columns)} |" for size, each in found.items()
        ]
        lines.append("")
        for name in ("turn any@1", "turn any@5", "turn any@10"):
            way = "words" if semantic == "off" else "meaning"
            drawn[name, way] = {size: each[name] for size, each in found.items()}
    if given.markdown:
        image = os.path.splitext(given.markdown)[0] + ".svg"
        with open(image, "w", encoding="utf-8") as file:
            file.write(quality_chart.chart("The same questions in larger stores (LoCoMo)", drawn))
        lines += [f"![Quality of retrieval over the size of the store]({os.path.basename(image)})", ""]
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
