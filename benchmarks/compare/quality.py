"""Recall and precision of the peers on public data, which are not part of this repository.

Recall: the turns of LoCoMo and LongMemEval with gold evidence, in fresh stores, one for each conversation; any@k is the share of questions with a
turn that answers among the first k. SMP is asked by benchmarks/retrieval.py, with its sessions, authors and times; a peer gets each turn
as `author: text`. Precision: PrecisionMemBench, scored by benchmarks/precision.py. A peer has a store for each user and scope, without
the beliefs that were replaced or resolved, and the limit on number and score with which it passes most cases: chosen on these very cases.
Peers that search by vectors get those of all-MiniLM-L6-v2, computed here once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socketserver
import threading
from contextlib import contextmanager
from statistics import mean

import precision
import retrieval

from compare.steps import StepFailed
from smp_memory.index import embeddings
from smp_memory.index.minilm import minilm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from compare.steps import Bench

    Group = tuple[list[tuple[str, str]], list[str]]  # memories by key, and questions

LIMIT = 10
SETS = ("LoCoMo", "LongMemEval")
_CONVERSATIONS = 3  # of LoCoMo
_QUESTIONS, _SESSIONS = 60, 150  # of LongMemEval
_KEPT = (1, 2, 3, 5, 10)  # hits that may count as an answer
_STEPS = 20  # limits on the score that are tried


# --- Vectors -------------------------------------------------------------------------------------------------------


class Embedder:
    """The vectors of texts as lines of JSON, each computed once."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def line(self, text: str) -> bytes:
        with self._lock:
            if text not in self._known:
                signed = memoryview(minilm().embed([text])).cast("b").tolist()
                length = sum(each * each for each in signed) ** 0.5 or 1.0
                self._known[text] = json.dumps([round(each / length, 6) for each in signed]).encode() + b"\n"
            return self._known[text]


