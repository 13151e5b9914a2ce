"""Every page of the inspector at three sizes: nothing wider than the screen, nothing cut off in the header, no accessibility violation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import smp_memory
from smp_memory.integrations.web.app import GET_PAGES
from tests.crash.scenarios import depth
from tests.e2e.web_site import Visitor, WebSite, chromium, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
LONG = "a-session-id-that-is-as-long-as-a-session-id-may-be-and-no-longer"[:64]
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SIZES = ((390, 844), (900, 1100), (1440, 900))  # a page is loaded at the first one, then the window grows
WITH_AXE = (390, 1440, *[900] * depth(0, 1))
_MEMORY = f"/memory/{LONG}/DEC-0001"
PATHS = (
    "/", "/?all=deleted", "/told", "/agent?kind=prompt&task=how+many+sign-in+attempts", "/agent?kind=context&agent=architect&task=make+the+sign-in+safer", "/agent?kind=start",
    "/search", "/search?q=sign-in", "/search?tag=hostile", f"/search?q=oauth&why_not={LONG}/DEC-0002", "/sessions", "/timeline",
    f"/session/{LONG}", f"/session/{LONG}?open=1", "/session/away", "/session/gone", "/session/away/restore", "/trash", "/health", "/health?check=full",
    f"/health/redact?session={LONG}&session=other", "/analytics", "/analytics?part=topics", "/analytics?part=impact", "/analytics?part=forecast",
    "/analytics?part=decay", "/review", f"/review/{LONG}/TURN-0003/decision", "/export", "/maintain", "/result/none", "/nothing-here",
    _MEMORY, f"/memory/{LONG}/FIND-0001", f"/memory/{LONG}/FIND-0002", f"/memory/{LONG}/LEARN-0001", f"/memory/{LONG}/ART-0001",
    f"/memory/{LONG}/NONE", *(f"{_MEMORY}/{name}" for name in ("edit", "resolve", "relate", "delete", "redact", "erase")),
    *(f"/session/{LONG}/{name}" for name in ("add", "compact", "archive", "delete", "redact")),
)  # fmt: skip
CUT = """() => [...document.querySelectorAll("header :is(a, b, button, kbd)")]
  .filter((each) => each.checkVisibility({visibilityProperty: true}) && (each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflow !== "visible"
    || each.getBoundingClientRect().right > innerWidth || each.getBoundingClientRect().left < 0 && !each.matches(".skip")))
  .map((each) => each.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop") / ".bmad" / "memory"
    with smp_memory.open(folder) as memory:
        session = memory.create_session(
            LONG, user="ada", agents=["architect", "veritas"], project="shop", tags=["auth"]
        )
        old = session.add_decision("Own passwords", author="architect", tags=["auth"])
        new = session.add_decision("Use OAuth 2.0 for sign-in", rationale="Standard", author="architect", tags=["auth"])
        session.relate(new, old, "supersedes")
        session.add_finding(HOSTILE, severity="high", author="mallory", tags=["hostile"])
        session.add_finding("W" * 400, severity="low", author="m" * 90, tags=["x" * 60])
        session.add_learning("https://example.com/" + "a/very/long/path/" * 30, author="veritas")
        session.add_decision("קובץ ההגדרות נמצא בתיקייה /etc/app, אל תמחקו אותו", author="דנה")
        session.add_artifact("sign-in.md", "# Sign-in\n" + "x" * 500, author="developer")
        session.add_turn("user", "Is the sign-in safe?")
        session.add_turn("user", f"Decided: {HOSTILE} we use Memcached for all.")
        session.add_turn("user", "Decided: we use Redis for all sessions of the shop. Please never push to main.")
        session.add_learning("No longer true", valid_until="2026-01-01")
        session.delete(session.add_learning("A mistake").id, reason="wrong " * 30, by="ada")
        memory.create_session("other").add_finding("The key is PLACE")
        path = Path(memory.session("other").folder) / "findings.jsonl"
        path.write_text(path.read_text().replace("PLACE", SECRET))
        for name in ("away", "gone"):
            memory.create_session(name).add_decision(f"Decision of {name}")
            memory.session(name).add_turn("user", "w" * 200)
        memory.archive_session("away", "done")
        memory.delete_session("gone", "mistake", by="ada")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def _faults(page: Page, width: int) -> Iterator[str]:
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if overflow > 0:
        yield f"{overflow} pixels wider than the screen"
    yield from (f"cut off: {each}" for each in page.evaluate(CUT))
    rows = page.evaluate("document.querySelector('header').getBoundingClientRect().height")
    if rows > 60:
        yield f"the header has several rows: {rows} pixels"


@pytest.mark.timeout(400)  # about 140 runs of axe
def test_every_page_fits_the_screen_and_is_accessible_at_three_sizes(browser: Browser, root: Path) -> None:
    found: list[str] = []
    with WebSite(root, "--author", "ada") as site:
        visitor = Visitor(browser, site)
        for path in PATHS:
            visitor.page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
            page = visitor.go(path)
            for width, height in SIZES:
                page.set_viewport_size({"width": width, "height": height})
                faults = [*_faults(page, width)]
                if width in WITH_AXE:
                    faults += map(str, violations(page, is_dark_too=width == SIZES[-1][0]))
                found += [f"{path} at {width}: {each}" for each in faults]
            assert page.title() != "pwned"
            assert len(page.content()) < 150_000, path
            assert not path.startswith("/health") or SECRET not in page.content()
        assert visitor.elsewhere == []
        visitor.context.close()
    assert not found, "\n".join(found)


def test_every_page_is_visited() -> None:
    visited = [path.partition("?")[0] for path in PATHS]
    patterns = {path: re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$") for path, _ in GET_PAGES}
    assert [path for path, pattern in patterns.items() if not any(map(pattern.match, visited))] == []
