"""Latency of calls to a running `smp mcp`, beside a ping and the query itself.

    python benchmarks/mcp_server.py [--memories 100000] [--rounds 5] [--reference]

A client speaks to the server over its standard input and output, line by line, one call after the other. `recall` asks
the same questions as the query in this process, with records, their text and JSON. The ping is what the protocol, the pipes
and the two processes take. Then: how long the server takes to be there, and what is kept of 50 entities that one client
creates at once; with --reference also by the reference memory server, which npm installs by its name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from statistics import median

import reads
import sample_data
from queries import Texts
from timing import MILLISECONDS, Row, Target, alternate, each, progress, whole

import smp_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from run import Plan
    from timing import Sides

_MEMORIES, _SESSIONS = 100_000, 10
_REFERENCE = "@modelcontextprotocol/server-memory", "2026.8.31"
_AT_ONCE = 50


class Client:
    """A server as a process, and the one who talks to it."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)
        self._number = 0
        who = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=who)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, *messages: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        self._process.stdin.flush()

    def _message(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        return {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in message or message["result"].get("isError"):
            raise RuntimeError(str(message)[:500])
        result: dict[str, Any] = message["result"]
        return result

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._write(self._message(method, **params))
        return self._read()

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=given)

    def call_at_once(self, tool: str, given: list[dict[str, Any]]) -> None:
        """All calls are sent before the first answer is read."""
        self._write(*(self._message("tools/call", name=tool, arguments=arguments) for arguments in given))
        for _ in given:
            self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def _server(root: str, *options: str) -> list[str]:
    script = "import sys; from smp_memory.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", script, "mcp", "--root", root, *options]


def fill(root: str, memories: int) -> None:
    texts = Texts()
    with sample_data.open_store(root, "jsonl", "os") as memory:
        for number in range(_SESSIONS):
            session = memory.create_session(f"session-{number:04d}", user="ada")
            session.add_many([texts.memory() for _ in range(memories // _SESSIONS)])
        memory.query("caught up", track_access=False)


def _calls(children: reads.Children, root: str, rounds: int, count: int) -> Sides:
    questions = Texts().questions(count)
    client = Client(_server(root), children.environment)
    with smp_memory.open(root) as memory:
        sides = alternate(
            {
                "recall": lambda: each(lambda text: client.call("recall", query=text, session="*"), questions),
                "query": lambda: each(lambda text: memory.query(text, limit=10), questions),
                "ping": lambda: each(lambda _: client.ask("ping"), questions),
            },
            rounds,
        )
    client.close()
    return sides


def _starts(children: reads.Children, root: str, rounds: int) -> Sides:
    """Until the answer to the first message, and what loading the protocol's library takes of that."""

    def start() -> list[float]:
        clients: list[Client] = []
        seconds = whole(lambda: clients.append(Client(_server(root), children.environment)))
        clients[0].close()
        return seconds

    library = "import mcp.server.lowlevel, mcp.server.stdio"
    return alternate(
        {"start": start, "library": lambda: children.seconds(library), "python": lambda: children.seconds("pass")},
        rounds,
    )


def _kept(words: list[str], environment: dict[str, str]) -> int:
    """How many of the entities that one client creates at once are there afterwards."""
    client = Client(words, environment)
    given = [{"name": f"entity {number}", "entityType": "thing", "observations": ["x"]} for number in range(_AT_ONCE)]
    client.call_at_once("create_entities", [{"entities": [entity]} for entity in given])
    graph = client.call("read_graph")["structuredContent"]
    client.close()
    return len(graph["entities"])


def _reference(folder: str) -> list[str]:
    """The reference server, installed by its name."""
    package, version = _REFERENCE
    if shutil.which("npm") is None:
        raise RuntimeError("npm is not here")
    words = [
        "npm",
        "install",
        "--prefix",
        folder,
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        f"{package}@{version}",
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    return ["node", os.path.join(folder, "node_modules", package, "dist", "index.js")]


def calls(plan: Plan) -> Iterator[Row]:
    """A call of `recall` over MCP, beside a ping and the query itself; and the start of the server."""
    memories = 2000 if plan.quick else _MEMORIES
    root, children = plan.folder("mcp"), reads.Children(plan)
    progress(f"a store of {memories:,} memories")
    fill(root, memories)
    sides = _calls(children, root, plan.count(5, 2), plan.count(200, 20))
    case = f"{memories:,} memories"
    p95 = sides.at("recall", 0.95) * 1e3
    beside = {"ping p50 ms": sides.at("ping", 0.5) * 1e3, "ping p95 ms": sides.at("ping", 0.95) * 1e3}
    details = {**sides.details("recall", MILLISECONDS), **beside}
    yield Row(
        "MCP recall p95", case, "ms", p95, sides.at("query", 0.95) * 1e3, None, Target("value", at_most=10), details
    )
    yield Row("MCP recall p50", case, "ms", sides.at("recall", 0.5) * 1e3, sides.at("query", 0.5) * 1e3, sides.ratio("recall", "query"))  # fmt: skip
    begun = _starts(children, root, plan.count(7, 1))
    ratio = begun.ratio("start", "library")
    yield Row("MCP server is there", case, "ms", begun.at("start", 0.5) * 1e3, begun.at("library", 0.5) * 1e3, ratio)
    kept = _kept(_server(plan.folder("graph"), "--compat", "memory", "--create"), children.environment)
    yield Row(f"kept of {_AT_ONCE} entities at once", "smp mcp --compat memory", "", kept, target=Target("value", at_least=_AT_ONCE))  # fmt: skip


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=_MEMORIES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=200, help="in each round")
    parser.add_argument("--reference", action="store_true", help="also the reference memory server, by npm")
    chosen = parser.parse_args(words)
    from run import Plan

    with tempfile.TemporaryDirectory(prefix=".smp-mcp-", dir=".", ignore_cleanup_errors=True) as folder:
        plan = Plan(os.path.abspath(folder), False)
        root, children = plan.folder("mcp"), reads.Children(plan)
        progress(f"a store of {chosen.memories:,} memories")
        fill(root, chosen.memories)
        sides = _calls(children, root, chosen.rounds, chosen.questions)
        print(f"{'':10}{'p50 ms':>9}{'p95':>9}{'max':>9}   ({chosen.rounds} rounds of {chosen.questions})")
        for name in sides.rounds:
            found = sides.details(name, MILLISECONDS).values()
            print(f"{name:10}" + "".join(f"{number:9.2f}" for number in found))
        begun = _starts(children, root, chosen.rounds)
        print("".join(f"{name} {median(begun.all(name)) * 1e3:.0f} ms   " for name in begun.rounds))
        kept = _kept(_server(plan.folder("graph"), "--compat", "memory", "--create"), children.environment)
        print(f"smp keeps {kept} of {_AT_ONCE} entities that one client creates at once")
        if chosen.reference:
            theirs = _reference(plan.folder("npm"))
            path = {"MEMORY_FILE_PATH": os.path.join(os.path.abspath(folder), "theirs.jsonl")}
            kept = _kept(theirs, {**children.environment, **path})
            print(f"the reference memory server keeps {kept} of {_AT_ONCE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
