"""A store in memory, and a caller of the MCP tools."""

from __future__ import annotations

from typing import Any

import pytest

import smp_memory
from smp_memory.integrations.mcp.request_context import Caller, RequestContext


@pytest.fixture
def memory() -> Any:
    with smp_memory.open(":memory:") as memory:
        yield memory


@pytest.fixture
def caller(memory: Any) -> Caller:
    return RequestContext(memory).caller("tester")
