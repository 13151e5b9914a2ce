"""How does SMP become a module of BMAD? BMAD's own installer takes it in from a folder; this only calls it.

The installer writes into `_bmad` and into the folders of the tools, as it always does. It keeps the modules and tools that
the project has. It needs `npx`, and the network if the package is not at hand.
"""

from __future__ import annotations

import os
import re

from smp.bmad.project import Project, read
from smp.errors import UserError

_NEEDED = (".claude-plugin/marketplace.json", "skills/module.yaml")
_SECONDS = 600


def command_for(project: Project, plugin: str) -> list[str]:
    """What is called, to be shown first."""
    folder = os.path.abspath(plugin)
    missing = [name for name in _NEEDED if not os.path.exists(os.path.join(folder, *name.split("/")))]
    if missing:
        raise UserError(f"{plugin} is not SMP's plugin folder: it has no {missing[0]}.", path=plugin)
    if not project.has_hook_ins:
        raise UserError(f"{project} takes no modules from a folder; this needs BMAD 6.4 or newer.")
    modules, tools = _listed(project)
    package = f"bmad-method@{project.version}" if re.fullmatch(r"[0-9A-Za-z.-]+", project.version) else "bmad-method"
    words = ["npx", "--yes", package, "install", "--directory", project.folder, "--action", "update"]
    words += ["--modules", ",".join(modules)] if modules else []
    words += ["--tools", ",".join(tools)] if tools else []
    return [*words, "--custom-source", folder, "--yes"]


def run(words: list[str]) -> None:
    """Call it. Its last words are the error if it fails."""
    import subprocess

    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise UserError("npx is not here; BMAD's installer needs Node.js. Nothing was changed.") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"BMAD's installer did not end within {_SECONDS} s; look at what it has done.") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise UserError(f"BMAD's installer failed (exit code {done.returncode}): {' '.join(said)}")


def _listed(project: Project) -> tuple[list[str], list[str]]:
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
    own = ("core", "smp")  # core comes by itself, ours from the folder
    return [name for name in modules if _is_word(name) and name not in own], [name for name in tools if _is_word(name)]


def _is_word(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9_-]+", text))
