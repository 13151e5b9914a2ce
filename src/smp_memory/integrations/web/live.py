"""Changes of the store as server-sent events: what any process writes appears on open pages.

One thread asks the index several times a second whether a session has changed, as long as a browser listens: a few system calls, and
no lock that a writer waits for. An event holds the sessions that changed and the new memories as the pages show them in a line.

Guarantees: every acknowledged write of any process leads to an event within a second, unless the store cannot be read; then a `trouble`
event says so, and a `hello` when it can be read again. Non-guarantees: several writes may share an event; a page that reconnects reloads what it shows.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from smp_memory.errors import SMPError
from smp_memory.integrations.web.parts import line_of, visible
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.applications import Starlette
    from starlette.requests import Request

    from smp_memory.integrations.web.request import Inspector
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record

POLL_SECONDS = 0.35
BEAT_SECONDS = 15.0  # a comment now and then tells a closed connection from a quiet one
MOST_LISTENERS = 64
_MOST_NEW = 20  # memories of one event
_TEXT_CHARACTERS = 140


class StoreState:
    """What the index knows of each session: the number of its memories, the last one, and when it was last written."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._sessions = self._read()

    def _read(self) -> dict[str, tuple[Any, ...]]:
        activity = self._memory.store.indexer.activity()
        return {name: (each.memories, each.last_id, each.written) for name, each in activity.items()}

    def changes(self) -> dict[str, Any] | None:
        """What has changed since the last call; None if nothing has."""
        before, now = self._sessions, self._read()
        changed = [name for name in {*before, *now} if before.get(name) != now.get(name)]
        if not changed:
            return None
        self._sessions = now
        grown = {name: now[name][0] - before.get(name, (0,))[0] for name in changed if name in now}
        return {"sessions": sorted(changed), "new": self._new(grown)}

    def _new(self, grown: dict[str, int]) -> list[dict[str, str]]:
        records: list[Record] = []
        for name, count in grown.items():
            if count > 0:
                session = self._memory.opened_session(name)
                records += session.records(last=min(count, _MOST_NEW))
        records.sort(key=lambda record: record.created)
        return [
            {
                "ref": record.ref,
                "type": KINDS[record.type].noun,
                "author": visible(str(record.author or "")),
                "text": visible(line_of(record))[:_TEXT_CHARACTERS],
            }
            for record in records[-_MOST_NEW:]
        ]


class ChangeFeed:
    """Hands the changes of a store to all browsers that listen."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._listeners: set[asyncio.Queue[str]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_listeners = threading.Event()
        self._is_stopped = threading.Event()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._poll, name="smp-web-live", daemon=True)
        thread.start()
        yield
        self._is_stopped.set()
        self._has_listeners.set()
        for queue in self._listeners:
            queue.put_nowait("")
        await asyncio.to_thread(thread.join, 5)

    def _poll(self) -> None:
        state: StoreState | None = None
        has_trouble = False
        while not self._is_stopped.is_set():
            if not self._has_listeners.is_set():
                state = None
                self._has_listeners.wait()
                continue
            try:
                self._inspector.check_store()
                if state is None:
                    state = StoreState(self._inspector.memory)
                    if has_trouble:
                        self._send("hello", {})  # pages reload what they show: nobody knows what changed meanwhile
                    has_trouble = False
                changes = state.changes()
                if changes is not None:
                    self._send("change", changes)
            except Exception as error:  # whatever it is, pages must not seem to be live
                self._send("trouble", {"message": _trouble(error)})
                state, has_trouble = None, True
                self._is_stopped.wait(5 * POLL_SECONDS)
            self._is_stopped.wait(POLL_SECONDS)

    def _send(self, event: str, data: dict[str, Any]) -> None:
        text = f"event: {event}\ndata: {json.dumps(data)}\n\n"
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, text)

    def _put(self, text: str) -> None:
        for queue in self._listeners:
            if queue.qsize() < MOST_LISTENERS:  # a browser that does not read gets the next one
                queue.put_nowait(text)

    async def events(self, request: Request) -> StreamingResponse:
        """The endpoint: an event stream that stays open."""
        if len(self._listeners) >= MOST_LISTENERS:
            return StreamingResponse(
                iter(['event: trouble\ndata: {"message": "Too many open pages."}\n\n']), media_type="text/event-stream"
            )
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _stream(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.add(queue)
        self._has_listeners.set()
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while not self._is_stopped.is_set():
                try:
                    yield await asyncio.wait_for(queue.get(), BEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(queue)
            if not self._listeners and not self._is_stopped.is_set():
                self._has_listeners.clear()


def _trouble(error: Exception) -> str:
    return error.message if isinstance(error, SMPError) else f"Internal error: {type(error).__name__}."
