"""Counters and histograms of a process, metrics of a store, and their text formats."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import stat
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

import smp_memory
from smp_memory.integrations.store_metrics import (
    CONTENT_TYPES,
    OPENMETRICS,
    STORE,
    MetricsApp,
    collect,
    metrics_dict,
    metrics_text,
    store_samples,
    write_text_file,
)
from smp_memory.memory import Memory
from smp_memory.observe import telemetry


@pytest.fixture(autouse=True)
def counts_start_at_zero() -> Iterator[None]:
    telemetry.reset()
    yield
    telemetry.reset()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with smp_memory.open(tmp_path / "store") as memory:
        yield memory


def value(memory: Memory, name: str, **labels: str) -> float:
    """The value of one sample, as Prometheus' own parser reads it."""
    found = [
        sample.value
        for family in parse_prometheus(metrics_text(memory))
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) == 1, (name, labels, found)
    return float(found[0])


def names(memory: Memory) -> set[str]:
    return {each.metric.name for each in store_samples(memory)}


# -- the process


def test_counts_of_many_threads_are_exact() -> None:
    def count() -> None:
        for _ in range(2000):
            telemetry.INDEX_REBUILDS.add()
            telemetry.SYNC_SECONDS.observe((), 0.003)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert telemetry.INDEX_REBUILDS.values == {(): 8000}
    assert telemetry.SYNC_SECONDS.samples()[-1] == ("_count", {}, 8000)


