"""An answer says how many archived sessions were not searched for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemoryStat, MemorySystem
from smp_memory.memory import open_memory

PLACES = [*NAMES, ":memory:"]


def opened(place: str, tmp_path: Path) -> smp_memory.Memory:
    return smp_memory.open(":memory:") if place == ":memory:" else smp_memory.open(tmp_path / "store", layout=place)


def filled(memory: smp_memory.Memory) -> None:
    memory.create_session("old").add_decision("Use zebras for transport")
    memory.create_session("new").add_decision("Use OAuth 2.0")
    memory.archive_session("old")


@pytest.mark.parametrize("place", PLACES)
def test_query_counts_archived_sessions_that_were_not_searched(place: str, tmp_path: Path) -> None:
    memory = opened(place, tmp_path)
    assert memory.query("zebras").archived_not_searched == 0
    filled(memory)
    hits = memory.query("zebras")
    assert (len(hits), hits.archived_not_searched) == (0, 1)
    assert memory.query("oauth").archived_not_searched == 1
    assert memory.find_similar("zebras").archived_not_searched == 1
    assert memory.session("new").query("zebras").archived_not_searched == 0
    everywhere = memory.query("zebras", include_archived=True)
    assert (everywhere.ids, everywhere.archived_not_searched) == (["DEC-0001"], 0)
    memory.restore_session("old")
    hits = memory.query("zebras")
    assert (len(hits), hits.archived_not_searched) == (1, 0)


@pytest.mark.parametrize("place", PLACES)
def test_context_counts_archived_sessions_that_were_not_searched(place: str, tmp_path: Path) -> None:
    memory = opened(place, tmp_path)
    filled(memory)
    found = memory.context(task="transport with zebras")
    assert found.archived_not_searched == 1
    assert found.to_dict()["archived_not_searched"] == 1
    assert memory.session("new").agent("veritas").query("zebras").archived_not_searched == 0


def smp_command(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smp_memory", "--root", str(root), *words], capture_output=True, text=True, check=False
    )


def test_command_line_does_not_deny_words_of_an_archived_session(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "store") as memory:
        filled(memory)
    told = smp_command(tmp_path / "store", "query", "zebras").stdout
    assert "No memory matches these words" not in told
    assert "1 archived session was not searched" in told
    assert "--include-archived" in told
    data = json.loads(smp_command(tmp_path / "store", "query", "zebras", "--json").stdout)
    assert data["archived_not_searched"] == 1
    told = smp_command(tmp_path / "store", "query", "giraffes", "--include-archived").stdout
    assert "No memory matches these words" in told
    assert "1 archived session was not searched" in smp_command(tmp_path / "store", "context").stderr


def test_mcp_says_how_many_archived_sessions_were_not_searched() -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    with smp_memory.open(":memory:") as memory:
        filled(memory)
        caller = RequestContext(memory).caller("tester")
        for name, given in (("recall", {"query": "zebras"}), ("context", {"task": "zebras"})):
            assert TOOLS[name].call(caller, given).data["not_searched"] == 1
        assert "1 archived" in TOOLS["recall"].call(caller, {"query": "zebras"}).text


class WatchedSystem(MemorySystem):
    """Notes the paths that are looked at."""

    seen: tuple[str, ...] = ()

    def lstat(self, path: str, /) -> MemoryStat:
        self.seen += (path,)
        return super().lstat(path)


def test_query_looks_at_no_archive_to_count_the_archived_sessions() -> None:
    """Each archive was looked for in all places where it may be: eight times slower with 580 archived sessions."""
    system = WatchedSystem()
    with open_memory("/store", system=system) as memory:
        filled(memory)
        memory.query("zebras")
        system.seen = ()
        assert memory.query("zebras").archived_not_searched == 1
        assert system.seen
        assert [path for path in system.seen if path.endswith(".tar.gz")] == []