@contextmanager
def service(folder: str) -> Iterator[str | None]:
    """The path of a socket that answers with vectors; None without the model."""
    if embeddings.package_folder() is None:
        yield None
        return
    _load_numpy()
    embedder = Embedder()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            try:
                for line in self.rfile:
                    self.wfile.write(embedder.line(json.loads(line)))
            except (BrokenPipeError, ConnectionResetError):
                pass  # the step was ended

    path = os.path.join(folder, "vectors")
    with socketserver.ThreadingUnixStreamServer(path, Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield path
        server.shutdown()


def _load_numpy() -> None:
    """Load numpy with one thread: on a busy machine, several wait for each other and take many times as long."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import numpy  # noqa: F401

    del os.environ["OPENBLAS_NUM_THREADS"]  # peers decide for themselves


def _variables(bench: Bench, path: str | None) -> dict[str, str]:
    if "vectors" in bench.peer.search and path is None:
        raise StepFailed("the extra `models` is not installed, so there are no vectors")
    return {"SMP_BENCH_EMBEDDER": path or ""}


# --- Recall --------------------------------------------------------------------------------------------------------


def conversations(folder: str, name: str, first: int | None = None) -> list[retrieval.Conversation]:
    """What is asked of every peer: some conversations of LoCoMo, a part of LongMemEval chosen by a seed."""
    if name == "LoCoMo":
        found = list(retrieval.locomo(folder))[:_CONVERSATIONS]
    else:
        found = [_part(each) for each in retrieval.longmemeval(folder)]
    for each in found[:] if first else ():
        each.questions = each.questions[:first]
    return found[:1] if first else found


def _part(whole: retrieval.Conversation) -> retrieval.Conversation:
    rng = random.Random(3)
    asked = [each for each in whole.questions if each.gold["turn"]]
    questions = rng.sample(asked, min(_QUESTIONS, len(asked)))
    kept = sorted({session for each in questions for session in each.gold["session"]})
    others = sorted(set(whole.sessions) - set(kept))
    kept += rng.sample(others, max(min(_SESSIONS - len(kept), len(others)), 0))
    return retrieval.Conversation({name: whole.sessions[name] for name in kept}, questions)


def recall_of_smp(folder: str, semantic: str, first: int | None = None) -> dict[str, Any]:
    found = {}
    for name in SETS:
        scored = [
            answer.figures["turn"]
            for each in conversations(folder, name, first)
            for answer in retrieval.answers(each, {}, "jsonl", semantic)
            if "turn" in answer.figures
        ]
        found[name] = _means(scored)
    return found


def recall(bench: Bench, folder: str, path: str | None, first: int | None = None) -> dict[str, Any]:
    """any@5 and any@10 of a peer on both sets; a set that takes too long has an error instead."""
    found: dict[str, Any] = {}
    for name in SETS:
        asked = conversations(folder, name, first)
        try:
            ranked = _ranked(bench, [_group(each) for each in asked], _variables(bench, path))
        except StepFailed as error:
            found[name] = {"error": str(error)}
            continue
        scored = [
            retrieval.figures([_place(key) for key, _ in hits], question.gold["turn"])
            for each, answers in zip(asked, ranked, strict=True)
            for question, hits in zip(each.questions, answers, strict=True)
            if question.gold["turn"]
        ]
        found[name] = _means(scored)
    return found


def _means(scored: list[dict[str, float]]) -> dict[str, float]:
    return {"questions": len(scored), **{name: mean(each[name] for each in scored) for name in ("any@5", "any@10")}}


def _group(conversation: retrieval.Conversation) -> Group:
    memories = [
        (f"{session}--{position}", f"{turn['author']}: {turn['content']}")
        for session, turns in conversation.sessions.items()
        for position, turn in enumerate(turns)
    ]
    return memories, [question.text for question in conversation.questions]


def _place(key: str) -> tuple[str, int]:
    session, _, position = key.rpartition("--")
    return session, int(position)


def _ranked(bench: Bench, groups: list[Group], variables: dict[str, str]) -> list[list[list[tuple[str, float]]]]:
    folder = bench.new_folder()
    path = os.path.join(folder, "groups.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(groups, file)
    try:
        given = {"groups": path, "limit": LIMIT, "fill_seconds": bench.plan.step_seconds, "variables": variables}
        answers = bench.run("rank", folder, **given)["answers"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [[[tuple(hit) for hit in hits] for hits in each] for each in answers]


# --- Precision -----------------------------------------------------------------------------------------------------


def precision_of_smp(folder: str, rule: str) -> dict[str, Any]:
    return _scores(precision.measure(folder, rule, "auto"))


def precision_of(bench: Bench, folder: str, path: str | None) -> dict[str, Any]:
    beliefs, cases = (_load(folder, name) for name in (precision.BELIEFS, precision.CASES))
    open_ones = [each for each in beliefs if not (each["superseded_by"] or each["resolved_at"])]
    sessions: dict[str, list[tuple[str, str]]] = {}
    for each in open_ones:
        name = precision.session_name(each["user_id"], each["scope"][0])
        sessions.setdefault(name, []).append((each["_id"], _told(each)))
    asked: dict[str, dict[str, None]] = {}  # the queries of each session, in order and once
    for case in cases:
        for scope in case["scope"]:
            name = precision.session_name(case.get("userId", precision.USER), scope)
            asked.setdefault(name, {})[case["query"]] = None
    groups = {
        name: (memories, [each for each in asked.get(name, {}) if each.strip()]) for name, memories in sessions.items()
    }
    ranked = _ranked(bench, list(groups.values()), _variables(bench, path))
    hits = {
        (name, query): found
        for (name, (_, queries)), answers in zip(groups.items(), ranked, strict=True)
        for query, found in zip(queries, answers, strict=True)
    }
    return _best(beliefs, cases, hits)


def _load(folder: str, name: str) -> Any:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def _told(belief: dict[str, Any]) -> str:
    topic = belief["canonical_name"].replace("_", " ")
    return f"{topic}: {belief['content']} {belief['why_it_matters']} ({', '.join(belief['aliases'])})"


def _best(beliefs: list[Any], cases: list[Any], hits: dict[tuple[str, str], list[tuple[str, float]]]) -> dict[str, Any]:
    """The scores with the limits that pass most cases."""
    scores = sorted(score for found in hits.values() for _, score in found)
    limits = sorted({scores[len(scores) * step // _STEPS] for step in range(_STEPS)}) if scores else [0.0]
    ids = {each["_id"]: each["_id"] for each in beliefs}
    found = []
    for most in _KEPT:
        for limit in limits:

            def ask(session: str, prompt: str, wanted: int, most: int = most, limit: float = limit) -> list[str]:
                kept = [key for key, score in hits.get((session, prompt), []) if score >= limit]
                return kept[: min(most, wanted)]

            adapter = precision.Adapter(beliefs, ids, ask)
            found.append({**_scores([adapter.answer(case) for case in cases]), "most": most, "limit": limit})
    return max(found, key=lambda each: (each["passed"], each["precision"]))


def _scores(answers: list[precision.Answer]) -> dict[str, Any]:
    known = [each.precision for each in answers if each.precision is not None]
    recalls = [each.recall for each in answers if each.recall is not None]
    return {
        "precision": mean(known) if known else 0.0,
        "recall": mean(recalls) if recalls else 0.0,
        "passed": sum(not each.failures for each in answers),
        "cases": len(answers),
    }
