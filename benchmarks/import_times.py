"""Modules that new processes load, and how long each takes: the table that CI prints for a hook, a query, a context and a list.

    python benchmarks/import_times.py [--rounds 3] [--top 10]

Each command runs in a small store in processes with `-X importtime`. A module's own time is the smallest of the rounds. The times
hold for this machine; the numbers of modules hold everywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = {
    "hook": ["hook"],
    "query": ["query", "bug", "in", "part", "7"],
    "context": ["context", "--task", "bug in part 7"],
    "list": ["list"],
}
_RUN = "import sys; from smp_memory.cli.main import main; sys.exit(main({words!r}))"
_PROMPT = "is there a known bug in part 7 of the importer?"
_OURS = "smp_memory"
_FILL = """\
import sys, time, smp_memory
with smp_memory.open(sys.argv[1], config={"durability": "os"}) as memory:
    for number in range(5):
        texts = [f"Bug {number} in part {case} of the importer" for case in range(20)]
        findings = [("finding", {"finding": text, "severity": "low", "author": "b"}) for text in texts]
        memory.create_session(user="u").add_many(findings)
    time.sleep(0.1)  # until the clock of the file system has ticked: then the index keeps the metadata of all sessions
    memory.query("bug")
"""


class Imports(NamedTuple):
    """What the processes of one command load beyond a Python that does nothing."""

    milliseconds: dict[str, float]  # of each module itself, without those that it imports

    @property
    def ours(self) -> list[str]:
        return [name for name in self.milliseconds if name.partition(".")[0] == _OURS]

    @property
    def others(self) -> list[str]:
        return [name for name in self.milliseconds if name.partition(".")[0] != _OURS]

    @property
    def total(self) -> float:
        return sum(self.milliseconds.values())

    def dearest(self, count: int) -> list[tuple[str, float]]:
        return sorted(self.milliseconds.items(), key=lambda each: -each[1])[:count]


def measure(rounds: int = 3) -> dict[str, Imports]:
    """The imports of each command, in a store of five sessions."""
    with tempfile.TemporaryDirectory(prefix="smp-imports-", ignore_cleanup_errors=True) as folder:
        project = _Project(folder)
        plain = project.times("pass", rounds)
        found = {name: project.times(_RUN.format(words=words), rounds) for name, words in COMMANDS.items()}
    return {
        name: Imports({module: time for module, time in times.items() if module not in plain})
        for name, times in found.items()
    }


class _Project:
    """A folder with a store, and the processes that work in it."""

    def __init__(self, folder: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SMP_"))}
        package = os.path.dirname(os.path.abspath(smp_memory.__file__))
        self._folder = folder
        self._environment = {
            **kept,
            "PYTHONPATH": os.path.dirname(package),
            "PYTHONPYCACHEPREFIX": sys.pycache_prefix or os.path.join(folder, "bytecode"),
            "SMP_STATE_DIR": os.path.join(folder, "state"),
            "SMP_HOOKS_RECORD": "false",
        }
        self._run(["-c", _FILL, os.path.join(folder, ".bmad", "memory")])

    def times(self, script: str, rounds: int) -> dict[str, float]:
        """The smallest own time of each module that a script loads. The first round compiles, and is not counted."""
        found = [dict(_parsed(self._run(["-X", "importtime", "-c", script]))) for _ in range(rounds + 1)][1:]
        return {name: min(each.get(name, float("inf")) for each in found) for name in found[-1]}

    def _run(self, arguments: list[str]) -> str:
        event = {"hook_event_name": "UserPromptSubmit", "session_id": "imports", "cwd": self._folder, "prompt": _PROMPT}
        command, text = [sys.executable, *arguments], json.dumps(event)
        done = subprocess.run(
            command, input=text, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"A process failed: {done.stderr.strip()[-2000:]}")
        return done.stderr


def _parsed(output: str) -> Iterator[tuple[str, float]]:
    """The modules of a report, `import time: own | with those that it imports | name`, and their own milliseconds."""
    for line in output.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        if line.startswith("import time:") and own.strip().isdigit():
            yield rest.partition("|")[2].strip(), int(own) / 1000


def table(found: dict[str, Imports], top: int = 10) -> str:
    """For each command a line of figures and its dearest modules."""
    lines = []
    for name, each in found.items():
        figures = f"{len(each.ours):4} modules of SMP, {len(each.others):3} others, {each.total:5.1f} ms"
        dearest = ", ".join(f"{module} {time:.2f}" for module, time in each.dearest(top))
        lines += [f"{name:8} {figures}", f"         {dearest}"]
    return "\n".join(lines)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--top", type=int, default=10, help="how many of the dearest modules are named")
    chosen = parser.parse_args(words)
    print(table(measure(chosen.rounds), chosen.top))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
