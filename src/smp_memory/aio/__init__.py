"""SMP for asyncio: the names of `smp_memory`, to be awaited. Blocking work is done in a few threads, never in that of the event loop.

async with aio.open("my-memories") as memory:
    session = await memory.create_session(user="ada")
    await session.add_decision("Use OAuth 2.0", author="architect")
"""

from smp_memory.aio.faces import (
    AsyncAgentMemory,
    AsyncAnalytics,
    AsyncGlobalMemory,
    AsyncMemory,
    AsyncParty,
    AsyncSessionMemory,
    AsyncTransaction,
    AsyncWatch,
    call,
)
from smp_memory.aio.faces import open_async as open

__all__ = [
    "AsyncAgentMemory",
    "AsyncAnalytics",
    "AsyncGlobalMemory",
    "AsyncMemory",
    "AsyncParty",
    "AsyncSessionMemory",
    "AsyncTransaction",
    "AsyncWatch",
    "call",
    "open",
]
