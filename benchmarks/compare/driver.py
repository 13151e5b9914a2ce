"""Operations on one peer, run in the peer's environment: `python driver.py ADAPTER OPERATION JSON`.

The answer is written as JSON to the file named `out`; what `write` has stored is printed key by key, as soon as the peer has
acknowledged it. What peers print themselves goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from statistics import median

from texts import Texts, key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Options = dict[str, Any]

ROUND = 20  # writes of the peer, then as many of the probe
FILLED = 1000  # memories of one bulk call
LIMIT = 10  # hits of a search


class Probe:
    """A raw append and fdatasync of the same text."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "probe")
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, key: str, text: str) -> None:
        os.write(self._file, json.dumps({"key": key, "text": text}).encode() + b"\n")
        os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)
        os.unlink(self._path)


def opened(options: Options) -> Any:
    module = importlib.import_module(f"adapters.{options['adapter']}")
    return module.Peer(options["folder"], **options["with"])


def timed(work: Callable[..., Any], items: list[Any], until: float) -> list[float]:
    """Seconds of each call, as many as fit before the deadline, at least one."""
    seconds: list[float] = []
    for item in items:
        start = time.perf_counter()
        work(*item)
        seconds.append(time.perf_counter() - start)
        if time.monotonic() > until:
            break
    return seconds


