"""Takes the pictures of the inspector: `python docs/make_screenshots.py`. Needs playwright and Debian's chromium.

A store with a small project is made, `smp web` serves it, and a browser without a window takes the pictures in `images/`. Times count back from
now, so the pictures look the same whenever they are taken. Compare them by eye before you commit them.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "src"))

import smp_memory  # noqa: E402

TASK = "how do we limit sign-in attempts"
PICTURES = (
    ("home", "light", "/"),
    ("inspector-light", "light", "/agent?kind=context&agent=architect&session=checkout-review&task=how+do+we+limit+sign-in+attempts"),
    ("inspector-dark", "dark", "/agent?kind=context&agent=architect&session=checkout-review&task=how+do+we+limit+sign-in+attempts"),
    ("prompt", "light", f"/agent?kind=prompt&task={TASK.replace(' ', '+')}"),
    ("search", "light", "/search?q=sign-in+limit"),
    ("memory", "light", "/memory/checkout-review/DEC-0002"),
    ("timeline", "light", "/session/checkout-review"),
    ("sessions", "dark", "/sessions"),
    ("analytics", "light", "/analytics?part=topics"),
    ("health", "light", "/health"),
)  # fmt: skip
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
_NOW = datetime.now(UTC)
_TOPICS = ("search index", "nightly export", "image resizing", "address form", "tax rules", "stock levels", "e-mail templates", "shipping labels")  # fmt: skip


def ago(days: float) -> str:
    return (_NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_store(root: str) -> None:
    with smp_memory.open(root) as memory:
        review = memory.create_session(
            "checkout-review", user="ada", agents=["architect", "veritas", "developer"], project="shop", created=ago(13)
        )
        old = review.add_decision("Own passwords, hashed with bcrypt", rationale="No third party", author="architect", tags=["auth"], created=ago(12.5))  # fmt: skip
        chosen = review.add_decision("Use OAuth 2.0 for sign-in", rationale="Standard", author="architect", tags=["auth", "security.login"], created=ago(6), importance=0.9)  # fmt: skip
        review.update(chosen.id, rationale="Standard, supports single sign-on", by="ada")
        review.relate(chosen, old, "supersedes", by="architect")
        finding = review.add_finding("Login has no rate limit", severity="high", author="veritas", tags=["security.login"], created=ago(2))  # fmt: skip
        review.add_finding("Order ids can be guessed", severity="critical", author="veritas", tags=["orders"], created=ago(3))  # fmt: skip
        learned = review.add_learning("Lockouts by account let anybody lock a customer out of the sign-in; count by address, too", author="veritas", tags=["security.login"], created=ago(5))  # fmt: skip
        review.add_preference("response_style", "concise", created=ago(11))
        fix = review.add_decision("Five sign-in attempts a minute for each address", rationale="Stops guessing, hurts nobody", author="architect", tags=["auth"], created=ago(1))  # fmt: skip
        review.relate(fix, finding, "resolves", by="architect")
        review.relate(fix, chosen, "derived_from", by="architect")
        review.relate(learned, fix, "influenced", by="veritas")
        review.add_artifact("sign-in.md", "# Sign-in\n\nOAuth with PKCE, five attempts a minute.", author="developer", created=ago(0.9))  # fmt: skip
        said = (
            ("user", "How do customers sign in today?"),
            ("architect", "With a password of their own. I propose OAuth 2.0."),
            ("user", "Good. Make the sign-in safer, but keep guests."),
            ("veritas", "The login has no rate limit; five attempts a minute would do."),
            ("developer", "I will add the limit behind the proxy, in the gateway."),
        )
        for at, (who, text) in enumerate(said):
            review.add_turn(who, text, created=ago(2 - at * 0.1))
        review.agent("architect").update_state({"working on": "sign-in", "next": "write down the OAuth decision"})
        _add_sprints(memory)
        for ref in ("checkout-review/DEC-0002", "checkout-review/FIND-0001", "checkout-review/LEARN-0001"):
            memory.get(ref)


def _add_sprints(memory: Any) -> None:
    chosen = random.Random(4)  # noqa: S311 - the same store each time
    for number in range(8):
        sprint = memory.create_session(f"sprint-{number + 20}", user="ada", agents=["developer", "tester"], project="shop", created=ago(90 - number * 10))  # fmt: skip
        for step in range(30):
            topic, created = chosen.choice(_TOPICS), ago(89 - number * 10 - step * 0.2)
            verb, thing = chosen.choice(("needs", "lost", "got", "keeps")), chosen.choice(("a cache", "its tests", "a retry", "two owners"))  # fmt: skip
            text = f"The {topic} {verb} {thing} {chosen.choice(('after the release', 'in production', 'since the update'))}"
            kind, tags = chosen.choice(("turn", "turn", "decision", "finding", "learning")), [topic.replace(" ", "-")]
            if kind == "turn":
                sprint.add_turn(chosen.choice(("user", "developer", "tester")), f"{text}.", created=created)
            elif kind == "decision":
                sprint.add_decision(text, author="developer", tags=tags, created=created)
            elif kind == "finding":
                sprint.add_finding(text, severity=chosen.choice(("low", "medium", "high")), author="tester", tags=tags, created=created)  # fmt: skip
            else:
                sprint.add_learning(text, author="tester", tags=tags, created=created)


def take_pictures(root: str, target: str) -> None:
    from playwright.sync_api import sync_playwright

    words = [sys.executable, "-m", "smp_memory", "web", "--no-browser", "--root", root, "--author", "ada"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    link = None
    while link is None:
        link = re.search(r"http://\S+", server.stdout.readline())
    base = link[0].partition("/open")[0]
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
            state: Any = None
            for name, scheme, path in PICTURES:
                context = browser.new_context(
                    color_scheme=scheme, viewport={"width": 1440, "height": 900}, storage_state=state
                )  # type: ignore[arg-type]
                page = context.new_page()
                if state is None:
                    page.goto(link[0])
                    page.wait_for_url(f"{base}/")
                    state = context.storage_state()
                page.goto(base + path)
                page.wait_for_selector("#live[data-state=on]")
                page.wait_for_timeout(800)  # the memory beside the list is loaded after the page
                page.screenshot(path=os.path.join(target, f"{name}.png"))
                context.close()
            browser.close()
    finally:
        server.terminate()
        server.wait(20)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="smp-pictures-") as folder:
        os.environ["HOME"] = folder  # so that the place of the store reads ~/shop
        os.environ["SMP_STATE_DIR"] = os.path.join(folder, "state")
        root = os.path.join(folder, "shop", ".bmad", "memory")
        make_store(root)
        take_pictures(root, os.path.join(HERE, "images"))


if __name__ == "__main__":
    main()
