"""Time that a coding agent waits for `smp hook`, a new process per event, beside `python -c pass`.

    python benchmarks/hooks.py [--memories 100000] [--rounds 40] [--keep FOLDER]

The events that a person waits for: the start of a session, and a prompt with its search. Then those that are recorded: the
host waits until the process ends, the work goes on behind it. Each prompt is another one, of a conversation of its own, so
that nothing counts as told already. Work behind is waited for before the next round, or it would slow the other side.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from statistics import median

import reads
from queries import Texts
from timing import Row, Target, alternate, progress

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from run import Plan
    from timing import Sides

_HOOK = "import sys; from smp_memory.cli.main import main; sys.exit(main(['hook']))"
_MOST_TIMES_PYTHON = 6.0
_MEMORIES, _SESSIONS = 100_000, 10


def fill(root: str, memories: int) -> None:
    """A store with so many memories, and an index that knows them."""
    texts = Texts()
    settings = {"durability": "os", "privacy": {"redaction": {"enabled": False}}, "storage": {"max_session_size_mb": 250}}  # fmt: skip
    with smp_memory.open(root, config=settings) as memory:
        for number in range(_SESSIONS):
            session = memory.create_session(f"session-2026-01-{number + 1:02d}")
            session.add_many([texts.memory() for _ in range(memories // _SESSIONS)])
        memory.reindex()  # with all vectors: a prompt makes some of them only


class Host:
    """A coding agent that calls its hook."""

    def __init__(self, children: reads.Children, project: str, root: str) -> None:
        self._environment = children.environment
        self._project = project
        self._root = root
        self._memory = smp_memory.open(root)
        self._count = self.prompts = self.answered = 0
        self.cpu: dict[str, list[float]] = {}
        self._questions = Texts().questions(500)

    def seconds(self, script: str, payload: dict[str, object] | None = None) -> list[float]:
        text = json.dumps(payload).encode() if payload is not None else b""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run([sys.executable, "-c", script], input=text, env=self._environment, capture_output=True, check=False)  # fmt: skip
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime  # without what goes on behind
        self.cpu.setdefault(str(payload["hook_event_name"]) if payload else "python", []).append(cpu)
        if payload is not None and payload["hook_event_name"] == "UserPromptSubmit":
            self.prompts += 1
            self.answered += b"smp-recalled" in done.stdout
        if done.returncode or self._failures():
            raise RuntimeError(f"The hook failed: {done.stderr.decode()[-500:]}, {self._failures()}")
        self._wait_for_background_work(payload)
        return [seconds]

    def event(self, name: str, **fields: object) -> dict[str, object]:
        self._count += 1
        session = f"bench-{self._count}"
        question = self._questions[self._count % len(self._questions)]
        given = {"hook_event_name": name, "session_id": session, "cwd": self._project, "transcript_path": None}
        return {**given, "prompt": question, "prompt_id": session, **fields}

    def _wait_for_background_work(self, payload: dict[str, object] | None) -> None:
        """Wait until the event is in the session's state, which is written last, and in the index."""
        if payload is None:
            return
        from smp_memory.integrations.hooks.session_state import read_state

        deadline = time.monotonic() + 30
        field = {"UserPromptSubmit": "last_prompt_key", "Stop": "last_reply_key"}.get(
            str(payload["hook_event_name"]), "since"
        )
        while not getattr(read_state(self._memory.store.state, str(payload["session_id"])), field):
            if time.monotonic() > deadline:
                raise RuntimeError(f"Nothing was recorded: {self._failures()}")
            time.sleep(0.01)
        self._memory.query("caught up", limit=1, track_access=False)

    def _failures(self) -> str:
        try:
            with open(self._memory.store.state.path("hooks.log"), encoding="utf-8") as file:
                return file.read()[-500:]
        except OSError:
            return ""


def _measured(children: reads.Children, folder: str, memories: int, rounds: int) -> tuple[Sides, Host]:
    root = os.path.join(folder, ".bmad", "memory")
    if not os.path.exists(root):
        progress(f"a store of {memories:,} memories")
        fill(root, memories)
    host = Host(children, folder, root)
    sides: dict[str, Callable[[], list[float]]] = {
        "python": lambda: host.seconds("pass"),
        "SessionStart": lambda: host.seconds(_HOOK, host.event("SessionStart", source="startup")),
        "UserPromptSubmit": lambda: host.seconds(_HOOK, host.event("UserPromptSubmit")),
        "Stop": lambda: host.seconds(_HOOK, host.event("Stop", last_assistant_message="It is done.")),
        "SessionEnd": lambda: host.seconds(_HOOK, host.event("SessionEnd", reason="other")),
    }
    return alternate(sides, rounds), host


def events(plan: Plan) -> Iterator[Row]:
    """What a coding agent waits for, against `python -c pass`."""
    memories = 2000 if plan.quick else _MEMORIES
    sides, host = _measured(reads.Children(plan), plan.folder("hooks"), memories, plan.count(20, 2))
    for name in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        yield Row(
            "hook in a new process",
            f"{name}, {memories:,} memories",
            "ms",
            sides.at(name, 0.5) * 1e3,
            sides.at("python", 0.5) * 1e3,
            sides.ratio(name, "python"),
            Target("ratio", at_most=_MOST_TIMES_PYTHON),
            {"prompts with an answer": host.answered / host.prompts} if name == "UserPromptSubmit" else {},
        )


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=_MEMORIES)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--keep", metavar="FOLDER", help="make the store here, or use the one that is there, and keep it"
    )
    chosen = parser.parse_args(words)
    folder = os.path.abspath(chosen.keep or tempfile.mkdtemp(prefix=".smp-hooks-", dir="."))
    from run import Plan

    with tempfile.TemporaryDirectory(prefix=".smp-bytecode-", dir=".", ignore_cleanup_errors=True) as cache:
        sides, host = _measured(
            reads.Children(Plan(os.path.abspath(cache), False)), folder, chosen.memories, chosen.rounds
        )
    fastest = sides.all("python")[0]
    print(
        f"{'':18}{'min ms':>9}{'median':>9}{'min ×':>9}{'median ×':>10}{'CPU ms':>10}{'CPU ×':>9}   (of {chosen.rounds} rounds)"
    )
    for name in sides.rounds:
        seconds, cpu = sides.all(name), median(host.cpu[name])
        ratio = sides.ratio(name, "python") if name != "python" else 1.0
        row = f"{name:18}{seconds[0] * 1e3:9.1f}{median(seconds) * 1e3:9.1f}{seconds[0] / fastest:9.2f}{ratio:10.2f}"
        print(f"{row}{cpu * 1e3:10.1f}{cpu / median(host.cpu['python']):9.2f}")
    print(f"Something was recalled for {host.answered / host.prompts:.0%} of the prompts.")
    if not chosen.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
