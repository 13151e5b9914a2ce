"""Arguments of `remember` and `forget` as a client sends them to a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import smp_memory
from tests.e2e.mcp_process import Server


@pytest.mark.parametrize("option", [(), ("--allow-erase",)])
def test_server_accepts_fields_at_top_level_and_offers_erase_only_if_allowed(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    smp_memory.open(tmp_path / "store").close()
    with Server(tmp_path / "store", *option) as server:
        server.greet()
        given = {"type": "finding", "text": "No MFA", "severity": "high", "category": "auth", "tags": "login, mfa"}
        stored = server.data("remember", **given)
        shown = server.data("get", ids=stored["id"])["memories"][0]
        assert (shown["severity"], shown["category"], shown["tags"]) == ("high", "auth", ["login", "mfa"])
        assert server.data("remember", **given)["done"] == "known already"
        forget = next(tool for tool in server.ask("tools/list")["tools"] if tool["name"] == "forget")
        assert ("erase" in forget["inputSchema"]["properties"]["action"]["enum"]) is bool(option)
        if not option:
            assert "--allow-erase" in server.error("forget", action="erase", ids=[stored["id"]])
        assert server.leave() == 0
