"""Arguments of `remember` and `forget` as a client sends them to a real server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import smp_memory
from tests.e2e.mcp_process import Server, command, environment


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


MALFORMED = [
    (r'{"jsonrpc": "2.0", "id": 90, "method": "tools/call", "params": {"name": "\ud800"}}', 90, -32700),
    ('{"jsonrpc": "2.0", "id": "a", "params": {}}', "a", -32600),
    ('{"jsonrpc": "1.0", "id": 91, "method": "ping"}', 91, -32600),
    ('[{"jsonrpc": "2.0", "id": 92, "method": "ping"}]', None, -32600),
    ("no JSON", None, -32700),
]


def test_malformed_request_gets_an_error_and_the_server_continues(tmp_path: Path) -> None:
    smp_memory.open(tmp_path / "store").close()
    with Server(tmp_path / "store") as server:
        server.greet()
        assert server.process.stdin is not None
        for line, number, code in MALFORMED:
            server.process.stdin.write(b"\n" + line.encode() + b"\n")
            server.process.stdin.flush()
            answer = server.receive()
            assert (answer["id"], answer["error"]["code"]) == (number, code), line
            assert server.data("remember", type="finding", text=f"Still here after {line}")["done"] == "added"
        assert server.leave() == 0


def test_library_that_does_not_load_is_named_without_an_internal_error(tmp_path: Path) -> None:
    smp_memory.open(tmp_path / "store").close()
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise ImportError('libx.so: cannot open shared object file')")
    env = environment(PYTHONPATH=str(tmp_path))
    done = subprocess.run(command(tmp_path / "store"), env=env, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "The package `mcp` cannot be loaded (libx.so" in done.stderr
    assert "Traceback" not in done.stderr
