"""Overviews and all MCP answers say that entries of a session cannot be read."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import filled, opened
from tests.conformance.test_incomplete_answers import damaged

pytestmark = pytest.mark.parametrize("layout", NAMES)

OVERVIEWS = ("topics", "timeline", "agents", "summarize")


@pytest.mark.parametrize("who", ["session", "store", "agent"])
def test_overviews_have_problems(tmp_path: Path, layout: str, who: str) -> None:
    path, line = damaged(tmp_path, layout)
    session = opened(tmp_path)
    asked: Any = {"session": session, "store": session.memory, "agent": session.agent("architect")}[who]
    found = [getattr(asked, name)() for name in OVERVIEWS]
    if who != "store":
        found += [asked.as_of("2030-01-01T00:00:00Z"), asked.as_of("2030-01-01T00:00:00Z").records()]
    for made in found:
        assert [(each.path, each.line) for each in made.problems] == [(str(path), line)]


def test_overviews_of_an_undamaged_session_have_no_problems(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    assert [getattr(session, name)().problems for name in OVERVIEWS] == [[]] * len(OVERVIEWS)


@pytest.mark.parametrize("name", ["find_related", "deleted"])
def test_plain_lists_log_the_unreadable_entry(
    tmp_path: Path, layout: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, line = damaged(tmp_path, layout)
    session = opened(tmp_path)
    session.query("python")  # the index knows the session
    session = opened(tmp_path)
    with caplog.at_level(logging.WARNING, logger="smp_memory"):
        session.find_related("DEC-0001") if name == "find_related" else session.deleted()
    assert f"{path}:{line}" in caplog.text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("overview", {"what": "stats"}),
        ("overview", {"what": "summary"}),
        ("overview", {"what": "topics", "session": "*"}),
        ("sessions", {"action": "show", "id": "s1"}),
        ("get", {"ids": ["s1/DEC-0001"]}),
        ("forget", {"action": "list"}),
        ("forget", {"action": "list", "session": "s1"}),
    ],
)
def test_mcp_tools_have_problems(tmp_path: Path, layout: str, tool: str, arguments: dict[str, Any]) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    path, line = damaged(tmp_path, layout)
    with smp_memory.open(tmp_path) as memory:
        reply = TOOLS[tool].call(RequestContext(memory).caller("tester"), arguments)
    assert f"{path}:{line}" in reply.data["problems"][0]
    assert f"{path}:{line}" in reply.text
    assert "Postgres" not in reply.data["problems"][0]
    TOOLS[tool].answer_model.model_validate(reply.data)


def test_mcp_resource_of_a_session_names_the_line(tmp_path: Path, layout: str) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import read_uri

    path, line = damaged(tmp_path, layout)
    with smp_memory.open(tmp_path) as memory:
        assert f"{path}:{line}" in read_uri(RequestContext(memory).caller("tester"), "memory://session/s1")
