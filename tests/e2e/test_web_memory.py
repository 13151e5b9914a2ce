"""Actions on memories in a real browser: dialogs, edit, conflict, delete and undo, erasure, by keyboard alone, and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import smp_memory
from smp_memory.session import SessionMemory
from tests.e2e.web_site import Visitor, WebSite, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".bmad" / "memory"


@pytest.fixture
def session(root: Path) -> Iterator[SessionMemory]:
    """The session as another process sees it while the inspector runs."""
    with smp_memory.open(root) as memory:
        made = memory.create_session("review", user="ada")
        made.add_decision("Use OAuth 2.0", rationale="Standard", author="architect", tags=["auth"])
        made.add_finding("Login has no rate limit", severity="high", author="veritas")
        made.add_finding("<img src=x onerror=\"document.title='pwned'\">", author="mallory")
        made.relate("DEC-0001", "FIND-0001", "resolves")
        yield made


@pytest.fixture
def visitor(browser: Browser, root: Path, session: SessionMemory) -> Iterator[Visitor]:
    with WebSite(root, "--author", "ada") as site:
        visitor = Visitor(browser, site)
        yield visitor
        assert visitor.errors == []
        assert visitor.elsewhere == []
        visitor.context.close()


def test_edit_in_a_dialog_saves_and_can_be_undone(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/memory/review/DEC-0001")
    page.get_by_role("link", name="Edit", exact=True).click()
    page.locator("dialog").get_by_label("Rationale").fill("Standard, and safe")
    page.locator("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("Saved DEC-0001").wait_for()
    assert session.get("DEC-0001").rationale == "Standard, and safe"
    assert session.get("DEC-0001").updated_by == "ada"
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("as it was before the edit").wait_for()
    assert session.get("DEC-0001").rationale == "Standard"


def test_edit_conflict_shows_both_and_saves_mine(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/memory/review/DEC-0001")
    page.get_by_role("link", name="Edit", exact=True).click()
    page.locator("dialog").get_by_label("Rationale").fill("Mine")
    session.update("DEC-0001", rationale="Theirs", tags=["auth", "sso"], by="bob")
    page.locator("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="DEC-0001 was changed while you edited it").wait_for()
    assert page.locator("ins", has_text="Theirs").count() == 1
    page.get_by_role("button", name="Save mine").click()
    page.get_by_text("Saved DEC-0001").wait_for()
    record = session.get("DEC-0001")
    assert (record.rationale, record.tags) == ("Mine", ["auth", "sso"])
    visitor.errors = [each for each in visitor.errors if "409" not in each]  # the browser notes the status


def test_delete_and_undo_by_keyboard_alone(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/memory/review/FIND-0001")
    page.keyboard.press("d")
    page.locator("dialog[open]").get_by_text("Agents and searches no longer get it.").wait_for()
    page.wait_for_selector("dialog[open] #field-reason:focus")
    page.keyboard.type("a mistake")  # the field of the reason has the focus
    page.keyboard.press("Enter")
    page.get_by_text("FIND-0001 is in the trash.").wait_for()
    visitor.ready()
    found = session.find("FIND-0001")
    assert found is not None
    assert found.to_dict()["deleted"]["reason"] == "a mistake"
    undo = page.get_by_role("button", name="Undo")
    for _ in range(60):
        if undo.evaluate("each => each === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("FIND-0001 is restored.").wait_for()
    assert session.get("FIND-0001").id == "FIND-0001"


@pytest.mark.parametrize("slower", [1, 20])
def test_dialog_closes_with_escape_and_cancel_and_changes_nothing(
    visitor: Visitor, session: SessionMemory, slower: int
) -> None:
    visitor.slow_down(slower)
    page = visitor.go("/memory/review/FIND-0001")
    page.keyboard.press("e")
    page.get_by_role("dialog", name="Edit FIND-0001").get_by_label("Finding").wait_for()
    page.wait_for_selector("dialog[open] :focus")
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")
    page.keyboard.press("r")
    page.get_by_role("dialog", name="Relate FIND-0001").get_by_text("Cancel").click()
    page.locator("dialog[open]").wait_for(state="detached")
    assert session.get("FIND-0001").revision == 1


def test_focus_returns_to_the_link_that_opened_a_dialog(visitor: Visitor) -> None:
    page = visitor.go("/memory/review/FIND-0001")
    link = page.get_by_role("link", name="Edit", exact=True)
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] :focus")
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="detached")
    assert link.evaluate("each => each === document.activeElement")


def test_severity_and_status_are_choices(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/memory/review/FIND-0001")
    page.get_by_role("link", name="Edit", exact=True).click()
    page.locator("dialog").get_by_label("Severity").select_option("low")
    page.locator("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("Saved FIND-0001").wait_for()
    assert session.get("FIND-0001").severity == "low"


def test_key_right_after_a_dialog_was_closed_is_taken(visitor: Visitor, session: SessionMemory) -> None:
    """The browser leaves the focus in the closed dialog until the next frame, so the key still goes there."""
    page = visitor.go("/memory/review/FIND-0001")
    page.keyboard.press("e")
    page.wait_for_selector("dialog[open] textarea:focus")
    page.evaluate("""() => {
        const typed = document.activeElement;
        typed.closest("dialog").close();
        typed.dispatchEvent(new KeyboardEvent("keydown", {key: "r", bubbles: true, cancelable: true}));
    }""")
    page.get_by_role("dialog", name="Relate FIND-0001").wait_for()


def test_erasure_needs_the_typed_id(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/memory/review/FIND-0001")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Erase…").click()
    dialog = page.locator("dialog")
    dialog.get_by_label("Type FIND-0001 to confirm").fill("find-0001")
    dialog.get_by_role("button", name="Erase for good").click()
    page.get_by_text("exactly as it is shown here").first.wait_for()
    assert session.find("FIND-0001") is not None
    page.get_by_label("Type FIND-0001 to confirm").fill("FIND-0001")
    page.get_by_role("button", name="Erase for good").click()
    page.get_by_role("heading", name="Receipt").wait_for()
    assert session.find("FIND-0001") is None
    visitor.errors = [each for each in visitor.errors if "400" not in each]


def test_memory_is_shown_beside_a_list_and_its_actions_work_there(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/agent?kind=context&task=OAuth")
    page.locator("#told a.id", has_text="DEC-0001").first.click()
    aside = page.locator("#aside")
    aside.get_by_text("Use OAuth 2.0").first.wait_for()
    aside.get_by_role("link", name="Edit", exact=True).wait_for()
    assert aside.get_by_role("heading", name="Where it is stored").count() == 0  # only on its own page
    width = aside.evaluate("each => [each.scrollWidth, each.clientWidth]")
    assert width[0] <= width[1]
    aside.get_by_role("button", name="Pin").click()
    page.get_by_text("DEC-0001 is pinned now.").wait_for()


def test_page_of_a_memory_shows_the_change_of_another_process(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/memory/review/DEC-0001")
    page.locator('#live[data-state="on"]').wait_for()
    session.update("DEC-0001", rationale="Changed elsewhere", by="bob")
    page.locator(".fields", has_text="Changed elsewhere").wait_for()


def test_relations_can_be_walked_in_the_picture(visitor: Visitor, session: SessionMemory) -> None:
    page = visitor.go("/memory/review/DEC-0001")
    page.locator(".relation-graph a", has_text="FIND-0001").click()
    page.wait_for_url("**/memory/review/FIND-0001")


def test_actions_work_without_scripts(browser: Browser, root: Path, session: SessionMemory) -> None:
    with WebSite(root, "--author", "ada") as site:
        visitor = Visitor(browser, site, java_script_enabled=False)
        page = visitor.go("/memory/review/DEC-0001")
        page.get_by_role("link", name="Edit", exact=True).click()
        page.get_by_label("Rationale").fill("Without scripts")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Saved DEC-0001").wait_for()
        visitor.context.close()
    assert session.get("DEC-0001").rationale == "Without scripts"
