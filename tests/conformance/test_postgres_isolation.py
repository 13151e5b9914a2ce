"""Isolation of sessions in PostgreSQL: the cases of Hermitage (Kleppmann), told in the API of SMP.

A transaction is one batch: it is stored whole, after it was resolved against the newest state, or not at all. A read of a session sees one state. A change
with `expected_revision` is refused if another process changed the memory. Two reads may see two states, and two transactions that
change different memories do not exclude each other (write skew); who needs that names the revision of each memory that it relied on.

Two stores stand for two processes. The first one writes through a proxy, which lets the second one act just before the statement or the COMMIT of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import Conflict
from smp_memory.session import SessionMemory
from tests.postgres_proxy import Proxy
from tests.postgres_server import Server

psycopg = pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")
APPEND, COMMIT = ".append(", "COMMIT\0"
Values = tuple[int, int]


class Processes:
    """Two processes with the same session, which holds X and Y, both 0."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        self.server, self.proxy = server, proxy
        address = server.new_schema_address()
        self.schema = address.rpartition("schema=")[2]
        self._stores = [smp_memory.open(proxy.endpoint.address(schema=self.schema)), smp_memory.open(address)]
        self._stores[1].create_session("s1")
        self.first, self.second = (store.session("s1") for store in self._stores)
        self.x = self.second.add_decision("x", impact=0).id
        self.y = self.second.add_decision("y", impact=0).id

    def values(self, session: SessionMemory) -> Values:
        found = {record.id: record.impact for record in session.records()}
        return found[self.x], found[self.y]

    def write(self, session: SessionMemory, value: int, **options: Any) -> None:
        """Both memories, in one transaction."""
        with session.transaction() as tx:
            tx.update(self.x, impact=value, **options)
            tx.update(self.y, impact=value, **options)

    def interleave(self, statement: str, work: Callable[[], object]) -> None:
        """Let the second process do something just before this statement of the first."""
        self.proxy.meanwhile(statement, work)

    def in_a_transaction(self) -> None:
        """The next write of the first process is overtaken, so it locks the row, writes, and commits by a statement of its own."""
        self.interleave(APPEND, lambda: self.second.add_decision("overtakes"))

    def both_agree(self) -> Values:
        found = self.values(self.first)
        assert self.values(self.second) == found
        for session in (self.first, self.second):
            assert session.validate().problems == []
        return found

    def history_of_x(self) -> list[int]:
        return [step["changes"]["impact"]["to"] for step in self.first.history(self.x)]

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self.proxy.close()


