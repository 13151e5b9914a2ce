"""Ask each case of a labelled store in every way that reaches an agent, and reduce the answers to figures.

Ways: the prompt hook, `query`, `context(task=…)` for a new and a running session at several budgets, and the digest at the start of a
session. Only the public interface is used, and for hooks the function that the process `smp hook` calls.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from statistics import mean

from recall_sets import ADVERSARIAL, GROUPS, NEEDS_MEMORY, NEEDS_NONE, NONE_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from recall_sets import Case

BUDGETS = (300, 800, 1500, 4000)
STATES = ("new", "running")
FLOORS = tuple(round(0.05 * step, 2) for step in range(1, 20))
HITS = 10
_MOST_INJECTED = 8  # at each floor of the curve
_CONTEXT_HITS = 60
_FEWEST_CHARACTERS, _MOST_CHARACTERS = 160, 1200  # a memory longer than this is cut in a context


def tokens(text: str) -> int:
    return (len(text) + 3) // 4


# --- Asking --------------------------------------------------------------------------------------------------------


class PromptHook:
    """What `smp hook` answers to a prompt and to the start of a session, without starting a process for each."""

    def __init__(self, root: str) -> None:
        from smp_memory.integrations.hooks.reader import Reader

        self._reader = Reader(root, os.environ)
        self._root = root
        self._count = 0

    def prompt(self, text: str) -> tuple[list[str], int]:
        """The refs that are injected, and their tokens. Every prompt is the first one of its conversation."""
        return self._answer("UserPromptSubmit", prompt=text)

    def start(self) -> tuple[list[str], int]:
        return self._answer("SessionStart", source="startup")

    def _answer(self, name: str, **fields: str) -> tuple[list[str], int]:
        from smp_memory.integrations.hooks import events
        from smp_memory.integrations.hooks.recall import recall_for_event

        self._count += 1
        payload = {"hook_event_name": name, "session_id": f"recall-{self._count}", "cwd": self._root, **fields}
        event = events.read(json.dumps(payload).encode(), "claude-code", {})
        assert event is not None
        recall = recall_for_event(self._reader, event, f"claude-code-recall-{self._count}")
        return recall.told, tokens(recall.text)


@dataclass
class Answer:
    """What one case brought, in every way that was asked for."""

    case: Case
    injected: list[str]
    injected_tokens: int
    hits: list[tuple[str, float]]  # ref and relevance, best first
    contexts: dict[tuple[str, int], tuple[set[str], int]] = field(default_factory=dict)  # by state and budget
    first_hits: dict[int, set[str]] = field(default_factory=dict)  # by budget


@dataclass
class Digest:
    """The digest of one store, the types in it, and the cases that the next session asks."""

    refs: list[str]
    tokens: int
    types: dict[str, int]
    cases: list[Case]
    groups: dict[str, set[str]]  # refs of wishes, of open grave findings, of the last session


class Asker:
    """Asks the cases of one store."""

    def __init__(self, memory: Any, root: str, budgets: Iterable[int] = BUDGETS) -> None:
        self._memory = memory
        self._hook = PromptHook(root)
        self._budgets = tuple(budgets)
        last = memory.sessions_by_time()[-1][1].id if self._budgets else ""
        new = memory.create_session("recall-new-session").id if self._budgets else ""
        self._sessions = dict(zip(STATES, (new, last), strict=True))

    def answer(self, case: Case) -> Answer:
        injected, size = self._hook.prompt(case.text)
        wanted = _CONTEXT_HITS if self._budgets else HITS
        hits = self._memory.query(case.text, limit=wanted, at=case.at, track_access=False)
        found = [(hit.record.ref, hit.relevance) for hit in hits]
        answer = Answer(case, injected, size, found[:HITS])
        if case.gold:
            for budget in self._budgets:
                self._add_contexts(answer, hits, budget)
        return answer

    def _add_contexts(self, answer: Answer, hits: Any, budget: int) -> None:
        answer.first_hits[budget] = first_hits(hits, budget)
        for state, session in self._sessions.items():
            context = self._memory.context(
                task=answer.case.text, session=session, max_tokens=budget, at=answer.case.at, track_access=False
            )
            answer.contexts[state, budget] = set(context.ids), context.tokens

    def digest(self, cases: list[Case]) -> Digest:
        refs, size = self._hook.start()
        types: dict[str, int] = {}
        for ref in refs:
            type = self._record(ref).type
            types[type] = types.get(type, 0) + 1
        return Digest(refs, size, types, [case for case in cases if case.gold], self._digest_groups(cases))

    def _record(self, ref: str) -> Any:
        session, _, id = ref.partition("/")
        return self._memory.session(session).find(id)

    def _digest_groups(self, cases: list[Case]) -> dict[str, set[str]]:
        grave = self._memory.query(
            types="finding", where={"status": "open", "severity": ["critical", "high"]}, limit=100, track_access=False
        )
        last = {record.ref for record in self._memory.session(self._sessions["running"])} if self._budgets else set()
        return {
            "wishes": {ref for case in cases if case.kind == "wish" for ref in case.gold},
            "open grave findings": {hit.record.ref for hit in grave},
            "asked for, of the last session": {ref for case in cases for ref in case.gold if ref in last},
        }


def first_hits(hits: Any, budget: int) -> set[str]:
    """The first hits of a search that fit into so many tokens, each as one line and cut as a context cuts it."""
    longest = min(max(budget * 4 // 8, _FEWEST_CHARACTERS), _MOST_CHARACTERS)
    left, found = budget, set()
    for hit in hits:
        record = hit.record
        left -= tokens(f"- {record.created:%Y-%m-%d} {record.ref}: {record.text[:longest]}") + 1
        if left < 0:
            break
        found.add(record.ref)
    return found


# --- Figures -------------------------------------------------------------------------------------------------------


def share(flags: Iterable[bool]) -> float | None:
    known = list(flags)
    return mean(map(float, known)) if known else None


def average(numbers: Iterable[float]) -> float | None:
    known = list(numbers)
    return mean(known) if known else None


def injection(answers: list[Answer], choose: Callable[[Answer], Iterable[str]]) -> dict[str, Any]:
    """Figures of a rule that chooses what is injected for each case."""
    chosen = [(answer.case, set(choose(answer))) for answer in answers]
    need = [(case, refs) for case, refs in chosen if case.kind in NEEDS_MEMORY]
    none = [(case, refs) for case, refs in chosen if case.kind in NEEDS_NONE]
    counted = [(refs & case.gold, refs - case.gold - case.neutral) for case, refs in need + none]
    right, wrong = (sum(len(pair[side]) for pair in counted) for side in (0, 1))
    in_need = [(refs & case.gold, refs - case.gold - case.neutral) for case, refs in need]
    right_in_need = sum(len(pair[0]) for pair in in_need)
    return {
        "false injection": share(bool(refs - case.neutral) for case, refs in none),
        **{
            f"false injection, {name}": share(bool(refs - case.neutral) for case, refs in none if case.kind in kinds)
            for name, kinds in NONE_GROUPS.items()
        },
        "miss": share(not refs & case.gold for case, refs in need),
        **{
            f"miss, {name}": share(not refs & case.gold for case, refs in need if case.kind in kinds)
            for name, kinds in GROUPS.items()
        },
        "precision": right / (right + wrong) if right + wrong else None,
        "precision where needed": right_in_need / total
        if (total := sum(len(a) + len(b) for a, b in in_need))
        else None,
        "injected": average(len(refs) for _, refs in need + none),
    }


def hook_figures(answers: list[Answer]) -> dict[str, Any]:
    found = injection(answers, lambda answer: answer.injected)
    found["abstention"] = None if found["false injection"] is None else 1 - found["false injection"]
    for name, kinds in (("needed", NEEDS_MEMORY), ("not needed", NEEDS_NONE)):
        found[f"tokens, {name}"] = average(each.injected_tokens for each in answers if each.case.kind in kinds)
    return found


def hook_by_kind(answers: list[Answer]) -> dict[str, dict[str, Any]]:
    """Of each kind of prompt: how many, and how often something wrong or nothing right was injected."""
    found: dict[str, dict[str, Any]] = {}
    for kind in sorted({answer.case.kind for answer in answers}):
        some = [answer for answer in answers if answer.case.kind == kind]
        figures: dict[str, Any] = {"prompts": len(some)}
        if kind in NEEDS_MEMORY:
            figures["miss"] = share(not set(each.injected) & each.case.gold for each in some)
        figures["injected something"] = share(bool(each.injected) for each in some)
        figures["sibling"] = share(bool(set(each.injected) & each.case.siblings) for each in some if each.case.siblings)
        figures["stale"] = share(bool(set(each.injected) & each.case.stale) for each in some if each.case.stale)
        found[kind] = figures
    return found


def query_figures(answers: list[Answer]) -> dict[str, Any]:
    ranked = [([ref for ref, _ in each.hits], each.case.gold) for each in answers if each.case.gold]
    found: dict[str, Any] = {"prompts": len(ranked)}
    for k in (1, 5, 10):
        found[f"any@{k}"] = share(bool(set(refs[:k]) & gold) for refs, gold in ranked)
    found["all@10"] = share(gold <= set(refs) for refs, gold in ranked)
    found["mrr"] = average(1 / (_rank(refs, gold) or float("inf")) for refs, gold in ranked)
    return found


def _rank(refs: list[str], wanted: set[str]) -> int | None:
    """The place of the first of these, from 1."""
    return next((place for place, ref in enumerate(refs, 1) if ref in wanted), None)


def query_by_kind(answers: list[Answer]) -> dict[str, dict[str, Any]]:
    kinds = sorted({answer.case.kind for answer in answers if answer.case.gold})
    return {kind: query_figures([each for each in answers if each.case.kind == kind]) for kind in kinds}


def supersession(answers: list[Answer]) -> dict[str, Any]:
    """How often what no longer holds comes before what replaced it, or is injected."""
    replaced = [each for each in answers if each.case.gold and each.case.stale]
    ended = [each for each in answers if each.case.stale and not each.case.gold]
    found: dict[str, Any] = {
        "superseded": len(replaced),
        "query: old above new": share(_is_before(each, each.case.stale) for each in replaced),
        "hook: old injected": share(bool(set(each.injected) & each.case.stale) for each in replaced),
        "hook: old without new": share(
            bool(set(each.injected) & each.case.stale) and not set(each.injected) & each.case.gold for each in replaced
        ),
    }
    for state, budget in sorted({key for each in replaced for key in each.contexts}):
        found[f"context {budget} {state}: old in it"] = share(
            bool(each.contexts[state, budget][0] & each.case.stale) for each in replaced if each.contexts
        )
    for kind in ("resolved", "expired"):
        found[f"hook: {kind} injected"] = share(
            bool(set(each.injected) & each.case.stale) for each in ended if each.case.kind == kind
        )
    return found


def _is_before(answer: Answer, others: set[str]) -> bool:
    """Whether one of these comes before every gold memory, or is found where none is."""
    refs = [ref for ref, _ in answer.hits]
    gold, other = _rank(refs, answer.case.gold), _rank(refs, others)
    return other is not None and (gold is None or other < gold)


def names(answers: list[Answer]) -> dict[str, Any]:
    def of(kind: str) -> list[Answer]:
        return [answer for answer in answers if answer.case.kind == kind]

    return {
        "swapped: the other above the right one": share(_is_before(each, each.case.siblings) for each in of("swapped")),
        "swapped: the other injected": share(bool(set(each.injected) & each.case.siblings) for each in of("swapped")),
        "typo: any@1": query_figures(of("typo")).get("any@1"),
        "typo: hook miss": share(not set(each.injected) & each.case.gold for each in of("typo")),
        "alias: any@5": query_figures(of("alias")).get("any@5"),
        "uncovered name: injected": share(bool(each.injected) for each in of("uncovered name")),
        "adversarial: evidence injected": share(
            bool(set(each.injected) & each.case.siblings) for each in of(ADVERSARIAL)
        ),
    }


def contexts(answers: list[Answer]) -> dict[str, dict[str, Any]]:
    """Share of cases with a gold memory in the context, beside the first hits of a search of the same size."""
    found: dict[str, dict[str, Any]] = {}
    asked = [each for each in answers if each.contexts]
    for budget in sorted({budget for each in asked for budget in each.first_hits}):
        by_search = share(bool(each.first_hits[budget] & each.case.gold) for each in asked)
        for state in STATES:
            in_context = share(bool(each.contexts[state, budget][0] & each.case.gold) for each in asked)
            found[f"{budget} {state}"] = {
                "context": in_context,
                "search": by_search,
                "difference": (in_context or 0.0) - (by_search or 0.0),
                "tokens": average(each.contexts[state, budget][1] for each in asked),
                "empty": share(not each.contexts[state, budget][0] for each in asked),
            }
    return found


def digests(found: list[Digest]) -> dict[str, Any]:
    """How often the digest at the start holds what the next session asks for."""
    cases = [(set(each.refs), case) for each in found for case in each.cases]
    figures: dict[str, Any] = {"holds what is asked for": share(bool(refs & case.gold) for refs, case in cases)}
    for name in ("wishes", "open grave findings", "asked for, of the last session"):
        figures[f"holds {name}"] = share(ref in each.refs for each in found for ref in each.groups[name])
    figures["tokens"] = average(each.tokens for each in found)
    for type in ("conversation", "decision", "finding", "learning", "preference", "artifact"):
        figures[f"of type {type}"] = average(each.types.get(type, 0) for each in found)
    return figures


def curve(answers: list[Answer], floors: Iterable[float] = FLOORS) -> dict[str, dict[str, Any]]:
    """What a floor of relevance would give: the first hits of `query` that are at least so relevant."""
    return {
        f"{floor:.2f}": injection(
            answers, lambda each: [ref for ref, relevance in each.hits[:_MOST_INJECTED] if relevance >= floor]
        )
        for floor in floors
    }
