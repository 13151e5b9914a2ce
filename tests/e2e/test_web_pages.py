"""The inspector in a real browser: the agent view, search as you type, live updates, keys, hostile memories, phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import smp_memory
from smp_memory.integrations.hooks.preview import preview_hook
from tests.e2e.web_site import Visitor, WebSite, chromium, wait_for_paint

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

HOSTILE = (
    "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">",
    "</p></article><iframe src='http://evil.example'></iframe>",
    "\"><a href='javascript:alert(1)'>click</a> \x1b[31m \u202egnp.exe",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop") / ".bmad" / "memory"
    with smp_memory.open(folder) as memory:
        session = memory.create_session("review", user="ada", agents=["architect", "veritas"])
        old = session.add_decision("Own passwords, hashed with bcrypt", author="architect", tags=["auth"])
        new = session.add_decision("Use OAuth 2.0 for sign-in", rationale="Standard", author="architect", tags=["auth"])
        session.relate(new, old, "supersedes")
        session.add_finding("Login has no rate limit", severity="high", author="veritas", tags=["security.login"])
        session.add_decision("Five sign-in attempts a minute for each address", author="architect", tags=["auth"])
        for number in range(60):
            session.add_learning(f"Build step {number} of the nightly export is slow", author="veritas")
        for text in HOSTILE:
            session.add_finding(text, author="mallory", tags=["hostile"])
        memory.create_session("other").add_turn("user", "Nothing to do with it")
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


def test_agent_view_shows_the_exact_text_of_the_hook(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/agent")
    page.fill("#task", "how many sign-in attempts do we allow")
    page.wait_for_selector("#told pre:has-text('Five sign-in attempts')")
    with smp_memory.open(root) as memory:
        preview = preview_hook(memory, "prompt", prompt="how many sign-in attempts do we allow")
    assert _without_mark(page.text_content("#told pre") or "") == _without_mark(preview.text)
    assert f"{preview.tokens} of" in page.inner_text("#figures")
    assert len(page.query_selector_all("#told .panel:not(.out) .item")) == len(preview.included)


def _without_mark(text: str) -> str:
    """The text with the same mark of its fence, which differs from call to call."""
    return re.sub(r"\b[0-9a-f]{8}\b", "mark", text)


def test_agent_view_says_what_was_left_out_when_the_floor_moves(visitor: Visitor) -> None:
    page = visitor.go("/agent?kind=prompt&task=how+many+sign-in+attempts+do+we+allow&floor=0")
    told = len(page.query_selector_all("#told .panel:not(.out) .item"))
    page.evaluate(
        "const floor = document.getElementById('floor'); floor.value = 1; floor.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    page.wait_for_selector("#told h2:has-text('Pointed at')")
    assert told > 0
    assert "Told:" not in page.inner_text("#told")
    assert "floor=1" in page.url


def test_search_answers_as_you_type_and_narrows_by_facets(visitor: Visitor) -> None:
    page = visitor.go("/search")
    page.locator("#q").press_sequentially("rate limit")
    page.wait_for_url(re.compile(r"q=rate\+limit"))
    visitor.updated().wait_for_selector("#results .said:has-text('rate limit')")
    page.fill("#q", "export")
    page.wait_for_selector("#results h2:has-text('60')")
    visitor.updated()
    page.click("text=Next →")
    page.wait_for_url(re.compile("offset=25"))
    assert "26 to 50" in page.inner_text("#results h2")
    page.goto(visitor.site.base + "/search?q=sign-in")
    page.click("#facets a:has-text('decisions')")
    page.wait_for_url(re.compile("type=decision"))
    kinds = page.locator("#results .score small").all_inner_texts()
    assert kinds
    assert set(kinds) == {"decision"}


def test_search_explains_why_a_memory_is_missing(visitor: Visitor) -> None:
    page = visitor.go("/search?q=oauth&type=finding")
    page.fill("#why_not", "review/DEC-0002")
    page.click("text=Explain")
    page.wait_for_selector(".explanation")
    said = page.inner_text(".explanation")
    assert "Not found" in said
    assert "decision" in said


def test_memory_that_another_process_writes_appears_within_seconds(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/search?q=&sort=newest")
    page.wait_for_selector("#live[data-state=on]")
    with smp_memory.open(root) as memory:
        memory.session("other").add_finding("The cat sat on the keyboard", author="veritas")
    page.wait_for_selector("#toasts >> text=The cat sat on the keyboard")
    page.wait_for_selector("#results >> text=The cat sat on the keyboard")


def test_hostile_memories_are_inert(visitor: Visitor) -> None:
    page = visitor.go("/search?tag=hostile")
    texts = page.locator("#results .said").all_inner_texts()
    assert len(texts) == len(HOSTILE)
    assert any("<script>" in text for text in texts)  # shown as text
    assert not any("\u202e" in text or "\x1b" in text for text in texts)
    assert page.title() != "pwned"
    assert page.query_selector("main script, main iframe, main img") is None
    page.goto(visitor.site.base + "/agent?kind=context&task=click+exe+script")
    assert page.title() != "pwned"


def test_pages_are_reached_by_keys_alone(visitor: Visitor) -> None:
    page = visitor.go("/")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url(re.compile("/search"))
    visitor.ready().wait_for_selector("#q:focus")
    page.keyboard.press("Escape")  # leaves the search box
    page.wait_for_selector("body:not(:has(#q:focus))")
    page.keyboard.press("/")
    page.wait_for_selector("#q:focus")
    page.keyboard.type("oauth")
    page.wait_for_url(re.compile("q=oauth"))
    visitor.updated().wait_for_selector("#results .said:has-text('OAuth')")
    page.keyboard.press("Escape")
    page.wait_for_selector("body:not(:has(#q:focus))")
    page.keyboard.press("j")
    page.wait_for_selector(".item:focus")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/memory/review/DEC-0002"))
    visitor.ready().keyboard.press("?")
    page.wait_for_selector("#help[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#help:not([open])", state="attached")


def test_home_shows_a_new_memory_at_once_and_is_walked_through_by_keyboard(visitor: Visitor, root: Path) -> None:
    page = visitor.go("/search")
    page.wait_for_selector("#live[data-state=on]")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.wait_for_url(visitor.site.base + "/")
    visitor.ready().wait_for_selector("#live[data-state=on]")
    with smp_memory.open(root) as memory:
        memory.session("review").add_decision("Sessions end after an hour", author="architect")
    page.wait_for_selector("#decision .said:has-text('Sessions end after an hour')")
    page.keyboard.press("j")
    page.wait_for_selector(".item:focus")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/memory/review/"))


def test_keys_work_before_the_other_scripts_are_loaded(visitor: Visitor) -> None:
    page = visitor.page
    held: list[Route] = []
    page.route("**/static/inspector.js", lambda route: held.append(route))  # noqa: PLW0108 (playwright sets attributes)
    page.goto(visitor.site.base + "/memory/review/DEC-0001", wait_until="commit")
    wait_for_paint(page)
    page.wait_for_selector("#help", state="attached")
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#help:not([open])", state="attached")
    page.keyboard.press("e")
    page.wait_for_url("**/memory/review/DEC-0001/edit", wait_until="commit")  # a page instead of a dialog
    page.unroute_all(behavior="ignoreErrors")
    visitor.go("/")
    visitor.errors.clear()  # of the requests that were held


PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize(
    ("width", "has_scripts", "is_folded"), [(390, True, True), (390, False, True), (1440, True, False)]
)
def test_phone_shows_results_first_and_a_wide_screen_its_filters(
    browser: Browser, root: Path, width: int, has_scripts: bool, is_folded: bool
) -> None:
    with WebSite(root) as site:
        visitor = Visitor(browser, site, viewport={**PHONE, "width": width}, java_script_enabled=has_scripts)
        page = visitor.go("/search?q=export&sort=newest&time=last+7+days")
        box = page.locator("#results .said").first.bounding_box()
        assert box is not None
        assert box["y"] < PHONE["height"]
        assert page.locator("#severity").is_visible() is not is_folded
        if is_folded:
            page.get_by_text("Filters (1 in use)").click()
            page.locator("#severity").select_option("high")
        visitor.context.close()


def test_menu_on_a_phone_opens_and_closes_by_keys_and_gives_the_focus_back(browser: Browser, root: Path) -> None:
    with WebSite(root) as site:
        visitor = Visitor(browser, site, viewport=PHONE)
        page = visitor.go("/search")
        link = page.get_by_role("link", name="Health", exact=True)
        assert not link.is_visible()
        page.locator("header .menu").focus()
        page.keyboard.press("Enter")
        link.wait_for()
        page.keyboard.press("Escape")
        link.wait_for(state="hidden")
        page.wait_for_selector("header .menu:focus")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.wait_for_selector("#pages a:focus")
        link.click()
        page.wait_for_url(re.compile("/health"))
        visitor.context.close()


@pytest.mark.parametrize("path", ["/", "/sessions", "/trash", "/health", "/analytics", "/memory/review/DEC-0001"])
def test_slash_goes_to_the_search_box_of_the_header(visitor: Visitor, path: str) -> None:
    page = visitor.go(path)
    page.keyboard.press("/")
    page.wait_for_selector("header .find input:focus")
    page.keyboard.type("oauth")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/search\?q=oauth"))
    assert page.locator("input[type=search]").count() == 1  # the search page has one box, its own
    visitor.ready().keyboard.press("Escape")
    page.keyboard.press("/")
    page.wait_for_selector("#q:focus")


FOCUS = """() => {
  const each = document.activeElement, frame = each.closest(".find, .panel form") ?? each;
  const seen = (one) => { const style = getComputedStyle(one); return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2; };
  return [each.outerHTML.slice(0, 90), each === document.body || seen(each) || seen(frame)];
}"""


@pytest.mark.parametrize("path", ["/", "/search?q=export", "/sessions", "/trash", "/health", "/memory/review/DEC-0001"])
def test_focus_is_seen_wherever_tab_leads_and_goes_down_the_page(visitor: Visitor, path: str) -> None:
    page = visitor.go(path)
    page.evaluate("document.activeElement.blur()")
    unseen, reached = [], []
    for _ in range(40):
        page.keyboard.press("Tab")
        html, is_seen = page.evaluate(FOCUS)
        unseen += [] if is_seen else [html]
        reached.append(html)
    assert unseen == []
    if not path.startswith("/search"):  # there the box has the focus, and Tab goes on from it
        assert reached[0].startswith('<a href="#main"')
    assert len(set(reached)) > 10


def test_j_and_k_walk_through_a_table_too(visitor: Visitor, root: Path) -> None:
    with smp_memory.open(root) as memory:
        session = memory.session("other")
        refs = [session.delete(session.add_learning(f"A mistake {number}").id).ref for number in range(2)]
    page = visitor.go("/trash")
    page.keyboard.press("j")
    page.wait_for_selector(f".trash tr:focus:has-text('{refs[1]}')")
    page.keyboard.press("j")
    page.wait_for_selector(f".trash tr:focus:has-text('{refs[0]}')")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/memory/{refs[1]}")


def test_severity_and_status_narrow_a_search(visitor: Visitor) -> None:
    page = visitor.go("/search?q=login")
    page.locator("#severity").select_option("high")
    page.wait_for_url(re.compile("severity=high"))
    visitor.updated().wait_for_selector("#results .said:has-text('Login has no rate limit')")
    page.locator("#status").select_option("resolved")
    visitor.updated().wait_for_selector("#results >> text=No memory matches.")


def test_pages_work_without_scripts(browser: Browser, root: Path) -> None:
    with WebSite(root) as site:
        visitor = Visitor(browser, site, java_script_enabled=False)
        page = visitor.go("/agent?kind=prompt&task=how+many+sign-in+attempts+do+we+allow")
        assert "Five sign-in attempts" in page.inner_text("#told pre")
        page = visitor.go("/search")
        page.fill("#q", "oauth")
        page.click("form[data-instant] button")
        assert "OAuth" in page.inner_text("#results")
