"""The index is deleted, cut, flipped, old, half-built, locked, on a full or read-only disk: answers stay right."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import smp_memory
from smp_memory.errors import SMPError
from tests.crash.processes import SOURCE
from tests.crash.restricted_disks import run_on_read_only_store, small_file_system
from tests.crash.scenarios import SOAK, depth
from tests.user_state import state_folder

pytestmark = pytest.mark.crash

QUERY_PROCESS = Path(__file__).with_name("query_process.py")
SESSIONS, EACH = 3, 12


class QueryProcess:
    """One process of query_process.py; what a test leaves running is killed behind it."""

    started: ClassVar[list[QueryProcess]] = []

    def __init__(self, mode: str, root: Path, number: int = 0) -> None:
        self.said: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, str(QUERY_PROCESS), mode, str(root), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "error", "RUST_BACKTRACE": "0"},
        )
        self.started.append(self)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with self._heard:
                self.said.append(json.loads(line))
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()

    def wait_for(self, word: str, count: int = 1) -> list[dict[str, Any]]:
        with self._heard:
            self._heard.wait_for(lambda: len(self.having(word)) >= count or self.process.poll() is not None, 60)
        found = self.having(word)
        assert len(found) >= count, (self.said[-3:], self.errors())
        return found

    def having(self, word: str) -> list[dict[str, Any]]:
        return [what for what in self.said if word in what]

    def tell(self, **task: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write((json.dumps(task) + "\n").encode())
        self.process.stdin.flush()

    def errors(self) -> str:
        assert self.process.stderr
        return self.process.stderr.read().decode()[-3000:] if self.process.poll() is not None else ""

    def stop(self) -> None:
        """Its input ends; it must end well."""
        assert self.process.stdin
        self.process.stdin.close()
        code = self.process.wait(100)
        self._listener.join(100)
        errors = self.errors()
        self._close()
        assert code == 0, (code, errors, self.said[-3:])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(100)
        self._listener.join(100)
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    while QueryProcess.started:
        QueryProcess.started.pop().kill()


@pytest.fixture(autouse=True)
def small_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smp_memory.index.text.TAIL_LIMIT", 20)
    monkeypatch.setattr("smp_memory.index.stored_feed._PATIENCE_SECONDS", 0.3)


def filled(root: Path) -> Path:
    """A store whose index is partly in tantivy and partly in the tail."""
    with smp_memory.open(root, config={"durability": "os"}) as memory:
        for number in range(SESSIONS):
            session = memory.create_session(f"s{number}")
            session.add_many(
                [("decision", {"decision": f"alpha q{n}q {'x' * 50}", "tags": ["a.b"]}) for n in range(EACH)]
            )
        memory.query("alpha")
        memory.session("s1").add_decision("alpha late")
        memory.session("s2").delete("DEC-0003")
        memory.query("alpha")
    return root


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smp_memory.index.text.TAIL_LIMIT", 20)
        return filled(tmp_path_factory.mktemp("template") / "store")


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "store")


def copied(store: Path, to: Path) -> Path:
    """A copy of a store, and of its index."""
    shutil.copytree(store, to, copy_function=shutil.copy2)
    smp_memory.open(to).close()
    shutil.copytree(state_folder(store) / "index", state_folder(to) / "index", copy_function=shutil.copy2)
    return to


ALL = SESSIONS * EACH + 1 - 1


def check_right(root: Path, *, complete: bool = True) -> None:
    """No hit is wrong, and at the latest the second answer is complete."""
    with smp_memory.open(root) as memory:
        hits = memory.query("alpha", limit=10_000)
        check_hits(memory, hits)
        hits = memory.query("alpha", limit=10_000)
        check_hits(memory, hits)
        if complete:
            assert len(hits) == ALL
            assert len(memory.query("q7q", limit=100)) == SESSIONS
            assert len(memory.query(tags="a", limit=10_000)) == ALL - 1
            assert memory.session("s2").query("q2q").ids == []


def check_hits(memory: smp_memory.Memory, hits: Any) -> None:
    for hit in hits:
        assert hit.record == memory.session(hit.session).get(hit.id)


def index_files(root: Path) -> list[Path]:
    """The files of the index; other processes may be removing folders of it meanwhile."""
    walked = os.walk(state_folder(root) / "index")  # skips a folder that is gone, unlike Path.rglob
    return sorted(Path(folder, name) for folder, _, names in walked for name in names)


def rows_files(root: Path) -> list[Path]:
    return [path for path in index_files(root) if path.name == "rows.sqlite"]


def rows_file(root: Path) -> Path:
    (path,) = rows_files(root)
    return path


# -- damage while nobody looks


def test_deleted_index_is_rebuilt(root: Path) -> None:
    shutil.rmtree(state_folder(root) / "index")
    check_right(root)


def test_deleting_any_file_of_the_index(root: Path, tmp_path: Path) -> None:
    for number, path in enumerate(index_files(root)):
        twin = copied(root, tmp_path / f"twin{number}")
        (state_folder(twin) / path.relative_to(state_folder(root))).unlink()
        check_right(twin, complete=False)
        rebuilt(twin)


def test_truncating_any_file_of_the_index(root: Path, tmp_path: Path) -> None:
    for number, path in enumerate(index_files(root)):
        for share in (0, 0.6) if SOAK else (0.6,):
            twin = copied(root, tmp_path / f"twin{number}-{share}")
            size = path.stat().st_size
            os.truncate(state_folder(twin) / path.relative_to(state_folder(root)), int(size * share))
            check_right(twin, complete=False)
            rebuilt(twin)
            shutil.rmtree(twin)


@pytest.mark.parametrize("seed", range(depth(8, 60)))
def test_flipped_bytes_never_give_a_wrong_memory(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = [path for path in index_files(root) if path.stat().st_size]
    path = files[seed % len(files)] if seed < len(files) else chance.choice(files)
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 3, 30, 300])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    with smp_memory.open(root) as memory:
        for asked in ({"text": "alpha"}, {"text": "q7q late"}, {"tags": "a"}, {"text": "q1*", "sort": "newest"}, {}):
            check_hits(memory, memory.query(**asked, limit=10_000, count_by=["type", "tag", "agent", "session"]))  # type: ignore[arg-type]
        memory.find_related("s1/DEC-0001")
        memory.session("s1").priority("DEC-0001")
    rebuilt(root)


UNNOTICED = [
    "UPDATE session SET files = '{'",
    "UPDATE session SET files = '[]'",
    "UPDATE session SET files = '{\"decisions.jsonl\": [1]}'",
    "UPDATE memory SET places = 'x'",
    "UPDATE memory SET places = ''",
    "UPDATE memory SET places = '1:0:5'",
    "UPDATE memory SET places = '999:0:5'",
    "UPDATE memory SET places = '1:-5:99999999'",
    "UPDATE memory SET type = 99",
    "UPDATE memory SET type = 'x'",
    "UPDATE memory SET created = 'x'",
    "UPDATE memory SET author = 4711",
    "UPDATE memory SET importance = 'x'",
    "UPDATE meta SET value = 'x' WHERE key = 'generation'",
    "UPDATE meta SET value = 77 WHERE key = 'generation'",
    "UPDATE meta SET value = '../../../etc' WHERE key = 'text_folder'",
    "UPDATE session SET id = 'other' WHERE no = 1",
    "UPDATE session SET size = 'x'",
    "UPDATE session SET watched = 'x'",
    "UPDATE session SET stats = x'00'",
    "UPDATE session SET stats = 5",
    "UPDATE session SET about = 'x'",
    "INSERT OR REPLACE INTO meta VALUES ('listed', 'x'), ('marks', 5), ('checked', 'x')",
    "DELETE FROM name",
    "DELETE FROM session",
    "DELETE FROM memory",
    "DROP TABLE recent",
    "DROP TABLE session",
    "UPDATE recent SET version = version + 1",
    "UPDATE recent SET version = x'ff'",
    "UPDATE block SET data = x'ff'",
    "UPDATE block SET data = 5",
    f"UPDATE block SET data = x'{zlib.compress(b'[1]').hex()}'",
    f"UPDATE block SET data = x'{zlib.compress(b'[[16777216],[7],[8],[9],[0]]').hex()}'",
    "DELETE FROM block",
]


def test_flipped_bytes_in_rows_that_sqlite_accepts(root: Path) -> None:
    """What SQLite does not notice: JSON, places, numbers and types that are none."""
    for change in UNNOTICED if SOAK else random.sample(UNNOTICED, 7):
        with sqlite3.connect(rows_file(root)) as rows:
            rows.execute(change)
        rows.close()
        with smp_memory.open(root) as memory:
            try:
                for text in ("alpha", None, "late"):
                    check_hits(memory, memory.query(text, limit=10_000, count_by=["type", "agent", "session", "day"]))
                memory.session("s1").add_decision("written all the same")
                check_hits(memory, memory.query("alpha", limit=10_000, sort="importance"))
            except BaseException as error:
                raise AssertionError(f"{change}: {type(error).__name__}: {error}") from error
        rebuilt(root)
        with smp_memory.open(root) as memory:
            session = memory.session("s1")
            session.delete(next(record.id for record in session.records() if "all the same" in record.text))
            memory.query("alpha")


def rebuilt(root: Path) -> None:
    """After a rebuild all is found, whatever there was before."""
    with smp_memory.open(root) as memory:
        assert memory.store.indexer.rebuild() >= ALL
        assert not memory.store.indexer.feed.caught_up(None).is_in_memory
        hits = memory.query("alpha", limit=10_000)
        assert len(hits) == ALL
        check_hits(memory, hits)


@pytest.mark.parametrize("version", [0, 99, -1])
def test_index_of_another_version_is_rebuilt(root: Path, version: int) -> None:
    rows = sqlite3.connect(rows_file(root))
    rows.execute(f"PRAGMA user_version = {version}")
    rows.commit()
    rows.close()
    check_right(root)


def test_foreign_file_in_place_of_the_index(root: Path) -> None:
    shutil.rmtree(state_folder(root) / "index")
    (state_folder(root) / "index").write_bytes(b"not a folder")
    check_right(root)
    (state_folder(root) / "index").unlink()
    check_right(root)


# -- other processes


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.3])
def test_process_killed_while_it_builds_the_index(root: Path, pause: float) -> None:
    for _ in range(depth(1, 5)):
        shutil.rmtree(state_folder(root) / "index", ignore_errors=True)
        builder = QueryProcess("build", root)
        builder.wait_for("taken")
        time.sleep(pause)
        builder.kill()
        check_right(root)


def test_index_locked_by_another_process(root: Path) -> None:
    """An answer does not wait for ever, and is complete; writes do not care."""
    rows = sqlite3.connect(rows_file(root), isolation_level=None)
    rows.execute("BEGIN EXCLUSIVE")
    with smp_memory.open(root) as memory:
        memory.session("s1").add_decision("alpha fresh")
        hits = memory.query("alpha", limit=10_000)
        check_hits(memory, hits)
        assert len(hits) == ALL + 1
        assert memory.session("s1").query("fresh").ids == [hits[0].id] or memory.session("s1").query("fresh")
        rows.execute("ROLLBACK")
        rows.close()
        assert len(memory.query("alpha", limit=10_000)) == ALL + 1
        assert not memory.store.indexer.feed.caught_up(None).is_in_memory


def _delete(root: Path) -> None:
    shutil.rmtree(state_folder(root) / "index", ignore_errors=True)


def _delete_files(root: Path) -> None:
    for path in index_files(root):
        path.unlink(missing_ok=True)


def _delete_text(root: Path) -> None:
    for path in {path.parent for path in index_files(root) if path.parent.name.startswith("text-")}:
        shutil.rmtree(path, ignore_errors=True)


def _replace_by_garbage(root: Path) -> None:
    for path in index_files(root):
        fresh = path.with_name("fresh")
        try:
            fresh.write_bytes(os.urandom(path.stat().st_size // 2))
            os.replace(fresh, path)
        except OSError:
            pass


def _rebuild(root: Path) -> None:
    with smp_memory.open(root) as memory:
        memory.store.indexer.rebuild()


def _old_version(root: Path) -> None:
    for path in rows_files(root):
        rows = sqlite3.connect(path, timeout=1)
        try:
            rows.execute("PRAGMA user_version = 77")
            rows.commit()
        except sqlite3.Error:
            pass
        rows.close()


def _lock(root: Path) -> None:
    for path in rows_files(root):
        rows = sqlite3.connect(path, timeout=1, isolation_level=None)
        try:
            rows.execute("BEGIN EXCLUSIVE")
            time.sleep(0.2)
        except sqlite3.Error:
            pass
        rows.close()


def _kill_a_builder(root: Path) -> None:
    builder = QueryProcess("build", root)
    builder.wait_for("taken", 2)
    builder.kill()


DAMAGES: list[Callable[[Path], None]] = [
    _delete, _delete_files, _delete_text, _replace_by_garbage, _rebuild, _old_version, _lock, _kill_a_builder,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_index_damaged_while_queries_run(root: Path, damage: Callable[[Path], None]) -> None:
    """Two processes ask, a third one writes, and all the time somebody spoils the index."""
    query_processes = [QueryProcess("query", root, ALL) for _ in range(2)]
    for query_process in query_processes:
        query_process.wait_for("asking")
    written = 0
    with smp_memory.open(root, config={"durability": "os"}) as memory:
        for _ in range(depth(2, 10)):
            damage(root)
            memory.session("s0").add_many([("decision", {"decision": "alpha more"})] * 8)
            written += 8
            check_hits(memory, memory.query("alpha", limit=10_000))
            damage(root)
            assert len(memory.query("alpha", limit=10_000)) == ALL + written
    for query_process in query_processes:
        query_process.stop()
        assert not query_process.having("wrong"), query_process.having("wrong")
        assert not query_process.having("refused"), query_process.having("refused")
        assert query_process.having("asked")[0]["least"] >= ALL
    with smp_memory.open(root) as memory:
        assert len(memory.query("alpha", limit=10_000)) == ALL + written
        memory.query("alpha")
        assert not memory.store.indexer.feed.caught_up(None).is_in_memory


# -- disks


READ_ONLY = """
import sys
import smp_memory
with smp_memory.open(sys.argv[1]) as memory:
    for _ in range(2):
        hits = memory.query("alpha", limit=10_000)
        assert len(hits) == int(sys.argv[2]), len(hits)
        assert all(hit.record == memory.session(hit.session).get(hit.id) for hit in hits)
        assert memory.session("s1").query("late").ids == ["DEC-0013"]
        memory.find_similar("s1/DEC-0001")
