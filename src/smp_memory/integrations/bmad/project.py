"""BMAD in a project: its generation, recognised by its folders, the places it uses, and SMP as a module of it.

    .bmad-core/             4.x
    bmad/_cfg               6.0 alpha, first half
    .bmad/_cfg              6.0 alpha, second half (SMP's own `.bmad` has no `_cfg`)
    _bmad/_config           6.0 to 6.3
    _bmad/scripts/resolve_customization.py    skills with TOML customisation, to 6.8
    _bmad/scripts/memlog.py                   the same with memlogs, from 6.9 on

Guarantees: reads only, except for `run`; a file that cannot be read counts as empty. The output folder is inside the project,
whatever a configuration says.

To add SMP as a module, `run` calls BMAD's own installer, which writes into `_bmad` and into the folders of the tools, as it always
does. It keeps the modules and tools that the project has. It needs `npx`, and the network if the package is not cached.
"""

from __future__ import annotations

import os
import re

from smp_memory.errors import UserError
from smp_memory.files.ownership import plain_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


V4, ALPHA, HIDDEN, PLAIN, CUSTOM, MEMLOG = "4", "6 alpha", "6 alpha (.bmad)", "6.0 to 6.3", "6.4 to 6.8", "6.9 or newer"
_MARKS = (  # the newest first
    (MEMLOG, "_bmad/scripts/memlog.py"),
    (CUSTOM, "_bmad/scripts/resolve_customization.py"),
    (PLAIN, "_bmad/_config"),
    (PLAIN, "_bmad/core"),
    (HIDDEN, ".bmad/_cfg"),
    (ALPHA, "bmad/_cfg"),
    (V4, ".bmad-core"),
)
OUTPUT = "_bmad-output"
DIGEST = "memory/MEMORY.md"
_LAYERS = ("config.toml", "config.user.toml", "custom/config.toml", "custom/config.user.toml")
_MOST_BYTES = 1 << 20


class Project:
    """A project with BMAD in it."""

    def __init__(self, folder: str, generation: str, home: str) -> None:
        self.folder = folder
        self.generation = generation
        self.home = home  # BMAD's own folder
        self.version = _version(home) or ""

    @property
    def has_customisation(self) -> bool:
        """Whether skills read customisation files of the user, which the installer leaves alone."""
        return self.generation in (CUSTOM, MEMLOG)

    @property
    def custom(self) -> str:
        return os.path.join(self.home, "custom")

    def path(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    def output_folder(self) -> str:
        """The folder in which BMAD's workflows write, relative to the project."""
        folder = "docs" if self.generation == V4 else self._configured_output() or OUTPUT
        return folder if is_inside(self.folder, folder) else OUTPUT

    def digest_path(self) -> str:
        return self.path(self.output_folder(), *DIGEST.split("/"))

    def _configured_output(self) -> str | None:
        folder: Any = None
        for layer in _LAYERS:
            folder = table(toml(os.path.join(self.home, *layer.split("/"))), "core").get("output_folder", folder)
        if not isinstance(folder, str):
            folder = yaml_value(os.path.join(self.home, "core", "config.yaml"), "output_folder")
        if not isinstance(folder, str):
            return None
        return folder.removeprefix("{project-root}").strip("/") or None

    def __str__(self) -> str:
        return f"BMAD {self.version or self.generation}"


def find_project(start: str) -> Project | None:
    """The project that a folder belongs to: the nearest upwards with BMAD in it."""
    folder = os.path.abspath(start)
    while True:
        project = project_in(folder)
        parent = os.path.dirname(folder)
        if project is not None or parent == folder:
            return project
        folder = parent


def project_in(folder: str) -> Project | None:
    """BMAD in this very folder."""
    for generation, mark in _MARKS:
        if os.path.exists(os.path.join(folder, *mark.split("/"))):
            return Project(folder, generation, os.path.join(folder, mark.partition("/")[0]))
    return None


def is_inside(folder: str, below: str) -> bool:
    whole, root = os.path.realpath(os.path.join(folder, below)), os.path.realpath(folder)
    return whole.startswith(root + os.sep)


# -- reading files


def read(path: str) -> str:
    """The text of a small file; empty if it does not exist or cannot be read."""
    try:
        return plain_bytes(path, _MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(read(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def table(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def yaml_value(path: str, name: str) -> str | None:
    """A plain value on a line of its own, which is enough for BMAD's simple YAML."""
    for line in read(path).splitlines():
        key, colon, value = line.strip().partition(":")
        if colon and key == name and value.strip():
            return value.partition(" #")[0].strip().strip("\"'")
    return None


def _version(home: str) -> str | None:
    for folder in ("_config", "_cfg"):
        version = yaml_value(os.path.join(home, folder, "manifest.yaml"), "version")
        if version:
            return version
    return yaml_value(os.path.join(home, "install-manifest.yaml"), "version")


_NEEDED = (".claude-plugin/marketplace.json", "skills/module.yaml")
_SECONDS = 600


def command_for(project: Project, plugin: str) -> list[str]:
    """The command that adds SMP's plugin folder as a module."""
    folder = os.path.abspath(plugin)
    missing = [name for name in _NEEDED if not os.path.exists(os.path.join(folder, *name.split("/")))]
    if missing:
        raise UserError(f"{plugin} is not SMP's plugin folder: it has no {missing[0]}.", path=plugin)
    if not project.has_customisation:
        raise UserError(f"{project} does not accept modules from a folder; this needs BMAD 6.4 or newer.")
    modules, tools = _installed_modules_and_tools(project)
    package = f"bmad-method@{project.version}" if re.fullmatch(r"[0-9A-Za-z.-]+", project.version) else "bmad-method"
    words = ["npx", "--yes", package, "install", "--directory", project.folder, "--action", "update"]
    words += ["--modules", ",".join(modules)] if modules else []
    words += ["--tools", ",".join(tools)] if tools else []
    return [*words, "--custom-source", folder, "--yes"]


def run(words: list[str]) -> None:
    """Run the command. If it fails, the error contains its last lines."""
    import subprocess

    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise UserError("npx was not found; BMAD's installer needs Node.js. Nothing was changed.") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"BMAD's installer did not end within {_SECONDS} s; it may have changed files.") from None
    if done.returncode:
        last_lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise UserError(f"BMAD's installer failed (exit code {done.returncode}): {' '.join(last_lines)}")


def _installed_modules_and_tools(project: Project) -> tuple[list[str], list[str]]:
    """The modules and tools that the project has, by BMAD's manifest."""
    modules: list[str] = []
    tools: list[str] = []
    section = ""
    for line in read(os.path.join(project.home, "_config", "manifest.yaml")).splitlines():
        if line and not line[0].isspace():
            section = line.partition(":")[0]
        word = line.strip().removeprefix("- ")
        if section == "modules" and line.strip().startswith("- name:"):
            modules.append(word.partition(":")[2].strip())
        elif section == "ides" and line.strip().startswith("- "):
            tools.append(word.strip())
    excluded = ("core", "smp")  # core is installed anyway, ours from the folder
    return (
        [name for name in modules if _is_word(name) and name not in excluded],
        [name for name in tools if _is_word(name)],
    )


def _is_word(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9_-]+", text))
