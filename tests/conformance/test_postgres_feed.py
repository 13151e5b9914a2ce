"""The feed of the index from PostgreSQL: nothing that was acknowledged is missing from an answer, whatever happened between two catch-ups."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SMPError, StorageError
from smp_memory.index.index import Index
from smp_memory.index.snapshot import ROWS_FILE
from smp_memory.observe import incomplete
from tests.contract.fixture import MINIMAL
from tests.postgres_server import Server
from tests.store_operations import OPERATIONS, SESSION

pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")

Open = Callable[..., smp_memory.Memory]


@pytest.fixture
def address(postgres: Server) -> str:
    return postgres.new_schema_address()


@pytest.fixture
def opened(address: str) -> Iterator[Open]:
    """Opens the store like another process: with connections and an index object of its own."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(smp_memory.open(address, **options))


def found(memory: smp_memory.Memory, text: str | None = None, **options: Any) -> set[str]:
    return {hit.record.ref for hit in memory.query(text, limit=10_000, **options)}


def stored(memory: smp_memory.Memory) -> set[str]:
    """The memories in the tables, deleted ones included, read without the index."""
    return {
        f"{head.session}/{id}"
        for head in memory.store.sessions()
        for id in memory.store.session(head.session).history().histories
    }


def contents(memory: smp_memory.Memory) -> dict[str, Any]:
    with memory.store.indexer.feed.mutex:
        index = memory.store.indexer.feed.caught_up(None)
        assert not index.is_in_memory
        return dict(index.snapshot())


def assert_equals_a_new_index(memory: smp_memory.Memory) -> None:
    before = contents(memory)
    assert before.keys() == stored(memory)
    memory.store.indexer.rebuild()
    assert contents(memory) == before


# -- transactions


def test_transaction_that_began_early_and_commits_late_is_not_missed(opened: Open) -> None:
    reader, early, late = opened(), opened(), opened()
    for name in ("a", "b", "c"):
        reader.create_session(name).add_decision(f"first of {name}")
    assert len(found(reader)) == 3
    with early.store.tables.transaction():
        early.session("a").add_decision("written early")
        for number in range(5):  # later transactions commit before it, and readers move on
            late.session("b").add_decision(f"written late {number}")
            assert len(found(reader)) == 4 + number
            assert not found(reader, "early")
    assert found(reader, "early") == {"a/DEC-0002"}
    assert found(reader) == stored(reader)


def test_interleaved_transactions_are_found_in_every_order_of_their_commits(opened: Open) -> None:
    reader = opened()
    for name in "abcd":
        reader.create_session(name)
    shuffled = random.Random(7)
    for turn in range(12):
        writers = {name: opened() for name in "abcd"}
        begun = {}
        for name in shuffled.sample("abcd", 4):
            begun[name] = writers[name].store.tables.transaction()
            begun[name].__enter__()
            writers[name].session(name).add_decision(f"turn {turn} of {name}")
        for name in shuffled.sample("abcd", 4):
            if shuffled.random() < 0.2:
                assert not begun[name].__exit__(RuntimeError, RuntimeError("rolled back"), None)
            else:
                begun[name].__exit__(None, None, None)
            assert found(reader) == stored(reader)
        for writer in writers.values():
            writer.close()
    assert_equals_a_new_index(reader)


def test_new_session_of_a_late_transaction_is_found(opened: Open) -> None:
    reader, early = opened(), opened()
    reader.create_session("a").add_decision("something")
    with early.store.tables.transaction():
        early.create_session("b").add_decision("of a new session")
        reader.session("a").add_decision("something else")
        assert found(reader) == {"a/DEC-0001", "a/DEC-0002"}
    assert found(reader) == {"a/DEC-0001", "a/DEC-0002", "b/DEC-0001"}


@pytest.mark.parametrize("what", ["update", "delete", "archive", "metadata"])
def test_late_change_of_an_old_memory_is_found(opened: Open, what: str) -> None:
    reader, early = opened(), opened()
    session = reader.create_session("a")
    session.add_decision("use the blue one")
    reader.create_session("b").add_decision("another one")
    assert len(found(reader)) == 2
    with early.store.tables.transaction():
        if what == "update":
            early.session("a").update("DEC-0001", decision="use the green one")
        elif what == "delete":
            early.session("a").delete("DEC-0001")
        elif what == "archive":
            early.archive_session("a")
        else:
            early.store.session("a").update_info(lambda info: setattr(info, "project", "shop"))
        reader.session("b").add_decision("more")
        assert found(reader, "blue") == {"a/DEC-0001"}
    assert found(reader, "blue") == ({"a/DEC-0001"} if what == "metadata" else set())
    assert found(reader, "green") == ({"a/DEC-0001"} if what == "update" else set())
    saved = reader.store.indexer.saved_metadata()
    assert {name: info.project for name, (_, info) in saved.items()} == {
        "b": None,
        **({} if what == "archive" else {"a": "shop" if what == "metadata" else None}),
    }
    heads = {head.session: head.version for head in reader.store.sessions()}
    assert {name: version for name, (version, _) in saved.items()} == heads


