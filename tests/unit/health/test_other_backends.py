"""The checks in `smp_memory.health` find the same faults in a store that is not in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.health.doctor import CHECKS
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive
from tests.unit.health.sample_store import TOKEN, fill

WITHOUT_REDACTION = {"privacy": {"redaction": {"enabled": False}}}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[smp_memory.Memory]:
    register_backend(NAME, open_naive)
    with smp_memory.open(f"{NAME}://{tmp_path / 'store.db'}", config=WITHOUT_REDACTION) as memory:
        fill(memory)
        yield memory


def test_healthy_store_without_files_has_no_issues(memory: smp_memory.Memory) -> None:
    report = memory.doctor()
    assert report.findings == []
    assert (report.sessions, report.memories) == (1, 8)
    assert {check.name for check in report.checks} == {check.name for check in CHECKS}


def test_faults_in_the_content_are_found_without_files(memory: smp_memory.Memory) -> None:
    session = memory.session("review")
    session.add_finding("The reset link never expires", references=["DEC-0099"])
    session.add_learning(f"The deploy token is {TOKEN}")
    session.add_artifact("copy.md", "The same plan, word for word, twice")
    session.add_artifact("copy2.md", "The same plan, word for word, twice")
    found = {issue.check: issue for issue in memory.doctor().findings}
    assert set(found) == {"references", "secrets", "duplicates"}
    assert "DEC-0099" in found["references"].message
    assert found["secrets"].ids == ("LEARN-0002",)
    assert TOKEN not in str(memory.doctor().to_dict())
    assert len(found["duplicates"].ids) == 2


def test_fixes_of_files_are_not_offered_without_files(memory: smp_memory.Memory) -> None:
    report = memory.doctor(fix=True)
    assert report.fixed == []
    assert report.ok
