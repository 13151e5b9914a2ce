"""Labelled stores for the recall benchmark: generated projects and conversations of the development data, written through the API.

A `LabelledStore` writes its memories into an empty store and returns its cases: prompts with the refs (`session/ID`) that they need.

Generated projects: `recall_projects.py`. Development data (`locomo-dev.json`, `longmemeval-pool-dev.json`; see `retrieval.py` for
where they lie): questions with gold turns need memory; questions of other conversations and of the other set need none. Adversarial
questions of LoCoMo ask about the wrong one of two people; they are counted by themselves.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

import recall_projects
import retrieval
from recall_projects import NEAR, NEED, NONE, OTHER_WORDS, UNRELATED, WORDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from recall_projects import Project

ASKED, OTHER, ADVERSARIAL = "asked", "asked elsewhere", "adversarial"
NEEDS_MEMORY = frozenset((*NEED, ASKED))
NEEDS_NONE = frozenset((*NONE, OTHER))
GROUPS = {"names or words shared": frozenset((*WORDED, ASKED)), "in other words": frozenset(OTHER_WORDS)}
NONE_GROUPS = {"unrelated": frozenset((*UNRELATED, OTHER)), "near": frozenset(NEAR)}


@dataclass
class Case:
    """One prompt with its labels: refs of memories."""

    text: str
    kind: str
    at: str
    gold: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    siblings: set[str] = field(default_factory=set)
    neutral: set[str] = field(default_factory=set)


@dataclass
class LabelledStore:
    """Something to be written to an empty store; `write` returns its cases."""

    name: str
    write: Callable[[Any], list[Case]]


# --- Generated projects --------------------------------------------------------------------------------------------


def generated(part: str, most: int | None, noise: int = 0) -> Iterator[LabelledStore]:
    """The projects of a part; with `noise`, each store has so many memories about other matters, too."""
    for project in recall_projects.projects(part, most):
        yield LabelledStore(project.name, lambda memory, project=project: _write_project(memory, project, noise))


def _write_project(memory: Any, project: Project, noise: int) -> list[Case]:
    if noise:
        _write_noise(memory, project.domain, noise)
    refs: dict[int, str] = {}
    for place, memories in enumerate(project.sessions):
        session = memory.create_session(f"{project.name}-{place + 1}", created=memories[0].when.isoformat())
        items = [(each.type, {**each.fields, "created": each.when.isoformat()}) for each in memories]
        for each, record in zip(memories, session.add_many(items), strict=True):
            refs[each.number] = record.ref
    for each in project.memories:
        _settle(memory, each, refs)
    at = recall_projects.ASKED_AT.isoformat()

    def named(numbers: set[int]) -> set[str]:
        return {refs[number] for number in numbers}

    return [
        Case(each.text, each.kind, at, named(each.gold), named(each.stale), named(each.siblings), named(each.neutral))
        for each in project.prompts
    ]


def _settle(memory: Any, each: recall_projects.Memory, refs: dict[int, str]) -> None:
    """Store what became of a memory: that it was resolved, or what it supersedes."""
    session, _, id = refs[each.number].partition("/")
    if each.resolution is not None:
        memory.session(session).resolve(id, each.resolution)
    if each.supersedes is not None:
        memory.session(session).relate(id, refs[each.supersedes], "supersedes")


def _write_noise(memory: Any, domain: str, count: int) -> None:
    items = list(recall_projects.noise(count, domain))
    day = recall_projects.FIRST_DAY
    sessions = max(count // 500, 1)
    for number in range(sessions):
        when = (day + timedelta(days=number % 250)).isoformat()
        session = memory.create_session(f"noise-{number + 1}", created=when)
        session.add_many([(type, {**fields, "created": when}) for type, fields in items[number::sessions]])


# --- The development data ------------------------------------------------------------------------------------------


def locomo(folder: str, most: int | None) -> Iterator[LabelledStore]:
    """Each conversation with its own questions, and as many of the other conversations and the other set."""
    conversations = list(retrieval.locomo(folder))
    elsewhere = [question for each in retrieval.longmemeval(folder) for question in each.questions]
    for place, conversation in enumerate(conversations):
        others = [question for each in conversations if each is not conversation for question in each.questions]
        yield _of_conversation(f"locomo-{place + 1}", conversation, [others, elsewhere], most)


def longmemeval(folder: str, most: int | None) -> Iterator[LabelledStore]:
    """The pool with its own questions, and as many about the conversations of LoCoMo."""
    elsewhere = [question for each in retrieval.locomo(folder) for question in each.questions]
    for conversation in retrieval.longmemeval(folder):
        yield _of_conversation("longmemeval", conversation, [elsewhere], most)


def _of_conversation(
    name: str, conversation: retrieval.Conversation, others: list[list[retrieval.Question]], most: int | None
) -> LabelledStore:
    return LabelledStore(name, lambda memory: _write_conversation(memory, name, conversation, others, most))


def _write_conversation(
    memory: Any,
    name: str,
    conversation: retrieval.Conversation,
    others: list[list[retrieval.Question]],
    most: int | None,
) -> list[Case]:
    places = retrieval.write(memory, conversation)
    refs = {place: f"{session}/{id}" for (session, id), place in places.items()}
    rng = random.Random(name)
    questions = _sample(rng, conversation.questions, most)
    cases = [_asked_case(each, refs) for each in questions]
    at = max(each.at for each in conversation.questions)
    for each in others:
        wanted = max(len(questions) // len(others), 1)
        cases += [Case(question.text, OTHER, at) for question in _sample(rng, each, wanted)]
    return cases


def _asked_case(question: retrieval.Question, refs: dict[tuple[str, int], str]) -> Case:
    gold = {refs[place] for place in question.gold["turn"]}
    if question.kind == "adversarial":
        return Case(question.text, ADVERSARIAL, question.at, siblings=gold)
    return Case(question.text, ASKED, question.at, gold)


def _sample(rng: random.Random, items: Iterable[Any], most: int | None) -> list[Any]:
    known = list(items)
    return known if most is None or len(known) <= most else rng.sample(known, most)