# -- crashes


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
def test_reader_that_dies_before_it_saves_its_position_reads_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    reader = opened()
    reader.create_session("a").add_decision("before")
    assert found(reader) == {"a/DEC-0001"}
    reader.session("a").add_decision("after")

    def die(*_: object, **__: object) -> None:
        raise kind

    with monkeypatch.context() as patched:
        patched.setattr(Index, "commit", die)
        with pytest.raises(kind):
            found(reader)
    assert found(opened(), "after") == {"a/DEC-0002"}
    assert found(reader, "after") == {"a/DEC-0002"}


def _index_and_die(address: str, sessions: int) -> None:
    memory = smp_memory.open(address)
    left = [sessions]

    def progress(*_: object) -> None:
        left[0] -= 1
        if not left[0]:
            os._exit(3)

    memory.store.indexer.rebuild(progress)


def test_first_catch_up_goes_on_where_a_killed_one_committed(
    address: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened()
    for number in range(60):
        writer.create_session(f"s{number:02}").add_decision(f"number {number}")
    monkeypatch.setattr("smp_memory.index.session_updates._CHUNK_MEMORIES", 5)
    child = multiprocessing.get_context("fork").Process(target=_index_and_die, args=(address, 40))
    child.start()
    child.join()
    assert child.exitcode == 3
    indexed: list[str] = []
    memory = opened()
    with memory.store.indexer.feed.mutex:
        memory.store.indexer.feed.caught_up(None, lambda name, _: indexed.append(name))
    assert 0 < len(indexed) <= 30
    assert found(memory) == stored(memory)


@pytest.mark.parametrize("damage", ["garbage", "missing"])
def test_damaged_index_is_rebuilt_from_the_server(opened: Open, damage: str) -> None:
    writer = opened()
    writer.create_session("a").add_decision("kept on the server")
    assert found(writer)
    folder = writer.store.indexer.folder
    writer.close()
    for path in Path(folder).rglob("*"):
        if path.is_file() and damage == "garbage":
            path.write_bytes(b"no index" * 2000)
    if damage == "missing":
        shutil.rmtree(folder)
    assert found(opened(), "server") == {"a/DEC-0001"}


# -- what happens to sessions


def fill(memory: smp_memory.Memory) -> None:
    """Make what the operations of `tests.store_operations` work on."""
    for name in ("old", "gone"):
        memory.create_session(name).add_decision("Use OAuth")
    memory.archive_session("old")
    memory.delete_session("gone")
    session = memory.create_session(SESSION)
    for type in MINIMAL:
        for _ in range(2):
            session.add(type, MINIMAL[type][0])
    session.update_agent_state("architect", {"step": 1})
    session.delete("DEC-0002")


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("convert", "close", "tidy")])
def test_index_follows_every_operation_of_another_process(opened: Open, name: str) -> None:
    reader, other = opened(), opened()
    fill(other)
    assert contents(reader).keys() == stored(reader)
    OPERATIONS[name](other, other.session(SESSION))
    assert contents(reader).keys() == stored(reader)
    assert_equals_a_new_index(reader)


def test_index_follows_many_operations_with_rare_catch_ups(opened: Open) -> None:
    reader, other = opened(), opened()
    fill(other)
    shuffled = random.Random(11)
    names = [name for name in OPERATIONS if name not in ("convert", "close", "tidy", "reindex", "query")]
    for turn in range(60):
        with contextlib.suppress(SMPError):  # some operations cannot follow each other
            if not other.store.sessions(id=SESSION):
                other.create_session(SESSION).add_decision(f"session of turn {turn}")
            OPERATIONS[shuffled.choice(names)](other, other.session(SESSION))
        if shuffled.random() < 0.3:
            assert contents(reader).keys() == stored(reader)
    assert_equals_a_new_index(reader)


