"""Live updates in a real browser: with many tabs, while agents write without a pause, and when the store is away for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import smp_memory
from tests.e2e.web_site import Visitor, WebSite, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TABS = 9  # a browser opens six connections to a server
LIVE = "#live[data-state=on]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / ".bmad" / "memory"
    with smp_memory.open(folder) as memory:
        session = memory.create_session("review")
        for number in range(3):
            session.delete(session.add_decision(f"A mistake {number}").id)
    return folder


@pytest.fixture
def visitor(root: Path, browser: Browser) -> Iterator[Visitor]:
    with WebSite(root) as site:
        made = Visitor(browser, site)
        yield made
        made.context.close()


def _add(root: Path, text: str) -> None:
    with smp_memory.open(root) as memory:
        memory.session("review").add_finding(text)


def test_every_one_of_many_tabs_opens_and_is_live(visitor: Visitor, root: Path) -> None:
    tabs = [visitor.page]
    for _ in range(TABS - 1):
        tab = visitor.context.new_page()
        tab.goto(f"{visitor.site.base}/search?sort=newest")
        tab.wait_for_selector(LIVE)
        tabs.append(tab)
    _add(root, "For all tabs")
    for tab in tabs[1:]:
        tab.wait_for_selector("#results >> text=For all tabs")


def test_other_tabs_stay_live_when_the_first_one_is_closed(visitor: Visitor, root: Path) -> None:
    tabs = [visitor.context.new_page() for _ in range(2)]
    for tab in tabs:
        tab.goto(f"{visitor.site.base}/search?sort=newest")
        tab.wait_for_selector(LIVE)
    visitor.page.close()
    tabs[0].close()
    for number in range(2):
        _add(root, f"Finding {number}")
        tabs[1].wait_for_selector(f"#results >> text=Finding {number}")


def test_ticks_stay_when_the_list_is_updated(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/trash")
    page.wait_for_selector(LIVE)
    page.get_by_label("Choose review/DEC-0002").check()
    with smp_memory.open(root) as memory:
        session = memory.session("review")
        session.delete(session.add_decision("A mistake more").id)
    page.get_by_label("Choose review/DEC-0004").wait_for()
    assert page.get_by_label("Choose review/DEC-0002").is_checked()
    assert page.locator("main input:checked").count() == 1


def test_notices_do_not_cover_the_page_while_agents_write(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/search?sort=newest")
    page.wait_for_selector(LIVE)
    for number in range(8):
        _add(root, f"Finding {number}.")
        page.wait_for_selector(f"#toasts >> text=Finding {number}.")
        assert page.locator(".toast").count() <= 4
    page.wait_for_selector("#results >> text=Finding 7.")


def test_light_says_that_the_store_is_away_and_pages_are_current_when_it_is_back(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/search?sort=newest")
    page.wait_for_selector(LIVE)
    moved = root.rename(root.with_name("moved"))
    page.wait_for_selector("#live[data-state=bad] >> text=was moved or removed")
    _add(moved, "Written elsewhere")
    moved.rename(root)
    page.wait_for_selector(LIVE)
    page.wait_for_selector("#results >> text=Written elsewhere")
