"""Export, import, anonymise, redact and audit, as a person or a script uses them."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

import smp_memory
from tests.e2e.test_cli import Terminal

FORMATS = ("json", "jsonl", "yaml", "markdown")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("SMP_") and name != "SMP_STATE_DIR":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMP_ROOT", str(tmp_path / "store"))


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


@pytest.fixture
def store(terminal: Terminal) -> str:
    terminal.ok("init", "--layout", "jsonl")
    terminal.ok("session", "new", "checkout", "--user", "Ada Lovelace", "--project", "shop")
    terminal.ok("add", "decision", "Ada wants OAuth", "--author", "architect", "--tag", "auth")
    terminal.ok("add", "finding", "Slow", "--author", "veritas")
    terminal.ok("relate", "DEC-0001", "FIND-0001")
    terminal.ok("pin", "DEC-0001")
    return "jsonl"


def seen(terminal: Terminal, session: str) -> list[object]:
    return [
        {**record, "session": ""}
        for record in (terminal.json("show", f"{session}/{name}") for name in ("DEC-0001", "FIND-0001"))
    ] + [terminal.json("history", f"{session}/DEC-0001")]


@pytest.mark.parametrize("format", FORMATS)
def test_export_and_import(terminal: Terminal, store: str, format: str) -> None:
    done = terminal.json("export", "out.x", "--format", format, "--session", "checkout")
    assert done["sessions"] == ["checkout"]
    assert stat.S_IMODE(os.stat("out.x").st_mode) == 0o600
    assert terminal.json("import", "out.x", "--as", "again") == [{"id": "again", "memories": 2}]
    first, second = (seen(terminal, name) for name in ("checkout", "again"))
    plain = (json.dumps(each, sort_keys=True) for each in (first, second))
    assert next(plain).replace("checkout", "") == next(plain).replace("again", "")
    assert terminal.ok("export", "--format", format, "--session", "checkout") == Path("out.x").read_text()


def test_export_of_all_sessions(terminal: Terminal, store: str, tmp_path: Path) -> None:
    terminal.ok("session", "new", "other")
    terminal.ok("export", "--all", "all.yaml")
    terminal.ok("init", "--root", str(tmp_path / "second"))
    found = terminal.json("import", "all.yaml", "--root", str(tmp_path / "second"))
    assert [row["id"] for row in found] == ["checkout", "other"]


def test_import_from_standard_input(terminal: Terminal, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = terminal.ok("export", "--session", "checkout")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert terminal.json("import", "-", "--as", "piped")[0]["id"] == "piped"


def test_existing_file_is_not_overwritten(terminal: Terminal, store: str) -> None:
    Path("out.json").write_text("mine")
    assert "--force" in terminal.fails(4, "export", "out.json")
    assert Path("out.json").read_text() == "mine"
    terminal.ok("export", "out.json", "--force")
    assert "--as" in terminal.fails(9, "import", "out.json")


def test_import_error_names_the_line(terminal: Terminal, store: str) -> None:
    terminal.ok("export", "out.jsonl")
    lines = Path("out.jsonl").read_text().splitlines(keepends=True)
    Path("out.jsonl").write_text("".join([lines[0], "{broken\n", *lines[2:]]))
    assert "out.jsonl:2:" in terminal.fails(4, "import", "out.jsonl", "--as", "x")
    assert len(terminal.json("session", "list")) == 1
    assert "no file" in terminal.fails(4, "import", "missing.json")


def test_anonymised_export_can_be_reversed_with_its_key(terminal: Terminal, store: str) -> None:
    terminal.ok("export", "out.yaml", "--anonymise", "--names", "names.key", "--session", "checkout")
    assert stat.S_IMODE(os.stat("names.key").st_mode) == 0o600
    text = Path("out.yaml").read_text()
    assert "Ada" not in text
    assert "shop" not in text
    assert "User-1" in text
    terminal.ok("import", "out.yaml")
    terminal.ok("import", "out.yaml", "--names", "names.key", "--as", "back")
    assert terminal.json("show", "back/DEC-0001")["decision"] == "Ada wants OAuth"
    assert terminal.json("show", "Session-1/DEC-0001")["decision"] == "User-1b wants OAuth"
    restored = terminal.ok("export", "--session", "Session-1", "--restore-names", "names.key", "--format", "yaml")
    assert "Ada wants OAuth" in restored
    terminal.fails(2, "export", "x.json", "--names", "names.key")
    terminal.fails(2, "import", "out.yaml", "--names", "missing.key")
    Path("bad.key").write_text("{}")
    terminal.fails(4, "import", "out.yaml", "--names", "bad.key", "--as", "y")


def test_anonymise_a_session_and_one_memory(terminal: Terminal, store: str) -> None:
    one = terminal.json("anonymise", "checkout/DEC-0001")
    assert one["decision"].startswith("User-1")
    done = terminal.json("anonymise", "--session", "checkout", "--names", "names.key")
    assert (done["session"], done["copy"], done["memories"]) == ("checkout", "Session-1", 2)
    again = terminal.json("anonymise", "--session", "checkout", "--names", "names.key", "--as", "second")
    assert again["placeholders"] == done["placeholders"]
    assert terminal.json("show", "checkout/DEC-0001")["decision"] == "Ada wants OAuth"


def test_redact_stored_secrets(terminal: Terminal, store: str, tmp_path: Path) -> None:
    terminal.ok("config", "set", "privacy.redaction.enabled", "false")
    terminal.ok("add", "decision", f"The key is {TOKEN}", "--session", "checkout")
    terminal.ok("config", "unset", "privacy.redaction.enabled")
    assert TOKEN not in terminal.ok("add", "decision", f"Another is {TOKEN}", "--session", "checkout", "--json")
    out = terminal.ok("redact", "--preview", "--session", "checkout")
    assert "DEC-0002" in out
    assert "1 github_token" in out
    assert "DEC-0003" not in out
    assert terminal.json("show", "checkout/DEC-0002")["decision"].endswith(TOKEN)
    terminal.ok("redact", "--all", "--reason", "rotated")
    assert terminal.json("show", "checkout/DEC-0002")["decision"] == "The key is [REDACTED:github_token]"
    assert "No secrets" in terminal.ok("redact", "--all")
    for folder, _, names in os.walk(tmp_path / "store"):
        assert not any(TOKEN.encode() in Path(folder, name).read_bytes() for name in names)


def test_audit_command_lists_actions(terminal: Terminal, store: str) -> None:
    assert "no such entry" in terminal.ok("audit")
    terminal.ok("add", "decision", "Ask bob@example.org", "--session", "checkout")
    terminal.ok("export", "out.json", "--session", "checkout")
    terminal.ok("anonymise", "--session", "checkout")
    found = terminal.json("audit")
    assert found["problems"] == []
    assert [entry["action"] for entry in found["entries"]] == ["redact", "export", "anonymise"]
    assert terminal.json("audit", "--limit", "1")["entries"] == found["entries"][-1:]
    assert terminal.json("audit", "--action", "export")["entries"] == found["entries"][1:2]
    assert terminal.json("audit", "--session", "nobody")["entries"] == []
    out = terminal.ok("audit")
    assert "DEC-0002; 1 email" in out
    assert "bob" not in out
    log = Path("store", ".smp", "audit.jsonl")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))
    code, out, _ = terminal("audit")
    assert code == 41
    assert "✗" in out


def test_redaction_rules_are_configurable(terminal: Terminal, store: str) -> None:
    terminal.ok("config", "set", "privacy.redaction.off", "email,phone")
    assert terminal.json("config", "get", "privacy.redaction.off")["value"] == ["email", "phone"]
    assert (
        terminal.json("add", "decision", "Ask bob@example.org", "--session", "checkout")["decision"]
        == "Ask bob@example.org"
    )
    patterns = '[{"type": "employee", "regex": "EMP-[0-9]{6}"}]'
    terminal.ok("config", "set", "privacy.redaction.patterns", f"{patterns}")
    assert terminal.json("add", "decision", "EMP-123456", "--session", "checkout")["decision"] == "[REDACTED:employee]"
    terminal.fails(5, "config", "set", "privacy.redaction.off", "fone")
    terminal.fails(5, "config", "set", "privacy.redaction.patterns", '[{"type": "x", "regex": "(a+)+b"}]')
    assert smp_memory.open("store").config["privacy.redaction.off"] == ["email", "phone"]
