"""A store in PostgreSQL behind PgBouncer in transaction mode: the contract of every backend, and more clients than connections."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import smp_memory
from tests.contract import BackendContract
from tests.crash.processes import Worker, run_all
from tests.postgres_server import Endpoint, Server

CLIENTS = 64  # PgBouncer has four connections to the server


@pytest.fixture(scope="module")
def bouncer(postgres: Server) -> Endpoint:
    postgres.new_schema_address()  # starts a server that another test left stopped
    return postgres.pgbouncer()


@pytest.fixture
def address(postgres: Server, bouncer: Endpoint) -> str:
    return bouncer.address(schema=postgres.new_schema_address().rpartition("schema=")[2])


class TestStoreBehindPgBouncer(BackendContract):
    @pytest.fixture(autouse=True)
    def _place(self, address: str) -> None:
        self.where = address

    def open_store(self, **options: Any) -> smp_memory.Memory:
        return smp_memory.open(self.where, **options)


def test_64_clients_write_one_session_without_an_error(address: str) -> None:
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1")
        stores = [smp_memory.open(address) for _ in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:

            def write(number: int) -> None:
                for serial in range(3):
                    stores[number].session("s1").add_decision(
                        f"{number} {serial}", idempotency_key=f"{number} {serial}"
                    )

            list(pool.map(write, range(CLIENTS)))
        for store in stores:
            store.close()
        copies = Counter(record.decision for record in session.records())
        assert copies == Counter(f"{number} {serial}" for number in range(CLIENTS) for serial in range(3))
        assert session.validate().problems == []


def test_16_processes_write_one_session(address: str) -> None:
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1")
        run_all([Worker("keys", address, "s1", f"w{number}", 5) for number in range(16)])
        assert Counter(record.idempotency_key for record in session.records()) == Counter(
            f"key-{serial}" for serial in range(5)
        )
