"""A store in PostgreSQL beside plain SQL on the same server, and beside a store in files. Called by `./dev bench postgres`.

    python benchmarks/postgres.py [--address ADDRESS] [--memories 100000] [--only writes,clients,queries,hook,feed,convert]

Without an address a server is started on a socket in a temporary folder, with fsync. Rounds of one side alternate with rounds of the
other; what counts is the ratio, or the promise beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from statistics import median, quantiles

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]
os.environ.setdefault("SMP_STATE_DIR", tempfile.mkdtemp(prefix="smp-bench-state-"))

import psycopg  # noqa: E402
from queries import Texts  # noqa: E402

import smp_memory  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = {"privacy": {"redaction": {"enabled": False}}, "storage": {"max_session_size_mb": 250}}
_SESSIONS = 100
_HOOK = "import sys; from smp_memory.cli.main import main; sys.exit(main(['hook']))"


@contextmanager
def a_server(address: str | None) -> Iterator[str]:
    if address:
        yield address
        return
    from tests.postgres_server import Server

    server = Server.new(fsync=True)
    try:
        yield server.address()
    finally:
        server.remove()


class Bench:
    """One run: a server, and how many memories."""

    def __init__(self, address: str, memories: int) -> None:
        self.address, self.memories = address, memories
        self._sql = psycopg.connect(address, autocommit=True)

    def store(self, name: str) -> str:
        """The address of a new, empty store."""
        self._sql.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        return f"{self.address}&schema={name}"

    def writes(self) -> None:
        self._sql.execute("DROP TABLE IF EXISTS bare; CREATE TABLE bare (id bigserial PRIMARY KEY, line text)")
        with smp_memory.open(self.store("bench_writes")) as memory:
            session = memory.create_session("s1", user="u")
            session.add_decision("Use OAuth 2.0 for the sign-in of customers", rationale="single sign-on", author="a")
            line = "x" * 330  # what one such entry takes

            def bare() -> None:
                self._sql.execute("BEGIN")
                self._sql.execute("INSERT INTO bare (line) VALUES (%s)", (line,))
                self._sql.execute("COMMIT")

            def add() -> None:
                session.add_decision(
                    "Use OAuth 2.0 for the sign-in of customers", rationale="single sign-on", author="a"
                )

            plain, ours = in_turns(bare, add, 200, 7)
        say(
            "durable add",
            f"{ours * 1e6:.0f} µs; BEGIN, INSERT, COMMIT {plain * 1e6:.0f} µs",
            plain / ours,
            "≥ 0.7 of its rate",
        )

    def clients(self, count: int = 64, writes: int = 50) -> None:
        where = self.store("bench_clients")
        with smp_memory.open(where) as memory:
            for number in range(8):
                memory.create_session(f"s{number}", user="u")
        errors: list[str] = []

        def client(number: int) -> None:
            try:
                with smp_memory.open(where) as memory:
                    session = memory.session(f"s{number % 8}")
                    for each in range(writes):
                        session.add_finding(f"Finding {each} of client {number}", severity="low", author=f"c{number}")
            except Exception as error:
                errors.append(repr(error))

        threads = [threading.Thread(target=client, args=(number,)) for number in range(count)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
        with smp_memory.open(where) as memory:
            stored = sum(len(memory.session(f"s{number}").records()) for number in range(8))
        text = f"{count * writes / seconds:.0f} writes/s of {count} clients over 8 sessions, {len(errors)} errors, {count * writes - stored} lost"
        say("clients", text, len(errors), "no error")
        print(*errors[:3], sep="\n")

    def filled(self) -> str:
        where = self.store("bench_filled")
        texts = Texts()
        start = time.perf_counter()
        with smp_memory.open(where, config=SETTINGS) as memory:
            for number in range(_SESSIONS):
                session = memory.create_session(f"session-{number:03d}", user="u")
                session.add_many([texts.memory() for _ in range(self.memories // _SESSIONS)])
            seconds = time.perf_counter() - start
            size = self._sql.execute("SELECT pg_total_relation_size('bench_filled.entry')").fetchone()
            say(
                "filled",
                f"{self.memories / seconds:.0f} memories/s by add_many, {size[0] / self.memories:.0f} bytes each",
                0,
                "",
            )
            start = time.perf_counter()
            memory.reindex()
            say(
                "first catch-up",
                f"{self.memories / (time.perf_counter() - start):.0f} memories/s, with all vectors",
                0,
                "",
            )
        return where

    def queries(self, where: str) -> None:
        with smp_memory.open(where, config=SETTINGS) as memory:
            memory.query("warm up")
            times = []
            for words in Texts().questions(200):
                start = time.perf_counter()
                memory.query(words, limit=10)
                times.append(time.perf_counter() - start)
        p95 = quantiles(times, n=20)[-1]
        say(
            f"five words over {self.memories:,}",
            f"p50 {median(times) * 1e3:.1f}, p95 {p95 * 1e3:.1f} ms",
            p95 * 1e3,
            "p95 ≤ 50 ms",
        )

    def feed(self, rate: int = 200, seconds: int = 10) -> None:
        where = self.store("bench_feed")
        with smp_memory.open(where) as memory:
            memory.create_session("s1", user="u")
            memory.query("nothing")
        script = (
            "import sys, time, smp_memory\n"
            "session = smp_memory.open(sys.argv[1]).session('s1')\n"
            f"start = time.time()\n"
            f"for n in range({rate * seconds}):\n"
            f"    time.sleep(max(0, start + n / {rate} - time.time()))\n"
            "    session.add_finding(f'number{n:06d} was written at {time.time():.6f}', severity='low', author='a')\n"
        )
        writer = subprocess.Popen([sys.executable, "-c", script, where])
        lags, seen = [], -1
        with smp_memory.open(where) as memory:
            while writer.poll() is None:
                start = time.time()
                for hit in memory.query("written", limit=1, sort="newest"):
                    number, written = int(hit.text[6:12]), float(hit.text.rpartition(" ")[2])
                    if number > seen:
                        seen = number
                        lags.append(start - written)
                time.sleep(0.02)
        say(
            "feed",
            f"{rate} writes/s: what the newest hit was behind: p50 {median(lags) * 1e3:.0f}, most {max(lags) * 1e3:.0f} ms",
            max(lags),
            "≤ 1 s",
        )

    def hook(self, where: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files = os.path.join(folder, "files")
            texts = Texts()
            with smp_memory.open(files, config=SETTINGS) as memory:
                for number in range(_SESSIONS):
                    session = memory.create_session(f"session-{number:03d}", user="u")
                    session.add_many([texts.memory() for _ in range(self.memories // _SESSIONS)])
                memory.reindex()
            sides = [hook_of(files, folder), hook_of(where, folder)]
            plain, ours = in_turns(sides[0], sides[1], 1, 15)
        say("hook, a prompt", f"{ours * 1e3:.0f} ms; on files {plain * 1e3:.0f} ms", ours / plain, "≤ 1.5 of files")

    def convert(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            texts = Texts()
            files = os.path.join(folder, "files")
            with smp_memory.open(files, config={**SETTINGS, "durability": "os"}) as memory:
                for number in range(20):
                    session = memory.create_session(f"session-{number:03d}", user="u")
                    session.add_many([texts.memory() for _ in range(self.memories // 20)])
            for source, target in (
                (files, self.store("bench_convert")),
                (f"{self.address}&schema=bench_convert", os.path.join(folder, "back")),
            ):
                start = time.perf_counter()
                words = [sys.executable, "-m", "smp_memory", "--root", source, "convert", "--to", target]
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                rate = self.memories / (time.perf_counter() - start)
                say(
                    f"convert to {'files' if target.endswith('back') else 'PostgreSQL'}",
                    f"{rate:.0f} memories/s",
                    rate,
                    "≥ 5,000/s",
                )
                if done.returncode:
                    print(done.stderr[-2000:])


def hook_of(root: str, folder: str) -> Callable[[], object]:
    environment = {**os.environ, "SMP_ROOT": root}
    subprocess.run(
        [sys.executable, "-m", "smp_memory", "trust", root], env=environment, capture_output=True, check=False
    )
    count = 0

    def call() -> None:
        nonlocal count
        count += 1
        event = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": f"c{root}{count}",
            "cwd": folder,
            "prompt": "Why does the login service reject every request without a token?",
        }
        done = subprocess.run(
            [sys.executable, "-c", _HOOK],
            input=json.dumps(event),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return call


def in_turns(one: Callable[[], object], other: Callable[[], object], times: int, rounds: int) -> tuple[float, float]:
    """Median seconds of each over rounds in turn."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, seconds in zip((one, other), found, strict=True):
            start = time.perf_counter()
            for _ in range(times):
                call()
            seconds.append((time.perf_counter() - start) / times)
    return median(found[0]), median(found[1])


def say(what: str, text: str, figure: float, wanted: str) -> None:
    print(f"{what:28}{text}" + (f"   {figure:.2f} (wanted: {wanted})" if wanted else ""), flush=True)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of a database that the benchmark may fill; default: a server of its own")
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--only", default="writes,clients,feed,convert,queries,hook")
    options = parser.parse_args(words)
    names = options.only.split(",")
    with a_server(options.address) as address:
        bench = Bench(address, options.memories)
        for name in ("writes", "clients", "feed", "convert"):
            if name in names:
                getattr(bench, name)()
        if "queries" in names or "hook" in names:
            where = bench.filled()
            for name in ("queries", "hook"):
                if name in names:
                    getattr(bench, name)(where)
    return 0


if __name__ == "__main__":
    sys.exit(main())
