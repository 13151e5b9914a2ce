"""Actions on sessions and on the store: forms with previews, results, undo; exports as downloads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import smp_memory
from smp_memory.memory import Memory
from smp_memory.model.session_info import names_of
from smp_memory.session import SessionMemory
from tests.unit.web.inspector_client import Clock, InspectorClient

ACTIONS = ("archive", "restore", "delete", "undelete", "purge", "compact", "redact", "add")


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    made = memory.create_session("review", user="ada")
    made.add_decision("Use OAuth", rationale="Standard", author="architect")
    made.add_finding("No rate limit <b>", severity="high", author="veritas")
    return made


def states(memory: Memory) -> dict[str, str]:
    return {each.session: each.state for each in memory.session_states(include_archived=True)}


def test_archive_and_restore_with_undo(memory: Memory, session: SessionMemory, client: InspectorClient) -> None:
    assert "Memories 2" in client.get("/session/review/archive").text
    page = client.done("/session/review/archive", reason="finished")
    assert states(memory) == {"review": "archived"}
    assert memory.archived_sessions()[0].reason == "finished"
    client.undo(page)
    assert memory.store.sessions(id="review")
    client.done("/session/review/archive")
    page = client.done("/session/review/restore")
    assert memory.store.sessions(id="review")
    client.undo(page)
    assert states(memory) == {"review": "archived"}


def test_delete_and_undelete_with_undo(memory: Memory, session: SessionMemory, client: InspectorClient) -> None:
    assert "30 days" in client.get("/session/review/delete").text
    page = client.done("/session/review/delete", reason="wrong")
    assert memory.deleted_sessions()[0].reason == "wrong"
    assert memory.deleted_sessions()[0].metadata["deleted_by"] == "ada"
    client.undo(page)
    assert memory.store.sessions(id="review")
    client.done("/session/review/delete")
    page = client.done("/session/review/undelete")
    assert memory.session("review").get("DEC-0001").decision == "Use OAuth"
    client.undo(page)
    assert states(memory) == {"review": "deleted"}


def test_purge_needs_the_typed_name(memory: Memory, session: SessionMemory, client: InspectorClient) -> None:
    client.done("/session/review/delete")
    assert "Type review to confirm" in client.get("/session/review/purge").text
    answer = client.post("/session/review/purge", confirm="revue", reason="typed")
    assert answer.status == 400
    assert answer.value("reason") == "typed"
    assert memory.deleted_sessions()
    page = client.done("/session/review/purge", confirm="review")
    assert "removed for good" in page.text
    assert memory.deleted_sessions() == []
    assert client.post("/session/review/purge", confirm="review").status == 404


def test_deleted_session_with_the_name_of_a_live_one_can_be_purged(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    client.done("/session/review/delete")
    memory.create_session("review")
    client.done("/session/review/purge", confirm="review")
    assert memory.deleted_sessions() == []
    assert memory.store.sessions(id="review")


def test_purge_shows_the_session_that_it_takes(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    for reason in ("deleted first", "deleted last"):
        memory.create_session("twice").add_turn("user", reason)
        memory.delete_session("twice", reason)
        clock.pass_days(1)
    shown = client.get("/session/twice/purge").text
    assert "deleted first" in shown
    assert "deleted last" not in shown
    assert "Until 2026-12-17" in shown
    client.done("/session/twice/purge", confirm="twice")
    assert [each.reason for each in memory.deleted_sessions()] == ["deleted last"]


def test_undelete_over_a_live_session_is_refused(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    client.done("/session/review/delete")
    memory.create_session("review")
    answer = client.post("/session/review/undelete")
    assert answer.status == 400
    assert memory.deleted_sessions()


def test_compact_previews_then_moves(
    memory: Memory, session: SessionMemory, client: InspectorClient, clock: Clock
) -> None:
    session.add_decision("Own passwords", status="superseded")
    clock.pass_days(60)
    preview = client.get("/session/review/compact?target=forced")
    assert "DEC-0002" in preview.text
    assert session.find("DEC-0002") is not None
    assert client.post("/session/review/compact", target="violent").status == 400
    page = client.done("/session/review/compact", target="forced")
    assert "moved to the cold segment" in page.text
    assert session.find("DEC-0002") is None


def test_add_a_memory_by_hand_with_undo(session: SessionMemory, client: InspectorClient) -> None:
    page = client.done("/session/review/add", type="learning", text="Count by address\r\n<script>", tags="auth, login")
    record = session.get("LEARN-0001")
    assert (record.learning, record.tags, record.author) == ("Count by address\n<script>", ["auth", "login"], "ada")
    assert "Added LEARN-0001" in page.text
    assert "<script>\n" not in page.html
    client.undo(page)
    found = session.find("LEARN-0001")
    assert found is not None
    assert found.deleted


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"type": "learning", "text": ""}, "must not be empty"),
        ({"type": "nonsense", "text": "x"}, "cannot be added here"),
        ({"type": "agent_state", "text": "x"}, "cannot be added here"),
        ({"type": "learning", "text": "x", "tags": "not a tag!"}, "is not a tag"),
        ({"type": "learning", "text": "x" * ((1 << 20) + 1)}, "learning"),
    ],
)
def test_bad_memory_is_refused(
    session: SessionMemory, client: InspectorClient, form: dict[str, str], said: str
) -> None:
    answer = client.post("/session/review/add", **form)
    assert answer.status == 400
    assert said in answer.text
    assert answer.value("text") == form["text"]
    assert len(session.records()) == 2


@pytest.mark.parametrize("action", ACTIONS)
def test_session_forms_change_nothing_and_forged_tokens_are_refused(
    memory: Memory, session: SessionMemory, client: InspectorClient, action: str
) -> None:
    audited = len(memory.store.audit.entries())
    assert client.get(f"/session/review/{action}").status in (200, 303)
    assert client.post(f"/session/review/{action}", token="forged", confirm="review").status == 403
    assert names_of(memory.store.sessions()) == ["review"]
    assert len(memory.store.audit.entries()) == audited


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", ["none", "..", "%2e%2e%2fx", "%00", "con", "-x", "a" * 300])
def test_actions_on_sessions_that_are_not_there_are_not_found(client: InspectorClient, action: str, name: str) -> None:
    assert client.post(f"/session/{name}/{action}", confirm=name).status in (404, 405)
    assert client.get(f"/session/{name}/{action}").status == 404


def test_unknown_session_action_is_not_found(session: SessionMemory, client: InspectorClient) -> None:
    assert client.post("/session/review/explode").status == 404


def test_action_in_the_wrong_state_does_nothing(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    assert "Nothing was done: session review is live" in client.done("/session/review/restore").text
    client.done("/session/review/archive")
    assert "Nothing was done: session review is archived" in client.done("/session/review/archive").text


# -- the store


def test_maintenance_previews_and_runs(memory: Memory, session: SessionMemory, client: InspectorClient) -> None:
    session.get("DEC-0001")
    preview = client.get("/maintain")
    assert "uses of 1 memory" in preview.text
    page = client.done("/maintain")
    assert "Maintenance ran." in page.text
    assert "uses of 1 memory" in page.text


def test_named_fixes_are_applied(memory: Memory, session: SessionMemory, client: InspectorClient) -> None:
    file = Path(session.folder) / "findings.jsonl"
    file.chmod(0o644)
    page = client.done("/health/fix", fix="permissions")
    assert "Done: permissions." in page.text
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("fix", ["", "everything", "permissions; rm -rf", "index everything"])
def test_unknown_fix_is_refused(session: SessionMemory, client: InspectorClient, fix: str) -> None:
    answer = client.post("/health/fix", fix=fix)
    assert answer.status == 400
    assert "permissions, recovery, index" in answer.text


def test_result_of_nothing_is_not_found(client: InspectorClient) -> None:
    assert client.get("/result/nonsense").status == 404


# -- exports


def test_one_memory_is_exported_with_its_history_and_can_be_imported(
    memory: Memory, session: SessionMemory, client: InspectorClient, tmp_path: Path
) -> None:
    session.update("DEC-0001", rationale="Safe")
    form = client.get("/export?ref=review/DEC-0001")
    assert "Export review/DEC-0001" in form.text
    assert form.value("ref") == "review/DEC-0001"
    answer = client.post("/export", ref="review/DEC-0001", format="json")
    assert answer.status == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="review-DEC-0001.json"'
    assert "No rate limit" not in answer.html
    with smp_memory.open(tmp_path / "other") as other:
        (taken,) = other.import_(answer.html, "json")
        assert taken.get("DEC-0001").rationale == "Safe"
        assert len(taken.history("DEC-0001")) == 2
        assert taken.find("FIND-0001") is None
    note = memory.store.audit.entries()[-1]
    assert (note["action"], note["by"], note["session"], note["count"]) == ("export", "ada", "review", 1)


@pytest.mark.parametrize(
    ("format", "ending"), [("json", "json"), ("jsonl", "jsonl"), ("yaml", "yaml"), ("markdown", "md")]
)
def test_session_is_exported_in_every_format(
    session: SessionMemory, client: InspectorClient, tmp_path: Path, format: str, ending: str
) -> None:
    answer = client.post("/export", session="review", format=format)
    assert answer.headers["content-disposition"] == f'attachment; filename="review.{ending}"'
    with smp_memory.open(tmp_path / "other") as other:
        (taken,) = other.import_(answer.html, format)
        assert len(taken.records()) == 2


def test_result_of_a_search_is_exported(memory: Memory, session: SessionMemory, client: InspectorClient) -> None:
    memory.create_session("other").add_finding("No rate limit for guests")
    form = client.get("/export?search=q%3Drate%26type%3Dfinding%26session%3Dreview%26session%3Dother")
    assert "Export 2 memories that the search finds" in form.text
    answer = client.post("/export", search=form.value("search"), format="jsonl")
    ids = [json.loads(line)["id"] for line in answer.html.splitlines()]
    assert ids.count("FIND-0001") == 2
    assert "DEC-0001" not in ids
    assert answer.headers["content-disposition"] == 'attachment; filename="search.jsonl"'


def test_whole_store_is_exported_with_placeholders(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    answer = client.post("/export", format="json", anonymise="1")
    assert answer.status == 200
    assert '"ada"' not in answer.html
    assert memory.store.audit.entries()[-1]["anonymised"] is True


def test_form_of_an_export_leaves_no_note_and_a_get_downloads_nothing(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    answer = client.get("/export?session=review&format=json")
    assert "content-disposition" not in answer.headers
    assert memory.store.audit.entries() == []


@pytest.mark.parametrize(
    "form",
    [
        {"ref": "review/FIND-0099"},
        {"ref": "none/FIND-0001"},
        {"ref": "../../etc/passwd"},
        {"ref": '"\r\nx: y'},
        {"session": "../review"},
        {"session": "none"},
        {"session": "review", "format": "exe"},
        {"search": "time=nonsense+for+ever"},
    ],
)
def test_bad_export_is_refused(session: SessionMemory, client: InspectorClient, form: dict[str, str]) -> None:
    answer = client.post("/export", **form)
    assert answer.status in (400, 404)
    assert "content-disposition" not in answer.headers
    assert not re.search(r"^x: y", str(answer.headers), re.MULTILINE)


def test_search_page_links_to_the_export_of_its_result(session: SessionMemory, client: InspectorClient) -> None:
    page = client.get("/search?q=OAuth&session=review&offset=0")
    found = re.search(r'href="(/export\?[^"]+)"', page.html)
    assert found is not None
    form = client.get(found[1].replace("&amp;", "&"))
    assert "Export 1 memory that the search finds" in form.text


def test_added_finding_has_the_chosen_severity_and_a_learning_has_none(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("new")
    assert '<select id="field-severity"' in client.get("/session/new/add").html
    client.done("/session/new/add", type="finding", text="No rate limit", severity="high")
    assert memory.get("new/FIND-0001").severity == "high"
    page = client.post("/session/new/add", type="learning", text="Something", severity="high")
    assert "severity: only a finding has one." in page.text
    assert len(memory.session("new").records()) == 1
