"""The reference MCP memory server, or one with the same tools, as a process that is spoken to over its standard input and output."""

from __future__ import annotations

import json
import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Server:
    """A process that speaks MCP, one call after the other."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, env={**os.environ, **environment})
        self._number = 0
        who = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("the server has ended")
            message = json.loads(line)
            if message.get("id") == self._number:
                break
        if "error" in message or message["result"].get("isError"):
            raise RuntimeError(str(message)[:300])
        result: dict[str, Any] = message["result"]
        return result

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        return self.ask("tools/call", name=tool, arguments=given)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Peer:
    def __init__(self, folder: str, command: list[str], prepare: list[str] | None = None) -> None:
        if prepare and not os.path.exists(os.path.join(folder, "store")):
            subprocess.run(_with(prepare, folder), check=True, stdout=subprocess.DEVNULL)
        environment = {"MEMORY_FILE_PATH": os.path.join(folder, "memory.jsonl")}
        self._server = Server(_with(command, folder), environment)

    def add(self, key: str, text: str) -> None:
        self.fill([(key, text)])

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        entities = [{"name": key, "entityType": "note", "observations": [text]} for key, text in pairs]
        self._server.call("create_entities", entities=entities)

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        return [(name, 0.0) for name in _names(self._server.call("search_nodes", query=text))[:limit]]

    def keys(self) -> list[str]:
        return _names(self._server.call("read_graph"))

    def delete(self, key: str) -> None:
        self._server.call("delete_entities", entityNames=[key])

    def close(self) -> None:
        self._server.close()


def _with(words: list[str], folder: str) -> list[str]:
    return [word.replace("{folder}", folder) for word in words]


def _names(answer: dict[str, Any]) -> list[str]:
    graph = answer.get("structuredContent") or json.loads(answer["content"][0]["text"])
    return [entity["name"] for entity in graph["entities"]]
