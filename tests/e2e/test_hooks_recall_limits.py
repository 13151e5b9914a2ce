"""Memories that are not injected at a prompt do not use up the limit of those that are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from tests.e2e.hook_host import Host, Project

ASKED = "how are the nightly backups of the orders database made?"
SHARED = "The orders database is PostgreSQL with nightly backups"
MANY = 60


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "shop")
    with project.open() as memory:
        session = memory.create_session("earlier")
        for number in range(20):
            session.add_decision(f"Unrelated choice number {number} on topic{number}", author="ada")
        session.add_decision(SHARED, author="ada")
    yield project
    assert project.failures == []


def add_private(session: smp_memory.SessionMemory, number: int) -> None:
    session.agent("alice").add_learning(f"orders database backups nightly hidden {number}", visibility="private")


def add_settled(session: smp_memory.SessionMemory, number: int) -> None:
    found = session.add_finding(f"orders database backups nightly hidden {number}", severity="low", author="ada")
    session.resolve(found.id, "done")


@pytest.mark.parametrize("add", [add_private, add_settled], ids=["private", "settled"])
@pytest.mark.parametrize("count", [1, MANY])
def test_memory_is_injected_among_many_hidden_or_settled_ones(project: Project, add: object, count: int) -> None:
    assert callable(add)
    with project.open() as memory:
        for number in range(count):
            add(memory.session("earlier"), number)
        memory.reindex()  # a busy machine may not make all vectors while a prompt waits
    said = Host(project).prompt(ASKED)
    assert SHARED in said
    assert "hidden" not in said


def test_memory_is_injected_among_many_that_were_injected_before(project: Project) -> None:
    with project.open() as memory:
        memory.set_config("hooks.prompt_tokens", 400)
        memory.set_config("recall.min_relevance", 0.0)  # so many alike: none of them is likely to be the answer
        for number in range(MANY):
            memory.session("earlier").add_decision(f"orders database backups nightly rule {number}", author="ada")
    host = Host(project)
    texts = [host.prompt(ASKED) for _ in range(12)]
    lines = [line for text in texts for line in text.splitlines() if "nightly rule" in line]
    assert len(lines) == len(set(lines)) > 20
