"""Install hooks into a host's settings, install again, and undo. Most calls run in this process, with a home folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from smp_memory.cli.commands.install import HOSTS
from smp_memory.cli.main import main
from smp_memory.integrations.hooks.events import KINDS
from tests.e2e.hook_host import ENVIRONMENT

HOST_NAMES = ("claude-code", "codex", "gemini", "cursor")
FILES = {
    "claude-code": (".claude/settings.json", ".mcp.json"),
    "codex": (".codex/hooks.json", ".codex/config.toml"),
    "gemini": (".gemini/settings.json",),
    "cursor": (".cursor/hooks.json", ".cursor/mcp.json"),
}
STYLES = {
    "none": None,
    "empty object": "{}",
    "empty object with blanks": "{ }\n",
    "empty hooks": '{"hooks": {}, "mcpServers": {}}',
    "tabs": '{\n\t"z": 1,\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{ "hooks": [ {"type":"command","command":"say done"} ] }\n\t\t]\n\t},\n\t"a": [1,2,\n3]\n}',
    "windows": '{\r\n    "model": "m",\r\n    "hooks": {\r\n        "PreToolUse": []\r\n    }\r\n}\r\n',
    "one line": '{"b":1,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]},"mcpServers":{"other":{"command":"o"}}}',
    "byte order mark": '\ufeff{\n  "name": "é 😀 \\u00e9"\n}\n',
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def install(*words: str) -> int:
    return main(["install", "--command", "smp", *words])


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", HOST_NAMES)
def test_install_twice_and_undo_restores_every_byte(project: Path, name: str, style: str) -> None:
    text = STYLES[style]
    for file in FILES[name]:
        if text is not None and file.endswith(".json"):
            (project / file).parent.mkdir(exist_ok=True)
            (project / file).write_bytes(text.encode())
    before = tree(project)
    assert install(name, "--yes") == 0
    installed = tree(project)
    assert installed != before
    for file in FILES[name]:
        if file.endswith(".json"):
            found = json.loads(installed[file].decode("utf-8-sig"))
            if text is not None:
                old = json.loads(text.removeprefix("\ufeff"))
                assert {key: found[key] for key in old if key not in ("hooks", "mcpServers")} == {
                    key: old[key] for key in old if key not in ("hooks", "mcpServers")
                }
    assert install(name, "--yes") == 0
    assert tree(project) == installed
    assert install(name, "--undo", "--yes") == 0
    assert tree(project) == before
    assert install(name, "--undo", "--yes") == 0
    assert tree(project) == before


@pytest.mark.parametrize("name", HOST_NAMES)
def test_undo_keeps_changes_of_others(project: Path, name: str) -> None:
    file = project / FILES[name][0]
    file.parent.mkdir()
    file.write_text(
        '{\n  "hooks": {\n    "Stop": [\n      {"hooks": [{"type": "command", "command": "mine"}]}\n    ]\n  }\n}\n'
    )
    assert install(name, "--yes") == 0
    changed = json.loads(file.read_text())
    changed["hooks"].setdefault("Stop", []).append({"command": "theirs"})
    changed["theme"] = "dark"
    file.write_text(json.dumps(changed, indent=4))
    assert install(name, "--undo", "--yes") == 0
    left = json.loads(file.read_text())
    wanted: dict[str, Any] = {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}, {"command": "theirs"}]}
    assert left == {"hooks": wanted, "theme": "dark"}


def test_undo_keeps_other_hooks_of_a_group(project: Path) -> None:
    file = project / ".claude" / "settings.json"
    file.parent.mkdir()
    group = [{"type": "command", "command": "first"}, {"type": "command", "command": "/opt/x/smp hook"}, {"type": "command", "command": "last"}]  # fmt: skip
    file.write_text(json.dumps({"hooks": {"Stop": [{"matcher": "", "hooks": group}]}}))
    assert install("claude-code", "--undo", "--yes") == 0
    assert json.loads(file.read_text()) == {"hooks": {"Stop": [{"matcher": "", "hooks": [group[0], group[2]]}]}}


def test_older_entry_of_ours_is_replaced(project: Path) -> None:
    assert main(["install", "claude-code", "--yes", "--command", "/old/place/smp"]) == 0
    assert install("claude-code", "--yes") == 0
    found = json.loads((project / ".claude" / "settings.json").read_text())["hooks"]
    assert {group["hooks"][0]["command"] for groups in found.values() for group in groups} == {"smp hook"}
    assert all(len(groups) == 1 for groups in found.values())
    assert json.loads((project / ".mcp.json").read_text()) == {
        "mcpServers": {"smp": {"command": "smp", "args": ["mcp"]}}
    }
    assert install("claude-code", "--undo", "--yes") == 0
    assert tree(project) == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, /* a comment\n "b": 2}',
        '{"a": 1,,}',
        "not json",
        '["a"]',
        '{"hooks": []}',
        '{"hooks": {"Stop": "x"}}',
        "\xff",
    ],
)
def test_invalid_json_is_refused_unchanged(project: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = project / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    before = tree(project)
    assert install("claude-code", "--yes") == 2
    assert "It was not changed" in capsys.readouterr().err
    assert tree(project) == before


def test_foreign_server_of_the_same_name_is_not_replaced(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".mcp.json").write_text('{"mcpServers": {"smp": {"command": "another"}}}')
    (project / ".codex").mkdir()
    (project / ".codex" / "config.toml").write_text('[mcp_servers.smp]\ncommand = "another"\n')
    before = tree(project)
    assert (install("claude-code", "--yes"), install("codex", "--yes")) == (2, 2)
    assert tree(project) == before
    assert "another server" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", 'model = "m"', 'model = "m"\n\n[tools]\nweb = true\n', "# only a comment\n\n"])
def test_toml_block_is_added_and_removed(project: Path, text: str) -> None:
    file = project / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    assert install("codex", "--yes") == 0
    assert file.read_text().startswith(text)
    found = tomllib.loads(file.read_text())
    assert found["mcp_servers"] == {"smp": {"command": "smp", "args": ["mcp"]}}
    assert {key: found[key] for key in found if key != "mcp_servers"} == tomllib.loads(text)
    file.write_text(file.read_text() + "\n[later]\nx = 1\n")
    assert install("codex", "--undo", "--yes") == 0
    assert tomllib.loads(file.read_text()) == {**tomllib.loads(text), "later": {"x": 1}}


def test_invalid_toml_is_refused_unchanged(project: Path) -> None:
    file = project / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text("a = = 1\n")
    assert install("codex", "--yes") == 2
    assert file.read_text() == "a = = 1\n"


def test_script_needs_yes_and_a_dry_run_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install("claude-code") == 1
    out = capsys.readouterr().out
    assert '+            "command": "smp hook"' in out
    assert "--yes" in out
    assert install("claude-code", "--dry-run", "--yes") == 0
    assert '"smp hook"' in capsys.readouterr().out
    assert tree(project) == {}


def test_user_scope_writes_to_the_home_folder(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in HOST_NAMES:
        assert install(name, "--user", "--yes") == 0
    assert set(tree(home)) == {
        ".claude/settings.json",
        ".codex/hooks.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".cursor/hooks.json",
        ".cursor/mcp.json",
    }
    assert tree(project) == {}
    for name in HOST_NAMES:
        assert install(name, "--user", "--undo", "--yes") == 0
    assert tree(home) == {}


def test_links_and_modes_are_kept(project: Path) -> None:
    real = project / "dotfiles.json"
    real.write_text('{"a": 1}')
    real.chmod(0o640)
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").symlink_to(real)
    assert install("claude-code", "--yes") == 0
    assert (project / ".claude" / "settings.json").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "SessionStart" in real.read_text()


@pytest.mark.parametrize("name", HOST_NAMES)
@pytest.mark.parametrize("words", [("--yes",), ("--undo", "--yes")])
@pytest.mark.parametrize("is_folder", [False, True])
def test_yes_does_not_cover_files_that_links_of_the_project_lead_to(
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    words: tuple[str, ...],
    is_folder: bool,
) -> None:
    assert install(name, "--yes") == 0
    outside = tmp_path / "outside"
    outside.mkdir()
    if words == ("--yes",):
        planted = {path: b"{}" if path.endswith(".json") else b"" for path in tree(project)}
    else:
        planted = tree(project)
    for number, (path, data) in enumerate(planted.items()):
        moved, link = outside / str(number), project / path
        if is_folder and link.parent != project:
            if link.parent.is_symlink():
                continue
            link.write_bytes(data)
            link.parent.rename(moved)
            link.parent.symlink_to(moved)
        else:
            link.unlink()
            moved.write_bytes(data)
            link.symlink_to(moved)
    before = tree(outside)
    capsys.readouterr()
    assert install(name, *words) == 2
    assert "outside of the project" in capsys.readouterr().err
    assert tree(outside) == before


def test_list_shows_detected_hosts_and_installations(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("gemini", "--yes")
    capsys.readouterr()
    assert main(["install", "--command", "smp", "--json"]) == 0
    found = {row["host"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(found) == set(HOSTS)
    assert (found["gemini"]["detected"], found["gemini"]["project"], found["gemini"]["user"]) == (
        True,
        "installed",
        "–",
    )
    assert (found["cursor"]["detected"], found["cursor"]["project"]) == (False, "–")
    (project / ".gemini" / "settings.json").write_text(
        '{"hooks": {"SessionEnd": [{"hooks": [{"command": "smp hook"}]}]}}'
    )
    assert main(["install", "--command", "smp", "--json"]) == 0
    assert {row["host"]: row["project"] for row in json.loads(capsys.readouterr().out)}["gemini"] == "in part"


@pytest.mark.parametrize("name", HOST_NAMES)
def test_every_installed_event_is_known(project: Path, name: str) -> None:
    assert install(name, "--yes") == 0
    found = json.loads((project / FILES[name][0]).read_text())["hooks"]
    assert set(found) <= set(KINDS)
    kinds = {KINDS[event] for event in found}
    assert {"start", "prompt", "reply", "compact", "end"} <= kinds


def test_installed_command_runs(project: Path) -> None:
    """The command of a settings file, by a shell, as a host runs it."""
    main(["init"])
    command = f"'{sys.executable}' -m smp_memory"
    assert main(["install", "claude-code", "--yes", "--command", command]) == 0
    settings = json.loads((project / ".claude" / "settings.json").read_text())
    line = settings["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    payload = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(project), "source": "startup"}
    done = subprocess.run(line, shell=True, input=json.dumps(payload), capture_output=True, text=True, env={**ENVIRONMENT, "HOME": os.environ["HOME"]}, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "SMP records this conversation as session" in done.stdout


def test_file_changed_during_confirmation_is_left_unchanged(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text('{"theme": "dark"}')

    def changed_meanwhile(*_: Any) -> bool:
        file.write_text('{"theme": "light", "permissions": ["new"]}')
        return True

    monkeypatch.setattr("smp_memory.cli.commands.install._is_confirmed", changed_meanwhile)
    assert install("claude-code") == 2
    assert "changed by another program" in capsys.readouterr().err
    assert tree(project) == {".claude/settings.json": b'{"theme": "light", "permissions": ["new"]}'}


def test_folder_in_place_of_a_settings_file_is_reported_in_the_list(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".claude" / "settings.json").mkdir(parents=True)
    assert install() == 0
    assert "cannot be read" in capsys.readouterr().out
    assert install("claude-code", "--yes") == 2
    assert "not a plain file" in capsys.readouterr().err
    assert tree(project) == {}


def test_undo_keeps_an_empty_project_folder(project: Path) -> None:
    (project / ".git").rmdir()
    assert install("claude-code", "--yes") == 0
    assert install("claude-code", "--undo", "--yes") == 0
    assert list(project.iterdir()) == []
