"""The page Health: verdict, issues with file and line, fixes, quarantine, maintenance, audit log; large stores are checked on request."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.integrations.web.pages import health
from smp_memory.memory import Memory
from smp_memory.model.session_info import ARCHIVED, SessionInfo
from tests.unit.web.inspector_client import Clock, InspectorClient


def _damage(memory: Memory, line: str = "this is no entry") -> Path:
    session = memory.create_session("broken")
    session.add_finding("One", severity="low")
    path = next(path for path in Path(session.folder).iterdir() if path.name.startswith("findings"))
    path.write_text(f"{path.read_text()}{line}\n")
    return path


def test_healthy_store_is_said_to_be_well_with_the_number_of_checks(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("review").add_turn("user", "a")
    page = client.get("/health")
    assert "All is well: " in page.text
    assert "checks passed" in page.text
    assert "1 memory in 1 session" in page.text
    assert "all memories can be read" in page.text


def test_quick_check_says_what_it_left_out_and_full_check_leaves_out_nothing(
    memory: Memory, client: InspectorClient
) -> None:
    memory.create_session("review").add_turn("user", "a")
    assert "The quick check left out" in client.get("/health").text
    assert "left out" not in client.get("/health?check=full").text
    assert "left out" not in client.get("/health?full=1").text


def test_unreadable_entry_is_the_verdict_and_names_file_line_and_what_to_do(
    memory: Memory, client: InspectorClient
) -> None:
    path = _damage(memory)
    page = client.get("/health")
    assert "cannot be read" in page.text
    assert "All is well" not in page.text
    assert f"{path.name}:2" in page.text
    assert "What to do: " in page.text
    assert 'href="/session/broken"' in page.html


def test_safe_fix_has_a_button_that_resolves_the_issue(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("open")
    session.add_turn("user", "a")
    path = next(path for path in Path(session.folder).iterdir() if path.name.startswith("conversation"))
    path.chmod(0o644)
    page = client.get("/health")
    assert 'name="fix" value="permissions"' in page.html
    client.done("/health/fix", fix="permissions")
    assert path.stat().st_mode & 0o777 == 0o600


def test_large_store_is_checked_only_when_asked_for_and_the_report_is_kept(
    memory: Memory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(health, "MOST_CHECKED_AT_ONCE", 1)
    session = memory.create_session("review")
    session.add_turn("user", "a")
    session.add_turn("user", "b")
    assert "Not checked yet" in client.get("/health").text
    assert "All is well" in client.get("/health?check=quick").text
    clock.pass_days(0.5)
    page = client.get("/health")
    assert "Checked 12 hours ago" in page.text


def test_large_store_names_unreadable_entries_before_it_is_checked(
    memory: Memory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MOST_CHECKED_AT_ONCE", 0)
    path = _damage(memory)
    page = client.get("/health")
    assert "1 entry cannot be read" in page.text
    assert f"{path.name}:2" in page.text
    assert "read all 1 memory in 1 session" in page.text


def test_quarantined_file_is_shown_escaped_and_can_be_put_back(memory: Memory, client: InspectorClient) -> None:
    _damage(memory, "<script>alert(1)</script>")
    session = memory.session("broken")
    session.repair()
    page = client.get("/health")
    assert "Quarantine: 1 file" in page.text
    assert "<script>alert" not in page.html
    assert "&lt;script&gt;alert(1)" in page.html
    [entry] = memory.store.files.quarantined()
    Path(entry.path).write_text(
        '{"id":"FIND-0009","seq":9,"timestamp":"2026-11-17T10:00:00Z","finding":"Two","severity":"low"}\n'
    )
    done = client.done("/health/quarantine", session=entry.session, name=entry.name)
    assert "Put back into session broken: FIND-" in done.text
    assert len(session.records()) == 2


def test_putting_back_an_unknown_file_is_refused(client: InspectorClient) -> None:
    page = client.post("/health/quarantine", session="../..", name="../../etc/passwd")
    assert page.status == 400
    assert "there is no such file in quarantine" in page.text


def test_audit_log_names_who_deleted_what_but_no_content(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review")
    session.delete(session.add_decision("The secret plan").id, reason="<b>old</b>", by="ada")
    audit = client.get("/health").html.split('id="audit"')[1]
    assert "/memory/review/DEC-0001" in audit
    assert "ada: &lt;b&gt;old" in audit
    assert "The secret plan" not in audit


def test_due_maintenance_is_listed_and_nothing_is_done_by_looking(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    memory.create_session("old").add_turn("user", "a")
    clock.pass_days(40)
    page = client.get("/health")
    assert "Due: archive unused sessions" in page.text
    assert memory.store.sessions(id="old")
    assert not memory.store.sessions(ARCHIVED, id="old")


def test_distrusted_store_is_said_to_be_unused_by_hooks(memory: Memory, client: InspectorClient) -> None:
    memory.distrust()
    assert "no: hooks do not use it" in client.get("/health").text


def test_empty_store_is_well(client: InspectorClient) -> None:
    page = client.get("/health")
    assert page.status == 200
    assert "Nothing was deleted, erased or exported yet" in page.text


def test_every_page_names_settings_that_cannot_be_used_or_that_wait_for_trust(memory: Memory) -> None:
    memory.create_session("review").add_turn("user", "a")
    stored = (
        '{"layout": "jsonl", "format": 1, "decay": {"policy": "fast"}, "privacy": {"redaction": {"enabled": false}}}'
    )
    Path(memory.root, "config.json").write_text(stored)
    with smp_memory.open(memory.root) as reopened:

        def change(info: SessionInfo) -> None:
            info.config = {"storage": {"max_content_kb": "large"}}

        reopened.store.session("review").update_info(change)
        client = InspectorClient(reopened)
        for path in ("/", "/sessions", "/health", "/session/review"):
            text = client.get(path).text
            assert "decay.policy" in text
            assert "privacy.redaction.enabled true → false" in text
            assert path != "/session/review" or "storage.max_content_kb" in text


SECRETS = ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "hunter2-is-not-safe!")


def _with_secrets(memory: Memory) -> None:
    """Two sessions into whose files a person typed a secret."""
    for name, secret in (("one", SECRETS[0]), ("two", f"password = {SECRETS[1]}")):
        session = memory.create_session(name)
        session.add_finding("The deploy uses PLACE and never rotates it", severity="low")
        path = next(path for path in Path(session.folder).iterdir() if path.name.startswith("findings"))
        path.write_text(path.read_text().replace("PLACE", secret))


def test_preview_of_redaction_shows_what_replaces_what_and_no_part_of_the_secret(
    memory: Memory, client: InspectorClient
) -> None:
    _with_secrets(memory)
    page = client.get("/health")
    assert 'href="/health/redact?session=one&amp;session=two"' in page.html
    assert "smp redact" not in page.text
    preview = client.get("/health/redact?session=one&session=two")
    assert "The deploy uses •••••••• → [REDACTED:github_token] and never rotates it" in preview.text
    assert "password = •••••••• → [REDACTED:password]" in preview.text
    assert 'href="/memory/one/FIND-0001"' in preview.html
    for secret in SECRETS:
        pieces = [secret[at : at + 6] for at in range(len(secret) - 5)]
        assert not [piece for piece in pieces if piece in preview.html or piece in page.html]


def test_several_sessions_are_redacted_together_and_those_not_chosen_stay(
    memory: Memory, client: InspectorClient
) -> None:
    _with_secrets(memory)
    assert "no session was chosen" in client.post("/health/redact", reason="leaked").text
    page = client.done("/health/redact", **{"session:one": "1", "reason": "leaked"})
    assert "Redacted 1 memory of one: github_token (1)." in page.text
    assert SECRETS[1] in memory.get("two/FIND-0001").finding
    client.done("/health/redact", **{"session:one": "1", "session:two": "1"})
    assert memory.get("one/FIND-0001").finding == "The deploy uses [REDACTED:github_token] and never rotates it"
    assert SECRETS[1] not in memory.get("two/FIND-0001").finding
    assert "Secrets are stored" not in client.get("/health").text


def test_notes_about_which_nothing_needs_to_be_done_are_folded_into_one_line(
    memory: Memory, client: InspectorClient
) -> None:
    for name in ("one", "two"):
        session = memory.create_session(name)
        session.add_finding("Before", severity="low")
        path = next(path for path in Path(session.folder).iterdir() if path.name.startswith("findings"))
        path.write_text(path.read_text().replace("Before", "After"))
    page = client.get("/health")
    assert "2 notes: nothing needs to be done" in page.text
    assert "All is well" in page.text
    assert page.html.split('id="folded"')[1].count("was edited by hand") == 2
    assert "was edited by hand" not in page.html.split('id="folded"')[0]
