"""Calls of the `git` program: root of a work tree, its settings, and staged files.

Guarantees: only reading commands and `git config --local`; no command that starts other programs which a repository names.
`find` costs no process where no `.git` is found upwards, `WorkTree` none. If git is missing or rejects a repository, there is no repository.
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

    def unmerged(self, below: str) -> dict[str, dict[int, str]]:
        """The files that git could not merge: the object ids of base (1), ours (2) and theirs (3), by path."""
        listed = self._call("ls-files", "--unmerged", "-z", "--", below or ".") or b""
        found: dict[str, dict[int, str]] = {}
        for row in filter(None, listed.decode(errors="surrogateescape").split("\0")):
            facts, _, path = row.partition("\t")
            _, id, stage = facts.split(" ")
            found.setdefault(path, {})[int(stage)] = id
        return found

    def operation(self) -> tuple[str, str]:
        """What git is in the middle of, and the name of the other side's commit; empty if nothing."""
        found = self._call("rev-parse", "--git-dir")
        folder = os.path.join(self.top, found.decode(errors="surrogateescape").rstrip("\n")) if found else ""
        return operation_in(folder)

    def author_of(self, commit: str) -> str:
        """The short id of a commit and its author; empty if there is no such commit."""
        output = self._call("log", "-1", "--format=%h %an", commit, "--") if commit else None
        return output.decode(errors="replace").strip() if output else ""

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


_OPERATIONS = (  # in the order in which they are looked for: a rebase uses the files of a cherry-pick
    ("rebase-merge", "rebase", "REBASE_HEAD"),
    ("rebase-apply", "rebase", "REBASE_HEAD"),
    ("CHERRY_PICK_HEAD", "cherry-pick", "CHERRY_PICK_HEAD"),
    ("REVERT_HEAD", "revert", ""),
    ("MERGE_HEAD", "merge", "MERGE_HEAD"),
)


def operation_in(git_folder: str) -> tuple[str, str]:
    """What git is in the middle of, by the files in its folder, and the name of the other side's commit."""
    if git_folder:
        for name, operation, commit in _OPERATIONS:
            if os.path.lexists(os.path.join(git_folder, name)):
                return operation, commit
    return "", ""


# -- without a process of git

NO_DRIVER = ".gitattributes asks for the merge driver `smp`, which this clone does not have: git merges the store as plain text."
GONE_DRIVER = (
    "The merge driver of this clone is {}, which does not exist any more: git leaves out what the other side wrote."
)
_DRIVER = re.compile(
    r"""^[ \t]*\[merge[ \t]+"smp"\][^\[]*?^[ \t]*driver[ \t]*=[ \t]*(\S[^\n]*)""", re.MULTILINE | re.IGNORECASE
)
_INCLUDE = re.compile(r"^[ \t]*\[include", re.MULTILINE | re.IGNORECASE)


class WorkTree:
    """What the files of a clone say about the merging of a store. Reading them costs no process, so `smp` alone can do it."""

    def __init__(self, top: str, root: str) -> None:
        self.top = top
        self._root = root
        self._folder = os.path.join(top, ".git")
        if not os.path.isdir(self._folder):  # a further work tree, or a submodule
            named = _text(self._folder).partition("gitdir:")[2].strip()
            self._folder = os.path.join(top, named) if named else ""

    @classmethod
    def with_driver(cls, root: str) -> Self | None:
        """The work tree of a store whose attributes name the merge driver; None for any other store."""
        root = os.path.realpath(root)
        folder, is_named = root, False
        while True:
            is_named = is_named or _USES_DRIVER.search(_text(os.path.join(folder, ".gitattributes"))) is not None
            if os.path.lexists(os.path.join(folder, ".git")):
                return cls(folder, root) if is_named else None
            folder, below = os.path.dirname(folder), folder
            if folder == below:
                return None

    @property
    def operation(self) -> str:
        """What git is in the middle of. A stash that was applied leaves conflicts without a name, and git is asked for them."""
        found = operation_in(self._folder)[0]
        if not found and self._folder and os.path.lexists(os.path.join(self._folder, "AUTO_MERGE")):
            found = "merge" if Repository(self.top).unmerged(self._root) else ""
        return found

    def driver_problem(self) -> str:
        """Why git cannot use the merge driver: no configuration file of git has it, or its program is gone; empty if it can."""
        if not self._folder:
            return ""
        shared = os.path.join(self._folder, _text(os.path.join(self._folder, "commondir")).strip())
        paths = os.path.join(self._folder, "config.worktree"), os.path.join(shared, "config"), *_user_files()
        texts = list(map(_text, paths))
        command = next((found[1] for found in map(_DRIVER.search, texts) if found), None)
        if command is None and any(map(_INCLUDE.search, texts)):
            repository = Repository.find(self.top)
            command = repository.setting(DRIVER) if repository is not None else ""
        if command is None:
            return NO_DRIVER
        program = command.partition(" ")[0].strip("'\"")
        return GONE_DRIVER.format(program) if os.path.isabs(program) and not os.path.exists(program) else ""


def _user_files() -> list[str]:
    home = os.path.expanduser("~")
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    named = os.environ.get("GIT_CONFIG_GLOBAL")
    files = [os.path.join(home, ".gitconfig"), os.path.join(folder, "git", "config")] if named is None else [named]
    return files if os.environ.get("GIT_CONFIG_NOSYSTEM") else [*files, "/etc/gitconfig"]


def _text(path: str) -> str:
    """The text of a plain file; empty if there is none."""
    try:
        return plain_bytes(path, _LARGEST_BYTES).decode(errors="surrogateescape")
    except OSError:
        return ""