"""


@pytest.mark.parametrize("with_index", [True, False])
def test_read_only_store_is_queried(root: Path, with_index: bool) -> None:
    if not with_index:
        shutil.rmtree(state_folder(root) / "index")
    run_on_read_only_store(root, READ_ONLY, str(ALL))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "small", "1m") as folder:
        yield folder


@pytest.mark.parametrize("room", [0, 4096, 40_000, 150_000])
def test_query_is_answered_on_a_full_disk(small_disk: Path, room: int) -> None:
    with smp_memory.open(small_disk / "store", config={"durability": "os"}) as memory:
        session = memory.create_session("full")
        session.add_many([("decision", {"decision": f"alpha {n} {'words ' * 20}"}) for n in range(60)])
        free = os.statvfs(small_disk)
        (small_disk / "filler").write_bytes(bytes(max(free.f_bavail * free.f_frsize - room, 0)))
        count = 60
        for attempt in range(3):
            hits = memory.query("alpha", limit=1000)
            check_hits(memory, hits)
            assert len(hits) == count
            try:
                session.add_decision(f"alpha again {attempt}")
                count += 1
            except SMPError as error:
                assert "full" in str(error) or "space" in str(error).lower()
        (small_disk / "filler").unlink()
        session.add_decision("alpha last")
        assert len(memory.query("alpha", limit=1000)) == count + 1
        assert not memory.store.indexer.feed.caught_up(None).is_in_memory