def figures(seconds: list[float]) -> dict[str, float]:
    ranked = sorted(seconds)
    return {
        "n": len(ranked),
        "p50": ranked[len(ranked) // 2] * 1000,
        "p95": ranked[min(int(len(ranked) * 0.95), len(ranked) - 1)] * 1000,
    }


# --- Speed at a size -----------------------------------------------------------------------------------------------


def at_size(options: Options) -> Options:
    """Fill a store, ask the questions, then write one by one beside the probe. The first thousand are written one by one."""
    texts, size = Texts(options["texts"]), options["size"]
    peer = opened(options)
    found: Options = {"size": size}
    grown = size > options["one_by_one"]
    if grown:
        found["fill seconds"] = filled(peer, texts.pairs, size, options["fill_seconds"])
        found["settle seconds"] = sum(timed(getattr(peer, "settle", int), [()], 0))
    else:
        found["write"] = written(peer, texts, 0, size, options)
        found["size"] = found["write"]["n"]
    if options["search"]:
        found["query"] = asked(peer, texts, options["query_seconds"])
    if grown:
        found["write"] = written(peer, texts, size, options["writes"], options)
    found["peak MB"] = peak_mb()
    peer.close()
    stored = found["size"] + (found["write"]["n"] if grown else 0)
    found["bytes per memory"] = disk_bytes(options["folder"]) / stored
    return found


def filled(peer: Any, pairs: Callable[[int, int], list[tuple[str, str]]], size: int, limit: float) -> float:
    """The seconds that filling took; an error if it would take too long."""
    start = time.monotonic()
    done, batch = 0, 50
    while done < size:
        peer.fill(pairs(done, min(batch, size - done)))
        done = min(done + batch, size)
        took = time.monotonic() - start
        batch = max(50, min(FILLED, int(done / took)))  # about a second of work, so that slow peers are stopped in time
        if took > limit or (took > limit / 10 and took / done * size > 1.5 * limit):
            raise TimeoutError(f"not reached: filling would take {took / done * size:,.0f} s")
    return time.monotonic() - start


def written(peer: Any, texts: Texts, first: int, count: int, options: Options) -> Options:
    probe = Probe(options["folder"])
    until = time.monotonic() + options["write_seconds"]
    mine: list[float] = []
    raw: list[float] = []
    ratios: list[float] = []
    for start in range(first, first + count, ROUND):
        pairs = texts.pairs(start, min(ROUND, first + count - start))
        each = timed(peer.add, pairs, until)
        beside = timed(probe.add, pairs, until)
        mine, raw, ratios = mine + each, raw + beside, [*ratios, median(each) / median(beside)]
        if time.monotonic() > until:
            break
    probe.close()
    return {**figures(mine), "per second": len(mine) / sum(mine), "probe": figures(raw)["p50"], "ratio": median(ratios)}


def asked(peer: Any, texts: Texts, seconds: float) -> Options:
    """Milliseconds of each kind of question, and how many found their memory, where that is known."""
    peer.search("caught up", LIMIT)
    found: Options = {}
    for kind, questions in texts.questions.items():
        hits = peer.search(questions[0], LIMIT)
        until = time.monotonic() + seconds
        found[kind] = figures(timed(peer.search, [(text, LIMIT) for text in questions], until))
        found[kind]["hits"] = len(hits)
    return found


def peak_mb() -> float:
    """Peak resident memory of this process and of its children that still run."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for child in _children(os.getpid()):
        try:
            with open(f"/proc/{child}/status", encoding="utf-8") as file:
                kilobytes += next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)
        except OSError:
            pass
    return kilobytes / 1024


def _children(process: int) -> list[int]:
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="utf-8") as file:
            direct = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return direct + [each for child in direct for each in _children(child)]


def disk_bytes(folder: str) -> int:
    return sum(
        os.stat(os.path.join(place, name), follow_symlinks=False).st_blocks * 512
        for place, _, names in os.walk(folder)
        for name in names
    )


# --- What is kept --------------------------------------------------------------------------------------------------


def write(options: Options) -> Options:
    """Write from a number on until told otherwise, and print each key that was acknowledged."""
    texts = Texts(options["texts"])
    peer = opened(options)
    os.write(options["acknowledged"], b"ready\n")
    if options["wait"]:
        sys.stdin.readline()
    errors: list[str] = []
    start = time.monotonic()
    for number in range(options["first"], options["first"] + options["count"]):
        try:
            peer.add(key(number), texts.text(number))
            os.write(options["acknowledged"], key(number).encode() + b"\n")
        except Exception as error:  # what a peer raises is what is counted
            errors.append(f"{type(error).__name__}: {error}"[:200])
            if options["stop_at_error"]:
                break
        if time.monotonic() - start > options["seconds"]:
            break
    peer.close()
    return {"seconds": time.monotonic() - start, "errors": errors}


def keys(options: Options) -> Options:
    peer = opened(options)
    found = sorted(set(peer.keys()))
    peer.close()
    return {"keys": found}


def synced(options: Options) -> Options:
    """Writes between two marks that a trace of system calls shows: removing folders that are not there."""
    texts = Texts(options["texts"])
    peer = opened(options)
    for number in range(options["first"] + options["count"]):
        if number == options["first"]:
            _mark("begin")
        peer.add(key(number), texts.text(number))
    _mark("end")
    peer.close()
    return {}


def _mark(name: str) -> None:
    try:
        os.rmdir(f"smp-bench-{name}")
    except OSError:
        pass


def forget(options: Options) -> Options:
    """Write some memories, the last with a text of its own, and remove it."""
    texts = Texts(options["texts"])
    peer = opened(options)
    for number in range(20):
        peer.add(key(number), texts.text(number))
    peer.add(key(20), f"{options['marker']} {key(20)}")
    if options["search"]:
        peer.search(options["marker"], LIMIT)
    method = getattr(peer, options["how"], None)
    if method is None:
        return {"done": False}
    method(key(20))
    left = key(20) in set(peer.keys())
    peer.close()
    return {"done": True, "left": left}


# --- Quality -------------------------------------------------------------------------------------------------------


def rank(options: Options) -> Options:
    """The hits of every question in every group of memories, each group in a store of its own."""
    with open(options["groups"], encoding="utf-8") as file:
        groups = json.load(file)
    total = sum(len(memories) for memories, _ in groups)
    answers = []
    for number, (memories, questions) in enumerate(groups):
        folder = os.path.join(options["folder"], str(number))
        os.makedirs(folder)
        peer = opened({**options, "folder": folder})
        pairs = [tuple(pair) for pair in memories]
        share = options["fill_seconds"] * len(memories) / total
        filled(peer, lambda first, count, pairs=pairs: pairs[first : first + count], len(pairs), share)
        answers.append([peer.search(text, options["limit"]) for text in questions])
        peer.close()
    return {"answers": answers}


OPERATIONS = {
    "at_size": at_size,
    "write": write,
    "keys": keys,
    "synced": synced,
    "forget": forget,
    "rank": rank,
}


def main(words: list[str]) -> int:
    adapter, operation, given = words
    acknowledged = os.dup(1)
    os.dup2(2, 1)
    options = {**json.loads(given), "adapter": adapter, "acknowledged": acknowledged}
    try:
        answer = OPERATIONS[operation](options)
    except Exception as error:
        answer = {"error": str(error) if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"[:300]}
    with open(options["out"], "w", encoding="utf-8") as file:
        json.dump(answer, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
