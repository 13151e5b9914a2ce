"""`smp convert --to ADDRESS`, `smp push` and `smp pull` as a person uses them: what is told, and the exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive
from tests.e2e.terminal import Terminal


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    register_backend(NAME, open_naive)
    monkeypatch.chdir(tmp_path)
    with smp_memory.open(tmp_path / ".bmad/memory") as memory:
        memory.create_session("review").add_decision("Use OAuth 2.0")
    smp_memory.open(tmp_path / "shared").close()
    return Terminal(capsys)


def shared(tmp_path: Path) -> smp_memory.Memory:
    return smp_memory.open(tmp_path / "shared")


def test_store_is_copied_to_a_database_and_back(cli: Terminal, tmp_path: Path) -> None:
    address = f"{NAME}://{tmp_path / 'store.db'}"
    assert "1 session copied; 1 memory compared and equal" in cli.ok("convert", "--to", address)
    assert "0 sessions copied, 1 were there already" in cli.ok("convert", "--to", address)
    assert cli.json("--root", address, "convert", "--to", "./back") == {
        "from": address,
        "target": str(tmp_path / "back"),
        "complete": True,
        "copied": ["review"],
        "extended": [],
        "known": [],
        "conflicts": [],
        "failed": [],
        "left_out": [],
        "memories": 1,
        "settings": 0,
        "audit_lines": 1,
    }
    assert "Use OAuth 2.0" in cli.ok("--root", "back", "list")


def test_convert_names_what_differs(cli: Terminal, tmp_path: Path) -> None:
    cli.ok("convert", "--to", "./copy")
    cli.ok("--root", "copy", "add", "decision", "Written there")
    code, out, _ = cli("convert", "--to", "./copy")
    assert code == 32
    assert "session review (live) was not copied: the target has other entries of DEC-0002" in out
    assert "write ./elsewhere" in cli.fails(2, "convert", "--to", "elsewhere")


def test_push_pull_and_conflicts_are_told(cli: Terminal, tmp_path: Path) -> None:
    assert "review: 1 entry sent" in cli.ok("push", "shared")
    assert "review: nothing new" in cli.ok("push", "review", "shared")
    assert "The address comes last" in cli.fails(2, "push", "postgresql://db.example/memory", "review")
    assert "is a copy" in cli.fails(15, "--root", "shared", "add", "decision", "Not here", "--session", "review")
    with shared(tmp_path) as memory:
        memory.create_session("theirs").add_finding("No rate limit")
        memory.create_session("mine").add_finding("Another session of this name")
    assert "theirs: 1 entry received" in cli.ok("pull", "theirs", "shared")
    cli.ok("session", "new", "mine")
    code, out, _ = cli("push", "shared")
    assert code == 32
    assert "! mine: conflict: " in out
    assert f"theirs: {tmp_path / 'shared'} writes it" in out
    assert "review: nothing new" in out
    cli.ok("pull", "theirs", "shared", "--take-over")
    cli.ok("add", "decision", "Here now", "--session", "theirs")
    code, out, _ = cli("push", "theirs", "shared")  # what waits for this store is tried again
    assert (code, "theirs: 1 entry sent" in out, "! mine: conflict: " in out) == (32, True, True)


def test_unreachable_store_leaves_the_sessions_in_the_outbox(cli: Terminal, tmp_path: Path) -> None:
    assert "Nothing is waiting to be sent" in cli.ok("push")
    cli.ok("push", "shared")
    (tmp_path / "shared").rename(tmp_path / "unmounted")
    cli.ok("add", "decision", "Offline")
    code, out, _ = cli("push", "shared")
    assert (code, "queued" in out) == (30, True)
    (tmp_path / "unmounted").rename(tmp_path / "shared")
    assert "review: 1 entry sent" in cli.ok("push")
    assert "Nothing is waiting to be sent" in cli.ok("push")
