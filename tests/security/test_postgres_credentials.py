"""Passwords of PostgreSQL: none in an address; those of libpq's places work, and appear in no output, file, log, table or process list."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import InvalidFormat, NotAllowed
from smp_memory.model.ids import without_password
from tests.e2e.mcp_process import Server as McpServer
from tests.postgres_server import Server

pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")
PASSWORD = "hunter2"
ADDRESSES = [
    "postgresql://ada:hunter2@db.example/memory",
    "postgres://ada:hunter2@db.example/memory",
    "postgresql://ada:hun@hunter2@db.example/memory",
    "postgresql://ada:hunter2/x@db.example/memory",
    "postgresql://ada:hunter2%zz@db.example/memory",
    "postgresql://ada:hunter2@db.example:port/memory",
    "postgresql://ada:hunter2?x@db.example/memory",
    "postgresql://ada:hunter2#x@db.example/memory",
    "postgresql://ada:hunter2]@[db.example/memory",
    "postgresql://ada@db.example/memory?password=hunter2",
    "postgresql://ada@db.example/memory?p%61ssword=hunter2",
    "postgresql://ada@db.example/memory?PASSWORD=hunter2",
    "postgresql://ada@db.example/memory?sslpassword=hunter2",
    "postgresql://ada@db.example/memory?schema=smp&password=hunter2",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_address_with_a_password_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidFormat, match=r"^where: ") as raised:
        smp_memory.open(address)
    told = "".join(traceback.format_exception(raised.value)[-1:])
    assert PASSWORD not in told + str(raised.value.details)
    assert PASSWORD not in without_password(address)


@pytest.mark.parametrize("address", ["postgresql://h/d@b", "postgresql://h:5432/d@b", "postgresql://h,i:5433/db", "postgresql://[::1]:5432/db", "postgresql:///db?host=/x@y", "postgresql:///db?passfile=/home/ada/pass"])  # fmt: skip
def test_address_without_a_password_is_shown_as_it_is(address: str) -> None:
    assert without_password(address) == address


class Account:
    """A role that needs a password, with a store of its own."""

    def __init__(self, server: Server) -> None:
        self.role = f"role_{secrets.token_hex(4)}"
        self.password = f"secret{secrets.token_hex(8)}"
        server.sql(
            f"CREATE ROLE {self.role} LOGIN PASSWORD '{self.password}'; GRANT CREATE ON DATABASE smp TO {self.role}"
        )
        server.require_password(self.role)
        self.server, self.schema = server, f"test_{secrets.token_hex(4)}"
        self.address = server.address(user=self.role, schema=self.schema)
        self.folder = server.address().partition("host=")[2]


@pytest.fixture(scope="module")
def account(postgres: Server) -> Account:
    return Account(postgres)


def test_password_of_a_variable_a_passfile_and_a_service_file_works(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotAllowed, match="passfile"):
        smp_memory.open(account.address)
    passfile, services = tmp_path / "pass", tmp_path / "services"
    passfile.write_text(f"*:*:*:{account.role}:{account.password}\n")
    passfile.chmod(0o600)
    services.write_text(
        f"[shop]\nhost={account.folder}\ndbname=smp\nuser={account.role}\npassword={account.password}\n"
    )
    ways = [
        ("PGPASSWORD", account.password, account.address),
        ("PGPASSFILE", str(passfile), account.address),
        ("", "", f"{account.address}&passfile={passfile}"),
        ("PGSERVICEFILE", str(services), f"postgresql://?service=shop&schema={account.schema}"),
    ]
    for name, value, address in ways:
        with monkeypatch.context() as patch:
            if name:
                patch.setenv(name, value)
            with smp_memory.open(address) as memory:
                assert memory.layout == "postgresql"
                assert account.password not in f"{memory!r} {memory.root}"


def test_wrong_password_is_refused_and_not_repeated(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong-" + PASSWORD)
    with pytest.raises(NotAllowed, match="refused the login") as raised:
        smp_memory.open(account.address)
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


def test_password_is_told_and_stored_nowhere(account: Account, tmp_path: Path) -> None:
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SMP_", "PG"))},
        "PYTHONPATH": str(Path(smp_memory.__file__).parents[1]), "HOME": str(tmp_path), "SMP_STATE_DIR": str(state), "SMP_ROOT": account.address,
        "PGPASSWORD": account.password, "SMP_LOG": "json", "SMP_LOG_LEVEL": "DEBUG", "SMP_OBSERVABILITY_SLOW_MS": "0",
    }  # fmt: skip
    told = []

    def run(*words: str, given: str = "", **changed: str) -> None:
        done = subprocess.run([sys.executable, "-m", "smp_memory", *words], env={**environment, **changed}, cwd=project, capture_output=True, input=given, text=True, check=False)  # fmt: skip
        told.extend((done.stdout, done.stderr))

    event = {"hook_event_name": "SessionStart", "session_id": "h1", "cwd": str(project), "source": "startup"}
    run("init", "--json")
    run("session", "new", "review")
    run("add", "decision", "Use tea", "--verbose")
    run("status", "--json")
    run("doctor", "--json")
    run("config", "--json")
    run("install", "claude-code", "--yes")
    run("hook", "--wait", given=json.dumps(event))
    run("delete", "review/DEC-0001", "--reason", "wrong")
    run("list", SMP_ROOT=account.address.replace("schema=", "schema=no"))
    run("list", PGPASSWORD=f"x{account.password}")
    assert "Use tea" in "".join(told)
    mcp = McpServer.__new__(McpServer)
    mcp.start([sys.executable, "-m", "smp_memory", "mcp"], environment)
    with mcp:
        mcp.greet()
        told.append(str(mcp.data("recall", query="tea")))
        told += [
            path.read_bytes().decode(errors="replace")
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if _is_readable(path)
        ]
        told.append(str(account.server.sql("SELECT * FROM pg_stat_activity")))
    told += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for table in ("meta", "session", "entry", "audit"):
        told.append(str(account.server.sql(f"SELECT * FROM {account.schema}.{table}")))
    assert account.password not in "".join(told)


def _is_readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False  # the process ended
    return True
