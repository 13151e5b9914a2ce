"""Who may use the inspector: the link, the cookie, Host, Origin, the token of forms, and the headers of every answer."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from tests.e2e.web_site import WAIT_SECONDS, WebSite


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop") / ".bmad" / "memory"
    with smp_memory.open(folder) as memory:
        session = memory.create_session("review", user="ada")
        session.add_decision("Use OAuth 2.0", author="architect")
    return folder


@pytest.fixture(scope="module")
def site(root: Path) -> Iterator[WebSite]:
    with WebSite(root) as site:
        site.open()
        yield site


def test_link_works_once(root: Path) -> None:
    with WebSite(root) as site:
        path = site.link.removeprefix(site.base)
        first, headers, _ = site.ask("GET", path)
        again, _, said = site.ask("GET", path)
        cookie = headers["set-cookie"]
        assert (first, again) == (200, 403)
        assert "used already" in said
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert str(site.port) in cookie.partition("=")[0]  # two inspectors in one browser do not log each other out


def test_link_of_another_text_is_refused(site: WebSite) -> None:
    assert site.ask("GET", "/open?link=guess", cookie="x=1")[0] == 403
    assert site.ask("GET", "/open", cookie="x=1")[0] == 403


@pytest.mark.parametrize(
    "path", ["/", "/search?q=oauth", "/memory/review/DEC-0001", "/events", "/static/inspector.css", "/nothing"]
)
@pytest.mark.parametrize(
    "cookie", ["none=1", "smp-inspector-{port}=", "smp-inspector-{port}=wrong", "smp-inspector-{port}=\u00e4"]
)
def test_nothing_is_shown_without_the_cookie(site: WebSite, path: str, cookie: str) -> None:
    status, _, body = site.ask("GET", path, cookie=cookie.format(port=site.port).encode("utf-8").decode("latin-1"))
    assert status == 401
    assert "OAuth" not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "0.0.0.0:{port}", ""]
)
def test_request_under_another_host_is_refused(site: WebSite, host: str) -> None:
    assert site.ask("GET", "/search", host=host.format(port=site.port))[0] == 421


def test_localhost_is_served(site: WebSite) -> None:
    assert site.ask("GET", "/search", host=f"localhost:{site.port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}"])
def test_request_from_another_origin_is_refused(site: WebSite, origin: str) -> None:
    given = origin.format(port=site.port)
    assert site.ask("GET", "/search", origin=given)[0] == 403
    body = f"form_token={site.form_token}&pinned=1"
    assert site.ask("POST", "/memory/review/DEC-0001/pin", body, origin=given)[0] == 403


@pytest.mark.parametrize("where", ["cross-site", "same-site"])
def test_request_that_another_site_began_is_refused(site: WebSite, where: str) -> None:
    assert site.ask("GET", "/search", sec_fetch_site=where)[0] == 403


def test_form_without_its_token_is_refused(site: WebSite) -> None:
    for body in ("", "form_token=", "form_token=wrong", "form_token=%C3%A4"):
        assert site.ask("POST", "/memory/review/DEC-0001/pin", body, origin=site.base)[0] == 403
    with smp_memory.open(site.root) as memory:
        assert not memory.session("review").find("DEC-0001").pinned  # type: ignore[union-attr]


def test_form_without_an_origin_is_refused(site: WebSite) -> None:
    body = f"form_token={site.form_token}"
    assert site.ask("POST", "/memory/review/DEC-0001/pin", body)[0] == 403


def test_every_answer_forbids_what_is_not_from_here(site: WebSite) -> None:
    for path in ("/", "/search", "/static/inspector.js", "/nothing", "/memory/review/NONE-1"):
        _, headers, _ = site.ask("GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert site.ask("GET", "/")[1]["cache-control"] == "no-store"


def test_pages_contain_no_inline_script_or_style(site: WebSite) -> None:
    for path in (
        "/",
        "/search?q=oauth",
        "/sessions",
        "/session/review",
        "/memory/review/DEC-0001",
        "/trash",
        "/health",
    ):
        _, _, body = site.ask("GET", path)
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", body), path
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", body), path


def test_server_listens_on_loopback_only(site: WebSite) -> None:
    listening = (
        subprocess.run(["ss", "-ltnp"], capture_output=True, text=True, check=False).stdout
        if os.path.exists("/usr/bin/ss")
        else ""
    )
    if not listening:
        try:
            address = socket.gethostbyname(socket.gethostname())
        except OSError:
            pytest.skip("this machine has no address besides loopback")
        if address.startswith("127."):
            pytest.skip("this machine has no address besides loopback")
        with socket.socket() as probe:
            probe.settimeout(1)
            assert probe.connect_ex((address, site.port)) != 0
        return
    lines = [line for line in listening.splitlines() if f":{site.port} " in line]
    assert lines
    assert all("127.0.0.1:" in line for line in lines)


def test_paths_do_not_lead_out_of_the_static_folder(site: WebSite) -> None:
    for path in (
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/static/",
    ):
        assert site.ask("GET", path)[0] == 404, path


def test_large_form_is_refused(site: WebSite) -> None:
    body = "form_token=" + "x" * (3 * 1024 * 1024)
    try:
        status = site.ask("POST", "/memory/review/DEC-0001/pin", body, origin=site.base)[0]
    except (BrokenPipeError, ConnectionResetError):
        return  # it stopped reading
    assert status == 413


def test_other_methods_are_refused(site: WebSite) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert site.ask(method, "/search", origin=site.base)[0] in (400, 405)


def test_folder_without_a_store_is_an_error(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "smp_memory", "web", "--no-browser", "--root", str(tmp_path / "none")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "none").exists()


def test_port_in_use_is_an_error(site: WebSite) -> None:
    words = [
        sys.executable,
        "-m",
        "smp_memory",
        "web",
        "--no-browser",
        "--root",
        str(site.root),
        "--port",
        str(site.port),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode != 0
    assert "Choose another --port" in done.stderr


def test_metrics_are_read_with_the_token_of_the_mcp_server_and_nothing_else_is(site: WebSite) -> None:
    with smp_memory.open(site.root) as memory, open(memory.store.state.path("mcp-token")) as file:
        token = f"Bearer {file.read().strip()}"
    status, headers, text = site.ask("GET", "/metrics", authorization=token, cookie="none=1")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'memory_entries_total{type="decision"} 1' in text
    assert site.ask("GET", "/metrics", authorization="Bearer wrong", cookie="none=1")[0] == 401
    assert site.ask("GET", "/search", authorization=token, cookie="none=1")[0] == 401
    assert site.ask("GET", "/metrics", authorization=token, cookie="none=1", host="evil.example")[0] == 421
    assert site.ask("GET", "/metrics")[0] == 200  # with the cookie
