"""The command `smp`, called in this process, as tests of the command line see it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from smp_memory.cli.main import main


def settled(told: bytes) -> str:
    """What stays on a terminal: without the lines that a slow command shows for a moment."""
    return re.sub(r"\r[^\r\n]*?\x1b\[K", "", told.decode()).replace("\r\n", "\n")


class Terminal:
    """Calls `smp` in this process and reads what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main(list(words))
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    def ok(self, *words: str) -> str:
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self.ok("--json", *words))

    def fails(self, exit_code: int, *words: str) -> str:
        code, out, err = self(*words)
        assert (code, out) == (exit_code, "")
        return err
