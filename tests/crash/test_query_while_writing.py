"""Two processes write while four query: acknowledged writes are found by the next query of every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.activity import slot_of
from tests.conformance.layout_files import decisions_file
from tests.crash.processes import SOURCE, run_script
from tests.crash.scenarios import depth
from tests.crash.test_index import QueryProcess, no_process_is_left

__all__ = ["no_process_is_left"]  # a fixture

pytestmark = pytest.mark.crash


@pytest.fixture(autouse=True)
def small_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smp_memory.index.text.TAIL_LIMIT", 20)


WRITER = """
import json, sys
import smp_memory
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with smp_memory.open(root) as memory:
    for serial in range(count):
        session = memory.session(("s1", "s2", f"own-{name}")[serial % 3]) if serial else memory.create_session(f"own-{name}")
        word = f"z{name}{serial}z"
        if serial % 5 == 4:
            with session.transaction() as tx:
                wish = tx.add_decision(f"decided {word}")
                tx.add_finding(f"found {word}", severity="low")
        else:
            wish = session.add_decision(f"decided {word}")
        print(json.dumps({"session": session.id, "id": wish.id, "word": word, "want": True, "text": word}), flush=True)
        sys.stdin.readline()
        if serial % 4 == 1:
            session.update(wish.id, decision=f"changed {word}y")
            print(json.dumps({"session": session.id, "id": wish.id, "word": word + "y", "want": True, "text": word + "y"}), flush=True)
            sys.stdin.readline()
            print(json.dumps({"session": session.id, "id": wish.id, "word": word, "want": False}), flush=True)
            sys.stdin.readline()
        if serial % 4 == 2:
            session.delete(wish.id)
            print(json.dumps({"session": session.id, "id": wish.id, "word": word, "want": False}), flush=True)
            sys.stdin.readline()
            session.restore(wish.id)
            print(json.dumps({"session": session.id, "id": wish.id, "word": word, "want": True}), flush=True)
            sys.stdin.readline()
"""


def start_writer(root: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(root), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "error"},
    )


class Board:
    """Passes on what writers announce to all query_processes, and waits for their answers before the writer goes on."""

    def __init__(self, query_processes: list[QueryProcess]) -> None:
        self.query_processes = query_processes
        self.serial = 0
        self.lock = threading.Lock()
        self.wrong: list[Any] = []

    def ask_all(self, task: dict[str, Any]) -> None:
        with self.lock:
            self.serial += 1
            serial = self.serial
            for number, query_process in enumerate(self.query_processes):
                query_process.tell(serial=serial, everywhere=bool((number + serial) % 2), **task)
        for query_process in self.query_processes:
            with query_process._heard:
                query_process._heard.wait_for(
                    lambda query_process=query_process: (
                        self.answered(query_process, serial) or query_process.process.poll() is not None
                    ),
                    60,
                )
            found = self.answered(query_process, serial)
            if found is None or not found["right"]:
                self.wrong.append(found or (task, query_process.errors()))

    @staticmethod
    def answered(query_process: QueryProcess, serial: int) -> dict[str, Any] | None:
        return next((what for what in reversed(query_process.said) if what.get("done") == serial), None)

    def serve(self, writer: subprocess.Popen[bytes]) -> None:
        assert writer.stdout
        assert writer.stdin
        for line in writer.stdout:
            self.ask_all(json.loads(line))
            writer.stdin.write(b"\n")
            writer.stdin.flush()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with smp_memory.open(tmp_path / "store", config={"durability": "os"}) as memory:
        for name in ("s1", "s2"):
            memory.create_session(name).add_many([("decision", {"decision": f"older {n}"}) for n in range(30)])
    return tmp_path / "store"


def test_four_processes_query_while_two_write(root: Path) -> None:
    query_processes = [QueryProcess("find", root) for _ in range(4)]
    board = Board(query_processes)
    writers = [start_writer(root, name, depth(12, 150)) for name in ("a", "b")]
    threads = [threading.Thread(target=board.serve, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        code = writer.wait(100)
        assert writer.stderr
        assert code == 0, writer.stderr.read().decode()
        for pipe in (writer.stderr, writer.stdout, writer.stdin):
            if pipe:
                pipe.close()
    for query_process in query_processes:
        query_process.stop()
    assert not board.wrong, board.wrong[:3]
    assert board.serial >= 24
    with smp_memory.open(root) as memory:
        assert not memory.store.indexer.feed.caught_up(None).is_in_memory
        assert memory.validate()["s1"].ok


def test_edits_by_hand_are_seen_by_all_processes(root: Path) -> None:
    """Edited, removed and written by hand: found as it stands, by processes that were asked before."""
    path = decisions_file(root, "jsonl")
    query_processes = [QueryProcess("find", root) for _ in range(2)]
    board = Board(query_processes)
    for number in range(min(depth(6, 27), 27)):
        word, fresh = f"older {number}", f"y{number}y"
        data = path.read_bytes()
        line = next(line for line in data.splitlines(keepends=True) if f'"{word}"'.encode() in line)
        id = f"DEC-{number + 1:04}"
        if number % 3 == 0:
            path.write_bytes(data.replace(line, line.replace(word.encode(), f"{word} {fresh}".encode())))
            board.ask_all({"session": "s1", "id": id, "word": fresh, "want": True, "text": fresh})
        elif number % 3 == 1:
            path.write_bytes(data.replace(line, b""))
            board.ask_all({"session": "s1", "id": id, "word": id, "want": False})
            path.write_bytes(data)
            board.ask_all({"session": "s1", "id": id, "word": id, "want": True})
        else:
            with smp_memory.open(root) as memory:
                memory.session("s1").delete(id)
            board.ask_all({"session": "s1", "id": id, "word": id, "want": False})
            path.write_bytes(data)  # a person takes the deletion back
            board.ask_all({"session": "s1", "id": id, "word": id, "want": True})
    for query_process in query_processes:
        query_process.stop()
    assert not board.wrong, board.wrong[:3]


# -- what is not looked at each time


@pytest.fixture
def many_sessions(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As if a look at all files took long: then only the marks tell what was written."""
    monkeypatch.setattr("smp_memory.store.change_detection._ALWAYS_SCAN_SECONDS", -1.0)
    monkeypatch.setattr("smp_memory.store.change_detection._ALWAYS_SCAN_SESSIONS", -1)
    monkeypatch.setattr("smp_memory.store.change_detection._SHORTEST_PAUSE_SECONDS", 1e9)
    return root


