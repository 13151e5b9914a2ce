"""`smp mcp --http` as a process, and requests to it as bytes."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.e2e.mcp_process import VERSION, WAIT_SECONDS, command, environment

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
}


class WebServer:
    """The process; `port` and `token` as a client knows them."""

    def __init__(self, root: Path, *arguments: str, words: list[str] | None = None) -> None:
        started = words or command(root, "--http", *arguments)
        self.process = subprocess.Popen(
            started,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline()
        found = re.search(r":(\d+)/mcp — the bearer token is in (.*)", self.said)
        if found is None:
            self.said += self.process.stderr.read()
            self.stop()
            raise AssertionError(self.said)
        self.port, self.token_file = int(found[1]), Path(found[2])
        self.token = self.token_file.read_text().strip()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._log: list[str] = []
        self._reader = threading.Thread(target=self._log.extend, args=(iter(self.process.stderr.readline, ""),))
        self._reader.start()

    @property
    def log(self) -> str:
        return "".join(self._log)

    def post(self, message: Any = HELLO, *, token: str | None = "", **headers: str) -> tuple[int, str]:
        """The status and the body of a request; a token that is not named is the right one."""
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        try:
            connection.request("POST", "/mcp", message if isinstance(message, bytes) else json.dumps(message), sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(WAIT_SECONDS)
        if hasattr(self, "_reader"):
            self._reader.join(WAIT_SECONDS)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code

    def __enter__(self) -> WebServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
