"""Install SMP into the settings of a host: one module for each host, with these names.

    TITLE                     the name of the host
    ABOUT                     what is installed, in a few words
    is_present(target)        whether this machine, or this project, has the host
    edits(target, command)    the changes: a list of `FileEdit`, one for each file
    hints(target)             what a person should know or do afterwards, in sentences

A module is named in `HOSTS` and loaded on demand. It writes nothing: the command line shows the edits as a diff,
asks, and applies them (`smp_memory.integrations.hooks.install.file_edit`).
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

        def is_present(self, target: InstallTarget) -> bool: ...

        def edits(self, target: InstallTarget, command: str) -> list[FileEdit]: ...

        def hints(self, target: InstallTarget) -> list[str]: ...


HOSTS = {
    "claude-code": "smp_memory.integrations.hooks.install.claude_code",
    "codex": "smp_memory.integrations.hooks.install.codex",
    "gemini": "smp_memory.integrations.hooks.install.gemini",
    "cursor": "smp_memory.integrations.hooks.install.cursor",
    "bmad": "smp_memory.integrations.bmad.customisation",
}
PROJECT, USER = "project", "user"


class InstallTarget:
    """The project to install into, or all projects of a user."""

    def __init__(
        self,
        scope: str,
        project: str,
        home: str,
        environ: Mapping[str, str],
        start: str = "",
        options: frozenset[str] = frozenset(),
    ) -> None:
        self.scope = scope
        self.project = project
        self.home = home
        self.environ = environ
        self.start = start or project  # the folder in which the command was called
        self.options = options  # names of optional parts of a host that were asked for

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
    """The root of a project: the nearest folder upwards with `.git` or `.bmad`, else the folder itself."""
    folder = os.path.abspath(start)
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in (".git", ".bmad")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.path.abspath(start)
        folder = parent
