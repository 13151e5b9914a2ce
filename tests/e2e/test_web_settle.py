"""A finding that two clones resolved differently, merged by real git, and settled in the page."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.git_clones import Clone, environment, make_origin
from tests.e2e.terminal import Terminal
from tests.e2e.web_site import Visitor, WebSite, chromium, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

PAGE = "/memory/s1/FIND-0001"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """A clone in the middle of a merge of two resolutions."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "SMP_"))]:
        monkeypatch.delenv(name)
    for name, value in {**environment(tmp_path), "SMP_STATE_DIR": str(tmp_path / "state"), "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    origin = make_origin(tmp_path / "origin", "jsonl")
    a, b = origin.clone("a", 1), origin.clone("b", 2)
    a.write(lambda s: s.resolve("FIND-0001", "Five attempts a minute", by="ada"))
    b.write(lambda s: s.resolve("FIND-0001", "A captcha", by="bob", status="wont_fix"))
    a.pull(b, fails=True)
    monkeypatch.setenv("SMP_ROOT", str(a.root))
    return a


@pytest.mark.parametrize("has_scripts", [True, False])
def test_two_resolutions_are_settled_in_the_page(
    has_scripts: bool, browser: Browser, clone: Clone, capsys: pytest.CaptureFixture[str]
) -> None:
    with WebSite(clone.root, "--author", "eve") as site:
        visitor = Visitor(browser, site, java_script_enabled=has_scripts)
        page = visitor.go("/health?check=quick")
        page.locator("main").get_by_role("link", name="FIND-0001").first.click()
        page.get_by_role("heading", name="Two versions").wait_for()
        version = page.get_by_role("group").filter(has_text="ada")
        version.get_by_role("button", name="Keep this one").focus()
        page.keyboard.press("Enter")
        page.get_by_text("FIND-0001 is settled: status, resolution.").wait_for()
        assert page.get_by_role("heading", name="Two versions").count() == 0
        page.get_by_text("The merge in git is not finished").wait_for()
        assert visitor.errors == []
        visitor.context.close()
    record = clone.opened().get("FIND-0001")
    assert (record.status, record.resolution["action_taken"], record.updated_by) == (
        "resolved",
        "Five attempts a minute",
        "eve",
    )
    code, out, _ = Terminal(capsys)("git", "resolve")
    assert code == 0
    assert "Nothing is left to decide." in out
    assert clone.problems() == []
    assert "A captcha" in str(clone.opened().history("FIND-0001"))
    clone.commit("merged")


@pytest.mark.parametrize("width", [1440, 900, 390])
def test_versions_fit_the_window_and_can_be_read_by_all(width: int, browser: Browser, clone: Clone) -> None:
    with WebSite(clone.root) as site:
        visitor = Visitor(browser, site, viewport={"width": width, "height": 900})
        page = visitor.go(PAGE)
        page.get_by_role("button", name=re.compile("Keep this one")).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []
        visitor.context.close()
