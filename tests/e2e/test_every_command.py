"""Every command of the table: `--json` prints one JSON document, and text of a store cannot control the terminal."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.commands import COMMANDS
from smp_memory.cli.main import main
from smp_memory.privacy.client_tokens import ClientToken, add_token, digest_of
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive
from tests.e2e.terminal import Terminal

POSTGRES = "postgresql"
HOSTILE = "red\x1b[31m title\x1b]0;owned\x07 bell\x07 \roverwritten \x9b31m bidi\u202eevil\u2066 zero\u200b"
CONTROL = set(map(chr, [*range(9), 11, 12, *range(14, 32), 127, *range(128, 160)])) | set("\r\u202e\u2066\u200b")

# The words of a call that works in the store of these tests.
CALLS: dict[str, tuple[str, ...]] = {
    "status": (),
    "init": (),
    "demo": (),
    "install": ("claude-code", "--dry-run"),
    "trust": (),
    "completion": ("bash",),
    "add": ("finding", HOSTILE, "--session", "shop"),
    "edit": ("shop/DEC-0001", f"rationale={HOSTILE}"),
    "resolve": ("shop/FIND-0001", HOSTILE),
    "relate": ("shop/DEC-0001", "FIND-0001"),
    "pin": ("shop/DEC-0001",),
    "unpin": ("shop/DEC-0001",),
    "mute": ("shop/DEC-0001",),
    "unmute": ("shop/DEC-0001",),
    "promote": ("shop/DEC-0001",),
    "query": ("title",),
    "list": (),
    "show": ("shop/DEC-0001",),
    "history": ("shop/DEC-0001",),
    "undo": ("--dry-run",),
    "told": (),
    "similar": ("shop/FIND-0001",),
    "related": ("shop/DEC-0001",),
    "watch": ("--for", "0.05"),
    "priority": ("shop/DEC-0001",),
    "topics": (),
    "timeline": (),
    "agents": (),
    "summary": (),
    "analytics": (),
    "metrics": (),
    "stats": (),
    "session new": ("third", "--project", HOSTILE),
    "session list": ("--all",),
    "session show": ("shop",),
    "session title": ("shop", HOSTILE.replace("\r", "")),
    "session archive": ("other", "--reason", HOSTILE),
    "session delete": ("other", "--reason", HOSTILE),
    "session restore": ("archived",),
    "session erase": ("deleted", "--yes"),
    "delete": ("shop/TURN-0001", "--reason", HOSTILE),
    "restore": ("shop/TURN-0002",),
    "trash": (),
    "token create": ("ada", "--project", HOSTILE),
    "token list": (),
    "token revoke": ("ci",),
    "erase": ("shop/TURN-0001", "--yes", "--reason", HOSTILE),
    "redact": ("--all", "--preview"),
    "audit": (),
    "doctor": (),
    "index": ("--session", "shop"),
    "validate": (),
    "repair": ("--all",),
    "quarantine": (),
    "maintain": ("--dry-run",),
    "compact": ("--session", "shop", "--dry-run"),
    "tidy": ("--all",),
    "duplicates": (),
    "review": (),
    "convert": ("--to", "markdown"),
    "reindex": (),
    "config": (),
    "export": ("out.json",),
    "import": ("export.json", "--as", "again"),
    "anonymise": ("--session", "shop"),
    "push": ("shop", "elsewhere"),
    "pull": ("elsewhere",),
    "context": ("--task", "title"),
    "workflow check": ("workflow.yaml",),
    "git setup": ("--dry-run",),
    "git resolve": (),
    "git check": (),
    "digest": ("--output", "MEMORY.md"),
    "memlog init": ("--workspace", "run"),
    "memlog append": ("--workspace", "log", "--text", HOSTILE),
    "memlog set": ("--workspace", "log", "--key", "a", "--value", "b"),
}
PROTOCOLS = {"mcp", "web", "hook", "macp", "git merge-driver"}  # servers, and commands whose output is a protocol


ONLY_IN_FILES = {
    "convert": 16,
    "quarantine": 16,
    "git setup": 2,
    "git resolve": 2,
    "git check": 2,
}  # and the exit codes on a store that is not in files


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return filled(tmp_path, monkeypatch, str(tmp_path / ".bmad/memory"))


def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> Path:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    with smp_memory.open(address) as memory:
        shop = memory.create_session("shop", user=HOSTILE, project=HOSTILE)
        shop.add_decision(HOSTILE, rationale=HOSTILE, tags=["auth"], topic=HOSTILE, author="ada")
        shop.add_finding(HOSTILE, severity="high")
        shop.add_turn("user", HOSTILE)
        shop.add_turn("user", "deleted " + HOSTILE)
        shop.delete("TURN-0002", HOSTILE)
        for name in ("other", "archived", "deleted"):
            memory.create_session(name).add_finding(HOSTILE)
        shop.export(tmp_path / "export.json")
        token = ClientToken("t-1", "ci", digest_of("x"), projects=[HOSTILE], created=memory.now())
        add_token(memory.store.tokens, token)
        memory.archive_session("archived", HOSTILE)
        memory.delete_session("deleted", HOSTILE)
    with smp_memory.open(tmp_path / "elsewhere") as elsewhere:
        elsewhere.create_session("theirs", project=HOSTILE).add_finding(HOSTILE)
    (tmp_path / "workflow.yaml").write_text("name: review\nmemory_requirements:\n  read_access: [decisions]\n")
    (tmp_path / "log").mkdir()
    assert main(["memlog", "init", "--workspace", "log"]) == 0
    return tmp_path


def test_every_command_has_a_call_here() -> None:
    assert set(CALLS) | PROTOCOLS == set(COMMANDS)


@pytest.mark.parametrize("name", CALLS)
def test_json_is_one_document(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, err = Terminal(capsys)(*name.split(), *CALLS[name], "--json")
    assert code == 0 or (name, code) == ("erase", 1), err  # the same text is elsewhere, too
    assert name == "watch" or json.loads(out) is not None
    assert not CONTROL & set(out)


@pytest.mark.parametrize("name", CALLS)
def test_text_of_a_store_cannot_control_the_terminal(
    project: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, out, err = Terminal(capsys)(*name.split(), *CALLS[name])
    assert code == 0 or (name, code) == ("erase", 1), err  # the same text is elsewhere, too
    assert not CONTROL & set(out + err), name


@pytest.mark.parametrize("backend", [NAME, POSTGRES])
@pytest.mark.parametrize("name", CALLS)
def test_command_works_on_a_store_that_is_not_in_files(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    backend: str,
) -> None:
    register_backend(NAME, open_naive)
    address = f"{NAME}://{tmp_path / 'store.db'}"
    if backend == POSTGRES:
        address = request.getfixturevalue("postgres").new_schema_address()
    filled(tmp_path, monkeypatch, address)
    monkeypatch.setenv("SMP_ROOT", address)
    code, out, err = Terminal(capsys)(*name.split(), *CALLS[name], "--json")
    has_issue = backend == POSTGRES and name == "doctor"  # the server of the tests runs without fsync
    assert code == ONLY_IN_FILES.get(name, int(has_issue)) or (name, code) == ("erase", 1), err
    assert name == "watch" or code or json.loads(out) is not None
    assert not CONTROL & set(out)
    assert not (tmp_path / ".bmad").exists() or name == "demo"


def test_smp_alone_cannot_be_controlled_by_text_of_a_store(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = Terminal(capsys).ok()
    assert "\\x1b]0;owned\\x07" in out
    assert not CONTROL & set(out)
