"""The page Told, the line about it on a memory's page, and the way to turn a memory off for recall."""

from __future__ import annotations

import pytest

from smp_memory.clients.client_store import ClientStore
from smp_memory.integrations.hooks.told import shown_events
from smp_memory.integrations.web.parts import url
from smp_memory.memory import Memory, seen_through
from smp_memory.model import told_log
from smp_memory.model.told_log import ToldEvent, ToldMemory, note_told
from smp_memory.privacy.client_tokens import ClientToken
from smp_memory.session import SessionMemory
from tests.e2e.terminal import Terminal
from tests.unit.web.inspector_client import Clock, InspectorClient

PROMPT = "Which <b>database</b> do orders use?"


@pytest.fixture
def session(memory: Memory, clock: Clock) -> SessionMemory:
    made = memory.create_session("review")
    made.add_decision("Orders use <i>PostgreSQL</i>")
    made.add_turn("user", PROMPT)
    log(memory, "2026-11-16T14:03:00Z", turn="TURN-0001")
    log(memory, "2026-11-17T11:00:00Z", event="start", relevance=None)
    log(memory, "2026-11-17T11:30:00Z", ref=None, tokens=0)
    return made


def log(
    memory: Memory,
    at: str,
    *,
    event: str = "prompt",
    ref: str | None = "review/DEC-0001",
    turn: str | None = None,
    relevance: float | None = 0.91,
    session: str = "review",
    tokens: int = 40,
) -> None:
    told = [ToldMemory(ref, 1, relevance)] if ref else []
    with memory.store.state.lock("hooks", "a test", 1.0):
        note_told(memory.store.state, ToldEvent(at, "claude-code", event, session, turn, told, [], tokens))


def test_page_shows_prompts_and_memories_escaped_newest_first(session: SessionMemory, client: InspectorClient) -> None:
    page = client.get("/told")
    assert page.status == 200
    assert "<i>PostgreSQL</i>" not in page.html
    assert "<b>database</b>" not in page.html
    assert "0.91" in page.text
    places = [page.text.index(words) for words in ("Prompt not recorded", "Told nothing.", "Session start", PROMPT)]
    assert places == sorted(places)


def test_notice_without_memories_is_not_called_nothing(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    log(memory, "2026-11-17T12:00:00Z", ref=None, tokens=135)
    text = client.get("/told").text
    assert "135 tokens Told no memory, only a notice of SMP." in text
    assert text.count("Told nothing.") == 1


def test_memory_says_how_often_it_was_told(session: SessionMemory, client: InspectorClient) -> None:
    page = client.get("/memory/review/DEC-0001")
    assert "Told 2 times, last 1 hour ago" in page.text.replace(" ,", ",")
    filtered = client.get(url("/told", memory="review/DEC-0001"))
    assert filtered.html.count('class="panel told"') == 2
    assert "Told nothing" not in filtered.text
    session.add_decision("never told")
    assert "Not told to an agent yet" in client.get("/memory/review/DEC-0002").text


def test_two_clicks_turn_a_memory_off_and_on_again(session: SessionMemory, client: InspectorClient) -> None:
    assert "/memory/review/DEC-0001/mute" in client.get("/told").html
    page = client.done("/memory/review/DEC-0001/mute", back="told")
    assert session.get("DEC-0001").muted
    assert "DEC-0001 is turned off for recall now." in page.text
    assert "not told to agents" in page.text
    assert "/memory/review/DEC-0001/unmute" in page.html
    assert "turned on for recall again" in client.undo(page).text
    assert not session.get("DEC-0001").muted
    page = client.done("/memory/review/DEC-0001/mute", back="//evil.example")
    assert "Turned off for recall" in page.text
    assert "turned off for recall already" in client.done("/memory/review/DEC-0001/mute").text


def test_erased_and_deleted_memories_have_no_text(session: SessionMemory, client: InspectorClient) -> None:
    session.delete("DEC-0001")
    session.erase("TURN-0001")
    page = client.get("/told")
    assert "PostgreSQL" not in page.text
    assert "database" not in page.text
    assert "erased, deleted or archived" in page.text


def test_client_with_a_token_does_not_see_what_agents_were_told(session: SessionMemory, memory: Memory) -> None:
    client = seen_through(memory, ClientStore(memory.store, ClientToken("t-1", "ci", "")))
    assert shown_events(memory)
    assert shown_events(client) == []
    assert not client.store.state.has(told_log.LOG)


def test_question_whether_an_agent_is_told_is_answered_on_the_page(
    session: SessionMemory, client: InspectorClient, memory: Memory
) -> None:
    memory.trust()
    page = client.get(url("/memory/review/DEC-0001", prompt="Do orders use PostgreSQL or SQLite?"))
    assert "Yes. It reaches the floor of 0.55." in page.text
    session.mute("DEC-0001")
    page = client.get(url("/memory/review/DEC-0001", prompt="Do orders use PostgreSQL or SQLite?"))
    assert "No. Turned off for recall" in page.text
    assert "smp unmute review/DEC-0001" in page.text


def test_page_without_a_log_says_so(memory: Memory, client: InspectorClient) -> None:
    assert "Hooks told nothing since the log began" in client.get("/told").text


def test_memories_of_a_session_start_beyond_the_first_are_folded(
    memory: Memory, client: InspectorClient, capsys: pytest.CaptureFixture[str]
) -> None:
    session = memory.create_session("shop")
    told = [ToldMemory(session.add_decision(f"Decision number {number}").ref, 1) for number in range(7)]
    event = ToldEvent("2026-01-31T14:00:00Z", "claude-code", "start", "shop", None, told, [], 90)
    with memory.store.state.lock("hooks", "a test", 1.0):
        note_told(memory.store.state, event)
    html = client.get("/told").html
    head, _, folded = html.partition("<details><summary>2 more</summary>")
    assert head.count("Decision number") == 5
    assert folded.count("Decision number") == 2
    out = Terminal(capsys).ok("told", "--root", memory.root)
    assert out.count("Decision number") == 5
    assert "and 2 more: --json" in out
