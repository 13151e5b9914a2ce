"""Compare SMP with other memories on the same data: `./dev bench compare`.

Every peer is installed by name in an environment of its own, outside of the repository. Results are kept for each peer and step, and what
has a result is not measured again; a peer that fails or hangs costs its step and nothing else. First everything that takes time, one
after the other, then what is only counted, two at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import machine
import precision
import queries
import retrieval

from compare import page, texts
from compare.peers import PEERS, Environments, NotInstalled, Peer, chosen
from compare.steps import QUICK, STEPS, Bench, Plan, StepFailed, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Work = Callable[[], Any]

TIMED = ("sizes", "syncs", "first_answers", "at_once")
COUNTED = ("kills", "forgetting", "recall", "precision")
_QUESTIONS = 25  # of each kind
_AT_ONCE = 2  # steps that only count
_SHARED_MEMORY = "/dev/shm"  # noqa: S108


class Results:
    """What was measured, in a file that is written after every step."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.found: dict[str, Any] = {"facts": {}, "peers": {}}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.found = json.load(file)

    def has(self, name: str, step: str) -> bool:
        return step in self.found["peers"].get(name, {}).get("steps", {})

    def forget(self, names: list[str], steps: list[str]) -> None:
        for name in names:
            kept = self.found["peers"].get(name, {}).get("steps", {})
            for step in steps:
                kept.pop(step, None)

    def note(self, name: str, **about: Any) -> None:
        self.found["peers"].setdefault(name, {"steps": {}}).update(about)
        self.save()

    def keep(self, name: str, step: str, value: Any) -> None:
        self.found["peers"].setdefault(name, {"steps": {}})["steps"][step] = value
        self.save()

    def save(self) -> None:
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump(self.found, file, indent=1)
        os.replace(f"{self._path}.new", self._path)