def test_session_deleted_purged_and_made_again_replaces_the_old_one(opened: Open) -> None:
    reader, other = opened(), opened()
    other.create_session("a").add_decision("the old text")
    assert found(reader, "old") == {"a/DEC-0001"}
    other.delete_session("a")
    other.purge_session("a")
    other.create_session("a").add_decision("the fresh text")
    assert found(reader, "old") == set()
    assert found(reader, "fresh") == {"a/DEC-0001"}
    other.delete_session("a")
    other.purge_session("a")
    assert found(reader) == set()


def test_memory_erased_by_another_process_leaves_no_text_in_the_rows(
    address: str, opened: Open, tmp_path: Path
) -> None:
    """The reader's computer is another one: the erasing process does not clean its index."""
    text = "the secret plan of the purple elephant " * 200  # it fills pages of its own
    with smp_memory.open(address) as reader:
        session = reader.create_session("a")
        session.add_decision(text)
        for number in range(30):
            session.add_decision(f"something else {number}")
        assert found(reader, "elephant")
        (rows,) = Path(reader.store.indexer.folder).rglob(ROWS_FILE)
    assert b"plan of the purple elephant" in rows.read_bytes()
    base = rows.parent.parent
    shutil.copytree(base, tmp_path / "kept")
    opened().erase("a/DEC-0001")
    shutil.rmtree(base)
    shutil.copytree(tmp_path / "kept", base)
    with smp_memory.open(address) as reader:
        assert len(found(reader)) == 30
    assert b"plan of the purple elephant" not in rows.read_bytes()


def test_erasure_hides_no_memory_of_other_sessions(opened: Open) -> None:
    """Segments of the text engine with an erased memory are left behind; what else was in them is indexed again."""
    memory = opened()
    for name in ("a", "b"):
        memory.create_session(name).add_many([("decision", f"apples {number}") for number in range(900)])
    assert len(found(memory, "apples")) == 1800
    memory.erase("a/DEC-0001")
    assert found(memory, "apples") == stored(memory)
    assert_equals_a_new_index(memory)


