"""What `guard.py` measures inside of an installation: it is run by that installation's Python and needs nothing else.

    python guard_rows.py FOLDER small|layouts|large

Prints JSON: by row the microseconds of SMP and those of the probe that ran in turn with it.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import sys
import time
from statistics import median

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Pair = tuple[float, float]

LAYOUTS = ("jsonl", "markdown", "single", "log")
_TEXT = "Use OAuth 2.0 for the sign-in of customers"
_FIELDS = {"author": "a", "rationale": "single sign-on"}
_WORDS = [f"word{number}" for number in range(800)]
_PHRASE = '"in every second memory"'
_sync = getattr(os, "fdatasync", os.fsync)


def in_turns(work: Callable[[], object], probe: Callable[[], object], times: int, rounds: int = 5) -> Pair:
    """The least microseconds of processor time of each, a round of one after a round of the other."""
    least = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, call in enumerate((work, probe)):
            start = time.process_time()
            for _ in range(times):
                call()
            least[side] = min(least[side], (time.process_time() - start) / times * 1e6)
    return least[0], least[1]


def one_by_one(work: Callable[[], object], probe: Callable[[], object], times: int) -> Pair:
    """The median microseconds by the clock of each, one call of one after one call of the other: for what waits for a disk."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(times):
        for side, call in zip(took, (work, probe), strict=True):
            start = time.perf_counter()
            call()
            side.append((time.perf_counter() - start) * 1e6)
    return median(took[0]), median(took[1])


class RawFile:
    """What a program without SMP would do: encode, append, and perhaps sync."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(os.path.join(folder, "raw"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self) -> None:
        os.write(self._file, (json.dumps({"decision": _TEXT, **_FIELDS, "padding": "x" * 250}) + "\n").encode())

    def append_and_sync(self) -> None:
        self.append()
        _sync(self._file)


def layouts(folder: str) -> dict[str, Pair]:
    """Adds on each layout: durable by the clock, without sync by processor time, beside the raw file."""
    found, raw = {}, RawFile(folder)
    for layout in LAYOUTS:
        for name, durability in (("durable add", "always"), ("add without sync", "os")):
            root = os.path.join(folder, f"{layout}-{durability}")
            with smp_memory.open(root, layout=layout, config={"durability": durability}) as memory:
                session = memory.create_session(user="u")

                def add(session: smp_memory.Session = session) -> None:
                    session.add_decision(_TEXT, **_FIELDS)

                if durability == "always":
                    found[f"{name}, {layout}"] = one_by_one(add, raw.append_and_sync, 300)
                else:
                    found[f"{name}, {layout}"] = in_turns(add, raw.append, 400)
    return found


class Filled:
    """A store of random words, and the same texts in a bare full-text table of SQLite."""

    def __init__(self, folder: str, sessions: int, each: int) -> None:
        self._rng = random.Random(1)
        self._table = sqlite3.connect(os.path.join(folder, "probe.db"))
        self._table.execute("CREATE VIRTUAL TABLE t USING fts5(text)")
        self.memory = smp_memory.open(os.path.join(folder, "store"), config={"durability": "os", "storage": {"max_session_size_mb": 250}})  # fmt: skip
        for _ in range(sessions):
            texts = [self._text() for _ in range(each)]
            findings = [("finding", {"finding": text, "severity": "low", "author": "b"}) for text in texts]
            self.memory.create_session(user="u").add_many(findings)
            self._table.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])
        self._table.commit()

    def _text(self) -> str:
        text = " ".join(self._rng.choices(_WORDS, k=30))
        return f"{text} in every second memory" if self._rng.random() < 0.5 else text

    def words(self) -> list[str]:
        return self._rng.choices(_WORDS, k=5)

    def query(self) -> None:
        self.memory.query(" ".join(self.words()), limit=10)

    def context(self) -> None:
        self.memory.context(task=" ".join(self.words()), max_tokens=800)

    def probe(self) -> None:
        found = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 10"
        self._table.execute(found, (" OR ".join(self.words()),)).fetchall()


def small(folder: str) -> dict[str, Pair]:
    """3,400 memories, all vectors made."""
    store = Filled(folder, 1, 3_400)
    store.memory.reindex()
    store.query()
    found = {
        "query of five words, 3,400 memories": in_turns(store.query, store.probe, 40),
        "context for a task, 3,400 memories": in_turns(store.context, store.probe, 20),
    }
    store.memory.close()
    return found


def large(folder: str) -> dict[str, Pair]:
    """100,000 memories: the first queries without vectors, then with them."""
    store = Filled(folder, 100, 1_000)
    memory = store.memory
    memory.query("word1", limit=1)  # builds the index
    found = {"query while vectors are missing, 100,000 memories": in_turns(store.query, store.probe, 5, 1)}
    memory.reindex()
    store.query()
    found["query of five words, 100,000 memories"] = in_turns(store.query, store.probe, 20, 3)
    found["phrase with counts, 100,000 memories"] = in_turns(lambda: memory.query(_PHRASE, limit=10, count_by="session"), store.probe, 1, 3)  # fmt: skip
    found["quick doctor, 100,000 memories"] = in_turns(memory.doctor, store.probe, 1, 2)
    memory.close()
    return found


if __name__ == "__main__":
    print(json.dumps({"small": small, "layouts": layouts, "large": large}[sys.argv[2]](sys.argv[1])))
