"""The page Review: proposals with the turn around them; keep, edit, drop and undo; what was not looked at."""

from __future__ import annotations

import re

import pytest

from smp_memory.integrations.web.pages import review
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from tests.unit.web.inspector_client import Clock, InspectorClient

LOCK = "The root cause was a stale lock file of the old process."
REDIS = "Let's go with Redis for the cache."


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    session = memory.create_session("shop", title="Cache of the shop")
    session.add_turn("user", f"I read it. {REDIS} Please never push to main.")
    session.add_turn("assistant", f"Two tests failed.\n\n{LOCK}\n\nAll pass now.", author="claude-code")
    return session


def actions(html: str) -> list[str]:
    return re.findall(r'action="(/review/[^"]+)/keep"', html)


def opened(session: SessionMemory) -> list[tuple[str, str]]:
    return [(each.turn, each.type) for each in session.proposals()]


ALL = [("TURN-0002", "finding"), ("TURN-0001", "decision"), ("TURN-0001", "preference")]
FINDING, PREFERENCE = "/review/shop/TURN-0002/finding", "/review/shop/TURN-0001/preference"


def test_store_without_proposals_says_so(client: InspectorClient) -> None:
    assert "Nothing to write down was found." in client.get("/review").text


def test_proposals_are_shown_with_the_turn_around_them(session: SessionMemory, client: InspectorClient) -> None:
    page = client.get("/review")
    assert actions(page.html) == [f"/review/shop/{turn}/{type}" for turn, type in ALL]
    assert f"<mark>{LOCK}</mark>" in page.html
    for expected in ("3 proposals", "Two tests failed.", "All pass now.", "claude-code", "in “Cache of the shop”"):
        assert expected in page.text, expected
    assert 'href="/review" aria-current="page"' in client.get("/review").html


def test_looking_at_proposals_counts_as_no_use(memory: Memory, session: SessionMemory, client: InspectorClient) -> None:
    client.get("/review")
    memory.sync()
    assert "0 of 2 memories were used" in client.get("/analytics").text


def test_kept_proposal_is_stored_in_the_name_of_the_person_and_undo_proposes_it_again(
    session: SessionMemory, client: InspectorClient
) -> None:
    page = client.done(f"{FINDING}/keep")
    assert "Kept as shop/FIND-0001." in page.text
    kept = session.get("FIND-0001")
    assert (kept.text, kept.confidence, kept.author, kept.turn_ref) == (LOCK, "inferred", "ada", "TURN-0002")
    assert opened(session) == ALL[1:]
    assert "FIND-0001 is in the trash" in client.undo(page).text
    assert opened(session) == ALL


def test_edited_proposal_is_kept_with_the_type_and_text_of_the_form(
    session: SessionMemory, client: InspectorClient
) -> None:
    form = client.get(FINDING)
    assert form.value("text") == LOCK
    page = client.done(f"{FINDING}/keep", type="learning", text="A killed process leaves its lock file.\r\n")
    assert "Kept as shop/LEARN-0001." in page.text
    kept = session.get("LEARN-0001")
    assert (kept.text, kept.confidence) == ("A killed process leaves its lock file.", None)
    assert opened(session) == ALL[1:]
    client.undo(page)
    assert opened(session) == ALL


@pytest.mark.parametrize(("given", "said"), [({"text": " "}, "text: must not be empty"), ({"type": "artifact"}, "cannot be kept")])  # fmt: skip
def test_wrong_value_is_shown_in_the_form_and_nothing_is_written(
    session: SessionMemory, client: InspectorClient, given: dict[str, str], said: str
) -> None:
    answer = client.post(f"{FINDING}/keep", **{"text": "x", **given})
    assert answer.status == 400
    assert said in answer.text
    assert opened(session) == ALL


def test_dropped_proposal_goes_alone_and_undo_brings_it_back(session: SessionMemory, client: InspectorClient) -> None:
    page = client.done(f"{PREFERENCE}/drop")
    assert opened(session) == ALL[:2]
    client.undo(page)
    assert opened(session) == ALL


@pytest.mark.parametrize("path", ["/review/shop/TURN-0002/decision", "/review/shop/TURN-0009/finding", "/review/nowhere/TURN-0002/finding", "/review/shop/../x"])  # fmt: skip
def test_address_of_no_proposal_is_an_error(session: SessionMemory, client: InspectorClient, path: str) -> None:
    assert client.get(path).status in (400, 404)
    assert client.post(f"{path}/keep").status in (400, 404)
    assert opened(session) == ALL


@pytest.mark.parametrize("action", ["keep", "drop"])
def test_form_without_its_token_changes_nothing(session: SessionMemory, client: InspectorClient, action: str) -> None:
    assert client.post(f"{FINDING}/{action}", token="wrong").status == 403
    assert opened(session) == ALL


def test_keeping_twice_stores_one_memory(session: SessionMemory, client: InspectorClient) -> None:
    client.done(f"{FINDING}/keep")
    client.done(f"{FINDING}/keep")
    assert [each.id for each in session.records("finding")] == ["FIND-0001"]


def test_page_has_a_limit_and_says_that_more_follow(
    memory: Memory, session: SessionMemory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "PAGE_PROPOSALS", 2)
    page = client.get("/review")
    assert len(actions(page.html)) == 2
    assert "More follow when these are done." in page.text


def test_sessions_that_were_not_looked_at_are_counted_and_linked(
    memory: Memory, session: SessionMemory, client: InspectorClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.pass_days(1)
    memory.create_session("later").add_turn("user", "We decided to use Postgres for the orders.")
    monkeypatch.setattr(review, "PAGE_SECONDS", -1.0)
    page = client.get("/review")
    assert actions(page.html) == ["/review/later/TURN-0001/decision"]
    assert "1 older session was not looked at." in page.text
    older = client.get("/review?after=1")
    assert len(actions(older.html)) == 3
    assert "not looked at" not in older.text


def test_session_for_which_proposals_are_off_is_counted(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("imported", config={"proposals.enabled": False}).add_turn("user", REDIS)
    page = client.get("/review")
    assert actions(page.html) == []
    assert "1 session proposes nothing: proposals.enabled is off." in page.text


def test_hostile_turn_is_escaped(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("evil", title="<b>title</b>")
    session.add_turn("user", "Decided: <script>alert(1)</script> we use \u202e Redis for all.")
    page = client.get("/review")
    assert "<script>alert" not in page.html
    assert "<b>title" not in page.html
    assert "\u202e" not in page.html
