"""Sessions that one thread opens while another one lists those that are open, as the recorder behind a hook does."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import smp_memory

SESSIONS = 60
ROUNDS = 40


def test_opened_sessions_are_listed_while_another_thread_opens_some(tmp_path: Path) -> None:
    names = [f"session-{number}" for number in range(SESSIONS)]
    with smp_memory.open(tmp_path / "store") as memory:
        for name in names:
            memory.create_session(name)
        store, failures, is_done = memory.store, [], threading.Event()

        def list_opened() -> None:
            while not is_done.is_set():
                try:
                    store.opened_session_ids()
                except RuntimeError as error:
                    failures.append(error)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        listing = threading.Thread(target=list_opened)
        listing.start()
        try:
            for _ in range(ROUNDS):
                opened = [store.session(name) for name in names]
                opened.clear()
        finally:
            is_done.set()
            listing.join()
            sys.setswitchinterval(interval)
    assert failures == []
