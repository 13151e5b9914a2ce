"""An explanation names every condition of a query that a memory does not meet."""

from __future__ import annotations

from typing import Any

import pytest

import smp_memory
from smp_memory.errors import InvalidQuery, MemoryNotFound
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.search.explanation import explain
from smp_memory.testing import FrozenClock


@pytest.fixture
def memory() -> smp_memory.Memory:
    memory = smp_memory.open(":memory:", clock=FrozenClock(), config={"search.semantic": "off"})
    session = memory.create_session("review")
    session.add_finding("The login draft has no rate limit", severity="high", author="ada", tags=["auth"])
    session.add_finding("A private login", author="architect", visibility="private")
    session.add_finding("An old login", valid_until="2020-01-01")
    session.add_finding("A removed login")
    session.delete("FIND-0004", by="ada")
    memory.create_session("other")
    return memory


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"types": "decision"}, "type is finding, the query asks for decision"),
        ({"tags": ["db", "ui"]}, "has no tag db or ui"),
        ({"all_tags": ["auth", "db"]}, "has no tag db"),
        ({"not_tags": "auth"}, "has the tag auth, which the query excludes"),
        ({"agents": "bob"}, "written by ada, the query asks for bob"),
        ({"topic": "login"}, "has neither the topic nor the tag login"),
        ({"sessions": ["other"]}, "in session review, the query asks for other"),
        ({"pinned": True}, "is not pinned"),
        ({"min_importance": 0.5}, "has no importance, the query asks for 0.5 or more"),
        ({"where": {"severity": "low"}}, "where severity equals 'low' does not hold: severity is 'high'"),
        ({"related_to": "review/FIND-0003"}, "is not related to review/FIND-0003 within 1 step"),
        ({"text": "login -draft"}, "excluded by -draft"),
        ({"text": '"limit rate"'}, 'does not have the phrase "limit rate"'),
        ({"text": "zebra*"}, "has no word like zebra*"),
        ({"text": "elephants"}, "shares no word with the query"),
        ({"text": "rate limit", "min_relevance": 1.0}, "below min_relevance 1: "),
        ({"min_priority": 1.0}, "below min_priority 1: "),
    ],
)
def test_condition_that_is_not_met_is_named(memory: smp_memory.Memory, options: dict[str, Any], reason: str) -> None:
    found = memory.explain("review/FIND-0001", **options)
    assert not found.found
    assert [each for each in found.reasons if each.startswith(reason)], found.reasons
    assert found.score is not None


def test_memory_that_is_found_has_its_rank_and_score(memory: smp_memory.Memory) -> None:
    found = memory.explain("review/FIND-0001", "rate limit")
    assert (found.found, found.rank, found.is_on_page, found.reasons) == (True, 1, True, [])
    hit = memory.query("rate limit", track_access=False)[0]
    assert (found.score, found.relevance, found.parts) == (hit.score, hit.relevance, hit.explain)


def test_times_deletions_and_validity_are_reasons(memory: smp_memory.Memory) -> None:
    assert memory.explain("review/FIND-0003", "login").reasons == ["expired: valid until 2020-01-01"]
    assert memory.explain("review/FIND-0004", "login").reasons[0].startswith("deleted by ada on ")
    assert ", before 2090-01-01T" in memory.explain("review/FIND-0001", since="2090-01-01").reasons[0]
    assert ", not before 2020-01-0" in memory.explain("review/FIND-0001", until="2020-01-01").reasons[0]


def test_memory_behind_the_page_is_found_with_its_rank(memory: smp_memory.Memory) -> None:
    found = memory.explain("review/FIND-0001", limit=1)
    assert (found.found, found.is_on_page) == (True, False)
    assert found.reasons == [f"rank {found.rank}, the page ends at 1"]


def test_owner_learns_that_an_agent_does_not_see_a_memory(memory: smp_memory.Memory) -> None:
    assert memory.explain("review/FIND-0002", "login", viewer="dev").reasons == ["not visible to agent dev"]
    assert memory.explain("review/FIND-0002", "login", viewer="architect").found


def test_hidden_memory_does_not_exist_in_a_scope_with_a_viewer(memory: smp_memory.Memory) -> None:
    own = memory.scope
    scope = Scope(own.store, None, own.config, own.clock, viewer=Viewer("dev"))
    with pytest.raises(MemoryNotFound) as hidden:
        explain(scope, "login", {}, "review/FIND-0002")
    with pytest.raises(MemoryNotFound) as missing:
        explain(scope, "login", {}, "review/FIND-0099")
    assert hidden.value.message.replace("0002", "") == missing.value.message.replace("0099", "")


def test_archived_memory_is_explained_by_its_archive(memory: smp_memory.Memory) -> None:
    memory.archive_session("review")
    assert "in the archived session review" in memory.explain("review/FIND-0001", "login").reasons[0]
    found = memory.explain("review/FIND-0001", "rate limit", include_archived=True)
    assert found.found
    assert found.rank == 1
    assert [each.session for each in memory.archived_sessions()] == ["review"]


@pytest.mark.parametrize("wrong", ["FIND-0001", "", None, 7])
def test_wrong_reference_is_named(memory: smp_memory.Memory, wrong: Any) -> None:
    with pytest.raises(InvalidQuery, match="session/ID"):
        memory.explain(wrong, "login")
