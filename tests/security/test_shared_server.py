"""A shared server: each client gets what its token allows, by every tool, resource and page, and nothing tells of the rest."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
pytest.importorskip("starlette", reason="needs the extra smp-memory[web]")

from starlette.testclient import TestClient

import smp_memory
from smp_memory import Memory
from smp_memory.integrations.clients import Clients
from smp_memory.integrations.mcp.graph_tools import TOOLS as GRAPH_TOOLS
from smp_memory.integrations.mcp.http import guarded_app
from smp_memory.integrations.mcp.server import TOOLS
from smp_memory.integrations.mcp.transport import ServerOptions, build_server
from smp_memory.integrations.web import app as web
from smp_memory.integrations.web.access import FORM_FIELD, Access
from smp_memory.privacy.client_tokens import add_token, new_token, revoke
from smp_memory.testing import FrozenClock
from tests.security.test_client_store import SECRET, fill
from tests.user_state import state_folder

PORT = 8765
NAME = "memory.example"
HEADERS = {"host": NAME, "accept": "application/json, text/event-stream"}


class Server:
    """A store with two projects, tokens for it, and both servers of it in this process."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.clock = FrozenClock()
        self.memory: Memory = smp_memory.open(root, clock=self.clock, config={"search.semantic": "off"})
        fill(self.memory, self.clock, with_other=True)
        self.options = ServerOptions(http=True, names=(NAME,), **options)
        self.ids: dict[str, str] = {}
        self.tokens = {
            "reader": self.token("reader", projects=["shop"]),
            "writer": self.token("writer", projects=["shop"], may_write=True),
            "eraser": self.token("eraser", projects=["shop"], may_write=True, may_erase=True),
            "whole": self.token("whole"),
        }
        self.clients = Clients(self.memory, None)
        self.clients.refresh()
        built = guarded_app(
            build_server(self.memory, self.options), self.clients, "0.0.0.0", PORT, (NAME,), self.memory
        )
        self.mcp = TestClient(built, base_url=f"http://{NAME}")
        site = web.create_app(Access(PORT, self.clients, host="0.0.0.0", names=(NAME,)), self.memory)
        self.web = TestClient(site, base_url=f"https://{NAME}", follow_redirects=False)

    def token(self, name: str, **options: Any) -> str:
        secret, token = new_token(name, os.urandom, created=self.memory.now(), **{"rate": None, **options})
        add_token(self.memory.store.tokens, token)
        self.ids[name] = token.id
        return secret

    def post(self, method: str, params: dict[str, Any], token: str = "reader") -> Any:
        secret = self.tokens.get(token, token)
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.mcp.post("/mcp", json=message, headers={**HEADERS, "authorization": f"Bearer {secret}"})

    def ask(self, method: str, token: str = "reader", **params: Any) -> str:
        """The whole answer to a message, as it is on the wire."""
        answer = self.post(method, params, token)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def call(self, tool: str, token: str = "reader", **arguments: Any) -> tuple[bool, str]:
        """Whether a call of a tool succeeded, and the whole answer."""
        text = self.ask("tools/call", token, name=tool, arguments=arguments)
        data = next(json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {"))
        return not data.get("result", {}).get("isError", "error" in data), text

    def page(self, path: str, token: str = "reader", **headers: str) -> Any:
        return self.web.get(path, headers={"authorization": f"Bearer {self.tokens[token]}", **headers})

    def form(self, path: str, token: str = "writer", **fields: str) -> Any:
        secret = self.tokens[token]
        headers = {"authorization": f"Bearer {secret}", "origin": f"https://{NAME}"}
        found = re.search(r'data-form-token="([^"]+)"', self.page("/sessions", token).text)
        assert found is not None
        return self.web.post(path, data={FORM_FIELD: found[1], **fields}, headers=headers)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For tests that only read."""
    yield from _serve(tmp_path_factory.mktemp("shared") / "store")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    yield from _serve(tmp_path / "store")


def _serve(root: Path, **options: Any) -> Iterator[Server]:
    server = Server(root, **options)
    with server.mcp, server.web:
        yield server
    server.memory.close()


OTHER = ("a-bank", "m-bank", "archived-bank", "deleted-bank", "z-bank", "nowhere")
CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("recall", {"query": text, **more}) for text in ("login", "queue token", "always", "zan*", '"login of"', "Plan", "zanzibra")
      for more in ({}, {"session": "*"}, {"min_relevance": 0}, {"include_expired": True, "limit": 50}, {"sort": "newest"})),
    ("recall", {"tags": ["auth"]}), ("recall", {"topic": "Plan"}), ("recall", {"types": ["finding", "preference", "decision"]}),
    *(("recall", {"query": "login", "session": name}) for name in OTHER),
    *(("recall", {"where": text}) for text in ("severity = critical", "importance > 0")),
    *(("get", {"ids": [f"{name}/DEC-0001"], "related": True, "history": True}) for name in OTHER),
    ("get", {"ids": ["shop-1/DEC-0001", "shop-1/DEC-0002", "shop-2/DEC-0001"], "related": True, "history": True}),
    ("get", {"ids": ["DEC-0001"], "session": "shop-1", "related": True}),
    ("context", {"task": "login and database"}), ("context", {}), ("context", {"project": "bank"}), ("context", {"agent": "eve", "topic": "Plan"}),
    *(("context", {"session": name}) for name in OTHER),
    *(("overview", {"what": what, "session": session}) for what in ("summary", "topics", "timeline", "agents", "stats") for session in ("*", "shop-1", *OTHER)),
    *(("overview", {"what": what}) for what in ("summary", "topics", "timeline", "agents", "stats")),
    ("sessions", {"action": "list"}), ("sessions", {"action": "list", "limit": 1}), *(("sessions", {"action": "show", "id": name}) for name in ("shop-1", *OTHER)),
    ("forget", {"action": "list"}), ("forget", {"action": "list", "session": "m-bank"}),
    ("forget", {"action": "delete", "query": "login", "preview": True}), ("forget", {"action": "delete", "ids": ["m-bank/DEC-0001"], "preview": True}),
    ("forget", {"action": "restore", "ids": ["m-bank/FIND-0001"], "preview": True}), ("forget", {"action": "erase", "ids": ["m-bank/DEC-0001"], "preview": True}),
    *(("update", {"action": action, "id": "m-bank/DEC-0001"}) for action in ("pin", "unpin", "resolve")),
    ("update", {"action": "relate", "id": "shop-1/DEC-0001", "target": "m-bank/DEC-0001", "kind": "references"}),
    ("update", {"action": "change", "id": "z-bank/DEC-0001", "changes": {"decision": "x"}}),
    *(("remember", {"type": "decision", "text": "x", "session": name}) for name in OTHER),
    ("remember", {"type": "decision", "text": "x", "session": "shop-1", "fields": {"supersedes": "m-bank/DEC-0001"}}),
    ("sessions", {"action": "create", "id": "a-bank"}), ("sessions", {"action": "create", "id": "new", "project": "bank"}),
]  # fmt: skip


def _without_given(text: str, given: Any) -> str:
    """An answer without what the call itself named."""
    for name in sorted(set(re.findall(r"[\w-]*bank[\w-]*", json.dumps(given))), key=len, reverse=True):
        text = text.replace(name, "GIVEN")
    return text


@pytest.mark.parametrize("token", ["reader", "writer", "eraser"])
def test_no_tool_tells_anything_of_another_project(server: Server, token: str) -> None:
    assert {name for name, _ in CALLS} == set(TOOLS)
    before = {name: server.memory.export(format="markdown") for name in ["all"]} if token == "reader" else {}
    for tool, given in CALLS:
        _, text = server.call(tool, token, **given)
        assert SECRET not in text, (tool, given, text)
        assert "bank" not in _without_given(text, given), (tool, given, text)
    if before:
        assert server.memory.export(format="markdown") == before["all"]
    others = [each for each in server.memory.sessions() if "bank" in each.id]
    assert len(others) == 3
    for each in others:
        assert all(SECRET in str(record.to_dict()) for record in each.records())
        assert each.info.project == "bank"


def test_calls_find_what_they_may(served: Server) -> None:
    """The test above would pass on a server that answers nothing."""
    assert "shop-2/DEC-0001" in served.call("recall", query="login", session="*")[1]
    assert "shop-1" in served.call("sessions", action="list")[1]
    assert "Use one login" in served.call("context", task="login")[1]
    assert SECRET in served.call("recall", "whole", query=SECRET)[1]
    assert "a-bank" in served.call("sessions", "whole", action="list")[1]


@pytest.mark.parametrize("name", [name for name in OTHER if name != "nowhere"])
def test_session_of_another_project_looks_like_one_that_does_not_exist(served: Server, name: str) -> None:
    for tool, given in CALLS:
        if name in json.dumps(given) and tool != "sessions":
            swapped = json.loads(json.dumps(given).replace(name, "nowhere"))
            found, missing = served.call(tool, **given)[1], served.call(tool, **swapped)[1]
            fence = r"smp-recalled-\w+"
            assert re.sub(fence, "", found.replace(name, "X")) == re.sub(fence, "", missing.replace("nowhere", "X"))


def test_no_resource_or_prompt_tells_anything_of_another_project(served: Server) -> None:
    texts = [served.ask("resources/list"), served.ask("resources/templates/list"), served.ask("prompts/list")]
    uris = ["memory://sessions", "memory://session/shop-1", "memory://memory/shop-1/DEC-0001"]
    texts += [served.ask("resources/read", uri=uri) for uri in uris]
    texts += [served.ask("prompts/get", name="recall", arguments={"task": "login"}), served.ask("prompts/get", name="end-of-session")]  # fmt: skip
    for name in OTHER:
        for uri in (f"memory://session/{name}", f"memory://memory/{name}/DEC-0001"):
            texts.append(served.ask("resources/read", uri=uri).replace(name, ""))
        texts.append(served.ask("prompts/get", name="recall", arguments={"session": name}).replace(name, ""))
    assert "shop-1" in texts[0]
    for text in texts:
        assert SECRET not in text
        assert "bank" not in text


PAGES = [
    "/", "/?all=deleted", "/told", "/agent?kind=prompt&prompt=login", "/agent?kind=context&task=login", "/agent?kind=start", "/agent?kind=agent&agent=eve&task=login", "/agent?session=m-bank&kind=prompt&prompt=login",
    "/search", "/search?q=login", "/search?q=zan*", "/search?q=zanzibra", "/search?q=login&archived=1", "/search?q=login&why=m-bank/DEC-0001", "/search?session=m-bank",
    "/sessions", "/sessions?state=archived", "/sessions?state=deleted", "/session/shop-1", "/timeline", "/analytics", "/analytics?part=impact", "/analytics?part=topics",
    "/analytics?part=forecast", "/analytics?part=decay", "/trash", "/review", "/review?session=m-bank", "/review/shop-1/TURN-0001/decision", "/review/m-bank/TURN-0001/decision", "/health", "/health?check=1", "/health/redact?session=shop-1", "/health/redact?session=m-bank", "/export", "/maintain", "/memory/shop-1/DEC-0001", "/memory/shop-1/DEC-0002",
    "/memory/shop-1/DEC-0001/edit", "/memory/shop-1/DEC-0001/relate", "/memory/shop-1/DEC-0001/delete", "/memory/shop-1/DEC-0001/erase", "/memory/shop-1/DEC-0001/redact",
    "/session/shop-1/archive", "/session/shop-1/delete", "/session/shop-1/compact", "/result/none", "/nowhere", "/export?session=m-bank", "/events-none",
    *(f"/session/{name}" for name in OTHER), *(f"/memory/{name}/DEC-0001" for name in OTHER), *(f"/memory/{name}/DEC-0001/edit" for name in OTHER),
    *(f"/session/{name}/{action}" for name in OTHER for action in ("archive", "delete", "restore", "purge", "compact")),
]  # fmt: skip


def test_no_page_tells_anything_of_another_project(served: Server) -> None:
    paths = {re.sub(r"\{.*", "", path) for path, _ in web.GET_PAGES}
    assert all(any(page.startswith(path) for page in PAGES) for path in paths)
    statuses = set()
    for path in PAGES:
        answer = served.page(path)
        statuses.add(answer.status_code)
        assert SECRET not in answer.text, path
        assert "bank" not in _without_given(answer.text, path), path
        assert answer.status_code != 500, path
    assert "shop-1" in served.page("/sessions").text
    assert "a-bank" in served.page("/sessions", "whole").text
    assert 200 in statuses


def test_download_has_only_the_sessions_of_the_token(server: Server) -> None:
    for token in ("reader", "writer"):
        for fields in (
            {"format": "json"},
            {"format": "markdown", "q": "login"},
            {"format": "json", "session": "m-bank"},
        ):
            text = server.form("/export", token, **fields).text
            assert SECRET not in text
            assert "bank" not in _without_given(text, fields)
    assert "Use one login" in server.form("/export", "reader", format="json").text


WRITES: list[tuple[str, dict[str, Any]]] = [
    ("remember", {"type": "decision", "text": "Use none", "session": "shop-1"}),
    ("remember", {"type": "preference", "key": "style", "text": "short", "session": "shop-1"}),
    ("update", {"action": "change", "id": "shop-1/DEC-0001", "changes": {"decision": "Use none"}}),
    ("update", {"action": "resolve", "id": "shop-1/FIND-0001"}),
    ("update", {"action": "pin", "id": "shop-1/DEC-0001"}),
    ("update", {"action": "relate", "id": "shop-1/DEC-0001", "target": "DEC-0002"}),
    ("forget", {"action": "delete", "ids": ["shop-1/DEC-0001"]}),
    ("sessions", {"action": "create", "id": "new"}),
]


def test_token_that_may_only_read_is_told_that_it_may_not_write(server: Server) -> None:
    before = server.memory.export(format="markdown")
    for tool, given in WRITES:
        is_done, text = server.call(tool, "reader", **given)
        assert not is_done, (tool, text)
        assert "may not write" in text, (tool, text)
        assert "E_NOT_ALLOWED" in text
    for path, fields in (
        ("/memory/shop-1/DEC-0001/pin", {}),
        ("/memory/shop-1/DEC-0001/edit", {"text:decision": "x", "revision": "1"}),
        ("/memory/shop-1/DEC-0001/delete", {"reason": "x"}),
        ("/memory/shop-1/DEC-0001/erase", {"confirm": "DEC-0001"}),
        ("/session/shop-1/archive", {}),
        ("/session/shop-1/delete", {"confirm": "shop-1"}),
        ("/maintain", {}),
    ):
        answer = server.form(path, "reader", **fields)
        assert answer.status_code in (400, 403, 404, 409, 422), (path, answer.status_code)
    server.form("/health/fix", "reader", fix="index maintenance access")
    assert server.memory.export(format="markdown") == before
    for tool, given in WRITES:
        assert server.call(tool, "writer", **given)[0], tool


def test_only_a_token_that_may_erase_erases(server: Server) -> None:
    given = {"action": "erase", "ids": ["shop-1/DEC-0001"]}
    for token in ("reader", "writer"):
        is_done, text = server.call("forget", token, **given)
        assert not is_done
        assert "--erase" in text
        assert "erase" not in json.dumps(_schema(server, token)["properties"]["action"])
    assert server.form("/memory/shop-1/DEC-0001/erase", "writer", confirm="DEC-0001", id="DEC-0001").status_code in (400, 403, 422)  # fmt: skip
    assert server.memory.session("shop-1").find("DEC-0001") is not None
    assert "erase" in json.dumps(_schema(server, "eraser")["properties"]["action"])
    assert server.call("forget", "eraser", **given)[0]
    assert server.memory.session("shop-1").find("DEC-0001") is None


def _schema(server: Server, token: str) -> Any:
    text = server.ask("tools/list", token)
    data = next(json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {"))
    return next(tool for tool in data["result"]["tools"] if tool["name"] == "forget")["inputSchema"]


# -- tokens


def test_request_without_a_valid_token_is_refused(served: Server) -> None:
    right = served.tokens["reader"]
    stored = served.memory.store.tokens.read()[0]
    digests = [json.loads(line)["sha256"] for line in stored if line]
    for wrong in ("", "x", "smp_", right[:-1], right + "x", right.swapcase(), *digests):
        answer = served.post("tools/list", {}, wrong)
        assert answer.status_code == 401
        assert "shop" not in answer.text
        assert served.web.get("/sessions", headers={"authorization": f"Bearer {wrong}"}).status_code == 401
        assert served.web.get("/sessions", headers={"cookie": f"smp-inspector-{PORT}={wrong}"}).status_code == 401
    assert served.web.get("/events").status_code == 401
    assert served.web.get("/static/inspector.css").status_code == 200


def _wait(condition: Any) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_revoked_token_is_refused_by_a_running_server(server: Server) -> None:
    assert server.post("tools/list", {}).status_code == 200
    revoke(server.memory.store.tokens, server.ids["reader"], server.memory.now())
    _wait(lambda: server.post("tools/list", {}).status_code == 401)
    assert server.page("/sessions").status_code == 401
    assert server.post("tools/list", {}, "writer").status_code == 200
    for name in ("writer", "eraser", "whole"):  # a server without valid tokens stays shut
        revoke(server.memory.store.tokens, server.ids[name], server.memory.now())
    _wait(lambda: server.post("tools/list", {}, "writer").status_code == 401)
    assert server.post("tools/list", {}, "").status_code == 401


def test_expired_token_is_refused(server: Server) -> None:
    from datetime import timedelta

    server.tokens["brief"] = server.token("brief", projects=["shop"], expires=server.memory.now() + timedelta(hours=1))
    _wait(lambda: server.post("tools/list", {}, "brief").status_code == 200)
    server.clock.advance(3601)
    assert server.post("tools/list", {}, "brief").status_code == 401
    assert server.page("/sessions", "brief").status_code == 401


def test_tokens_in_the_folder_of_a_store_grant_nothing(server: Server) -> None:
    """A store may be a clone of a repository that a stranger wrote."""
    secret, token = new_token("planted", os.urandom, created=server.memory.now(), may_write=True, may_erase=True)
    root = Path(server.memory.root)
    for folder in (root, root / ".smp", root / ".smp" / "state"):
        folder.mkdir(exist_ok=True)
        (folder / "tokens.jsonl").write_bytes(token.line() + b"\n")
        (folder / "mcp-token").write_text(secret)
    assert (state_folder(root) / "tokens.jsonl").is_file()
    clients = Clients(server.memory, None)
    clients.refresh()
    assert clients.find(secret) is None
    assert server.post("tools/list", {}, secret).status_code == 401


def test_tokens_that_cannot_be_read_open_nothing(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    path = state_folder(Path(server.memory.root)) / "tokens.jsonl"
    content = path.read_bytes()
    path.unlink()
    path.mkdir()
    _wait(lambda: server.post("tools/list", {}).status_code == 503)
    _wait(lambda: server.page("/sessions", "whole").status_code == 503)
    path.rmdir()
    path.write_bytes(content + b"no token\n")
    _wait(lambda: server.post("tools/list", {}).status_code == 200)  # a line that cannot be read grants nothing
    events = {getattr(record, "smp_event", "") for record in caplog.records}
    assert {"tokens_unreadable", "token_unreadable"} <= events


def test_too_many_requests_are_refused_for_a_while(server: Server) -> None:
    server.tokens["slow"] = server.token("slow", projects=["shop"], rate=0.01)
    _wait(lambda: server.post("tools/list", {}, "slow").status_code != 401)
    answer = server.post("tools/list", {}, "slow")
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 100
    assert server.page("/sessions", "slow").status_code == 429
    assert server.post("tools/list", {}).status_code == 200  # others are not concerned


def test_metrics_are_for_tokens_of_the_whole_store(served: Server) -> None:
    for client in (served.mcp, served.web):
        for token, status in (("reader", 403), ("whole", 200)):
            headers = {**HEADERS, "authorization": f"Bearer {served.tokens[token]}"}
            assert client.get("/metrics", headers=headers).status_code == status


def test_host_and_origin_are_checked_and_forwarded_headers_have_no_effect(served: Server) -> None:
    given = {**HEADERS, "authorization": f"Bearer {served.tokens['reader']}"}
    for client, path in ((served.mcp, "/mcp"), (served.web, "/sessions")):
        for wrong in ({"host": "evil.example"}, {"host": "evil.example", "x-forwarded-host": NAME, "forwarded": f"host={NAME}"}):  # fmt: skip
            assert client.get(path, headers={**given, **wrong}).status_code == 421
        assert client.get(path, headers={**given, "origin": "https://evil.example"}).status_code == 403
    spoofed = {**HEADERS, "x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1", "x-forwarded-user": "admin"}
    assert served.mcp.post("/mcp", json={}, headers=spoofed).status_code == 401
    assert served.web.get("/sessions", headers=spoofed).status_code == 401


# -- the inspector


def test_client_signs_in_with_its_token(server: Server) -> None:
    form = server.web.get("/sessions", headers={"accept": "text/html"})
    assert form.status_code == 401
    assert 'name="token"' in form.text
    origin = {"origin": f"https://{NAME}"}
    wrong = server.web.post("/open", data={"token": "smp_wrong"}, headers=origin)
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    assert server.web.post("/open", data={"token": server.tokens["reader"]}).status_code == 403  # from no page of ours
    assert server.web.post("/open", content=b"token=" + b"x" * 5000, headers=origin).status_code == 413
    answer = server.web.post("/open", data={"token": server.tokens["reader"]}, headers=origin)
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "secure"))
    assert "shop-1" in server.web.get("/sessions").text
    server.web.cookies.clear()


def test_form_of_one_client_is_not_accepted_from_another(server: Server) -> None:
    found = re.search(r'data-form-token="([^"]+)"', server.page("/sessions", "reader").text)
    assert found is not None
    headers = {"authorization": f"Bearer {server.tokens['writer']}", "origin": f"https://{NAME}"}
    answer = server.web.post("/memory/shop-1/DEC-0001/pin", data={FORM_FIELD: found[1]}, headers=headers)
    assert answer.status_code == 403


def test_notice_of_one_client_is_not_shown_to_another(server: Server) -> None:
    done = server.form("/memory/shop-1/DEC-0001/pin", "writer")
    assert done.status_code == 303
    name = re.search(r"done=([\w-]+)", done.headers["location"])
    assert name is not None
    assert "/undo/" in server.page(done.headers["location"], "writer").text
    assert "/undo/" not in server.page(done.headers["location"], "eraser").text
    assert server.form(f"/undo/{name[1]}", "eraser").status_code == 404
    assert server.form(f"/undo/{name[1]}", "writer").status_code == 303


# -- audit


def test_audit_log_says_which_client_read_and_wrote_what_without_content(server: Server) -> None:
    server.call("recall", "reader", query="login verysecretword", min_relevance=0)
    server.call("get", "reader", ids=["shop-1/DEC-0001"])
    server.call("remember", "writer", type="decision", text="Use othersecretword", session="shop-1")
    server.call("remember", "reader", type="decision", text="Use othersecretword", session="shop-1")
    server.call("get", "reader", ids=["a-bank/DEC-0001"], session="Some secret thing")
    server.page("/memory/shop-1/DEC-0002?q=verysecretword")
    server.clients.notes.flush()
    entries = server.memory.store.audit.entries()
    logged = {(each.get("client"), each["action"], each.get("operation"), each.get("session"), tuple(each.get("ids", ())), each.get("error")) for each in entries}  # fmt: skip
    assert ("reader", "read", "mcp get", "shop-1", ("DEC-0001",), None) in logged
    assert ("writer", "write", "mcp remember", "shop-1", ("DEC-0005",), None) in logged
    assert ("reader", "write", "mcp remember", "shop-1", (), "E_NOT_ALLOWED") in logged
    assert ("reader", "read", "web /memory/{session}/{id}", "shop-1", ("DEC-0002",), None) in logged
    recalled = next(each for each in entries if each.get("operation") == "mcp recall")
    assert recalled["count"] > 1
    text = json.dumps(entries)
    for word in ("verysecretword", "othersecretword", "Some secret thing"):
        assert word not in text
    assert not server.memory.store.audit.problems()


def test_many_equal_requests_are_one_line_of_the_audit_log(server: Server) -> None:
    before = len(server.memory.store.audit.entries())
    for _ in range(20):
        server.call("get", "whole", ids=["shop-1/DEC-0001"])
    server.clients.notes.flush()
    new = server.memory.store.audit.entries()[before:]
    assert sum(each["requests"] for each in new) == 20
    assert len(new) <= 5


# -- the knowledge graph


def test_graph_of_another_project_is_not_shown(tmp_path: Path) -> None:
    for server in _serve(tmp_path / "store", compat=True):
        server.tokens["bank"] = server.token("bank", projects=["bank"], may_write=True)
        _wait(lambda: server.post("tools/list", {}, "bank").status_code == 200)
        entity = {"name": SECRET, "entityType": "queue", "observations": [f"{SECRET} is full"]}
        assert server.call("create_entities", "bank", entities=[entity])[0]
        assert SECRET in server.call("read_graph", "bank")[1]
        calls: dict[str, dict[str, Any]] = {
            "create_entities": {"entities": [{"name": "x", "entityType": "y", "observations": []}]},
            "create_relations": {"relations": [{"from": "a", "to": "b", "relationType": "c"}]},
            "add_observations": {"observations": [{"entityName": "x", "contents": ["y"]}]},
            "delete_entities": {"entityNames": ["x"]},
            "delete_observations": {"deletions": [{"entityName": "x", "observations": ["y"]}]},
            "delete_relations": {"relations": [{"from": "a", "to": "b", "relationType": "c"}]},
            "read_graph": {},
            "search_nodes": {"query": ""},
            "open_nodes": {"names": ["x"]},
        }
        assert set(calls) == set(GRAPH_TOOLS)
        for token in ("reader", "writer"):
            for tool, given in calls.items():
                assert SECRET not in server.call(tool, token, **given)[1], tool
            assert SECRET not in server.ask("resources/read", token, uri="memory://knowledge-graph")
        assert SECRET in server.call("read_graph", "bank")[1]
