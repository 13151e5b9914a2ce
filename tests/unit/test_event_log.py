"""Log events: which are emitted, in which form, and that they hold no content."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.disk import Disk
from smp_memory.files.lock import SessionLock
from smp_memory.files.system import RealSystem
from smp_memory.observe import telemetry
from smp_memory.observe.json_logging import JsonFormatter

SECRET_WORD = "zebrafish"


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.smp_event for record in caplog.records if hasattr(record, "smp_event")]


@pytest.fixture(autouse=True)
def what_happened(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "smp_memory")


def test_session_lifecycle_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("s1").add_decision(SECRET_WORD)
        memory.archive_session("s1", "done")
        memory.restore_session("s1")
        memory.delete_session("s1")
        memory.undelete_session("s1")
        memory.delete_session("s1")
        memory.purge_session("s1")
    assert events(caplog) == [
        "session_created",
        "session_archived",
        "session_restored",
        "session_deleted",
        "session_undeleted",
        "session_deleted",
        "session_purged",
    ]
    assert {record.name for record in caplog.records} == {"smp_memory.session"}
    assert all(getattr(record, "smp_session") == "s1" for record in caplog.records)  # noqa: B009 - not in its type


def test_compaction_is_logged_with_figures(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = datetime(2026, 1, 1, tzinfo=UTC)
    with smp_memory.open(tmp_path / "store", clock=lambda: old + timedelta(days=200)) as memory:
        session = memory.create_session("s1")
        session.add_many(
            [("turn", {"role": "user", "content": f"{SECRET_WORD} {n} " * 50, "created": old}) for n in range(200)]
        )
        session.compact("forced")
        left = len(session.records())
    begun, record = [each for each in caplog.records if each.name == "smp_memory.compaction"]
    assert events(caplog)[-2:] == ["compaction_started", "session_compacted"]
    line = json.loads(JsonFormatter().format(record))
    assert begun.smp_figures == {"entries_before": 200}  # type: ignore[attr-defined]
    assert (line["metadata"]["entries_before"], line["metadata"]["entries_after"]) == (200, left)
    assert line["metadata"]["size_reduction_mb"] > 0
    assert line["metadata"]["duration_ms"] >= 0
    assert SECRET_WORD not in JsonFormatter().format(record)


def test_long_wait_for_a_lock_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(RealSystem(str(tmp_path)))
    holder, waiter = (SessionLock(disk, str(tmp_path), "session s1", "s1", slow_seconds=0.01) for _ in range(2))
    holder.acquire(5)
    released = threading.Timer(0.1, holder.release)
    released.start()
    waiter.acquire(5)
    released.join()
    assert "lock_wait" in events(caplog)
    holder.close()
    waiter.close()


def test_lock_timeout_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(RealSystem(str(tmp_path)))
    holder, waiter = (SessionLock(disk, str(tmp_path), "session s1", "s1") for _ in range(2))
    holder.acquire(5)
    with pytest.raises(smp_memory.errors.LockTimeout):
        waiter.acquire(0.01)
    assert events(caplog) == ["lock_timeout"]
    holder.close()
    waiter.close()


@pytest.mark.parametrize("layout", ["jsonl", "log"])
def test_torn_end_and_damage_are_logged_without_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, layout: str
) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        session = memory.create_session("s1")
        session.add_decision("first")
    (path,) = [each for each in (tmp_path / "store").rglob("*.jsonl") if b"first" in each.read_bytes()]
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"decision": "' + SECRET_WORD.encode())
    with smp_memory.open(tmp_path / "store") as memory:
        memory.session("s1").add_decision("second")
    assert "torn_end_set_aside" in events(caplog)
    path.write_bytes(path.read_bytes() + SECRET_WORD.encode() + b"\n")
    with smp_memory.open(tmp_path / "store") as memory:
        assert not memory.session("s1").validate().ok
    assert "damage_found" in events(caplog)
    assert SECRET_WORD not in "".join(JsonFormatter().format(record) for record in caplog.records)


def test_slow_query_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    with smp_memory.open(":memory:", config={"observability.slow_ms": 0}) as memory:
        memory.create_session("s1").add_decision(SECRET_WORD)
        memory.query(SECRET_WORD)
    (record,) = [each for each in caplog.records if getattr(each, "smp_event", "") == "slow_query"]
    assert SECRET_WORD not in JsonFormatter().format(record)
    assert record.smp_figures["hits"] == 1  # type: ignore[attr-defined]


# -- the form


def test_json_formatter_writes_one_line_of_json_for_any_record() -> None:
    try:
        raise ValueError(SECRET_WORD)
    except ValueError:
        information: Any = sys.exc_info()
    record = logging.LogRecord("other", logging.ERROR, "f", 1, 'a\n"b" \ud800 %s', ("x",), information)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    shown = json.loads(line)
    assert (shown["level"], shown["component"], shown["exception"]) == ("ERROR", "other", "ValueError")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown["timestamp"])
    assert SECRET_WORD not in line


def test_events_below_warning_do_not_load_logging(tmp_path: Path) -> None:
    code = (
        "import sys, smp_memory; s = smp_memory.open(sys.argv[1]).create_session('s1'); s.add_decision('x');"
        "print('logging' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_events_are_not_printed_where_no_handler_is_configured(tmp_path: Path) -> None:
    code = (
        "import sys, logging, smp_memory; m = smp_memory.open(sys.argv[1], config={'observability.slow_ms': 0});"
        "m.create_session('s1').add_decision('x'); print(len(m.query('x')))"
    )
    told = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], capture_output=True, text=True, check=True)
    assert (told.stdout.strip(), told.stderr) == ("1", "")


def test_verbose_prints_events_on_stderr_as_text_or_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "smp_memory", "--root", str(tmp_path / "store")]
    subprocess.run([*command, "init"], capture_output=True, check=True)
    told = subprocess.run([*command, "--verbose", "session", "new", "s1"], capture_output=True, text=True, check=True)
    assert "INFO smp_memory.session: Session s1 was created." in told.stderr
    told = subprocess.run(
        [*command, "session", "archive", "s1", "--verbose", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stderr.splitlines()[0])["event"] == "session_archived"
    json.loads(told.stdout)


def test_every_event_is_documented() -> None:
    source = Path(telemetry.__file__).parents[1]
    emitted: set[str] = set()
    for path in source.rglob("*.py"):
        emitted.update(re.findall(r'telemetry\.\w+,\s+"([a-z_]+)"', path.read_text(encoding="utf-8")))
    emitted.update(["session_archived", "session_restored", "session_deleted", "session_undeleted", "session_purged"])
    document = (source.parents[1] / "docs" / "reference" / "log-events.md").read_text(encoding="utf-8")
    assert len(emitted) >= 15
    assert [event for event in sorted(emitted) if f"`{event}`" not in document] == []


# -- each operation, for debugging


def debug_events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (getattr(each, "smp_event", ""), each.levelname) for each in caplog.records if each.levelno == logging.DEBUG
    ]


def test_each_operation_is_logged_at_level_debug_without_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "smp_memory")
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s1")
        session.add_decision(SECRET_WORD, rationale=SECRET_WORD, tags=[SECRET_WORD])
        session.query(SECRET_WORD)
        memory.context("architect", task=SECRET_WORD)
        memory.maintain(only=["quota"])
        memory.export()
    found = {event for event, _ in debug_events(caplog)}
    assert found == {"write_done", "query_done", "context_done", "index_done", "maintenance_done", "operation_done"}
    (written,) = [each for each in caplog.records if getattr(each, "smp_event", "") == "write_done"]
    line = json.loads(JsonFormatter().format(written))
    assert (line["level"], line["session_id"], line["metadata"]["operation"]) == ("DEBUG", "s1", "add")
    assert (line["metadata"]["memories"], line["metadata"]["type"]) == (1, "decision")
    assert not any(SECRET_WORD in JsonFormatter().format(each) for each in caplog.records)


def test_no_operation_is_logged_below_level_debug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "smp_memory")
    before = dict(telemetry.EVENTS.values)
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s1")
        session.add_decision("one")
        session.query("one")
    assert debug_events(caplog) == []
    counted = {event for (_, event), _ in telemetry.EVENTS.values.items() - before.items()}
    assert not any(event.endswith("_done") for event in counted)


def test_warnings_have_the_level_warn_in_json() -> None:
    record = logging.LogRecord("smp_memory.quota", logging.WARNING, "", 0, "near", (), None)
    assert json.loads(JsonFormatter().format(record))["level"] == "WARN"
