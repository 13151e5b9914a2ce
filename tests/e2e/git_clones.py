"""Clones of a repository with a store in it, with a git of their own: no configuration of the machine is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import smp_memory
from smp_memory.git.repository import Repository
from smp_memory.integrations.git import Setup
from smp_memory.testing import FrozenClock

SOURCE = str(Path(smp_memory.__file__).parents[1])
STORE = "store"
SESSION = "s1"
START = datetime.fromisoformat("2026-03-01T10:00:00Z")
DRIVER = f"'{sys.executable}' -m smp_memory"
PLAIN = ".smp/\n*.smp-new\n"

Change = Callable[[smp_memory.SessionMemory], Any]


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SMP_", "XDG_"))}
    return {
        **kept,
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_EDITOR": "true",
        "PYTHONPATH": SOURCE,
    }


class Clone:
    """A work tree with a store, and what is done in it. Every change is at a later time than all before."""

    def __init__(self, folder: Path, minutes: int = 0) -> None:
        self.folder = folder
        self.root = folder / STORE
        self.now = START + timedelta(minutes=minutes)

    def git(self, *words: str, fails: bool = False) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words],
            env=environment(self.folder.parent),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == fails, f"git {words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def write(self, *changes: Change, commit: str | None = "work") -> list[Any]:
        """Change the session and commit."""
        self.now += timedelta(seconds=10)
        with smp_memory.open(self.root, clock=FrozenClock(self.now), config={"durability": "os"}) as memory:
            session = memory.session(SESSION)
            results = [change(session) for change in changes]
        if commit:
            self.commit(commit)
        return results

    def commit(self, subject: str = "work") -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", subject)

    def register(self) -> None:
        for change in Setup(Repository(str(self.folder)), str(self.root), DRIVER).changes():
            change.carry_out()

    def clone(self, name: str, minutes: int) -> Clone:
        folder = self.folder.with_name(name)
        self.git("clone", "-q", str(self.folder), str(folder))
        other = Clone(folder, minutes)
        if "merge=smp" in (folder / ".gitattributes").read_text():
            other.register()
        return other

    def pull(self, other: Clone, fails: bool = False) -> str:
        return self.git("pull", "-q", "--no-rebase", "--no-edit", str(other.folder), "master", fails=fails)

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not {".smp", "indexes"} & {*path.parts}
        }

    def opened(self) -> smp_memory.SessionMemory:
        return smp_memory.open(self.root, clock=FrozenClock(self.now + timedelta(days=1))).session(SESSION)

    def texts(self) -> list[str]:
        """All memories that are there, by their text, sorted."""
        return sorted(str(record.text) for record in self.opened().records())

    def problems(self) -> list[str]:
        """What validate says beyond notes."""
        return [f"{problem.code}: {problem.message}" for problem in self.opened().validate().problems if problem.severity != "note"]  # fmt: skip


def make_origin(folder: Path, layout: str, attributes: str | None = None) -> Clone:
    """A repository with a store of one session; with SMP's driver, or with these attributes instead."""
    folder.mkdir(parents=True)
    origin = Clone(folder)
    origin.git("init", "-q", "-b", "master")
    origin.git("config", "receive.denyCurrentBranch", "updateInstead")
    with smp_memory.open(origin.root, layout=layout, clock=FrozenClock(START), config={"durability": "os"}) as memory:
        session = memory.create_session(SESSION, user="ada", project="shop")
        session.add_turn("user", "How do customers log in?")
        session.add_decision("Use OAuth", author="ada")
        session.add_finding("No rate limit", severity="high")
        session.add("agent_state", agent="veritas", state={"task": "review"})
    if attributes is None:
        origin.register()
    else:
        (folder / ".gitattributes").write_text(attributes)
        (folder / ".gitignore").write_text(PLAIN)
    origin.commit("base")
    return origin


def copy_of(clone: Clone, folder: Path, now: datetime = START) -> Clone:
    """A copy of a work tree, in which other tests find nothing of what is done there."""
    shutil.copytree(clone.folder, folder, symlinks=True)
    copy = Clone(folder)
    copy.now = max(now, clone.now)
    return copy
