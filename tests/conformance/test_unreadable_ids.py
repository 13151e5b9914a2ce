"""An id whose entry cannot be read is reported with the file and line, wherever it is asked for or changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.errors import MemoryNotFound
from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import filled, opened
from tests.conformance.test_incomplete_answers import damaged

pytestmark = pytest.mark.parametrize("layout", NAMES)

CALLS: dict[str, Callable[[Any], object]] = {
    "get": lambda session: session.get("DEC-0002"),
    "history": lambda session: session.history("DEC-0002"),
    "priority": lambda session: session.priority("DEC-0002"),
    "find_related": lambda session: session.find_related("DEC-0002"),
    "update": lambda session: session.update("DEC-0002", decision="Other"),
    "resolve": lambda session: session.resolve("DEC-0002", "done"),
    "relate": lambda session: session.relate("DEC-0001", "supports", "DEC-0002"),
    "delete": lambda session: session.delete("DEC-0002"),
    "as_of": lambda session: session.as_of("2030-01-01T00:00:00Z").get("DEC-0002"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("as_agent", [False, True])
def test_error_for_an_unreadable_id_names_file_and_line_without_its_words(
    tmp_path: Path, layout: str, name: str, as_agent: bool
) -> None:
    path, line = damaged(tmp_path, layout)
    session: Any = opened(tmp_path)
    caller = session.agent("architect") if as_agent else session
    if not hasattr(caller, name):
        pytest.skip("agents cannot call it")
    with pytest.raises(MemoryNotFound) as refused:
        CALLS[name](caller)
    assert f"{path}:{line}" in refused.value.message
    assert refused.value.details["unreadable"] == [f"{path}:{line}"]
    assert "Postgres" not in refused.value.message


def test_error_for_a_hidden_memory_is_the_same_as_for_a_missing_one(tmp_path: Path, layout: str) -> None:
    damaged(tmp_path, layout)
    session = opened(tmp_path)
    hidden = session.add_decision("Secret plan", author="ada", visibility="private")
    agent = session.agent("architect")
    for call in (agent.get, lambda id: agent.update(id, decision="Mine"), agent.delete):
        told = []
        for id in (hidden.id, "DEC-0099"):
            with pytest.raises(MemoryNotFound) as refused:
                call(id)
            told.append(refused.value.message.replace(id, "ID"))
        assert told[0] == told[1]


def test_deleted_memory_or_undamaged_session_is_not_reported_as_unreadable(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    with pytest.raises(MemoryNotFound) as refused:
        session.get("DEC-0099")
    assert refused.value.message == "DEC-0099 does not exist in session s1."
    path, _ = damaged(tmp_path / "other", layout)
    session = opened(tmp_path / "other")
    session.delete("DEC-0001")
    with pytest.raises(MemoryNotFound) as refused:
        session.update("DEC-0001", decision="Other")
    assert str(path) not in refused.value.message


@pytest.mark.parametrize("words", [["show"], ["resolve", "done"], ["delete"], ["erase", "--yes"], ["history"]])
def test_command_line_names_file_and_line_of_an_unreadable_id(
    tmp_path: Path, layout: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path, line = damaged(tmp_path, layout)
    assert main([words[0], "DEC-0002", *words[1:], "--root", str(tmp_path)]) == MemoryNotFound.exit_code
    assert f"{path}:{line}" in capsys.readouterr().err


def test_mcp_names_file_and_line_of_an_unreadable_id(tmp_path: Path, layout: str) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    path, line = damaged(tmp_path, layout)
    with smp_memory.open(tmp_path) as memory:
        caller = RequestContext(memory).caller("tester")
        for tool, arguments in (("get", {"ids": ["DEC-0002"]}), ("update", {"id": "DEC-0002", "action": "resolve"})):
            try:
                told = TOOLS[tool].call(caller, arguments).text
            except MemoryNotFound as error:
                told = error.message
            assert f"{path}:{line}" in told
