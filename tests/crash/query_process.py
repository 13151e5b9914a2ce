"""A process that queries: `python query_process.py MODE ROOT NUMBER`. It reads tasks as lines and writes results as JSON lines."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import smp_memory
from smp_memory.errors import SessionNotFound, SMPError


def say(**what: Any) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def wrong_hits(memory: smp_memory.Memory, hits: Any) -> list[str]:
    """Hits that are not as their session has them, unless they changed a moment ago: then they are asked for again."""
    found = []
    for hit in hits:
        try:
            now = memory.session(hit.session).find(hit.id)
        except SessionNotFound:
            now = None
        if now is None or now.deleted or now.revision < hit.record.revision:
            found.append(f"{hit.record.ref} is not there: {hit.record.to_dict()}")
        elif now.revision == hit.record.revision and now != hit.record:
            found.append(f"{hit.record.ref} is {now.to_dict()}, not {hit.record.to_dict()}")
    return found


def query(memory: smp_memory.Memory, number: int) -> None:
    """Ask until told to stop; whatever is done to the index, nothing but answers or SMP's own errors."""
    os.set_blocking(0, False)
    asked = errors = 0
    least = number
    while True:
        try:
            if os.read(0, 1) == b"":
                break
        except BlockingIOError:
            pass
        for text in ("alpha", "q7q", None):
            try:
                hits = memory.query(text, limit=10_000)
            except SMPError as error:
                errors += 1
                say(refused=type(error).__name__, message=str(error)[:200])
                continue
            wrong = wrong_hits(memory, hits)
            if wrong:
                say(wrong=wrong[:3])
            if text == "alpha":
                least = min(least, len(hits))
        asked += 1
        if asked == 1:
            say(asking=True)
    say(asked=asked, refused_count=errors, least=least)


def find(memory: smp_memory.Memory, number: int) -> None:
    """Each line of the input is a word and an id: the next query must find it."""
    for line in sys.stdin:
        task = json.loads(line)
        session = memory.session(task["session"])
        place = memory if task.get("everywhere") else session
        hits = place.query(task["word"], limit=50)
        refs = {hit.record.ref: hit.record for hit in hits}
        want, ref = task["want"], f"{task['session']}/{task['id']}"
        there = ref in refs and (task.get("text") is None or task["text"] in str(refs[ref].to_dict()))
        say(done=task["serial"], right=there is want, refs=sorted(refs)[:5], task=task)


def build(memory: smp_memory.Memory, number: int) -> None:
    """Make the index anew, slowly enough to be killed in the middle."""
    say(building=True)
    while True:
        memory.store.indexer.rebuild(lambda name, done: (say(taken=name), time.sleep(0.001))[1])


def main(mode: str, root: str, number: str) -> None:
    import smp_memory.index.text

    smp_memory.index.text.TAIL_LIMIT = 20  # so that both the tail and tantivy are at work
    with smp_memory.open(root) as memory:
        {"query": query, "find": find, "build": build}[mode](memory, int(number))


if __name__ == "__main__":
    main(*sys.argv[1:4])