def test_change_table_shows_writes_of_other_processes(many_sessions: Path) -> None:
    with smp_memory.open(many_sessions) as reader, smp_memory.open(many_sessions) as writer:
        assert len(reader.query("older", limit=100)) == 60
        for number in range(5):
            session = writer.session(("s1", "s2")[number % 2])
            record = session.add_decision(f"fresh{number} x{number}x")
            assert reader.query(f"x{number}x").ids == [record.id]
            session.delete(record.id)
            assert reader.query(f"x{number}x").ids == []
            session.restore(record.id)
            assert reader.query(f"x{number}x").ids == [record.id]
            session.update(record.id, decision=f"w{number}w")
            assert reader.query(f"x{number}x").ids == []
            session.repair()
            assert reader.query(f"w{number}w").ids == [record.id]


def test_new_session_with_the_slot_of_another_is_found(many_sessions: Path) -> None:
    name = next(f"n{number}" for number in range(10**6) if slot_of(f"n{number}") == slot_of("s1"))
    with smp_memory.open(many_sessions) as reader, smp_memory.open(many_sessions) as writer:
        reader.query("older")
        writer.create_session(name).add_decision("brandnew")
        assert [hit.record.ref for hit in reader.query("brandnew")] == [f"{name}/DEC-0001"]


def test_new_session_of_another_process_is_found(many_sessions: Path) -> None:
    with smp_memory.open(many_sessions) as reader, smp_memory.open(many_sessions) as writer:
        reader.query("older")
        for number in range(5):
            writer.create_session(f"fresh{number}").add_decision(f"q{number}q")
            assert len(reader.query(f"q{number}q")) == 1


def test_converted_store_is_indexed_again(many_sessions: Path) -> None:
    with smp_memory.open(many_sessions) as memory:
        memory.query("older")
        converted = memory.convert("single")
        assert len(converted.query("older", limit=100)) == 60
        converted.session("s1").add_decision("afterwards")
        assert len(converted.query("afterwards")) == 1
        converted.close()


# -- one process


def test_threads_query_while_others_write(root: Path) -> None:
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for serial in range(depth(8, 60)):
                session = memory.session(("s1", "s2")[serial % 2])
                record = session.add_decision(f"q{name}{serial}q")
                assert [hit.record.ref for hit in memory.query(f"q{name}{serial}q")] == [record.ref]
        except BaseException as error:
            errors.append(error)

    with smp_memory.open(root, config={"durability": "os"}) as memory:
        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors


FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import smp_memory
memory = smp_memory.open(sys.argv[1], config={"durability": "os"})
memory.query("older")  # a thread that imports while another one forks is Python's own trouble
stop = threading.Event()
failed = []

def ask():
    try:
        while not stop.is_set():
            assert len(memory.query("older", limit=100)) == 60
    except BaseException as error:
        failed.append(error)

thread = threading.Thread(target=ask)
thread.start()
for child in range(5):
    pid = os.fork()
    if pid == 0:
        record = memory.session("s1").add_decision(f"q{child}q")
        assert memory.query(f"q{child}q").ids == [record.id]
        assert len(memory.query("older", limit=100)) == 60
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
    assert len(memory.query(f"q{child}q")) == 1
stop.set()
thread.join()
assert not failed, failed
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_while_a_thread_queries(root: Path) -> None:
    run_script(FORK, str(root))


MARKS_AFTER_FORK = """
import os, sys
import smp_memory
import smp_memory.store.change_detection as detection
detection._ALWAYS_SCAN_SECONDS, detection._SHORTEST_PAUSE_SECONDS = -1.0, 1e9
detection._ALWAYS_SCAN_SESSIONS = -1
memory, reader = smp_memory.open(sys.argv[1]), smp_memory.open(sys.argv[1])
session = memory.session("s1")
session.query("older")
session.add_decision("first")
reader.query("older")
pid = os.fork()
if pid == 0:
    session.add_decision("qchildq")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert len(reader.query("qchildq")) == 1
session.add_decision("qparentq")
assert len(reader.query("qparentq")) == 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_parent_and_child_set_different_bits_of_the_change_table(root: Path) -> None:
    run_script(MARKS_AFTER_FORK, str(root))


FORK_DURING_ARCHIVE_SEARCH = """
import os, sys
import smp_memory
from smp_memory.search import archive_search
memory = smp_memory.open(sys.argv[1])
memory.create_session("old").add_decision("Use zebras")
memory.archive_session("old")
assert len(memory.query("zebras", include_archived=True)) == 1
with archive_search._building[0]:  # as if another thread were making the index
    pid = os.fork()
    if pid == 0:
        os._exit(0 if len(memory.query("zebras", include_archived=True)) == 1 else 1)
    assert os.waitpid(pid, 0)[1] == 0
assert len(memory.query("zebras", include_archived=True)) == 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_child_forked_during_a_search_in_archives_can_search_them(root: Path) -> None:
    run_script(FORK_DURING_ARCHIVE_SEARCH, str(root))
