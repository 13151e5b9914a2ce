"""The page of one memory: everything about it, wherever it is, and honest pages for what cannot be shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import smp_memory
from smp_memory.memory import Memory
from smp_memory.model.session_info import ARCHIVED
from tests.unit.web.inspector_client import Clock, InspectorClient

EVIL = '<script>alert(1)</script> "quoted" \x1b[31mred \u202eright'


def test_page_shows_fields_author_tags_and_history(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_decision(
        "Use OAuth", rationale="It is standard", author="architect", tags=["auth.login"], vendor="Acme"
    )
    session.update("DEC-0001", rationale="It is standard and safe", by="ada")
    page = client.get("/memory/review/DEC-0001")
    assert page.status == 200
    assert 'id="memory"' in page.html
    assert "Use OAuth" in page.text
    assert "Vendor Acme" in page.text
    assert 'href="/search?tag=auth.login"' in page.html
    assert "<ins> and safe</ins>" in page.html
    assert page.text.index("revision 2") < page.text.index("Written by architect")


def test_page_says_where_the_bytes_are(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("review").add_finding("No rate limit")
    page = client.get("/memory/review/FIND-0001")
    assert "findings.jsonl:1" in page.text
    assert "checksum matches" in page.text
    assert "sessions/review" in page.text


def test_edit_by_hand_is_shown(memory: Memory, client: InspectorClient, tmp_path: Path) -> None:
    memory.create_session("review").add_finding("No rate limit")
    file = tmp_path / "store" / "sessions" / "review" / "findings.jsonl"
    file.write_text(file.read_text().replace("No rate limit", "No limit at all"))
    page = client.get("/memory/review/FIND-0001")
    assert "No limit at all" in page.text
    assert "edited by hand" in page.text


def test_looking_counts_as_no_use_and_restores_no_archive(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_finding("No rate limit")
    session.add_finding("No rate limit for guests")
    client.get("/memory/review/FIND-0001")
    assert memory.store.access.pending() == []
    memory.archive_session("review")
    page = client.get("/memory/review/FIND-0001")
    assert page.status == 200
    assert "Its session is archived" in page.text
    assert "No rate limit" in page.text
    assert memory.store.sessions(ARCHIVED, id="review")


def test_relations_are_listed_in_both_directions_and_drawn(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_finding("No rate limit")
    session.add_decision("Five attempts a minute")
    session.add_learning("Count by address")
    session.relate("DEC-0001", "FIND-0001", "resolves")
    session.relate("LEARN-0001", "DEC-0001", "supports")
    page = client.get("/memory/review/DEC-0001")
    assert "resolves → FIND-0001 No rate limit" in page.text
    assert "← supports LEARN-0001 Count by address" in page.text
    assert "relation-graph" in page.html
    assert 'href="/memory/review/FIND-0001"' in page.html


def test_relation_to_a_memory_that_does_not_exist_is_said(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_decision("Use OAuth", relations=[{"kind": "resolves", "target": "gone/FIND-0009"}])
    page = client.get("/memory/review/DEC-0001")
    assert page.status == 200
    assert "does not exist" in page.text


def test_superseded_memory_names_its_successor(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_decision("Own passwords")
    session.add_decision("Use OAuth")
    session.relate("DEC-0002", "DEC-0001", "supersedes")
    assert "Superseded by DEC-0002" in client.get("/memory/review/DEC-0001").text


def test_fading_is_drawn_and_said(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("review").update_agent_state("architect", {"next": "write"})
    page = client.get("/memory/review/STATE-architect")
    assert "decay-chart" in page.html
    assert "falls below 0.3 in" in page.text
    memory.session("review").pin("STATE-architect")
    assert "Pinned: it does not fade." in client.get("/memory/review/STATE-architect").text


def test_uses_are_counted(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    session = memory.create_session("review")
    session.add_finding("No rate limit")
    assert "Not used yet" in client.get("/memory/review/FIND-0001").text
    session.get("FIND-0001")
    clock.pass_days(1)
    session.get("FIND-0001")
    assert "2 times, last just now" in client.get("/memory/review/FIND-0001").text


def test_html_and_control_characters_in_all_fields_are_inert(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_decision(EVIL, rationale=EVIL, author="mallory<b>", evil_field=EVIL, nested={"a": [EVIL, {"b": EVIL}]})
    session.add_finding("other")
    session.relate("DEC-0001", "FIND-0001", "supports")
    session.update("DEC-0001", rationale=EVIL + "!")
    session.delete("FIND-0001", reason=EVIL)
    for path in ("/memory/review/DEC-0001", "/memory/review/FIND-0001", "/memory/review/DEC-0001/edit"):
        page = client.get(path)
        assert page.status == 200
        assert "<script>alert" not in page.html
        assert "mallory<b>" not in page.html
        assert "\x1b" not in page.html
        assert "\u202e" not in page.html


def test_very_long_text_is_cut_and_shown_on_demand(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("review").add_artifact("log.txt", "line of a log\n" * 4000)
    page = client.get("/memory/review/ART-0001")
    assert "Show all 56,000 characters" in page.text
    assert len(page.html) < 60_000
    assert client.get("/memory/review/ART-0001?full=1").html.count("line of a log") >= 4000


def test_deleted_memory_says_who_when_why_and_until_when(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_finding("No rate limit")
    session.delete("FIND-0001", reason="wrong project", by="bob")
    page = client.get("/memory/review/FIND-0001")
    assert page.status == 200
    assert "Deleted just now by bob. Reason: wrong project." in page.text
    assert "until 2026-12-17" in page.text
    assert "/memory/review/FIND-0001/restore" in page.html
    assert "/memory/review/FIND-0001/edit" not in page.html


def test_compacted_memory_is_shown_from_the_cold_segment(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    session = memory.create_session("review")
    session.add_decision("Own passwords", status="superseded")
    clock.pass_days(60)
    session.compact("forced")
    assert session.find("DEC-0001") is None
    page = client.get("/memory/review/DEC-0001")
    assert page.status == 200
    assert "Own passwords" in page.text
    assert "Compacted" in page.text
    assert "/memory/review/DEC-0001/restore" in page.html


def test_memory_of_a_deleted_session_says_so(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("review").add_finding("No rate limit")
    memory.delete_session("review", "finished", by="bob")
    page = client.get("/memory/review/FIND-0001")
    assert page.status == 200
    assert "The session was deleted" in page.text
    assert "finished" in page.text
    assert "/session/review/undelete" in page.html


def test_unreadable_entry_is_named_with_its_line(memory: Memory, client: InspectorClient, tmp_path: Path) -> None:
    session = memory.create_session("review")
    session.add_finding("No rate limit")
    session.add_finding("Second")
    file = tmp_path / "store" / "sessions" / "review" / "findings.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0][:40], lines[1]]) + "\n")
    with smp_memory.open(tmp_path / "store", create=False) as again:
        page = InspectorClient(again).get("/memory/review/FIND-0001")
    assert "findings.jsonl:1" in page.text
    assert "could not be read" in page.text or "cannot be read" in page.text


def test_missing_memory_suggests_near_ids_and_sessions(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("checkout-review").add_finding("No rate limit")
    page = client.get("/memory/checkout-review/find-0001")
    assert page.status == 404
    assert 'href="/memory/checkout-review/FIND-0001"' in page.html
    page = client.get("/memory/checkout-reviews/FIND-0001")
    assert page.status == 404
    assert 'href="/memory/checkout-review/FIND-0001"' in page.html


@pytest.mark.parametrize(
    "path",
    [
        "/memory/..%2f..%2fetc/passwd",
        "/memory/%2e%2e/FIND-0001",
        "/memory/review/..%5c..%5cx",
        "/memory/review/%00",
        "/memory/con/FIND-0001",
        "/memory/review/" + "A" * 3000,
        "/memory/" + "s" * 300 + "/FIND-0001",
        "/memory/review/<script>alert(1)</script>",
        "/memory/review/FIND-0001/explode",
    ],
)
def test_strange_names_are_not_found(memory: Memory, client: InspectorClient, path: str) -> None:
    memory.create_session("review").add_finding("No rate limit")
    page = client.get(path)
    assert page.status == 404
    assert "<script>alert" not in page.html


def test_count_of_relations_is_true_when_not_all_are_listed(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_learning("Count by address")
    session.add_many(
        ("finding", {"finding": f"Finding {number}", "relations": [{"kind": "supports", "target": "LEARN-0001"}]})
        for number in range(60)
    )
    page = client.get("/memory/review/LEARN-0001")
    assert "Relations: 60 memories" in page.text
    assert "20 more are not listed" in page.text


def test_memory_with_very_many_revisions_shows_the_newest(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_decision("Use OAuth")
    for number in range(120):
        session.update("DEC-0001", rationale=f"reason {number}")
    page = client.get("/memory/review/DEC-0001")
    assert "reason 119" in page.text
    assert "Show 91 earlier steps" in page.text
    assert "earlier entries are not listed" in page.text
    assert "Show " not in client.get("/memory/review/DEC-0001?history=all").text


def test_session_with_invalid_settings_or_metadata_is_still_shown(
    memory: Memory, client: InspectorClient, tmp_path: Path
) -> None:
    session = memory.create_session("review")
    session.add_decision("Use OAuth")
    session.add_finding("No rate limit")
    session.delete("FIND-0001")
    manifest = tmp_path / "store" / "sessions" / "review" / "manifest.json"
    fields = json.loads(manifest.read_text())
    for spoiled in (json.dumps({**fields, "config": {"lifecycle": {"purge_days": "soon"}}}), "{{{"):
        manifest.write_text(spoiled)
        with smp_memory.open(tmp_path / "store", create=False) as again:
            other = InspectorClient(again)
            assert "Use OAuth" in other.get("/memory/review/DEC-0001").text
            assert "Deleted" in other.get("/memory/review/FIND-0001").text
