"""A program that uses everything of `smp_memory.aio` and prints what the thread of the event loop did that can block. Run by test_event_loop.py."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any

BLOCKING = ("open", "sqlite3.", "subprocess.", "time.sleep", "shutil.", "fcntl.", "import")
BLOCKING_OS = (
    "listdir",
    "scandir",
    "mkdir",
    "rename",
    "remove",
    "rmdir",
    "truncate",
    "link",
    "symlink",
    "chmod",
    "utime",
)
SYNCS = ("fsync", "fdatasync", "stat", "lstat", "write", "pwrite", "read")

found: set[str] = set()
is_watching = False


def note(event: str, *args: Any) -> None:
    if is_watching and threading.get_ident() == threading.main_thread().ident:
        frame: Any = sys._getframe(2)
        while frame is not None and "smp_memory" not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            found.add(f"{event} {args[:1]} in {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")


def audit(event: str, args: tuple[Any, ...]) -> None:
    if event.startswith(BLOCKING) or (event.startswith("os.") and event[3:] in BLOCKING_OS):
        note(event, *args)


def watched(name: str) -> Any:
    real = getattr(os, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        note(f"os.{name}", *args)
        return real(*args, **kwargs)

    return called


for name in SYNCS:
    if hasattr(os, name):
        setattr(os, name, watched(name))
sys.addaudithook(audit)

from smp_memory import aio, errors  # noqa: E402
from smp_memory.aio.faces import Face  # noqa: E402
from tests.unit.aio.test_faces import all_optional  # noqa: E402

NOT_CALLED = {"close", "watch", "convert", "transaction", "rollback", "commit", "distrust"}


def look_at(value: Any) -> None:
    """Use a value as programs do: as text, as a dictionary, each attribute."""
    for each in [*value] if isinstance(value, list | tuple) else [value]:
        str(each), repr(each)
        if not isinstance(each, Face):
            for name in dir(each):
                if not name.startswith("_"):
                    getattr(each, name)
            if hasattr(each, "to_dict"):
                each.to_dict()


async def call_everything(face: Any) -> None:
    """Call all methods that need no arguments, and look at what they return."""
    for name in all_optional(type(face)):
        if name not in NOT_CALLED:
            try:
                look_at(await getattr(face, name)())
            except errors.SMPError:
                pass


async def use(folder: str) -> None:
    async with aio.open(folder) as memory:
        session = await memory.create_session("review", user="ada", agents=["architect"])
        decision = await session.add_decision("Use OAuth 2.0", author="architect")
        async with session.watch() as hits, session.transaction() as tx:
            await tx.relate(await tx.add_finding("No MFA", severity="high"), decision)
        async for hit in hits:
            look_at(hit)
            break
        old = await memory.create_session("old")
        await old.add_learning("Caches help")
        await memory.archive_session("old")
        gone = await memory.create_session("gone")
        await gone.add_learning("Caches hurt")
        await memory.delete_session("gone")
        agent, party = await session.agent("architect"), await session.party(["architect", "veritas"])
        await party["veritas"].add_finding("No rate limit")
        for face in (session, agent, party, memory.global_memory, await memory.analytics(), memory):
            look_at(face)
            await call_everything(face)
        look_at(await memory.query("oauth", include_archived=True))
        look_at([record async for record in session])
        if sys.argv[2:]:  # so that a test knows that this is noticed
            await asyncio.sleep(0)
            memory.blocking.sessions()


is_watching = True
asyncio.run(use(sys.argv[1]))
is_watching = False
sys.stdout.writelines(f"{line}\n" for line in sorted(found))
