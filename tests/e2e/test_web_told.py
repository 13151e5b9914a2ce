"""The page Told in a real browser, after hooks told an agent memories: two clicks turn one off, and the agent is not told it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.hook_host import Host, Project
from tests.e2e.web_site import Visitor, WebSite, chromium, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DECISION = "Customers log in to the shop with OAuth"
PROMPT = "How do customers log in to the shop with OAuth?"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.decide(DECISION)
    host = Host(project)
    assert DECISION in host.prompt(PROMPT)
    assert host.prompt("What is the weather on the moon?") == ""
    return project


def told_again(project: Project, conversation: str) -> bool:
    """Whether the agent of a new conversation is told the decision."""
    return DECISION in Host(project, conversation).prompt(PROMPT)


@pytest.mark.parametrize("has_scripts", [True, False], ids=["with scripts", "without scripts"])
def test_two_clicks_turn_a_memory_off_and_undo_turns_it_on(
    browser: Browser, project: Project, has_scripts: bool
) -> None:
    with WebSite(project.root, "--author", "ada") as site:
        visitor = Visitor(browser, site, java_script_enabled=has_scripts)
        page = visitor.page
        page.get_by_role("link", name="Told", exact=True).click()
        page.get_by_role("heading", name=PROMPT).wait_for()
        assert page.get_by_text("Told nothing.").count() == 1
        page.get_by_role("button", name="Do not tell: earlier/DEC-0001").click()
        page.get_by_text("DEC-0001 is turned off for recall now.").wait_for()
        assert not told_again(project, "while-off")
        page.get_by_role("button", name="Undo").click()
        page.get_by_text("DEC-0001 is turned on for recall again.").wait_for()
        assert told_again(project, "on-again")
        assert visitor.errors == []
        visitor.context.close()


def test_memory_links_to_what_was_told_and_answers_whether_it_is(browser: Browser, project: Project) -> None:
    with WebSite(project.root) as site:
        visitor = Visitor(browser, site)
        page = visitor.go("/memory/earlier/DEC-0001")
        page.get_by_label("At this prompt").fill(PROMPT)
        page.keyboard.press("Enter")
        page.get_by_text("Yes. It reaches the floor").wait_for()
        page.get_by_label("At this prompt").fill("What is the weather on the moon?")
        page.keyboard.press("Enter")
        page.locator(
            "#is-told .explanation b", has_text="No."
        ).wait_for()  # the reason depends on whether its vector is made yet
        page.get_by_role("link", name="Told 1 time").click()
        page.get_by_role("heading", name=PROMPT).wait_for()
        assert page.get_by_text("Told nothing.").count() == 0
        assert visitor.errors == []
        visitor.context.close()


def test_told_is_reached_by_keys_and_has_no_accessibility_violations(browser: Browser, project: Project) -> None:
    with WebSite(project.root) as site:
        visitor = Visitor(browser, site, viewport={"width": 390, "height": 800})
        page = visitor.go("/search")
        page.keyboard.press("Escape")
        page.locator("main").focus()
        page.keyboard.press("g")
        page.keyboard.press("o")
        page.get_by_role("heading", name="Told", exact=True).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        found = violations(page)
        page = visitor.go(f"/memory/earlier/DEC-0001?prompt={PROMPT}")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert found + violations(page) == []
        visitor.context.close()
