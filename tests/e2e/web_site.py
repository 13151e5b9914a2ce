"""`smp web` as a process, requests to it as bytes, and pages of it in a real browser."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

WAIT_SECONDS = 60
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip


class WebSite:
    """The process; `link` opens it once."""

    def __init__(self, root: Path, *arguments: str) -> None:
        words = [sys.executable, "-m", "smp_memory", "web", "--no-browser", "--root", str(root), *arguments]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ},
        )
        assert self.process.stdout is not None
        said = ""
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)/open\?link=\S+", said)) is None:
            line = self.process.stdout.readline()
            if not line:
                self.stop()
                raise AssertionError(said)
            said += line
        self.link, self.port = found[0], int(found[1])
        self.base = f"http://127.0.0.1:{self.port}"
        self.cookie = ""
        self.root = root
        self.form_token = ""

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
        """Status, headers and body of an answer; headers are given as `sec_fetch_site`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie and "cookie" not in sent:
            sent["cookie"] = self.cookie
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
        finally:
            connection.close()

    def open(self) -> str:
        """Use the link, as a browser does; the form token of the pages."""
        status, headers, _ = self.ask("GET", self.link.removeprefix(self.base))
        assert status == 200
        self.cookie = headers["set-cookie"].partition(";")[0]
        found = re.search(r'data-form-token="([^"]+)"', self.ask("GET", "/search")[2])
        assert found is not None
        self.form_token = found[1]
        return self.form_token

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(WAIT_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def __enter__(self) -> WebSite:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A real browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("chromium is not installed (on Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A browser window that has opened the site. Errors of scripts and requests to elsewhere are noted."""

    def __init__(self, browser: Browser, site: WebSite, **options: Any) -> None:
        self.site = site
        self._has_scripts = options.get("java_script_enabled", True)
        self.context: BrowserContext = browser.new_context(**{"viewport": {"width": 1440, "height": 940}, **options})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("request", self._note)
        self.page.goto(site.link)
        self.page.wait_for_url(f"{site.base}/")

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.site.base, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def go(self, path: str) -> Page:
        self.page.goto(self.site.base + path)
        return self.ready()

    def ready(self) -> Page:
        """The page, loaded and painted: a browser drops keys that are pressed before the first paint."""
        self.page.wait_for_load_state("load")
        if self._has_scripts:
            wait_for_paint(self.page)
        return self.page

    def updated(self) -> Page:
        """The page, after the answer to what was typed."""
        self.page.wait_for_selector("body:not(.busy)")
        return self.page

    def slow_down(self, rate: int) -> None:
        """Let the browser run as on a machine that is so many times slower."""
        self.context.new_cdp_session(self.page).send("Emulation.setCPUThrottlingRate", {"rate": rate})


def wait_for_paint(page: Page) -> None:
    """Wait until something of the page is on the screen, or was."""
    seen = "list => list.getEntriesByName('first-contentful-paint').length && done()"
    page.evaluate(f"new Promise(done => new PerformanceObserver({seen}).observe({{type: 'paint', buffered: true}}))")


def violations(page: Page, is_dark_too: bool = True) -> list[tuple[str, str, str]]:
    """What axe finds on a page: by all its rules in the light colour scheme, and in the dark one by that of contrast."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.axe_script)
    found = []
    for scheme, rules in (("light", "{preload: false}"), ("dark", "{preload: false, runOnly: ['color-contrast']}"))[
        : 1 + is_dark_too
    ]:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for each in page.evaluate(f"axe.run({rules}).then(answer => answer.violations)"):
            found += [(scheme, each["id"], node["html"][:200]) for node in each["nodes"]]
    page.emulate_media(color_scheme="light")
    return found
