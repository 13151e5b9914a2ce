"""Check whether SMP has become slower since the last release. Called by `./dev bench guard`.

    ./dev bench guard [--rounds 5] [--beside COMMIT] [--only new|layouts|small|large] [--release]

Installs this checkout into an environment of its own and measures it beside probes in the same minutes: a new process beside
`python -c pass`, adds beside a raw append (and sync), queries beside a bare full-text table of SQLite. What counts is the
ratio, because it depends least on the machine. It is compared with the newest release in `releases.json`; rows that lost more
than 5 % since then are named, with the spread of the rounds. `--beside COMMIT` measures another commit in turn instead of
reading the file. `--release` writes the figures of this version into the file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
RELEASES = os.path.join(HERE, "releases.json")
MOST_GROWTH = 1.05
_FEW, _MANY = 50, 3_000
COMMANDS = {
    "smp hook, a prompt": ["hook"],
    "smp query": ["query", "bug", "in", "part", "7"],
    "smp context": ["context", "--task", "bug in part 7"],
    "smp list": ["list"],
}
_FILL = """\
import sys, smp_memory
with smp_memory.open(sys.argv[1], config={"durability": "os"}) as memory:
    for number in range(int(sys.argv[2])):
        texts = [f"Bug {number} in part {number % 9} of the importer, case {case}" for case in range(20)]
        findings = [("finding", {"finding": text, "severity": "low", "author": "b"}) for text in texts]
        memory.create_session(user="u").add_many(findings)
    memory.reindex()
"""
WANTED = {  # ratios to the probe that issue and release notes promise; what is missed is said, and is no error
    **{f"durable add, {layout}": 1.5 for layout in ("jsonl", "markdown", "single", "log")},
    f"smp hook, a prompt, {_FEW} sessions": 5.0,
    f"smp query, {_FEW} sessions": 6.5,
    f"smp context, {_FEW} sessions": 6.5,
    f"smp list, {_FEW} sessions": 4.5,
}


class Installation:
    """One version of SMP in an environment of its own, with its stores."""

    def __init__(self, name: str, source: str, folder: str) -> None:
        self.name = name
        self._folder = os.path.join(folder, name)
        self._bin = os.path.join(self._folder, "venv", "bin")
        print(f"installing {name} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", os.path.dirname(self._bin)], check=True)
        pip = [f"{self._bin}/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", source]
        subprocess.run(pip, check=True)
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SMP_"))}
        self._environment |= {"SMP_STATE_DIR": f"{self._folder}/state", "SMP_HOOKS_RECORD": "false"}

    def fill(self, sessions: int) -> str:
        project = f"{self._folder}/project-{sessions}"
        self._run(["-c", _FILL, f"{project}/.bmad/memory", str(sessions)])
        return project

    def rows(self, part: str) -> dict[str, tuple[float, float]]:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            return dict(json.loads(self._run([os.path.join(HERE, "guard_rows.py"), folder, part])))

    def new_processes(self, projects: dict[int, str]) -> dict[str, tuple[float, float]]:
        found, passed = {}, self._processor_time(["-c", "pass"], self._folder)
        for sessions, project in projects.items():
            for name, words in COMMANDS.items():
                took = self._processor_time([f"{self._bin}/smp", *words], project)
                found[f"{name}, {sessions:,} sessions"] = (took, passed)
        return found

    def _processor_time(self, words: list[str], project: str) -> float:
        """The least of three, in microseconds. What a hook leaves behind is not in it."""
        event = {"hook_event_name": "UserPromptSubmit", "cwd": project}
        least = float("inf")
        for number in range(3):
            prompt = {**event, "session_id": f"{os.urandom(4).hex()}{number}", "prompt": "Is there a known bug in part 7 of the importer?"}  # fmt: skip
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self._run(words, project, json.dumps(prompt))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return least * 1e6

    def _run(self, words: list[str], folder: str | None = None, text: str = "") -> str:
        command = [f"{self._bin}/python", *words]
        done = subprocess.run(command, cwd=folder or self._folder, env=self._environment, input=text, capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done.stderr[-2000:]}")
        return done.stdout


def measure(
    sides: list[Installation], parts: list[str], rounds: int
) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """By installation and row the pairs of all rounds. `large` is measured once: it takes minutes and varies little."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {side.name: {} for side in sides}
    projects = {side.name: {size: side.fill(size) for size in (_FEW, _MANY)} for side in sides if "new" in parts}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds} …", file=sys.stderr)
        for side in sides:
            for part in parts:
                if part != "large" or number == 0:
                    rows = side.new_processes(projects[side.name]) if part == "new" else side.rows(part)
                    for name, pair in rows.items():
                        found[side.name].setdefault(name, []).append(tuple(pair))
    return found


