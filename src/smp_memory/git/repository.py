"""Calls of the `git` program: root of a work tree, its settings, and staged files.

Guarantees: only reading commands and `git config --local`; no command that starts other programs which a repository names.
`find` costs no process where no `.git` is found upwards. If git is missing or rejects a repository, there is no repository.
"""

from __future__ import annotations

import os
import re

from smp_memory.errors import UserError
from smp_memory.files.ownership import plain_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

DRIVER = "merge.smp.driver"
DRIVER_CALL = "git merge-driver"  # identifies a driver that SMP installed
_USES_DRIVER = re.compile(r"^[^#\n]*\smerge=smp\b", re.MULTILINE)
_LARGEST_BYTES = 1 << 20
_SECONDS = 60


class Repository:
    """A git work tree."""

    def __init__(self, top: str) -> None:
        self.top = top

    @classmethod
    def find(cls, folder: str) -> Self | None:
        """The work tree that contains a folder; None if there is none."""
        folder = os.path.realpath(folder)
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        start = folder
        while not os.path.exists(os.path.join(folder, ".git")):
            parent = os.path.dirname(folder)
            if parent == folder:
                return None
            folder = parent
        output = cls(start)._call("rev-parse", "--show-toplevel")
        top = output.decode(errors="surrogateescape").rstrip("\n") if output else ""
        return cls(os.path.realpath(top)) if top else None

    def relative(self, path: str) -> str:
        """A path below the work tree as git writes it; '' is the work tree itself. Raises UserError."""
        relative = os.path.relpath(os.path.realpath(path), self.top).replace(os.sep, "/")
        if relative.startswith("../") or relative == "..":
            raise UserError(f"{path} is not in the work tree {self.top}.", path=path)
        return "" if relative == "." else relative

    def setting(self, name: str) -> str | None:
        """The value of a setting, from any of git's configuration files."""
        output = self._call("config", "--get", name)
        return output.decode(errors="replace").rstrip("\n") if output is not None else None

    def set(self, name: str, value: str) -> None:
        """Write a setting to the configuration of this clone."""
        if self._call("config", "--local", name, value) is None:
            raise UserError(f"git config --local {name} failed in {self.top}.", path=self.top)

    def unset(self, section: str) -> None:
        self._call("config", "--local", "--remove-section", section)

    def ignores(self, path: str) -> bool:
        return self._call("check-ignore", "-q", "--", path) is not None

    def hooks_folder(self) -> str:
        """The folder of git's hooks, with `core.hooksPath` applied."""
        output = self._call("rev-parse", "--git-path", "hooks")
        if not output:
            raise UserError(f"git rev-parse --git-path hooks failed in {self.top}.", path=self.top)
        return os.path.join(self.top, output.decode(errors="surrogateescape").rstrip("\n"))

    def staged(self, below: str) -> dict[str, str]:
        """The object ids of files that the next commit adds or changes, by path."""
        names = self._call(
            "diff", "--cached", "--name-only", "-z", "--no-renames", "--diff-filter=ACMT", "--", below or "."
        )
        listed = self._call("ls-files", "--stage", "-z", "--", below or ".")
        if names is None or listed is None:
            raise UserError(f"git cannot list the staged files of {self.top}.", path=self.top)
        changed = set(names.decode(errors="surrogateescape").split("\0"))
        objects = {}
        for row in listed.decode(errors="surrogateescape").split("\0"):
            facts, _, path = row.partition("\t")
            if path and path in changed and not facts.startswith("160000"):
                objects[path] = facts.split(" ")[1]
        return objects

    def contents(self, objects: list[str]) -> dict[str, bytes]:
        """The bytes of objects, by id, in one process."""
        data = self._call("cat-file", "--batch", given="".join(f"{each}\n" for each in objects).encode()) or b""
        contents, at = {}, 0
        while at < len(data):
            end = data.index(b"\n", at)
            name, _, size = data[at:end].decode().partition(" blob ")
            if not size:
                raise UserError(f"git cannot read the object {name[:60]}.", path=self.top)
            contents[name] = data[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)
        return contents

    def _call(self, *words: str, given: bytes = b"") -> bytes | None:
        """The output of git; None if it fails."""
        import subprocess

        try:
            done = subprocess.run(
                ["git", "-C", self.top, *words], input=given, capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout if done.returncode == 0 else None


NO_DRIVER = ".gitattributes asks for the merge driver `smp`, which this clone does not have: git merges the store as plain text."


def merges_without_driver(root: str) -> str | None:
    """The work tree whose attributes name SMP's merge driver while git has none configured; None otherwise."""
    folder = os.path.realpath(root)
    while True:
        if _names_driver(os.path.join(folder, ".gitattributes")):
            repository = Repository.find(root)
            return repository.top if repository is not None and repository.setting(DRIVER) is None else None
        parent = os.path.dirname(folder)
        if parent == folder or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = parent


def _names_driver(path: str) -> bool:
    try:
        return _USES_DRIVER.search(plain_bytes(path, _LARGEST_BYTES).decode(errors="replace")) is not None
    except OSError:
        return False
