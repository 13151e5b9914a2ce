"""Sample data: made-up work on software, the same in every run, and stores filled with it."""

from __future__ import annotations

import os
import random

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LAYOUTS = ("jsonl", "markdown", "single", "log")
SESSION = "bench"
MEAN_TEXT_BYTES = 430

_AGENTS = ("architect", "developer", "tester", "veritas", "product-owner")
_TAGS = ("auth", "billing", "search", "database", "interface", "deployment", "security.tokens", "performance")
_SUBJECTS = (
    "The login service", "The nightly export", "Our search index", "The payment queue", "The mobile client",
    "The migration script", "The settings page", "The audit log", "The session cache", "The report generator",
)  # fmt: skip
_VERBS = (
    "rejects", "retries", "stores", "forgets", "measures", "replaces", "validates", "reads", "announces", "compresses",
)  # fmt: skip
_OBJECTS = (
    "every request without a token", "invoices of closed accounts", "names with accents such as Müller or Łódź",
    "the old column until all clients are updated", "more than two hundred rows at once", "times in UTC only",
    "files that another process still writes", "the customer's last three addresses", "answers larger than a megabyte",
    "duplicates that the importer left behind",
)  # fmt: skip
_ENDS = (
    "because two customers reported it.", "and nobody had noticed before the review.", "which took most of Tuesday.",
    "so the test must wait for the second answer.", "unless the flag in the configuration says otherwise.",
    "and that is cheaper than we expected.", "until the vendor ships a correction.", "as the specification asks.",
)  # fmt: skip


def text(rng: random.Random, mean_bytes: int = MEAN_TEXT_BYTES) -> str:
    """English sentences of that length in the mean, some much longer, as people and agents write."""
    wanted = min(max(rng.gammavariate(2, (mean_bytes - 45) / 2), 20), 4000)  # the last sentence overshoots by 45
    sentences: list[str] = []
    length = 0
    while length < wanted:
        words = (rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_OBJECTS), rng.choice(_ENDS))
        sentences.append(" ".join(words))
        length += len(sentences[-1]) + 1
    return " ".join(sentences)


def decision(rng: random.Random) -> dict[str, Any]:
    return {
        "decision": text(rng, MEAN_TEXT_BYTES // 3),
        "rationale": text(rng, MEAN_TEXT_BYTES * 2 // 3),
        "author": rng.choice(_AGENTS),
        "tags": rng.sample(_TAGS, 2),
    }


def turn(rng: random.Random) -> dict[str, Any]:
    return {"role": rng.choice(("user", "assistant", *_AGENTS)), "content": text(rng)}


def memory(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """60 % turns, 15 % decisions, 15 % findings, 4 % learnings, 3 % artifacts, 2 % preferences, 1 % agent states."""
    draw = rng.random()
    author = rng.choice(_AGENTS)
    if draw < 0.60:
        return "conversation", turn(rng)
    if draw < 0.75:
        return "decision", decision(rng)
    if draw < 0.90:
        severity = rng.choice(("low", "medium", "high", "critical"))
        return "finding", {"finding": text(rng), "severity": severity, "author": author, "tags": [rng.choice(_TAGS)]}
    if draw < 0.94:
        return "learning", {"learning": text(rng), "author": author, "confidence": round(rng.random(), 2)}
    if draw < 0.97:
        return "artifact", {"name": f"notes-{rng.randrange(1000)}.md", "content": text(rng), "author": author}
    if draw < 0.99:
        return "preference", {"key": f"style-{rng.randrange(40)}", "value": text(rng, 100), "author": author}
    return "agent_state", {"agent": author, "state": {"task": text(rng, 200), "step": rng.randrange(20)}}


def endless(make: Any) -> Iterator[Any]:
    """The same made-up data in every run."""
    rng = random.Random(7)
    while True:
        yield make(rng)


def take(source: Iterator[Any], count: int) -> list[Any]:
    return [next(source) for _ in range(count)]


def open_store(root: str, layout: str, durability: str = "always", semantic: str = "off") -> smp_memory.Memory:
    """Figures are by words alone, unless they say that they are with meaning."""
    settings = {
        "durability": durability,
        "search": {"semantic": semantic},
        "storage": {"max_session_size_mb": 250},
        "concurrency": {"lock_timeout_ms": 60_000},
    }
    return smp_memory.open(root, layout=layout, config=settings)


def new_session(root: str, layout: str, durability: str = "always") -> Any:
    memory = open_store(root, layout, durability)
    return memory.create_session(SESSION, user="ada", agents=list(_AGENTS), project="benchmark")


def data_files(root: str) -> dict[str, int]:
    """The files with memories and their sizes; neither locks and notes nor settings."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".smp"]
        for name in names:
            path = os.path.join(folder, name)
            if name != "config.json" and not name.startswith("raw-probe"):
                found[path] = os.path.getsize(path)
    return found


def fill(root: str, layout: str, size_bytes: int) -> None:
    """A new store whose one session has this size, with the realistic mix of types."""
    session = new_session(root, layout, "os")
    source = endless(memory)
    size = 0
    while size < size_bytes:
        missing = size_bytes - size
        session.add_many(take(source, min(max(missing // 1500, 10), 1000)))
        size = sum(data_files(root).values())
    session.memory.close()