def summary(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """The median ratio to the probe, the least and the greatest one, and microseconds, which only inform."""
    ratios = sorted(value / probe for value, probe in pairs)
    microseconds = median(value for value, _ in pairs)
    return {"ratio": median(ratios), "least": ratios[0], "greatest": ratios[-1], "microseconds": microseconds}


def table(now: dict[str, dict[str, float]], before: dict[str, dict[str, float]], name: str) -> tuple[str, list[str]]:
    """The lines for people, and the rows that lost more than 5 %."""
    lines = [f"{'row':52}{'now':>11}{'× probe':>9}{'spread':>16}{name:>10}{'change':>8}"]
    lost = []
    for row, figures in now.items():
        spread = f"{_ratio(figures['least'])}–{_ratio(figures['greatest'])}"
        line = f"{row:52}{_shown(figures['microseconds']):>11}{_ratio(figures['ratio']):>9}{spread:>16}"
        if row in before:
            change = figures["ratio"] / before[row]["ratio"]
            line += f"{_ratio(before[row]['ratio']):>10}{change:8.2f}"
            if change > MOST_GROWTH:
                lost.append(row)
                line += "  lost" if figures["least"] > before[row]["greatest"] else "  lost, within the spread"
        if figures["ratio"] > WANTED.get(row, float("inf")):
            line += f"  wanted: {WANTED[row]:g}"
        lines.append(line)
    return "\n".join(lines), lost


def _ratio(number: float) -> str:
    return f"{number:.2f}" if number < 100 else f"{number:,.0f}"


def _shown(microseconds: float) -> str:
    return f"{microseconds:,.0f} µs" if microseconds < 1e3 else f"{microseconds / 1e3:,.2f} ms"


def _releases() -> dict[str, Any]:
    if not os.path.exists(RELEASES):
        return {}
    with open(RELEASES, encoding="utf-8") as file:
        return dict(json.load(file))


def _record(rows: dict[str, dict[str, float]]) -> None:
    import machine

    import smp_memory

    known = _releases()
    earlier = known.pop(smp_memory.__version__, {}).get("rows", {})
    rounded = {row: {key: round(number, 3) for key, number in figures.items()} for row, figures in rows.items()}
    known[smp_memory.__version__] = {"machine": machine.describe(TOP), "rows": earlier | rounded}
    with open(RELEASES, "w", encoding="utf-8") as file:
        file.write(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench guard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", metavar="COMMIT", help="measure that commit, too, in turn")
    parser.add_argument("--only", action="append", choices=["new", "layouts", "small", "large"])
    parser.add_argument("--release", action="store_true", help="write the figures of this version into releases.json")
    chosen = parser.parse_args(words)
    parts = chosen.only or ["new", "layouts", "small", "large"]
    with tempfile.TemporaryDirectory(prefix=".smp-guard-", dir=".", ignore_cleanup_errors=True) as folder:
        folder = os.path.abspath(folder)
        sides = [Installation("now", TOP, folder)]
        if chosen.beside:
            source = os.path.join(folder, "source")
            subprocess.run(["git", "clone", "--quiet", "--no-checkout", TOP, source], check=True)
            subprocess.run(["git", "-C", source, "checkout", "--quiet", chosen.beside], check=True)
            sides.append(Installation(chosen.beside[:8], source, folder))
        measured = measure(sides, parts, chosen.rounds)
    figures = {name: {row: summary(pairs) for row, pairs in rows.items()} for name, rows in measured.items()}
    known = _releases()
    if chosen.beside:
        name, before = sides[1].name, figures[sides[1].name]
    else:
        name = list(known)[-1] if known else "none"
        before = known.get(name, {}).get("rows", {})
    text, lost = table(figures["now"], before, name)
    print(text)
    if before:
        print(f"Lost more than 5 % since {name}: {'; '.join(lost) or 'none'}.")
    if chosen.release:
        _record(figures["now"])
    return 0  # a loss is a result, not an error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