@pytest.fixture
def both(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    processes = Processes(postgres, Proxy(postgres, tmp_path_factory.mktemp("p")))
    yield processes
    processes.close()


def test_g0_transactions_are_not_mixed(both: Processes) -> None:
    both.interleave(APPEND, lambda: both.write(both.second, 2))
    both.write(both.first, 1)
    assert both.both_agree() == (1, 1)
    assert both.history_of_x() == [0, 2, 1]


def test_g1a_refused_transaction_is_never_seen(both: Processes) -> None:
    with pytest.raises(Conflict), both.first.transaction() as tx:
        tx.update(both.x, impact=7)
        tx.update(both.y, impact=7, expected_revision=9)
    with pytest.raises(ValueError, match="changed my mind"), both.first.transaction() as tx:
        tx.update(both.x, impact=8)
        raise ValueError("changed my mind")
    assert both.both_agree() == (0, 0)
    assert len(both.first.history(both.x)) == 1


def test_g1b_transaction_is_seen_whole_or_not_at_all(both: Processes) -> None:
    """Also between its statements and its COMMIT, and never a value that it replaced itself."""
    seen: list[Any] = []
    both.in_a_transaction()

    def look() -> None:
        seen.append((both.values(both.second), [hit.id for hit in both.second.query("added")]))

    def write() -> None:
        with both.first.transaction() as tx:
            tx.update(both.x, impact=1)
            tx.update(both.x, impact=2)
            tx.update(both.y, impact=2)
            tx.add_decision("added with it")

    overtake = both.proxy.meanwhile
    overtake(APPEND, lambda: (both.second.add_decision("overtakes"), overtake(COMMIT, look)))
    write()
    look()
    assert [values for values, _ in seen] == [(0, 0), (2, 2)]
    assert [len(hits) for _, hits in seen] == [0, 1]


def test_g1c_transactions_do_not_see_each_other_before_they_are_stored(both: Processes) -> None:
    with both.first.transaction() as mine, both.second.transaction() as theirs:
        mine.update(both.x, impact=1)
        theirs.update(both.y, impact=2)
        assert both.values(both.first) == both.values(both.second) == (0, 0)
    assert both.both_agree() == (1, 2)


def test_otv_observed_transaction_does_not_vanish(both: Processes) -> None:
    seen: list[Values] = []

    def second() -> None:
        both.write(both.second, 2)
        seen.append(both.values(both.second))
        both.proxy.meanwhile(COMMIT, lambda: seen.append(both.values(both.second)))

    both.interleave(APPEND, second)
    both.write(both.first, 1)
    seen.append(both.values(both.second))
    assert seen == [(2, 2), (2, 2), (1, 1)]


def test_pmp_write_is_checked_against_the_newest_state(both: Processes) -> None:
    """What another process stored after this one had read counts: its idempotency key is found."""
    both.interleave(APPEND, lambda: both.second.add_decision("z", idempotency_key="once"))
    record = both.first.add_decision("z again", idempotency_key="once")
    assert record.decision == "z"
    assert [each.decision for each in both.second.records()] == ["x", "y", "z"]


def test_p4_lost_update_is_refused(both: Processes) -> None:
    revision = both.first.get(both.x).revision
    both.interleave(APPEND, lambda: both.second.update(both.x, impact=2, expected_revision=revision))
    with pytest.raises(Conflict):
        both.first.update(both.x, impact=1, expected_revision=revision)
    assert both.both_agree() == (2, 0)


def test_p4_without_a_revision_the_last_writer_wins_and_history_has_both(both: Processes) -> None:
    both.interleave(APPEND, lambda: both.second.update(both.x, impact=2))
    both.first.update(both.x, impact=1)
    assert both.both_agree() == (1, 0)
    assert both.history_of_x() == [0, 2, 1]


def test_g_single_read_of_a_session_sees_one_state(both: Processes) -> None:
    """The first process knows the session already, and reads what is new."""
    both.values(both.first)
    for value in range(1, 6):
        both.interleave("follows", lambda value=value: both.write(both.second, value))  # type: ignore[misc]
        x, y = both.values(both.first)
        assert x == y == value


def test_g2_write_skew_is_possible_unless_revisions_are_named(both: Processes) -> None:
    both.interleave(APPEND, lambda: both.second.update(both.y, impact=1))
    both.first.update(both.x, impact=1)
    assert both.both_agree() == (1, 1)  # each had read that the other one is 0
    revisions = {id: both.first.get(id).revision for id in (both.x, both.y)}
    both.interleave(APPEND, lambda: both.second.update(both.y, impact=2))
    with pytest.raises(Conflict), both.first.transaction() as tx:
        tx.update(both.x, impact=2, expected_revision=revisions[both.x])
        tx.update(both.y, expected_revision=revisions[both.y], pinned=True)
    assert both.both_agree() == (1, 2)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_default_isolation_level_of_the_server_changes_nothing(both: Processes, level: str) -> None:
    """Writes failed with Conflict although nobody had changed the memory."""
    both.server.sql(f"ALTER DATABASE smp SET default_transaction_isolation = '{level}'")
    try:
        with smp_memory.open(both.server.address(schema=both.schema)) as memory, ThreadPoolExecutor() as pool:
            session = memory.session("s1")
            for number in range(3):
                session.add_decision("known")
                with psycopg.connect(both.server.address(), autocommit=True) as connection, connection.transaction():
                    connection.execute(f"UPDATE {both.schema}.session SET changes = changes + 1")
                    writing = pool.submit(session.add_decision, f"waits {number}", idempotency_key=str(number))
                    while not both.server.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                        pass
                writing.result()
    finally:
        both.server.sql("ALTER DATABASE smp RESET default_transaction_isolation")
    assert [record.decision for record in both.second.records()][2::2] == ["known"] * 3
    assert len(both.second.records()) == 8


def test_erased_row_that_an_older_transaction_sees_is_named_in_the_receipt(postgres: Server) -> None:
    address = postgres.new_schema_address()
    with smp_memory.open(address, config={"concurrency.lock_timeout_ms": 100}) as memory:
        session = memory.create_session("s1")
        for _ in range(2):
            session.add_decision("A secret")
        with psycopg.connect(address.partition("&schema=")[0]) as older:
            older.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            older.execute("SELECT 1")
            assert "an older transaction may still read them" in str(session.erase("DEC-0001").pending)
        assert not session.erase("DEC-0002").pending


def test_reason_of_an_erased_memory_leaves_no_dead_row_in_the_audit_log(postgres: Server) -> None:
    address = postgres.new_schema_address()
    schema = address.rpartition("schema=")[2]
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1")
        session.add_decision("A secret")
        session.delete("DEC-0001", "It tells of the purple elephant")
        session.erase("DEC-0001")
    postgres.sql("CHECKPOINT")
    path = f"current_setting('data_directory') || '/' || pg_relation_filepath('{schema}.audit')"
    assert b"elephant" not in postgres.sql(f"SELECT pg_read_binary_file({path})")[0][0]
