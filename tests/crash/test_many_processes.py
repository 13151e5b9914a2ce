"""Many processes and threads write at once: everything is stored exactly once, and no writer waits for ever."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import LockTimeout
from tests.crash.processes import Worker, run_all, run_script
from tests.crash.scenarios import LAYOUTS, depth

pytestmark = pytest.mark.crash


def new_store(root: Path, layout: str, **config: Any) -> smp_memory.Memory:
    memory = smp_memory.open(root / "store", layout=layout, config=config or None)
    memory.create_session("shared")
    return memory


def texts(session: Any) -> list[str]:
    names = {"decision": "decision", "finding": "finding", "conversation": "content"}
    return [getattr(record, names[record.type]) for record in session.records()]


def check_exactly_once(session: Any, workers: list[Worker]) -> None:
    said = [(what["id"], what["text"]) for worker in workers for what in worker.said if "text" in what]
    assert len({name for name, _ in said}) == len(said), "an id was given twice"
    found = Counter(texts(session))
    assert found == Counter(text for _, text in said)
    stored = {record.id: record for record in session.records()}
    assert all(text in str(stored[name].to_dict()) for name, text in said)
    assert session.validate().ok


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sixteen_processes(layout: str, tmp_path: Path) -> None:
    count = depth(200, 200) if layout == "jsonl" else depth(40, 50)
    with new_store(tmp_path, layout) as memory:
        workers = [Worker("write", memory.root, "shared", f"w{number}", count) for number in range(16)]
        run_all(workers)
        session = memory.session("shared")
        assert len(session.records()) == 16 * count
        check_exactly_once(session, workers)
        with smp_memory.open(memory.root) as fresh:
            assert len(fresh.session("shared").records()) == 16 * count


@pytest.mark.parametrize("layout", LAYOUTS)
def test_eight_threads_in_one_memory(layout: str, tmp_path: Path) -> None:
    """Adds, updates and transactions of threads that share a session, and another process beside them."""
    count = depth(12, 25) if layout == "jsonl" else depth(6, 8)  # of four writes each
    done: list[str] = []
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            session = memory.session("shared")
            for serial in range(count):
                done.append(session.add_decision(f"{name}-{serial}").id)
                session.update(done[-1], impact=serial)
                with session.transaction() as tx:
                    wishes = [tx.add_finding(f"{name}-{serial}"), tx.add_turn("user", f"{name}-{serial}")]
                done.extend(wish.id for wish in wishes)
                done.append(session.add_turn("user", f"{name}+{serial}").id)
        except BaseException as error:
            errors.append(error)

    with new_store(tmp_path, layout) as memory:
        other = Worker("write", memory.root, "shared", "other", 60)
        threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run_all([other])
        assert not errors
        done.extend(other.heard("id"))
        session = memory.session("shared")
        assert sorted(record.id for record in session.records()) == sorted(done)
        assert len(set(done)) == 8 * count * 4 + 60
        with smp_memory.open(memory.root) as fresh:
            assert [record.to_dict() for record in fresh.session("shared")] == [record.to_dict() for record in session]
        assert session.validate().ok


@pytest.mark.parametrize("layout", LAYOUTS)
def test_concurrent_creation_yields_one_store_and_its_sessions(layout: str, tmp_path: Path) -> None:
    for attempt in range(depth(2, 2)):
        root = tmp_path / f"store-{attempt}"
        workers = [Worker("create", root, layout, f"w{number}", 5) for number in range(8)]
        run_all(workers)
        created = Counter(name for worker in workers for name in worker.heard("created"))
        assert created == {f"common-{serial}": 1 for serial in range(5)}
        with smp_memory.open(root) as memory:
            assert memory.layout == layout
            own = {f"w{number}-{serial}" for number in range(8) for serial in range(5)}
            assert {session.id for session in memory.sessions()} == own | set(created)
            assert all(len(memory.session(name).records()) == 1 for name in own)


def test_concurrent_creation_in_different_layouts_yields_one_layout(tmp_path: Path) -> None:
    """Whoever creates the store decides; the others are told, and nothing is mixed."""
    workers = [Worker("create", tmp_path / "store", layout, f"w-{layout}", 2) for layout in LAYOUTS]
    codes = {worker.name: worker.join() for worker in workers}
    won = [name for name, code in codes.items() if code == 0]
    assert len(won) == 1
    assert all(worker.heard("error") == ["LayoutMismatch"] for worker in workers if worker.name not in won)
    with smp_memory.open(tmp_path / "store") as memory:
        assert f"w-{memory.layout}" == won[0]


def check_no_lost_update(root: Path, layout: str, *, workers: int = 6, each: int = 25) -> None:
    with new_store(root, layout) as memory:
        session = memory.session("shared")
        session.add_decision("a counter", impact=0)
        started = [Worker("count", memory.root, "shared", f"w{number}", each) for number in range(workers)]
        run_all(started)
        record = session.get("DEC-0001")
        assert record.impact == workers * each
        assert record.revision == workers * each + 1
        values = [step["changes"]["impact"]["to"] for step in session.history("DEC-0001")]
        assert values == list(range(workers * each + 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_lost_update(layout: str, tmp_path: Path) -> None:
    check_no_lost_update(tmp_path, layout, each=depth(20, 20))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_idempotency_key_from_many_processes_yields_one_memory(layout: str, tmp_path: Path) -> None:
    with new_store(tmp_path, layout) as memory:
        workers = [Worker("keys", memory.root, "shared", f"w{number}", 20) for number in range(8)]
        run_all(workers)
        ids = {(what["key"], what["id"]) for worker in workers for what in worker.said}
        assert len(ids) == 20
        assert len(memory.session("shared").records()) == 20


def test_lock_timeout_names_the_holder_and_ends_with_it(tmp_path: Path) -> None:
    with new_store(tmp_path, "jsonl", concurrency={"lock_timeout_ms": 300}) as memory:
        session = memory.session("shared")
        session.add_decision("before")
        holder = Worker("hold", memory.root, "shared", "holder")
        pid = holder.wait_for("held")["held"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(LockTimeout) as caught:
                session.add_decision("not now")
            assert f"process {pid} " in str(caught.value)
            assert "holding it" in str(caught.value)
            assert len(session.records()) == 1, "reading needs no lock"
        finally:
            holder.kill()
        session.add_decision("now")
        assert texts(session) == ["before", "now"]


def test_no_writer_starves(tmp_path: Path) -> None:
    with new_store(tmp_path, "jsonl") as memory:
        workers = [Worker("saturate", memory.root, "shared", f"w{number}") for number in range(8)]
        session = memory.session("shared")
        for worker in workers:
            worker.wait_for("first")
        for _ in range(depth(10, 50)):
            session.add_decision("here too")
        for worker in workers:
            worker.wait_for("third")
        for worker in workers:  # all at once: while one closes, the others would fill the session
            worker.tell_to_stop()
        for worker in workers:
            assert worker.join() == 0, worker.said[-1]
        counts = [worker.heard("count")[0] for worker in workers]
        assert len(session.records()) == sum(counts) + texts(session).count("here too")


FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # that forking beside threads is dangerous is what this is about
import smp_memory
from smp_memory.errors import LockTimeout

root, layout = sys.argv[1:]
memory = smp_memory.open(root, layout=layout, config={"concurrency": {"lock_timeout_ms": 20000}})
session = memory.create_session("shared")
stop = threading.Event()
written = []

def write(name):
    number = 0
    while not stop.is_set() and number < 5000:  # a busy machine may take minutes for the forks: not beyond the quota
        written.append(session.add_decision(f"{name} {number}").id)
        number += 1

threads = [threading.Thread(target=write, args=(name,)) for name in ("first", "second")]
for thread in threads:
    thread.start()
for child in range(6):
    pid = os.fork()
    if pid == 0:
        for number in range(5):
            session.add_decision(f"child {child} {number}")
            session.records()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"
stop.set()
for thread in threads:
    thread.join()

# The parent holds the lock; a child comes and goes: the lock stays.
def work():
    pid = os.fork()
    if pid == 0:
        memory.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    other = smp_memory.open(root, config={"concurrency": {"lock_timeout_ms": 100}}).session("shared")
    try:
        other.add_decision("in between")
    except LockTimeout:
        return True
    return False

assert memory.store.session("shared").run_locked("forking", work), "a child's end freed its parent's lock"
texts = [record.decision for record in session.records()]
assert len(set(texts)) == len(texts) == len(written) + 30, (len(texts), len(written))
assert len({record.id for record in session.records()}) == len(texts)
assert session.validate().ok
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("layout", ["jsonl", "single"])
def test_fork_while_threads_write(layout: str, tmp_path: Path) -> None:
    run_script(FORK, str(tmp_path / "store"), layout)


LOADING = """
import sys, threading
import smp_memory

