"""What a person waits for: `smp` alone beside `python -c pass`, and the pages of the inspector of a store of 100,000 memories.

The inspector runs as `smp web` in a process of its own, asked over HTTP by one client. Raw is the style sheet from the same server: a request that
needs no store. The first paint is what Chromium reports for the agent view; without a browser that row is left out.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import subprocess
import sys
from typing import Any

import hooks
import reads
from queries import Texts
from timing import MILLISECONDS, Row, Target, alternate, progress, whole

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from run import Plan

_ALONE = "import sys; from smp_memory.cli.main import main; sys.exit(main([]))"
_PAGES = (
    ("home", "/", "", 300.0),
    ("agent view", "/agent", "", None),
    ("agent view, a prompt", "/agent?kind=prompt&task={words}", "", None),
    ("agent view, a task", "/agent?kind=context&agent=architect&task={words}", "", None),
    ("search as you type, hits", "/search?q={words}", "results", 50.0),
    ("search, hits and counts", "/search?q={words}", "", None),
    ("search, one common word", "/search?q=the", "results", 50.0),
    ("search without words", "/search", "", 50.0),
    ("a memory", "/memory/session-2026-01-01/{id}", "", None),
    ("timeline of a session", "/session/session-2026-01-01", "", None),
    ("sessions", "/sessions", "", None),
    ("trash", "/trash", "", None),
)  # name, address, the part that the browser asks for, target in ms
_MOST_BYTES = 150_000


def alone(plan: Plan) -> Iterator[Row]:
    """`smp` without a command, in a store of 50 sessions, beside `python -c pass`."""
    children = reads.Children(plan)
    project = plan.folder("project")
    texts = Texts()
    with smp_memory.open(os.path.join(project, ".bmad", "memory"), config={"durability": "os"}) as memory:
        for number in range(plan.count(50, 5)):
            memory.create_session(f"session-{number:02d}").add_many([texts.memory() for _ in range(20)])
        memory.query("caught up", track_access=False)
    script = f"import os; os.chdir({project!r}); {_ALONE}"
    sides = alternate(
        {"smp": lambda: children.seconds(script), "python": lambda: children.seconds("pass")}, plan.count(30, 3)
    )
    yield Row(
        "`smp` alone",
        "50 sessions",
        "ms",
        sides.at("smp", 0.5) * 1e3,
        sides.at("python", 0.5) * 1e3,
        sides.ratio("smp", "python"),
        Target("ratio", at_most=4.0),
        sides.details("smp", MILLISECONDS),
    )


class Site:
    """`smp web` as a process, and a client with its cookie."""

    def __init__(self, root: str) -> None:
        words = [sys.executable, "-m", "smp_memory", "web", "--no-browser", "--root", root]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        found = None
        while found is None:
            found = re.search(r"http://127\.0\.0\.1:(\d+)(\S+)", self.process.stdout.readline())
        self.port, self.base = int(found[1]), f"http://127.0.0.1:{found[1]}"
        self._client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        self._cookie = self.ask(found[2], cookie="")[1].partition(";")[0]

    def ask(self, path: str, part: str = "", cookie: str | None = None) -> tuple[bytes, str]:
        """The body, and the cookie that the answer sets."""
        sent = {"cookie": self._cookie if cookie is None else cookie, "x-smp-part": part}
        self._client.request("GET", path, headers=sent)
        answer = self._client.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        return body, answer.getheader("set-cookie") or ""

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def cookie_for_browser(self) -> dict[str, Any]:
        name, _, value = self._cookie.partition("=")
        return {"name": name, "value": value, "url": self.base, "httpOnly": True, "sameSite": "Strict"}


def pages(plan: Plan) -> Iterator[Row]:
    """Pages of the inspector of a store of 100,000 memories."""
    root, memories = plan.folder("inspected"), plan.count(100_000, 2000)
    progress(f"a store of {memories:,} memories")
    hooks.fill(root, memories)
    with smp_memory.open(root) as memory:
        memory.reindex()
        record = memory.session("session-2026-01-01").records(last=1)[0]
        words = "+".join(memory.query(limit=1, track_access=False)[0].record.text.split()[:5])
    site = Site(root)
    try:
        for name, address, part, target in _PAGES:
            yield _page(plan, site, name, address.format(words=words, id=record.id), part, target)
        yield from _first_paint(plan, site)
    finally:
        site.stop()


def _page(plan: Plan, site: Site, name: str, path: str, part: str, target: float | None) -> Row:
    progress(name)
    size = len(site.ask(path, part)[0])
    sides = alternate(
        {
            "page": lambda: whole(lambda: site.ask(path, part)),
            "raw": lambda: whole(lambda: site.ask("/static/inspector.css")),
        },
        plan.count(15, 2),
    )
    details = {**sides.details("page", MILLISECONDS), "kB": size / 1000}
    if size > _MOST_BYTES:
        details["over 150 kB"] = True
    value = sides.at("page", 0.5) * 1e3
    limit = Target("value", at_most=target) if target is not None else None
    return Row("inspector at the server, p50", name, "ms", value, sides.at("raw", 0.5) * 1e3, sides.ratio("page", "raw"), limit, details)  # fmt: skip


def _first_paint(plan: Plan, site: Site) -> Iterator[Row]:
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return
    if chromium is None:
        return
    progress("first paint in Chromium")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    times: dict[str, list[float]] = {"/": [], "/static/inspector.css": []}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        for _ in range(plan.count(9, 2)):
            for path, found in times.items():
                context = browser.new_context()
                context.add_cookies([site.cookie_for_browser()])  # type: ignore[list-item]
                page = context.new_page()
                page.goto(site.base + path)
                page.wait_for_timeout(300)
                found.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"))
                context.close()
        browser.close()
    mine, raw = (sorted(each)[len(each) // 2] for each in times.values())
    yield Row(
        "inspector, first paint",
        "home",
        "ms",
        mine,
        raw,
        mine / raw if raw else None,
        Target("value", at_most=300.0),
    )
