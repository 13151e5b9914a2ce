"""Slow operations in the log, spans, OpenTelemetry's metrics, and that none of them holds content."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import smp_memory
from smp_memory.integrations.otel_metrics import OpenTelemetryMetrics
from smp_memory.integrations.store_metrics import OPENMETRICS, metrics_text
from smp_memory.memory import Memory
from smp_memory.observe import telemetry
from smp_memory.observe.json_logging import JsonFormatter
from smp_memory.observe.telemetry import observed

ALL = {"observability.slow_ms": 0}
MARK = "zebrafish"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Spans of an application that has configured OpenTelemetry."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Every log line of every logger, as JSON, down to DEBUG."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(JsonFormatter().format(record))

    handler, root = Handler(), logging.getLogger()
    levels = {logger: logger.level for logger in (root, logging.getLogger("smp_memory"))}
    root.addHandler(handler)
    for logger in levels:
        logger.setLevel(logging.DEBUG)
    yield found
    root.removeHandler(handler)
    for logger, level in levels.items():
        logger.setLevel(level)


def events(lines: list[str], name: str) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, lines) if each.get("event") == name]


# -- slow operations


def test_each_kind_of_slow_operation_is_logged_with_its_duration(tmp_path: Path, lines: list[str]) -> None:
    with smp_memory.open(tmp_path / "store", config=ALL) as memory:
        memory.create_session("s1").add_decision("one")
        memory.query("one")
        memory.context("agent", task="one")
        memory.maintain()
        memory.archive_session("s1")
    expected = {
        "slow_write": ("WARN", "smp_memory.write", {"operation": "add", "memories": 1, "type": "decision"}),
        "slow_query": ("WARN", "smp_memory.query", {"operation": "query", "hits": 1}),
        "slow_context": ("WARN", "smp_memory.context", {"operation": "context", "memories": 1}),
        "slow_index": ("WARN", "smp_memory.index", {"operation": "index", "memories": 1, "sessions": 1}),
        "slow_maintenance": ("INFO", "smp_memory.maintenance", {"operation": "maintain.quota"}),
        "slow_operation": ("INFO", "smp_memory.operation", {"operation": "archive_session"}),
    }
    for event, (level, component, figures) in expected.items():
        found = events(lines, event)[0]
        assert (found["level"], found["component"]) == (level, component)
        assert figures.items() <= found["metadata"].items(), event
        assert isinstance(found["metadata"]["duration_ms"], int)
    assert events(lines, "slow_write")[0]["session_id"] == "s1"


def test_fast_operations_are_not_logged(tmp_path: Path, lines: list[str]) -> None:
    with smp_memory.open(tmp_path / "store", config={"observability.slow_ms": 600_000}) as memory:
        memory.create_session("s1").add_decision("one")
        memory.query("one")
    logged = [each for each in map(json.loads, lines) if each["level"] != "DEBUG"]
    assert {each["event"] for each in logged} == {"session_created"}


def test_threshold_of_a_session_overrides_that_of_the_store(lines: list[str]) -> None:
    with smp_memory.open(":memory:", config=None) as memory:
        memory.create_session("quiet").add_decision("one")
        memory.create_session("watched", config=ALL).add_decision("two")
    assert [each["session_id"] for each in events(lines, "slow_write")] == ["watched"]


def test_slow_operations_are_counted_as_events(tmp_path: Path) -> None:
    telemetry.reset()
    with smp_memory.open(":memory:", config=ALL) as memory:
        memory.create_session("s1").add_decision("one")
    assert telemetry.EVENTS.values["write", "slow_write"] == 1


# -- spans


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def test_operations_have_spans_with_counts(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s1")
        session.add_decision("one")
        with session.transaction() as transaction:
            transaction.add_finding("a")
            transaction.add_finding("b")
        memory.query("one")
        memory.context("agent", task="one")
        memory.maintain()
        session.compact(dry_run=True)
        memory.erase("s1/DEC-0001")
        memory.archive_session("s1")
    found = by_name(spans)
    assert {"smp.add", "smp.transaction", "smp.query", "smp.context", "smp.maintain", "smp.compact", "smp.erase", "smp.archive_session", "smp.index"} <= set(found)  # fmt: skip
    assert found["smp.add"].attributes == {
        "smp.operation": "add",
        "smp.layout": "jsonl",
        "smp.memories": 1,
        "smp.type": "decision",
    }
    assert (found["smp.transaction"].attributes or {})["smp.memories"] == 2
    assert (found["smp.query"].attributes or {})["smp.hits"] == 1
    assert found["smp.maintain.quota"].parent is not None  # inside smp.maintain
    assert found["smp.maintain.quota"].parent.span_id == found["smp.maintain"].context.span_id  # type: ignore[union-attr]


def test_failed_operation_has_the_error_code_and_no_message(spans: InMemorySpanExporter) -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("s1")
        with pytest.raises(smp_memory.errors.MemoryNotFound):
            session.update(f"DEC-{MARK}", topic="x")
    span = by_name(spans)["smp.update"]
    assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, "E_MEMORY_NOT_FOUND")
    assert (span.attributes or {})["error.type"] == "E_MEMORY_NOT_FOUND"
    assert span.events == ()
    assert MARK not in span.to_json()


def test_spans_are_children_of_the_span_of_the_application(spans: InMemorySpanExporter) -> None:
    tracer = trace.get_tracer_provider().get_tracer("app")
    with smp_memory.open(":memory:") as memory, tracer.start_as_current_span("request"):
        memory.create_session("s1").add_decision("one")
    found = by_name(spans)
    assert found["smp.add"].parent is not None
    assert found["smp.add"].parent.span_id == found["request"].context.span_id  # type: ignore[union-attr]


def test_results_and_errors_are_the_same_with_spans(spans: InMemorySpanExporter) -> None:
    class Owner:
        config = smp_memory.open(":memory:").config

    @observed("double")
    def double(owner: Owner, number: int) -> int:
        if number < 0:
            raise ValueError("negative")
        return 2 * number

    assert double(Owner(), 21) == 42
    with pytest.raises(ValueError, match="negative"):
        double(Owner(), -1)
    assert [span.status.description for span in spans.get_finished_spans()] == [None, "E_OTHER"]


def test_opentelemetry_is_not_imported_by_smp(tmp_path: Path) -> None:
    code = (
        "import sys, smp_memory; m = smp_memory.open(sys.argv[1]); m.create_session('s1').add_decision('one');"
        "m.query('one'); m.context('a', task='one');"
        "print([name for name in sys.modules if name.partition('.')[0] in ('opentelemetry', 'prometheus_client', 'logging')])"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_imported_but_unconfigured_opentelemetry_makes_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("no span is made")

    monkeypatch.setattr("smp_memory.observe.telemetry._trace", fail)
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    with smp_memory.open(":memory:") as memory:
        memory.create_session("s1").add_decision("one")


# -- OpenTelemetry's metrics


def collected(reader: InMemoryMetricReader) -> dict[str, Any]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_opentelemetry_gets_the_names_of_the_design(tmp_path: Path) -> None:
    telemetry.reset()
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with smp_memory.open(tmp_path / "store") as memory:
        exporter = OpenTelemetryMetrics(memory, provider)
        memory.create_session("s1").add_decision("one")
        memory.query("one")
        found = collected(reader)
        exporter.close()
        memory.query("one")
    assert {"memory.sessions.active", "memory.entries.total", "memory.size.bytes", "memory.compaction.count"} <= set(found)  # fmt: skip
    assert found["memory.sessions.active"].data.data_points[0].value == 1
    write = found["memory.operations.write.duration_ms"]
    (point,) = write.data.data_points
    assert (write.unit, point.count, dict(point.attributes)) == ("ms", 1, {"operation": "add"})
    assert point.sum == pytest.approx(1000 * telemetry.WRITE_SECONDS.values["add",][-1])
    assert telemetry.QUERY_SECONDS.listeners == []
    provider.shutdown()


def test_opentelemetry_metrics_of_a_closed_store_are_left_out(tmp_path: Path) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    memory = smp_memory.open(tmp_path / "store")
    exporter = OpenTelemetryMetrics(memory, provider)
    memory.close()
    assert "memory.sessions.active" not in collected(reader)
    exporter.close()
    provider.shutdown()


# -- content


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
def test_no_log_metric_or_span_contains_content(
    tmp_path: Path, layout: str, lines: list[str], spans: InMemorySpanExporter
) -> None:
    """Every text that a caller can give contains the mark; session names and paths may be in logs, and have none."""
    telemetry.reset()
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    old = datetime(2026, 1, 1, tzinfo=UTC)
    with smp_memory.open(tmp_path / "store", layout=layout, config=ALL, clock=lambda: old + timedelta(days=200)) as memory:  # fmt: skip
        exporter = OpenTelemetryMetrics(memory, provider)
        _do_everything(memory, old, tmp_path)
        shown = [metrics_text(memory), metrics_text(memory, OPENMETRICS), *(map(repr, collected(reader).values()))]
        exporter.close()
    provider.shutdown()
    _damage(tmp_path / "store")
    with smp_memory.open(tmp_path / "store", config=ALL) as memory:
        memory.query(MARK)
        memory.validate()
        memory.doctor()
        memory.repair()
        shown.append(metrics_text(memory))
    assert len(lines) > 30
    assert len(spans.get_finished_spans()) > 30
    for text in (*lines, *shown, *(span.to_json() for span in spans.get_finished_spans())):
        assert MARK not in text, text[:2000]


def _do_everything(memory: Memory, old: datetime, folder: Path) -> None:
    session = memory.create_session("s1", user=MARK, agents=[MARK], project=MARK, tags=[MARK], purpose=MARK)
    session.add_decision(MARK, rationale=MARK, tags=[MARK], topic=MARK, author=MARK)
    session.add_finding(f"password={MARK}hunter2 {MARK}", severity=MARK, author=MARK)
    session.add_preference(MARK, MARK)
    session.add_artifact(MARK, MARK)
    session.update_agent_state(MARK, {MARK: MARK})
    session.add_many([("turn", {"role": "user", "content": f"{MARK} {n} " * 50, "created": old}) for n in range(100)])
    session.relate("DEC-0001", "FIND-0001", MARK)
    session.resolve("FIND-0001", MARK, by=MARK)
    session.delete("DEC-0001", MARK, by=MARK)
    session.restore("DEC-0001", MARK, by=MARK)
    for wrong in (
        lambda: session.update(MARK, topic=MARK),
        lambda: session.add(MARK, {MARK: MARK}),
        lambda: memory.query(MARK, types=MARK),
        lambda: memory.session(MARK),
        lambda: memory.import_(MARK),
        lambda: memory.archive_session(MARK, MARK),
    ):
        with pytest.raises(smp_memory.errors.SMPError):
            wrong()
    memory.query(MARK, tags=MARK, agents=MARK, where={"topic": MARK})
    memory.find_similar(MARK)
    memory.context(MARK, task=MARK, topic=MARK, tags=[MARK])
    memory.topics()
    session.compact("forced")
    memory.maintain()
    memory.export(folder / "export.json")
    memory.redact(reason=MARK)
    memory.archive_session("s1", MARK, by=MARK)
    memory.restore_session("s1", by=MARK)
    memory.delete_session("s1", MARK, by=MARK)
    memory.undelete_session("s1", f"token=ghp_{'a' * 36} {MARK}", by=MARK)
    memory.session("s1").erase("DEC-0001", MARK, by=MARK)
    memory.session("s1").add_decision(MARK)
    memory.reindex()


def _damage(root: Path) -> None:
    files = [each for each in root.rglob("*") if each.is_file() and each.suffix in (".jsonl", ".yaml", ".md")]
    for path in files:
        if MARK.encode() in path.read_bytes() and ".smp" not in path.parts:
            path.write_bytes(path.read_bytes() + f'\n{{"decision": "{MARK}\n'.encode())
