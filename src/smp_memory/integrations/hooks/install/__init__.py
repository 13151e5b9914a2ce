"""Which hosts can SMP be installed into? One module for each, and what such a module has.

    TITLE                     how people call the host
    ABOUT                     what is installed, in a few words
    is_there(where)           whether this machine, or this project, has it
    edits(where, command)     what changes: a list of `Edit`, one for each file
    hints(where)              what a person should know or do afterwards, in sentences

A module is named in `HOSTS` and loaded when it is asked for. It writes nothing: the command line shows the edits as a diff,
asks, and carries them out (`smp_memory.integrations.hooks.install.file_edit`).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from smp_memory.integrations.hooks.install.file_edit import FileEdit

    class Host(Protocol):
        TITLE: str
        ABOUT: str

        def is_there(self, where: Where) -> bool: ...

        def edits(self, where: Where, command: str) -> list[FileEdit]: ...

        def hints(self, where: Where) -> list[str]: ...


HOSTS = {
    "claude-code": "smp_memory.integrations.hooks.install.claude_code",
    "codex": "smp_memory.integrations.hooks.install.codex",
    "gemini": "smp_memory.integrations.hooks.install.gemini",
    "cursor": "smp_memory.integrations.hooks.install.cursor",
    "bmad": "smp_memory.integrations.bmad.customisation",
}
PROJECT, USER = "project", "user"


class Where:
    """For which project, or for all projects of a user."""

    def __init__(
        self,
        scope: str,
        project: str,
        home: str,
        environ: Mapping[str, str],
        start: str = "",
        asked: frozenset[str] = frozenset(),
    ) -> None:
        self.scope = scope
        self.project = project
        self.home = home
        self.environ = environ
        self.start = start or project  # where the command was called
        self.asked = asked  # what a host offers besides, by the name of its option

    def folder(self, name: str, variable: str = "") -> str:
        """A host's folder in the project, or in the user's home, which a variable may name."""
        if self.scope == PROJECT:
            return os.path.join(self.project, name)
        return (self.environ.get(variable) if variable else "") or os.path.join(self.home, name)


def host(name: str) -> Host:
    """The module of a host. Raises KeyError."""
    from importlib import import_module

    module: Host = import_module(HOSTS[name])
    return module


def project_folder(start: str) -> str:
    """Where a project begins: the nearest folder upwards with `.git` or `.bmad`, else the folder itself."""
    folder = os.path.abspath(start)
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in (".git", ".bmad")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.path.abspath(start)
        folder = parent
