from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.memory import Memory
from tests.unit.web.inspector_client import Clock, InspectorClient


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Iterator[Memory]:
    with smp_memory.open(tmp_path / "store", clock=clock) as opened:
        yield opened


@pytest.fixture
def client(memory: Memory) -> InspectorClient:
    return InspectorClient(memory)