def test_histogram_buckets_are_cumulative_and_end_with_all() -> None:
    for seconds in (0.0005, 0.001, 0.3, 60.0):
        telemetry.QUERY_SECONDS.observe((), seconds)
        telemetry.CONTEXT_SECONDS.observe((), seconds)
    samples = telemetry.QUERY_SECONDS.samples()
    buckets = {labels["le"]: count for suffix, labels, count in samples if suffix == "_bucket"}
    assert (buckets["1.0"], buckets["250.0"], buckets["500.0"], buckets["10000.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    assert samples[-2] == ("_sum", {}, pytest.approx(60301.5))
    assert telemetry.CONTEXT_SECONDS.samples()[-2] == ("_sum", {}, pytest.approx(60.3015))
    assert samples[-1] == ("_count", {}, 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_child_starts_at_zero_even_if_a_thread_of_the_parent_was_counting() -> None:
    telemetry.INDEX_REBUILDS.add()
    entered, release = threading.Event(), threading.Event()

    def hold() -> None:
        with telemetry._mutex:
            entered.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork while threads run
        child = os.fork()
    if child == 0:
        telemetry.INDEX_REBUILDS.add()
        os._exit(0 if telemetry.INDEX_REBUILDS.values == {(): 1} else 1)
    release.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
    assert telemetry.INDEX_REBUILDS.values == {(): 1}


def test_operations_are_counted_by_kind(memory: Memory) -> None:
    session = memory.create_session("s1")
    session.add_decision("one")
    session.add_many([("finding", "a"), ("finding", "b")])
    with session.transaction() as transaction:
        transaction.add_finding("c")
    session.update("DEC-0001", topic="x")
    session.delete("FIND-0001")
    session.restore("FIND-0001")
    memory.query("one")
    memory.context("agent", task="one")
    memory.archive_session("s1")
    for operation in ("add", "batch", "transaction", "update", "delete", "restore"):
        assert value(memory, "memory_operations_write_duration_ms_count", operation=operation) >= 1, operation
    assert value(memory, "memory_operations_query_duration_ms_count") >= 1
    assert value(memory, "smp_context_duration_seconds_count") == 1
    assert value(memory, "smp_operation_duration_seconds_count", operation="archive_session") == 1
    assert value(memory, "smp_sync_duration_seconds_count") >= 6


def test_failed_operation_is_counted_by_error_code(memory: Memory) -> None:
    session = memory.create_session("s1")
    with pytest.raises(smp_memory.errors.MemoryNotFound):
        session.update("DEC-0009", topic="x")
    assert value(memory, "smp_operation_errors_total", operation="update", code="E_MEMORY_NOT_FOUND") == 1


def test_contended_lock_is_counted(tmp_path: Path) -> None:
    from smp_memory.files.disk import Disk
    from smp_memory.files.lock import SessionLock
    from smp_memory.files.system import RealSystem

    disk = Disk(RealSystem(str(tmp_path)))
    holder, waiter = (SessionLock(disk, str(tmp_path), "session s1", "s1") for _ in range(2))
    holder.acquire(5)
    with pytest.raises(smp_memory.errors.LockTimeout):
        waiter.acquire(0.01)
    assert telemetry.LOCK_CONTENTION.values == {("timeout",): 1}
    released = threading.Timer(0.05, holder.release)
    released.start()
    waiter.acquire(5)
    released.join()
    assert telemetry.LOCK_CONTENTION.values == {("timeout",): 1, ("acquired",): 1}
    assert sum(telemetry.LOCK_SECONDS.values["acquired",][:-1]) == 1
    holder.close()
    waiter.close()


def test_rebuilt_index_is_counted(memory: Memory) -> None:
    memory.create_session("s1").add_decision("one")
    memory.query("one")
    memory.reindex()
    assert value(memory, "smp_index_rebuilds_total") == 1


# -- the store


def test_gauges_describe_the_store(memory: Memory) -> None:
    session = memory.create_session("s1")
    session.add_decision("one")
    session.add_decision("two")
    session.add_finding("bad", severity="Critical")
    session.add_finding("worse", severity="critical")
    session.resolve("FIND-0002", "done")
    session.delete("DEC-0002")
    memory.create_session("old").add_decision("three")
    memory.archive_session("old")
    memory.create_session("gone").add_decision("four")
    memory.delete_session("gone")
    assert value(memory, "memory_sessions_active") == 1
    assert value(memory, "smp_sessions", state="archived") == 1
    assert value(memory, "smp_sessions", state="deleted") == 1
    assert value(memory, "memory_entries_total", type="decision") == 1
    assert value(memory, "memory_entries_total", type="finding") == 2
    assert value(memory, "smp_deleted_memories") == 1
    assert value(memory, "smp_open_findings", severity="critical") == 1
    assert value(memory, "memory_size_bytes", part="sessions") == session.stats().bytes
    assert value(memory, "memory_size_bytes", part="archived") > 0
    assert value(memory, "memory_size_bytes", part="trash") > 0
    assert value(memory, "smp_audit_actions_total", action="delete") == 1
    assert value(memory, "smp_quota_utilization_max_ratio") == pytest.approx(session.stats().utilisation, abs=1e-4)
    assert abs(value(memory, "smp_last_write_timestamp_seconds") - memory.now().timestamp()) < 600


def test_compactions_of_all_processes_are_counted_from_the_audit_log(memory: Memory) -> None:
    session = memory.create_session("s1")
    old = "2020-01-01T00:00:00Z"
    session.add_many([("turn", {"role": "user", "content": f"word {n} " * 50, "created": old}) for n in range(200)])
    assert session.compact("forced").removed
    telemetry.reset()  # as another process would see it
    assert value(memory, "memory_compaction_count_total") == 1
    assert value(memory, "memory_size_bytes", part="cold") > 0


def test_unreadable_entries_are_counted(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    memory.create_session("s1").add_decision("one")
    (path,) = [each for each in Path(memory.root).rglob("*.jsonl") if b"one" in each.read_bytes()]
    path.write_bytes(path.read_bytes() + b"damaged\n")
    assert value(memory, "smp_unreadable_entries") == 1
    with caplog.at_level(logging.ERROR):
        memory.session("s1").records()
    assert value(memory, "memory_errors_corruption_count_total", cause="entries_unreadable") == 1


def test_empty_store_has_metrics_and_no_times(memory: Memory) -> None:
    assert value(memory, "memory_sessions_active") == 0
    assert value(memory, "memory_entries_total", type="decision") == 0
    assert names(memory) >= {"smp_build_info", "memory_size_bytes", "smp_collector_success"}
    assert "smp_last_write_timestamp_seconds" not in names(memory)
    assert "smp_hook_last_call_timestamp_seconds" not in names(memory)


def test_hook_calls_and_failures_are_counted_by_known_hosts(memory: Memory) -> None:
    state = memory.store.state
    state.make()
    Path(state.path("hooks")).mkdir()
    state.write("hooks/a.json", b'{"client": "codex"}')
    state.write("hooks/b.json", b'{"client": "evil\\n} 1"}')
    state.write("hooks/c.json", b"[[[")
    state.write("hooks.log", b'{"client": "codex", "event": "Stop"}\nnot json\n')
    assert value(memory, "smp_hook_sessions", host="codex") == 1
    assert value(memory, "smp_hook_sessions", host="other") == 2
    assert value(memory, "smp_hook_failures", host="codex") == 1
    assert value(memory, "smp_hook_failures", host="other") == 1
    assert value(memory, "smp_hook_last_call_timestamp_seconds", host="codex") > 0


def test_words_of_a_store_do_not_become_labels(memory: Memory) -> None:
    session = memory.create_session("zebrafish")
    for number in range(20):
        session.add_finding("x", severity=f'zebrafish{number}"}} 1\n', tags=["zebrafish"], author="zebrafish")
    memory.store.audit.note("zebrafish", at=None, session="zebrafish")
    text = metrics_text(memory)
    assert "zebrafish" not in text
    assert value(memory, "smp_open_findings", severity="other") == 20
    assert value(memory, "smp_audit_actions_total", action="other") == 1


def test_part_that_fails_is_left_out_and_reported(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Any:
        raise OSError(5, "zebrafish")

    monkeypatch.setattr(memory.store.audit, "entries", fail)
    with caplog.at_level(logging.WARNING, "smp_memory"):
        assert value(memory, "smp_collector_success", collector="audit") == 0
    assert value(memory, "smp_collector_success", collector="memories") == 1
    assert "memory_compaction_count_total" not in names(memory)
    assert {getattr(each, "smp_event", None) for each in caplog.records} == {"collector_failed"}
    assert "zebrafish" not in caplog.text


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_metrics_of_every_layout_are_complete(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        memory.create_session("s1").add_decision("one")
        assert value(memory, "memory_entries_total", type="decision") == 1
        success = [each.samples for each in store_samples(memory) if each.metric.name == "smp_collector_success"]
        assert {sample[2] for sample in success[0]} == {1}


def test_metrics_of_another_backend_are_complete(tmp_path: Path) -> None:
    from smp_memory.store.opening import register_backend
    from tests.backends.naive_store import NAME, open_naive

    register_backend(NAME, open_naive)
    with smp_memory.open(f"{NAME}://{tmp_path / 'store.db'}") as memory:
        memory.create_session("s1").add_decision("one")
        assert value(memory, "memory_entries_total", type="decision") == 1
        assert value(memory, "memory_size_bytes", part="sessions") > 0
        success = [each.samples for each in store_samples(memory) if each.metric.name == "smp_collector_success"]
        assert {sample[2] for sample in success[0]} == {1}


def test_damaged_store_has_metrics(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        for name in ("a", "b", "c"):
            memory.create_session(name).add_decision(name)
        memory.archive_session("c")
    sessions = tmp_path / "store" / "sessions"
    (sessions / "a" / "manifest.json").write_bytes(b"\x00\xff")
    settings = json.loads((sessions / "b" / "manifest.json").read_text())
    (sessions / "b" / "manifest.json").write_text(json.dumps({**settings, "config": {"durability": "maybe"}}))
    for path in (tmp_path / "store" / "archive").iterdir():
        path.write_bytes(b"damaged")
    with smp_memory.open(tmp_path / "store") as memory:
        assert value(memory, "memory_entries_total", type="decision") == 2
        assert value(memory, "smp_sessions", state="archived") == 1
        success = [each.samples for each in store_samples(memory) if each.metric.name == "smp_collector_success"]
        assert {sample[2] for sample in success[0]} == {1}


def test_metrics_change_nothing_in_the_store(memory: Memory) -> None:
    memory.create_session("s1").add_decision("one")
    memory.query("one")

    def content() -> dict[Path, bytes]:
        return {each: each.read_bytes() for each in Path(memory.root).rglob("*") if each.is_file()}

    before = content()
    metrics_text(memory)
    assert content() == before


# -- text


def test_text_is_valid_in_both_formats(memory: Memory) -> None:
    session = memory.create_session("s1")
    session.add_decision("one")
    memory.query("one")
    plain = {each.name: each for each in parse_prometheus(metrics_text(memory))}
    open_ = {each.name: each for each in parse_openmetrics(metrics_text(memory, OPENMETRICS))}
    assert set(plain) == set(open_)
    assert plain["memory_operations_query_duration_ms"].type == "histogram"
    assert plain["memory_compaction_count"].type == "counter"
    assert all(family.documentation for family in plain.values())


def test_names_follow_the_rules_of_prometheus() -> None:
    for metric in (*STORE, *telemetry.PROCESS):
        assert metric.help.endswith("."), metric.name
        assert "le" not in metric.labels
        assert not {"session", "author", "user", "path", "id"} & set(metric.labels), metric.name
        if metric.name.startswith("memory_"):
            continue  # named and measured as design 004 says
        assert re.fullmatch(r"smp_[a-z]+(_[a-z]+)*", metric.name), metric.name
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|percent|gauge|counter)$", metric.name), metric.name
        if metric.kind == "histogram":
            assert metric.name.endswith("_seconds"), metric.name
    assert len({metric.name for metric in (*STORE, *telemetry.PROCESS)}) == len(STORE) + len(telemetry.PROCESS)


def test_every_metric_of_the_design_has_one_metric() -> None:
    named = [metric for metric in (*STORE, *telemetry.PROCESS) if metric.name.startswith("memory_")]
    assert sorted(metric.instrument for metric in named) == [
        "memory.compaction.count",
        "memory.entries.total",
        "memory.errors.corruption.count",
        "memory.locks.contention.count",
        "memory.operations.query.duration_ms",
        "memory.operations.write.duration_ms",
        "memory.sessions.active",
        "memory.size.bytes",
    ]
    assert {metric.name.removesuffix("_count_total") for metric in named} == {
        metric.instrument.replace(".", "_").removesuffix("_count") for metric in named
    }


def test_json_has_the_same_values(memory: Memory) -> None:
    memory.create_session("s1")
    found = metrics_dict(collect(memory))
    assert found["smp_sessions"]["type"] == "gauge"
    assert {"labels": {"state": "created"}, "value": 1} in found["smp_sessions"]["samples"]


# -- files and HTTP


def test_text_file_is_replaced_as_a_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "smp.prom"
    write_text_file(str(target), "# HELP smp_a x\n")
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    target.chmod(0o640)
    write_text_file(str(target), "# HELP smp_b x\n")
    assert target.read_text() == "# HELP smp_b x\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["smp.prom"]


@pytest.mark.parametrize("content", [b"# Notes\n", b"", b"\x00\xff"])
def test_file_without_metrics_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    target = tmp_path / "notes.md"
    target.write_bytes(content)
    with pytest.raises(smp_memory.errors.InvalidFormat, match="not replaced"):
        write_text_file(str(target), "# HELP smp_a x\n")
    assert target.read_bytes() == content


def test_text_file_in_a_missing_folder_or_in_place_of_one_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(smp_memory.errors.StorageError, match="writing metrics"):
        write_text_file(str(tmp_path / "missing" / "smp.prom"), "x")
    with pytest.raises(smp_memory.errors.SMPError):
        write_text_file(str(tmp_path), "x")
    with pytest.raises(smp_memory.errors.SMPError):
        write_text_file(os.devnull, "x")


def request(app: Any, method: str = "GET") -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the app reads no body")

    asyncio.run(app({"type": "http", "method": method, "path": "/metrics", "headers": []}, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_asgi_app_serves_the_text(memory: Memory) -> None:
    app = MetricsApp(memory)
    status, headers, body = request(app)
    assert (status, headers[b"content-type"].decode()) == (200, CONTENT_TYPES["prometheus"])
    assert int(headers[b"content-length"]) == len(body)
    assert {each.name for each in parse_prometheus(body.decode())} >= {"smp_build_info", "memory_entries_total"}
    assert request(app, "HEAD")[2] == b""
    assert request(app, "POST")[0] == 405


def test_asgi_app_answers_503_when_the_store_is_closed(memory: Memory) -> None:
    app = MetricsApp(memory)
    memory.close()
    status, _, body = request(app)
    assert (status, b"E_STORE_CLOSED" in body) == (503, True)


def test_missing_library_is_named_with_its_extra(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.exposition", None)
    with pytest.raises(smp_memory.errors.UserError, match=r"prometheus_client.*extra `metrics`"):
        metrics_text(memory)
    status, _, body = request(MetricsApp(memory))
    assert (status, b"extra `metrics`" in body) == (503, True)
    assert metrics_dict(collect(memory))["smp_sessions"]["type"] == "gauge"