def test_erasure_while_another_process_writes_the_index_leaves_no_text_in_it(opened: Open) -> None:
    memory = opened()
    session = memory.create_session("a")
    session.add_decision("the secret plan of the purple elephant")
    session.add_many([("decision", f"something else {number}") for number in range(1600)])
    assert found(memory, "elephant")
    (rows,) = Path(memory.store.indexer.folder).rglob(ROWS_FILE)
    with contextlib.closing(sqlite3.connect(rows, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        memory.erase("a/DEC-0001")
        files = [path for path in Path(memory.store.indexer.folder).rglob("*") if path.is_file()]
        assert not [path for path in files if b"elephant" in path.read_bytes()]
    assert_equals_a_new_index(memory)


def test_ids_that_two_clones_gave_out_stay_apart(opened: Open, tmp_path: Path) -> None:
    """A session with two memories of one id, as a merge of clones leaves it, is stored as it is."""
    with smp_memory.open(tmp_path / "files") as files:
        session = files.create_session("a")
        session.add_decision("of the first clone")
        first = files.store.session("a").history().histories["DEC-0001"].first
        info = session.info
    twin = first.copy()
    twin.data, twin.uid, twin.seq = {**first.data, "decision": "of the second clone"}, "0" * len(first.uid or "0"), 2
    reader, other = opened(), opened()
    other.store.create(info, [first, twin], 1 << 20)
    first_id, second_id = other.store.session("a").history().histories
    assert found(reader, "clone") == {f"a/{first_id}", f"a/{second_id}"}
    other.session("a").update(second_id, decision="of the second clone, changed")
    texts = {hit.record.id: hit.record.decision for hit in reader.query("clone")}
    assert texts == {first_id: "of the first clone", second_id: "of the second clone, changed"}


def test_unreadable_row_is_reported_and_hides_no_other(opened: Open, postgres: Server, address: str) -> None:
    reader = opened()
    session = reader.create_session("a")
    session.add_decision("stays readable")
    session.add_decision("will be damaged")
    schema = address.rpartition("schema=")[2]
    postgres.sql(f"UPDATE {schema}.entry SET line = left(line, 40) WHERE id = 'DEC-0002'")
    postgres.sql(
        f"UPDATE {schema}.session SET generation = generation + 1, changes = changes + 1, xid = pg_current_xact_id()"
    )
    incomplete.take_reported()
    hits = reader.query("damaged OR readable")
    assert {hit.record.ref for hit in hits} == {"a/DEC-0001"}
    assert [problem.code for problem in incomplete.take_reported()] == ["damaged"]
    assert hits.problems


# -- other servers with the same address


def test_server_that_was_restarted_is_compared_and_not_read_again(postgres: Server, opened: Open) -> None:
    reader = opened()
    for name in ("a", "b"):
        reader.create_session(name).add_decision(f"of {name}")
    assert len(found(reader)) == 2
    postgres.restart()
    reader.session("b").add_decision("after the restart")
    indexed: list[str] = []
    with reader.store.indexer.feed.mutex:
        reader.store.indexer.feed.caught_up(None, lambda name, _: indexed.append(name))
    assert indexed == ["b"]
    assert found(reader) == {"a/DEC-0001", "b/DEC-0001", "b/DEC-0002"}


def test_dump_that_was_restored_in_place_is_compared(postgres: Server, opened: Open, address: str) -> None:
    """The schema is dropped and made again with older rows, by the same server."""
    reader = opened()
    session = reader.create_session("a")
    session.add_decision("before the backup")
    schema = address.rpartition("schema=")[2]
    postgres.sql(
        f"CREATE TABLE public.{schema}_s AS TABLE {schema}.session; CREATE TABLE public.{schema}_e AS TABLE {schema}.entry"
    )
    session.add_decision("lost by the restoration")
    assert len(found(reader)) == 2
    postgres.sql(f"DROP SCHEMA {schema} CASCADE")
    with smp_memory.open(address):
        pass
    postgres.sql(
        f"INSERT INTO {schema}.session OVERRIDING SYSTEM VALUE TABLE public.{schema}_s; "
        f"INSERT INTO {schema}.entry TABLE public.{schema}_e; DROP TABLE public.{schema}_s, public.{schema}_e"
    )
    assert found(opened()) == {"a/DEC-0001"}


def test_promoted_replica_with_another_past_is_compared() -> None:
    """The last writes did not reach the replica, which then gives out the same numbers and transactions for others."""
    primary = Server.new()
    try:
        replica = primary.replica()
        with smp_memory.open(primary.address(schema="smp")) as memory:
            session = memory.create_session("a")
            session.add_decision("written on both")
            while replica.sql("SELECT count(*) FROM smp.entry") != [(1,)]:
                time.sleep(0.01)
        replica.stop()
        with smp_memory.open(primary.address(schema="smp")) as memory:
            memory.session("a").add_decision("written on one")
            assert found(memory) == {"a/DEC-0001", "a/DEC-0002"}
            folder = memory.store.indexer.folder
        primary.stop()
        replica.start()
        replica.promote()
        with smp_memory.open(replica.address(schema="smp")) as memory:
            memory.session("a").add_decision("written on two")
            memory.create_session("b").add_decision("more on two")
            other = memory.store.indexer.folder
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(folder, other)  # the index of the lost server, under the same address
        with smp_memory.open(replica.address(schema="smp")) as memory:
            texts = {hit.record.decision for hit in memory.query("written")}
            assert texts == {"written on both", "written on two"}
            assert_equals_a_new_index(memory)
    finally:
        primary.remove()


# -- several processes


def _ask_and_write(address: str, name: str, count: int, queue: Any) -> None:
    failures = []
    with smp_memory.open(address) as memory:
        session = memory.session(name)
        for number in range(count):
            ref = session.add_decision(f"{name} says {number}").ref
            if ref not in found(memory):  # its own acknowledged write
                failures.append(ref)
    queue.put(failures)


def test_processes_that_catch_up_at_once_miss_nothing(address: str, opened: Open) -> None:
    memory = opened()
    names = ("a", "b", "c")
    for name in names:
        memory.create_session(name)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=_ask_and_write, args=(address, name, 25, queue)) for name in names]
    for child in children:
        child.start()
    assert [queue.get(timeout=100) for _ in children] == [[], [], []]
    for child in children:
        child.join()
    assert len(found(memory)) == 75
    assert_equals_a_new_index(memory)


def test_threads_that_catch_up_at_once_miss_nothing(opened: Open) -> None:
    memory, other = opened(), opened()
    memory.create_session("a")

    def work(number: int) -> bool:
        by = (memory, other)[number % 2]
        return by.session("a").add_decision(f"number {number}").ref in found(by)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(40)))


