"""A server process, and a client that speaks the protocol line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

VERSION = "2025-11-25"
WAIT_SECONDS = 60


def environment(**more: str) -> dict[str, str]:
    """The environment of a server: none of the settings that a developer may have."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "SMP_STATE_DIR" or not name.startswith(("SMP_", "MEMORY_"))
    }
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **more}


def command(root: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "smp_memory", "mcp", "--root", str(root), *arguments]


class Failed(Exception):
    """The server answered with an error of the protocol."""


class Server:
    """`smp mcp` over its standard input and output."""

    hello: dict[str, Any]  # what it said when it was greeted

    def __init__(self, root: Path, *arguments: str, **more: str) -> None:
        self.start(command(root, *arguments), environment(**more))

    def start(self, words: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        self._number = 0
        self._log: list[bytes] = []
        assert self.process.stderr is not None
        self._reader = threading.Thread(target=self._log.extend, args=(iter(self.process.stderr.readline, b""),))
        self._reader.start()

    def greet(self, name: str = "tests") -> dict[str, Any]:
        client = {"name": name, "version": "1"}
        hello = self.ask("initialize", protocolVersion=VERSION, capabilities={}, clientInfo=client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return hello

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> int:
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def receive(self) -> dict[str, Any]:
        """The next message; whatever is not one fails the test."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = self.request(method, **params)
        message = self.receive()
        assert message["id"] == number
        if "error" in message:
            raise Failed(message["error"]["code"], message["error"]["message"])
        result: dict[str, Any] = message["result"]
        return result

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        """What a tool gives; an error is a result, too."""
        return self.ask("tools/call", name=tool, arguments=given)

    def data(self, tool: str, **given: Any) -> Any:
        result = self.call(tool, **given)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def error(self, tool: str, **given: Any) -> str:
        result = self.call(tool, **given)
        assert result["isError"] is True
        assert "structuredContent" not in result
        text: str = result["content"][0]["text"]
        return text

    @property
    def log(self) -> str:
        return b"".join(self._log).decode()

    def leave(self) -> int:
        """Close the input, as a client does that ends; the exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        rest = self.process.stdout.read()
        assert rest == b"", rest
        return self._ended()

    def kill(self) -> None:
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        return code

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        else:
            self._ended()
