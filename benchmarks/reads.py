"""Time of a new process until its first answer, and of reading a whole session. Each measurement is a process of its own."""

from __future__ import annotations

import compileall
import contextlib
import io
import json
import os
import subprocess
import sys

import sample_data
from sample_data import LAYOUTS, SESSION
from timing import MILLISECONDS, Row, Target, alternate, progress, whole

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from run import Plan

_LAST_TURNS = """\
import smp_memory
turns = smp_memory.open({root!r}).session({session!r}).records("conversation", last=20)
if len(turns) != 20 or not turns[-1].content: raise SystemExit("not 20 turns")
"""

_READ_ALL = """\
import time
start = time.perf_counter()
import smp_memory
session = smp_memory.open({root!r}).session({session!r})
opened = time.perf_counter()
report = session.validate()
validated = time.perf_counter()
count = len(session.records())
end = time.perf_counter()
if count < 100 or report.checked < count or report.problems: raise SystemExit(f"unexpected: {{count}}, {{report}}")
print(validated - start, opened - start, validated - opened, end - validated)
"""

_RAW_READ = """\
import time
start = time.perf_counter()
import json
with open({path!r}, encoding="utf-8") as file:
    records = [json.loads(line) for line in file]
print(time.perf_counter() - start)
"""

_COMMAND = "import sys; from smp_memory.cli.main import main; sys.exit(main({words!r}))"


class Children:
    """Python processes that find compiled bytecode, as those of an installed package do, whatever the environment says."""

    def __init__(self, plan: Plan) -> None:
        package = os.path.dirname(os.path.abspath(smp_memory.__file__))
        cache = plan.folder("bytecode")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SMP_"))
        }
        self.environment |= {"PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": os.path.dirname(package)}
        self.environment |= {"SMP_SEARCH_SEMANTIC": "off"}  # as in `sample_data.open_store`
        before, sys.pycache_prefix = sys.pycache_prefix, cache
        with contextlib.redirect_stdout(io.StringIO()):
            compileall.compile_dir(package, quiet=2)  # the standard library's follows in the round that warms up
        sys.pycache_prefix = before

    def output(self, script: str) -> str:
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"A child failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def seconds(self, script: str) -> list[float]:
        """From its start to its end, as one waits for it."""
        return whole(lambda: self.output(script))

    def own_seconds(self, script: str) -> list[float]:
        """What it measured itself."""
        return [float(word) for word in self.output(script).split()]


def last_turns(plan: Plan) -> Iterator[Row]:
    """A new process opens a session of 10 MB and reads its last 20 turns; against `python -c pass`."""
    progress("start and read the last 20 turns, all layouts")
    children, sides = Children(plan), {"pass": "pass", "import smp_memory": "import smp_memory"}
    for layout in LAYOUTS:
        root = plan.filled(layout, plan.size(10_000_000))
        sides[layout] = _LAST_TURNS.format(root=root, session=SESSION)
    figure = "new process: last 20 turns of 10 MB"
    yield from _start_rows(figure, children, sides, plan.count(25, 1), {"jsonl": Target("ratio", at_most=6.0)})


def commands(plan: Plan) -> Iterator[Row]:
    """How long the command line takes to answer."""
    progress("start of the command line")
    small, large = plan.filled("jsonl", 100_000), plan.filled("jsonl", plan.size(10_000_000))
    indexed = plan.filled("jsonl", plan.size(10_100_000))  # another one: `note` must not find an index
    with smp_memory.open(indexed) as memory:
        memory.query("warm up", limit=1)
    words = {
        "smp --help": ["--help"],
        "smp (10 MB)": ["--root", indexed],
        "smp list (100 kB)": ["list", "--root", small],
        "smp list turns --last 20 (10 MB)": ["list", "turns", "--last", "20", "--root", large],
        "smp add (durable, 10 MB)": ["add", "finding", "The build is green again.", "--root", large],
        "smp show (10 MB)": ["show", "DEC-0001", "--root", indexed],
        "smp query (10 MB)": ["query", "nightly export", "--root", indexed],
        "smp session list (10 MB)": ["session", "list", "--root", indexed],
    }
    sides = {"pass": "pass", **{name: _COMMAND.format(words=line) for name, line in words.items()}}
    yield from _start_rows("start of a command", Children(plan), sides, plan.count(20, 1), {})


def _start_rows(
    figure: str, children: Children, scripts: dict[str, str], rounds: int, targets: dict[str, Target]
) -> Iterator[Row]:
    sides = {name: lambda script=script: children.seconds(script) for name, script in scripts.items()}
    found = alternate(sides, rounds)
    for name in list(scripts)[1:]:
        values = found.at(name, 0.5) * 1e3, found.at("pass", 0.5) * 1e3
        details = found.details(name, MILLISECONDS)
        yield Row(figure, name, "ms", *values, found.ratio(name, "pass"), targets.get(name), details)


def read_all(plan: Plan) -> Iterator[Row]:
    """A new process opens a session of 10 MB and calls `validate()`, which reads and checks everything; raw: the same memories by `json.loads`. For information: `records()` afterwards, which reads everything once more."""
    children = Children(plan)
    limits = {"jsonl": 0.5, "markdown": 3.0}
    for layout in LAYOUTS:
        progress(f"read and validate everything, {layout}")
        root = plan.filled(layout, plan.size(10_000_000))
        path, size = _raw_copy(root), sum(sample_data.data_files(root).values())
        parts: list[list[float]] = []

        def smp_side(root: str = root, parts: list[list[float]] = parts) -> list[float]:
            parts.append(children.own_seconds(_READ_ALL.format(root=root, session=SESSION)))
            return parts[-1][:1]

        raw = _RAW_READ.format(path=path)
        found = alternate({"raw": lambda raw=raw: children.own_seconds(raw), "smp": smp_side}, plan.count(7, 1))
        middle = sorted(parts[1:])[len(parts[1:]) // 2]
        details = {"p95 s": found.at("smp", 0.95), "MB": size / 1e6}
        details |= dict(zip(("open s", "validate s", "then records() s"), middle[1:], strict=True))
        target = Target("value", at_most=limits[layout]) if layout in limits else None
        values = found.at("smp", 0.5), found.at("raw", 0.5)
        yield Row("read all and validate, 10 MB", layout, "s", *values, found.ratio("smp", "raw"), target, details)


def _raw_copy(root: str) -> str:
    """The same memories, one JSON object per line and nothing else."""
    path = root + "-raw-probe.jsonl"
    with smp_memory.open(root) as memory, open(path, "w", encoding="utf-8") as file:
        for record in memory.session(SESSION).records():
            file.write(json.dumps(record.to_dict(), ensure_ascii=False) + "\n")
    return path
