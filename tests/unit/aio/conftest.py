"""Tests that are coroutines run in an event loop of their own, in asyncio's debug mode; `memory` is a store in RAM."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from smp_memory import aio


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**given), debug=True)
    return True


@pytest.fixture
def memory() -> Iterator[aio.AsyncMemory]:
    async def opened() -> aio.AsyncMemory:
        return await aio.open(":memory:")

    made = asyncio.run(opened())
    yield made
    asyncio.run(made.close())
