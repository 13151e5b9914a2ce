"""The scenarios of the official MCP conformance suite that fit a server without test fixtures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import smp_memory
from tests.e2e.mcp_web import WebServer
from tests.e2e.npm_package import installed

PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.1.13"
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "server-sse-multiple-streams",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
)  # the others call tools, resources and prompts that only a test server has


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the suite says of each scenario; one run of all of them."""
    suite = installed(PACKAGE, VERSION)
    root = tmp_path_factory.mktemp("conformance")
    with smp_memory.open(root / "store") as memory:
        memory.create_session("shop").add_finding("Login has no rate limit")
    started = [sys.executable, "-m", "tests.e2e.mcp_conformance_server", str(root / "store")]
    with WebServer(Path(), words=started) as server:
        words = ["node", str(suite / "dist" / "index.js"), "server", "--url", server.url, "--suite", "active"]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=100, check=False)
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    return dict(re.findall(r"^. ([\w-]+): (.*)$", summary, re.MULTILINE))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_official_conformance_suite_passes(outcomes: dict[str, str], scenario: str) -> None:
    assert re.fullmatch(r"[1-9]\d* passed, 0 failed", outcomes[scenario]), outcomes[scenario]
