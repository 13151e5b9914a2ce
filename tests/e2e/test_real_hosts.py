"""The hosts themselves, installed from npm, with a model that always gives the same answer: they accept our hooks and our plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from smp_memory.integrations.hooks.last_calls import MCP, last_calls
from tests.e2e.hook_host import ENVIRONMENT, Project, until
from tests.e2e.model_server import ANSWER, ModelServer
from tests.e2e.npm_package import installed
from tests.user_state import user_state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

DECIDED = "Customers log in with OAuth 2.0"
FIRST, SECOND = "How do customers log in to the shop?", "And which tokens do they get there?"
PLUGIN = Path(__file__).resolve().parents[2] / "plugin"


class RealHost:
    """A host with a home of its own, in a project with a store and hooks."""

    def __init__(self, folder: Path, package: str, version: str) -> None:
        self.package = installed(package, version)
        wrapper = self.package / "cli-wrapper.cjs"  # where the program itself would be put in place by a script
        script = next(iter(json.loads((self.package / "package.json").read_text())["bin"].values()))
        self.program = ["node", str(wrapper if wrapper.exists() else self.package / script)]
        self.home = folder / "home"
        self.home.mkdir()
        self.project = Project(folder / "shop")
        subprocess.run(["git", "init", "-q", "."], cwd=self.project.folder, check=True)
        self.project.decide(DECIDED)
        self.environment = {**ENVIRONMENT, "HOME": str(self.home), "TERM": "dumb"}

    def install(self, host: str) -> None:
        smp = [sys.executable, "-m", "smp_memory"]
        words = [*smp, "install", host, "--yes", "--command", " ".join(smp)]
        subprocess.run(words, cwd=self.project.folder, env=self.environment, check=True, capture_output=True)

    def run(self, *words: str, **environ: str) -> str:
        done = subprocess.run([*self.program, *words], cwd=self.project.folder, env={**self.environment, **environ}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def has_recorded(self, *texts: str) -> None:
        wanted = sorted(texts)
        until(lambda: len(self.project.turns()) >= len(wanted) or self.project.failures)
        assert self.project.failures == []
        assert sorted(text for _, text in self.project.turns()) == wanted
        assert len(self.project.sessions()) == 1

    def is_recognised_as(self, host: str) -> None:
        """Each call was noted as one of this host, also where the command of its hooks does not name it."""
        until(lambda: host in last_calls(user_state(self.project.root)))
        assert set(last_calls(user_state(self.project.root))) <= {host, MCP}
        with self.project.open() as memory:
            assert {session.info.project for session in memory.sessions() if session.id != "earlier"} == {"shop"}


def test_claude_code_runs_hooks_and_server(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "@anthropic-ai/claude-code", "2.1.197")
    host.install("claude-code")
    with ModelServer() as model:
        settings = {"ANTHROPIC_BASE_URL": model.address, "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}  # fmt: skip
        assert ANSWER in host.run("-p", FIRST, "--model", "claude-sonnet-4-5", **settings)
        assert any(DECIDED in asked for asked in model.asked)
        host.has_recorded(FIRST, ANSWER)
        host.run("-c", "-p", SECOND, "--model", "claude-sonnet-4-5", **settings)
        host.has_recorded(FIRST, ANSWER, SECOND, ANSWER)
        host.is_recognised_as("claude-code")


def test_claude_code_is_asked_to_write_down_what_was_decided(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "@anthropic-ai/claude-code", "2.1.197")
    host.install("claude-code")
    requested = "no decision, finding or learning of this conversation was saved yet"
    with ModelServer() as model:
        settings = {"ANTHROPIC_BASE_URL": model.address, "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}  # fmt: skip
        said: list[str] = []
        for prompt in (FIRST, "Then let's use tokens of 15 minutes.", SECOND):
            host.run(*(("-c",) if said else ()), "-p", prompt, "--model", "claude-sonnet-4-5", **settings)
            said += [prompt, ANSWER]
            host.has_recorded(*said)
            assert any(requested in asked for asked in model.asked) == (prompt == SECOND)
        assert len(model.asked) == 3  # the request makes the agent neither go on nor wait
        assert "- decision: Then let's use tokens of 15 minutes." in model.asked[-1]


def test_codex_runs_hooks_and_server(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "@openai/codex", "0.166.0")
    host.install("codex")
    with ModelServer() as model:
        (host.home / ".codex").mkdir()
        (host.home / ".codex" / "config.toml").write_text(
            f'model = "m"\nmodel_provider = "local"\n[model_providers.local]\nname = "local"\nbase_url = "{model.address}/v1"\n'
            f'wire_api = "responses"\nenv_key = "LOCAL_KEY"\n[projects."{host.project.folder}"]\ntrust_level = "trusted"\n'
        )
        words = ("exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check")
        assert ANSWER in host.run(*words, FIRST, LOCAL_KEY="k")
        assert any(DECIDED in asked for asked in model.asked)
        host.has_recorded(FIRST, ANSWER)
        host.run(*words, "resume", "--last", SECOND, LOCAL_KEY="k")
        host.has_recorded(FIRST, ANSWER, SECOND, ANSWER)
        host.is_recognised_as("codex")


def test_gemini_runs_hooks_and_server(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "@google/gemini-cli", "0.61.0")
    host.install("gemini")
    (host.home / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}, "privacy": {"usageStatisticsEnabled": False}}  # fmt: skip
    (host.home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    with ModelServer() as model:
        said = host.run("-m", "gemini-2.5-flash", "-p", FIRST, GEMINI_API_KEY="k", GOOGLE_GEMINI_BASE_URL=model.address)
        assert ANSWER in said
        assert any(DECIDED in asked for asked in model.asked)
        host.has_recorded(FIRST, ANSWER)
        host.is_recognised_as("gemini")


def test_copilot_runs_hooks_and_server(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "@github/copilot", "1.0.102")
    host.install("vscode")
    (host.home / ".copilot").mkdir()
    (host.home / ".copilot" / "config.json").write_text(json.dumps({"trustedFolders": [str(host.project.folder)]}))
    with ModelServer() as model:
        settings = {"COPILOT_PROVIDER_BASE_URL": model.address, "COPILOT_PROVIDER_TYPE": "anthropic", "COPILOT_PROVIDER_API_KEY": "k", "COPILOT_MODEL": "claude-sonnet-4-5", "COPILOT_OFFLINE": "true"}  # fmt: skip
        said = host.run("-p", FIRST, "--allow-all-tools", "--model", "claude-sonnet-4-5", **settings)
        assert ANSWER in said
        assert any(DECIDED in asked for asked in model.asked)
        assert any("smp-recall" in asked for asked in model.asked)  # the tool of the MCP server
        assert any("The MCP server `smp` is a long-term memory" in asked for asked in model.asked)
        host.has_recorded(FIRST)
        host.is_recognised_as("copilot")


def test_opencode_connects_to_the_server(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "opencode-ai", "1.18.33")
    programs = sorted(host.package.parent.glob("opencode-*-baseline/bin/opencode"))
    if not programs:
        pytest.skip("opencode-ai has no program for this machine")
    host.program = [str(programs[0])]
    host.install("opencode")
    listed = host.run("mcp", "list")
    assert "smp" in listed
    assert "connected" in listed


def test_claude_code_accepts_the_plugin(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "@anthropic-ai/claude-code", "2.1.197")
    for manifest in (PLUGIN, PLUGIN / ".claude-plugin" / "plugin.json"):
        assert "Validation passed" in host.run("plugin", "validate", str(manifest))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "smp").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m smp_memory "$@"\n')
    (tools / "smp").chmod(0o755)
    with ModelServer() as model:
        settings = {"ANTHROPIC_BASE_URL": model.address, "ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}  # fmt: skip
        host.run("--plugin-dir", str(PLUGIN), "-p", FIRST, "--model", "claude-sonnet-4-5", **settings)
        assert any(DECIDED in asked for asked in model.asked)
        host.has_recorded(FIRST, ANSWER)
        host.is_recognised_as("claude-code")


def test_bmad_accepts_the_plugin(tmp_path: Path) -> None:
    host = RealHost(tmp_path, "bmad-method", "6.12.0")
    host.run("install", "--directory", str(host.project.folder), "--modules", "bmm", "--tools", "claude-code", "--custom-source", str(PLUGIN), "--yes")  # fmt: skip
    skills = {path.name for path in (host.project.folder / ".claude" / "skills").iterdir()}
    assert {"smp-recall", "smp-remember"} <= skills
    assert "name: smp" in (host.project.folder / "_bmad" / "_config" / "manifest.yaml").read_text()
