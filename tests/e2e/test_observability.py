"""`smp metrics`, `/metrics` of `smp mcp --http`, and the log of commands, as an operator uses them."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

import smp_memory

MARK = "zebrafish"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with smp_memory.open(root) as memory:
        memory.create_session("s1").add_decision(MARK)
    return root


def smp(root: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smp_memory", "--root", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environ})


def test_command_prints_metrics_of_the_store_and_none_of_its_own_process(root: Path) -> None:
    told = smp(root, "metrics")
    assert (told.returncode, told.stderr) == (0, "")
    names = {family.name for family in parse_prometheus(told.stdout)}
    assert {"memory_sessions_active", "memory_entries_total", "memory_size_bytes"} <= names
    assert "memory_operations_query_duration_ms" not in names
    assert MARK not in told.stdout
    assert list(parse_openmetrics(smp(root, "metrics", "--format", "openmetrics").stdout))
    assert json.loads(smp(root, "metrics", "--json").stdout)["memory_sessions_active"]["samples"][0]["value"] == 1


def test_command_writes_a_file_for_the_textfile_collector(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "smp.prom"
    for _ in range(2):
        told = smp(root, "metrics", "--output", str(target), "--json")
        assert json.loads(told.stdout)["bytes"] == target.stat().st_size
        assert list(parse_prometheus(target.read_text()))
    notes = tmp_path / "notes.md"
    notes.write_text("mine")
    told = smp(root, "metrics", "--output", str(notes))
    assert (told.returncode, "not replaced" in told.stderr, notes.read_text()) == (4, True, "mine")


def test_metrics_in_ascii_locale_and_closed_pipe_end_without_traceback(root: Path) -> None:
    told = smp(root, "metrics", PYTHONIOENCODING="ascii", LC_ALL="C", TERM="dumb")
    assert (told.returncode, told.stderr) == (0, "")
    assert list(parse_prometheus(told.stdout))
    command = f"{sys.executable} -m smp_memory --root {root} metrics | head -1"
    piped = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (piped.stdout.startswith("# HELP smp_"), piped.stderr) == (True, "")


def test_server_serves_metrics_behind_its_guard(root: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from tests.e2e.mcp_web import WebServer

    with WebServer(root) as server:

        def get(path: str = "/metrics", **headers: str) -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            try:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        token = {"Authorization": f"Bearer {server.token}"}
        assert get()[0] == 401
        assert get(Authorization="Bearer wrong")[0] == 401
        assert get(**token, Host="evil.example")[0] == 421
        assert get(**token, Origin="http://evil.example")[0] == 403
        status, text = get(**token)
        assert status == 200
        families = {family.name: family for family in parse_prometheus(text)}
        assert {"memory_entries_total", "smp_index_rebuilds"} <= set(families)  # of the store, and of the process
        assert MARK not in text
        assert get("/metrics/", **token)[0] == 404
        assert server.post()[0] == 200


@pytest.mark.parametrize(
    ("environ", "is_json"),
    [({"SMP_LOG": "json"}, True), ({"SMP_LOG": "text"}, False), ({"SMP_LOG_LEVEL": "info"}, False)],
)
def test_log_of_a_command_is_chosen_by_the_environment(root: Path, environ: dict[str, str], is_json: bool) -> None:
    told = smp(root, "session", "new", "s2", **environ)
    (line,) = told.stderr.splitlines()
    if is_json:
        assert json.loads(line)["event"] == "session_created"
    else:
        assert line == "INFO smp_memory.session: Session s2 was created."


def test_level_of_the_log_holds(root: Path) -> None:
    assert smp(root, "session", "new", "s2", SMP_LOG="json", SMP_LOG_LEVEL="WARNING").stderr == ""
    assert smp(root, "session", "new", "s3", SMP_LOG="", SMP_LOG_LEVEL="").stderr == ""
    told = smp(root, "query", MARK, SMP_LOG="json", SMP_OBSERVABILITY_SLOW_MS="0")
    assert "slow_query" in {json.loads(line)["event"] for line in told.stderr.splitlines()}
    assert MARK not in told.stderr


@pytest.mark.parametrize("environ", [{"SMP_LOG": "xml"}, {"SMP_LOG_LEVEL": "loud"}])
def test_wrong_value_is_an_error_that_names_the_variable(root: Path, environ: dict[str, str]) -> None:
    told = smp(root, "stats", **environ)
    assert (told.returncode, told.stdout) == (5, "")
    assert next(iter(environ)) in told.stderr
    assert "Traceback" not in told.stderr
