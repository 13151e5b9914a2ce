"""`smp token`, and the servers as processes: which tokens open them, and for how long."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import smp_memory
from smp_memory.errors import NotAllowed
from tests.e2e.mcp_process import WAIT_SECONDS, environment
from tests.e2e.mcp_web import HELLO
from tests.e2e.terminal import Terminal
from tests.user_state import state_folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with smp_memory.open(root) as memory:
        memory.create_session("shop-1", project="shop").add_decision("Use one login")
        memory.create_session("bank-1", project="bank").add_decision("Use one zanzibar")
    return root


@pytest.fixture
def smp(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("SMP_ROOT", str(root))
    return Terminal(capsys)


def test_secret_is_printed_once_and_stored_nowhere(smp: Terminal, root: Path) -> None:
    said = smp.ok("token", "create", "ci", "--project", "shop", "--expires", "90d")
    secret = said.splitlines()[0]
    assert secret.startswith("smp_")
    assert "read project shop" in said
    for path in (*root.rglob("*"), *state_folder(root).rglob("*")):
        assert not path.is_file() or secret[4:].encode() not in path.read_bytes(), path
    assert not list(root.rglob("tokens*"))
    assert secret not in smp.ok("token", "list")
    assert secret not in smp.ok("token", "list", "--json")
    assert (state_folder(root) / "tokens.jsonl").stat().st_mode & 0o777 == 0o600


def test_token_is_listed_and_revoked(smp: Terminal) -> None:
    made = json.loads(smp.ok("token", "create", "ada", "--session", "shop-1", "--session", "x", "--erase", "--rate", "5", "--json"))  # fmt: skip
    assert (made["state"], made["write"], made["erase"], made["rate"], made["sessions"]) == ("valid", True, True, 5.0, ["shop-1", "x"])  # fmt: skip
    listed = json.loads(smp.ok("token", "list", "--json"))
    assert listed["problems"] == []
    assert [each["name"] for each in listed["tokens"]] == ["ada"]
    assert "revoked" in smp.ok("token", "revoke", "ada")
    assert json.loads(smp.ok("token", "revoke", made["id"], "--json"))["state"] == "revoked"  # again: nothing changes
    assert "revoked" in smp.ok("token", "list")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "a\nb"), "name"), (("create", ""), "name"), (("create", "x", "--expires", "soon"), "expires"),
        (("create", "x", "--expires", "1999-01-01"), "past"), (("create", "x", "--rate", "0"), "--rate"), (("create", "x", "--rate", "nan"), "--rate"),
        (("create", "x", "--project", " "), "project"), (("create", "x", "--session", "../x"), "session"), (("create", "ci"), "already"),
        (("revoke", "nobody"), "smp token list"),
    ],
)  # fmt: skip
def test_mistake_is_a_clear_error_and_creates_nothing(smp: Terminal, words: tuple[str, ...], said: str) -> None:
    smp.ok("token", "create", "ci")
    code, out, err = smp("token", *words)
    assert code in (2, 3), err
    assert said in err
    assert "smp_" not in out
    assert len(json.loads(smp.ok("token", "list", "--json"))["tokens"]) == 1


def test_line_that_cannot_be_read_is_reported(smp: Terminal, root: Path) -> None:
    smp.ok("token", "create", "ci")
    with (state_folder(root) / "tokens.jsonl").open("ab") as file:
        file.write(b'{"op":"create"}\n')
    listed = json.loads(smp.ok("token", "list", "--json"))
    assert len(listed["tokens"]) == 1
    assert "grants nothing" in listed["problems"][0]


# -- processes


class Process:
    """A server as a process, reached with a token."""

    def __init__(self, root: Path, *words: str, said: str) -> None:
        command = [sys.executable, "-m", "smp_memory", *words, "--root", str(root)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            text=True,
        )
        assert self.process.stdout is not None
        self.said = ""
        while (found := re.search(said, self.said)) is None:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said += line
        self.port = int(found[1])

    def ask(self, method: str, path: str, token: str, body: Any = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def running(root: Path, *words: str, said: str) -> Iterator[Process]:
    server = Process(root, *words, said=said)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait(WAIT_SECONDS)
        assert server.process.stdout is not None
        server.process.stdout.close()


MCP, WEB = r"http://127\.0\.0\.1:(\d+)/mcp — clients", r"http://127\.0\.0\.1:(\d+)/ — sign in"


def test_revocation_holds_in_all_processes_and_ends_event_streams(smp: Terminal, root: Path) -> None:
    token = smp.ok("token", "create", "ci", "--project", "shop").splitlines()[0]
    other = smp.ok("token", "create", "ada", "--project", "bank").splitlines()[0]
    with (
        running(root, "mcp", "--http", said=MCP) as one,
        running(root, "mcp", "--http", said=MCP) as two,
        running(root, "web", "--no-browser", said=WEB) as web,
    ):
        for server in (one, two):
            assert server.ask("POST", "/mcp", token, HELLO)[0] == 200
        shown = web.ask("GET", "/sessions", token)[1]
        assert "shop-1" in shown
        assert "bank-1" not in shown
        events = http.client.HTTPConnection("127.0.0.1", web.port, timeout=WAIT_SECONDS)
        events.request("GET", "/events", headers={"Authorization": f"Bearer {token}"})
        stream = events.getresponse()
        assert stream.status == 200
        seen = _event_after_writes(root, stream)
        smp.ok("token", "revoke", "ci")
        seen += stream.read()  # until the server ends it
        events.close()
        assert b"zanzibar" not in seen
        assert b"bank" not in seen
        until = time.monotonic() + WAIT_SECONDS
        while any(server.ask("POST", "/mcp", token, HELLO)[0] != 401 for server in (one, two)):
            assert time.monotonic() < until
        assert web.ask("GET", "/sessions", token)[0] == 401
        assert one.ask("POST", "/mcp", other, HELLO)[0] == 200


def _event_after_writes(root: Path, stream: http.client.HTTPResponse) -> bytes:
    """Write to both projects until an event tells of it."""
    is_seen = threading.Event()

    def write() -> None:
        with smp_memory.open(root) as memory:
            while not is_seen.wait(0.2):
                memory.session("bank-1").add_decision("Use two zanzibars")
                memory.session("shop-1").add_decision("Use two logins")

    writer = threading.Thread(target=write)
    writer.start()
    seen = b""
    try:
        while b"two logins" not in seen:
            line = stream.readline()
            assert line, seen
            seen += line
    finally:
        is_seen.set()
        writer.join()
    return seen


def test_own_token_of_the_server_does_not_open_a_shared_one(smp: Terminal, root: Path) -> None:
    token = smp.ok("token", "create", "ci").splitlines()[0]
    own = state_folder(root) / "mcp-token"
    own.write_text("x" * 40)
    own.chmod(0o600)
    with running(root, "mcp", "--http", said=MCP) as server:
        assert server.ask("POST", "/mcp", "x" * 40, HELLO)[0] == 401
        assert server.ask("GET", "/metrics", "x" * 40)[0] == 401
        assert server.ask("POST", "/mcp", token, HELLO)[0] == 200


@pytest.mark.parametrize("words", [("mcp", "--http"), ("web", "--no-browser")])
def test_server_beyond_this_machine_needs_tokens(smp: Terminal, words: tuple[str, ...]) -> None:
    code, _, err = smp(*words, "--host", "0.0.0.0")
    assert (code, "--allow-remote" in err) == (2, True)
    code, _, err = smp(*words, "--host", "0.0.0.0", "--allow-remote")
    assert (code, "smp token create" in err) == (2, True)


def test_operations_of_clients_are_in_the_audit_log(smp: Terminal, root: Path) -> None:
    token = smp.ok("token", "create", "ci", "--project", "shop", "--write").splitlines()[0]
    with running(root, "mcp", "--http", said=MCP) as server:
        call = {"name": "remember", "arguments": {"type": "decision", "text": "Use secretword", "session": "shop-1"}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        assert "DEC-0002" in server.ask("POST", "/mcp", token, message)[1]
        until = time.monotonic() + WAIT_SECONDS
        while "mcp remember" not in (shown := smp.ok("audit", "--action", "write")):
            assert time.monotonic() < until
    assert "ci" in shown
    assert "DEC-0002" in shown
    assert "secretword" not in shown


def test_client_memory_in_python(root: Path) -> None:
    """What servers do is a store over a store, for any program."""
    from smp_memory.clients.client_store import ClientStore
    from smp_memory.memory import seen_through
    from smp_memory.privacy.client_tokens import ClientToken

    with smp_memory.open(root) as memory:
        token = ClientToken("t-1", "ci", "", projects=["shop"])
        client = seen_through(memory, ClientStore(memory.store, token))
        assert [each.id for each in client.sessions()] == ["shop-1"]
        with pytest.raises(NotAllowed):
            client.session("shop-1").add_decision("Use none")
