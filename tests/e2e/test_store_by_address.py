"""Every door to a store takes an address: the command line, completion, hooks, MCP and the web pages on a store that is not a folder.

The backends are PostgreSQL, and the one of `tests.backends`, which is found as an installed one would be: by an entry point of the group
`smp_memory.backends`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import StoreNotFound
from smp_memory.model.ids import scheme_of
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive
from tests.e2e.mcp_process import Server
from tests.unit.web.inspector_client import InspectorClient

POSTGRES = "postgresql"
DECISION = "Use PostgreSQL for the orders of the shop"
FINDING = "The login form has no rate limit"


class Installed:
    """A project without a store of its own, a store at an address, and an environment in which the backend is installed."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self.address, self.backend = address, scheme_of(address)
        package = folder / "site" / "smp_test_backend-1.0.dist-info"
        package.mkdir(parents=True, exist_ok=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: smp-test-backend\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text(
            f"[smp_memory.backends]\n{NAME} = tests.backends.naive_store:open_naive\n"
        )
        source = Path(smp_memory.__file__).parents[1]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SMP_") or "STATE" in name}
        paths = [package.parent, Path(__file__).parents[2], source]
        self.environment = {**kept, "PYTHONPATH": os.pathsep.join(map(str, paths)), "SMP_ROOT": self.address}

    def run(self, *words: str, given: bytes = b"", code: int = 0, **environ: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "smp_memory", *words],
            input=given,
            capture_output=True,
            cwd=self.folder,
            env={**self.environment, **environ},
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return (done.stdout or done.stderr if code else done.stdout).decode()

    def data(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    def hook(self, event: str, **fields: Any) -> str:
        payload = {"session_id": "h1", "cwd": str(self.folder), "hook_event_name": event, **fields}
        out = self.run("hook", "--wait", given=json.dumps(payload).encode())
        said: str = json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""
        return said


@pytest.fixture(params=[NAME, POSTGRES])
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Installed:
    if request.param == NAME:
        return Installed(tmp_path, f"{NAME}://{tmp_path / 'store.db'}")
    return Installed(tmp_path, request.getfixturevalue("postgres").new_schema_address())


@pytest.fixture
def filled(installed: Installed) -> Installed:
    register_backend(NAME, open_naive)
    with smp_memory.open(installed.address) as memory:
        session = memory.create_session("review", user="ada")
        session.add_decision(DECISION, author="architect")
        session.add_finding(FINDING, severity="high")
        memory.create_session("done").add_decision("Archive me")
        memory.archive_session("done")
    return installed


def test_store_is_created_and_used_from_the_command_line(installed: Installed) -> None:
    assert installed.data("init") == {"root": installed.address, "layout": installed.backend, "created": True}
    assert installed.data("init")["created"] is False
    assert list(installed.folder.iterdir()) == []
    installed.run("session", "new", "review")
    installed.run("add", "decision", DECISION)
    assert "PostgreSQL" in installed.run("list")
    assert "DEC-0001" in installed.run("query", "postgresql orders")
    assert installed.data("validate")["ok"] is True
    assert installed.data("maintain")


def test_store_is_created_by_an_address_in_the_place_of_a_folder(installed: Installed) -> None:
    for other in ("", str(installed.folder / "elsewhere")):
        installed.environment["SMP_ROOT"] = other
        said = installed.data("init", installed.address)
        assert (said["root"], said["created"]) == (installed.address, not other)
    assert list(installed.folder.iterdir()) == []


def test_status_shows_the_store(filled: Installed) -> None:
    for words in (["status"], []):
        said = filled.run(*words)
        assert filled.address in said
        assert "1 session, 2 memories: 1 decision, 1 finding" in said
        assert "1 open finding: 1 high" in said
        assert DECISION in said
        assert "Last session: review" in said
    data = filled.data("status")
    assert (data["root"], data["layout"], data["trusted"], data["problem"]) == (
        filled.address,
        filled.backend,
        True,
        None,
    )
    assert [each["id"] for each in data["newest"]] == ["FIND-0001", "DEC-0001"]
    assert data["open_findings"] == {"high": 1}


def test_status_of_a_store_that_does_not_exist_says_so(installed: Installed) -> None:
    said = installed.run()
    assert "There is no store at" in said
    assert installed.address in said
    assert installed.data("status")["root"] is None
    assert "E_STORE_NOT_FOUND" in installed.run("list", code=7)
    assert "E_STORE_NOT_FOUND" in installed.run("doctor", code=7)
    assert not os.path.exists(installed.address.partition("://")[2])
    if installed.backend == POSTGRES:
        with pytest.raises(StoreNotFound):
            smp_memory.open(installed.address, create=False)


def test_address_without_a_backend_is_refused_with_a_reason(installed: Installed) -> None:
    for words in (["list"], ["doctor"], ["reindex"]):
        said = installed.run(*words, code=4, SMP_ROOT="nosuch://host/db")
        assert "there is no backend for nosuch:// addresses" in said
    assert "there is no backend for nosuch:// addresses" in installed.run("status", SMP_ROOT="nosuch://host/db")
    assert installed.run("__complete", "bash", "--session", "", SMP_ROOT="nosuch://host/db") == ""
    payload = json.dumps({"session_id": "h1", "cwd": ".", "hook_event_name": "SessionStart"}).encode()
    assert installed.run("hook", "--wait", given=payload, SMP_ROOT="nosuch://host/db") == ""


def test_doctor_checks_the_store_and_names_issues(filled: Installed) -> None:
    said = filled.run("doctor", code=int(filled.backend == POSTGRES))
    assert said.startswith(f"{filled.address}  {filled.backend}, 1 session, 2 memories")
    assert (
        "fsync" if filled.backend == POSTGRES else "No issues"
    ) in said  # the server of the tests loses what it acknowledged
    with smp_memory.open(filled.address) as memory:
        memory.session("review").add_learning("See the first one", references=["DEC-0099"])
    said = filled.run("doctor", code=1)
    assert "LEARN-0001 refers to DEC-0099, which does not exist" in said
    assert "smp edit review/LEARN-0001" in said


def test_reindex_counts_the_memories(filled: Installed) -> None:
    data = filled.data("reindex")
    assert (data["root"], data["memories"]) == (filled.address, 2)
    assert "2 memories indexed" in filled.run("reindex")


def test_completion_offers_sessions_and_ids(filled: Installed) -> None:
    assert filled.run("__complete", "bash", "list", "--session", "").split() == ["review"]
    assert filled.run("__complete", "bash", "session", "restore", "").split() == ["review", "done"]
    assert filled.run("__complete", "bash", "show", "").split() == ["FIND-0001", "DEC-0001"]
    assert filled.run("__complete", "bash", "show", "review/D").split() == ["review/DEC-0001"]
    assert filled.run("__complete", "bash", "--root", filled.address, "list", "--session", "re").split() == ["review"]


def test_hooks_recall_and_record(filled: Installed) -> None:
    assert DECISION in filled.hook("SessionStart", source="startup")
    prompt = "does the login form have a rate limit?"
    assert FINDING in filled.hook("UserPromptSubmit", session_id="h2", prompt=prompt, prompt_id="p1")
    with smp_memory.open(filled.address) as memory:
        recorded = [session for session in memory.sessions() if session.id != "review"]
        assert [record.text for session in recorded for record in session.records()] == [prompt]
        assert not memory.store.state.has("hooks.log")
    assert "Another host: last call" in filled.run("status")


def test_hooks_of_a_database_named_memory_name_the_project_after_the_folder(tmp_path: Path) -> None:
    register_backend(NAME, open_naive)
    installed = Installed(tmp_path, f"{NAME}://{tmp_path / 'memory'}")  # ends as the place of a store in a project
    with smp_memory.open(installed.address) as memory:
        memory.create_session("other", project="other").add_decision(DECISION)
    assert DECISION not in installed.hook("UserPromptSubmit", prompt="Which database for the orders?", prompt_id="p1")
    with smp_memory.open(installed.address) as memory:
        assert {session.info.project for session in memory.sessions()} == {"other", "project"}


def test_install_does_not_ask_for_a_store_if_an_address_names_one(filled: Installed) -> None:
    words = ("--root", filled.address, "install", "claude-code", "--yes")
    assert "no store here" not in filled.run(*words, SMP_ROOT="")


def test_installed_hosts_name_the_store(filled: Installed) -> None:
    places = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json", "cursor": ".cursor/hooks.json"}  # fmt: skip
    command = f"{sys.executable} -m smp_memory"
    for host, place in places.items():
        filled.run("install", host, "--yes", "--command", command)
        text = (filled.folder / place).read_text()
        assert filled.address in text
        hook = next(each for each in _commands(json.loads(text)) if " hook" in each)
        event = {"hook_event_name": "SessionStart", "session_id": host, "cwd": str(filled.folder), "source": "startup"}
        if host == "cursor":
            event |= {"hook_event_name": "sessionStart", "conversation_id": host, "workspace_roots": [event["cwd"]]}
        environment = {name: value for name, value in filled.environment.items() if name != "SMP_ROOT"}
        done = subprocess.run(
            f"{hook} --wait", shell=True, input=json.dumps(event).encode(), env=environment, capture_output=True, check=True, cwd=filled.folder
        )  # fmt: skip
        assert DECISION in done.stdout.decode(), host
    server = json.loads((filled.folder / ".mcp.json").read_text())["mcpServers"]["smp"]
    assert server["args"][-2:] == ["--root", filled.address]
    assert json.dumps(filled.address) in (filled.folder / ".codex/config.toml").read_text()
    for host in places:
        filled.run("install", host, "--undo", "--yes", "--command", command)
    assert [path for path in filled.folder.rglob("*") if path.is_file() and filled.address in path.read_text()] == []


def _commands(data: Any) -> list[str]:
    """All commands in the settings of a host."""
    if isinstance(data, dict):
        own = [data["command"]] if isinstance(data.get("command"), str) else []
        return own + [found for value in data.values() for found in _commands(value)]
    return [found for value in data for found in _commands(value)] if isinstance(data, list) else []


def test_address_of_postgresql_without_the_extra_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "psycopg.py").write_text("raise ImportError('No module named psycopg')")
    installed = Installed(tmp_path, "postgresql://db.example/memory")
    said = installed.run(
        "list", code=4, PYTHONPATH=f"{tmp_path / 'site'}{os.pathsep}{installed.environment['PYTHONPATH']}"
    )
    assert "where: postgresql:// addresses need the extra `postgres`" in said
    assert "install 'psycopg[binary]" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("installed", [NAME], indirect=True)
def test_password_in_an_address_is_shown_and_stored_nowhere(filled: Installed, tmp_path: Path) -> None:
    secret = "hunter2"
    address = filled.address.replace("://", f"://ada:{secret}@") + f"?password={secret}"
    filled.environment |= {"SMP_ROOT": address, "SMP_STATE_DIR": str(tmp_path / "state")}
    said = [filled.run(*words) for words in ([], ["doctor"], ["reindex", "--json"], ["trust"], ["trust", "--list"], ["config", "--json"], ["init"])]  # fmt: skip
    said += [filled.run("validate", "--verbose"), filled.run("git", "setup", code=2), filled.hook("SessionStart")]
    said += [path.read_text(errors="replace") for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert secret not in "".join(said)
    assert f"{NAME}://ada@/" in said[0]


def test_trust_names_the_address(filled: Installed) -> None:
    assert filled.data("trust")["trusted"] is True
    assert {"root": filled.address, "exists": True} in filled.data("trust", "--list")
    assert filled.data("trust", "--revoke")["trusted"] is False


def test_git_is_not_asked_about_a_store_that_is_no_folder(filled: Installed) -> None:
    subprocess.run(["git", "init", "-q", str(filled.folder)], check=True)
    (filled.folder / ".gitattributes").write_text("* merge=smp\n")
    assert "merge driver" not in filled.run("validate")
    assert "not in a git work tree" in filled.run("git", "setup", code=2)


def test_mcp_tools_read_and_write(filled: Installed) -> None:
    server = Server.__new__(Server)
    server.start([sys.executable, "-m", "smp_memory", "mcp"], filled.environment)
    with server:
        server.greet()
        assert "PostgreSQL" in str(server.data("recall", query="PostgreSQL for the orders of the shop"))
        session = server.data("sessions", action="create", id="agents")["sessions"][0]["id"]
        ref = server.data("remember", session=session, type="finding", text="The cache is never cleared")["id"]
        assert server.data("recall", session=session, query="cleared cache")["items"][0]["id"] == ref
        assert server.data("get", ids=[ref])["memories"][0]["text"] == "The cache is never cleared"
        assert "cache" in server.data("context", session=session, task="clearing the cache")["text"]
        assert server.data("update", action="resolve", id=ref, resolution="Cleared daily")["revision"] == 2
        assert server.data("overview", session=session)["text"].startswith(f"Session {session}")
        assert server.data("forget", ids=[ref])["count"] == 1
        assert server.data("forget", action="restore", ids=[ref])["count"] == 1
        assert server.data("sessions", action="show", id=session)["sessions"][0]["memories"] == 1
        assert server.leave() == 0


@pytest.mark.parametrize(
    "page",
    ["/", "/search?q=login", "/sessions", "/session/review", "/timeline", "/memory/review/DEC-0001", "/analytics", "/trash", "/health?check=full", "/maintain", "/export"],
)  # fmt: skip
def test_web_pages_show_the_store(filled: Installed, page: str) -> None:
    with smp_memory.open(filled.address) as memory:
        answer = InspectorClient(memory).get(page)
        assert answer.status == 200, answer.text
