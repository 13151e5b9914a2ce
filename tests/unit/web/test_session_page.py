"""The page of a session and its timeline: order, days, relations, filters, pages, folding, escaping."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest

import smp_memory
from smp_memory.integrations.web.pages.session import FOLDED_FROM, SHOWN_CHARACTERS, fair_limit
from smp_memory.integrations.web.timeline import PAGE_RECORDS, TimelineQuery, relation_words, spans, timeline
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from tests.unit.web.inspector_client import Clock, InspectorClient


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    return memory.create_session("review", user="ada", agents=["architect"], project="shop", tags=["auth"], phase="two")


def _ids(html: str) -> list[str]:
    return re.findall(r'<article class="[^"]*item[^"]*" id="m-[^"]*?-([A-Z]+-\d+)"', html)


def test_metadata_size_and_actions_are_shown(session: SessionMemory, client: InspectorClient) -> None:
    session.add_decision("Use OAuth", author="architect")
    page = client.get("/session/review")
    for expected in ("With ada", "Project shop", "Agents architect", "phase two", "active", "of 10.0 MiB", "decisions"):
        assert expected in page.text, expected
    for address in (
        "/agent?session=review",
        "/export?session=review",
        "/session/review/archive",
        "/session/review/delete",
    ):
        assert f'href="{address}"' in page.html, address


def test_newest_memory_comes_first_under_its_day(session: SessionMemory, client: InspectorClient) -> None:
    session.add_turn("user", "First", created="2026-11-01T10:00:00Z")
    session.add_decision("Second", created="2026-11-01T11:00:00Z")
    session.add_turn("assistant", "Fourth", created="2026-11-03T09:00:00Z")
    session.add_finding("Third", severity="low", created="2026-11-02T09:00:00Z")
    html = client.get("/session/review").html
    assert _ids(html) == ["TURN-0002", "FIND-0001", "DEC-0001", "TURN-0001"]
    headings = re.findall(r'<h2 class="day">([^<]+)</h2>', html)
    assert headings == ["Tuesday, 3 November 2026", "Monday, 2 November 2026", "Sunday, 1 November 2026"]


def test_relations_are_said_from_both_ends(session: SessionMemory, client: InspectorClient) -> None:
    turn = session.add_turn("user", "Is it safe?")
    finding = session.add_finding("No rate limit", severity="high", turn_ref=turn.id)
    decision = session.add_decision("Five attempts a minute")
    session.relate(decision.id, finding.id, "resolves")
    later = session.add_decision("Ten attempts")
    session.relate(later.id, decision.id, "derived_from")
    page = client.get("/session/review")
    for expected in (
        "resolves FIND-0001",
        "resolved by DEC-0001",
        "said in TURN-0001",
        "led to FIND-0001",
        "follows from DEC-0001",
        "led to DEC-0002",
    ):
        assert expected in page.text, expected
    assert 'href="#m-review-TURN-0001"' in page.html
    assert 'id="m-review-TURN-0001"' in page.html


def test_relation_to_a_missing_memory_is_said_to_be_missing(session: SessionMemory, client: InspectorClient) -> None:
    session.add_decision("One", references=["DEC-0099"])
    page = client.get("/session/review")
    assert "refers to DEC-0099 (not here" in page.text
    assert "/memory/review/DEC-0099" not in page.html


@pytest.mark.parametrize("kind", ["resolves", "never_heard_of", "", "<b>"])
def test_every_relation_has_words_for_both_ends(kind: str) -> None:
    assert len(relation_words(kind)) == 2


def test_filters_by_type_author_and_open(session: SessionMemory, client: InspectorClient) -> None:
    session.add_turn("user", "Hello")
    session.add_decision("One", author="architect")
    session.add_finding("Open", severity="low", author="veritas")
    closed = session.add_finding("Closed", severity="low", author="veritas")
    session.update(closed.id, status="fixed")
    assert _ids(client.get("/session/review?type=decision").html) == ["DEC-0001"]
    assert _ids(client.get("/session/review?author=veritas").html) == ["FIND-0002", "FIND-0001"]
    assert _ids(client.get("/session/review?open=1").html) == ["FIND-0001"]
    assert _ids(client.get("/session/review?open=1&type=decision").html) == []
    assert "No memory matches these filters" in client.get("/session/review?author=nobody").text


def test_deleted_memories_are_shown_only_when_asked_for(session: SessionMemory, client: InspectorClient) -> None:
    gone = session.add_decision("A mistake")
    session.add_decision("Right")
    session.delete(gone.id)
    assert _ids(client.get("/session/review").html) == ["DEC-0002"]
    assert _ids(client.get("/session/review?deleted=1").html) == ["DEC-0002", "DEC-0001"]


def _fill(session: SessionMemory, count: int) -> None:
    with session.transaction() as writes:
        for number in range(count):
            writes.add_turn(
                "user",
                f"Turn {number}",
                created=f"2026-11-{1 + number // 100:02}T10:{number // 60 % 60:02}:{number % 60:02}Z",
            )


def test_newest_page_comes_first_and_pages_meet(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    _fill(session, 2 * PAGE_RECORDS + 30)
    every = [record.id for record in session.records()]
    seen: list[str] = []
    address = "/session/review"
    while True:
        html = client.get(address).html
        seen += _ids(html)
        found = re.search(r'href="(/session/review\?[^"]*offset=\d+)">↓', html)
        if found is None:
            break
        address = found[1].replace("&amp;", "&")
    assert seen[::-1] == sorted(every, key=lambda id: session.find(id).created)  # type: ignore[union-attr]
    assert len(seen) == 230


def test_page_begins_with_the_chosen_day(session: SessionMemory, client: InspectorClient) -> None:
    _fill(session, 350)
    html = client.get("/session/review?day=2026-11-02").html
    assert re.findall(r'<h2 class="day">([^<]+)</h2>', html)[0] == "Monday, 2 November 2026"
    assert len(_ids(html)) == PAGE_RECORDS
    assert client.get("/session/review?day=nonsense").status == 200


def test_offsets_from_both_ends_give_the_same_memories(memory: Memory, session: SessionMemory) -> None:
    _fill(session, 3 * PAGE_RECORDS)
    every = [record.id for record in timeline(memory, TimelineQuery("review", offset=0)).records]
    assert every == [f"TURN-{number:04}" for number in range(300, 200, -1)]
    first = timeline(memory, TimelineQuery("review", offset=250))
    assert [record.id for record in first.records] == [f"TURN-{number:04}" for number in range(50, 0, -1)]
    assert first.older == 0


def test_kept_counts_follow_every_write(
    memory: Memory, session: SessionMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smp_memory.integrations.web.timeline._WORTH_KEEPING", 1)
    memo: dict[str, object] = {}
    first = session.add_turn("user", "One")
    assert timeline(memory, TimelineQuery("review"), memo).total == 1
    session.add_turn("user", "Two")
    assert timeline(memory, TimelineQuery("review"), memo).total == 2
    session.delete(first.id)
    assert timeline(memory, TimelineQuery("review"), memo).total == 1
    assert timeline(memory, TimelineQuery("review", include_deleted=True), memo).total == 2


def test_long_text_is_folded_and_complete(session: SessionMemory, client: InspectorClient) -> None:
    text = " ".join(f"word{number}" for number in range(FOLDED_FROM // 5))
    session.add_turn("user", text)
    page = client.get("/session/review")
    assert "more characters" in page.text
    assert all(f"word{number}" in page.html for number in range(FOLDED_FROM // 5))


def test_page_of_many_long_texts_stays_small_and_says_what_is_elsewhere(
    session: SessionMemory, client: InspectorClient
) -> None:
    with session.transaction() as writes:
        for number in range(PAGE_RECORDS):
            writes.add_turn("user", f"Beginning {number} " + "word " * 3000)
    page = client.get("/session/review")
    assert len(page.html) < 200_000
    assert f"Beginning {PAGE_RECORDS - 1}" in page.text
    assert "more characters on the page of the memory" in page.text


def test_short_texts_are_whole_beside_a_long_one() -> None:
    assert fair_limit([100, 200, 100_000], 60_000) == 59_700
    assert fair_limit([10], 60_000) == 60_000
    assert fair_limit([], 60_000) == 60_000
    assert fair_limit([10_000] * 100, 60_000) == SHOWN_CHARACTERS


def test_text_and_authors_are_escaped(session: SessionMemory, client: InspectorClient) -> None:
    session.add_turn("user", "<script>alert(1)</script>\u202e\x1b[31m")
    session.add_decision("<img src=x onerror=alert(2)>", author="<b>eve</b>", rationale="<s>")
    typed: dict[str, object] = {
        "id": "DEC-0002",
        "timestamp": "yesterday<b>",
        "made_by": ["<b>kind</b>"],
        "decision": {"<b>kind</b>": "<b>target</b>"},
    }
    typed |= {
        "relations": [{"kind": "<b>kind</b>", "target": "<b>target"}, 7],
        "references": "<b>target",
        "tags": "<u>tag</u>",
        "turn_ref": ["<b>kind"],
    }
    with open(f"{session.folder}/decisions.jsonl", "a") as file:
        file.write(json.dumps(typed) + "\n")
        odd = {"tags": 7, "relations": 7, "references": {"a": 1}, "turn_ref": 7.5, "rationale": [1], "supersedes": 3}
        file.write(json.dumps({"id": "DEC-0003", "timestamp": "2026-11-01", "decision": "odd", **odd}) + "\n")
    for path in ("/session/review", "/timeline"):
        page = client.get(path)
        assert page.status == 200
        for mark in (
            "<script>alert",
            "<img src=x",
            "<b>eve",
            "<u>tag",
            "<b>kind",
            "<b>target",
            "<s>",
            "\u202e",
            "\x1b",
        ):
            assert mark not in page.html, mark


def test_session_with_invalid_settings_is_shown_with_what_is_wrong(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    session.add_decision("Use OAuth")
    path = Path(session.folder, "manifest.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "config": {"storage.max_session_size_mb": "huge"}}))
    with smp_memory.open(memory.root) as again:
        page = InspectorClient(again).get("/session/review")
    assert page.status == 200
    assert "Use OAuth" in page.text
    assert "storage.max_session_size_mb" in page.text


def test_empty_session_says_so(session: SessionMemory, client: InspectorClient) -> None:
    page = client.get("/session/review")
    assert page.status == 200
    assert "Nothing was remembered here yet" in page.text


def test_unknown_session_is_not_found(client: InspectorClient) -> None:
    page = client.get("/session/never")
    assert page.status == 404
    assert "No session never" in page.text


def test_timeline_of_all_sessions_mixes_them_by_time(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    session.add_turn("user", "one", created="2026-11-01T10:00:00Z")
    memory.create_session("other").add_turn("user", "two", created="2026-11-01T09:00:00Z")
    page = client.get("/timeline")
    assert page.html.index("review/TURN-0001") < page.html.index("other/TURN-0001")


def test_activity_has_a_bar_for_each_day_and_links_to_it(session: SessionMemory, client: InspectorClient) -> None:
    session.add_turn("user", "one", created="2026-11-01T10:00:00Z")
    session.add_turn("user", "two", created="2026-11-04T10:00:00Z")
    html = client.get("/session/review").html
    assert html.count('class="bar"') == 2
    assert html.count('class="rest" x=') == 2
    assert 'href="/session/review?day=2026-11-04#day-2026-11-04"' in html


def test_bars_cover_all_days_whatever_their_number() -> None:
    made = spans({"2020-01-01": 3, "2026-11-17": 4, "nonsense": 5}, most=90)
    assert len(made) <= 90
    assert sum(each.memories for each in made) == 7
    assert made[0].first == date(2020, 1, 1)
    assert spans({}) == []


def test_breakdown_of_a_large_session_is_computed_when_asked_for(
    session: SessionMemory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smp_memory.integrations.web.pages.session.MOST_FOR_SIZE_REPORT", 1)
    session.add_turn("user", "one")
    session.add_turn("user", "two")
    assert "Show what takes up the space (reads 2 memories)" in client.get("/session/review").text
    assert "conversation" in client.get("/session/review?sizes=1").text


def test_clock_that_passes_changes_the_state(session: SessionMemory, client: InspectorClient, clock: Clock) -> None:
    session.add_turn("user", "one")
    clock.pass_days(2)
    assert "idle" in client.get("/session/review").text
