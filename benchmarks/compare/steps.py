"""The steps of the comparison: each starts processes in the peer's environment, has a time limit, and returns a value for JSON."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from compare.peers import Peer

HERE = os.path.dirname(os.path.abspath(__file__))
_WRITERS = 4
_SYNCS = "fsync,fdatasync,sync,syncfs,sync_file_range,msync"
_MARKER = "Zarquon marmalade heliotrope 7f3ac9"
_FIRST = """
import sys
sys.path[:0] = [{here!r}]
from adapters.{adapter} import Peer
peer = Peer({folder!r}, **{options!r})
assert peer.search({question!r}, 10) is not None
peer.close()
"""


class StepFailed(Exception):
    """A step has no result; the text says why."""


@dataclass(frozen=True)
class Plan:
    """How much is measured. Sizes are numbers of memories, times are seconds."""

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    one_by_one: int = 1_000  # up to this size memories are written one by one
    writes: int = 200  # at larger sizes
    write_seconds: float = 10
    query_seconds: float = 2
    fill_seconds: float = 60
    settle_seconds: float = 200  # for the work of a peer after it was filled
    starts: int = 7
    start_seconds: float = 12
    at_once_seconds: float = 4
    kills: int = 20
    kill_seconds: float = 45
    step_seconds: float = 150  # no process may take longer, but those that fill the largest stores


QUICK = Plan(
    sizes=(200, 1_000), one_by_one=200, writes=40, write_seconds=2, query_seconds=0.5, fill_seconds=5, starts=2,
    start_seconds=5, at_once_seconds=1, kills=3, kill_seconds=15, step_seconds=60,
)  # fmt: skip
TINY = Plan(
    sizes=(40, 60), one_by_one=40, writes=20, write_seconds=2, query_seconds=0.2, fill_seconds=5, starts=1,
    start_seconds=1, at_once_seconds=0.2, kills=2, kill_seconds=10, step_seconds=60,
)  # fmt: skip


class Bench:
    """One peer with its Python, and a folder in which its stores are made."""

    def __init__(self, peer: Peer, python: str, environment: str, folder: str, texts: str, plan: Plan) -> None:
        self.peer, self.python, self.plan, self.texts = peer, python, plan, texts
        self.environment = environment
        self._folder = folder

    def new_folder(self) -> str:
        return tempfile.mkdtemp(prefix="store-", dir=self._folder)

    @property
    def options(self) -> dict[str, Any]:
        """The adapter's options with the environment's path filled in."""
        text = json.dumps(self.peer.options).replace("{environment}", self.environment)
        found: dict[str, Any] = json.loads(text)
        return found

    def variables(self, folder: str, **more: str) -> dict[str, str]:
        """A home of its own, so that nothing is left in the user's and everything is seen."""
        home = os.path.join(folder, "home")
        os.makedirs(home, exist_ok=True)
        own = {"HOME": home, "XDG_CACHE_HOME": f"{home}/.cache", "SMP_STATE_DIR": f"{home}/state"}
        return {**os.environ, **own, "ANONYMIZED_TELEMETRY": "False", "PYTHONUTF8": "1", **more}

    def command(self, operation: str, folder: str, out: str, **given: Any) -> list[str]:
        common = {"texts": self.texts, "folder": folder, "out": out, "with": self.options, "search": self.peer.search}
        driver = os.path.join(HERE, "driver.py")
        return [self.python, driver, self.peer.adapter, operation, json.dumps({**common, **given})]

    def run(
        self, operation: str, folder: str, prefix: tuple[str, ...] = (), at_most: float = 0, **given: Any
    ) -> dict[str, Any]:
        """Run an operation to its end."""
        out = os.path.join(self._folder, "answer.json")
        at_most = at_most or self.plan.step_seconds
        variables = self.variables(folder, **given.pop("variables", {}))
        words = [*prefix, *self.command(operation, folder, out, **given)]
        process = start(words, variables, stdout=subprocess.DEVNULL)
        try:
            _, said = process.communicate(timeout=at_most)
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"not reached: more than {at_most:.0f} s") from error
        finally:
            end(process)
        return answer(out, said)


def start(words: list[str], variables: dict[str, str], **pipes: Any) -> subprocess.Popen[bytes]:
    """Start a process as the first of a group, so that its children end with it."""
    pipes.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(words, env=variables, stderr=subprocess.PIPE, start_new_session=True, **pipes)


def end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        try:
            if pipe:
                pipe.close()
        except BrokenPipeError:  # its input was not read
            pass


