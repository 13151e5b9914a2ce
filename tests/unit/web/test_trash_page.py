"""The page Trash: what was deleted, by whom and why, until when; restoring several; what cannot be restored."""

from __future__ import annotations

import re

import pytest

from smp_memory.integrations.web.pages import memory_removal
from smp_memory.memory import Memory
from smp_memory.model.session_info import ARCHIVED
from tests.unit.web.inspector_client import Clock, InspectorClient


def _refs(html: str) -> list[str]:
    return re.findall(r'name="memory:([^"]+)"', html)


def test_empty_trash_says_so(client: InspectorClient) -> None:
    page = client.get("/trash")
    assert "No deleted memory" in page.text
    assert "No deleted session" in page.text


def test_deleted_memory_is_shown_with_who_when_why_and_until_when(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    session = memory.create_session("review")
    session.delete(session.add_finding("A mistake", severity="low").id, reason="wrong project", by="ada")
    clock.pass_days(1)
    page = client.get("/trash")
    for expected in ("A mistake", "finding review/FIND-0001", "1 day ago", "by ada: wrong project", "17 Dec"):
        assert expected in page.text, expected
    assert 'formaction="/memory/review/FIND-0001/restore"' in page.html
    assert 'href="/memory/review/FIND-0001/erase"' in page.html
    clock.pass_days(40)
    assert "until the next purge" in client.get("/trash").text


def test_memory_that_is_never_purged_by_itself_is_said_to_stay(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review", config={"lifecycle.auto_purge": False})
    session.delete(session.add_decision("x").id)
    assert "until it is purged" in client.get("/trash").text


def test_latest_deletion_comes_first_whatever_was_written_first(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    session = memory.create_session("review")
    ids = [session.add_decision(f"Decision {number}").id for number in range(3)]
    for id in (ids[1], ids[2], ids[0]):
        clock.pass_days(0.1)
        session.delete(id)
    assert _refs(client.get("/trash").html) == ["review/DEC-0001", "review/DEC-0003", "review/DEC-0002"]


def test_chosen_memories_of_several_sessions_are_restored_and_deleted_again_by_undo(
    memory: Memory, client: InspectorClient
) -> None:
    one, two = memory.create_session("one"), memory.create_session("two")
    for session in (one, two):
        session.delete([session.add_decision("a").id, session.add_decision("b").id])
    page = client.done("/trash/restore", **{"memory:one/DEC-0001": "1", "memory:two/DEC-0002": "1"})
    assert "Restored 2 memories." in page.text
    assert sorted(_refs(page.html)) == ["one/DEC-0002", "two/DEC-0001"]
    assert not one.find("DEC-0001").deleted  # type: ignore[union-attr]
    assert one.history("DEC-0001")[-1]["by"] == "ada"
    client.undo(page)
    assert one.find("DEC-0001").deleted  # type: ignore[union-attr]
    assert two.find("DEC-0002").deleted  # type: ignore[union-attr]


def test_failure_to_restore_is_said_and_the_rest_is_restored(memory: Memory, client: InspectorClient) -> None:
    one, two = memory.create_session("one"), memory.create_session("two")
    for session in (one, two):
        session.delete(session.add_decision("a").id)
    memory.archive_session("two")
    page = client.done(
        "/trash/restore", **{"memory:one/DEC-0001": "1", "memory:two/DEC-0001": "1", "memory:never/X-1": "1"}
    )
    assert "Restored 1 memory." in page.text
    assert "Not in session two:" in page.text
    assert "Not in session never:" in page.text
    assert memory.store.sessions(ARCHIVED, id="two")


def test_restoring_without_a_choice_changes_nothing_and_says_so(client: InspectorClient) -> None:
    assert "Nothing was selected" in client.done("/trash/restore").text


def test_restoring_needs_the_token_of_forms(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("one")
    session.delete(session.add_decision("a").id)
    assert client.post("/trash/restore", token="wrong", **{"memory:one/DEC-0001": "1"}).status == 403
    assert session.find("DEC-0001").deleted  # type: ignore[union-attr]


@pytest.mark.parametrize("most_sorted", [5, 10_000])
def test_trash_is_paged_and_each_memory_is_on_one_page(
    memory: Memory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch, most_sorted: int
) -> None:
    monkeypatch.setattr(memory_removal, "MOST_SORTED", most_sorted)
    session = memory.create_session("review")
    count = memory_removal.PAGE_MEMORIES + 7
    with session.transaction() as writes:
        for number in range(count):
            writes.add_decision(f"Decision {number}")
    session.delete([f"DEC-{number:04}" for number in range(1, count + 1)])
    first, second = client.get("/trash"), client.get(f"/trash?offset={memory_removal.PAGE_MEMORIES}")
    assert f"{count} deleted memories" in first.text
    assert len(_refs(first.html)) == memory_removal.PAGE_MEMORIES
    assert len(set(_refs(first.html) + _refs(second.html))) == count
    assert ("too many to sort by deletion" in first.text) == (most_sorted == 5)


def test_filter_by_session(memory: Memory, client: InspectorClient) -> None:
    for name in ("one", "two"):
        session = memory.create_session(name)
        session.delete(session.add_decision("a").id)
    assert _refs(client.get("/trash?session=two").html) == ["two/DEC-0001"]
    assert client.get("/trash?session=never").status == 200


def test_hostile_text_and_reason_are_escaped(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.delete(session.add_decision("<script>alert(1)</script>").id, reason="<img src=x>", by="<b>eve</b>")
    html = client.get("/trash").html
    for mark in ("<script>alert", "<img src=x", "<b>eve"):
        assert mark not in html


def test_page_says_what_cannot_be_restored(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("away").add_turn("user", "a")
    memory.archive_session("away")
    page = client.get("/trash")
    assert "gone for good" in page.text
    assert "deleted in 1 archived session are not listed here" in page.text


def test_several_deleted_sessions_of_one_name_are_explained(memory: Memory, client: InspectorClient) -> None:
    for _ in range(2):
        memory.create_session("twice").add_turn("user", "a")
        memory.delete_session("twice")
    page = client.get("/trash")
    assert "2 deleted sessions" in page.text
    assert "Restore brings back the one that was deleted last" in page.text


def test_column_that_would_say_the_same_in_every_row_is_one_sentence(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    session = memory.create_session("one")
    for name in "ab":
        session.delete(session.add_decision(name).id)
    page = client.get("/trash")
    assert "All of these are kept until" in page.text
    assert 'scope="col">Kept' not in page.html
    clock.pass_days(2)
    session.delete(session.add_decision("c").id)
    page = client.get("/trash")
    assert "All of these are kept until" not in page.text
    assert 'scope="col">Kept' in page.html
