"""The plugin folder agrees with the code."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from smp_memory.cli.commands import COMMANDS
from smp_memory.integrations.hooks.file_edit import server_command
from smp_memory.integrations.hooks.hosts import HOSTS
from smp_memory.integrations.hooks.installation import hook_entries

REPOSITORY = Path(__file__).resolve().parents[3]
PLUGIN = REPOSITORY / "plugin"
pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="not in a source distribution")


def read(name: str) -> Any:
    return json.loads((PLUGIN / name).read_text())


def test_plugin_hooks_equal_those_that_install_writes() -> None:
    assert read("hooks/hooks.json")["hooks"] == {
        event: [group] for event, group in hook_entries(HOSTS["claude-code"].parts[0], "smp hook").items()
    }
    assert set(read("hooks/hooks.json")) <= {"description", "hooks"}  # Codex refuses any other


def test_plugin_server_equals_the_one_that_install_writes() -> None:
    assert read(".mcp.json") == {"mcpServers": {"smp": server_command("smp")}}
    assert read("gemini-extension.json")["mcpServers"] == {"smp": server_command("smp")}


def test_plugin_version_equals_the_package_version() -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    manifest, market = read(".claude-plugin/plugin.json"), read(".claude-plugin/marketplace.json")
    versions = (manifest["version"], market["plugins"][0]["version"], read("gemini-extension.json")["version"])
    assert set(versions) == {version}


def test_files_named_by_the_manifests_exist() -> None:
    manifest, market = read(".claude-plugin/plugin.json"), read(".claude-plugin/marketplace.json")
    assert manifest["name"] == market["plugins"][0]["name"] == "smp"
    assert market["owner"]["name"]
    for name in (manifest["hooks"], manifest["mcpServers"], manifest["skills"], *market["plugins"][0]["skills"]):
        assert (PLUGIN / name).exists(), name


def skills() -> list[Path]:
    return sorted((PLUGIN / "skills").glob("*/SKILL.md"))


def test_skills_are_named_and_listed() -> None:
    names = {path.parent.name for path in skills()}
    assert names == {"smp-recall", "smp-remember"}
    for path in skills():
        head = yaml.safe_load(path.read_text().split("---")[1])
        assert set(head) == {"name", "description"}
        assert head["name"] == path.parent.name
        assert len(head["description"]) <= 1024
    rows = list(csv.DictReader((PLUGIN / "skills" / "module-help.csv").read_text().splitlines()))
    assert {row["skill"] for row in rows} == names
    assert {row["module"] for row in rows} == {"smp"}
    assert yaml.safe_load((PLUGIN / "skills" / "module.yaml").read_text())["code"] == "smp"


def test_commands_in_the_skills_exist() -> None:
    for path in skills():
        for words in re.findall(r"(?m)(?:^\s*|`)smp ([a-z-]+)", path.read_text()):
            assert words in COMMANDS, f"{path.parent.name}: smp {words}"
