"""The page Sessions: true counts and states, filters, pages, archived and deleted sessions, hostile names and summaries."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from smp_memory.integrations.web.pages import sessions
from smp_memory.integrations.web.pages.sessions import PAGE_SESSIONS
from smp_memory.integrations.web.request import PageRequest
from smp_memory.memory import Memory
from smp_memory.model.session_info import ARCHIVED
from tests.unit.web.inspector_client import Clock, InspectorClient


def _table(html: str) -> list[str]:
    """The rows of the list of live sessions."""
    body = html.split('id="sessions"')[1].split("</table>", maxsplit=1)[0].split("<tbody>")
    return body[1].split("</tr>")[:-1] if len(body) > 1 else []


def test_empty_store_says_how_a_session_begins(client: InspectorClient) -> None:
    page = client.get("/sessions")
    assert page.status == 200
    assert "No session yet" in page.text
    assert "smp session new" in page.text
    assert "No session is archived" in page.text


def test_session_shows_state_people_counts_open_findings_and_next_step(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review", user="ada", project="shop")
    session.add_turn("user", "Hello")
    session.add_decision("Use OAuth", author="architect")
    session.add_finding("No rate limit", severity="high", author="veritas")
    closed = session.add_finding("Fixed already", severity="low", author="veritas")
    session.update(closed.id, status="resolved")
    row = _table(client.get("/sessions").html)[0]
    for expected in ("review", "shop", "ada", "architect", "veritas", "active", "1 turn", "1 decision", "2 findings"):
        assert expected in row, expected
    assert "1 open finding<" in row
    assert "idle in 24 hours unless used" in row or "idle in 1 day unless used" in row


def test_next_step_names_the_date_of_archiving(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    memory.create_session("old").add_turn("user", "Hello")
    clock.pass_days(20)
    row = _table(client.get("/sessions").html)[0]
    assert "decaying" in row
    assert "archived on 17 Dec unless used" in row
    clock.pass_days(20)
    assert "archived at the next maintenance" in _table(client.get("/sessions").html)[0]


def test_filters_by_text_state_and_project(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    memory.create_session("old-one", project="shop").add_turn("user", "a")
    clock.pass_days(3)
    memory.create_session("new-one", user="grace", project="bank").add_turn("user", "a")

    def names(query: str) -> list[str]:
        return re.findall(
            r'href="/session/([^"?]+)" class="name"', " ".join(_table(client.get(f"/sessions?{query}").html))
        )

    assert names("") == ["new-one", "old-one"]
    assert names("sort=unused") == ["old-one", "new-one"]
    assert names("q=GRACE") == ["new-one"]
    assert names("project=shop") == ["old-one"]
    assert names("state=idle") == ["old-one"]
    assert names("sort=next") == ["new-one", "old-one"]
    assert names("q=nothing") == []
    assert "No session matches these filters" in client.get("/sessions?q=nothing").text


def test_filter_by_state_agrees_with_the_states_of_the_store(
    memory: Memory, client: InspectorClient, clock: Clock
) -> None:
    memory.create_session("never-used")
    for number, age in enumerate((40, 20, 8, 3, 0)):
        clock.pass_days(-age)
        memory.create_session(f"age-{age}").add_turn("user", "a")
        own = {"lifecycle.idle_hours": 1000.0} if number % 2 else {"lifecycle.decaying_days": 2.0}
        memory.create_session(f"own-{age}", config=own).add_turn("user", "a")
        clock.pass_days(age)
    for state in sessions.STATES:
        shown = re.findall(
            r'href="/session/([\w-]+)" class="name"', " ".join(_table(client.get(f"/sessions?state={state}").html))
        )
        assert sorted(shown) == sorted(each.session for each in memory.session_states() if each.state == state)


def test_changed_metadata_is_shown_at_once(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("review", user="ada")
    session.add_turn("user", "a")
    client.get("/sessions")
    session.change_info(user="grace", project="bank")
    assert "bank · grace" in client.get("/sessions?project=bank").text


def test_list_is_paged_and_each_session_is_on_one_page(memory: Memory, client: InspectorClient) -> None:
    for number in range(PAGE_SESSIONS + 3):
        memory.create_session(f"s{number:03}").add_turn("user", "a")
    first = client.get("/sessions?sort=name")
    assert f"{PAGE_SESSIONS + 3} sessions" in first.text
    assert len(_table(first.html)) == PAGE_SESSIONS
    found = re.search(r'href="(/sessions\?[^"]*offset=\d+)"', first.html)
    assert found is not None
    second = client.get(found[1].replace("&amp;", "&"))
    names = [re.findall(r">(s\d{3})<", " ".join(_table(page.html))) for page in (first, second)]
    assert sorted(names[0] + names[1]) == [f"s{number:03}" for number in range(PAGE_SESSIONS + 3)]
    assert len(names[1]) == 3


def test_archived_session_is_listed_with_its_summary_and_stays_archived(
    memory: Memory, client: InspectorClient
) -> None:
    session = memory.create_session("done")
    session.add_decision("Keep the old schema")
    memory.archive_session("done", "finished")
    page = client.get("/sessions")
    assert "Archived: 1 session" in page.text
    assert "because: finished" in page.text
    assert "Keep the old schema" in page.text
    assert 'action="/session/done/restore"' in page.html
    own = client.get("/session/done")
    assert own.status == 200
    assert "It stays archived while you look" in own.text
    assert "Keep the old schema" in own.text
    assert memory.store.sessions(ARCHIVED, id="done")


def test_deleted_session_is_listed_with_its_deadline(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("gone").add_turn("user", "a")
    memory.delete_session("gone", "by mistake", by="ada")
    for path in ("/sessions", "/session/gone", "/trash"):
        page = client.get(path)
        assert page.status == 200, path
        assert "because: by mistake" in page.text, path
        assert "by ada" in page.text, path
        assert "Can be restored until 2026-12-17" in page.text, path
        assert 'action="/session/gone/undelete"' in page.html, path


def test_hostile_metadata_and_summary_are_escaped(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("evil", user="<script>alert(1)</script>", project='"><img src=x>').add_turn("user", "a")
    memory.create_session("away").add_decision("<script>alert(2)</script>")
    memory.archive_session("away", "<script>alert(3)</script>")
    page = client.get("/sessions")
    assert "<script>alert" not in page.html
    assert "<img src=x" not in page.html
    assert "&lt;script&gt;alert(1)" in page.html


def test_summary_that_was_edited_by_hand_does_not_break_the_page(memory: Memory, client: InspectorClient) -> None:
    memory.create_session("away").add_decision("One")
    archived = memory.archive_session("away")
    beside = [path for path in Path(archived.path).parent.iterdir() if path.suffix == ".json"]
    for path in beside:
        data = json.loads(path.read_text())
        path.write_text(
            json.dumps(
                {**data, "key_decisions": "x", "topics": [1], "open_findings": 7, "conversation": 3, "memories": "many"}
            )
        )
    for address in ("/sessions", "/session/away"):
        page = client.get(address)
        assert page.status == 200
        assert "away" in page.text


def test_session_with_unreadable_metadata_is_still_listed(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("broken")
    session.add_turn("user", "a")
    Path(session.folder, "manifest.json").write_text("{ not json")
    assert "broken" in client.get("/sessions").text
    page = client.get("/session/broken")
    assert page.status == 200
    assert "manifest.json" in page.text


def test_unreadable_entries_are_said(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("broken")
    session.add_finding("One", severity="low")
    path = next(path for path in Path(session.folder).iterdir() if path.name.startswith("findings"))
    path.write_text(path.read_text() + "this is no entry\n")
    assert "1 entry could not be read" in client.get("/sessions").text
    assert "1 entry could not be read" in client.get("/session/broken").text
    assert "1 entry could not be read" in client.get("/timeline").text
    assert "1 entry could not be read" in client.get("/trash").text


def test_session_that_is_archived_meanwhile_does_not_hide_the_others(
    memory: Memory, client: InspectorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        memory.create_session(name).add_turn("user", "a")
    figures = sessions._figures

    def archiving(request: PageRequest, names: list[str]) -> object:
        found = figures(request, names)
        memory.archive_session("one")
        return found

    monkeypatch.setattr(sessions, "_figures", archiving)
    page = client.get("/sessions")
    assert page.status == 200
    assert [re.findall(r'href="/session/(\w+)" class="name"', row) for row in _table(page.html)] == [["two"]]


def test_looking_counts_as_no_use(memory: Memory, client: InspectorClient, clock: Clock) -> None:
    memory.create_session("quiet").add_decision("Use OAuth for the login")
    used = memory.session_states()[0].last_used
    clock.pass_days(2)
    for path in LOOKED_AT:
        assert client.get(path).status == 200, path
    assert memory.session_states()[0].last_used == used
    assert memory.store.access.pending() == []
    memory.query("login")  # this is a use, so the check above can fail
    assert memory.session_states()[0].last_used != used


LOOKED_AT = (
    "/agent?kind=prompt&task=which+login+do+we+use",
    "/agent?kind=context&agent=architect&session=quiet&task=which+login+do+we+use",
    "/agent?kind=start",
    "/agent?kind=agent&task=which+login+do+we+use",
    "/search?q=login",
    "/search?q=login&why_not=quiet/DEC-0001",
    "/memory/quiet/DEC-0001",
    "/memory/quiet/DEC-0001/edit",
    "/memory/quiet/DEC-0001/erase",
    "/sessions",
    "/session/quiet",
    "/session/quiet/archive",
    "/timeline",
    "/trash",
    "/health",
    "/analytics",
    "/export?session=quiet",
)


def test_summary_of_an_archived_session_lists_who_said_what(memory: Memory, client: InspectorClient) -> None:
    session = memory.create_session("done")
    session.add_turn("user", "Please fix the failing tests", author="ada")
    session.add_turn("assistant", "The cache was stale", author="developer")
    memory.archive_session("done")
    html = client.get("/session/done").html
    assert re.search(r"<li[^>]*>ada: Please fix the failing tests</li>", html)
    assert re.search(r"<li[^>]*>developer: The cache was stale</li>", html)
    assert "failing tests The cache" not in html
