"""A process that writes: `python writer_process.py MODE ROOT SESSION NAME [NUMBER]`. It reports what it has done as JSON lines."""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import threading
import time
from typing import Any

import smp_memory
from smp_memory.errors import Busy, Conflict, DurabilityUnknown, SessionExists, SMPError, StorageError
from smp_memory.session import SessionMemory


def say(**what: Any) -> None:
    os.write(1, (json.dumps(what) + "\n").encode())


def told_to_stop() -> bool:
    os.set_blocking(0, False)
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


def write(session: SessionMemory, name: str, number: int) -> None:
    """So many memories of several types."""
    for serial in range(number):
        kind = ("decision", "finding", "turn")[serial % 3]
        extra = {"role": "user"} if kind == "turn" else {}
        record = session.add(kind, f"{name}-{serial}", author=name, **extra)
        say(id=record.id, text=f"{name}-{serial}")


def storm(session: SessionMemory, name: str, number: int) -> None:
    """Mixed writes until the end; each is announced, and acknowledged when it returned."""
    chance = random.Random(f"{name} {number} {os.getpid()}")
    mine = None
    for serial in itertools.count():
        key = f"{name}-{number}-{serial}"
        what = chance.choice(("add", "add", "update", "several", "one"))
        if what == "update" and mine is not None:
            say(trying="update", id=mine.id, value=serial)
            mine = session.update(mine.id, impact=serial)
            say(done="update", id=mine.id, value=serial, revision=mine.revision)
            continue
        say(trying=what, key=key)
        if what == "several":
            with session.transaction() as tx:
                wishes = [
                    tx.add_decision(key, topic=key),
                    tx.add_finding(key, topic=key),
                    tx.add_turn("user", key, topic=key),
                ]
            say(done=what, key=key, ids=[wish.id for wish in wishes])
        elif what == "one":
            with session.transaction() as tx:
                wishes = [tx.add_decision(f"{key} {part}", topic=key) for part in range(3)]
            say(done=what, key=key, ids=[wish.id for wish in wishes])
        else:
            mine = session.add_decision(key, topic=key, impact=-1)
            say(done="add", key=key, ids=[mine.id])


def watch(session: SessionMemory, name: str, number: int) -> None:
    """Read again and again: nothing disappears, nothing goes back, no transaction is seen in part."""
    seen: dict[str, int] = {}
    looks = 0
    say(watching=True)
    while not told_to_stop():
        if looks % 10 == 9:  # as a process that has just been started
            session = smp_memory.open(session.memory.root).session(session.id)
        topics: dict[str, list[str]] = {}
        now = {}
        for record in session.records():
            now[record.id] = record.revision
            topics.setdefault(record.topic, []).append(record.id)
        wrong = [f"{ids} of {topic}" for topic, ids in topics.items() if topic and len(ids) not in (1, 3)]
        wrong += [
            f"{topic} has one memory"
            for topic, ids in topics.items()
            if topic and len(ids) == 1 and not _single(session, ids[0])
        ]
        wrong += [f"{id} is gone" for id in seen if id not in now]
        wrong += [f"{id} went back" for id in seen if id in now and now[id] < seen[id]]
        if wrong:
            say(wrong=wrong[:5])
            return
        seen = now
        looks += 1
    say(looks=looks, seen=len(seen))


def _single(session: SessionMemory, id: str) -> bool:
    """Only what was added alone has an impact."""
    return session.get(id).to_dict().get("impact") is not None


def count(session: SessionMemory, name: str, number: int) -> None:
    """Raise a counter that others raise too."""
    conflicts = 0
    for _ in range(number):
        while True:
            record = session.get("DEC-0001")
            try:
                session.update(record.id, expected_revision=record.revision, impact=record.impact + 1)
                break
            except Conflict:
                conflicts += 1
    say(conflicts=conflicts)


def keys(session: SessionMemory, name: str, number: int) -> None:
    for serial in range(number):
        say(key=f"key-{serial}", id=session.add_decision(f"by {name}", idempotency_key=f"key-{serial}").id)


def saturate(session: SessionMemory, name: str, number: int) -> None:
    done = 0
    while not told_to_stop():
        session.add_decision(f"{name}-{done}")
        done += 1
        if done in (1, 3):
            say(**{"first" if done == 1 else "third": name})
    say(count=done)


def insist(session: SessionMemory, name: str, number: int) -> None:
    """So many memories in each of two threads, whatever fails: what was not stored is repeated, and what is unknown if it has a key."""

    def work(thread: int) -> None:
        for serial in range(number):
            text = f"{name}-{thread}-{serial}"
            key = text if serial % 2 else None
            while not _is_stored(session, text, key):
                time.sleep(0.02)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(ended=name)


def _is_stored(session: SessionMemory, text: str, key: str | None) -> bool:
    """Whether a memory is stored, or must not be repeated because that is unknown."""
    try:
        say(done=session.add_decision(text, idempotency_key=key).id, text=text)
    except DurabilityUnknown as error:
        say(unknown=text, message=str(error))
        return key is None
    except (StorageError, Busy) as error:
        say(failed=text, message=str(error))
        return False
    return True


def hold(session: SessionMemory, name: str, number: int) -> None:
    """Hold the lock until killed."""

    def work() -> None:
        say(held=os.getpid())
        time.sleep(600)

    session.memory.store.session(session.id).run_locked("holding it", work)


def create(root: str, session: str, name: str, number: int) -> None:
    """Open a store that may not be there yet, and create sessions: own ones, and one that all want."""
    with smp_memory.open(root, layout=session) as memory:
        for serial in range(number):
            memory.create_session(f"{name}-{serial}").add_decision(name)
            try:
                memory.create_session(f"common-{serial}")
                say(created=f"common-{serial}")
            except SessionExists:
                say(exists=f"common-{serial}")


def main(mode: str, root: str, session: str, name: str, number: int) -> None:
    if mode == "create":
        create(root, session, name, number)
        return
    with smp_memory.open(root) as memory:
        modes = (write, storm, watch, count, keys, saturate, insist, hold)
        {work.__name__: work for work in modes}[mode](memory.session(session), name, number)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:5], int(sys.argv[5]))
    except SMPError as error:
        say(error=type(error).__name__, message=str(error))
        sys.exit(3)