def arguments(words: list[str]) -> argparse.Namespace:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    parser = argparse.ArgumentParser(prog="./dev bench compare", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--folder", default=os.path.join(home, "smp-bench"), help="environments, stores and results")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="peers with this in their name")
    parser.add_argument("--steps", default=",".join((*TIMED, *COUNTED)), help="of these, with commas: %(default)s")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work?")
    parser.add_argument("--again", action="store_true", help="measure again what has a result")
    parser.add_argument("--results", metavar="FILE", help="default: results.json in the folder, or results-quick.json")
    parser.add_argument("--data", metavar="FOLDER", help="of LoCoMo and LongMemEval (default: SMP_BENCH_DATA)")
    parser.add_argument(
        "--precision", metavar="FOLDER", default=os.environ.get("SMP_BENCH_PRECISION"),
        help="of PrecisionMemBench (default: SMP_BENCH_PRECISION)",
    )  # fmt: skip
    parser.add_argument(
        "--markdown", metavar="FILE", help="write the section into this page, usually docs/comparison.md"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing, write the page from the results")
    return parser.parse_args(words)


class Run:
    """The steps of one call of the command."""

    def __init__(self, given: argparse.Namespace, results: Results, folder: str) -> None:
        self.given, self.results, self.folder = given, results, folder
        self.plan: Plan = QUICK if given.quick else Plan()
        self.environments = Environments(given.folder)
        self.steps = given.steps.split(",")
        self.folders: list[str] = []
        self.texts = os.path.join(folder, "texts.json")
        texts.write(self.texts, queries.sentences(), 5 if given.quick else _QUESTIONS)
        self.data = retrieval.data_folder(given.data)
        self.beliefs = given.precision if given.precision and _has_beliefs(given.precision) else None

    def peers(self) -> list[Peer]:
        """The chosen peers that could be installed."""
        found = []
        for peer in chosen(self.given.only):
            try:
                say(f"install  {peer.name}")
                self.environments.install(peer)
                found.append(peer)
                about = {"error": "", "megabytes": self.environments.megabytes(peer)}
            except NotInstalled as error:
                say(f"         not installed: {error}")
                about = {"error": f"not installed: {error}"}
            self.results.note(peer.name, search=peer.search, version=_version(peer), **about)
        return found

    def bench(self, peer: Peer, in_memory: bool = False) -> Bench:
        """What only counts answers may have its stores in memory, where syncs take no time."""
        place = _SHARED_MEMORY if in_memory and os.access(_SHARED_MEMORY, os.W_OK) else self.folder
        folder = tempfile.mkdtemp(prefix=f"smp-bench-{peer.adapter}-", dir=place)
        self.folders.append(folder)
        place = self.environments.path(peer)
        return Bench(peer, self.environments.python(peer), place, folder, self.texts, self.plan)

    def timed(self, peers: list[Peer]) -> None:
        for peer in peers:
            for step in TIMED:
                if self.is_due(peer, step):
                    self.measure(peer.name, step, lambda: STEPS[step](self.bench(peer)))

    def is_due(self, peer: Peer, step: str) -> bool:
        wanted = step in self.steps and (not peer.steps or step in peer.steps)
        possible = peer.search or step not in {"first_answers", "forgetting"}
        return bool(wanted and possible) and not self.results.has(peer.name, step)

    def measure(self, name: str, step: str, work: Work) -> None:
        begun = time.monotonic()
        try:
            value = work()
        except StepFailed as error:
            value = {"error": str(error)}
        except Exception as error:  # a mistake in one step must not end the others
            traceback.print_exc()
            value = {"error": f"{type(error).__name__}: {error}"}
        self.results.keep(name, step, value)
        said = json.dumps(value)
        say(f"{time.monotonic() - begun:6.1f} s  {name}: {step} {said[:200]}{'…' if len(said) > 200 else ''}")

    def counted(self, peers: list[Peer]) -> None:
        from compare import quality  # loads the models

        with quality.service(self.folder) as path, ThreadPoolExecutor(_AT_ONCE) as pool:
            works = [*self._kept(peers), *self._asked(peers, path), *self._smp_asked()]
            list(pool.map(lambda work: self.measure(*work), works))

    def _kept(self, peers: list[Peer]) -> list[tuple[str, str, Work]]:
        return [
            (peer.name, step, lambda peer=peer, step=step: STEPS[step](self.bench(peer)))
            for peer in peers
            for step in ("kills", "forgetting")
            if self.is_due(peer, step)
        ]

    def _asked(self, peers: list[Peer], path: str | None) -> list[tuple[str, str, Work]]:
        from compare import quality

        found: list[tuple[str, str, Work]] = []
        first = 10 if self.given.quick else None
        for peer in peers:
            if peer.is_smp or not peer.is_ranked:
                continue
            if self.data and self.is_due(peer, "recall"):
                found.append(
                    (
                        peer.name,
                        "recall",
                        lambda peer=peer: quality.recall(self.bench(peer, True), self.data, path, first),
                    )
                )
            if self.beliefs and self.is_due(peer, "precision"):
                found.append(
                    (
                        peer.name,
                        "precision",
                        lambda peer=peer: quality.precision_of(self.bench(peer, True), self.beliefs, path),
                    )
                )
        return found

    def _smp_asked(self) -> list[tuple[str, str, Work]]:
        from compare import quality

        found: list[tuple[str, str, Work]] = []
        first = 10 if self.given.quick else None
        names = {"off": "SMP, words alone", "auto": "SMP", "minilm": "SMP, extra `models`"}
        if any(peer.is_smp for peer in chosen(self.given.only)):
            for semantic, name in names.items():
                if self.data and "recall" in self.steps and not self.results.has(name, "recall"):
                    found.append(
                        (name, "recall", lambda semantic=semantic: quality.recall_of_smp(self.data, semantic, first))
                    )
            if self.beliefs and "precision" in self.steps:
                for rule, name in (("told", "SMP, what a prompt is told"), ("confident", "SMP, query().confident")):
                    if not self.results.has(name, "precision"):
                        found.append(
                            (name, "precision", lambda rule=rule: quality.precision_of_smp(self.beliefs, rule))
                        )
        return found


def _has_beliefs(folder: str) -> bool:
    return all(os.path.isfile(os.path.join(folder, name)) for name in (precision.BELIEFS, precision.CASES))


def _version(peer: Peer) -> str:
    if peer.is_smp:
        return ""
    return ", ".join(
        package.replace("==", " ").replace("server-memory@", "server-memory ")
        for package in (*peer.packages, *peer.npm)
    )


def command(given: argparse.Namespace) -> str:
    """The call without folders of this machine."""
    words = ["./dev bench compare", *(["--quick"] if given.quick else [])]
    words += [f"--only '{name}'" for name in given.only]
    words += [f"--{name} FOLDER" for name in ("data", "precision") if getattr(given, name)]
    return " ".join([*words, "--markdown docs/comparison.md"])


def _remove_left_folders(folder: str) -> None:
    """Remove the stores of runs that were killed."""
    for name in os.listdir(folder):
        if name.startswith("run-") and not os.path.exists(f"/proc/{name.split('-')[1]}"):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def measure_all(given: argparse.Namespace, results: Results) -> None:
    _remove_left_folders(given.folder)
    folder = tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=given.folder)
    begun = time.monotonic()
    run = Run(given, results, folder)
    try:
        if given.again:
            results.forget([peer.name for peer in chosen(given.only)], run.steps)
        if run.data is None:
            say("Recall is not measured: name the folder of locomo-dev.json by --data or SMP_BENCH_DATA.")
        if run.beliefs is None:
            say(
                "Precision is not measured: name the folder of PrecisionMemBench by --precision or SMP_BENCH_PRECISION."
            )
        peers = run.peers()
        facts = {"command": command(given), **machine.describe(given.folder)}
        results.found["facts"] = facts
        run.timed(peers)
        run.counted(peers)
        results.found["facts"]["took"] = f"{(time.monotonic() - begun) / 60:.0f} min"
        results.save()
    finally:
        for each in (folder, *run.folders):
            shutil.rmtree(each, ignore_errors=True)


def main(words: list[str]) -> int:
    given = arguments(words)
    os.makedirs(given.folder, exist_ok=True)
    name = "results-quick.json" if given.quick else "results.json"
    results = Results(given.results or os.path.join(given.folder, name))
    if not given.report:
        measure_all(given, results)
    if given.markdown:
        page.write(given.markdown, results.found, [peer.name for peer in PEERS], given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
