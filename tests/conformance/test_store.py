"""The store contract for every layout, on disk and in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from tests.contract import StoreContract


class _Quick(StoreContract):
    """No test of the contract needs a disk that syncs; those of tests/crash do."""

    where: Any
    layout: str

    def open_store(self, **options: Any) -> smp_memory.Memory:
        options.setdefault("config", {"durability": "os"})
        return smp_memory.open(self.where, **options)


class TestFiles(_Quick):
    @pytest.fixture(autouse=True, params=NAMES)
    def _place(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.where = tmp_path / "a b" / "store"
        smp_memory.open(self.where, layout=request.param).close()


class TestMemory(_Quick):
    """The same engine on a disk in RAM; what differs between the layouts is tested on a real disk, above."""

    @pytest.fixture(autouse=True, params=["jsonl", "markdown"])
    def _place(self, request: pytest.FixtureRequest) -> None:
        self.system = MemorySystem()
        self.where = ":memory:"
        self.open_store(layout=request.param).close()

    def open_store(self, **options: Any) -> smp_memory.Memory:
        return super().open_store(system=self.system, **options)
