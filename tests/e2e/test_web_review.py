"""The page Review in a real browser: by keyboard alone, without scripts, accessible at three sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import smp_memory
from tests.e2e.web_site import Visitor, WebSite, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LOCK = "The root cause was a stale lock file of the old process."
HOSTILE = "Decided: <img src=x onerror=\"document.title='pwned'\"> we use Redis for all."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop" / ".bmad" / "memory"
    with smp_memory.open(folder) as memory:
        session = memory.create_session("shop", title="Cache of the shop")
        session.add_turn("user", HOSTILE)
        session.add_turn("user", "I read all of it. Let's go with Memcached. Please never push to main.")
        session.add_turn(
            "assistant", f"Two tests failed.\n\n{LOCK}\n\n```sh\nrm app.lock\n```\n\n" + "All pass now. " * 40
        )
    return folder


@pytest.fixture
def visitor(browser: Browser, root: Path) -> Iterator[Visitor]:
    with WebSite(root, "--author", "ada") as site:
        visitor = Visitor(browser, site)
        yield visitor
        assert visitor.errors == []
        assert visitor.elsewhere == []
        visitor.context.close()


def stored(root: Path) -> tuple[dict[str, str], list[str]]:
    with smp_memory.open(root) as memory:
        session = memory.session("shop")
        written = {each.id: each.text for each in session.records() if each.type != "conversation"}
        return written, [f"{each.turn} {each.type}" for each in session.proposals()]


def test_proposals_are_kept_edited_dropped_and_undone_by_keyboard_alone(visitor: Visitor, root: Path) -> None:
    visitor.go("/")
    page = visitor.page
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/review")
    visitor.ready().keyboard.press("j")
    page.wait_for_selector(".proposal:focus")
    page.keyboard.press("y")
    page.wait_for_selector(".notice:has-text('Kept as shop/FIND-0001')")
    visitor.ready().keyboard.press("j")
    page.keyboard.press("j")
    page.wait_for_selector(".proposal:nth-of-type(2):focus")
    page.keyboard.press("e")
    page.wait_for_selector("#dialog[open] textarea:focus")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Only the pipeline pushes to main")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".notice:has-text('Kept as shop/PREF-0001')")
    visitor.ready().keyboard.press("j")
    page.wait_for_selector(".proposal:focus")
    page.keyboard.press("d")
    page.wait_for_selector(".notice:has-text('Dropped')")
    written, left = stored(root)
    assert written == {"FIND-0001": LOCK, "PREF-0001": "Only the pipeline pushes to main"}
    assert left == ["TURN-0001 decision"]
    visitor.ready().click(".notice button")
    page.wait_for_selector(".notice:has-text('proposes it again')")
    assert stored(root)[1] == ["TURN-0002 decision", "TURN-0001 decision"]


def test_enter_opens_the_turn(visitor: Visitor) -> None:
    page = visitor.go("/review")
    page.keyboard.press("j")
    page.wait_for_selector(".proposal:focus")
    page.keyboard.press("Enter")
    page.wait_for_url("**/memory/shop/TURN-0003")
    visitor.ready()


def test_review_works_without_scripts(browser: Browser, root: Path) -> None:
    with WebSite(root) as site:
        visitor = Visitor(browser, site, java_script_enabled=False)
        page = visitor.go("/review")
        page.click(".proposal >> nth=0 >> text=Edit")
        page.fill("textarea", "A killed process leaves its lock file")
        page.select_option("select", "learning")
        page.click("#action button.primary")
        assert "Kept as shop/LEARN-0001" in page.inner_text(".notice")
        page.click(".proposal >> nth=0 >> text=Drop")
        visitor.context.close()
    written, left = stored(root)
    assert written == {"LEARN-0001": "A killed process leaves its lock file"}
    assert left == ["TURN-0002 preference", "TURN-0001 decision"]
