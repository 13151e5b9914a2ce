"""Pages of sessions, trash, health and analytics for every layout, and with addresses that nobody types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.integrations.web.pages.analytics import PARTS
from smp_memory.memory import Memory
from smp_memory.model.session_info import ARCHIVED
from tests.unit.web.inspector_client import InspectorClient

PATHS = (
    "/sessions",
    "/session/review",
    "/session/away",
    "/session/gone",
    "/timeline",
    "/trash",
    "/health",
    "/health?check=full",
    *(f"/analytics?part={part}" for part in PARTS),
)
ODD = ("offset=nan", "offset=inf", "offset=-5", "offset=99999999999", "offset=x", "day=9999-12-31", "day=0001-01-01", "day=%00", "type=nothing&type=decision", "author=%3Cb%3E", f"author={'x' * 3000}", "open=1&deleted=1&type=turn", "q=%00%1b", "state=none", "sort=none", "project=%ff", "archived=1e9", "sessions=-1", "session=..%2F..", "by=%00", "done=x", "sizes=1")  # fmt: skip


def _fill(memory: Memory) -> None:
    session = memory.create_session("review", user="ada", project="shop")
    turn = session.add_turn("user", "Is it safe?")
    finding = session.add_finding("No rate limit", severity="high", author="veritas", turn_ref=turn.id, tags=["auth"])
    decision = session.add_decision("Five attempts", author="architect", rationale="enough")
    session.relate(decision.id, finding.id, "resolves")
    session.add_preference("style", "concise")
    session.add_artifact("a.md", "# A")
    session.delete(session.add_decision("A mistake").id, reason="wrong")
    for name in ("away", "gone"):
        memory.create_session(name).add_decision(f"Decision of {name}")
    memory.archive_session("away")
    memory.delete_session("gone")


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_every_page_works_for_every_layout(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        _fill(memory)
        client = InspectorClient(memory)
        for path in PATHS:
            page = client.get(path)
            assert page.status == 200, (path, page.text)
        shown = client.get("/session/review").text
        for expected in ("resolves FIND-0001", "resolved by DEC-0001", "said in TURN-0001", "a.md", "concise"):
            assert expected in shown, expected
        assert memory.store.sessions(ARCHIVED, id="away")


@pytest.mark.parametrize("odd", ODD)
def test_odd_addresses_get_a_page_or_a_clear_refusal(memory: Memory, client: InspectorClient, odd: str) -> None:
    _fill(memory)
    for path in ("/sessions", "/session/review", "/timeline", "/trash", "/health", "/analytics"):
        page = client.get(f"{path}?{odd}")
        assert page.status in (200, 400), (path, odd, page.text)
        assert "Internal error" not in page.text, (path, odd)


@pytest.mark.parametrize("name", ["..%2f..%2fetc", ".hidden", "a%00b", "%3Cscript%3E", "x" * 500, "con", "-rf"])
def test_odd_names_of_sessions_are_not_found(client: InspectorClient, name: str) -> None:
    page = client.get(f"/session/{name}")
    assert page.status in (400, 404)
    assert "<script>" not in page.html


def test_store_in_ram_has_every_page() -> None:
    with smp_memory.open(":memory:") as memory:
        _fill(memory)
        client = InspectorClient(memory)
        for path in PATHS:
            assert client.get(path).status == 200, path


@pytest.mark.parametrize("value", ["x", 5, -1, None, True, 1e300, ["a"], {"a": 1}, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])  # fmt: skip
def test_records_of_archived_and_deleted_sessions_that_anybody_wrote_break_no_page(
    memory: Memory, client: InspectorClient, value: Any
) -> None:
    _fill(memory)
    root = Path(memory.root)
    record, summary = root / "deleted/gone/deletion-record.json", root / "archive/away.manifest.json"
    deletion, archived = json.loads(record.read_text())["deletion"], json.loads(summary.read_text())
    paths = ("/sessions", "/trash", "/health", "/maintain", "/memory/gone/DEC-0001", "/memory/away/DEC-0001")
    forms = ("/session/gone/purge", "/session/gone/undelete", "/session/away/restore")
    record.write_text(json.dumps({"deletion": {**dict.fromkeys(deletion, value), "state": "active"}}))
    summary.write_text(json.dumps(dict.fromkeys(archived, value)))
    for path in (*paths, *forms):
        page = client.get(path)
        assert page.status in (200, 404), (path, page.text)
    assert memory.deleted_sessions()[0].bytes in (0, 5)


@pytest.mark.parametrize("is_file", [False, True])
def test_store_that_was_moved_away_is_said_to_be_missing_and_not_shown_as_empty(
    memory: Memory, client: InspectorClient, is_file: bool
) -> None:
    _fill(memory)
    root = Path(memory.root)
    moved = root.rename(root.with_name("moved"))
    if is_file:
        root.write_text("")
    for path in (*PATHS, "/", "/search?q=rate", "/memory/review/DEC-0001", "/maintain", "/export"):
        page = client.get(path)
        assert page.status == 503, (path, page.text)
        assert "was moved or removed" in page.text
    assert client.post("/session/review/add", text="x", type="finding").status == 503
    if is_file:
        root.unlink()
    moved.rename(root)
    assert "No rate limit" in client.get("/session/review").text


def test_agent_view_says_that_a_session_is_not_there_and_shows_a_new_one(
    memory: Memory, client: InspectorClient
) -> None:
    _fill(memory)
    for name, said in (("reviw", "No session reviw"), ("away", "Session away is archived"), ("../x", "not an id")):
        page = client.get(f"/agent?task=rate+limit&session={name}")
        assert page.status == 200
        assert said in page.text
        assert "This is what an agent in a new session is told." in page.text
    assert "in a new session is told" not in client.get("/agent?session=review").text
    assert memory.store.sessions(ARCHIVED, id="away")


def test_agent_view_of_a_session_with_unreadable_metadata_says_so(memory: Memory, client: InspectorClient) -> None:
    _fill(memory)
    (Path(memory.root) / "sessions/review/manifest.json").write_text('{"metadata": 5}')
    page = client.get("/agent?task=rate+limit&session=review&kind=context")
    assert page.status == 200
    assert "The metadata of session review cannot be read" in page.text
    assert "No rate limit" in page.text


def _plant(memory: Memory, entry: dict[str, Any]) -> None:
    """Add an entry to the decisions of the session `review` as an editor would."""
    with (Path(memory.root) / "sessions/review/decisions.jsonl").open("a") as file:
        file.write(json.dumps({"id": "DEC-0900", "decision": "planted", **entry}) + "\n")


def test_memory_with_very_many_values_is_cut_and_shown_on_demand(memory: Memory, client: InspectorClient) -> None:
    _fill(memory)
    many = [f"value{number}" for number in range(20_000)]
    _plant(memory, {"tags": many, "alternatives_considered": many, "own": dict.fromkeys(many, 1)})
    page = client.get("/memory/review/DEC-0900")
    assert page.text.count("Show all 20,000") == 3
    assert len(page.html) < 200_000
    assert "value19999" in client.get("/memory/review/DEC-0900?full=1").text
    for path in ("/session/review", "/timeline"):
        timeline = client.get(path)
        assert "and 19,988 more" in timeline.text
        assert len(timeline.html) < 200_000


@pytest.mark.parametrize("last", ["x", 5, "0001-01-01T00:00:00+14:00"])
def test_archived_memory_with_strange_counts_of_use_is_shown(
    memory: Memory, client: InspectorClient, last: Any
) -> None:
    _fill(memory)
    _plant(memory, {"access": {"count": "many", "last": last}})
    memory.archive_session("review")
    page = client.get("/memory/review/DEC-0900")
    assert page.status == 200, page.text
    assert "Not used yet" in page.text
