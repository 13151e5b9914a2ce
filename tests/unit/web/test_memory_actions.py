"""Actions on a memory: each does what its form says, in the name of the person, can be taken back, and refuses bad input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smp_memory.memory import Memory
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.types import KINDS, SEVERITIES
from smp_memory.session import SessionMemory
from tests.unit.web.inspector_client import Clock, InspectorClient

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # made up
ACTIONS = (
    "edit",
    "pin",
    "unpin",
    "mute",
    "unmute",
    "resolve",
    "reopen",
    "relate",
    "settle",
    "unrelate",
    "delete",
    "restore",
    "redact",
    "erase",
)


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    made = memory.create_session("review")
    made.add_decision("Use OAuth", rationale="Standard", author="architect", tags=["auth"])
    made.add_finding("No rate limit", severity="high", author="veritas")
    return made


def form_values(client: InspectorClient, id: str) -> dict[str, str]:
    page = client.get(f"/memory/review/{id}/edit")
    names = set(re.findall(r' name="((?:text|list|number|json):[^"]+|revision)"', page.html))
    return {name: page.value(name) for name in names}


# -- edit


def test_edit_changes_only_what_was_changed(session: SessionMemory, client: InspectorClient) -> None:
    values = form_values(client, "DEC-0001") | {"text:rationale": "Safe", "list:tags": "auth\nsecurity.login"}
    page = client.done("/memory/review/DEC-0001/edit", **values)
    record = session.get("DEC-0001")
    assert (record.rationale, record.tags, record.revision, record.updated_by) == (
        "Safe",
        ["auth", "security.login"],
        2,
        "ada",
    )
    assert list(session.history("DEC-0001")[-1]["changes"]) == ["rationale", "tags"]
    assert "Saved DEC-0001, revision 2" in page.text
    assert "Undo" in page.text


def test_edit_without_changes_makes_no_revision(session: SessionMemory, client: InspectorClient) -> None:
    page = client.done("/memory/review/DEC-0001/edit", **form_values(client, "DEC-0001"))
    assert "Nothing was changed" in page.text
    assert session.get("DEC-0001").revision == 1


def test_edit_keeps_values_of_every_kind(session: SessionMemory, client: InspectorClient) -> None:
    given = {
        "impact": {"score": 3, "areas": ["a", "b"]},
        "reversible": True,
        "alternatives_considered": ["x, y", "z"],
        "importance": 0.25,
        "confidence": "high",
        "text_with_lines": "\n a\n\n b \n",
        "control": "\x1b[31m\u202e",
        "number": 7,
        "empty_list_of_lists": [[]],
        "carriage": "a\r\nb\rc",
    }
    session.add_decision("All kinds", **given)
    page = client.done("/memory/review/DEC-0002/edit", **form_values(client, "DEC-0002"))
    assert "Nothing was changed" in page.text
    assert session.get("DEC-0002").revision == 1


def test_edit_keeps_invisible_characters_of_an_edited_text(session: SessionMemory, client: InspectorClient) -> None:
    given = {"rationale": "א\u200fב \u200b\x1b[31m\U000e0001", "aliases": ["one\u200b"], "own": {"key": "\x85\u202e"}}
    session.add_decision("Marks", **given)
    values = form_values(client, "DEC-0002")
    assert values["text:rationale"] == "א\\u200fב \\u200b\\x1b[31m\\U000e0001"
    values["text:rationale"] += " and more"
    values["list:aliases"] += "\ntwo"
    values["json:own"] = values["json:own"].replace("key", "name")
    client.done("/memory/review/DEC-0002/edit", **values)
    record = session.get("DEC-0002")
    assert record.rationale == f"{given['rationale']} and more"
    assert record.aliases == ["one\u200b", "two"]
    assert record.given["own"] == {"name": "\x85\u202e"}


def test_edit_of_a_text_with_an_invisible_character_and_its_spelling_is_refused(
    session: SessionMemory, client: InspectorClient
) -> None:
    session.add_decision("Marks", rationale="\x1b is written \\x1b", topic="a")
    values = form_values(client, "DEC-0002")
    answer = client.post("/memory/review/DEC-0002/edit", **{**values, "text:rationale": "other"})
    assert answer.status == 400
    assert "cannot tell apart" in answer.text
    client.done("/memory/review/DEC-0002/edit", **{**values, "text:topic": "b"})
    assert session.get("DEC-0002").rationale == "\x1b is written \\x1b"


def test_field_with_a_name_that_forms_change_hinders_no_edit(session: SessionMemory, client: InspectorClient) -> None:
    own = {"a\u200bb": "kept", "c\nd": "kept", "e:f": "old"}
    session.add("decision", {"decision": "Names", **own})
    values = form_values(client, "DEC-0002") | {"text:decision": "New names", "text:e:f": "new"}
    client.done("/memory/review/DEC-0002/edit", **values)
    record = session.get("DEC-0002")
    assert record.decision == "New names"
    assert {name: record.given[name] for name in own} == {**own, "e:f": "new"}


def test_edit_of_json_numbers_and_removal_of_a_field(session: SessionMemory, client: InspectorClient) -> None:
    session.add_decision("All kinds", impact={"score": 3}, rationale="r", importance=0.5)
    values = form_values(client, "DEC-0002")
    values |= {"json:impact": '{"score": 4}', "text:rationale": "", "number:importance": "0.75"}
    client.done("/memory/review/DEC-0002/edit", **values)
    record = session.get("DEC-0002")
    assert record.impact == {"score": 4}
    assert record.rationale is None
    assert record.importance == 0.75


def test_edit_undo_restores_the_former_values_as_a_new_revision(
    session: SessionMemory, client: InspectorClient
) -> None:
    values = form_values(client, "DEC-0001") | {"text:rationale": "", "text:decision": "Use SAML"}
    page = client.undo(client.done("/memory/review/DEC-0001/edit", **values))
    record = session.get("DEC-0001")
    assert (record.decision, record.rationale, record.revision) == ("Use OAuth", "Standard", 3)
    assert "as it was before the edit" in page.text


def test_undo_of_an_edit_is_refused_after_another_change(session: SessionMemory, client: InspectorClient) -> None:
    page = client.done("/memory/review/DEC-0001/edit", **form_values(client, "DEC-0001") | {"text:rationale": "Mine"})
    session.update("DEC-0001", rationale="Theirs", by="bob")
    undo = re.search(r'action="(/undo/[^"]+)"', page.html)
    assert undo is not None
    answer = client.post(undo[1])
    assert answer.status == 409
    assert "has been changed again, to revision 3" in answer.text
    assert session.get("DEC-0001").rationale == "Theirs"


@pytest.mark.parametrize("action", ["edit", "pin", "resolve", "delete"])
def test_undo_leaves_a_session_archived_and_works_after_it_is_restored(
    memory: Memory, session: SessionMemory, client: InspectorClient, action: str
) -> None:
    before = session.get("DEC-0001")
    page = client.done("/memory/review/DEC-0001/" + action, **{"revision": "1", "text:rationale": "Safe"})
    memory.archive_session("review")
    undo = re.findall(r'action="(/undo/[^"]+)"', page.html)[0]
    answer = client.post(undo)
    assert answer.status >= 400
    assert "Session review is archived" in answer.text
    assert memory.store.sessions(ARCHIVED, id="review")
    memory.restore_session("review")
    client.done(undo)
    record = memory.session("review").get("DEC-0001")
    for name in ("rationale", "pinned", "status"):
        assert record.get(name) == before.get(name)


def test_undo_works_once(session: SessionMemory, client: InspectorClient) -> None:
    page = client.done("/memory/review/DEC-0001/pin")
    undo = re.search(r'action="(/undo/[^"]+)"', page.html)
    assert undo is not None
    assert client.post(undo[1]).status == 303
    again = client.post(undo[1])
    assert again.status == 404
    assert "nothing to undo" in again.text
    assert client.post("/undo/nonsense").status == 404


def test_edit_conflict_shows_theirs_and_mine_and_saves_again(session: SessionMemory, client: InspectorClient) -> None:
    values = form_values(client, "DEC-0001") | {"text:rationale": "Mine"}
    session.update("DEC-0001", rationale="Theirs", decision="Use OAuth 2.1", by="bob")
    conflict = client.post("/memory/review/DEC-0001/edit", **values)
    assert conflict.status == 409
    assert "revision 2" in conflict.text
    assert "by bob" in conflict.text
    assert "<ins>Theirs</ins>" in conflict.html
    assert "<ins>Mine</ins>" in conflict.html
    assert session.get("DEC-0001").rationale == "Theirs"
    assert conflict.value("revision") == "2"
    assert conflict.value("text:decision") == "Use OAuth 2.1"  # untouched here: theirs stays
    assert conflict.value("text:rationale") == "Mine"
    again = {name: conflict.value(name) for name in values}
    client.done("/memory/review/DEC-0001/edit", **again)
    record = session.get("DEC-0001")
    assert (record.rationale, record.decision, record.revision) == ("Mine", "Use OAuth 2.1", 3)


def test_edit_sent_twice_changes_it_once(session: SessionMemory, client: InspectorClient) -> None:
    values = form_values(client, "DEC-0001") | {"text:rationale": "Mine"}
    client.done("/memory/review/DEC-0001/edit", **values)
    assert client.post("/memory/review/DEC-0001/edit", **values).status == 409
    assert session.get("DEC-0001").revision == 2


@pytest.mark.parametrize(
    ("control", "value", "said"),
    [
        ("text:decision", "", "must not be empty"),
        ("list:tags", "not a tag!", "is not a tag"),
        ("number:importance", "7", "importance"),
        ("text:valid_from", "some day", "valid_from"),
        ("json:rationale", "{", "not valid JSON"),
        ("text:id", "DEC-0009", "not a field that can be edited"),
        ("text:author", "mallory", "not a field that can be edited"),
        ("text:__class__", "x", "not a field that can be edited"),
        ("code:decision", "x", "not a field that can be edited"),
        ("text:decision", "x" * (1 << 20), "decision"),
        ("revision", "two", "must be a whole number"),
    ],
)
def test_bad_edit_is_explained_and_keeps_what_was_typed(
    session: SessionMemory, client: InspectorClient, control: str, value: str, said: str
) -> None:
    values = form_values(client, "DEC-0001") | {"text:rationale": "typed <b>", control: value}
    answer = client.post("/memory/review/DEC-0001/edit", **values)
    assert answer.status == 400
    assert said in answer.text
    if control != "json:rationale":
        assert answer.value("text:rationale") == "typed <b>"
    assert session.get("DEC-0001").revision == 1


def test_error_stands_beside_its_field(session: SessionMemory, client: InspectorClient) -> None:
    values = form_values(client, "DEC-0001") | {"list:tags": "a b c!"}
    answer = client.post("/memory/review/DEC-0001/edit", **values)
    control = re.search(r'<textarea[^>]*name="list:tags"[^>]*>', answer.html)
    assert control is not None
    assert 'aria-invalid="true"' in control[0]
    assert 'id="field-list-tags-error"' in answer.html


def test_edited_secret_is_redacted_and_said(session: SessionMemory, client: InspectorClient) -> None:
    secret = TOKEN
    values = form_values(client, "DEC-0001") | {"text:rationale": f"token {secret}"}
    page = client.done("/memory/review/DEC-0001/edit", **values)
    assert secret not in session.get("DEC-0001").rationale
    assert secret not in page.html
    assert "Removed before saving" in page.text


def test_turn_cannot_be_edited(session: SessionMemory, client: InspectorClient) -> None:
    session.add_turn("user", "Hello")
    assert "cannot be changed" in client.get("/memory/review/TURN-0001/edit").text
    answer = client.post("/memory/review/TURN-0001/edit", **{"revision": "1", "text:content": "Bye"})
    assert answer.status == 400
    assert session.get("TURN-0001").content == "Hello"
    assert "/TURN-0001/edit" not in client.get("/memory/review/TURN-0001").html


# -- marks


def test_pin_and_its_undo(session: SessionMemory, client: InspectorClient) -> None:
    page = client.done("/memory/review/DEC-0001/pin")
    assert session.get("DEC-0001").pinned
    assert "already" in client.done("/memory/review/DEC-0001/pin").text
    assert session.get("DEC-0001").revision == 2
    client.undo(page)
    assert not session.get("DEC-0001").pinned
    page = client.done("/memory/review/DEC-0001/unpin")
    assert "not pinned already" in page.text


def test_resolve_reopen_and_their_undo(session: SessionMemory, client: InspectorClient) -> None:
    path = "/memory/review/FIND-0001"
    page = client.done(f"{path}/resolve", revision="1", status="resolved", resolution="Added <b>a limit</b>")
    record = session.get("FIND-0001")
    assert (record.status, record.resolution["action_taken"], record.resolution["resolved_by"]) == (
        "resolved",
        "Added <b>a limit</b>",
        "ada",
    )
    assert "settled already" in client.done(f"{path}/resolve", revision="2").text
    client.undo(page)
    assert session.get("FIND-0001").status == "open"
    assert session.get("FIND-0001").resolution is None
    client.done(f"{path}/resolve", revision="3", status="wontfix")
    page = client.done(f"{path}/reopen", revision="4")
    assert session.get("FIND-0001").status == "reopened"
    client.undo(page)
    assert session.get("FIND-0001").status == "wontfix"


def test_resolve_of_a_changed_memory_is_a_conflict(session: SessionMemory, client: InspectorClient) -> None:
    session.update("FIND-0001", finding="No limit at all")
    answer = client.post("/memory/review/FIND-0001/resolve", revision="1", resolution="typed")
    assert answer.status == 409
    assert answer.value("resolution") == "typed"
    assert session.get("FIND-0001").status == "open"


def test_resolve_needs_a_status_that_settles(session: SessionMemory, client: InspectorClient) -> None:
    assert client.post("/memory/review/FIND-0001/resolve", revision="1", status="dancing").status == 400
    session.add_learning("Count by address")
    assert client.post("/memory/review/LEARN-0001/resolve", revision="1").status == 400
    assert "Only memories with a status" in client.get("/memory/review/LEARN-0001/resolve").text


def test_relate_remove_and_their_undo(session: SessionMemory, client: InspectorClient) -> None:
    path = "/memory/review/DEC-0001"
    assert "No rate limit" in client.get(f"{path}/relate").html  # suggested
    page = client.done(f"{path}/relate", kind="resolves", target="review/FIND-0001")
    assert session.get("DEC-0001").relations == [{"kind": "resolves", "target": "FIND-0001"}]
    assert "already" in client.done(f"{path}/relate", kind="resolves", target="FIND-0001").text
    client.undo(page)
    assert session.get("DEC-0001").relations == []
    client.done(f"{path}/relate", kind="resolves", target="FIND-0001")
    page = client.done(f"{path}/unrelate", kind="resolves", target="review/FIND-0001")
    assert session.get("DEC-0001").relations == []
    client.undo(page)
    assert session.get("DEC-0001").relations == [{"kind": "resolves", "target": "FIND-0001"}]
    assert "no such relation" in client.done(f"{path}/unrelate", kind="blocks", target="FIND-0001").text


def test_relation_of_a_turn_is_removed_and_can_be_undone(session: SessionMemory, client: InspectorClient) -> None:
    turn = session.add_turn("user", "Which login do we use?").id
    path = f"/memory/review/{turn}"
    page = client.done(f"{path}/relate", kind="led_to", target="DEC-0001")
    client.undo(page)
    assert session.get(turn).relations == []
    client.done(f"{path}/relate", kind="led_to", target="DEC-0001")
    assert "Remove: led_to review/DEC-0001" in client.get(path).html
    page = client.done(f"{path}/unrelate", kind="led_to", target="review/DEC-0001")
    assert session.get(turn).relations == []
    client.undo(page)
    assert session.get(turn).relations == [{"kind": "led_to", "target": "DEC-0001"}]


def test_removed_relation_to_a_deleted_memory_comes_back(session: SessionMemory, client: InspectorClient) -> None:
    session.relate("DEC-0001", "FIND-0001", "resolves")
    session.delete("FIND-0001")
    page = client.done("/memory/review/DEC-0001/unrelate", kind="resolves", target="review/FIND-0001")
    assert session.get("DEC-0001").relations == []
    client.undo(page)
    assert session.get("DEC-0001").relations == [{"kind": "resolves", "target": "FIND-0001"}]


def test_action_that_cannot_be_logged_is_reported_on_the_page(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    log = Path(memory.store.audit.path)
    log.unlink(missing_ok=True)
    log.mkdir()
    page = client.done("/memory/review/FIND-0001/delete")
    assert "delete was done but could not be logged in" in page.text
    assert "could not be logged" in client.get("/search").text
    log.rmdir()
    page = client.done("/memory/review/FIND-0001/restore")
    assert "could not be logged" not in page.text


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("resolves", "FIND-0099"),
        ("resolves", "other/FIND-0001"),
        ("not a kind!", "FIND-0001"),
        ("", "FIND-0001"),
        ("resolves", ""),
        ("resolves", "../../etc/passwd"),
    ],
)
def test_bad_relation_is_refused(session: SessionMemory, client: InspectorClient, kind: str, target: str) -> None:
    answer = client.post("/memory/review/DEC-0001/relate", kind=kind, target=target)
    assert answer.status in (400, 404)
    assert answer.value("target") == target
    assert session.get("DEC-0001").relations == []


# -- removal


def test_delete_says_what_happens_then_deletes_and_undoes(session: SessionMemory, client: InspectorClient) -> None:
    session.relate("DEC-0001", "FIND-0001", "resolves")
    path = "/memory/review/FIND-0001"
    preview = client.get(f"{path}/delete")
    assert "until 2026-12-17" in preview.text
    assert "in 1 month" in preview.text
    assert "DEC-0001" in preview.text
    assert session.find("FIND-0001").deleted is False  # type: ignore[union-attr]
    page = client.done(f"{path}/delete", reason="<i>wrong</i>")
    found = session.find("FIND-0001")
    assert found is not None
    assert found.to_dict()["deleted"] == {"at": "2026-11-17T12:00:00Z", "by": "ada", "reason": "<i>wrong</i>"}
    assert "Nothing was done" in client.done(f"{path}/delete").text
    client.undo(page)
    assert session.get("FIND-0001").id == "FIND-0001"


def test_undo_of_a_deletion_after_somebody_restored_it_is_explained(
    session: SessionMemory, client: InspectorClient
) -> None:
    page = client.done("/memory/review/FIND-0001/delete")
    session.restore("FIND-0001", by="bob")
    undo = re.search(r'action="(/undo/[^"]+)"', page.html)
    assert undo is not None
    assert client.post(undo[1]).status == 404
    assert session.get("FIND-0001").id == "FIND-0001"


def test_restore_and_its_undo(session: SessionMemory, client: InspectorClient) -> None:
    session.delete("FIND-0001", reason="wrong", by="bob")
    page = client.done("/memory/review/FIND-0001/restore")
    assert session.get("FIND-0001").id == "FIND-0001"
    client.undo(page)
    found = session.find("FIND-0001")
    assert found is not None
    assert found.to_dict()["deleted"]["reason"] == "wrong"


def test_restore_from_the_cold_segment(
    memory: Memory, session: SessionMemory, client: InspectorClient, clock: Clock
) -> None:
    session.add_decision("Own passwords", status="superseded")
    clock.pass_days(60)
    session.compact("forced")
    assert session.find("DEC-0002") is None
    page = client.done("/memory/review/DEC-0002/restore")
    assert session.get("DEC-0002").decision == "Own passwords"
    assert "/undo/" not in page.html


def test_redact_previews_kinds_without_content_and_redacts(memory: Memory, client: InspectorClient) -> None:
    secret = TOKEN
    session = memory.create_session("plain", config={"privacy.redaction": {"enabled": False}})
    session.add_finding(f"The token is {secret}")
    preview = client.get("/memory/plain/FIND-0001/redact")
    assert secret not in preview.html
    assert "github" in preview.text.lower()
    assert secret in session.get("FIND-0001").finding
    page = client.done("/memory/plain/FIND-0001/redact", reason="leaked")
    assert secret not in session.get("FIND-0001").finding
    assert "Redacted 1 memory of plain" in page.text
    assert "Nothing to remove" in client.get("/memory/plain/FIND-0001/redact").text


def test_erase_needs_the_typed_id_and_shows_a_receipt(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    path = "/memory/review/FIND-0001"
    preview = client.get(f"{path}/erase")
    assert "review/findings.jsonl" in preview.text
    assert "copies in backups" in preview.text
    for wrong in ("", "find-0001", "review/FIND-0001"):
        answer = client.post(f"{path}/erase", confirm=wrong, reason="kept text")
        assert answer.status == 400
        assert answer.value("reason") == "kept text"
    assert session.find("FIND-0001") is not None
    receipt = client.done(f"{path}/erase", confirm="FIND-0001", reason="asked for")
    assert receipt.status == 200
    assert "Receipt" in receipt.text
    assert "complete" in receipt.text
    assert "findings.jsonl" in receipt.text
    assert session.find("FIND-0001") is None
    again = client.post(f"{path}/erase", confirm="FIND-0001")
    assert again.status == 404
    assert memory.store.audit.entries()[-1]["by"] == "ada"


# -- all actions


@pytest.mark.parametrize("action", ACTIONS)
def test_forms_change_nothing(memory: Memory, session: SessionMemory, client: InspectorClient, action: str) -> None:
    before = [each.to_dict() for each in session.records(include_deleted=True)]
    audited = len(memory.store.audit.entries())
    page = client.get(f"/memory/review/FIND-0001/{action}")
    assert page.status in (200, 303)
    if page.status == 200:
        assert 'id="action"' in page.html
    assert [each.to_dict() for each in session.records(include_deleted=True)] == before
    assert len(memory.store.audit.entries()) == audited


@pytest.mark.parametrize("action", ACTIONS)
def test_forged_token_is_refused(session: SessionMemory, client: InspectorClient, action: str) -> None:
    for token in ("", "forged"):
        answer = client.post(f"/memory/review/FIND-0001/{action}", token=token, confirm="FIND-0001", revision="1")
        assert answer.status == 403
    assert session.get("FIND-0001").revision == 1


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    "name", ["review/FIND-0099", "none/FIND-0001", "..%2f..%2fx/FIND-0001", "review/..", "review/%00"]
)
def test_actions_on_what_is_not_there_are_not_found(
    session: SessionMemory, client: InspectorClient, action: str, name: str
) -> None:
    assert client.post(f"/memory/{name}/{action}", confirm="FIND-0001", revision="1").status in (404, 405)


def test_unknown_action_is_not_found(session: SessionMemory, client: InspectorClient) -> None:
    assert client.get("/memory/review/FIND-0001/explode").status == 404
    assert client.post("/memory/review/FIND-0001/explode").status == 404


def test_actions_on_an_archived_session_do_nothing_and_say_why(
    memory: Memory, session: SessionMemory, client: InspectorClient
) -> None:
    memory.archive_session("review")
    page = client.done("/memory/review/FIND-0001/delete")
    assert "Nothing was done" in page.text
    assert "archived" in page.text
    assert memory.store.sessions(ARCHIVED, id="review")


# -- turns that say the same

SAME = "The HTTP timeout of the payment client is 30 seconds."


def test_delete_offers_turns_that_say_the_same(session: SessionMemory, client: InspectorClient) -> None:
    session.add_turn("user", SAME)
    session.add_decision(SAME)
    form = client.get("/memory/review/DEC-0002/delete")
    assert "Delete also 1 turn that say the same: review/TURN-0001" in form.text
    assert 'name="echoes" value="1">' in form.html
    assert "TURN-0001" not in client.get("/memory/review/DEC-0001/delete").text
    client.done("/memory/review/DEC-0002/delete")
    assert not session.get("TURN-0001").deleted
    session.restore("DEC-0002")
    page = client.done("/memory/review/DEC-0002/delete", echoes="1")
    assert "with 1 turn that said the same" in page.text
    assert {each.id for each in session.deleted()} == {"DEC-0002", "TURN-0001"}
    client.post(re.findall(r'action="(/undo/[^"]+)"', page.html)[0])
    assert session.deleted() == []


def test_erase_takes_turns_that_say_the_same_along_unless_the_box_is_cleared(
    session: SessionMemory, client: InspectorClient
) -> None:
    session.add_turn("user", SAME)
    session.add_decision(SAME)
    assert 'name="echoes" value="1" checked>' in client.get("/memory/review/DEC-0002/erase").html
    page = client.done("/memory/review/DEC-0002/erase", confirm="DEC-0002")
    assert "Turns that say the same and are kept" in page.text
    session.add_decision(SAME)
    client.done("/memory/review/DEC-0003/erase", confirm="DEC-0003", echoes="1")
    assert [record.id for record in session.records()] == ["DEC-0001", "FIND-0001"]


def test_severity_and_status_are_choices_and_an_unknown_value_stays_one(
    memory: Memory, client: InspectorClient
) -> None:
    session = memory.create_session("choices")
    session.add_finding("a", severity="odd")
    page = client.get("/memory/choices/FIND-0001/edit")
    for name, offered in (("severity", SEVERITIES), ("status", KINDS["finding"].statuses)):
        select = page.html.split(f'name="text:{name}"')[1].split("</select>")[0]
        assert all(f'<option value="{word}"' in select for word in offered)
    assert page.value("text:severity") == "odd"
    client.done("/memory/choices/FIND-0001/edit", **{"revision": "1", "text:severity": "high"})
    assert session.get("FIND-0001").severity == "high"


@pytest.mark.parametrize(
    ("type", "status"), [("finding", "resolved"), ("finding", "wontfix"), ("decision", "superseded")]
)
def test_form_of_resolving_says_about_fading_what_the_page_shows_afterwards(
    memory: Memory, client: InspectorClient, clock: Clock, type: str, status: str
) -> None:
    session = memory.create_session("fading")
    id = session.add(type, {type: "Something", "author": "ada"}).id
    clock.pass_days(20)
    before = client.get(f"/memory/fading/{id}").text
    text = client.post(f"/memory/fading/{id}/resolve", status=status, revision="none").text
    now, at_once, later = re.search(
        r"Its priority: ([\d.]+) now, ([\d.]+) when it is \w+, ([\d.]+) after 30 days", text
    ).groups()  # type: ignore[union-attr]
    assert f"Priority {now} now" in before
    client.done(f"/memory/fading/{id}/resolve", status=status, revision="1")
    assert f"Priority {at_once} now" in client.get(f"/memory/fading/{id}").text
    clock.pass_days(30)
    assert f"Priority {later} now" in client.get(f"/memory/fading/{id}").text