def answer(out: str, said: bytes) -> dict[str, Any]:
    try:
        with open(out, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        os.unlink(out)
    except OSError as error:
        lines = said.decode(errors="replace").strip().splitlines()
        raise StepFailed(lines[-1][:300] if lines else "no answer") from error
    if "error" in found:
        raise StepFailed(found["error"])
    return found


# --- Speed ---------------------------------------------------------------------------------------------------------


def sizes(bench: Bench) -> list[dict[str, Any]]:
    """Writes, queries, memory and disk at each size; a size that is not reached ends the series."""
    plan, found = bench.plan, []
    names = ("one_by_one", "writes", "write_seconds", "query_seconds", "fill_seconds")
    given = {name: getattr(plan, name) for name in names}
    wanted = [size for size in plan.sizes if size <= bench.peer.largest]
    for size, following in zip(wanted, [*wanted[1:], 0], strict=True):
        folder = bench.new_folder()
        seconds = plan.step_seconds + (plan.settle_seconds if size > 100_000 else 0)
        try:
            found.append(bench.run("at_size", folder, at_most=seconds, size=size, **given))
        except StepFailed as error:
            found.append({"size": size, "error": str(error)})
            break
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        longer = _too_long(found[-1], following, plan)
        if longer:
            found.append({"size": following, "error": longer})
            break
    return found


def _too_long(last: dict[str, Any], following: int, plan: Plan) -> str:
    """Why the next size is not tried, judged by the last."""
    limits = (("fill", plan.fill_seconds * 1.5, "filling"), ("settle", plan.settle_seconds, "making its index"))
    for name, limit, work in limits:
        expected = last.get(f"{name} seconds", 0) * following / last["size"]
        if expected > limit:
            return f"not reached: {work} would take {expected:,.0f} s"
    return ""


def syncs(bench: Bench) -> dict[str, Any]:
    """Calls that write to the disk itself, for each write."""
    if shutil.which("strace") is None:
        raise StepFailed("strace is not there")
    folder, count = bench.new_folder(), 20
    trace = os.path.join(folder, "trace")
    words = ("strace", "-f", "-qq", "-e", f"trace={_SYNCS},rmdir", "-o", trace)
    bench.run("synced", folder, words, first=5, count=count)
    with open(trace, encoding="utf-8", errors="replace") as file:
        lines = file.read()
    between = lines[lines.index("smp-bench-begin") : lines.index("smp-bench-end")]
    calls = re.findall(rf"\b(?:{_SYNCS.replace(',', '|')})\(", between)
    shutil.rmtree(folder)
    return {"per write": len(calls) / count}


def first_answers(bench: Bench) -> dict[str, Any]:
    """Wall time of a new process with one question, in a store of the first size, beside an empty process."""
    plan, folder = bench.plan, bench.new_folder()
    with open(bench.texts, encoding="utf-8") as file:
        question = json.load(file)[1]["five words"][0]
    given = {"wait": False, "stop_at_error": True, "first": 0, "count": plan.sizes[0], "seconds": plan.write_seconds}
    bench.run("write", folder, **given)
    script = _FIRST.format(
        here=HERE, adapter=bench.peer.adapter, folder=folder, options=bench.options, question=question
    )
    empty = ["node", "-e", "0"] if bench.peer.node else [bench.python, "-c", "pass"]
    mine: list[float] = []
    raw: list[float] = []
    until = time.monotonic() + plan.start_seconds
    for number in range(-1, plan.starts):  # the first is not counted
        each = (_whole([bench.python, "-c", script], bench, folder), _whole(empty, bench, folder))
        if number >= 0:
            mine, raw = [*mine, each[0]], [*raw, each[1]]
        if time.monotonic() > until and mine:
            break
    shutil.rmtree(folder, ignore_errors=True)
    return {"ms": median(mine) * 1000, "empty": median(raw) * 1000, "n": len(mine)}


def _whole(words: list[str], bench: Bench, folder: str) -> float:
    begun = time.perf_counter()
    process = start(words, bench.variables(folder), stdout=subprocess.DEVNULL)
    try:
        _, said = process.communicate(timeout=bench.plan.step_seconds)
        took = time.perf_counter() - begun
    except subprocess.TimeoutExpired as error:
        raise StepFailed("a new process did not answer") from error
    finally:
        end(process)
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        raise StepFailed(lines[-1][:300] if lines else "no answer")
    return took


# --- What is kept --------------------------------------------------------------------------------------------------


class Writer:
    """A process that writes, and the keys that it has acknowledged."""

    def __init__(self, bench: Bench, folder: str, first: int, seconds: float, wait: bool) -> None:
        self.out = os.path.join(folder, f"writer-{first}.json")
        given = {"first": first, "count": 1_000_000, "seconds": seconds, "wait": wait, "stop_at_error": not wait}
        words = bench.command("write", folder, self.out, **given)
        log = open(os.path.join(folder, "log"), "ab")  # noqa: SIM115
        self._process = subprocess.Popen(
            words, env=bench.variables(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )  # fmt: skip
        log.close()
        self.keys: list[str] = []

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().strip()

    def go(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it could not open the store; its answer says so

    def rest(self) -> None:
        """Read to the end of its output; an unfinished line was not acknowledged."""
        assert self._process.stdout is not None
        text = self._process.stdout.read().decode()
        self.keys += [line for line in text.split("\n")[:-1] if line != "ready"]

    def kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self) -> None:
        end(self._process)


def at_once(bench: Bench) -> dict[str, Any]:
    """Four processes write to one store for some seconds; then a new process reads all keys."""
    folder, plan = bench.new_folder(), bench.plan
    bench.run(
        "write", folder, wait=False, stop_at_error=True, first=90_000_000, count=1, seconds=1
    )  # the store is there
    writers = [Writer(bench, folder, number * 1_000_000, plan.at_once_seconds, wait=True) for number in range(_WRITERS)]
    guard = _Guard(writers, plan.step_seconds)
    try:
        for writer in writers:
            writer.line()  # it is ready, or has ended
        begun = time.monotonic()
        for writer in writers:
            writer.go()
        for writer in writers:
            writer.rest()
        took = time.monotonic() - begun
    finally:
        guard.end()
    errors = [error for writer in writers for error in _errors(writer.out)]
    stored = set(bench.run("keys", folder)["keys"])
    acknowledged = [key for writer in writers for key in writer.keys]
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "acknowledged": len(acknowledged),
        "per second": len(acknowledged) / max(took, 1e-9),
        "errors": len(errors),
        "first error": next(iter(errors), ""),
        "lost": len(set(acknowledged) - stored),
    }


def _errors(out: str) -> list[str]:
    try:
        with open(out, encoding="utf-8") as file:
            found = json.load(file)
    except OSError:
        return ["a writer ended without an answer"]
    return [found["error"]] if "error" in found else list(found["errors"])


class _Guard:
    """Kills writers that take too long."""

    def __init__(self, writers: list[Writer], seconds: float) -> None:
        self._writers = writers
        self._timer = threading.Timer(seconds, self.kill)
        self._timer.start()

    def kill(self) -> None:
        for writer in self._writers:
            writer.kill()

    def end(self) -> None:
        self._timer.cancel()
        for writer in self._writers:
            writer.end()


def kills(bench: Bench) -> dict[str, Any]:
    """A writer is killed with its children again and again, at a random moment after its first writes."""
    folder, plan, rng = bench.new_folder(), bench.plan, random.Random(5)
    until = time.monotonic() + plan.kill_seconds
    acknowledged: list[str] = []
    done = 0
    while done < plan.kills and (time.monotonic() < until or not done):
        writer = Writer(bench, folder, done * 100_000, 60, wait=False)
        guard = _Guard([writer], plan.step_seconds)
        try:
            lines = [writer.line(), writer.line()]
            if not lines[1]:
                raise StepFailed(f"does not open after {done} kills: {(_errors(writer.out) or [''])[0]}")
            time.sleep(rng.uniform(0.02, 0.4))
            guard.kill()
            writer.rest()
        finally:
            guard.end()
        acknowledged += [lines[1], *writer.keys]
        done += 1
    stored = set(bench.run("keys", folder)["keys"])
    shutil.rmtree(folder, ignore_errors=True)
    return {"kills": done, "acknowledged": len(acknowledged), "lost": len(set(acknowledged) - stored)}


def forgetting(bench: Bench) -> dict[str, Any]:
    """Whether the bytes of a text are still in a file of the store after its deletion, and after erasing."""
    found: dict[str, Any] = {}
    for how in ("delete", "erase"):
        folder = bench.new_folder()
        answer = bench.run("forget", folder, marker=_MARKER, how=how)
        if answer["done"]:
            left = sorted({os.path.relpath(path, folder) for path in files_with(folder, _MARKER)})
            found[how] = {"files": left, "still listed": answer["left"]}
        shutil.rmtree(folder, ignore_errors=True)
    return found


def files_with(folder: str, marker: str) -> list[str]:
    """The files that have a word of the marker in their bytes, in UTF-8 or UTF-16."""
    words = [marker.split(maxsplit=1)[0], marker.rsplit(maxsplit=1)[-1]]
    forms = [
        form for word in words for each in (word, word.lower()) for form in (each.encode(), each.encode("utf-16-le"))
    ]
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
                found += [path] if any(form in data for form in forms) else []
    return found


STEPS = {
    "sizes": sizes,
    "syncs": syncs,
    "first_answers": first_answers,
    "at_once": at_once,
    "kills": kills,
    "forgetting": forgetting,
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
