"""Every command and snippet of the documents runs, or says why it does not.

The blocks of a page marked `sh` and `python` run one after the other in a project and a home of their own. A person who answers
every question with yes is assumed. A block that cannot run here has the comment `<!-- not run: REASON -->` above it. A block of
plain text that holds commands needs the same comment. Lines of `sh` that are nothing but a call of `smp` run in this process,
all others in a shell.

`docs/cli.md` and `docs/reference/cli.md` speak of memories that exist nowhere; their commands are parsed only (`tests/test_docs.py` runs them and
forgives that an id is missing).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry import trace

import smp_memory
from smp_memory.cli.arguments import build_parser
from smp_memory.cli.commands import COMMANDS, FAMILIES
from smp_memory.cli.invocation import Invocation
from smp_memory.cli.main import main
from tests.unit.bmad import projects

ROOT = Path(__file__).parents[1]
PARSED_ONLY = {"docs/cli.md", "docs/reference/cli.md"}
CONTINUED = {
    "docs/finding.md",
    "docs/agents.md",
    "docs/privacy.md",
    "docs/health.md",
    "docs/analytics.md",
}  # a session is given
PROGRAMS = r"smp|pip|pipx|uv|git|tar|npx|claude|codex|gemini|docker|python3?|\./dev"
_BLOCK = re.compile(r"(?:<!-- not run: ([^\n]+?) -->\n+)?^(`{3,})(\w*)\n(.*?)^\2$", re.MULTILINE | re.DOTALL)
_COMMAND_LINE = re.compile(rf"^(?:\$ )?(?:{PROGRAMS})(?: |$)", re.MULTILINE)
_SHELL = re.compile(r"[|<>&;$`]|\\$")


class Block(NamedTuple):
    reason: str  # why it does not run, or nothing
    language: str
    body: str


def blocks_of(name: str) -> list[Block]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [Block(reason or "", language, body) for reason, _, language, body in _BLOCK.findall(text)]


PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugin/**/*.md")]
    if "adr" not in path.parts
)
RUNNABLE = [
    name
    for name in PAGES
    if name not in PARSED_ONLY
    and any(block.language in ("sh", "python") and not block.reason for block in blocks_of(name))
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project in a home of its own, and a person who says yes."""
    folder, home = tmp_path / "shop", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    for name, value in {"NAME": "Ada", "EMAIL": "ada@example.org"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    # OpenTelemetry takes one provider for the whole life of a process: without this, all later tests would be traced.
    monkeypatch.setattr(trace, "set_tracer_provider", partial(provide_tracers, monkeypatch))
    monkeypatch.setattr(Invocation, "is_interactive", True)
    monkeypatch.setattr(Invocation, "confirm", lambda call, question: True)
    return folder


def provide_tracers(monkeypatch: pytest.MonkeyPatch, provider: trace.TracerProvider) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)


@pytest.mark.skipif(sys.platform == "win32", reason="the examples are for a POSIX shell")
@pytest.mark.parametrize("name", RUNNABLE)
def test_blocks_of_the_page_run(name: str, project: Path) -> None:
    if name.endswith("bmad.md"):
        projects.newest(project)
    names: dict[str, Any] = {"__name__": "__main__"}
    if name in CONTINUED:
        memory = smp_memory.open(":memory:")
        names |= {"smp_memory": smp_memory, "memory": memory, "session": memory.create_session("checkout")}
        names["session"].add_finding("Login has no rate limit")
    for block in blocks_of(name):
        if block.reason:
            continue
        if block.language == "python":
            exec(compile(block.body, name, "exec"), names)
        elif block.language == "sh":
            for line in lines_of(block.body):
                run_line(line)


def lines_of(body: str) -> list[str]:
    """The commands of a block without comments; a line that ends with a backslash goes on."""
    lines = (re.sub(r"(^|\s+)#\s.*$", "", line) for line in body.replace("\\\n", " ").splitlines())
    return [line for line in lines if line.strip()]


def run_line(line: str) -> None:
    if line.startswith("./dev "):
        command = line.split()[1]
        assert re.search(rf"^{command}\)$", (ROOT / "dev").read_text(encoding="utf-8"), re.MULTILINE), line
    elif line.startswith("smp ") and not _SHELL.search(line):
        assert main(shlex.split(line)[1:]) == 0, line
    else:
        done = subprocess.run(
            ["sh", "-ec", line], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", [name for name in PAGES if name not in PARSED_ONLY])
def test_commands_that_do_not_run_have_a_reason(name: str) -> None:
    text = [
        block for block in blocks_of(name) if block.language not in ("sh", "python", "json", "yaml", "toml", "markdown")
    ]
    assert [block.body for block in text if _COMMAND_LINE.search(block.body) and not block.reason] == []


@pytest.mark.parametrize("name", sorted(PARSED_ONLY))
def test_commands_of_the_reference_are_understood(name: str) -> None:
    known = 0
    for block in blocks_of(name):
        for line in lines_of(block.body) if block.language == "sh" else []:
            for call in re.findall(r"(?:^|\| |; )(smp [^|<>&]*)", line):
                parse(shlex.split(call)[1:])
                known += 1
    assert known > 20


def without_global_options(words: list[str]) -> list[str]:
    """The words from the command on: some options may come before it."""
    while words and words[0].startswith("--"):
        words = words[1:] if words[0] in ("--json", "--no-color", "--verbose") else words[2:]
    return words


def parse(words: list[str]) -> None:
    rest = without_global_options(words)
    if not rest:
        return  # `smp` alone
    name = " ".join(rest[:2]) if " ".join(rest[:2]) in COMMANDS else rest[0]
    parser, _ = build_parser(name)
    parser.parse_intermixed_args(rest[len(name.split()) :])


# -- commands and messages inside sentences

NOT_LISTED = {"help"}  # it is no command of a module
_INLINE = re.compile(r"(?<!`)`(smp [a-z-][^`]*)`(?!`)")


@pytest.mark.parametrize("name", [name for name in PAGES if name != "CHANGELOG.md"])
def test_commands_in_sentences_exist_with_their_options(name: str) -> None:
    """Values and ids are free; the command and each option must be there."""
    text = _BLOCK.sub("", (ROOT / name).read_text(encoding="utf-8"))
    wrong = [command for command in _INLINE.findall(text) if not is_known(command)]
    assert wrong == []


def is_known(command: str) -> bool:
    if command in ("smp --version", "smp --help"):
        return True
    words = without_global_options([word for word in command.removeprefix("smp ").split() if word != "…"])
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else " ".join(words[:1])
    if name in FAMILIES and len(words) == 1:  # `smp session` as a whole
        return True
    if name not in COMMANDS:
        return name in NOT_LISTED
    parser, _ = build_parser(name)
    options = [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]
    return all(option in parser._option_string_actions for option in options)


def test_messages_of_the_troubleshooting_page_are_in_the_source() -> None:
    """`…` stands for what differs; everything else stands in one text of the source, in this order."""
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    titles = [title for _, title in re.findall(r"^### (`+)(.+)\1$", page, re.MULTILINE)]
    known = texts_of_the_source()
    assert len(titles) > 20
    missing = [title for title in titles if not any(matches(title, text) for text in known)]
    assert missing == []


def matches(title: str, text: str) -> bool:
    place = 0
    for part in title.split("…"):
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


def texts_of_the_source() -> list[str]:
    """Every text and f-string, with … for each expression."""
    import ast

    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found
