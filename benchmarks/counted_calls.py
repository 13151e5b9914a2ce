"""Function calls of an add, a query, a context and of new processes: exact, so that a busy machine does not matter.

    python benchmarks/counted_calls.py [--renew]

Compared with `counted_calls.json`: more than 10 % above it fails, until `--renew` writes the file in the same commit. Calls
of Python functions and of built-in ones count alike. For a new process the imported modules are counted as well, and the
milliseconds that its imports took are printed for information (`python -X importtime`, which adds some of its own).
The numbers are those of CPython 3.11; a newer Python makes fewer calls, and is compared with the same file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from guard import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counted_calls.json")
MOST_GROWTH = 1.10
_ROUNDS = 5
_COMMAND = """\
import os, sys
calls = 0
def profile(frame, event, argument):
    global calls
    if event == "call" or event == "c_call":
        calls += 1
def say():
    sys.setprofile(None)
    modules = [name.partition(".")[0] for name in list(sys.modules)]
    with open({answer!r}, "w") as file:
        file.write(f"{{calls}} {{modules.count('smp_memory')}} {{len(modules)}}")
leave = os._exit
os._exit = lambda code: (say(), leave(code))
sys.setprofile(profile)
from smp_memory.cli.main import main
try:
    main({words!r})
finally:
    say()
"""


def counted(work: Callable[[], object]) -> int:
    """The fewest calls of some rounds: a cache that is filled and a folder that is made count once."""
    calls = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    found = []
    for _ in range(_ROUNDS):
        calls = 0
        sys.setprofile(profile)
        work()
        sys.setprofile(None)
        found.append(calls)
    return min(found)


def in_process(folder: str) -> dict[str, int]:
    """Calls in a process that has the store open."""
    import smp_memory

    found = {}
    for layout in ("jsonl", "markdown"):
        for durability in ("os", "always"):
            root = os.path.join(folder, f"{layout}-{durability}")
            with smp_memory.open(root, layout=layout, config={"durability": durability}) as memory:
                session = memory.create_session(user="u")
                found[f"add, {layout}, durability={durability}"] = counted(
                    lambda session=session: session.add_decision(
                        "Use OAuth 2.0 for the sign-in of customers", author="a", rationale="single sign-on"
                    )
                )
    with smp_memory.open(_fill(folder)) as memory:
        found["query of five words"] = counted(lambda: memory.query("bug in part 7 importer", limit=10))
        found["context for a task"] = counted(lambda: memory.context(task="bug in part 7 importer", max_tokens=800))
    return found


def _fill(folder: str) -> str:
    """A store of 20 sessions with 20 findings each, with its index and all vectors. No two texts are alike: ties would be broken by chance."""
    import random

    import smp_memory

    rng, words = random.Random(1), [f"word{number}" for number in range(200)]

    root = os.path.join(folder, "project", ".bmad", "memory")
    if not os.path.exists(root):
        with smp_memory.open(root, config={"durability": "os"}) as memory:
            for number in range(20):
                texts = [
                    f"Bug in part {number % 9} of the importer: {' '.join(rng.choices(words, k=9))}" for _ in range(20)
                ]
                findings = [("finding", {"finding": text, "severity": "low", "author": "b"}) for text in texts]
                memory.create_session(f"session-2026-01-{number + 1:02d}", user="u").add_many(findings)
            time.sleep(
                0.1
            )  # until the clock of the file system has ticked: then the index keeps the metadata of all sessions
            memory.reindex()
    return root


def new_process(folder: str, words: list[str]) -> tuple[int, int, int, float]:
    """Calls, our modules, all modules, and milliseconds of the imports."""
    project = os.path.dirname(os.path.dirname(_fill(folder)))
    answer = os.path.join(folder, "answer")
    command = [sys.executable, "-c", _COMMAND.format(answer=answer, words=words)]
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "counted", "cwd": project}
    prompt = json.dumps({**event, "prompt": "Is there a known bug in part 7 of the importer?"})
    found = []
    for _ in range(2):  # the first one may write bytecode
        _run(command, project, prompt)
        with open(answer, encoding="utf-8") as file:
            found.append([int(word) for word in file.read().split()])
    script = f"from smp_memory.cli.main import main; main({words!r})"
    imports = _run([sys.executable, "-X", "importtime", "-c", script], project, prompt)
    own = [line.split("|")[0].partition(":")[2] for line in imports.splitlines() if line.startswith("import time:")]
    microseconds = sum(int(number) for number in own if number.strip().isdigit())
    calls, ours, all_modules = min(found)
    return calls, ours, all_modules, microseconds / 1e3


def _run(command: list[str], project: str, text: str = "") -> str:
    """Its error output. Without a fixed seed the order of sets, and so the number of calls, would differ."""
    environment = {**os.environ, "SMP_HOOKS_RECORD": "false", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=project, env=environment, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[-1][-60:]} failed: {done.stderr[-2000:]}")
    return done.stderr


def measure() -> tuple[dict[str, int], dict[str, float]]:
    """What is compared, and the milliseconds of imports, which are not."""
    with tempfile.TemporaryDirectory(prefix="smp-calls-") as folder:
        os.environ["SMP_STATE_DIR"] = os.path.join(folder, "state")
        _run([sys.executable, os.path.abspath(__file__), "--in-process", folder], folder)
        with open(os.path.join(folder, "answer"), encoding="utf-8") as file:
            found, times = json.load(file), {}
        for name, words in COMMANDS.items():
            calls, ours, all_modules, milliseconds = new_process(folder, words)
            found |= {name: calls, f"{name}: modules of SMP": ours, f"{name}: all modules": all_modules}
            times[name] = milliseconds
    return found, times


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--renew", action="store_true", help="write the file")
    parser.add_argument("--in-process", metavar="FOLDER", help=argparse.SUPPRESS)
    chosen = parser.parse_args(words)
    if chosen.in_process:
        with open(os.path.join(chosen.in_process, "answer"), "w", encoding="utf-8") as file:
            json.dump(in_process(chosen.in_process), file)
        return 0
    found, times = measure()
    kept: dict[str, int] = {}
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            kept = json.load(file)
    grown = [name for name, number in found.items() if number > MOST_GROWTH * kept.get(name, 0)]
    print(f"{'calls, or modules':48}{'now':>9}{'file':>9}")
    for name, number in found.items():
        mark = "  <- more than 10 % above the file" if name in grown else ""
        print(f"{name:48}{number:9,}{kept.get(name, 0):9,}{mark}")
    print("milliseconds of imports: " + ", ".join(f"{name} {number:.0f}" for name, number in times.items()))
    if chosen.renew:
        with open(FILE, "w", encoding="utf-8") as file:
            file.write(json.dumps(found, indent=1) + "\n")
        return 0
    if grown:
        print("Make it cheaper, or accept the cost:  python benchmarks/counted_calls.py --renew")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
