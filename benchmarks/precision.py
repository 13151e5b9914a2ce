"""Measure precision with PrecisionMemBench: whether a prompt gets the memories that it needs and no others.

    python benchmarks/precision.py FOLDER [--rule told|confident|context] [--semantic off] [--show]

FOLDER holds `beliefs.seed.json` and `retrieval.cases.json` of the public benchmark. They are not part of this repository; without them
nothing is measured, and the exit code is 0. The cases with several turns are not asked.

Rules: what the prompt hook tells (`told`), `query(…).confident`, or what is in `context(task=…)`.

Beliefs become memories of one store, each user's beliefs of each scope in a session of their own: the user is the user of the session, the
scope its project. A case is asked in the session of its user and scope, so that it reaches this scope alone; a case with several scopes
is asked in each, and the answers take turns, as in the benchmark's own adapter.

Scoring is that of the benchmark. Pinned beliefs, open questions, the persona, the participants of relations and the budget are handled by
its adapter, in the same way for every system that is measured; a system is asked for the relevant beliefs only. Precision is the share
of expected beliefs among these, 0 if nothing is returned although something is expected, and not counted if both are empty.
A case passes if all that it expects holds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, zip_longest
from statistics import mean
from unittest.mock import patch

import smp_memory
from smp_memory.integrations.hooks.events import CLAUDE, HookEvent
from smp_memory.integrations.hooks.reader import Reader
from smp_memory.integrations.hooks.recall import recall_in_state
from smp_memory.integrations.hooks.session_state import HookSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Belief = dict[str, Any]
    Ask = Callable[[str, str, int], list[str]]  # session, prompt and limit; the refs of memories

BELIEFS, CASES = "beliefs.seed.json", "retrieval.cases.json"
UNIVERSAL = "user:universal"  # the scope of what holds in every other one
USER = "test-user"  # who asks, unless a case says otherwise
MOST = 20  # beliefs in an answer, unless a case says otherwise
ASKED_AT = datetime(2026, 10, 8, 12, tzinfo=UTC)  # the day after the newest belief
QUESTION, RELATION = "open_question", "relation"
_TYPES = {"preference": "preference", "decision": "decision", QUESTION: "finding"}  # others: learning


# --- The store -----------------------------------------------------------------------------------------------------


def session_name(user: str, scope: str) -> str:
    return f"{user}_{scope.replace(':', '-')}"


def write(memory: Any, beliefs: list[Belief], cases: list[dict[str, Any]]) -> dict[str, str]:
    """Write the beliefs, one session for each user and scope that is named; returns the beliefs by refs of memories."""
    named = [(each["user_id"], each["scope"][0]) for each in beliefs]
    named += [(case.get("userId", USER), scope) for case in cases for scope in case["scope"]]
    sessions = {
        pair: memory.create_session(session_name(*pair), user=pair[0], project=pair[1]) for pair in dict.fromkeys(named)
    }
    records = {each["_id"]: _add(sessions[each["user_id"], each["scope"][0]], each) for each in beliefs}
    for each in beliefs:
        _settle(memory, each, records)
    return {record.ref: id for id, record in records.items()}


def _add(session: Any, belief: Belief) -> Any:
    fields = {
        "aliases": belief["aliases"],
        "rationale": belief["why_it_matters"],
        "topic": belief["canonical_name"].replace("_", " "),
        "confidence": belief["confidence"],
        "pinned": belief["pinned"],
        "created": belief["created_at"],
    }
    return session.add(_TYPES.get(belief["type"], "learning"), belief["content"], **fields)


def _settle(memory: Any, belief: Belief, records: dict[str, Any]) -> None:
    """Store what became of a belief: what replaced it, that it was resolved, or what it connects."""
    record = records[belief["_id"]]
    session = memory.session(record.session)
    if belief["superseded_by"]:
        other = records[belief["superseded_by"]]
        memory.session(other.session).relate(other.id, record.ref, "supersedes")
    if belief["resolved_at"]:
        session.resolve(record.id, "decided")
    for participant in belief.get("participants", ()):
        session.relate(record.id, records[participant].ref, "relates_to")


# --- Asking --------------------------------------------------------------------------------------------------------


def told(memory: Any) -> Ask:
    """What the prompt hook injects in a conversation of which nothing was told yet."""
    reader = Reader(memory.root, os.environ, store=memory.store, clock=memory.scope.clock)

    def ask(session: str, prompt: str, limit: int) -> list[str]:
        folder = memory.session(session).info.project
        event = HookEvent(CLAUDE, "UserPromptSubmit", {"session_id": "precision", "cwd": folder, "prompt": prompt})
        return recall_in_state(reader, event, session, HookSession({"session": session})).told[:limit]

    return ask


def confident(memory: Any) -> Ask:
    """The hits of a query in the session that are relevant enough."""

    def ask(session: str, prompt: str, limit: int) -> list[str]:
        hits = memory.query(prompt, session=session, limit=limit, track_access=False)
        return [hit.record.ref for hit in hits.confident]

    return ask


def context(memory: Any) -> Ask:
    """All memories in the context of a task."""

    def ask(session: str, prompt: str, limit: int) -> list[str]:
        return list(memory.context(task=prompt, session=session, track_access=False).ids[:limit])

    return ask


RULES = {"told": told, "confident": confident, "context": context}


# --- The benchmark's adapter ---------------------------------------------------------------------------------------


class Adapter:
    """Combine what a system returns with what the benchmark knows by itself."""

    def __init__(self, beliefs: list[Belief], ids: dict[str, str], ask: Ask) -> None:
        self._beliefs = {each["_id"]: each for each in beliefs}
        self._ids = ids
        self._ask = ask

    def answer(self, case: dict[str, Any]) -> Answer:
        user, scopes = case.get("userId", USER), case["scope"]
        most = case.get("budget", {}).get("maxBeliefs", MOST)
        pinned, questions = self._pinned(user, scopes)
        found = self._search(user, scopes, case["query"], most, pinned)
        found += self._participants(user, scopes, {*pinned, *found}, found)
        relevant = found[: max(most - len(pinned[:most]), 0)]
        return Answer(case, pinned[:most], relevant, questions, self._persona(user))

    def _persona(self, user: str) -> str:
        """What holds for a user everywhere; the benchmark puts it before every answer."""
        return " ".join(each["content"] for each in self._beliefs.values() if _is_visible(each, user, [UNIVERSAL]))

    def _pinned(self, user: str, scopes: list[str]) -> tuple[list[str], list[str]]:
        """The pinned beliefs and the pinned open questions of these scopes."""
        facts: list[str] = []
        questions: list[str] = []
        for id, each in self._beliefs.items():
            is_open = not (each["resolved_at"] or each["superseded_by"])
            if each["pinned"] and is_open and _is_visible(each, user, scopes):
                (questions if each["type"] == QUESTION else facts).append(id)
        return facts, questions

    def _search(self, user: str, scopes: list[str], text: str, most: int, pinned: list[str]) -> list[str]:
        if not text.strip() or not most:
            return []
        answers = [self._ask(session_name(user, scope), text, most) for scope in scopes]
        refs = (ref for ref in chain.from_iterable(zip_longest(*answers)) if ref is not None)
        ids = dict.fromkeys(self._ids[ref] for ref in refs)
        return [id for id in ids if id not in pinned][:most]

    def _participants(self, user: str, scopes: list[str], known: set[str], found: list[str]) -> list[str]:
        """What the relations among these beliefs connect."""
        relations = (self._beliefs[id] for id in found if self._beliefs[id]["type"] == RELATION)
        ids = dict.fromkeys(id for each in relations for id in each["participants"] if id not in known)
        others = (self._beliefs[id] for id in ids)
        return [each["_id"] for each in others if each["type"] != QUESTION and _is_visible(each, user, scopes)]


def _is_visible(belief: Belief, user: str, scopes: list[str]) -> bool:
    return belief["user_id"] == user and not set(belief["scope"]).isdisjoint(scopes)


# --- Scoring -------------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """What one case got, and how the benchmark scores it."""

    case: dict[str, Any]
    pinned: list[str]
    relevant: list[str]
    questions: list[str]
    persona: str
    failures: list[str] = field(init=False)
    precision: float | None = field(init=False)
    recall: float | None = field(init=False)

    def __post_init__(self) -> None:
        expected = set(self.case["expect"].get("relevantBeliefs", {}).get("shouldOnlyInclude", ()))
        found = set(self.relevant)
        hits = len(expected & found)
        self.precision = hits / len(found) if found else 0.0 if expected else None
        self.recall = hits / len(expected) if expected else None
        self.failures = list(self._failures())

    def _failures(self) -> Iterator[str]:
        wanted = self.case["expect"]
        both = {*self.pinned, *self.relevant}
        for name, found in (("relevantBeliefs", both), ("pinnedFacts", self.pinned), ("openQuestions", self.questions)):
            must, must_not = (set(wanted.get(name, {}).get(each, ())) for each in ("mustInclude", "mustExclude"))
            yield from (f"missing in {name}: {id}" for id in sorted(must.difference(found)))
            yield from (f"not wanted in {name}: {id}" for id in sorted(must_not.intersection(found)))
        only = wanted.get("relevantBeliefs", {}).get("shouldOnlyInclude")
        if only is not None:
            yield from (f"missing: {id}" for id in sorted(set(only).difference(self.relevant)))
            yield from (f"not wanted: {id}" for id in sorted(set(self.relevant).difference(only)))
        yield from _persona_failures(wanted.get("personaPrelude", {}), self.persona)


def _persona_failures(wanted: dict[str, Any], persona: str) -> Iterator[str]:
    if wanted.get("nonEmpty") and not persona:
        yield "persona empty"
    if wanted.get("isNull") and persona:
        yield "persona not empty"
    yield from (f"persona lacks {text!r}" for text in wanted.get("contains", ()) if text not in persona)
    yield from (f"persona has {text!r}" for text in wanted.get("mustNotContain", ()) if text in persona)


# --- The command ---------------------------------------------------------------------------------------------------


def measure(folder: str, rule: str, semantic: str) -> list[Answer]:
    """Write the beliefs to a temporary store and ask all cases."""
    beliefs, cases = (_load(folder, name) for name in (BELIEFS, CASES))
    config = {"durability": "os", "search": {"semantic": semantic}}
    with tempfile.TemporaryDirectory(prefix="smp-precision-") as place:
        store, state = (os.path.join(place, name) for name in ("store", "state"))
        own_state = patch.dict(os.environ, SMP_STATE_DIR=state)  # nothing is left in the user's state
        with own_state, smp_memory.open(store, config=config, clock=lambda: ASKED_AT) as memory:
            ids = write(memory, beliefs, cases)
            memory.reindex()
            adapter = Adapter(beliefs, ids, RULES[rule](memory))
            return [adapter.answer(case) for case in cases]


def _load(folder: str, name: str) -> Any:
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def report(answers: list[Answer]) -> Iterator[str]:
    """The figures of all cases and of each category, the largest first."""
    categories: dict[str, list[Answer]] = {}
    for each in answers:
        categories.setdefault(each.case["category"], []).append(each)
    yield f"{'':<34}{'precision':>10}{'recall':>8}{'passed':>8}{'cases':>7}"
    for name, some in [("all", answers), *sorted(categories.items(), key=lambda pair: -len(pair[1]))]:
        precision = _mean(each.precision for each in some)
        recall = _mean(each.recall for each in some)
        passed = sum(not each.failures for each in some)
        yield f"{name:<34}{precision:>10}{recall:>8}{passed:>8}{len(some):>7}"


def _mean(figures: Iterable[float | None]) -> str:
    known = [each for each in figures if each is not None]
    return f"{mean(known):.3f}" if known else "-"


def failed(answers: list[Answer]) -> Iterator[str]:
    """Each case that fails, with what was wrong."""
    for each in answers:
        if each.failures:
            yield f"{each.case['caseId']}: {each.case['query']}"
            yield from (f"    {failure}" for failure in each.failures)


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", help=f"with {BELIEFS} and {CASES}")
    parser.add_argument("--rule", choices=RULES, default="told", help="what counts as the answer (default: told)")
    parser.add_argument("--semantic", choices=("auto", "minilm", "off"), default="auto", help="off: words alone")
    parser.add_argument("--show", action="store_true", help="the cases that fail, too")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    given = arguments(words)
    missing = [name for name in (BELIEFS, CASES) if not os.path.isfile(os.path.join(given.folder, name))]
    if missing:
        print(f"Nothing is measured: {given.folder} has no {' and no '.join(missing)}.", file=sys.stderr)
        return 0
    answers = measure(given.folder, given.rule, given.semantic)
    print("\n".join(report(answers)))
    if given.show:
        print("", *failed(answers), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
