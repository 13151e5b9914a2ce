"""A prompt gets what holds now: the successor of what matches it, and nothing that expired, was settled or is outdated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.hook_host import Host, Project

ASKED = "where does the orders database store the invoices?"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "shop")
    with project.open() as memory:
        session = memory.create_session("earlier")
        for number in range(20):
            session.add_decision(f"Unrelated choice number {number} on topic{number}", author="ada")
    yield project
    assert project.failures == []


def test_a_prompt_gets_the_successor_of_the_memory_that_matches(project: Project) -> None:
    with project.open() as memory:
        session = memory.session("earlier")
        old = session.add_decision("The orders database stores invoices in Bremen", created="2026-01-01T00:00:00Z")
        session.add_decision("Hamburg has taken all of it", supersedes=old.id, author="ada")
    said = Host(project).prompt(ASKED)
    assert "Hamburg" in said
    assert "Bremen" not in said


def test_a_prompt_gets_nothing_that_has_expired_or_does_not_hold_yet(project: Project) -> None:
    with project.open() as memory:
        session = memory.session("earlier")
        session.add_decision("The orders database stores invoices in Bremen", valid_until="2020-01-01")
        session.add_decision("The orders database stores invoices in Kiel", valid_from="2999-01-01")
        session.add_decision("The orders database stores invoices in Hamburg", valid_until="2999-01-01")
    said = Host(project).prompt(ASKED)
    assert "Hamburg" in said
    assert "valid until 2999-01-01" in said
    assert "Bremen" not in said
    assert "Kiel" not in said


def test_a_prompt_gets_the_newer_of_two_values(project: Project) -> None:
    with project.open() as memory:
        session = memory.session("earlier")
        session.add_decision("The orders database stores invoices for 30 days", created="2026-01-01T00:00:00Z")
        session.add_decision("The orders database now stores invoices for 90 days", created="2026-02-01T00:00:00Z")
    said = Host(project).prompt(ASKED)
    assert "90 days" in said
    assert "30 days" not in said


def test_a_prompt_gets_no_turn_that_repeats_a_deleted_memory(project: Project) -> None:
    with project.open() as memory:
        session = memory.session("earlier")
        session.add_turn("user", "The orders database stores the invoices in Bremen, all of them.")
        old = session.add_decision("The orders database stores the invoices in Bremen.")
    said = Host(project).prompt(ASKED)
    assert said.count("Bremen") == 1
    with project.open() as memory:
        memory.session("earlier").delete(old.id)
    assert "Bremen" not in Host(project).prompt(ASKED)
