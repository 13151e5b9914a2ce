"""Import of a folder of Claude Code transcripts: MB per second of processor time. Called by `./dev bench import`.

    python benchmarks/transcript_import.py [--megabytes 100] [--layout jsonl] [--profile]

The transcripts are made up and mostly tool results, as real ones are: 12 calls of tools with results of 1 to 20 KB for each prompt, whose
content a line has twice. Each run begins with an empty store, redaction is on. Reading alone (`json.loads` of every line) stands beside it.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import shutil
import sys
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_PROMPTS = 12  # of one conversation
_CALLS = 12  # of tools, for each prompt
_WORDS = "the store index login session cache queue retry timeout schema order payment token user page test branch commit release error handler config module function value result".split()  # noqa: SIM905
_CODE = '    def handle_{0}(self, {1}: str) -> None:\n        """Return the {1} of the {0}."""\n        return self._{0}["{1}"]\n\n'
_AT_LEAST = 10.0  # MB per second


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench import", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--layout", default="jsonl")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most of the time")
    chosen = parser.parse_args(words)
    folder = tempfile.mkdtemp(prefix="smp-bench-import-")
    try:
        os.environ["SMP_STATE_DIR"] = os.path.join(folder, "state")
        _measure(folder, chosen)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _measure(folder: str, chosen: argparse.Namespace) -> None:
    import smp_memory
    from smp_memory.importers import import_from

    home = os.path.join(folder, "projects")
    size, conversations = write_transcripts(home, chosen.megabytes * 1_000_000)
    print(f"{size / 1e6:,.0f} MB in {conversations:,} transcripts")
    _show("read and parse every line", size, lambda: _parse(home))
    with smp_memory.open(os.path.join(folder, "store"), layout=chosen.layout) as memory:
        profile = cProfile.Profile() if chosen.profile else None
        work: Callable[[], Any] = lambda: import_from(memory, "claude-code", home)  # noqa: E731
        _show("dry run", size, lambda: import_from(memory, "claude-code", home, dry_run=True))
        first = _show("import", size, work if profile is None else lambda: profile.runcall(work))
        _show("import again: nothing is new", size, work)
        turns = sum(len(session.records()) for session in memory.sessions())
    print(f"{turns:,} memories; {'at least' if first >= _AT_LEAST else 'BELOW'} {_AT_LEAST:g} MB/s")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def _show(name: str, size: int, work: Callable[[], Any]) -> float:
    start, waited = time.process_time(), time.perf_counter()
    work()
    rate = size / 1e6 / (time.process_time() - start)
    print(f"{name:32} {rate:8,.1f} MB/s of processor time, {time.perf_counter() - waited:6.1f} s waited")
    return rate


def _parse(home: str) -> None:
    for folder, _, names in os.walk(home):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                for line in file:
                    json.loads(line)


def write_transcripts(home: str, size: int) -> tuple[int, int]:
    """Write conversations until they have this many bytes; returns the bytes and the number of conversations."""
    chance = random.Random(27)
    written = count = 0
    while written < size:
        folder = os.path.join(home, f"-w-project-{count % 7}")
        os.makedirs(folder, exist_ok=True)
        name = f"{chance.getrandbits(32):08x}-1111-4222-8333-{count:012}"
        data = b"".join(json.dumps(line).encode() + b"\n" for line in conversation(chance, name))
        with open(os.path.join(folder, f"{name}.jsonl"), "wb") as file:
            file.write(data)
        written, count = written + len(data), count + 1
    return written, count


def conversation(chance: random.Random, name: str) -> Iterator[dict[str, Any]]:
    parent, second = None, 0
    for prompt in range(_PROMPTS):
        for type, message, more in _exchange(chance, prompt):
            second += 2
            at = f"2026-03-01T{8 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000Z"
            uuid = f"{chance.getrandbits(128):032x}"
            yield {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/w/project", "sessionId": name, "version": "2.1.325", "gitBranch": "main", "type": type, "message": message, "uuid": uuid, "timestamp": at, **more}  # fmt: skip
            parent = uuid


def _exchange(chance: random.Random, prompt: int) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    yield "user", {"role": "user", "content": _sentence(chance, 40)}, {"promptId": f"{chance.getrandbits(64):016x}"}
    for call in range(_CALLS):
        id = f"toolu_{chance.getrandbits(64):016x}"
        use = {"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": f"/w/project/file_{call}.py"}}
        content = [{"type": "text", "text": _sentence(chance, 12)}, use]
        yield "assistant", {"id": f"msg_{prompt}_{call}", "role": "assistant", "content": content}, {}
        text = "".join(_CODE.format(*chance.sample(_WORDS, 2)) for _ in range(chance.randint(8, 160)))
        result = [{"type": "tool_result", "tool_use_id": id, "content": text}]
        yield "user", {"role": "user", "content": result}, {"toolUseResult": {"file": {"content": text}}}
    final = [{"type": "text", "text": _sentence(chance, 120)}]
    yield "assistant", {"id": f"msg_{prompt}", "role": "assistant", "content": final, "stop_reason": "end_turn"}, {}


def _sentence(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(words)).capitalize() + "."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
