"""SMP for asyncio: the same names as `smp_memory`, to be awaited. Blocking work is done in a few threads, never in the event loop."""

from smp_memory.aio.pool import call as call

__all__ = ["call"]