def test_query_during_the_first_catch_up_answers_from_what_is_there_and_says_so(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    writer = opened()
    for number in range(60):
        writer.create_session(f"s{number:02}").add_decision(f"number {number}")
    incomplete.take_reported()
    hasty = opened(config={"search.catch_up_ms": 0})
    assert len(found(hasty)) < 60
    (problem,) = incomplete.take_reported()
    assert problem.code == incomplete.NOT_INDEXED
    assert "not searched yet" in incomplete.describe([problem])
    assert [record.getMessage() for record in caplog.records] == [problem.message]
    before = 0
    while len(found(hasty)) < 60:  # every query does a part of the work
        assert len(found(hasty)) > before
        before = len(found(hasty))
    incomplete.take_reported()
    assert len(found(hasty)) == 60
    assert not incomplete.take_reported()


def test_reindex_makes_the_whole_index_whatever_a_query_may_take(opened: Open) -> None:
    writer = opened(config={"search.catch_up_ms": 0})
    for number in range(60):
        writer.create_session(f"s{number:02}").add_decision(f"number {number}")
    incomplete.take_reported()
    assert writer.reindex() == 60
    assert not incomplete.take_reported()
    assert len(found(writer)) == 60


def test_query_while_another_process_writes_the_index_answers_from_what_is_there(opened: Open) -> None:
    reader = opened(config={"search.catch_up_ms": 50})
    session = reader.create_session("a")
    session.add_decision("indexed")
    assert found(reader) == {"a/DEC-0001"}
    (path,) = Path(reader.store.indexer.folder).rglob(ROWS_FILE)
    session.add_decision("not indexed")
    incomplete.take_reported()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert found(reader) == {"a/DEC-0001"}
        assert [problem.code for problem in incomplete.take_reported()] == [incomplete.NOT_INDEXED]
    assert found(reader) == {"a/DEC-0001", "a/DEC-0002"}


def test_slow_catch_up_is_logged_and_keeps_the_index(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    memory = opened()
    memory.create_session("a").add_decision("something")
    with caplog.at_level("DEBUG", "smp_memory"):
        assert contents(memory).keys() == {"a/DEC-0001"}
    assert any("index done" in record.getMessage() for record in caplog.records)


# -- rights


def test_session_that_row_level_security_hides_from_now_on_leaves_the_index(
    postgres: Server, opened: Open, address: str
) -> None:
    schema, role = address.rpartition("schema=")[2], f"r{secrets.token_hex(4)}"
    owner = opened()
    owner.create_session("shop", project="shop").add_decision("of the shop")
    owner.create_session("bank", project="bank").add_decision("of the bank")
    postgres.sql(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; "
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}; INSERT INTO {schema}.access (role, project) VALUES ('{role}', 'shop'), ('{role}', 'bank')"
    )
    with smp_memory.open(postgres.address(user=role, schema=schema), create=False) as reader:
        assert found(reader) == {"shop/DEC-0001", "bank/DEC-0001"}
        postgres.sql(f"DELETE FROM {schema}.access WHERE project = 'bank'")
        assert found(reader) == {"shop/DEC-0001"}
        owner.session("shop").change_info(project="bank")
        assert found(reader) == set()
        owner.session("bank").change_info(project="shop")
        assert found(reader) == {"bank/DEC-0001"}
    postgres.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


# -- cost, and a server that cannot be reached


def test_catch_up_is_one_round_trip_and_records_are_none(opened: Open) -> None:
    reader, writer = opened(), opened()
    writer.create_session("a").add_decision("first")
    found(reader)
    statements: list[object] = []
    run = reader.store.tables.run
    reader.store.tables.run = lambda work: (statements.append(work), run(work))[1]
    feed = reader.store.indexer.feed
    for change in (
        lambda: None,
        lambda: writer.session("a").add_decision("second"),
        lambda: writer.session("a").update("DEC-0001", decision="changed"),
        lambda: writer.create_session("b"),
        lambda: writer.session("b").add_decision("in a new session"),
        lambda: writer.archive_session("b"),
    ):
        change()
        statements.clear()
        with feed.mutex:
            index = feed.caught_up(None)
            rows = index.rows.places([doc for (doc,) in index.rows.all("SELECT doc FROM memory")])
            assert None not in feed.read(index, rows, {}).values()
        assert len(statements) == 1


def test_server_that_cannot_be_reached_is_an_error_and_leaves_the_index(postgres: Server, opened: Open) -> None:
    reader = opened()
    reader.create_session("a").add_decision("kept")
    assert found(reader) == {"a/DEC-0001"}
    folder = set(os.listdir(reader.store.indexer.folder))
    postgres.stop()
    try:
        with pytest.raises(StorageError, match="cannot be reached"):
            found(reader)
    finally:
        postgres.start()
    assert found(reader) == {"a/DEC-0001"}
    assert set(os.listdir(reader.store.indexer.folder)) == folder
