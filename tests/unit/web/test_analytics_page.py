"""The page Analytics: every part with its figures, empty stores, large stores on request, escaping."""

from __future__ import annotations

import pytest

from smp_memory.integrations.web.pages import analytics
from smp_memory.memory import Memory
from tests.unit.web.inspector_client import Clock, InspectorClient

PARTS = list(analytics.PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_empty_store_has_every_part(client: InspectorClient, part: str) -> None:
    page = client.get(f"/analytics?part={part}")
    assert page.status == 200
    assert "Computed just now" in page.text


def test_figures_of_use_topics_decisions_and_forecast_are_true(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    session = memory.create_session("review")
    finding = session.add_finding("No rate limit", severity="high", tags=["login"])
    decision = session.add_decision("Five attempts a minute", tags=["login"])
    session.relate(decision.id, finding.id, "resolves")
    session.get(decision.id)
    assert "1 of 2 memories were used, 1 time in all" in client.get("/analytics").text
    topics = client.get("/analytics?part=topics").text
    assert "1 topic" in topics
    assert "login" in topics
    impact = client.get("/analytics?part=impact").text
    assert "Effects were found for 1 of 1 decision" in impact
    assert "resolves review/FIND-0001" in impact
    assert "review" in client.get("/analytics?part=forecast").text
    assert "0 of 1" in client.get("/analytics?part=decay").text


def test_part_is_kept_for_a_while_and_computed_again_on_request(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.add_decision("One")
    assert "of 1 memory was used" in client.get("/analytics").text
    session.add_decision("Two")
    assert "of 1 memory was used" in client.get("/analytics").text
    assert "of 2 memories were used" in client.get("/analytics?compute=1").text


@pytest.mark.parametrize("part", PARTS)
def test_large_store_is_computed_only_when_asked_for(
    memory: Memory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(analytics, "MOST_AT_ONCE", 1)
    session = memory.create_session("review")
    session.add_decision("One")
    session.add_decision("Two")
    page = client.get(f"/analytics?part={part}")
    assert "Not computed yet" in page.text
    assert "2 memories in 1 session" in page.text
    assert "Computed just now" in client.get(f"/analytics?part={part}&compute=1").text
    assert "Computed just now" in client.get(f"/analytics?part={part}").text


def test_hostile_text_is_escaped_in_tables_and_charts(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    one = session.add_decision("<script>alert(1)</script>", author="<b>eve</b>", topic="<i>topic</i>")
    two = session.add_decision("<img src=x onerror=alert(2)>")
    session.relate(two.id, one.id, "derived_from")
    for part in PARTS:
        html = client.get(f"/analytics?part={part}").html
        for mark in ("<script>alert", "<img src=x", "<b>eve", "<i>topic"):
            assert mark not in html, (part, mark)


def test_unknown_part_and_period_show_the_first(client: InspectorClient) -> None:
    page = client.get("/analytics?part=%3Cb%3E&by=century")
    assert page.status == 200
    assert "A use is counted when" in page.text


def test_page_that_fails_logs_the_type_of_the_error_and_not_its_text(
    client: InspectorClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("zebrafish")

    monkeypatch.setattr(Memory, "analytics", fail)
    page = client.get("/analytics")
    assert page.status == 500
    assert "zebrafish" not in page.text
    events = [each for each in caplog.records if getattr(each, "smp_event", "") == "page_failed"]
    assert len(events) == 1
    assert "RuntimeError" in events[0].getMessage()
    assert "zebrafish" not in caplog.text
