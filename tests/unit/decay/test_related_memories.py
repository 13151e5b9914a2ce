"""Memories that decay together with those that they are related to (`decay.related`)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import smp_memory

POLICIES = pytest.mark.parametrize("policy", ["smp", "half-life", "boosted", "simple"])
NOW = datetime(2026, 6, 1, tzinfo=UTC)
OLD, NEW = "2026-01-01T00:00:00Z", "2026-05-31T00:00:00Z"


def opened(**decay: Any) -> smp_memory.SessionMemory:
    """A finding of January with a decision of May that resolves it, and one alone."""
    memory = smp_memory.open(":memory:", clock=lambda: NOW, config={"decay": decay, "track_access": False})
    session = memory.create_session("s", created=OLD)
    session.add_finding("No retry", created=OLD)
    session.add_finding("No limit", created=OLD)
    session.add_decision("Retry three times", created=NEW)
    session.relate("DEC-0001", "FIND-0001", "resolves")
    return session


@POLICIES
def test_related_memories_decay_alone_by_default(policy: str) -> None:
    session = opened(policy=policy)
    assert session.priority("FIND-0001") == session.priority("FIND-0002")


@POLICIES
def test_old_memory_is_as_fresh_as_the_newest_that_is_related_to_it(policy: str) -> None:
    session = opened(policy=policy, related=True)
    lonely = session.priority("FIND-0002")
    assert session.priority("FIND-0001") > lonely
    assert session.priority("FIND-0002") == opened(policy=policy).priority("FIND-0002")
    for hits in (session.query(types="finding"), session.query("No retry limit", types="finding")):
        found = {hit.id: hit.priority for hit in hits}
        assert found == {"FIND-0001": session.priority("FIND-0001"), "FIND-0002": lonely}


def test_use_of_one_counts_for_those_that_it_is_related_to() -> None:
    memory = smp_memory.open(":memory:", clock=lambda: NOW, config={"decay.related": True})
    session = memory.create_session("s", created=OLD)
    lately = "2026-05-20T00:00:00Z"
    for text in ("used", "beside it", "alone"):
        session.add_finding(text, created=lately)
    session.add("finding", {"finding": "related", "created": lately, "references": ["FIND-0001"]})
    before = session.priority("FIND-0004")
    session.get("FIND-0001")
    assert session.priority("FIND-0004") > before
    assert session.priority("FIND-0003") == before


def test_deleted_memory_counts_for_nobody() -> None:
    session = opened(related=True)
    session.delete("DEC-0001")
    assert session.priority("FIND-0001") == session.priority("FIND-0002")


def test_memory_that_an_agent_may_not_see_counts_for_nobody_there() -> None:
    session = opened(related=True)
    hidden = session.agent("veritas").add_finding("Secret", visibility="private", references=["FIND-0002"])
    assert session.priority("FIND-0002") > session.agent("architect").priority("FIND-0002")
    assert session.agent("veritas").priority(hidden.id) > 0


def test_compaction_keeps_what_is_related_to_something_fresh() -> None:
    def removed(related: bool) -> list[str]:
        config = {"decay": {"related": related, "policy": "half-life"}}
        memory = smp_memory.open(":memory:", clock=lambda: NOW, config=config)
        session = memory.create_session("s", created=OLD)
        session.add_decision("New", created=NEW)
        session.add_learning("Old and related " * 20, created=OLD, references=["DEC-0001"])
        session.add_learning("Old and alone " * 20, created=OLD)
        return session.compact(1 << 30, dry_run=True).removed

    assert removed(False) == ["LEARN-0001", "LEARN-0002"]
    assert removed(True) == ["LEARN-0002"]
