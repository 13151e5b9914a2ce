"""Processes of the crash tests, and their output, read as it is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("writer_process.py")
SOURCE = Path(__file__).parents[2] / "src"


def run_script(script: str, *arguments: str) -> str:
    """A program in a process of its own; what it printed. It must end well."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class Worker:
    """One process of writer_process.py. All it said is in `said`, also after it was killed."""

    def __init__(
        self,
        mode: str,
        root: str | os.PathLike[str],
        session: str,
        name: str,
        number: int = 0,
        within: Sequence[str] = (),  # the words of a command that starts it
    ) -> None:
        self.name = name
        self.said: list[dict[str, Any]] = []
        self._heard = threading.Condition()
        self.process = subprocess.Popen(
            [*within, sys.executable, str(WORKER), mode, str(root), session, name, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "error"},
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                with self._heard:
                    self.said.append(json.loads(line))
                    self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()

    def wait_for(self, word: str) -> dict[str, Any]:
        """The first thing said that has this word."""
        with self._heard:
            self._heard.wait_for(lambda: any(word in what for what in self.said) or not self._listener.is_alive(), 100)
            return next(what for what in self.said if word in what)

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """Tell it to stop, and wait for that."""
        self.tell_to_stop()
        return self.join()

    def tell_to_stop(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def join(self) -> int:
        """Wait until it ends by itself; its exit code."""
        code = self.process.wait(100)
        self._end()
        return code

    def _end(self) -> None:
        self.process.wait(100)
        self._listener.join(100)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()

    def heard(self, word: str) -> list[Any]:
        return [what[word] for what in self.said if word in what]


def run_all(workers: list[Worker]) -> None:
    """Wait for all; each must have ended well."""
    codes = {worker.name: worker.join() for worker in workers}
    failed = {name: code for name, code in codes.items() if code}
    errors = [what for worker in workers for what in worker.said if "error" in what]
    assert not failed, (failed, errors[:3])
