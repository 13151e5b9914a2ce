"""Time of a new process in stores of few and of many sessions, beside `python -c pass`, and of creating a session.

    python benchmarks/many_sessions.py [--sessions 50 500 2000 5000] [--rounds 10] [--all] [--layout jsonl] [--keep FOLDER]

Each session has a turn and a decision. A process takes as long as one waits for it; its CPU time is printed beside it, because it
depends less on what else the machine does. `--all` also measures the commands that look at every session. The smallest values of
the rounds are printed, and how often as long each takes as in the store with the fewest sessions. The creation of a session is
compared with a durable add of a decision.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from statistics import median

from reads import Children
from sample_data import LAYOUTS
from timing import Row, Target, alternate, progress

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from run import Plan

_COMMAND = "import sys; from smp_memory.cli.main import main; sys.exit(main({words!r}))"
_MOST_TIMES_FEW, _MOST_TIMES_ADD = 1.5, 3.0
_FEW, _MANY = 50, 5000
_WORDS = {
    "smp query": ["query", "signing keys of the service wafabaaa"],
    "prompt hook": ["hook"],
    "smp session list": ["session", "list"],
    "smp maintain": ["maintain"],
    "smp doctor": ["doctor"],
}
_QUICK_TO_ANSWER = ("smp query", "prompt hook")


class Store:
    """A store of so many sessions, and the processes that work on it."""

    def __init__(self, children: Children, folder: str, sessions: int, layout: str) -> None:
        self._environment = children.environment
        self._project = os.path.join(folder, f"{layout}-{sessions}")
        self._root = os.path.join(self._project, ".bmad", "memory")
        self._prompts = 0
        self.cpu: dict[str, list[float]] = {}
        self.answered: list[bool] = []  # by prompt
        if not os.path.exists(self._root):
            progress(f"a store of {sessions:,} sessions")
            _fill(self._root, sessions, layout)

    def seconds(self, name: str) -> list[float]:
        """From the start of a process to its end. The work that a hook leaves behind is not waited for."""
        words = [*_WORDS.get(name, ()), *(() if name == "prompt hook" else ("--root", self._root))]
        script = _COMMAND.format(words=words) if name in _WORDS else "pass"
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run([sys.executable, "-c", script], input=self._event(), env=self._environment, cwd=self._project, capture_output=True, check=False)  # fmt: skip
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"{name} failed: {(done.stderr or done.stdout).decode()[-500:]}")
        if name == "prompt hook":
            self.answered.append(b"smp-recalled" in done.stdout)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.cpu.setdefault(name, []).append(cpu)
        return [seconds]

    def _event(self) -> bytes:
        self._prompts += 1
        session = f"bench-{os.getpid()}-{self._prompts}"
        event = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": session,
            "prompt_id": session,
            "cwd": self._project,
        }
        prompt = f"How often does the service {_name(self._prompts % 40)} rotate its signing keys?"
        return json.dumps({**event, "transcript_path": None, "prompt": prompt}).encode()

    def creations(self, count: int) -> dict[str, list[float]]:
        """Seconds of durable adds and of creations of sessions, in turn."""
        clock, seconds = time.perf_counter, {"add": list[float](), "create": list[float]()}
        with smp_memory.open(self._root) as memory:
            session = memory.create_session(f"writes-{os.urandom(4).hex()}")
            session.add_decision("The first one also creates the file.")
            for number in range(count):
                start = clock()
                session.add_decision(f"Use option {number}.", rationale="It was measured.")
                middle = clock()
                memory.create_session(f"new-{os.urandom(6).hex()}")
                seconds["add"].append(middle - start)
                seconds["create"].append(clock() - middle)
        return seconds


def _name(number: int) -> str:
    """A name of letters that no other number has."""
    return "wa" + "".join("fabcdeghijklmnop"[int(digit, 16)] for digit in f"{number:06x}")


def _fill(root: str, sessions: int, layout: str) -> None:
    settings = {"durability": "os", "privacy": {"redaction": {"enabled": False}}}
    with smp_memory.open(root, layout=layout, config=settings) as memory:
        for number in range(sessions):
            session = memory.create_session(f"session-2026-01-11-{number:06x}")
            session.add_turn("user", f"What did we agree on for {_name(number)}?")
            session.add_decision(f"The service {_name(number)} rotates its signing keys every {number % 90} days.")
    time.sleep(0.1)  # until the clock of the file system has ticked
    with smp_memory.open(root) as memory:
        memory.query("caught up", track_access=False)


def _measured(stores: dict[int, Store], names: list[str], rounds: int) -> dict[str, dict[int, float]]:
    """The smallest seconds by name and number of sessions."""
    sides: dict[str, Callable[[], list[float]]] = {
        f"{name}/{size}": (lambda store=store, name=name: store.seconds(name))  # type: ignore[misc]
        for name in ("python -c pass", *names)
        for size, store in stores.items()
    }
    found = alternate(sides, rounds)
    return {name: {size: found.all(f"{name}/{size}")[0] for size in stores} for name in ("python -c pass", *names)}


def many_sessions(plan: Plan) -> Iterator[Row]:
    """New processes in a store of many sessions, against one of few; creating a session, against a durable add."""
    sizes = (_FEW, 200 if plan.quick else _MANY)
    children, folder = Children(plan), plan.folder("many-sessions")
    stores = {size: Store(children, folder, size, "jsonl") for size in sizes}
    for name, seconds in _measured(stores, list(_QUICK_TO_ANSWER), plan.count(10, 1)).items():
        few, many = (seconds[size] for size in sizes)
        target = Target("ratio", at_most=_MOST_TIMES_FEW) if name in _QUICK_TO_ANSWER else None
        case = f"{name}, {sizes[1]:,} sessions, against {sizes[0]}"
        yield Row("new process, many sessions", case, "ms", many * 1e3, few * 1e3, many / few, target)
    seconds = stores[sizes[1]].creations(plan.count(50, 5))
    add, create = (median(seconds[side]) for side in ("add", "create"))
    target = Target("ratio", at_most=_MOST_TIMES_ADD)
    case = f"among {sizes[1]:,} sessions, against a durable add"
    yield Row("creating a session", case, "ms", create * 1e3, add * 1e3, create / add, target)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=[_FEW, 500, 2000, _MANY])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--layout", choices=LAYOUTS, default="jsonl")
    parser.add_argument("--all", action="store_true", help="also the commands that look at every session")
    parser.add_argument("--quick", action="store_true", help="50 and 200 sessions, two rounds: does the harness work?")
    parser.add_argument(
        "--keep", metavar="FOLDER", help="make the stores here, or use those that are there, and keep them"
    )
    chosen = parser.parse_args(words)
    sizes, rounds = ([_FEW, 200], 2) if chosen.quick else (sorted(chosen.sessions), chosen.rounds)
    folder = os.path.abspath(chosen.keep or tempfile.mkdtemp(prefix=".smp-sessions-", dir="."))
    from run import Plan

    with tempfile.TemporaryDirectory(prefix=".smp-bytecode-", dir=".", ignore_cleanup_errors=True) as cache:
        children = Children(Plan(os.path.abspath(cache), False))
        stores = {size: Store(children, folder, size, chosen.layout) for size in sizes}
        names = list(_WORDS) if chosen.all else list(_QUICK_TO_ANSWER)
        _print(stores, _measured(stores, names, rounds))
    for size, store in stores.items():
        seconds = store.creations(rounds)
        add, create = (median(seconds[side]) for side in ("add", "create"))
        print(f"{size:,} sessions: something was recalled for {sum(store.answered)} of {len(store.answered)} prompts")
        print(f"creating a session among {size:,}: {create * 1e3:.2f} ms, {create / add:.1f} durable adds")
    if not chosen.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _print(stores: dict[int, Store], measured: dict[str, dict[int, float]]) -> None:
    least = min(stores)
    print(f"{'':18}{'sessions':>9}{'min ms':>9}{'× few':>7}{'CPU ms':>9}{'× few':>7}{'× pass':>8}")
    for name, seconds in measured.items():
        for size, store in stores.items():
            cpu, few = min(store.cpu[name]), min(stores[least].cpu[name])
            wall = f"{seconds[size] * 1e3:9.1f}{seconds[size] / seconds[least]:7.2f}"
            times = cpu / min(store.cpu["python -c pass"])
            print(f"{name:18}{size:9,}{wall}{cpu * 1e3:9.1f}{cpu / few:7.2f}{times:8.1f}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