store = sys.argv[1]
smp_memory.open(store, layout=sys.argv[2]).create_session("shared")
for name in [each for each in sys.modules if each.startswith("smp_memory")]:
    del sys.modules[name]  # as in a new process
import smp_memory
sys.setswitchinterval(1e-5)
together = threading.Barrier(2)

def use():
    together.wait()
    smp_memory.open(store).session("shared").records()

def load():
    together.wait()
    import smp_memory.session

threads = [threading.Thread(target=work, daemon=True) for work in (use, load)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(20)
    assert not thread.is_alive(), "the threads wait for each other"
"""


@pytest.mark.parametrize("attempt", range(depth(4, 40)))
def test_threads_that_load_modules_do_not_wait_for_each_other(attempt: int, tmp_path: Path) -> None:
    """One loaded a module through a door and needed one that the other was loading, which needed the door."""
    run_script(LOADING, str(tmp_path / "store"), "jsonl")


TORN = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import smp_memory
from smp_memory.files.reader import SessionReader
from smp_memory.import_lock import held_at_no_fork

memory = smp_memory.open(sys.argv[1], layout=sys.argv[2])
session = memory.create_session("shared")
session.add_decision("one")
if sys.argv[1] == ":memory:":
    held = threading.Event()

    def hold():
        with held_at_no_fork:  # as a call does
            held.set()
            time.sleep(0.2)

    threading.Thread(target=hold).start()
    held.wait()
else:
    smp_memory.open(sys.argv[1]).session("shared").add_many([("decision", "two"), ("decision", "three")])
    rebuild_history, reading, forked = SessionReader._rebuild_history, threading.Event(), threading.Event()

    def stopped(self, *told):
        reading.set()
        forked.wait()
        rebuild_history(self, *told)

    SessionReader._rebuild_history = stopped
    threading.Thread(target=session.records).start()
    reading.wait()
    SessionReader._rebuild_history = rebuild_history
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    print(len(session.records()), session.add_decision("more").id, flush=True)
    os._exit(0)
if sys.argv[1] != ":memory:":
    forked.set()
assert os.waitpid(pid, 0)[1] == 0, "the child failed"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("where", ["store", ":memory:"])
def test_forked_child_ignores_unfinished_work_of_threads(layout: str, where: str, tmp_path: Path) -> None:
    """It read the new entries as read and never saw them, or waited for a thread that it does not have."""
    said = run_script(TORN, where if where == ":memory:" else str(tmp_path / where), layout)
    assert said == ("1 DEC-0002\n" if where == ":memory:" else "3 DEC-0004\n")
