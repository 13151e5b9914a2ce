"""Sessions, timelines, trash, health and analytics in a real browser: filters, restoring, live updates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import smp_memory
from smp_memory.model.session_info import ARCHIVED
from tests.e2e.web_site import WAIT_SECONDS, Visitor, WebSite, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

HOSTILE = "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop") / ".bmad" / "memory"
    with smp_memory.open(folder) as memory:
        session = memory.create_session("review", user="ada", project="shop", tags=["auth"])
        turn = session.add_turn("user", "Is the login safe?", created="2026-11-01T10:00:00Z")
        finding = session.add_finding("No rate limit", severity="high", author="veritas", turn_ref=turn.id)
        fix = session.add_decision("Five attempts a minute", author="architect", rationale="enough", tags=["auth"])
        session.relate(fix.id, finding.id, "resolves")
        session.add_finding(HOSTILE, severity="low", author="mallory")
        session.add_artifact("sign-in.md", "# Sign-in\n" + "OAuth with PKCE and more of it. " * 60, author="developer")
        for number in range(2):
            session.delete(session.add_decision(f"A mistake {number}").id, reason="wrong", by="ada")
        memory.create_session("payments", user="grace", project="bank").add_turn("user", "Refunds")
        for name in ("away", "gone"):
            memory.create_session(name).add_decision(f"Decision of {name}")
        memory.archive_session("away", "done")
        memory.delete_session("gone", "mistake", by="ada")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def visitor(browser: Browser, root: Path) -> Iterator[Visitor]:
    with WebSite(root, "--author", "ada") as site:
        visitor = Visitor(browser, site)
        yield visitor
        assert visitor.errors == []
        assert visitor.elsewhere == []  # no request leaves the machine
        visitor.context.close()


def _wait_for_count(locator: Locator, count: int) -> None:
    from playwright.sync_api import expect

    expect(locator).to_have_count(count, timeout=1000 * WAIT_SECONDS)


def test_list_of_sessions_is_filtered_as_one_types(visitor: Visitor) -> None:
    page = visitor.go("/sessions")
    names = page.locator("#sessions a.name")
    names.filter(has_text="Is the login safe?").wait_for()
    assert names.count() == 2
    page.fill("#q", "grace")
    _wait_for_count(names, 1)
    assert names.inner_text() == "Refunds"
    assert "q=grace" in page.url


def test_new_memory_of_another_process_appears_in_an_open_timeline(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/session/payments")
    page.locator("#live[data-state=on]").wait_for()
    with smp_memory.open(root) as memory:
        memory.session("payments").add_decision("Refund twice at most", author="developer")
    page.locator("#timeline .card", has_text="Refund twice at most").wait_for()
    _wait_for_count(page.locator("#timeline .item"), 2)


def test_relation_leads_to_the_memory_on_the_page(visitor: Visitor) -> None:
    page = visitor.go("/session/review")
    page.locator(".kind-decision .links a", has_text="FIND-0001").click()
    page.locator("#m-review-FIND-0001:target", has_text="No rate limit").wait_for()


def test_timeline_is_filtered_without_a_reload(visitor: Visitor) -> None:
    page = visitor.go("/session/review")
    page.evaluate("window.isSame = true")
    page.select_option("#type", "decision")
    _wait_for_count(page.locator("#timeline .turn"), 0)
    assert page.locator("#timeline .kind-decision").count() == 1
    assert page.evaluate("window.isSame") is True


def test_chosen_memories_come_back_from_the_trash_and_undo_deletes_them_again(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/trash")
    page.get_by_label("Choose review/DEC-0002").check()
    page.get_by_label("Choose review/DEC-0003").check()
    page.get_by_role("button", name="Restore selected").click()
    page.locator(".notice", has_text="Restored 2 memories.").wait_for()
    with smp_memory.open(root) as memory:
        assert not memory.session("review").find("DEC-0002").deleted  # type: ignore[union-attr]
    page.get_by_role("button", name="Undo").click()
    page.get_by_label("Choose review/DEC-0003").wait_for()
    with smp_memory.open(root) as memory:
        assert memory.session("review").find("DEC-0002").deleted  # type: ignore[union-attr]


def test_one_memory_is_restored_by_its_own_button(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/trash")
    page.get_by_role("button", name="Restore review/DEC-0003").click()
    page.locator(".notice").wait_for()
    with smp_memory.open(root) as memory:
        session = memory.session("review")
        assert not session.find("DEC-0003").deleted  # type: ignore[union-attr]
        assert session.find("DEC-0002").deleted  # type: ignore[union-attr]
        session.delete("DEC-0003")


def test_looking_leaves_an_archived_session_archived(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/session/away")
    assert "Decision of away" in page.locator("main").inner_text()
    with smp_memory.open(root) as memory:
        assert memory.store.sessions(ARCHIVED, id="away")
