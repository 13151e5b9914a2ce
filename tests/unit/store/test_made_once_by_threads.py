"""What a session or store makes at its first use is the same for all threads, whichever is first."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.writer import SessionWriter
from smp_memory.index.full_text_index import FullTextIndex

THREADS = 8


@pytest.mark.parametrize("made", [SessionWriter, FullTextIndex])
def test_threads_that_come_first_at_once_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: type) -> None:
    """Two writers of one session in one process would each believe that they know its files."""
    together = threading.Barrier(THREADS)
    make = made.__init__

    def all_at_once(self: object, *arguments: object) -> None:
        make(self, *arguments)
        together.wait(10)

    memory = smp_memory.open(tmp_path / "store")
    session = memory.create_session(user="u")
    with smp_memory.open(tmp_path / "store") as again:
        store = again._store  # the parts below have no name in the API
        monkeypatch.setattr(made, "__init__", all_at_once)

        def first_use(_: int) -> object:
            return store.session(session.id).writer if made is SessionWriter else store.indexer

        with ThreadPoolExecutor(THREADS) as threads:
            found = list(threads.map(first_use, range(THREADS)))
    assert len({id(one) for one in found}) == 1
    memory.close()
