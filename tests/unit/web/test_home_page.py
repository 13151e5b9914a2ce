"""The first page: what happened, what waits for a person, how many calls it takes, and what a client sees of it."""

from __future__ import annotations

import re

import pytest
from starlette.datastructures import QueryParams

import smp_memory
from smp_memory.integrations.web.pages.home import home_page
from smp_memory.integrations.web.request import Inspector, PageRequest
from smp_memory.memory import Memory
from smp_memory.model.told_log import LOG, ToldEvent, ToldMemory, note_told
from tests.security.test_client_store import limited
from tests.unit.web.inspector_client import Clock, InspectorClient, port_calls


def _group(html: str, name: str) -> str:
    """The part of the page about one kind of event; empty if it is not there."""
    found = re.search(rf'<div class="happened" id="{name}">.*?</div>\n', html, re.DOTALL)
    return found[0] if found else ""


def test_empty_store_says_what_to_do_first(client: InspectorClient) -> None:
    page = client.get("/")
    assert page.status == 200
    for expected in ("Nothing is remembered here yet", "smp install", "smp add decision", "smp import"):
        assert expected in page.text


def test_events_of_the_week_are_counted_and_linked(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    session = memory.create_session("review")
    old = session.add_decision("Own passwords")
    open_finding = session.add_finding("Order ids can be guessed", severity="critical")
    settled = session.add_finding("No rate limit", severity="high")
    long_settled = session.add_finding("Slow start", severity="low")
    session.resolve(long_settled.id, "Cached")
    dropped = session.add_learning("Builds are slow")
    clock.pass_days(30)
    assert not any(_group(client.get("/").html, name) for name in ("decision", "finding", "resolved", "deleted"))
    for number in range(4):
        session.add_decision(f"Decision {number}")
    session.add_decision("Use OAuth", supersedes=old.id)
    session.resolve(settled.id, "Five attempts a minute")
    session.delete(dropped.id)
    html = client.get("/").html
    decisions = _group(html, "decision")
    assert '<span class="count">5</span>' in decisions
    assert decisions.count("<li") == 3
    assert 'href="/search?type=decision&amp;time=last+7+days&amp;sort=newest"' in decisions
    assert "No rate limit" in _group(html, "resolved")
    assert "Slow start" not in _group(html, "resolved")
    assert "Use OAuth" in _group(html, "superseding")
    assert '<span class="count">1</span>' in _group(html, "superseding")
    assert 'href="/trash"' in _group(html, "deleted")
    assert "Builds are slow" in _group(html, "deleted")
    page = client.get("/")
    assert "Open findings: 1 critical 1 Order ids can be guessed" in page.text
    assert f"/memory/review/{open_finding.id}" in page.html


def test_all_memories_of_a_group_are_shown_when_asked_for(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    for number in range(8):
        session.resolve(session.add_finding(f"Finding {number}", severity="low").id, "done")
    assert _group(client.get("/").html, "resolved").count("<li") == 3
    assert 'href="/?all=resolved#resolved"' in client.get("/").html
    assert _group(client.get("/?all=resolved").html, "resolved").count("<li") == 8


def test_deleted_memories_do_not_count(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_decision("Use OAuth")
    session.delete(session.add_finding("typed by mistake").id)
    memory.create_session("other").add_decision("Use Redis")
    page = client.get("/")
    assert "2 memories in 2 sessions." in page.text
    assert "1 memory, " in page.text.partition("Sessions of the last day")[2]
    assert "2 memories, " not in page.text


def test_resolved_and_deleted_memories_show_when_that_happened(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    session = memory.create_session("review")
    finding = session.add_finding("No rate limit", severity="high")
    dropped = session.add_decision("Use Tailwind")
    clock.pass_days(3)
    session.resolve(finding.id, "Five attempts a minute")
    session.delete(dropped.id)
    clock.pass_days(1)
    html = client.get("/").html
    for name in ("resolved", "deleted"):
        assert "1 day ago" in _group(html, name)
    assert "4 days ago" in _group(html, "finding")


def test_sessions_of_the_last_day_have_title_and_authors(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    memory.create_session("old", title="Long ago").add_turn("user", "Hello")
    clock.pass_days(2)
    memory.create_session("claude-code-2026-11-19-5f0c1a7e").add_turn("user", "Fix the login", author="ada")
    alive = client.get("/").html.split('id="alive"')[1].split("</section>")[0]
    assert "Fix the login" in alive
    assert ">5f0c1a7e<" in alive
    assert "ada" in alive
    assert "Long ago" not in alive


def test_need_for_a_decision_is_linked_and_else_one_line_says_so(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("shop")
    session.add_decision("Use OAuth")
    known = "Nothing is known to wait for you. Health has not been checked yet: Check now ."
    assert known in client.get("/").text
    client.get("/health?check=quick")
    assert "Nothing is known to wait for you. The quick check left out all or parts of" in client.get("/").text
    client.get("/health?check=full")
    assert "Nothing waits for you. Health was checked" in client.get("/").text
    memory.create_session("talk").add_turn("user", "I read it. Let's go with Redis for the cache.")
    other = InspectorClient(memory)  # another inspector: what waits may be half a minute old
    page = other.get("/")
    assert "Nothing " not in page.text
    assert 'href="/review"' in page.html.split('id="needs"')[1].split("</section>")[0]


def test_write_after_the_check_and_sessions_without_search_for_proposals_are_said(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    for number in range(4):
        memory.create_session(f"s{number}").add_decision("Use OAuth")
    client.get("/health?check=full")
    clock.pass_days(1)
    known = "Nothing is known to wait for you. Proposals were looked for in 3 of 4 sessions: Review ."
    assert known in client.get("/").text
    memory.session("s1").add_decision("Use Redis")
    assert "Memories were written since health was checked: Check again ." in client.get("/").text


def test_finding_that_was_resolved_earlier_does_not_count_as_resolved_when_it_is_changed(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    session = memory.create_session("review")
    early, late = session.add_finding("No rate limit"), session.add_finding("Order ids can be guessed")
    session.resolve(early.id, "Five attempts a minute")
    clock.pass_days(30)
    session.update(early.id, tags=["login"])
    session.resolve(late.id, "Random ids")
    shown = _group(client.get("/").html, "resolved")
    assert "Order ids can be guessed" in shown
    assert "No rate limit" not in shown


@pytest.mark.parametrize("resolution", [None, "done", {"resolved_at": "<b>yesterday"}, {"resolved_at": 7}])
def test_closed_finding_without_a_time_of_its_resolution_is_not_called_resolved(
    resolution: object, memory: Memory, client: InspectorClient
) -> None:
    session = memory.create_session("review")
    session.update(session.add_finding("No rate limit").id, status="resolved", resolution=resolution)
    html = client.get("/").html
    assert _group(html, "resolved") == ""
    assert "No rate limit" in _group(html, "closed")
    assert "Closed, and changed in these days" in html


def test_failed_checks_of_the_last_report_are_shown(memory: Memory, client: InspectorClient) -> None:
    with smp_memory.open(memory.root, config={"privacy.redaction.enabled": False}) as careless:
        talk = careless.create_session("shop")
        talk.add_turn("assistant", "Use AKIAIOSFODNN7EXAMPLE")
        talk.add_turn("user", "I read it. Let's go with Redis for the cache.")
    assert "Health has not been checked" in client.get("/").text
    client.get("/health?check=full")
    page = client.get("/")
    assert "Health was checked" in page.text
    assert "AKIAIOSFODNN7EXAMPLE" not in page.html
    waiting = page.html.split('id="needs"')[1].split("</section>")[0]
    assert 0 < waiting.lower().index("secret") < waiting.index("1 proposal to review")  # problems first
    assert 'href="/health"' in waiting


def test_events_told_to_agents_are_shown_with_the_prompt(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("talk")
    turn = session.add_turn("user", "Which cache do we use?")
    told = session.add_decision("Use Redis")
    event = ToldEvent("2026-11-17T11:00:00Z", "claude-code", "prompt", "talk", turn.id, [ToldMemory(told.ref, 1, 0.8)], [], 40)  # fmt: skip
    memory.store.state.write(LOG, b"")
    note_told(memory.store.state, event)
    shown = client.get("/").html.split('id="told"')[1].split("</section>")[0]
    assert "Which cache do we use?" in shown
    assert "told 1" in shown
    session.erase(turn.id, reason="private")
    assert "Which cache" not in client.get("/").html


def test_page_takes_few_calls_of_the_index(memory: Memory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    for number in range(12):
        memory.create_session(f"s{number}").add_finding(f"Finding {number}", severity="high")
    client.get("/")  # what may be some seconds old is kept now
    calls = port_calls(memory, monkeypatch)
    assert client.get("/").status == 200
    assert len(calls) <= 6, calls


def test_client_sees_its_part_of_the_store(memory: Memory) -> None:
    memory.create_session("shop-1", project="shop").add_decision("Use OAuth")
    other = memory.create_session("bank-1", project="bank", title="The zanzibar account")
    other.add_turn("user", "zanzibar")
    other.add_finding("zanzibar leaks", severity="critical")
    other.delete(other.add_learning("zanzibar is slow").id)
    memory.store.state.write(LOG, b"")
    note_told(
        memory.store.state, ToldEvent("2026-11-17T11:00:00Z", "codex", "prompt", "bank-1", "TURN-0001", [], [], 0)
    )
    inspector = Inspector(limited(memory, "shop"), "token", "ci", True)
    html = bytes(home_page(PageRequest(inspector, "/", {}, QueryParams(""), {})).body).decode()
    assert "Use OAuth" in html
    assert "zanzibar" not in html
    assert "bank-1" not in html


def test_looking_counts_as_no_use(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    memory.create_session("shop").add_decision("Use OAuth")
    used = memory.session_states()[0].last_used
    clock.pass_days(1)
    client.get("/")
    assert memory.session_states()[0].last_used == used
