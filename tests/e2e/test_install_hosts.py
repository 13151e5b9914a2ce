"""Install into editors that have an MCP server and rules: in files of the form that each documents, with entries of others and comments.

The fixtures are made up after the documentation of each host; none was copied.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from smp_memory.cli.main import main
from smp_memory.errors import UserError
from smp_memory.integrations.hooks import json_edit
from smp_memory.integrations.hooks.block_edit import RULES, rules_edit, toml_edit, yaml_edit
from smp_memory.integrations.hooks.file_edit import FileEdit
from smp_memory.integrations.hooks.hosts import HOSTS, InstallTarget

SMP = {"command": "smp", "args": ["mcp"]}
GOOSE = """\
# Model
active_provider: anthropic
providers:
  anthropic:
    enabled: true
    model: "m: 1"   # mine
GOOSE_MODE: "smart_approve"

extensions:   # of goose
  # built in
  developer:
    bundled: true
    enabled: true
    name: developer
    timeout: 300
    type: builtin

  filesystem:
    type: stdio
    name: filesystem
    enabled: true
    cmd: npx
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]
    env_keys: []
    envs: {}
    timeout: 300
slash_commands:
  - command: "run-tests"
    recipe_path: "/r.yaml"
"""
ZED = """\
// Zed settings
//
// For information on how to configure Zed, see the documentation.
{
  "theme": { "mode": "system", "light": "One Light", }, // both
  /* servers */
  "context_servers": {
    "local-mcp-server": {
      "command": "some-command",
      "args": ["arg-1", "arg-2"],
      "env": {},
    },
    "remote": { "url": "https://example.org/mcp" }, // theirs
  },
  "vim_mode": false,
}
"""
VSCODE = """\
{
\t// inputs are asked for once
\t"inputs": [
\t\t{ "type": "promptString", "id": "key", "description": "API key", "password": true }
\t],
\t"servers": {
\t\t"fetch": { "type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"] }, // fetches
\t\t"github": { "type": "http", "url": "https://api.example.org/mcp/", "headers": { "X": "${input:key}" } }
\t}
}
"""
OPENCODE = """\
{
  "$schema": "https://opencode.ai/config.json",
  // tools
  "mcp": {
    "jira": { "type": "remote", "url": "https://jira.example.org/mcp", "enabled": false },
    "files": { "type": "local", "command": ["bun", "x", "files"], "environment": { "A": "b" } }
  },
  "instructions": ["CONTRIBUTING.md"],
}
"""
SERVERS = """\
{
  "mcpServers": {
    "github": {
      "command": "docker",
      "args": ["run", "-i", "ghcr.io/github/github-mcp-server"],
      "env": { "TOKEN": "${env:TOKEN}" },
      "disabled": false,
      "autoApprove": []
    },
    "remote": { "serverUrl": "https://example.org/mcp" }
  }
}
"""
HOOKS = """\
{
  "version": 1,
  "hooks": {
    "PreToolUse": [{ "type": "command", "command": "./validate.sh", "timeout": 15 }],
    "SessionStart": [{ "type": "command", "command": "./context.sh" }]
  }
}
"""
TEXT = "# Rules of this project\n\n- Use tabs.\n"
CLINE_IDE = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"

# Host -> its files, with what others wrote there; `~` is the home folder.
FILES = {
    "vscode": {
        ".vscode/mcp.json": VSCODE,
        ".github/hooks/smp.json": HOOKS,
        ".github/mcp.json": SERVERS,
        ".github/instructions/smp.instructions.md": '---\napplyTo: "**"\n---\n' + TEXT,
    },
    "windsurf": {"~/.codeium/windsurf/mcp_config.json": SERVERS, "~/.codeium/windsurf/memories/global_rules.md": TEXT},
    "zed": {".zed/settings.json": ZED, "AGENTS.md": TEXT},
    "cline": {
        "~/.cline/data/settings/cline_mcp_settings.json": SERVERS,
        f"~/{CLINE_IDE}": SERVERS.replace("\n", "\r\n"),
        "~/Documents/Cline/Rules/smp.md": TEXT.rstrip("\n"),
    },
    "opencode": {"opencode.jsonc": OPENCODE, "AGENTS.md": TEXT},
    "goose": {"~/.config/goose/config.yaml": GOOSE, "~/.config/goose/.goosehints": TEXT.replace("\n", "\r\n")},
    "kiro": {".kiro/settings/mcp.json": SERVERS, ".kiro/steering/smp.md": "---\ninclusion: always\n---\n" + TEXT},
}
FOR_USER = {
    "vscode": {
        "~/.config/Code/User/mcp.json": VSCODE,
        "~/.copilot/hooks/smp.json": HOOKS,
        "~/.copilot/mcp-config.json": SERVERS,
        "~/.copilot/instructions/smp.instructions.md": TEXT,
    },
    "zed": {"~/.config/zed/settings.json": ZED, "~/.config/zed/AGENTS.md": TEXT},
    "opencode": {"~/.config/opencode/opencode.json": OPENCODE, "~/.config/opencode/AGENTS.md": TEXT},
    "kiro": {"~/.kiro/settings/mcp.json": SERVERS, "~/.kiro/steering/smp.md": TEXT},
}
CASES = [(name, "", files) for name, files in FILES.items()] + [
    (name, "--user", files) for name, files in FOR_USER.items()
]
SECTIONS = {
    "vscode": ("servers",),
    "zed": ("context_servers",),
    "opencode": ("mcp",),
    "goose": ("extensions",),
}  # the others: mcpServers
ENTRIES: dict[str, Any] = {
    "vscode": {"type": "stdio", **SMP},
    "opencode": {"type": "local", "command": ["smp", "mcp"], "enabled": True},
    "goose": {"type": "stdio", "name": "smp", "enabled": True, "cmd": "smp", "args": ["mcp"], "env_keys": [], "envs": {}, "timeout": 300},
}  # fmt: skip

COPILOT = {"type": "local", **SMP, "tools": ["*"]}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "COPILOT_HOME", "XDG_CONFIG_HOME", "CLINE_DIR", "SMP_ROOT"):
        monkeypatch.delenv(name, raising=False)
    return folder


def install(host: str, *words: str) -> int:
    return main(["install", host, "--command", "smp", "--yes", *filter(None, words)])


def plant(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = place(project, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def place(project: Path, name: str) -> Path:
    return project.parent / "home" / name[2:] if name.startswith("~/") else project / name


def tree(project: Path) -> dict[str, bytes]:
    top = project.parent
    paths = (path for path in top.rglob("*") if path.is_file() and ".local" not in path.parts)
    return {str(path.relative_to(top)): path.read_bytes() for path in paths}


def servers(host: str, path: Path) -> dict[str, Any]:
    text = path.read_text()
    found = yaml.safe_load(text) if path.suffix == ".yaml" else json_edit.read(text).value
    for name in section(host, path):
        found = found[name]
    return dict(found)


def section(host: str, path: Path) -> tuple[str, ...]:
    return ("mcpServers",) if path.parent.name in (".github", ".copilot") else SECTIONS.get(host, ("mcpServers",))


def is_settings(name: str) -> bool:
    return name.endswith(("mcp.json", "config.json", "settings.json", ".jsonc", "opencode.json", ".yaml"))


def test_every_host_of_the_table_without_hooks_of_claude_code_has_a_fixture() -> None:
    assert set(FILES) == set(HOSTS) - {"claude-code", "codex", "gemini", "cursor"}
    assert set(FOR_USER) == {name for name in FILES if len(HOSTS[name].scopes) == 2}


@pytest.mark.parametrize(("host", "scope", "files"), CASES)
def test_install_twice_and_undo_restores_every_byte(
    project: Path, host: str, scope: str, files: dict[str, str]
) -> None:
    plant(project, files)
    before = tree(project)
    assert install(host, scope) == 0
    installed = tree(project)
    assert {name for name in installed if name.endswith(".smp-backup")} == {f"{name}.smp-backup" for name in before}
    assert install(host, scope) == 0
    assert tree(project) == installed
    for name, text in files.items():
        now = place(project, name).read_bytes().decode()
        assert all(line in now for line in text.splitlines() if "//" in line or "#" in line)
        if is_settings(name):
            expected = COPILOT if name.startswith((".github", "~/.copilot")) else ENTRIES.get(host, SMP)
            assert servers(host, place(project, name))["smp"] == expected
        else:
            assert "smp hook --client vscode" in now or RULES in now.replace("\r\n", "\n")
    assert install(host, scope, "--undo") == 0
    assert tree(project) == before


@pytest.mark.parametrize(("host", "scope", "files"), CASES)
def test_undo_in_a_new_project_leaves_nothing(project: Path, host: str, scope: str, files: dict[str, str]) -> None:
    assert install(host, scope) == 0
    assert tree(project)
    assert install(host, scope, "--undo") == 0
    assert tree(project) == {}
    assert [path.name for path in project.iterdir()] == [".git"]


@pytest.mark.parametrize(("host", "scope", "files"), CASES)
def test_undo_keeps_changes_of_others(project: Path, host: str, scope: str, files: dict[str, str]) -> None:
    """Others change the files after the installation, so that the backup is not what undo may restore."""
    plant(project, files)
    assert install(host, scope) == 0
    changes: dict[str, Callable[[str], str]] = {
        ".json": lambda text: json_edit.add(text, ("added by others",), "x", 1),
        ".jsonc": lambda text: json_edit.add(text, ("added by others",), "x", 1),
        ".yaml": lambda text: text + "ADDED: 1\n",
        "": lambda text: text + ("\n" if text.endswith("\n") else "\n\n") + "Added by others.\n",
    }
    for name in files:
        path = place(project, name)
        change = changes.get(path.suffix, changes[""])
        path.write_bytes(change(path.read_bytes().decode()).encode())
    assert install(host, scope, "--undo") == 0
    for name, text in files.items():
        now, change = place(project, name).read_bytes().decode(), changes.get(Path(name).suffix, changes[""])
        assert "smp" not in now.lower().replace(name, "")
        if change is changes[""]:
            assert now.split() == change(text).split()
        else:
            assert now.replace("\r\n", "\n") == change(text).replace("\r\n", "\n")


@pytest.mark.parametrize(("host", "scope", "files"), CASES)
def test_file_that_cannot_be_parsed_is_refused_unchanged(
    project: Path, host: str, scope: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {name: "{ not: [a settings file" if is_settings(name) else text for name, text in files.items()}
    plant(project, broken)
    before = tree(project)
    assert install(host, scope) == 2
    said = capsys.readouterr().err
    assert "It was not changed" in said
    assert "smp" in said.partition("It was not changed")[2]  # what to add by hand
    assert tree(project) == before


@pytest.mark.parametrize("host", FILES)
def test_entry_of_ours_keeps_what_the_host_added(project: Path, host: str) -> None:
    """Hosts write into the entry which tools need no confirmation, and that a server is off."""
    name = next(name for name in FILES[host] if is_settings(name))
    assert install(host) == 0
    path = next(path for path in project.parent.rglob("*") if path.is_file() and is_settings(path.name))
    if path.suffix == ".yaml":
        path.write_text(path.read_text().replace("enabled: true", "enabled: false"))
    else:
        text = json_edit.add(path.read_text(), (*section(host, path), "smp"), "autoApprove", ["recall"])
        path.write_text(text.replace('"enabled": true', '"enabled": false'))
    before = servers(host, path)["smp"]
    text = path.read_text()
    assert install(host) == 0
    assert path.read_text() == text, name
    assert main(["install", host, "--yes", "--command", "/new/smp"]) == 0
    after = servers(host, path)["smp"]
    assert "/new/smp" in json.dumps(after)
    if path.suffix != ".yaml":
        assert {**after, "command": 0} == {**before, "command": 0}
    assert install(host, "--undo") == 0
    assert tree(project) == {}


@pytest.mark.parametrize("host", ["vscode", "zed", "kiro", "opencode", "goose", "cline"])
def test_another_server_of_the_same_name_is_not_replaced(
    project: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key = SECTIONS.get(host, ("mcpServers",))[0]
    name = next(name for name in FILES[host] if is_settings(name))
    text = f"{key}:\n  smp:\n    cmd: other\n" if name.endswith(".yaml") else json.dumps({key: {"smp": {"command": "other"}}})  # fmt: skip
    plant(project, {name: text})
    assert install(host) == 2
    assert "is another server" in capsys.readouterr().err
    assert place(project, name).read_text() == text


def test_entry_that_cline_wrote_anew_is_ours(project: Path) -> None:
    path = place(project, "~/.cline/data/settings/cline_mcp_settings.json")
    text = json.dumps({"mcpServers": {"smp": {"transport": {"type": "stdio", **SMP}, "disabled": True}}}, indent=2)
    plant(project, {"~/.cline/data/settings/cline_mcp_settings.json": text})
    assert install("cline") == 0
    assert path.read_text() == text
    assert main(["install", "cline", "--yes", "--command", "/new/smp"]) == 0
    assert json.loads(path.read_text())["mcpServers"]["smp"] == {
        "command": "/new/smp",
        "args": ["mcp"],
        "disabled": True,
    }
    assert install("cline", "--undo") == 0
    assert json.loads(path.read_text()) == {}


# -- rules


def test_hosts_share_the_rules_in_one_file_until_the_last_is_removed(project: Path) -> None:
    plant(project, {"AGENTS.md": TEXT.rstrip("\n")})
    before = tree(project)
    assert (install("zed"), install("opencode")) == (0, 0)
    text = (project / "AGENTS.md").read_text()
    assert text.count(RULES) == 1
    assert "for opencode, zed." in text
    assert (install("zed", "--undo"), install("opencode")) == (0, 0)
    assert RULES in (project / "AGENTS.md").read_text()
    assert install("opencode", "--undo") == 0
    assert tree(project) == before


@pytest.mark.parametrize(
    ("host", "there", "chosen"),
    [
        ("zed", (), "AGENTS.md"),
        ("zed", ("CLAUDE.md",), "CLAUDE.md"),
        ("zed", (".rules", "AGENTS.md"), ".rules"),
        ("zed", (".github/copilot-instructions.md", "CLAUDE.md"), ".github/copilot-instructions.md"),
        ("zed", (".clinerules/a.md", "AGENTS.md"), "AGENTS.md"),
        ("opencode", ("CLAUDE.md",), "CLAUDE.md"),
        ("opencode", ("AGENTS.md", "CLAUDE.md"), "AGENTS.md"),
    ],
)
def test_rules_go_where_the_host_reads_them_and_hide_no_other_file(
    project: Path, host: str, there: tuple[str, ...], chosen: str
) -> None:
    plant(project, dict.fromkeys(there, TEXT))
    before = tree(project)
    assert install(host) == 0
    found = [
        str(path.relative_to(project)) for path in project.rglob("*") if path.is_file() and RULES in path.read_text()
    ]
    assert found == [chosen]
    (project / ".rules").touch()  # a file that comes first now does not hide the block from undo
    assert install(host, "--undo") == 0
    if ".rules" not in there:
        (project / ".rules").unlink()
    assert tree(project) == before


def test_project_of_opencode_2_keeps_its_level_of_servers(project: Path) -> None:
    text = '{\n  "mcp": {\n    "servers": {\n      "a": { "type": "local", "command": ["a"] },\n    },\n  },\n}\n'
    plant(project, {".opencode/opencode.jsonc": text})
    assert install("opencode") == 0
    found = json_edit.read((project / ".opencode/opencode.jsonc").read_text()).value["mcp"]
    assert found["servers"]["smp"] == ENTRIES["opencode"]
    assert list(found) == ["servers"]
    assert install("opencode", "--undo") == 0
    assert (project / ".opencode/opencode.jsonc").read_text() == text


# -- scopes and stores


@pytest.mark.parametrize("host", ["windsurf", "cline", "goose"])
def test_host_without_servers_for_a_project_says_so(
    project: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install(host, "--project") == 2
    assert f"smp install {host} --user" in capsys.readouterr().err
    assert tree(project) == {}
    assert install(host) == 0
    assert "for all your projects only" in capsys.readouterr().err
    assert not [name for name in tree(project) if not name.startswith("home")]


def test_named_store_is_written_for_all_projects(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = project.parent / "notes"
    assert main(["--root", str(root), "init"]) == 0
    assert main(["--root", str(root), "install", "windsurf", "--command", "smp", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "outside of your projects" not in said
    found = json.loads((project.parent / "home/.codeium/windsurf/mcp_config.json").read_text())
    assert found["mcpServers"]["smp"]["args"] == ["mcp", "--root", str(root)]
    assert main(["install", "--command", "smp", "--json"]) == 0
    rows = {row["host"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["windsurf"]["user"] == "installed"


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini", "vscode", "zed", "opencode"])
def test_list_recognises_an_installation_by_address(
    project: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = "postgresql://db.example.org/shop?schema=a"
    assert main(["--root", address, "install", host, "--command", "smp", "--yes"]) == 0
    capsys.readouterr()
    assert main(["install", "--command", "smp", "--json"]) == 0
    assert {row["host"]: row["project"] for row in json.loads(capsys.readouterr().out)}[host] == "installed"


def test_list_fits_into_80_columns(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    for host in FILES:
        install(host)
    capsys.readouterr()
    assert main(["install", "--command", "smp"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.split(" ", 1)[0] in (*HOSTS, "bmad", "host")]
    assert len(rows) == len(HOSTS) + 2
    assert max(map(len, rows)) <= 80


@pytest.mark.parametrize("host", ["vscode", "zed", "kiro"])
def test_links_out_of_the_project_are_not_followed_with_yes(
    project: Path, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    for folder in (".vscode", ".zed", ".kiro"):
        (project / folder).symlink_to(outside)
    assert install(host) == 2
    assert "outside of the project" in capsys.readouterr().err
    assert list(outside.iterdir()) == []


def test_file_of_the_extension_is_written_only_where_the_extension_is(project: Path) -> None:
    assert install("cline") == 0
    assert not place(project, f"~/{CLINE_IDE}").exists()
    place(project, f"~/{CLINE_IDE}").parent.parent.mkdir(parents=True)
    assert install("cline") == 0
    assert json.loads(place(project, f"~/{CLINE_IDE}").read_text()) == {"mcpServers": {"smp": SMP}}


# -- laws

LINES = st.lists(st.text(st.sampled_from("ab# <>-:!é\t'\""), max_size=8), max_size=6)


@st.composite
def texts(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["\n", "\r\n"])).join(draw(LINES))


def round_trip(edit: FileEdit, path: Path, text: str) -> str:
    """Write a text, install, install again, and remove without a backup; what was installed."""
    path.write_bytes(text.encode())
    after = edit.installed()
    path.write_bytes(after.encode())
    assert edit.installed() == after
    assert edit.is_installed
    assert edit.without() == text
    return after


@given(texts(), st.sets(st.sampled_from(["zed", "opencode", "kiro"]), min_size=1))
def test_rules_of_any_hosts_leave_any_text_as_it_was(tmp_path_factory: pytest.TempPathFactory, text: str, names: set[str]) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("rules") / "AGENTS.md"
    path.write_bytes(text.encode())
    edits = [rules_edit(str(path), name) for name in sorted(names)]
    for edit in edits:
        path.write_bytes(edit.installed().encode())
    assert path.read_text().count("## Memory (SMP)") == 1
    for edit in reversed(edits):
        path.write_bytes(edit.without().encode())
    assert path.read_bytes() == text.encode()


@given(st.dictionaries(st.text(st.sampled_from("abé "), min_size=1, max_size=3), st.text(st.sampled_from("ab#\"'é"), max_size=5), max_size=4), st.sampled_from(["", "\n", "\n\n", "\n# end"]))  # fmt: skip
def test_block_in_toml_leaves_any_text_as_it_was(tmp_path_factory: pytest.TempPathFactory, values: dict[str, str], end: str) -> None:  # fmt: skip
    text = "\n".join(f"{json.dumps(name)} = {json.dumps(value)} # c" for name, value in values.items()) + end
    path = tmp_path_factory.mktemp("toml") / "config.toml"
    round_trip(toml_edit(str(path), "server", SMP), path, text)


SCALARS = st.none() | st.booleans() | st.integers(-9, 99) | st.text(st.sampled_from("ab#:'\"- é"), max_size=5)
YAML_VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text("defg", min_size=1, max_size=3), YAML_VALUES, max_size=3),
    st.none() | st.dictionaries(st.text("hijk", min_size=1, max_size=3), YAML_VALUES, max_size=3),
    st.sampled_from([2, 4]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_entry_in_yaml_leaves_any_file_as_it_was_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
    values: dict[str, Any],
    extensions: dict[str, Any] | None,
    indent: int,
    is_last: bool,
    line_end: str,
) -> None:
    section = {} if extensions is None else {"extensions": extensions}
    data = {**values, **section} if is_last else {**section, **values}
    text = "# goose\n" + (yaml.safe_dump(data, indent=indent, sort_keys=False, allow_unicode=True) if data else "")
    path = tmp_path_factory.mktemp("yaml") / "config.yaml"
    edit = yaml_edit(str(path), "server", SMP)
    try:
        after = round_trip(edit, path, text.replace("\n", line_end))
    except UserError as error:
        assert "to add the server by hand" in str(error)
        assert extensions == {} or "not YAML" in str(error)  # written as {}
        return
    assert yaml.safe_load(after) == {**data, "extensions": {**(extensions or {}), "smp": ENTRIES["goose"]}}


def test_settings_that_goose_wrote_again_lose_our_entry_only(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(GOOSE)
    edit = yaml_edit(str(path), "server", SMP)
    written = yaml.safe_load(edit.installed())
    path.write_text(yaml.safe_dump(written, sort_keys=False))
    assert edit.is_installed
    left = yaml.safe_load(edit.without())
    assert left == yaml.safe_load(GOOSE)
    assert os.path.exists(path)


@pytest.mark.parametrize(
    ("platform", "pattern", "expected"),
    [
        ("linux", "{vscode}/mcp.json", "/home/ada/.config/Code/User/mcp.json"),
        ("darwin", "{vscode}/mcp.json", "/home/ada/Library/Application Support/Code/User/mcp.json"),
        ("darwin", "{zed}/settings.json", "/home/ada/.config/zed/settings.json"),
        ("linux", "{config}/opencode", "/xdg/opencode"),
        ("linux", "{home}/.kiro", "/home/ada/.kiro"),
        ("linux", "{project}/.zed/settings.json", "/w/.zed/settings.json"),
    ],
)
def test_folders_of_hosts_are_those_of_the_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, pattern: str, expected: str
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    target = InstallTarget("user", "/w", "/home/ada", {"XDG_CONFIG_HOME": "/xdg"})
    assert target.path(pattern) == expected
